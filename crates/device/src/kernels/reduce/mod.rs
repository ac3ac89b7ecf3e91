//! Reductions over any set of dimensions.
//!
//! # Order of arithmetic
//! Numbers are float32, or int32 that wraps where operand or result are integers (an int64 result is
//! stored in 32 bits: it is exact modulo 2^32).
//! - **The lanes are not reduced**: a result takes its numbers in row-major order of the reduced
//!   coordinates, in runs of 64; each run starts anew and then joins the ones before it.
//! - **The lanes are reduced**: a result has 32 accumulators; the number with coordinate `c` along
//!   the lanes is taken into accumulator `c mod 32`. Lines are taken in row-major order of the other
//!   reduced coordinates, in runs of 2048 numbers; each run starts 32 accumulators anew, which then
//!   join the ones before. In the end accumulator `i` takes in `i + 16`, then `i + 8`, 4, 2, 1.
//! - **Split over cores**: each core does so on its slice, coordinates counted from where the slice
//!   begins; parts are joined from the first core of a group to the last.
//!
//! [`ReductionKind`](zellige_op::ReductionKind) defines for every operation how a number is taken and how parts are
//! joined. The result rounds once.
//!
//! | file | holds |
//! |---|---|
//! | `fold` | the loops |
//! | `order`, `moments` | extremes with places; reductions in two passes |
//! | `bind` | the formula of every reduction |
//! | `plan` | slices of cores and what they cost |
//! | `task` | the passes and phases |
//! | `results` | results from accumulators, stored |

mod bind;
mod fold;
mod moments;
pub(crate) mod order;
mod plan;
mod results;
mod task;
#[cfg(test)]
mod tests;

use super::dims::{drop_unit_stick, remove_dims};
use super::{FollowedLoops, KernelLayouts, KernelTask, LayoutNeed, OpKernel};
use crate::error::Result;
use crate::error::refuse_operand;
use crate::run::division::{LoopSpan, WorkDivision};
use crate::tensor::result_layout::{
    bound_form, layout_in_form_order, layout_in_order, result_format,
};
use crate::tensor::sticks::StickForm;
use crate::tensor::tensor_layout::TensorLayout;
use zellige_float::Format;
use zellige_layout::StridedLayout;
use zellige_machine::OperationCharges;
use zellige_op::{PerDimension, ReduceOp, TensorType};
use zellige_stick::{DataFormat, StickLayout};

impl OpKernel for ReduceOp {
    fn plan_layouts(
        &self,
        inputs: &[TensorLayout],
        outputs: &[TensorType],
    ) -> Result<KernelLayouts> {
        let (lead, want) = settle_operand(&inputs[0], LaneDemand::Any)?;
        let mut wants = vec![want];
        for other in &inputs[1..] {
            // Further operands are read in step with the first, so that their lanes have to run as those of the
            // first do.
            wants.push(
                settle_operand(other, lead.stick.map_or(LaneDemand::Sparse, LaneDemand::Along))?.1,
            );
        }
        let gone = self.reduced_dims(lead.rank())?;
        let left = remove_dims(&lead, &gone, self.keepdim);
        let layouts = outputs
            .iter()
            .map(|meta| layout_in_form_order(&left, result_format(inputs, meta.dtype)?))
            .collect::<Result<_>>()?;
        Ok(KernelLayouts { inputs: wants, outputs: layouts })
    }

    fn iteration_space(&self, inputs: &[StickForm], outputs: &[StickForm]) -> Vec<LoopSpan> {
        let (ins, outs) = (drop_unit_sticks(inputs), drop_unit_sticks(outputs));
        self.reduced_dims(ins[0].rank())
            .map_or(Vec::new(), |gone| plan::reduction_space(&ins, &outs, &gone))
    }

