//! Alternatives that an earlier compilation chose, checked instead of searched for.
//!
//! **Idea.** Enumerating the alternatives of all operations takes most of the time of a compilation whose other
//! decisions are known. So the chosen ones are recorded with their layouts, and a later compilation tries on every
//! kernel that one combination alone, by the rules with which `probe` accepts a combination.
//!
//! **Invariant.** A record proves nothing: an alternative that its kernel does not accept, a layout that does not
//! belong to the size of its tensor, or a record of other operations makes [`ChosenAlternatives::check_alternatives`]
//! answer `None`, and all alternatives are enumerated. Only the figures of the certificate (`cycles`, `least`) are
//! taken over.
//!
//! **Cost.** One question per distinct operation, so repeated layers are checked once.

use super::{OpAlternative, OperandLayout, bind_operand_layout, input_layout, resolve_pin};
use crate::options::CompilerOptions;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use zellige_device::{PlanOp, TensorLayout};
use zellige_graph::{Graph, GraphNode, TensorOrigin};
use zellige_layout::StridedLayout;
use zellige_stick::{DataFormat, LaneArrangement, StickLayout};

/// The chosen alternative of every operation of a graph, each distinct layout and alternative once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ChosenAlternatives {
    layouts: Vec<LayoutFields>,
    alternatives: Vec<ChosenAlternative>,
    /// Per operation, the number of its alternative.
    nodes: Vec<usize>,
    /// The size of every tensor: for other sizes the same layouts may be accepted and not be good ones.
    sizes: Vec<Vec<i64>>,
}

/// The identity of a layout without gaps.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct LayoutFields {
    device_size: Vec<i64>,
    stride_map: Vec<i64>,
    format: String,
    arrangement: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct ChosenAlternative {
    /// Per operand, whether a copy of its view is read, and the number of the layout; none reads it in any layout.
    operands: Vec<Option<(bool, usize)>>,
    /// Per result, the number of its layout.
    results: Vec<usize>,
    cycles: u64,
    least: u64,
}

/// The alternatives of all operations, and the layouts of all tensors that follow from them.
pub(crate) struct ReplayedLayouts {
    pub(crate) nodes: Vec<OpAlternative>,
    pub(crate) tensors: Vec<Option<StickLayout>>,
}

impl LayoutFields {
    fn from_layout(layout: &StickLayout) -> LayoutFields {
        LayoutFields {
            device_size: layout.device_size().to_vec(),
            stride_map: layout.stride_map().to_vec(),
            format: layout.device_dtype().name().into(),
            arrangement: layout.arrangement().name().into(),
        }
    }

    /// The layout for a tensor of that size; none where there is no such layout.
    fn bind_to_size(&self, size: &[i64]) -> Option<StickLayout> {
        let format = DataFormat::from_name(&self.format)?;
        let layout =
            StickLayout::from_size_and_stride_map(&self.device_size, &self.stride_map, format)
                .ok()?;
        let layout = match LaneArrangement::from_name(&self.arrangement)? {
            LaneArrangement::Standard => layout,
            other => layout.with_arrangement(other).ok()?,
        };
        let layout = layout.with_host(size, None).ok()?;
        layout.lower_to_layout().is_ok().then_some(layout)
    }
}

/// The number of a value among distinct ones, which it joins if it is new.
fn number_distinct<T: Clone + Eq + std::hash::Hash>(
    value: T,
    list: &mut Vec<T>,
    numbers: &mut HashMap<T, usize>,
) -> usize {
    *numbers.entry(value).or_insert_with_key(|value| {
        list.push(value.clone());
        list.len() - 1
    })
}

