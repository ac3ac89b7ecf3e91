//! Elementary functions in float32, over slices.
//!
//! # The same bits everywhere
//! A function is one formula of additions, multiplications, divisions, square roots, selections and
//! integer operations: IEEE 754 gives one result for each of them, so every machine, every instruction
//! set and every position in a slice gives the same bits. A multiply-add is fused only where the
//! formula says so (`gelu`): machines without the instruction have the same bits, many times slower.
//! What needs more than float32 computes in float64 and rounds once. A result that is NaN is always the
//! positive quiet NaN without payload (`0x7fc0_0000`): hardware disagrees on the others.
//!
//! # Speed
//! Formulas select instead of branching, so that loops over slices become vector code;
//! `multiversion` compiles each loop for AVX-512, AVX2 and the baseline and picks at run time.
//!
//! # Accuracy
//! The doc comment of each function states a bound of its error in units in the last place (ulp) of
//! the exact result, found by trying every 17th float32 (functions of two numbers: 200,000 pairs).

#![allow(
    clippy::cast_possible_truncation,
    reason = "rounding float64 to float32 once is the point of the formulas"
)]
#![allow(clippy::inline_always, reason = "a formula must join the loop to be vectorised with it")]

pub mod activation;
pub mod elementwise;
pub mod erf;
pub mod exp;
pub mod int;
mod isa;
pub mod log;
pub mod pow;
pub mod random;
pub mod reduce;
pub mod round;
pub mod rows;
pub mod slice;
pub mod special;
pub mod ternary;
#[cfg(test)]
mod tests;
pub mod trig;

pub use elementwise::{FloatFunction, IntFunction};
pub use int::{IntBinary, IntUnary, WrappingInteger, map1_i32, map1_i64, map2_i32, map2_i64};
use isa::multiversion;
pub use isa::{IsaLoop, run_for_isa};
pub use reduce::{
    dot, max, max_i32, min, min_i32, product, product_i32, sum, sum_i32, sum_of_squares,
    sum_of_squares_about,
};
pub use rows::{
    exp_sub_sum, normalize_affine, scale_row, scale_shift, select_by_condition, select_i32,
    select_i64,
};
pub use slice::{Binary, Unary, map1, map2};
pub use slice::{update_binary, update_unary};

/// `value`, or the positive quiet NaN for every NaN.
#[inline(always)]
pub fn canonicalize_nan(value: f32) -> f32 {
    // By the bits: a comparison of floats would let the compiler drop the selection, because it
    // may take every NaN for the same.
    let bits = value.to_bits();
    let nan = bits & 0x7fff_ffff > 0x7f80_0000;
    f32::from_bits(if nan { 0x7fc0_0000 } else { bits })
}

/// `x` kept within `low..=high`; NaN stays NaN.
#[inline(always)]
fn clamp_f64(x: f64, low: f64, high: f64) -> f64 {
    let x = if x < low { low } else { x };
    if x > high { high } else { x }
}

/// `c[0] + c[1] x + c[2] x^2 + ...`.
///
/// Even and odd powers separately, each from the highest down: two short chains of operations instead
/// of a long one.
#[inline(always)]
fn evaluate_polynomial<const N: usize>(x: f64, c: [f64; N]) -> f64 {
    let z = x * x;
    let (mut one, mut other) = (c[N - 1], c[N - 2]);
    let mut k = N - 2;
    while k > 0 {
        k -= 1;
        (one, other) = (other, one * z + c[k]);
    }
    // `other` ends at c[0], `one` at c[1].
    other + x * one
}
