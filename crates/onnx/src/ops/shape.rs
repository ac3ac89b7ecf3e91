//! Rules that change shapes: of tensors as views, of known values directly.

use super::RuleTable;
use super::pointwise::pass_operand;
use crate::error::Result;
use crate::literal::{
    self, broadcast_shapes, broadcast_strides, element_count, row_major_strides, strided_indices,
};
use crate::node::NodeLowering;
use crate::walk::ModelValue;
use std::rc::Rc;
use zellige_graph::{GraphOperand, OpCall};

pub(super) const TABLE: RuleTable = &[
    ("Reshape", lower_reshape),
    ("Flatten", lower_flatten),
    ("Squeeze", lower_squeeze),
    ("Unsqueeze", lower_unsqueeze),
    ("Transpose", lower_transpose),
    ("Expand", lower_expand),
    ("Slice", lower_slice),
    ("Split", lower_split),
];

/// Operand 0 in another shape with the same number of elements.
fn reshape_operand(n: &mut NodeLowering<'_, '_>, shape: Vec<i64>) -> Result<Vec<ModelValue>> {
    let size = n.operand_size(0)?;
    if element_count(&shape) != element_count(&size) {
        return Err(n.refuse_node(
            "bad_operand",
            format!("{size:?} has another number of elements than {shape:?}"),
        ));
    }
    if let Some(x) = n.operand_literal(0)? {
        return Ok(vec![ModelValue::Known(Rc::new(x.with_shape(shape)))]);
    }
    if shape == size {
        return Ok(vec![pass_operand(n, 0)?]);
    }
    let x = n.operand_tensor(0)?;
    Ok(vec![n.emit_result(OpCall::reshape(shape), &[GraphOperand::Tensor(x)])?])
}

/// 0 keeps the size of that dimension, and one -1 takes the remaining elements.
fn lower_reshape(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    let keep = !n.flag_attribute("allowzero", false)?;
    let size = n.operand_size(0)?;
    n.check_arity(2, 2)?;
    let mut shape = n.require_ints(1, "the shape")?;
    for (d, extent) in shape.iter_mut().enumerate() {
        // Since opset 14 `allowzero` gives 0 its plain meaning.
        if *extent == 0 && keep {
            *extent = *size.get(d).ok_or_else(|| {
                let message = format!("0 in place {d} keeps an extent that {size:?} does not have");
                n.refuse_operand(1, message)
            })?;
        }
    }
    let bad = |n: &NodeLowering<'_, '_>| {
        let message = format!(
            "{size:?} does not go into {shape:?}; accepted: extents of 0 or more, and at most one -1"
        );
        n.refuse_operand(1, message)
    };
    let open: Vec<usize> = (0..shape.len()).filter(|d| shape[*d] == -1).collect();
    if shape.iter().any(|e| *e < -1) || open.len() > 1 {
        return Err(bad(n));
    }
    if let [d] = open[..] {
        let others: Vec<i64> =
            shape.iter().enumerate().filter(|(k, _)| *k != d).map(|(_, e)| *e).collect();
        // An extent cannot follow from a product of zero elements.
        let fits = element_count(&others)
            .zip(element_count(&size))
            .filter(|(o, all)| *o > 0 && all % o == 0);
        let Some((others, all)) = fits else { return Err(bad(n)) };
        let mut full = shape.clone();
        full[d] = all / others;
        return reshape_operand(n, full);
    }
    if element_count(&shape) != element_count(&size) {
        return Err(bad(n));
    }
    reshape_operand(n, shape)
}

/// Flattens to a matrix: the dimensions before the axis, and those from it on.
fn lower_flatten(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    n.check_arity(1, 1)?;
    let size = n.operand_size(0)?;
    let axis = n.int_attribute("axis", 1)?;
    let rank = i64::try_from(size.len()).unwrap_or(i64::MAX);
    let at = if axis < 0 { axis.saturating_add(rank) } else { axis };
    let at = usize::try_from(at).ok().filter(|a| *a <= size.len()).ok_or_else(|| {
        n.refuse_node(
            "bad_attribute",
            format!("attribute `axis` is {axis}; accepted: {} to {rank}", -rank),
        )
    })?;
    let part = |s: &[i64]| element_count(s).unwrap_or(0);
    let shape = vec![part(&size[..at]), part(&size[at..])];
    reshape_operand(n, shape)
}

/// The axes, from an attribute (before opset 13) or from operand 1.
fn listed_axes(n: &mut NodeLowering<'_, '_>) -> Result<Option<Vec<i64>>> {
    match n.ints_attribute("axes")? {
        None if n.has_operand(1) => n.require_ints(1, "the axes").map(Some),
        axes => Ok(axes),
    }
}

fn normalized_axes(n: &mut NodeLowering<'_, '_>, rank: usize) -> Result<Option<Vec<usize>>> {
    let Some(list) = listed_axes(n)? else { return Ok(None) };
    let mut dims = list.iter().map(|a| n.normalize_dim(*a, rank)).collect::<Result<Vec<_>>>()?;
    dims.sort_unstable();
    if dims.windows(2).any(|w| w[0] == w[1]) {
        return Err(n.refuse_operand(1, format!("an axis is given twice: {list:?}")));
    }
    Ok(Some(dims))
}

