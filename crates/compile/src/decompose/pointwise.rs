//! Pointwise operations.

use super::recipe::{
    DecompositionRecipe, DecompositionRefusal, DecompositionResult, PartBuilder, RecipeInput,
};
use zellige_float::Dtype;
use zellige_graph::{GraphOperand, OpCall};

/// The decomposition of a pointwise operation.
pub(crate) fn find_pointwise_recipe(op: &str) -> Option<DecompositionRecipe> {
    Some(match op {
        "sign" | "sgn" => decompose_sign,
        "ceil" => |p, g| {
            g.require_floats()?;
            let low = add_unary(p, "neg", "neg", g.operand(0))?;
            let floor = add_unary(p, "floor", "floor", low)?;
            add_final_result(p, "neg", &[floor])
        },
        "trunc" => |p, g| {
            g.require_floats()?;
            let (below, up, down) = add_floor_and_ceil(p, g)?;
            add_final_result(p, "where", &[below, up, down])
        },
        "frac" => |p, g| {
            let (below, up, down) = add_floor_and_ceil(p, g)?;
            let whole = p.add_part("whole", "where", &[below, up, down])?;
            add_final_result(p, "sub", &[g.operand(0), whole])
        },
        "round" => decompose_round,
        "logical_not" => |p, g| add_final_result(p, "eq", &[g.operand(0), number_operand(0.0)]),
        "bitwise_not" => |p, g| {
            if g.operand_dtype(0) == Dtype::Bool {
                return add_final_result(p, "eq", &[g.operand(0), number_operand(0.0)]);
            }
            let neg = add_unary(p, "neg", "neg", g.operand(0))?;
            add_final_result(p, "sub", &[neg, number_operand(1.0)])
        },
        // NaN is the only number that differs from itself.
        "isnan" => |p, g| add_final_result(p, "ne", &[g.operand(0), g.operand(0)]),
        "isfinite" => |p, g| {
            require_infinities(g)?;
            // A number less itself is 0, and an infinity less itself is NaN.
            let zero = p.add_part("zero", "sub", &[g.operand(0), g.operand(0)])?;
            add_final_result(p, "eq", &[zero, number_operand(0.0)])
        },
        "isinf" => |p, g| {
            require_infinities(g)?;
            let zero = p.add_part("zero", "sub", &[g.operand(0), g.operand(0)])?;
            let odd = p.add_part("odd", "ne", &[zero, number_operand(0.0)])?;
            let some = p.add_part("number", "eq", &[g.operand(0), g.operand(0)])?;
            add_final_result(p, "logical_and", &[odd, some])
        },
        "log2" => |p, g| decompose_logarithm(p, g, std::f64::consts::LOG2_E),
        "log10" => |p, g| decompose_logarithm(p, g, std::f64::consts::LOG10_E),
        "log_sigmoid" => |p, g| {
            let neg = add_unary(p, "neg", "neg", g.operand(0))?;
            let plus = add_unary(p, "softplus", "softplus", neg)?;
            add_final_result(p, "neg", &[plus])
        },
        "mish" => |p, g| {
            let plus = add_unary(p, "softplus", "softplus", g.operand(0))?;
            let tanh = add_unary(p, "tanh", "tanh", plus)?;
            add_final_result(p, "mul", &[g.operand(0), tanh])
        },
        "leaky_relu" => |p, g| {
            g.require_floats()?;
            let slope = number_operand(g.number_attribute("negative_slope", 0.01)?);
            let above = p.add_part("above", "gt", &[g.operand(0), number_operand(0.0)])?;
            let low = p.add_part("low", "mul", &[g.operand(0), slope])?;
            add_final_result(p, "where", &[above, g.operand(0), low])
        },
        "hardsigmoid" => |p, g| {
            let sixths = add_clamped_sixths(p, g)?;
            add_final_result(p, "div", &[sixths, number_operand(6.0)])
        },
        "hardswish" => |p, g| {
            let sixths = add_clamped_sixths(p, g)?;
            let gate = p.add_part("gate", "div", &[sixths, number_operand(6.0)])?;
            add_final_result(p, "mul", &[g.operand(0), gate])
        },
        "hardtanh" => |p, g| {
            let bound = |name, usual: i64| g.attribute(name).cloned().unwrap_or(usual.into());
            let clamp = OpCall::new("clamp")
                .with("min", bound("min_val", -1))
                .with("max", bound("max_val", 1));
            add_final_result(p, clamp, &[g.operand(0)])
        },
        "threshold" => |p, g| {
            g.require_floats()?;
            let limit = g.number_attribute("threshold", 0.0)?;
            // A number next to the threshold would change sides if the card rounded the threshold.
            if !is_short(limit) {
                return Err(DecompositionRefusal::Whole("its threshold would be rounded"));
            }
            let below = p.add_part("below", "le", &[g.operand(0), number_operand(limit)])?;
            let value = number_operand(g.number_attribute("value", 0.0)?);
            add_final_result(p, "where", &[below, value, g.operand(0)])
        },
        "masked_fill" => |p, g| {
            let value = g.attribute_operand("value")?;
            add_final_result(p, "where", &[g.operand(1), value, g.operand(0)])
        },
        "clamp_tensor" => |p, g| {
            let up = p.add_part("up", "maximum", &[g.operand(0), g.operand(1)])?;
            add_final_result(p, "minimum", &[up, g.operand(2)])
        },
        "addcmul" => |p, g| decompose_scaled_addend(p, g, "mul"),
        "addcdiv" => |p, g| decompose_scaled_addend(p, g, "div"),
        "lerp" => |p, g| {
            let far = p.add_part("far", "sub", &[g.operand(1), g.operand(0)])?;
            let step = p.add_part("step", "mul", &[far, g.operand(2)])?;
            add_final_result(p, "add", &[g.operand(0), step])
        },
        "floor_divide" => |p, g| {
            let floor = OpCall::new("div").with("rounding_mode", "floor");
            add_final_result(p, floor, &[g.operand(0), g.operand(1)])
        },
        "pow" => decompose_power,
        "logaddexp" => |p, g| {
            g.require_floats()?;
            let most = p.add_part("max", "maximum", &[g.operand(0), g.operand(1)])?;
            let far = p.add_part("far", "sub", &[g.operand(0), g.operand(1)])?;
            let gap = add_unary(p, "gap", "abs", far)?;
            // `max + softplus(-|a - b|)`: the exponential of a negative number never overflows.
            let low = add_unary(p, "neg", "neg", gap)?;
            let more = add_unary(p, "more", "softplus", low)?;
            add_final_result(p, "add", &[most, more])
        },
        _ => return None,
    })
}

