//! Other shapes of the same elements: of tensors as views, of what is known at once.

use super::Table;
use super::pointwise::same;
use crate::error::Result;
use crate::literal::{self, broadcast, broadcast_strides, numel, places, strides};
use crate::node::Node;
use crate::walk::Value;
use serde_json::json;
use std::rc::Rc;
use zellige_graph::GraphOperand;

pub(super) const TABLE: Table = &[
    ("Reshape", reshape),
    ("Flatten", flatten),
    ("Squeeze", squeeze),
    ("Unsqueeze", unsqueeze),
    ("Transpose", transpose),
    ("Expand", expand),
    ("Slice", slice),
    ("Split", split),
];

/// Operand 0 in another shape of as many elements.
fn shaped(n: &mut Node<'_, '_>, shape: Vec<i64>) -> Result<Vec<Value>> {
    let size = n.size(0)?;
    if numel(&shape) != numel(&size) {
        return Err(n.bad("bad_operand", format!("{size:?} has not as many elements as {shape:?}")));
    }
    if let Some(x) = n.literal(0)? {
        return Ok(vec![Value::Known(Rc::new(x.reshaped(shape)))]);
    }
    if shape == size {
        return Ok(vec![same(n, 0)?]);
    }
    let x = n.tensor(0)?;
    Ok(vec![n.emit("reshape", &[GraphOperand::Tensor(x)], json!({"size": shape}))?])
}

/// 0 keeps the extent of that place, and one -1 takes what is left.
fn reshape(n: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    let keep = !n.flag("allowzero", false)?;
    let size = n.size(0)?;
    n.arity(2, 2)?;
    let mut shape = n.ints(1, "the shape")?;
    for (d, extent) in shape.iter_mut().enumerate() {
        if *extent == 0 && keep {
            *extent = *size.get(d).ok_or_else(|| {
                let message = format!("0 in place {d} keeps an extent that {size:?} does not have");
                n.bad_operand(1, message)
            })?;
        }
    }
    let bad = |n: &Node<'_, '_>| {
        let message = format!(
            "{size:?} does not go into {shape:?}; accepted: extents of 0 or more, and at most one -1"
        );
        n.bad_operand(1, message)
    };
    let open: Vec<usize> = (0..shape.len()).filter(|d| shape[*d] == -1).collect();
    if shape.iter().any(|e| *e < -1) || open.len() > 1 {
        return Err(bad(n));
    }
    if let [d] = open[..] {
        let others: Vec<i64> =
            shape.iter().enumerate().filter(|(k, _)| *k != d).map(|(_, e)| *e).collect();
        let fits = numel(&others).zip(numel(&size)).filter(|(o, all)| *o > 0 && all % o == 0);
        let Some((others, all)) = fits else { return Err(bad(n)) };
        let mut full = shape.clone();
        full[d] = all / others;
        return shaped(n, full);
    }
    if numel(&shape) != numel(&size) {
        return Err(bad(n));
    }
    shaped(n, shape)
}

/// A matrix: the dimensions before the axis, and those from it on.
fn flatten(n: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    n.arity(1, 1)?;
    let size = n.size(0)?;
    let axis = n.int("axis", 1)?;
    let rank = i64::try_from(size.len()).unwrap_or(i64::MAX);
    let at = if axis < 0 { axis.saturating_add(rank) } else { axis };
    let at = usize::try_from(at).ok().filter(|a| *a <= size.len()).ok_or_else(|| {
        n.bad("bad_attribute", format!("attribute `axis` is {axis}; accepted: {} to {rank}", -rank))
    })?;
    let part = |s: &[i64]| numel(s).unwrap_or(0);
    let shape = vec![part(&size[..at]), part(&size[at..])];
    shaped(n, shape)
}

/// The axes of an attribute, as before opset 13, or of operand 1.
fn listed(n: &mut Node<'_, '_>) -> Result<Option<Vec<i64>>> {
    match n.list("axes")? {
        None if n.has(1) => n.ints(1, "the axes").map(Some),
        axes => Ok(axes),
    }
}

fn axes(n: &mut Node<'_, '_>, rank: usize) -> Result<Option<Vec<usize>>> {
    let Some(list) = listed(n)? else { return Ok(None) };
    let mut dims = list.iter().map(|a| n.dim(*a, rank)).collect::<Result<Vec<_>>>()?;
    dims.sort_unstable();
    if dims.windows(2).any(|w| w[0] == w[1]) {
        return Err(n.bad_operand(1, format!("an axis is given twice: {list:?}")));
    }
    Ok(Some(dims))
}

