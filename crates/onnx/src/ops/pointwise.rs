//! Rules that lower elementwise operations of ONNX.

use super::RuleTable;
use crate::error::Result;
use crate::literal::{LiteralNumbers, TensorLiteral, broadcast_shapes, is_float, zip_literals};
use crate::node::NodeLowering;
use crate::tensor::dtype_of_code;
use crate::walk::ModelValue;
use std::rc::Rc;
use zellige_float::Dtype;
use zellige_graph::{GraphOperand, OpCall};
use zellige_op::TensorOp;

pub(super) const TABLE: RuleTable = &[
    ("Div", lower_div),
    ("Mod", lower_mod),
    ("BitShift", lower_shift),
    ("Max", |n| lower_chain(n, "maximum")),
    ("Min", |n| lower_chain(n, "minimum")),
    ("Sum", |n| lower_chain(n, "add")),
    ("Mean", lower_mean),
    ("Where", lower_where),
    ("Clip", lower_clip),
    ("Cast", lower_cast),
    ("CastLike", lower_cast_like),
    ("Gelu", lower_gelu),
    ("LeakyRelu", |n| lower_with_attribute(n, "leaky_relu", "alpha", 0.01, "negative_slope")),
    ("Elu", |n| lower_with_attribute(n, "elu", "alpha", 1.0, "alpha")),
    ("Celu", |n| lower_with_attribute(n, "celu", "alpha", 1.0, "alpha")),
    ("Selu", lower_selu),
    ("PRelu", lower_prelu),
    ("HardSigmoid", lower_hard_sigmoid),
    ("Swish", lower_swish),
    ("Softsign", lower_softsign),
    ("ThresholdedRelu", lower_thresholded),
    ("IsInf", lower_is_inf),
    ("Identity", |n| Ok(vec![pass_operand(n, 0)?])),
    ("Dropout", lower_dropout),
    ("Shrink", lower_shrink),
];

/// The ONNX operations that equal one operation of the table [`TensorOp`], which names them in its column `onnx`.
/// They need no rule here.
pub(super) fn plain_operations() -> impl Iterator<Item = &'static str> {
    TensorOp::all_rows().filter_map(|row| row.onnx)
}

/// Lowers a node without attributes that equals one operation of the table; `None` if the table has none.
pub(super) fn lower_plain(n: &mut NodeLowering<'_, '_>) -> Result<Option<Vec<ModelValue>>> {
    let op = n.op();
    let Some(row) = TensorOp::all_rows().find(|row| row.onnx == Some(op)) else { return Ok(None) };
    let ours = row.name;
    if row.operands.len() == 1 {
        n.check_arity(1, 1)?;
        if let Some(x) = n.operand_literal(0)?
            && let Some(made) = fold_unary(op, &x)
        {
            return Ok(Some(vec![ModelValue::Known(Rc::new(made))]));
        }
        let x = n.operand_tensor(0)?;
        let dtype = match op {
            "Not" | "IsNaN" => Dtype::Bool,
            _ => n.operand_dtype(0)?,
        };
        return Ok(Some(vec![n.emit_result_as(dtype, ours, &[GraphOperand::Tensor(x)])?]));
    }
    lower_binary(n, ours).map(Some)
}

/// Returns operand `k` unchanged, as a result.
pub(super) fn pass_operand(n: &mut NodeLowering<'_, '_>, k: usize) -> Result<ModelValue> {
    match n.operand_literal(k)? {
        Some(literal) => Ok(ModelValue::Known(literal)),
        None => Ok(ModelValue::Tensor(n.operand_tensor(k)?)),
    }
}

