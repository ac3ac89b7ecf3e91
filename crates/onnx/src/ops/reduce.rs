//! Reductions, and what goes along a dimension.

use super::Table;
use super::pointwise::same;
use crate::error::Result;
use crate::walk::Value;
use crate::literal::{Literal, Numbers};
use crate::node::Node;
use serde_json::{Map, Value as Json, json};
use std::rc::Rc;
use zellige_float::Dtype;
use zellige_graph::{Operand, TensorId};

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
    ("CumSum", cumsum),
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
    Ok(vec![n.emit_as(dtype, ours, &[Operand::Tensor(x)], attributes(&dims, keep, more))?])
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
        x = n.part(op, op, &[Operand::Tensor(x)], Json::Null)?;
    }
    let summing = attributes(&dims, keep, Json::Null);
    match after {
        None => Ok(vec![n.emit_as(dtype, "sum", &[Operand::Tensor(x)], summing)?]),
        Some(op) => {
            let sum = n.part("sum", "sum", &[Operand::Tensor(x)], summing)?;
            Ok(vec![n.emit(op, &[Operand::Tensor(sum)], Json::Null)?])
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
    n.only("select_last_index", 0)?;
    let (x, dim) = axis(n, 0)?;
    let keep = n.flag("keepdims", true)?;
    let attributes = json!({"dim": dim, "keepdim": keep});
    Ok(vec![n.emit_as(Dtype::Int64, ours, &[Operand::Tensor(x)], attributes)?])
}

fn along(n: &mut Node<'_, '_>, ours: &str) -> Result<Vec<Value>> {
    n.arity(1, 1)?;
    let (x, dim) = axis(n, -1)?;
    Ok(vec![n.emit(ours, &[Operand::Tensor(x)], json!({"dim": dim}))?])
}

fn cumsum(n: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    n.arity(2, 2)?;
    n.only("exclusive", 0)?;
    let reverse = n.flag("reverse", false)?;
    let list = n.ints(1, "the axis")?;
    let [at] = list[..] else {
        return Err(n.bad_operand(1, format!("{} axes; accepted: 1", list.len())));
    };
    let (size, dtype) = n.meta(0)?;
    let dim = n.dim(at, size.len())?;
    let mut x = n.tensor(0)?;
    if !reverse {
        return Ok(vec![n.emit_as(dtype, "cumsum", &[Operand::Tensor(x)], json!({"dim": dim}))?]);
    }
    for (part, op, key) in [("turned", "flip", "dims"), ("sums", "cumsum", "dim")] {
        let value = if key == "dims" { json!({"dims": [dim]}) } else { json!({"dim": dim}) };
        x = n.part(part, op, &[Operand::Tensor(x)], value)?;
    }
    Ok(vec![n.emit_as(dtype, "flip", &[Operand::Tensor(x)], json!({"dims": [dim]}))?])
}

fn topk(n: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    n.arity(2, 2)?;
    let (x, dim) = axis(n, -1)?;
    let k = n.ints(1, "the number of elements")?;
    let [k] = k[..] else { return Err(n.bad_operand(1, "it is one integer")) };
    let (largest, sorted) = (n.flag("largest", true)?, n.flag("sorted", true)?);
    let attributes = json!({"k": k, "dim": dim, "largest": largest, "sorted": sorted});
    n.emit_all("topk", &[Operand::Tensor(x)], attributes, 2)
}
