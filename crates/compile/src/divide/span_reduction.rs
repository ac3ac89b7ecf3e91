//! The divisions of every step that are considered, each by itself.
//!
//! A core addresses a window of each tensor, and the window is limited (the span). torch-spyre (summer 2026)
//! first commits the fewest splits that bring every span under the limit, then distributes the cores that are
//! left: that one division is always a candidate, and under the policy `baseline`, or with hints, the only
//! one. Under `best` the divisions with the smallest largest slice are candidates too, where their spans are
//! under the limit, the fastest few of them.
//!
//! **Invariant**: every candidate is legal, so that whatever is chosen for one step is legal beside whatever
//! is chosen for another. **Cost**: the latency of at most [`MAX_PRICED_DIVISIONS`] divisions is computed for each
//! *different* step; the steps of repeated layers have the same question, which is answered once.

use super::{LaidOutOp, StepDivision};
use crate::decisions::{CompileDecisions, DecidedStep};
use crate::draft::{CandidateDraft, ProgramDraft};
use crate::error::{CompileError, Result};
use crate::lower::{LoweredProgram, MemoryClass};
use crate::options::{CompilePolicy, CompilerOptions};
use crate::program::{BufferId, StepAction};
use crate::solve::division::{IterationSpace, divide_iterations, tensor_span};
use std::collections::HashMap;
use std::rc::Rc;
use zellige_device::{LoopSpan, TensorLayout, WorkDivision};
use zellige_graph::{Graph, NodeId};
use zellige_machine::{Key, OperationWork};

/// Divisions of one step that are considered.
// The joint choice has a table per step with an entry for each division and each subset of its results, so that every
// candidate doubles as a column of all its neighbours' tables.
pub(super) const MAX_STEP_DIVISIONS: usize = 8;
/// Divisions whose latency is computed; the rest is left out by the work of their largest slice.
const MAX_PRICED_DIVISIONS: usize = 16;
/// Rounds that an operation may be cut into: tensors fit into a segment, which is twice the span of 32 cores.
const MAX_STEP_ROUNDS: usize = 64;

/// The divisions that every step of a program may have.
#[derive(Clone)]
pub(crate) struct DivisionCandidates {
    /// Of every step, its operation; none of moves and of what the host does.
    pub(crate) ops: Vec<Option<Rc<LaidOutOp>>>,
    /// Of every step, at least one division.
    pub(crate) divisions: Vec<Rc<Vec<StepDivision>>>,
    /// Steps with the same operation, layouts and candidates have the same number.
    pub(super) class: Vec<usize>,
    /// Whether every step has the one division that was decided for it before.
    pub(crate) decided_before: bool,
}

/// Everything that the candidates of a step depend on: the operation, the layouts of its tensors, and the
/// splits that were decided for it before.
type StepQuestion = (Rc<str>, (bool, CompilePolicy), Vec<TensorLayout>, Option<Vec<usize>>);

/// An operation, none of a step without loops, and its divisions.
type DividedOp = (Option<Rc<LaidOutOp>>, Rc<Vec<StepDivision>>);

/// What was found out about steps, for the same step of another layer, and of other programs of the same graph.
#[derive(Default)]
pub(crate) struct AnsweredSteps {
    /// Of every operation, its name, attributes and hints.
    asked: HashMap<NodeId, Rc<str>>,
    /// Candidates of divisions.
    candidates: HashMap<StepQuestion, DividedOp>,
    /// Loops and default divisions, by operation, whether it writes in the place of an operand, and layouts.
    pub(crate) planned: HashMap<(Rc<str>, bool, Vec<TensorLayout>), PlannedOp>,
    /// What the cores do for a move, by its two ends.
    pub(crate) moves: HashMap<(TensorLayout, TensorLayout), Rc<OperationWork>>,
}

/// The loops of an operation, none of one that only moves, and its default division.
pub(crate) type PlannedOp = (Option<Vec<LoopSpan>>, StepDivision);

impl AnsweredSteps {
    /// Forgets the descriptions of the operations of a graph, so that another graph may use the answers.
    pub(crate) fn forget_graph(&mut self) {
        self.asked.clear();
    }

