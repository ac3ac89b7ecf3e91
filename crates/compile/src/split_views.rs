//! Splits element by element operations on merged views into the dimensions of the tensors behind them.
//!
//! `x.flatten(0, 1) + y` reads a dimension that is spread over two dimensions of `x` on the device. A kernel cannot
//! step along it, so that it would be copied first, as torch-spyre does. The operation is the same in the dimensions of
//! `x`: `y` is seen with its first dimension split, which costs nothing, and so is the result, whose name is then a
//! merged view of it.
//!
//! A dimension is split where the view of an operand passes from one dimension of its tensor to the next. The operands
//! may need several splits of one dimension; those must divide each other.
//!
//! **Law**: the outputs have the same bits and names.

use crate::error::Result;
use crate::fold::fold_graph;
use crate::rebuild::GraphRebuild;
use zellige_graph::{Graph, GraphNode, GraphOperand, OpCall, TensorOrigin};
use zellige_layout::StridedLayout;
use zellige_op::OpForm;

/// The graph with the loops of operations on merged views split; none where there are no such operations.
///
/// # Errors
/// None for a well-typed graph; the errors of its builder otherwise.
pub(crate) fn split_merged_views(graph: &Graph) -> Result<Option<Graph>> {
    let mut to = GraphRebuild::new(graph)?;
    let mut changed = false;
    for (id, t) in graph.tensors() {
        match &t.def {
            TensorOrigin::Input(_) | TensorOrigin::Constant(_) => {}
            TensorOrigin::View { .. } => to.copy_view(id, t)?,
            TensorOrigin::Result(node, k) => {
                let node = graph.node(*node);
                if *k != 0 {
                    continue;
                }
                match split_result_dims(graph, &to, node) {
                    Some(size) => {
                        rebuild_split_op(graph, &mut to, node, &size)?;
                        changed = true;
                    }
                    None => to.copy_node(node)?,
                }
            }
        }
    }
    if !changed {
        return Ok(None);
    }
    // Two operations may have split the same tensor in the same way: folding makes those views one.
    fold_graph(&to.finish_graph()?).map(Some)
}

/// Per dimension of the result, the extents that it is split into, slowest first; none where nothing is to be split.
fn split_result_dims(
    graph: &Graph,
    to: &GraphRebuild<'_>,
    node: &GraphNode,
) -> Option<Vec<Vec<i64>>> {
    let [out] = node.outputs[..] else { return None };
    // Only pointwise operations compute the same in any shape. A pin, a place or a hint names the dimensions that the
    // programmer wrote, so that such an operation keeps them.
    let plain = matches!(node.op.form(), OpForm::Pointwise(_))
        && graph.get(out).pin.is_none()
        && graph.get(out).place.is_none()
        && node.hint.is_empty();
    if !plain {
        return None;
    }
    let size = &graph.get(out).size;
    let mut cuts: Vec<Vec<i64>> = vec![Vec::new(); size.len()];
    for operand in &node.inputs {
        // What was split before is seen in its new dimensions.
        let (base, view) = to.base_and_view(*operand);
        let Some(view) = view else { continue };
        let lead = size.len().checked_sub(view.rank())?;
        for d in (0..view.rank()).filter(|d| view.size()[*d] == size[lead + *d]) {
            let list = &mut cuts[lead + d];
            list.extend(find_dim_crossings(&view, d, &base)?);
            list.sort_unstable();
            list.dedup();
        }
    }
    if cuts.iter().all(Vec::is_empty) {
        return None;
    }
    let extents = |(n, cuts): (&i64, Vec<i64>)| -> Option<Vec<i64>> {
        let mut list = Vec::new();
        let mut inner = 1;
        for cut in cuts.into_iter().chain([*n]) {
            // Two operands may need cuts that do not nest (6 as 2 x 3 and as 3 x 2): no one shape serves both, and
            // the operation stays as it is.
            if cut % inner != 0 {
                return None;
            }
            list.push(cut / inner);
            inner = cut;
        }
        list.reverse();
        Some(list)
    };
    size.iter().zip(cuts).map(extents).collect()
}

/// After how many elements a dimension of a view passes from one dimension of its tensor to the next; none where
/// it does so in the middle of one.
fn find_dim_crossings(view: &StridedLayout, dim: usize, base: &[i64]) -> Option<Vec<i64>> {
    let plain = StridedLayout::new_contiguous(base).ok()?;
    let (n, mut stride) = (view.size()[dim], view.stride()[dim]);
    let mut cuts = Vec::new();
    let mut inner = 1;
    if n <= 1 || stride <= 0 {
        return Some(cuts);
    }
    loop {
        // The dimension of the tensor that the step is taken in.
        let within = |d: &usize| {
            let (size, step) = (plain.size()[*d], plain.stride()[*d]);
            size > 1 && step <= stride && stride < size * step
        };
        let Some(d) = (0..plain.rank()).find(within) else { return Some(cuts) };
        let whole = plain.size()[d] * plain.stride()[d];
        let left = n / inner;
        if stride * left <= whole {
            return Some(cuts);
        }
        // The view passes to the next dimension in the middle of a step: no split makes that a dimension of its own.
        if whole % stride != 0 || left % (whole / stride) != 0 {
            return None;
        }
        inner *= whole / stride;
        cuts.push(inner);
        stride = whole;
    }
}

/// The operation in the split dimensions, and its result seen in those that it had.
fn rebuild_split_op(
    graph: &Graph,
    to: &mut GraphRebuild<'_>,
    node: &GraphNode,
    size: &[Vec<i64>],
) -> Result<()> {
    let out = node.outputs[0];
    let mut operands = Vec::with_capacity(node.inputs.len());
    for (k, operand) in node.inputs.iter().enumerate() {
        let own = &graph.get(*operand).size;
        let lead = size.len() - own.len();
        let split: Vec<i64> = (0..own.len())
            .flat_map(|d| {
                let parts = &size[lead + d];
                if own[d] == parts.iter().product::<i64>() {
                    parts.clone()
                } else {
                    vec![own[d]; parts.len()]
                }
            })
            .collect();
        let tensor = to.successor_tensor(*operand)?;
        let same = split == *own;
        let name = to.free_name(&format!("{}.operand{k}", graph.get(out).name));
        operands.push(match same {
            true => GraphOperand::Tensor(tensor),
            false => {
                let operand = [GraphOperand::Tensor(tensor)];
                let made = to.builder.add_call(&OpCall::view(&split), &operand, &[&name])?;
                GraphOperand::Tensor(made[0])
            }
        });
    }
    let name = to.free_name(&format!("{}.split", graph.get(out).name));
    let made = to.builder.add_op(node.op.name(), &operands, &node.attributes, &[&name])?[0];
    if let Some(at) = &node.at {
        to.builder.set_source_location(made, at.clone());
    }
    let t = graph.get(out);
    let view = OpCall::view(&t.size);
    let seen = to.builder.add_call(&view, &[GraphOperand::Tensor(made)], &[t.name.as_str()])?;
    to.alias_tensor(out, seen[0]);
    Ok(())
}
