//! Operations on elements.

use super::Table;
use crate::error::Result;
use crate::literal::{Literal, Numbers, broadcast, is_float, zip};
use crate::node::Node;
use crate::tensor::dtype_of;
use crate::walk::Value;
use serde_json::{Value as Json, json};
use std::rc::Rc;
use zellige_float::Dtype;
use zellige_graph::GraphOperand;
use zellige_op::TensorOp;

pub(super) const TABLE: Table = &[
    ("Div", div),
    ("Mod", modulo),
    ("BitShift", shift),
    ("Max", |n| chain(n, "maximum")),
    ("Min", |n| chain(n, "minimum")),
    ("Sum", |n| chain(n, "add")),
    ("Mean", mean),
    ("Where", choose),
    ("Clip", clip),
    ("Cast", cast),
    ("CastLike", cast_like),
    ("Gelu", gelu),
    ("LeakyRelu", |n| scaled(n, "leaky_relu", "alpha", 0.01, "negative_slope")),
    ("Elu", |n| scaled(n, "elu", "alpha", 1.0, "alpha")),
    ("Celu", |n| scaled(n, "celu", "alpha", 1.0, "alpha")),
    ("Selu", selu),
    ("PRelu", prelu),
    ("HardSigmoid", hard_sigmoid),
    ("Swish", swish),
    ("Softsign", softsign),
    ("ThresholdedRelu", thresholded),
    ("IsInf", is_inf),
    ("Identity", |n| Ok(vec![same(n, 0)?])),
    ("Dropout", dropout),
    ("Shrink", shrink),
];

/// The names of those that the table of operations knows: one operation, without attributes.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    TensorOp::all_rows().filter_map(|row| row.onnx)
}

/// Those that are one operation of the card, without attributes.
pub(super) fn plain(n: &mut Node<'_, '_>) -> Result<Option<Vec<Value>>> {
    let op = n.op();
    let Some(row) = TensorOp::all_rows().find(|row| row.onnx == Some(op)) else { return Ok(None) };
    let ours = row.name;
    if row.operands.len() == 1 {
        n.arity(1, 1)?;
        if let Some(x) = n.literal(0)?
            && let Some(made) = unary_of(op, &x)
        {
            return Ok(Some(vec![Value::Known(Rc::new(made))]));
        }
        let x = n.tensor(0)?;
        let dtype = match op {
            "Not" | "IsNaN" => Dtype::Bool,
            _ => n.dtype(0)?,
        };
        return Ok(Some(vec![n.emit_as(dtype, ours, &[GraphOperand::Tensor(x)], Json::Null)?]));
    }
    binary(n, ours, Json::Null).map(Some)
}

/// The value of an operand as it is.
pub(super) fn same(n: &mut Node<'_, '_>, k: usize) -> Result<Value> {
    match n.literal(k)? {
        Some(literal) => Ok(Value::Known(literal)),
        None => Ok(Value::Tensor(n.tensor(k)?)),
    }
}

fn unary_of(op: &str, x: &Literal) -> Option<Literal> {
    let data = match (&x.data, op) {
        (Numbers::Int(v), "Neg") => {
            Numbers::Int(v.iter().map(|a| a.checked_neg()).collect::<Option<_>>()?)
        }
        (Numbers::Int(v), "Abs") => {
            Numbers::Int(v.iter().map(|a| a.checked_abs()).collect::<Option<_>>()?)
        }
        (Numbers::Int(v), "Relu") => Numbers::Int(v.iter().map(|a| (*a).max(0)).collect()),
        (Numbers::Int(v), "Sign") => Numbers::Int(v.iter().map(|a| a.signum()).collect()),
        (Numbers::Int(v), "Not") => Numbers::Int(v.iter().map(|a| i64::from(*a == 0)).collect()),
        (Numbers::Float(v), _) => {
            let f: fn(f64) -> f64 = match op {
                "Neg" => |a| -a,
                "Abs" => f64::abs,
                "Sqrt" => f64::sqrt,
                "Floor" => f64::floor,
                "Ceil" => f64::ceil,
                "Round" => f64::round_ties_even,
                "Reciprocal" => f64::recip,
                "Exp" => f64::exp,
                "Log" => f64::ln,
                "Relu" => |a| if a < 0.0 { 0.0 } else { a },
                _ => return None,
            };
            Numbers::Float(v.iter().map(|a| f(*a)).collect())
        }
        _ => return None,
    };
    Literal { dtype: x.dtype, shape: x.shape.clone(), data }.rounded()
}

