//! What a conversion can change, known from the two formats alone.

use crate::convert::{ConvertError, Converter};
use crate::format::Format;
use std::fmt;

/// One way in which values of one format may differ after a conversion into another.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum ConversionLoss {
    /// Values are rounded to so many significant bits, those below the smallest step to zero.
    Rounds {
        /// Significant bits of the destination.
        digits: u32,
    },
    /// Magnitudes past the largest number become infinite.
    ToInfinity {
        /// The largest number of the destination.
        max: f64,
    },
    /// Magnitudes past the largest number, infinities included, become a NaN.
    ToNan {
        /// The largest number of the destination.
        max: f64,
    },
    /// Magnitudes past the largest number, infinities included, become the largest number.
    Saturates {
        /// The largest number of the destination.
        max: f64,
    },
    /// Fractions are cut off, a NaN becomes 0, and what is outside the range becomes its nearest end.
    Truncates {
        /// The lowest number of the destination.
        low: i64,
        /// The highest.
        high: i64,
    },
    /// Integers outside the range keep only their low bits.
    Wraps {
        /// The lowest number of the destination.
        low: i64,
        /// The highest.
        high: i64,
    },
    /// Minus zero becomes zero.
    SignOfZero,
    /// Everything but zero becomes 1.
    Truth,
}

impl fmt::Display for ConversionLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConversionLoss::Rounds { digits } => {
                write!(f, "values are rounded to {digits} significant bits")
            }
            ConversionLoss::ToInfinity { max } => {
                write!(f, "magnitudes past {max} become infinite")
            }
            ConversionLoss::ToNan { max } => write!(f, "magnitudes past {max} become NaN"),
            ConversionLoss::Saturates { max } => write!(f, "magnitudes past {max} become {max}"),
            ConversionLoss::Truncates { low, high } => {
                write!(f, "fractions are cut off and values end at {low} and {high}")
            }
            ConversionLoss::Wraps { low, high } => {
                write!(f, "values outside {low} to {high} wrap around")
            }
            ConversionLoss::SignOfZero => f.write_str("minus zero becomes zero"),
            ConversionLoss::Truth => f.write_str("everything but zero becomes 1"),
        }
    }
}

/// What magnitudes past the largest number become.
#[derive(Clone, Copy, PartialEq)]
enum OverflowRule {
    Infinity,
    Nan,
    Largest,
}

impl OverflowRule {
    fn overflow_loss(self, max: f64) -> ConversionLoss {
        match self {
            OverflowRule::Infinity => ConversionLoss::ToInfinity { max },
            OverflowRule::Nan => ConversionLoss::ToNan { max },
            OverflowRule::Largest => ConversionLoss::Saturates { max },
        }
    }
}

/// The numbers that a format holds.
enum FormatNumbers {
    Float { digits: u32, least: i32, max: f64, past: OverflowRule, minus_zero: bool },
    Integer { low: i64, high: i64 },
    Truth,
}

fn numbers_of_format(format: Format) -> FormatNumbers {
    let float = |digits, least, max, past| FormatNumbers::Float {
        digits,
        least,
        max,
        past,
        minus_zero: format != Format::F8E5M2FNUZ,
    };
    let integer = |low, high| FormatNumbers::Integer { low, high };
    match format {
        Format::F64 => float(53, -1074, f64::MAX, OverflowRule::Infinity),
        Format::F32 => float(24, -149, f64::from(f32::MAX), OverflowRule::Infinity),
        Format::F16 => float(11, -24, 65504.0, OverflowRule::Infinity),
        Format::BF16 => {
            float(8, -133, f64::from(f32::from_bits(0x7f7f_0000)), OverflowRule::Infinity)
        }
        // Without subnormals the step of the lowest binade is the smallest one.
        Format::DL16 => float(10, -40, 4_294_967_296.0 * (1.0 + 510.0 / 512.0), OverflowRule::Nan),
        Format::DL16INF => {
            float(10, -40, 2_147_483_648.0 * (1.0 + 509.0 / 512.0), OverflowRule::Infinity)
        }
        Format::F8E4M3FN => float(4, -9, 448.0, OverflowRule::Largest),
        Format::F8E5M2 => float(3, -16, 57344.0, OverflowRule::Infinity),
        Format::F8E5M2FNUZ => float(3, -17, 57344.0, OverflowRule::Nan),
        Format::I64 => integer(i64::MIN, i64::MAX),
        Format::I32 => integer(i32::MIN.into(), i32::MAX.into()),
        Format::I16 => integer(i16::MIN.into(), i16::MAX.into()),
        Format::I8 => integer(i8::MIN.into(), i8::MAX.into()),
        Format::U8 => integer(0, u8::MAX.into()),
        Format::U32 => integer(0, u32::MAX.into()),
        Format::Bool => FormatNumbers::Truth,
    }
}

