//! Element formats of the device and the PyTorch dtypes that are stored in them.

use crate::error::{Error, Result};
use std::fmt;

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
}

impl DataFormat {
    /// Every format, by number.
    pub const ALL: [DataFormat; 19] = [
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
    ];

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
            | DataFormat::BFLOAT16 => Some(16),
            DataFormat::IEEE_FP32 | DataFormat::IEEE_INT32 | DataFormat::SENUINT32 => Some(32),
            DataFormat::IEEE_INT64 => Some(64),
            DataFormat::INVALID
            | DataFormat::SEN153_FP9
            | DataFormat::SENINT24
            | DataFormat::SEN18F_FP24 => None,
        }
    }

    /// Elements in a stick; `None` where the device has no storage geometry for the format.
    pub fn elems_per_stick(self) -> Option<i64> {
        match self {
            DataFormat::IEEE_FP16 => None,
            _ => self.bits().map(|bits| STICK_BYTES * 8 / bits),
        }
    }

    /// Elements in a stick, or the reason why the device cannot hold the format.
    pub(crate) fn stick(self) -> Result<i64> {
        self.elems_per_stick().ok_or_else(|| {
            let stored = DataFormat::ALL.into_iter().filter(|f| f.elems_per_stick().is_some());
            let supported = stored.map(DataFormat::name).collect::<Vec<_>>().join(", ");
            Error::UnsupportedDtype { dtype: self.name().to_string(), supported }
        })
    }
}

impl fmt::Display for DataFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

macro_rules! dtypes {
    ($($variant:ident $name:literal $bits:literal $host:expr, $device:expr;)*) => {
        /// An element type of PyTorch, under its PyTorch name.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Dtype {
            $(#[doc = concat!("`", $name, "`")] $variant,)*
        }

        impl Dtype {
            /// Every dtype.
            pub const ALL: &'static [Dtype] = &[$(Dtype::$variant),*];

            /// Its name without the prefix `torch.`.
            pub fn name(self) -> &'static str {
                match self { $(Dtype::$variant => $name,)* }
            }

            /// Bits of one element in host memory.
            pub fn bits(self) -> i64 {
                match self { $(Dtype::$variant => $bits,)* }
            }

            /// Host and device format, where the device stores the dtype.
            fn formats(self) -> Option<(DataFormat, DataFormat)> {
                use DataFormat::*;
                let pair: (Option<DataFormat>, Option<DataFormat>) =
                    match self { $(Dtype::$variant => ($host, $device),)* };
                pair.0.zip(pair.1)
            }
        }
    };
}

dtypes! {
    Float64 "float64" 64 None, None;
    Float32 "float32" 32 Some(IEEE_FP32), Some(IEEE_FP32);
    Float16 "float16" 16 Some(IEEE_FP16), Some(SEN169_FP16);
    Bfloat16 "bfloat16" 16 Some(BFLOAT16), Some(SEN169_FP16);
    Float8E4m3fn "float8_e4m3fn" 8 Some(SEN143_FP8), Some(SEN143_FP8);
    Float8E4m3fnuz "float8_e4m3fnuz" 8 None, None;
    Float8E5m2 "float8_e5m2" 8 Some(SEN152_FP8), Some(SEN152_FP8);
    Float8E5m2fnuz "float8_e5m2fnuz" 8 Some(SEN152_FP8), Some(SEN152_FP8);
    Float4E2m1fn "float4_e2m1fn" 4 None, None;
    Int64 "int64" 64 Some(IEEE_INT64), Some(IEEE_INT32);
    Int32 "int32" 32 Some(IEEE_INT32), Some(IEEE_INT32);
    Int16 "int16" 16 Some(SENINT16), Some(SENINT16);
    Int8 "int8" 8 Some(SENINT8), Some(SENINT8);
    Int4 "int4" 4 Some(SENINT4), Some(SENINT4);
    Int2 "int2" 2 Some(SENINT2), Some(SENINT2);
    Uint64 "uint64" 64 None, None;
    Uint32 "uint32" 32 None, None;
    Uint16 "uint16" 16 None, None;
    Uint8 "uint8" 8 Some(SENUINT32), Some(SENUINT32);
    Uint4 "uint4" 4 Some(SENINT4), Some(SENINT4);
    Uint2 "uint2" 2 Some(SENUINT2), Some(SENUINT2);
    Bool "bool" 8 Some(BOOL), Some(SEN169_FP16);
    Complex32 "complex32" 32 None, None;
    Complex64 "complex64" 64 None, None;
    Complex128 "complex128" 128 None, None;
    Qint8 "qint8" 8 Some(SENINT8), Some(SENINT8);
    Quint8 "quint8" 8 Some(SENUINT32), Some(SENUINT32);
    Qint32 "qint32" 32 None, None;
    Quint4x2 "quint4x2" 4 Some(SENINT4), Some(SENINT4);
    Quint2x4 "quint2x4" 2 Some(SENUINT2), Some(SENUINT2);
}

impl Dtype {
    /// The dtype of that name, with or without the prefix `torch.`; the names are listed where it
    /// is none.
    pub fn from_name(name: &str) -> Result<Dtype> {
        let bare = name.strip_prefix("torch.").unwrap_or(name);
        let bare = match bare {
            "half" => "float16",
            "float" => "float32",
            "double" => "float64",
            "short" => "int16",
            "int" => "int32",
            "long" => "int64",
            other => other,
        };
        let known = Dtype::ALL.iter().copied().find(|d| d.name() == bare);
        // A name is user input of any length: quote enough to recognise it.
        known.ok_or_else(|| Error::UnknownDtype {
            dtype: name.chars().take(64).collect(),
            known: Dtype::ALL.iter().map(|d| d.name()).collect::<Vec<_>>().join(", "),
        })
    }

    /// The format of its elements in host memory.
    pub fn host_format(self) -> Result<DataFormat> {
        self.formats().map(|(host, _)| host).ok_or_else(|| Dtype::unsupported(self.name().into()))
    }

    /// The format in which the device stores it.
    pub fn device_format(self) -> Result<DataFormat> {
        let device = self.formats().map(|(_, device)| device);
        device.ok_or_else(|| Dtype::unsupported(self.name().into()))
    }

    fn unsupported(dtype: String) -> Error {
        let stored = Dtype::ALL.iter().filter(|d| d.formats().is_some());
        let supported = stored.map(|d| d.name()).collect::<Vec<_>>().join(", ");
        Error::UnsupportedDtype { dtype, supported }
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