fn fold_unary(op: &str, x: &TensorLiteral) -> Option<TensorLiteral> {
    let data = match (&x.data, op) {
        (LiteralNumbers::Int(v), "Neg") => {
            LiteralNumbers::Int(v.iter().map(|a| a.checked_neg()).collect::<Option<_>>()?)
        }
        (LiteralNumbers::Int(v), "Abs") => {
            LiteralNumbers::Int(v.iter().map(|a| a.checked_abs()).collect::<Option<_>>()?)
        }
        (LiteralNumbers::Int(v), "Relu") => {
            LiteralNumbers::Int(v.iter().map(|a| (*a).max(0)).collect())
        }
        (LiteralNumbers::Int(v), "Sign") => {
            LiteralNumbers::Int(v.iter().map(|a| a.signum()).collect())
        }
        (LiteralNumbers::Int(v), "Not") => {
            LiteralNumbers::Int(v.iter().map(|a| i64::from(*a == 0)).collect())
        }
        (LiteralNumbers::Float(v), _) => {
            let f: fn(f64) -> f64 = match op {
                "Neg" => |a| -a,
                "Abs" => f64::abs,
                "Sqrt" => f64::sqrt,
                "Floor" => f64::floor,
                "Ceil" => f64::ceil,
                // `Round` of ONNX rounds halves to even, unlike `round` of C.
                "Round" => f64::round_ties_even,
                "Reciprocal" => f64::recip,
                "Exp" => f64::exp,
                "Log" => f64::ln,
                "Relu" => |a| if a < 0.0 { 0.0 } else { a },
                _ => return None,
            };
            LiteralNumbers::Float(v.iter().map(|a| f(*a)).collect())
        }
        _ => return None,
    };
    TensorLiteral { dtype: x.dtype, shape: x.shape.clone(), data }.round_to_dtype()
}

/// Computes the result of two known operands. Exporters compute shapes with such operations, and a shape must be
/// known when the model is read.
fn fold_binary(op: &str, a: &TensorLiteral, b: &TensorLiteral) -> Result<Option<TensorLiteral>> {
    type IntFold = fn(i64, i64) -> Option<i64>;
    type FloatFold = fn(f64, f64) -> f64;
    let truth: (IntFold, FloatFold) = match op {
        "Equal" => (|a, b| Some(i64::from(a == b)), |a, b| f64::from(u8::from(a == b))),
        "Less" => (|a, b| Some(i64::from(a < b)), |a, b| f64::from(u8::from(a < b))),
        "LessOrEqual" => (|a, b| Some(i64::from(a <= b)), |a, b| f64::from(u8::from(a <= b))),
        "Greater" => (|a, b| Some(i64::from(a > b)), |a, b| f64::from(u8::from(a > b))),
        "GreaterOrEqual" => (|a, b| Some(i64::from(a >= b)), |a, b| f64::from(u8::from(a >= b))),
        // The operands of these three are bool, and a literal of that type has integers 0 and 1. So the function
        // for floats is never called.
        "And" => (|a, b| Some(a & b), |_, _| 0.0),
        "Or" => (|a, b| Some(a | b), |_, _| 0.0),
        "Xor" => (|a, b| Some(a ^ b), |_, _| 0.0),
        _ => {
            let number: (IntFold, FloatFold) = match op {
                "Add" => (i64::checked_add, |a, b| a + b),
                "Sub" => (i64::checked_sub, |a, b| a - b),
                "Mul" => (i64::checked_mul, |a, b| a * b),
                "Div" => (i64::checked_div, |a, b| a / b),
                "Mod" => (
                    // With attribute `fmod` 0, the result has the sign of the divisor.
                    |a, b| {
                        a.checked_rem(b)
                            .map(|r| if r != 0 && (r < 0) != (b < 0) { r + b } else { r })
                    },
                    |a, b| a - b * (a / b).floor(),
                ),
                // `f64::max` drops a NaN, and the operations `maximum` and `minimum`, which run where an operand is not
                // known, propagate it.
                "Max" => (
                    |a, b| Some(a.max(b)),
                    |a, b| if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) },
                ),
                "Min" => (
                    |a, b| Some(a.min(b)),
                    |a, b| if a.is_nan() || b.is_nan() { f64::NAN } else { a.min(b) },
                ),
                "Pow" => (|a, b| a.checked_pow(u32::try_from(b).ok()?), f64::powf),
                _ => return Ok(None),
            };
            return zip_literals(a, b, a.dtype, number.0, number.1);
        }
    };
    zip_literals(a, b, Dtype::Bool, truth.0, truth.1)
}

fn fold_known(n: &mut NodeLowering<'_, '_>, op: &str) -> Result<Option<Vec<ModelValue>>> {
    if let (Some(a), Some(b)) = (n.operand_literal(0)?, n.operand_literal(1)?) {
        let made = fold_binary(op, &a, &b).map_err(|e| n.refuse_node(e.kind, e.message))?;
        return Ok(made.map(|l| vec![ModelValue::Known(Rc::new(l))]));
    }
    Ok(None)
}