/// Two known operands, for what shapes are computed with.
fn binary_of(op: &str, a: &Literal, b: &Literal) -> Result<Option<Literal>> {
    type Int = fn(i64, i64) -> Option<i64>;
    type Float = fn(f64, f64) -> f64;
    let truth: (Int, Float) = match op {
        "Equal" => (|a, b| Some(i64::from(a == b)), |a, b| f64::from(u8::from(a == b))),
        "Less" => (|a, b| Some(i64::from(a < b)), |a, b| f64::from(u8::from(a < b))),
        "LessOrEqual" => (|a, b| Some(i64::from(a <= b)), |a, b| f64::from(u8::from(a <= b))),
        "Greater" => (|a, b| Some(i64::from(a > b)), |a, b| f64::from(u8::from(a > b))),
        "GreaterOrEqual" => (|a, b| Some(i64::from(a >= b)), |a, b| f64::from(u8::from(a >= b))),
        "And" => (|a, b| Some(a & b), |_, _| 0.0),
        "Or" => (|a, b| Some(a | b), |_, _| 0.0),
        "Xor" => (|a, b| Some(a ^ b), |_, _| 0.0),
        _ => {
            let number: (Int, Float) = match op {
                "Add" => (i64::checked_add, |a, b| a + b),
                "Sub" => (i64::checked_sub, |a, b| a - b),
                "Mul" => (i64::checked_mul, |a, b| a * b),
                "Div" => (i64::checked_div, |a, b| a / b),
                "Mod" => (
                    // The sign of the divisor.
                    |a, b| {
                        a.checked_rem(b)
                            .map(|r| if r != 0 && (r < 0) != (b < 0) { r + b } else { r })
                    },
                    |a, b| a - b * (a / b).floor(),
                ),
                "Max" => (|a, b| Some(a.max(b)), f64::max),
                "Min" => (|a, b| Some(a.min(b)), f64::min),
                "Pow" => (|a, b| a.checked_pow(u32::try_from(b).ok()?), f64::powf),
                _ => return Ok(None),
            };
            return zip(a, b, a.dtype, number.0, number.1);
        }
    };
    zip(a, b, Dtype::Bool, truth.0, truth.1)
}

fn folded(n: &mut Node<'_, '_>, op: &str) -> Result<Option<Vec<Value>>> {
    if let (Some(a), Some(b)) = (n.literal(0)?, n.literal(1)?) {
        let made = binary_of(op, &a, &b).map_err(|e| n.bad(e.kind, e.message))?;
        return Ok(made.map(|l| vec![Value::Known(Rc::new(l))]));
    }
    Ok(None)
}

/// Two operands, at most one of them a number.
fn operands(n: &mut Node<'_, '_>) -> Result<[GraphOperand; 2]> {
    let (a, b) = (n.size(0)?.len(), n.size(1)?.len());
    let second = n.operand(1, a)?;
    let first = match second {
        GraphOperand::Number(_) | GraphOperand::Whole(_) => GraphOperand::Tensor(n.tensor(0)?),
        GraphOperand::Tensor(_) => n.operand(0, b)?,
    };
    Ok([first, second])
}

