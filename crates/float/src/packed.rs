//! Integers narrower than a byte: the device's SENINT4 and SENUINT2.
//!
//! The first element is in the lowest bits of the first byte. A last byte that is not full has zeros
//! above; unpacking ignores them.

use std::fmt;

/// Two's complement integers of 4 bits, -8 to 7, two per byte.
pub const INT4: Packed = Packed { bits: 4, signed: true };
/// Unsigned integers of 2 bits, 0 to 3, four per byte.
pub const UINT2: Packed = Packed { bits: 2, signed: false };

/// A packed format.
///
/// Law: `unpack(pack(x)) == x` for every array of numbers in range, and `pack(unpack(b)) == b` for
/// every array of full bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packed {
    bits: u8,
    signed: bool,
}

/// Why an array was not packed or unpacked. Nothing has been written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// A number that the format does not have.
    OutOfRange {
        /// Where it is.
        index: usize,
        /// What it is.
        value: i8,
        /// The least and the greatest number of the format.
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

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Error::OutOfRange { index, value, range: (low, high) } => {
                write!(f, "element {index} is {value}, outside {low} to {high}")
            }
            Error::Length { bytes, needed } => {
                write!(f, "the packed buffer has {bytes} bytes, the elements need {needed}")
            }
        }
    }
}

impl std::error::Error for Error {}

impl Packed {
    /// Elements per byte.
    #[must_use]
    pub const fn per_byte(self) -> usize {
        8 / self.bits as usize
    }

    /// Bytes that hold `count` elements.
    #[must_use]
    pub const fn bytes(self, count: usize) -> usize {
        count.div_ceil(self.per_byte())
    }

    /// The least and the greatest number.
    #[must_use]
    pub const fn range(self) -> (i8, i8) {
        if self.signed {
            (-(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1)
        } else {
            (0, (1 << self.bits) - 1)
        }
    }

    /// Packs numbers.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] with the first number that does not fit, [`Error::Length`] where `dst`
    /// is not exactly as long as needed.
    pub fn pack(self, src: &[i8], dst: &mut [u8]) -> Result<(), Error> {
        self.check(dst.len(), src.len())?;
        let range = self.range();
        if let Some(index) = src.iter().position(|&x| x < range.0 || x > range.1) {
            return Err(Error::OutOfRange { index, value: src[index], range });
        }
        let mask = (1 << self.bits) - 1;
        for (numbers, byte) in src.chunks(self.per_byte()).zip(dst) {
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
    /// [`Error::Length`] where `src` is not exactly as long as `dst` needs.
    pub fn unpack(self, src: &[u8], dst: &mut [i8]) -> Result<(), Error> {
        self.check(src.len(), dst.len())?;
        for (&byte, numbers) in src.iter().zip(dst.chunks_mut(self.per_byte())) {
            let mut shift = 8 - self.bits;
            for number in numbers {
                // The element goes to the top; shifting it back down fills with its sign or zeros.
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

    fn check(self, bytes: usize, count: usize) -> Result<(), Error> {
        let needed = self.bytes(count);
        if bytes == needed { Ok(()) } else { Err(Error::Length { bytes, needed }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_and_every_number_come_back() {
        for (format, low) in [(INT4, -8), (UINT2, 0)] {
            let bytes: Vec<u8> = (0..=255).collect();
            let mut numbers = vec![0; 256 * format.per_byte()];
            format.unpack(&bytes, &mut numbers).unwrap();
            assert!(numbers.iter().all(|&x| (low..low + (1 << format.bits)).contains(&x)));
            let mut again = vec![0; 256];
            format.pack(&numbers, &mut again).unwrap();
            assert_eq!(again, bytes);
        }
        let mut numbers = [0; 3];
        INT4.unpack(&[0x8f, 0xf7], &mut numbers).unwrap();
        assert_eq!(numbers, [-1, -8, 7]);
        let mut bytes = [0xff; 2];
        INT4.pack(&numbers, &mut bytes).unwrap();
        assert_eq!(bytes, [0x8f, 0x07]);
        let mut numbers = [0; 5];
        UINT2.unpack(&[0b11_10_01_00, 0xfd], &mut numbers).unwrap();
        assert_eq!(numbers, [0, 1, 2, 3, 1]);
    }

    #[test]
    fn what_does_not_fit_is_refused_with_its_place() {
        let error = INT4.pack(&[7, -8, 8], &mut [0; 2]).unwrap_err();
        assert_eq!(error.to_string(), "element 2 is 8, outside -8 to 7");
        let error = UINT2.pack(&[-1], &mut [0; 1]).unwrap_err();
        assert_eq!(error, Error::OutOfRange { index: 0, value: -1, range: (0, 3) });
        let error = UINT2.unpack(&[0; 2], &mut [0; 4]).unwrap_err();
        assert_eq!(error, Error::Length { bytes: 2, needed: 1 });
    }
}
