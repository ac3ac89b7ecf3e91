//! The alternatives of one operation: combinations of layouts are tried on its kernel until the kernel needs no layout
//! that was not tried.
//!
//! It is a fixed point: a refused combination says which layouts would do, these are added, and the new combinations
//! are tried. It ends because an operand has a limited number of layouts.
//!
//! **Cost.** An operand has at most [`MAX_OPERAND_LAYOUTS`] layouts. All combinations are tried where they are at most
//! [`MAX_LAYOUT_TUPLES`]; beyond, one operand is varied at a time, and then all of them together.

use super::costs::{DefaultCost, KnownCosts};
use super::orders::{batches_outermost, every_order_along, orders_along};
use super::{LayoutPropagation, MAX_OPERAND_LAYOUTS, OpAlternative, OperandLayout};
use crate::error::{CompileError, Result};
use crate::options::CompilePolicy;
use std::cell::RefCell;
use std::collections::HashSet;
use zellige_device::PlanOp;
use zellige_device::{LayoutNeed, TensorLayout, WorkDivision};
use zellige_graph::{GraphNode, NodeId, TensorId};
use zellige_machine::WorkKind;
use zellige_op::OpForm;
use zellige_op::TensorOp;
use zellige_stick::StickLayout;

/// The most combinations of layouts of all operands that are tried.
// Each combination is a plan of the kernel, the expensive part of a compilation; operations with many operands (a
// `cat` of thirty) would have more combinations than could ever be tried.
const MAX_LAYOUT_TUPLES: usize = 400;

/// An operation whose alternatives are looked for.
pub(super) struct AlternativeProbe<'a, 'b> {
    pub(super) pass: &'a LayoutPropagation<'b>,
    pub(super) node: &'a GraphNode,
    pub(super) name: String,
    /// What the operation costs, as far as it is known.
    pub(super) costs: RefCell<&'a mut KnownCosts>,
}

/// A layout of one operand that is tried.
struct TriedLayout {
    key: OperandLayout,
    laid: TensorLayout,
}

impl AlternativeProbe<'_, '_> {
    /// An operation that the host does takes operands in any layout and gives default layouts.
    fn host_alternative(&self) -> Result<OpAlternative> {
        let mut operands = Vec::new();
        for o in &self.node.inputs {
            let (base, view) = self.pass.graph.base_and_view(*o);
            let layout = self.pass.tensors[base.0][0].clone();
            operands.push(self.pass.operand_tensor_layout(
                *o,
                &OperandLayout { view: None, layout },
                view,
            )?);
        }
        let keep = self.pass.options.storage.keep;
        let results: Vec<TensorLayout> = self
            .node
            .outputs
            .iter()
            .map(|o| {
                let t = self.pass.graph.get(*o);
                let layout = zellige_device::default_layout(&t.size, None, t.dtype, keep)?;
                TensorLayout::new(self.pass.options.storage, t.dtype, &layout)
            })
            .collect::<zellige_device::Result<_>>()?;
        // The price of the host is the way to it and back: torch-spyre's fallback is charged the same way in the
        // report.
        let work = self.node.op.plan_round_trip(&operands, &results)?;
        let cycles = self.pass.options.hardware.operation_latency(&work).cycles;
        let results = results.iter().map(|r| r.stick_layout().clone()).collect();
        Ok(OpAlternative { operands: vec![None; operands.len()], results, cycles, least: cycles })
    }

