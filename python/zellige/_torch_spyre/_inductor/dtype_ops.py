"""Which operation of the card converts one dtype into another."""

import torch

from zellige import DataFormats

from .constants import DL16TOFP32_OP, FP8TODL16_OP, FP32TODL16_OP, IDENTITY_OP

_HALVES = (torch.float16, torch.bfloat16)
# Truth values are stored in the format of what was compared.
_TRUTH_AS = {DataFormats.SEN169_FP16: torch.float16, DataFormats.IEEE_FP32: torch.float32}


def _conversions() -> dict:
    table = {}
    for half in _HALVES:
        table[half, torch.float32] = DL16TOFP32_OP
        table[torch.float32, half] = FP32TODL16_OP
    table[torch.float8_e4m3fn, torch.float16] = FP8TODL16_OP
    # These leave the bits as they are.
    for pair in [_HALVES, _HALVES[::-1], *((d, torch.bool) for d in (*_HALVES, torch.float32))]:
        table[pair] = IDENTITY_OP
    return table


_TABLE = _conversions()


def bool_equivalent_dtype(device_dtype):
    """The dtype whose format truth values are stored in; None for formats that hold none."""
    return _TRUTH_AS.get(device_dtype)


class DtypeOpTable:
    """The conversions that upstream has an operation for. What is not here runs on the CPU there, and on the card here."""

    @classmethod
    def get_operator(cls, src_dtype, dst_dtype):
        """The operation between two dtypes; None without one."""
        return _TABLE.get((src_dtype, dst_dtype))

    @classmethod
    def get_bool_src_operator(cls, device_dtype, dst_dtype):
        """The operation for truth values that are stored in a format."""
        source = bool_equivalent_dtype(device_dtype)
        if source is None:
            return None
        return IDENTITY_OP if source == dst_dtype else cls.get_operator(source, dst_dtype)

    @classmethod
    def bool_host_conversion_reorders_sticks(cls, dst_dtype) -> bool:
        """Whether truth values from the host, which arrive in 16 bits, change their order in the stick."""
        operator = cls.get_bool_src_operator(DataFormats.SEN169_FP16, dst_dtype)
        return operator is not None and operator != IDENTITY_OP

    @classmethod
    def is_supported(cls, src_dtype, dst_dtype) -> bool:
        """Whether there is an operation, for truth values in any format."""
        if src_dtype == torch.bool:
            return any(cls.get_bool_src_operator(f, dst_dtype) is not None for f in _TRUTH_AS)
        return cls.get_operator(src_dtype, dst_dtype) is not None

    @classmethod
    def get_table(cls):
        """The operations by pairs of dtypes."""
        return dict(_TABLE)

    @classmethod
    def get_dtype_pairs(cls):
        """The pairs that have an operation."""
        return set(_TABLE)

    @classmethod
    def is_dtype_op(cls, op) -> bool:
        """Whether a name is that of a conversion."""
        return op in _TABLE.values()
