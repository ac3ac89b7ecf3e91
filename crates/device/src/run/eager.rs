//! One operation at a time: layouts are settled, operands that do not fit are moved, the kernel runs.

use crate::card::{Card, Receipt};
use crate::error::{DeviceError, Result};
use crate::kernels::kernel;
use crate::kernels::{LayoutNeed, moves};
use crate::run::division::Division;
use crate::run::host_fallback::{charged, on_host};
use crate::run::plan::settled;
use crate::run::prepared::{PreparedLaunch, run_task, shared_operands};
use crate::stream::StreamId;
use crate::tensor::Tensor;
use crate::tensor::sticks::Sticks;
use crate::tensor::tensor_layout::TensorLayout;
use crate::tensor::transfer::Moved;
use zellige_machine::account::{Cost, Work, WorkKind};
use zellige_op::{Op, TensorType};

/// What an operation gave and what it took.
#[derive(Debug)]
pub struct Ran {
    /// The results.
    pub outputs: Vec<Tensor>,
    /// How the work was divided.
    pub division: Division,
    /// Operands that were moved first, each with the reason in its name, and the operation itself,
    /// in the order they ran. What the host does, by the card's profile, is one round trip.
    pub receipts: Vec<Receipt>,
}

impl Ran {
    /// What each step cost.
    pub fn costs(&self) -> Vec<Cost> {
        self.receipts.iter().map(|r| r.cost.clone()).collect()
    }
}

/// The same in a stream of the card.
///
/// # Errors
/// As [`RunOp::run_on`](super::RunOp::run_on).
pub(super) fn run_in(
    op: &Op,
    card: &Card,
    stream: StreamId,
    inputs: &[Tensor],
    cores: usize,
) -> Result<Ran> {
    let (outputs, division, works) = compute(op, card, inputs, cores)?;
    let receipts = account(card, stream, &works)?;
    Ok(Ran { outputs, division, receipts })
}

/// The results, how the work was divided, and what it takes; nothing is entered into the accounts.
///
/// # Errors
/// As [`RunOp::run_on`](super::RunOp::run_on).
pub(super) fn compute(
    op: &Op,
    card: &Card,
    inputs: &[Tensor],
    cores: usize,
) -> Result<(Vec<Tensor>, Division, Vec<Work>)> {
    let results = settle(op, card, inputs, cores)?;
    let lay = kernel(op).lay(&laid(inputs), &results)?;
    let (operands, mut works) = gather(op, card, inputs, &lay.inputs, cores)?;
    let made = results.iter().zip(&lay.outputs).map(|(m, l)| Tensor::zeros(card, m.dtype, l));
    let outputs: Vec<Tensor> = made.collect::<Result<_>>()?;
    let (division, work) = launch(op, &operands, &outputs, None, cores)?;
    works.push(charged(op, card, work, inputs, &outputs)?);
    Ok((outputs, division, works))
}

/// Sizes and dtypes of the results, once operands and cores are checked.
pub(super) fn settle(
    op: &Op,
    card: &Card,
    inputs: &[Tensor],
    cores: usize,
) -> Result<Vec<TensorType>> {
    card.check_cores(cores)?;
    for (operand, t) in inputs.iter().enumerate() {
        if t.card() != card {
            return Err(DeviceError::MixedCards {
                op: op.name().into(),
                operand,
                found: t.card().index(),
                expected: card.index(),
            });
        }
    }
    let metas: Vec<TensorType> = inputs.iter().map(|t| t.tensor_type()).collect();
    Ok(op.infer(&metas)?)
}

/// How tensors lie.
pub(crate) fn laid(tensors: &[Tensor]) -> Vec<TensorLayout> {
    tensors.iter().map(|t| t.laid().clone()).collect()
}

/// Enters work into the accounts of a card, in order.
pub(crate) fn account(card: &Card, stream: StreamId, works: &[Work]) -> Result<Vec<Receipt>> {
    works.iter().map(|work| card.account(stream, work)).collect()
}