fn lower_squeeze(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    n.check_arity(1, 2)?;
    let size = n.operand_size(0)?;
    let gone = normalized_axes(n, size.len())?;
    let gone = gone.unwrap_or_else(|| (0..size.len()).filter(|d| size[*d] == 1).collect());
    if let Some(d) = gone.iter().find(|d| size[**d] != 1) {
        return Err(n.refuse_operand(1, format!("dimension {d} of {size:?} is not 1")));
    }
    let left = (0..size.len()).filter(|d| !gone.contains(d)).map(|d| size[d]).collect();
    reshape_operand(n, left)
}

fn lower_unsqueeze(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    n.check_arity(1, 2)?;
    let size = n.operand_size(0)?;
    let count = listed_axes(n)?.map_or(0, |list| list.len());
    let new = normalized_axes(n, size.len() + count)?.unwrap_or_default();
    let mut old = size.iter();
    let shape = (0..size.len() + count)
        .map(|d| if new.contains(&d) { 1 } else { old.next().copied().unwrap_or(1) })
        .collect();
    reshape_operand(n, shape)
}

fn lower_transpose(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    n.check_arity(1, 1)?;
    let size = n.operand_size(0)?;
    let rank = size.len();
    let listed = n.ints_attribute("perm")?;
    let perm = match listed {
        // The default reverses all dimensions.
        None => (0..rank).rev().collect(),
        Some(list) => list.iter().map(|a| n.normalize_dim(*a, rank)).collect::<Result<Vec<_>>>()?,
    };
    let mut sorted = perm.clone();
    sorted.sort_unstable();
    if sorted != (0..rank).collect::<Vec<_>>() {
        let message =
            format!("attribute `perm` is {perm:?}; accepted: an order of {rank} dimensions");
        return Err(n.refuse_node("bad_attribute", message));
    }
    if let Some(x) = n.operand_literal(0)? {
        let shape: Vec<i64> = perm.iter().map(|d| size[*d]).collect();
        let own = row_major_strides(&size);
        let turned: Vec<i64> = perm.iter().map(|d| own[*d]).collect();
        let at = strided_indices(&shape, &turned, 0);
        return Ok(vec![ModelValue::Known(Rc::new(x.pick_elements(shape, at.into_iter())))]);
    }
    if sorted == perm {
        return Ok(vec![pass_operand(n, 0)?]);
    }
    let x = n.operand_tensor(0)?;
    Ok(vec![n.emit_result(OpCall::permute(perm), &[GraphOperand::Tensor(x)])?])
}

fn lower_expand(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    n.check_arity(2, 2)?;
    let size = n.operand_size(0)?;
    let asked = n.require_ints(1, "the shape")?;
    // Expand broadcasts in both directions: a 1 in the shape keeps the extent of the operand.
    let Some(shape) = broadcast_shapes(&size, &asked).filter(|s| s.iter().all(|e| *e >= 0)) else {
        return Err(n.refuse_operand(1, format!("{size:?} does not broadcast to {asked:?}")));
    };
    if let Some(x) = n.operand_literal(0)? {
        if element_count(&shape).is_some_and(|c| c <= literal::MAX_LITERAL_ELEMENTS as i64) {
            let at = strided_indices(&shape, &broadcast_strides(&size, &shape), 0);
            return Ok(vec![ModelValue::Known(Rc::new(x.pick_elements(shape, at.into_iter())))]);
        }
        // Exporters expand a single zero to the size of a mask; a fill needs no tensor to read.
        if let Some(value) = x.uniform_number().filter(|v| !v.is_nan()) {
            let full = OpCall::new("full")
                .with("size", shape)
                .with_number("value", value)
                .with("dtype", x.dtype.name());
            return Ok(vec![n.emit_result(full, &[])?]);
        }
    }
    if shape == size {
        return Ok(vec![pass_operand(n, 0)?]);
    }
    let x = n.operand_tensor(0)?;
    Ok(vec![n.emit_result(OpCall::expand(shape), &[GraphOperand::Tensor(x)])?])
}

/// A slice of one dimension: its first element, the number of elements, and the step.
struct DimSlice {
    dim: usize,
    start: i64,
    count: i64,
    step: i64,
}

/// The slice that ONNX's start, end and step select; both ends are clamped.
fn clamp_slice(dim: usize, extent: i64, start: i64, end: i64, step: i64) -> DimSlice {
    let wrap = |v: i64| if v < 0 { v.saturating_add(extent) } else { v };
    let (start, end) = (wrap(start), wrap(end));
    let (start, span) = if step > 0 {
        let start = start.clamp(0, extent);
        (start, end.clamp(0, extent) - start)
    } else {
        // Backwards the end is exclusive too, so -1 stands for "past the first element".
        let start = start.clamp(-1, extent - 1);
        (start, start - end.clamp(-1, extent - 1))
    };
    let stride = step.unsigned_abs().min(i64::MAX.unsigned_abs()).cast_signed();
    let count = if span <= 0 { 0 } else { (span - 1) / stride + 1 };
    DimSlice { dim, start: start.max(0), count, step }
}

