//! What the elements of a move are: bytes that stay as they are, or numbers that change format.

use crate::engine::MoveError;
use zellige_float::Format;
use zellige_layout::{DataFormat, Dtype};

/// The elements of the two sides of a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dtypes {
    /// Elements of so many bytes, moved as they are: 1, 2, 4, 8 or 16.
    Bytes(usize),
    /// Numbers, converted on the way where the two differ.
    Formats {
        /// The format that is read.
        from: Format,
        /// The format that is written.
        to: Format,
    },
}

impl From<Format> for Dtypes {
    fn from(format: Format) -> Dtypes {
        Dtypes::Bytes(format.size())
    }
}

impl From<(Format, Format)> for Dtypes {
    fn from((from, to): (Format, Format)) -> Dtypes {
        if from == to { from.into() } else { Dtypes::Formats { from, to } }
    }
}

impl Dtypes {
    /// From one dtype into another; every dtype of whole bytes into itself.
    ///
    /// # Errors
    /// [`MoveError::Dtype`] where elements are parts of bytes, or numbers in a format without a
    /// conversion.
    pub fn of(from: Dtype, to: Dtype) -> Result<Dtypes, MoveError> {
        if from == to {
            let width = usize::try_from(from.bits() / 8).ok().filter(|w| *w > 0);
            return width.map(Dtypes::Bytes).ok_or_else(|| bad(from, "elements of whole bytes"));
        }
        let format = |dtype| {
            format_of(dtype).ok_or_else(|| bad(dtype, "conversions are between these dtypes"))
        };
        Ok((format(from)?, format(to)?).into())
    }

    /// Bytes of an element of the source.
    pub fn src_bytes(self) -> usize {
        match self {
            Dtypes::Bytes(width) => width,
            Dtypes::Formats { from, .. } => from.size(),
        }
    }

    /// Bytes of an element of the destination.
    pub fn dst_bytes(self) -> usize {
        match self {
            Dtypes::Bytes(width) => width,
            Dtypes::Formats { to, .. } => to.size(),
        }
    }
}

fn bad(dtype: Dtype, what: &'static str) -> MoveError {
    let known = Dtype::ALL.iter().filter(|d| format_of(**d).is_some());
    let known = known.map(|d| d.name()).collect::<Vec<_>>().join(", ");
    MoveError::Dtype { dtype: dtype.name(), what, known }
}

/// The number format of a dtype in host memory, where there are conversions for it.
pub fn format_of(dtype: Dtype) -> Option<Format> {
    Some(match dtype {
        Dtype::Float64 => Format::F64,
        Dtype::Float32 => Format::F32,
        Dtype::Float16 => Format::F16,
        Dtype::Bfloat16 => Format::BF16,
        Dtype::Float8E4m3fn => Format::F8E4M3FN,
        Dtype::Float8E5m2 => Format::F8E5M2,
        Dtype::Float8E5m2fnuz => Format::F8E5M2FNUZ,
        Dtype::Int64 => Format::I64,
        Dtype::Int32 | Dtype::Qint32 => Format::I32,
        Dtype::Int16 => Format::I16,
        Dtype::Int8 | Dtype::Qint8 => Format::I8,
        Dtype::Uint8 | Dtype::Quint8 => Format::U8,
        Dtype::Uint32 => Format::U32,
        Dtype::Bool => Format::Bool,
        _ => return None,
    })
}

/// The number format behind a format of the device, where it fills whole bytes.
pub fn device_format_of(format: DataFormat) -> Option<Format> {
    Some(match format {
        DataFormat::SEN169_FP16 => Format::DL16,
        DataFormat::IEEE_FP32 => Format::F32,
        DataFormat::IEEE_FP16 => Format::F16,
        DataFormat::BFLOAT16 => Format::BF16,
        DataFormat::SEN143_FP8 => Format::F8E4M3FN,
        DataFormat::SEN152_FP8 => Format::F8E5M2,
        DataFormat::IEEE_INT64 => Format::I64,
        DataFormat::IEEE_INT32 => Format::I32,
        DataFormat::SENINT16 => Format::I16,
        DataFormat::SENINT8 => Format::I8,
        DataFormat::SENUINT32 => Format::U32,
        DataFormat::BOOL => Format::Bool,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_have_the_bits_of_their_dtype() {
        for dtype in Dtype::ALL {
            let same = Dtypes::of(*dtype, *dtype);
            assert_eq!(same.is_ok(), dtype.bits() >= 8, "{dtype}");
            if let Some(format) = format_of(*dtype) {
                assert_eq!(i64::try_from(format.size() * 8), Ok(dtype.bits()), "{dtype}");
            }
        }
        for format in DataFormat::ALL {
            if let Some(found) = device_format_of(format) {
                assert_eq!(i64::try_from(found.size() * 8).ok(), format.bits(), "{format}");
            }
        }
        assert_eq!(Dtypes::of(Dtype::Complex128, Dtype::Complex128), Ok(Dtypes::Bytes(16)));
        let refused = Dtypes::of(Dtype::Uint16, Dtype::Float32).expect_err("no format");
        assert!(refused.to_string().contains("uint16"), "{refused}");
    }
}
