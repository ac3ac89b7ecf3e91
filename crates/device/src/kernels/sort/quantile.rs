//! Quantiles.

use super::places;
use crate::kernels::rows::{Line, LineCost, LineOp};
use std::sync::Arc;
use zellige_math::canonicalize_nan;
use zellige_op::{Interpolation, Quantile};

impl LineOp for Quantile {
    fn cost(&self, n: usize) -> LineCost {
        let levels = u64::from(usize::BITS - n.leading_zeros());
        LineCost { plain: n as u64 * levels, transcendental: 0 }
    }

    fn float(&self) -> Option<Arc<dyn Line<f32>>> {
        Some(Arc::new(self.clone()))
    }
}

impl Line<f32> for Quantile {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "ranks are between 0 and the length of the line"
    )]
    fn run(&self, x: &mut [f32], _: &[&[f32]], values: &mut [f32], _: &mut [i32]) {
        let real = x.iter().filter(|x| !x.is_nan()).count();
        if real == 0 || (real < x.len() && !self.skip) {
            values.fill(f32::NAN);
            return;
        }
        // NaN is sorted last, so that the first ones are the others.
        let sorted = places(x, false, x.len());
        let rank = self.q * (real - 1) as f64;
        let low = rank.floor();
        let fraction = (rank - low) as f32;
        let at = |rank: f64| x[sorted[(rank as usize).min(real - 1)]];
        let (a, b) = (at(low), at(rank.ceil()));
        let value = match self.between {
            Interpolation::Linear => a + (b - a) * fraction,
            Interpolation::Lower => a,
            Interpolation::Higher => b,
            Interpolation::Nearest => at(rank.round_ties_even()),
            Interpolation::Midpoint => a + (b - a) * 0.5,
        };
        values.fill(canonicalize_nan(if a == b { a } else { value }));
    }
}
