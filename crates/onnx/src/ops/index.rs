//! Elements looked up by index.

use super::Table;
use super::rearrange::taken;
use crate::error::Result;
use crate::literal::{Literal, Numbers, numel};
use crate::node::Node;
use crate::walk::Value;
use serde_json::{Value as Json, json};
use std::rc::Rc;
use zellige_graph::{GraphOperand, TensorId};

pub(super) const TABLE: Table = &[
    ("Gather", gather),
    ("GatherElements", gather_elements),
    ("GatherND", gather_nd),
    ("ScatterElements", scatter_elements),
    ("Scatter", scatter_elements),
    ("ScatterND", scatter_nd),
    ("OneHot", one_hot),
    ("Compress", compress),
];

/// Known indices with those from the end counted from the start.
fn wrapped(n: &Node<'_, '_>, index: &Literal, extent: i64) -> Result<Literal> {
    let bad = |v: i64| n.bad_operand(1, format!("index {v} of {extent} elements"));
    let Some(list) = index.whole() else {
        return Err(n.bad_operand(1, format!("indices are integers, not {}", index.dtype)));
    };
    let at = |v: &i64| {
        let w = if *v < 0 { v.saturating_add(extent) } else { *v };
        if (0..extent).contains(&w) { Ok(w) } else { Err(bad(*v)) }
    };
    let data = Numbers::Int(list.iter().map(at).collect::<Result<_>>()?);
    Ok(Literal { data, ..index.clone() })
}

/// The indices of operand 1 as a tensor. Those that are computed count from the start.
fn indices(n: &mut Node<'_, '_>, extent: i64) -> Result<TensorId> {
    match n.literal(1)? {
        Some(index) if index.whole().is_some_and(|v| v.iter().any(|i| *i < 0)) => {
            let index = wrapped(n, &index, extent)?;
            let name = n.free_name("index");
            n.import.materialize(&index, name).map_err(|e| n.bad_operand(1, e.message))
        }
        _ => n.tensor(1),
    }
}

fn gather(n: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    n.arity(2, 2)?;
    let (size, picked) = (n.size(0)?, n.size(1)?);
    let axis = n.int("axis", 0)?;
    let dim = n.dim(axis, size.len())?;
    if let Some(index) = n.literal(1)? {
        let index = wrapped(n, &index, size[dim])?;
        let at = index.whole().unwrap_or_default();
        if let Some(x) = n.literal(0)?
            && let Some(made) = taken(&x, dim, at, &picked)
        {
            return Ok(vec![Value::Known(Rc::new(made))]);
        }
        if let ([], [at]) = (&picked[..], at) {
            let x = n.tensor(0)?;
            let attributes = json!({"dim": dim, "index": at});
            return Ok(vec![n.emit("select", &[GraphOperand::Tensor(x)], attributes)?]);
        }
    }
    let x = GraphOperand::Tensor(n.tensor(0)?);
    let index = indices(n, size[dim])?;
    if dim == 0 && size.len() == 2 {
        return Ok(vec![n.emit("embedding", &[x, GraphOperand::Tensor(index)], Json::Null)?]);
    }
    if picked.len() == 1 {
        return Ok(vec![n.emit(
            "index_select",
            &[x, GraphOperand::Tensor(index)],
            json!({"dim": dim}),
        )?]);
    }
    let count = numel(&picked).unwrap_or(0);
    let flat =
        n.part("index", "reshape", &[GraphOperand::Tensor(index)], json!({"size": [count]}))?;
    let rows =
        n.part("rows", "index_select", &[x, GraphOperand::Tensor(flat)], json!({"dim": dim}))?;
    let shape = [&size[..dim], &picked, &size[dim + 1..]].concat();
    Ok(vec![n.emit("reshape", &[GraphOperand::Tensor(rows)], json!({"size": shape}))?])
}

fn gather_elements(n: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    n.arity(2, 2)?;
    let size = n.size(0)?;
    let axis = n.int("axis", 0)?;
    let dim = n.dim(axis, size.len())?;
    let (x, index) = (n.tensor(0)?, indices(n, size[dim])?);
    let operands = [GraphOperand::Tensor(x), GraphOperand::Tensor(index)];
    Ok(vec![n.emit("gather", &operands, json!({"dim": dim}))?])
}

/// One tensor of indices for each leading dimension, from the last dimension of operand 1.
fn leading(n: &mut Node<'_, '_>) -> Result<Vec<GraphOperand>> {
    let (size, index) = (n.size(0)?, n.size(1)?);
    let Some(count) = index.last().and_then(|c| usize::try_from(*c).ok()) else {
        return Err(n.bad_operand(1, "a single number; accepted: tuples of indices"));
    };
    if count == 0 || count > size.len() || index.len() < 2 {
        let message =
            format!("{index:?} holds tuples of {count}; accepted: lists of 1 to {}", size.len());
        return Err(n.bad_operand(1, message));
    }
    let all = GraphOperand::Tensor(n.tensor(1)?);
    let last = index.len() - 1;
    (0..count)
        .map(|k| {
            let attributes = json!({"dim": last, "index": k});
            n.part(&format!("index{k}"), "select", std::slice::from_ref(&all), attributes)
                .map(GraphOperand::Tensor)
        })
        .collect()
}

