//! The divisions of a step that are considered, and what a core has in each of them.

use super::{Hint, Policy, Space, divide, span};
use crate::decisions::{Decided, Decisions};
use crate::error::{CompileError, Result};
use crate::options::Options;
use crate::program::{Action, BufferId, Place, Program, Step};
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;
use zellige_device::PlanOp;
use zellige_device::{Division, Laid, Loops, Span, Sticks};
use zellige_machine::{Key, Work};
use zellige_op::Op;

/// Divisions of one step that are considered.
const MOST: usize = 8;
/// Divisions whose latency is computed; the rest is left out by the work of their largest slice.
const LOOKED_AT: usize = 16;

/// A division with what it costs and who has what.
#[derive(Debug, Clone)]
pub(crate) struct Way {
    pub(crate) division: Division,
    pub(crate) work: Work,
    pub(crate) decided: (String, String),
}

/// An operation on tensors that lie so: everything that its divisions depend on.
#[derive(Debug)]
pub(crate) struct Form {
    op: Op,
    inputs: Vec<Laid>,
    outputs: Vec<Laid>,
    pub(crate) loops: Option<Loops>,
    spans: Vec<Span>,
    space: Option<Space>,
    hints: Vec<Hint>,
}

impl Form {
    /// The form of a step that has loops.
    pub(crate) fn of(program: &Program, step: &Step) -> Result<Option<Form>> {
        let Action::Op(node, op) = &step.action else { return Ok(None) };
        let Some(spans) = step.space.clone() else { return Ok(None) };
        let inputs: Vec<Laid> = step.reads.iter().map(|r| r.laid.clone()).collect();
        let outputs: Vec<Laid> =
            step.writes.iter().map(|b| program.buffer(*b).laid.clone()).collect();
        let loops = op.loops(&inputs, &outputs)?;
        // Without elements there is nothing to divide.
        let empty = inputs.iter().chain(&outputs).any(|t| t.numel() == 0);
        let space = match &loops {
            Some(_) if !empty => Space::of_op(op, &inputs, &outputs)?,
            _ => None,
        };
        let hint = |(dim, n): &(String, usize)| Hint {
            dim: dim.clone(),
            split: i64::try_from(*n).unwrap_or(i64::MAX),
        };
        let hints = match empty {
            true => Vec::new(),
            false => program.graph.node(*node).hint.iter().map(hint).collect(),
        };
        Ok(Some(Form { op: op.clone(), inputs, outputs, loops, spans, space, hints }))
    }

    fn way(
        &self,
        options: &Options,
        splits: &[usize],
        decided: (impl Into<String>, String),
    ) -> Option<Way> {
        let division = Division::new(splits, &self.spans, options.cores).ok()?;
        let (division, work) =
            self.op.work(&self.inputs, &self.outputs, Some(&division), options.cores).ok()?;
        Some(Way { division, work, decided: (decided.0.into(), decided.1) })
    }

    /// A tensor's form for kernels: operands, then results.
    fn sticks(&self, tensor: usize) -> Option<Sticks> {
        self.inputs.iter().chain(&self.outputs).nth(tensor).and_then(|l| l.sticks().ok())
    }

    /// The part of a tensor that every core has.
    pub(crate) fn regions(
        &self,
        tensor: usize,
        division: &Division,
    ) -> Option<Vec<Vec<Range<usize>>>> {
        let loops = self.loops.as_ref()?;
        Some((0..division.cores()).map(|c| loops.region(tensor, c, division)).collect())
    }

