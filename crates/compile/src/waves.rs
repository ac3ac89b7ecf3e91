//! Which steps run at the same time, and on which cores.
//!
//! Steps run in **waves**. A wave begins when the one before has ended; its steps depend on nothing of
//! the wave, have different cores, and share the bandwidth of the memory. A step joins a wave as soon as
//! its operands are there and cores are free, where the wave then ends earlier than the step after it
//! would; with that, two independent branches that together fit run at the same time. That is for hosts that launch
//! steps one by one: they launch a wave as a whole, as the device's format has a descriptor for every core. The program
//! of a bundle is a list of operations that the card does one after the other, so that there every step is a wave of
//! its own. Within an operation, loads overlap with computation: every operand has two tiles in the scratchpad, one in
//! use while the other is on its way.
//!
//! Waves come before addresses, as what lives at the same time is decided by them.

use crate::divide::DividedSteps;
use crate::draft::{DividedDraft, WavedDraft};
use crate::lower::{LoweredProgram, LoweredStep, MemoryClass};
use crate::placement::is_in_lx;
use std::rc::Rc;
use zellige_machine::{OperationWork, SimulatedTime};

/// How many steps ahead a wave looks for one that fits beside it.
// A step far ahead seldom has its operands already, and looking at all of them would make the pass quadratic in the
// length of the program.
const MAX_LOOKAHEAD_STEPS: usize = 24;

/// When and where a step runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StepSlot {
    /// Its wave.
    pub(crate) wave: usize,
    /// The first of its cores.
    pub(crate) first_core: usize,
}

/// Gives every step its wave and its first core.
///
/// Steps that share a result in the scratchpads begin at core 0, because its parts are on the cores from 0 on; a wave
/// has one of them at most. Where that keeps a step from running beside others, what it shares may go back to memory
/// instead: its users then move it, and the step is free to run on other cores. Both ways are tried, and the one that
/// takes less time in all is taken.
pub(crate) fn assign_waves(mut draft: DividedDraft) -> WavedDraft {
    let mut kept = WaveScheduler::new(&draft, false);
    let mut slots = kept.assign_slots();
    let mut stays = kept.stays.clone();
    if kept.blocked {
        let mut freed = WaveScheduler::new(&draft, true);
        let other = freed.assign_slots();
        // Sending a result back to memory helps one wave and costs its other users. Each such decision is local, so
        // that both schedules are made to the end and the shorter one is taken.
        if freed.total < kept.total {
            (slots, stays) = (other, freed.stays);
        }
    }
    let mut stays = stays.into_iter();
    draft.divisions.residents.retain(|_| stays.next().unwrap_or(true));
    draft.with_slots(slots)
}

/// The steps of a program with their work and what they wait for.
struct WaveScheduler<'a> {
    divided: &'a DividedSteps,
    lowered: &'a LoweredProgram,
    works: Vec<Rc<OperationWork>>,
    /// Of every step, how long it takes alone.
    alone: Vec<SimulatedTime>,
    needs: Vec<Vec<usize>>,
    /// Of every step, the results in the scratchpads that it makes or reads, and as which tensor.
    shared: Vec<Vec<(usize, usize)>>,
    /// Of every result that may stay in the scratchpads, whether it does.
    stays: Vec<bool>,
    /// Whether results may go back to memory for a step to run beside others.
    frees: bool,
    /// Whether the scratchpads kept a step from running beside others.
    blocked: bool,
    /// How long all waves take.
    total: SimulatedTime,
}

