"""Names of the original's fallbacks."""

from zellige.spyre import FallbackWarning  # noqa: F401