    /// The work with some tensors kept in the scratchpads; none where what the account charges for
    /// them is not what their parts move.
    pub(crate) fn kept(&self, way: &Way, tensors: &[usize]) -> Option<Work> {
        let loops = self.loops.as_ref()?;
        let mut work = way.work.clone();
        for tensor in tensors {
            let whole = self.sticks(*tensor)?;
            for (core, done) in work.cores.iter_mut().enumerate() {
                let mut part = whole.clone();
                for (d, range) in loops.region(*tensor, core, &way.division).into_iter().enumerate()
                {
                    if whole.stick == Some(d) && range.start % whole.eps != 0 {
                        return None;
                    }
                    part = part.slice(d, range);
                }
                let (traffic, padding) = part.traffic();
                let side =
                    if *tensor < self.inputs.len() { &mut done.reads } else { &mut done.writes };
                *side = side.minus(&traffic)?;
                done.padding_bytes = done.padding_bytes.checked_sub(padding)?;
                let sticks = traffic.bytes() / 128;
                done.unique_sticks = done.unique_sticks.map(|n| n.saturating_sub(sticks));
            }
        }
        Some(work)
    }

    /// Bytes of the largest part of a tensor on one core.
    pub(crate) fn part_bytes(&self, tensor: usize, division: &Division) -> u64 {
        let (Some(whole), Some(loops)) = (self.sticks(tensor), &self.loops) else { return 0 };
        let bytes = |core| {
            let region: Vec<Range<usize>> = loops.region(tensor, core, division);
            let cells: u64 = region
                .iter()
                .enumerate()
                .map(|(d, r)| {
                    let n = r.len() as u64;
                    if whole.stick == Some(d) { n.div_ceil(whole.eps as u64) } else { n }
                })
                .product();
            cells * 128
        };
        (0..division.cores()).map(bytes).max().unwrap_or(0)
    }
}

/// Every step's ways to be divided: what the policy decides alone, and what neighbours suggest.
pub(crate) struct Ways {
    pub(crate) forms: Vec<Option<Rc<Form>>>,
    pub(crate) ways: Vec<Rc<Vec<Way>>>,
    /// Steps that ask the same have the same number.
    pub(super) class: Vec<usize>,
}

