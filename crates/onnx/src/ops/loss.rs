//! Rules for losses: the negative logarithm of the probability predicted for the right class.

use super::RuleTable;
use crate::error::Result;
use crate::node::NodeLowering;
use crate::walk::ModelValue;
use serde_json::{Value as Json, json};
use zellige_graph::{GraphOperand, TensorId};

pub(super) const TABLE: RuleTable = &[
    ("NegativeLogLikelihoodLoss", |n| {
        n.check_arity(2, 3)?;
        let x = n.operand_tensor(0)?;
        Ok(vec![emit_class_loss(n, x)?])
    }),
    ("SoftmaxCrossEntropyLoss", |n| {
        n.check_arity(2, 3)?;
        let x = n.operand_tensor(0)?;
        // The classes are dimension 1 by definition, and the logarithms are the optional second
        // result.
        let logs = n.emit_step("log_softmax", &[x], json!({"dim": 1}))?;
        Ok(vec![emit_class_loss(n, logs)?, ModelValue::Tensor(logs)])
    }),
];

/// The loss for logarithms `[batch, classes, ..]` at the classes of operand 1, weighted by operand
/// 2.
fn emit_class_loss(n: &mut NodeLowering<'_, '_>, x: TensorId) -> Result<ModelValue> {
    let (size, target) = (n.tensor_size(x), n.operand_size(1)?);
    if size.len() < 2
        || target.len() != size.len() - 1
        || target[0] != size[0]
        || target[1..] != size[2..]
    {
        let message = format!("{target:?} beside {size:?}; accepted: its size without dimension 1");
        return Err(n.refuse_operand(1, message));
    }
    let ignored = if n.has_attribute("ignore_index") {
        Some(n.int_attribute("ignore_index", 0)?)
    } else {
        None
    };
    let reduction = n.word_attribute("reduction", "mean")?;
    if !matches!(reduction.as_str(), "none" | "sum" | "mean") {
        let message = format!("attribute `reduction` is `{reduction}`; accepted: none, sum, mean");
        return Err(n.refuse_node("bad_attribute", message));
    }
    let classes = n.operand_tensor(1)?;
    let dtype = n.operand_dtype(0)?;
    let (mut at, mut gone) = (classes, None);
    if let Some(ignored) = ignored {
        let mask = n.emit_part(
            "ignored",
            "eq",
            &[GraphOperand::Tensor(classes), GraphOperand::Whole(ignored)],
            Json::Null,
        )?;
        // `ignore_index` may lie outside of the classes (-100 in PyTorch), so a lookup would fail.
        // Class 0 takes its place, and its loss is weighted with 0 below.
        at = n.emit_step("masked_fill", &[classes, mask], json!({"value": 0}))?;
        gone = Some(mask);
    }
    let index = n.emit_step("unsqueeze", &[at], json!({"dim": 1}))?;
    let picked = n.emit_step("gather", &[x, index], json!({"dim": 1}))?;
    let picked = n.emit_step("squeeze", &[picked], json!({"dim": 1}))?;
    let mut loss = n.emit_step("neg", &[picked], Json::Null)?;
    let mut weights = None;
    if n.has_operand(2) {
        let (all, count) = (n.operand_tensor(2)?, target.iter().product::<i64>());
        let flat = n.emit_step("reshape", &[at], json!({"size": [count]}))?;
        let each = n.emit_step("index_select", &[all, flat], json!({"dim": 0}))?;
        weights = Some(n.emit_step("reshape", &[each], json!({"size": target}))?);
    } else if let Some(mask) = gone {
        let kept = n.emit_step("logical_not", &[mask], Json::Null)?;
        weights = Some(n.emit_step("cast", &[kept], json!({"dtype": dtype.name()}))?);
    }
    // Ignored elements took the weight of class 0 in the lookup above.
    if let (Some(each), Some(mask), true) = (weights, gone, n.has_operand(2)) {
        weights = Some(n.emit_step("masked_fill", &[each, mask], json!({"value": 0}))?);
    }
    if let Some(weights) = weights {
        loss = n.emit_step("mul", &[loss, weights], Json::Null)?;
    }
    let loss = GraphOperand::Tensor(loss);
    match (reduction.as_str(), weights) {
        ("none", _) => n.emit_result("identity", &[loss], Json::Null),
        ("sum", _) => n.emit_result("sum", &[loss], Json::Null),
        (_, None) => n.emit_result("mean", &[loss], Json::Null),
        // The mean of a weighted loss divides by the sum of the weights, not by the number of
        // elements.
        (_, Some(weights)) => {
            let sum = n.emit_part("sum", "sum", &[loss], Json::Null)?;
            let total = n.emit_step("sum", &[weights], Json::Null)?;
            n.emit_result(
                "div",
                &[GraphOperand::Tensor(sum), GraphOperand::Tensor(total)],
                Json::Null,
            )
        }
    }
}