fn binary(n: &mut Node<'_, '_>, ours: &str, attributes: Json) -> Result<Vec<Value>> {
    n.arity(2, 2)?;
    if let Some(made) = folded(n, n.op())? {
        return Ok(made);
    }
    let (a, b) = (n.meta(0)?, n.meta(1)?);
    if a.1 != b.1 && n.op() != "Pow" {
        return Err(n.bad_operand(1, format!("it is {} beside {}; both are of one type", b.1, a.1)));
    }
    if broadcast(&a.0, &b.0).is_none() {
        return Err(n.bad_operand(1, format!("{:?} beside {:?} does not broadcast", b.0, a.0)));
    }
    let truth = matches!(
        n.op(),
        "Equal" | "Less" | "LessOrEqual" | "Greater" | "GreaterOrEqual" | "And" | "Or" | "Xor"
    );
    let dtype = if truth { Dtype::Bool } else { a.1 };
    let operands = operands(n)?;
    if ours == "mul"
        && let Some(x) = super::gelu::written_out(n, &operands)
    {
        return Ok(vec![n.emit("gelu", &[GraphOperand::Tensor(x)], Json::Null)?]);
    }
    Ok(vec![n.emit_as(dtype, ours, &operands, attributes)?])
}

/// Whole numbers are divided towards zero.
fn div(n: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    let whole = !is_float(n.dtype(0)?);
    binary(n, "div", if whole { json!({"rounding_mode": "trunc"}) } else { Json::Null })
}

fn modulo(n: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    // `fmod` has the sign of the dividend, the usual one that of the divisor.
    let fmod = n.flag("fmod", false)?;
    if fmod {
        n.arity(2, 2)?;
        let (dtype, operands) = (n.dtype(0)?, operands(n)?);
        return Ok(vec![n.emit_as(dtype, "fmod", &operands, Json::Null)?]);
    }
    binary(n, "remainder", Json::Null)
}

fn shift(n: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    let direction = n.word("direction", "")?;
    match direction.as_str() {
        "LEFT" => binary(n, "bitwise_left_shift", Json::Null),
        "RIGHT" => binary(n, "bitwise_right_shift", Json::Null),
        other => {
            let message = format!("attribute `direction` is `{other}`; accepted: LEFT, RIGHT");
            Err(n.bad("bad_attribute", message))
        }
    }
}

/// Any number of operands, two at a time.
fn chain(n: &mut Node<'_, '_>, ours: &str) -> Result<Vec<Value>> {
    let count = n.inputs();
    match count {
        0 => return Err(n.bad("bad_operand", "it has no operands; accepted: 1 and more")),
        1 => return Ok(vec![same(n, 0)?]),
        2 => return binary(n, ours, Json::Null),
        _ => {}
    }
    let dtype = n.dtype(0)?;
    let mut sum = n.tensor(0)?;
    for k in 1..count - 1 {
        let rank = n.size_of(sum).len();
        let next = n.operand(k, rank)?;
        sum = n.part(ours, ours, &[GraphOperand::Tensor(sum), next], Json::Null)?;
    }
    let rank = n.size_of(sum).len();
    let last = n.operand(count - 1, rank)?;
    Ok(vec![n.emit_as(dtype, ours, &[GraphOperand::Tensor(sum), last], Json::Null)?])
}

fn mean(n: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    let count = n.inputs();
    if count < 2 {
        return chain(n, "add");
    }
    let mut sum = n.tensor(0)?;
    for k in 1..count {
        let next = n.tensor(k)?;
        sum = n.part(
            "sum",
            "add",
            &[GraphOperand::Tensor(sum), GraphOperand::Tensor(next)],
            Json::Null,
        )?;
    }
    Ok(vec![n.emit(
        "div",
        &[GraphOperand::Tensor(sum), GraphOperand::Number(count as f64)],
        Json::Null,
    )?])
}