impl<'a> WaveScheduler<'a> {
    fn new(draft: &'a DividedDraft, frees: bool) -> WaveScheduler<'a> {
        let (lowered, divided) = (&draft.lowered, &draft.divisions);
        let works = divided.works_with_kept(&vec![true; lowered.buffers.len()]);
        let alone =
            works.iter().map(|w| lowered.options.hardware.operation_latency(w).time).collect();
        let mut shared = vec![Vec::new(); lowered.steps.len()];
        for (r, keep) in divided.residents.iter().enumerate() {
            for (step, tensor) in keep.readers.iter().chain([&keep.producer]) {
                shared[*step].push((r, *tensor));
            }
        }
        WaveScheduler {
            divided,
            lowered,
            works,
            alone,
            needs: collect_dependencies(lowered),
            shared,
            stays: vec![true; divided.residents.len()],
            frees,
            blocked: false,
            total: SimulatedTime::ZERO,
        }
    }

    fn assign_slots(&mut self) -> Vec<StepSlot> {
        let steps = &self.lowered.steps;
        let (total, launch) =
            (self.lowered.options.cores, self.lowered.options.hardware.step_launch_time());
        let mut order: Vec<usize> = Vec::with_capacity(steps.len());
        for load in [true, false] {
            order.extend((0..steps.len()).filter(|i| steps[*i].load == load));
        }
        let mut slots: Vec<Option<StepSlot>> = vec![None; steps.len()];
        let mut wave = 0;
        for (at, lead) in order.iter().copied().enumerate() {
            if slots[lead].is_some() {
                continue;
            }
            let mut members = vec![lead];
            if self.lowered.options.runs_side_by_side() && self.can_share_card(lead) {
                let rest = order[at + 1..].iter().copied().filter(|i| slots[*i].is_none());
                for i in rest.take(MAX_LOOKAHEAD_STEPS) {
                    let fits = self.cores_in_use(&members) + self.works[i].cores.len() <= total;
                    // Loading and running are different launches, on clocks of their own.
                    let ready = steps[i].load == steps[lead].load
                        && self.needs[i].iter().all(|n| slots[*n].is_some());
                    if fits && ready && self.can_share_card(i) && self.joins_wave(&members, i) {
                        members.push(i);
                    }
                }
            }
            // Results in the scratchpads are on the cores from 0 on, so that their users come first in the wave.
            members.sort_by_key(|m| (!self.is_tied_to_core_zero(*m), *m));
            let mut first_core = 0;
            for m in &members {
                slots[*m] = Some(StepSlot { wave, first_core });
                first_core += self.works[*m].cores.len();
            }
            wave += 1;
        }
        // Steps that joined later may have sent results back to memory, which changes how long earlier waves take: the
        // total is added up when everything is decided.
        let mut waves: Vec<Vec<usize>> = vec![Vec::new(); wave];
        for (i, slot) in slots.iter().enumerate() {
            waves[slot.map_or(0, |s| s.wave)].push(i);
        }
        self.total = waves.iter().map(|members| launch + self.wave_time(members)).sum();
        slots.into_iter().map(|s| s.expect("every step was the lead or joined a wave")).collect()
    }

    /// Whether a step has to begin at core 0.
    fn is_tied_to_core_zero(&self, step: usize) -> bool {
        self.shared[step].iter().any(|(r, _)| self.stays[*r])
    }

    /// Whether a step that could run beside these does, which may send results back to memory.
    fn joins_wave(&mut self, members: &[usize], step: usize) -> bool {
        if !self.is_tied_to_core_zero(step)
            || !members.iter().any(|m| self.is_tied_to_core_zero(*m))
        {
            return self.gains_by_joining(members, step);
        }
        self.blocked = true;
        self.frees && self.frees_residents(members, step)
    }

    /// Sends what a step shares in the scratchpads back to memory, if it then ends earlier beside these than
    /// after them, and that is more than all users of what it shares lose.
    fn frees_residents(&mut self, members: &[usize], step: usize) -> bool {
        let freed: Vec<usize> =
            self.shared[step].iter().map(|(r, _)| *r).filter(|r| self.stays[*r]).collect();
        let is_placed = |r: &usize| {
            let buffer = self.lowered.buffer(self.divided.residents[*r].buffer);
            is_in_lx(&self.lowered.graph, buffer.tensor)
        };
        // The programmer placed it in the scratchpads: no gain in time sends it back.
        if freed.iter().any(is_placed) {
            return false;
        }
        let keeps = freed.iter().map(|r| &self.divided.residents[*r]);
        let mut users: Vec<usize> =
            keeps.flat_map(|k| k.readers.iter().chain([&k.producer])).map(|(s, _)| *s).collect();
        users.sort_unstable();
        users.dedup();
        let with: Vec<usize> = members.iter().copied().chain([step]).collect();
        let others = |waves: &WaveScheduler<'_>| -> SimulatedTime {
            users.iter().filter(|u| !with.contains(u)).map(|u| waves.alone[*u]).sum()
        };
        let launch = self.lowered.options.hardware.step_launch_time();
        // Compared are the users of the freed results alone; all other steps take the same time in both cases.
        let before = self.wave_time(members) + launch + self.alone[step] + others(self);
        let held: Vec<Rc<OperationWork>> = users.iter().map(|u| self.works[*u].clone()).collect();
        freed.iter().for_each(|r| self.stays[*r] = false);
        users.iter().for_each(|u| self.update_work(*u));
        if self.wave_time(&with) + others(self) < before {
            return true;
        }
        // It did not help: the works are restored from the saved ones, because computing them again costs more than
        // keeping them.
        freed.iter().for_each(|r| self.stays[*r] = true);
        for (user, work) in users.iter().zip(held) {
            self.alone[*user] = self.lowered.options.hardware.operation_latency(&work).time;
            self.works[*user] = work;
        }
        false
    }

