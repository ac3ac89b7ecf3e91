//! One alternative for every operation of a graph, at the least total latency.
//!
//! The total is what the operations take alone, plus every move between a tensor and a reader that
//! wants it otherwise. A copy is made once and shared by all readers that want the same; what depends
//! on weights alone is moved when they are loaded, and counts a thousandth.

use super::LOADS;
use super::beam::beam;
use super::move_costs::{KnownMoves, MoveCosts};
use super::search::{CandidateSet, SearchRecord};
use crate::error::{CompileError, Result};
use crate::options::{Options, OutputLayouts, Policy, WeightLayouts};
use crate::propagate::{
    Alternative, Candidates, CopyBytes, OperandLayout, copy_bytes, reads_in_place, same_places,
};
use crate::solve::elimination::{ChoiceProblem, FORBIDDEN, Solution, plus, solve_from};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use zellige_graph::{Def, Graph, NodeId, Role, TensorId};
use zellige_stick::StickLayout;

/// Layouts for everything.
#[derive(Debug, Clone)]
pub struct Assignment {
    /// Of every operation, the alternative it runs with.
    pub nodes: Vec<Alternative>,
    /// Of every tensor that is no view, its layout.
    pub tensors: Vec<Option<StickLayout>>,
    /// Whether readers that want the same share one copy.
    pub shared: bool,
    /// Its cost as the policy counts.
    pub cost: u64,
    /// No assignment costs less than this, of those that were considered; 0 where nothing is proved.
    pub bound: u64,
    /// What the cost counts.
    pub unit: &'static str,
    /// Combinations of alternatives, as a power of two.
    pub choices_log2: f64,
    /// The most variables that met in one table.
    pub width: usize,
    /// Who divides the steps: the policy that was asked for, or the existing compiler where its program is faster.
    pub divisions: Policy,
    /// From which candidates it was chosen.
    pub set: CandidateSet,
    /// What that search looked at.
    pub search: SearchRecord,
    /// The steps of no program with the layouts that were considered take fewer cycles one after the other, however
    /// they are divided and whatever stays in the scratchpads; 0 where nothing is proved.
    pub least: u64,
}

impl Assignment {
    /// Whether no layouts that were considered have a smaller sum of costs. That says nothing about the time of the whole
    /// program, for which [`search`](Assignment::search) says what was tried. Of a choice of the existing compiler, which
    /// counts elements, nothing is proved.
    pub fn is_least_sum(&self) -> bool {
        self.cost == self.bound && self.set != CandidateSet::Existing
    }
}

/// Tables of at most this many entries.
const LIMIT: usize = 1 << 16;
/// Costs that depend on readers one by one, where the table of all of them would pass this.
const DIRECT: usize = 1 << 12;

/// Which tensors depend on weights and constants alone, so that they are made when those are loaded.
pub(crate) fn loaded(graph: &Graph, options: &Options) -> Vec<bool> {
    let mut loaded = vec![false; graph.tensors().count()];
    for (id, t) in graph.tensors() {
        loaded[id.0] = options.weights == WeightLayouts::Free
            && match &t.def {
                Def::Input(role) => *role == Role::Weight,
                Def::Constant(_) => true,
                Def::View { base, .. } => loaded[base.0],
                Def::Result(node, _) => graph.node(*node).inputs.iter().all(|i| loaded[i.0]),
            };
    }
    loaded
}

/// Tensors that are held to a layout, by number.
pub(super) type HeldLayouts = BTreeMap<usize, StickLayout>;

/// Who decides the layout of a tensor.
#[derive(Clone, Copy)]
enum LayoutOwner {
    Nobody,
    Node(usize, usize),
    Free(usize),
}

/// Who reads a tensor: an operation's operand, or the caller.
enum LayoutReader {
    Operand(usize, usize),
    Caller(OperandLayout),
}

/// The layouts and readers of one tensor.
struct ReadTensor<'a> {
    graph: &'a Graph,
    options: &'a Options,
    tensor: TensorId,
    owner: LayoutOwner,
    layouts: &'a [StickLayout],
    readers: Vec<LayoutReader>,
}

