//! One alternative for every operation of a graph, at the least total latency.
//!
//! The total is the time of every operation by itself, plus the time of every move between a tensor and a reader
//! that needs another layout. A copy is made once and shared by all readers that need the same; what depends on weights
//! alone is moved when they are loaded, and counts a thousandth.
//!
//! torch-spyre (mid 2026) minimizes another sum, the elements that are restickified, by a beam search that may
//! drop the optimum. Its choice is `beam`, and this one is never worse by this sum.

use super::LOAD_COST_DIVISOR;
use super::beam::choose_by_beam;
use super::move_costs::{KnownMoves, MoveCosts};
use super::search::{CandidateSet, SearchRecord};
use crate::error::{CompileError, Result};
use crate::options::{CompilePolicy, CompilerOptions, OutputLayoutRule, WeightLayoutRule};
use crate::propagate::{
    CopyBytes, GraphCandidates, OpAlternative, OperandLayout, copy_bytes, have_same_coordinates,
    is_read_in_place,
};
use crate::solve::elimination::{
    ChoiceProblem, ChoiceSolution, FORBIDDEN, solve_with_known, sum_costs,
};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use zellige_graph::{Graph, InputRole, NodeId, TensorId, TensorOrigin};
use zellige_stick::StickLayout;

/// Layouts for everything.
#[derive(Debug, Clone)]
pub struct LayoutAssignment {
    /// Of every operation, the alternative it runs with.
    pub nodes: Vec<OpAlternative>,
    /// Of every tensor that is no view, its layout.
    pub tensors: Vec<Option<StickLayout>>,
    /// Whether readers that need the same layout share one copy.
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
    /// Which policy divides the steps: the requested one, or that of torch-spyre where its program is faster.
    pub divisions: CompilePolicy,
    /// From which candidates it was chosen.
    pub set: CandidateSet,
    /// What that search looked at.
    pub search: SearchRecord,
    /// The steps of no program with the layouts that were considered take fewer cycles one after the other, however
    /// they are divided and whatever stays in the scratchpads; 0 where nothing is proved.
    pub least: u64,
}

impl LayoutAssignment {
    /// Whether no layouts that were considered have a smaller sum of costs. That says nothing about the time of the
    /// whole program, for which [`search`](LayoutAssignment::search) says what was tried. Of the choice of torch-spyre,
    /// which counts elements, nothing is proved.
    pub fn is_least_sum(&self) -> bool {
        self.cost == self.bound && self.set != CandidateSet::Existing
    }
}

/// Tables of at most this many entries.
// An entry has 8 bytes, so that a table has at most 512 KiB. Where a join would pass this, the result is still a
// choice and a proved lower bound, which no longer have to be equal.
const MAX_TABLE_ENTRIES: usize = 1 << 16;
/// Costs that depend on readers one by one, where the table of all of them would pass this.
// The table of a tensor with n readers has the product of their alternatives as entries. Past this size the encoding
// with one variable per copy is smaller, although it adds variables.
const MAX_DIRECT_TABLE_ENTRIES: usize = 1 << 12;