/// Everything that a conversion can change; nothing where every value of `from` is one of `to`.
///
/// The payload of a NaN does not count, nor do the bits of a bool that stand for true.
///
/// ```
/// use zellige_float::{Format, conversion_losses};
/// assert!(conversion_losses(Format::F16, Format::F32).is_empty());
/// let losses = conversion_losses(Format::F32, Format::F16);
/// let sentences: Vec<String> = losses.iter().map(|l| l.to_string()).collect();
/// assert_eq!(
///     sentences,
///     ["values are rounded to 11 significant bits", "magnitudes past 65504 become infinite"]
/// );
/// ```
#[must_use]
pub fn conversion_losses(from: Format, to: Format) -> Vec<ConversionLoss> {
    let mut found = Vec::new();
    if from == to {
        return found;
    }
    match (numbers_of_format(from), numbers_of_format(to)) {
        // Zero and one are numbers of every format.
        (FormatNumbers::Truth, _) => {}
        (_, FormatNumbers::Truth) => found.push(ConversionLoss::Truth),
        (FormatNumbers::Float { .. }, FormatNumbers::Integer { low, high }) => {
            found.push(ConversionLoss::Truncates { low, high });
        }
        (FormatNumbers::Integer { low: a, high: b }, FormatNumbers::Integer { low, high }) => {
            if a < low || b > high {
                found.push(ConversionLoss::Wraps { low, high });
            }
        }
        (FormatNumbers::Integer { low, high }, FormatNumbers::Float { digits, max, past, .. }) => {
            // The lowest number is a power of two, the highest has every bit.
            if 64 - high.leading_zeros() > digits {
                found.push(ConversionLoss::Rounds { digits });
            }
            #[allow(clippy::cast_precision_loss, reason = "compared with powers of two apart")]
            let reach = (high as f64).max(-(low as f64));
            if reach > max {
                found.push(past.overflow_loss(max));
            }
        }
        (
            FormatNumbers::Float { digits: d, least: l, max: m, past: p, minus_zero: z },
            FormatNumbers::Float { digits, least, max, past, minus_zero },
        ) => {
            if digits < d || least > l {
                found.push(ConversionLoss::Rounds { digits });
            }
            if m > max || p == OverflowRule::Infinity && past != OverflowRule::Infinity {
                found.push(past.overflow_loss(max));
            }
            if z && !minus_zero {
                found.push(ConversionLoss::SignOfZero);
            }
        }
    }
    found
}

/// The lowest and highest number of a format, infinities included where it has them: what leaves a
/// maximum and a minimum unchanged.
///
/// ```
/// use zellige_float::{Format, format_bounds};
/// assert_eq!(format_bounds(Format::F16), (f64::NEG_INFINITY, f64::INFINITY));
/// assert_eq!(format_bounds(Format::F8E4M3FN), (-448.0, 448.0));
/// assert_eq!(format_bounds(Format::U8), (0.0, 255.0));
/// ```
#[must_use]
pub fn format_bounds(format: Format) -> (f64, f64) {
    match numbers_of_format(format) {
        FormatNumbers::Float { past: OverflowRule::Infinity, .. } => {
            (f64::NEG_INFINITY, f64::INFINITY)
        }
        FormatNumbers::Float { max, .. } => (-max, max),
        #[allow(clippy::cast_precision_loss, reason = "the ends of 64 bits saturate back")]
        FormatNumbers::Integer { low, high } => (low as f64, high as f64),
        FormatNumbers::Truth => (0.0, 1.0),
    }
}

