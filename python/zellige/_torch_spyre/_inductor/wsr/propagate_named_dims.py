"""Names of dimensions, for hints."""

from ..propagate_named_dims import declare_tensor_dim, name_tensor_dims, reset  # noqa: F401
