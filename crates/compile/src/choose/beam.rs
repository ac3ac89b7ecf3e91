//! Layouts as torch-spyre (summer 2026) chooses them.
//!
//! A beam search over the operations in topological order (`optimize_restickify_locations`). Each operation adds the
//! elements of the operands that would be restickified for it, padding included, once per reader; of the partial
//! choices so far, the cheapest 64 are continued. It can drop the optimum, never shares a copy, and looks neither at
//! the cost of a move nor at that of an operation.

use super::assign::{LayoutAssignment, demanded_output_layout};
use super::search::{CandidateSet, SearchRecord};
use crate::error::Result;
use crate::options::CompilerOptions;
use crate::propagate::{GraphCandidates, OpAlternative, OperandLayout, have_same_coordinates};
use crate::solve::elimination::sum_costs;
use zellige_graph::{Graph, TensorId, TensorOrigin};
use zellige_layout::StridedLayout;
use zellige_stick::StickLayout;

/// Partial choices that are continued.
// The width that torch-spyre had in summer 2026; from August on it is 200. The recorded answers that the tests
// compare with come from the narrower one.
const BEAM_WIDTH: usize = 64;

/// A partial choice: the alternatives of the operations whose results are still to be read.
struct PartialAssignment {
    cost: u64,
    live: Vec<(usize, usize)>,
}

/// The choice of torch-spyre.
///
/// **Cost.** A partial choice holds what later operations can still read, so that a chain of `n` operations takes
/// time in the order of `n`; what was chosen on the way is a link to the choice before it.
///
/// # Errors
/// No alternative for some operation.
pub fn choose_by_beam(
    graph: &Graph,
    options: &CompilerOptions,
    candidates: &GraphCandidates,
) -> Result<LayoutAssignment> {
    let last_read = find_last_reads(graph);
    let mut kept = vec![PartialAssignment { cost: 0, live: Vec::new() }];
    // Of every operation, for each choice that was continued: the choice before it, and its alternative.
    let mut links: Vec<Vec<(usize, usize)>> = Vec::with_capacity(candidates.nodes.len());
    for (id, node) in graph.nodes() {
        zellige_guard::count_many_steps(BEAM_WIDTH);
        let list = &candidates.nodes[id.0];
        let mut grown: Vec<(u64, usize, usize)> = Vec::new();
        for (p, partial) in kept.iter().enumerate() {
            for (value, a) in list.iter().enumerate() {
                let mut cost = partial.cost;
                for (operand, key) in node.inputs.iter().zip(&a.operands) {
                    let base = graph.base_and_view(*operand).0;
                    let own = layout_in_partial(graph, candidates, &partial.live, base);
                    if let Some(key) = key
                        && let Some(own) = own
                    {
                        cost = sum_costs(cost, count_restickified(graph, base, own, key, false));
                    }
                }
                grown.push((cost, p, value));
            }
        }
        // Equal costs are ordered by the number of the partial choice and of the alternative, so that the answer does
        // not depend on the sort.
        grown.sort_unstable();
        grown.truncate(BEAM_WIDTH);
        links.push(grown.iter().map(|(_, p, value)| (*p, *value)).collect());
        kept = grown
            .into_iter()
            .map(|(cost, p, value)| {
                // Two partial choices that agree on what is still read differ in the past alone; the past is in
                // `links`, so that a long chain does not carry it along.
                let read_later = |n: usize| last_read[n].is_some_and(|last| last > id.0);
                let before = kept[p].live.iter().copied();
                let live = before.chain([(id.0, value)]).filter(|(n, _)| read_later(*n)).collect();
                PartialAssignment { cost, live }
            })
            .collect();
    }
    // What is returned is moved to its default layout at the end.
    for partial in &mut kept {
        for output in graph.outputs() {
            let base = graph.base_and_view(*output).0;
            if let Some(key) = demanded_output_layout(graph, options, *output)?
                && let Some(own) = layout_in_partial(graph, candidates, &partial.live, base)
            {
                partial.cost =
                    sum_costs(partial.cost, count_restickified(graph, base, own, &key, true));
            }
        }
    }
    let best = (0..kept.len()).min_by_key(|p| kept[*p].cost).unwrap_or(0);
    let mut values: Vec<(usize, usize)> = Vec::with_capacity(links.len());
    let mut at = best;
    for (n, list) in links.iter().enumerate().rev() {
        let (before, value) = list[at];
        values.push((n, value));
        at = before;
    }
    values.reverse();
    let nodes: Vec<OpAlternative> =
        candidates.nodes.iter().zip(&values).map(|(list, (_, v))| list[*v].clone()).collect();
    let tensors = graph.tensors().map(|(id, t)| match &t.def {
        TensorOrigin::Result(node, k) if t.pin.is_none() => Some(nodes[node.0].results[*k].clone()),
        _ => candidates.tensors[id.0].first().cloned(),
    });
    Ok(LayoutAssignment {
        tensors: tensors.collect(),
        nodes,
        // Every reader of torch-spyre has a copy of its own, and its cost counts them so; lowering must do the same,
        // or it would be compared with a program that it does not make.
        shared: false,
        cost: kept[best].cost,
        bound: 0,
        unit: "elements",
        choices_log2: candidates.nodes.iter().map(|l| (l.len().max(1) as f64).log2()).sum(),
        width: BEAM_WIDTH,
        divisions: options.policy,
        set: CandidateSet::Existing,
        search: SearchRecord::default(),
        least: 0,
    })
}

/// Of every operation, the last one that reads a result of it; past all of them where the caller does.
fn find_last_reads(graph: &Graph) -> Vec<Option<usize>> {
    let count = graph.nodes().count();
    let mut last = vec![None; count];
    let mut read = |tensor: TensorId, by: usize| {
        if let TensorOrigin::Result(node, _) = graph.get(graph.base_and_view(tensor).0).def {
            last[node.0] = Some(by);
        }
    };
    for (id, node) in graph.nodes() {
        node.inputs.iter().for_each(|operand| read(*operand, id.0));
    }
    graph.outputs().iter().for_each(|output| read(*output, count));
    last
}

/// The layout of a tensor under the choices so far; none of a view.
fn layout_in_partial<'c>(
    graph: &Graph,
    candidates: &'c GraphCandidates,
    live: &[(usize, usize)],
    id: TensorId,
) -> Option<&'c StickLayout> {
    let t = graph.get(id);
    match &t.def {
        TensorOrigin::Result(node, k) if t.pin.is_none() => live
            .iter()
            .find(|(n, _)| *n == node.0)
            .map(|(n, v)| &candidates.nodes[*n][*v].results[*k]),
        _ => candidates.tensors[id.0].first(),
    }
}

/// Elements that are restickified, padding included, for a reader that needs this key.
fn count_restickified(
    graph: &Graph,
    base: TensorId,
    own: &StickLayout,
    key: &OperandLayout,
    caller: bool,
) -> u64 {
    // A view that is the whole tensor in row-major order is no view: the elements are where they were.
    let same = || key.layout == *own || (caller && have_same_coordinates(&key.layout, own));
    let plain = || StridedLayout::new_contiguous(&graph.get(base).size).ok();
    if same() && key.view.as_ref().is_none_or(|v| plain().as_ref() == Some(v)) {
        return 0;
    }
    own.count_positions().unsigned_abs()
}
