//! Which part of every tensor a core has: the loops that dimensions of tensors follow.

use crate::error::Result;
use crate::error::refuse_operand;
use crate::kernels::FollowedLoops;
use crate::kernels::find_kernel;
use crate::run::division::{LoopSpan, WorkDivision};
use crate::tensor::sticks::StickForm;
use crate::tensor::tensor_layout::TensorLayout;
use std::ops::Range;
use zellige_machine::OperationCharges;
use zellige_op::{PerDimension, TensorOp};

/// The loops of an operation, and which of them each dimension of each tensor follows.
///
/// **Law**: where no reduction is split, core `c` of a division writes exactly the elements of its
/// [regions](OpLoops::core_region) of the results, and what it writes depends on no element of an operand outside
/// its region of that operand. With a split reduction, the cores of a group have one region of the
/// results together, and each of them reads its region of the operands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpLoops {
    spans: Vec<LoopSpan>,
    tensors: Vec<FollowedLoops>,
    sizes: Vec<PerDimension<usize>>,
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

/// The loops of the operation on tensors of these layouts; none for an operation whose slices are no
/// boxes of its tensors, and for one that only moves elements.
///
/// # Errors
/// Operands that it does not take, results of other sizes than it gives, tensors that kernels cannot
/// read as they lie.
pub(super) fn find_loops(
    op: &TensorOp,
    inputs: &[TensorLayout],
    outputs: &[TensorLayout],
) -> Result<Option<OpLoops>> {
    check_tensors(op, inputs, outputs)?;
    let forms = |list: &[TensorLayout]| {
        list.iter().map(TensorLayout::stick_form).collect::<Result<Vec<StickForm>>>()
    };
    let (ins, outs) = (forms(inputs)?, forms(outputs)?);
    let Some(tensors) = find_kernel(op).followed_loops(&ins, &outs) else {
        return Ok(None);
    };
    let sizes = ins.iter().chain(&outs).map(|t| t.size.clone()).collect();
    Ok(Some(OpLoops { spans: find_kernel(op).iteration_space(&ins, &outs), tensors, sizes }))
}

/// Refuses tensors that are not those of the operation.
pub(super) fn check_tensors(
    op: &TensorOp,
    inputs: &[TensorLayout],
    outputs: &[TensorLayout],
) -> Result<()> {
    let given =
        op.infer_types(&inputs.iter().map(TensorLayout::tensor_type).collect::<Vec<_>>())?;
    let own: Vec<&[i64]> = given.iter().map(|m| m.size.as_slice()).collect();
    let laid: Vec<&[i64]> = outputs.iter().map(TensorLayout::size).collect();
    if own != laid {
        let reason = format!("its results have sizes {own:?}, not {laid:?}");
        return Err(refuse_operand(op.name(), None, reason));
    }
    Ok(())
}

/// What the operation asks of the units on tensors of these layouts; none for one whose work is no plain function
/// of its slices.
///
/// # Errors
/// As [`PlanOp::find_loops`](super::PlanOp::loops).
pub(super) fn find_charges(
    op: &TensorOp,
    inputs: &[TensorLayout],
    outputs: &[TensorLayout],
) -> Result<Option<OperationCharges>> {
    check_tensors(op, inputs, outputs)?;
    let forms = |list: &[TensorLayout]| {
        list.iter().map(TensorLayout::stick_form).collect::<Result<Vec<StickForm>>>()
    };
    Ok(find_kernel(op).unit_charges(&forms(inputs)?, &forms(outputs)?))
}
