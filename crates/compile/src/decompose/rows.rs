//! Operations on whole lines.

use super::recipe::{
    DecompositionRecipe, DecompositionRefusal, DecompositionResult, PartBuilder, RecipeInput,
};
use serde_json::{Value, json};

/// How an operation on lines is taken apart.
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
/// A row of nothing but minus infinities is NaN. In 16 bits of the card a number stands for them, and its
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
    let along = || json!({"dim": dim, "keepdim": true});
    let mut most = p.add_part("max", "amax", &[g.operand(0)], along())?;
    if g.encodes_infinity(0) {
        most = p.add_part("floor", "maximum", &[most, g.lowest_stored(0)], Value::Null)?;
    }
    let below = p.add_part("below", "sub", &[g.operand(0), most], Value::Null)?;
    let exp = p.add_part("exp", "exp", std::slice::from_ref(&below), Value::Null)?;
    let sum = p.add_part("sum", "sum", std::slice::from_ref(&exp), along())?;
    Ok(vec![if log {
        let mut log = p.add_part("log", "log", std::slice::from_ref(&sum), Value::Null)?;
        if g.encodes_infinity(0) {
            // One, or NaN where the sum is 0.
            let one = p.add_part("one", "div", &[sum.clone(), sum], Value::Null)?;
            log = p.add_part("number", "div", &[log, one], Value::Null)?;
        }
        p.add_result(0, "sub", &[below, log], Value::Null)?
    } else {
        p.add_result(0, "div", &[exp, sum], Value::Null)?
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
    let first = json!({"k": 1, "dim": dim, "largest": largest});
    let both = p.add_parts(&["first", "at"], "topk", &[g.operand(0)], first)?;
    let result = |k: usize, p: &mut PartBuilder<'_>| {
        let size = json!({"size": g.result_size()});
        p.add_result(k, "reshape", &[both[k].clone()], size)
    };
    Ok(vec![result(0, p)?, result(1, p)?])
}
