//! The check of copies between scratchpads, from the loops of the steps at both ends and the sends alone.

use super::report_broken_rule;
use crate::core_copies::ScratchpadCopy;
use crate::error::Result;
use crate::program::{BufferId, BufferLocation, CompiledProgram, ProgramStep, StepAction};
use std::collections::BTreeMap;
use std::ops::Range;
use zellige_device::{PlanOp, TensorLayout};
use zellige_machine::account::{ExchangeCarrier, WorkKind};

/// A part of a tensor: a range of every dimension.
type Part = Vec<Range<usize>>;

/// Rule 8.
pub(super) fn check_exchange(
    program: &CompiledProgram,
    step: &ProgramStep,
    copy: &ScratchpadCopy,
) -> Result<()> {
    let broken = |reason: String| report_broken_rule(&step.name, reason);
    let ([read], [to]) = (&step.reads[..], &step.writes[..]) else {
        return broken("a copy reads one buffer and writes one".into());
    };
    let in_lx = |id: BufferId| matches!(program.buffer(id).place, BufferLocation::Lx(_));
    if !in_lx(read.buffer) || !in_lx(*to) {
        return broken("it copies from or to a buffer that is in no scratchpad".into());
    }
    if read.laid != program.buffer(read.buffer).laid || read.laid != program.buffer(*to).laid {
        return broken("it changes the layout".into());
    }
    let writer = program.steps.iter().find(|s| s.writes.contains(&read.buffer));
    let Some(writer) = writer else { return broken("nobody writes what it copies".into()) };
    // Of a split sum only the last core of each group has the complete sum. Groups are cores that follow one another.
    let group: usize = writer
        .space
        .iter()
        .flatten()
        .zip(writer.division.splits())
        .fold(1, |product, (span, n)| if span.reduced { product * n } else { product });
    let produced = parts_of(program, writer, read.buffer)?;
    let Some(produced) = produced else {
        return broken("its producer does not say what its cores have".into());
    };
    let held: BTreeMap<usize, Part> =
        produced.into_iter().filter(|(core, _)| core % group == group - 1).collect();
    let mut needed: Option<BTreeMap<usize, Part>> = None;
    for reader in program.steps.iter().filter(|s| s.reads.iter().any(|r| r.buffer == *to)) {
        let parts = parts_of(program, reader, *to)?;
        match (&needed, parts) {
            (_, None) => return broken("a reader does not say what its cores have".into()),
            (Some(other), Some(parts)) if *other != parts => {
                return broken("two readers of it have different parts".into());
            }
            (_, Some(parts)) => needed = Some(parts),
        }
    }
    let Some(needed) = needed else { return broken("nobody reads it".into()) };
    let form = read.laid.stick_form()?;
    let whole_sticks = |part: &Part| {
        form.stick.is_none_or(|d| {
            let ends = part[d].end.is_multiple_of(form.eps) || part[d].end == form.size[d];
            part[d].start.is_multiple_of(form.eps) && ends
        })
    };
    let mut arrived: BTreeMap<usize, Vec<Part>> = BTreeMap::new();
    let (mut remote, mut local) = (0, 0);
    for send in copy.exchange.sends() {
        let bound = |n: i64| usize::try_from(n).unwrap_or(usize::MAX);
        let part: Part = send.elements.ranges().iter().map(|(a, b)| bound(*a)..bound(*b)).collect();
        let from = send.source as usize;
        if !held.get(&from).is_some_and(|own| is_inside(&part, own)) {
            return broken(format!("core {from} sends {part:?} and does not hold it"));
        }
        if !whole_sticks(&part) {
            return broken(format!("core {from} sends a part of a stick"));
        }
        for to in &send.destinations {
            let to = *to as usize;
            if !needed.get(&to).is_some_and(|own| is_inside(&part, own)) {
                return broken(format!("core {to} gets {part:?} and does not need it"));
            }
            let own = arrived.entry(to).or_default();
            if own.iter().any(|other| overlap(other, &part)) {
                return broken(format!("core {to} gets a part of {part:?} twice"));
            }
            *(if to == from { &mut local } else { &mut remote }) += stick_bytes(&form, &part);
            own.push(part.clone());
        }
    }
    for (core, part) in &needed {
        // Boxes inside the part that do not overlap and have its volume together are all of it.
        let volume = |p: &Part| p.iter().map(Range::len).product::<usize>();
        let got: usize = arrived.get(core).into_iter().flatten().map(volume).sum();
        if got != volume(part) {
            return broken(format!("core {core} gets {got} of {} elements", volume(part)));
        }
    }
    if (copy.remote_bytes, copy.local_bytes) != (remote, local) {
        return broken(format!("it moves {remote} bytes and keeps {local}"));
    }
    let WorkKind::Exchange(work) = step.work.kind else {
        return broken("it is charged as another kind of work".into());
    };
    if step.full.kind != step.work.kind || step.full.cores != step.work.cores {
        return broken("it has two accounts".into());
    }
    let charged = |take: fn(&zellige_machine::account::CoreWork) -> u64| -> u64 {
        step.work.cores.iter().map(take).sum()
    };
    let memory = charged(|c| c.reads.total_bytes() + c.writes.total_bytes());
    if charged(|c| c.ring_in) != remote || memory != 0 {
        return broken("it is charged other bytes than it moves".into());
    }
    for (side, parts) in [(work.source, &held), (work.destination, &needed)] {
        if side.cores != parts.len() as u64 {
            return broken(format!("it is charged for {} cores of {}", side.cores, parts.len()));
        }
        // The run of a part that has all sticks of its shortest steps, found by stepping through the sticks.
        let shortest = parts.values().map(|part| first_run_bytes(&form, part)).min();
        if shortest != Some(side.run_bytes) {
            let (runs, shortest) = (side.run_bytes, shortest.unwrap_or(0));
            return broken(format!("it is charged for runs of {runs} bytes, and has {shortest}"));
        }
    }
    if work.carrier != ExchangeCarrier::Shuffle {
        return broken("it is charged as a program of the ring".into());
    }
    Ok(())
}