/// The two operands of a call. At most one of them is a number, because a call needs at least one tensor.
fn binary_operands(n: &mut NodeLowering<'_, '_>) -> Result<[GraphOperand; 2]> {
    let (a, b) = (n.operand_size(0)?.len(), n.operand_size(1)?.len());
    let second = n.number_or_tensor(1, a)?;
    let first = match second {
        GraphOperand::Number(_) | GraphOperand::Whole(_) => {
            GraphOperand::Tensor(n.operand_tensor(0)?)
        }
        GraphOperand::Tensor(_) => n.number_or_tensor(0, b)?,
    };
    Ok([first, second])
}

fn lower_binary(n: &mut NodeLowering<'_, '_>, call: impl Into<OpCall>) -> Result<Vec<ModelValue>> {
    n.check_arity(2, 2)?;
    if let Some(made) = fold_known(n, n.op())? {
        return Ok(made);
    }
    let (a, b) = (n.operand_meta(0)?, n.operand_meta(1)?);
    // ONNX does not promote types: both operands share T. Pow has a type of its own for the
    // exponent since opset 12.
    if a.1 != b.1 && n.op() != "Pow" {
        let message = format!("it is {}, operand 0 is {}; accepted: the same type", b.1, a.1);
        return Err(n.refuse_operand(1, message));
    }
    if broadcast_shapes(&a.0, &b.0).is_none() {
        return Err(n.refuse_operand(1, format!("{:?} beside {:?} does not broadcast", b.0, a.0)));
    }
    let truth = matches!(
        n.op(),
        "Equal" | "Less" | "LessOrEqual" | "Greater" | "GreaterOrEqual" | "And" | "Or" | "Xor"
    );
    let dtype = if truth { Dtype::Bool } else { a.1 };
    let (call, operands) = (call.into(), binary_operands(n)?);
    if call.name() == "mul"
        // The last product of a written-out GELU is a `mul`, so this is where the pattern is
        // complete.
        && let Some(x) = super::gelu::match_written_gelu(n, &operands)
    {
        return Ok(vec![n.emit_result("gelu", &[GraphOperand::Tensor(x)])?]);
    }
    Ok(vec![n.emit_result_as(dtype, call, &operands)?])
}

/// Lowers `Div`, which rounds quotients of integers toward zero.
fn lower_div(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    let whole = !is_float(n.operand_dtype(0)?);
    // Without `rounding_mode`, the `div` of the table is PyTorch's, which divides integers to floats.
    let div = OpCall::new("div");
    lower_binary(n, if whole { div.with("rounding_mode", "trunc") } else { div })
}

fn lower_mod(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    // With `fmod` the result has the sign of the dividend, otherwise that of the divisor.
    let fmod = n.flag_attribute("fmod", false)?;
    if fmod {
        n.check_arity(2, 2)?;
        let (dtype, operands) = (n.operand_dtype(0)?, binary_operands(n)?);
        return Ok(vec![n.emit_result_as(dtype, "fmod", &operands)?]);
    }
    lower_binary(n, "remainder")
}

fn lower_shift(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    let direction = n.word_attribute("direction", "")?;
    match direction.as_str() {
        "LEFT" => lower_binary(n, "bitwise_left_shift"),
        "RIGHT" => lower_binary(n, "bitwise_right_shift"),
        other => {
            let message = format!("attribute `direction` is `{other}`; accepted: LEFT, RIGHT");
            Err(n.refuse_node("bad_attribute", message))
        }
    }
}

