//! Results written into tensors that exist: out arguments, in-place operations, slices of larger ones.

use crate::card::Card;
use crate::error::refuse_operand;
use crate::error::{DeviceError, Result};
use crate::kernels::find_kernel;
use crate::run::compute::{
    ComputedOp, OpOutcome, compute_op, gather_operands, settle_results, tensor_layouts,
};
use crate::run::host_fallback::charge_op;
use crate::run::launch::launch_kernel;
use crate::run::prepared::PreparedLaunch;
use crate::stream::StreamId;
use crate::tensor::Tensor;
use crate::tensor::sticks::StickForm;
use zellige_machine::account::WorkKind;
use zellige_op::dtype_category;
use zellige_op::{TensorOp, TensorType};

/// Writes the results into `outputs`, tensors or views of the results' sizes; they may be, or
/// overlap, the operands: the result is as if it were computed before anything is written.
///
/// A result is computed in its own dtype and then takes that of the output, as in PyTorch. It is
/// written in place where each of its elements depends on operands at that place alone;
/// otherwise it is computed beside and copied, and the copy is charged.
///
/// # Errors
/// As [`RunOp::run_op`](super::run_op::RunOp::run_op); another number of outputs than of results, other sizes, dtypes that cannot
/// take the result (a float one in an integer output), views with two elements in one place.
pub(super) fn run_into(
    op: &TensorOp,
    card: &Card,
    stream: StreamId,
    inputs: &[Tensor],
    outputs: &[Tensor],
) -> Result<OpOutcome> {
    let cores = card.core_count();
    let results = settle_results(op, card, inputs, cores)?;
    // Before anything is computed, so that a refused call changes nothing.
    check_outputs(op, card, &results, outputs)?;
    let computed = match compute_in_place(op, card, inputs, &results, outputs)? {
        Some(computed) => computed,
        None => compute_beside(op, card, inputs, outputs)?,
    };
    computed.enter_accounts(card, stream)
}

/// Computes new tensors, and copies them into the outputs.
fn compute_beside(
    op: &TensorOp,
    card: &Card,
    inputs: &[Tensor],
    outputs: &[Tensor],
) -> Result<ComputedOp> {
    let cores = card.core_count();
    let mut computed = compute_op(op, card, inputs, cores)?;
    let mut recording = computed.recording.take();
    let targets = recording.as_mut().map(|r| r.add_targets(outputs.len()));
    for (i, (made, to)) in computed.outputs.iter_mut().zip(outputs).enumerate() {
        let mut slot = recording.as_ref().map(|r| r.result_slots()[i]);
        if made.dtype() != to.dtype() {
            let dtype = serde_json::json!({ "dtype": to.dtype().name() });
            let mut cast = compute_op(
                &TensorOp::new("cast", &dtype)?,
                card,
                std::slice::from_ref(made),
                cores,
            )?;
            computed.works.append(&mut cast.works);
            *made = cast.outputs[0].clone();
            recording = recording.zip(cast.recording).map(|(mut recording, cast)| {
                slot = slot.map(|operand| recording.append_recording(cast, operand)[0]);
                recording
            });
        }
        let moved = to.copy_from(made)?;
        computed.works.push(moved.device_work(
            format!("{} into", op.name()),
            WorkKind::Copy,
            cores,
        ));
        let launch = PreparedLaunch::from_copy(made, to)?;
        recording = recording.zip(launch).map(|(mut recording, launch)| {
            if let (Some(slot), Some(targets)) = (slot, &targets) {
                recording.launch_into(launch, &[slot], &[targets[i]]);
            }
            recording
        });
        *made = to.clone();
    }
    if let (Some(recording), Some(targets)) = (&mut recording, &targets) {
        recording.set_results(targets);
    }
    Ok(ComputedOp { recording, ..computed })
}