impl ChosenAlternatives {
    /// The record of an assignment; none where a check would not restore exactly these layouts.
    pub(crate) fn from_alternatives(
        graph: &Graph,
        options: &CompilerOptions,
        nodes: &[OpAlternative],
    ) -> Option<ChosenAlternatives> {
        let (mut layouts, mut layout_numbers) = (Vec::new(), HashMap::new());
        let (mut alternatives, mut alternative_numbers) = (Vec::new(), HashMap::new());
        let mut numbers = Vec::with_capacity(nodes.len());
        for alternative in nodes {
            let mut number = |l: &StickLayout| {
                number_distinct(LayoutFields::from_layout(l), &mut layouts, &mut layout_numbers)
            };
            let operands = alternative.operands.iter();
            let operands = operands
                .map(|o| o.as_ref().map(|key| (key.view.is_some(), number(&key.layout))))
                .collect();
            let results = alternative.results.iter().map(&mut number).collect();
            let (cycles, least) = (alternative.cycles, alternative.least);
            let chosen = ChosenAlternative { operands, results, cycles, least };
            numbers.push(number_distinct(chosen, &mut alternatives, &mut alternative_numbers));
        }
        let sizes = graph.tensors().map(|(_, t)| t.size.to_vec()).collect();
        let record = ChosenAlternatives { layouts, alternatives, nodes: numbers, sizes };
        // A record that would restore something else is not kept: replaying it would give another program than the
        // one it was made from.
        let restored = record.check_alternatives(graph, options)?;
        (restored.nodes == nodes).then_some(record)
    }

    /// Whether the record is of tensors of these sizes.
    pub(crate) fn has_sizes_of(&self, graph: &Graph) -> bool {
        self.sizes.len() == graph.tensors().count()
            && graph.tensors().zip(&self.sizes).all(|((_, t), size)| t.size[..] == size[..])
    }

    /// The alternatives, where every kernel accepts its own.
    pub(crate) fn check_alternatives(
        &self,
        graph: &Graph,
        options: &CompilerOptions,
    ) -> Option<ReplayedLayouts> {
        // Other sizes would be checked and accepted just as well, but what was the best choice for one size need not
        // be a good one for another.
        if !self.has_sizes_of(graph) || self.nodes.len() != graph.nodes().count() {
            return None;
        }
        let mut accepted = HashMap::new();
        let mut nodes = Vec::with_capacity(self.nodes.len());
        for ((_, node), number) in graph.nodes().zip(&self.nodes) {
            let operands: Vec<_> = node
                .inputs
                .iter()
                .map(|o| {
                    let (base, view) = graph.base_and_view(*o);
                    let t = graph.get(base);
                    (&t.size, t.dtype, view)
                })
                .collect();
            let results: Vec<_> = node.outputs.iter().map(|o| &graph.get(*o).size).collect();
            let attributes = serde_json::to_string(&node.attributes).unwrap_or_default();
            let question = (*number, node.op.name(), attributes, operands, results);
            let alternative = match accepted.get(&question) {
                Some(known) => OpAlternative::clone(known),
                None => {
                    let made = self.check_alternative(graph, options, node, *number)?;
                    accepted.insert(question, made.clone());
                    made
                }
            };
            nodes.push(alternative);
        }
        let mut tensors = Vec::with_capacity(graph.tensors().count());
        for (id, t) in graph.tensors() {
            tensors.push(match &t.def {
                TensorOrigin::Result(node, k) => {
                    let own = nodes.get(node.0)?.results.get(*k)?;
                    match &t.pin {
                        Some(pin) => Some(resolve_pin(pin, &t.size, own).ok()?),
                        None => Some(own.clone()),
                    }
                }
                TensorOrigin::Input(_) | TensorOrigin::Constant(_) => {
                    Some(input_layout(graph, options, id).ok()?)
                }
                TensorOrigin::View { .. } => None,
            });
        }
        Some(ReplayedLayouts { nodes, tensors })
    }

