"""Names of dimensions, for hints."""

from zellige.compile.hints import declare


def declare_tensor_dim(name, size):
    """Gives a size a name."""
    declare(name, int(size))


def name_tensor_dims(tensor, names):
    """Names the dimensions of a tensor, each with its size."""
    if len(names) != tensor.dim():
        raise ValueError(f"{len(names)} names for a tensor of {tensor.dim()} dimensions")
    for name, size in zip(names, tensor.shape):
        if name is not None:
            declare(name, int(size))
    return tensor
