//! Pointwise operations.

use super::recipe::{Given, Made, Parts, Recipe, Stop};
use serde_json::{Value, json};
use zellige_float::Dtype;
use zellige_graph::GraphOperand;

/// How a pointwise operation is taken apart.
pub(crate) fn recipe(op: &str) -> Option<Recipe> {
    Some(match op {
        "sign" | "sgn" => sign,
        "ceil" => |p, g| {
            g.floats_only()?;
            let low = one(p, "neg", "neg", g.operand(0))?;
            let floor = one(p, "floor", "floor", low)?;
            last(p, "neg", &[floor])
        },
        "trunc" => |p, g| {
            g.floats_only()?;
            let (below, up, down) = truncated(p, g)?;
            last(p, "where", &[below, up, down])
        },
        "frac" => |p, g| {
            let (below, up, down) = truncated(p, g)?;
            let whole = p.part("whole", "where", &[below, up, down], Value::Null)?;
            last(p, "sub", &[g.operand(0), whole])
        },
        "round" => round,
        "logical_not" => |p, g| last(p, "eq", &[g.operand(0), number(0.0)]),
        "bitwise_not" => |p, g| {
            if g.dtype(0) == Dtype::Bool {
                return last(p, "eq", &[g.operand(0), number(0.0)]);
            }
            let neg = one(p, "neg", "neg", g.operand(0))?;
            last(p, "sub", &[neg, number(1.0)])
        },
        "isnan" => |p, g| last(p, "ne", &[g.operand(0), g.operand(0)]),
        "isfinite" => |p, g| {
            has_infinities(g)?;
            let zero = p.part("zero", "sub", &[g.operand(0), g.operand(0)], Value::Null)?;
            last(p, "eq", &[zero, number(0.0)])
        },
        "isinf" => |p, g| {
            has_infinities(g)?;
            let zero = p.part("zero", "sub", &[g.operand(0), g.operand(0)], Value::Null)?;
            let odd = p.part("odd", "ne", &[zero, number(0.0)], Value::Null)?;
            let some = p.part("number", "eq", &[g.operand(0), g.operand(0)], Value::Null)?;
            last(p, "logical_and", &[odd, some])
        },
        "log2" => |p, g| logarithm(p, g, std::f64::consts::LOG2_E),
        "log10" => |p, g| logarithm(p, g, std::f64::consts::LOG10_E),
        "log_sigmoid" => |p, g| {
            let neg = one(p, "neg", "neg", g.operand(0))?;
            let plus = one(p, "softplus", "softplus", neg)?;
            last(p, "neg", &[plus])
        },
        "mish" => |p, g| {
            let plus = one(p, "softplus", "softplus", g.operand(0))?;
            let tanh = one(p, "tanh", "tanh", plus)?;
            last(p, "mul", &[g.operand(0), tanh])
        },
        "leaky_relu" => |p, g| {
            g.floats_only()?;
            let slope = number(g.number("negative_slope", 0.01)?);
            let above = p.part("above", "gt", &[g.operand(0), number(0.0)], Value::Null)?;
            let low = p.part("low", "mul", &[g.operand(0), slope], Value::Null)?;
            last(p, "where", &[above, g.operand(0), low])
        },
        "hardsigmoid" => |p, g| {
            let sixths = sixths(p, g)?;
            last(p, "div", &[sixths, number(6.0)])
        },
        "hardswish" => |p, g| {
            let sixths = sixths(p, g)?;
            let gate = p.part("gate", "div", &[sixths, number(6.0)], Value::Null)?;
            last(p, "mul", &[g.operand(0), gate])
        },
        "hardtanh" => |p, g| {
            let bound = |name, usual: i64| g.attribute(name).cloned().unwrap_or(usual.into());
            let bounds = json!({"min": bound("min_val", -1), "max": bound("max_val", 1)});
            Ok(vec![p.last(0, "clamp", &[g.operand(0)], bounds)?])
        },
        "threshold" => |p, g| {
            g.floats_only()?;
            let limit = g.number("threshold", 0.0)?;
            if !is_short(limit) {
                return Err(Stop::Whole("its threshold would be rounded"));
            }
            let below = p.part("below", "le", &[g.operand(0), number(limit)], Value::Null)?;
            let value = number(g.number("value", 0.0)?);
            last(p, "where", &[below, value, g.operand(0)])
        },
        "masked_fill" => |p, g| {
            let value = g.constant_of("value")?;
            last(p, "where", &[g.operand(1), value, g.operand(0)])
        },
        "clamp_tensor" => |p, g| {
            let up = p.part("up", "maximum", &[g.operand(0), g.operand(1)], Value::Null)?;
            last(p, "minimum", &[up, g.operand(2)])
        },
        "addcmul" => |p, g| plus(p, g, "mul"),
        "addcdiv" => |p, g| plus(p, g, "div"),
        "lerp" => |p, g| {
            let far = p.part("far", "sub", &[g.operand(1), g.operand(0)], Value::Null)?;
            let step = p.part("step", "mul", &[far, g.operand(2)], Value::Null)?;
            last(p, "add", &[g.operand(0), step])
        },
        "floor_divide" => |p, g| {
            let floor = json!({"rounding_mode": "floor"});
            Ok(vec![p.last(0, "div", &[g.operand(0), g.operand(1)], floor)?])
        },
        "pow" => power,
        "logaddexp" => |p, g| {
            g.floats_only()?;
            let most = p.part("max", "maximum", &[g.operand(0), g.operand(1)], Value::Null)?;
            let far = p.part("far", "sub", &[g.operand(0), g.operand(1)], Value::Null)?;
            let gap = one(p, "gap", "abs", far)?;
            let low = one(p, "neg", "neg", gap)?;
            let more = one(p, "more", "softplus", low)?;
            last(p, "add", &[most, more])
        },
        _ => return None,
    })
}

