//! Dtypes that the card holds, and does not compute with: float64, complex numbers, wide unsigned integers.
//!
//! Their bits lie on the card as integers of the same width, so tensors of them can be made, copied and viewed
//! there. Every operation on them is refused, and so done by the CPU, where it is counted.

use super::handle::Seen;
use zellige_float::Dtype;

/// The integers that hold the bits of an element, and how many of them.
pub(super) fn integers(dtype: Dtype) -> Option<(Dtype, i64)> {
    match dtype {
        Dtype::Float64 | Dtype::Complex64 | Dtype::Uint64 => Some((Dtype::Int64, 1)),
        Dtype::Complex128 => Some((Dtype::Int64, 2)),
        Dtype::Uint32 => Some((Dtype::Int32, 1)),
        Dtype::Uint16 => Some((Dtype::Int16, 1)),
        _ => None,
    }
}

/// The tensor as one of the integers that hold its bits; one that the card computes with as it is.
pub(super) fn as_integers(mut seen: Seen) -> Seen {
    if let Some((dtype, parts)) = integers(seen.dtype) {
        seen.dtype = dtype;
        if parts > 1 {
            seen.stride.iter_mut().for_each(|s| *s *= parts);
            seen.offset *= parts;
            seen.size.push(parts);
            seen.stride.push(1);
        }
    }
    seen
}