    /// The work of a step with what stays in the scratchpads now.
    fn update_work(&mut self, step: usize) {
        let stay = |(r, tensor): &(usize, usize)| self.stays[*r].then_some(*tensor);
        let tensors: Vec<usize> = self.shared[step].iter().filter_map(stay).collect();
        let divided = &self.divided.steps[step];
        let op = self.divided.ops[step].as_ref();
        let work = op.and_then(|op| op.work_with_residents(divided, &tensors));
        let work = work.unwrap_or_else(|| divided.work.clone());
        self.alone[step] = self.lowered.options.hardware.operation_latency(&work).time;
        self.works[step] = work;
    }

    /// Whether it runs on cores that others are not on: transfers and moves take the whole card.
    fn can_share_card(&self, step: usize) -> bool {
        let LoweredStep { space, .. } = &self.lowered.steps[step];
        !self.lowered.steps[step].is_move()
            && !self.works[step].kind.is_transfer()
            && space.is_some()
    }

    fn cores_in_use(&self, members: &[usize]) -> usize {
        members.iter().map(|m| self.works[*m].cores.len()).sum()
    }

    /// Whether a step beside these ends earlier than after them, where it has a launch of its own.
    fn gains_by_joining(&self, members: &[usize], step: usize) -> bool {
        let launch = self.lowered.options.hardware.step_launch_time();
        let apart = self.wave_time(members) + launch + self.alone[step];
        let with: Vec<usize> = members.iter().copied().chain([step]).collect();
        self.wave_time(&with) < apart
    }

    /// How long a wave of these steps takes.
    fn wave_time(&self, members: &[usize]) -> SimulatedTime {
        let all = self.cores_in_use(members);
        let time = |m: &usize| {
            let work = &self.works[*m];
            self.lowered.options.hardware.latency_beside(work, all - work.cores.len()).time
        };
        members.iter().map(time).max().unwrap_or(SimulatedTime::ZERO)
    }
}

/// For every step, the steps whose results it reads, or whose operands it writes over.
fn collect_dependencies(lowered: &LoweredProgram) -> Vec<Vec<usize>> {
    let mut writer: Vec<Option<usize>> = vec![None; lowered.buffers.len()];
    let mut readers: Vec<Vec<usize>> = vec![Vec::new(); lowered.buffers.len()];
    let mut needs = vec![Vec::new(); lowered.steps.len()];
    for (i, step) in lowered.steps.iter().enumerate() {
        for read in &step.reads {
            needs[i].extend(writer[read.buffer.0]);
            readers[read.buffer.0].push(i);
        }
        for write in &step.writes {
            // A write after read: the step that overwrites an operand must wait for all other readers of it.
            if let MemoryClass::InPlaceOf(of) = lowered.buffer(*write).memory {
                needs[i].extend(readers[of.0].iter().copied().filter(|r| *r != i));
            }
            writer[write.0] = Some(i);
        }
    }
    needs
}
