//! One division for every step of a program, and which results never leave the scratchpads.
//!
//! **Idea.** A result may stay in the scratchpads when its producer and all its readers give every core the
//! same part of it. Whether they do follows from their divisions, so the two are decided together: a
//! variable for every step with its candidate divisions as values, a variable for every result that is kept
//! or not, and the latency of the program as a sum of costs that each depend on one step and its
//! results. The least total is found by eliminating variables, as it is for layouts, with the same proof.
//! A result that is kept may also be copied over the ring for readers that divide it otherwise, where the hardware has
//! figures for that: a third place beside the scratchpads of one division and device memory.
//! Neighbours add candidates to each other first, as a division that is not the best for a step alone may be
//! the one with which its operands stay where they are.
//!
//! **Invariant.** A result that is kept costs [`FORBIDDEN`] unless all its users agree, so every finite total
//! is a program that can run. Room in the scratchpads is no part of it: what does not fit is put back into
//! memory when addresses are given (`scratchpads`), and the program then takes longer than this total.
//!
//! **Cost.** A table for every step, with one entry for each candidate and each subset of its results, and a
//! small one for every reader. Steps of repeated layers share the entries.

use super::span_reduction::MAX_STEP_DIVISIONS;
use super::{DivisionCandidates, LaidOutOp, StepDivision};
use crate::choose::LOAD_COST_DIVISOR;
use crate::core_copies::{CopyEnd, PlannedCopy, plan_scratchpad_copy};
use crate::decisions::CompileDecisions;
use crate::draft::{CandidateDraft, DividedDraft, ProgramDraft};
use crate::error::Result;
use crate::lower::{LoweredBuffer, LoweredProgram, LoweredStep, MemoryClass};
use crate::options::{CompilePolicy, CompilerOptions};
use crate::placement::{MISSED_CYCLES, is_in_lx, is_in_memory};
use crate::program::{BufferId, BufferRead, ElementOrigin, StepAction};
use crate::solve::elimination::{ChoiceProblem, FORBIDDEN, solve_with_known};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use zellige_device::WorkDivision;
use zellige_machine::OperationWork;

/// Tables of at most this many entries.
// A step with 8 divisions and 15 results that may stay or not is just within it. Past the limit the choice is no
// longer proved optimal.
const MAX_JOINT_TABLE_ENTRIES: usize = 1 << 18;

/// A result that could stay in the scratchpads: who makes it, who reads it, and as which tensor.
#[derive(Debug)]
pub(crate) struct ResidencyCandidate {
    pub(crate) buffer: BufferId,
    /// The step, and the number of the tensor among its operands and results.
    pub(crate) producer: (usize, usize),
    pub(crate) readers: Vec<(usize, usize)>,
    /// The steps that copy it into the scratchpads of other divisions, or out of those of another one.
    pub(crate) copies: Vec<usize>,
    /// Bytes of the largest part on one core, once the steps are divided.
    pub(crate) part_bytes: u64,
    /// The result whose copies it depends on, itself among them: they stay together or not at all.
    pub(crate) group: Option<BufferId>,
}

impl ResidencyCandidate {
    /// The steps that use it: its producer, its readers, and the copies of it.
    pub(crate) fn users(&self) -> impl Iterator<Item = usize> + '_ {
        let readers = self.readers.iter().chain([&self.producer]).map(|(step, _)| *step);
        readers.chain(self.copies.iter().copied())
    }
}

/// Where a result is between its producer and its readers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ResultPlace {
    /// In the scratchpads, for readers that divide it as its producer does.
    Kept,
    /// In device memory.
    Memory,
    /// In the scratchpads, with copies for the readers that divide it otherwise.
    Copied,
}

impl ResultPlace {
    // In this order: of equal totals, the one with less traffic is taken.
    const ALL: [ResultPlace; 3] = [ResultPlace::Kept, ResultPlace::Memory, ResultPlace::Copied];
}

