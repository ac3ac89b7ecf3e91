"""These tests compare with PyTorch bit for bit where they can: the card must keep float32 as it is. The
variable is read when PyTorch is imported, so they run in a process of their own:
`pytest python/tests/conformance`."""

import os
import sys

if "torch" in sys.modules and os.environ.get("ZELLIGE_FP32") != "keep":
    collect_ignore_glob = ["*"]
else:
    os.environ["ZELLIGE_FP32"] = "keep"