    fn followed_loops(
        &self,
        inputs: &[StickForm],
        outputs: &[StickForm],
    ) -> Option<Vec<FollowedLoops>> {
        let (rank, outer) = (inputs[0].rank(), outputs[0].rank());
        let gone = self.reduced_dims(rank).ok()?;
        let kept: PerDimension<usize> = (0..rank).filter(|d| !gone.contains(d)).collect();
        let of_input = |d: usize| match gone.iter().position(|g| *g == d) {
            Some(i) => Some(outer + i),
            None if outer == rank => Some(d),
            None => kept.iter().position(|k| *k == d),
        };
        let own = |t: &StickForm| (0..t.rank()).map(of_input).collect();
        let results = outputs.iter().map(|t| (0..t.rank()).map(Some).collect());
        Some(inputs.iter().map(own).chain(results).collect())
    }

    fn unit_charges(
        &self,
        inputs: &[StickForm],
        outputs: &[StickForm],
    ) -> Option<OperationCharges> {
        let (x, rank) = (drop_unit_stick(&inputs[0]), inputs[0].rank());
        let gone = self.reduced_dims(rank).ok()?;
        let formats = |list: &[StickForm]| list.iter().map(|t| t.format).collect::<Vec<Format>>();
        let cost = bind::bind_reduction(self.what, &formats(inputs), &formats(outputs)).cost;
        // A second pass reads again where a group needs it, which is no plain function of the slices.
        if cost.passes > 1 {
            return None;
        }
        Some(cost.pass_charges(plan::reduction_work_kind(&x, &gone), outputs[0].rank(), gone.len()))
    }

    fn bind_task(
        &self,
        inputs: &[StickForm],
        outputs: &[StickForm],
        division: &WorkDivision,
    ) -> Result<Box<dyn KernelTask>> {
        let (ins, outs) = (drop_unit_sticks(inputs), drop_unit_sticks(outputs));
        let gone = self.reduced_dims(ins[0].rank())?;
        let formats = |list: &[StickForm]| list.iter().map(|t| t.format).collect::<Vec<Format>>();
        let reduction = bind::bind_reduction(self.what, &formats(inputs), &formats(outputs));
        let plan = plan::ReductionPlan::new(&ins, &outs, &gone, division, reduction.cost);
        let plan = plan.map_err(|_| {
            refuse_operand(
                self.name,
                None,
                "operands and results do not have their lanes along one dimension",
            )
        })?;
        Ok(reduction.into_task(plan))
    }
}

fn drop_unit_sticks(list: &[StickForm]) -> Vec<StickForm> {
    list.iter().map(drop_unit_stick).collect()
}

/// Where the lanes of an operand have to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LaneDemand {
    /// Anywhere.
    Any,
    /// Along a dimension, if it has more than one element.
    Along(usize),
    /// Nowhere: one element in each stick.
    Sparse,
}

/// The layout that an operand will have: its own if that will do, otherwise one with its
/// dimensions in order and the one of the lanes last.
pub(crate) fn settle_operand(
    t: &TensorLayout,
    wanted: LaneDemand,
) -> Result<(StickForm, LayoutNeed)> {
    if let Ok(form) = t.stick_form() {
        let form = drop_unit_stick(&form);
        let fits = match wanted {
            LaneDemand::Any => true,
            LaneDemand::Along(d) => form.stick == Some(d) || form.size[d] == 1,
            LaneDemand::Sparse => form.stick.is_none(),
        };
        // A tensor without elements fits every layout.
        if fits || form.numel() == 0 {
            return Ok((form, LayoutNeed::AsIs));
        }
    }
    let format: DataFormat = t.stick_layout().device_dtype();
    let host = StridedLayout::new_contiguous(t.size())?;
    let plain_order: Vec<usize> = (0..host.rank()).collect();
    let layout = match wanted {
        LaneDemand::Any => StickLayout::default_in_format(t.size(), None, format)?,
        LaneDemand::Along(d) => {
            let order = plain_order.into_iter().filter(|k| *k != d).chain([d]);
            let order: Vec<i64> = order.map(|k| i64::try_from(k).unwrap_or(0)).collect();
            StickLayout::with_dim_order_in_format(t.size(), None, format, &order)?
        }
        LaneDemand::Sparse => layout_in_order(&host, &plain_order, None, format)?,
    };
    Ok((drop_unit_stick(&bound_form(&layout)?), LayoutNeed::Layout(layout)))
}
