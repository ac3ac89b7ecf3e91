"""The error of programs that the compiler refuses."""

from zellige import DeviceError


class Unsupported(DeviceError):
    """The program uses something that the backend does not support. It is a ``DeviceError``, because the compiler in Rust raises
    ``DeviceError`` for what it refuses, so that ``except DeviceError`` catches both."""

    def __init__(self, thing) -> None:
        super().__init__(f"Spyre backend does not support: {thing}")
