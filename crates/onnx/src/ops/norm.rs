//! Normalisations.

use super::Table;
use crate::error::Result;
use crate::walk::Value;
use crate::node::Node;
use serde_json::{Value as Json, json};
use zellige_graph::{Operand, TensorId};

pub(super) const TABLE: Table = &[
    ("LayerNormalization", |n| rows(n, "layer_norm")),
    ("RMSNormalization", |n| rows(n, "rms_norm")),
    ("BatchNormalization", batch),
    ("GroupNormalization", group),
    ("InstanceNormalization", instance),
    ("LpNormalization", lp),
];

/// A scale or a bias of the normalized shape, which it may broadcast to.
fn filled(n: &mut Node<'_, '_>, k: usize, shape: &[i64]) -> Result<TensorId> {
    let x = n.tensor(k)?;
    if n.size_of(x) == shape {
        return Ok(x);
    }
    let part = format!("operand{k}");
    n.part(&part, "expand", &[Operand::Tensor(x)], json!({"size": shape}))
}

fn rows(n: &mut Node<'_, '_>, ours: &str) -> Result<Vec<Value>> {
    n.arity(2, 3)?;
    n.int("stash_type", 1)?;
    let eps = n.float("epsilon", 1e-5)?;
    let size = n.size(0)?;
    let axis = n.int("axis", -1)?;
    let shape = size[n.dim(axis, size.len())?..].to_vec();
    let mut operands = vec![Operand::Tensor(n.tensor(0)?)];
    for k in 1..n.inputs() {
        operands.push(Operand::Tensor(filled(n, k, &shape)?));
    }
    Ok(vec![n.emit(ours, &operands, json!({"normalized_shape": shape, "eps": eps}))?])
}

/// With the statistics of training; scale and bias are operands 1 and 2, mean and variance 3 and 4.
fn batch(n: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    n.arity(5, 5)?;
    n.only("training_mode", 0)?;
    n.float("momentum", 0.9)?;
    let eps = n.float("epsilon", 1e-5)?;
    let mut operands = Vec::new();
    for k in [0, 3, 4, 1, 2] {
        operands.push(Operand::Tensor(n.tensor(k)?));
    }
    Ok(vec![n.emit("batch_norm", &operands, json!({"eps": eps}))?])
}

fn grouped(n: &mut Node<'_, '_>, groups: i64, scales: bool) -> Result<Vec<Value>> {
    let eps = n.float("epsilon", 1e-5)?;
    let channels = n.size(0)?.get(1).copied().unwrap_or(0);
    let mut operands = vec![Operand::Tensor(n.tensor(0)?)];
    for k in [1, 2] {
        let mut x = n.tensor(k)?;
        // Before opset 21 there was one number for each group.
        if scales && n.size_of(x) == [groups] && groups > 0 && groups != channels {
            let each = json!({"repeats": channels / groups, "dim": 0});
            let part = if k == 1 { "scale" } else { "bias" };
            x = n.part(part, "repeat_interleave", &[Operand::Tensor(x)], each)?;
        }
        operands.push(Operand::Tensor(x));
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
    let x = Operand::Tensor(n.tensor(0)?);
    let norm = json!({"p": p, "dim": dim, "keepdim": true});
    let norm = Operand::Tensor(n.part("norm", "norm", std::slice::from_ref(&x), norm)?);
    // What is all zeros stays so.
    let zero = n.part("zero", "eq", &[norm.clone(), Operand::Number(0.0)], Json::Null)?;
    let by = n.part("by", "masked_fill", &[norm, Operand::Tensor(zero)], json!({"value": 1.0}))?;
    Ok(vec![n.emit("div", &[x, Operand::Tensor(by)], Json::Null)?])
}
