//! Residency: divisions and scratchpads of a program, and its pool of device memory.

use crate::decisions::Decisions;
use crate::divide::together::{Keepable, Together, together};
use crate::error::{CompileError, Result};
use crate::place::{self, Request};
use crate::program::{BufferId, Place, Program};
use crate::schedule;
use zellige_machine::Key;

/// The fewest bytes of scratchpad beside what an operation streams through it.
const ALIGNMENT: u64 = 128;

/// Divides the steps, says which run at the same time, keeps results in scratchpads where they fit, and
/// gives the rest its place in the pool. What was decided for a program like it is not searched again.
///
/// # Errors
/// A pool that does not hold what lives at the same time.
pub(crate) fn settle(program: &mut Program, like: Option<&Decisions>) -> Result<()> {
    let plan = together(program, like)?;
    program.divided_optimally = plan.optimal;
    let all = vec![true; program.buffers.len()];
    apply(program, &plan, &all);
    let kept: Vec<BufferId> = plan.kept.iter().map(|k| k.buffer).collect();
    program.decisions = Decisions::of(program, &kept, plan.optimal);
    let first: Vec<bool> = (0..program.steps.len()).map(|i| touches(&plan, i, &all)).collect();
    schedule::waves(program, &first);
    let places = scratchpads(program, &plan)?;
    let kept: Vec<bool> = places.iter().map(Option::is_some).collect();
    apply(program, &plan, &kept);
    for (buffer, address) in program.buffers.iter_mut().zip(&places) {
        if let Some(address) = address {
            buffer.place = Place::Lx(*address);
        }
    }
    pool(program)?;
    schedule::times(program);
    Ok(())
}

/// The tensors of a step that stay in the scratchpads.
fn residents(plan: &Together, step: usize, kept: &[bool]) -> Vec<usize> {
    plan.kept
        .iter()
        .filter(|keep| kept[keep.buffer.0])
        .flat_map(|keep| keep.readers.iter().chain([&keep.producer]))
        .filter(|(s, _)| *s == step)
        .map(|(_, tensor)| *tensor)
        .collect()
}

fn touches(plan: &Together, step: usize, kept: &[bool]) -> bool {
    !residents(plan, step, kept).is_empty()
}

/// Enters divisions and works, with what is kept left out of the traffic.
fn apply(program: &mut Program, plan: &Together, kept: &[bool]) {
    for i in 0..program.steps.len() {
        let way = &plan.ways.ways[i][plan.chosen[i]];
        let tensors = residents(plan, i, kept);
        let work = plan.ways.forms[i].as_ref().and_then(|form| form.kept(way, &tensors));
        let step = &mut program.steps[i];
        step.division = way.division.clone();
        step.decided = way.decided.clone();
        step.full = way.work.clone();
        step.work = work.unwrap_or_else(|| way.work.clone());
        step.work.name = step.name.clone();
        step.latency = program.options.hardware.latency(&step.work);
        step.duration = step.latency.time;
    }
}