fn choose(n: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    n.arity(3, 3)?;
    let (condition, (a, dtype), (b, other)) = (n.meta(0)?, n.meta(1)?, n.meta(2)?);
    if condition.1 != Dtype::Bool {
        return Err(n.bad_operand(0, format!("a condition is bool, not {}", condition.1)));
    }
    if dtype != other {
        return Err(n.bad_operand(2, format!("it is {other} beside {dtype}; both are of one type")));
    }
    if let (Some(c), Some(x), Some(y)) = (n.literal(0)?, n.literal(1)?, n.literal(2)?)
        && let Some(shape) = broadcast(&c.shape, &x.shape).and_then(|s| broadcast(&s, &y.shape))
        && crate::literal::numel(&shape).is_some_and(|n| n <= crate::literal::MOST as i64)
    {
        use crate::literal::{broadcast_strides, places};
        let at = |of: &[i64]| places(&shape, &broadcast_strides(of, &shape), 0);
        let all = at(&c.shape).into_iter().zip(at(&x.shape)).zip(at(&y.shape));
        let data = match (&x.data, &y.data) {
            (Numbers::Int(x), Numbers::Int(y)) => Numbers::Int(
                all.map(|((c_at, i), j)| if c.number(c_at) != 0.0 { x[i] } else { y[j] }).collect(),
            ),
            _ => Numbers::Float(
                all.map(
                    |((c_at, i), j)| if c.number(c_at) != 0.0 { x.number(i) } else { y.number(j) },
                )
                .collect(),
            ),
        };
        return Ok(vec![Value::Known(Rc::new(Literal { dtype, shape, data }))]);
    }
    let mask = GraphOperand::Tensor(n.tensor(0)?);
    let rank = condition.0.len();
    let second = n.operand(2, rank.max(a.len()))?;
    let first = match second {
        GraphOperand::Number(_) | GraphOperand::Whole(_) => GraphOperand::Tensor(n.tensor(1)?),
        GraphOperand::Tensor(_) => n.operand(1, rank.max(b.len()))?,
    };
    Ok(vec![n.emit_as(dtype, "where", &[mask, first, second], Json::Null)?])
}

fn clip(n: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    n.arity(1, 3)?;
    let (dtype, x) = (n.dtype(0)?, n.tensor(0)?);
    let mut bounds = serde_json::Map::new();
    // Before opset 11 they are attributes.
    for name in ["min", "max"] {
        let bound = n.float(name, 0.0)?;
        if n.is_given(name) {
            bounds.insert(name.into(), crate::literal::number(bound));
        }
    }
    if !bounds.is_empty() {
        return Ok(vec![n.emit_as(
            dtype,
            "clamp",
            &[GraphOperand::Tensor(x)],
            Json::Object(bounds),
        )?]);
    }
    for (k, name) in [(1, "min"), (2, "max")] {
        if n.has(k)
            && let Some(l) = n.literal(k)?
            && l.len() == 1
        {
            bounds.insert(name.into(), crate::literal::number(l.number(0)));
        }
    }
    let given = [1, 2].into_iter().filter(|k| n.has(*k)).count();
    if bounds.len() == given {
        return Ok(vec![n.emit_as(
            dtype,
            "clamp",
            &[GraphOperand::Tensor(x)],
            Json::Object(bounds),
        )?]);
    }
    let mut at = x;
    for (k, op) in [(1, "maximum"), (2, "minimum")] {
        if n.has(k) {
            let rank = n.size_of(at).len();
            let bound = n.operand(k, rank)?;
            at = n.part(op, op, &[GraphOperand::Tensor(at), bound], Json::Null)?;
        }
    }
    Ok(vec![n.converted(at, dtype)?])
}

fn to(n: &mut Node<'_, '_>, dtype: Dtype) -> Result<Vec<Value>> {
    if let Some(x) = n.literal(0)?
        && let Some(made) = x.cast(dtype)
    {
        return Ok(vec![Value::Known(Rc::new(made))]);
    }
    let x = n.tensor(0)?;
    Ok(vec![n.converted(x, dtype)?])
}

/// What `saturate` asks for, where the conversion itself does otherwise: float8_e4m3fn always
/// saturates, the other float8 formats never do.
fn saturated(n: &mut Node<'_, '_>, dtype: Dtype, saturate: bool) -> Result<Vec<Value>> {
    let most = match (dtype, saturate) {
        (Dtype::Float8E4m3fn, false) => {
            let reason = "attribute `saturate` is 0, which asks for a NaN past 448; accepted: 1, as \
                          conversions to float8_e4m3fn saturate";
            return Err(n.bad("bad_attribute", reason));
        }
        (Dtype::Float8E5m2 | Dtype::Float8E5m2fnuz, true) => 57_344.0,
        _ => return to(n, dtype),
    };
    let from = n.dtype(0)?;
    if !matches!(from, Dtype::Float16 | Dtype::Bfloat16 | Dtype::Float32 | Dtype::Float64) {
        return to(n, dtype);
    }
    let x = GraphOperand::Tensor(n.tensor(0)?);
    let x = n.part("within", "clamp", &[x], json!({"min": -most, "max": most}))?;
    Ok(vec![n.converted(x, dtype)?])
}

