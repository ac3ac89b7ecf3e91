//! Reductions of slices to one number.
//!
//! # The order
//! There are [`PARTIAL_RESULTS`] partial results; element i is added to partial result i mod `PARTIAL_RESULTS`, in the order
//! of i. In the end partial result i takes in partial result i + 16, then the first 16 do so with
//! i + 8, then i + 4, i + 2, i + 1. This order is part of the definition: it does not depend on the
//! instruction set.

use super::round::{maximum, minimum};
use super::{canonicalize_nan, multiversion};

/// Partial results of a reduction.
pub const PARTIAL_RESULTS: usize = 32;

/// Folds `x` in the order of this module.
#[inline(always)]
fn fold_in_order<T: Copy>(
    x: &[T],
    start: T,
    take: impl Fn(T, T) -> T,
    join: impl Fn(T, T) -> T,
) -> T {
    // As many as two registers of AVX-512 or four of AVX2 hold, so that additions of one register do not wait for
    // each other.
    let mut lanes = [start; PARTIAL_RESULTS];
    let (pieces, rest) = x.as_chunks::<PARTIAL_RESULTS>();
    for piece in pieces {
        for (lane, &x) in lanes.iter_mut().zip(piece) {
            *lane = take(*lane, x);
        }
    }
    for (lane, &x) in lanes.iter_mut().zip(rest) {
        *lane = take(*lane, x);
    }
    join_partial_results(lanes, join)
}

/// Joins the partial results.
#[inline(always)]
fn join_partial_results<T: Copy>(mut lanes: [T; PARTIAL_RESULTS], join: impl Fn(T, T) -> T) -> T {
    let mut width = PARTIAL_RESULTS / 2;
    while width > 0 {
        for i in 0..width {
            lanes[i] = join(lanes[i], lanes[i + width]);
        }
        width /= 2;
    }
    lanes[0]
}

/// [`sum`] as a part of another loop.
#[inline(always)]
pub(super) fn sum_in_order(x: &[f32]) -> f32 {
    canonicalize_nan(fold_in_order(x, 0.0, |s, x| s + x, |a, b| a + b))
}

multiversion! {
    /// The sum; of nothing 0.
    pub fn sum(x: &[f32]) -> f32 {
        sum_in_order(x)
    }
}

multiversion! {
    /// The product; of nothing 1.
    pub fn product(x: &[f32]) -> f32 {
        canonicalize_nan(fold_in_order(x, 1.0, |p, x| p * x, |a, b| a * b))
    }
}

multiversion! {
    /// The sum of the squares.
    pub fn sum_of_squares(x: &[f32]) -> f32 {
        canonicalize_nan(fold_in_order(x, 0.0, |s, x| s + x * x, |a, b| a + b))
    }
}

multiversion! {
    /// The sum of the squares of the distances from `mean`.
    pub fn sum_of_squares_about(x: &[f32], mean: f32) -> f32 {
        canonicalize_nan(fold_in_order(x, 0.0, |s, x| s + (x - mean) * (x - mean), |a, b| a + b))
    }
}

multiversion! {
    /// The sum of the products of pairs.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn dot(a: &[f32], b: &[f32]) -> f32 {
        assert_eq!(a.len(), b.len(), "a sum over pairs");
        let mut lanes = [0.0; PARTIAL_RESULTS];
        let ((left, a), (right, b)) = (a.as_chunks::<PARTIAL_RESULTS>(), b.as_chunks::<PARTIAL_RESULTS>());
        for (a, b) in left.iter().zip(right) {
            for ((lane, a), b) in lanes.iter_mut().zip(a).zip(b) {
                *lane += a * b;
            }
        }
        for ((lane, a), b) in lanes.iter_mut().zip(a).zip(b) {
            *lane += a * b;
        }
        canonicalize_nan(join_partial_results(lanes, |a, b| a + b))
    }
}

multiversion! {
    /// The largest, or NaN if there is one; of nothing minus infinity.
    pub fn max(x: &[f32]) -> f32 {
        canonicalize_nan(fold_in_order(x, f32::NEG_INFINITY, |m, x| maximum(x, m), |a, b| maximum(b, a)))
    }
}

multiversion! {
    /// The smallest, or NaN if there is one; of nothing infinity.
    pub fn min(x: &[f32]) -> f32 {
        canonicalize_nan(fold_in_order(x, f32::INFINITY, |m, x| minimum(x, m), |a, b| minimum(b, a)))
    }
}

multiversion! {
    /// The sum modulo 2^32.
    pub fn sum_i32(x: &[i32]) -> i32 {
        fold_in_order(x, 0, i32::wrapping_add, i32::wrapping_add)
    }
}

multiversion! {
    /// The product modulo 2^32.
    pub fn product_i32(x: &[i32]) -> i32 {
        fold_in_order(x, 1, i32::wrapping_mul, i32::wrapping_mul)
    }
}

multiversion! {
    /// The largest; of nothing the smallest int32.
    pub fn max_i32(x: &[i32]) -> i32 {
        fold_in_order(x, i32::MIN, |m, x| m.max(x), |a, b| a.max(b))
    }
}

multiversion! {
    /// The smallest; of nothing the largest int32.
    pub fn min_i32(x: &[i32]) -> i32 {
        fold_in_order(x, i32::MAX, |m, x| m.min(x), |a, b| a.min(b))
    }
}
