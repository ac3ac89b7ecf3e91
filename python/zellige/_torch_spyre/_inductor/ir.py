"""Layouts of Inductor's buffers."""

from zellige.compile.tiled import FixedTiledLayout, SpyreTensorLayout  # noqa: F401