/// The division of every step, with the results that stay in the scratchpads if they fit.
pub(crate) struct DividedSteps {
    /// Of every step, its operation; none of moves and of what the host does.
    pub(crate) ops: Vec<Option<Rc<LaidOutOp>>>,
    /// Of every step, its division.
    pub(crate) steps: Vec<StepDivision>,
    pub(crate) residents: Vec<ResidencyCandidate>,
    /// Of every step, the results among its tensors that could stay, and as which tensor.
    resident_uses: Vec<Vec<(BufferId, usize)>>,
    /// Whether nothing that was considered takes less.
    pub(crate) optimal: bool,
    /// The same for the next compilation of a graph like it.
    pub(crate) decisions: CompileDecisions,
}

impl DividedSteps {
    /// Whether some result is copied between scratchpads.
    pub(crate) fn has_copies(&self) -> bool {
        self.residents.iter().any(|r| r.group.is_some())
    }

    /// The tensors of a step that stay in the scratchpads, of the buffers that are `kept`.
    pub(crate) fn step_residents(&self, step: usize, kept: &[bool]) -> Vec<usize> {
        let uses = self.resident_uses[step].iter();
        uses.filter(|(buffer, _)| kept[buffer.0]).map(|(_, tensor)| *tensor).collect()
    }

    /// Of every step, what each core does, with the buffers that are `kept` left out of the traffic.
    pub(crate) fn works_with_kept(&self, kept: &[bool]) -> Vec<Rc<OperationWork>> {
        let work = |(i, divided): (usize, &StepDivision)| {
            let tensors = self.step_residents(i, kept);
            let op = self.ops[i].as_ref();
            let work = op.and_then(|op| op.work_with_residents(divided, &tensors));
            work.unwrap_or_else(|| divided.work.clone())
        };
        self.steps.iter().enumerate().map(work).collect()
    }
}

/// Divides all steps of a program together, or as they were decided in a program like it. With `copies`, results may be
/// copied between the scratchpads of different divisions, all but those buffers.
///
/// # Errors
/// Tensors whose layouts kernels cannot read.
pub(crate) fn distribute_work(
    draft: CandidateDraft,
    like: Option<&CompileDecisions>,
    copies: Option<&HashSet<BufferId>>,
) -> Result<DividedDraft> {
    let ProgramDraft { lowered, divisions: mut candidates, .. } = draft;
    let options = &lowered.options;
    let mut results = match options.scratchpads {
        Some(_) => find_residency_candidates(&lowered, &candidates),
        None => Vec::new(),
    };
    if let Some(like) = like {
        let kept = like.kept_results();
        results.retain(|k| {
            let buffer = lowered.buffer(k.buffer);
            kept.contains(buffer.name.as_str()) || is_in_lx(&lowered.graph, buffer.tensor)
        });
        // Every step has its recorded division and all residents agree: there is nothing to solve.
        let copied = like.copied_results();
        let place = |k: &ResidencyCandidate| match copies {
            Some(_) if copied.contains(lowered.buffer(k.buffer).name.as_str()) => {
                ResultPlace::Copied
            }
            _ => ResultPlace::Kept,
        };
        let places: Vec<ResultPlace> = results.iter().map(place).collect();
        if candidates.decided_before && can_all_stay(&candidates, &results, &places) {
            let chosen = vec![0; candidates.divisions.len()];
            let results = results.into_iter().zip(places).collect();
            let optimal = like.is_optimal();
            return Ok(choose_divisions(lowered, candidates, &chosen, results, optimal));
        }
    } else if lowered.division_policy == CompilePolicy::Best {
        for keep in &results {
            for reader in &keep.readers {
                candidates.suggest_divisions(options, keep.producer, *reader);
            }
        }
        // Suggestions travel along chains: forwards from producers to readers, then backwards, so that a division of
        // the last step can reach the first.
        for keep in results.iter().rev() {
            for reader in &keep.readers {
                candidates.suggest_divisions(options, *reader, keep.producer);
            }
        }
    }
    let JointChoice { divisions, places, optimal } =
        minimize_joint_cost(&lowered, &candidates, &results, copies)?;
    let kept = results.into_iter().zip(places).filter(|(_, p)| *p != ResultPlace::Memory);
    let optimal = optimal && like.is_none();
    Ok(choose_divisions(lowered, candidates, &divisions, kept.collect(), optimal))
}

