//! Products with addends, and of vectors.

use super::recipe::{Given, Made, Parts, Recipe};
use serde_json::{Value, json};
use zellige_graph::GraphOperand;

/// How a product is taken apart.
pub(crate) fn recipe(op: &str) -> Option<Recipe> {
    Some(match op {
        "linear" => linear,
        "addmm" => |p, g| added(p, g, "mm"),
        "baddbmm" => |p, g| added(p, g, "bmm"),
        "mv" | "dot" => {
            |p, g| Ok(vec![p.last(0, "matmul", &[g.operand(0), g.operand(1)], Value::Null)?])
        }
        "vecdot" => vecdot,
        "outer" => |p, g| {
            let column = p.part("column", "unsqueeze", &[g.operand(0)], json!({"dim": 1}))?;
            Ok(vec![p.last(0, "mul", &[column, g.operand(1)], Value::Null)?])
        },
        _ => return None,
    })
}

/// `x W^T + bias`.
fn linear(p: &mut Parts<'_>, g: &Given<'_>) -> Made {
    let turned = p.part("weight", "transpose", &[g.operand(1)], json!({"dim0": 0, "dim1": 1}))?;
    if g.count() < 3 {
        return Ok(vec![p.last(0, "matmul", &[g.operand(0), turned], Value::Null)?]);
    }
    let product = p.part("product", "matmul", &[g.operand(0), turned], Value::Null)?;
    Ok(vec![p.last(0, "add", &[product, g.operand(2)], Value::Null)?])
}

/// `beta input + alpha A B`; the input does not count where beta is 0.
fn added(p: &mut Parts<'_>, g: &Given<'_>, op: &str) -> Made {
    let (alpha, beta) = (g.number("alpha", 1.0)?, g.number("beta", 1.0)?);
    let pair = [g.operand(1), g.operand(2)];
    if beta == 0.0 && alpha == 1.0 {
        return Ok(vec![p.last(0, op, &pair, Value::Null)?]);
    }
    let product = p.part("product", op, &pair, Value::Null)?;
    let scale = |alpha: f64| if alpha == 1.0 { Value::Null } else { json!({ "alpha": alpha }) };
    Ok(vec![if beta == 0.0 {
        p.last(0, "mul", &[product, GraphOperand::Number(alpha)], Value::Null)?
    } else if beta == 1.0 {
        p.last(0, "add", &[g.operand(0), product], scale(alpha))?
    } else if alpha == 1.0 {
        p.last(0, "add", &[product, g.operand(0)], scale(beta))?
    } else {
        let scaled =
            p.part("scaled", "mul", &[product, GraphOperand::Number(alpha)], Value::Null)?;
        p.last(0, "add", &[scaled, g.operand(0)], scale(beta))?
    }])
}

/// Rows times columns of one matrix product for every pair of vectors.
fn vecdot(p: &mut Parts<'_>, g: &Given<'_>) -> Made {
    let row = p.part("row", "unsqueeze", &[g.operand(0)], json!({"dim": -2}))?;
    let column = p.part("column", "unsqueeze", &[g.operand(1)], json!({"dim": -1}))?;
    let product = p.part("product", "matmul", &[row, column], Value::Null)?;
    Ok(vec![p.last(0, "reshape", &[product], json!({"size": g.result()}))?])
}
