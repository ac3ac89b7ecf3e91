//! The values that padding is filled with, by name or by number.

use crate::between::PaddingFill;
use zellige_float::{Converter, Dtype, Format, format_bounds};

/// What to write into the padding of a destination.
///
/// With a neutral value, a reduction over the padded tensor has the result of the reduction over the elements.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PaddingValue {
    /// Nothing: padding keeps what it holds.
    Leave,
    /// Zero.
    Zero,
    /// Neutral for a sum, and for a matrix product: zero.
    Sum,
    /// Neutral for a maximum: minus infinity, or the lowest number where there is none.
    Max,
    /// Neutral for a minimum: infinity, or the highest number where there is none.
    Min,
    /// An integer.
    Integer(i64),
    /// A number with a fraction, an infinity or a NaN.
    Real(f64),
}

/// A padding value that is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PaddingError {
    /// A word that is no padding.
    #[error("unknown fill `{0}`; accepted: leave, zero, sum, max, min or a number")]
    Unknown(String),
    /// A number that the format does not hold.
    #[error("{dtype} does not hold {value}; its numbers go from {low} to {high}")]
    Range {
        /// The dtype.
        dtype: &'static str,
        /// The number that was requested.
        value: String,
        /// The lowest number.
        low: String,
        /// The highest number.
        high: String,
    },
    /// A dtype without a number format.
    #[error("padding of {dtype} is filled with zero or left; `{asked}` needs a number format")]
    NoNumbers {
        /// The dtype.
        dtype: &'static str,
        /// The value that was requested.
        asked: String,
    },
}

/// An element for padding.
#[derive(Debug, Clone, PartialEq)]
pub struct FillElement {
    /// Its bytes in memory.
    pub bytes: Vec<u8>,
    /// The number that they stand for, after rounding to the format.
    pub value: f64,
}

impl PaddingValue {
    /// Reads `leave`, `zero`, `sum`, `max`, `min` or a number.
    pub fn parse(text: &str) -> Result<PaddingValue, PaddingError> {
        let text = text.trim();
        Ok(match text {
            "leave" => PaddingValue::Leave,
            "zero" => PaddingValue::Zero,
            "sum" => PaddingValue::Sum,
            "max" => PaddingValue::Max,
            "min" => PaddingValue::Min,
            _ => match (text.parse(), text.parse()) {
                (Ok(integer), _) => PaddingValue::Integer(integer),
                (_, Ok(real)) => PaddingValue::Real(real),
                _ => return Err(PaddingError::Unknown(text.chars().take(40).collect())),
            },
        })
    }

    /// Whether a plan lists the padding.
    pub fn fill_mode(self) -> PaddingFill {
        if self == PaddingValue::Leave { PaddingFill::Leave } else { PaddingFill::Padding }
    }

    /// The element to write, in a dtype; none where padding is left.
    ///
    /// A float is rounded to the format; what is past its largest number, or what an integer format
    /// would change in any way, is refused.
    pub fn element_for_dtype(self, dtype: Dtype) -> Result<Option<FillElement>, PaddingError> {
        let zero = || FillElement {
            bytes: vec![0; usize::try_from(dtype.bits() / 8).unwrap_or(0)],
            value: 0.0,
        };
        let number = |n: PaddingValue| {
            let asked = || self.to_string();
            let format = dtype
                .number_format()
                .ok_or_else(|| PaddingError::NoNumbers { dtype: dtype.name(), asked: asked() })?;
            n.element_in_format(format).map(Some).ok_or_else(|| {
                let (low, high) = format_bounds(format);
                PaddingError::Range {
                    dtype: dtype.name(),
                    value: asked(),
                    low: low.to_string(),
                    high: high.to_string(),
                }
            })
        };
        let end = |f: fn((f64, f64)) -> f64| {
            PaddingValue::Real(dtype.number_format().map_or(0.0, |format| f(format_bounds(format))))
        };
        match self {
            PaddingValue::Leave => Ok(None),
            PaddingValue::Zero | PaddingValue::Sum => Ok(Some(zero())),
            PaddingValue::Max => number(end(|b| b.0)),
            PaddingValue::Min => number(end(|b| b.1)),
            PaddingValue::Integer(0) => Ok(Some(zero())),
            other => number(other),
        }
    }

