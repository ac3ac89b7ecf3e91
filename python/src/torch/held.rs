//! Dtypes that the card holds, and does not compute with: float64, complex numbers, wide unsigned integers.
//!
//! Their bits are stored on the card as integers of the same width, so tensors of them can be made, copied and viewed
//! there. The card refuses every operation on them, and the CPU fallback computes and counts it.

use super::handle::SeenTensor;
use zellige_float::Dtype;
use zellige_stick::{DataFormat, StickError, StickLayout};

/// The integers that hold the bits of an element, and how many of them.
pub(super) fn holding_integers(dtype: Dtype) -> Option<(Dtype, i64)> {
    match dtype {
        Dtype::Float64 | Dtype::Complex64 | Dtype::Uint64 => Some((Dtype::Int64, 1)),
        Dtype::Complex128 => Some((Dtype::Int64, 2)),
        Dtype::Uint32 => Some((Dtype::Int32, 1)),
        Dtype::Uint16 => Some((Dtype::Int16, 1)),
        _ => None,
    }
}

/// The layout of a tensor of such a dtype in its own elements, from that of the integers that hold them.
pub(super) fn name_elements(
    dtype: Dtype,
    integers: &StickLayout,
) -> Result<StickLayout, StickError> {
    let format = match dtype {
        Dtype::Float64 => DataFormat::IEEE_FP64,
        Dtype::Complex64 => DataFormat::COMPLEX64,
        Dtype::Complex128 => return pair_integers(integers),
        Dtype::Uint64 => DataFormat::UINT64,
        Dtype::Uint32 => DataFormat::SENUINT32,
        Dtype::Uint16 => DataFormat::UINT16,
        _ => return Ok(integers.clone()),
    };
    integers.with_device_format(format, None)
}

/// The layout of elements of 16 bytes whose halves are the last host dimension of a layout of int64. The halves of an
/// element have a stick to themselves, so that the elements are sparse.
fn pair_integers(integers: &StickLayout) -> Result<StickLayout, StickError> {
    let format = DataFormat::COMPLEX128;
    let per_stick = integers.elems_per_stick();
    let (mut size, mut map) = (Vec::new(), Vec::new());
    let dims = integers.device_size().iter().zip(integers.stride_map());
    for (n, step) in dims.take(integers.device_size().len() - 1) {
        // The dimension that counts the sticks of one pair.
        if (*n, *step) != (1, per_stick) {
            size.push(*n);
            map.push(if *step > 0 { step / 2 } else { *step });
        }
    }
    size.push(per_stick / 2);
    map.push(-1);
    let named = StickLayout::from_size_and_stride_map(&size, &map, format)?;
    let Some(host) = integers.host() else { return Ok(named) };
    let rank = host.size().len() - 1;
    let stride: Vec<i64> = host.stride()[..rank].iter().map(|s| s / 2).collect();
    named.with_host(&host.size()[..rank], Some(&stride))
}

/// The tensor as one of the integers that hold its bits; one that the card computes with as it is.
pub(super) fn as_integers(mut seen: SeenTensor) -> SeenTensor {
    if let Some((dtype, parts)) = holding_integers(seen.dtype) {
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
