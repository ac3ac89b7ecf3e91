//! Rules that rearrange elements: concatenation, repetition, padding, masks.

use super::RuleTable;
use super::pointwise::pass_operand;
use crate::error::Result;
use crate::literal::{
    self, LiteralNumbers, TensorLiteral, element_count, row_major_strides, strided_indices,
};
use crate::node::NodeLowering;
use crate::walk::ModelValue;
use std::rc::Rc;
use zellige_graph::{GraphOperand, OpCall};

pub(super) const TABLE: RuleTable = &[
    ("Concat", lower_concat),
    ("Tile", lower_tile),
    ("Pad", lower_pad),
    ("Trilu", lower_trilu),
    ("DepthToSpace", lower_depth_to_space),
    ("SpaceToDepth", lower_space_to_depth),
    ("CenterCropPad", lower_center_crop_pad),
    ("EyeLike", lower_eye_like),
    ("ReverseSequence", lower_reverse_sequence),
];

fn lower_concat(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    let count = n.operand_count();
    if count == 0 {
        return Err(n.refuse_node("bad_operand", "it has no operands; accepted: 1 or more"));
    }
    let axis = n.int_attribute("axis", 0)?;
    let rank = n.operand_size(0)?.len();
    let dim = n.normalize_dim(axis, rank)?;
    if count == 1 {
        return Ok(vec![pass_operand(n, 0)?]);
    }
    let mut known = Vec::new();
    for k in 0..count {
        known.extend(n.operand_literal(k)?);
    }
    // Concatenating known numbers is how exporters build the target of a Reshape.
    if known.len() == count
        && rank == 1
        && known.iter().map(|l| l.len()).sum::<usize>() <= literal::MAX_LITERAL_ELEMENTS
    {
        return Ok(vec![ModelValue::Known(Rc::new(join_lists(&known)))]);
    }
    let mut operands = Vec::new();
    for k in 0..count {
        operands.push(GraphOperand::Tensor(n.operand_tensor(k)?));
    }
    Ok(vec![n.emit_result(OpCall::cat(dim), &operands)?])
}

/// Concatenates known lists.
fn join_lists(lists: &[Rc<TensorLiteral>]) -> TensorLiteral {
    let dtype = lists[0].dtype;
    let count: i64 = lists.iter().map(|l| l.shape[0]).sum();
    let whole: Option<Vec<&[i64]>> = lists.iter().map(|l| l.whole_numbers()).collect();
    let data = match whole {
        Some(parts) => LiteralNumbers::Int(parts.concat()),
        None => LiteralNumbers::Float(
            lists.iter().flat_map(|l| (0..l.len()).map(|i| l.number_at(i))).collect(),
        ),
    };
    TensorLiteral { dtype, shape: vec![count], data }
}

fn lower_tile(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    n.check_arity(2, 2)?;
    let size = n.operand_size(0)?;
    let repeats = n.require_ints(1, "the repeats")?;
    if repeats.len() != size.len() || repeats.iter().any(|r| *r < 0) {
        let message = format!("{repeats:?}; accepted: {} integers, 0 or more", size.len());
        return Err(n.refuse_operand(1, message));
    }
    if repeats.iter().all(|r| *r == 1) {
        return Ok(vec![pass_operand(n, 0)?]);
    }
    if let Some(x) = n.operand_literal(0)?
        && size.len() == 1
        && size[0]
            .checked_mul(repeats[0])
            .is_some_and(|c| c <= literal::MAX_LITERAL_ELEMENTS as i64)
    {
        let all = (0..repeats[0]).flat_map(|_| 0..x.len());
        return Ok(vec![ModelValue::Known(Rc::new(
            x.pick_elements(vec![size[0] * repeats[0]], all),
        ))]);
    }
    let x = n.operand_tensor(0)?;
    Ok(vec![
        n.emit_result(OpCall::new("repeat").with("repeats", repeats), &[GraphOperand::Tensor(x)])?,
    ])
}