/// Combines any number of operands with the binary operation `ours`, from left to right.
fn lower_chain(n: &mut NodeLowering<'_, '_>, ours: &'static str) -> Result<Vec<ModelValue>> {
    let count = n.operand_count();
    match count {
        0 => return Err(n.refuse_node("bad_operand", "it has no operands; accepted: 1 or more")),
        1 => return Ok(vec![pass_operand(n, 0)?]),
        2 => return lower_binary(n, ours),
        _ => {}
    }
    let dtype = n.operand_dtype(0)?;
    let mut sum = n.operand_tensor(0)?;
    for k in 1..count - 1 {
        let rank = n.tensor_size(sum).len();
        let next = n.number_or_tensor(k, rank)?;
        sum = n.emit_part(ours, ours, &[GraphOperand::Tensor(sum), next])?;
    }
    let rank = n.tensor_size(sum).len();
    let last = n.number_or_tensor(count - 1, rank)?;
    Ok(vec![n.emit_result_as(dtype, ours, &[GraphOperand::Tensor(sum), last])?])
}

fn lower_mean(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    let count = n.operand_count();
    if count < 2 {
        return lower_chain(n, "add");
    }
    let mut sum = n.operand_tensor(0)?;
    for k in 1..count {
        let next = n.operand_tensor(k)?;
        sum =
            n.emit_part("sum", "add", &[GraphOperand::Tensor(sum), GraphOperand::Tensor(next)])?;
    }
    Ok(vec![
        n.emit_result("div", &[GraphOperand::Tensor(sum), GraphOperand::Number(count as f64)])?,
    ])
}

fn lower_where(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    n.check_arity(3, 3)?;
    let (condition, (a, dtype), (b, other)) =
        (n.operand_meta(0)?, n.operand_meta(1)?, n.operand_meta(2)?);
    if condition.1 != Dtype::Bool {
        let message = format!("the condition is {}; accepted: bool", condition.1);
        return Err(n.refuse_operand(0, message));
    }
    if dtype != other {
        let message = format!("it is {other}, operand 1 is {dtype}; accepted: the same type");
        return Err(n.refuse_operand(2, message));
    }
    if let (Some(c), Some(x), Some(y)) =
        (n.operand_literal(0)?, n.operand_literal(1)?, n.operand_literal(2)?)
        && let Some(shape) =
            broadcast_shapes(&c.shape, &x.shape).and_then(|s| broadcast_shapes(&s, &y.shape))
        && crate::literal::element_count(&shape)
            .is_some_and(|n| n <= crate::literal::MAX_LITERAL_ELEMENTS as i64)
    {
        use crate::literal::{broadcast_strides, strided_indices};
        let at = |of: &[i64]| strided_indices(&shape, &broadcast_strides(of, &shape), 0);
        let all = at(&c.shape).into_iter().zip(at(&x.shape)).zip(at(&y.shape));
        let data = match (&x.data, &y.data) {
            (LiteralNumbers::Int(x), LiteralNumbers::Int(y)) => LiteralNumbers::Int(
                all.map(|((c_at, i), j)| if c.number_at(c_at) != 0.0 { x[i] } else { y[j] })
                    .collect(),
            ),
            _ => LiteralNumbers::Float(
                all.map(
                    |((c_at, i), j)| {
                        if c.number_at(c_at) != 0.0 { x.number_at(i) } else { y.number_at(j) }
                    },
                )
                .collect(),
            ),
        };
        return Ok(vec![ModelValue::Known(Rc::new(TensorLiteral { dtype, shape, data }))]);
    }
    let mask = GraphOperand::Tensor(n.operand_tensor(0)?);
    let rank = condition.0.len();
    let second = n.number_or_tensor(2, rank.max(a.len()))?;
    let first = match second {
        GraphOperand::Number(_) | GraphOperand::Whole(_) => {
            GraphOperand::Tensor(n.operand_tensor(1)?)
        }
        GraphOperand::Tensor(_) => n.number_or_tensor(1, rank.max(b.len()))?,
    };
    Ok(vec![n.emit_result_as(dtype, "where", &[mask, first, second])?])
}