/// One candidate for every step, by its number.
fn choose_divisions(
    mut lowered: LoweredProgram,
    candidates: DivisionCandidates,
    chosen: &[usize],
    residents: Vec<(ResidencyCandidate, ResultPlace)>,
    optimal: bool,
) -> DividedDraft {
    let DivisionCandidates { mut ops, divisions, .. } = candidates;
    let mut steps: Vec<StepDivision> =
        divisions.iter().zip(chosen).map(|(list, at)| list[*at].clone()).collect();
    let kept: Vec<BufferId> = residents.iter().map(|(k, _)| k.buffer).collect();
    let copied = residents.iter().filter(|(_, place)| *place == ResultPlace::Copied);
    let copied: Vec<BufferId> = copied.map(|(k, _)| k.buffer).collect();
    let mut decisions = CompileDecisions::from_divided(&lowered, &steps, &kept, optimal);
    decisions.set_copied(&lowered, &copied);
    let residents = insert_copies(&mut lowered, &mut ops, &mut steps, residents);
    let mut resident_uses = vec![Vec::new(); steps.len()];
    for keep in &residents {
        for (step, tensor) in keep.readers.iter().chain([&keep.producer]) {
            resident_uses[*step].push((keep.buffer, *tensor));
        }
    }
    let divided = DividedSteps { ops, steps, residents, resident_uses, optimal, decisions };
    ProgramDraft::new(lowered, divided)
}

