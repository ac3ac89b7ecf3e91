//! Steps of softmax and of the norms, over one row.

use super::exp::exp;
use super::reduce::sum_in_order;
use super::{canonicalize_nan, multiversion};

multiversion! {
    /// `x[i] = exp(x[i] - max)`; returns their sum in the order of `reduce`.
    pub fn exp_sub_sum(x: &mut [f32], max: f32) -> f32 {
        for x in x.iter_mut() {
            *x = canonicalize_nan(exp(*x - max));
        }
        sum_in_order(x)
    }
}

multiversion! {
    /// `x[i] *= a`.
    pub fn scale_row(x: &mut [f32], a: f32) {
        for x in x {
            *x = canonicalize_nan(*x * a);
        }
    }
}

multiversion! {
    /// `x[i] = x[i] * a + b`, the product rounded first.
    pub fn scale_shift(x: &mut [f32], a: f32, b: f32) {
        for x in x {
            *x = canonicalize_nan(*x * a + b);
        }
    }
}

/// `out[i] = (x[i] - mean) * rstd * weight[i] + bias[i]`, each step rounded, from left to right;
/// without a weight or a bias that step is left out.
///
/// # Panics
/// If the lengths differ.
pub fn normalize_affine(
    x: &[f32],
    mean: f32,
    rstd: f32,
    weight: Option<&[f32]>,
    bias: Option<&[f32]>,
    out: &mut [f32],
) {
    assert_eq!(x.len(), out.len(), "one result per element");
    assert!(weight.is_none_or(|w| w.len() == x.len()), "one weight per element");
    assert!(bias.is_none_or(|b| b.len() == x.len()), "one bias per element");
    match (weight, bias) {
        (None, None) => normalize_row(x, mean, rstd, out),
        (Some(weight), None) => normalize_with_weight(x, mean, rstd, weight, out),
        (None, Some(bias)) => normalize_with_bias(x, mean, rstd, bias, out),
        (Some(weight), Some(bias)) => normalize_with_weight_bias(x, mean, rstd, weight, bias, out),
    }
}

multiversion! {
    fn normalize_row(x: &[f32], mean: f32, rstd: f32, out: &mut [f32]) {
        for (out, x) in out.iter_mut().zip(x) {
            *out = canonicalize_nan((x - mean) * rstd);
        }
    }
}

multiversion! {
    fn normalize_with_weight(x: &[f32], mean: f32, rstd: f32, weight: &[f32], out: &mut [f32]) {
        for ((out, x), w) in out.iter_mut().zip(x).zip(weight) {
            *out = canonicalize_nan((x - mean) * rstd * w);
        }
    }
}

multiversion! {
    fn normalize_with_bias(x: &[f32], mean: f32, rstd: f32, bias: &[f32], out: &mut [f32]) {
        for ((out, x), b) in out.iter_mut().zip(x).zip(bias) {
            *out = canonicalize_nan((x - mean) * rstd + b);
        }
    }
}

multiversion! {
    fn normalize_with_weight_bias(
        x: &[f32],
        mean: f32,
        rstd: f32,
        weight: &[f32],
        bias: &[f32],
        out: &mut [f32],
    ) {
        for (((out, x), w), b) in out.iter_mut().zip(x).zip(weight).zip(bias) {
            *out = canonicalize_nan((x - mean) * rstd * w + b);
        }
    }
}

/// `out[i] = if condition[i] != 0 { a[i] } else { b[i] }`; NaN is true.
///
/// # Panics
/// If the lengths differ.
pub fn select_by_condition(condition: &[f32], a: &[f32], b: &[f32], out: &mut [f32]) {
    let n = out.len();
    assert!(condition.len() == n && a.len() == n && b.len() == n, "one result per element");
    run_select(condition, a, b, out);
}

multiversion! {
    fn run_select(condition: &[f32], a: &[f32], b: &[f32], out: &mut [f32]) {
        for (((out, c), a), b) in out.iter_mut().zip(condition).zip(a).zip(b) {
            *out = if *c != 0.0 { *a } else { *b };
        }
    }
}

/// The choices of integers: `out[i] = if condition[i] != 0 { a[i] } else { b[i] }`.
macro_rules! choices {
    ($($select:ident $run:ident $t:ty;)*) => {$(
        /// `out[i] = if condition[i] != 0 { a[i] } else { b[i] }`.
        ///
        /// # Panics
        /// If the lengths differ.
        pub fn $select(condition: &[$t], a: &[$t], b: &[$t], out: &mut [$t]) {
            let n = out.len();
            assert!(condition.len() == n && a.len() == n && b.len() == n, "one result per element");
            $run(condition, a, b, out);
        }

        multiversion! {
            fn $run(condition: &[$t], a: &[$t], b: &[$t], out: &mut [$t]) {
                for (((out, c), a), b) in out.iter_mut().zip(condition).zip(a).zip(b) {
                    *out = if *c != 0 { *a } else { *b };
                }
            }
        }
    )*};
}

choices! {
    select_i32 run_select_i32 i32;
    select_i64 run_select_i64 i64;
}