/// What graph outputs must lie as: what is pinned, or default layouts; none where they may lie as they
/// are computed.
pub(crate) fn demanded(
    graph: &Graph,
    options: &Options,
    output: TensorId,
) -> Result<Option<OperandLayout>> {
    if options.outputs == OutputLayouts::AsComputed && graph.get(output).pin.is_none() {
        return Ok(None);
    }
    let (_, view) = graph.base(output);
    let t = graph.get(output);
    let keep = options.storage.keep;
    let default = zellige_device::default_layout(&t.size, None, t.dtype, keep)?;
    let layout = match &t.pin {
        Some(pin) => crate::propagate::pinned(pin, &t.size, &default)?,
        None => default,
    };
    Ok(Some(OperandLayout { view: view.cloned(), layout }))
}

/// The least total latency over all alternatives.
///
/// # Errors
/// No alternative for some operation.
pub fn assign(graph: &Graph, options: &Options, candidates: &Candidates) -> Result<Assignment> {
    assign_known(graph, options, candidates, &mut KnownMoves::new())
}

/// The same, with costs of moves that are known.
///
/// # Errors
/// As [`assign`].
pub(super) fn assign_known(
    graph: &Graph,
    options: &Options,
    candidates: &Candidates,
    known: &mut KnownMoves,
) -> Result<Assignment> {
    let mut moves = MoveCosts::new(options, known);
    let problem = LayoutProblem::new(graph, options, candidates, &mut moves, |a| a.cycles)?;
    let mut assignment = problem.least_sum(LIMIT)?;
    if !assignment.is_least_sum() {
        // A table passed the limit, so that the existing compiler's choice may be the better one.
        let known = beam(graph, options, candidates)?;
        assignment = problem.least_sum_from(LIMIT, &known.nodes)?;
    }
    // One after the other, every step has its launch.
    let launch = options.hardware.launch_cycles();
    let least = |a: &Alternative| a.least.saturating_add(launch);
    let problem = LayoutProblem::new(graph, options, candidates, &mut moves, least)?;
    assignment.least = problem.least_sum(LIMIT)?.bound;
    Ok(assignment)
}

/// The choice among the alternatives and layouts of a graph, as a problem of variables and costs.
pub(super) struct LayoutProblem<'a> {
    graph: &'a Graph,
    options: &'a Options,
    candidates: &'a Candidates,
    /// Of every tensor, who decides its layout.
    owners: Vec<LayoutOwner>,
    problem: ChoiceProblem,
}

