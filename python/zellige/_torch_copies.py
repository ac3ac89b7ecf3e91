"""``zellige.torch_copies``: PyTorch's own copies of permuted CPU tensors, by the engine of moves.

The methods of ``torch.Tensor`` and the functions of ``torch`` are replaced by functions that look at the size first, and
call what they replaced for everything that is not a large, plain move: small tensors, other devices, conversions,
tensors whose gradient is recorded, subclasses, and calls under any mode or transform of PyTorch. The order of the
questions is that of their price, so that a call which is left alone is left alone soon.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

from . import _native

# Elements from which on a call is looked at. Planning is kept from call to call, and a call costs a microsecond or two
# more than PyTorch's own; its copy of so many permuted elements takes some ten (November 2026).
MIN_ELEMENTS = 1 << 14

_lock = threading.Lock()
_users = 0
_counts: dict[str, list[int]] = {}
# The functions that replace others: made once, and kept, because PyTorch's compilers know them by their addresses.
_new: list[tuple[Any, str, Any]] = []
# What was replaced: the object that has the name, the name, and the former value or none where it was inherited.
_replaced: list[tuple[Any, str, Any]] = []


class TorchCopies:
    """PyTorch's copies by the engine while this is on; see :func:`torch_copies`."""

    def __init__(self) -> None:
        self._on = False

    def on(self) -> TorchCopies:
        """Has PyTorch's copies use the engine, until :meth:`off`."""
        global _users
        with _lock:
            if not self._on:
                if _users == 0:
                    _replace_functions()
                _users += 1
                self._on = True
        return self

    def off(self) -> None:
        """Leaves PyTorch as it was, once nobody else has switched it on."""
        global _users
        with _lock:
            if self._on:
                self._on = False
                _users -= 1
                if _users == 0:
                    _restore_functions()

    __enter__ = on

    def __exit__(self, *_: object) -> None:
        self.off()

    @property
    def counts(self) -> dict[str, dict[str, int]]:
        """Calls that the engine has done in this process, and the bytes that they wrote, by function."""
        return {name: {"calls": calls, "bytes": size} for name, (calls, size) in _counts.items()}


def torch_copies() -> TorchCopies:
    """PyTorch's own copies of large permuted CPU tensors by the engine of moves.

    A context manager, and a switch with ``on()`` and ``off()``::

        with zellige.torch_copies() as copies:
            y = x.permute(0, 2, 1, 3).contiguous()
        print(copies.counts)

    ``contiguous``, ``clone`` (to a contiguous tensor), ``copy_``, ``reshape`` and ``torch.cat`` give the same bits as
    without it. PyTorch does them itself where the tensors are small or contiguous, where a gradient is recorded, on
    other devices, between dtypes, for subclasses, and under modes, transforms and ``torch.compile``. The switch is one
    of the process; it is off until it is switched on.
    """
    return TorchCopies()


def _replace_functions() -> None:
    if not _new:
        _new.extend(_make_functions())
    for owner, name, function in _new:
        _replaced.append((owner, name, vars(owner).get(name)))
        setattr(owner, name, function)


