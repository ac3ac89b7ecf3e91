//! Functions of two and three operands that also take a number.

use super::canonicalize_nan;
use super::multiversion;

/// A loop over equally long slices.
macro_rules! loops {
    ($($(#[$meta:meta])* $name:ident, $run:ident($($x:ident),+; $($p:ident: $pt:ty),*) $t:ty, $body:expr;)*) => {$(
        $(#[$meta])*
        ///
        /// # Panics
        /// If the lengths differ.
        pub fn $name($($x: &[$t],)+ $($p: $pt,)* out: &mut [$t]) {
            assert!($($x.len() == out.len())&&+, "one result per element");
            $run($($x,)+ $($p,)* out);
        }

        multiversion! {
            fn $run($($x: &[$t],)+ $($p: $pt,)* out: &mut [$t]) {
                for (i, out) in out.iter_mut().enumerate() {
                    $(let $x = $x[i];)+
                    *out = $body;
                }
            }
        }
    )*};
}

loops! {
    /// `a + alpha b`, the product rounded first.
    add_scaled, run_add_scaled(a, b; alpha: f32) f32, canonicalize_nan(a + alpha * b);
    /// `a + alpha b`, wrapping.
    add_scaled_i32, run_add_scaled_i32(a, b; alpha: i32) i32, a.wrapping_add(alpha.wrapping_mul(b));
    /// `a + alpha b`, wrapping.
    add_scaled_i64, run_add_scaled_i64(a, b; alpha: i64) i64, a.wrapping_add(alpha.wrapping_mul(b));
    /// `a + (value b) c`, every step rounded.
    addcmul, run_addcmul(a, b, c; value: f32) f32, canonicalize_nan(a + value * b * c);
    /// `a + value b c`, wrapping.
    addcmul_i32, run_addcmul_i32(a, b, c; value: i32) i32,
        a.wrapping_add(value.wrapping_mul(b).wrapping_mul(c));
    /// `a + value b c`, wrapping.
    addcmul_i64, run_addcmul_i64(a, b, c; value: i64) i64,
        a.wrapping_add(value.wrapping_mul(b).wrapping_mul(c));
    /// `a + (value b) / c`, every step rounded.
    addcdiv, run_addcdiv(a, b, c; value: f32) f32, canonicalize_nan(a + value * b / c);
    /// From `a` to `b` by the share `w`: `a + w (b - a)` below one half, else `b - (b - a)(1 - w)`.
    lerp, run_lerp(a, b, w;) f32, canonicalize_nan(
        if w.abs() < 0.5 { a + w * (b - a) } else { b - (b - a) * (1.0 - w) }
    );
    /// `x` kept within `low..=high`: NaN where one of them is, and `high` wins where bounds cross.
    clamp_between, run_clamp_between(x, low, high;) f32, canonicalize_nan(
        super::round::minimum(super::round::maximum(x, low), high)
    );
    /// The same of integers.
    clamp_between_i32, run_clamp_between_i32(x, low, high;) i32, x.max(low).min(high);
    /// The same of int64.
    clamp_between_i64, run_clamp_between_i64(x, low, high;) i64, x.max(low).min(high);
    /// `sqrt(a^2 + b^2)` in float64, rounded once; infinite where either is.
    hypot, run_hypot(a, b;) f32, {
        let (x, y) = (f64::from(a), f64::from(b));
        let y = (x * x + y * y).sqrt() as f32;
        if a.is_infinite() || b.is_infinite() { f32::INFINITY } else { canonicalize_nan(y) }
    };
    /// `x` kept within `low..=high`.
    clamp_i32, run_clamp_i32(x; low: i32, high: i32) i32, x.max(low).min(high);
    /// The same of int64.
    clamp_i64, run_clamp_i64(x; low: i64, high: i64) i64, x.max(low).min(high);
    /// `x` where above the threshold, else the value.
    threshold_i32, run_threshold_i32(x; threshold: i32, value: i32) i32,
        if x <= threshold { value } else { x };
    /// The same of int64.
    threshold_i64, run_threshold_i64(x; threshold: i64, value: i64) i64,
        if x <= threshold { value } else { x };
    /// `max(0, x) + min(0, alpha (e^(x / alpha) - 1))`, rounded once.
    celu, run_celu(x; alpha: f32) f32, {
        let (wide, alpha) = (f64::from(x), f64::from(alpha));
        let y = (alpha * super::exp::expm1_64(wide / alpha)) as f32;
        canonicalize_nan(if x >= 0.0 { x } else { y })
    };
    /// `x / scale` kept within `-most..=most`.
    quotient_within, run_quotient_within(x, scale; most: f32) f32,
        canonicalize_nan(super::activation::clamp(x / scale, -most, most));
}
