//! Logarithms.

use std::f64::consts::{LN_2, LOG2_E, LOG10_E};

use super::exp::exp64;

/// e and s for x = 2^e m, m within a factor of sqrt 2 of one, s = (m - 1) / (m + 1).
///
/// `exact` replaces `m - 1` where e is 0, for an x that is a rounded sum.
#[inline(always)]
fn split_mantissa(x: f64, exact: Option<f64>) -> (f64, f64) {
    const SQRT_HALF: u64 = std::f64::consts::FRAC_1_SQRT_2.to_bits();
    const ONE: u64 = 1.0f64.to_bits();
    // The exponent in the low bits of 2^52 is a whole number of that value.
    const INTEGER_OFFSET: f64 = 4_503_599_627_370_496.0;
    // The mantissa is taken between sqrt 1/2 and sqrt 2 and not between 1 and 2, so that the logarithm of a number
    // just below 1 is no difference of two large ones.
    let moved = x.to_bits().wrapping_add(ONE - SQRT_HALF);
    let e = f64::from_bits((moved >> 52) | INTEGER_OFFSET.to_bits()) - (INTEGER_OFFSET + 1023.0);
    let m = f64::from_bits((moved & ((1 << 52) - 1)) + SQRT_HALF);
    let f = m - 1.0;
    let f = match exact {
        Some(exact) => {
            if e == 0.0 {
                exact
            } else {
                f
            }
        }
        None => f,
    };
    // In s the series has odd powers only, and converges faster than one in f.
    (e, f / (f + 2.0))
}

/// ln of (1 + s) / (1 - s); within 6e-12 of it for s of `split`.
#[inline(always)]
fn log_series(s: f64) -> f64 {
    let z = s * s;
    let p = super::evaluate_polynomial(
        z,
        [
            0.666_666_656_404_029_9,
            0.400_003_393_626_543_46,
            0.285_369_206_446_628_8,
            0.235_912_311_800_367_25,
        ],
    );
    s * (2.0 + z * p)
}

/// `y`, or the logarithm of an `x` that has none or an infinite one.
#[inline(always)]
fn guard_log_domain(x: f64, y: f64) -> f64 {
    let other = if x == 0.0 { f64::NEG_INFINITY } else { f64::NAN };
    let other = if x > 0.0 { f64::INFINITY } else { other };
    if x > 0.0 && x < f64::INFINITY { y } else { other }
}

/// ln x in float64, within 1e-11 of it, for normal x.
#[inline(always)]
pub(super) fn log64(x: f64) -> f64 {
    let (e, s) = split_mantissa(x, None);
    guard_log_domain(x, e * LN_2 + log_series(s))
}

/// ln (1 + x) in float64, within 1e-11 of it.
#[inline(always)]
pub(super) fn log1p_64(x: f64) -> f64 {
    let sum = 1.0 + x;
    let (e, s) = split_mantissa(sum, Some(x));
    guard_log_domain(sum, e * LN_2 + log_series(s))
}

/// The natural logarithm.
///
/// Within 0.501 ulp.
#[inline(always)]
pub fn log(x: f32) -> f32 {
    log64(f64::from(x)) as f32
}

/// The logarithm to base two.
///
/// Within 0.501 ulp.
#[inline(always)]
pub fn log2(x: f32) -> f32 {
    let x = f64::from(x);
    let (e, s) = split_mantissa(x, None);
    guard_log_domain(x, e + log_series(s) * LOG2_E) as f32
}

/// The logarithm to base ten.
///
/// Within 0.501 ulp.
#[inline(always)]
pub fn log10(x: f32) -> f32 {
    (log64(f64::from(x)) * LOG10_E) as f32
}

/// ln (1 + x).
///
/// Within 0.501 ulp.
#[inline(always)]
pub fn log1p(x: f32) -> f32 {
    (log1p_64(f64::from(x)) as f32).copysign(x)
}

/// ln (e^a + e^b).
///
/// Within 0.51 ulp of the result plus 1e-9, which shows where the result is near zero.
#[inline(always)]
pub fn logaddexp(a: f32, b: f32) -> f32 {
    let (x, y) = (f64::from(a), f64::from(b));
    let high = if x > y { x } else { y };
    let sum = high + log1p_64(exp64(-(x - y).abs()));
    // Equal infinities have no difference.
    let sum = if x == y && x.is_infinite() { x } else { sum };
    (if x.is_nan() || y.is_nan() { f64::NAN } else { sum }) as f32
}

/// The inverse hyperbolic sine.
///
/// Within 0.501 ulp.
#[inline(always)]
pub fn asinh(x: f32) -> f32 {
    let a = f64::from(x).abs();
    // The root less 1 by its conjugate, without the difference.
    let rest = a * a / (1.0 + (a * a + 1.0).sqrt());
    let y = log1p_64(a + rest);
    (if a == f64::INFINITY { a } else { y } as f32).copysign(x)
}

/// The inverse hyperbolic cosine.
///
/// Within 0.501 ulp.
#[inline(always)]
pub fn acosh(x: f32) -> f32 {
    let f = f64::from(x) - 1.0;
    let y = log1p_64(f + (f * (f + 2.0)).sqrt());
    (if x < 1.0 { f64::NAN } else { y }) as f32
}

/// The inverse hyperbolic tangent.
///
/// Within 0.501 ulp.
#[inline(always)]
pub fn atanh(x: f32) -> f32 {
    let a = f64::from(x).abs();
    ((0.5 * log1p_64(2.0 * a / (1.0 - a))) as f32).copysign(x)
}