fn squeeze(n: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    n.arity(1, 2)?;
    let size = n.size(0)?;
    let gone = axes(n, size.len())?;
    let gone = gone.unwrap_or_else(|| (0..size.len()).filter(|d| size[*d] == 1).collect());
    if let Some(d) = gone.iter().find(|d| size[**d] != 1) {
        return Err(n.bad_operand(1, format!("dimension {d} of {size:?} is not 1")));
    }
    let left = (0..size.len()).filter(|d| !gone.contains(d)).map(|d| size[d]).collect();
    shaped(n, left)
}

fn unsqueeze(n: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    n.arity(1, 2)?;
    let size = n.size(0)?;
    let count = listed(n)?.map_or(0, |list| list.len());
    let new = axes(n, size.len() + count)?.unwrap_or_default();
    let mut old = size.iter();
    let shape = (0..size.len() + count)
        .map(|d| if new.contains(&d) { 1 } else { old.next().copied().unwrap_or(1) })
        .collect();
    shaped(n, shape)
}

fn transpose(n: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    n.arity(1, 1)?;
    let size = n.size(0)?;
    let rank = size.len();
    let listed = n.list("perm")?;
    let perm = match listed {
        None => (0..rank).rev().collect(),
        Some(list) => list.iter().map(|a| n.dim(*a, rank)).collect::<Result<Vec<_>>>()?,
    };
    let mut sorted = perm.clone();
    sorted.sort_unstable();
    if sorted != (0..rank).collect::<Vec<_>>() {
        let message =
            format!("attribute `perm` is {perm:?}; accepted: an order of {rank} dimensions");
        return Err(n.bad("bad_attribute", message));
    }
    if let Some(x) = n.literal(0)? {
        let shape: Vec<i64> = perm.iter().map(|d| size[*d]).collect();
        let own = strides(&size);
        let turned: Vec<i64> = perm.iter().map(|d| own[*d]).collect();
        let at = places(&shape, &turned, 0);
        return Ok(vec![Value::Known(Rc::new(x.pick(shape, at.into_iter())))]);
    }
    if sorted == perm {
        return Ok(vec![same(n, 0)?]);
    }
    let x = n.tensor(0)?;
    Ok(vec![n.emit("permute", &[GraphOperand::Tensor(x)], json!({"dims": perm}))?])
}

fn expand(n: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    n.arity(2, 2)?;
    let size = n.size(0)?;
    let asked = n.ints(1, "the shape")?;
    let Some(shape) = broadcast(&size, &asked).filter(|s| s.iter().all(|e| *e >= 0)) else {
        return Err(n.bad_operand(1, format!("{size:?} does not broadcast to {asked:?}")));
    };
    if let Some(x) = n.literal(0)? {
        if numel(&shape).is_some_and(|c| c <= literal::MOST as i64) {
            let at = places(&shape, &broadcast_strides(&size, &shape), 0);
            return Ok(vec![Value::Known(Rc::new(x.pick(shape, at.into_iter())))]);
        }
        if let Some(value) = x.uniform().filter(|v| !v.is_nan()) {
            let attributes = json!({"size": shape, "value": crate::literal::number(value), "dtype": x.dtype.name()});
            return Ok(vec![n.emit("full", &[], attributes)?]);
        }
    }
    if shape == size {
        return Ok(vec![same(n, 0)?]);
    }
    let x = n.tensor(0)?;
    Ok(vec![n.emit("expand", &[GraphOperand::Tensor(x)], json!({"size": shape}))?])
}

/// A part of one dimension: its first element, how many, and the step to the next.
struct Part {
    dim: usize,
    start: i64,
    count: i64,
    step: i64,
}

/// The part of an extent that ONNX's start, end and step choose; both ends are clamped.
fn part(dim: usize, extent: i64, start: i64, end: i64, step: i64) -> Part {
    let wrap = |v: i64| if v < 0 { v.saturating_add(extent) } else { v };
    let (start, end) = (wrap(start), wrap(end));
    let (start, span) = if step > 0 {
        let start = start.clamp(0, extent);
        (start, end.clamp(0, extent) - start)
    } else {
        let start = start.clamp(-1, extent - 1);
        (start, start - end.clamp(-1, extent - 1))
    };
    let stride = step.unsigned_abs().min(i64::MAX.unsigned_abs()).cast_signed();
    let count = if span <= 0 { 0 } else { (span - 1) / stride + 1 };
    Part { dim, start: start.max(0), count, step }
}