/// Addresses in the scratchpads of the results that fit.
fn scratchpads(program: &Program, plan: &Together) -> Result<Vec<Option<u64>>> {
    let mut places = vec![None; program.buffers.len()];
    let Some(policy) = program.options.scratchpads else { return Ok(places) };
    let limit = program.options.lx_limit();
    let mut kept: Vec<&Keepable> = plan.kept.iter().collect();
    // What a step streams through the scratchpad is there while it runs, whatever else is.
    let peak = |step: usize| {
        let way = &plan.ways.ways[step][plan.chosen[step]];
        way.work.cores.iter().map(|c| c.lx_peak).max().unwrap_or(0)
    };
    loop {
        let mut buffers = Vec::new();
        let mut streamed = Vec::new();
        for keep in &kept {
            let (step, tensor) = keep.producer;
            let Some(form) = &plan.ways.forms[step] else { continue };
            let way = &plan.ways.ways[step][plan.chosen[step]];
            let size = form.part_bytes(tensor, &way.division);
            let wave = |s: usize| program.steps[s].wave as u64;
            let mut uses: Vec<u64> = vec![wave(step)];
            uses.extend(keep.readers.iter().map(|(s, _)| wave(*s)));
            uses.sort_unstable();
            uses.dedup();
            let life = uses[0]..=uses[uses.len() - 1];
            streamed.extend(
                (0..program.steps.len())
                    .filter(|s| !program.steps[*s].load && life.contains(&wave(*s))),
            );
            buffers.push(place::Buffer::new(format!("{}", keep.buffer.0), size, &uses));
        }
        streamed.sort_unstable();
        streamed.dedup();
        let results = buffers.len();
        for step in &streamed {
            let size = peak(*step);
            if size > 0 {
                let wave = program.steps[*step].wave as u64;
                buffers.push(place::Buffer::new(format!("step {step}"), size, &[wave]));
            }
        }
        if results == 0 {
            return Ok(places);
        }
        let request = Request::new(limit, ALIGNMENT, buffers)?;
        let answer = place::plan(&request, policy);
        // A step without its tiles cannot run: the largest result that lives then goes to memory.
        let missing = (results..request.buffers().len())
            .find(|i| answer.addresses[*i].is_none())
            .map(|i| request.buffers()[i].uses[0]);
        let Some(wave) = missing else {
            for (keep, address) in kept.iter().zip(&answer.addresses) {
                places[keep.buffer.0] = *address;
            }
            return Ok(places);
        };
        let alive = |i: &usize| {
            let b = &request.buffers()[*i];
            b.uses[0] <= wave && wave <= b.uses[b.uses.len() - 1]
        };
        let largest = (0..results).filter(alive).max_by_key(|i| request.buffers()[*i].size);
        match largest {
            Some(i) => {
                kept.remove(i);
            }
            None => return Ok(places),
        }
    }
}

/// Weights, inputs and states have blocks of their own, none larger than a segment; the pool has one
/// segment, and programs have one.
fn given(program: &Program) -> Result<()> {
    let hardware = &program.options.hardware;
    let segment = hardware.count(Key::Segment);
    let limit = segment.saturating_mul(hardware.count(Key::Segments).saturating_sub(2));
    let mut total = 0u64;
    for buffer in program.buffers.iter().filter(|b| b.place == Place::Own) {
        total = total.saturating_add(buffer.bytes());
        if buffer.bytes() > segment || total > limit {
            return Err(CompileError::PoolFull {
                buffer: buffer.name.clone(),
                bytes: buffer.bytes(),
                limit: if buffer.bytes() > segment { segment } else { limit },
                peak: total,
            });
        }
    }
    Ok(())
}

/// The buffer whose memory another is in.
fn root(program: &Program, id: BufferId) -> BufferId {
    match program.buffer(id).place {
        Place::Over(of) => root(program, of),
        _ => id,
    }
}

/// Places in the pool for what lives in device memory between steps of a run.
fn pool(program: &mut Program) -> Result<()> {
    let mut buffers = Vec::new();
    let mut ids = Vec::new();
    let mut uses: Vec<Vec<u64>> = vec![Vec::new(); program.buffers.len()];
    let end = program.steps.iter().map(|s| s.wave + 1).max().unwrap_or(0) as u64;
    for step in program.steps.iter().filter(|s| !s.load) {
        let all = step.reads.iter().map(|r| r.buffer).chain(step.writes.iter().copied());
        all.for_each(|b| uses[root(program, b).0].push(step.wave as u64));
    }
    for output in &program.outputs {
        uses[root(program, output.buffer).0].push(end);
    }
    for (i, buffer) in program.buffers.iter().enumerate() {
        uses[i].sort_unstable();
        if matches!(buffer.place, Place::Pool(_)) && !uses[i].is_empty() {
            buffers.push(place::Buffer::new(buffer.name.clone(), buffer.bytes(), &uses[i]));
            ids.push(BufferId(i));
        }
    }
    given(program)?;
    let (_, plan) = place::pool(buffers, &program.options.hardware)?;
    for (id, address) in ids.into_iter().zip(plan.addresses) {
        program.buffers[id.0].place = Place::Pool(address.unwrap_or(0));
    }
    Ok(())
}
