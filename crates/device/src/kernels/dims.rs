//! Dimensions of an operation: which ones it works along, and forms with and without them.

use super::FollowedLoops;
use crate::tensor::sticks::StickForm;
use smallvec::SmallVec;

/// The form with lanes only where there are several: one element along the lanes is no line.
pub(crate) fn drop_unit_stick(t: &StickForm) -> StickForm {
    let mut t = t.clone();
    if let Some(s) = t.stick
        && t.size[s] == 1
    {
        t.stick = None;
        // No step leads anywhere along one element; a zero makes forms that differ in this alone equal.
        t.stride[s] = 0;
    }
    t
}

/// A form without some dimensions: one element stays of each with `keepdim`, otherwise
/// the dimension is removed.
pub(crate) fn remove_dims(t: &StickForm, gone: &[usize], keepdim: bool) -> StickForm {
    let mut left =
        StickForm { size: SmallVec::new(), stride: SmallVec::new(), stick: None, ..t.clone() };
    for d in 0..t.rank() {
        let goes = gone.contains(&d);
        if goes && !keepdim {
            continue;
        }
        if t.stick == Some(d) && !goes {
            left.stick = Some(left.size.len());
        }
        left.size.push(if goes { 1 } else { t.size[d] });
        left.stride.push(if goes { 0 } else { t.stride[d] });
    }
    left
}

/// The inverse on a result: removed dimensions are restored with one element.
pub(crate) fn restore_dims(t: &StickForm, gone: &[usize], rank: usize) -> StickForm {
    if t.rank() == rank {
        return t.clone();
    }
    let mut full = StickForm {
        size: SmallVec::from_elem(1, rank),
        stride: SmallVec::from_elem(0, rank),
        stick: None,
        ..t.clone()
    };
    // The dimensions that remain keep their order, which is the only thing that says which is which.
    for (own, d) in (0..rank).filter(|d| !gone.contains(d)).enumerate() {
        full.size[d] = t.size[own];
        full.stride[d] = t.stride[own];
        if t.stick == Some(own) {
            full.stick = Some(d);
        }
    }
    full
}

/// Lanes that stay together along a dimension: the most that a tensor has there.
pub(crate) fn lanes_per_unit<'a>(
    tensors: impl IntoIterator<Item = &'a StickForm>,
    dim: usize,
) -> usize {
    let along = tensors.into_iter().filter(|t| t.stick == Some(dim));
    along.map(|t| t.eps).max().unwrap_or(1)
}

/// The loops of a tensor that broadcasts to loops of these extents, the last dimensions together.
pub(crate) fn follow_loops(t: &StickForm, loops: &[usize]) -> FollowedLoops {
    let lead = loops.len().saturating_sub(t.rank());
    // A dimension of another extent is one that broadcasts: every core reads it whole.
    let meets = |d: usize| loops.get(lead + d) == Some(&t.size[d]);
    (0..t.rank()).map(|d| meets(d).then_some(lead + d)).collect()
}

/// The loops of tensors that broadcast to the first result, whose dimensions are the loops; then
/// those of the results, which are all of its size.
pub(crate) fn follow_result_loops(
    inputs: &[StickForm],
    outputs: &[StickForm],
) -> Vec<FollowedLoops> {
    let loops = &outputs[0].size;
    inputs.iter().chain(outputs).map(|t| follow_loops(t, loops)).collect()
}
