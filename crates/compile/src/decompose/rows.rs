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
fn softmax(p: &mut Parts<'_>, g: &Given<'_>, log: bool) -> Made {
    let dim = g.dim("dim", -1, g.size(0).len())?;
    if g.size(0).contains(&0) {
        return Err(Stop::Whole("it has no elements"));
    }
    let along = || json!({"dim": dim, "keepdim": true});
    let most = p.part("max", "amax", &[g.operand(0)], along())?;
    let below = p.part("below", "sub", &[g.operand(0), most], Value::Null)?;
    let exp = p.part("exp", "exp", std::slice::from_ref(&below), Value::Null)?;
    let sum = p.part("sum", "sum", std::slice::from_ref(&exp), along())?;
    Ok(vec![if log {
        let log = p.part("log", "log", &[sum], Value::Null)?;
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
