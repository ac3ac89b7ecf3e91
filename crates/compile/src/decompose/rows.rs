//! Operations on whole lines.

use super::recipe::{Given, Made, Parts, Recipe, Stop};
use serde_json::{Value, json};

/// How an operation on lines is taken apart.
pub(crate) fn recipe(op: &str) -> Option<Recipe> {
    Some(match op {
        "softmax" => |p, g| softmax(p, g, false),
        "log_softmax" => |p, g| softmax(p, g, true),
        "max" => |p, g| extreme(p, g, true),
        "min" => |p, g| extreme(p, g, false),
        _ => return None,
    })
}

/// With `d = x - max(x)`: `exp(d) / sum(exp(d))`, or `d - log(sum(exp(d)))`.
///
/// A row of nothing but minus infinities is NaN. In 16 bits of the card a number stands for them, and its
/// difference from itself is 0: there the largest counts as the lowest finite number at least, so that all
/// exponentials of such a row are 0, and 0 / 0 is NaN. No other row has a lower maximum.
fn softmax(p: &mut Parts<'_>, g: &Given<'_>, log: bool) -> Made {
    let dim = g.dim("dim", -1, g.size(0).len())?;
    if g.size(0).contains(&0) {
        return Err(Stop::Whole("it has no elements"));
    }
    let along = || json!({"dim": dim, "keepdim": true});
    let mut most = p.part("max", "amax", &[g.operand(0)], along())?;
    if g.stands(0) {
        most = p.part("floor", "maximum", &[most, g.lowest(0)], Value::Null)?;
    }
    let below = p.part("below", "sub", &[g.operand(0), most], Value::Null)?;
    let exp = p.part("exp", "exp", std::slice::from_ref(&below), Value::Null)?;
    let sum = p.part("sum", "sum", std::slice::from_ref(&exp), along())?;
    Ok(vec![if log {
        let mut log = p.part("log", "log", std::slice::from_ref(&sum), Value::Null)?;
        if g.stands(0) {
            // One, or NaN where the sum is 0.
            let one = p.part("one", "div", &[sum.clone(), sum], Value::Null)?;
            log = p.part("number", "div", &[log, one], Value::Null)?;
        }
        p.last(0, "sub", &[below, log], Value::Null)?
    } else {
        p.last(0, "div", &[exp, sum], Value::Null)?
    }])
}

/// The first of a sort by size, and its index.
fn extreme(p: &mut Parts<'_>, g: &Given<'_>, largest: bool) -> Made {
    let rank = g.size(0).len();
    let dim = g.dim("dim", -1, rank)?;
    if g.size(0).contains(&0) {
        return Err(Stop::Whole("it has no elements"));
    }
    let first = json!({"k": 1, "dim": dim, "largest": largest});
    let both = p.several(&["first", "at"], "topk", &[g.operand(0)], first)?;
    let result = |k: usize, p: &mut Parts<'_>| {
        let size = json!({"size": g.result()});
        p.last(k, "reshape", &[both[k].clone()], size)
    };
    Ok(vec![result(0, p)?, result(1, p)?])
}