fn lower_clip(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    n.check_arity(1, 3)?;
    let (dtype, x) = (n.operand_dtype(0)?, n.operand_tensor(0)?);
    let mut clamp = OpCall::new("clamp");
    // Before opset 11 the bounds are attributes.
    for name in ["min", "max"] {
        let bound = n.float_attribute(name, 0.0)?;
        if n.has_attribute(name) {
            clamp = clamp.with_number(name, bound);
        }
    }
    if !clamp.attributes().is_empty() {
        return Ok(vec![n.emit_result_as(dtype, clamp, &[GraphOperand::Tensor(x)])?]);
    }
    for (k, name) in [(1, "min"), (2, "max")] {
        if n.has_operand(k)
            && let Some(l) = n.operand_literal(k)?
            && l.len() == 1
        {
            clamp = clamp.with_number(name, l.number_at(0));
        }
    }
    let given = [1, 2].into_iter().filter(|k| n.has_operand(*k)).count();
    // Both bounds are constants in nearly all models. Computed ones are tensors, which `clamp` does
    // not take.
    if clamp.attributes().len() == given {
        return Ok(vec![n.emit_result_as(dtype, clamp, &[GraphOperand::Tensor(x)])?]);
    }
    let mut at = x;
    for (k, op) in [(1, "maximum"), (2, "minimum")] {
        if n.has_operand(k) {
            let rank = n.tensor_size(at).len();
            let bound = n.number_or_tensor(k, rank)?;
            at = n.emit_part(op, op, &[GraphOperand::Tensor(at), bound])?;
        }
    }
    Ok(vec![n.convert_result(at, dtype)?])
}

fn convert_operand(n: &mut NodeLowering<'_, '_>, dtype: Dtype) -> Result<Vec<ModelValue>> {
    if let Some(x) = n.operand_literal(0)?
        && let Some(made) = x.cast_to(dtype)
    {
        return Ok(vec![ModelValue::Known(Rc::new(made))]);
    }
    let x = n.operand_tensor(0)?;
    Ok(vec![n.convert_result(x, dtype)?])
}

/// Converts the operand by ONNX's rule for attribute `saturate`: if it is 1, numbers beyond the range of a float8
/// format become its largest finite number.
///
/// The conversion of this compiler to float8_e4m3fn always saturates, and those to the other float8 formats never
/// do. For the latter a clamp before the conversion has the same effect.
fn convert_saturating(
    n: &mut NodeLowering<'_, '_>,
    dtype: Dtype,
    saturate: bool,
) -> Result<Vec<ModelValue>> {
    let largest = match (dtype, saturate) {
        (Dtype::Float8E4m3fn, false) => {
            let reason = "attribute `saturate` is 0, which requires a NaN past 448; accepted: 1, as \
                          conversions to float8_e4m3fn saturate";
            return Err(n.refuse_node("bad_attribute", reason));
        }
        // The largest finite number of both formats.
        (Dtype::Float8E5m2 | Dtype::Float8E5m2fnuz, true) => 57_344.0,
        _ => return convert_operand(n, dtype),
    };
    let from = n.operand_dtype(0)?;
    if !matches!(from, Dtype::Float16 | Dtype::Bfloat16 | Dtype::Float32 | Dtype::Float64) {
        return convert_operand(n, dtype);
    }
    let x = GraphOperand::Tensor(n.operand_tensor(0)?);
    let clamp = OpCall::new("clamp").with("min", -largest).with("max", largest);
    let x = n.emit_part("within", clamp, &[x])?;
    Ok(vec![n.convert_result(x, dtype)?])
}

fn lower_cast(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    n.check_arity(1, 1)?;
    let saturate = n.int_attribute("saturate", 1)? != 0;
    // The attribute only concerns float8e8m0, a type that is refused below. It is read because attributes that no
    // rule reads are an error.
    n.word_attribute("round_mode", "up")?;
    let code = n.int_attribute("to", 0)?;
    let dtype = dtype_of_code(code)
        .map_err(|e| n.refuse_node("bad_attribute", format!("attribute `to` is {e}")))?;
    convert_saturating(n, dtype, saturate)
}

fn lower_cast_like(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    n.check_arity(2, 2)?;
    let saturate = n.int_attribute("saturate", 1)? != 0;
    let dtype = n.operand_dtype(1)?;
    convert_saturating(n, dtype, saturate)
}

/// Lowers a unary operation to `ours`; its `attribute` becomes the attribute `name`.
fn lower_with_attribute(
    n: &mut NodeLowering<'_, '_>,
    ours: &'static str,
    attribute: &'static str,
    default: f32,
    name: &str,
) -> Result<Vec<ModelValue>> {
    n.check_arity(1, 1)?;
    let (x, value) = (n.operand_tensor(0)?, n.float_attribute(attribute, default)?);
    let call = OpCall::new(ours).with(name, value);
    Ok(vec![n.emit_result(call, &[GraphOperand::Tensor(x)])?])
}

