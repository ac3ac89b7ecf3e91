//! Quantiles.

use super::places;
use crate::error::{DeviceError, Result};
use crate::kernels::rows::{Charge, Line, LineOp, operands, refuse};
use crate::kernels::{Meta, dims};
use crate::lay::is_float;
use crate::sticks::Dims;
use std::sync::Arc;
use zellige_math::canonical;

/// What stands between two elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Between {
    /// On the line between them.
    Linear,
    /// The lower one.
    Lower,
    /// The higher one.
    Higher,
    /// The nearer one; halfway, the one with the even rank.
    Nearest,
    /// Their mean.
    Midpoint,
}

/// The element of rank q (n - 1) in the sorted line of n, with `between` where that is no integer:
/// low + (high - low) * fraction in float32. A line with a NaN gives NaN; with `skip`, NaN is left
/// out, and a line of nothing else gives NaN.
#[derive(Debug, Clone)]
pub(crate) struct Quantile {
    pub(crate) name: &'static str,
    pub(crate) q: f64,
    pub(crate) dim: Option<i64>,
    pub(crate) keepdim: bool,
    pub(crate) between: Between,
    pub(crate) skip: bool,
}

impl LineOp for Quantile {
    fn name(&self) -> &'static str {
        self.name
    }

    fn infer(&self, inputs: &[Meta]) -> Result<Vec<Meta>> {
        operands(self.name, inputs, 1, 1)?;
        let Meta { mut size, dtype } = inputs[0].clone();
        if !(0.0..=1.0).contains(&self.q) {
            let reason = format!("{} is not between 0 and 1", self.q);
            return Err(DeviceError::BadAttribute {
                op: self.name.into(),
                name: "q".into(),
                reason,
            });
        }
        if !is_float(dtype) {
            let reason = format!("it is for floats, not {dtype}; convert the operand first");
            return Err(refuse(self.name, Some(0), reason));
        }
        let whole: Vec<usize> = size.iter().map(|n| usize::try_from(*n).unwrap_or(0)).collect();
        let along = self.along(&whole)?;
        if along.iter().any(|d| size[*d] == 0) {
            return Err(refuse(self.name, Some(0), "it has no elements, and of none no quantile"));
        }
        for d in along.iter().rev() {
            if self.keepdim {
                size[*d] = 1;
            } else {
                size.remove(*d);
            }
        }
        Ok(vec![Meta { size, dtype }])
    }

    fn along(&self, size: &[usize]) -> Result<Dims<usize>> {
        Ok(match self.dim {
            None => (0..size.len()).collect(),
            Some(dim) => dims::one(self.name, "dim", dim, size.len())?.into_iter().collect(),
        })
    }

    fn drops(&self) -> bool {
        !self.keepdim
    }

    fn charge(&self, n: usize) -> Charge {
        let levels = u64::from(usize::BITS - n.leading_zeros());
        Charge { plain: n as u64 * levels, transcendental: 0 }
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
            Between::Linear => a + (b - a) * fraction,
            Between::Lower => a,
            Between::Higher => b,
            Between::Nearest => at(rank.round_ties_even()),
            Between::Midpoint => a + (b - a) * 0.5,
        };
        values.fill(canonical(if a == b { a } else { value }));
    }
}