    /// An operation without operands fills any layout.
    fn factory_alternatives(&self) -> Result<Vec<OpAlternative>> {
        let (metas, lay) = self.node.op.plan_layouts(&[])?;
        let options = self.pass.options;
        let mut found: Vec<OpAlternative> = Vec::new();
        let dims = 0..metas.first().map_or(0, |m| m.size.len());
        let wants = std::iter::once(None).chain(dims.map(|d| Some(LayoutNeed::Along(d))));
        for want in wants {
            let mut outs = Vec::new();
            for (m, l) in metas.iter().zip(&lay.outputs) {
                let plain = TensorLayout::new(options.storage, m.dtype, l)?;
                let layout = want.as_ref().map_or(Ok(l.clone()), |w| w.fitting_layout(&plain))?;
                outs.push(TensorLayout::new(options.storage, m.dtype, &layout)?);
            }
            let Ok((_, work)) = self.node.op.plan_work(&[], &outs, None, options.cores) else {
                continue;
            };
            let results: Vec<StickLayout> = outs.iter().map(|o| o.stick_layout().clone()).collect();
            // Two needs may mean the same layout, and equal alternatives would only enlarge the tables of the solver.
            if !found.iter().any(|a| a.results == results) {
                let cycles = options.hardware.operation_latency(&work).cycles;
                let least = self.least_cycles(&[], &outs, cycles);
                found.push(OpAlternative { operands: Vec::new(), results, cycles, least });
            }
        }
        Ok(found)
    }

    /// Every combination of layouts that the operation runs with.
    ///
    /// # Errors
    /// An operation that runs with none, with the reason of its kernel.
    pub(super) fn find_alternatives(&self, id: NodeId) -> Result<Vec<OpAlternative>> {
        if self.pass.options.coverage.runs_on_host(self.node.op.layer()) {
            return Ok(vec![self.host_alternative()?]);
        }
        if self.node.inputs.is_empty() {
            let list = self.factory_alternatives()?;
            if !list.is_empty() {
                return Ok(list);
            }
        }
        let mut options: Vec<Vec<TriedLayout>> = Vec::new();
        for o in &self.node.inputs {
            let (base, view) = self.pass.graph.base_and_view(*o);
            let mut list = Vec::new();
            for layout in &self.pass.tensors[base.0] {
                let key = OperandLayout { view: None, layout: layout.clone() };
                let laid = self.pass.operand_tensor_layout(*o, &key, view)?;
                list.push(TriedLayout { key, laid });
            }
            options.push(list);
        }
        self.add_every_stick(&mut options)?;
        let mut found: Vec<OpAlternative> = Vec::new();
        // Every round lists all combinations anew, because a new layout of one operand combines with all layouts of
        // the others; those done before are skipped.
        let mut done: HashSet<Vec<usize>> = HashSet::new();
        let mut refusal: Option<String> = None;
        loop {
            let mut wanted: Vec<(usize, StickLayout)> = Vec::new();
            for tuple in combine_layouts(&options) {
                if !done.insert(tuple.clone()) {
                    continue;
                }
                let operands: Vec<TensorLayout> =
                    tuple.iter().zip(&options).map(|(i, list)| list[*i].laid.clone()).collect();
                match self.try_layouts(&operands, &mut wanted) {
                    Ok(Some((results, cycles))) => {
                        let keys = tuple.iter().zip(&options).map(|(i, list)| list[*i].key.clone());
                        let keys: Vec<Option<OperandLayout>> = keys.map(Some).collect();
                        let least = self.least_cycles_for(&operands, &results, cycles);
                        for (results, cycles) in self.reorder_results(&operands, &results) {
                            let least = least.min(cycles);
                            let operands = keys.clone();
                            found.push(OpAlternative { operands, results, cycles, least });
                        }
                        found.push(OpAlternative { operands: keys, results, cycles, least });
                    }
                    Ok(None) => {}
                    Err(e) => refusal = Some(e.to_string()),
                }
            }
            let mut grown = false;
            for (k, layout) in wanted {
                grown |= self.add_layout(&mut options[k], k, layout)?;
            }
            if !grown {
                break;
            }
        }
        // After the search and not before it, because the rule names the layouts that were found.
        if self.pass.options.strict {
            self.refuse_as_upstream(&options)?;
        }
        if found.is_empty() {
            match self.follow_kernel_wishes(&mut options) {
                Ok(alternative) => found.extend(alternative),
                Err(e) => refusal = Some(e.to_string()),
            }
        }
        if found.is_empty() {
            let reason = refusal.unwrap_or_else(|| "no layouts of its operands suit it".into());
            let op = self.node.op.name().to_string();
            return Err(CompileError::Infeasible {
                node: id.0,
                result: self.name.clone(),
                op,
                reason,
            });
        }
        Ok(found)
    }

