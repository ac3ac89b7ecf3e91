"""Constants of the original's compiler."""

from zellige.compile.tiled import BYTES_IN_STICK  # noqa: F401

DEVICE_NAME = "spyre"

# Names of functions of the card.
BATCH_MATMUL_OP = "batchmatmul"
BATCH_MATMUL_FP8_OP = "batchmatmulfp8"
IDENTITY_OP = "identity"
RESTICKIFY_OP = "ReStickifyOpHBM"
DL16TOFP32_OP = "dl16tofp32"
FP32TODL16_OP = "fp32todl16"
FP8TODL16_OP = "fp8todl16"
FP32TOINT32_OP = "fp32toint32"
INT32TOFP32_OP = "int32tofp32"

# The largest number of float8_e4m3fn.
FP8_E4M3_MAX = FP8_E4M3FN_MAX = 448.0
