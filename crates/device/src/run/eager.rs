//! One operation at a time: layouts are settled, operands that do not fit are moved, the kernel runs.

use crate::card::{Card, Receipt};
use crate::error::{DeviceError, Result};
use crate::kernels::kernel;
use crate::kernels::{LayoutNeed, moves};
use crate::run::division::Division;
use crate::run::host_fallback::{charged, on_host};
use crate::run::plan::settled;
use crate::run::prepared::{PreparedLaunch, run_task};
use crate::run::recording::Recording;
use crate::stream::StreamId;
use crate::tensor::Tensor;
use crate::tensor::sticks::Sticks;
use crate::tensor::tensor_layout::TensorLayout;
use smallvec::SmallVec;
use zellige_machine::account::{OperationCost, OperationWork, WorkKind};
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
    /// What the receipts are for.
    pub(super) works: Vec<OperationWork>,
    /// The launches, to be repeated on other tensors of the same layouts; none where that is not possible.
    pub(super) recording: Option<Recording>,
}

impl Ran {
    /// What each step cost.
    pub fn costs(&self) -> Vec<OperationCost> {
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
    compute(op, card, inputs, cores)?.enter(card, stream)
}

/// An operation that has run, before anything is entered into the accounts.
pub(super) struct Computed {
    /// The results.
    pub(super) outputs: Vec<Tensor>,
    /// How the work was divided.
    pub(super) division: Division,
    /// What it takes, in the order in which it ran.
    pub(super) works: Vec<OperationWork>,
    /// The launches; none where they cannot be repeated.
    pub(super) recording: Option<Recording>,
}

impl Computed {
    /// Enters what it took into the accounts of a card.
    ///
    /// # Errors
    /// Cores that the card has not.
    pub(super) fn enter(self, card: &Card, stream: StreamId) -> Result<Ran> {
        let receipts: Vec<Receipt> =
            self.works.iter().map(|work| card.account(stream, work)).collect::<Result<_>>()?;
        let Computed { outputs, division, works, recording } = self;
        Ok(Ran { outputs, division, receipts, works, recording })
    }
}

/// Runs an operation; nothing is entered into the accounts.
///
/// # Errors
/// As [`RunOp::run_on`](super::RunOp::run_on).
pub(super) fn compute(op: &Op, card: &Card, inputs: &[Tensor], cores: usize) -> Result<Computed> {
    let results = settle(op, card, inputs, cores)?;
    let lay = kernel(op).lay(&laid(inputs), &results)?;
    let gathered = gather(op, card, inputs, &lay.inputs, cores)?;
    let made = results.iter().zip(&lay.outputs).map(|(m, l)| Tensor::zeros(card, m.dtype, l));
    let outputs: Vec<Tensor> = made.collect::<Result<_>>()?;
    let launched = prepare(op, &gathered.operands, &outputs, None, cores)?;
    let mut works = gathered.works;
    works.push(charged(op, card, launched.work, inputs, &outputs)?);
    let recording =
        gathered.recording.zip(launched.prepared).map(|((mut recording, reads), launch)| {
            let results = recording.launch_into_new(launch, &reads);
            recording.set_results(&results);
            recording
        });
    Ok(Computed { outputs, division: launched.division, works, recording })
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

/// The operands of an operation in the layouts that its kernel reads.
pub(super) struct Gathered {
    pub(super) operands: Vec<Tensor>,
    /// What copying them took; nothing where the host does the operation.
    pub(super) works: Vec<OperationWork>,
    /// The copies, and the slots of the operands; none where they cannot be repeated.
    pub(super) recording: Option<(Recording, SmallVec<[usize; 4]>)>,
}

/// The operands as a kernel wants them, and what that took. The caller accounts for it once it goes on with them.
pub(super) fn gather(
    op: &Op,
    card: &Card,
    inputs: &[Tensor],
    wants: &[LayoutNeed],
    cores: usize,
) -> Result<Gathered> {
    let mut works = Vec::new();
    let mut operands = Vec::with_capacity(inputs.len());
    let mut recording = Some((Recording::new(inputs.len()), SmallVec::new()));
    for (operand, (t, want)) in inputs.iter().zip(wants).enumerate() {
        if want.fits(t) {
            operands.push(t.clone());
            if let Some((_, reads)) = &mut recording {
                reads.push(operand);
            }
            continue;
        }
        let (copy, moved) = t.to_layout(&want.layout(t)?)?;
        if !on_host(op, card) {
            let name = format!("restickify operand {operand} of {}: {}", op.name(), want.why(t));
            works.push(moved.work(name, WorkKind::Restickify, cores));
        }
        let launch = PreparedLaunch::of_copy(t, &copy)?;
        recording = recording.zip(launch).map(|((mut recording, mut reads), launch)| {
            reads.extend(recording.launch_into_new(launch, &[operand]));
            (recording, reads)
        });
        operands.push(copy);
    }
    Ok(Gathered { operands, works, recording })
}

/// Elements of all tensors of an operation below which one host thread does it.
pub(crate) const SMALL: usize = 1 << 14;

/// What a launch did, and what the next one on tensors of the same layouts need not settle again.
#[derive(Debug)]
pub struct Launched {
    /// How the work was divided.
    pub division: Division,
    /// What each core did.
    pub work: OperationWork,
    /// The same launch again; none where it cannot be repeated without looking at the elements, or where the task holds
    /// something of this run.
    pub prepared: Option<PreparedLaunch>,
}

/// Runs a kernel on tensors that are laid out as it wants, with a division or the default one; and the launch itself for
/// the next time.
///
/// # Errors
/// Tensors of other layouts than the operation reads, and divisions that do not fit.
pub(crate) fn prepare(
    op: &Op,
    inputs: &[Tensor],
    outputs: &[Tensor],
    division: Option<&Division>,
    cores: usize,
) -> Result<Launched> {
    if let Some(list) = kernel(op).moves(&laid(inputs), &laid(outputs))? {
        let work = moves::perform(op.name(), &list, inputs, outputs, cores)?;
        let division = Division::one(outputs.first().map_or(0, |t| t.size().len()));
        let prepared = PreparedLaunch::of_moves(&list, inputs, outputs)?;
        return Ok(Launched { division, work, prepared });
    }
    let forms = |list: &[Tensor]| list.iter().map(|t| t.sticks()).collect::<Result<Vec<Sticks>>>();
    let (ins, outs) = (forms(inputs)?, forms(outputs)?);
    let division = settled(op, &ins, &outs, division, cores)?;
    if outs.iter().all(|o| o.numel() == 0) {
        let work = OperationWork::new(op.name(), WorkKind::Other, Vec::new());
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
    let work = OperationWork::new(op.name(), task.kind(), slices);
    let prepared = PreparedLaunch::of_task(task, division.cores(), threads, inputs, outputs);
    Ok(Launched { division, work, prepared })
}
