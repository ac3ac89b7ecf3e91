//! Elementary functions in float32, over slices.
//!
//! # The same bits everywhere
//! A function is one formula of additions, multiplications, divisions, square roots, selections and
//! integer operations, without a fused multiply-add: IEEE 754 gives one result for each of them, so
//! every machine, every instruction set and every position in a slice gives the same bits. What
//! needs more than float32 computes in float64 and rounds once. A result that is NaN is always the
//! positive quiet NaN without payload (`0x7fc0_0000`): hardware disagrees on the others.
//!
//! # Speed
//! Formulas select instead of branching, so that loops over slices become vector code;
//! [`multiversion`] compiles each loop for AVX-512, AVX2 and the baseline and picks at run time.
//!
//! # Accuracy
//! The doc comment of each function states the largest error found over every float32, in units in
//! the last place (ulp) of the exact result.

#![allow(
    dead_code,
    unused_imports,
    reason = "kernels take these functions up one by one; the last one removes this"
)]
#![allow(
    clippy::cast_possible_truncation,
    reason = "rounding float64 to float32 once is the point of the formulas"
)]
#![allow(clippy::inline_always, reason = "a formula must join the loop to be vectorised with it")]

pub(crate) mod activation;
pub(crate) mod erf;
pub(crate) mod exp;
pub(crate) mod int;
mod isa;
pub(crate) mod log;
pub(crate) mod pow;
pub(crate) mod random;
pub(crate) mod reduce;
pub(crate) mod round;
pub(crate) mod rows;
pub(crate) mod slice;
pub(crate) mod special;
pub(crate) mod ternary;
#[cfg(test)]
mod tests;
pub(crate) mod trig;

pub(crate) use int::{IntBinary, IntUnary, map1_i32, map2_i32};
pub(crate) use isa::Isa;
use isa::multiversion;
pub(crate) use reduce::{
    dot, max, max_i32, min, min_i32, product, product_i32, sum, sum_i32, sum_of_squares,
    sum_of_squares_about,
};
pub(crate) use rows::{affine, exp_sub_sum, scale, scale_shift, select, select_i32};
pub(crate) use slice::{Binary, Unary, map1, map2, update1, update2};

/// `value`, or the one NaN that stands for all.
#[inline(always)]
pub(crate) fn canonical(value: f32) -> f32 {
    if value.is_nan() { f32::NAN } else { value }
}

/// `x` kept within `low..=high`; NaN stays NaN.
#[inline(always)]
fn within(x: f64, low: f64, high: f64) -> f64 {
    let x = if x < low { low } else { x };
    if x > high { high } else { x }
}

/// `c[0] + c[1] x + c[2] x^2 + ...`, from the highest power down.
#[inline(always)]
fn poly<const N: usize>(x: f64, c: [f64; N]) -> f64 {
    let mut y = c[N - 1];
    let mut k = N - 1;
    while k > 0 {
        k -= 1;
        y = y * x + c[k];
    }
    y
}
