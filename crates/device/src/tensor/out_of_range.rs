//! Numbers of the host that the card does not hold: integers past its 32 bits, floats past its 16.
//!
//! The card stores int64 in 32 bits, unless it keeps all of them. A value past them would become another one, and an index another
//! element, so it is refused before it is stored, with its value and its coordinates.

use crate::error::{DeviceError, Result};
use zellige_float::{Converter, Format};
use zellige_layout::{StridedLayout, unflatten_index};
use zellige_op::HostScalar;

/// Refuses the first element of a host tensor that 32 bits do not hold. `bytes` was checked to hold
/// the tensor.
pub(crate) fn check_elements_fit(
    bytes: &[u8],
    host: &StridedLayout,
    from: Format,
    to: Format,
) -> Result<()> {
    let width = from.byte_size();
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
        let at = unflatten_index(host.size(), i);
        let start = place(host.element_address(&at)?);
        if let Some(value) = bytes.get(start..start + width).map(value).filter(|v| !held(*v)) {
            return Err(DeviceError::Wide { value: value.to_string(), at });
        }
    }
    Ok(())
}

/// Refuses a number that every element of a tensor would be set to. A NaN is 0, as in a conversion.
pub(crate) fn check_number_fits(value: HostScalar, to: Format) -> Result<()> {
    if to == Format::I32 && i32::try_from(value.trunc()).is_err() {
        return Err(DeviceError::Wide { value: value.to_string(), at: Vec::new() });
    }
    Ok(())
}

/// Elements of a host tensor that are past the numbers of a format, and become an infinity there, or the
/// encoding of one.
#[derive(Debug, Clone, PartialEq)]
pub struct OutOfRangeNumbers {
    /// How many.
    pub count: u64,
    /// Where the first one is, in row-major order.
    pub first: Vec<i64>,
    /// What it is.
    pub value: f64,
}

/// The smallest magnitude that rounds to the encoding of infinity in [`Format::DL16INF`].
const PAST_DL16: f32 = 2_147_483_648.0 * (1.0 + 509.5 / 512.0);

/// Whether a number is past the 16-bit numbers of the card.
pub(crate) fn is_out_of_range(value: f32) -> bool {
    value.abs() >= PAST_DL16
}

/// The test whether a finite number becomes an infinity of a format, or the encoding of one; none for formats into
/// which no conversion here is narrowing.
fn range_test(to: Format) -> Option<fn(f32) -> bool> {
    match to {
        Format::DL16INF => Some(is_out_of_range),
        // Half a step past the largest number.
        Format::F16 => Some(|x| x.abs() >= 65520.0 && x.is_finite()),
        Format::BF16 => Some(|x| x.abs() >= f32::from_bits(0x7f7f_8000) && x.is_finite()),
        _ => None,
    }
}

/// Whether a number that every element of a tensor is set to is past its format.
pub(crate) fn is_number_out_of_range(value: HostScalar, to: Format) -> bool {
    #[allow(clippy::cast_possible_truncation, reason = "what is past float32 is past all of these")]
    range_test(to).is_some_and(|is_past| is_past(value.to_f64() as f32))
}

/// The elements of a host tensor that are past the numbers of the format they are stored in. `bytes`
/// was checked to hold the tensor.
pub(crate) fn find_out_of_range(
    bytes: &[u8],
    host: &StridedLayout,
    from: Format,
    to: Format,
) -> Result<Option<OutOfRangeNumbers>> {
    let width = from.byte_size();
    let Some(is_past) = range_test(to).filter(|_| from.is_float() && from != to) else {
        return Ok(None);
    };
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
    // Most tensors have no such number, which the search by whole parts finds in a fraction of the time of the one
    // below.
    if !any {
        return Ok(None);
    }
    // Some element, or something between two elements: one by one.
    let mut found: Option<OutOfRangeNumbers> = None;
    let mut one = [0u8; 4];
    for i in 0..host.numel() {
        let at = unflatten_index(host.size(), i);
        let start = place(host.element_address(&at)?);
        let element = bytes.get(start..start + width).unwrap_or_default();
        if convert.convert(element, &mut one, 1).is_err() || !is_past(number(&one)) {
            continue;
        }
        match &mut found {
            Some(past) => past.count += 1,
            None => {
                found = Some(OutOfRangeNumbers { count: 1, first: at, value: number(&one).into() });
            }
        }
    }
    Ok(found)
}

/// Whether some element of memory in this format is NaN; integers have none.
pub(crate) fn has_nan(bytes: &[u8], format: Format) -> bool {
    fn any_element<const N: usize>(bytes: &[u8], is_nan: impl Fn([u8; N]) -> bool) -> bool {
        // In parts, so that the comparison of a part has no branch.
        let part = |part: &[u8]| {
            let elements = part.chunks_exact(N).map(|b| b.try_into().unwrap_or([0; N]));
            elements.fold(false, |any, b| any | is_nan(b))
        };
        bytes.chunks(N * 1024).any(part)
    }
    // Without the sign, the codes of NaN are those past infinity in each format.
    let sixteen = |least: u16| any_element(bytes, move |b| u16::from_le_bytes(b) & 0x7fff >= least);
    match format {
        Format::DL16 | Format::DL16INF => sixteen(0x7fff),
        Format::F16 => sixteen(0x7c01),
        Format::BF16 => sixteen(0x7f81),
        Format::F32 => any_element(bytes, |b| u32::from_le_bytes(b) & 0x7fff_ffff > 0x7f80_0000),
        Format::F64 => any_element(bytes, |b| f64::from_le_bytes(b).is_nan()),
        Format::F8E4M3FN => any_element(bytes, |[b]| b & 0x7f == 0x7f),
        Format::F8E5M2 => any_element(bytes, |[b]| b & 0x7f > 0x7c),
        Format::F8E5M2FNUZ => any_element(bytes, |[b]| b == 0x80),
        _ => false,
    }
}
