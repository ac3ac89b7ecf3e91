//! In which order a result fills its memory: the rules by which PyTorch's pointwise operators choose it.
//!
//! Operators that compute element by element keep the order of their operands: the result of a transposed
//! tensor is transposed, that of channels that come last has them last. So users may write
//! `x.t().relu().t().view(-1)`. Where operands differ, the first one whose strides order two dimensions decides.

use super::handle::DimList;
use crate::error;
use pyo3::prelude::*;
use smallvec::SmallVec;
use zellige_device::{DeviceError, Tensor};
use zellige_layout::StridedLayout;
use zellige_op::TensorOp;

/// The order of dimensions of a result in memory that it fills.
#[derive(Debug, PartialEq, Eq)]
struct FillOrder {
    /// Its dimensions by falling strides.
    dims: SmallVec<[usize; 6]>,
    stride: DimList,
}

impl FillOrder {
    /// The strides of a tensor that fills its memory in an order of its dimensions, the slowest first.
    fn from_dim_order(size: &[i64], dims: SmallVec<[usize; 6]>) -> FillOrder {
        let mut stride: DimList = size.iter().map(|_| 1).collect();
        let mut step = 1;
        for d in dims.iter().rev() {
            stride[*d] = step;
            step *= size[*d].max(1);
        }
        FillOrder { dims, stride }
    }

    /// The order of strides that are given.
    fn from_strides(size: &[i64], stride: &[i64]) -> FillOrder {
        let mut dims: SmallVec<[usize; 6]> = (0..stride.len()).collect();
        // A dimension of one element may have any stride: it is no step of the memory.
        dims.sort_by_key(|d| (size[*d] != 1, std::cmp::Reverse(stride[*d])));
        FillOrder { dims, stride: DimList::from_slice(stride) }
    }
}

/// Whether the strides are those of a new row-major tensor, in dimensions of one element too.
fn has_row_major_strides(view: &StridedLayout) -> bool {
    let mut step = 1;
    view.size().iter().zip(view.stride()).rev().all(|(n, s)| {
        let fits = *s == step;
        step *= (*n).max(1);
        fits
    })
}

/// The strides of an operand seen in the size of a result: 0 where it has one element for many.
fn aligned_strides(view: &StridedLayout, size: &[i64]) -> DimList {
    let lead = size.len().saturating_sub(view.rank());
    let stride = |d: usize| match d.checked_sub(lead) {
        Some(own) if view.size()[own] == size[d] => view.stride()[own],
        _ => 0,
    };
    (0..size.len()).map(stride).collect()
}

/// The order of a result of this size; none for a row-major one. A `copy` keeps also the strides of dimensions
/// that have one element.
fn result_order(views: &[&StridedLayout], size: &[i64], copy: bool) -> Option<FillOrder> {
    if views.iter().all(|v| has_row_major_strides(v)) {
        return None;
    }
    if let [first, rest @ ..] = views
        && views.iter().all(|v| v.size() == size)
    {
        let kept =
            first.is_dense_non_overlapping() && rest.iter().all(|v| v.stride() == first.stride());
        if copy && kept {
            return Some(FillOrder::from_strides(size, first.stride()));
        }
        if views.iter().all(|v| v.is_row_major()) {
            return None;
        }
        if views.iter().all(|v| v.is_channels_last()) {
            let mut dims: SmallVec<[usize; 6]> = (0..size.len()).filter(|d| *d != 1).collect();
            dims.push(1);
            return Some(FillOrder::from_dim_order(size, dims));
        }
        if kept {
            return Some(FillOrder::from_strides(size, first.stride()));
        }
    }
    let strides: SmallVec<[DimList; 4]> = views.iter().map(|v| aligned_strides(v, size)).collect();
    // The fastest dimension first; at the beginning the last one.
    let mut fast: SmallVec<[usize; 6]> = (0..size.len()).rev().collect();
    for i in 1..size.len() {
        let mut at = i;
        for before in (0..i).rev() {
            match is_outer_dim(&strides, size, fast[before], fast[at]) {
                Some(true) => {
                    fast.swap(before, at);
                    at = before;
                }
                Some(false) => break,
                None => {}
            }
        }
    }
    fast.reverse();
    let row_major = fast.iter().enumerate().all(|(i, d)| i == *d);
    (!row_major).then(|| FillOrder::from_dim_order(size, fast))
}

/// The strides that PyTorch gives the result of an operator over these operands, each with its size and strides.
#[pyfunction]
pub(super) fn choose_strides(
    size: Vec<i64>,
    operands: Vec<(Vec<i64>, Vec<i64>)>,
) -> PyResult<Vec<i64>> {
    let views = operands.iter().map(|(size, stride)| StridedLayout::new(size, stride, 0));
    let views = views.collect::<Result<Vec<_>, _>>().map_err(|e| error::layout_error(&e))?;
    let views: SmallVec<[&StridedLayout; 4]> = views.iter().collect();
    let Some(FillOrder { dims, mut stride }) = result_order(&views, &size, false) else {
        return Ok(FillOrder::from_dim_order(&size, (0..size.len()).collect()).stride.to_vec());
    };
    if size.contains(&0) {
        // PyTorch multiplies the extents as they are here, and those of row-major tensors as if 0 were 1.
        let mut step = 1;
        for d in dims.iter().rev() {
            stride[*d] = step;
            step *= size[*d];
        }
    }
    Ok(stride.to_vec())
}

