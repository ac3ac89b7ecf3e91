//! What an operation would do, on tensors without memory.

use crate::error::{Result, refuse_operand};
use crate::kernels::moves::ElementMove;
use crate::kernels::{KernelLayouts, find_kernel, moves};
use crate::run::division::{LoopSpan, WorkDivision};
use crate::run::host_fallback;
use crate::run::loops::OpLoops;
use crate::tensor::sticks::StickForm;
use crate::tensor::tensor_layout::TensorLayout;
use zellige_machine::OperationCharges;
use zellige_machine::account::{CoreWork, OperationWork, WorkKind};
use zellige_op::{TensorOp, TensorType};

/// What operations would do, on tensors without memory.
pub trait PlanOp {
    /// Sizes and dtypes of the results, and the layouts that operands need and results have, for operands in these
    /// layouts.
    ///
    /// # Errors
    /// Operands that the operation does not take.
    fn plan_layouts(&self, inputs: &[TensorLayout]) -> Result<(Vec<TensorType>, KernelLayouts)>;

    /// The iteration space on tensors in the layouts that [`PlanOp::plan_layouts`] gave; none for an operation that
    /// only moves elements, which the cores share evenly.
    ///
    /// # Errors
    /// Tensors that are not in whole sticks.
    fn iteration_space(
        &self,
        inputs: &[TensorLayout],
        outputs: &[TensorLayout],
    ) -> Result<Option<Vec<LoopSpan>>>;

    /// The division and the work of every core.
    ///
    /// **Law**: the work is that which [`RunOp::launch_op`](super::run_op::RunOp::launch_op) returns.
    ///
    /// # Errors
    /// As [`RunOp::launch_op`](super::run_op::RunOp::launch_op), but for what depends on the elements.
    fn plan_work(
        &self,
        inputs: &[TensorLayout],
        outputs: &[TensorLayout],
        division: Option<&WorkDivision>,
        cores: usize,
    ) -> Result<(WorkDivision, OperationWork)>;

    /// Which loop each dimension of each tensor follows; none for an operation whose slices are no boxes of its
    /// tensors.
    ///
    /// # Errors
    /// Tensors that the operation does not take or make, or that are not in whole sticks.
    fn tensor_loops(
        &self,
        inputs: &[TensorLayout],
        outputs: &[TensorLayout],
    ) -> Result<Option<OpLoops>>;

    /// The work of the units, as a function of the slices of its loops; none for one whose work is no
    /// sum of products of their lengths.
    ///
    /// # Errors
    /// As [`PlanOp::tensor_loops`].
    fn unit_charges(
        &self,
        inputs: &[TensorLayout],
        outputs: &[TensorLayout],
    ) -> Result<Option<OperationCharges>>;

    /// The copies and fills that make the results of an operation that only moves elements, in their order; none for
    /// one that computes.
    ///
    /// # Errors
    /// Tensors that the operation does not take or make.
    fn plan_moves(
        &self,
        inputs: &[TensorLayout],
        outputs: &[TensorLayout],
    ) -> Result<Option<Vec<ElementMove>>>;

    /// What it takes to let the host do it: operands are downloaded, the host computes, results are
    /// uploaded.
    ///
    /// The bytes cross the link one after the other, as there is nothing to send back before the last
    /// operand has arrived. What the host takes to compute is not charged: no figure describes it.
    ///
    /// # Errors
    /// Dtypes without a host format.
    fn plan_round_trip(
        &self,
        operands: &[TensorLayout],
        results: &[TensorLayout],
    ) -> Result<OperationWork>;
}

impl PlanOp for TensorOp {
    fn plan_layouts(&self, inputs: &[TensorLayout]) -> Result<(Vec<TensorType>, KernelLayouts)> {
        let metas: Vec<TensorType> = inputs.iter().map(TensorLayout::tensor_type).collect();
        let results = self.infer_types(&metas)?;
        let lay = find_kernel(self).plan_layouts(inputs, &results)?;
        Ok((results, lay))
    }

