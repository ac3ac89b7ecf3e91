"""These tests compare with PyTorch on the CPU, with the device as it is by default: float32 and int64 are kept."""

import stored

stored.want("exact")
