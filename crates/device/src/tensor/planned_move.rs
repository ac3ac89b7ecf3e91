//! Copies and fills whose plan is kept.
//!
//! A small copy takes longer to plan than to do, also where the plan is found in the cache of moves: both layouts have
//! to be lowered into the algebra to look for it.

use crate::error::Result;
use crate::tensor::format::host_format;
use crate::tensor::out_of_range;
use crate::tensor::tensor_layout::TensorLayout;
use crate::tensor::transfer::{TransferSide, find_mover, narrows_integers, plan_unfolding};
use smallvec::SmallVec;
use std::sync::Arc;
use zellige_host::AlignedBuffer;
use zellige_layout::StridedLayout;
use zellige_movement::Mover;
use zellige_op::HostScalar;

/// A copy between two layouts, or a number for every element of one.
pub(crate) struct PlannedMove {
    /// Where the view that is read forms no layout of its block, the move of its storage into a buffer of so many bytes,
    /// from which the elements are taken.
    unfolding: Option<(Arc<Mover>, usize)>,
    mover: Arc<Mover>,
    /// The bytes of the number, where one is written.
    number: SmallVec<[u8; 8]>,
}

/// Where the elements of a planned move come from.
#[derive(Clone, Copy)]
pub(crate) enum MoveSource<'a> {
    /// The block of the tensor that is copied.
    Bytes(&'a [u8]),
    /// The number that it was planned with.
    Number,
}

impl PlannedMove {
    /// Plans a copy of the elements of one tensor into another one of the same size. None where the elements have to be
    /// looked at first, because they might not fit, and where the view that is written forms no layout of its block.
    ///
    /// # Errors
    /// What the planner refuses.
    pub(crate) fn plan_copy(from: &TensorLayout, to: &TensorLayout) -> Result<Option<PlannedMove>> {
        if narrows_integers(from, to) {
            return Ok(None);
        }
        let Ok(target) = to.element_layout() else { return Ok(None) };
        let (unfolding, source) = match from.element_layout() {
            Ok(layout) => (None, layout),
            Err(_) => (Some(plan_unfolding(from)?), from.view().to_layout()?),
        };
        let source = TransferSide { layout: source, format: from.format() };
        let target = TransferSide { layout: target, format: to.format() };
        let mover = find_mover(&source, &target, from.size())?;
        Ok(Some(PlannedMove { unfolding, mover, number: SmallVec::new() }))
    }

    /// Plans the setting of every element to a number; none where a view forms no layout of its block.
    ///
    /// # Errors
    /// Numbers that the integers of the device do not hold, and what the planner refuses.
    pub(crate) fn plan_fill(to: &TensorLayout, value: HostScalar) -> Result<Option<PlannedMove>> {
        let value = value.held_as_dtype(to.dtype());
        out_of_range::check_number_fits(value, to.format())?;
        let Ok(target) = to.element_layout() else { return Ok(None) };
        let target = TransferSide { layout: target, format: to.format() };
        let (bytes, dtype) = value.host_bytes();
        let one = StridedLayout::new(to.size(), &vec![0; to.size().len()], 0)?;
        let source = TransferSide { layout: one.to_layout()?, format: host_format(dtype)? };
        let mover = find_mover(&source, &target, to.size())?;
        Ok(Some(PlannedMove { unfolding: None, mover, number: SmallVec::from_slice(&bytes) }))
    }

    /// Moves into the block of the tensor that is written.
    ///
    /// # Errors
    /// Memory that is too short for the layouts.
    pub(crate) fn run_move(
        &self,
        source: MoveSource<'_>,
        target: &mut [u8],
        threads: usize,
    ) -> Result<()> {
        let source = match source {
            MoveSource::Bytes(bytes) => bytes,
            MoveSource::Number => &self.number,
        };
        let Some((mover, bytes)) = &self.unfolding else {
            return Ok(self.mover.run_on_slices(source, target, None, threads)?);
        };
        let mut buffer = AlignedBuffer::new_zeroed(*bytes);
        mover.run_on_slices(source, &mut buffer, None, threads)?;
        Ok(self.mover.run_on_slices(&buffer, target, None, threads)?)
    }
}
