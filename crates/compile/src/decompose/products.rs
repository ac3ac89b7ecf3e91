//! Products with addends, and of vectors.

use super::recipe::{DecompositionRecipe, DecompositionResult, PartBuilder, RecipeInput};
use serde_json::{Value, json};
use zellige_graph::GraphOperand;

/// How a product is taken apart.
pub(crate) fn find_product_recipe(op: &str) -> Option<DecompositionRecipe> {
    Some(match op {
        "linear" => decompose_linear,
        "addmm" => |p, g| decompose_addmm(p, g, "mm"),
        "baddbmm" => |p, g| decompose_addmm(p, g, "bmm"),
        "mv" | "dot" => |p, g| {
            Ok(vec![p.add_result(0, "matmul", &[g.operand(0), g.operand(1)], Value::Null)?])
        },
        "vecdot" => decompose_vecdot,
        "outer" => |p, g| {
            let column = p.add_part("column", "unsqueeze", &[g.operand(0)], json!({"dim": 1}))?;
            Ok(vec![p.add_result(0, "mul", &[column, g.operand(1)], Value::Null)?])
        },
        _ => return None,
    })
}

/// `x W^T + bias`.
fn decompose_linear(p: &mut PartBuilder<'_>, g: &RecipeInput<'_>) -> DecompositionResult {
    let turned =
        p.add_part("weight", "transpose", &[g.operand(1)], json!({"dim0": 0, "dim1": 1}))?;
    if g.operand_count() < 3 {
        return Ok(vec![p.add_result(0, "matmul", &[g.operand(0), turned], Value::Null)?]);
    }
    let product = p.add_part("product", "matmul", &[g.operand(0), turned], Value::Null)?;
    Ok(vec![p.add_result(0, "add", &[product, g.operand(2)], Value::Null)?])
}

/// `beta input + alpha A B`; the input does not count where beta is 0.
fn decompose_addmm(p: &mut PartBuilder<'_>, g: &RecipeInput<'_>, op: &str) -> DecompositionResult {
    let (alpha, beta) = (g.number_attribute("alpha", 1.0)?, g.number_attribute("beta", 1.0)?);
    let pair = [g.operand(1), g.operand(2)];
    if beta == 0.0 && alpha == 1.0 {
        return Ok(vec![p.add_result(0, op, &pair, Value::Null)?]);
    }
    let product = p.add_part("product", op, &pair, Value::Null)?;
    let scale = |alpha: f64| if alpha == 1.0 { Value::Null } else { json!({ "alpha": alpha }) };
    Ok(vec![if beta == 0.0 {
        p.add_result(0, "mul", &[product, GraphOperand::Number(alpha)], Value::Null)?
    } else if beta == 1.0 {
        p.add_result(0, "add", &[g.operand(0), product], scale(alpha))?
    } else if alpha == 1.0 {
        p.add_result(0, "add", &[product, g.operand(0)], scale(beta))?
    } else {
        let scaled =
            p.add_part("scaled", "mul", &[product, GraphOperand::Number(alpha)], Value::Null)?;
        p.add_result(0, "add", &[scaled, g.operand(0)], scale(beta))?
    }])
}

/// Rows times columns of one matrix product for every pair of vectors.
fn decompose_vecdot(p: &mut PartBuilder<'_>, g: &RecipeInput<'_>) -> DecompositionResult {
    let row = p.add_part("row", "unsqueeze", &[g.operand(0)], json!({"dim": -2}))?;
    let column = p.add_part("column", "unsqueeze", &[g.operand(1)], json!({"dim": -1}))?;
    let product = p.add_part("product", "matmul", &[row, column], Value::Null)?;
    Ok(vec![p.add_result(0, "reshape", &[product], json!({"size": g.result_size()}))?])
}
