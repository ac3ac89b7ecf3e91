//! Rules for reductions, and for operations along one dimension.

use super::RuleTable;
use super::pointwise::pass_operand;
use crate::error::Result;
use crate::literal::{LiteralNumbers, TensorLiteral};
use crate::node::NodeLowering;
use crate::walk::ModelValue;
use std::rc::Rc;
use zellige_float::Dtype;
use zellige_graph::{GraphOperand, OpCall, TensorId};

pub(super) const TABLE: RuleTable = &[
    ("ReduceSum", |n| lower_reduce(n, "sum")),
    ("ReduceMean", |n| lower_reduce(n, "mean")),
    ("ReduceMax", |n| lower_reduce(n, "amax")),
    ("ReduceMin", |n| lower_reduce(n, "amin")),
    ("ReduceProd", |n| lower_reduce(n, "prod")),
    ("ReduceL1", |n| lower_reduce(n, OpCall::new("norm").with("p", 1))),
    ("ReduceL2", |n| lower_reduce(n, OpCall::new("norm").with("p", 2))),
    ("ReduceLogSumExp", |n| lower_reduce(n, "logsumexp")),
    ("ReduceSumSquare", |n| lower_wrapped_sum(n, Some("square"), None)),
    ("ReduceLogSum", |n| lower_wrapped_sum(n, None, Some("log"))),
    ("ArgMax", |n| lower_arg(n, "argmax")),
    ("ArgMin", |n| lower_arg(n, "argmin")),
    ("Softmax", |n| lower_along_line(n, "softmax")),
    ("LogSoftmax", |n| lower_along_line(n, "log_softmax")),
    ("CumSum", |n| lower_cumulative(n, "cumsum", 0)),
    ("CumProd", |n| lower_cumulative(n, "cumprod", 1)),
    ("Hardmax", lower_hardmax),
    ("TopK", lower_topk),
];

/// The reduced dimensions, from an attribute or operand 1, and whether they are kept with size 1;
/// `None` if nothing is reduced.
fn reduced_dims(n: &mut NodeLowering<'_, '_>) -> Result<Option<(Vec<usize>, bool)>> {
    n.check_arity(1, 2)?;
    let rank = n.operand_size(0)?.len();
    let keep = n.flag_attribute("keepdims", true)?;
    let noop = n.flag_attribute("noop_with_empty_axes", false)?;
    // The axes of ReduceSum are an input since opset 13, those of the other reductions since opset
    // 18.
    let listed = n.ints_attribute("axes")?;
    let axes = match listed {
        Some(axes) => axes,
        None if n.has_operand(1) => n.require_ints(1, "the axes")?,
        None => Vec::new(),
    };
    if axes.is_empty() {
        // No axes mean all of them, unless `noop_with_empty_axes` makes the node an identity.
        return Ok(if noop { None } else { Some(((0..rank).collect(), keep)) });
    }
    let mut dims = axes.iter().map(|a| n.normalize_dim(*a, rank)).collect::<Result<Vec<_>>>()?;
    // A dimension may be named twice, once from the front and once from the end.
    dims.sort_unstable();
    dims.dedup();
    Ok(Some((dims, keep)))
}

/// A reduction along these dimensions.
fn reduce_along(call: OpCall, dims: &[usize], keep: bool) -> OpCall {
    // PyTorch's reductions, whose attributes these are, take a missing `dim` as all dimensions.
    let call = if dims.is_empty() { call } else { call.with("dim", dims) };
    call.with("keepdim", keep)
}

fn lower_reduce(n: &mut NodeLowering<'_, '_>, call: impl Into<OpCall>) -> Result<Vec<ModelValue>> {
    let call = call.into();
    let Some((dims, keep)) = reduced_dims(n)? else { return Ok(vec![pass_operand(n, 0)?]) };
    if let Some(x) = n.operand_literal(0)?
        && let Some(made) = fold_list(call.name(), &x, keep)
    {
        return Ok(vec![ModelValue::Known(Rc::new(made))]);
    }
    let (x, dtype) = (n.operand_tensor(0)?, n.operand_dtype(0)?);
    let call = reduce_along(call, &dims, keep);
    Ok(vec![n.emit_result_as(dtype, call, &[GraphOperand::Tensor(x)])?])
}

