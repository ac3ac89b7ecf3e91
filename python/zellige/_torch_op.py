"""Moves as operators of PyTorch, which ``torch.compile`` keeps in its graphs.

Eager calls do not come here: they go to the engine directly. An operator takes tensors, numbers and texts alone, so
a layout object becomes a text that says all of it.
"""

from __future__ import annotations

import torch

from . import _native

_library = torch.library.Library("zellige", "DEF")
_TAGS = (torch.Tag.needs_fixed_stride_order,)
_library.define("relayout(Tensor x, str? src, str? dst, Scalar? fill, str? fill_word) -> Tensor", tags=_TAGS)
_library.define("relayout_out(Tensor x, str? src, str? dst, Tensor(a!) out, Scalar? fill, str? fill_word) -> ()", tags=_TAGS)


def _move(x, src, dst, fill, fill_word):
    return _native.relayout(x.detach(), src, dst, fill=fill_word if fill is None else fill)


def _move_into(x, src, dst, out, fill, fill_word):
    _native.relayout(x.detach(), src, dst, out.detach(), fill=fill_word if fill is None else fill)


_library.impl("relayout", _move, "CompositeExplicitAutograd")
_library.impl("relayout_out", _move_into, "CompositeExplicitAutograd")


@torch.library.register_fake("zellige::relayout", lib=_library)
def _shape(x, src, dst, fill, fill_word):
    if src is None and dst is None:
        return x.new_empty(x.shape)
    return x.new_empty(_native.relayout_shape([int(n) for n in x.shape], src, dst))


@torch.library.register_fake("zellige::relayout_out", lib=_library)
def _nothing(x, src, dst, out, fill, fill_word):
    return None


def _text(layout):
    """A layout as a text. PyTorch compiles anew for another one: it reads the attribute before every call."""
    return layout if layout is None or isinstance(layout, str) else layout._whole


def relayout(array, src, dst, out, fill):
    """The move as a node of the graph that is being compiled."""
    word = fill if isinstance(fill, str) else None
    number = None if isinstance(fill, str) else fill
    if out is None:
        return torch.ops.zellige.relayout(array, _text(src), _text(dst), number, word)
    torch.ops.zellige.relayout_out(array, _text(src), _text(dst), out, number, word)
    return out
