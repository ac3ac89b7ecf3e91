//! Numbers of the host that the card does not hold: integers past its 32 bits, floats past its 16.
//!
//! The card stores int64 in 32 bits, unless it keeps all of them. A value past them would become another one, and an index another
//! element, so it is refused where it would enter, with its value and its place.

use crate::error::{DeviceError, Result};
use zellige_float::{Converter, Format};
use zellige_layout::{Strided, unflatten};
use zellige_op::Scalar;

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

/// Elements of a host tensor that are past the numbers of a format, and become what stands for an
/// infinity there.
#[derive(Debug, Clone, PartialEq)]
pub struct Past {
    /// How many.
    pub count: u64,
    /// Where the first one is, in row-major order.
    pub first: Vec<i64>,
    /// What it is.
    pub value: f64,
}

/// The least magnitude that rounds to what stands for an infinity in [`Format::DL16INF`].
const PAST_DL16: f32 = 2_147_483_648.0 * (1.0 + 509.5 / 512.0);

/// Whether a number is past the 16-bit numbers of the card.
pub(crate) fn is_past(value: f32) -> bool {
    value.abs() >= PAST_DL16
}

/// The elements of a host tensor that are past the numbers of the format they are stored in. `bytes`
/// was checked to hold the tensor.
pub(crate) fn past(bytes: &[u8], host: &Strided, from: Format, to: Format) -> Result<Option<Past>> {
    let width = from.size();
    if to != Format::DL16INF || !from.is_float() {
        return Ok(None);
    }
    let Some(range) = host.address_range() else { return Ok(None) };
    let place = |address: i64| usize::try_from(address).unwrap_or(usize::MAX).saturating_mul(width);
    let touched = bytes.get(place(range.min)..place(range.max + 1)).unwrap_or(bytes);
    let convert = Converter::new(from, Format::F32);
    let mut part = [0u8; 4 * 1024];
    let number = |b: &[u8]| f32::from_le_bytes(b.try_into().unwrap_or_default());
    let mut any = false;
    for piece in touched.chunks(width * 1024) {
        let n = piece.len() / width;
        if convert.convert(piece, &mut part, n).is_ok() {
            let all = part[..4 * n].chunks_exact(4);
            any |= all.fold(false, |any, b| any | is_past(number(b)));
        }
    }
    if !any {
        return Ok(None);
    }
    // Some element, or something between two elements: one by one.
    let mut found: Option<Past> = None;
    let mut one = [0u8; 4];
    for i in 0..host.numel() {
        let at = unflatten(host.size(), i);
        let start = place(host.address(&at)?);
        let element = bytes.get(start..start + width).unwrap_or_default();
        if convert.convert(element, &mut one, 1).is_err() || !is_past(number(&one)) {
            continue;
        }
        match &mut found {
            Some(past) => past.count += 1,
            None => found = Some(Past { count: 1, first: at, value: number(&one).into() }),
        }
    }
    Ok(found)
}