impl<'a> LayoutProblem<'a> {
    /// The problem where operations take `cycles`.
    ///
    /// # Errors
    /// No alternative for some operation.
    pub(super) fn new(
        graph: &'a Graph,
        options: &'a Options,
        candidates: &'a Candidates,
        moves: &mut MoveCosts<'_>,
        cycles: impl Fn(&Alternative) -> u64,
    ) -> Result<LayoutProblem<'a>> {
        if let Some(node) = candidates.nodes.iter().position(|list| list.is_empty()) {
            let name = &graph.get(graph.node(NodeId(node)).outputs[0]).name;
            let reason = format!("no alternative of `{name}` gives the layout that it is held to");
            return Err(CompileError::bad_problem(reason));
        }
        let loads = loaded(graph, options);
        let mut problem = ChoiceProblem::new();
        for list in &candidates.nodes {
            problem.variable(list.len());
        }
        let mut owners: Vec<LayoutOwner> = vec![LayoutOwner::Nobody; loads.len()];
        for (id, t) in graph.tensors() {
            owners[id.0] = match &t.def {
                Def::Result(node, k) => LayoutOwner::Node(node.0, *k),
                Def::Input(_) if candidates.tensors[id.0].len() > 1 => {
                    LayoutOwner::Free(problem.variable(candidates.tensors[id.0].len()))
                }
                _ => LayoutOwner::Nobody,
            };
        }
        let scaled = |cycles: u64, load: bool| {
            if load && cycles != FORBIDDEN { cycles.div_ceil(LOADS) } else { cycles }
        };
        for (id, node) in graph.nodes() {
            let list = &candidates.nodes[id.0];
            let load = loads[node.outputs[0].0];
            let mut own = Vec::with_capacity(list.len());
            for a in list.iter() {
                let mut cycles = scaled(cycles(a), load);
                for (k, out) in node.outputs.iter().enumerate() {
                    let t = graph.get(*out);
                    let pinned = t.pin.as_ref().map(|_| &candidates.tensors[out.0][0]);
                    if let Some(pin) = pinned.filter(|p| **p != a.results[k]) {
                        let to = OperandLayout { view: None, layout: pin.clone() };
                        let cost = moves.cycles(t.dtype, &t.size, &a.results[k], &to);
                        cycles = plus(cycles, scaled(cost, load));
                    }
                }
                own.push(cycles);
            }
            problem.cost(&[id.0], |v| own[v[0]])?;
        }
        for read in reads(graph, options, candidates, &owners)? {
            let load = loads[read.tensor.0];
            let t = graph.get(read.tensor);
            let mut cost = |from: &StickLayout, to: &OperandLayout| {
                scaled(moves.cycles(t.dtype, &t.size, from, to), load)
            };
            read.add(&mut problem, candidates, &mut cost)?;
        }
        Ok(LayoutProblem { graph, options, candidates, owners, problem })
    }

    /// The least sum, with tables of at most `limit` entries.
    pub(super) fn least_sum(&self, limit: usize) -> Result<Assignment> {
        Ok(self.assignment(&solve_from(&self.problem, limit, &[])?))
    }

    /// The same, and no more than the cost of alternatives that are known to be good.
    fn least_sum_from(&self, limit: usize, known: &[Alternative]) -> Result<Assignment> {
        let places = known.iter().zip(&self.candidates.nodes);
        let known: Option<Vec<usize>> =
            places.map(|(own, list)| list.iter().position(|a| a == own)).collect();
        Ok(self.assignment(&solve_from(&self.problem, limit, known.as_slice())?))
    }

    /// The least sum with some tensors held to layouts of their candidates; `near` are alternatives that are known to
    /// be good without that.
    ///
    /// # Errors
    /// No alternative gives a tensor the layout that it is held to.
    pub(super) fn held_to(
        &self,
        held: &HeldLayouts,
        limit: usize,
        near: &[usize],
    ) -> Result<Assignment> {
        let mut allowed: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (id, layout) in held {
            let (var, gives): (usize, Vec<usize>) = match self.owners[*id] {
                LayoutOwner::Node(n, k) => {
                    let list = self.candidates.nodes[n].iter().enumerate();
                    (n, list.filter(|(_, a)| a.results[k] == *layout).map(|(at, _)| at).collect())
                }
                LayoutOwner::Free(var) => {
                    let list = self.candidates.tensors[*id].iter().enumerate();
                    (var, list.filter(|(_, l)| *l == layout).map(|(at, _)| at).collect())
                }
                LayoutOwner::Nobody => continue,
            };
            let both = allowed.entry(var).or_insert_with(|| gives.clone());
            both.retain(|v| gives.contains(v));
            if both.is_empty() {
                let name = &self.graph.get(TensorId(*id)).name;
                let reason =
                    format!("no alternative of `{name}` gives the layout that it is held to");
                return Err(CompileError::bad_problem(reason));
            }
        }
        let problem = self.problem.restricted(&allowed);
        let place = |(var, value): (usize, &usize)| match allowed.get(&var) {
            Some(list) => list.iter().position(|v| v == value).unwrap_or(0),
            None => *value,
        };
        let near: Vec<usize> = near.iter().enumerate().map(place).collect();
        let mut solution = solve_from(&problem, limit, &[near])?;
        for (var, list) in &allowed {
            solution.values[*var] = list[solution.values[*var]];
        }
        Ok(self.assignment(&solution))
    }

    /// Of every operation, the alternative that is most like that of another choice.
    pub(super) fn closest(&self, to: &Assignment) -> Vec<usize> {
        let lists = self.candidates.nodes.iter().zip(&to.nodes);
        lists.map(|(list, a)| closest(list, a)).collect()
    }

    /// The layouts that the values of the variables stand for.
    fn assignment(&self, solution: &Solution) -> Assignment {
        let LayoutProblem { graph, options, candidates, owners, .. } = self;
        let nodes: Vec<Alternative> = candidates
            .nodes
            .iter()
            .zip(&solution.values)
            .map(|(list, v)| list[*v].clone())
            .collect();
        let layout = |id: TensorId| match owners[id.0] {
            LayoutOwner::Nobody => candidates.tensors[id.0].first().cloned(),
            LayoutOwner::Free(var) => Some(candidates.tensors[id.0][solution.values[var]].clone()),
            LayoutOwner::Node(..) if graph.get(id).pin.is_some() => {
                candidates.tensors[id.0].first().cloned()
            }
            LayoutOwner::Node(n, k) => Some(nodes[n].results[k].clone()),
        };
        let tensors = graph.tensors().map(|(id, _)| layout(id)).collect();
        let counted = candidates.nodes.iter().map(|l| (l.len().max(1) as f64).log2()).sum();
        Assignment {
            nodes,
            tensors,
            shared: true,
            cost: solution.cost,
            bound: solution.bound,
            unit: "cycles",
            choices_log2: counted,
            width: solution.width,
            divisions: options.policy,
            set: CandidateSet::All,
            search: SearchRecord::default(),
            least: 0,
        }
    }
}

