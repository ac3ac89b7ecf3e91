"""Constants of the original's compiler."""

from zellige.compile.tiled import BYTES_IN_STICK  # noqa: F401

DEVICE_NAME = "spyre"
