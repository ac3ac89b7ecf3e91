//! Divisions of all operations of a program at once, and which results never leave the scratchpads.
//!
//! A result may stay in the scratchpads when its producer and all its readers give every core the same
//! part of it. Whether they do is a matter of their divisions, so divisions and residency are one
//! choice: every step has a few divisions, every result is kept or not, and the total latency is
//! a sum over steps. The least is found by elimination, as for layouts. Room in the scratchpads is not
//! part of it: what does not fit is put back into memory when buffers are placed.

use super::{Hint, Policy, Space, divide, span};
use crate::choose::{FORBIDDEN, Problem, solve};
use crate::error::{CompileError, Result};
use crate::options::Options;
use crate::program::{Action, BufferId, Origin, Place, Program, Step};
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;
use zellige_device::{Division, Key, Laid, Loops, Op, Span, Sticks, Work};

/// Divisions of one step that are considered.
const MOST: usize = 8;
/// Divisions whose latency is computed; the rest is left out by the work of their largest slice.
const LOOKED_AT: usize = 16;
/// Tables of at most this many entries.
const LIMIT: usize = 1 << 18;

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

    fn way(&self, options: &Options, splits: &[usize], decided: (&str, String)) -> Option<Way> {
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
    class: Vec<usize>,
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

/// What the policy decides for an operation by itself, the best first.
///
/// # Errors
/// Hints that cannot hold, tensors that stay over the span limit whatever is split.
fn alone(form: &Form, options: &Options) -> Result<Vec<Way>> {
    let whole = |s: &[u64]| -> Vec<usize> {
        s.iter().map(|n| usize::try_from(*n).unwrap_or(usize::MAX)).collect()
    };
    let default = Division::distribute(&form.spans, options.cores, false);
    let Some(space) = &form.space else {
        if let Some(hint) = form.hints.first() {
            let known = "none, as its slices are no boxes of its tensors".into();
            return Err(CompileError::HintUnknown { dim: hint.dim.clone(), known });
        }
        let reason = "largest output dimensions first".to_string();
        let way = form.way(options, default.splits(), ("work_distribution", reason));
        return Ok(way.into_iter().collect());
    };
    let cores = i64::try_from(options.cores).unwrap_or(i64::MAX);
    // Even slices may not bring a tensor under the span limit; uneven ones may.
    let given = divide(space, &options.hardware, cores, Policy::Baseline, &form.hints);
    let (mut list, mut refused) = (Vec::new(), None);
    match given {
        Ok(plan) => {
            let decided = (plan.decided_by, plan.reason);
            list.extend(form.way(options, &whole(&plan.splits), decided));
        }
        Err(e @ CompileError::Span { .. }) if !options.strict => refused = Some(e),
        Err(e) => return Err(e),
    }
    let decided =
        (options.policy == Policy::Baseline || !form.hints.is_empty()) && refused.is_none();
    if decided {
        return Ok(list);
    }
    let limit = options.hardware.count(Key::Span);
    for s in splits(&form.spans, options.cores) {
        let asked: Vec<u64> = s.iter().map(|n| *n as u64).collect();
        let within = space.tensors().iter().all(|t| span(space, t, &asked) <= limit);
        if within && !list.iter().any(|w: &Way| w.division.splits() == s.as_slice()) {
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
    Ok(list)
}

impl Ways {
    pub(crate) fn of(program: &Program) -> Result<Ways> {
        let mut forms: Vec<Option<Rc<Form>>> = Vec::new();
        let mut ways: Vec<Rc<Vec<Way>>> = Vec::new();
        let mut class: Vec<usize> = Vec::new();
        type Question = (String, Vec<Laid>);
        let mut known: HashMap<Question, usize> = HashMap::new();
        for (i, step) in program.steps.iter().enumerate() {
            let question = step.node().map(|node| {
                let node = program.graph.node(node);
                let attributes = serde_json::to_string(&node.attributes).unwrap_or_default();
                let outs = step.writes.iter().map(|b| &program.buffer(*b).laid);
                let all = step.reads.iter().map(|r| &r.laid).chain(outs).cloned().collect();
                (format!("{} {attributes} {:?}", node.op.name(), node.hint), all)
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
                    let list = match &form {
                        Some(form) => alone(form, &program.options)?,
                        None => Vec::new(),
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
        Ok(Ways { forms, ways, class })
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
    fn suggest(
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

/// A result that could stay in the scratchpads: who makes it, who reads it, and as which tensor.
#[derive(Debug)]
pub(crate) struct Keepable {
    pub(crate) buffer: BufferId,
    pub(crate) producer: (usize, usize),
    pub(crate) readers: Vec<(usize, usize)>,
}

/// Results that are read whole, by operations whose loops are known, and by nobody else.
pub(crate) fn keepable(program: &Program, ways: &Ways) -> Vec<Keepable> {
    let mut list: Vec<Option<Keepable>> = program.buffers.iter().map(|_| None).collect();
    let known = |step: usize| {
        !program.steps[step].load && ways.forms[step].as_ref().is_some_and(|f| f.loops.is_some())
    };
    for (i, step) in program.steps.iter().enumerate() {
        for (k, b) in step.writes.iter().enumerate() {
            if known(i) && program.buffer(*b).origin == Origin::Result {
                let producer = (i, step.reads.len() + k);
                list[b.0] = Some(Keepable { buffer: *b, producer, readers: Vec::new() });
            }
        }
        for (k, read) in step.reads.iter().enumerate() {
            let whole = read.laid == program.buffer(read.buffer).laid;
            match &mut list[read.buffer.0] {
                Some(keep) if whole && known(i) => keep.readers.push((i, k)),
                other => *other = None,
            }
        }
    }
    for output in &program.outputs {
        list[output.buffer.0] = None;
    }
    for (i, buffer) in program.buffers.iter().enumerate() {
        if let Place::Over(of) = buffer.place {
            list[i] = None;
            list[of.0] = None;
        }
    }
    list.into_iter().flatten().filter(|k| !k.readers.is_empty()).collect()
}

/// What was decided: a way for every step, and the results that stay in the scratchpads.
pub(crate) struct Together {
    pub(crate) ways: Ways,
    pub(crate) chosen: Vec<usize>,
    pub(crate) kept: Vec<Keepable>,
    /// Whether nothing that was considered takes less.
    pub(crate) optimal: bool,
}

/// Divides all steps of a program together.
///
/// # Errors
/// Tensors that kernels cannot read as they lie.
pub(crate) fn together(program: &Program) -> Result<Together> {
    let mut ways = Ways::of(program)?;
    let options = &program.options;
    let candidates =
        if options.scratchpads.is_some() { keepable(program, &ways) } else { Vec::new() };
    if options.policy == Policy::Best {
        for keep in &candidates {
            for reader in &keep.readers {
                ways.suggest(options, keep.producer, *reader);
            }
        }
        for keep in candidates.iter().rev() {
            for reader in &keep.readers {
                ways.suggest(options, *reader, keep.producer);
            }
        }
    }
    let mut problem = Problem::new();
    for list in &ways.ways {
        problem.variable(list.len());
    }
    // Value 0 keeps a result: of equal totals, the one with less traffic.
    let vars: Vec<usize> = candidates.iter().map(|_| problem.variable(2)).collect();
    let mut costs: HashMap<(usize, usize, Vec<usize>), u64> = HashMap::new();
    for (i, step) in program.steps.iter().enumerate() {
        let mine: Vec<(usize, usize)> = candidates
            .iter()
            .enumerate()
            .flat_map(|(c, keep)| {
                let all = keep.readers.iter().chain([&keep.producer]);
                all.filter(|(s, _)| *s == i).map(move |(_, tensor)| (c, *tensor))
            })
            .collect();
        let mut scope = vec![i];
        for (c, _) in &mine {
            if !scope.contains(&vars[*c]) {
                scope.push(vars[*c]);
            }
        }
        let load = step.load;
        problem.cost(&scope, |values| {
            let stays = |c: usize| {
                scope.iter().position(|v| *v == vars[c]).is_some_and(|at| values[at] == 0)
            };
            let tensors: Vec<usize> =
                mine.iter().filter(|(c, _)| stays(*c)).map(|(_, t)| *t).collect();
            let key = (ways.class[i], values[0], tensors);
            if let Some(known) = costs.get(&key) {
                return if load { known / 1024 } else { *known };
            }
            let way = &ways.ways[i][values[0]];
            let work = match (&key.2[..], &ways.forms[i]) {
                ([], _) => Some(way.work.clone()),
                (list, Some(form)) => form.kept(way, list),
                (_, None) => None,
            };
            let cycles = work.map_or(FORBIDDEN, |w| options.hardware.latency(&w).cycles);
            costs.insert(key, cycles);
            if load { cycles / 1024 } else { cycles }
        })?;
    }
    let mut agreed: HashMap<(usize, usize, usize, usize, usize, usize), bool> = HashMap::new();
    for (keep, var) in candidates.iter().zip(&vars) {
        for (reader, tensor) in &keep.readers {
            let (from, to) = (keep.producer, (*reader, *tensor));
            problem.cost(&[from.0, to.0, *var], |v| {
                if v[2] == 1 {
                    return 0;
                }
                let key = (ways.class[from.0], v[0], from.1, ways.class[to.0], v[1], to.1);
                let same = *agreed
                    .entry(key)
                    .or_insert_with(|| ways.agree((from.0, v[0], from.1), (to.0, v[1], to.1)));
                if same { 0 } else { FORBIDDEN }
            })?;
        }
    }
    let solution = solve(&problem, LIMIT)?;
    let optimal = solution.is_optimal();
    let stays = |at: usize| solution.values[vars[at]] == 0;
    let kept: Vec<Keepable> =
        candidates.into_iter().enumerate().filter(|(at, _)| stays(*at)).map(|(_, k)| k).collect();
    let chosen = solution.values[..ways.ways.len()].to_vec();
    Ok(Together { ways, chosen, kept, optimal })
}