/// Splits of every dimension that are worth a look: as few slices as give the largest slice its size,
/// none of which could be raised with the cores there are. At most one reduction is split.
fn splits(spans: &[Span], cores: usize) -> Vec<Vec<usize>> {
    let useful = |span: &Span| -> Vec<usize> {
        let units = span.units().max(1);
        let mut list: Vec<usize> = Vec::new();
        for n in 1..=units.min(cores) {
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
        slices.map(|(n, s)| (s.units().max(1).div_ceil(*n) * s.unit.max(1)) as u128).product()
    };
    list.sort_by_cached_key(|s| (largest(s), s.iter().product::<usize>()));
    list.truncate(LOOKED_AT);
    list
}

/// What the existing compiler does.
///
/// # Errors
/// Hints that cannot hold, tensors that stay over the span limit whatever is split.
fn usual(form: &Form, options: &Options) -> Result<Vec<Way>> {
    let Some(space) = &form.space else {
        if let Some(hint) = form.hints.first() {
            let known = "none, as its slices are no boxes of its tensors".into();
            return Err(CompileError::HintUnknown { dim: hint.dim.clone(), known });
        }
        let default = Division::distribute(&form.spans, options.cores, false);
        let reason = "largest output dimensions first".to_string();
        let way = form.way(options, default.splits(), ("work_distribution", reason));
        return Ok(way.into_iter().collect());
    };
    let cores = i64::try_from(options.cores).unwrap_or(i64::MAX);
    let plan = divide(space, &options.hardware, cores, Policy::Baseline, &form.hints)?;
    let splits: Vec<usize> =
        plan.splits.iter().map(|n| usize::try_from(*n).unwrap_or(usize::MAX)).collect();
    Ok(form.way(options, &splits, (plan.decided_by, plan.reason)).into_iter().collect())
}

/// The first loop that allows it cut over one group of the ring, and nothing else. Operands that all
/// slices share are then read from memory once, as with more cores; and neighbours that are cut so have
/// the same rows, which stay in the scratchpads.
fn rows(form: &Form, space: &Space, options: &Options) -> Option<Way> {
    let group = usize::try_from(options.hardware.count(Key::Multicast)).ok()?;
    let first = form.spans.iter().position(|s| !s.reduced && s.units() >= group)?;
    let splits: Vec<usize> =
        (0..form.spans.len()).map(|d| if d == first { group } else { 1 }).collect();
    let reason = "rows over one group of the ring, as its neighbours".to_string();
    within(space, options, &splits).then(|| form.way(options, &splits, ("search", reason)))?
}

/// Whether every tensor stays within the span limit.
fn within(space: &Space, options: &Options, splits: &[usize]) -> bool {
    let limit = options.hardware.count(Key::Span);
    let asked: Vec<u64> = splits.iter().map(|n| *n as u64).collect();
    space.tensors().iter().all(|t| span(space, t, &asked) <= limit)
}

/// What the policy decides for an operation by itself, the best first.
///
/// # Errors
/// Hints that cannot hold, tensors that stay over the span limit whatever is split.
fn alone(form: &Form, options: &Options) -> Result<Vec<Way>> {
    let (mut list, mut refused) = (Vec::new(), None);
    match usual(form, options) {
        Ok(found) => list = found,
        // Even slices may not bring a tensor under the span limit; uneven ones may.
        Err(e @ CompileError::Span { .. }) if !options.strict => refused = Some(e),
        Err(e) => return Err(e),
    }
    let Some(space) = &form.space else { return Ok(list) };
    let decided =
        (options.policy == Policy::Baseline || !form.hints.is_empty()) && refused.is_none();
    if decided {
        return Ok(list);
    }
    for s in splits(&form.spans, options.cores) {
        zellige_guard::step();
        let fits = within(space, options, &s);
        if fits && !list.iter().any(|w: &Way| w.division.splits() == s.as_slice()) {
            list.extend(form.way(
                options,
                &s,
                ("search", "the least latency of the program".into()),
            ));
        }
    }
    if let (true, Some(e)) = (list.is_empty(), refused) {
        return Err(e);
    }
    list.sort_by_cached_key(|w| options.hardware.latency(&w.work).cycles);
    list.truncate(MOST / 2);
    if let Some(way) = rows(form, space, options)
        && !list.iter().any(|w| w.division == way.division)
    {
        list.push(way);
    }
    Ok(list)
}

/// Divisions of an operation that was decided before: that one, where its loops have the same sizes;
/// otherwise that one as far as it fits, and what the existing compiler does.
fn again(form: &Form, options: &Options, decided: &Decided) -> Option<(Vec<Way>, bool)> {
    if !form.hints.is_empty() || decided.splits.len() != form.spans.len() {
        return None;
    }
    let fitted = decided.splits.iter().zip(&form.spans).map(|(n, s)| (*n).min(s.units().max(1)));
    let splits: Vec<usize> = fitted.collect();
    let mut list: Vec<Way> = Vec::new();
    if form.space.as_ref().is_none_or(|space| within(space, options, &splits)) {
        let (by, why) = &decided.by;
        list.extend(form.way(options, &splits, (by, why.clone())));
    }
    if decided.loops.iter().eq(form.spans.iter().map(|s| &s.size)) {
        return (!list.is_empty()).then_some((list, true));
    }
    for way in usual(form, options).unwrap_or_default() {
        if !list.iter().any(|w| w.division == way.division) {
            list.push(way);
        }
    }
    (!list.is_empty()).then_some((list, false))
}

impl Ways {
    /// The ways of all steps; and whether all that can be is decided already, by `like`.
    ///
    /// # Errors
    /// Hints that cannot hold, tensors that stay over the span limit whatever is split.
    pub(crate) fn of(program: &Program, like: Option<&Decisions>) -> Result<(Ways, bool)> {
        let mut forms: Vec<Option<Rc<Form>>> = Vec::new();
        let mut ways: Vec<Rc<Vec<Way>>> = Vec::new();
        let mut class: Vec<usize> = Vec::new();
        type Question = (String, Vec<Laid>, Option<Vec<usize>>);
        let mut known: HashMap<Question, usize> = HashMap::new();
        let before = like.map(Decisions::by_name).unwrap_or_default();
        let mut exact = like.is_some();
        for (i, step) in program.steps.iter().enumerate() {
            let decided = before.get(step.name.as_str()).copied();
            let question = step.node().map(|node| {
                let node = program.graph.node(node);
                let attributes = serde_json::to_string(&node.attributes).unwrap_or_default();
                let outs = step.writes.iter().map(|b| &program.buffer(*b).laid);
                let all = step.reads.iter().map(|r| &r.laid).chain(outs).cloned().collect();
                // Into the place of an operand, an operation does less.
                let over = |b: &BufferId| matches!(program.buffer(*b).place, Place::Over(_));
                let over = step.writes.iter().any(over);
                let asked = format!("{} {attributes} {:?} {over}", node.op.name(), node.hint);
                (asked, all, decided.map(|d| d.splits.clone()))
            });
            let same = question.as_ref().and_then(|q| known.get(q)).copied();
            match same.filter(|s: &usize| !matches!(program.steps[*s].action, Action::Host(..))) {
                Some(same) => {
                    forms.push(forms[same].clone());
                    ways.push(ways[same].clone());
                    class.push(class[same]);
                }
                None => {
                    let form = Form::of(program, step)?;
                    let again = match (&form, decided) {
                        (Some(form), Some(decided)) => again(form, &program.options, decided),
                        _ => None,
                    };
                    let list = match (&form, again) {
                        (_, Some((list, same))) => {
                            exact &= same;
                            list
                        }
                        (Some(form), None) => {
                            let list = alone(form, &program.options)?;
                            exact &= list.len() <= 1;
                            list
                        }
                        (None, None) => Vec::new(),
                    };
                    let list = if list.is_empty() { vec![as_it_is(step)] } else { list };
                    forms.push(form.map(Rc::new));
                    ways.push(Rc::new(list));
                    class.push(i);
                    if let Some(q) = question {
                        known.insert(q, i);
                    }
                }
            }
        }
        Ok((Ways { forms, ways, class }, exact))
    }

    /// Whether two steps give every core the same part of a tensor.
    pub(crate) fn agree(
        &self,
        (a, way_a, tensor_a): (usize, usize, usize),
        (b, way_b, tensor_b): (usize, usize, usize),
    ) -> bool {
        let regions = |step: usize, way: usize, tensor: usize| {
            self.forms[step].as_ref()?.regions(tensor, &self.ways[step][way].division)
        };
        let left = regions(a, way_a, tensor_a);
        left.is_some() && left == regions(b, way_b, tensor_b)
    }

    /// Divisions of `to` that cut a tensor as the divisions of `from` do.
    pub(super) fn suggest(
        &mut self,
        options: &Options,
        (from, tensor_from): (usize, usize),
        (to, tensor_to): (usize, usize),
    ) {
        let (Some(f), Some(t)) = (self.forms[from].clone(), self.forms[to].clone()) else { return };
        let (Some(fl), Some(tl)) = (&f.loops, &t.loops) else { return };
        let mut list: Option<Vec<Way>> = None;
        for way in self.ways[from].iter().take(MOST / 2) {
            let mut splits = vec![1; t.spans.len()];
            let pairs = fl.follows(tensor_from).iter().zip(tl.follows(tensor_to));
            for (a, b) in pairs {
                if let (Some(a), Some(b)) = (a, b) {
                    splits[*b] = way.division.splits()[*a];
                }
            }
            let have = list.as_deref().unwrap_or(&self.ways[to]);
            let known = have.iter().any(|w| w.division.splits() == splits.as_slice());
            let known = known || !t.hints.is_empty();
            if known
                || have.len() >= MOST
                || splits.iter().product::<usize>() != way.division.cores()
            {
                continue;
            }
            let reason = "as its neighbour, so that data stays in the scratchpads".to_string();
            if let Some(way) = t.way(options, &splits, ("together", reason)) {
                list.get_or_insert_with(|| self.ways[to].to_vec()).push(way);
            }
        }
        if let Some(list) = list {
            self.ways[to] = Rc::new(list);
            self.class[to] = self.class.len() + to;
        }
    }
}

fn as_it_is(step: &Step) -> Way {
    Way { division: step.division.clone(), work: step.full.clone(), decided: step.decided.clone() }
}