    /// Adds a copy of every operand with sticks along each of its dimensions, where the kernel cares. An operand may
    /// be smaller than the result, so that moving it is cheaper than moving the result for its readers.
    fn add_every_stick(&self, options: &mut [Vec<TriedLayout>]) -> Result<()> {
        if !self.pass.every_stick {
            return Ok(());
        }
        let firsts: Vec<TensorLayout> = options.iter().map(|list| list[0].laid.clone()).collect();
        let Ok((_, lay)) = self.node.op.plan_layouts(&firsts) else { return Ok(()) };
        for (k, (want, t)) in lay.inputs.iter().zip(&firsts).enumerate() {
            // A kernel that takes any layout gains nothing from a copy, and one that takes a single layout accepts no
            // other.
            if matches!(want, LayoutNeed::Any | LayoutNeed::Layout(_)) {
                continue;
            }
            for d in (0..t.size().len()).filter(|d| t.size()[*d] > 1) {
                let along = LayoutNeed::Along(d);
                if !options[k].iter().any(|tried| along.accepts_layout(&tried.laid)) {
                    self.add_layout(&mut options[k], k, along.fitting_layout(t)?)?;
                }
            }
        }
        Ok(())
    }

    /// The results in other orders of their dimensions, each with what the operation then takes. A kernel writes
    /// any order whose sticks run as in its own; what only moves elements writes any layout.
    fn reorder_results(
        &self,
        operands: &[TensorLayout],
        results: &[StickLayout],
    ) -> Vec<(Vec<StickLayout>, u64)> {
        let options = self.pass.options;
        let ([own], [out]) = (results, &self.node.outputs[..]) else { return Vec::new() };
        if options.policy != CompilePolicy::Best {
            return Vec::new();
        }
        let dtype = self.pass.graph.get(*out).dtype;
        let laid = |layout: &StickLayout| TensorLayout::new(options.storage, dtype, layout);
        let (Ok(plain), Ok(stick)) =
            (laid(own), laid(own).and_then(|l| l.stick_form()).map(|s| s.stick))
        else {
            return Vec::new();
        };
        // What only moves elements has no loops along lanes, so that it can write any layout; a kernel with loops
        // writes the lanes that it computed.
        let moves = matches!(
            self.node.op.iteration_space(operands, std::slice::from_ref(&plain)),
            Ok(None)
        );
        let orders = match stick {
            Some(stick) if self.pass.every_order => {
                let mut orders = orders_along(&plain, stick);
                orders.extend(every_order_along(&plain, stick));
                orders
            }
            Some(stick) if self.pass.every_stick => orders_along(&plain, stick),
            _ => Vec::new(),
        };
        let mut found: Vec<(Vec<StickLayout>, u64)> = Vec::new();
        for layout in self.pass.wanted_layouts(*out).iter().chain(&orders) {
            let known = layout == own || found.iter().any(|(r, _)| r[0] == *layout);
            if known || layout.device_dtype() != own.device_dtype() {
                continue;
            }
            let Ok(result) = laid(layout) else { continue };
            // A kernel writes a result in any order of its dimensions, but its lanes are where its loops run along
            // lanes.
            if !moves && !matches!(result.stick_form(), Ok(form) if form.stick == stick) {
                continue;
            }
            if let Ok(cost) = self.default_cost(operands, &[result]) {
                found.push((vec![layout.clone()], cost.cycles));
            }
        }
        found
    }