fn lower_gelu(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    n.check_arity(1, 1)?;
    let (x, how) = (n.operand_tensor(0)?, n.word_attribute("approximate", "none")?);
    Ok(vec![
        n.emit_result(OpCall::new("gelu").with("approximate", how), &[GraphOperand::Tensor(x)])?,
    ])
}

fn lower_selu(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    n.check_arity(1, 1)?;
    let (alpha, gamma) =
        (n.float_attribute("alpha", 1.673_263_2)?, n.float_attribute("gamma", 1.050_701)?);
    let x = n.operand_tensor(0)?;
    // The `selu` of the table has these constants. A file stores them as float32, hence the tolerance.
    let usual = (alpha - 1.673_263_242).abs() < 1e-5 && (gamma - 1.050_700_987).abs() < 1e-5;
    if usual {
        return Ok(vec![n.emit_result("selu", &[GraphOperand::Tensor(x)])?]);
    }
    let bent =
        n.emit_part("bent", OpCall::new("elu").with("alpha", alpha), &[GraphOperand::Tensor(x)])?;
    Ok(vec![n.emit_result("mul", &[GraphOperand::Tensor(bent), GraphOperand::Number(gamma)])?])
}

fn lower_prelu(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    n.check_arity(2, 2)?;
    let x = GraphOperand::Tensor(n.operand_tensor(0)?);
    let rank = n.operand_size(0)?.len();
    let slope = n.number_or_tensor(1, rank)?;
    // `where` keeps the bits of positive elements. The formula `max(x, 0) + slope * min(x, 0)` may not.
    let falling = GraphOperand::Tensor(n.emit_part("falling", "mul", &[x.clone(), slope])?);
    let mask = n.emit_part("positive", "gt", &[x.clone(), GraphOperand::Number(0.0)])?;
    Ok(vec![n.emit_result("where", &[GraphOperand::Tensor(mask), x, falling])?])
}

fn lower_hard_sigmoid(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    n.check_arity(1, 1)?;
    let (alpha, beta) = (n.float_attribute("alpha", 0.2)?, n.float_attribute("beta", 0.5)?);
    let x = GraphOperand::Tensor(n.operand_tensor(0)?);
    // The `hardsigmoid` of the table is PyTorch's, x / 6 + 1 / 2. PyTorch's exporter writes 1 / 6 as a float32,
    // hence the tolerance.
    if (alpha - 1.0 / 6.0).abs() < 1e-6 && beta == 0.5 {
        return Ok(vec![n.emit_result("hardsigmoid", &[x])?]);
    }
    let line = n.emit_part("scaled", "mul", &[x, GraphOperand::Number(alpha)])?;
    let line =
        n.emit_part("line", "add", &[GraphOperand::Tensor(line), GraphOperand::Number(beta)])?;
    Ok(vec![n.emit_result(
        OpCall::new("clamp").with("min", 0.0).with("max", 1.0),
        &[GraphOperand::Tensor(line)],
    )?])
}

fn lower_swish(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    n.check_arity(1, 1)?;
    let (x, alpha) = (GraphOperand::Tensor(n.operand_tensor(0)?), n.float_attribute("alpha", 1.0)?);
    if alpha == 1.0 {
        return Ok(vec![n.emit_result("silu", &[x])?]);
    }
    let inner = n.emit_part("scaled", "mul", &[x.clone(), GraphOperand::Number(alpha)])?;
    let gate = n.emit_part("gate", "sigmoid", &[GraphOperand::Tensor(inner)])?;
    Ok(vec![n.emit_result("mul", &[x, GraphOperand::Tensor(gate)])?])
}

fn lower_softsign(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    n.check_arity(1, 1)?;
    let x = GraphOperand::Tensor(n.operand_tensor(0)?);
    let size = n.emit_part("abs", "abs", std::slice::from_ref(&x))?;
    let divisor =
        n.emit_part("below", "add", &[GraphOperand::Tensor(size), GraphOperand::Number(1.0)])?;
    Ok(vec![n.emit_result("div", &[x, GraphOperand::Tensor(divisor)])?])
}