/// The alternative that is most like another: with the same operands and results, the same results, or the first.
fn closest(list: &[Alternative], like: &Alternative) -> usize {
    let same = list.iter().position(|a| a.operands == like.operands && a.results == like.results);
    same.or_else(|| list.iter().position(|a| a.results == like.results)).unwrap_or(0)
}

/// Every tensor with its readers.
fn reads<'a>(
    graph: &'a Graph,
    options: &'a Options,
    candidates: &'a Candidates,
    owners: &[LayoutOwner],
) -> Result<Vec<ReadTensor<'a>>> {
    let mut list: Vec<Option<ReadTensor<'a>>> = graph.tensors().map(|_| None).collect();
    let mut add = |base: TensorId, reader: LayoutReader| {
        let read = list[base.0].get_or_insert_with(|| {
            let pinned = graph.get(base).pin.is_some();
            let owner = if pinned { LayoutOwner::Nobody } else { owners[base.0] };
            let layouts = &candidates.tensors[base.0][..];
            ReadTensor { graph, options, tensor: base, owner, layouts, readers: Vec::new() }
        });
        read.readers.push(reader);
    };
    for (NodeId(n), node) in graph.nodes() {
        for (k, operand) in node.inputs.iter().enumerate() {
            if candidates.nodes[n].iter().any(|a| a.operands[k].is_some()) {
                add(graph.base(*operand).0, LayoutReader::Operand(n, k));
            }
        }
    }
    for output in graph.outputs() {
        if let Some(key) = demanded(graph, options, *output)? {
            add(graph.base(*output).0, LayoutReader::Caller(key));
        }
    }
    Ok(list.into_iter().flatten().collect())
}