fn lower_pad(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    n.check_arity(1, 4)?;
    let mode = n.word_attribute("mode", "constant")?;
    let ours = match mode.as_str() {
        "constant" => "constant",
        "reflect" => "reflect",
        // PyTorch's names of the same modes; `wrap` exists since opset 19.
        "edge" => "replicate",
        "wrap" => "circular",
        other => {
            let message =
                format!("attribute `mode` is `{other}`; accepted: constant, reflect, edge, wrap");
            return Err(n.refuse_node("bad_attribute", message));
        }
    };
    let rank = n.operand_size(0)?.len();
    // Before opset 11 the pads and the value are attributes.
    let pads = match n.ints_attribute("pads")? {
        Some(pads) => pads,
        None => n.require_ints(1, "the pads")?,
    };
    let value = n.float_attribute("value", 0.0)?;
    let axes: Vec<usize> = if n.has_operand(3) {
        let list = n.require_ints(3, "the axes")?;
        list.iter().map(|a| n.normalize_dim(*a, rank)).collect::<Result<_>>()?
    } else {
        (0..rank).collect()
    };
    if pads.len() != 2 * axes.len() {
        let message =
            format!("{} numbers; accepted: {}, two for each axis", pads.len(), 2 * axes.len());
        return Err(n.refuse_operand(1, message));
    }
    // Pairs from the last dimension back to the first padded one.
    let mut pairs = vec![[0, 0]; rank];
    for (k, d) in axes.iter().enumerate() {
        pairs[*d] = [pads[k], pads[k + axes.len()]];
    }
    let Some(first) = pairs.iter().position(|p| *p != [0, 0]) else {
        return Ok(vec![pass_operand(n, 0)?]);
    };
    // ONNX lists all starts and then all ends; PyTorch lists pairs from the last dimension
    // backwards.
    let list: Vec<i64> = pairs[first..].iter().rev().flatten().copied().collect();
    let mut pad = OpCall::new("pad").with("pad", list);
    if ours != "constant" {
        pad = pad.with("mode", ours);
    } else if n.has_operand(2) {
        pad = pad.with_number("value", n.require_number(2, "the value")?);
    } else if value != 0.0 {
        pad = pad.with_number("value", value);
    }
    let x = n.operand_tensor(0)?;
    Ok(vec![n.emit_result(pad, &[GraphOperand::Tensor(x)])?])
}

fn lower_trilu(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    n.check_arity(1, 2)?;
    let upper = n.flag_attribute("upper", true)?;
    let k = if n.has_operand(1) {
        let list = n.require_ints(1, "the diagonal")?;
        let [k] = list[..] else { return Err(n.refuse_operand(1, "it is one integer")) };
        k
    } else {
        0
    };
    if let Some(x) = n.operand_literal(0)?
        && let [rows, columns] = x.shape[..]
        && let Some(v) = x.whole_numbers()
    {
        let kept = |i: usize| {
            let at = i64::try_from(i).unwrap_or(0);
            let offset = at % columns.max(1) - at / columns.max(1);
            if upper { offset >= k } else { offset <= k }
        };
        let data = v.iter().enumerate().map(|(i, e)| if kept(i) { *e } else { 0 }).collect();
        let made = TensorLiteral {
            dtype: x.dtype,
            shape: vec![rows, columns],
            data: LiteralNumbers::Int(data),
        };
        return Ok(vec![ModelValue::Known(Rc::new(made))]);
    }
    let (x, dtype) = (n.operand_tensor(0)?, n.operand_dtype(0)?);
    let call = OpCall::new(if upper { "triu" } else { "tril" });
    let call = if k == 0 { call } else { call.with("diagonal", k) };
    Ok(vec![n.emit_result_as(dtype, call, &[GraphOperand::Tensor(x)])?])
}

/// Rearranges blocks by splitting dimensions, permuting them and merging them again.
fn rearrange_blocks(
    n: &mut NodeLowering<'_, '_>,
    apart: &[i64],
    order: &[i64],
    together: &[i64],
) -> Result<Vec<ModelValue>> {
    let x = n.operand_tensor(0)?;
    let x = n.emit_part("apart", OpCall::reshape(apart), &[GraphOperand::Tensor(x)])?;
    let x =
        n.emit_part("turned", OpCall::permute(order.iter().copied()), &[GraphOperand::Tensor(x)])?;
    Ok(vec![n.emit_result(OpCall::reshape(together), &[GraphOperand::Tensor(x)])?])
}