fn cast(n: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    n.arity(1, 1)?;
    let saturate = n.int("saturate", 1)? != 0;
    n.word("round_mode", "up")?;
    let code = n.int("to", 0)?;
    let dtype =
        dtype_of(code).map_err(|e| n.bad("bad_attribute", format!("attribute `to` is {e}")))?;
    saturated(n, dtype, saturate)
}

fn cast_like(n: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    n.arity(2, 2)?;
    let saturate = n.int("saturate", 1)? != 0;
    let dtype = n.dtype(1)?;
    saturated(n, dtype, saturate)
}

/// One operand and an attribute of another name.
fn scaled(
    n: &mut Node<'_, '_>,
    ours: &str,
    attribute: &'static str,
    default: f32,
    name: &str,
) -> Result<Vec<Value>> {
    n.arity(1, 1)?;
    let (x, value) = (n.tensor(0)?, n.float(attribute, default)?);
    let mut attributes = serde_json::Map::new();
    attributes.insert(name.into(), json!(value));
    Ok(vec![n.emit(ours, &[GraphOperand::Tensor(x)], Json::Object(attributes))?])
}

fn gelu(n: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    n.arity(1, 1)?;
    let (x, how) = (n.tensor(0)?, n.word("approximate", "none")?);
    Ok(vec![n.emit("gelu", &[GraphOperand::Tensor(x)], json!({"approximate": how}))?])
}

fn selu(n: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    n.arity(1, 1)?;
    let (alpha, gamma) = (n.float("alpha", 1.673_263_2)?, n.float("gamma", 1.050_701)?);
    let x = n.tensor(0)?;
    let usual = (alpha - 1.673_263_242).abs() < 1e-5 && (gamma - 1.050_700_987).abs() < 1e-5;
    if usual {
        return Ok(vec![n.emit("selu", &[GraphOperand::Tensor(x)], Json::Null)?]);
    }
    let bent = n.part("bent", "elu", &[GraphOperand::Tensor(x)], json!({"alpha": alpha}))?;
    Ok(vec![n.emit(
        "mul",
        &[GraphOperand::Tensor(bent), GraphOperand::Number(gamma)],
        Json::Null,
    )?])
}

fn prelu(n: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    n.arity(2, 2)?;
    let x = GraphOperand::Tensor(n.tensor(0)?);
    let rank = n.size(0)?.len();
    let slope = n.operand(1, rank)?;
    let falling =
        GraphOperand::Tensor(n.part("falling", "mul", &[x.clone(), slope], Json::Null)?);
    let mask = n.part("positive", "gt", &[x.clone(), GraphOperand::Number(0.0)], Json::Null)?;
    Ok(vec![n.emit("where", &[GraphOperand::Tensor(mask), x, falling], Json::Null)?])
}

fn hard_sigmoid(n: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    n.arity(1, 1)?;
    let (alpha, beta) = (n.float("alpha", 0.2)?, n.float("beta", 0.5)?);
    let x = GraphOperand::Tensor(n.tensor(0)?);
    if (alpha - 1.0 / 6.0).abs() < 1e-6 && beta == 0.5 {
        return Ok(vec![n.emit("hardsigmoid", &[x], Json::Null)?]);
    }
    let line = n.part("scaled", "mul", &[x, GraphOperand::Number(alpha)], Json::Null)?;
    let line = n.part(
        "line",
        "add",
        &[GraphOperand::Tensor(line), GraphOperand::Number(beta)],
        Json::Null,
    )?;
    Ok(vec![n.emit("clamp", &[GraphOperand::Tensor(line)], json!({"min": 0.0, "max": 1.0}))?])
}