/// Refuses formats that encode infinities as numbers: arithmetic cannot distinguish the two there.
fn require_infinities(g: &RecipeInput<'_>) -> Result<(), DecompositionRefusal> {
    if g.is_float(0) {
        return Err(DecompositionRefusal::Whole("numbers of 16 bits stand for infinities"));
    }
    Ok(())
}

fn number_operand(value: f64) -> GraphOperand {
    GraphOperand::Number(value)
}

fn add_unary(
    p: &mut PartBuilder<'_>,
    part: &str,
    op: &'static str,
    x: GraphOperand,
) -> Result<GraphOperand, DecompositionRefusal> {
    p.add_part(part, op, &[x])
}

fn add_final_result(
    p: &mut PartBuilder<'_>,
    call: impl Into<OpCall>,
    operands: &[GraphOperand],
) -> DecompositionResult {
    Ok(vec![p.add_result(0, call, operands)?])
}

/// Whether every 16-bit format holds the number: ten significant bits, and a moderate size.
fn is_short(x: f64) -> bool {
    let moderate = x == 0.0 || (6.2e-5..=65504.0).contains(&x.abs());
    moderate && x.to_bits().trailing_zeros() >= 52 - 9
}

/// 1 above zero less 1 below.
fn decompose_sign(p: &mut PartBuilder<'_>, g: &RecipeInput<'_>) -> DecompositionResult {
    let dtype = g.operand_dtype(0);
    if dtype == Dtype::Bool {
        return Err(DecompositionRefusal::Whole("truth values are not decomposed"));
    }
    let mut side = |part: &str, as_number: &str, op: &'static str| {
        let truth = p.add_part(part, op, &[g.operand(0), number_operand(0.0)])?;
        p.add_part(as_number, OpCall::new("cast").with("dtype", dtype.to_string()), &[truth])
    };
    let above = side("above", "plus", "gt")?;
    let below = side("below", "minus", "lt")?;
    add_final_result(p, "sub", &[above, below])
}