    /// The combination to which the kernel itself leads: every operand that does not fit is moved into the layout that
    /// the kernel needs, as when operations run one by one. The combinations of many layouts are not all tried, and
    /// this one may not be among them.
    fn follow_kernel_wishes(
        &self,
        options: &mut [Vec<TriedLayout>],
    ) -> Result<Option<OpAlternative>> {
        let mut at = vec![0; options.len()];
        // Each round moves at least one operand, so that after one round per operand all fit, or the kernel refuses
        // them for another reason.
        for _ in 0..=options.len() {
            let operands: Vec<TensorLayout> =
                at.iter().zip(&*options).map(|(i, list)| list[*i].laid.clone()).collect();
            if let Some((results, cycles)) = self.try_layouts(&operands, &mut Vec::new())? {
                let keys = at.iter().zip(&*options).map(|(i, list)| Some(list[*i].key.clone()));
                let least = self.least_cycles_for(&operands, &results, cycles);
                return Ok(Some(OpAlternative {
                    operands: keys.collect(),
                    results,
                    cycles,
                    least,
                }));
            }
            let (_, lay) = self.node.op.plan_layouts(&operands)?;
            for (k, (want, t)) in lay.inputs.iter().zip(&operands).enumerate() {
                if !want.accepts_layout(t) {
                    let operand = self.node.inputs[k];
                    let (_, view) = self.pass.graph.base_and_view(operand);
                    let key =
                        OperandLayout { view: view.cloned(), layout: want.fitting_layout(t)? };
                    let laid = self.pass.operand_tensor_layout(operand, &key, view)?;
                    at[k] = options[k].len();
                    options[k].push(TriedLayout { key, laid });
                }
            }
        }
        Ok(None)
    }

    /// What the operation takes in its default division.
    fn default_cost(
        &self,
        operands: &[TensorLayout],
        outs: &[TensorLayout],
    ) -> Result<DefaultCost> {
        // Priced once for each combination of layouts: graphs with a pin, and the search, need the same ones again
        // and again.
        let layouts = [operands, outs].concat();
        if let Some(known) = self.costs.borrow().default.get(&layouts) {
            return Ok(*known);
        }
        let options = self.pass.options;
        let (_, work) = self.node.op.plan_work(operands, outs, None, options.cores)?;
        let cycles = options.hardware.operation_latency(&work).cycles;
        let slow_batches = matches!(work.kind, WorkKind::BatchMatmulDefault { .. });
        let cost = DefaultCost { cycles, slow_batches };
        self.costs.borrow_mut().default.insert(layouts, cost);
        Ok(cost)
    }

    /// The results and the cycles of one combination; none where an operand has to be moved, and then the
    /// layouts that would do.
    fn try_layouts(
        &self,
        operands: &[TensorLayout],
        wanted: &mut Vec<(usize, StickLayout)>,
    ) -> Result<Option<(Vec<StickLayout>, u64)>> {
        let op: &TensorOp = &self.node.op;
        let (metas, lay) = op.plan_layouts(operands)?;
        let mut fits = true;
        for (k, (want, t)) in lay.inputs.iter().zip(operands).enumerate() {
            if want.accepts_layout(t) {
                continue;
            }
            fits = false;
            wanted.push((k, want.fitting_layout(t)?));
            // The other way round: this operand stays, and all others get its stick. Which of the two moves is cheaper
            // depends on the sizes, so that both are alternatives.
            if let (LayoutNeed::Along(_) | LayoutNeed::Sparse, Ok(form)) = (want, t.stick_form()) {
                self.suit_other_operands(k, form.stick, operands, wanted)?;
            }
        }
        if !fits {
            return Ok(None);
        }
        let storage = self.pass.options.storage;
        let outs: Vec<TensorLayout> = metas
            .iter()
            .zip(&lay.outputs)
            .map(|(m, l)| TensorLayout::new(storage, m.dtype, l))
            .collect::<zellige_device::Result<_>>()?;
        let cost = self.default_cost(operands, &outs)?;
        // The account of the device knows the default order of batched products as slow. Only then is the other order
        // worth a combination more.
        if self.pass.options.policy == CompilePolicy::Best && cost.slow_batches {
            for (k, t) in operands.iter().enumerate() {
                if let Some(layout) = batches_outermost(t)? {
                    wanted.push((k, layout));
                }
            }
        }
        Ok(Some((lay.outputs, cost.cycles)))
    }

