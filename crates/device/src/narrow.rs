//! Integers of the host that the 32 bits of the card do not hold.
//!
//! The card stores int64 in 32 bits, unless it keeps all of them. A value past them would become another one, and an index another
//! element, so it is refused where it would enter, with its value and its place.

use crate::error::{DeviceError, Result};
use crate::scalar::Scalar;
use zellige_float::Format;
use zellige_layout::{Strided, unflatten};

/// Refuses the first element of a host tensor that 32 bits do not hold. `bytes` was checked to hold
/// the tensor.
pub(crate) fn fits(bytes: &[u8], host: &Strided, from: Format, to: Format) -> Result<()> {
    let width = from.size();
    let value: fn(&[u8]) -> i64 = match (from, to) {
        (Format::I64, Format::I32) => |b| i64::from_le_bytes(b.try_into().unwrap_or_default()),
        (Format::U32, Format::I32) => {
            |b| i64::from(u32::from_le_bytes(b.try_into().unwrap_or_default()))
        }
        _ => return Ok(()),
    };
    let Some(range) = host.address_range() else { return Ok(()) };
    let place = |address: i64| usize::try_from(address).unwrap_or(usize::MAX).saturating_mul(width);
    let held = |value: i64| i32::try_from(value).is_ok();
    // Everything from the first element to the last: mostly these are the elements themselves.
    let touched = bytes.get(place(range.min)..place(range.max + 1)).unwrap_or(bytes);
    // In parts, so that the comparison of a part has no branch.
    let all = |part: &[u8]| part.chunks_exact(width).fold(true, |all, b| all & held(value(b)));
    if touched.chunks(width * 1024).all(all) {
        return Ok(());
    }
    for i in 0..host.numel() {
        let at = unflatten(host.size(), i);
        let start = place(host.address(&at)?);
        if let Some(value) = bytes.get(start..start + width).map(value).filter(|v| !held(*v)) {
            return Err(DeviceError::Wide { value: value.to_string(), at });
        }
    }
    Ok(())
}

/// Refuses a number that every element of a tensor would be set to. A NaN is 0, as in a conversion.
pub(crate) fn number_fits(value: Scalar, to: Format) -> Result<()> {
    if to == Format::I32 && i32::try_from(value.trunc()).is_err() {
        return Err(DeviceError::Wide { value: value.to_string(), at: Vec::new() });
    }
    Ok(())
}
