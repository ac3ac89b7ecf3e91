//! Normalisations.

use super::Table;
use crate::error::Result;
use crate::node::Node;
use crate::walk::Value;
use serde_json::{Value as Json, json};
use zellige_float::Dtype;
use zellige_graph::{GraphOperand, TensorId};

pub(super) const TABLE: Table = &[
    ("LayerNormalization", |n| rows(n, "layer_norm")),
    ("RMSNormalization", |n| rows(n, "rms_norm")),
    ("BatchNormalization", batch),
    ("GroupNormalization", group),
    ("InstanceNormalization", instance),
    ("LpNormalization", lp),
    ("MeanVarianceNormalization", mean_variance),
    ("LRN", local_response),
];

/// A scale or a bias of the normalized shape, which it may broadcast to.
fn filled(n: &mut Node<'_, '_>, k: usize, shape: &[i64]) -> Result<TensorId> {
    let x = n.tensor(k)?;
    if n.size_of(x) == shape {
        return Ok(x);
    }
    let part = format!("operand{k}");
    n.part(&part, "expand", &[GraphOperand::Tensor(x)], json!({"size": shape}))
}

fn rows(n: &mut Node<'_, '_>, ours: &str) -> Result<Vec<Value>> {
    n.arity(2, 3)?;
    n.int("stash_type", 1)?;
    let eps = n.float("epsilon", 1e-5)?;
    let size = n.size(0)?;
    let axis = n.int("axis", -1)?;
    let first = n.dim(axis, size.len())?;
    let shape = size[first..].to_vec();
    if n.outputs() > 1 {
        return with_statistics(n, first, eps);
    }
    let mut operands = vec![GraphOperand::Tensor(n.tensor(0)?)];
    for k in 1..n.inputs() {
        operands.push(GraphOperand::Tensor(filled(n, k, &shape)?));
    }
    Ok(vec![n.emit(ours, &operands, json!({"normalized_shape": shape, "eps": eps}))?])
}

/// A normalisation of rows that also gives their means and the inverses of their deviations.
fn with_statistics(n: &mut Node<'_, '_>, first: usize, eps: f64) -> Result<Vec<Value>> {
    let x = n.tensor(0)?;
    let dims: Vec<usize> = (first..n.size(0)?.len()).collect();
    let over = json!({"dim": dims, "keepdim": true});
    let wide = n.cast(x, Dtype::Float32)?;
    let mean = n.step("mean", &[wide], over.clone())?;
    let centered = n.step("sub", &[wide, mean], Json::Null)?;
    let squares = n.step("square", &[centered], Json::Null)?;
    let variance = n.step("mean", &[squares], over)?;
    let variance = n.with("add", variance, eps)?;
    let inverse = n.step("rsqrt", &[variance], Json::Null)?;
    let normal = n.step("mul", &[centered, inverse], Json::Null)?;
    let dtype = n.dtype(0)?;
    let normal = n.cast(normal, dtype)?;
    let scale = n.tensor(1)?;
    let mut y = n.step("mul", &[normal, scale], Json::Null)?;
    if n.has(2) {
        let bias = n.tensor(2)?;
        y = n.step("add", &[y, bias], Json::Null)?;
    }
    Ok([y, mean, inverse].map(Value::Tensor).to_vec())
}

/// With the statistics of training; scale and bias are operands 1 and 2, mean and variance 3 and 4.
fn batch(n: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    n.arity(5, 5)?;
    n.only("training_mode", 0)?;
    n.only("spatial", 1)?;
    n.float("momentum", 0.9)?;
    let eps = n.float("epsilon", 1e-5)?;
    let mut operands = Vec::new();
    for k in [0, 3, 4, 1, 2] {
        operands.push(GraphOperand::Tensor(n.tensor(k)?));
    }
    Ok(vec![n.emit("batch_norm", &operands, json!({"eps": eps}))?])
}

