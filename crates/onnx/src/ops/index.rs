//! Rules for elements that are looked up by index.

use super::RuleTable;
use super::rearrange::take_along_dim;
use crate::error::Result;
use crate::literal::{LiteralNumbers, TensorLiteral, element_count};
use crate::node::NodeLowering;
use crate::walk::ModelValue;
use std::rc::Rc;
use zellige_graph::{GraphOperand, OpCall, TensorId};

pub(super) const TABLE: RuleTable = &[
    ("Gather", lower_gather),
    ("GatherElements", lower_gather_elements),
    ("GatherND", lower_gather_nd),
    ("ScatterElements", lower_scatter_elements),
    ("Scatter", lower_scatter_elements),
    ("ScatterND", lower_scatter_nd),
    ("OneHot", lower_one_hot),
    ("Compress", lower_compress),
];

/// Checks known indices and counts negative ones from the start.
fn wrap_indices(
    n: &NodeLowering<'_, '_>,
    index: &TensorLiteral,
    extent: i64,
) -> Result<TensorLiteral> {
    let bad = |v: i64| n.refuse_operand(1, format!("index {v} of {extent} elements"));
    let Some(list) = index.whole_numbers() else {
        return Err(n.refuse_operand(1, format!("indices are integers, not {}", index.dtype)));
    };
    let at = |v: &i64| {
        let w = if *v < 0 { v.saturating_add(extent) } else { *v };
        if (0..extent).contains(&w) { Ok(w) } else { Err(bad(*v)) }
    };
    let data = LiteralNumbers::Int(list.iter().map(at).collect::<Result<_>>()?);
    Ok(TensorLiteral { data, ..index.clone() })
}

/// The indices of operand 1 as a tensor. Computed indices must not be negative.
fn index_tensor(n: &mut NodeLowering<'_, '_>, extent: i64) -> Result<TensorId> {
    match n.operand_literal(1)? {
        // ONNX allows indices from -n to n - 1, and the card counts from the start only. Known ones
        // are moved here.
        Some(index) if index.whole_numbers().is_some_and(|v| v.iter().any(|i| *i < 0)) => {
            let index = wrap_indices(n, &index, extent)?;
            let name = n.free_name("index");
            n.import.materialize_literal(&index, name).map_err(|e| n.refuse_operand(1, e.message))
        }
        _ => n.operand_tensor(1),
    }
}

fn lower_gather(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    n.check_arity(2, 2)?;
    let (size, picked) = (n.operand_size(0)?, n.operand_size(1)?);
    let axis = n.int_attribute("axis", 0)?;
    let dim = n.normalize_dim(axis, size.len())?;
    if let Some(index) = n.operand_literal(1)? {
        let index = wrap_indices(n, &index, size[dim])?;
        let at = index.whole_numbers().unwrap_or_default();
        if let Some(x) = n.operand_literal(0)?
            && let Some(made) = take_along_dim(&x, dim, at, &picked)
        {
            return Ok(vec![ModelValue::Known(Rc::new(made))]);
        }
        // A scalar index removes the dimension, which a view does without moving an element.
        if let ([], [at]) = (&picked[..], at) {
            let x = n.operand_tensor(0)?;
            let call = OpCall::select(dim, *at);
            return Ok(vec![n.emit_result(call, &[GraphOperand::Tensor(x)])?]);
        }
    }
    let x = GraphOperand::Tensor(n.operand_tensor(0)?);
    let index = index_tensor(n, size[dim])?;
    // A lookup of rows of a matrix is an embedding; the card has a kernel for it.
    if dim == 0 && size.len() == 2 {
        return Ok(vec![n.emit_result("embedding", &[x, GraphOperand::Tensor(index)])?]);
    }
    if picked.len() == 1 {
        return Ok(vec![n.emit_result(
            OpCall::new("index_select").with("dim", dim),
            &[x, GraphOperand::Tensor(index)],
        )?]);
    }
    // `index_select` takes a list, so an index of more dimensions is flattened and its shape put
    // back in the place of the gathered dimension.
    let count = element_count(&picked).unwrap_or(0);
    let flat = n.emit_part("index", OpCall::reshape([count]), &[GraphOperand::Tensor(index)])?;
    let rows = n.emit_part(
        "rows",
        OpCall::new("index_select").with("dim", dim),
        &[x, GraphOperand::Tensor(flat)],
    )?;
    let shape = [&size[..dim], &picked, &size[dim + 1..]].concat();
    Ok(vec![n.emit_result(OpCall::reshape(shape), &[GraphOperand::Tensor(rows)])?])
}