    /// An operation without the layouts of its tensors: its name, attributes and hints.
    pub(crate) fn describe_op(&mut self, graph: &Graph, id: NodeId) -> Rc<str> {
        let asked = self.asked.entry(id).or_insert_with(|| {
            let node = graph.node(id);
            let attributes = serde_json::to_string(&node.attributes).unwrap_or_default();
            format!("{} {attributes} {:?}", node.op.name(), node.hint).into()
        });
        asked.clone()
    }
}

/// The divisions of all steps that are considered; with `like`, those that were decided before.
///
/// # Errors
/// Hints that cannot hold, tensors that stay over the span limit whatever is split.
pub(crate) fn reduce_step_spans(
    lowered: LoweredProgram,
    like: Option<&CompileDecisions>,
    answered: &mut AnsweredSteps,
) -> Result<CandidateDraft> {
    let mut ops: Vec<Option<Rc<LaidOutOp>>> = Vec::new();
    let mut divisions: Vec<Rc<Vec<StepDivision>>> = Vec::new();
    let mut class: Vec<usize> = Vec::new();
    let mut known: HashMap<StepQuestion, usize> = HashMap::new();
    let before = like.map(CompileDecisions::steps_by_name).unwrap_or_default();
    let mut decided_before = like.is_some();
    for (i, step) in lowered.steps.iter().enumerate() {
        let decided = before.get(step.name.as_str()).copied();
        let question = ask_about_step(&lowered, i, decided, answered);
        let same = question.as_ref().and_then(|q| known.get(q)).copied();
        let same =
            same.filter(|s: &usize| !matches!(lowered.steps[*s].action, StepAction::Host(..)));
        if let Some(same) = same {
            ops.push(ops[same].clone());
            divisions.push(divisions[same].clone());
            class.push(class[same]);
            continue;
        }
        // With a record the candidates depend on it, so that they are neither taken from nor put among those of other
        // programs.
        if like.is_none()
            && let Some(q) = &question
            && let Some((op, list)) = answered.candidates.get(q)
        {
            known.insert(q.clone(), i);
            ops.push(op.clone());
            divisions.push(list.clone());
            class.push(i);
            continue;
        }
        let op = LaidOutOp::from_step(&lowered, step)?;
        let options = &lowered.options;
        let again = match (&op, decided) {
            (Some(op), Some(decided)) => divide_as_decided(op, options, decided),
            _ => None,
        };
        let list = match (&op, again) {
            (_, Some((list, same))) => {
                decided_before &= same;
                list
            }
            (Some(op), None) => {
                let list = divide_alone(op, options, lowered.division_policy)?;
                decided_before &= list.len() <= 1;
                list
            }
            (None, None) => Vec::new(),
        };
        let list = if list.is_empty() { vec![step.default.clone()] } else { list };
        let (op, list) = (op.map(Rc::new), Rc::new(list));
        if let Some(q) = question {
            if like.is_none() && !matches!(step.action, StepAction::Host(..)) {
                answered.candidates.insert(q.clone(), (op.clone(), list.clone()));
            }
            known.insert(q, i);
        }
        ops.push(op);
        divisions.push(list);
        class.push(i);
    }
    let candidates = DivisionCandidates { ops, divisions, class, decided_before };
    Ok(ProgramDraft::new(lowered, candidates))
}

/// The question of a step; none of a move.
fn ask_about_step(
    lowered: &LoweredProgram,
    step: usize,
    decided: Option<&DecidedStep>,
    answered: &mut AnsweredSteps,
) -> Option<StepQuestion> {
    let step = &lowered.steps[step];
    let asked = answered.describe_op(&lowered.graph, step.node()?);
    let outs = step.writes.iter().map(|b| &lowered.buffer(*b).laid);
    let all = step.reads.iter().map(|r| &r.laid).chain(outs).cloned().collect();
    // Into the place of an operand, an operation does less.
    let in_place = |b: &BufferId| matches!(lowered.buffer(*b).memory, MemoryClass::InPlaceOf(_));
    let in_place = step.writes.iter().any(in_place);
    let policy = lowered.division_policy;
    Some((asked, (in_place, policy), all, decided.map(|d| d.splits.clone())))
}