fn gather_nd(n: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    n.arity(2, 2)?;
    n.only("batch_dims", 0)?;
    let mut operands = vec![GraphOperand::Tensor(n.tensor(0)?)];
    operands.extend(leading(n)?);
    Ok(vec![n.emit("index", &operands, Json::Null)?])
}

fn scatter_elements(n: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    n.arity(3, 3)?;
    let size = n.size(0)?;
    let axis = n.int("axis", 0)?;
    let dim = n.dim(axis, size.len())?;
    let how = n.word("reduction", "none")?;
    let reduce = match how.as_str() {
        "none" => "none",
        "add" => "sum",
        "mul" => "prod",
        "max" => "amax",
        "min" => "amin",
        other => {
            let message =
                format!("attribute `reduction` is `{other}`; accepted: none, add, mul, max, min");
            return Err(n.bad("bad_attribute", message));
        }
    };
    let (x, index, values) = (n.tensor(0)?, indices(n, size[dim])?, n.tensor(2)?);
    let operands = [x, index, values].map(GraphOperand::Tensor);
    Ok(vec![n.emit("scatter", &operands, json!({"dim": dim, "reduce": reduce}))?])
}

fn scatter_nd(n: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    n.arity(3, 3)?;
    let how = n.word("reduction", "none")?;
    let add = match how.as_str() {
        "none" => false,
        "add" => true,
        other => {
            let message = format!("attribute `reduction` is `{other}`; accepted: none, add");
            return Err(n.bad("bad_attribute", message));
        }
    };
    let mut operands = vec![GraphOperand::Tensor(n.tensor(0)?)];
    operands.extend(leading(n)?);
    operands.push(GraphOperand::Tensor(n.tensor(2)?));
    Ok(vec![n.emit("index_put", &operands, json!({"accumulate": add}))?])
}

/// `on` in the place of an index along a new dimension, `off` elsewhere.
fn one_hot(n: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    n.arity(3, 3)?;
    let axis = n.int("axis", -1)?;
    let depth = n.number(1, "the depth")?;
    let size = n.size(0)?;
    let dim = n.dim(axis, size.len() + 1)?;
    if !(1.0..=1e9).contains(&depth) || depth.fract() != 0.0 {
        return Err(n.bad_operand(1, format!("{depth}; accepted: 1 and more")));
    }
    #[expect(clippy::cast_possible_truncation, reason = "checked above")]
    let depth = depth as i64;
    let index = n.tensor(0)?;
    let index = n.cast(index, zellige_float::Dtype::Int64)?;
    // Those from -depth on count from the end; what is outside is nowhere.
    let below = n.with("lt", index, 0.0)?;
    let moved = n.part(
        "moved",
        "add",
        &[GraphOperand::Tensor(index), GraphOperand::Whole(depth)],
        Json::Null,
    )?;
    let index = n.step("where", &[below, moved, index], Json::Null)?;
    let index = n.step("unsqueeze", &[index], json!({"dim": dim}))?;
    let mut shape = vec![1; size.len() + 1];
    shape[dim] = depth;
    let places = (0..depth).map(|i| i as f64).collect();
    let places = n.numbers(&shape, places, zellige_float::Dtype::Int64, "places")?;
    let mask = n.step("eq", &[index, places], Json::Null)?;
    let (values, dtype) = (n.tensor(2)?, n.dtype(2)?);
    let off = n.step("select", &[values], json!({"dim": 0, "index": 0}))?;
    let on = n.step("select", &[values], json!({"dim": 0, "index": 1}))?;
    let operands = [mask, on, off].map(GraphOperand::Tensor);
    Ok(vec![n.emit_as(dtype, "where", &operands, Json::Null)?])
}

/// The slices that a condition, which has to be known, is true for.
fn compress(n: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    n.arity(2, 2)?;
    let condition = n.known(1, "the condition, which the size of the result follows from")?;
    let mut x = n.tensor(0)?;
    let size = n.size(0)?;
    let axis = n.int("axis", 0)?;
    let dim = if n.is_given("axis") {
        n.dim(axis, size.len())?
    } else {
        x = n.step("reshape", &[x], json!({"size": [numel(&size).unwrap_or(0)]}))?;
        0
    };
    let extent = n.size_of(x)[dim];
    let kept = (0..condition.len()).filter(|i| condition.number(*i) != 0.0);
    let at: Vec<f64> = kept.map(|i| i as f64).collect();
    if at.last().is_some_and(|last| *last >= extent as f64) {
        let message = format!("{} truth values for {extent} slices", condition.len());
        return Err(n.bad_operand(1, message));
    }
    let count = i64::try_from(at.len()).unwrap_or(0);
    if count == 0 {
        let nothing = json!({"dim": dim, "start": 0, "end": 0});
        return Ok(vec![n.emit("slice", &[GraphOperand::Tensor(x)], nothing)?]);
    }
    let index = n.numbers(&[count], at, zellige_float::Dtype::Int64, "index")?;
    let operands = [GraphOperand::Tensor(x), GraphOperand::Tensor(index)];
    Ok(vec![n.emit("index_select", &operands, json!({"dim": dim}))?])
}
