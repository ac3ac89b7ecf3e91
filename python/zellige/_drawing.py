"""Drawings of layouts, for terminals and notebooks."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from . import _native


class Drawing:
    """A layout, drawn: prints as text, shows as a picture in a notebook."""

    def __init__(self, text: str, svg: str):
        self.text = text
        self.svg = svg

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the SVG to a file."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.svg)


def draw(
    layout: Any,
    shape: Sequence[int] | None = None,
    dtype: Any = None,
    *,
    title: str = "",
    width: int = 100,
    color: bool = False,
    max_cells: int = 4096,
) -> Drawing:
    """Draws a layout: the logical tensor beside the places its elements live in.

    ``layout`` is a :class:`Layout`, a :class:`SpyreTensorLayout` or a text; ``shape`` the shape of
    the coordinates where the layout does not say it. Past ``max_cells`` the drawing is clipped, and
    says by how much.
    """
    shape = None if shape is None else list(shape)
    return Drawing(*_native.draw(layout, shape, dtype, title, width, color, max_cells))
