//! The formats: what a bit pattern in memory means.

use std::fmt;

/// A number format of the host or of the device.
///
/// Elements are little endian; every format fills whole bytes (see [`crate::packed`] for those that
/// do not).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Format {
    /// IEEE binary64.
    F64,
    /// IEEE binary32.
    F32,
    /// IEEE binary16: 1 sign, 5 exponent (bias 15), 10 fraction bits.
    F16,
    /// bfloat16: the upper half of a binary32.
    BF16,
    /// DLFloat16, the device's SEN169_FP16: 1 sign, 6 exponent (bias 31), 9 fraction bits, no
    /// subnormals, one merged code for NaN and the infinities. See [`crate::Dl16`].
    DL16,
    /// DLFloat16 with infinities: its numbers from 2^31 (1 + 510/512) on stand for them. See
    /// [`crate::Dl16Inf`].
    DL16INF,
    /// OCP 8-bit E4M3, the device's SEN143_FP8: bias 7, no infinity, NaN is 0x7F and 0xFF.
    F8E4M3FN,
    /// OCP 8-bit E5M2, the device's SEN152_FP8: the upper half of a binary16.
    F8E5M2,
    /// 8-bit E5M2 with bias 16, no infinity, no negative zero; NaN is 0x80.
    F8E5M2FNUZ,
    /// Two's complement, 64 bits.
    I64,
    /// Two's complement, 32 bits.
    I32,
    /// Two's complement, 16 bits.
    I16,
    /// Two's complement, 8 bits.
    I8,
    /// Unsigned, 8 bits.
    U8,
    /// Unsigned, 32 bits, the device's SENUINT32.
    U32,
    /// One byte of the host: zero is false, anything else is true.
    Bool,
}

impl Format {
    /// Every format, in the order of the enumeration.
    pub const ALL: [Format; 16] = [
        Format::F64,
        Format::F32,
        Format::F16,
        Format::BF16,
        Format::DL16,
        Format::DL16INF,
        Format::F8E4M3FN,
        Format::F8E5M2,
        Format::F8E5M2FNUZ,
        Format::I64,
        Format::I32,
        Format::I16,
        Format::I8,
        Format::U8,
        Format::U32,
        Format::Bool,
    ];

    /// Bytes of one element.
    #[must_use]
    pub const fn byte_size(self) -> usize {
        match self {
            Format::F64 | Format::I64 => 8,
            Format::F32 | Format::I32 | Format::U32 => 4,
            Format::F16 | Format::BF16 | Format::DL16 | Format::DL16INF | Format::I16 => 2,
            Format::F8E4M3FN
            | Format::F8E5M2
            | Format::F8E5M2FNUZ
            | Format::I8
            | Format::U8
            | Format::Bool => 1,
        }
    }

    /// The name, as PyTorch spells it where PyTorch has the format.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Format::F64 => "float64",
            Format::F32 => "float32",
            Format::F16 => "float16",
            Format::BF16 => "bfloat16",
            Format::DL16 => "dl16",
            Format::DL16INF => "dl16_inf",
            Format::F8E4M3FN => "float8_e4m3fn",
            Format::F8E5M2 => "float8_e5m2",
            Format::F8E5M2FNUZ => "float8_e5m2fnuz",
            Format::I64 => "int64",
            Format::I32 => "int32",
            Format::I16 => "int16",
            Format::I8 => "int8",
            Format::U8 => "uint8",
            Format::U32 => "uint32",
            Format::Bool => "bool",
        }
    }

    /// The format of that [`name`](Format::name).
    #[must_use]
    pub fn from_name(name: &str) -> Option<Format> {
        Format::ALL.into_iter().find(|format| format.name() == name)
    }

    /// The format without a meaning of its own for some numbers: DL16INF is DL16 to arithmetic.
    #[must_use]
    pub const fn arithmetic_format(self) -> Format {
        match self {
            Format::DL16INF => Format::DL16,
            other => other,
        }
    }

    /// Whether values have a fraction.
    #[must_use]
    pub const fn is_float(self) -> bool {
        matches!(
            self,
            Format::F64
                | Format::F32
                | Format::F16
                | Format::BF16
                | Format::DL16
                | Format::DL16INF
                | Format::F8E4M3FN
                | Format::F8E5M2
                | Format::F8E5M2FNUZ
        )
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for format in Format::ALL {
            assert_eq!(Format::from_name(format.name()), Some(format));
        }
        assert_eq!(Format::from_name("complex64"), None);
    }
}
