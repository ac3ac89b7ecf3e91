//! Rules for transposed convolutions, convolutions with a state, and Col2Im.

use super::RuleTable;
use super::unfold::SpatialWindows;
use super::window::{add_bias, ints_per_dim, spatial_extents};
use crate::error::Result;
use crate::node::NodeLowering;
use crate::walk::ModelValue;
use zellige_graph::{GraphOperand, OpCall, TensorId};

pub(super) const TABLE: RuleTable = &[
    ("ConvTranspose", lower_conv_transpose),
    ("CausalConvWithState", lower_causal_conv),
    ("Col2Im", lower_col2im),
];

/// A transposed convolution: a convolution of the operand with zeros between its elements, and with
/// the flipped kernel.
fn lower_conv_transpose(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    n.check_arity(2, 3)?;
    let extents = spatial_extents(n)?;
    let weight = n.operand_size(1)?;
    let rank = extents.len();
    let groups = n.int_attribute("group", 1)?;
    let wanted = n.ints_attribute("output_shape")?;
    let mut extra = ints_per_dim(n, "output_padding", rank, 0, 0)?;
    let auto = n.word_attribute("auto_pad", "NOTSET")?;
    let channels = n.operand_size(0)?[1];
    if weight.len() != rank + 2 || weight[0] != channels || groups < 1 || channels % groups != 0 {
        let message = format!("{weight:?} beside {:?} in {groups} groups", n.operand_size(0)?);
        return Err(n.refuse_operand(1, message));
    }
    if let Some(said) = n.ints_attribute("kernel_shape")?
        && said != weight[2..]
    {
        let message =
            format!("attribute `kernel_shape` is {said:?}, and the weight has {:?}", &weight[2..]);
        return Err(n.refuse_node("bad_attribute", message));
    }
    let (stride, dilation) =
        (ints_per_dim(n, "strides", rank, 1, 1)?, ints_per_dim(n, "dilations", rank, 1, 1)?);
    let pads = ints_per_dim(n, "pads", 2 * rank, 0, 0)?;
    let (mut before, mut after) = (pads[..rank].to_vec(), pads[rank..].to_vec());
    let reach = |d: usize| (weight[d + 2] - 1) * dilation[d] + 1;
    if wanted.as_ref().is_some_and(|w| w.len() != rank) {
        return Err(n.refuse_node(
            "bad_attribute",
            format!("attribute `output_shape` must have {rank} numbers"),
        ));
    }
    match auto.as_str() {
        "NOTSET" | "" if wanted.is_none() => {}
        "VALID" => (before, after) = (vec![0; rank], vec![0; rank]),
        "NOTSET" | "" | "SAME_UPPER" | "SAME_LOWER" => {
            for d in 0..rank {
                let out = wanted.as_ref().map_or(extents[d] * stride[d], |w| w[d]);
                // The specification's formula for total_padding. Only SAME_UPPER puts the smaller
                // half in front.
                let total = stride[d] * (extents[d] - 1) + extra[d] + reach(d) - out;
                // A result that is larger than all windows reach ends in zeros.
                extra[d] -= total.min(0);
                let total = total.max(0);
                let (small, large) = (total / 2, total - total / 2);
                (before[d], after[d]) =
                    if auto == "SAME_UPPER" { (small, large) } else { (large, small) };
            }
        }
        other => {
            let message = format!(
                "attribute `auto_pad` is `{other}`; accepted: NOTSET, VALID, SAME_UPPER, SAME_LOWER"
            );
            return Err(n.refuse_node("bad_attribute", message));
        }
    }
    let mut x = n.operand_tensor(0)?;
    for d in 0..rank {
        // A transposed convolution is a convolution of the input with stride - 1 zeros between its
        // elements, padded by the reach of the kernel, with the kernel flipped.
        x = insert_zeros(n, x, d + 2, stride[d])?;
        let (left, right) = (reach(d) - 1 - before[d], reach(d) - 1 - after[d] + extra[d]);
        x = pad_or_crop(n, x, d + 2, left, right)?;
    }
    let w = SpatialWindows {
        kernel: weight[2..].to_vec(),
        stride: vec![1; rank],
        dilation,
        before: vec![0; rank],
        after: vec![0; rank],
    };
    let kernel = flip_weights(n, &weight, groups)?;
    let bias = if n.has_operand(2) { Some(n.operand_tensor(2)?) } else { None };
    if rank > 2 {
        let y = w.multiply_weights(n, x, kernel, groups)?;
        let y = add_bias(n, y, bias)?;
        return Ok(vec![n.emit_result("identity", &[GraphOperand::Tensor(y)])?]);
    }
    let mut operands = vec![GraphOperand::Tensor(x), GraphOperand::Tensor(kernel)];
    operands.extend(bias.map(GraphOperand::Tensor));
    let call = OpCall::new(if rank == 1 { "conv1d" } else { "conv2d" })
        .with("stride", w.stride)
        .with("padding", vec![0; rank])
        .with("dilation", w.dilation)
        .with("groups", groups);
    Ok(vec![n.emit_result(call, &operands)?])
}