/// Adds the copies of results whose readers divide them otherwise: one buffer and one step for all readers that have the
/// same parts, in front of the first of them. What lives in the scratchpads then is the result, from its producer to its
/// last reader or copy, and every copy, from its step to its last reader.
fn insert_copies(
    lowered: &mut LoweredProgram,
    ops: &mut Vec<Option<Rc<LaidOutOp>>>,
    steps: &mut Vec<StepDivision>,
    residents: Vec<(ResidencyCandidate, ResultPlace)>,
) -> Vec<ResidencyCandidate> {
    /// A copy before its step has a number.
    struct NewCopy {
        resident: usize,
        readers: Vec<(usize, usize)>,
        planned: PlannedCopy,
        buffer: BufferId,
        part_bytes: u64,
    }
    let mut list: Vec<ResidencyCandidate> = Vec::new();
    let mut copies: Vec<NewCopy> = Vec::new();
    let mut names: HashSet<String> = lowered.buffers.iter().map(|b| b.name.clone()).collect();
    for (mut keep, place) in residents {
        let (from, tensor) = keep.producer;
        let parts = |step: usize, tensor: usize| {
            ops[step].as_ref().and_then(|op| op.core_regions(tensor, &steps[step].division))
        };
        let bytes = |step: usize, tensor: usize| {
            ops[step].as_ref().map_or(0, |op| op.largest_part_bytes(tensor, &steps[step].division))
        };
        keep.part_bytes = bytes(from, tensor);
        if place == ResultPlace::Copied {
            let own = parts(from, tensor);
            let (direct, others): (Vec<_>, Vec<_>) =
                keep.readers.iter().copied().partition(|(s, t)| parts(*s, *t) == own);
            let mut groups: Vec<Vec<(usize, usize)>> = Vec::new();
            for reader in others {
                let mine = parts(reader.0, reader.1);
                match groups.iter_mut().find(|g| parts(g[0].0, g[0].1) == mine) {
                    Some(group) => group.push(reader),
                    None => groups.push(vec![reader]),
                }
            }
            let end = |(step, tensor): (usize, usize)| {
                let op = ops[step].as_deref()?;
                Some(CopyEnd { op, division: &steps[step].division, tensor })
            };
            let laid = lowered.buffer(keep.buffer).laid.clone();
            let plan = |group: &Vec<(usize, usize)>| {
                plan_scratchpad_copy(&lowered.options, &laid, end(keep.producer)?, end(group[0])?)
            };
            let planned: Option<Vec<PlannedCopy>> = groups.iter().map(plan).collect();
            // The choice of divisions planned the same copies, so that this cannot fail; a result without its copies
            // would be read from scratchpads that do not have it, so that it is then left in memory.
            let Some(planned) = planned else { continue };
            let source = keep.buffer;
            keep.readers = direct;
            keep.group = (!groups.is_empty()).then_some(source);
            for (group, planned) in groups.into_iter().zip(planned) {
                let original = lowered.buffer(source);
                let base = format!("{}.exchanged", original.name);
                let name = (1..)
                    .map(|i| if i == 1 { base.clone() } else { format!("{base}{i}") })
                    .find(|name| !names.contains(name))
                    .expect("names do not end");
                names.insert(name.clone());
                let copy = LoweredBuffer {
                    name,
                    origin: ElementOrigin::Copy(source),
                    memory: MemoryClass::Temporary,
                    ..original.clone()
                };
                let buffer = BufferId(lowered.buffers.len());
                let part_bytes = bytes(group[0].0, group[0].1);
                lowered.buffers.push(copy);
                let resident = list.len();
                copies.push(NewCopy { resident, readers: group, planned, buffer, part_bytes });
            }
        }
        list.push(keep);
    }
    if copies.is_empty() {
        return list;
    }
    // The steps with the copies between them, and the new numbers of those that were there.
    let first_reader = |c: &NewCopy| c.readers.iter().map(|(s, _)| *s).min().unwrap_or(0);
    copies.sort_by_key(first_reader);
    for copy in &copies {
        for (step, tensor) in &copy.readers {
            lowered.steps[*step].reads[*tensor].buffer = copy.buffer;
        }
    }
    let old = std::mem::take(&mut lowered.steps);
    let (old_ops, old_steps) = (std::mem::take(ops), std::mem::take(steps));
    let mut numbers = Vec::with_capacity(old.len());
    let mut copies = copies.into_iter().peekable();
    let mut made: Vec<(ResidencyCandidate, usize)> = Vec::new();
    for (at, ((step, op), divided)) in old.into_iter().zip(old_ops).zip(old_steps).enumerate() {
        while let Some(copy) = copies.next_if(|c| first_reader(c) == at) {
            let NewCopy { resident, readers, planned, buffer, part_bytes } = copy;
            let source = list[resident].buffer;
            let number = lowered.steps.len();
            let why = format!(
                "{} over the ring, as its reader divides it otherwise",
                planned.copy.exchange.class()
            );
            let default = StepDivision {
                division: WorkDivision::on_one_core(planned.copy.exchange.shape().len()),
                work: planned.work,
                decided: ("exchange".into(), why),
                rounds: None,
            };
            let target = lowered.buffer(buffer);
            lowered.steps.push(LoweredStep {
                name: target.name.clone(),
                reads: vec![BufferRead { buffer: source, laid: target.laid.clone() }],
                writes: vec![buffer],
                action: StepAction::Exchange(Box::new(planned.copy)),
                load: false,
                space: None,
                default: default.clone(),
            });
            ops.push(None);
            steps.push(default);
            list[resident].copies.push(number);
            let copy = ResidencyCandidate {
                buffer,
                producer: (number, 1),
                readers,
                copies: Vec::new(),
                part_bytes,
                group: Some(source),
            };
            made.push((copy, resident));
        }
        numbers.push(lowered.steps.len());
        lowered.steps.push(step);
        ops.push(op);
        steps.push(divided);
    }
    for keep in &mut list {
        keep.producer.0 = numbers[keep.producer.0];
        keep.readers.iter_mut().for_each(|(step, _)| *step = numbers[*step]);
    }
    for (mut copy, _) in made {
        copy.readers.iter_mut().for_each(|(step, _)| *step = numbers[*step]);
        list.push(copy);
    }
    list
}

