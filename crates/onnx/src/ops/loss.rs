//! Losses: the negative log of what was predicted for the right class.

use super::Table;
use crate::error::Result;
use crate::node::Node;
use crate::walk::Value;
use serde_json::{Value as Json, json};
use zellige_graph::{GraphOperand, TensorId};

pub(super) const TABLE: Table = &[
    ("NegativeLogLikelihoodLoss", |n| {
        n.arity(2, 3)?;
        let x = n.tensor(0)?;
        Ok(vec![loss(n, x)?])
    }),
    ("SoftmaxCrossEntropyLoss", |n| {
        n.arity(2, 3)?;
        let x = n.tensor(0)?;
        let logs = n.step("log_softmax", &[x], json!({"dim": 1}))?;
        Ok(vec![loss(n, logs)?, Value::Tensor(logs)])
    }),
];

/// The loss of logarithms `[batch, classes, ..]` at the classes of operand 1, weighted by operand 2.
fn loss(n: &mut Node<'_, '_>, x: TensorId) -> Result<Value> {
    let (size, target) = (n.size_of(x), n.size(1)?);
    if size.len() < 2
        || target.len() != size.len() - 1
        || target[0] != size[0]
        || target[1..] != size[2..]
    {
        let message = format!("{target:?} beside {size:?}; accepted: its size without dimension 1");
        return Err(n.bad_operand(1, message));
    }
    let ignored = if n.is_given("ignore_index") { Some(n.int("ignore_index", 0)?) } else { None };
    let reduction = n.word("reduction", "mean")?;
    if !matches!(reduction.as_str(), "none" | "sum" | "mean") {
        let message = format!("attribute `reduction` is `{reduction}`; accepted: none, sum, mean");
        return Err(n.bad("bad_attribute", message));
    }
    let classes = n.tensor(1)?;
    let dtype = n.dtype(0)?;
    let (mut at, mut gone) = (classes, None);
    if let Some(ignored) = ignored {
        let mask = n.part(
            "ignored",
            "eq",
            &[GraphOperand::Tensor(classes), GraphOperand::Whole(ignored)],
            Json::Null,
        )?;
        at = n.step("masked_fill", &[classes, mask], json!({"value": 0}))?;
        gone = Some(mask);
    }
    let index = n.step("unsqueeze", &[at], json!({"dim": 1}))?;
    let picked = n.step("gather", &[x, index], json!({"dim": 1}))?;
    let picked = n.step("squeeze", &[picked], json!({"dim": 1}))?;
    let mut loss = n.step("neg", &[picked], Json::Null)?;
    let mut weights = None;
    if n.has(2) {
        let (all, count) = (n.tensor(2)?, target.iter().product::<i64>());
        let flat = n.step("reshape", &[at], json!({"size": [count]}))?;
        let each = n.step("index_select", &[all, flat], json!({"dim": 0}))?;
        weights = Some(n.step("reshape", &[each], json!({"size": target}))?);
    } else if let Some(mask) = gone {
        let kept = n.step("logical_not", &[mask], Json::Null)?;
        weights = Some(n.step("cast", &[kept], json!({"dtype": dtype.name()}))?);
    }
    if let (Some(each), Some(mask), true) = (weights, gone, n.has(2)) {
        weights = Some(n.step("masked_fill", &[each, mask], json!({"value": 0}))?);
    }
    if let Some(weights) = weights {
        loss = n.step("mul", &[loss, weights], Json::Null)?;
    }
    let loss = GraphOperand::Tensor(loss);
    match (reduction.as_str(), weights) {
        ("none", _) => n.emit("identity", &[loss], Json::Null),
        ("sum", _) => n.emit("sum", &[loss], Json::Null),
        (_, None) => n.emit("mean", &[loss], Json::Null),
        (_, Some(weights)) => {
            let sum = n.part("sum", "sum", &[loss], Json::Null)?;
            let total = n.step("sum", &[weights], Json::Null)?;
            n.emit("div", &[GraphOperand::Tensor(sum), GraphOperand::Tensor(total)], Json::Null)
        }
    }
}
