//! Activations of neural networks.
//!
//! Where x times a vanishing factor is defined as a product, minus infinity gives NaN, as the
//! formula (and PyTorch) has it.

use super::exp::{exp64, expm1_64, multiply_by_gauss};
use super::log::log1p_64;

/// x times the normal distribution function of x.
///
/// With a = |x| and Q the chance to be beyond a: the larger of x and 0, minus a Q(a). Here
/// e^(-a^2/2) / Q(a) = 2 + a (sqrt(2 pi) - v), where v is a quotient of polynomials that matters
/// little: its error hardly shows. What it divides, and the quotient, are sums of two numbers, of which
/// the second is what the first has lost to rounding; fused multiply-adds find it.
///
/// Within 1.73 ulp.
#[inline(always)]
pub fn gelu(x: f32) -> f32 {
    const SQRT_2_PI: f32 = 2.506_628_3;
    let a = x.abs();
    let a = if a > 15.0 { 15.0 } else { a };
    let square = a * a;
    let p = a.mul_add(0.019_324_435, 0.157_419_24);
    let p = square.mul_add(p, a.mul_add(0.559_132_1, 0.910_857_7));
    let q = a.mul_add(0.009_663_419, 0.090_765_98);
    let q = a.mul_add(q, 0.394_387_04);
    let q = square.mul_add(q, a.mul_add(0.913_811_7, 1.0));
    let h = a.mul_add(SQRT_2_PI, 2.0);
    let lost = a.mul_add(SQRT_2_PI, 2.0 - h);
    let rest = a.mul_add(-(p / q), lost);
    let inverse = 1.0 / (h + rest);
    let w = a * inverse;
    let lost = (-w).mul_add(rest, (-w).mul_add(h, a)) * inverse;
    // What vanishes keeps its sign.
    let positive = if x < 0.0 { -0.0 } else { x };
    let y = positive - multiply_by_gauss(w, lost, a);
    if x == f32::NEG_INFINITY { f32::NAN } else { y }
}

/// x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
///
/// Within 0.502 ulp.
#[inline(always)]
pub fn gelu_tanh(x: f32) -> f32 {
    // 2 sqrt(2/pi)
    const TWICE: f64 = 1.595_769_121_605_730_8;
    let wide = f64::from(x);
    let u = TWICE * wide * (1.0 + 0.044_715 * (wide * wide));
    (wide / (1.0 + exp64(-u))) as f32
}

/// x / (1 + e^-x), also called swish.
///
/// Within 0.502 ulp.
#[inline(always)]
pub fn silu(x: f32) -> f32 {
    let wide = f64::from(x);
    (wide / (1.0 + exp64(-wide))) as f32
}

/// ln(1 + e^(beta x)) / beta, and x itself where beta x is above the threshold.
///
/// Within 0.502 ulp, for beta = 1.
#[inline(always)]
pub fn softplus(x: f32, beta: f32, threshold: f32) -> f32 {
    let scaled = x * beta;
    let y = log1p_64(exp64(f64::from(scaled))) / f64::from(beta);
    // The threshold is part of PyTorch's definition, not only a guard against overflow.
    if scaled > threshold { x } else { y as f32 }
}

/// ln(1 / (1 + e^-x)).
///
/// Within 0.502 ulp.
#[inline(always)]
pub fn log_sigmoid(x: f32) -> f32 {
    let wide = f64::from(x);
    let negative = if wide > 0.0 { 0.0 } else { wide };
    // The exponential of the negative magnitude never overflows, and both signs have one formula.
    (negative - log1p_64(exp64(-wide.abs()))) as f32
}

/// x tanh(ln(1 + e^x)).
///
/// Within 0.502 ulp.
#[inline(always)]
pub fn mish(x: f32) -> f32 {
    let wide = f64::from(x);
    // From 40 on the factor is 1.
    let e = exp64(if wide > 40.0 { 40.0 } else { wide });
    let n = e * (e + 2.0);
    let y = (wide * (n / (n + 2.0))) as f32;
    if x == f32::NEG_INFINITY { f32::NAN } else { y }
}

/// x where positive, else alpha (e^x - 1).
///
/// Within 0.504 ulp.
#[inline(always)]
pub fn elu(x: f32, alpha: f32) -> f32 {
    let y = (f64::from(alpha) * expm1_64(f64::from(x))) as f32;
    if x >= 0.0 { x } else { y }
}

/// The self-normalising elu.
///
/// Within 0.505 ulp.
#[inline(always)]
pub fn selu(x: f32) -> f32 {
    const ALPHA: f64 = 1.673_263_242_354_377_2;
    const SCALE: f64 = 1.050_700_987_355_480_5;
    let wide = f64::from(x);
    let y = SCALE * (ALPHA * expm1_64(wide));
    (if x >= 0.0 { SCALE * wide } else { y }) as f32
}

/// x + 3 kept within 0 and 6, a sixth of it.
///
/// Within 1 ulp.
#[inline(always)]
pub fn hardsigmoid(x: f32) -> f32 {
    clamp(x + 3.0, 0.0, 6.0) / 6.0
}

/// x times hardsigmoid x.
#[inline(always)]
pub fn hardswish(x: f32) -> f32 {
    x * clamp(x + 3.0, 0.0, 6.0) / 6.0
}

/// x kept within `low..=high`; NaN stays NaN, and `high` wins where the bounds cross.
#[inline(always)]
pub fn clamp(x: f32, low: f32, high: f32) -> f32 {
    let x = if x < low { low } else { x };
    if x > high { high } else { x }
}

/// x where positive, else 0; NaN stays NaN.
#[inline(always)]
pub fn relu(x: f32) -> f32 {
    if x <= 0.0 { 0.0 } else { x }
}

/// x where positive, else x times the slope.
#[inline(always)]
pub fn leaky_relu(x: f32, slope: f32) -> f32 {
    if x > 0.0 { x } else { x * slope }
}