/// The largest finite number of a format.
///
/// ```
/// use zellige_float::{Format, largest_finite};
/// assert_eq!(largest_finite(Format::F16), 65504.0);
/// assert_eq!(largest_finite(Format::DL16INF), 4_282_384_384.0);
/// ```
#[must_use]
pub fn largest_finite(format: Format) -> f64 {
    match numbers_of_format(format) {
        FormatNumbers::Float { max, .. } => max,
        #[allow(clippy::cast_precision_loss, reason = "the ends of 64 bits saturate back")]
        FormatNumbers::Integer { high, .. } => high as f64,
        FormatNumbers::Truth => 1.0,
    }
}

/// How many of `count` elements are another number after the conversion; a NaN is
/// the same as any other, and zero the same with either sign.
///
/// # Errors
/// [`ConvertError::TooShort`] where a buffer does not hold so many.
pub fn count_changed(
    (from, before): (Format, &[u8]),
    (to, after): (Format, &[u8]),
    count: usize,
) -> Result<u64, ConvertError> {
    // Every float is one of binary64, every integer one of 64 bits.
    let wide = |format: Format| if format.is_float() { Format::F64 } else { Format::I64 };
    const PART: usize = 1024;
    let (mut a, mut b) = ([0u8; 8 * PART], [0u8; 8 * PART]);
    let (first, second) = (Converter::new(from, wide(from)), Converter::new(to, wide(to)));
    let mut found = 0;
    let mut at = 0;
    first.check_source_len(before, count)?;
    second.check_source_len(after, count)?;
    while at < count {
        let part = PART.min(count - at);
        first.convert(&before[at * from.byte_size()..], &mut a, part)?;
        second.convert(&after[at * to.byte_size()..], &mut b, part)?;
        let pairs = a.chunks_exact(8).zip(b.chunks_exact(8)).take(part);
        found += pairs
            .filter(|(x, y)| {
                let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap_or_default());
                let (x, y) = (word(x), word(y));
                let real = f64::from_bits;
                !match (from.is_float(), to.is_float()) {
                    (true, true) => real(x) == real(y) || (real(x).is_nan() && real(y).is_nan()),
                    (false, false) => x == y,
                    (true, false) => equals_integer(real(x), y.cast_signed()),
                    (false, true) => equals_integer(real(y), x.cast_signed()),
                }
            })
            .count() as u64;
        at += part;
    }
    Ok(found)
}

