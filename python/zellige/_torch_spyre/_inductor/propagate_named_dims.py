"""Names of dimensions, for hints."""

import math

from zellige.compile.hints import declare, declared
from zellige.compile.hints import forget as reset  # noqa: F401 - the original's name


def declare_tensor_dim(name, size):
    """Gives a size a name."""
    declare(name, int(size))


def name_tensor_dims(tensor, names):
    """Names the dimensions of a tensor. A flat tensor may be named by the dimensions that it is made of, whose sizes
    were declared."""
    if len(names) == tensor.dim():
        for name, size in zip(names, tensor.shape):
            if name is not None:
                declare(name, int(size))
        return tensor
    sizes = [declared(name) for name in names]
    if math.prod(sizes) != tensor.numel():
        raise ValueError(
            f"the dimensions {', '.join(f'{n} ({s})' for n, s in zip(names, sizes))} have {math.prod(sizes)} elements, and a "
            f"tensor of size {list(tensor.shape)} has {tensor.numel()}"
        )
    return tensor
