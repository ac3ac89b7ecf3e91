//! Reductions in two passes: the second knows the mean or the largest number.

use super::fold::ReductionFold;
use zellige_math::exp::exp;
use zellige_math::log::log;
use zellige_math::round::maximum;
use zellige_math::{canonicalize_nan, pow};

/// Variance or standard deviation, and the mean.
///
/// First pass: the sum, divided by the number of elements n. Second: the sum of squared distances
/// from that mean, divided by max(0, n - correction).
#[derive(Clone, Copy)]
pub(super) struct VarianceFold {
    pub(super) correction: f32,
    pub(super) root: bool,
}

impl ReductionFold for VarianceFold {
    type In = f32;
    /// Mean, then sum.
    type Acc = (f32, f32);
    type Out = f32;
    type Also = f32;
    const PASSES: usize = 2;

    fn initial_accumulator(&self) -> (f32, f32) {
        (0.0, 0.0)
    }

    fn start_second_pass(&self, acc: (f32, f32), n: usize) -> (f32, f32) {
        (acc.1 / n as f32, 0.0)
    }

    #[inline(always)]
    fn take_number<const PASS: usize>(
        &self,
        (mean, sum): (f32, f32),
        x: f32,
        _: i32,
    ) -> (f32, f32) {
        let term = if PASS == 0 { x } else { (x - mean) * (x - mean) };
        (mean, sum + term)
    }

    #[inline(always)]
    fn join_accumulators<const PASS: usize>(&self, a: (f32, f32), b: (f32, f32)) -> (f32, f32) {
        (a.0, a.1 + b.1)
    }

    fn finish_results(&self, (mean, sum): (f32, f32), n: usize) -> (f32, f32) {
        let var = sum / (n as f32 - self.correction).max(0.0);
        let var = if self.root { pow::sqrt(var) } else { var };
        (canonicalize_nan(var), canonicalize_nan(mean))
    }
}

/// The logarithm of the sum of exponentials.
///
/// First pass: the largest number m, 0 in the place of an infinite one. Second: s, the sum of
/// exp(x - m). The result is log s + m.
#[derive(Clone, Copy)]
pub(super) struct LogSumExp;

impl ReductionFold for LogSumExp {
    type In = f32;
    /// Largest, then sum.
    type Acc = (f32, f32);
    type Out = f32;
    type Also = f32;
    const PASSES: usize = 2;

    fn initial_accumulator(&self) -> (f32, f32) {
        (f32::NEG_INFINITY, 0.0)
    }

    fn start_second_pass(&self, acc: (f32, f32), _: usize) -> (f32, f32) {
        (if acc.0.is_infinite() { 0.0 } else { acc.0 }, 0.0)
    }

    #[inline(always)]
    fn take_number<const PASS: usize>(
        &self,
        (most, sum): (f32, f32),
        x: f32,
        _: i32,
    ) -> (f32, f32) {
        if PASS == 0 { (maximum(x, most), sum) } else { (most, sum + exp(x - most)) }
    }

    #[inline(always)]
    fn join_accumulators<const PASS: usize>(&self, a: (f32, f32), b: (f32, f32)) -> (f32, f32) {
        if PASS == 0 { (maximum(b.0, a.0), a.1) } else { (a.0, a.1 + b.1) }
    }

    fn finish_results(&self, (most, sum): (f32, f32), _: usize) -> (f32, f32) {
        (canonicalize_nan(log(sum) + most), 0.0)
    }
}
