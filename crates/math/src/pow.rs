//! Powers and roots.

use super::exp::exp64;
use super::log::log64;
use super::round::trunc;

/// x^y with the special cases of C's `pow`, which are PyTorch's.
///
/// Within 0.51 ulp.
#[inline(always)]
pub fn pow(x: f32, y: f32) -> f32 {
    let log = log64(f64::from(x.abs()));
    let size = exp64(f64::from(y) * log) as f32;
    // 1 to any power and any number to the power 0 are 1, of NaN and infinities too, as in C.
    let size = if x.abs() == 1.0 || y == 0.0 { 1.0 } else { size };
    let whole = trunc(y) == y;
    // From 2^24 on every float32 is even.
    let odd = whole && trunc(y * 0.5) != y * 0.5;
    let signed = if x.is_sign_negative() && odd { -size } else { size };
    let root_of_negative = x < 0.0 && x != f32::NEG_INFINITY && !whole && y != 0.0;
    if root_of_negative { f32::NAN } else { signed }
}

/// The square root, correctly rounded.
#[inline(always)]
pub fn sqrt(x: f32) -> f32 {
    x.sqrt()
}

/// 1 / sqrt x.
///
/// Within 1.5 ulp.
#[inline(always)]
pub fn rsqrt(x: f32) -> f32 {
    1.0 / x.sqrt()
}

/// 1 / x, correctly rounded.
#[inline(always)]
pub fn reciprocal(x: f32) -> f32 {
    1.0 / x
}
