//! Integers narrower than a byte: the device's SENINT4 and SENUINT2.
//!
//! The first element is in the lowest bits of the first byte. A last byte that is not full has zeros
//! above; unpacking ignores them.

use std::fmt;

/// Two's complement integers of 4 bits, -8 to 7, two per byte.
pub const INT4: PackedFormat = PackedFormat { bits: 4, signed: true };
/// Unsigned integers of 2 bits, 0 to 3, four per byte.
pub const UINT2: PackedFormat = PackedFormat { bits: 2, signed: false };

/// A packed format.
///
/// Law: `unpack(pack(x)) == x` for every array of numbers in range, and `pack(unpack(b)) == b` for
/// every array of full bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedFormat {
    bits: u8,
    signed: bool,
}

/// Why an array was not packed or unpacked. Nothing has been written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PackError {
    /// A number that the format does not have.
    OutOfRange {
        /// Where it is.
        index: usize,
        /// What it is.
        value: i8,
        /// The smallest and the largest number of the format.
        range: (i8, i8),
    },
    /// The packed buffer is not as long as the elements need.
    Length {
        /// Bytes that it has.
        bytes: usize,
        /// Bytes that the elements need.
        needed: usize,
    },
}

impl fmt::Display for PackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            PackError::OutOfRange { index, value, range: (low, high) } => {
                write!(f, "element {index} is {value}, outside {low} to {high}")
            }
            PackError::Length { bytes, needed } => {
                write!(f, "the packed buffer has {bytes} bytes, the elements need {needed}")
            }
        }
    }
}

impl std::error::Error for PackError {}

impl PackedFormat {
    /// Elements per byte.
    #[must_use]
    pub const fn elements_per_byte(self) -> usize {
        8 / self.bits as usize
    }

    /// Bytes that hold `count` elements.
    #[must_use]
    pub const fn packed_bytes(self, count: usize) -> usize {
        count.div_ceil(self.elements_per_byte())
    }

    /// The smallest and the largest number.
    #[must_use]
    pub const fn number_range(self) -> (i8, i8) {
        if self.signed {
            (-(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1)
        } else {
            (0, (1 << self.bits) - 1)
        }
    }

    /// Packs numbers.
    ///
    /// # Errors
    /// [`PackError::OutOfRange`] with the first number that does not fit, [`PackError::Length`] where `dst`
    /// is not exactly as long as needed.
    pub fn pack_numbers(self, src: &[i8], dst: &mut [u8]) -> Result<(), PackError> {
        self.check_lengths(dst.len(), src.len())?;
        let range = self.number_range();
        if let Some(index) = src.iter().position(|&x| x < range.0 || x > range.1) {
            return Err(PackError::OutOfRange { index, value: src[index], range });
        }
        let mask = (1 << self.bits) - 1;
        for (numbers, byte) in src.chunks(self.elements_per_byte()).zip(dst) {
            let join = |(value, shift), &number: &i8| {
                (value | (number.cast_unsigned() & mask) << shift, shift + self.bits)
            };
            *byte = numbers.iter().fold((0, 0), join).0;
        }
        Ok(())
    }

    /// Unpacks numbers.
    ///
    /// # Errors
    /// [`PackError::Length`] where `src` is not exactly as long as `dst` needs.
    pub fn unpack_numbers(self, src: &[u8], dst: &mut [i8]) -> Result<(), PackError> {
        self.check_lengths(src.len(), dst.len())?;
        for (&byte, numbers) in src.iter().zip(dst.chunks_mut(self.elements_per_byte())) {
            let mut shift = 8 - self.bits;
            for number in numbers {
                // The element is shifted to the top; shifting it back down fills with its sign or zeros.
                let top = byte << shift;
                *number = if self.signed {
                    top.cast_signed() >> (8 - self.bits)
                } else {
                    (top >> (8 - self.bits)).cast_signed()
                };
                shift = shift.wrapping_sub(self.bits);
            }
        }
        Ok(())
    }

    fn check_lengths(self, bytes: usize, count: usize) -> Result<(), PackError> {
        let needed = self.packed_bytes(count);
        if bytes == needed { Ok(()) } else { Err(PackError::Length { bytes, needed }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_and_every_number_come_back() {
        for (format, low) in [(INT4, -8), (UINT2, 0)] {
            let bytes: Vec<u8> = (0..=255).collect();
            let mut numbers = vec![0; 256 * format.elements_per_byte()];
            format.unpack_numbers(&bytes, &mut numbers).unwrap();
            assert!(numbers.iter().all(|&x| (low..low + (1 << format.bits)).contains(&x)));
            let mut again = vec![0; 256];
            format.pack_numbers(&numbers, &mut again).unwrap();
            assert_eq!(again, bytes);
        }
        let mut numbers = [0; 3];
        INT4.unpack_numbers(&[0x8f, 0xf7], &mut numbers).unwrap();
        assert_eq!(numbers, [-1, -8, 7]);
        let mut bytes = [0xff; 2];
        INT4.pack_numbers(&numbers, &mut bytes).unwrap();
        assert_eq!(bytes, [0x8f, 0x07]);
        let mut numbers = [0; 5];
        UINT2.unpack_numbers(&[0b11_10_01_00, 0xfd], &mut numbers).unwrap();
        assert_eq!(numbers, [0, 1, 2, 3, 1]);
    }

    #[test]
    fn what_does_not_fit_is_refused_with_its_place() {
        let error = INT4.pack_numbers(&[7, -8, 8], &mut [0; 2]).unwrap_err();
        assert_eq!(error.to_string(), "element 2 is 8, outside -8 to 7");
        let error = UINT2.pack_numbers(&[-1], &mut [0; 1]).unwrap_err();
        assert_eq!(error, PackError::OutOfRange { index: 0, value: -1, range: (0, 3) });
        let error = UINT2.unpack_numbers(&[0; 2], &mut [0; 4]).unwrap_err();
        assert_eq!(error, PackError::Length { bytes: 2, needed: 1 });
    }
}
