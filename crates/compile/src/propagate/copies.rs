//! What tells copies of a tensor apart: where its elements lie in them, not the view through which somebody asked.
//!
//! A tensor that is read as it is and through a transposed view may be wanted in one and the same buffer twice, once in
//! the dimensions of each. [`CopyBytes`] is the same for both, so that one move makes one buffer for all readers.

use super::{OperandLayout, bind_operand_layout, layout_behind_view};
use crate::options::CompilerOptions;
use zellige_graph::GraphTensor;
use zellige_layout::StridedLayout;
use zellige_stick::{LaneArrangement, StickLayout};

/// Where the elements of a tensor lie in a copy.
///
/// **Law**: copies of one tensor with equal values have every element at the same place, and the same padding.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum CopyBytes {
    /// Along each dimension of the tensor, or of the part of it that is copied.
    Regular(RegularCopy),
    /// A form that is compared as it is written.
    AsWritten(OperandLayout),
}

/// A copy whose dimensions each have one step, and one of them the lanes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct RegularCopy {
    /// The element of the tensor with which the copy begins.
    begin: i64,
    /// Of every dimension with more than one element: its step in the tensor, its size, its step in the copy, and
    /// whether lanes run along it.
    dims: Vec<(i64, usize, usize, bool)>,
    format: &'static str,
    positions: i64,
}

/// The key of the buffer that serves a reader who wants this: the whole tensor where the copied view has all of its
/// elements and a layout of the tensor puts them in the same places, otherwise the key itself.
pub(crate) fn whole_copy(
    options: &CompilerOptions,
    t: &GraphTensor,
    key: &OperandLayout,
) -> OperandLayout {
    let all = |view: &StridedLayout| {
        let numel = t.size.iter().product::<i64>();
        view.numel() == numel && view.offset() == 0 && view.is_dense_non_overlapping()
    };
    match key.view.as_ref().filter(|v| all(v)).and_then(|_| layout_behind_view(options, t, key)) {
        Some(layout) => OperandLayout { view: None, layout },
        None => key.clone(),
    }
}

/// What tells the copy that a reader wants from others of the tensor.
pub(crate) fn copy_bytes(
    options: &CompilerOptions,
    t: &GraphTensor,
    key: &OperandLayout,
) -> CopyBytes {
    let whole = whole_copy(options, t, key);
    find_regular_copy(options, t, &whole).map_or(CopyBytes::AsWritten(whole), CopyBytes::Regular)
}

fn find_regular_copy(
    options: &CompilerOptions,
    t: &GraphTensor,
    key: &OperandLayout,
) -> Option<RegularCopy> {
    let layout = &key.layout;
    let plain = layout.stick_dims() == 1
        && !layout.has_gaps()
        && layout.arrangement() == LaneArrangement::Standard;
    let laid = bind_operand_layout(options, t.dtype, key, None).ok()?;
    if !plain || laid.numel() == 0 || laid.rows_past_the_end().is_some() {
        return None;
    }
    let form = laid.stick_form().ok()?;
    let view = match &key.view {
        Some(view) => view.clone(),
        None => StridedLayout::new_contiguous(&t.size).ok()?,
    };
    // A repeated dimension has no step in the tensor by which it could be found again.
    if view.sizes_and_strides().any(|(n, step)| n > 1 && step == 0) {
        return None;
    }
    let mut dims: Vec<(i64, usize, usize, bool)> = (0..form.rank())
        .filter(|d| form.size[*d] > 1)
        .map(|d| {
            let lanes = form.stick == Some(d);
            let step = if lanes && form.stick_count() == 1 { 0 } else { form.stride[d] };
            (view.stride()[d], form.size[d], step, lanes)
        })
        .collect();
    dims.sort_unstable();
    let format = layout.device_dtype().name();
    Some(RegularCopy { begin: view.offset(), dims, format, positions: layout.count_positions() })
}

/// How a reader whose operand is a copied view finds it in a buffer that holds another view of the same elements: the
/// operand's view in the dimensions of that copy. None where the dimensions are not the same ones in another order.
pub(crate) fn view_in_copy(
    operand: &StridedLayout,
    held: &StridedLayout,
    copy: &StickLayout,
) -> Option<StridedLayout> {
    let own = copy.host()?;
    let mut free: Vec<usize> = (0..held.rank()).filter(|d| held.size()[*d] > 1).collect();
    let mut strides = Vec::with_capacity(operand.rank());
    for (n, step) in operand.sizes_and_strides() {
        if n == 1 {
            strides.push(0);
            continue;
        }
        let at = free.iter().position(|d| (held.size()[*d], held.stride()[*d]) == (n, step))?;
        strides.push(own.stride()[free.remove(at)]);
    }
    let same = free.is_empty() && operand.offset() == held.offset();
    if same { StridedLayout::new(operand.size(), &strides, 0).ok() } else { None }
}
