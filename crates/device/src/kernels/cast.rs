//! Another dtype: every number passes unchanged and is rounded once.
//!
//! To an integer, a number loses its fraction (toward zero) and saturates, NaN is 0; between integers
//! it wraps. To uint8, floats saturate at 0 and 255. To bool, anything but zero is true, NaN too. A
//! format of another width has another number of elements per stick; lanes stay along the same
//! dimension.

use super::io::Number;
use super::pointwise::{Work, by_element, bytes, cut, lay_around, spans, truths, wants};
use super::{Follows, Kernel, KernelLayouts, LayoutNeed, Task, dims};
use crate::error::Result;
use crate::run::division::{Division, Span};
use crate::tensor::kept::Kept;
use crate::tensor::result_layout::{like_in, result_format};
use crate::tensor::sticks::Sticks;
use crate::tensor::tensor_layout::TensorLayout;
use std::sync::Arc;
use zellige_float::Dtype;
use zellige_float::Format;
use zellige_machine::OperationCharges;
use zellige_op::{Cast, TensorType};
use zellige_stick::DataFormat;

impl Kernel for Cast {
    fn lay(&self, inputs: &[TensorLayout], outputs: &[TensorType]) -> Result<KernelLayouts> {
        let format = stored(inputs, self.dtype, self.wide)?;
        lay_around(inputs, like_in(inputs, &outputs[0], format)?)
    }

    fn space(&self, inputs: &[Sticks], outputs: &[Sticks]) -> Vec<Span> {
        spans(inputs, &outputs[0])
    }

    fn loops(&self, inputs: &[Sticks], outputs: &[Sticks]) -> Option<Vec<Follows>> {
        Some(dims::follow_result(inputs, outputs))
    }

    fn charges(&self, _: &[Sticks], outputs: &[Sticks]) -> Option<OperationCharges> {
        Some(by_element(&outputs[0], false))
    }

    fn suit(&self, inputs: &[TensorLayout], outputs: &[Sticks]) -> Option<Vec<LayoutNeed>> {
        Some(wants(inputs, &outputs[0]))
    }

    fn task(
        &self,
        inputs: &[Sticks],
        outputs: &[Sticks],
        division: &Division,
    ) -> Result<Box<dyn Task>> {
        let (from, to) = (&inputs[0], &outputs[0]);
        let walks = cut(self.name, inputs, &[], to, division, false)?;
        let (formats, byte) = ([from.format], to.format == Format::U32);
        fn copy<T: Number>(x: &[&[T]], out: &mut [T]) {
            out.copy_from_slice(x[0]);
        }
        Ok(if from.format.is_float() && to.format.is_float() {
            let finish: Option<fn(&mut [f32])> =
                (to.truth && !from.truth).then_some(|x| each(x, |v| f32::from(v != 0.0)));
            let work = Work::<f32>::new(Arc::new(copy), finish, &formats, to.format, walks);
            Box::new(work.exact(&formats))
        } else if from.format.is_float() {
            // Float32 holds no int32 between its own numbers, float64 all of them. To 64 bits a float
            // is exact or saturates either way.
            let finish: Option<fn(&mut [f64])> =
                byte.then_some(|x| each(x, |v| v.clamp(0.0, 255.0)));
            let work = Work::<f64>::new(Arc::new(copy), finish, &formats, to.format, walks);
            Box::new(work.exact(&formats))
        } else if to.format.is_float() {
            // From int64 to the format in one rounding.
            let finish: Option<fn(&mut [i64])> = to.truth.then_some(truths);
            Box::new(Work::<i64>::new(Arc::new(copy), finish, &formats, to.format, walks))
        } else if from.format == Format::I64 || to.format == Format::I64 {
            let finish: Option<fn(&mut [i64])> = byte.then_some(bytes);
            Box::new(Work::<i64>::new(Arc::new(copy), finish, &formats, to.format, walks))
        } else {
            let finish: Option<fn(&mut [i32])> = byte.then_some(bytes);
            Box::new(Work::<i32>::new(Arc::new(copy), finish, &formats, to.format, walks))
        })
    }
}

fn each<T: Copy>(x: &mut [T], f: impl Fn(T) -> T) {
    x.iter_mut().for_each(|x| *x = f(*x));
}

/// The format of a dtype; float32 and int64 are wide where asked.
pub(crate) fn stored(operands: &[TensorLayout], dtype: Dtype, wide: bool) -> Result<DataFormat> {
    if wide { Kept::ALL.format(dtype) } else { result_format(operands, dtype) }
}
