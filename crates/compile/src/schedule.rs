//! When every step runs.
//!
//! Steps run in **waves**. A wave begins when the one before has ended; its steps depend on nothing of
//! the wave, have different cores, and share the bandwidth of the memory. A step joins a wave as soon as
//! its operands are there and cores are free, where the wave then ends earlier than the step after it
//! would; with that, two independent branches that together fit run at the same time. Within an
//! operation, loads overlap with computation: every operand has two tiles in the scratchpad, one in use
//! while the other is on its way.

use crate::program::{Program, Step};
use zellige_machine::{Hardware, Time};

/// How many steps ahead a wave looks for one that fits beside it.
const AHEAD: usize = 24;

/// Gives every step its wave and its first core. Steps for which `first` holds begin at core 0, as what
/// they keep in the scratchpads lies there; a wave has one of them at most.
pub(crate) fn waves(program: &mut Program, first: &[bool]) {
    let needs = needs(program);
    let total = program.options.cores;
    let mut order: Vec<usize> = Vec::with_capacity(program.steps.len());
    for load in [true, false] {
        order.extend((0..program.steps.len()).filter(|i| program.steps[*i].load == load));
    }
    let mut done = vec![false; program.steps.len()];
    let mut wave = 0;
    let mut at = 0;
    while at < order.len() {
        let lead = order[at];
        if done[lead] {
            at += 1;
            continue;
        }
        let mut members = vec![lead];
        if program.options.concurrent && shares(&program.steps[lead]) {
            let rest: Vec<usize> =
                order[at + 1..].iter().copied().filter(|i| !done[*i]).take(AHEAD).collect();
            for i in rest {
                let step = &program.steps[i];
                let fits = cores(program, &members) + step.work.cores.len() <= total;
                let ready =
                    step.load == program.steps[lead].load && needs[i].iter().all(|n| done[*n]);
                let apart = !first[i] || !members.iter().any(|m| first[*m]);
                if fits && ready && apart && shares(step) && gains(program, &members, i) {
                    members.push(i);
                }
            }
        }
        // What lies in scratchpads begins at core 0.
        members.sort_by_key(|m| (!first[*m], *m));
        let mut core = 0;
        for m in &members {
            program.steps[*m].wave = wave;
            program.steps[*m].first_core = core;
            core += program.steps[*m].work.cores.len();
            done[*m] = true;
        }
        wave += 1;
    }
}

/// Enters start and duration of every step, and puts steps in the order of their waves.
pub(crate) fn times(program: &mut Program) {
    program.steps.sort_by_key(|s| s.wave);
    let hardware = program.options.hardware.clone();
    let (mut run, mut load) = (Time::ZERO, Time::ZERO);
    let mut at = 0;
    while at < program.steps.len() {
        let wave = program.steps[at].wave;
        let end = at + program.steps[at..].iter().take_while(|s| s.wave == wave).count();
        let all: usize = program.steps[at..end].iter().map(|s| s.work.cores.len()).sum();
        let clock = if program.steps[at].load { &mut load } else { &mut run };
        let mut longest = Time::ZERO;
        for step in &mut program.steps[at..end] {
            step.start = *clock;
            step.latency = hardware.latency_beside(&step.work, all - step.work.cores.len());
            step.duration = step.latency.time;
            longest = longest.max(step.duration);
        }
        *clock += longest;
        at = end;
    }
}

/// For every step, the steps whose results it reads, or whose operands it writes over.
fn needs(program: &Program) -> Vec<Vec<usize>> {
    let mut writer: Vec<Option<usize>> = vec![None; program.buffers.len()];
    let mut readers: Vec<Vec<usize>> = vec![Vec::new(); program.buffers.len()];
    let mut needs = vec![Vec::new(); program.steps.len()];
    for (i, step) in program.steps.iter().enumerate() {
        for read in &step.reads {
            needs[i].extend(writer[read.buffer.0]);
            readers[read.buffer.0].push(i);
        }
        for write in &step.writes {
            if let crate::program::Place::Over(of) = program.buffer(*write).place {
                needs[i].extend(readers[of.0].iter().copied().filter(|r| *r != i));
            }
            writer[write.0] = Some(i);
        }
    }
    needs
}

/// Whether it runs on cores that others are not on: transfers and moves take the whole card.
fn shares(step: &Step) -> bool {
    !step.is_move() && !step.work.kind.is_transfer() && step.space.is_some()
}

fn cores(program: &Program, members: &[usize]) -> usize {
    members.iter().map(|m| program.steps[*m].work.cores.len()).sum()
}

/// Whether a step beside these ends earlier than after them.
fn gains(program: &Program, members: &[usize], step: usize) -> bool {
    let hardware = &program.options.hardware;
    let apart = together(program, hardware, members) + program.steps[step].latency.time;
    let with: Vec<usize> = members.iter().copied().chain([step]).collect();
    together(program, hardware, &with) < apart
}

fn together(program: &Program, hardware: &Hardware, members: &[usize]) -> Time {
    let all = cores(program, members);
    let time = |m: &usize| {
        let work = &program.steps[*m].work;
        hardware.latency_beside(work, all - work.cores.len()).time
    };
    members.iter().map(time).max().unwrap_or(Time::ZERO)
}
