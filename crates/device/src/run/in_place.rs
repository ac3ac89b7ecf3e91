//! Results written into tensors that exist: out arguments, in-place operations, slices of larger ones.

use crate::card::Card;
use crate::error::refuse;
use crate::error::{DeviceError, Result};
use crate::kernels::kernel;
use crate::run::eager::{Computed, Ran, compute, gather, prepare, settle};
use crate::run::host_fallback::charged;
use crate::run::prepared::PreparedLaunch;
use crate::stream::StreamId;
use crate::tensor::Tensor;
use crate::tensor::sticks::Sticks;
use zellige_machine::account::WorkKind;
use zellige_op::category;
use zellige_op::{Op, TensorType};

/// Writes the results into `outputs`, tensors or views of the results' sizes; they may be, or
/// overlap, the operands: the result is as if it were computed before anything is written.
///
/// A result is computed in its own dtype and then takes that of the output, as in PyTorch. It is
/// written in place where each of its elements depends on operands at that place alone;
/// otherwise it is computed beside and copied, and the copy is charged.
///
/// # Errors
/// As [`RunOp::run`](super::RunOp::run); another number of outputs than of results, other sizes, dtypes that cannot
/// take the result (a float one in an integer output), views with two elements in one place.
pub(super) fn run_into(
    op: &Op,
    card: &Card,
    stream: StreamId,
    inputs: &[Tensor],
    outputs: &[Tensor],
) -> Result<Ran> {
    let cores = card.cores();
    let results = settle(op, card, inputs, cores)?;
    check_outputs(op, card, &results, outputs)?;
    let computed = match compute_in_place(op, card, inputs, &results, outputs)? {
        Some(computed) => computed,
        None => compute_beside(op, card, inputs, outputs)?,
    };
    computed.enter(card, stream)
}

/// Computes new tensors, and copies them into the outputs.
fn compute_beside(op: &Op, card: &Card, inputs: &[Tensor], outputs: &[Tensor]) -> Result<Computed> {
    let cores = card.cores();
    let mut computed = compute(op, card, inputs, cores)?;
    let mut recording = computed.recording.take();
    let targets = recording.as_mut().map(|r| r.add_targets(outputs.len()));
    for (i, (made, to)) in computed.outputs.iter_mut().zip(outputs).enumerate() {
        let mut slot = recording.as_ref().map(|r| r.results()[i]);
        if made.dtype() != to.dtype() {
            let dtype = serde_json::json!({ "dtype": to.dtype().name() });
            let mut cast =
                compute(&Op::new("cast", &dtype)?, card, std::slice::from_ref(made), cores)?;
            computed.works.append(&mut cast.works);
            *made = cast.outputs[0].clone();
            recording = recording.zip(cast.recording).map(|(mut recording, cast)| {
                slot = slot.map(|operand| recording.append(cast, operand)[0]);
                recording
            });
        }
        let moved = to.copy_from(made)?;
        computed.works.push(moved.work(format!("{} into", op.name()), WorkKind::Copy, cores));
        let launch = PreparedLaunch::of_copy(made, to)?;
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
    Ok(Computed { recording, ..computed })
}

fn check_outputs(op: &Op, card: &Card, results: &[TensorType], outputs: &[Tensor]) -> Result<()> {
    let refuse = |reason: String| refuse(op.name(), None, reason);
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
        if category(result.dtype) > category(to.dtype()) {
            let reason = format!("a {} result does not go into {}", result.dtype, to.dtype());
            return Err(refuse(reason));
        }
    }
    Ok(())
}

/// Computes right into the outputs, where that gives the same.
fn compute_in_place(
    op: &Op,
    card: &Card,
    inputs: &[Tensor],
    results: &[TensorType],
    outputs: &[Tensor],
) -> Result<Option<Computed>> {
    let (Ok(forms), cores) =
        (outputs.iter().map(|t| t.sticks()).collect::<Result<Vec<Sticks>>>(), card.cores())
    else {
        return Ok(None);
    };
    let same = results.iter().zip(outputs).all(|(r, to)| r.dtype == to.dtype());
    let Some(wants) = kernel(op).suit(&crate::run::eager::laid(inputs), &forms) else {
        return Ok(None);
    };
    let alone = outputs.iter().zip(&forms).all(|(to, form)| fills_its_sticks(to, form));
    if !same || !alone || !forms.iter().all(apart) || outputs.len() != 1 {
        return Ok(None);
    }
    let gathered = gather(op, card, inputs, &wants, cores)?;
    let safe =
        |t: &Tensor| t.block() != outputs[0].block() || t.sticks().is_ok_and(|f| f == forms[0]);
    if !gathered.operands.iter().all(safe) {
        return Ok(None);
    }
    let launched = prepare(op, &gathered.operands, outputs, None, cores)?;
    let mut works = gathered.works;
    works.push(charged(op, card, launched.work, inputs, outputs)?);
    let recording =
        gathered.recording.zip(launched.prepared).map(|((mut recording, reads), launch)| {
            let targets = recording.add_targets(outputs.len());
            recording.launch_into(launch, &reads, &targets);
            recording.set_results(&targets);
            recording
        });
    Ok(Some(Computed { outputs: outputs.to_vec(), division: launched.division, works, recording }))
}

/// Whether the lanes behind the elements of an output are padding: kernels write whole sticks, and in a
/// view that ends inside one those lanes are elements of its base.
fn fills_its_sticks(to: &Tensor, form: &Sticks) -> bool {
    let Some(s) = form.stick else { return true };
    if to.is_base() || form.size[s].is_multiple_of(form.eps) {
        return true;
    }
    let whole = to.whole().sticks();
    whole.is_ok_and(|base| base.stick.is_some_and(|d| base.size[d] == form.size[s]))
}

/// Whether every element has a place of its own, as far as strides show it: each step is longer than
/// all that lies within it.
fn apart(form: &Sticks) -> bool {
    let lanes = if form.stick.is_some() { form.eps } else { 1 };
    let count = |d: usize| if form.stick == Some(d) { form.count() } else { form.size[d] };
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
