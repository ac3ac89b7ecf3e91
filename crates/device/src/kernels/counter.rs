//! Counters: operands without memory that tell where an element is.
//!
//! A walk steps its operands; one whose strides are the weights of a linear function of the coordinates
//! has the value of that function as its "place". So kernels know where they are in any layout, on any
//! core.

use crate::tensor::sticks::StickForm;
use zellige_float::Format;
use zellige_op::PerDimension;

/// The counter `sum(c[d] * weight[d])` over the coordinates of `out`: at lane `l` of a row that
/// begins at `start`, it is `start + l * lane(out, weight)`.
pub(crate) fn linear_counter(out: &StickForm, weight: &[usize]) -> StickForm {
    let mut stride: PerDimension<usize> = weight.into();
    if let Some(s) = out.stick {
        // Strides of a stick dimension lead from stick to stick; within one the lanes advance on their own.
        stride[s] *= out.eps;
    }
    StickForm { stride, offset: 0, format: Format::F32, truth: false, ..out.clone() }
}

/// How far the counter moves from lane to lane.
pub(crate) fn lane_step(out: &StickForm, weight: &[usize]) -> usize {
    out.stick.map_or(0, |s| weight[s])
}

/// The weights of the row-major index.
pub(crate) fn row_major_weights(size: &[usize]) -> PerDimension<usize> {
    let mut weight = PerDimension::from_elem(1, size.len());
    for d in (1..size.len()).rev() {
        weight[d - 1] = weight[d] * size[d].max(1);
    }
    weight
}