/// Which tensors depend on weights and constants alone, so that they are made when those are loaded.
pub(crate) fn find_loaded_tensors(graph: &Graph, options: &CompilerOptions) -> Vec<bool> {
    let mut loaded = vec![false; graph.tensors().count()];
    for (id, t) in graph.tensors() {
        loaded[id.0] = options.weights == WeightLayoutRule::Free
            && match &t.def {
                TensorOrigin::Input(role) => *role == InputRole::Weight,
                TensorOrigin::Constant(_) => true,
                TensorOrigin::View { base, .. } => loaded[base.0],
                TensorOrigin::Result(node, _) => {
                    graph.node(*node).inputs.iter().all(|i| loaded[i.0])
                }
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
    options: &'a CompilerOptions,
    tensor: TensorId,
    owner: LayoutOwner,
    layouts: &'a [StickLayout],
    readers: Vec<LayoutReader>,
}

/// The layout that a graph output must have: the pinned one, or the default layout; none where it may keep the layout
/// in which it is computed.
pub(crate) fn demanded_output_layout(
    graph: &Graph,
    options: &CompilerOptions,
    output: TensorId,
) -> Result<Option<OperandLayout>> {
    if options.outputs == OutputLayoutRule::AsComputed && graph.get(output).pin.is_none() {
        return Ok(None);
    }
    let (_, view) = graph.base_and_view(output);
    let t = graph.get(output);
    // The default layout depends on the stored dtype, because a stick holds 128 bytes: 64 elements of 16 bits, 32 of
    // 32 bits.
    let keep = options.storage.keep;
    let default = zellige_device::default_layout(&t.size, None, t.dtype, keep)?;
    let layout = match &t.pin {
        Some(pin) => crate::propagate::resolve_pin(pin, &t.size, &default)?,
        None => default,
    };
    Ok(Some(OperandLayout { view: view.cloned(), layout }))
}

/// The least total latency over all alternatives.
///
/// # Errors
/// No alternative for some operation.
pub fn assign_layouts(
    graph: &Graph,
    options: &CompilerOptions,
    candidates: &GraphCandidates,
) -> Result<LayoutAssignment> {
    assign_known(graph, options, candidates, &mut KnownMoves::new())
}

/// The same, with costs of moves that are known.
///
/// # Errors
/// As [`assign_layouts`].
pub(super) fn assign_known(
    graph: &Graph,
    options: &CompilerOptions,
    candidates: &GraphCandidates,
    known: &mut KnownMoves,
) -> Result<LayoutAssignment> {
    let mut moves = MoveCosts::new(options, known);
    let problem = LayoutProblem::new(graph, options, candidates, &mut moves, |a| a.cycles)?;
    let mut assignment = problem.solve_least_sum(MAX_TABLE_ENTRIES)?;
    if !assignment.is_least_sum() {
        // A table passed the limit, so that torch-spyre's choice may be the better one: the solver starts from it and
        // keeps it if so.
        let known = choose_by_beam(graph, options, candidates)?;
        assignment = problem.solve_least_sum_from(MAX_TABLE_ENTRIES, &known.nodes)?;
    }
    // A lower bound for the steps one after the other. Where the host launches step by step and nothing runs
    // side by side, every step is a launch of its own, so that its launch belongs to the bound; no division makes a step
    // faster than its `least`.
    let launch = options.hardware.step_launch_cycles();
    let least = |a: &OpAlternative| a.least.saturating_add(launch);
    let problem = LayoutProblem::new(graph, options, candidates, &mut moves, least)?;
    assignment.least = problem.solve_least_sum(MAX_TABLE_ENTRIES)?.bound;
    Ok(assignment)
}

/// The choice among the alternatives and layouts of a graph, as a problem of variables and costs.
pub(super) struct LayoutProblem<'a> {
    graph: &'a Graph,
    options: &'a CompilerOptions,
    candidates: &'a GraphCandidates,
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
        options: &'a CompilerOptions,
        candidates: &'a GraphCandidates,
        moves: &mut MoveCosts<'_>,
        cycles: impl Fn(&OpAlternative) -> u64,
    ) -> Result<LayoutProblem<'a>> {
        // An operation without alternatives would be a variable without values, whose table is empty: its least cost
        // would be the cost of nothing.
        if let Some(node) = candidates.nodes.iter().position(|list| list.is_empty()) {
            let name = &graph.get(graph.node(NodeId(node)).outputs[0]).name;
            let reason = format!("no alternative of `{name}` gives the layout that it is held to");
            return Err(CompileError::bad_problem(reason));
        }
        let loads = find_loaded_tensors(graph, options);
        let mut problem = ChoiceProblem::new();
        for list in &candidates.nodes {
            problem.add_variable(list.len());
        }
        let mut owners: Vec<LayoutOwner> = vec![LayoutOwner::Nobody; loads.len()];
        for (id, t) in graph.tensors() {
            owners[id.0] = match &t.def {
                TensorOrigin::Result(node, k) => LayoutOwner::Node(node.0, *k),
                TensorOrigin::Input(_) if candidates.tensors[id.0].len() > 1 => {
                    LayoutOwner::Free(problem.add_variable(candidates.tensors[id.0].len()))
                }
                _ => LayoutOwner::Nobody,
            };
        }
        // Loading happens once and runs happen often, so that a move of a weight counts a fraction. It is rounded up:
        // a move at the price of 0 would tie with no move, and the tie could be broken in its favour.
        let scaled = |cycles: u64, load: bool| {
            if load && cycles != FORBIDDEN { cycles.div_ceil(LOAD_COST_DIVISOR) } else { cycles }
        };
        for (id, node) in graph.nodes() {
            let list = &candidates.nodes[id.0];
            let load = loads[node.outputs[0].0];
            let mut own = Vec::with_capacity(list.len());
            for a in list.iter() {
                let mut cycles = scaled(cycles(a), load);
                for (k, out) in node.outputs.iter().enumerate() {
                    let t = graph.get(*out);
                    // A pinned result is written in the layout of its operation and then moved to its pin. That move
                    // belongs to the operation whatever the readers need, so that it is a cost of this variable
                    // alone.
                    let pinned = t.pin.as_ref().map(|_| &candidates.tensors[out.0][0]);
                    if let Some(pin) = pinned.filter(|p| **p != a.results[k]) {
                        let to = OperandLayout { view: None, layout: pin.clone() };
                        let cost = moves.move_cycles(t.dtype, &t.size, &a.results[k], &to);
                        cycles = sum_costs(cycles, scaled(cost, load));
                    }
                }
                own.push(cycles);
            }
            problem.add_cost(&[id.0], |v| own[v[0]])?;
        }
        // One cost per tensor and not per reader: readers that need the same layout share a copy, so that their costs
        // do not add up one by one.
        for read in collect_tensor_reads(graph, options, candidates, &owners)? {
            let load = loads[read.tensor.0];
            let t = graph.get(read.tensor);
            let mut cost = |from: &StickLayout, to: &OperandLayout| {
                scaled(moves.move_cycles(t.dtype, &t.size, from, to), load)
            };
            read.add_costs(&mut problem, candidates, &mut cost)?;
        }
        Ok(LayoutProblem { graph, options, candidates, owners, problem })
    }

    /// The least sum, with tables of at most `limit` entries.
    pub(super) fn solve_least_sum(&self, limit: usize) -> Result<LayoutAssignment> {
        Ok(self.assignment_from_solution(&solve_with_known(&self.problem, limit, &[])?))
    }

    /// The same, and no more than the cost of alternatives that are known to be good.
    fn solve_least_sum_from(
        &self,
        limit: usize,
        known: &[OpAlternative],
    ) -> Result<LayoutAssignment> {
        let places = known.iter().zip(&self.candidates.nodes);
        let known: Option<Vec<usize>> =
            places.map(|(own, list)| list.iter().position(|a| a == own)).collect();
        Ok(self.assignment_from_solution(&solve_with_known(
            &self.problem,
            limit,
            known.as_slice(),
        )?))
    }

    /// The least sum with some tensors held to layouts of their candidates; `near` are alternatives that are known to
    /// be good without that.
    ///
    /// # Errors
    /// No alternative gives a tensor the layout that it is held to.
    pub(super) fn solve_held_to(
        &self,
        held: &HeldLayouts,
        limit: usize,
        near: &[usize],
    ) -> Result<LayoutAssignment> {
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
        // Restricting the domains keeps the tables of all costs; building the problem anew would ask every move for
        // its plan again, for each layout that the search tries.
        let problem = self.problem.restricted_to(&allowed);
        let place = |(var, value): (usize, &usize)| match allowed.get(&var) {
            Some(list) => list.iter().position(|v| v == value).unwrap_or(0),
            None => *value,
        };
        let near: Vec<usize> = near.iter().enumerate().map(place).collect();
        let mut solution = solve_with_known(&problem, limit, &[near])?;
        for (var, list) in &allowed {
            solution.values[*var] = list[solution.values[*var]];
        }
        Ok(self.assignment_from_solution(&solution))
    }

    /// Of every operation, the alternative that is most like that of another choice.
    pub(super) fn closest_alternatives(&self, to: &LayoutAssignment) -> Vec<usize> {
        let lists = self.candidates.nodes.iter().zip(&to.nodes);
        lists.map(|(list, a)| find_closest_alternative(list, a)).collect()
    }

    /// The layouts that the values of the variables stand for.
    fn assignment_from_solution(&self, solution: &ChoiceSolution) -> LayoutAssignment {
        let LayoutProblem { graph, options, candidates, owners, .. } = self;
        let nodes: Vec<OpAlternative> = candidates
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
        // The product of all alternatives overflows 64 bits for some dozen operations, so that its logarithm is kept.
        let counted = candidates.nodes.iter().map(|l| (l.len().max(1) as f64).log2()).sum();
        LayoutAssignment {
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
fn find_closest_alternative(list: &[OpAlternative], like: &OpAlternative) -> usize {
    // Start values for the solver, not constraints: where the other choice comes from other candidates, an
    // alternative with the same results is nearest, because moves depend on results.
    let same = list.iter().position(|a| a.operands == like.operands && a.results == like.results);
    same.or_else(|| list.iter().position(|a| a.results == like.results)).unwrap_or(0)
}

/// Every tensor with its readers.
fn collect_tensor_reads<'a>(
    graph: &'a Graph,
    options: &'a CompilerOptions,
    candidates: &'a GraphCandidates,
    owners: &[LayoutOwner],
) -> Result<Vec<ReadTensor<'a>>> {
    let mut list: Vec<Option<ReadTensor<'a>>> = graph.tensors().map(|_| None).collect();
    let mut add = |base: TensorId, reader: LayoutReader| {
        let read = list[base.0].get_or_insert_with(|| {
            // The readers of a pinned tensor read the pinned copy, whose layout no variable decides.
            let pinned = graph.get(base).pin.is_some();
            let owner = if pinned { LayoutOwner::Nobody } else { owners[base.0] };
            let layouts = &candidates.tensors[base.0][..];
            ReadTensor { graph, options, tensor: base, owner, layouts, readers: Vec::new() }
        });
        read.readers.push(reader);
    };
    for (NodeId(n), node) in graph.nodes() {
        for (k, operand) in node.inputs.iter().enumerate() {
            // An operand that takes any layout under every alternative (an index tensor, a scalar) never causes a
            // copy.
            if candidates.nodes[n].iter().any(|a| a.operands[k].is_some()) {
                add(graph.base_and_view(*operand).0, LayoutReader::Operand(n, k));
            }
        }
    }
    for output in graph.outputs() {
        if let Some(key) = demanded_output_layout(graph, options, *output)? {
            add(graph.base_and_view(*output).0, LayoutReader::Caller(key));
        }
    }
    Ok(list.into_iter().flatten().collect())
}