/// Of every core with a part of a buffer, that part; none where the step has no loops or the buffer as several tensors in
/// different parts.
fn parts_of(
    program: &CompiledProgram,
    step: &ProgramStep,
    buffer: BufferId,
) -> Result<Option<BTreeMap<usize, Part>>> {
    let StepAction::Op(_, op) = &step.action else { return Ok(None) };
    let ins: Vec<TensorLayout> = step.reads.iter().map(|r| r.laid.clone()).collect();
    let outs: Vec<TensorLayout> =
        step.writes.iter().map(|b| program.buffer(*b).laid.clone()).collect();
    let Some(loops) = op.tensor_loops(&ins, &outs)? else { return Ok(None) };
    let reads = step.reads.iter().map(|r| r.buffer);
    let all = reads.chain(step.writes.iter().copied()).enumerate();
    let mut found: Option<BTreeMap<usize, Part>> = None;
    for (tensor, _) in all.filter(|(_, b)| *b == buffer) {
        let part = |core| (core, loops.core_region(tensor, core, &step.division));
        let parts: BTreeMap<usize, Part> = (0..step.division.core_count())
            .map(part)
            .filter(|(_, part)| part.iter().all(|r| !r.is_empty()))
            .collect();
        if found.as_ref().is_some_and(|other| *other != parts) {
            return Ok(None);
        }
        found = Some(parts);
    }
    Ok(found)
}

/// Bytes of the parts of a buffer on all cores of a step, one operand of it; none where nothing says what they are.
pub(super) fn part_bytes(
    program: &CompiledProgram,
    step: &ProgramStep,
    buffer: BufferId,
) -> Result<u64> {
    let form = program.buffer(buffer).laid.stick_form()?;
    let parts = parts_of(program, step, buffer)?.unwrap_or_default();
    Ok(parts.values().map(|part| stick_bytes(&form, part)).sum())
}

fn is_inside(part: &Part, whole: &Part) -> bool {
    part.len() == whole.len()
        && part
            .iter()
            .zip(whole)
            .all(|(p, w)| w.start <= p.start && p.end <= w.end && !p.is_empty())
}

fn overlap(a: &Part, b: &Part) -> bool {
    a.iter().zip(b).all(|(x, y)| x.start.max(y.start) < x.end.min(y.end))
}

fn stick_bytes(form: &zellige_device::StickForm, part: &Part) -> u64 {
    let sticks = part.iter().enumerate().map(|(d, r)| match form.stick == Some(d) {
        true => r.len().div_ceil(form.eps),
        false => r.len(),
    });
    sticks.product::<usize>() as u64 * 128
}

/// Bytes from the first stick of a part on that are all of the part, one stick after the other.
fn first_run_bytes(form: &zellige_device::StickForm, part: &Part) -> u64 {
    let mut places = vec![0usize];
    for (d, range) in part.iter().enumerate() {
        let (first, count) = match form.stick == Some(d) {
            true => (range.start / form.eps, range.len().div_ceil(form.eps)),
            false => (range.start, range.len()),
        };
        let steps = (first..first + count).map(|i| i * form.stride[d]);
        let steps: Vec<usize> = steps.collect();
        places = places.iter().flat_map(|at| steps.iter().map(move |s| at + s)).collect();
    }
    places.sort_unstable();
    places.dedup();
    let run = places.windows(2).take_while(|w| w[1] - w[0] == form.eps).count() + 1;
    (run * form.eps * form.format.byte_size()) as u64
}