/// Results whose only readers are operations with known loops that read them whole.
fn find_residency_candidates(
    lowered: &LoweredProgram,
    candidates: &DivisionCandidates,
) -> Vec<ResidencyCandidate> {
    let ops = &candidates.ops;
    let mut list: Vec<Option<ResidencyCandidate>> = lowered.buffers.iter().map(|_| None).collect();
    let known = |step: usize| {
        !lowered.steps[step].load && ops[step].as_ref().is_some_and(|op| op.loops.is_some())
    };
    for (i, step) in lowered.steps.iter().enumerate() {
        for (k, b) in step.writes.iter().enumerate() {
            if known(i) && lowered.buffer(*b).origin == ElementOrigin::Result {
                let producer = (i, step.reads.len() + k);
                list[b.0] = Some(ResidencyCandidate {
                    buffer: *b,
                    producer,
                    readers: Vec::new(),
                    copies: Vec::new(),
                    part_bytes: 0,
                    group: None,
                });
            }
        }
        for (k, read) in step.reads.iter().enumerate() {
            // torch-spyre's rule: a buffer lives in a scratchpad only if its producer and all its readers have the
            // same part of it on each core. A view has another part.
            let whole = read.laid == lowered.buffer(read.buffer).laid;
            match &mut list[read.buffer.0] {
                Some(keep) if whole && known(i) => keep.readers.push((i, k)),
                other => *other = None,
            }
        }
    }
    for output in &lowered.outputs {
        list[output.buffer.0] = None;
    }
    for (i, buffer) in lowered.buffers.iter().enumerate() {
        if is_in_memory(&lowered.graph, buffer.tensor) {
            list[i] = None;
        }
        // A buffer written over another one shares its memory, so that neither can leave it alone.
        if let MemoryClass::InPlaceOf(of) = buffer.memory {
            list[i] = None;
            list[of.0] = None;
        }
    }
    list.into_iter().flatten().filter(|k| !k.readers.is_empty()).collect()
}

impl DivisionCandidates {
    /// Whether two steps give every core the same part of a tensor.
    fn parts_agree(
        &self,
        (a, division_a, tensor_a): (usize, usize, usize),
        (b, division_b, tensor_b): (usize, usize, usize),
    ) -> bool {
        let regions = |step: usize, at: usize, tensor: usize| {
            self.ops[step].as_ref()?.core_regions(tensor, &self.divisions[step][at].division)
        };
        let left = regions(a, division_a, tensor_a);
        left.is_some() && left == regions(b, division_b, tensor_b)
    }

    /// Cycles of the copy of a result from the division of its producer into that of a reader; none where there is none.
    fn copy_cycles(
        &self,
        lowered: &LoweredProgram,
        buffer: BufferId,
        (a, division_a, tensor_a): (usize, usize, usize),
        (b, division_b, tensor_b): (usize, usize, usize),
    ) -> Option<u64> {
        let end = |step: usize, at: usize, tensor: usize| {
            let op = self.ops[step].as_deref()?;
            Some(CopyEnd { op, division: &self.divisions[step][at].division, tensor })
        };
        let ends = (end(a, division_a, tensor_a)?, end(b, division_b, tensor_b)?);
        let laid = &lowered.buffer(buffer).laid;
        let planned = plan_scratchpad_copy(&lowered.options, laid, ends.0, ends.1)?;
        Some(lowered.options.hardware.operation_latency(&planned.work).cycles)
    }

