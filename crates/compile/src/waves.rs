//! Which steps run at the same time, and on which cores.
//!
//! Steps run in **waves**. A wave begins when the one before has ended; its steps depend on nothing of
//! the wave, have different cores, and share the bandwidth of the memory. A step joins a wave as soon as
//! its operands are there and cores are free, where the wave then ends earlier than the step after it
//! would; with that, two independent branches that together fit run at the same time. Within an
//! operation, loads overlap with computation: every operand has two tiles in the scratchpad, one in use
//! while the other is on its way.
//!
//! Waves come before addresses, as what lives at the same time is decided by them.

use crate::divide::Divided;
use crate::lower::{Lowered, LoweredStep, MemoryClass};
use zellige_machine::{Time, Work};

/// How many steps ahead a wave looks for one that fits beside it.
const AHEAD: usize = 24;

/// When and where a step runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StepSlot {
    /// Its wave.
    pub(crate) wave: usize,
    /// The first of its cores.
    pub(crate) first_core: usize,
}

/// A divided program whose steps have their waves and cores.
pub(crate) struct Waved {
    pub(crate) divided: Divided,
    /// Of every step, in the order of the steps.
    pub(crate) slots: Vec<StepSlot>,
}

/// Gives every step its wave and its first core. Steps that share something in the scratchpads begin at
/// core 0, as their parts of it lie there; a wave has one of them at most.
pub(crate) fn waves(divided: Divided) -> Waved {
    let all = vec![true; divided.lowered.buffers.len()];
    let first: Vec<bool> =
        (0..divided.steps.len()).map(|i| !divided.residents_of(i, &all).is_empty()).collect();
    let works = divided.works(&all);
    let slots = Waves::new(&divided.lowered, &works).slots(&first);
    Waved { divided, slots }
}

/// The steps of a program with their work and what they wait for.
struct Waves<'a> {
    lowered: &'a Lowered,
    works: &'a [Work],
    /// Of every step, how long it takes alone.
    alone: Vec<Time>,
    needs: Vec<Vec<usize>>,
}

impl<'a> Waves<'a> {
    fn new(lowered: &'a Lowered, works: &'a [Work]) -> Waves<'a> {
        let hardware = &lowered.options.hardware;
        let alone = works.iter().map(|w| hardware.latency(w).time).collect();
        Waves { lowered, works, alone, needs: needs(lowered) }
    }

    fn slots(&self, first: &[bool]) -> Vec<StepSlot> {
        let steps = &self.lowered.steps;
        let total = self.lowered.options.cores;
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
            if self.lowered.options.concurrent && self.shares(lead) {
                let rest = order[at + 1..].iter().copied().filter(|i| slots[*i].is_none());
                for i in rest.take(AHEAD) {
                    let fits = self.cores(&members) + self.works[i].cores.len() <= total;
                    let ready = steps[i].load == steps[lead].load
                        && self.needs[i].iter().all(|n| slots[*n].is_some());
                    let apart = !first[i] || !members.iter().any(|m| first[*m]);
                    if fits && ready && apart && self.shares(i) && self.gains(&members, i) {
                        members.push(i);
                    }
                }
            }
            // What lies in scratchpads begins at core 0.
            members.sort_by_key(|m| (!first[*m], *m));
            let mut first_core = 0;
            for m in &members {
                slots[*m] = Some(StepSlot { wave, first_core });
                first_core += self.works[*m].cores.len();
            }
            wave += 1;
        }
        slots.into_iter().map(|s| s.expect("every step was the lead or joined a wave")).collect()
    }

    /// Whether it runs on cores that others are not on: transfers and moves take the whole card.
    fn shares(&self, step: usize) -> bool {
        let LoweredStep { space, .. } = &self.lowered.steps[step];
        !self.lowered.steps[step].is_move()
            && !self.works[step].kind.is_transfer()
            && space.is_some()
    }

    fn cores(&self, members: &[usize]) -> usize {
        members.iter().map(|m| self.works[*m].cores.len()).sum()
    }

    /// Whether a step beside these ends earlier than after them.
    fn gains(&self, members: &[usize], step: usize) -> bool {
        let apart = self.side_by_side(members) + self.alone[step];
        let with: Vec<usize> = members.iter().copied().chain([step]).collect();
        self.side_by_side(&with) < apart
    }

    /// How long a wave of these steps takes.
    fn side_by_side(&self, members: &[usize]) -> Time {
        let all = self.cores(members);
        let time = |m: &usize| {
            let work = &self.works[*m];
            self.lowered.options.hardware.latency_beside(work, all - work.cores.len()).time
        };
        members.iter().map(time).max().unwrap_or(Time::ZERO)
    }
}

/// For every step, the steps whose results it reads, or whose operands it writes over.
fn needs(lowered: &Lowered) -> Vec<Vec<usize>> {
    let mut writer: Vec<Option<usize>> = vec![None; lowered.buffers.len()];
    let mut readers: Vec<Vec<usize>> = vec![Vec::new(); lowered.buffers.len()];
    let mut needs = vec![Vec::new(); lowered.steps.len()];
    for (i, step) in lowered.steps.iter().enumerate() {
        for read in &step.reads {
            needs[i].extend(writer[read.buffer.0]);
            readers[read.buffer.0].push(i);
        }
        for write in &step.writes {
            if let MemoryClass::InPlaceOf(of) = lowered.buffer(*write).memory {
                needs[i].extend(readers[of.0].iter().copied().filter(|r| *r != i));
            }
            writer[write.0] = Some(i);
        }
    }
    needs
}