    /// The bytes of a number, where the format holds it.
    fn element_in_format(self, format: Format) -> Option<FillElement> {
        let cast = |from: Format, to: Format, bytes: &[u8]| {
            let mut out = vec![0; to.byte_size()];
            Converter::new(from, to).convert(bytes, &mut out, 1).ok().map(|()| out)
        };
        let f64_of = |from: Format, bytes: &[u8]| {
            let out = cast(from, Format::F64, bytes)?;
            out.try_into().ok().map(f64::from_le_bytes)
        };
        let (source, given, asked) = match self {
            PaddingValue::Integer(n) => {
                (Format::I64, n.to_le_bytes(), f64_of(Format::I64, &n.to_le_bytes())?)
            }
            PaddingValue::Real(r) => (Format::F64, r.to_le_bytes(), r),
            _ => return None,
        };
        let bytes = cast(source, format, &given)?;
        let value = f64_of(format, &bytes)?;
        // The converter rounds; whether the result still is the number that was requested is decided here.
        let held = if format.is_float() {
            // A format without an infinity may saturate to its largest number, which the result alone does not show.
            value.is_nan() == asked.is_nan()
                && value.is_finite() == asked.is_finite()
                && (asked.is_nan() || asked.abs() <= format_bounds(format).1)
        } else {
            // The ends of 64 bits are no numbers of binary64, so these are compared as integers too.
            value == asked || cast(format, source, &bytes)? == given
        };
        held.then_some(FillElement { bytes, value })
    }
}

impl std::fmt::Display for PaddingValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            PaddingValue::Leave => f.write_str("leave"),
            PaddingValue::Zero => f.write_str("zero"),
            PaddingValue::Sum => f.write_str("sum"),
            PaddingValue::Max => f.write_str("max"),
            PaddingValue::Min => f.write_str("min"),
            PaddingValue::Integer(n) => write!(f, "{n}"),
            PaddingValue::Real(r) => write!(f, "{r}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str, dtype: Dtype) -> Result<Option<Vec<u8>>, PaddingError> {
        Ok(PaddingValue::parse(text)?.element_for_dtype(dtype)?.map(|e| e.bytes))
    }

    #[test]
    fn neutral_values_of_every_format() {
        for dtype in Dtype::ALL.iter().copied().filter(|d| d.number_format().is_some()) {
            let format = dtype.number_format().expect("filtered");
            let value = |text: &str| {
                let element = PaddingValue::parse(text).and_then(|p| p.element_for_dtype(dtype));
                element.expect("held").expect("a value").value
            };
            assert_eq!((value("max"), value("min")), format_bounds(format), "{dtype}");
            assert_eq!((value("zero"), value("sum")), (0.0, 0.0));
            assert_eq!(value("1"), 1.0, "{dtype}");
        }
        assert_eq!(bytes("max", Dtype::Float16), Ok(Some(vec![0x00, 0xfc])));
        assert_eq!(bytes("max", Dtype::Int64), Ok(Some(i64::MIN.to_le_bytes().to_vec())));
        assert_eq!(bytes("min", Dtype::Int64), Ok(Some(i64::MAX.to_le_bytes().to_vec())));
        assert_eq!(bytes("max", Dtype::Float8E4m3fn), Ok(Some(vec![0xfe])));
    }

    #[test]
    fn numbers_are_held_or_refused() {
        assert_eq!(bytes("-1", Dtype::Int16), Ok(Some(vec![0xff, 0xff])));
        assert_eq!(bytes("1.5", Dtype::Float16), Ok(Some(vec![0x00, 0x3e])));
        let max = i64::MAX.to_string();
        assert_eq!(bytes(&max, Dtype::Int64), Ok(Some(i64::MAX.to_le_bytes().to_vec())));
        assert!(bytes("nan", Dtype::Float32).is_ok());
        assert_eq!(bytes("leave", Dtype::Int4), Ok(None));
        assert_eq!(bytes("zero", Dtype::Complex128), Ok(Some(vec![0; 16])));
        for (text, dtype, part) in [
            ("70000", Dtype::Float16, "float16 does not hold 70000"),
            ("1e39", Dtype::Float32, "does not hold"),
            ("inf", Dtype::Float8E4m3fn, "-448 to 448"),
            ("-1e9", Dtype::Float8E4m3fn, "does not hold -1000000000"),
            ("1.5", Dtype::Int32, "int32 does not hold 1.5"),
            ("256", Dtype::Uint8, "0 to 255"),
            ("-1", Dtype::Uint32, "does not hold -1"),
            ("2", Dtype::Bool, "0 to 1"),
            ("nan", Dtype::Int8, "does not hold NaN"),
            ("max", Dtype::Complex64, "complex64"),
            ("nothing", Dtype::Int8, "accepted: leave, zero"),
            ("", Dtype::Int8, "unknown fill"),
        ] {
            let error = bytes(text, dtype).expect_err(text).to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