fn block_size(n: &mut NodeLowering<'_, '_>) -> Result<([i64; 4], i64)> {
    n.check_arity(1, 1)?;
    let (size, b) = (n.operand_size(0)?, n.int_attribute("blocksize", 0)?);
    match size[..] {
        [batch, c, h, w] if (1..=1 << 15).contains(&b) => Ok(([batch, c, h, w], b)),
        _ => {
            let message = format!(
                "{size:?} in blocks of {b}; accepted: four dimensions, blocks of 1 and more"
            );
            Err(n.refuse_operand(0, message))
        }
    }
}

fn lower_depth_to_space(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    let ([batch, c, h, w], b) = block_size(n)?;
    if c % (b * b) != 0 {
        return Err(n.refuse_operand(0, format!("{c} channels are not a multiple of {}", b * b)));
    }
    let left = c / (b * b);
    let together = [batch, left, h.saturating_mul(b), w.saturating_mul(b)];
    let mode = n.word_attribute("mode", "DCR")?;
    match mode.as_str() {
        // DCR takes the block's row and column from the outer part of the channels, CRD from the
        // inner part; both are the reshapes and permutations that the specification gives.
        "DCR" => rearrange_blocks(n, &[batch, b, b, left, h, w], &[0, 3, 4, 1, 5, 2], &together),
        "CRD" => rearrange_blocks(n, &[batch, left, b, b, h, w], &[0, 1, 4, 2, 5, 3], &together),
        other => {
            let message = format!("attribute `mode` is `{other}`; accepted: DCR, CRD");
            Err(n.refuse_node("bad_attribute", message))
        }
    }
}

fn lower_space_to_depth(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    let ([batch, c, h, w], b) = block_size(n)?;
    if h % b != 0 || w % b != 0 {
        return Err(n.refuse_operand(0, format!("{h} by {w} is not a multiple of {b}")));
    }
    let apart = [batch, c, h / b, b, w / b, b];
    let mode = n.word_attribute("mode", "DCR")?;
    let order = match mode.as_str() {
        "DCR" => [0, 3, 5, 1, 2, 4],
        "CRD" => [0, 1, 3, 5, 2, 4],
        other => {
            let message = format!("attribute `mode` is `{other}`; accepted: DCR, CRD");
            return Err(n.refuse_node("bad_attribute", message));
        }
    };
    rearrange_blocks(n, &apart, &order, &[batch, c.saturating_mul(b * b), h / b, w / b])
}

/// Takes a known tensor at these positions along one dimension.
pub(crate) fn take_along_dim(
    x: &TensorLiteral,
    dim: usize,
    at: &[i64],
    index: &[i64],
) -> Option<TensorLiteral> {
    let (before, after) = (&x.shape[..dim], &x.shape[dim + 1..]);
    let shape = [before, index, after].concat();
    if element_count(&shape)? > literal::MAX_LITERAL_ELEMENTS as i64 {
        return None;
    }
    let own = row_major_strides(&x.shape);
    let outer = strided_indices(before, &own[..dim], 0);
    let inner = strided_indices(after, &own[dim + 1..], 0);
    let mut all = Vec::new();
    for o in &outer {
        for i in at {
            let along = usize::try_from(i * own[dim]).ok()?;
            all.extend(inner.iter().map(|k| o + along + k));
        }
    }
    Some(x.pick_elements(shape, all.into_iter()))
}

