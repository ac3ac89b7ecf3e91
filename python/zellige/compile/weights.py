"""Which tensors of a call are weights: programs write those once, in the layout that suits them.

A parameter that is divided over several cards (``DTensor``) is a wrapper around the part of this process, and a graph
gets the part alone, which is a plain tensor. So parts are remembered before their graph runs.
"""

from __future__ import annotations

import weakref

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass
from torch.utils.weak import WeakIdKeyDictionary

# The parameter that a part belongs to, by the part: an attribute would be written into checkpoints.
_PARAMETERS: WeakIdKeyDictionary = WeakIdKeyDictionary()


def is_weight(tensor: torch.Tensor) -> bool:
    """Whether it is a parameter, or the part of one that this process has."""
    return isinstance(tensor, torch.nn.Parameter) or (len(_PARAMETERS) > 0 and tensor in _PARAMETERS)


def with_known_parts(run, example_inputs):
    """A function of the same arguments that remembers the parts of parameters among them; itself where there are none."""
    wrapped = [i for i, e in enumerate(example_inputs) if is_traceable_wrapper_subclass(e)]
    if not wrapped:
        return run

    def known(*args):
        for i in wrapped:
            if isinstance(args[i], torch.nn.Parameter):
                _remember(args[i], weakref.ref(args[i]))
        return run(*args)

    return known


def _remember(tensor, parameter) -> None:
    names, _ = tensor.__tensor_flatten__()
    for name in names:
        inner = getattr(tensor, name)
        if is_traceable_wrapper_subclass(inner):
            _remember(inner, parameter)
        else:
            _PARAMETERS[inner] = parameter
