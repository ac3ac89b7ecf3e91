//! Quantiles.

use super::sorted_indices;
use crate::kernels::rows::{LineCost, LineFunction, LineOpKernel};
use std::sync::Arc;
use zellige_math::canonicalize_nan;
use zellige_op::{QuantileInterpolation, QuantileOp};

impl LineOpKernel for QuantileOp {
    fn line_cost(&self, n: usize) -> LineCost {
        let levels = u64::from(usize::BITS - n.leading_zeros());
        LineCost { plain: n as u64 * levels, transcendental: 0 }
    }

    fn float_function(&self) -> Option<Arc<dyn LineFunction<f32>>> {
        Some(Arc::new(self.clone()))
    }
}

impl LineFunction<f32> for QuantileOp {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "ranks are between 0 and the length of the line"
    )]
    fn run_line(&self, x: &mut [f32], _: &[&[f32]], values: &mut [f32], _: &mut [i32]) {
        let real = x.iter().filter(|x| !x.is_nan()).count();
        if real == 0 || (real < x.len() && !self.skip) {
            values.fill(f32::NAN);
            return;
        }
        // NaN is sorted last, so that the first ones are the others.
        let sorted = sorted_indices(x, false, x.len());
        // In float64: with float32 the rank of a line of more than 2^24 elements would not be a whole number where
        // it has to be.
        let rank = self.q * (real - 1) as f64;
        let low = rank.floor();
        let fraction = (rank - low) as f32;
        let at = |rank: f64| x[sorted[(rank as usize).min(real - 1)]];
        let (a, b) = (at(low), at(rank.ceil()));
        let value = match self.between {
            QuantileInterpolation::Linear => a + (b - a) * fraction,
            QuantileInterpolation::Lower => a,
            QuantileInterpolation::Higher => b,
            QuantileInterpolation::Nearest => at(rank.round_ties_even()),
            QuantileInterpolation::Midpoint => a + (b - a) * 0.5,
        };
        // Two equal infinities: their difference would be NaN.
        values.fill(canonicalize_nan(if a == b { a } else { value }));
    }
}