fn grouped(n: &mut Node<'_, '_>, groups: i64, scales: bool) -> Result<Vec<Value>> {
    let eps = n.float("epsilon", 1e-5)?;
    let channels = n.size(0)?.get(1).copied().unwrap_or(0);
    let mut operands = vec![GraphOperand::Tensor(n.tensor(0)?)];
    for k in [1, 2] {
        let mut x = n.tensor(k)?;
        // Before opset 21 there was one number for each group.
        if scales && n.size_of(x) == [groups] && groups > 0 && groups != channels {
            let each = json!({"repeats": channels / groups, "dim": 0});
            let part = if k == 1 { "scale" } else { "bias" };
            x = n.part(part, "repeat_interleave", &[GraphOperand::Tensor(x)], each)?;
        }
        operands.push(GraphOperand::Tensor(x));
    }
    Ok(vec![n.emit("group_norm", &operands, json!({"num_groups": groups, "eps": eps}))?])
}

fn group(n: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    n.arity(3, 3)?;
    n.int("stash_type", 1)?;
    let groups = n.int("num_groups", 0)?;
    let old = n.opset() < 21;
    grouped(n, groups, old)
}

fn instance(n: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    n.arity(3, 3)?;
    let channels = n.size(0)?.get(1).copied().unwrap_or(0);
    grouped(n, channels, false)
}

fn lp(n: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    n.arity(1, 1)?;
    let (p, axis, size) = (n.int("p", 2)?, n.int("axis", -1)?, n.size(0)?);
    let dim = n.dim(axis, size.len())?;
    let x = GraphOperand::Tensor(n.tensor(0)?);
    let norm = json!({"p": p, "dim": dim, "keepdim": true});
    let norm = GraphOperand::Tensor(n.part("norm", "norm", std::slice::from_ref(&x), norm)?);
    // What is all zeros stays so.
    let zero = n.part("zero", "eq", &[norm.clone(), GraphOperand::Number(0.0)], Json::Null)?;
    let by =
        n.part("by", "masked_fill", &[norm, GraphOperand::Tensor(zero)], json!({"value": 1.0}))?;
    Ok(vec![n.emit("div", &[x, GraphOperand::Tensor(by)], Json::Null)?])
}

fn mean_variance(n: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    n.arity(1, 1)?;
    let rank = n.size(0)?.len();
    let axes = n.list("axes")?.unwrap_or_else(|| vec![0, 2, 3]);
    let dims = axes.iter().map(|a| n.dim(*a, rank)).collect::<Result<Vec<_>>>()?;
    let over = json!({"dim": dims, "keepdim": true});
    let x = n.tensor(0)?;
    let mean = n.step("mean", &[x], over.clone())?;
    let centered = n.step("sub", &[x, mean], Json::Null)?;
    let squares = n.step("square", &[centered], Json::Null)?;
    let variance = n.step("mean", &[squares], over)?;
    let deviation = n.step("sqrt", &[variance], Json::Null)?;
    let deviation = n.with("add", deviation, 1e-9)?;
    let operands = [centered, deviation].map(GraphOperand::Tensor);
    Ok(vec![n.emit("div", &operands, Json::Null)?])
}

/// Every element by a power of the squares of its neighbours along the channels.
fn local_response(n: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    n.arity(1, 1)?;
    let (alpha, beta) = (n.float("alpha", 1e-4)?, n.float("beta", 0.75)?);
    let (bias, count) = (n.float("bias", 1.0)?, n.int("size", 0)?);
    let size = n.size(0)?;
    if size.len() < 2 || !(1..=1 << 16).contains(&count) {
        let message =
            format!("{count} neighbours in {size:?}; accepted: 1 and more, along dimension 1");
        return Err(n.bad("bad_attribute", message));
    }
    let x = n.tensor(0)?;
    let squares = n.step("square", &[x], Json::Null)?;
    let mut pads = vec![0; 2 * (size.len() - 1)];
    let last = pads.len();
    (pads[last - 2], pads[last - 1]) = ((count - 1) / 2, count - 1 - (count - 1) / 2);
    let wide = n.step("pad", &[squares], json!({"pad": pads}))?;
    let windows = n.step("unfold", &[wide], json!({"dim": 1, "size": count, "step": 1}))?;
    let sums = n.step("sum", &[windows], json!({"dim": -1}))?;
    let scaled = n.with("mul", sums, alpha / count as f64)?;
    let base = n.with("add", scaled, bias)?;
    let below = n.with("pow", base, beta)?;
    Ok(vec![n.emit("div", &[GraphOperand::Tensor(x), GraphOperand::Tensor(below)], Json::Null)?])
}