impl ReadTensor<'_> {
    /// The key that a reader wants under an alternative; none takes anything.
    fn wants<'c>(
        &'c self,
        reader: &'c LayoutReader,
        candidates: &'c Candidates,
        at: usize,
    ) -> Option<&'c OperandLayout> {
        match reader {
            LayoutReader::Operand(n, k) => candidates.nodes[*n][at].operands[*k].as_ref(),
            LayoutReader::Caller(key) => Some(key),
        }
    }

    /// Whether a reader finds what it wants where the tensor lies in this layout.
    fn is_own(&self, reader: &LayoutReader, key: &OperandLayout, layout: &StickLayout) -> bool {
        let t = self.graph.get(self.tensor);
        // The caller only looks at places; the layouts of results follow those of operands exactly.
        let caller = matches!(reader, LayoutReader::Caller(_)) && key.view.is_none();
        reads_in_place(self.options, t, layout, key) || (caller && same_places(&key.layout, layout))
    }

    fn var(&self) -> Option<usize> {
        match self.owner {
            LayoutOwner::Nobody => None,
            LayoutOwner::Node(n, _) => Some(n),
            LayoutOwner::Free(var) => Some(var),
        }
    }

    /// The layout under a value of the owner's variable.
    fn layout<'c>(&'c self, candidates: &'c Candidates, value: usize) -> &'c StickLayout {
        match self.owner {
            LayoutOwner::Nobody => &self.layouts[0],
            LayoutOwner::Node(n, k) => &candidates.nodes[n][value].results[k],
            LayoutOwner::Free(_) => &self.layouts[value],
        }
    }

    fn add(
        &self,
        problem: &mut ChoiceProblem,
        candidates: &Candidates,
        cost: &mut dyn FnMut(&StickLayout, &OperandLayout) -> u64,
    ) -> Result<()> {
        let mut vars: Vec<usize> = self.var().into_iter().collect();
        for reader in &self.readers {
            if let LayoutReader::Operand(n, _) = reader
                && !vars.contains(n)
            {
                vars.push(*n);
            }
        }
        // What has one value decides nothing, and a tensor may have hundreds of such readers.
        vars.retain(|v| problem.domains()[*v] > 1);
        let size = vars.iter().fold(1usize, |s, v| s.saturating_mul(problem.domains()[*v]));
        if size > DIRECT {
            return self.add_apart(problem, candidates, cost);
        }
        let reads = ReadCosts::new(self, problem, candidates);
        // Computed where some choice needs it; a move that no choice makes may have no plan.
        let mut prices: HashMap<(usize, usize), u64> = HashMap::new();
        let place = |var: usize| vars.iter().position(|v| *v == var);
        let owner = self.var().and_then(place);
        let nodes = self.readers.iter().map(|reader| match reader {
            LayoutReader::Operand(n, _) => place(*n),
            LayoutReader::Caller(_) => None,
        });
        let nodes: Vec<Option<usize>> = nodes.collect();
        let mut made: Vec<usize> = Vec::new();
        problem.cost(&vars, |values| {
            let own = reads.own_of[owner.map_or(0, |i| values[i])];
            made.clear();
            let mut total = 0;
            for (r, node) in nodes.iter().enumerate() {
                let Some(key) = reads.keys_of[r][node.map_or(0, |i| values[i])] else { continue };
                let copy = reads.copy_of[key];
                if !reads.in_place[r][own][key] && !made.contains(&copy) {
                    let price = prices
                        .entry((own, copy))
                        .or_insert_with(|| cost(&reads.owns[own], &reads.keys[key]));
                    total = plus(total, *price);
                    made.push(copy);
                }
            }
            total
        })
    }

    /// The same with small tables: a variable for the layout, one for every copy that may be made, and
    /// one for what each reader wants.
    fn add_apart(
        &self,
        problem: &mut ChoiceProblem,
        candidates: &Candidates,
        cost: &mut dyn FnMut(&StickLayout, &OperandLayout) -> u64,
    ) -> Result<()> {
        let layouts: Vec<StickLayout> = match self.owner {
            LayoutOwner::Nobody => vec![self.layouts[0].clone()],
            _ => self.layouts.to_vec(),
        };
        let lies = match self.var() {
            None => problem.variable(layouts.len()),
            Some(var) => {
                let at = |value: usize| {
                    let own = self.layout(candidates, value);
                    layouts.iter().position(|l| l == own).unwrap_or(0)
                };
                let table = (0..problem.domains()[var]).map(at).collect();
                problem.following(var, layouts.len(), table)?
            }
        };
        let t = self.graph.get(self.tensor);
        let mut copies: Vec<(CopyBytes, usize)> = Vec::new();
        for reader in &self.readers {
            let alternatives = if let LayoutReader::Operand(n, _) = reader {
                candidates.nodes[*n].len()
            } else {
                1
            };
            let mut keys: Vec<Option<Rc<OperandLayout>>> = Vec::new();
            let mut of: Vec<usize> = Vec::with_capacity(alternatives);
            for a in 0..alternatives {
                let key = self.wants(reader, candidates, a);
                let at = keys.iter().position(|k| k.as_deref() == key).unwrap_or_else(|| {
                    keys.push(key.map(|k| Rc::new(k.clone())));
                    keys.len() - 1
                });
                of.push(at);
            }
            let wants = match reader {
                LayoutReader::Operand(n, _) => problem.following(*n, keys.len(), of)?,
                LayoutReader::Caller(_) => problem.variable(keys.len()),
            };
            for (at, key) in keys.iter().enumerate() {
                let Some(key) = key else { continue };
                let there: Vec<bool> =
                    layouts.iter().map(|own| self.is_own(reader, key, own)).collect();
                let bytes = copy_bytes(self.options, t, key);
                let made = match copies.iter().find(|(known, _)| *known == bytes) {
                    Some((_, made)) => *made,
                    None => {
                        let made = problem.last(2);
                        let mut price = |v: &[usize]| match v[1] {
                            0 => 0,
                            _ => cost(&layouts[v[0]], key),
                        };
                        problem.cost(&[lies, made], &mut price)?;
                        copies.push((bytes, made));
                        made
                    }
                };
                problem.cost(&[wants, lies, made], |v| {
                    let missing = v[0] == at && v[2] == 0 && !there[v[1]];
                    if missing { FORBIDDEN } else { 0 }
                })?;
            }
        }
        Ok(())
    }
}