/// Arithmetic tells infinities from numbers only where they are no numbers themselves.
fn has_infinities(g: &Given<'_>) -> Result<(), Stop> {
    if g.is_float(0) {
        return Err(Stop::Whole("numbers of 16 bits stand for infinities"));
    }
    Ok(())
}

fn number(value: f64) -> GraphOperand {
    GraphOperand::Number(value)
}

fn one(p: &mut Parts<'_>, part: &str, op: &str, x: GraphOperand) -> Result<GraphOperand, Stop> {
    p.part(part, op, &[x], Value::Null)
}

fn last(p: &mut Parts<'_>, op: &str, operands: &[GraphOperand]) -> Made {
    Ok(vec![p.last(0, op, operands, Value::Null)?])
}

/// Whether every 16-bit format holds the number: ten significant bits, and a moderate size.
fn is_short(x: f64) -> bool {
    let moderate = x == 0.0 || (6.2e-5..=65504.0).contains(&x.abs());
    moderate && x.to_bits().trailing_zeros() >= 52 - 9
}

/// 1 above zero less 1 below.
fn sign(p: &mut Parts<'_>, g: &Given<'_>) -> Made {
    let dtype = g.dtype(0);
    if dtype == Dtype::Bool {
        return Err(Stop::Whole("truth values are not taken apart"));
    }
    let mut side = |part: &str, as_number: &str, op: &str| {
        let truth = p.part(part, op, &[g.operand(0), number(0.0)], Value::Null)?;
        p.part(as_number, "cast", &[truth], json!({"dtype": dtype.to_string()}))
    };
    let above = side("above", "plus", "gt")?;
    let below = side("below", "minus", "lt")?;
    last(p, "sub", &[above, below])
}

/// Whether numbers are below zero, and both ways to the whole numbers beside them.
fn truncated(
    p: &mut Parts<'_>,
    g: &Given<'_>,
) -> Result<(GraphOperand, GraphOperand, GraphOperand), Stop> {
    let below = p.part("below", "lt", &[g.operand(0), number(0.0)], Value::Null)?;
    let neg = one(p, "neg", "neg", g.operand(0))?;
    let floor = one(p, "floor", "floor", neg)?;
    let up = one(p, "up", "neg", floor)?;
    let down = one(p, "down", "floor", g.operand(0))?;
    Ok((below, up, down))
}

/// The whole number below, and one more where the rest is over a half, or a half beside an odd one.
/// Every step is exact in every float format.
fn round(p: &mut Parts<'_>, g: &Given<'_>) -> Made {
    g.floats_only()?;
    let null = || Value::Null;
    let floor = one(p, "floor", "floor", g.operand(0))?;
    let rest = p.part("rest", "sub", &[g.operand(0), floor.clone()], null())?;
    let half = p.part("half", "mul", &[floor.clone(), number(0.5)], null())?;
    let pair = one(p, "pair", "floor", half)?;
    let odd = p.part("odd", "sub", &[floor.clone(), pair], json!({"alpha": 2}))?;
    let tie = p.part("tie", "add", &[floor.clone(), odd], null())?;
    let up = p.part("up", "add", &[floor.clone(), number(1.0)], null())?;
    let is_tie = p.part("is_tie", "eq", &[rest.clone(), number(0.5)], null())?;
    let is_up = p.part("is_up", "gt", &[rest, number(0.5)], null())?;
    let low = p.part("low", "where", &[is_tie, tie, floor], null())?;
    last(p, "where", &[is_up, up, low])
}

/// The natural logarithm times a number.
fn logarithm(p: &mut Parts<'_>, g: &Given<'_>, factor: f64) -> Made {
    let log = one(p, "log", "log", g.operand(0))?;
    last(p, "mul", &[log, number(factor)])
}

/// `x + 3` between 0 and 6.
fn sixths(p: &mut Parts<'_>, g: &Given<'_>) -> Result<GraphOperand, Stop> {
    let moved = p.part("moved", "add", &[g.operand(0), number(3.0)], Value::Null)?;
    p.part("sixths", "clamp", &[moved], json!({"min": 0, "max": 6}))
}

/// `x + value (a op b)`.
fn plus(p: &mut Parts<'_>, g: &Given<'_>, op: &str) -> Made {
    let part = p.part("part", op, &[g.operand(1), g.operand(2)], Value::Null)?;
    let exact = g.attribute("value").cloned().unwrap_or(1.into());
    let value = g.number("value", 1.0)?;
    let scale = if value == 1.0 { Value::Null } else { json!({ "alpha": exact }) };
    Ok(vec![p.last(0, "add", &[g.operand(0), part], scale)?])
}

/// Exponents that have an instruction or two.
fn power(p: &mut Parts<'_>, g: &Given<'_>) -> Made {
    let x = || g.operand(0);
    let exponent = g.constant(1).ok_or(Stop::Whole("its exponent is no constant"))?;
    if exponent != 2.0 && exponent != 3.0 {
        g.floats_only()?;
    }
    if exponent == 2.0 {
        last(p, "square", &[x()])
    } else if exponent == 3.0 {
        let square = one(p, "square", "square", x())?;
        last(p, "mul", &[square, x()])
    } else if exponent == 0.5 {
        last(p, "sqrt", &[x()])
    } else if exponent == -0.5 {
        last(p, "rsqrt", &[x()])
    } else if exponent == -1.0 {
        last(p, "reciprocal", &[x()])
    } else {
        Err(Stop::Whole("a rounded logarithm would lose digits"))
    }
}
