//! Activations of neural networks.
//!
//! Where x times a vanishing factor is defined as a product, minus infinity gives NaN, as the
//! formula (and PyTorch) has it.

use super::erf::tail;
use super::exp::{exp64, expm1_64};
use super::log::log1p_64;

/// NaN for minus infinity, else `y`.
#[inline(always)]
fn unless_minus_infinity(x: f32, y: f64) -> f32 {
    if x == f32::NEG_INFINITY { f32::NAN } else { y as f32 }
}

/// x times the normal distribution function of x.
#[inline(always)]
pub(crate) fn gelu(x: f32) -> f32 {
    let wide = f64::from(x);
    let a = wide.abs();
    let a = if a > 40.0 { 40.0 } else { a };
    let positive = if wide < 0.0 { 0.0 } else { wide };
    unless_minus_infinity(x, positive - a * tail(a))
}

/// x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
#[inline(always)]
pub(crate) fn gelu_tanh(x: f32) -> f32 {
    // 2 sqrt(2/pi)
    const TWICE: f64 = 1.595_769_121_605_730_8;
    let wide = f64::from(x);
    let u = TWICE * wide * (1.0 + 0.044_715 * (wide * wide));
    unless_minus_infinity(x, wide / (1.0 + exp64(-u)))
}

/// x / (1 + e^-x), also called swish.
#[inline(always)]
pub(crate) fn silu(x: f32) -> f32 {
    let wide = f64::from(x);
    unless_minus_infinity(x, wide / (1.0 + exp64(-wide)))
}

/// ln(1 + e^(beta x)) / beta, and x itself where beta x is above the threshold.
#[inline(always)]
pub(crate) fn softplus(x: f32, beta: f32, threshold: f32) -> f32 {
    let scaled = x * beta;
    let y = log1p_64(exp64(f64::from(scaled))) / f64::from(beta);
    if scaled > threshold { x } else { y as f32 }
}

/// ln(1 / (1 + e^-x)).
#[inline(always)]
pub(crate) fn log_sigmoid(x: f32) -> f32 {
    let wide = f64::from(x);
    let negative = if wide > 0.0 { 0.0 } else { wide };
    (negative - log1p_64(exp64(-wide.abs()))) as f32
}

/// x tanh(ln(1 + e^x)).
#[inline(always)]
pub(crate) fn mish(x: f32) -> f32 {
    let wide = f64::from(x);
    let e = exp64(wide);
    let n = e * (e + 2.0);
    unless_minus_infinity(x, wide * (n / (n + 2.0)))
}

/// x where positive, else alpha (e^x - 1).
#[inline(always)]
pub(crate) fn elu(x: f32, alpha: f32) -> f32 {
    let y = (f64::from(alpha) * expm1_64(f64::from(x))) as f32;
    if x >= 0.0 { x } else { y }
}

/// The self-normalising elu.
#[inline(always)]
pub(crate) fn selu(x: f32) -> f32 {
    const ALPHA: f64 = 1.673_263_242_354_377_2;
    const SCALE: f64 = 1.050_700_987_355_480_5;
    let wide = f64::from(x);
    let y = SCALE * (ALPHA * expm1_64(wide));
    (if x >= 0.0 { SCALE * wide } else { y }) as f32
}

/// x + 3 kept within 0 and 6, a sixth of it.
#[inline(always)]
pub(crate) fn hardsigmoid(x: f32) -> f32 {
    clamp(x + 3.0, 0.0, 6.0) / 6.0
}

/// x times hardsigmoid x.
#[inline(always)]
pub(crate) fn hardswish(x: f32) -> f32 {
    x * clamp(x + 3.0, 0.0, 6.0) / 6.0
}

/// x kept within `low..=high`; NaN stays NaN, and `high` wins where the bounds cross.
#[inline(always)]
pub(crate) fn clamp(x: f32, low: f32, high: f32) -> f32 {
    let x = if x < low { low } else { x };
    if x > high { high } else { x }
}

/// x where positive, else 0; NaN stays NaN.
#[inline(always)]
pub(crate) fn relu(x: f32) -> f32 {
    if x <= 0.0 { 0.0 } else { x }
}

/// x where positive, else x times the slope.
#[inline(always)]
pub(crate) fn leaky_relu(x: f32, slope: f32) -> f32 {
    if x > 0.0 { x } else { x * slope }
}
