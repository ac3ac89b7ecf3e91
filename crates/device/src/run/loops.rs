//! Which part of every tensor a core has: the loops that dimensions of tensors follow.

use crate::kernels::FollowedLoops;
use crate::run::division::{LoopSpan, WorkDivision};
use std::ops::Range;
use zellige_op::PerDimension;

/// The loops of an operation, and which of them each dimension of each tensor follows.
///
/// **Law**: where no reduction is split, core `c` of a division writes exactly the elements of its
/// [regions](OpLoops::core_region) of the results, and what it writes depends on no element of an operand outside
/// its region of that operand. With a split reduction, the cores of a group have one region of the
/// results together, and each of them reads its region of the operands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpLoops {
    pub(super) spans: Vec<LoopSpan>,
    pub(super) tensors: Vec<FollowedLoops>,
    pub(super) sizes: Vec<PerDimension<usize>>,
}

impl OpLoops {
    /// The iteration space, dimensions of the results first.
    pub fn loop_spans(&self) -> &[LoopSpan] {
        &self.spans
    }

    /// How many tensors there are: operands, then results.
    pub fn tensor_count(&self) -> usize {
        self.tensors.len()
    }

    /// Per dimension of a tensor the number of the loop that it follows; none for one that every core
    /// has whole. The dimension is as long as its loop.
    pub fn followed_loops(&self, tensor: usize) -> &[Option<usize>] {
        &self.tensors[tensor]
    }

    /// The part of a tensor that a core has, as a range of every dimension.
    pub fn core_region(
        &self,
        tensor: usize,
        core: usize,
        division: &WorkDivision,
    ) -> Vec<Range<usize>> {
        let slice = division.core_slice(core, &self.spans);
        let dims = self.tensors[tensor].iter().zip(&self.sizes[tensor]);
        dims.map(|(follows, size)| follows.map_or(0..*size, |l| slice[l].clone())).collect()
    }
}
