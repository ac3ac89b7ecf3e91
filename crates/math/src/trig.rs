//! Circular functions and their inverses.

use std::f64::consts::{FRAC_2_PI, FRAC_PI_2, PI};

use super::evaluate_polynomial;
use super::exp::ROUNDING_MAGIC;

/// The formulas below hold up to here; beyond, libm reduces the angle with more digits of pi.
pub(super) const REDUCTION_LIMIT: f32 = 1_048_576.0;

/// Whether [`sin`], [`cos`] and [`tan`] need their slow path.
#[inline(always)]
pub(super) fn is_far(x: f32) -> bool {
    x.abs() > REDUCTION_LIMIT
}

/// sin r, cos r and the number q of quarter turns for x = q pi/2 + r, |r| <= pi/4.
#[inline(always)]
fn reduce_to_quarter(x: f32) -> (f64, f64, u64) {
    // pi/2 in two parts: products of the first with a whole number below 2^20 are exact.
    const HIGH: f64 = 1.570_796_326_734_125_6;
    const LOW: f64 = 6.077_100_506_506_192e-11;
    let x = f64::from(x);
    let shifted = x * FRAC_2_PI + ROUNDING_MAGIC;
    let n = shifted - ROUNDING_MAGIC;
    // As in the exponential: the difference of two nearly equal numbers is exact because the product is.
    let r = (x - n * HIGH) - n * LOW;
    let z = r * r;
    let s = evaluate_polynomial(
        z,
        [
            1.0,
            -0.166_666_666_414_284_53,
            0.008_333_329_362_486_806,
            -0.000_198_393_271_984_955_34,
            2.718_237_812_829_563e-6,
        ],
    );
    let c = evaluate_polynomial(
        z,
        [
            1.0,
            -0.5,
            0.041_666_652_621_052_6,
            -0.001_388_760_145_877_446,
            0.000_024_461_489_353_548_84,
        ],
    );
    (r * s, c, shifted.to_bits())
}

/// `s` or `c` with the sign that `q` quarter turns give.
#[inline(always)]
fn apply_quarter_sign(s: f64, c: f64, q: u64) -> f64 {
    let y = if q & 1 == 0 { s } else { c };
    f64::from_bits(y.to_bits() ^ ((q & 2) << 62))
}

/// The sine, of an angle that is not far (`is_far`).
///
/// Within 0.503 ulp.
#[inline(always)]
pub fn sin(x: f32) -> f32 {
    let (s, c, q) = reduce_to_quarter(x);
    apply_quarter_sign(s, c, q) as f32
}

/// The cosine, of an angle that is not far (`is_far`).
///
/// Within 0.503 ulp.
#[inline(always)]
pub fn cos(x: f32) -> f32 {
    let (s, c, q) = reduce_to_quarter(x);
    apply_quarter_sign(s, c, q.wrapping_add(1)) as f32
}

/// The tangent, of an angle that is not far (`is_far`).
///
/// Within 0.503 ulp.
#[inline(always)]
pub fn tan(x: f32) -> f32 {
    let (s, c, q) = reduce_to_quarter(x);
    let (over, under) = if q & 1 == 0 { (s, c) } else { (-c, s) };
    (over / under) as f32
}

/// asin s for s^2 = z <= 1/4.
#[inline(always)]
fn asin_series(s: f64, z: f64) -> f64 {
    let p = evaluate_polynomial(
        z,
        [
            1.0,
            0.166_666_668_660_753_88,
            0.074_999_678_782_460_63,
            0.044_655_829_220_339_73,
            0.030_156_043_179_972_797,
            0.024_366_894_310_962_32,
            0.008_161_258_184_785_962,
            0.033_938_201_546_485_185,
        ],
    );
    s * p
}

/// Whether |x| > 1/2, and asin |x| or, there, asin sqrt((1 - |x|) / 2).
#[inline(always)]
fn asin_parts(x: f32) -> (bool, f64) {
    let a = f64::from(x).abs();
    let large = a > 0.5;
    // Near 1 the inverse sine has a vertical tangent that no polynomial follows; the half angle takes it to the
    // flat part.
    let z = if large { (1.0 - a) * 0.5 } else { a * a };
    let s = if large { z.sqrt() } else { a };
    (large, asin_series(s, z))
}

/// The inverse sine.
///
/// Within 0.501 ulp.
#[inline(always)]
pub fn asin(x: f32) -> f32 {
    let (large, p) = asin_parts(x);
    (if large { FRAC_PI_2 - 2.0 * p } else { p } as f32).copysign(x)
}

/// The inverse cosine.
///
/// Within 0.501 ulp.
#[inline(always)]
pub fn acos(x: f32) -> f32 {
    let (large, p) = asin_parts(x);
    let (high, low) =
        if x < 0.0 { (PI - 2.0 * p, FRAC_PI_2 + p) } else { (2.0 * p, FRAC_PI_2 - p) };
    (if large { high } else { low }) as f32
}

/// atan q for 0 <= q <= 1.
#[inline(always)]
fn atan_series(q: f64) -> f64 {
    let p = evaluate_polynomial(
        q * q,
        [
            1.0,
            -0.333_333_326_999_252_46,
            0.199_999_495_530_625_96,
            -0.142_844_958_034_193_22,
            0.110_969_990_150_611_4,
            -0.089_965_953_343_976_54,
            0.072_907_747_967_942_68,
            -0.055_084_697_974_925_38,
            0.035_142_079_858_464_43,
            -0.016_785_813_848_000_01,
            0.005_127_599_273_285_739,
            -0.000_733_999_246_475_09,
        ],
    );
    q * p
}

/// The inverse tangent.
///
/// Within 0.501 ulp.
#[inline(always)]
pub fn atan(x: f32) -> f32 {
    let a = f64::from(x).abs();
    // The inverse tangent of the reciprocal is the complement, so that the series is only needed up to 1.
    let steep = a > 1.0;
    let y = atan_series(if steep { 1.0 / a } else { a });
    (if steep { FRAC_PI_2 - y } else { y } as f32).copysign(x)
}

/// The angle of the point (x, y), with the signs of zeros and infinities of C's `atan2`.
///
/// Within 0.51 ulp.
#[inline(always)]
pub fn atan2(y: f32, x: f32) -> f32 {
    let (b, a) = (f64::from(y).abs(), f64::from(x).abs());
    let steep = b > a;
    let (low, high) = if steep { (a, b) } else { (b, a) };
    let q = low / high;
    let q = if high == 0.0 { 0.0 } else { q };
    // Two infinities are the diagonal by the definition of `atan2`; their quotient would be NaN.
    let q = if low == f64::INFINITY { 1.0 } else { q };
    let t = atan_series(q);
    let t = if steep { FRAC_PI_2 - t } else { t };
    let t = if x.is_sign_negative() { PI - t } else { t };
    let t = (t as f32).copysign(y);
    if x.is_nan() || y.is_nan() { f32::NAN } else { t }
}
