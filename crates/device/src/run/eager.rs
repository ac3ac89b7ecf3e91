//! One operation at a time: layouts are settled, operands that do not fit are moved, the kernel runs.

use crate::card::{Card, WorkReceipt};
use crate::error::{DeviceError, Result};
use crate::kernels::find_kernel;
use crate::kernels::{LayoutNeed, moves};
use crate::run::division::WorkDivision;
use crate::run::host_fallback::{charge_op, runs_on_host};
use crate::run::plan::settle_division;
use crate::run::prepared::{PreparedLaunch, run_task};
use crate::run::recording::LaunchRecording;
use crate::stream::StreamId;
use crate::tensor::Tensor;
use crate::tensor::sticks::StickForm;
use crate::tensor::tensor_layout::TensorLayout;
use smallvec::SmallVec;
use zellige_machine::account::{OperationCost, OperationWork, WorkKind};
use zellige_op::{TensorOp, TensorType};

/// What an operation gave and what it took.
#[derive(Debug)]
pub struct OpOutcome {
    /// The results.
    pub outputs: Vec<Tensor>,
    /// How the work was divided.
    pub division: WorkDivision,
    /// Operands that were moved first, each with the reason in its name, and the operation itself,
    /// in the order they ran. What the host does, by the card's profile, is one round trip.
    pub receipts: Vec<WorkReceipt>,
    /// What the receipts are for.
    pub(super) works: Vec<OperationWork>,
    /// The launches, to be repeated on other tensors of the same layouts; none where that is not possible.
    pub(super) recording: Option<LaunchRecording>,
}

impl OpOutcome {
    /// What each step cost.
    pub fn step_costs(&self) -> Vec<OperationCost> {
        self.receipts.iter().map(|r| r.cost.clone()).collect()
    }
}

/// The same in a stream of the card.
///
/// # Errors
/// As [`RunOp::run_on_cores`](super::RunOp::run_on).
pub(super) fn run_in_stream(
    op: &TensorOp,
    card: &Card,
    stream: StreamId,
    inputs: &[Tensor],
    cores: usize,
) -> Result<OpOutcome> {
    compute_op(op, card, inputs, cores)?.enter_accounts(card, stream)
}

/// An operation that has run, before anything is entered into the accounts.
pub(super) struct ComputedOp {
    /// The results.
    pub(super) outputs: Vec<Tensor>,
    /// How the work was divided.
    pub(super) division: WorkDivision,
    /// What it takes, in the order in which it ran.
    pub(super) works: Vec<OperationWork>,
    /// The launches; none where they cannot be repeated.
    pub(super) recording: Option<LaunchRecording>,
}

impl ComputedOp {
    /// Enters what it took into the accounts of a card.
    ///
    /// # Errors
    /// Cores that the card has not.
    pub(super) fn enter_accounts(self, card: &Card, stream: StreamId) -> Result<OpOutcome> {
        let receipts: Vec<WorkReceipt> =
            self.works.iter().map(|work| card.account_work(stream, work)).collect::<Result<_>>()?;
        let ComputedOp { outputs, division, works, recording } = self;
        Ok(OpOutcome { outputs, division, receipts, works, recording })
    }
}

/// Runs an operation; nothing is entered into the accounts.
///
/// # Errors
/// As [`RunOp::run_on_cores`](super::RunOp::run_on).
pub(super) fn compute_op(
    op: &TensorOp,
    card: &Card,
    inputs: &[Tensor],
    cores: usize,
) -> Result<ComputedOp> {
    let results = settle_results(op, card, inputs, cores)?;
    let lay = find_kernel(op).plan_layouts(&tensor_layouts(inputs), &results)?;
    let gathered = gather_operands(op, card, inputs, &lay.inputs, cores)?;
    let made = results.iter().zip(&lay.outputs).map(|(m, l)| Tensor::zeros(card, m.dtype, l));
    let outputs: Vec<Tensor> = made.collect::<Result<_>>()?;
    let launched = launch_kernel(op, &gathered.operands, &outputs, None, cores)?;
    let mut works = gathered.works;
    works.push(charge_op(op, card, launched.work, inputs, &outputs)?);
    let recording =
        gathered.recording.zip(launched.prepared).map(|((mut recording, reads), launch)| {
            let results = recording.launch_into_new(launch, &reads);
            recording.set_results(&results);
            recording
        });
    Ok(ComputedOp { outputs, division: launched.division, works, recording })
}

/// Sizes and dtypes of the results, once operands and cores are checked.
pub(super) fn settle_results(
    op: &TensorOp,
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
    Ok(op.infer_types(&metas)?)
}