    /// As [`AlternativeProbe::least_cycles`], for results in these layouts.
    fn least_cycles_for(
        &self,
        operands: &[TensorLayout],
        results: &[StickLayout],
        cycles: u64,
    ) -> u64 {
        let storage = self.pass.options.storage;
        let dtypes = self.node.outputs.iter().map(|o| self.pass.graph.get(*o).dtype);
        let outs: zellige_device::Result<Vec<TensorLayout>> =
            dtypes.zip(results).map(|(dtype, l)| TensorLayout::new(storage, dtype, l)).collect();
        outs.map_or(0, |outs| self.least_cycles(operands, &outs, cycles))
    }

    /// Cycles that the operation takes at least in every division, with everything in the scratchpads that could be
    /// there: what is given from outside, seen through a view or returned goes through memory. `cycles` is what it
    /// takes in one of them.
    fn least_cycles(&self, operands: &[TensorLayout], outs: &[TensorLayout], cycles: u64) -> u64 {
        let ids = || self.node.inputs.iter().chain(&self.node.outputs);
        let mut through: Vec<TensorId> = Vec::new();
        let counted = |id: &TensorId| {
            let base = self.pass.graph.base_and_view(*id).0;
            // A tensor that is read twice by one operation may be read once and shared: the bound counts its bytes
            // once.
            let counts = self.pass.passes_through_memory(*id) && !through.contains(&base);
            if counts {
                through.push(base);
            }
            counts
        };
        let counted: Vec<bool> = ids().map(counted).collect();
        let question = ([operands, outs].concat(), counted);
        if let Some(known) = self.costs.borrow().least.get(&question) {
            return *known;
        }
        let least = self
            .least_cycles_from_loops(operands, outs, &question.1)
            .map_or(cycles, |l| l.min(cycles));
        self.costs.borrow_mut().least.insert(question, least);
        least
    }

    /// The same without what it takes in one division; none of an operation without loops. `counted` are the operands
    /// and results that go through memory, each tensor once.
    fn least_cycles_from_loops(
        &self,
        operands: &[TensorLayout],
        outs: &[TensorLayout],
        counted: &[bool],
    ) -> Option<u64> {
        let (options, op) = (self.pass.options, &self.node.op);
        let Ok(Some(spans)) = op.iteration_space(operands, outs) else { return None };
        // The arithmetic of the whole operation, which the bound then spreads evenly over all cores: no division has
        // less of it, and none spreads it better.
        let one = WorkDivision::on_one_core(spans.len());
        let Ok((_, work)) = op.plan_work(operands, outs, Some(&one), options.cores) else {
            return Some(0);
        };
        let [whole] = &work.cores[..] else { return Some(0) };
        let mut bytes = 0u64;
        // An operation without loops (a gather) may read only a part of its operands, so that their bytes are no lower
        // bound of its traffic.
        if matches!(op.tensor_loops(operands, outs), Ok(Some(_))) {
            let tensors = operands.iter().chain(outs).zip(counted);
            for (t, _) in tensors.filter(|(_, counted)| **counted) {
                if let Ok(form) = t.stick_form() {
                    let (traffic, padding) = form.stick_traffic();
                    // Without padding: a division may leave out sticks that hold padding alone.
                    bytes = bytes.saturating_add(traffic.total_bytes().saturating_sub(padding));
                }
            }
        }
        Some(options.hardware.lower_bound_cycles(whole, bytes, options.cores))
    }

    /// Layouts of the other operands whose lanes run along the dimension that broadcasting aligns with dimension
    /// `stick` of operand `k`.
    fn suit_other_operands(
        &self,
        k: usize,
        stick: Option<usize>,
        operands: &[TensorLayout],
        wanted: &mut Vec<(usize, StickLayout)>,
    ) -> Result<()> {
        let rank = operands[k].size().len();
        for (i, t) in operands.iter().enumerate().filter(|(i, _)| *i != k) {
            let want = match stick.and_then(|s| (t.size().len() + s).checked_sub(rank)) {
                Some(d) if t.size()[d] > 1 => LayoutNeed::Along(d),
                _ => continue,
            };
            if !want.accepts_layout(t) {
                wanted.push((i, want.fitting_layout(t)?));
            }
        }
        Ok(())
    }

