"""What the compiler refuses."""

from zellige import DeviceError


class Unsupported(DeviceError):
    """Something that the backend does not support. What the compiler itself refuses is a ``DeviceError`` with such a
    message, so that ``except DeviceError`` catches both."""

    def __init__(self, thing) -> None:
        super().__init__(f"Spyre backend does not support: {thing}")
