//! The element types of PyTorch, by name.

use crate::format::Format;
use std::fmt;

macro_rules! dtypes {
    ($($variant:ident $name:literal $bits:literal $format:expr;)*) => {
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

            /// The format of its elements in host memory, where there are conversions for it.
            pub fn number_format(self) -> Option<Format> {
                match self { $(Dtype::$variant => $format,)* }
            }
        }
    };
}

dtypes! {
    Float64 "float64" 64 Some(Format::F64);
    Float32 "float32" 32 Some(Format::F32);
    Float16 "float16" 16 Some(Format::F16);
    Bfloat16 "bfloat16" 16 Some(Format::BF16);
    Float8E4m3fn "float8_e4m3fn" 8 Some(Format::F8E4M3FN);
    Float8E4m3fnuz "float8_e4m3fnuz" 8 None;
    Float8E5m2 "float8_e5m2" 8 Some(Format::F8E5M2);
    Float8E5m2fnuz "float8_e5m2fnuz" 8 Some(Format::F8E5M2FNUZ);
    Float4E2m1fn "float4_e2m1fn" 4 None;
    Int64 "int64" 64 Some(Format::I64);
    Int32 "int32" 32 Some(Format::I32);
    Int16 "int16" 16 Some(Format::I16);
    Int8 "int8" 8 Some(Format::I8);
    Int4 "int4" 4 None;
    Int2 "int2" 2 None;
    Uint64 "uint64" 64 None;
    Uint32 "uint32" 32 Some(Format::U32);
    Uint16 "uint16" 16 None;
    Uint8 "uint8" 8 Some(Format::U8);
    Uint4 "uint4" 4 None;
    Uint2 "uint2" 2 None;
    Bool "bool" 8 Some(Format::Bool);
    Complex32 "complex32" 32 None;
    Complex64 "complex64" 64 None;
    Complex128 "complex128" 128 None;
    Qint8 "qint8" 8 Some(Format::I8);
    Quint8 "quint8" 8 Some(Format::U8);
    Qint32 "qint32" 32 Some(Format::I32);
    Quint4x2 "quint4x2" 4 None;
    Quint2x4 "quint2x4" 2 None;
}

impl Dtype {
    /// The dtype of that name, with or without the prefix `torch.`; the names are listed where it
    /// is none.
    pub fn from_name(name: &str) -> Result<Dtype, UnknownDtype> {
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
        known.ok_or_else(|| UnknownDtype { dtype: name.chars().take(64).collect() })
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is no dtype.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownDtype {
    /// The first characters of the name.
    pub dtype: String,
}

impl UnknownDtype {
    /// A stable identifier for programs, in snake case.
    pub fn kind(&self) -> &'static str {
        "unknown_dtype"
    }
}

impl fmt::Display for UnknownDtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = Dtype::ALL.iter().map(|d| d.name()).collect::<Vec<_>>().join(", ");
        write!(f, "unknown dtype `{}`; known: {known}", self.dtype)
    }
}

impl std::error::Error for UnknownDtype {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_have_the_bits_of_their_dtype() {
        for dtype in Dtype::ALL {
            assert_eq!(Dtype::from_name(&format!("torch.{dtype}")), Ok(*dtype));
            if let Some(format) = dtype.number_format() {
                assert_eq!(i64::try_from(format.byte_size() * 8), Ok(dtype.bits()), "{dtype}");
            }
        }
        assert_eq!(Dtype::from_name("torch.half"), Ok(Dtype::Float16));
        let refused = Dtype::from_name("float17").expect_err("no dtype").to_string();
        assert!(refused.starts_with("unknown dtype `float17`; known: float64, "), "{refused}");
    }
}