    fn iteration_space(
        &self,
        inputs: &[TensorLayout],
        outputs: &[TensorLayout],
    ) -> Result<Option<Vec<LoopSpan>>> {
        if find_kernel(self).plan_moves(inputs, outputs)?.is_some() {
            return Ok(None);
        }
        Ok(Some(find_kernel(self).iteration_space(&stick_forms(inputs)?, &stick_forms(outputs)?)))
    }

    fn plan_work(
        &self,
        inputs: &[TensorLayout],
        outputs: &[TensorLayout],
        division: Option<&WorkDivision>,
        cores: usize,
    ) -> Result<(WorkDivision, OperationWork)> {
        // As long as some dozens of plain steps.
        zellige_guard::count_many_steps(64);
        if let Some(list) = find_kernel(self).plan_moves(inputs, outputs)? {
            // Copies share their bursts among the cores themselves and have no loops to divide.
            let one = WorkDivision::on_one_core(outputs.first().map_or(0, |t| t.size().len()));
            return Ok((one, moves::estimate_moves(self.name(), &list, cores)?));
        }
        let (ins, outs) = (stick_forms(inputs)?, stick_forms(outputs)?);
        let division = settle_division(self, &ins, &outs, division, cores)?;
        if outs.iter().all(|o| o.numel() == 0) {
            return Ok((division, OperationWork::new(self.name(), WorkKind::Other, Vec::new())));
        }
        let task = find_kernel(self).bind_task(&ins, &outs, &division)?;
        let slices: Vec<CoreWork> =
            (0..division.core_count()).map(|core| task.core_work(core)).collect();
        // Layouts without memory may be of any size, so that counts can pass 64 bits here although they cannot
        // where a tensor exists.
        if let Some(core) = slices.iter().position(|work| !work.is_countable()) {
            return Err(refuse_operand(
                self.name(),
                None,
                format!("the work of core {core} is more than 64 bits can count"),
            ));
        }
        Ok((division, OperationWork::new(self.name(), task.work_kind(), slices)))
    }

    fn tensor_loops(
        &self,
        inputs: &[TensorLayout],
        outputs: &[TensorLayout],
    ) -> Result<Option<OpLoops>> {
        check_results(self, inputs, outputs)?;
        let (ins, outs) = (stick_forms(inputs)?, stick_forms(outputs)?);
        let Some(tensors) = find_kernel(self).followed_loops(&ins, &outs) else {
            return Ok(None);
        };
        let spans = find_kernel(self).iteration_space(&ins, &outs);
        let sizes = ins.iter().chain(&outs).map(|t| t.size.clone()).collect();
        Ok(Some(OpLoops { spans, tensors, sizes }))
    }

    fn unit_charges(
        &self,
        inputs: &[TensorLayout],
        outputs: &[TensorLayout],
    ) -> Result<Option<OperationCharges>> {
        check_results(self, inputs, outputs)?;
        Ok(find_kernel(self).unit_charges(&stick_forms(inputs)?, &stick_forms(outputs)?))
    }

    fn plan_moves(
        &self,
        inputs: &[TensorLayout],
        outputs: &[TensorLayout],
    ) -> Result<Option<Vec<ElementMove>>> {
        check_results(self, inputs, outputs)?;
        find_kernel(self).plan_moves(inputs, outputs)
    }

    fn plan_round_trip(
        &self,
        operands: &[TensorLayout],
        results: &[TensorLayout],
    ) -> Result<OperationWork> {
        host_fallback::plan_round_trip(self, operands, results)
    }
}

/// Refuses results of other sizes than the operation gives. Kernels do not check them again.
fn check_results(op: &TensorOp, inputs: &[TensorLayout], outputs: &[TensorLayout]) -> Result<()> {
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

fn stick_forms(list: &[TensorLayout]) -> Result<Vec<StickForm>> {
    list.iter().map(TensorLayout::stick_form).collect()
}

/// The division given, checked against the space, or the default one.
pub(crate) fn settle_division(
    op: &TensorOp,
    inputs: &[StickForm],
    outputs: &[StickForm],
    division: Option<&WorkDivision>,
    cores: usize,
) -> Result<WorkDivision> {
    let space = find_kernel(op).iteration_space(inputs, outputs);
    match division {
        Some(d) => WorkDivision::new(d.splits(), &space, cores),
        None => Ok(WorkDivision::distribute_units(&space, cores, false)),
    }
}
