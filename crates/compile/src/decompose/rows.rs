//! Operations along whole rows: softmax and extremes.

use super::recipe::{
    DecompositionRecipe, DecompositionRefusal, DecompositionResult, PartBuilder, RecipeInput,
};
use zellige_graph::OpCall;

/// The decomposition of an operation along rows.
pub(crate) fn find_row_recipe(op: &str) -> Option<DecompositionRecipe> {
    Some(match op {
        "softmax" => |p, g| decompose_softmax(p, g, false),
        "log_softmax" => |p, g| decompose_softmax(p, g, true),
        "max" => |p, g| decompose_extreme(p, g, true),
        "min" => |p, g| decompose_extreme(p, g, false),
        _ => return None,
    })
}

/// With `d = x - max(x)`: `exp(d) / sum(exp(d))`, or `d - log(sum(exp(d)))`.
///
/// A row of nothing but minus infinities is NaN. In 16 bits the card encodes them as a number, whose
/// difference from itself is 0: there the largest counts as the lowest finite number at least, so that all
/// exponentials of such a row are 0, and 0 / 0 is NaN. No other row has a lower maximum.
fn decompose_softmax(
    p: &mut PartBuilder<'_>,
    g: &RecipeInput<'_>,
    log: bool,
) -> DecompositionResult {
    let dim = g.dim_attribute("dim", -1, g.operand_size(0).len())?;
    if g.operand_size(0).contains(&0) {
        return Err(DecompositionRefusal::Whole("it has no elements"));
    }
    let along_row = |op: &'static str| OpCall::reduce_dim(op, dim, true);
    let mut most = p.add_part("max", along_row("amax"), &[g.operand(0)])?;
    if g.encodes_infinity(0) {
        most = p.add_part("floor", "maximum", &[most, g.lowest_stored(0)])?;
    }
    let below = p.add_part("below", "sub", &[g.operand(0), most])?;
    let exp = p.add_part("exp", "exp", std::slice::from_ref(&below))?;
    let sum = p.add_part("sum", along_row("sum"), std::slice::from_ref(&exp))?;
    Ok(vec![if log {
        let mut log = p.add_part("log", "log", std::slice::from_ref(&sum))?;
        if g.encodes_infinity(0) {
            // One, or NaN where the sum is 0.
            let one = p.add_part("one", "div", &[sum.clone(), sum])?;
            log = p.add_part("number", "div", &[log, one])?;
        }
        p.add_result(0, "sub", &[below, log])?
    } else {
        p.add_result(0, "div", &[exp, sum])?
    }])
}

/// The first of a sort by size, and its index.
fn decompose_extreme(
    p: &mut PartBuilder<'_>,
    g: &RecipeInput<'_>,
    largest: bool,
) -> DecompositionResult {
    let rank = g.operand_size(0).len();
    let dim = g.dim_attribute("dim", -1, rank)?;
    if g.operand_size(0).contains(&0) {
        return Err(DecompositionRefusal::Whole("it has no elements"));
    }
    let first = OpCall::topk(1, dim, largest);
    let both = p.add_parts(&["first", "at"], first, &[g.operand(0)])?;
    let result = |k: usize, p: &mut PartBuilder<'_>| {
        p.add_result(k, OpCall::reshape(g.result_size()), &[both[k].clone()])
    };
    Ok(vec![result(0, p)?, result(1, p)?])
}
