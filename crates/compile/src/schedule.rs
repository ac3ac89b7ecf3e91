//! When every step starts and how long it takes: the last decision, which completes the program.
//!
//! The host launches a wave when the one before it has ended; then its steps start. It takes as long as its
//! slowest step, which shares the bandwidth of the memory with the others. Loading and running have clocks
//! of their own.

use crate::choose::LayoutAssignment;
use crate::divide::DividedSteps;
use crate::draft::{PlacedDraft, ProgramDraft, ResidentDraft};
use crate::lower::LoweredProgram;
use crate::program::{CompiledProgram, ProgramBuffer, ProgramStep};
use crate::scratchpads::ScratchpadPlan;
use std::rc::Rc;
use zellige_machine::account::WorkKind;
use zellige_machine::{Hardware, OperationLatency, OperationWork, SimulatedTime};

/// The program: steps in the order of their waves, each with its times; buffers, each with its place; and the layouts
/// with what is proved of them.
pub(crate) fn schedule_steps(draft: PlacedDraft, assignment: LayoutAssignment) -> CompiledProgram {
    let ProgramDraft { lowered, divisions, slots, residents, places } = draft;
    let DividedSteps { steps: divisions, optimal, decisions, .. } = divisions;
    let ScratchpadPlan { works, .. } = residents;
    let LoweredProgram { graph, options, buffers, steps, inputs, outputs, states, .. } = lowered;
    let buffers = buffers.into_iter().zip(places).map(|(b, place)| ProgramBuffer {
        name: b.name,
        tensor: b.tensor,
        laid: b.laid,
        origin: b.origin,
        place,
        loaded: b.loaded,
    });
    let waves: Vec<(usize, bool)> =
        slots.iter().zip(&steps).map(|(slot, step)| (slot.wave, step.load)).collect();
    let times = compute_step_times(&options.hardware, &waves, &works);
    let decided = divisions.into_iter().zip(works).zip(slots).zip(times);
    let mut steps: Vec<ProgramStep> = steps
        .into_iter()
        .zip(decided)
        .map(|(step, (((divided, work), slot), (start, latency)))| ProgramStep {
            full: (*divided.work).clone(),
            work: OperationWork { name: step.name.clone(), ..(*work).clone() },
            name: step.name,
            action: step.action,
            reads: step.reads,
            writes: step.writes,
            load: step.load,
            space: step.space,
            division: divided.division,
            rounds: divided.rounds,
            decided: divided.decided,
            duration: latency.time,
            latency,
            wave: slot.wave,
            first_core: slot.first_core,
            start,
        })
        .collect();
    // The sort is stable: steps of one wave stay in the order in which lowering made them, and the emitted files with
    // them.
    steps.sort_by_key(|s| s.wave);
    CompiledProgram {
        graph: Rc::unwrap_or_clone(graph),
        options,
        assignment,
        buffers: buffers.collect(),
        steps,
        inputs,
        outputs,
        states,
        divided_optimally: optimal,
        decisions,
    }
}

/// How long a run takes.
pub(crate) fn run_time(draft: &ResidentDraft) -> SimulatedTime {
    let ProgramDraft { lowered, slots, residents: ScratchpadPlan { works, .. }, .. } = draft;
    let waves: Vec<(usize, bool)> =
        slots.iter().zip(&lowered.steps).map(|(slot, step)| (slot.wave, step.load)).collect();
    let times = compute_step_times(&lowered.options.hardware, &waves, works);
    let runs = times.iter().zip(&waves).filter(|(_, (_, load))| !load);
    runs.map(|((start, latency), _)| *start + latency.time).max().unwrap_or(SimulatedTime::ZERO)
}

/// What the host takes to launch a wave of steps of these kinds. A copy between scratchpads is launched with the step that
/// reads it: its instructions are a part of that step's program.
pub(crate) fn wave_launch_time(
    hardware: &Hardware,
    mut kinds: impl Iterator<Item = WorkKind>,
) -> SimulatedTime {
    match kinds.all(|kind| matches!(kind, WorkKind::Exchange(_))) {
        true => SimulatedTime::ZERO,
        false => hardware.launch_time(),
    }
}

/// Of every step, when it starts and what it takes beside the others of its wave.
fn compute_step_times(
    hardware: &Hardware,
    waves: &[(usize, bool)],
    works: &[Rc<OperationWork>],
) -> Vec<(SimulatedTime, OperationLatency)> {
    let count = waves.iter().map(|(wave, _)| wave + 1).max().unwrap_or(0);
    let mut members: Vec<Vec<usize>> = vec![Vec::new(); count];
    waves.iter().enumerate().for_each(|(step, (wave, _))| members[*wave].push(step));
    let (mut run, mut load) = (SimulatedTime::ZERO, SimulatedTime::ZERO);
    let mut starts = vec![SimulatedTime::ZERO; count];
    let latency = |step: usize| {
        let all: usize = members[waves[step].0].iter().map(|m| works[*m].cores.len()).sum();
        // The cores of a wave share the bandwidth of the memory, so that a step takes longer the more cores work
        // beside it.
        hardware.latency_beside(&works[step], all - works[step].cores.len())
    };
    let latencies: Vec<OperationLatency> = (0..works.len()).map(latency).collect();
    for (wave, steps) in members.iter().enumerate() {
        let loads = steps.iter().any(|s| waves[*s].1);
        let clock = if loads { &mut load } else { &mut run };
        // The host launches a wave only when the one before it has ended, so that its launch is never hidden.
        *clock += wave_launch_time(hardware, steps.iter().map(|s| works[*s].kind));
        starts[wave] = *clock;
        *clock += steps.iter().map(|s| latencies[*s].time).max().unwrap_or(SimulatedTime::ZERO);
    }
    latencies.into_iter().zip(waves).map(|(l, (wave, _))| (starts[*wave], l)).collect()
}
