//! When every step starts and how long it takes: the last decision, which completes the program.
//!
//! The host launches a bundle of waves when the one before it has ended; then its waves run one after the other. A wave
//! takes as long as its slowest step, which shares the bandwidth of the memory with the others. Loading and running
//! have clocks of their own.

use crate::bundles::{BundledWaves, WaveKind, divide_into_bundles};
use crate::choose::LayoutAssignment;
use crate::divide::DividedSteps;
use crate::draft::{PlacedDraft, ProgramDraft, ResidentDraft};
use crate::lower::{LoweredProgram, LoweredStep};
use crate::options::CompilerOptions;
use crate::program::{BundleKind, CompiledProgram, ProgramBuffer, ProgramBundle, ProgramStep};
use crate::scratchpads::ScratchpadPlan;
use crate::waves::StepSlot;
use std::rc::Rc;
use zellige_machine::{OperationLatency, OperationWork, SimulatedTime};

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
    let StepTimes { times, bundles } = compute_step_times(&options, &steps, &slots, &works);
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
    let bundles = bundles.into_iter().map(|b| b.of_steps(&steps)).collect();
    CompiledProgram {
        graph: Rc::unwrap_or_clone(graph),
        options,
        assignment,
        buffers: buffers.collect(),
        steps,
        bundles,
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
    let StepTimes { times, .. } =
        compute_step_times(&lowered.options, &lowered.steps, slots, works);
    let runs = times.iter().zip(&lowered.steps).filter(|(_, step)| !step.load);
    runs.map(|((start, latency), _)| *start + latency.time).max().unwrap_or(SimulatedTime::ZERO)
}

/// When everything happens.
struct StepTimes {
    /// Of every step, when it starts and what it takes beside the others of its wave.
    times: Vec<(SimulatedTime, OperationLatency)>,
    bundles: Vec<TimedBundle>,
}

/// Waves that are launched at once, with the beginning of their launch and the end of the last wave.
struct TimedBundle {
    bundled: BundledWaves,
    start: SimulatedTime,
    end: SimulatedTime,
}

impl TimedBundle {
    /// The same by the numbers of its steps, which are in the order of their waves.
    fn of_steps(self, steps: &[ProgramStep]) -> ProgramBundle {
        let BundledWaves { waves, of: WaveKind { load, kind }, launch } = self.bundled;
        let first = |wave: usize| steps.partition_point(|s| s.wave < wave);
        let steps = first(waves.start)..first(waves.end);
        ProgramBundle { steps, kind, load, launch, start: self.start, end: self.end }
    }
}

fn compute_step_times(
    options: &CompilerOptions,
    steps: &[LoweredStep],
    slots: &[StepSlot],
    works: &[Rc<OperationWork>],
) -> StepTimes {
    let count = slots.iter().map(|slot| slot.wave + 1).max().unwrap_or(0);
    let mut members: Vec<Vec<usize>> = vec![Vec::new(); count];
    slots.iter().enumerate().for_each(|(step, slot)| members[slot.wave].push(step));
    let latency = |step: usize| {
        let all: usize = members[slots[step].wave].iter().map(|m| works[*m].cores.len()).sum();
        // The cores of a wave share the bandwidth of the memory, so that a step takes longer the more cores work
        // beside it.
        options.hardware.latency_beside(&works[step], all - works[step].cores.len())
    };
    let latencies: Vec<OperationLatency> = (0..works.len()).map(latency).collect();
    // Steps of the host and of loading share no wave with others, so that one member speaks for all.
    let kind_of = |members: &Vec<usize>| WaveKind {
        load: members.iter().any(|s| steps[*s].load),
        kind: match members.iter().any(|s| steps[*s].action.bundle_kind() == BundleKind::Host) {
            true => BundleKind::Host,
            false => BundleKind::Device,
        },
    };
    let kinds: Vec<WaveKind> = members.iter().map(kind_of).collect();
    let (mut run, mut load) = (SimulatedTime::ZERO, SimulatedTime::ZERO);
    let mut starts = vec![SimulatedTime::ZERO; count];
    let mut bundles = Vec::new();
    for bundled in divide_into_bundles(options, &kinds) {
        let clock = if bundled.of.load { &mut load } else { &mut run };
        let start = *clock;
        // The host launches a bundle only when the one before it has ended, so that its launch is never hidden.
        *clock += bundled.launch.unwrap_or(SimulatedTime::ZERO);
        for wave in bundled.waves.clone() {
            starts[wave] = *clock;
            let slowest = members[wave].iter().map(|s| latencies[*s].time).max();
            *clock += slowest.unwrap_or(SimulatedTime::ZERO);
        }
        bundles.push(TimedBundle { start, end: *clock, bundled });
    }
    let times = latencies.into_iter().zip(slots).map(|(l, slot)| (starts[slot.wave], l)).collect();
    StepTimes { times, bundles }
}