/// Whether dimension `a` is outside of `b`, by the first operand whose strides order the two.
fn is_outer_dim(strides: &[DimList], size: &[i64], a: usize, b: usize) -> Option<bool> {
    for stride in strides {
        match (stride[a], stride[b]) {
            (0, _) | (_, 0) => {}
            (x, y) if x != y => return Some(x > y),
            _ if size[a] > size[b] => return Some(true),
            _ => {}
        }
    }
    None
}

/// The operands of a pointwise operation, transposed so that its result is row-major, and the view of that result;
/// none where the result is row-major without a transpose.
pub(super) struct TransposedOperands {
    pub(super) inputs: SmallVec<[Tensor; 4]>,
    size: DimList,
    stride: DimList,
}

impl TransposedOperands {
    pub(super) fn new(
        op: &TensorOp,
        inputs: &[Tensor],
    ) -> Result<Option<TransposedOperands>, DeviceError> {
        // PyTorch clones what it fills under a mask into a row-major tensor first.
        let keeps = op.is_pointwise() && op.name() != "masked_fill";
        if !keeps || inputs.iter().all(|t| has_row_major_strides(t.view())) {
            return Ok(None);
        }
        let copy = matches!(op.name(), "clone" | "cast");
        let rank = inputs.iter().map(|t| t.size().len()).max().unwrap_or(0);
        let mut size: DimList = (0..rank).map(|_| 1).collect();
        for input in inputs {
            let lead = rank - input.size().len();
            for (d, n) in input.size().iter().enumerate() {
                let wide = &mut size[lead + d];
                match (*wide, *n) {
                    (a, b) if a == b || b == 1 => {}
                    (1, b) => *wide = b,
                    // The operation refuses these operands with a message of its own.
                    _ => return Ok(None),
                }
            }
        }
        // A number is an operand that has no opinion; to these two it is none at all.
        let alone = matches!(op.name(), "lerp" | "pow");
        let views = inputs.iter().filter(|t| !alone || !t.size().is_empty());
        let views: SmallVec<[&StridedLayout; 4]> = views.map(|t| t.view()).collect();
        let Some(FillOrder { dims, stride }) = result_order(&views, &size, copy) else {
            return Ok(None);
        };
        let turn = |t: &Tensor| {
            if t.size().is_empty() {
                return Ok(t.clone());
            }
            t.view_with(|v| {
                let lead = rank - v.rank();
                let own = |d: &usize| match d.checked_sub(lead) {
                    Some(own) => (v.size()[own], v.stride()[own]),
                    None => (1, 1),
                };
                let (size, stride): (Vec<i64>, Vec<i64>) = dims.iter().map(own).unzip();
                StridedLayout::new(&size, &stride, v.offset())
            })
        };
        let inputs = inputs.iter().map(turn).collect::<Result<_, _>>()?;
        Ok(Some(TransposedOperands { inputs, size, stride }))
    }

    /// A result of the transposed operands, in the original order of dimensions.
    pub(super) fn transpose_back(&self, made: &Tensor) -> Result<Tensor, DeviceError> {
        made.view_with(|_| StridedLayout::new(&self.size, &self.stride, 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(views: &[(&[i64], &[i64])], size: &[i64]) -> Option<Vec<i64>> {
        let views: Vec<StridedLayout> =
            views.iter().map(|(n, s)| StridedLayout::new(n, s, 0).expect("a view")).collect();
        let views: Vec<&StridedLayout> = views.iter().collect();
        result_order(&views, size, false).map(|o| o.stride.to_vec())
    }

    // What PyTorch 2.15 gives on the CPU for `a + b`.
    #[test]
    fn the_strides_are_those_of_pytorch() {
        let cases: &[(&[(&[i64], &[i64])], &[i64], Option<&[i64]>)] = &[
            (&[(&[3, 4], &[1, 3])], &[3, 4], Some(&[1, 3])),
            (&[(&[3, 4], &[8, 2])], &[3, 4], None),
            (&[(&[3, 4], &[1, 6])], &[3, 4], Some(&[1, 3])),
            (&[(&[3, 4], &[4, 1]), (&[3, 4], &[1, 3])], &[3, 4], None),
            (&[(&[3, 4], &[1, 3]), (&[3, 4], &[4, 1])], &[3, 4], Some(&[1, 3])),
            (&[(&[4], &[1]), (&[3, 4], &[1, 3])], &[3, 4], Some(&[1, 3])),
            (&[(&[2, 3, 4, 5], &[60, 1, 15, 3])], &[2, 3, 4, 5], Some(&[60, 1, 15, 3])),
            (
                &[(&[2, 3, 1, 1], &[3, 1, 1, 1]), (&[2, 3, 4, 5], &[60, 1, 15, 3])],
                &[2, 3, 4, 5],
                Some(&[60, 1, 15, 3]),
            ),
            (&[(&[2, 3, 4], &[1, 8, 2])], &[2, 3, 4], Some(&[1, 8, 2])),
            (&[(&[3, 4], &[0, 1])], &[3, 4], None),
        ];
        for (views, size, want) in cases {
            assert_eq!(of(views, size).as_deref(), *want, "{views:?}");
        }
    }
}