/// How tensors lie.
pub(crate) fn tensor_layouts(tensors: &[Tensor]) -> Vec<TensorLayout> {
    tensors.iter().map(|t| t.tensor_layout().clone()).collect()
}

/// The operands of an operation in the layouts that its kernel reads.
pub(super) struct GatheredOperands {
    pub(super) operands: Vec<Tensor>,
    /// What copying them took; nothing where the host does the operation.
    pub(super) works: Vec<OperationWork>,
    /// The copies, and the slots of the operands; none where they cannot be repeated.
    pub(super) recording: Option<(LaunchRecording, SmallVec<[usize; 4]>)>,
}

/// The operands as a kernel wants them, and what that took. The caller accounts for it once it goes on with them.
pub(super) fn gather_operands(
    op: &TensorOp,
    card: &Card,
    inputs: &[Tensor],
    wants: &[LayoutNeed],
    cores: usize,
) -> Result<GatheredOperands> {
    let mut works = Vec::new();
    let mut operands = Vec::with_capacity(inputs.len());
    let mut recording = Some((LaunchRecording::new(inputs.len()), SmallVec::new()));
    for (operand, (t, want)) in inputs.iter().zip(wants).enumerate() {
        if want.accepts_layout(t) {
            operands.push(t.clone());
            if let Some((_, reads)) = &mut recording {
                reads.push(operand);
            }
            continue;
        }
        let (copy, moved) = t.to_layout(&want.fitting_layout(t)?)?;
        if !runs_on_host(op, card) {
            let name =
                format!("restickify operand {operand} of {}: {}", op.name(), want.misfit_reason(t));
            works.push(moved.device_work(name, WorkKind::Restickify, cores));
        }
        let launch = PreparedLaunch::from_copy(t, &copy)?;
        recording = recording.zip(launch).map(|((mut recording, mut reads), launch)| {
            reads.extend(recording.launch_into_new(launch, &[operand]));
            (recording, reads)
        });
        operands.push(copy);
    }
    Ok(GatheredOperands { operands, works, recording })
}

/// Elements of all tensors of an operation below which one host thread does it.
pub(crate) const MIN_THREADED_ELEMENTS: usize = 1 << 14;

/// What a launch did, and what the next one on tensors of the same layouts need not settle again.
#[derive(Debug)]
pub struct LaunchOutcome {
    /// How the work was divided.
    pub division: WorkDivision,
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
pub(crate) fn launch_kernel(
    op: &TensorOp,
    inputs: &[Tensor],
    outputs: &[Tensor],
    division: Option<&WorkDivision>,
    cores: usize,
) -> Result<LaunchOutcome> {
    if let Some(list) =
        find_kernel(op).plan_moves(&tensor_layouts(inputs), &tensor_layouts(outputs))?
    {
        let work = moves::perform_moves(op.name(), &list, inputs, outputs, cores)?;
        let division = WorkDivision::on_one_core(outputs.first().map_or(0, |t| t.size().len()));
        let prepared = PreparedLaunch::from_moves(&list, inputs, outputs)?;
        return Ok(LaunchOutcome { division, work, prepared });
    }
    let forms =
        |list: &[Tensor]| list.iter().map(|t| t.stick_form()).collect::<Result<Vec<StickForm>>>();
    let (ins, outs) = (forms(inputs)?, forms(outputs)?);
    let division = settle_division(op, &ins, &outs, division, cores)?;
    if outs.iter().all(|o| o.numel() == 0) {
        let work = OperationWork::new(op.name(), WorkKind::Other, Vec::new());
        return Ok(LaunchOutcome { division, work, prepared: None });
    }
    let task = find_kernel(op).bind_task(&ins, &outs, &division)?;
    // A thread costs more than a small operation.
    let elements: usize = ins.iter().chain(&outs).map(StickForm::numel).sum();
    let most = outputs.first().map_or(1, |t| t.card().host_threads());
    let threads = if elements < MIN_THREADED_ELEMENTS { 1 } else { most };
    // SAFETY: the task was made for these tensors, and results are blocks of their own or take the place of operands
    // of a kernel that allows it.
    unsafe { run_task(task.as_ref(), division.core_count(), threads, inputs, outputs)? };
    let slices = (0..division.core_count()).map(|core| task.core_work(core)).collect();
    let work = OperationWork::new(op.name(), task.work_kind(), slices);
    let prepared = PreparedLaunch::from_task(task, division.core_count(), threads, inputs, outputs);
    Ok(LaunchOutcome { division, work, prepared })
}
