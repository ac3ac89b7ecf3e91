//! Exponentials and what is built from one of them.

use std::f64::consts::{LN_2, LOG2_E};

use super::{clamp_f64, evaluate_polynomial};

/// 1.5 * 2^52: adding it rounds to an integer, which is then in the low bits.
pub(super) const ROUNDING_MAGIC: f64 = 6_755_399_441_055_744.0;

/// 1.5 * 2^23 does so for float32; the 254 more make the low bits the sum of two exponent fields.
const EXPONENT_SHIFT: f32 = 12_582_912.0 + 254.0;

/// Beyond this the exponential leaves float32 by far, and stays well within float64.
const CLAMPED_EXPONENT: f64 = 200.0;

/// From here on it is infinite in float64, because the power of two is.
const OVERFLOW_EXPONENT: f64 = 710.0;

/// ln 2 in two parts: products of the first with a whole number of up to 15 bits are exact.
const LN_2_HIGH: f32 = 355.0 / 512.0;
const LN_2_LOW: f32 = -2.121_944_4e-4;

/// e^x.
///
/// Within 0.97 ulp.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    // Past these bounds the result is 0 or infinite anyway, and the exponent fields below would overflow.
    // Comparisons and not `min` and `max`, because NaN has to stay.
    let x = if x < -104.0 { -104.0 } else { x };
    let x = if x > 89.0 { 89.0 } else { x };
    let shifted = x * std::f32::consts::LOG2_E + EXPONENT_SHIFT;
    let n = shifted - EXPONENT_SHIFT;
    // The large part of ln 2 first: its product is exact, and so is the difference of two numbers that are nearly
    // equal.
    let y = expm1_series((x - n * LN_2_HIGH) - n * LN_2_LOW) + 1.0;
    // Two factors: 2^n alone may be no normal number, and the last product rounds once.
    let bits = shifted.to_bits();
    let half = bits >> 1;
    let (low, high) = (half << 23, bits.wrapping_sub(half) << 23);
    (y * f32::from_bits(low)) * f32::from_bits(high)
}

/// e^r - 1 within 3e-9, for |r| <= ln 2 / 2.
#[inline(always)]
fn expm1_series(r: f32) -> f32 {
    // Short chains of operations: the processor works on several at once.
    let rr = r * r;
    let q = (4.166_84e-2 + r * 8.368_851e-3) + rr * 1.381_435e-3;
    let q = (4.999_999_3e-1 + r * 1.666_652e-1) + rr * q;
    q * rr + r
}

/// (w + rest) e^(-a^2 / 2) for 0 <= a <= 16, without the rounding of a^2; `rest` is small beside `w`.
#[inline(always)]
pub(super) fn multiply_by_gauss(w: f32, rest: f32, a: f32) -> f32 {
    // 1.5 * 2^23 as above, the bias of the exponent, and 100 to keep the power normal.
    const SHIFT: f32 = 12_582_912.0 + 127.0 + 100.0;
    const BACK: f32 = f32::from_bits((127 - 100) << 23);
    let square = a * a;
    let lost = a.mul_add(a, -square);
    let shifted = square.mul_add(-0.5 * std::f32::consts::LOG2_E, SHIFT);
    let n = shifted - SHIFT;
    let r = n.mul_add(-LN_2_HIGH, -0.5 * square) - n.mul_add(LN_2_LOW, 0.5 * lost);
    // As `expm1_series`, fused.
    let rr = r * r;
    let q = r.mul_add(r.mul_add(1.381_435e-3, 8.368_851e-3), 4.166_84e-2);
    let q = rr.mul_add(q, r.mul_add(1.666_652e-1, 4.999_999_3e-1));
    let s = rr.mul_add(q, r);
    // What the first has lost to rounding comes with the rest.
    let y = w.mul_add(s, w);
    let y = y + (w.mul_add(s, w - y) + rest.mul_add(s, rest));
    (y * f32::from_bits(shifted.to_bits() << 23)) * BACK
}

/// 2^n and (e^r - 1) for x = n ln 2 + r, |r| <= ln 2 / 2; within 3e-10 of it.
#[inline(always)]
fn split_power_of_two(n_of: f64, reduced: impl Fn(f64) -> f64) -> (f64, f64) {
    let shifted = n_of + ROUNDING_MAGIC;
    let r = reduced(shifted - ROUNDING_MAGIC);
    // The whole number is in the low bits of the sum; with the bias added and shifted up it is an exponent field.
    let power = f64::from_bits((shifted.to_bits().wrapping_add(1023)) << 52);
    let q = evaluate_polynomial(
        r,
        [
            0.999_999_999_990_908,
            0.500_000_004_770_145_5,
            0.166_666_668_555_134_3,
            0.041_666_350_333_281_45,
            0.008_333_268_163_340_024,
            0.001_394_132_062_988_061,
            0.000_199_161_125_375_060_8,
        ],
    );
    (power, r * q)
}

/// e^x in float64, within 3e-10 of it, infinite from 710 on; x below -200 counts as -200.
#[inline(always)]
pub(super) fn exp64(x: f64) -> f64 {
    let x = clamp_f64(x, -CLAMPED_EXPONENT, OVERFLOW_EXPONENT);
    let (power, rest) = split_power_of_two(x * LOG2_E, |n| x - n * LN_2);
    power * (1.0 + rest)
}

/// e^x - 1 in float64, within 1e-9 of it; x beyond 200 counts as 200.
#[inline(always)]
pub(super) fn expm1_64(x: f64) -> f64 {
    let x = clamp_f64(x, -CLAMPED_EXPONENT, CLAMPED_EXPONENT);
    let (power, rest) = split_power_of_two(x * LOG2_E, |n| x - n * LN_2);
    // Not `power * (1 + rest) - 1`, which would lose the digits of a small x.
    power * rest + (power - 1.0)
}

/// 2^x.
///
/// Within 0.502 ulp.
#[inline(always)]
pub fn exp2(x: f32) -> f32 {
    let x = clamp_f64(f64::from(x), -CLAMPED_EXPONENT, CLAMPED_EXPONENT);
    let (power, rest) = split_power_of_two(x, |n| (x - n) * LN_2);
    (power * rest + power) as f32
}

/// e^x - 1.
///
/// Within 0.505 ulp.
#[inline(always)]
pub fn expm1(x: f32) -> f32 {
    (expm1_64(f64::from(x)) as f32).copysign(x)
}

/// The hyperbolic tangent.
///
/// Within 0.505 ulp.
#[inline(always)]
pub fn tanh(x: f32) -> f32 {
    let e = expm1_64(2.0 * f64::from(x));
    // By e^x - 1 and not by two exponentials, whose difference loses the digits of a small x. The sign is copied
    // for zero, which the formula makes positive.
    ((e / (e + 2.0)) as f32).copysign(x)
}

/// The hyperbolic sine.
///
/// Within 0.504 ulp.
#[inline(always)]
pub fn sinh(x: f32) -> f32 {
    let e = expm1_64(f64::from(x).abs());
    ((0.5 * (e + e / (e + 1.0))) as f32).copysign(x)
}

/// The hyperbolic cosine.
///
/// Within 0.502 ulp.
#[inline(always)]
pub fn cosh(x: f32) -> f32 {
    let e = exp64(f64::from(x));
    (0.5 * (e + 1.0 / e)) as f32
}

/// 1 / (1 + e^-x).
///
/// Within 0.502 ulp.
#[inline(always)]
pub fn sigmoid(x: f32) -> f32 {
    // An infinite exponential gives 0, which is the limit.
    (1.0 / (1.0 + exp64(-f64::from(x)))) as f32
}
