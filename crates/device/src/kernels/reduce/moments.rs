//! Reductions in two passes: the second knows the mean or the largest number.

use super::fold::FoldPass;
use zellige_math::exp::exp;
use zellige_math::log::log;
use zellige_math::round::maximum;
use zellige_math::{canonicalize_nan, pow};

/// First pass of a variance: the sum. The accumulator is a mean, which is not known yet, and a sum.
#[derive(Clone, Copy)]
pub(super) struct MeanPass;

impl FoldPass for MeanPass {
    type Number = f32;
    type Accumulator = (f32, f32);

    #[inline(always)]
    fn take_number(&self, (mean, sum): (f32, f32), x: f32, _: i32) -> (f32, f32) {
        (mean, sum + x)
    }

    #[inline(always)]
    fn join_accumulators(&self, a: (f32, f32), b: (f32, f32)) -> (f32, f32) {
        (a.0, a.1 + b.1)
    }
}

/// Second pass of a variance: the sum of squared distances from the mean, which is the first sum divided by the
/// number of elements.
///
/// The sum of squares less the square of the mean would take one pass, but subtracts two numbers that are nearly
/// equal where the mean is large beside the deviation, and so loses most digits of float32.
#[derive(Clone, Copy)]
pub(super) struct DeviationPass;

impl FoldPass for DeviationPass {
    type Number = f32;
    type Accumulator = (f32, f32);

    fn start_accumulator(&self, before: (f32, f32), n: usize) -> (f32, f32) {
        (before.1 / n as f32, 0.0)
    }

    #[inline(always)]
    fn take_number(&self, (mean, sum): (f32, f32), x: f32, _: i32) -> (f32, f32) {
        (mean, sum + (x - mean) * (x - mean))
    }

    #[inline(always)]
    fn join_accumulators(&self, a: (f32, f32), b: (f32, f32)) -> (f32, f32) {
        (a.0, a.1 + b.1)
    }
}

/// Variance or standard deviation, and the mean, of `n` numbers after both passes: the divisor is
/// `max(0, n - correction)`.
pub(super) fn finish_variance(
    (mean, sum): (f32, f32),
    n: usize,
    correction: f32,
    root: bool,
) -> (f32, f32) {
    let var = sum / (n as f32 - correction).max(0.0);
    let var = if root { pow::sqrt(var) } else { var };
    (canonicalize_nan(var), canonicalize_nan(mean))
}

/// First pass of the logarithm of a sum of exponentials: the largest number. The accumulator is that and a sum.
#[derive(Clone, Copy)]
pub(super) struct LargestPass;

impl FoldPass for LargestPass {
    type Number = f32;
    type Accumulator = (f32, f32);

    #[inline(always)]
    fn take_number(&self, (most, sum): (f32, f32), x: f32, _: i32) -> (f32, f32) {
        (maximum(x, most), sum)
    }

    #[inline(always)]
    fn join_accumulators(&self, a: (f32, f32), b: (f32, f32)) -> (f32, f32) {
        (maximum(b.0, a.0), a.1)
    }
}

/// Second pass: the sum of `exp(x - most)`. Without the difference the exponential of 89 would be past float32 already.
#[derive(Clone, Copy)]
pub(super) struct ExponentialPass;

impl FoldPass for ExponentialPass {
    type Number = f32;
    type Accumulator = (f32, f32);

    /// An infinite largest number counts as 0, because the difference of two infinities is NaN.
    fn start_accumulator(&self, before: (f32, f32), _: usize) -> (f32, f32) {
        (if before.0.is_infinite() { 0.0 } else { before.0 }, 0.0)
    }

    #[inline(always)]
    fn take_number(&self, (most, sum): (f32, f32), x: f32, _: i32) -> (f32, f32) {
        (most, sum + exp(x - most))
    }

    #[inline(always)]
    fn join_accumulators(&self, a: (f32, f32), b: (f32, f32)) -> (f32, f32) {
        (a.0, a.1 + b.1)
    }
}

/// The logarithm of the sum after both passes.
pub(super) fn finish_log_sum_exp((most, sum): (f32, f32)) -> f32 {
    canonicalize_nan(log(sum) + most)
}
