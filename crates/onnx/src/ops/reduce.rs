//! Reductions, and what goes along a dimension.

use super::Table;
use super::pointwise::same;
use crate::error::Result;
use crate::literal::{Literal, Numbers};
use crate::node::Node;
use crate::walk::Value;
use serde_json::{Map, Value as Json, json};
use std::rc::Rc;
use zellige_float::Dtype;
use zellige_graph::{GraphOperand, TensorId};

pub(super) const TABLE: Table = &[
    ("ReduceSum", |n| reduce(n, "sum", Json::Null)),
    ("ReduceMean", |n| reduce(n, "mean", Json::Null)),
    ("ReduceMax", |n| reduce(n, "amax", Json::Null)),
    ("ReduceMin", |n| reduce(n, "amin", Json::Null)),
    ("ReduceProd", |n| reduce(n, "prod", Json::Null)),
    ("ReduceL1", |n| reduce(n, "norm", json!({"p": 1}))),
    ("ReduceL2", |n| reduce(n, "norm", json!({"p": 2}))),
    ("ReduceLogSumExp", |n| reduce(n, "logsumexp", Json::Null)),
    ("ReduceSumSquare", |n| around(n, Some("square"), None)),
    ("ReduceLogSum", |n| around(n, None, Some("log"))),
    ("ArgMax", |n| arg(n, "argmax")),
    ("ArgMin", |n| arg(n, "argmin")),
    ("Softmax", |n| along(n, "softmax")),
    ("LogSoftmax", |n| along(n, "log_softmax")),
    ("CumSum", |n| running(n, "cumsum", 0)),
    ("CumProd", |n| running(n, "cumprod", 1)),
    ("Hardmax", hardmax),
    ("TopK", topk),
];

/// The dimensions that are reduced, of an attribute or of operand 1, and whether they stay as 1; none
/// where nothing is reduced.
fn reduced(n: &mut Node<'_, '_>) -> Result<Option<(Vec<usize>, bool)>> {
    n.arity(1, 2)?;
    let rank = n.size(0)?.len();
    let keep = n.flag("keepdims", true)?;
    let noop = n.flag("noop_with_empty_axes", false)?;
    let listed = n.list("axes")?;
    let axes = match listed {
        Some(axes) => axes,
        None if n.has(1) => n.ints(1, "the axes")?,
        None => Vec::new(),
    };
    if axes.is_empty() {
        return Ok(if noop { None } else { Some(((0..rank).collect(), keep)) });
    }
    let mut dims = axes.iter().map(|a| n.dim(*a, rank)).collect::<Result<Vec<_>>>()?;
    dims.sort_unstable();
    dims.dedup();
    Ok(Some((dims, keep)))
}

fn attributes(dims: &[usize], keep: bool, more: Json) -> Json {
    let mut map = match more {
        Json::Object(map) => map,
        _ => Map::new(),
    };
    if !dims.is_empty() {
        map.insert("dim".into(), json!(dims));
    }
    map.insert("keepdim".into(), json!(keep));
    Json::Object(map)
}

fn reduce(n: &mut Node<'_, '_>, ours: &str, more: Json) -> Result<Vec<Value>> {
    let Some((dims, keep)) = reduced(n)? else { return Ok(vec![same(n, 0)?]) };
    if let Some(x) = n.literal(0)?
        && let Some(made) = list_of(ours, &x, keep)
    {
        return Ok(vec![Value::Known(Rc::new(made))]);
    }
    let (x, dtype) = (n.tensor(0)?, n.dtype(0)?);
    Ok(vec![n.emit_as(dtype, ours, &[GraphOperand::Tensor(x)], attributes(&dims, keep, more))?])
}

/// A known list of integers to one: what shapes are computed with.
fn list_of(ours: &str, x: &Literal, keep: bool) -> Option<Literal> {
    let list = x.whole().filter(|_| x.shape.len() == 1)?;
    let value = match ours {
        "sum" => list.iter().try_fold(0i64, |a, b| a.checked_add(*b))?,
        "prod" => list.iter().try_fold(1i64, |a, b| a.checked_mul(*b))?,
        "amax" => *list.iter().max()?,
        "amin" => *list.iter().min()?,
        _ => return None,
    };
    let shape = if keep { vec![1] } else { Vec::new() };
    Some(Literal { dtype: x.dtype, shape, data: Numbers::Int(vec![value]) })
}

/// A sum with something before it, or after it.
fn around(n: &mut Node<'_, '_>, before: Option<&str>, after: Option<&str>) -> Result<Vec<Value>> {
    let Some((dims, keep)) = reduced(n)? else {
        return Err(n.bad("bad_attribute", "attribute `noop_with_empty_axes` is 1 without axes"));
    };
    let (mut x, dtype) = (n.tensor(0)?, n.dtype(0)?);
    if let Some(op) = before {
        x = n.part(op, op, &[GraphOperand::Tensor(x)], Json::Null)?;
    }
    let summing = attributes(&dims, keep, Json::Null);
    match after {
        None => Ok(vec![n.emit_as(dtype, "sum", &[GraphOperand::Tensor(x)], summing)?]),
        Some(op) => {
            let sum = n.part("sum", "sum", &[GraphOperand::Tensor(x)], summing)?;
            Ok(vec![n.emit(op, &[GraphOperand::Tensor(sum)], Json::Null)?])
        }
    }
}

/// Operand 0 and the dimension of the attribute `axis`.
fn axis(n: &mut Node<'_, '_>, default: i64) -> Result<(TensorId, usize)> {
    let (x, rank) = (n.tensor(0)?, n.size(0)?.len());
    let axis = n.int("axis", default)?;
    Ok((x, n.dim(axis, rank)?))
}

