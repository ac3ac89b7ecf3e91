//! Products with addends, and of vectors.

use super::recipe::{DecompositionRecipe, DecompositionResult, PartBuilder, RecipeInput};
use zellige_graph::{GraphOperand, OpCall};

/// The decomposition of a product.
pub(crate) fn find_product_recipe(op: &str) -> Option<DecompositionRecipe> {
    Some(match op {
        "linear" => decompose_linear,
        "addmm" => |p, g| decompose_addmm(p, g, "mm"),
        "baddbmm" => |p, g| decompose_addmm(p, g, "bmm"),
        "mv" | "dot" => {
            |p, g| Ok(vec![p.add_result(0, "matmul", &[g.operand(0), g.operand(1)])?])
        }
        "vecdot" => decompose_vecdot,
        "outer" => |p, g| {
            let column = p.add_part("column", OpCall::unsqueeze(1), &[g.operand(0)])?;
            Ok(vec![p.add_result(0, "mul", &[column, g.operand(1)])?])
        },
        _ => return None,
    })
}

/// `x W^T + bias`.
fn decompose_linear(p: &mut PartBuilder<'_>, g: &RecipeInput<'_>) -> DecompositionResult {
    let turned = p.add_part("weight", OpCall::transpose(0, 1), &[g.operand(1)])?;
    if g.operand_count() < 3 {
        return Ok(vec![p.add_result(0, "matmul", &[g.operand(0), turned])?]);
    }
    let product = p.add_part("product", "matmul", &[g.operand(0), turned])?;
    Ok(vec![p.add_result(0, "add", &[product, g.operand(2)])?])
}

/// `beta input + alpha A B`; the input does not count where beta is 0.
fn decompose_addmm(
    p: &mut PartBuilder<'_>,
    g: &RecipeInput<'_>,
    op: &'static str,
) -> DecompositionResult {
    let (alpha, beta) = (g.number_attribute("alpha", 1.0)?, g.number_attribute("beta", 1.0)?);
    let pair = [g.operand(1), g.operand(2)];
    // With beta 0 PyTorch does not read the addend, so that a NaN in it does not reach the result.
    if beta == 0.0 && alpha == 1.0 {
        return Ok(vec![p.add_result(0, op, &pair)?]);
    }
    let product = p.add_part("product", op, &pair)?;
    let sum = OpCall::new("add");
    let sum_scaled_by = |alpha: f64| match alpha {
        1.0 => sum.clone(),
        _ => sum.clone().with_number("alpha", alpha),
    };
    Ok(vec![if beta == 0.0 {
        p.add_result(0, "mul", &[product, GraphOperand::Number(alpha)])?
    } else if beta == 1.0 {
        p.add_result(0, sum_scaled_by(alpha), &[g.operand(0), product])?
    } else if alpha == 1.0 {
        p.add_result(0, sum_scaled_by(beta), &[product, g.operand(0)])?
    } else {
        let scaled = p.add_part("scaled", "mul", &[product, GraphOperand::Number(alpha)])?;
        p.add_result(0, sum_scaled_by(beta), &[scaled, g.operand(0)])?
    }])
}

/// Rows times columns of one matrix product for every pair of vectors.
fn decompose_vecdot(p: &mut PartBuilder<'_>, g: &RecipeInput<'_>) -> DecompositionResult {
    let row = p.add_part("row", OpCall::unsqueeze(-2), &[g.operand(0)])?;
    let column = p.add_part("column", OpCall::unsqueeze(-1), &[g.operand(1)])?;
    let product = p.add_part("product", "matmul", &[row, column])?;
    Ok(vec![p.add_result(0, OpCall::reshape(g.result_size()), &[product])?])
}