/// Whether numbers are below zero, and both ways to the whole numbers beside them.
fn add_floor_and_ceil(
    p: &mut PartBuilder<'_>,
    g: &RecipeInput<'_>,
) -> Result<(GraphOperand, GraphOperand, GraphOperand), DecompositionRefusal> {
    let below = p.add_part("below", "lt", &[g.operand(0), number_operand(0.0)])?;
    let neg = add_unary(p, "neg", "neg", g.operand(0))?;
    let floor = add_unary(p, "floor", "floor", neg)?;
    let up = add_unary(p, "up", "neg", floor)?;
    let down = add_unary(p, "down", "floor", g.operand(0))?;
    Ok((below, up, down))
}

/// The whole number below, and one more where the rest is over a half, or a half beside an odd one.
/// Every step is exact in every float format.
fn decompose_round(p: &mut PartBuilder<'_>, g: &RecipeInput<'_>) -> DecompositionResult {
    g.require_floats()?;
    let floor = add_unary(p, "floor", "floor", g.operand(0))?;
    let rest = p.add_part("rest", "sub", &[g.operand(0), floor.clone()])?;
    let half = p.add_part("half", "mul", &[floor.clone(), number_operand(0.5)])?;
    let pair = add_unary(p, "pair", "floor", half)?;
    let odd = p.add_part("odd", OpCall::new("sub").with("alpha", 2), &[floor.clone(), pair])?;
    let tie = p.add_part("tie", "add", &[floor.clone(), odd])?;
    let up = p.add_part("up", "add", &[floor.clone(), number_operand(1.0)])?;
    let is_tie = p.add_part("is_tie", "eq", &[rest.clone(), number_operand(0.5)])?;
    let is_up = p.add_part("is_up", "gt", &[rest, number_operand(0.5)])?;
    let low = p.add_part("low", "where", &[is_tie, tie, floor])?;
    add_final_result(p, "where", &[is_up, up, low])
}

/// The natural logarithm times a number.
fn decompose_logarithm(
    p: &mut PartBuilder<'_>,
    g: &RecipeInput<'_>,
    factor: f64,
) -> DecompositionResult {
    let log = add_unary(p, "log", "log", g.operand(0))?;
    add_final_result(p, "mul", &[log, number_operand(factor)])
}

/// `x + 3` between 0 and 6.
fn add_clamped_sixths(
    p: &mut PartBuilder<'_>,
    g: &RecipeInput<'_>,
) -> Result<GraphOperand, DecompositionRefusal> {
    let moved = p.add_part("moved", "add", &[g.operand(0), number_operand(3.0)])?;
    p.add_part("sixths", OpCall::new("clamp").with("min", 0).with("max", 6), &[moved])
}

/// `x + value (a op b)`.
fn decompose_scaled_addend(
    p: &mut PartBuilder<'_>,
    g: &RecipeInput<'_>,
    op: &'static str,
) -> DecompositionResult {
    let part = p.add_part("part", op, &[g.operand(1), g.operand(2)])?;
    let exact = g.attribute("value").cloned().unwrap_or(1.into());
    let value = g.number_attribute("value", 1.0)?;
    let sum = OpCall::new("add");
    let sum = if value == 1.0 { sum } else { sum.with("alpha", exact) };
    add_final_result(p, sum, &[g.operand(0), part])
}

/// Exponents for which one or two instructions suffice.
fn decompose_power(p: &mut PartBuilder<'_>, g: &RecipeInput<'_>) -> DecompositionResult {
    let x = || g.operand(0);
    // Other exponents need `exp(y log(x))`, whose rounded logarithm loses digits that the exponential then
    // multiplies.
    let exponent =
        g.constant_operand(1).ok_or(DecompositionRefusal::Whole("its exponent is no constant"))?;
    if exponent != 2.0 && exponent != 3.0 {
        g.require_floats()?;
    }
    if exponent == 2.0 {
        add_final_result(p, "square", &[x()])
    } else if exponent == 3.0 {
        let square = add_unary(p, "square", "square", x())?;
        add_final_result(p, "mul", &[square, x()])
    } else if exponent == 0.5 {
        add_final_result(p, "sqrt", &[x()])
    } else if exponent == -0.5 {
        add_final_result(p, "rsqrt", &[x()])
    } else if exponent == -1.0 {
        add_final_result(p, "reciprocal", &[x()])
    } else {
        Err(DecompositionRefusal::Whole("a rounded logarithm would lose digits"))
    }
}
