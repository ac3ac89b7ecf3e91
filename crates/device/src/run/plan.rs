//! What an operation would do, on tensors without memory.

use crate::card::Card;
use crate::error::Result;
use crate::error::refuse_operand;
use crate::kernels::find_kernel;
use crate::kernels::{KernelLayouts, moves};
use crate::run::division::{LoopSpan, WorkDivision};
use crate::run::eager;
use crate::run::eager::{LaunchOutcome, settle_results};
use crate::tensor::Tensor;
use crate::tensor::sticks::StickForm;
use crate::tensor::tensor_layout::TensorLayout;
use zellige_machine::account::{CoreWork, OperationWork, WorkKind};
use zellige_op::{TensorOp, TensorType};

/// How operands must lie, and how results will, for operands that lie as given.
///
/// # Errors
/// Operands that the operation does not take.
pub(super) fn plan_layouts(
    op: &TensorOp,
    inputs: &[TensorLayout],
) -> Result<(Vec<TensorType>, KernelLayouts)> {
    let metas: Vec<TensorType> = inputs.iter().map(TensorLayout::tensor_type).collect();
    let results = op.infer_types(&metas)?;
    let lay = find_kernel(op).plan_layouts(inputs, &results)?;
    Ok((results, lay))
}

/// The iteration space on tensors that lie as [`PlanOp::plan_layouts`](super::PlanOp::lay) asked; none of an operation that only
/// moves elements, which the cores share evenly.
///
/// # Errors
/// Tensors that kernels cannot read as they lie.
pub(super) fn plan_space(
    op: &TensorOp,
    inputs: &[TensorLayout],
    outputs: &[TensorLayout],
) -> Result<Option<Vec<LoopSpan>>> {
    if find_kernel(op).plan_moves(inputs, outputs)?.is_some() {
        return Ok(None);
    }
    Ok(Some(find_kernel(op).iteration_space(&stick_forms(inputs)?, &stick_forms(outputs)?)))
}

/// What every core would do with this division.
///
/// **Law**: equal to the work that [`RunOp::launch_op`](super::RunOp::launch) returns.
///
/// # Errors
/// As [`RunOp::launch_op`](super::RunOp::launch), but for what depends on the elements.
pub(super) fn plan_work(
    op: &TensorOp,
    inputs: &[TensorLayout],
    outputs: &[TensorLayout],
    division: Option<&WorkDivision>,
    cores: usize,
) -> Result<(WorkDivision, OperationWork)> {
    // As long as some dozens of plain steps.
    zellige_guard::count_many_steps(64);
    if let Some(list) = find_kernel(op).plan_moves(inputs, outputs)? {
        let one = WorkDivision::on_one_core(outputs.first().map_or(0, |t| t.size().len()));
        return Ok((one, moves::estimate_moves(op.name(), &list, cores)?));
    }
    let (ins, outs) = (stick_forms(inputs)?, stick_forms(outputs)?);
    let division = settle_division(op, &ins, &outs, division, cores)?;
    if outs.iter().all(|o| o.numel() == 0) {
        return Ok((division, OperationWork::new(op.name(), WorkKind::Other, Vec::new())));
    }
    let task = find_kernel(op).bind_task(&ins, &outs, &division)?;
    let slices: Vec<CoreWork> =
        (0..division.core_count()).map(|core| task.core_work(core)).collect();
    if let Some(core) = slices.iter().position(|work| !work.is_countable()) {
        return Err(refuse_operand(
            op.name(),
            None,
            format!("the work of core {core} is more than 64 bits can count"),
        ));
    }
    Ok((division, OperationWork::new(op.name(), task.work_kind(), slices)))
}

/// Runs on tensors that lie as [`PlanOp::plan_layouts`](super::PlanOp::lay) asked, into tensors that lie as it said, with a
/// division or the default one. Nothing is entered into the accounts.
///
/// # Errors
/// Tensors of other cards or layouts, divisions that do not fit, indices out of range.
pub(super) fn launch_op(
    op: &TensorOp,
    card: &Card,
    inputs: &[Tensor],
    outputs: &[Tensor],
    division: Option<&WorkDivision>,
    cores: usize,
) -> Result<LaunchOutcome> {
    zellige_calls::record_call!();
    let made = settle_results(op, card, inputs, cores)?;
    let same = made.len() == outputs.len()
        && made.iter().zip(outputs).all(|(m, t)| *m == t.tensor_type() && t.card() == card);
    if !same {
        return Err(refuse_operand(op.name(), None, "results of other sizes, dtypes or cards"));
    }
    eager::launch_kernel(op, inputs, outputs, division, cores)
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