/// Operand 0 with each dimension cut to its part.
fn cut(n: &mut Node<'_, '_>, parts: &[Part]) -> Result<Value> {
    let size = n.size(0)?;
    if let Some(x) = n.literal(0)? {
        let (mut shape, mut step, mut start) = (size.clone(), strides(&size), 0);
        for p in parts {
            shape[p.dim] = p.count;
            start += p.start * step[p.dim];
            step[p.dim] = step[p.dim].saturating_mul(p.step);
        }
        let at = places(&shape, &step, start);
        return Ok(Value::Known(Rc::new(x.pick(shape, at.into_iter()))));
    }
    let mut steps = Vec::new();
    for p in parts {
        let extent = size[p.dim];
        if p.step > 0 && p.count == extent {
            continue;
        }
        let stride =
            p.step.unsigned_abs().min(i64::MAX.unsigned_abs()).cast_signed().min(extent.max(1));
        let start = if p.step > 0 { p.start } else { extent - 1 - p.start };
        if p.step < 0 {
            steps.push(("flip", json!({"dims": [p.dim]})));
        }
        let end = if p.count == 0 { start } else { start + (p.count - 1) * stride + 1 };
        if (start, end, stride) != (0, extent, 1) {
            let mut cut = json!({"dim": p.dim, "start": start, "end": end});
            if stride != 1 {
                cut["step"] = json!(stride);
            }
            steps.push(("slice", cut));
        }
    }
    let Some((last, before)) = steps.split_last() else { return same(n, 0) };
    let mut x = n.tensor(0)?;
    for (op, attributes) in before {
        x = n.part(op, op, &[GraphOperand::Tensor(x)], attributes.clone())?;
    }
    n.emit(last.0, &[GraphOperand::Tensor(x)], last.1.clone())
}

fn slice(n: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    let size = n.size(0)?;
    // Before opset 10 they are attributes.
    let (starts, ends) = match (n.list("starts")?, n.list("ends")?) {
        (Some(starts), Some(ends)) => (starts, ends),
        _ => {
            n.arity(3, 5)?;
            (n.ints(1, "the starts")?, n.ints(2, "the ends")?)
        }
    };
    let count = starts.len();
    let axes = if let Some(axes) = n.list("axes")? {
        axes
    } else if n.has(3) {
        n.ints(3, "the axes")?
    } else {
        (0..i64::try_from(count).unwrap_or(0)).collect()
    };
    let steps = if n.has(4) { n.ints(4, "the steps")? } else { vec![1; count] };
    if [ends.len(), axes.len(), steps.len()] != [count; 3] {
        let message = format!(
            "{count} starts, {} ends, {} axes and {} steps; as many of each are accepted",
            ends.len(),
            axes.len(),
            steps.len()
        );
        return Err(n.bad("bad_operand", message));
    }
    let mut parts: Vec<Part> = Vec::new();
    for k in 0..count {
        let dim = n.dim(axes[k], size.len())?;
        if steps[k] == 0 {
            return Err(n.bad_operand(4, "a step is 0; accepted: others"));
        }
        if parts.iter().any(|p| p.dim == dim) {
            return Err(n.bad_operand(3, format!("axis {} is given twice", axes[k])));
        }
        parts.push(part(dim, size[dim], starts[k], ends[k], steps[k]));
    }
    Ok(vec![cut(n, &parts)?])
}

fn split(n: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    n.arity(1, 2)?;
    let size = n.size(0)?;
    let axis = n.int("axis", 0)?;
    let dim = n.dim(axis, size.len())?;
    let extent = size[dim];
    let asked = n.int("num_outputs", i64::try_from(n.outputs()).unwrap_or(1))?;
    let lengths = if let Some(lengths) = n.list("split")? {
        lengths
    } else if n.has(1) {
        n.ints(1, "the lengths")?
    } else {
        let whole = asked >= 1 && asked <= extent.max(1) && asked <= 1 << 16;
        if !whole {
            return Err(n.bad("bad_attribute", format!("{asked} parts of {extent}")));
        }
        let each = (extent + asked - 1) / asked;
        (0..asked).map(|k| each.min((extent - k * each).max(0))).collect()
    };
    if lengths.len() < n.outputs() || lengths.len() > n.outputs().max(1) {
        let message = format!("{} parts for {} results", lengths.len(), n.outputs());
        return Err(n.bad("bad_results", message));
    }
    let total = lengths.iter().try_fold(0i64, |a, b| if *b < 0 { None } else { a.checked_add(*b) });
    if total != Some(extent) {
        return Err(n.bad_operand(1, format!("parts of {lengths:?} do not make {extent}")));
    }
    let mut start = 0;
    let mut made = Vec::new();
    for length in lengths {
        made.push(cut(n, &[Part { dim, start, count: length, step: 1 }])?);
        start += length;
    }
    Ok(made)
}
