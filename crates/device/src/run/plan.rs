//! What an operation would do, on tensors without memory.

use crate::card::Card;
use crate::error::Result;
use crate::error::refuse;
use crate::kernels::kernel;
use crate::kernels::{KernelLayouts, moves};
use crate::run::division::{Division, Span};
use crate::run::eager;
use crate::run::eager::{Launched, settle};
use crate::tensor::Tensor;
use crate::tensor::sticks::Sticks;
use crate::tensor::tensor_layout::TensorLayout;
use zellige_machine::account::{CoreWork, OperationWork, WorkKind};
use zellige_op::{Op, TensorType};

/// How operands must lie, and how results will, for operands that lie as given.
///
/// # Errors
/// Operands that the operation does not take.
pub(super) fn lay(op: &Op, inputs: &[TensorLayout]) -> Result<(Vec<TensorType>, KernelLayouts)> {
    let metas: Vec<TensorType> = inputs.iter().map(TensorLayout::tensor_type).collect();
    let results = op.infer(&metas)?;
    let lay = kernel(op).lay(inputs, &results)?;
    Ok((results, lay))
}

/// The iteration space on tensors that lie as [`PlanOp::lay`](super::PlanOp::lay) asked; none of an operation that only
/// moves elements, which the cores share evenly.
///
/// # Errors
/// Tensors that kernels cannot read as they lie.
pub(super) fn space(
    op: &Op,
    inputs: &[TensorLayout],
    outputs: &[TensorLayout],
) -> Result<Option<Vec<Span>>> {
    if kernel(op).moves(inputs, outputs)?.is_some() {
        return Ok(None);
    }
    Ok(Some(kernel(op).space(&forms(inputs)?, &forms(outputs)?)))
}

/// What every core would do with this division.
///
/// **Law**: equal to the work that [`RunOp::launch`](super::RunOp::launch) returns.
///
/// # Errors
/// As [`RunOp::launch`](super::RunOp::launch), but for what depends on the elements.
pub(super) fn work(
    op: &Op,
    inputs: &[TensorLayout],
    outputs: &[TensorLayout],
    division: Option<&Division>,
    cores: usize,
) -> Result<(Division, OperationWork)> {
    // As long as some dozens of plain steps.
    zellige_guard::count_many_steps(64);
    if let Some(list) = kernel(op).moves(inputs, outputs)? {
        let one = Division::one(outputs.first().map_or(0, |t| t.size().len()));
        return Ok((one, moves::planned(op.name(), &list, cores)?));
    }
    let (ins, outs) = (forms(inputs)?, forms(outputs)?);
    let division = settled(op, &ins, &outs, division, cores)?;
    if outs.iter().all(|o| o.numel() == 0) {
        return Ok((division, OperationWork::new(op.name(), WorkKind::Other, Vec::new())));
    }
    let task = kernel(op).task(&ins, &outs, &division)?;
    let slices: Vec<CoreWork> = (0..division.cores()).map(|core| task.work(core)).collect();
    if let Some(core) = slices.iter().position(|work| !work.is_countable()) {
        return Err(refuse(
            op.name(),
            None,
            format!("the work of core {core} is more than 64 bits can count"),
        ));
    }
    Ok((division, OperationWork::new(op.name(), task.kind(), slices)))
}

/// Runs on tensors that lie as [`PlanOp::lay`](super::PlanOp::lay) asked, into tensors that lie as it said, with a
/// division or the default one. Nothing is entered into the accounts.
///
/// # Errors
/// Tensors of other cards or layouts, divisions that do not fit, indices out of range.
pub(super) fn launch(
    op: &Op,
    card: &Card,
    inputs: &[Tensor],
    outputs: &[Tensor],
    division: Option<&Division>,
    cores: usize,
) -> Result<Launched> {
    let made = settle(op, card, inputs, cores)?;
    let same = made.len() == outputs.len()
        && made.iter().zip(outputs).all(|(m, t)| *m == t.tensor_type() && t.card() == card);
    if !same {
        return Err(refuse(op.name(), None, "results of other sizes, dtypes or cards"));
    }
    eager::prepare(op, inputs, outputs, division, cores)
}

fn forms(list: &[TensorLayout]) -> Result<Vec<Sticks>> {
    list.iter().map(TensorLayout::sticks).collect()
}

/// The division given, checked against the space, or the default one.
pub(crate) fn settled(
    op: &Op,
    inputs: &[Sticks],
    outputs: &[Sticks],
    division: Option<&Division>,
    cores: usize,
) -> Result<Division> {
    let space = kernel(op).space(inputs, outputs);
    match division {
        Some(d) => Division::new(d.splits(), &space, cores),
        None => Ok(Division::distribute(&space, cores, false)),
    }
}