    /// Adds a layout of an operand unless it is known or there are too many.
    fn add_layout(
        &self,
        list: &mut Vec<TriedLayout>,
        k: usize,
        layout: StickLayout,
    ) -> Result<bool> {
        let operand = self.node.inputs[k];
        let (_, view) = self.pass.graph.base_and_view(operand);
        let key = OperandLayout { view: view.cloned(), layout };
        if list.len() >= MAX_OPERAND_LAYOUTS || list.iter().any(|t| t.key == key) {
            return Ok(false);
        }
        let laid = self.pass.operand_tensor_layout(operand, &key, view)?;
        list.push(TriedLayout { key, laid });
        Ok(true)
    }

    /// Refuses what torch-spyre (mid 2026) refuses at compile time.
    fn refuse_as_upstream(&self, options: &[Vec<TriedLayout>]) -> Result<()> {
        let firsts: Vec<TensorLayout> = options.iter().map(|list| list[0].laid.clone()).collect();
        let Ok((_, lay)) = self.node.op.plan_layouts(&firsts) else { return Ok(()) };
        let form = self.node.op.form();
        let whole_only = matches!(form, OpForm::Norm(norm) if norm.0.trailing_shape().is_some());
        for (k, (want, t)) in lay.inputs.iter().zip(&firsts).enumerate() {
            let rule = match (t.stick_form(), want) {
                _ if whole_only && k == 0 && !t.is_base() => "views are not supported".into(),
                _ if want.accepts_layout(t) => continue,
                (Err(e), _) => {
                    format!("stick expression with an offset or over several dimensions: {e}")
                }
                (Ok(form), LayoutNeed::Along(_)) if form.stick.is_none() && t.numel() > 1 => {
                    "No mechanism to gather elements from multiple sticks into single stick".into()
                }
                _ => continue,
            };
            return Err(CompileError::Strict {
                op: self.node.op.name().into(),
                result: self.name.clone(),
                operand: k,
                layout: t.stick_layout().to_string(),
                rule,
            });
        }
        if let Some((operand, rule)) = self.find_write_inside_stick(&firsts, &lay.outputs)? {
            return Err(CompileError::Strict {
                op: self.node.op.name().into(),
                result: self.name.clone(),
                operand,
                layout: firsts[operand].stick_layout().to_string(),
                rule,
            });
        }
        Ok(())
    }
}

/// Combinations of layouts: all of them, or where those are too many, the first layouts of all
/// operands with one varied, and all operands at the same place of their lists.
fn combine_layouts(options: &[Vec<TriedLayout>]) -> Vec<Vec<usize>> {
    let sizes: Vec<usize> = options.iter().map(Vec::len).collect();
    let all = sizes.iter().fold(1usize, |n, s| n.saturating_mul(*s));
    if all <= MAX_LAYOUT_TUPLES {
        let mut list = vec![Vec::new()];
        for n in sizes {
            list = list
                .into_iter()
                .flat_map(|head: Vec<usize>| (0..n).map(move |i| [head.as_slice(), &[i]].concat()))
                .collect();
        }
        return list;
    }
    // One operand varied at a time finds what a single move can do; all at the same place finds the layouts that were
    // added for all operands alike, such as one stick for everybody.
    let mut list = vec![vec![0; sizes.len()]];
    for (k, n) in sizes.iter().enumerate() {
        list.extend((1..*n).map(|i| {
            let mut tuple = vec![0; sizes.len()];
            tuple[k] = i;
            tuple
        }));
    }
    let most = sizes.iter().copied().max().unwrap_or(0);
    list.extend((1..most).map(|i| sizes.iter().map(|n| i.min(n - 1)).collect()));
    list.truncate(MAX_LAYOUT_TUPLES);
    list
}
