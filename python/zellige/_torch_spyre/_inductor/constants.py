"""Constants of the original's compiler."""

from zellige.compile.tiled import BYTES_IN_STICK  # noqa: F401

DEVICE_NAME = "spyre"

# Names of operations of the card.
IDENTITY_OP = "identity"
DL16TOFP32_OP = "dl16tofp32"
FP32TODL16_OP = "fp32todl16"
FP8TODL16_OP = "fp8todl16"
