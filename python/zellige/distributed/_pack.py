"""Packing and unpacking on devices that the engine does not reach: each loop nest as one copy of PyTorch."""

from __future__ import annotations


def _view(tensor, sizes, steps, begin):
    """Elements of a flat tensor along loops. PyTorch has no negative strides, so a loop that runs backwards is a forward view that is flipped."""
    back = [k for k, step in enumerate(steps) if step < 0]
    begin += tensor.storage_offset() + sum((sizes[k] - 1) * steps[k] for k in back)
    return tensor.as_strided(sizes, [abs(step) for step in steps], begin), back


def copy(nests, source, target, read=0, write=0):
    """Runs loop nests between two flat tensors, from these elements on."""
    for loops, starts in nests:
        sizes = [n for n, _, _ in loops]
        for a, b in starts:
            taken, turned = _view(source, sizes, [step for _, step, _ in loops], read + a)
            place, turned_too = _view(target, sizes, [step for _, _, step in loops], write + b)
            turned = sorted(set(turned) ^ set(turned_too))
            place.copy_(taken.flip(turned) if turned else taken)