/// Whether a float is exactly this integer.
fn equals_integer(real: f64, integer: i64) -> bool {
    #[allow(
        clippy::cast_possible_truncation,
        reason = "far wider than the integer, and saturating"
    )]
    let whole = real as i128;
    real.is_finite() && real.fract() == 0.0 && whole == i128::from(integer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cast(from: Format, to: Format, bits: u64) -> u64 {
        let mut out = [0; 8];
        Converter::new(from, to).convert(&bits.to_le_bytes(), &mut out, 1).expect("eight bytes");
        u64::from_le_bytes(out)
    }

    /// Whether a value is another one after the conversion; binary64 holds those of narrow formats.
    fn changes(from: Format, to: Format, bits: u64) -> bool {
        let value = |format, bits| f64::from_bits(cast(format, Format::F64, bits));
        let (before, after) = (value(from, bits), value(to, cast(from, to, bits)));
        let both_nan = before.is_nan() && after.is_nan();
        // An integer has no sign of zero to lose.
        let signed = from.is_float() && to.is_float();
        let same =
            before == after && (!signed || before.is_sign_negative() == after.is_sign_negative());
        !both_nan && !same
    }

    #[test]
    fn losses_are_those_of_every_code() {
        for from in Format::ALL.into_iter().filter(|f| f.byte_size() <= 2) {
            for to in Format::ALL {
                let codes = 0..1u64 << (8 * from.byte_size());
                let lossy = codes.into_iter().any(|bits| changes(from, to, bits));
                assert_eq!(lossy, !conversion_losses(from, to).is_empty(), "{from} -> {to}");
            }
        }
    }

    #[test]
    fn changed_elements_are_counted() {
        let count = |from: Format, to: Format, values: &[u64]| {
            let bytes = |format: Format, all: &mut dyn Iterator<Item = u64>| -> Vec<u8> {
                all.flat_map(|v| v.to_le_bytes()[..format.byte_size()].to_vec()).collect()
            };
            let before = bytes(from, &mut values.iter().copied());
            let after = bytes(to, &mut values.iter().map(|v| cast(from, to, *v)));
            count_changed((from, &before), (to, &after), values.len()).expect("long enough")
        };
        let at = |v: f64| v.to_bits();
        let values = [at(1.5), at(f64::NAN), at(-0.0), at(3.0), at(1e300), at(f64::INFINITY)];
        assert_eq!(count(Format::F64, Format::F16, &values), 1);
        assert_eq!(count(Format::F64, Format::I64, &values), 4);
        assert_eq!(count(Format::I64, Format::I8, &[127, 128, u64::MAX, 256]), 2);
        assert_eq!(count(Format::U8, Format::I8, &[127, 255]), 1);
        assert_eq!(count(Format::I64, Format::F32, &[1 << 62, i64::MAX.cast_unsigned(), 5]), 1);
        assert_eq!(count(Format::I64, Format::F32, &vec![(1 << 24) + 1; 3000]), 3000);
        for from in Format::ALL.into_iter().filter(|f| f.byte_size() <= 2 && *f != Format::Bool) {
            let codes: Vec<u64> = (0..1u64 << (8 * from.byte_size())).collect();
            for to in Format::ALL {
                let lossy =
                    conversion_losses(from, to).iter().any(|l| *l != ConversionLoss::SignOfZero);
                assert_eq!(count(from, to, &codes) > 0, lossy, "{from} -> {to}");
            }
        }
        assert!(count_changed((Format::F32, &[0; 7]), (Format::F16, &[0; 4]), 2).is_err());
    }

    #[test]
    fn losses_of_wide_formats_have_witnesses() {
        let at = |v: f64| v.to_bits();
        for (from, to, bits, loss) in [
            (
                Format::F32,
                Format::F16,
                u64::from(1.0001f32.to_bits()),
                ConversionLoss::Rounds { digits: 11 },
            ),
            (
                Format::F64,
                Format::F32,
                at(1e300),
                ConversionLoss::ToInfinity { max: f64::from(f32::MAX) },
            ),
            (
                Format::F64,
                Format::F8E4M3FN,
                at(449.0 * 2.0),
                ConversionLoss::Saturates { max: 448.0 },
            ),
            (Format::F64, Format::F8E5M2FNUZ, at(1e9), ConversionLoss::ToNan { max: 57344.0 }),
            (Format::F64, Format::I8, at(1.5), ConversionLoss::Truncates { low: -128, high: 127 }),
            (Format::I64, Format::I8, 128, ConversionLoss::Wraps { low: -128, high: 127 }),
            (Format::F64, Format::F8E5M2FNUZ, at(-0.0), ConversionLoss::SignOfZero),
            (Format::I64, Format::Bool, 2, ConversionLoss::Truth),
            (Format::I32, Format::F32, (1 << 24) + 1, ConversionLoss::Rounds { digits: 24 }),
        ] {
            assert!(
                conversion_losses(from, to).contains(&loss),
                "{from} -> {to}: {:?}",
                conversion_losses(from, to)
            );
            assert!(changes(from, to, bits), "{from} -> {to} {bits:#x}");
        }
        // Where no loss is reported there is none: the ends and some numbers between them.
        for (from, to) in [(Format::F32, Format::F64), (Format::I32, Format::F64)] {
            assert!(conversion_losses(from, to).is_empty());
            for i in 0..1u64 << 16 {
                let bits = i.wrapping_mul(0x9e37_79b9) & 0xffff_ffff;
                assert!(!changes(from, to, bits), "{from} -> {to} {bits:#x}");
            }
        }
        assert!(conversion_losses(Format::U32, Format::I64).is_empty());
        assert!(conversion_losses(Format::I32, Format::I64).is_empty());
        assert!(!conversion_losses(Format::U32, Format::I32).is_empty());
    }
}
