//! Functions of elements, in float32.

use super::frame::Frame;
use std::f64::consts::PI;
use zellige_ktir::{Elem, Kind, Value};

const NAMES: &[&str] = &[
    "add",
    "sub",
    "mul",
    "div",
    "maximum",
    "minimum",
    "abs",
    "neg",
    "square",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "sqrt",
    "rsqrt",
    "reciprocal",
    "tanh",
    "erf",
    "sin",
    "cos",
    "floor",
    "ceil",
    "sigmoid",
    "relu",
    "gelu",
    "silu",
    "clamp",
    "clip",
    "identity",
    "clone",
    "cast",
    "to",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "where",
];

/// Whether there is a function of that name.
pub(super) fn knows(name: &str) -> bool {
    NAMES.contains(&name)
}

/// The function of tiles of one shape; why where its attributes ask for another one.
pub(super) fn apply(
    f: &mut Frame,
    name: &str,
    x: &[Value],
    shape: &[i64],
) -> Result<Value, String> {
    let text =
        |f: &Frame, key: &str| f.attributes.get(key).and_then(|v| v.as_str()).map(str::to_string);
    let constant = |f: &mut Frame, value: f64| f.b.float_tile(value, shape, Elem::F32);
    let unary = |f: &mut Frame, kind| f.b.unary(kind, x[0]);
    let binary = |f: &mut Frame, kind| f.b.binary(kind, x[0], x[1]);
    Ok(match name {
        "add" | "sub" => {
            let alpha = f.number("alpha", 1.0);
            let mut y = x[1];
            if alpha != 1.0 {
                let a = constant(f, alpha);
                y = f.b.binary(Kind::MulF, y, a);
            }
            f.b.binary(if name == "add" { Kind::AddF } else { Kind::SubF }, x[0], y)
        }
        "mul" => binary(f, Kind::MulF),
        "div" => match text(f, "rounding_mode").as_deref() {
            None | Some("none") => binary(f, Kind::DivF),
            Some(mode) => {
                return Err(format!("a quotient rounded by `{mode}` has no tile program"));
            }
        },
        "maximum" => binary(f, Kind::MaximumF),
        "minimum" => binary(f, Kind::MinimumF),
        "square" => f.b.binary(Kind::MulF, x[0], x[0]),
        "abs" => unary(f, Kind::AbsF),
        "neg" => unary(f, Kind::NegF),
        "exp" => unary(f, Kind::Exp),
        "exp2" => unary(f, Kind::Exp2),
        "expm1" => unary(f, Kind::ExpM1),
        "log" => unary(f, Kind::Log),
        "log2" => unary(f, Kind::Log2),
        "log10" => unary(f, Kind::Log10),
        "log1p" => unary(f, Kind::Log1P),
        "sqrt" => unary(f, Kind::Sqrt),
        "tanh" => unary(f, Kind::Tanh),
        "erf" => unary(f, Kind::Erf),
        "sin" => unary(f, Kind::Sin),
        "cos" => unary(f, Kind::Cos),
        "floor" => unary(f, Kind::Floor),
        "ceil" => unary(f, Kind::Ceil),
        "rsqrt" => unary(f, Kind::RSqrt),
        "identity" | "clone" | "cast" | "to" => x[0],
        "reciprocal" => {
            let one = constant(f, 1.0);
            f.b.binary(Kind::DivF, one, x[0])
        }
        "relu" => {
            let zero = constant(f, 0.0);
            f.b.binary(Kind::MaximumF, x[0], zero)
        }
        "sigmoid" => sigmoid(f, x[0], shape),
        "silu" => {
            let s = sigmoid(f, x[0], shape);
            f.b.binary(Kind::MulF, x[0], s)
        }
        "gelu" => match text(f, "approximate").as_deref() {
            None | Some("none") => {
                let (scale, half) =
                    (constant(f, std::f64::consts::FRAC_1_SQRT_2), constant(f, 0.5));
                let one = constant(f, 1.0);
                let scaled = f.b.binary(Kind::MulF, x[0], scale);
                let erf = f.b.unary(Kind::Erf, scaled);
                let both = f.b.binary(Kind::AddF, one, erf);
                let halved = f.b.binary(Kind::MulF, x[0], half);
                f.b.binary(Kind::MulF, halved, both)
            }
            Some("tanh") => {
                let (cubic, root) = (constant(f, 0.044715), constant(f, (2.0 / PI).sqrt()));
                let (half, one) = (constant(f, 0.5), constant(f, 1.0));
                let square = f.b.binary(Kind::MulF, x[0], x[0]);
                let cube = f.b.binary(Kind::MulF, square, x[0]);
                let bent = f.b.binary(Kind::MulF, cubic, cube);
                let sum = f.b.binary(Kind::AddF, x[0], bent);
                let scaled = f.b.binary(Kind::MulF, root, sum);
                let tanh = f.b.unary(Kind::Tanh, scaled);
                let both = f.b.binary(Kind::AddF, one, tanh);
                let halved = f.b.binary(Kind::MulF, x[0], half);
                f.b.binary(Kind::MulF, halved, both)
            }
            Some(how) => return Err(format!("gelu approximated by `{how}` has no tile program")),
        },
        "clamp" | "clip" => {
            let (low, high) = (f.number("min", f64::NEG_INFINITY), f.number("max", f64::INFINITY));
            let (low, high) = (constant(f, low), constant(f, high));
            let above = f.b.binary(Kind::MaximumF, x[0], low);
            f.b.binary(Kind::MinimumF, above, high)
        }
        "eq" | "ne" | "lt" | "le" | "gt" | "ge" => {
            // A NaN differs from everything, and is ordered with nothing.
            let predicate = if name == "ne" { "une".into() } else { format!("o{name}") };
            let holds = f.b.compare(Kind::CmpF, &predicate, x[0], x[1]);
            let (yes, no) = (constant(f, 1.0), constant(f, 0.0));
            f.b.select(holds, yes, no)
        }
        "where" => {
            let zero = constant(f, 0.0);
            let holds = f.b.compare(Kind::CmpF, "une", x[0], zero);
            f.b.select(holds, x[1], x[2])
        }
        other => return Err(format!("there is no tile program of {other}")),
    })
}

/// `1 / (1 + exp(-x))`.
fn sigmoid(f: &mut Frame, x: Value, shape: &[i64]) -> Value {
    let one = f.b.float_tile(1.0, shape, Elem::F32);
    let minus = f.b.unary(Kind::NegF, x);
    let e = f.b.unary(Kind::Exp, minus);
    let below = f.b.binary(Kind::AddF, one, e);
    f.b.binary(Kind::DivF, one, below)
}
