//! One operation at a time: layouts are settled, operands that do not fit are moved, the kernel runs.

use crate::card::{Card, WorkReceipt};
use crate::error::{DeviceError, Result};
use crate::kernels::{LayoutNeed, find_kernel};
use crate::run::division::WorkDivision;
use crate::run::host_fallback::charge_op;
use crate::run::launch::launch_kernel;
use crate::run::prepared::PreparedLaunch;
use crate::run::recording::LaunchRecording;
use crate::run::run_op::RunOp;
use crate::stream::StreamId;
use crate::tensor::Tensor;
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
/// As [`RunOp::run_on_cores`].
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
    // After the launch, so that nothing is charged for an operation that is refused.
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

/// The layouts of tensors.
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

/// The operands in the layouts that a kernel needs, and the work of copying them. The caller enters that into the
/// accounts once it uses them.
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
        // What the host computes is charged as one round trip, in which no operand is moved on the card.
        if !op.runs_on_host(card) {
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