/// Splits of all dimensions that are worth a look, those with the smallest largest slice first: of each
/// dimension as few slices as give its largest slice its size, and at most one reduction is split.
fn list_useful_splits(spans: &[LoopSpan], cores: usize) -> Vec<Vec<usize>> {
    let useful = |span: &LoopSpan| -> Vec<usize> {
        let units = span.unit_count().max(1);
        let mut list: Vec<usize> = Vec::new();
        for n in 1..=units.min(cores) {
            // Seven slices of eight units leave a core with two units, and so do four: the larger number only adds
            // cores that wait.
            if list.last().is_none_or(|last| units.div_ceil(*last) != units.div_ceil(n)) {
                list.push(n);
            }
        }
        list
    };
    let choices: Vec<Vec<usize>> = spans.iter().map(useful).collect();
    let mut list: Vec<Vec<usize>> = vec![Vec::new()];
    for (d, options) in choices.iter().enumerate() {
        let mut longer = Vec::new();
        for head in &list {
            let used: usize = head.iter().product();
            let reduced = head.iter().zip(spans).any(|(n, s)| s.reduced && *n > 1);
            for n in options {
                // The device combines the partial sums of one loop.
                if used * n > cores || (*n > 1 && spans[d].reduced && reduced) {
                    continue;
                }
                longer.push([head.as_slice(), &[*n]].concat());
            }
        }
        list = longer;
    }
    let largest = |splits: &Vec<usize>| -> u128 {
        let slices = splits.iter().zip(spans);
        slices.map(|(n, s)| (s.unit_count().max(1).div_ceil(*n) * s.unit.max(1)) as u128).product()
    };
    list.sort_by_cached_key(|s| (largest(s), s.iter().product::<usize>()));
    list.truncate(MAX_PRICED_DIVISIONS);
    list
}

/// The one division of torch-spyre.
///
/// # Errors
/// Hints that cannot hold, tensors that stay over the span limit whatever is split.
fn divide_as_upstream(op: &LaidOutOp, options: &CompilerOptions) -> Result<Vec<StepDivision>> {
    // An operation whose slices are no boxes has no spans that could be computed. It is divided as the device does by
    // default.
    let Some(space) = &op.space else {
        if let Some(hint) = op.hints.first() {
            let known = "none, as its slices are no boxes of its tensors".into();
            return Err(CompileError::HintUnknown { dim: hint.dim.clone(), known });
        }
        let default = WorkDivision::distribute_units(&op.spans, options.cores, false);
        let reason = "largest output dimensions first".to_string();
        let divided = op.divide_by(options, default.splits(), ("work_distribution", reason));
        return Ok(divided.into_iter().collect());
    };
    let cores = i64::try_from(options.cores).unwrap_or(i64::MAX);
    let plan =
        divide_iterations(space, &options.hardware, cores, CompilePolicy::Baseline, &op.hints)?;
    let splits: Vec<usize> =
        plan.splits.iter().map(|n| usize::try_from(*n).unwrap_or(usize::MAX)).collect();
    Ok(op.divide_by(options, &splits, (plan.decided_by, plan.reason)).into_iter().collect())
}

/// The first loop that allows it cut over one group of the ring, and nothing else. Operands that all
/// slices share are then read from memory once, as with more cores; and neighbours with the same division
/// have the same rows, which stay in the scratchpads.
fn divide_over_one_group(
    op: &LaidOutOp,
    space: &IterationSpace,
    options: &CompilerOptions,
) -> Option<StepDivision> {
    // The cores that one multicast on the ring reaches: with that many slices, every core of the group gets a shared
    // operand by one read.
    let group = usize::try_from(options.hardware.figure_count(Key::Multicast)).ok()?;
    let first = op.spans.iter().position(|s| !s.reduced && s.unit_count() >= group)?;
    let splits: Vec<usize> =
        (0..op.spans.len()).map(|d| if d == first { group } else { 1 }).collect();
    let reason = "rows over one group of the ring, as its neighbours".to_string();
    is_within_span_limit(space, options, &splits)
        .then(|| op.divide_by(options, &splits, ("search", reason)))?
}

