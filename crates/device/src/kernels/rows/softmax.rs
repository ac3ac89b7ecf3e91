//! Softmax and its logarithm.

use super::{Charge, Line, LineOp, operands, refuse};
use crate::error::Result;
use crate::kernels::reduce::Lies;
use crate::kernels::{Meta, dims};
use crate::lay::is_float;
use crate::sticks::Dims;
use std::sync::Arc;
use zellige_math as math;

/// Along one dimension, with m the largest and s the sum of exp(x - m), in the order of
/// `math::reduce` over the line: exp(x - m) * (1 / s), or x - m - log s.
///
/// A line with an infinity or NaN among its largest is NaN.
#[derive(Debug, Clone)]
pub(crate) struct Softmax {
    pub(crate) name: &'static str,
    pub(crate) dim: i64,
    pub(crate) log: bool,
}

impl LineOp for Softmax {
    fn name(&self) -> &'static str {
        self.name
    }

    fn infer(&self, inputs: &[Meta]) -> Result<Vec<Meta>> {
        operands(self.name, inputs, 1, 1)?;
        let x = &inputs[0];
        dims::one(self.name, "dim", self.dim, x.size.len())?;
        if !is_float(x.dtype) {
            let reason = format!("it is for floats, not {}; convert the operand first", x.dtype);
            return Err(refuse(self.name, Some(0), reason));
        }
        Ok(vec![x.clone()])
    }

    fn along(&self, size: &[usize]) -> Result<Dims<usize>> {
        Ok(dims::one(self.name, "dim", self.dim, size.len())?.into_iter().collect())
    }

    fn lanes(&self, size: &[usize]) -> Result<Lies> {
        let dim = dims::one(self.name, "dim", self.dim, size.len())?;
        Ok(dim.map_or(Lies::Any, Lies::Along))
    }

    fn charge(&self, n: usize) -> Charge {
        let log = u64::from(self.log);
        Charge { plain: 4 * n as u64, transcendental: n as u64 + log }
    }

    fn float(&self) -> Option<Arc<dyn Line<f32>>> {
        Some(Arc::new(Row { log: self.log }))
    }
}

struct Row {
    log: bool,
}

impl Line<f32> for Row {
    fn in_place(&self) -> bool {
        !self.log
    }

    fn run(&self, x: &mut [f32], _: &[&[f32]], values: &mut [f32], _: &mut [i32]) {
        let most = math::max(x);
        if self.log {
            values.copy_from_slice(x);
            let sum = math::exp_sub_sum(x, most);
            let log = math::log::log(sum);
            values.iter_mut().for_each(|v| *v = math::canonical(*v - most - log));
        } else {
            let sum = math::exp_sub_sum(x, most);
            math::scale(x, 1.0 / sum);
        }
    }
}