fn lower_gather_elements(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    n.check_arity(2, 2)?;
    let size = n.operand_size(0)?;
    let axis = n.int_attribute("axis", 0)?;
    let dim = n.normalize_dim(axis, size.len())?;
    let (x, index) = (n.operand_tensor(0)?, index_tensor(n, size[dim])?);
    let operands = [GraphOperand::Tensor(x), GraphOperand::Tensor(index)];
    Ok(vec![n.emit_result(OpCall::new("gather").with("dim", dim), &operands)?])
}

/// One tensor of indices for each leading dimension, taken from the last dimension of operand 1.
fn leading_indices(n: &mut NodeLowering<'_, '_>) -> Result<Vec<GraphOperand>> {
    let (size, index) = (n.operand_size(0)?, n.operand_size(1)?);
    let Some(count) = index.last().and_then(|c| usize::try_from(*c).ok()) else {
        return Err(n.refuse_operand(1, "a single number; accepted: tuples of indices"));
    };
    // GatherND addresses the leading dimensions by tuples; the last dimension of the indices is the
    // length of a tuple.
    if count == 0 || count > size.len() || index.len() < 2 {
        let message =
            format!("{index:?} holds tuples of {count}; accepted: lists of 1 to {}", size.len());
        return Err(n.refuse_operand(1, message));
    }
    let all = GraphOperand::Tensor(n.operand_tensor(1)?);
    let last = index.len() - 1;
    (0..count)
        .map(|k| {
            let call = OpCall::select(last, i64::try_from(k).unwrap_or(i64::MAX));
            n.emit_part(&format!("index{k}"), call, std::slice::from_ref(&all))
                .map(GraphOperand::Tensor)
        })
        .collect()
}

fn lower_gather_nd(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    n.check_arity(2, 2)?;
    // With batch dimensions every batch would index its own slice, for which the card has no
    // operation.
    n.require_attribute_is("batch_dims", 0)?;
    let mut operands = vec![GraphOperand::Tensor(n.operand_tensor(0)?)];
    operands.extend(leading_indices(n)?);
    Ok(vec![n.emit_result("index", &operands)?])
}

fn lower_scatter_elements(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    n.check_arity(3, 3)?;
    let size = n.operand_size(0)?;
    let axis = n.int_attribute("axis", 0)?;
    let dim = n.normalize_dim(axis, size.len())?;
    let how = n.word_attribute("reduction", "none")?;
    // `reduction` exists since opset 16, `max` and `min` since opset 18.
    let reduce = match how.as_str() {
        "none" => "none",
        "add" => "sum",
        "mul" => "prod",
        "max" => "amax",
        "min" => "amin",
        other => {
            let message =
                format!("attribute `reduction` is `{other}`; accepted: none, add, mul, max, min");
            return Err(n.refuse_node("bad_attribute", message));
        }
    };
    let (x, index, values) =
        (n.operand_tensor(0)?, index_tensor(n, size[dim])?, n.operand_tensor(2)?);
    let operands = [x, index, values].map(GraphOperand::Tensor);
    Ok(vec![
        n.emit_result(OpCall::new("scatter").with("dim", dim).with("reduce", reduce), &operands)?,
    ])
}