def _make_functions() -> list[tuple[Any, str, Any]]:
    """The functions that replace PyTorch's: where, under which name, and what."""
    import torch

    tensor_class, parameter = torch.Tensor, torch.nn.Parameter
    core = torch._C
    function_modes, dispatch_modes = core._len_torch_function_stack, core._len_torch_dispatch_stack
    tracing, transform = core._get_tracing_state, core._functorch.maybe_current_level
    is_grad_enabled, is_compiling = torch.is_grad_enabled, torch.compiler.is_compiling
    forward = sys.modules["torch.autograd.forward_ad"]
    contiguous_format, preserve_format = torch.contiguous_format, torch.preserve_format
    relayout, floor = _native.relayout, MIN_ELEMENTS

    def is_watched() -> bool:
        """Whether PyTorch compiles or traces, so that a size may be no number and the call belongs to a graph."""
        return is_compiling() or tracing() is not None

    def is_ordinary(*tensors: Any) -> bool:
        """Whether these are plain tensors of the CPU, and nothing watches what becomes of them."""
        if function_modes() or dispatch_modes() or transform() is not None:
            return False
        # A tensor with a tangent has no mark of its own, so no level of forward differentiation may be open.
        if forward._current_level >= 0:
            return False
        records = is_grad_enabled()
        for t in tensors:
            kind = type(t)
            if kind is not tensor_class and kind is not parameter:
                return False
            if not t.is_cpu or t.layout is not torch.strided or t.is_conj() or t.is_neg():
                return False
            if records and t.requires_grad:
                return False
        return True

    def count_call(name: str, result: Any) -> Any:
        entry = _counts.setdefault(name, [0, 0])
        entry[0] += 1
        entry[1] += result.numel() * result.element_size()
        return result

    def move_or_none(source: Any, out: Any = None) -> Any:
        """The engine's copy; None where it refuses one of the tensors, and PyTorch knows what to do or to say."""
        try:
            return relayout(source) if out is None else relayout(source, None, None, out)
        except (TypeError, ValueError, _native.LayoutError):
            return None

    contiguous_before = tensor_class.contiguous

    def contiguous(self, *args, **options):
        if args or options or is_watched() or self.numel() < floor or self.is_contiguous():
            return contiguous_before(self, *args, **options)
        result = move_or_none(self) if is_ordinary(self) else None
        return contiguous_before(self) if result is None else count_call("contiguous", result)

    # The compiler knows PyTorch's functions by the objects that `torch` holds when it is first used, so those which are
    # replaced there may be unknown to it. Operators always are known.
    operators = torch.ops.aten

    def make_clone(clone_before):
        def clone(self, *args, memory_format=preserve_format, **options):
            if is_compiling():
                return operators.clone(self, *args, memory_format=memory_format, **options)
            # The strides of the usual clone are those of the tensor where these have no gaps: a plain copy.
            if (
                args
                or options
                or memory_format is not contiguous_format
                or tracing() is not None
                or self.numel() < floor
                or self.is_contiguous()
            ):
                return clone_before(self, *args, memory_format=memory_format, **options)
            result = move_or_none(self) if is_ordinary(self) else None
            if result is None:
                return clone_before(self, memory_format=memory_format)
            return count_call("clone", result)

        return clone

    copy_before = tensor_class.copy_

    def copy_(self, src, *args, **options):
        if args or options or is_watched() or self.numel() < floor or not isinstance(src, tensor_class):
            return copy_before(self, src, *args, **options)
        if (
            self.dtype is not src.dtype
            or self.shape != src.shape
            or (self.is_contiguous() and src.is_contiguous())
            or not is_ordinary(self, src)
            or move_or_none(src, self) is None
        ):
            return copy_before(self, src)
        return count_call("copy_", self)

    def make_reshape(reshape_before):
        def reshape(self, *shape, **options):
            if is_compiling():
                sizes = options.get("shape", shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape)
                return operators.reshape(self, sizes)
            if options or tracing() is not None or self.numel() < floor or self.is_contiguous():
                return reshape_before(self, *shape, **options)
            # A view takes a dtype too, which a reshape refuses.
            sizes = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
            if not all(type(n) is int for n in sizes) or not is_ordinary(self):
                return reshape_before(self, *shape)
            try:
                # Where a view does, that is the result.
                return self.view(sizes)
            except RuntimeError:
                result = move_or_none(self)
            if result is None:
                return reshape_before(self, *shape)
            # Also the one that says what is wrong with the shape.
            return count_call("reshape", reshape_before(result, *shape))

        return reshape

    def make_cat(cat_before):
        def cat(tensors, dim=0, **options):
            if is_compiling():
                return operators.cat(tensors, dim, **options)
            if options or tracing() is not None or type(tensors) not in (list, tuple) or not tensors:
                return cat_before(tensors, dim, **options)
            first = tensors[0]
            if (
                not isinstance(first, tensor_class)
                or first.numel() < floor
                or not isinstance(dim, int)
                or not suits_cat(tensors, first, dim)
            ):
                return cat_before(tensors, dim)
            shape = list(first.shape)
            shape[dim] = sum(t.shape[dim] for t in tensors)
            out, at = first.new_empty(shape), 0
            for t in tensors:
                part = out.narrow(dim, at, t.shape[dim])
                at += t.shape[dim]
                if move_or_none(t, part) is None:
                    copy_before(part, t)
            return count_call("cat", out)

        return cat

    def suits_cat(tensors, first, dim) -> bool:
        """Whether these are large permuted tensors that differ along one dimension, at most."""
        rank = first.dim()
        if not all(isinstance(t, tensor_class) for t in tensors) or not -rank <= dim < rank:
            return False
        if all(t.is_contiguous() for t in tensors) or not is_ordinary(*tensors):
            return False
        dim %= rank
        for t in tensors:
            if t.dtype is not first.dtype or t.dim() != rank or t.numel() == 0:
                return False
            if t.shape[:dim] != first.shape[:dim] or t.shape[dim + 1 :] != first.shape[dim + 1 :]:
                return False
            # The result would have the format of its parts.
            if rank == 4 and t.is_contiguous(memory_format=torch.channels_last):
                return False
            if rank == 5 and t.is_contiguous(memory_format=torch.channels_last_3d):
                return False
        return True

    new = [
        (tensor_class, "contiguous", contiguous),
        (tensor_class, "copy_", copy_),
        (tensor_class, "clone", make_clone(tensor_class.clone)),
        (torch, "clone", make_clone(torch.clone)),
        (tensor_class, "reshape", make_reshape(tensor_class.reshape)),
        (torch, "reshape", make_reshape(torch.reshape)),
        (torch, "cat", make_cat(torch.cat)),
        (torch, "concat", make_cat(torch.concat)),
        (torch, "concatenate", make_cat(torch.concatenate)),
    ]
    for owner, name, function in new:
        before = getattr(owner, name)
        function.__name__ = function.__qualname__ = name
        function.__doc__ = before.__doc__
        if owner is torch:
            # TorchScript would read the source of a Python function, and knows operators by its table.
            torch.jit._builtins._register_builtin(function, f"aten::{name}")
    return new


def _restore_functions() -> None:
    while _replaced:
        owner, name, before = _replaced.pop()
        if before is None:
            # It was inherited from the class below.
            delattr(owner, name)
        else:
            setattr(owner, name, before)
