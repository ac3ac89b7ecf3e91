"""Nested tensors of the layout ``torch.strided``, and sparse ones: refused with what to do instead.

Nested tensors of the layout ``torch.jagged`` are made of usual tensors, and work. Those of the layout ``torch.strided`` are a
C++ class whose sizes PyTorch asks an operator for, also where an exception ends the process: these operators, which read
sizes alone and no element, have the CPU's kernels. Every other one is refused.
"""

from __future__ import annotations

import torch

_libraries: list[torch.library.Library] = []

_NESTED = (
    "{}: nested tensors of the layout torch.strided have no kernels on the device spyre. Make them with layout=torch.jagged, "
    "which has, or compute on the CPU"
)
_SPARSE = (
    "{}: the device spyre has no sparse tensors. Use x.to_dense().to('spyre'), or keep the sparse tensor on the CPU and move its "
    "product"
)
# They read the sizes of a nested tensor, or make another tensor object over the same memory.
_OF_SIZES = (
    "_nested_tensor_size", "_nested_tensor_strides", "_nested_tensor_storage_offsets", "is_same_size", "detach", "alias",
    "size.int", "sym_size.int",
)


# They make compressed sparse tensors, before any operator of those is called.
_COMPRESSING = ("_sparse_compressed_tensor_unsafe", "_sparse_compressed_tensor_with_dims", "_to_sparse_csr", "_to_sparse_csc", "_to_sparse_bsr", "_to_sparse_bsc")


def check_strided(op, tensor) -> None:
    """Refuses a nested tensor whose elements a kernel would read."""
    if tensor.is_nested:
        raise NotImplementedError(_NESTED.format(op))


def _refuse_one(name):
    def kernel(*args, **kwargs):
        raise NotImplementedError(_SPARSE.format("aten." + name))

    return torch._disable_dynamo(kernel)


def _refuse(text):
    def kernel(op, *args, **kwargs):
        raise NotImplementedError(text.format(op))

    return torch._disable_dynamo(kernel)


def _as_on_the_cpu(name):
    found = torch.library.get_kernel("aten::" + name, "NestedTensorCPU")

    def kernel(keys, *args, **kwargs):
        return found.call_boxed(keys, *args, **kwargs)

    return torch._disable_dynamo(kernel)


def install() -> None:
    """Registers the kernels."""
    library = torch.library.Library("_", "IMPL")
    library.fallback(_refuse(_NESTED), "NestedTensorPrivateUse1")
    for key in ("SparsePrivateUse1", "SparseCsrPrivateUse1"):
        library.fallback(_refuse(_SPARSE), key)
    single = torch.library.Library("aten", "IMPL")
    for name in _OF_SIZES:
        if torch._C._dispatch_has_kernel_for_dispatch_key("aten::" + name, "NestedTensorCPU"):
            single.impl(name, _as_on_the_cpu(name), "NestedTensorPrivateUse1", with_keyset=True)
    for name in _COMPRESSING:
        for key in ("PrivateUse1", "SparseCsrPrivateUse1"):
            single.impl(name, _refuse_one(name), key)
    _libraries.extend((library, single))
