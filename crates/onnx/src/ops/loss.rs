//! Rules for losses: the negative logarithm of the probability predicted for the right class.

use super::RuleTable;
use crate::error::Result;
use crate::node::NodeLowering;
use crate::walk::ModelValue;
use zellige_graph::{GraphOperand, OpCall, TensorId};

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
        let logs = n.emit_step(OpCall::new("log_softmax").with("dim", 1), &[x])?;
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
        )?;
        // `ignore_index` may be outside of the classes (-100 in PyTorch), so a lookup would fail.
        // Class 0 takes its place, and its loss is weighted with 0 below.
        at = n.emit_step(OpCall::new("masked_fill").with("value", 0), &[classes, mask])?;
        gone = Some(mask);
    }
    let index = n.emit_step(OpCall::unsqueeze(1), &[at])?;
    let picked = n.emit_step(OpCall::new("gather").with("dim", 1), &[x, index])?;
    let picked = n.emit_step(OpCall::squeeze(1), &[picked])?;
    let mut loss = n.emit_step("neg", &[picked])?;
    let mut weights = None;
    if n.has_operand(2) {
        let (all, count) = (n.operand_tensor(2)?, target.iter().product::<i64>());
        let flat = n.emit_step(OpCall::reshape([count]), &[at])?;
        let each = n.emit_step(OpCall::new("index_select").with("dim", 0), &[all, flat])?;
        weights = Some(n.emit_step(OpCall::reshape(target), &[each])?);
    } else if let Some(mask) = gone {
        let kept = n.emit_step("logical_not", &[mask])?;
        weights = Some(n.emit_step(OpCall::cast(dtype), &[kept])?);
    }
    // Ignored elements took the weight of class 0 in the lookup above.
    if let (Some(each), Some(mask), true) = (weights, gone, n.has_operand(2)) {
        weights = Some(n.emit_step(OpCall::new("masked_fill").with("value", 0), &[each, mask])?);
    }
    if let Some(weights) = weights {
        loss = n.emit_step("mul", &[loss, weights])?;
    }
    let loss = GraphOperand::Tensor(loss);
    match (reduction.as_str(), weights) {
        ("none", _) => n.emit_result("identity", &[loss]),
        ("sum", _) => n.emit_result("sum", &[loss]),
        (_, None) => n.emit_result("mean", &[loss]),
        // The mean of a weighted loss divides by the sum of the weights, not by the number of
        // elements.
        (_, Some(weights)) => {
            let sum = n.emit_part("sum", "sum", &[loss])?;
            let total = n.emit_step("sum", &[weights])?;
            n.emit_result("div", &[GraphOperand::Tensor(sum), GraphOperand::Tensor(total)])
        }
    }
}