/// Inserts `step - 1` zeros between the elements of a dimension.
fn insert_zeros(
    n: &mut NodeLowering<'_, '_>,
    x: TensorId,
    dim: usize,
    step: i64,
) -> Result<TensorId> {
    if step == 1 {
        return Ok(x);
    }
    let mut size = n.tensor_size(x);
    let x = n.emit_step(OpCall::unsqueeze(dim + 1), &[x])?;
    let mut pads = vec![0; 2 * (size.len() - dim)];
    let last = pads.len() - 1;
    pads[last] = step - 1;
    // The new dimension follows `dim`.
    let x = n.emit_step(OpCall::new("pad").with("pad", &pads[..]), &[x])?;
    let extent = size[dim];
    size[dim] = extent * step;
    let x = n.emit_step(OpCall::reshape(size), &[x])?;
    n.emit_step(OpCall::slice(dim, 0, (extent - 1) * step + 1), &[x])
}

/// Pads a dimension with zeros at its ends; a negative number crops elements.
fn pad_or_crop(
    n: &mut NodeLowering<'_, '_>,
    x: TensorId,
    dim: usize,
    left: i64,
    right: i64,
) -> Result<TensorId> {
    let mut x = x;
    if left > 0 || right > 0 {
        let rank = n.tensor_size(x).len();
        let mut pads = vec![0; 2 * (rank - dim)];
        let last = pads.len();
        (pads[last - 2], pads[last - 1]) = (left.max(0), right.max(0));
        x = n.emit_step(OpCall::new("pad").with("pad", pads), &[x])?;
    }
    if left < 0 || right < 0 {
        let (start, end) = ((-left).max(0), n.tensor_size(x)[dim] - (-right).max(0));
        x = n.emit_step(OpCall::slice(dim, start, end), &[x])?;
    }
    Ok(x)
}

/// The weights `[in, out of a group, ..]` of operand 1 as `[out, in of a group, ..]`, flipped in
/// space.
fn flip_weights(n: &mut NodeLowering<'_, '_>, weight: &[i64], groups: i64) -> Result<TensorId> {
    let dims: Vec<usize> = (2..weight.len()).collect();
    let w = n.operand_tensor(1)?;
    let w = n.emit_step(OpCall::flip(dims), &[w])?;
    let kernel = &weight[2..];
    let apart = [&[groups, weight[0] / groups, weight[1]], kernel].concat();
    let w = n.emit_step(OpCall::reshape(apart), &[w])?;
    let w = n.emit_step(OpCall::transpose(1, 2), &[w])?;
    let together = [&[groups * weight[1], weight[0] / groups], kernel].concat();
    n.emit_step(OpCall::reshape(together), &[w])
}