fn arg(n: &mut Node<'_, '_>, ours: &str) -> Result<Vec<Value>> {
    n.arity(1, 1)?;
    let last = n.flag("select_last_index", false)?;
    let (x, dim) = axis(n, 0)?;
    let keep = n.flag("keepdims", true)?;
    let attributes = json!({"dim": dim, "keepdim": keep});
    if !last {
        return Ok(vec![n.emit_as(Dtype::Int64, ours, &[GraphOperand::Tensor(x)], attributes)?]);
    }
    // The last of several is the first from the other end.
    let end = n.size(0)?[dim] - 1;
    let turned = n.step("flip", &[x], json!({"dims": [dim]}))?;
    let at = n.step(ours, &[turned], attributes)?;
    let back = n.step("neg", &[at], Json::Null)?;
    let operands = [GraphOperand::Tensor(back), GraphOperand::Whole(end)];
    Ok(vec![n.emit_as(Dtype::Int64, "add", &operands, Json::Null)?])
}

/// One in the place of the first largest element of a line, zeros elsewhere.
fn hardmax(n: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    n.arity(1, 1)?;
    let (x, dim, together) = line(n)?;
    let size = n.size_of(x);
    let at = n.step("argmax", &[x], json!({"dim": dim, "keepdim": true}))?;
    let mut shape = vec![1; size.len()];
    shape[dim] = size[dim];
    let places = (0..size[dim]).map(|i| i as f64).collect();
    let places = n.numbers(&shape, places, Dtype::Int64, "places")?;
    let mask = n.step("eq", &[at, places], Json::Null)?;
    let dtype = n.dtype(0)?;
    let made = n.step("cast", &[mask], json!({"dtype": dtype.name()}))?;
    apart(n, made, together)
}

/// Operand 0 and the dimension that an operation goes along; before opset 13 that is all dimensions from the
/// axis on, which become one. The size to go back to in the end.
fn line(n: &mut Node<'_, '_>) -> Result<(TensorId, usize, Option<Vec<i64>>)> {
    let old = n.opset() < 13;
    let (x, dim) = axis(n, if old { 1 } else { -1 })?;
    let size = n.size(0)?;
    if !old || dim + 1 == size.len() {
        return Ok((x, dim, None));
    }
    let count = |part: &[i64]| part.iter().product::<i64>();
    let matrix = json!({"size": [count(&size[..dim]), count(&size[dim..])]});
    Ok((n.step("reshape", &[x], matrix)?, 1, Some(size)))
}

fn apart(n: &mut Node<'_, '_>, x: TensorId, size: Option<Vec<i64>>) -> Result<Vec<Value>> {
    let x = GraphOperand::Tensor(x);
    Ok(vec![match size {
        None => n.emit("identity", &[x], Json::Null)?,
        Some(size) => n.emit("reshape", &[x], json!({"size": size}))?,
    }])
}

fn along(n: &mut Node<'_, '_>, ours: &str) -> Result<Vec<Value>> {
    n.arity(1, 1)?;
    let (x, dim, together) = line(n)?;
    if together.is_none() {
        return Ok(vec![n.emit(ours, &[GraphOperand::Tensor(x)], json!({"dim": dim}))?]);
    }
    let made = n.step(ours, &[x], json!({"dim": dim}))?;
    apart(n, made, together)
}

/// Sums or products of all elements up to each; `exclusive` leaves out the element itself.
fn running(n: &mut Node<'_, '_>, ours: &str, neutral: i64) -> Result<Vec<Value>> {
    n.arity(2, 2)?;
    let (exclusive, reverse) = (n.flag("exclusive", false)?, n.flag("reverse", false)?);
    let list = n.ints(1, "the axis")?;
    let [at] = list[..] else {
        return Err(n.bad_operand(1, format!("{} axes; accepted: 1", list.len())));
    };
    let (size, dtype) = n.meta(0)?;
    let dim = n.dim(at, size.len())?;
    let mut x = n.tensor(0)?;
    if reverse {
        x = n.step("flip", &[x], json!({"dims": [dim]}))?;
    }
    if exclusive {
        // One further, with the neutral element in front.
        let mut pads = vec![0; 2 * (size.len() - dim)];
        pads[2 * (size.len() - dim) - 2] = 1;
        x = n.step("pad", &[x], json!({"pad": pads, "value": neutral}))?;
        x = n.step("slice", &[x], json!({"dim": dim, "start": 0, "end": size[dim]}))?;
    }
    if !reverse {
        return Ok(vec![n.emit_as(
            dtype,
            ours,
            &[GraphOperand::Tensor(x)],
            json!({"dim": dim}),
        )?]);
    }
    x = n.step(ours, &[x], json!({"dim": dim}))?;
    Ok(vec![n.emit_as(dtype, "flip", &[GraphOperand::Tensor(x)], json!({"dims": [dim]}))?])
}

fn topk(n: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    let (x, dim) = axis(n, -1)?;
    // Before opset 10 the number is an attribute.
    let k = match n.int("k", -1)? {
        -1 => {
            n.arity(2, 2)?;
            n.ints(1, "the number of elements")?
        }
        k => vec![k],
    };
    let [k] = k[..] else { return Err(n.bad_operand(1, "it is one integer")) };
    let (largest, sorted) = (n.flag("largest", true)?, n.flag("sorted", true)?);
    let attributes = json!({"k": k, "dim": dim, "largest": largest, "sorted": sorted});
    n.emit_all("topk", &[GraphOperand::Tensor(x)], attributes, 2)
}
