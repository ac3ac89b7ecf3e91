//! Another dtype: every number passes unchanged and is rounded once.
//!
//! To an integer, a number loses its fraction (toward zero) and saturates, NaN is 0; between integers
//! it wraps. To uint8, floats saturate at 0 and 255. To bool, anything but zero is true, NaN too. A
//! format of another width has another number of elements per stick; lanes stay along the same
//! dimension.

use super::io::KernelNumber;
use super::pointwise::{
    PointwiseTask, broadcast_needs, cut_walks, elementwise_charges, keep_lowest_byte,
    layouts_for_result, normalize_truths, result_spans,
};
use super::{FollowedLoops, KernelLayouts, KernelTask, LayoutNeed, OpKernel, dims};
use crate::error::Result;
use crate::run::division::{LoopSpan, WorkDivision};
use crate::tensor::kept::KeptDtypes;
use crate::tensor::result_layout::{layout_like_in, result_format};
use crate::tensor::sticks::StickForm;
use crate::tensor::tensor_layout::TensorLayout;
use std::sync::Arc;
use zellige_float::Dtype;
use zellige_float::Format;
use zellige_machine::OperationCharges;
use zellige_op::{CastOp, TensorType};
use zellige_stick::DataFormat;

impl OpKernel for CastOp {
    fn plan_layouts(
        &self,
        inputs: &[TensorLayout],
        outputs: &[TensorType],
    ) -> Result<KernelLayouts> {
        let format = format_for_dtype(inputs, self.dtype, self.wide)?;
        layouts_for_result(inputs, layout_like_in(inputs, &outputs[0], format)?)
    }

    fn iteration_space(&self, inputs: &[StickForm], outputs: &[StickForm]) -> Vec<LoopSpan> {
        result_spans(inputs, &outputs[0])
    }

    fn followed_loops(
        &self,
        inputs: &[StickForm],
        outputs: &[StickForm],
    ) -> Option<Vec<FollowedLoops>> {
        Some(dims::follow_result_loops(inputs, outputs))
    }

    fn unit_charges(&self, _: &[StickForm], outputs: &[StickForm]) -> Option<OperationCharges> {
        Some(elementwise_charges(&outputs[0], false))
    }

    fn operand_needs(
        &self,
        inputs: &[TensorLayout],
        outputs: &[StickForm],
    ) -> Option<Vec<LayoutNeed>> {
        Some(broadcast_needs(inputs, &outputs[0]))
    }

    fn bind_task(
        &self,
        inputs: &[StickForm],
        outputs: &[StickForm],
        division: &WorkDivision,
    ) -> Result<Box<dyn KernelTask>> {
        let (from, to) = (&inputs[0], &outputs[0]);
        let walks = cut_walks(self.name, inputs, &[], to, division, false)?;
        let (formats, byte) = ([from.format], to.format == Format::U32);
        fn copy<T: KernelNumber>(x: &[&[T]], out: &mut [T]) {
            out.copy_from_slice(x[0]);
        }
        // Four kinds of numbers in between, each of which holds every value of the source: a cast must round once
        // only.
        Ok(if from.format.is_float() && to.format.is_float() {
            let finish: Option<fn(&mut [f32])> =
                (to.truth && !from.truth).then_some(|x| map_in_place(x, |v| f32::from(v != 0.0)));
            let work =
                PointwiseTask::<f32>::new(Arc::new(copy), finish, &formats, to.format, walks);
            Box::new(work.with_infinities(&formats))
        } else if from.format.is_float() {
            // Float32 holds no int32 between its own numbers, float64 all of them. To 64 bits a float
            // is exact or saturates either way.
            let finish: Option<fn(&mut [f64])> =
                byte.then_some(|x| map_in_place(x, |v| v.clamp(0.0, 255.0)));
            let work =
                PointwiseTask::<f64>::new(Arc::new(copy), finish, &formats, to.format, walks);
            Box::new(work.with_infinities(&formats))
        } else if to.format.is_float() {
            // From int64 to the format in one rounding.
            let finish: Option<fn(&mut [i64])> = to.truth.then_some(normalize_truths);
            Box::new(PointwiseTask::<i64>::new(Arc::new(copy), finish, &formats, to.format, walks))
        // Between integers nothing is rounded, so that 64 bits are used only where a tensor has them.
        } else if from.format == Format::I64 || to.format == Format::I64 {
            let finish: Option<fn(&mut [i64])> = byte.then_some(keep_lowest_byte);
            Box::new(PointwiseTask::<i64>::new(Arc::new(copy), finish, &formats, to.format, walks))
        } else {
            let finish: Option<fn(&mut [i32])> = byte.then_some(keep_lowest_byte);
            Box::new(PointwiseTask::<i32>::new(Arc::new(copy), finish, &formats, to.format, walks))
        })
    }
}

fn map_in_place<T: Copy>(x: &mut [T], f: impl Fn(T) -> T) {
    x.iter_mut().for_each(|x| *x = f(*x));
}

/// The format of a dtype; float32 and int64 keep all their bits with `wide`.
pub(crate) fn format_for_dtype(
    operands: &[TensorLayout],
    dtype: Dtype,
    wide: bool,
) -> Result<DataFormat> {
    if wide { KeptDtypes::ALL.default_format(dtype) } else { result_format(operands, dtype) }
}