fn check_outputs(
    op: &TensorOp,
    card: &Card,
    results: &[TensorType],
    outputs: &[Tensor],
) -> Result<()> {
    let refuse = |reason: String| refuse_operand(op.name(), None, reason);
    if results.len() != outputs.len() {
        let reason = format!("it has {} results, not {}", results.len(), outputs.len());
        return Err(refuse(reason));
    }
    for (result, (i, to)) in results.iter().zip(outputs.iter().enumerate()) {
        if to.card() != card {
            let found = to.card().index();
            let reason = format!("output {i} is on card {found}, not {}", card.index());
            return Err(refuse(reason));
        }
        if to.size() != result.size {
            return Err(DeviceError::SizeMismatch {
                what: format!("{}: result and output {i}", op.name()),
                left: result.size.clone(),
                right: to.size().to_vec(),
            });
        }
        if dtype_category(result.dtype) > dtype_category(to.dtype()) {
            let reason = format!("a {} result does not go into {}", result.dtype, to.dtype());
            return Err(refuse(reason));
        }
    }
    Ok(())
}

/// Computes right into the outputs, where that gives the same.
fn compute_in_place(
    op: &TensorOp,
    card: &Card,
    inputs: &[Tensor],
    results: &[TensorType],
    outputs: &[Tensor],
) -> Result<Option<ComputedOp>> {
    let (Ok(forms), cores) = (
        outputs.iter().map(|t| t.stick_form()).collect::<Result<Vec<StickForm>>>(),
        card.core_count(),
    ) else {
        return Ok(None);
    };
    let same = results.iter().zip(outputs).all(|(r, to)| r.dtype == to.dtype());
    let Some(wants) = find_kernel(op).operand_needs(&tensor_layouts(inputs), &forms) else {
        return Ok(None);
    };
    // Kernels store whole sticks: in a view that ends inside of one they would overwrite elements of its base.
    let alone = outputs.iter().zip(&forms).all(|(to, form)| fills_whole_sticks(to, form));
    if !same || !alone || !forms.iter().all(has_distinct_places) || outputs.len() != 1 {
        return Ok(None);
    }
    let gathered = gather_operands(op, card, inputs, &wants, cores)?;
    // An operand in the block of the output has to be at the very same places, because a kernel reads an element
    // before it writes that element and no earlier.
    let safe =
        |t: &Tensor| t.block() != outputs[0].block() || t.stick_form().is_ok_and(|f| f == forms[0]);
    if !gathered.operands.iter().all(safe) {
        return Ok(None);
    }
    let launched = launch_kernel(op, &gathered.operands, outputs, None, cores)?;
    let mut works = gathered.works;
    works.push(charge_op(op, card, launched.work, inputs, outputs)?);
    let recording =
        gathered.recording.zip(launched.prepared).map(|((mut recording, reads), launch)| {
            let targets = recording.add_targets(outputs.len());
            recording.launch_into(launch, &reads, &targets);
            recording.set_results(&targets);
            recording
        });
    Ok(Some(ComputedOp {
        outputs: outputs.to_vec(),
        division: launched.division,
        works,
        recording,
    }))
}

/// Whether the lanes behind the elements of an output are padding: kernels write whole sticks, and in a
/// view that ends inside one those lanes are elements of its base.
fn fills_whole_sticks(to: &Tensor, form: &StickForm) -> bool {
    let Some(s) = form.stick else { return true };
    if to.is_base() || form.size[s].is_multiple_of(form.eps) {
        return true;
    }
    let whole = to.base_layout().stick_form();
    whole.is_ok_and(|base| base.stick.is_some_and(|d| base.size[d] == form.size[s]))
}

/// Whether every element has a place of its own, as far as strides show it: each step is longer than
/// everything within it.
fn has_distinct_places(form: &StickForm) -> bool {
    let lanes = if form.stick.is_some() { form.eps } else { 1 };
    let count = |d: usize| if form.stick == Some(d) { form.stick_count() } else { form.size[d] };
    let mut steps: Vec<(usize, usize)> =
        (0..form.rank()).map(|d| (form.stride[d], count(d))).filter(|(_, n)| *n > 1).collect();
    steps.sort_unstable();
    let mut within = lanes;
    steps.into_iter().all(|(stride, n)| {
        let ok = stride >= within;
        within += stride * (n - 1);
        ok
    })
}
