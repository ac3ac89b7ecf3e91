//! Functions that nobody needs fast, one element at a time in float64.

use std::f64::consts::PI;

/// ln |gamma x|.
pub fn lgamma(x: f32) -> f32 {
    libm::lgamma(f64::from(x)) as f32
}

/// The derivative of ln gamma; at a pole NaN, at zero an infinity of the opposite sign.
pub fn digamma(x: f32) -> f32 {
    let x = f64::from(x);
    if x == 0.0 {
        return f32::INFINITY.copysign(-x as f32);
    }
    if x < 0.0 && x == x.trunc() || x == f64::NEG_INFINITY {
        return f32::NAN;
    }
    let y = if x < 0.5 {
        // Reflection; the fraction of x keeps the angle exact.
        positive_digamma(1.0 - x) - PI / libm::tan(PI * (x - libm::rint(x)))
    } else {
        positive_digamma(x)
    };
    y as f32
}

/// By recurrence up to 10, then the asymptotic series.
fn positive_digamma(mut x: f64) -> f64 {
    let mut below = 0.0;
    while x < 10.0 {
        below += 1.0 / x;
        x += 1.0;
    }
    let z = 1.0 / (x * x);
    let series = super::evaluate_polynomial(
        z,
        [1.0 / 12.0, -1.0 / 120.0, 1.0 / 252.0, -1.0 / 240.0, 1.0 / 132.0, -691.0 / 32760.0],
    );
    libm::log(x) - 0.5 / x - z * series - below
}

/// The inverse of the error function.
pub fn erfinv(x: f32) -> f32 {
    let a = f64::from(x).abs();
    if a >= 1.0 || a.is_nan() {
        return if a == 1.0 { f32::INFINITY.copysign(x) } else { f32::NAN };
    }
    // Winitzki's guess is within 2e-3; each step of Halley's method cubes the error.
    let log = libm::log1p(-a * a);
    let half = 2.0 / (PI * 0.147) + 0.5 * log;
    let mut y = (log / ((half * half - log / 0.147).sqrt() + half) * (-1.0 / 0.147)).sqrt();
    for _ in 0..2 {
        let error = if a < 0.5 { libm::erf(y) - a } else { (1.0 - a) - libm::erfc(y) };
        let step = error / (std::f64::consts::FRAC_2_SQRT_PI * libm::exp(-y * y));
        y -= step / (1.0 + y * step);
    }
    // The guess loses small numbers to rounding; there the series ends after one term.
    let y = if a < 1e-5 { a * (PI.sqrt() / 2.0) } else { y };
    (y as f32).copysign(x)
}