/// The different layouts of a tensor and the different ways in which it is read, by number.
struct ReadCosts {
    owns: Vec<StickLayout>,
    keys: Vec<OperandLayout>,
    /// Per value of the owner's variable, the layout.
    own_of: Vec<usize>,
    /// Per reader and value of its variable, what it wants; none takes anything.
    keys_of: Vec<Vec<Option<usize>>>,
    /// Per key, the number of the copy that serves it: keys of different views may mean the same bytes.
    copy_of: Vec<usize>,
    /// Per reader, layout and key, whether the reader finds what it wants without a copy.
    in_place: Vec<Vec<Vec<bool>>>,
}

impl ReadCosts {
    fn new(read: &ReadTensor<'_>, problem: &ChoiceProblem, candidates: &Candidates) -> ReadCosts {
        fn number<T: Clone + PartialEq>(list: &mut Vec<T>, item: &T) -> usize {
            list.iter().position(|other| other == item).unwrap_or_else(|| {
                list.push(item.clone());
                list.len() - 1
            })
        }
        let (mut owns, mut keys) = (Vec::new(), Vec::new());
        let values = read.var().map_or(1, |var| problem.domains()[var]);
        let own_of =
            (0..values).map(|value| number(&mut owns, read.layout(candidates, value))).collect();
        let wanted = |reader: &LayoutReader| -> Vec<Option<usize>> {
            let values = match reader {
                LayoutReader::Operand(n, _) => candidates.nodes[*n].len(),
                LayoutReader::Caller(_) => 1,
            };
            let wants = (0..values).map(|value| read.wants(reader, candidates, value));
            wants.map(|key| key.map(|key| number(&mut keys, key))).collect()
        };
        let keys_of: Vec<Vec<Option<usize>>> = read.readers.iter().map(wanted).collect();
        // Operands are alike, and the caller is a reader of its own.
        let table = |reader: &LayoutReader| -> Vec<Vec<bool>> {
            let found = |own: &StickLayout| -> Vec<bool> {
                keys.iter().map(|key| read.is_own(reader, key, own)).collect()
            };
            owns.iter().map(found).collect()
        };
        let mut operands: Option<Vec<Vec<bool>>> = None;
        let mut in_place = Vec::with_capacity(read.readers.len());
        for reader in &read.readers {
            in_place.push(match reader {
                LayoutReader::Operand(..) => operands.get_or_insert_with(|| table(reader)).clone(),
                LayoutReader::Caller(_) => table(reader),
            });
        }
        let copy_of = ReadCosts::copies(read, &keys);
        ReadCosts { owns, keys, own_of, keys_of, copy_of, in_place }
    }

    /// Of every key, the number of the copy that serves it.
    fn copies(read: &ReadTensor<'_>, keys: &[OperandLayout]) -> Vec<usize> {
        // Copies of one view are the same where their layouts are.
        if keys.windows(2).all(|pair| pair[0].view == pair[1].view) {
            return (0..keys.len()).collect();
        }
        let t = read.graph.get(read.tensor);
        let mut known: HashMap<CopyBytes, usize> = HashMap::new();
        let numbered = keys.iter().enumerate();
        numbered
            .map(|(at, key)| *known.entry(copy_bytes(read.options, t, key)).or_insert(at))
            .collect()
    }
}
