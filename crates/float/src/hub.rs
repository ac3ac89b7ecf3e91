//! Binary32 as the hub of all roundings.
//!
//! Narrow floats, and integers of up to 16 bits, are exact as binary32. Wider sources are *rounded
//! to odd* on their way to a narrow float: truncated, with the last bit set where anything was cut
//! off. A number so rounded is a tie, or on one side of a tie, exactly where the original is, as
//! long as the destination has at least two bits less; so rounding it again gives what rounding
//! the original once would have given. Every narrow destination has at most 11 bits of precision.

use crate::minifloat::{F32_INFINITY, F32_QUIET, F32_SIGN};

const F64_SIGN: u64 = 1 << 63;
const F64_INFINITY: u64 = 0x7ff << 52;
const F64_QUIET: u64 = 1 << 51;
/// Fraction bits of a binary64 that a binary32 has no place for.
const DROPPED_FRACTION_BITS: u32 = 52 - 23;
/// The exponent code of 2^-126, the smallest normal binary32.
const MIN_NORMAL: u32 = 1023 - 126;

/// Binary64 to binary32 bits, rounded to odd. An overflow is the largest finite number, which is
/// odd; an infinity stays; a NaN is quiet.
#[inline(always)]
#[allow(clippy::cast_possible_truncation, reason = "each cast is masked or shifted to fit")]
pub(crate) fn f64_to_odd(bits: u64) -> u32 {
    let sign = (bits >> 32) as u32 & F32_SIGN;
    let magnitude = bits & !F64_SIGN;
    let exponent = (magnitude >> 52) as u32;
    let fraction = magnitude & ((1 << 52) - 1);

    let sticky = u64::from(magnitude & ((1 << DROPPED_FRACTION_BITS) - 1) != 0);
    let normal =
        (magnitude.wrapping_sub(((1023 - 127) as u64) << 52) >> DROPPED_FRACTION_BITS) | sticky;
    // Below 2^-126 the fraction, with its leading bit, moves down one place per exponent. A
    // subnormal binary64 has no leading bit, but there any bit is only sticky.
    let shift = (DROPPED_FRACTION_BITS + MIN_NORMAL.saturating_sub(exponent)).min(63);
    let whole = fraction | 1 << 52;
    let nonzero = u64::from(magnitude != 0);
    let cut = u64::from(whole & ((1 << shift) - 1) != 0) & nonzero;
    let subnormal = ((whole >> shift) * nonzero) | cut;

    let finite = if exponent < MIN_NORMAL { subnormal } else { normal };
    let finite = finite.min(u64::from(F32_INFINITY - 1)) as u32;
    let nan = F32_INFINITY | F32_QUIET | (fraction >> DROPPED_FRACTION_BITS) as u32;
    sign | if magnitude < F64_INFINITY {
        finite
    } else if magnitude == F64_INFINITY {
        F32_INFINITY
    } else {
        nan
    }
}

/// A 64-bit integer to binary32 bits, rounded to odd.
#[inline(always)]
#[allow(clippy::cast_precision_loss, reason = "at most 53 bits are converted")]
pub(crate) fn i64_to_odd(value: i64) -> u32 {
    let magnitude = value.unsigned_abs();
    let high = (magnitude >> 11) | u64::from(magnitude & 0x7ff != 0);
    let odd = if magnitude < 1 << 53 { magnitude as f64 } else { high as f64 * 2048.0 };
    let sign = if value < 0 { F32_SIGN } else { 0 };
    sign | f64_to_odd(odd.to_bits())
}

/// Binary64 to binary32: to nearest, ties to even; a NaN is quiet and keeps its sign and the
/// leading bits of its payload.
#[inline(always)]
#[allow(clippy::cast_possible_truncation, reason = "rounding is the purpose")]
pub(crate) fn f64_to_f32(value: f64) -> f32 {
    let bits = value.to_bits();
    let nan = (bits >> 32) as u32 & F32_SIGN
        | F32_INFINITY
        | F32_QUIET
        | ((bits >> DROPPED_FRACTION_BITS) as u32 & 0x7f_ffff);
    if value.is_nan() { f32::from_bits(nan) } else { value as f32 }
}

/// Binary32 to binary64, exactly; a NaN is quiet and keeps its sign and payload.
#[inline(always)]
pub(crate) fn f32_to_f64(value: f32) -> f64 {
    let bits = u64::from(value.to_bits());
    let nan = (bits & u64::from(F32_SIGN)) << 32
        | F64_INFINITY
        | F64_QUIET
        | (bits & 0x7f_ffff) << DROPPED_FRACTION_BITS;
    if value.is_nan() { f64::from_bits(nan) } else { f64::from(value) }
}