/// Folds a known list of integers to one number, as computations of shapes do.
fn fold_list(ours: &str, x: &TensorLiteral, keep: bool) -> Option<TensorLiteral> {
    // Only lists: they are what `ReduceProd` of a shape has. Larger known tensors go to the card.
    let list = x.whole_numbers().filter(|_| x.shape.len() == 1)?;
    let value = match ours {
        "sum" => list.iter().try_fold(0i64, |a, b| a.checked_add(*b))?,
        "prod" => list.iter().try_fold(1i64, |a, b| a.checked_mul(*b))?,
        "amax" => *list.iter().max()?,
        "amin" => *list.iter().min()?,
        _ => return None,
    };
    let shape = if keep { vec![1] } else { Vec::new() };
    Some(TensorLiteral { dtype: x.dtype, shape, data: LiteralNumbers::Int(vec![value]) })
}

/// A sum with an elementwise operation before or after it.
fn lower_wrapped_sum(
    n: &mut NodeLowering<'_, '_>,
    before: Option<&'static str>,
    after: Option<&'static str>,
) -> Result<Vec<ModelValue>> {
    let Some((dims, keep)) = reduced_dims(n)? else {
        return Err(
            n.refuse_node("bad_attribute", "attribute `noop_with_empty_axes` is 1 without axes")
        );
    };
    let (mut x, dtype) = (n.operand_tensor(0)?, n.operand_dtype(0)?);
    if let Some(op) = before {
        x = n.emit_part(op, op, &[GraphOperand::Tensor(x)])?;
    }
    let summing = reduce_along(OpCall::new("sum"), &dims, keep);
    match after {
        None => Ok(vec![n.emit_result_as(dtype, summing, &[GraphOperand::Tensor(x)])?]),
        Some(op) => {
            let sum = n.emit_part("sum", summing, &[GraphOperand::Tensor(x)])?;
            Ok(vec![n.emit_result(op, &[GraphOperand::Tensor(sum)])?])
        }
    }
}

/// Reads operand 0 and the dimension of the attribute `axis`.
fn read_axis(n: &mut NodeLowering<'_, '_>, default: i64) -> Result<(TensorId, usize)> {
    let (x, rank) = (n.operand_tensor(0)?, n.operand_size(0)?.len());
    let axis = n.int_attribute("axis", default)?;
    Ok((x, n.normalize_dim(axis, rank)?))
}

fn lower_arg(n: &mut NodeLowering<'_, '_>, ours: &'static str) -> Result<Vec<ModelValue>> {
    n.check_arity(1, 1)?;
    let last = n.flag_attribute("select_last_index", false)?;
    let (x, dim) = read_axis(n, 0)?;
    let keep = n.flag_attribute("keepdims", true)?;
    let call = OpCall::reduce_dim(ours, dim, keep);
    if !last {
        return Ok(vec![n.emit_result_as(Dtype::Int64, call, &[GraphOperand::Tensor(x)])?]);
    }
    // The last of several equal elements is the first one of the reversed tensor.
    let end = n.operand_size(0)?[dim] - 1;
    let turned = n.emit_step(OpCall::flip([dim]), &[x])?;
    let at = n.emit_step(call, &[turned])?;
    let back = n.emit_step("neg", &[at])?;
    let operands = [GraphOperand::Tensor(back), GraphOperand::Whole(end)];
    Ok(vec![n.emit_result_as(Dtype::Int64, "add", &operands)?])
}

/// 1 at the first largest element of each line, 0 elsewhere.
fn lower_hardmax(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    n.check_arity(1, 1)?;
    let (x, dim, together) = flatten_line(n)?;
    let size = n.tensor_size(x);
    // The specification wants exactly one 1 per line even where the largest element occurs twice,
    // so the mask compares positions and not values.
    let at = n.emit_step(OpCall::reduce_dim("argmax", dim, true), &[x])?;
    let mut shape = vec![1; size.len()];
    shape[dim] = size[dim];
    let places = (0..size[dim]).map(|i| i as f64).collect();
    let places = n.emit_numbers(&shape, places, Dtype::Int64, "places")?;
    let mask = n.emit_step("eq", &[at, places])?;
    let dtype = n.operand_dtype(0)?;
    let made = n.emit_step(OpCall::cast(dtype), &[mask])?;
    restore_size(n, made, together)
}

