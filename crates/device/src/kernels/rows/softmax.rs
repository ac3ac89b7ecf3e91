//! Softmax and its logarithm.

use super::{LineCost, LineFunction, LineOpKernel};
use crate::error::Result;
use crate::kernels::reduce::LaneDemand;
use std::sync::Arc;
use zellige_math as math;
use zellige_op::LineOperation;
use zellige_op::SoftmaxOp;

impl LineOpKernel for SoftmaxOp {
    fn first_lane_demand(&self, size: &[usize]) -> Result<LaneDemand> {
        Ok(self.line_dims(size)?.first().map_or(LaneDemand::Any, |dim| LaneDemand::Along(*dim)))
    }

    fn line_cost(&self, n: usize) -> LineCost {
        let log = u64::from(self.log);
        LineCost { plain: 4 * n as u64, transcendental: n as u64 + log }
    }

    /// A row of nothing but minus infinities has no largest number to compare with: it is NaN, as
    /// PyTorch and ONNX have it.
    fn needs_infinities(&self) -> bool {
        true
    }

    fn float_function(&self) -> Option<Arc<dyn LineFunction<f32>>> {
        Some(Arc::new(SoftmaxRow { log: self.log }))
    }
}

struct SoftmaxRow {
    log: bool,
}

impl LineFunction<f32> for SoftmaxRow {
    fn in_place(&self) -> bool {
        !self.log
    }

    fn run_line(&self, x: &mut [f32], _: &[&[f32]], values: &mut [f32], _: &mut [i32]) {
        // The largest number is subtracted first, because the exponential of 89 is infinite in float32 already.
        let most = math::max(x);
        if self.log {
            // The exponentials overwrite their operands, which the logarithm needs once more.
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