    /// Adds divisions of `to` that cut a tensor as the divisions of `from` do.
    fn suggest_divisions(
        &mut self,
        options: &CompilerOptions,
        (from, tensor_from): (usize, usize),
        (to, tensor_to): (usize, usize),
    ) {
        let (Some(f), Some(t)) = (self.ops[from].clone(), self.ops[to].clone()) else { return };
        let (Some(fl), Some(tl)) = (&f.loops, &t.loops) else { return };
        let mut list: Option<Vec<StepDivision>> = None;
        for neighbour in self.divisions[from].iter().take(MAX_STEP_DIVISIONS / 2) {
            let mut splits = vec![1; t.spans.len()];
            let pairs = fl.followed_loops(tensor_from).iter().zip(tl.followed_loops(tensor_to));
            for (a, b) in pairs {
                if let (Some(a), Some(b)) = (a, b) {
                    splits[*b] = neighbour.division.splits()[*a];
                }
            }
            let have = list.as_deref().unwrap_or(&self.divisions[to]);
            let known = have.iter().any(|d| d.division.splits() == splits.as_slice());
            let known = known || !t.hints.is_empty();
            if known
                || have.len() >= MAX_STEP_DIVISIONS
                // A division on fewer cores could not give every core of the neighbour the same part.
                || splits.iter().product::<usize>() != neighbour.division.core_count()
            {
                continue;
            }
            let reason = "as its neighbour, so that data stays in the scratchpads".to_string();
            if let Some(divided) = t.divide_by(options, &splits, ("together", reason)) {
                list.get_or_insert_with(|| self.divisions[to].to_vec()).push(divided);
            }
        }
        if let Some(list) = list {
            self.divisions[to] = Rc::new(list);
            // Its list is no longer that of the steps like it, so that costs and agreements that are known for them
            // do not hold.
            self.class[to] = self.class.len() + to;
        }
    }

    /// Cycles of a step in one of its divisions with some tensors in the scratchpads.
    fn step_cycles(
        &self,
        options: &CompilerOptions,
        step: usize,
        division: usize,
        tensors: &[usize],
    ) -> u64 {
        let divided = &self.divisions[step][division];
        match (tensors, &self.ops[step]) {
            (list, Some(op)) => op.division_cycles(options, divided, list).unwrap_or(FORBIDDEN),
            ([], None) => options.hardware.operation_latency(&divided.work).cycles,
            (_, None) => FORBIDDEN,
        }
    }
}

/// Whether all of these can stay in the scratchpads, every step divided by its first candidate.
fn can_all_stay(
    candidates: &DivisionCandidates,
    kept: &[ResidencyCandidate],
    places: &[ResultPlace],
) -> bool {
    let agree = |(k, place): (&ResidencyCandidate, &ResultPlace)| {
        if *place == ResultPlace::Copied {
            return true;
        }
        let (from, tensor) = k.producer;
        k.readers
            .iter()
            .all(|(to, read)| candidates.parts_agree((from, 0, tensor), (*to, 0, *read)))
    };
    let mut tensors: Vec<Vec<usize>> = vec![Vec::new(); candidates.ops.len()];
    for (step, tensor) in kept.iter().flat_map(|k| k.readers.iter().chain([&k.producer])) {
        tensors[*step].push(*tensor);
    }
    let accounted = |(i, list): (usize, &Vec<usize>)| {
        let (op, first) = (candidates.ops[i].as_ref(), &candidates.divisions[i][0]);
        list.is_empty() || op.is_some_and(|op| op.work_with_residents(first, list).is_some())
    };
    kept.iter().zip(places).all(agree) && tensors.iter().enumerate().all(accounted)
}

/// A candidate for every step, and where each result is.
struct JointChoice {
    divisions: Vec<usize>,
    places: Vec<ResultPlace>,
    optimal: bool,
}