    /// One alternative of one operation, where the kernel runs with it.
    fn check_alternative(
        &self,
        graph: &Graph,
        options: &CompilerOptions,
        node: &GraphNode,
        number: usize,
    ) -> Option<OpAlternative> {
        let chosen = self.alternatives.get(number)?;
        let same_counts = chosen.operands.len() == node.inputs.len()
            && chosen.results.len() == node.outputs.len();
        if !same_counts {
            return None;
        }
        let mut results = Vec::with_capacity(node.outputs.len());
        let mut written = Vec::with_capacity(node.outputs.len());
        for (out, number) in node.outputs.iter().zip(&chosen.results) {
            let t = graph.get(*out);
            let layout = self.layouts.get(*number)?.bind_to_size(&t.size)?;
            written.push(TensorLayout::new(options.storage, t.dtype, &layout).ok()?);
            results.push(layout);
        }
        let (cycles, least) = (chosen.cycles, chosen.least);
        if options.coverage.runs_on_host(node.op.layer()) {
            // The host reads operands in any layout, and gives default ones.
            let keep = options.storage.keep;
            let default = |o: &zellige_graph::TensorId| {
                let t = graph.get(*o);
                zellige_device::default_layout(&t.size, None, t.dtype, keep).ok()
            };
            let defaults: Option<Vec<_>> = node.outputs.iter().map(default).collect();
            let as_they_are = chosen.operands.iter().all(Option::is_none);
            let operands = vec![None; node.inputs.len()];
            return (as_they_are && defaults? == results).then_some(OpAlternative {
                operands,
                results,
                cycles,
                least,
            });
        }
        let mut operands = Vec::with_capacity(node.inputs.len());
        let mut read = Vec::with_capacity(node.inputs.len());
        for (operand, choice) in node.inputs.iter().zip(&chosen.operands) {
            let (copied, number) = (*choice)?;
            let (base, view) = graph.base_and_view(*operand);
            let copied_view: Option<StridedLayout> = view.filter(|_| copied).cloned();
            // A record may come from a file: a copy of a view that the graph does not have is no copy.
            if copied && view.is_none() {
                return None;
            }
            let seen = if copied { *operand } else { base };
            let layout = self.layouts.get(number)?.bind_to_size(&graph.get(seen).size)?;
            let key = OperandLayout { view: copied_view, layout };
            read.push(bind_operand_layout(options, graph.get(*operand).dtype, &key, view).ok()?);
            operands.push(Some(key));
        }
        let (_, wanted) = node.op.plan_layouts(&read).ok()?;
        let fits = wanted.inputs.iter().zip(&read).all(|(want, t)| want.accepts_layout(t));
        if !fits
            || !(wanted.outputs == results
                || can_kernel_write(node, options, &read, &wanted.outputs, &written))
        {
            return None;
        }
        node.op.plan_work(&read, &written, None, options.cores).ok()?;
        Some(OpAlternative { operands, results, cycles, least })
    }
}

/// Whether a kernel writes its results in other layouts than its own: a factory fills any layout; others
/// write one result with sticks along the same dimension, or in any layout where they only move elements.
fn can_kernel_write(
    node: &GraphNode,
    options: &CompilerOptions,
    read: &[TensorLayout],
    own: &[StickLayout],
    written: &[TensorLayout],
) -> bool {
    if node.inputs.is_empty() {
        return own
            .iter()
            .zip(written)
            .all(|(o, w)| o.device_dtype() == w.stick_layout().device_dtype());
    }
    let ([own], [written]) = (own, written) else { return false };
    if own.device_dtype() != written.stick_layout().device_dtype() {
        return false;
    }
    let Ok(plain) = TensorLayout::new(options.storage, written.dtype(), own) else {
        return false;
    };
    // The rule of `reorder_results` once more, from the side of the check: which results the kernel can write.
    let moves = matches!(node.op.iteration_space(read, std::slice::from_ref(&plain)), Ok(None));
    let stick = |t: &TensorLayout| t.stick_form().ok().map(|s| s.stick);
    moves || (stick(&plain).is_some() && stick(&plain) == stick(written))
}