impl ReadTensor<'_> {
    /// The key that a reader needs under an alternative; none accepts any layout.
    fn wanted_layout<'c>(
        &'c self,
        reader: &'c LayoutReader,
        candidates: &'c GraphCandidates,
        at: usize,
    ) -> Option<&'c OperandLayout> {
        match reader {
            LayoutReader::Operand(n, k) => candidates.nodes[*n][at].operands[*k].as_ref(),
            LayoutReader::Caller(key) => Some(key),
        }
    }

    /// Whether a reader finds what it needs where the tensor has this layout.
    fn finds_layout_in_place(
        &self,
        reader: &LayoutReader,
        key: &OperandLayout,
        layout: &StickLayout,
    ) -> bool {
        let t = self.graph.get(self.tensor);
        // The caller reads elements by their physical coordinates, so that two layouts with the same coordinates are
        // the same to it. A kernel derives the layout of its result from that of its operand, down to dimensions of
        // size 1.
        let caller = matches!(reader, LayoutReader::Caller(_)) && key.view.is_none();
        is_read_in_place(self.options, t, layout, key)
            || (caller && have_same_coordinates(&key.layout, layout))
    }

    fn owner_variable(&self) -> Option<usize> {
        match self.owner {
            LayoutOwner::Nobody => None,
            LayoutOwner::Node(n, _) => Some(n),
            LayoutOwner::Free(var) => Some(var),
        }
    }

    /// The layout under a value of the owner's variable.
    fn layout_at_choice<'c>(
        &'c self,
        candidates: &'c GraphCandidates,
        value: usize,
    ) -> &'c StickLayout {
        match self.owner {
            LayoutOwner::Nobody => &self.layouts[0],
            LayoutOwner::Node(n, k) => &candidates.nodes[n][value].results[k],
            LayoutOwner::Free(_) => &self.layouts[value],
        }
    }

    fn add_costs(
        &self,
        problem: &mut ChoiceProblem,
        candidates: &GraphCandidates,
        cost: &mut dyn FnMut(&StickLayout, &OperandLayout) -> u64,
    ) -> Result<()> {
        let mut vars: Vec<usize> = self.owner_variable().into_iter().collect();
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
        if size > MAX_DIRECT_TABLE_ENTRIES {
            return self.add_decomposed_costs(problem, candidates, cost);
        }
        // Layouts and wishes repeat many times among the values of the variables. They are numbered first, so that
        // the loop over all combinations compares numbers and not layouts.
        let reads = ReadCosts::new(self, problem, candidates);
        // Computed where some choice needs it; a move that no choice makes may have no plan.
        let mut prices: HashMap<(usize, usize), u64> = HashMap::new();
        let place = |var: usize| vars.iter().position(|v| *v == var);
        let owner = self.owner_variable().and_then(place);
        let nodes = self.readers.iter().map(|reader| match reader {
            LayoutReader::Operand(n, _) => place(*n),
            LayoutReader::Caller(_) => None,
        });
        let nodes: Vec<Option<usize>> = nodes.collect();
        let mut made: Vec<usize> = Vec::new();
        problem.add_cost(&vars, |values| {
            let own = reads.own_of[owner.map_or(0, |i| values[i])];
            // Under one combination a copy is paid once, however many readers share it.
            made.clear();
            let mut total = 0;
            for (r, node) in nodes.iter().enumerate() {
                let Some(key) = reads.keys_of[r][node.map_or(0, |i| values[i])] else { continue };
                let copy = reads.copy_of[key];
                if !reads.in_place[r][own][key] && !made.contains(&copy) {
                    let price = prices
                        .entry((own, copy))
                        .or_insert_with(|| cost(&reads.owns[own], &reads.keys[key]));
                    total = sum_costs(total, *price);
                    made.push(copy);
                }
            }
            total
        })
    }

    /// The same with small tables: a variable for the layout, one for every copy that may be made, and
    /// one for what each reader needs.
    fn add_decomposed_costs(
        &self,
        problem: &mut ChoiceProblem,
        candidates: &GraphCandidates,
        cost: &mut dyn FnMut(&StickLayout, &OperandLayout) -> u64,
    ) -> Result<()> {
        // The direct table has an entry for every combination of all readers. Here each reader meets the others only
        // through the variables of the copies, so that no table has more than three variables.
        let layouts: Vec<StickLayout> = match self.owner {
            LayoutOwner::Nobody => vec![self.layouts[0].clone()],
            _ => self.layouts.to_vec(),
        };
        let layout_var = match self.owner_variable() {
            None => problem.add_variable(layouts.len()),
            Some(var) => {
                let at = |value: usize| {
                    let own = self.layout_at_choice(candidates, value);
                    layouts.iter().position(|l| l == own).unwrap_or(0)
                };
                let table = (0..problem.domains()[var]).map(at).collect();
                problem.add_following(var, layouts.len(), table)?
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
                let key = self.wanted_layout(reader, candidates, a);
                let at = keys.iter().position(|k| k.as_deref() == key).unwrap_or_else(|| {
                    keys.push(key.map(|k| Rc::new(k.clone())));
                    keys.len() - 1
                });
                of.push(at);
            }
            let wants = match reader {
                LayoutReader::Operand(n, _) => problem.add_following(*n, keys.len(), of)?,
                LayoutReader::Caller(_) => problem.add_variable(keys.len()),
            };
            for (at, key) in keys.iter().enumerate() {
                let Some(key) = key else { continue };
                let there: Vec<bool> = layouts
                    .iter()
                    .map(|own| self.finds_layout_in_place(reader, key, own))
                    .collect();
                let bytes = copy_bytes(self.options, t, key);
                let made = match copies.iter().find(|(known, _)| *known == bytes) {
                    Some((_, made)) => *made,
                    None => {
                        // A copy is made or not: value 1 pays for it once, and readers that need it then pay nothing.
                        // Its best value follows from the other variables, so that it is eliminated first.
                        let made = problem.add_last_variable(2);
                        let mut price = |v: &[usize]| match v[1] {
                            0 => 0,
                            _ => cost(&layouts[v[0]], key),
                        };
                        problem.add_cost(&[layout_var, made], &mut price)?;
                        copies.push((bytes, made));
                        made
                    }
                };
                problem.add_cost(&[wants, layout_var, made], |v| {
                    // A reader whose layout is neither there nor copied cannot run: the infinite cost forces the
                    // copy.
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
    /// Per reader and value of its variable, what it needs; none accepts any layout.
    keys_of: Vec<Vec<Option<usize>>>,
    /// Per key, the number of the copy that serves it: keys of different views may mean the same bytes.
    copy_of: Vec<usize>,
    /// Per reader, layout and key, whether the reader finds what it needs without a copy.
    in_place: Vec<Vec<Vec<bool>>>,
}

impl ReadCosts {
    fn new(
        read: &ReadTensor<'_>,
        problem: &ChoiceProblem,
        candidates: &GraphCandidates,
    ) -> ReadCosts {
        fn number_distinct<T: Clone + PartialEq>(list: &mut Vec<T>, item: &T) -> usize {
            list.iter().position(|other| other == item).unwrap_or_else(|| {
                list.push(item.clone());
                list.len() - 1
            })
        }
        let (mut owns, mut keys) = (Vec::new(), Vec::new());
        // A tensor without an owner has one layout, which is value 0 of a variable that does not exist.
        let values = read.owner_variable().map_or(1, |var| problem.domains()[var]);
        let own_of = (0..values)
            .map(|value| number_distinct(&mut owns, read.layout_at_choice(candidates, value)))
            .collect();
        let wanted = |reader: &LayoutReader| -> Vec<Option<usize>> {
            let values = match reader {
                LayoutReader::Operand(n, _) => candidates.nodes[*n].len(),
                LayoutReader::Caller(_) => 1,
            };
            let wants = (0..values).map(|value| read.wanted_layout(reader, candidates, value));
            wants.map(|key| key.map(|key| number_distinct(&mut keys, key))).collect()
        };
        let keys_of: Vec<Vec<Option<usize>>> = read.readers.iter().map(wanted).collect();
        // All operands obey one rule, so that one table serves them; the caller has a rule of its own.
        let table = |reader: &LayoutReader| -> Vec<Vec<bool>> {
            let found = |own: &StickLayout| -> Vec<bool> {
                keys.iter().map(|key| read.finds_layout_in_place(reader, key, own)).collect()
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
        let copy_of = ReadCosts::number_shared_copies(read, &keys);
        ReadCosts { owns, keys, own_of, keys_of, copy_of, in_place }
    }

    /// Of every key, the number of the copy that serves it.
    fn number_shared_copies(read: &ReadTensor<'_>, keys: &[OperandLayout]) -> Vec<usize> {
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