/// The least total over the candidates of all steps and what may stay.
fn minimize_joint_cost(
    lowered: &LoweredProgram,
    candidates: &DivisionCandidates,
    results: &[ResidencyCandidate],
    copies: Option<&HashSet<BufferId>>,
) -> Result<JointChoice> {
    let class = &candidates.class;
    let mut problem = ChoiceProblem::new();
    for list in &candidates.divisions {
        problem.add_variable(list.len());
    }
    // Values are places, in the order of `ResultPlace::ALL`.
    let may_copy =
        |k: &ResidencyCandidate| copies.is_some_and(|barred| !barred.contains(&k.buffer));
    let vars: Vec<usize> =
        results.iter().map(|k| problem.add_variable(if may_copy(k) { 3 } else { 2 })).collect();
    let mut costs: HashMap<(usize, usize, Vec<usize>), u64> = HashMap::new();
    let mut uses: Vec<Vec<(usize, usize)>> = vec![Vec::new(); lowered.steps.len()];
    for (c, keep) in results.iter().enumerate() {
        for (step, tensor) in keep.readers.iter().chain([&keep.producer]) {
            uses[*step].push((c, *tensor));
        }
    }
    for (i, step) in lowered.steps.iter().enumerate() {
        let mine = &uses[i];
        let mut scope = vec![i];
        for (c, _) in mine {
            if !scope.contains(&vars[*c]) {
                scope.push(vars[*c]);
            }
        }
        problem.add_cost(&scope, |values| {
            let stays = |c: usize| {
                let at = scope.iter().position(|v| *v == vars[c]);
                at.is_some_and(|at| ResultPlace::ALL[values[at]] != ResultPlace::Memory)
            };
            let tensors: Vec<usize> =
                mine.iter().filter(|(c, _)| stays(*c)).map(|(_, t)| *t).collect();
            let key = (class[i], values[0], tensors);
            let cycles = match costs.get(&key) {
                Some(known) => *known,
                None => {
                    let cycles = candidates.step_cycles(&lowered.options, i, values[0], &key.2);
                    costs.insert(key, cycles);
                    cycles
                }
            };
            if step.load { cycles / LOAD_COST_DIVISOR } else { cycles }
        })?;
    }
    let mut agreed: HashMap<(usize, usize, usize, usize, usize, usize), bool> = HashMap::new();
    let mut copied: HashMap<(usize, usize, usize, usize, usize, usize), u64> = HashMap::new();
    for (keep, var) in results.iter().zip(&vars) {
        if is_in_lx(&lowered.graph, lowered.buffer(keep.buffer).tensor) {
            let missed = |place| if place == ResultPlace::Memory { MISSED_CYCLES } else { 0 };
            problem.add_cost(&[*var], |v| missed(ResultPlace::ALL[v[0]]))?;
        }
        for (reader, tensor) in &keep.readers {
            let (from, to) = (keep.producer, (*reader, *tensor));
            // Readers with the same operation mostly end with the same division, and then one copy serves all of them.
            let alike = keep.readers.iter().filter(|(s, t)| (class[*s], *t) == (class[to.0], to.1));
            let alike = alike.count().max(1) as u64;
            problem.add_cost(&[from.0, to.0, *var], |v| {
                let place = ResultPlace::ALL[v[2]];
                if place == ResultPlace::Memory {
                    return 0;
                }
                let key = (class[from.0], v[0], from.1, class[to.0], v[1], to.1);
                let same = *agreed.entry(key).or_insert_with(|| {
                    candidates.parts_agree((from.0, v[0], from.1), (to.0, v[1], to.1))
                });
                match place {
                    _ if same => 0,
                    ResultPlace::Copied => *copied.entry(key).or_insert_with(|| {
                        let ends = ((from.0, v[0], from.1), (to.0, v[1], to.1));
                        let cycles = candidates.copy_cycles(lowered, keep.buffer, ends.0, ends.1);
                        cycles.map_or(FORBIDDEN, |n| n.div_ceil(alike).max(1))
                    }),
                    _ => FORBIDDEN,
                }
            })?;
        }
    }
    // Every step by itself, nothing kept.
    let apart = (0..problem.domains().len()).map(|v| usize::from(v >= candidates.divisions.len()));
    let solution = solve_with_known(&problem, MAX_JOINT_TABLE_ENTRIES, &[apart.collect()])?;
    Ok(JointChoice {
        optimal: solution.is_optimal(),
        places: vars.iter().map(|var| ResultPlace::ALL[solution.values[*var]]).collect(),
        divisions: solution.values[..candidates.divisions.len()].to_vec(),
    })
}
