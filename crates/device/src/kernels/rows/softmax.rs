//! Softmax and its logarithm.

use super::{Line, LineCost, LineOp};
use crate::error::Result;
use crate::kernels::reduce::Lies;
use std::sync::Arc;
use zellige_math as math;
use zellige_op::LineOperation;
use zellige_op::Softmax;

impl LineOp for Softmax {
    fn lanes(&self, size: &[usize]) -> Result<Lies> {
        Ok(self.along(size)?.first().map_or(Lies::Any, |dim| Lies::Along(*dim)))
    }

    fn cost(&self, n: usize) -> LineCost {
        let log = u64::from(self.log);
        LineCost { plain: 4 * n as u64, transcendental: n as u64 + log }
    }

    /// A row of nothing but minus infinities has no largest number to compare with: it is NaN, as
    /// PyTorch and ONNX have it.
    fn infinities(&self) -> bool {
        true
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
            values.iter_mut().for_each(|v| *v = math::canonicalize_nan(*v - most - log));
        } else {
            let sum = math::exp_sub_sum(x, most);
            math::scale_row(x, 1.0 / sum);
        }
    }
}