fn swish(n: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    n.arity(1, 1)?;
    let (x, alpha) = (GraphOperand::Tensor(n.tensor(0)?), n.float("alpha", 1.0)?);
    if alpha == 1.0 {
        return Ok(vec![n.emit("silu", &[x], Json::Null)?]);
    }
    let inner = n.part("scaled", "mul", &[x.clone(), GraphOperand::Number(alpha)], Json::Null)?;
    let gate = n.part("gate", "sigmoid", &[GraphOperand::Tensor(inner)], Json::Null)?;
    Ok(vec![n.emit("mul", &[x, GraphOperand::Tensor(gate)], Json::Null)?])
}

fn softsign(n: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    n.arity(1, 1)?;
    let x = GraphOperand::Tensor(n.tensor(0)?);
    let size = n.part("abs", "abs", std::slice::from_ref(&x), Json::Null)?;
    let below = n.part(
        "below",
        "add",
        &[GraphOperand::Tensor(size), GraphOperand::Number(1.0)],
        Json::Null,
    )?;
    Ok(vec![n.emit("div", &[x, GraphOperand::Tensor(below)], Json::Null)?])
}

fn thresholded(n: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    n.arity(1, 1)?;
    let (x, alpha) = (n.tensor(0)?, n.float("alpha", 1.0)?);
    let attributes = json!({"threshold": alpha, "value": 0.0});
    Ok(vec![n.emit("threshold", &[GraphOperand::Tensor(x)], attributes)?])
}

fn is_inf(n: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    n.arity(1, 1)?;
    let (below, above) = (n.flag("detect_negative", true)?, n.flag("detect_positive", true)?);
    let x = n.tensor(0)?;
    let inf = match (below, above) {
        (true, true) => {
            return Ok(vec![n.emit("isinf", &[GraphOperand::Tensor(x)], Json::Null)?]);
        }
        (false, true) => f64::INFINITY,
        (true, false) => f64::NEG_INFINITY,
        (false, false) => f64::NAN,
    };
    // Nothing is equal to NaN.
    Ok(vec![n.emit("eq", &[GraphOperand::Tensor(x), GraphOperand::Number(inf)], Json::Null)?])
}

/// Nothing is dropped outside of training, and where the ratio is 0; the mask says that all is kept.
fn dropout(n: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    n.arity(1, 3)?;
    n.int("seed", 0)?;
    n.float("ratio", 0.5)?;
    n.int("is_test", 1)?;
    let ratio = if n.has(1) { n.literal(1)?.map_or(0.5, |l| l.number(0)) } else { 0.5 };
    if n.has(2) && n.number(2, "the training mode")? != 0.0 && ratio != 0.0 {
        return Err(
            n.bad_operand(2, "training mode drops at random; accepted: inference, or the ratio 0")
        );
    }
    let mut made = vec![same(n, 0)?];
    if n.outputs() > 1 {
        let size = n.size(0)?;
        let name = n.free_name("mask");
        // Before opset 10 the mask has the type of the operand.
        let dtype = if n.opset() < 10 { n.dtype(0)? } else { Dtype::Bool };
        let attributes = json!({"size": size, "value": 1, "dtype": dtype.name()});
        let attributes = attributes.as_object().cloned().unwrap_or_default();
        let mask = n.import.builder.add_op("full", &[], &attributes, &[&name]);
        made.push(Value::Tensor(mask.map_err(|e| n.bad(e.kind, e.message))?[0]));
    }
    Ok(made)
}

fn shrink(n: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    n.arity(1, 1)?;
    let (x, dtype) = (n.tensor(0)?, n.dtype(0)?);
    let (bias, lambd) = (n.float("bias", 0.0)?, n.float("lambd", 0.5)?);
    let (low, high) = (n.with("lt", x, -lambd)?, n.with("gt", x, lambd)?);
    let (up, down) = (n.with("add", x, bias)?, n.with("sub", x, bias)?);
    let low = [GraphOperand::Tensor(low), GraphOperand::Tensor(up), GraphOperand::Number(0.0)];
    let low = n.part("low", "where", &low, Json::Null)?;
    let high = [high, down, low].map(GraphOperand::Tensor);
    Ok(vec![n.emit_as(dtype, "where", &high, Json::Null)?])
}