/// Returns operand 0, the dimension that the operation works along, and the size to restore in the
/// end. Before opset 13 the operation works along all dimensions from the axis on, which are
/// flattened.
fn flatten_line(n: &mut NodeLowering<'_, '_>) -> Result<(TensorId, usize, Option<Vec<i64>>)> {
    // Opset 13 changed Softmax, LogSoftmax and Hardmax: before, the input was coerced to a matrix
    // at `axis` (default 1); since then the operation goes along that one axis (default -1).
    let old = n.opset() < 13;
    let (x, dim) = read_axis(n, if old { 1 } else { -1 })?;
    let size = n.operand_size(0)?;
    // The last axis alone is the same line in both versions.
    if !old || dim + 1 == size.len() {
        return Ok((x, dim, None));
    }
    let count = |part: &[i64]| part.iter().product::<i64>();
    let matrix = OpCall::reshape([count(&size[..dim]), count(&size[dim..])]);
    Ok((n.emit_step(matrix, &[x])?, 1, Some(size)))
}

fn restore_size(
    n: &mut NodeLowering<'_, '_>,
    x: TensorId,
    size: Option<Vec<i64>>,
) -> Result<Vec<ModelValue>> {
    let x = GraphOperand::Tensor(x);
    Ok(vec![match size {
        None => n.emit_result("identity", &[x])?,
        Some(size) => n.emit_result(OpCall::reshape(size), &[x])?,
    }])
}

fn lower_along_line(n: &mut NodeLowering<'_, '_>, ours: &'static str) -> Result<Vec<ModelValue>> {
    n.check_arity(1, 1)?;
    let (x, dim, together) = flatten_line(n)?;
    if together.is_none() {
        return Ok(vec![
            n.emit_result(OpCall::new(ours).with("dim", dim), &[GraphOperand::Tensor(x)])?,
        ]);
    }
    let made = n.emit_step(OpCall::new(ours).with("dim", dim), &[x])?;
    restore_size(n, made, together)
}

/// Cumulative sums or products; `exclusive` leaves out the element itself.
fn lower_cumulative(
    n: &mut NodeLowering<'_, '_>,
    ours: &'static str,
    neutral: i64,
) -> Result<Vec<ModelValue>> {
    n.check_arity(2, 2)?;
    let (exclusive, reverse) =
        (n.flag_attribute("exclusive", false)?, n.flag_attribute("reverse", false)?);
    let list = n.require_ints(1, "the axis")?;
    let [at] = list[..] else {
        return Err(n.refuse_operand(1, format!("{} axes; accepted: 1", list.len())));
    };
    let (size, dtype) = n.operand_meta(0)?;
    let dim = n.normalize_dim(at, size.len())?;
    let mut x = n.operand_tensor(0)?;
    if reverse {
        // A sum from the end is a sum of the reversed tensor, reversed again.
        x = n.emit_step(OpCall::flip([dim]), &[x])?;
    }
    if exclusive {
        // Shifted by one element, with the neutral element in front.
        let mut pads = vec![0; 2 * (size.len() - dim)];
        pads[2 * (size.len() - dim) - 2] = 1;
        x = n.emit_step(OpCall::new("pad").with("pad", pads).with("value", neutral), &[x])?;
        x = n.emit_step(OpCall::slice(dim, 0, size[dim]), &[x])?;
    }
    if !reverse {
        return Ok(vec![n.emit_result_as(
            dtype,
            OpCall::new(ours).with("dim", dim),
            &[GraphOperand::Tensor(x)],
        )?]);
    }
    x = n.emit_step(OpCall::new(ours).with("dim", dim), &[x])?;
    Ok(vec![n.emit_result_as(dtype, OpCall::flip([dim]), &[GraphOperand::Tensor(x)])?])
}

fn lower_topk(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    let (x, dim) = read_axis(n, -1)?;
    // Before opset 10 the number k is an attribute.
    let k = match n.int_attribute("k", -1)? {
        -1 => {
            n.check_arity(2, 2)?;
            n.require_ints(1, "the number of elements")?
        }
        k => vec![k],
    };
    let [k] = k[..] else { return Err(n.refuse_operand(1, "it is one integer")) };
    // Both attributes exist since opset 11; before, the largest were meant, sorted.
    let (largest, sorted) = (n.flag_attribute("largest", true)?, n.flag_attribute("sorted", true)?);
    let call = OpCall::topk(k, dim, largest).with("sorted", sorted);
    n.emit_results(call, &[GraphOperand::Tensor(x)], 2)
}