/// Slices each dimension of operand 0.
fn slice_operand(n: &mut NodeLowering<'_, '_>, parts: &[DimSlice]) -> Result<ModelValue> {
    let size = n.operand_size(0)?;
    if let Some(x) = n.operand_literal(0)? {
        let (mut shape, mut step, mut start) = (size.clone(), row_major_strides(&size), 0);
        for p in parts {
            shape[p.dim] = p.count;
            start += p.start * step[p.dim];
            step[p.dim] = step[p.dim].saturating_mul(p.step);
        }
        let at = strided_indices(&shape, &step, start);
        return Ok(ModelValue::Known(Rc::new(x.pick_elements(shape, at.into_iter()))));
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
        // The card's slices go forward only, so the dimension is reversed first.
        if p.step < 0 {
            steps.push(OpCall::flip([p.dim]));
        }
        let end = if p.count == 0 { start } else { start + (p.count - 1) * stride + 1 };
        if (start, end, stride) != (0, extent, 1) {
            let cut = OpCall::slice(p.dim, start, end);
            steps.push(if stride == 1 { cut } else { cut.with("step", stride) });
        }
    }
    let Some((last, before)) = steps.split_last() else { return pass_operand(n, 0) };
    let mut x = n.operand_tensor(0)?;
    for call in before {
        x = n.emit_step(call.clone(), &[x])?;
    }
    n.emit_result(last.clone(), &[GraphOperand::Tensor(x)])
}

fn lower_slice(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    let size = n.operand_size(0)?;
    // Before opset 10 starts and ends are attributes.
    let (starts, ends) = match (n.ints_attribute("starts")?, n.ints_attribute("ends")?) {
        (Some(starts), Some(ends)) => (starts, ends),
        _ => {
            n.check_arity(3, 5)?;
            (n.require_ints(1, "the starts")?, n.require_ints(2, "the ends")?)
        }
    };
    let count = starts.len();
    let axes = if let Some(axes) = n.ints_attribute("axes")? {
        axes
    } else if n.has_operand(3) {
        n.require_ints(3, "the axes")?
    } else {
        (0..i64::try_from(count).unwrap_or(0)).collect()
    };
    let steps = if n.has_operand(4) { n.require_ints(4, "the steps")? } else { vec![1; count] };
    if [ends.len(), axes.len(), steps.len()] != [count; 3] {
        let message = format!(
            "{count} starts, {} ends, {} axes and {} steps; as many of each are accepted",
            ends.len(),
            axes.len(),
            steps.len()
        );
        return Err(n.refuse_node("bad_operand", message));
    }
    let mut parts: Vec<DimSlice> = Vec::new();
    for k in 0..count {
        let dim = n.normalize_dim(axes[k], size.len())?;
        if steps[k] == 0 {
            return Err(n.refuse_operand(4, "a step is 0; accepted: others"));
        }
        if parts.iter().any(|p| p.dim == dim) {
            return Err(n.refuse_operand(3, format!("axis {} is given twice", axes[k])));
        }
        parts.push(clamp_slice(dim, size[dim], starts[k], ends[k], steps[k]));
    }
    Ok(vec![slice_operand(n, &parts)?])
}

fn lower_split(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    n.check_arity(1, 2)?;
    let size = n.operand_size(0)?;
    let axis = n.int_attribute("axis", 0)?;
    let dim = n.normalize_dim(axis, size.len())?;
    let extent = size[dim];
    let asked = n.int_attribute("num_outputs", i64::try_from(n.result_count()).unwrap_or(1))?;
    let lengths = if let Some(lengths) = n.ints_attribute("split")? {
        lengths
    } else if n.has_operand(1) {
        n.require_ints(1, "the lengths")?
    } else {
        let whole = asked >= 1 && asked <= extent.max(1) && asked <= 1 << 16;
        if !whole {
            return Err(n.refuse_node("bad_attribute", format!("{asked} parts of {extent}")));
        }
        // Since opset 18 `num_outputs` divides into equal parts, of which the last may be shorter.
        let each = (extent + asked - 1) / asked;
        (0..asked).map(|k| each.min((extent - k * each).max(0))).collect()
    };
    if lengths.len() < n.result_count() || lengths.len() > n.result_count().max(1) {
        let message = format!("{} parts for {} results", lengths.len(), n.result_count());
        return Err(n.refuse_node("bad_results", message));
    }
    let total = lengths.iter().try_fold(0i64, |a, b| if *b < 0 { None } else { a.checked_add(*b) });
    if total != Some(extent) {
        return Err(n.refuse_operand(1, format!("parts of {lengths:?} do not make {extent}")));
    }
    let mut start = 0;
    let mut made = Vec::new();
    for length in lengths {
        made.push(slice_operand(n, &[DimSlice { dim, start, count: length, step: 1 }])?);
        start += length;
    }
    Ok(made)
}
