"""These tests are about the card's own narrow storage: float32 in 16 bits, int64 in 32."""

import stored

stored.want("card", ZELLIGE_FP32="downcast", ZELLIGE_INT64="downcast")