/// Crops or pads dimensions around their middle.
fn lower_center_crop_pad(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    n.check_arity(2, 2)?;
    let size = n.operand_size(0)?;
    let wanted = n.require_ints(1, "the shape")?;
    let listed = n.ints_attribute("axes")?;
    let dims: Vec<usize> = match listed {
        Some(list) => {
            list.iter().map(|a| n.normalize_dim(*a, size.len())).collect::<Result<_>>()?
        }
        None => (0..size.len()).collect(),
    };
    if wanted.len() != dims.len() || wanted.iter().any(|w| *w < 0) {
        let message = format!("{wanted:?}; accepted: {} extents, 0 or more", dims.len());
        return Err(n.refuse_operand(1, message));
    }
    let mut x = n.operand_tensor(0)?;
    let mut pairs = vec![[0, 0]; size.len()];
    for (d, want) in dims.iter().zip(&wanted) {
        let (have, less) = (size[*d], size[*d] - want);
        if less > 0 {
            // The specification cuts floor(less / 2) in front and the rest behind; padding is
            // divided in the same way.
            let start = less / 2;
            x = n.emit_step(OpCall::slice(*d, start, start + want), &[x])?;
        } else if less < 0 {
            let before = -less / 2;
            pairs[*d] = [before, want - have - before];
        }
    }
    if pairs.iter().any(|p| *p != [0, 0]) {
        let list: Vec<i64> = pairs.iter().rev().flatten().copied().collect();
        x = n.emit_step(OpCall::new("pad").with("pad", list), &[x])?;
    }
    Ok(vec![n.emit_result("identity", &[GraphOperand::Tensor(x)])?])
}

fn lower_eye_like(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    n.check_arity(1, 1)?;
    let (size, own) = n.operand_meta(0)?;
    let code = n.int_attribute("dtype", 0)?;
    let k = n.int_attribute("k", 0)?;
    let dtype = if code == 0 {
        own
    } else {
        crate::tensor::dtype_of_code(code)
            .map_err(|e| n.refuse_node("bad_attribute", format!("attribute `dtype` is {e}")))?
    };
    let [rows, columns] = size[..] else {
        return Err(n.refuse_operand(0, format!("{size:?}; accepted: a matrix")));
    };
    // The matrix becomes a weight of the graph with all its zeros.
    if element_count(&size).is_none_or(|c| c > 1 << 20) {
        return Err(n.refuse_operand(0, format!("{size:?} has too many elements")));
    }
    let one = |i: i64| (0..columns).map(move |j| f64::from(u8::from(j - i == k)));
    let id = n.emit_numbers(&size, (0..rows).flat_map(one).collect(), dtype, "eye")?;
    Ok(vec![ModelValue::Tensor(id)])
}

/// Reverses the first elements of every sequence; operand 1 has the lengths.
fn lower_reverse_sequence(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    n.check_arity(2, 2)?;
    let size = n.operand_size(0)?;
    let (batch, time) = (n.int_attribute("batch_axis", 1)?, n.int_attribute("time_axis", 0)?);
    let (batch, time) = (n.normalize_dim(batch, size.len())?, n.normalize_dim(time, size.len())?);
    if batch == time {
        return Err(n.refuse_node("bad_attribute", "batch_axis and time_axis are the same"));
    }
    let lengths = n.operand_tensor(1)?;
    let mut line = vec![1; size.len()];
    line[time] = size[time];
    let mut column = vec![1; size.len()];
    column[batch] = size[batch];
    // Element t of a sequence of length l becomes element l - 1 - t; elements from l on stay in
    // place.
    let places = (0..size[time]).map(|t| t as f64).collect();
    let places = n.emit_numbers(&line, places, zellige_float::Dtype::Int64, "places")?;
    let lengths = n.cast_tensor(lengths, zellige_float::Dtype::Int64)?;
    let lengths = n.emit_step(OpCall::reshape(column), &[lengths])?;
    let turned = n.emit_step("sub", &[lengths, places])?;
    let turned = n.emit_with_number("sub", turned, 1.0)?;
    let inside =
        n.emit_part("inside", "ge", &[GraphOperand::Tensor(turned), GraphOperand::Number(0.0)])?;
    let index = n.emit_step("where", &[inside, turned, places])?;
    let index = n.emit_step(OpCall::expand(size), &[index])?;
    let x = n.operand_tensor(0)?;
    let operands = [GraphOperand::Tensor(x), GraphOperand::Tensor(index)];
    Ok(vec![n.emit_result(OpCall::new("gather").with("dim", time), &operands)?])
}