/// A division of an operation whose tensors no division over the cores brings under the span limit: one of its loops is
/// gone through in as few rounds as do. Sums are not cut: their rounds would have to add to each other.
fn divide_in_rounds(
    op: &LaidOutOp,
    space: &IterationSpace,
    options: &CompilerOptions,
) -> Option<StepDivision> {
    let all = list_useful_splits(&op.spans, options.cores);
    for rounds in 2..=MAX_STEP_ROUNDS {
        for (l, loops) in op.spans.iter().enumerate().filter(|(_, s)| !s.reduced) {
            let mut fitting = all.iter().filter(|splits| {
                zellige_guard::count_step();
                let mut cut = (*splits).clone();
                cut[l] *= rounds;
                cut[l] <= loops.unit_count() && is_within_span_limit(space, options, &cut)
            });
            if let Some(splits) = fitting.next() {
                let reason = format!(
                    "no division brings its tensors under the span limit: {rounds} rounds of loop {l}"
                );
                let divided = op.divide_by(options, splits, ("rounds", reason))?;
                return Some(StepDivision { rounds: Some((l, rounds)), ..divided });
            }
        }
    }
    None
}

/// Whether every tensor stays within the span limit.
fn is_within_span_limit(
    space: &IterationSpace,
    options: &CompilerOptions,
    splits: &[usize],
) -> bool {
    let limit = options.hardware.figure_count(Key::Span);
    let asked: Vec<u64> = splits.iter().map(|n| *n as u64).collect();
    space.tensors().iter().all(|t| tensor_span(space, t, &asked) <= limit)
}

/// What the policy decides for an operation by itself, the best first.
///
/// # Errors
/// Hints that cannot hold, tensors that stay over the span limit whatever is split.
fn divide_alone(
    op: &LaidOutOp,
    options: &CompilerOptions,
    policy: CompilePolicy,
) -> Result<Vec<StepDivision>> {
    let (mut list, mut refused) = (Vec::new(), None);
    match divide_as_upstream(op, options) {
        Ok(found) => list = found,
        // Even slices may not bring a tensor under the span limit; uneven ones may.
        // torch-spyre knows even slices only, so that with `strict` its refusal stands.
        Err(e @ CompileError::Span { .. }) if !options.strict => refused = Some(e),
        Err(e) => return Err(e),
    }
    let Some(space) = &op.space else { return Ok(list) };
    let decided = (policy == CompilePolicy::Baseline || !op.hints.is_empty()) && refused.is_none();
    if decided {
        return Ok(list);
    }
    for s in list_useful_splits(&op.spans, options.cores) {
        zellige_guard::count_step();
        let fits = is_within_span_limit(space, options, &s);
        if fits && !list.iter().any(|d: &StepDivision| d.division.splits() == s.as_slice()) {
            list.extend(op.divide_by(
                options,
                &s,
                ("search", "the least latency of the program".into()),
            ));
        }
    }
    // Rounds come last: a tensor is read once per round, and every round is as long as a division would be.
    if let (true, Some(e)) = (list.is_empty(), refused) {
        return divide_in_rounds(op, space, options).map(|d| vec![d]).ok_or(e);
    }
    list.sort_by_cached_key(|d| options.hardware.operation_latency(&d.work).cycles);
    list.truncate(MAX_STEP_DIVISIONS / 2);
    if let Some(divided) = divide_over_one_group(op, space, options)
        && !list.iter().any(|d| d.division == divided.division)
    {
        list.push(divided);
    }
    Ok(list)
}

/// Divisions of an operation that was decided before: that one, where its loops have the same sizes;
/// otherwise that one as far as it fits, and that of torch-spyre.
fn divide_as_decided(
    op: &LaidOutOp,
    options: &CompilerOptions,
    decided: &DecidedStep,
) -> Option<(Vec<StepDivision>, bool)> {
    if !op.hints.is_empty() || decided.splits.len() != op.spans.len() {
        return None;
    }
    let fitted = decided.splits.iter().zip(&op.spans).map(|(n, s)| (*n).min(s.unit_count().max(1)));
    let splits: Vec<usize> = fitted.collect();
    let mut list: Vec<StepDivision> = Vec::new();
    if op.space.as_ref().is_none_or(|space| is_within_span_limit(space, options, &splits)) {
        let (by, why) = &decided.by;
        list.extend(op.divide_by(options, &splits, (by, why.clone())));
    }
    if decided.loops.iter().eq(op.spans.iter().map(|s| &s.size)) {
        return (!list.is_empty()).then_some((list, true));
    }
    for divided in divide_as_upstream(op, options).unwrap_or_default() {
        if !list.iter().any(|d| d.division == divided.division) {
            list.push(divided);
        }
    }
    (!list.is_empty()).then_some((list, false))
}