/// The operands as a kernel wants them, and what that took; nothing where the host does the work.
/// The caller accounts for it once it goes on with them.
pub(crate) fn gather(
    op: &Op,
    card: &Card,
    inputs: &[Tensor],
    wants: &[LayoutNeed],
    cores: usize,
) -> Result<(Vec<Tensor>, Vec<Work>)> {
    let mut works = Vec::new();
    let mut operands = Vec::with_capacity(inputs.len());
    for (operand, (t, want)) in inputs.iter().zip(wants).enumerate() {
        let (lies, moved) = conform(t, want)?;
        if let Some(moved) = moved.filter(|_| !on_host(op, card)) {
            let name = format!("restickify operand {operand} of {}: {}", op.name(), want.why(t));
            works.push(moved.work(name, WorkKind::Restickify, cores));
        }
        operands.push(lies);
    }
    Ok((operands, works))
}

/// Elements of all tensors of an operation below which one host thread does it.
pub(crate) const SMALL: usize = 1 << 14;

/// Runs a kernel on tensors that lie as it wants, with a division or the default one.
///
/// # Errors
/// Tensors of other layouts than the operation reads, and divisions that do not fit.
pub(crate) fn launch(
    op: &Op,
    inputs: &[Tensor],
    outputs: &[Tensor],
    division: Option<&Division>,
    cores: usize,
) -> Result<(Division, Work)> {
    let Launched { division, work, .. } = prepare(op, inputs, outputs, division, cores)?;
    Ok((division, work))
}

/// What a launch did, and what the next one on tensors of the same layouts need not settle again.
#[derive(Debug)]
pub struct Launched {
    /// How the work was divided.
    pub division: Division,
    /// What each core did.
    pub work: Work,
    /// The same launch again; none where elements only move, or the task holds something of this run.
    pub prepared: Option<PreparedLaunch>,
}

/// As [`launch`], with the launch itself for the next time.
///
/// # Errors
/// As [`launch`].
pub(super) fn prepare(
    op: &Op,
    inputs: &[Tensor],
    outputs: &[Tensor],
    division: Option<&Division>,
    cores: usize,
) -> Result<Launched> {
    if let Some(list) = kernel(op).moves(&laid(inputs), &laid(outputs))? {
        let work = moves::perform(op.name(), &list, inputs, outputs, cores)?;
        let division = Division::one(outputs.first().map_or(0, |t| t.size().len()));
        return Ok(Launched { division, work, prepared: None });
    }
    let forms = |list: &[Tensor]| list.iter().map(|t| t.sticks()).collect::<Result<Vec<Sticks>>>();
    let (ins, outs) = (forms(inputs)?, forms(outputs)?);
    let division = settled(op, &ins, &outs, division, cores)?;
    if outs.iter().all(|o| o.numel() == 0) {
        let work = Work::new(op.name(), WorkKind::Other, Vec::new());
        return Ok(Launched { division, work, prepared: None });
    }
    let task = kernel(op).task(&ins, &outs, &division)?;
    // A thread costs more than a small operation.
    let elements: usize = ins.iter().chain(&outs).map(Sticks::numel).sum();
    let most = outputs.first().map_or(1, |t| t.card().host_threads());
    let threads = if elements < SMALL { 1 } else { most };
    // SAFETY: the task was made for these tensors, and results are blocks of their own or take the place of operands
    // of a kernel that allows it.
    unsafe { run_task(task.as_ref(), division.cores(), threads, inputs, outputs)? };
    let slices = (0..division.cores()).map(|core| task.work(core)).collect();
    let work = Work::new(op.name(), task.kind(), slices);
    let layouts = |list: &[Tensor]| list.iter().map(|t| t.shared_laid().clone()).collect();
    let prepared = task.keeps_nothing().then(|| PreparedLaunch {
        inputs: layouts(inputs),
        outputs: layouts(outputs),
        shared: shared_operands(inputs, outputs),
        cores: division.cores(),
        task,
        threads,
    });
    Ok(Launched { division, work, prepared })
}

/// The tensor as a kernel wants it: itself, or a copy in another layout.
fn conform(tensor: &Tensor, want: &LayoutNeed) -> Result<(Tensor, Option<Moved>)> {
    if want.fits(tensor) {
        return Ok((tensor.clone(), None));
    }
    let (copy, moved) = tensor.to_layout(&want.layout(tensor)?)?;
    Ok((copy, Some(moved)))
}
