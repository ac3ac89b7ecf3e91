//! Rules for normalisations.

use super::RuleTable;
use crate::error::Result;
use crate::node::NodeLowering;
use crate::walk::ModelValue;
use zellige_float::Dtype;
use zellige_graph::{GraphOperand, OpCall, TensorId};

pub(super) const TABLE: RuleTable = &[
    ("LayerNormalization", |n| lower_row_norm(n, "layer_norm")),
    ("RMSNormalization", |n| lower_row_norm(n, "rms_norm")),
    ("BatchNormalization", lower_batch_norm),
    ("GroupNormalization", lower_group_norm),
    ("InstanceNormalization", lower_instance_norm),
    ("LpNormalization", lower_lp_norm),
    ("MeanVarianceNormalization", lower_mean_variance),
    ("LRN", lower_local_response),
];

/// Broadcasts a scale or a bias to the normalized shape.
fn fill_parameter(n: &mut NodeLowering<'_, '_>, k: usize, shape: &[i64]) -> Result<TensorId> {
    let x = n.operand_tensor(k)?;
    if n.tensor_size(x) == shape {
        return Ok(x);
    }
    let part = format!("operand{k}");
    n.emit_part(&part, OpCall::expand(shape), &[GraphOperand::Tensor(x)])
}

fn lower_row_norm(n: &mut NodeLowering<'_, '_>, ours: &'static str) -> Result<Vec<ModelValue>> {
    n.check_arity(2, 3)?;
    n.int_attribute("stash_type", 1)?;
    let eps = n.float_attribute("epsilon", 1e-5)?;
    let size = n.operand_size(0)?;
    let axis = n.int_attribute("axis", -1)?;
    let first = n.normalize_dim(axis, size.len())?;
    let shape = size[first..].to_vec();
    // The card's normalisation keeps its statistics to itself, so a model that asks for them gets
    // the formula.
    if n.result_count() > 1 {
        return emit_with_statistics(n, first, eps);
    }
    let mut operands = vec![GraphOperand::Tensor(n.operand_tensor(0)?)];
    for k in 1..n.operand_count() {
        operands.push(GraphOperand::Tensor(fill_parameter(n, k, &shape)?));
    }
    Ok(vec![n.emit_result(
        OpCall::new(ours).with("normalized_shape", shape).with("eps", eps),
        &operands,
    )?])
}

/// A row normalisation that also returns the means and the inverse standard deviations.
fn emit_with_statistics(
    n: &mut NodeLowering<'_, '_>,
    first: usize,
    eps: f64,
) -> Result<Vec<ModelValue>> {
    let x = n.operand_tensor(0)?;
    let dims: Vec<usize> = (first..n.operand_size(0)?.len()).collect();
    let average = OpCall::reduce("mean", dims, true);
    // `stash_type` 1: the statistics are float32 whatever the operand is.
    let wide = n.cast_tensor(x, Dtype::Float32)?;
    let mean = n.emit_step(average.clone(), &[wide])?;
    let centered = n.emit_step("sub", &[wide, mean])?;
    let squares = n.emit_step("square", &[centered])?;
    let variance = n.emit_step(average, &[squares])?;
    let variance = n.emit_with_number("add", variance, eps)?;
    let inverse = n.emit_step("rsqrt", &[variance])?;
    let normal = n.emit_step("mul", &[centered, inverse])?;
    let dtype = n.operand_dtype(0)?;
    let normal = n.cast_tensor(normal, dtype)?;
    let scale = n.operand_tensor(1)?;
    let mut y = n.emit_step("mul", &[normal, scale])?;
    if n.has_operand(2) {
        let bias = n.operand_tensor(2)?;
        y = n.emit_step("add", &[y, bias])?;
    }
    Ok([y, mean, inverse].map(ModelValue::Tensor).to_vec())
}

/// Batch normalisation in inference; scale and bias are operands 1 and 2, mean and variance 3 and
/// 4.
fn lower_batch_norm(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    n.check_arity(5, 5)?;
    n.require_attribute_is("training_mode", 0)?;
    // An attribute up to opset 8; 0 would mean statistics per element.
    n.require_attribute_is("spatial", 1)?;
    n.float_attribute("momentum", 0.9)?;
    let eps = n.float_attribute("epsilon", 1e-5)?;
    let mut operands = Vec::new();
    // ONNX orders scale, bias, mean, variance; PyTorch mean, variance, scale, bias.
    for k in [0, 3, 4, 1, 2] {
        operands.push(GraphOperand::Tensor(n.operand_tensor(k)?));
    }
    Ok(vec![n.emit_result(OpCall::new("batch_norm").with("eps", eps), &operands)?])
}