fn lower_scatter_nd(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    n.check_arity(3, 3)?;
    let how = n.word_attribute("reduction", "none")?;
    // The card's `index_put` accumulates by addition or replaces; there is no product and no
    // extremum.
    let add = match how.as_str() {
        "none" => false,
        "add" => true,
        other => {
            let message = format!("attribute `reduction` is `{other}`; accepted: none, add");
            return Err(n.refuse_node("bad_attribute", message));
        }
    };
    let mut operands = vec![GraphOperand::Tensor(n.operand_tensor(0)?)];
    operands.extend(leading_indices(n)?);
    operands.push(GraphOperand::Tensor(n.operand_tensor(2)?));
    Ok(vec![n.emit_result(OpCall::new("index_put").with("accumulate", add), &operands)?])
}

/// `on` at the index along a new dimension, `off` elsewhere.
fn lower_one_hot(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    n.check_arity(3, 3)?;
    let axis = n.int_attribute("axis", -1)?;
    // The depth is the extent of the result, so it has to be known.
    let depth = n.require_number(1, "the depth")?;
    let size = n.operand_size(0)?;
    let dim = n.normalize_dim(axis, size.len() + 1)?;
    if !(1.0..=1e9).contains(&depth) || depth.fract() != 0.0 {
        return Err(n.refuse_operand(1, format!("{depth}; accepted: 1 and more")));
    }
    #[expect(clippy::cast_possible_truncation, reason = "checked above")]
    let depth = depth as i64;
    let index = n.operand_tensor(0)?;
    let index = n.cast_tensor(index, zellige_float::Dtype::Int64)?;
    // Indices from -depth on count from the end; an index out of range selects no position.
    let below = n.emit_with_number("lt", index, 0.0)?;
    let moved =
        n.emit_part("moved", "add", &[GraphOperand::Tensor(index), GraphOperand::Whole(depth)])?;
    let index = n.emit_step("where", &[below, moved, index])?;
    let index = n.emit_step(OpCall::unsqueeze(dim), &[index])?;
    let mut shape = vec![1; size.len() + 1];
    shape[dim] = depth;
    let places = (0..depth).map(|i| i as f64).collect();
    let places = n.emit_numbers(&shape, places, zellige_float::Dtype::Int64, "places")?;
    let mask = n.emit_step("eq", &[index, places])?;
    let (values, dtype) = (n.operand_tensor(2)?, n.operand_dtype(2)?);
    let off = n.emit_step(OpCall::select(0, 0), &[values])?;
    // The operand `values` is the pair [off, on], in this order.
    let on = n.emit_step(OpCall::select(0, 1), &[values])?;
    let operands = [mask, on, off].map(GraphOperand::Tensor);
    Ok(vec![n.emit_result_as(dtype, "where", &operands)?])
}

/// The slices for which a condition is true. The condition must be known.
fn lower_compress(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    n.check_arity(2, 2)?;
    let condition =
        n.require_literal(1, "the condition, which the size of the result follows from")?;
    let mut x = n.operand_tensor(0)?;
    let size = n.operand_size(0)?;
    let axis = n.int_attribute("axis", 0)?;
    let dim = if n.has_attribute("axis") {
        n.normalize_dim(axis, size.len())?
    } else {
        x = n.emit_step(OpCall::reshape([element_count(&size).unwrap_or(0)]), &[x])?;
        0
    };
    let extent = n.tensor_size(x)[dim];
    let kept = (0..condition.len()).filter(|i| condition.number_at(*i) != 0.0);
    let at: Vec<f64> = kept.map(|i| i as f64).collect();
    // A condition may be shorter than the axis, and then the rest is left out; a true value beyond
    // the axis names no slice.
    if at.last().is_some_and(|last| *last >= extent as f64) {
        let message = format!("{} truth values for {extent} slices", condition.len());
        return Err(n.refuse_operand(1, message));
    }
    let count = i64::try_from(at.len()).unwrap_or(0);
    if count == 0 {
        return Ok(vec![n.emit_result(OpCall::slice(dim, 0, 0), &[GraphOperand::Tensor(x)])?]);
    }
    let index = n.emit_numbers(&[count], at, zellige_float::Dtype::Int64, "index")?;
    let operands = [GraphOperand::Tensor(x), GraphOperand::Tensor(index)];
    Ok(vec![n.emit_result(OpCall::new("index_select").with("dim", dim), &operands)?])
}
