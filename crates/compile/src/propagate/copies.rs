//! Copies of a tensor are the same if their elements have the same coordinates, whatever view the reader has.
//!
//! A tensor that is read directly and through a transposed view may need one and the same buffer twice, once described
//! in the dimensions of each view. [`CopyBytes`] is the same for both, so that one move makes one buffer for all
//! readers.

use super::{OperandLayout, bind_operand_layout, layout_behind_view};
use crate::options::CompilerOptions;
use zellige_graph::GraphTensor;
use zellige_layout::StridedLayout;
use zellige_stick::{LaneArrangement, StickLayout};

/// The coordinates of the elements of a tensor in a copy.
///
/// **Law**: copies of one tensor with equal values have every element at the same coordinates, and the same padding.
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

/// The key of the buffer that serves a reader with this key: the whole tensor where the copied view has all of its
/// elements and a layout of the tensor gives them the same coordinates, otherwise the key itself.
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

/// The identity of the copy that a reader needs among those of the tensor.
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
    // Several stick dimensions, gaps and staggered lanes are not described by one step per dimension. Such copies are
    // compared as they are written, which at worst makes one copy too many.
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
            // With a single stick its step is never taken, so that two layouts which differ there are the same bytes.
            let step = if lanes && form.stick_count() == 1 { 0 } else { form.stride[d] };
            (view.stride()[d], form.size[d], step, lanes)
        })
        .collect();
    // Sorted by the step in the tensor, so that two views of it list the same dimensions in the same order.
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
