//! Element formats of the device, and which of them stores a PyTorch dtype.

use crate::error::{Result, StickError};
use std::fmt;
use zellige_float::{Dtype, Format};

/// Bytes in a stick, the unit of every transfer.
pub const STICK_BYTES: i64 = 128;

/// How an element is encoded, under its Spyre name and number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(non_camel_case_types, reason = "the names of the format list, which users compare")]
pub enum DataFormat {
    /// DLFloat16: 1 sign, 6 exponent and 9 fraction bits.
    SEN169_FP16 = 0,
    /// IEEE single precision.
    IEEE_FP32 = 1,
    /// No format at all.
    INVALID = 2,
    /// 8-bit float, 4 exponent and 3 fraction bits.
    SEN143_FP8 = 3,
    /// 8-bit float, 5 exponent and 2 fraction bits.
    SEN152_FP8 = 4,
    /// 9-bit float of the compute units; it is never stored.
    SEN153_FP9 = 5,
    /// 2-bit signed integer.
    SENINT2 = 6,
    /// 4-bit signed integer.
    SENINT4 = 7,
    /// 8-bit signed integer.
    SENINT8 = 8,
    /// 16-bit signed integer.
    SENINT16 = 9,
    /// 24-bit signed integer of the compute units; it is never stored.
    SENINT24 = 10,
    /// 64-bit signed integer.
    IEEE_INT64 = 11,
    /// 32-bit signed integer.
    IEEE_INT32 = 12,
    /// 32-bit unsigned integer.
    SENUINT32 = 13,
    /// 2-bit unsigned integer.
    SENUINT2 = 14,
    /// IEEE half precision; a format of host memory.
    IEEE_FP16 = 15,
    /// One byte, 0 or 1.
    BOOL = 16,
    /// bfloat16.
    BFLOAT16 = 17,
    /// 24-bit float of the compute units; it is never stored.
    SEN18F_FP24 = 18,
    /// IEEE double precision. From here on the names are ours: the card has no such format and computes
    /// with none of them, and only holds their elements.
    IEEE_FP64 = 19,
    /// Two numbers of IEEE single precision.
    COMPLEX64 = 20,
    /// Two numbers of IEEE double precision.
    COMPLEX128 = 21,
    /// 16-bit unsigned integer.
    UINT16 = 22,
    /// 64-bit unsigned integer.
    UINT64 = 23,
}

impl DataFormat {
    /// Every format, by number.
    pub const ALL: [DataFormat; 24] = [
        DataFormat::SEN169_FP16,
        DataFormat::IEEE_FP32,
        DataFormat::INVALID,
        DataFormat::SEN143_FP8,
        DataFormat::SEN152_FP8,
        DataFormat::SEN153_FP9,
        DataFormat::SENINT2,
        DataFormat::SENINT4,
        DataFormat::SENINT8,
        DataFormat::SENINT16,
        DataFormat::SENINT24,
        DataFormat::IEEE_INT64,
        DataFormat::IEEE_INT32,
        DataFormat::SENUINT32,
        DataFormat::SENUINT2,
        DataFormat::IEEE_FP16,
        DataFormat::BOOL,
        DataFormat::BFLOAT16,
        DataFormat::SEN18F_FP24,
        DataFormat::IEEE_FP64,
        DataFormat::COMPLEX64,
        DataFormat::COMPLEX128,
        DataFormat::UINT16,
        DataFormat::UINT64,
    ];

    /// Whether the card only holds such elements and does not compute with them; such a format has no name
    /// in torch-spyre.
    pub fn is_held_only(self) -> bool {
        self.value() >= DataFormat::IEEE_FP64.value()
    }