/// A causal convolution of each channel by itself. Operands: `[batch, channels, length]`, weights,
/// bias, the last elements of the past.
fn lower_causal_conv(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    n.check_arity(2, 4)?;
    let activation = n.word_attribute("activation", "none")?;
    let (size, weight) = (n.operand_size(0)?, n.operand_size(1)?);
    let ([_, channels, _], [_, 1, k]) = (&size[..], &weight[..]) else {
        let message = format!(
            "{size:?} and weights {weight:?}; accepted: [batch, channels, length] and [channels, 1, width]"
        );
        return Err(n.refuse_node("bad_operand", message));
    };
    let x = n.operand_tensor(0)?;
    let whole = if n.has_operand(3) {
        let past = n.operand_tensor(3)?;
        if *k == 1 { x } else { n.emit_step(OpCall::cat(2), &[past, x])? }
    } else {
        pad_or_crop(n, x, 2, k - 1, 0)?
    };
    let w = n.operand_tensor(1)?;
    let mut operands = vec![whole, w];
    if n.has_operand(2) {
        operands.push(n.operand_tensor(2)?);
    }
    let y = n.emit_step(OpCall::new("conv1d").with("groups", *channels), &operands)?;
    let y = match activation.as_str() {
        "none" => n.emit_result("identity", &[GraphOperand::Tensor(y)])?,
        "silu" | "swish" => n.emit_result("silu", &[GraphOperand::Tensor(y)])?,
        other => {
            let message =
                format!("attribute `activation` is `{other}`; accepted: none, silu, swish");
            return Err(n.refuse_node("bad_attribute", message));
        }
    };
    let length = n.tensor_size(whole)[2];
    let last = OpCall::slice(2, length - (k - 1), length);
    Ok(vec![y, ModelValue::Tensor(n.emit_step(last, &[whole])?)])
}

/// Adds columns of windows into the image at their positions: the transpose of unfolding windows.
fn lower_col2im(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    n.check_arity(3, 3)?;
    let (image, block) =
        (n.require_ints(1, "the shape of the image")?, n.require_ints(2, "the shape of a block")?);
    let rank = image.len();
    let (stride, dilation) =
        (ints_per_dim(n, "strides", rank, 1, 1)?, ints_per_dim(n, "dilations", rank, 1, 1)?);
    let pads = ints_per_dim(n, "pads", 2 * rank, 0, 0)?;
    let size = n.operand_size(0)?;
    let inside = |v: &i64| (1..1 << 20).contains(v);
    let inner: i64 = if block.iter().all(inside) { block.iter().product() } else { 0 };
    let ([batch, rows, columns], true) =
        (&size[..], block.len() == rank && image.iter().all(inside))
    else {
        return Err(n.refuse_operand(0, format!("{size:?} for {image:?} in blocks of {block:?}")));
    };
    if inner == 0 || rows % inner != 0 {
        return Err(n.refuse_operand(0, format!("{rows} rows in blocks of {block:?}")));
    }
    let w = SpatialWindows {
        kernel: block,
        stride,
        dilation,
        before: pads[..rank].to_vec(),
        after: pads[rank..].to_vec(),
    };
    let counts: Vec<i64> = (0..rank).map(|d| w.window_count(d, image[d], false)).collect();
    if counts.iter().product::<i64>() != *columns {
        return Err(n.refuse_operand(0, format!("{columns} columns; accepted: {counts:?} of them")));
    }
    // The pixel of every element of every block; elements in the padding get an additional index.
    let pixels: i64 = image.iter().product();
    let mut index = Vec::new();
    for k in 0..inner {
        for column in 0..*columns {
            let (mut at, mut k, mut c, mut step, mut is_in) = (0, k, column, 1, true);
            for d in (0..rank).rev() {
                let p =
                    (c % counts[d]) * w.stride[d] + (k % w.kernel[d]) * w.dilation[d] - w.before[d];
                is_in &= (0..image[d]).contains(&p);
                at += p * step;
                step *= image[d];
                k /= w.kernel[d];
                c /= counts[d];
            }
            index.push(if is_in { at as f64 } else { pixels as f64 });
        }
    }
    let count = inner * columns;
    let dtype = n.operand_dtype(0)?;
    let index = n.emit_numbers(&[count], index, zellige_float::Dtype::Int64, "index")?;
    let channels = rows / inner;
    let x = n.operand_tensor(0)?;
    let x = n.emit_step(OpCall::reshape([batch * channels, count]), &[x])?;
    // One place more than there are pixels: it collects what falls into the padding, and is cut
    // off.
    let full = OpCall::new("full")
        .with("size", [batch * channels, pixels + 1])
        .with("value", 0)
        .with("dtype", dtype.name());
    let zeros = n.emit_part("image", full, &[])?;
    let sums = n.emit_step(OpCall::new("index_add").with("dim", 1), &[zeros, index, x])?;
    let sums = n.emit_step(OpCall::slice(1, 0, pixels), &[sums])?;
    let shape = [&[*batch, channels], &image[..]].concat();
    Ok(vec![n.emit_result(OpCall::reshape(shape), &[GraphOperand::Tensor(sums)])?])
}
