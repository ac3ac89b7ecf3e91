//! Element types that the card does not store, and the wider ones that carry them.
//!
//! Integers of 2 and 4 bits are carried in 8 bits, unsigned ones of 16 and 32 bits in twice as
//! many; every operation on them ends by truncating its result to the bits of the type. float64 is
//! computed in float32, because the card has nothing wider.

use zellige_float::{Converter, Dtype, Format};

/// The dtype that the graph uses for another one; the same dtype, if the card stores it.
pub fn carrier_dtype(dtype: Dtype) -> Dtype {
    match dtype {
        // Each carrier is the narrowest stored dtype that holds every value: 4 bits fit in 8,
        // unsigned 16 bits need a signed type of 32.
        Dtype::Float64 => Dtype::Float32,
        Dtype::Int4 | Dtype::Int2 => Dtype::Int8,
        Dtype::Uint4 | Dtype::Uint2 => Dtype::Uint8,
        Dtype::Uint16 => Dtype::Int32,
        Dtype::Uint32 => Dtype::Int64,
        other => other,
    }
}

/// Converts the elements of a tensor in host memory to the dtype that carries them; elements below
/// eight bits take a byte each. `None` if a byte is missing.
pub fn carry_elements(bytes: &[u8], dtype: Dtype) -> Option<Vec<u8>> {
    match dtype {
        Dtype::Float64 => narrow_to_float32(bytes),
        Dtype::Uint16 => {
            let all = bytes.as_chunks::<2>();
            all.1.is_empty().then(|| {
                all.0.iter().flat_map(|b| i32::from(u16::from_le_bytes(*b)).to_le_bytes()).collect()
            })
        }
        Dtype::Uint32 => {
            let all = bytes.as_chunks::<4>();
            all.1.is_empty().then(|| {
                all.0.iter().flat_map(|b| i64::from(u32::from_le_bytes(*b)).to_le_bytes()).collect()
            })
        }
        Dtype::Int2 | Dtype::Uint2 | Dtype::Int4 | Dtype::Uint4 => {
            // Only the low bits of each byte are the number.
            let one = |b: &u8| fit_integer(dtype, i64::from(*b)).to_le_bytes()[0];
            Some(bytes.iter().map(one).collect())
        }
        _ => Some(bytes.to_vec()),
    }
}

fn narrow_to_float32(bytes: &[u8]) -> Option<Vec<u8>> {
    let count = bytes.len() / 8;
    let mut out = vec![0; count * 4];
    Converter::new(Format::F64, Format::F32).convert(bytes, &mut out, count).ok()?;
    bytes.len().is_multiple_of(8).then_some(out)
}

/// The bits of a carried integer type, and whether it is signed.
pub(crate) fn carried_bits(dtype: Dtype) -> Option<(u32, bool)> {
    match dtype {
        // float64 is not in this list: it has no bits to cut off, since its results are rounded to
        // float32 anyway.
        Dtype::Int2 => Some((2, true)),
        Dtype::Uint2 => Some((2, false)),
        Dtype::Int4 => Some((4, true)),
        Dtype::Uint4 => Some((4, false)),
        Dtype::Uint16 => Some((16, false)),
        Dtype::Uint32 => Some((32, false)),
        _ => None,
    }
}

/// The smallest and the largest integer of a dtype.
pub(crate) fn integer_range(dtype: Dtype) -> Option<(i64, i64)> {
    let (bits, signed) = match dtype {
        Dtype::Int8 => (8, true),
        Dtype::Uint8 => (8, false),
        Dtype::Int16 => (16, true),
        Dtype::Int32 => (32, true),
        other => carried_bits(other)?,
    };
    Some(if signed { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) })
}

/// Truncates an integer to the bits of its dtype.
pub(crate) fn fit_integer(dtype: Dtype, x: i64) -> i64 {
    let Some((bits, signed)) = carried_bits(dtype) else { return x };
    let low = x & ((1 << bits) - 1);
    if signed && low >> (bits - 1) == 1 { low - (1 << bits) } else { low }
}

/// Unpacks the elements of a file into the dtype that carries them. Elements below eight bits are
/// packed in the file, the first one in the lowest bits.
pub(crate) fn unpack_elements(stored: &[u8], dtype: Dtype, count: usize) -> Option<Vec<u8>> {
    let width = match carried_bits(dtype) {
        Some((bits @ (2 | 4), _)) => bits as usize,
        _ => return carry_elements(stored, dtype),
    };
    let each = 8 / width;
    // ONNX packs two or four numbers into a byte and pads the last one, so the size in bytes does
    // not tell the number of elements.
    if stored.len() != count.div_ceil(each) {
        return None;
    }
    let one = |i: usize| {
        let bits = i64::from(stored[i / each] >> (width * (i % each)));
        fit_integer(dtype, bits).to_le_bytes()[0]
    };
    Some((0..count).map(one).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_numbers_are_those_of_their_bits() {
        assert_eq!(unpack_elements(&[0x8f, 0x07], Dtype::Int4, 3), Some(vec![255, 248, 7]));
        assert_eq!(unpack_elements(&[0x8f, 0x07], Dtype::Uint4, 3), Some(vec![15, 8, 7]));
        assert_eq!(unpack_elements(&[0b11_10_01_00], Dtype::Int2, 4), Some(vec![0, 1, 254, 255]));
        assert_eq!(unpack_elements(&[0b11_10_01_00], Dtype::Uint2, 4), Some(vec![0, 1, 2, 3]));
        assert_eq!(unpack_elements(&[0], Dtype::Int4, 3), None);
        assert_eq!(fit_integer(Dtype::Uint16, -1), 65_535);
        assert_eq!(fit_integer(Dtype::Int4, 8), -8);
    }
}