    /// The name without a prefix: `SEN169_FP16`.
    pub fn name(self) -> &'static str {
        match self {
            DataFormat::SEN169_FP16 => "SEN169_FP16",
            DataFormat::IEEE_FP32 => "IEEE_FP32",
            DataFormat::INVALID => "INVALID",
            DataFormat::SEN143_FP8 => "SEN143_FP8",
            DataFormat::SEN152_FP8 => "SEN152_FP8",
            DataFormat::SEN153_FP9 => "SEN153_FP9",
            DataFormat::SENINT2 => "SENINT2",
            DataFormat::SENINT4 => "SENINT4",
            DataFormat::SENINT8 => "SENINT8",
            DataFormat::SENINT16 => "SENINT16",
            DataFormat::SENINT24 => "SENINT24",
            DataFormat::IEEE_INT64 => "IEEE_INT64",
            DataFormat::IEEE_INT32 => "IEEE_INT32",
            DataFormat::SENUINT32 => "SENUINT32",
            DataFormat::SENUINT2 => "SENUINT2",
            DataFormat::IEEE_FP16 => "IEEE_FP16",
            DataFormat::BOOL => "BOOL",
            DataFormat::BFLOAT16 => "BFLOAT16",
            DataFormat::SEN18F_FP24 => "SEN18F_FP24",
            DataFormat::IEEE_FP64 => "IEEE_FP64",
            DataFormat::COMPLEX64 => "COMPLEX64",
            DataFormat::COMPLEX128 => "COMPLEX128",
            DataFormat::UINT16 => "UINT16",
            DataFormat::UINT64 => "UINT64",
        }
    }

    /// The format of that name, with or without the prefix `DataFormats.`.
    pub fn from_name(name: &str) -> Option<DataFormat> {
        let name = name.strip_prefix("DataFormats.").unwrap_or(name);
        DataFormat::ALL.into_iter().find(|f| f.name() == name)
    }

    /// The number of the format.
    pub fn value(self) -> i64 {
        self as i64
    }

    /// The format of that number.
    pub fn from_value(value: i64) -> Option<DataFormat> {
        DataFormat::ALL.into_iter().find(|f| f.value() == value)
    }

    /// Bits of one stored element; `None` for formats that are never stored.
    pub fn bits(self) -> Option<i64> {
        match self {
            DataFormat::SENINT2 | DataFormat::SENUINT2 => Some(2),
            DataFormat::SENINT4 => Some(4),
            DataFormat::SEN143_FP8
            | DataFormat::SEN152_FP8
            | DataFormat::SENINT8
            | DataFormat::BOOL => Some(8),
            DataFormat::SEN169_FP16
            | DataFormat::SENINT16
            | DataFormat::IEEE_FP16
            | DataFormat::BFLOAT16
            | DataFormat::UINT16 => Some(16),
            DataFormat::IEEE_FP32 | DataFormat::IEEE_INT32 | DataFormat::SENUINT32 => Some(32),
            DataFormat::IEEE_INT64
            | DataFormat::IEEE_FP64
            | DataFormat::COMPLEX64
            | DataFormat::UINT64 => Some(64),
            DataFormat::COMPLEX128 => Some(128),
            DataFormat::INVALID
            | DataFormat::SEN153_FP9
            | DataFormat::SENINT24
            | DataFormat::SEN18F_FP24 => None,
        }
    }

    /// Elements in a stick; `None` where the device has no storage geometry for the format.
    pub fn elems_per_stick(self) -> Option<i64> {
        match self {
            // IEEE half precision exists in host memory only: the device stores DLFloat16 instead.
            DataFormat::IEEE_FP16 => None,
            _ => self.bits().map(|bits| STICK_BYTES * 8 / bits),
        }
    }

    /// Its elements as numbers, where they fill whole bytes.
    pub fn element_number_format(self) -> Option<Format> {
        Some(match self {
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

    /// The format of a dtype's elements in host memory.
    pub fn host_format_of(dtype: Dtype) -> Result<DataFormat> {
        host_and_device_formats(dtype).map(|(host, _)| host).ok_or_else(|| unsupported_dtype(dtype))
    }

    /// The format in which the device stores a dtype.
    pub fn device_format_of(dtype: Dtype) -> Result<DataFormat> {
        host_and_device_formats(dtype)
            .map(|(_, device)| device)
            .ok_or_else(|| unsupported_dtype(dtype))
    }

    /// Elements in a stick, or the reason why the device cannot hold the format.
    pub(crate) fn require_elems_per_stick(self) -> Result<i64> {
        self.elems_per_stick().ok_or_else(|| {
            let stored = DataFormat::ALL.into_iter().filter(|f| f.elems_per_stick().is_some());
            let supported = stored.map(DataFormat::name).collect::<Vec<_>>().join(", ");
            StickError::UnsupportedDtype { dtype: self.name().to_string(), supported }
        })
    }
}

impl fmt::Display for DataFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Host and device format of a dtype, where the device stores it.
fn host_and_device_formats(dtype: Dtype) -> Option<(DataFormat, DataFormat)> {
    use DataFormat::{
        BFLOAT16, BOOL, IEEE_FP16, IEEE_FP32, IEEE_INT32, IEEE_INT64, SEN143_FP8, SEN152_FP8,
        SEN169_FP16, SENINT2, SENINT4, SENINT8, SENINT16, SENUINT2, SENUINT32,
    };
    let same = |format| Some((format, format));
    match dtype {
        Dtype::Float32 => same(IEEE_FP32),
        Dtype::Float16 => Some((IEEE_FP16, SEN169_FP16)),
        Dtype::Bfloat16 => Some((BFLOAT16, SEN169_FP16)),
        Dtype::Float8E4m3fn => same(SEN143_FP8),
        Dtype::Float8E5m2 | Dtype::Float8E5m2fnuz => same(SEN152_FP8),
        // The device computes with 32-bit integers, so 64-bit ones are narrowed on the way.
        Dtype::Int64 => Some((IEEE_INT64, IEEE_INT32)),
        Dtype::Int32 => same(IEEE_INT32),
        Dtype::Int16 => same(SENINT16),
        Dtype::Int8 | Dtype::Qint8 => same(SENINT8),
        // torch-spyre names a 2-bit format for `quint4x2`, which cannot hold four bits; the 4-bit
        // one is used instead.
        Dtype::Int4 | Dtype::Uint4 | Dtype::Quint4x2 => same(SENINT4),
        Dtype::Int2 => same(SENINT2),
        Dtype::Uint8 | Dtype::Quint8 => same(SENUINT32),
        Dtype::Uint2 | Dtype::Quint2x4 => same(SENUINT2),
        Dtype::Bool => Some((BOOL, SEN169_FP16)),
        Dtype::Float64
        | Dtype::Float8E4m3fnuz
        | Dtype::Float4E2m1fn
        | Dtype::Uint64
        | Dtype::Uint32
        | Dtype::Uint16
        | Dtype::Complex32
        | Dtype::Complex64
        | Dtype::Complex128
        | Dtype::Qint32 => None,
    }
}

fn unsupported_dtype(dtype: Dtype) -> StickError {
    let stored = Dtype::ALL.iter().filter(|d| host_and_device_formats(**d).is_some());
    let supported = stored.map(|d| d.name()).collect::<Vec<_>>().join(", ");
    StickError::UnsupportedDtype { dtype: dtype.name().into(), supported }
}

#[cfg(test)]
mod tests {
    use crate::*;

    #[test]
    fn numbers_have_the_bits_of_their_format() {
        for format in DataFormat::ALL {
            if let Some(found) = format.element_number_format() {
                assert_eq!(i64::try_from(found.byte_size() * 8).ok(), format.bits(), "{format}");
            }
        }
    }
}
