"""Moves as operators of PyTorch, which ``torch.compile`` keeps in its graphs.

Eager calls do not come here: they go to the engine directly. An operator takes tensors, numbers and texts alone, so
a layout object becomes a text that names it.
"""

from __future__ import annotations

import torch

from . import _native

_library = torch.library.Library("zellige", "DEF")
_library.define("relayout(Tensor x, str? src, str? dst, str? fill) -> Tensor", tags=(torch.Tag.needs_fixed_stride_order,))
_library.define("relayout_out(Tensor x, str? src, str? dst, Tensor(a!) out, str? fill) -> ()", tags=(torch.Tag.needs_fixed_stride_order,))

# Layouts that a graph names, by the name that it has in graphs. They stay: a graph may run at any later time.
_named: dict[str, object] = {}
_OPENING = "zellige layout "


def _side(text):
    return _named[text] if text is not None and text.startswith(_OPENING) else text


def _move(x, src, dst, fill):
    return _native.relayout(x.detach(), _side(src), _side(dst), fill=fill)


def _move_into(x, src, dst, out, fill):
    _native.relayout(x.detach(), _side(src), _side(dst), out.detach(), fill=fill)


_library.impl("relayout", _move, "CompositeExplicitAutograd")
_library.impl("relayout_out", _move_into, "CompositeExplicitAutograd")


@torch.library.register_fake("zellige::relayout", lib=_library)
def _shape(x, src, dst, fill):
    if src is None and dst is None:
        return x.new_empty(x.shape)
    return x.new_empty(_native.relayout_shape([int(n) for n in x.shape], _side(src), _side(dst)))


@torch.library.register_fake("zellige::relayout_out", lib=_library)
def _nothing(x, src, dst, out, fill):
    return None


@torch.compiler.assume_constant_result
def _name(layout) -> str:
    """The text that stands for a layout in graphs: the same for the same object."""
    name = f"{_OPENING}{id(layout)} {layout!r}"
    _named[name] = layout
    return name


def _text(value):
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, (int, float)):
        return str(value)
    return _name(value)


def relayout(array, src, dst, out, fill):
    """The move as a node of the graph that is being compiled."""
    if out is None:
        return torch.ops.zellige.relayout(array, _text(src), _text(dst), _text(fill))
    torch.ops.zellige.relayout_out(array, _text(src), _text(dst), out, _text(fill))
    return out
