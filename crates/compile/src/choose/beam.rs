//! Layouts as the existing compiler chooses them.
//!
//! Operations are taken in order. Each adds the elements of the operands that it would have restickified,
//! padding included, once per reader; of the partial choices so far, the cheapest 64 go on. It can drop
//! the optimum, never shares a copy, and looks neither at the cost of a move nor at that of an
//! operation.

use super::assign::{Assignment, demanded};
use crate::error::Result;
use crate::options::Options;
use crate::propagate::{Alternative, Candidates, OperandLayout, same_places};
use crate::solve::elimination::plus;
use zellige_graph::{Graph, TensorId};
use zellige_layout::Strided;
use zellige_stick::StickLayout;

/// Partial choices that go on.
const WIDTH: usize = 64;

/// A partial choice: the alternative of every operation so far.
struct PartialAssignment {
    cost: u64,
    values: Vec<usize>,
}

/// The existing compiler's choice.
///
/// # Errors
/// No alternative for some operation.
pub fn beam(graph: &Graph, options: &Options, candidates: &Candidates) -> Result<Assignment> {
    let mut kept = vec![PartialAssignment { cost: 0, values: Vec::new() }];
    for (id, node) in graph.nodes() {
        let list = &candidates.nodes[id.0];
        let mut grown: Vec<(u64, usize, usize)> = Vec::new();
        for (p, partial) in kept.iter().enumerate() {
            for (value, a) in list.iter().enumerate() {
                let mut cost = partial.cost;
                for (operand, key) in node.inputs.iter().zip(&a.operands) {
                    let base = graph.base(*operand).0;
                    let own = lies(graph, candidates, &partial.values, base);
                    if let Some(key) = key
                        && let Some(own) = own
                    {
                        cost = plus(cost, price(graph, base, own, key, false));
                    }
                }
                grown.push((cost, p, value));
            }
        }
        grown.sort_unstable();
        grown.truncate(WIDTH);
        kept = grown
            .into_iter()
            .map(|(cost, p, value)| {
                let mut values = kept[p].values.clone();
                values.push(value);
                PartialAssignment { cost, values }
            })
            .collect();
    }
    // What is returned is moved to its default layout at the end.
    for partial in &mut kept {
        for output in graph.outputs() {
            let base = graph.base(*output).0;
            if let Some(key) = demanded(graph, options, *output)?
                && let Some(own) = lies(graph, candidates, &partial.values, base)
            {
                partial.cost = plus(partial.cost, price(graph, base, own, &key, true));
            }
        }
    }
    let best = kept
        .into_iter()
        .min_by_key(|p| p.cost)
        .unwrap_or(PartialAssignment { cost: 0, values: Vec::new() });
    let nodes: Vec<Alternative> =
        candidates.nodes.iter().zip(&best.values).map(|(list, v)| list[*v].clone()).collect();
    let tensors =
        graph.tensors().map(|(id, _)| lies(graph, candidates, &best.values, id).cloned()).collect();
    Ok(Assignment {
        nodes,
        tensors,
        shared: false,
        cost: best.cost,
        bound: 0,
        unit: "elements",
        choices_log2: candidates.nodes.iter().map(|l| (l.len().max(1) as f64).log2()).sum(),
        width: WIDTH,
    })
}

/// The layout of a tensor under the choices so far; none of a view.
fn lies<'c>(
    graph: &Graph,
    candidates: &'c Candidates,
    values: &[usize],
    id: TensorId,
) -> Option<&'c StickLayout> {
    let t = graph.get(id);
    match &t.def {
        zellige_graph::Def::Result(node, k) if t.pin.is_none() => {
            values.get(node.0).map(|v| &candidates.nodes[node.0][*v].results[*k])
        }
        _ => candidates.tensors[id.0].first(),
    }
}

/// Elements that are restickified, padding included, for a reader that wants this key.
fn price(
    graph: &Graph,
    base: TensorId,
    own: &StickLayout,
    key: &OperandLayout,
    caller: bool,
) -> u64 {
    let size = &graph.get(base).size;
    let plain = || Strided::contiguous(size).ok();
    let whole = key.view.as_ref().is_none_or(|v| plain().as_ref() == Some(v));
    if whole && (key.layout == *own || (caller && same_places(&key.layout, own))) {
        return 0;
    }
    own.positions().unsigned_abs()
}