fn lower_thresholded(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    n.check_arity(1, 1)?;
    let (x, alpha) = (n.operand_tensor(0)?, n.float_attribute("alpha", 1.0)?);
    let call = OpCall::new("threshold").with("threshold", alpha).with("value", 0.0);
    Ok(vec![n.emit_result(call, &[GraphOperand::Tensor(x)])?])
}

fn lower_is_inf(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    n.check_arity(1, 1)?;
    let (below, above) =
        (n.flag_attribute("detect_negative", true)?, n.flag_attribute("detect_positive", true)?);
    let x = n.operand_tensor(0)?;
    let inf = match (below, above) {
        (true, true) => {
            return Ok(vec![n.emit_result("isinf", &[GraphOperand::Tensor(x)])?]);
        }
        (false, true) => f64::INFINITY,
        (true, false) => f64::NEG_INFINITY,
        (false, false) => f64::NAN,
    };
    // If neither infinity is to be detected, `inf` is NaN. No element is equal to NaN, so the comparison is false
    // everywhere.
    Ok(vec![n.emit_result("eq", &[GraphOperand::Tensor(x), GraphOperand::Number(inf)])?])
}

/// Lowers `Dropout` in inference or with the ratio 0, where it drops nothing: the result is the operand, and the
/// mask is true everywhere.
fn lower_dropout(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    n.check_arity(1, 3)?;
    // The attributes have no effect on that. They are read because attributes that no rule reads are an error.
    n.int_attribute("seed", 0)?;
    n.float_attribute("ratio", 0.5)?;
    n.int_attribute("is_test", 1)?;
    let ratio =
        if n.has_operand(1) { n.operand_literal(1)?.map_or(0.5, |l| l.number_at(0)) } else { 0.5 };
    if n.has_operand(2) && n.require_number(2, "the training mode")? != 0.0 && ratio != 0.0 {
        return Err(n.refuse_operand(
            2,
            "training mode drops elements at random; accepted: inference, or the ratio 0",
        ));
    }
    let mut made = vec![pass_operand(n, 0)?];
    if n.result_count() > 1 {
        let size = n.operand_size(0)?;
        let name = n.free_name("mask");
        // Before opset 10 the mask has the dtype of the operand.
        let dtype = if n.opset() < 10 { n.operand_dtype(0)? } else { Dtype::Bool };
        let full = OpCall::new("full").with("size", size).with("value", 1);
        let mask = n.import.builder.add_call(&full.with("dtype", dtype.name()), &[], &[&name]);
        made.push(ModelValue::Tensor(mask.map_err(|e| n.refuse_node(e.kind, e.message))?[0]));
    }
    Ok(made)
}

fn lower_shrink(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    n.check_arity(1, 1)?;
    let (x, dtype) = (n.operand_tensor(0)?, n.operand_dtype(0)?);
    let (bias, lambd) = (n.float_attribute("bias", 0.0)?, n.float_attribute("lambd", 0.5)?);
    let (low, high) = (n.emit_with_number("lt", x, -lambd)?, n.emit_with_number("gt", x, lambd)?);
    let (up, down) = (n.emit_with_number("add", x, bias)?, n.emit_with_number("sub", x, bias)?);
    let low = [GraphOperand::Tensor(low), GraphOperand::Tensor(up), GraphOperand::Number(0.0)];
    let low = n.emit_part("low", "where", &low)?;
    let high = [high, down, low].map(GraphOperand::Tensor);
    Ok(vec![n.emit_result_as(dtype, "where", &high)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folded_max_and_min_propagate_nan_as_their_operations_do() {
        let pair = |data: Vec<f64>| TensorLiteral {
            dtype: Dtype::Float32,
            shape: vec![2],
            data: LiteralNumbers::Float(data),
        };
        let known = (pair(vec![f64::NAN, 1.0]), pair(vec![1.0, f64::NAN]));
        for op in ["Max", "Min"] {
            let folded = fold_binary(op, &known.0, &known.1).expect("floats").expect("foldable");
            let LiteralNumbers::Float(found) = folded.data else { panic!("{op} of floats") };
            assert!(found.iter().all(|x| x.is_nan()), "{op} gives {found:?}");
        }
    }
}
