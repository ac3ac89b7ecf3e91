//! A kernel on tensors that are laid out as it wants.

use crate::error::Result;
use crate::kernels::{find_kernel, moves};
use crate::run::compute::tensor_layouts;
use crate::run::division::WorkDivision;
use crate::run::plan::settle_division;
use crate::run::prepared::{PreparedLaunch, run_task};
use crate::tensor::Tensor;
use crate::tensor::sticks::StickForm;
use zellige_machine::account::{OperationWork, WorkKind};
use zellige_op::TensorOp;

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
    // Nothing is written, so that no task is bound and nothing is charged.
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
