//! Rounding to whole numbers, remainders, and the order of numbers.

/// 2^23: from here on every float32 is a whole number.
const WHOLE_FROM: f32 = 8_388_608.0;

/// The nearest whole number, the even one of two.
#[inline(always)]
pub fn round(x: f32) -> f32 {
    let a = x.abs();
    // The addition rounds to the last place of 2^23, which is 1, ties to even: there are no instructions of SSE2
    // for it.
    let y = (a + WHOLE_FROM) - WHOLE_FROM;
    // A NaN compares false and stays.
    if a < WHOLE_FROM { y.copysign(x) } else { x }
}

/// The next whole number toward minus infinity.
#[inline(always)]
pub fn floor(x: f32) -> f32 {
    let y = round(x);
    (if y > x { y - 1.0 } else { y }).copysign(x)
}

/// The next whole number toward infinity.
#[inline(always)]
pub fn ceil(x: f32) -> f32 {
    let y = round(x);
    (if y < x { y + 1.0 } else { y }).copysign(x)
}

/// The next whole number toward zero.
#[inline(always)]
pub fn trunc(x: f32) -> f32 {
    floor(x.abs()).copysign(x)
}

/// x - trunc x.
#[inline(always)]
pub fn frac(x: f32) -> f32 {
    x - trunc(x)
}

/// -1, 0 or 1; of NaN and of either zero 0, as in PyTorch.
#[inline(always)]
pub fn sign(x: f32) -> f32 {
    let y = if x > 0.0 { 1.0 } else { 0.0 };
    if x < 0.0 { -1.0 } else { y }
}

/// 2^28: quotients up to here leave an exact remainder in float64.
const EXACT_QUOTIENTS: f64 = 268_435_456.0;

/// Whether [`fmod`] and what is built on it need their slow path.
#[inline(always)]
pub(super) fn is_far(a: f32, b: f32) -> bool {
    let near = f64::from(a).abs() < EXACT_QUOTIENTS * f64::from(b).abs();
    // Also where either is NaN.
    !near
}

/// The exact remainder with the sign of `a`, of quotients that are not far (`is_far`).
#[inline(always)]
pub fn fmod(a: f32, b: f32) -> f32 {
    // 1.5 * 2^52, as in the exponential: an AVX2 loop has no conversion to 64-bit integers.
    let (x, y) = (f64::from(a).abs(), f64::from(b).abs());
    let whole = (x / y + super::exp::ROUNDING_MAGIC) - super::exp::ROUNDING_MAGIC;
    // The product and the difference are exact; the quotient was rounded to nearest.
    let r = x - whole * y;
    let r = if r < 0.0 { r + y } else { r };
    let r = if y == f64::INFINITY { x } else { r };
    (r as f32).copysign(a)
}

/// [`fmod`] of any numbers, one at a time: `%` is exact on every machine.
pub(super) fn fmod_far(a: f32, b: f32) -> f32 {
    a % b
}

/// The remainder with the sign of `b`, given [`fmod`]; as in Python.
#[inline(always)]
pub fn remainder(fmod: f32, b: f32) -> f32 {
    if fmod != 0.0 && (b < 0.0) != (fmod < 0.0) { fmod + b } else { fmod }
}

/// The quotient rounded toward minus infinity, given [`fmod`]; as in Python and PyTorch.
#[inline(always)]
pub fn floor_divide(a: f32, b: f32, fmod: f32) -> f32 {
    // From the exact remainder as PyTorch does, because the rounded quotient may reach the next whole number.
    let div = (a - fmod) / b;
    let div = if fmod != 0.0 && (b < 0.0) != (fmod < 0.0) { div - 1.0 } else { div };
    let low = floor(div);
    let low = if div - low > 0.5 { low + 1.0 } else { low };
    let y = if div != 0.0 { low } else { 0.0f32.copysign(a / b) };
    if b == 0.0 { a / b } else { y }
}

/// The larger, or NaN if either is; of equal ones `b`.
#[inline(always)]
pub fn maximum(a: f32, b: f32) -> f32 {
    if a > b || a.is_nan() { a } else { b }
}

/// The smaller, or NaN if either is; of equal ones `b`.
#[inline(always)]
pub fn minimum(a: f32, b: f32) -> f32 {
    if a < b || a.is_nan() { a } else { b }
}