fn normalize_groups(
    n: &mut NodeLowering<'_, '_>,
    groups: i64,
    scales: bool,
) -> Result<Vec<ModelValue>> {
    let eps = n.float_attribute("epsilon", 1e-5)?;
    let channels = n.operand_size(0)?.get(1).copied().unwrap_or(0);
    let mut operands = vec![GraphOperand::Tensor(n.operand_tensor(0)?)];
    for k in [1, 2] {
        let mut x = n.operand_tensor(k)?;
        // Before opset 21 scale and bias have one number for each group.
        if scales && n.tensor_size(x) == [groups] && groups > 0 && groups != channels {
            let each =
                OpCall::new("repeat_interleave").with("repeats", channels / groups).with("dim", 0);
            let part = if k == 1 { "scale" } else { "bias" };
            x = n.emit_part(part, each, &[GraphOperand::Tensor(x)])?;
        }
        operands.push(GraphOperand::Tensor(x));
    }
    Ok(vec![n.emit_result(
        OpCall::new("group_norm").with("num_groups", groups).with("eps", eps),
        &operands,
    )?])
}

fn lower_group_norm(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    n.check_arity(3, 3)?;
    n.int_attribute("stash_type", 1)?;
    let groups = n.int_attribute("num_groups", 0)?;
    let old = n.opset() < 21;
    normalize_groups(n, groups, old)
}

fn lower_instance_norm(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    n.check_arity(3, 3)?;
    let channels = n.operand_size(0)?.get(1).copied().unwrap_or(0);
    normalize_groups(n, channels, false)
}

fn lower_lp_norm(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    n.check_arity(1, 1)?;
    let (p, axis, size) =
        (n.int_attribute("p", 2)?, n.int_attribute("axis", -1)?, n.operand_size(0)?);
    let dim = n.normalize_dim(axis, size.len())?;
    let x = GraphOperand::Tensor(n.operand_tensor(0)?);
    let norm = OpCall::new("norm").with("p", p).with("dim", dim).with("keepdim", true);
    let norm = GraphOperand::Tensor(n.emit_part("norm", norm, std::slice::from_ref(&x))?);
    // A line of zeros has norm 0 and stays zero.
    let zero = n.emit_part("zero", "eq", &[norm.clone(), GraphOperand::Number(0.0)])?;
    let by = n.emit_part(
        "by",
        OpCall::new("masked_fill").with("value", 1.0),
        &[norm, GraphOperand::Tensor(zero)],
    )?;
    Ok(vec![n.emit_result("div", &[x, GraphOperand::Tensor(by)])?])
}

fn lower_mean_variance(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    n.check_arity(1, 1)?;
    let rank = n.operand_size(0)?.len();
    // The default of the specification, for images [N, C, H, W].
    let axes = n.ints_attribute("axes")?.unwrap_or_else(|| vec![0, 2, 3]);
    let dims = axes.iter().map(|a| n.normalize_dim(*a, rank)).collect::<Result<Vec<_>>>()?;
    let average = OpCall::reduce("mean", dims, true);
    let x = n.operand_tensor(0)?;
    let mean = n.emit_step(average.clone(), &[x])?;
    let centered = n.emit_step("sub", &[x, mean])?;
    let squares = n.emit_step("square", &[centered])?;
    let variance = n.emit_step(average, &[squares])?;
    let deviation = n.emit_step("sqrt", &[variance])?;
    // The function body in the specification adds its epsilon to the deviation and not to the
    // variance.
    let deviation = n.emit_with_number("add", deviation, 1e-9)?;
    let operands = [centered, deviation].map(GraphOperand::Tensor);
    Ok(vec![n.emit_result("div", &operands)?])
}

/// Divides every element by a power of the sum of squares of its neighbours along the channels.
fn lower_local_response(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    n.check_arity(1, 1)?;
    let (alpha, beta) = (n.float_attribute("alpha", 1e-4)?, n.float_attribute("beta", 0.75)?);
    let (bias, count) = (n.float_attribute("bias", 1.0)?, n.int_attribute("size", 0)?);
    let size = n.operand_size(0)?;
    if size.len() < 2 || !(1..=1 << 16).contains(&count) {
        let message =
            format!("{count} neighbours in {size:?}; accepted: 1 and more, along dimension 1");
        return Err(n.refuse_node("bad_attribute", message));
    }
    let x = n.operand_tensor(0)?;
    let squares = n.emit_step("square", &[x])?;
    let mut pads = vec![0; 2 * (size.len() - 1)];
    let last = pads.len();
    // Channels from c - floor((size - 1) / 2) to c + ceil((size - 1) / 2), as in the specification.
    (pads[last - 2], pads[last - 1]) = ((count - 1) / 2, count - 1 - (count - 1) / 2);
    let wide = n.emit_step(OpCall::new("pad").with("pad", pads), &[squares])?;
    let windows = n.emit_step(
        OpCall::new("unfold").with("dim", 1).with("size", count).with("step", 1),
        &[wide],
    )?;
    let sums = n.emit_step(OpCall::new("sum").with("dim", -1), &[windows])?;
    let scaled = n.emit_with_number("mul", sums, alpha / count as f64)?;
    let base = n.emit_with_number("add", scaled, bias)?;
    let below = n.emit_with_number("pow", base, beta)?;
    Ok(vec![n.emit_result("div", &[GraphOperand::Tensor(x), GraphOperand::Tensor(below)])?])
}
