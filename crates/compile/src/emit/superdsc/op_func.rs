//! The device's functions, by operation.

use crate::program::{Action, Program, Step};
use zellige_device::Layer;
use zellige_layout::DataFormat;

/// The unit that runs a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    /// The matrix engine.
    Pt,
    /// The vector engine.
    Sfp,
}

impl Unit {
    pub(super) fn name(self) -> &'static str {
        match self {
            Unit::Pt => "pt",
            Unit::Sfp => "sfp",
        }
    }
}

/// What kind of iteration a function has.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Family {
    /// Every result from the elements of its own place.
    Pointwise,
    /// The same between two formats.
    Convert,
    /// Many elements to one; the padding of a reduced stick is masked with this number.
    Reduction {
        /// The number that changes no result.
        neutral: f64,
    },
    /// A matrix product.
    Product,
    /// Elements to other places.
    Restickify,
}

/// The function of a step.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct OpFunc {
    /// Its name; a reduction over other dimensions than the stick adds `nonstick`.
    pub(super) name: &'static str,
    pub(super) family: Family,
    /// Numbers that it takes beside its operands.
    pub(super) constants: Vec<(&'static str, f64)>,
    /// The operands, by number: a square multiplies one operand by itself.
    pub(super) operands: Vec<usize>,
}

impl OpFunc {
    pub(super) fn unit(&self) -> Unit {
        if self.family == Family::Product { Unit::Pt } else { Unit::Sfp }
    }
}

/// The function of a step; why where there is none.
pub(super) fn op_func(program: &Program, step: &Step) -> Result<OpFunc, String> {
    let op = match &step.action {
        Action::Host(..) => return Err("the host does it".into()),
        Action::Move { .. } => {
            return Ok(OpFunc {
                name: "ReStickifyOpHBM",
                family: Family::Restickify,
                constants: Vec::new(),
                operands: vec![0],
            });
        }
        Action::Op(_, op) => op,
    };
    let attributes = step.node().map(|n| &program.graph.node(n).attributes);
    let number = |name: &str| match attributes.and_then(|a| a.get(name)) {
        Some(serde_json::Value::String(s)) => s.parse().ok(),
        other => other.and_then(serde_json::Value::as_f64),
    };
    let word = |name: &str| attributes.and_then(|a| a.get(name)).and_then(|v| v.as_str());
    let count = step.reads.len();
    let make = |name, family| {
        Ok(OpFunc { name, family, constants: Vec::new(), operands: (0..count).collect() })
    };
    let with = |name, constants| {
        Ok(OpFunc { name, family: Family::Pointwise, constants, operands: (0..count).collect() })
    };
    let pointwise = |name| make(name, Family::Pointwise);
    let reduction = |name, neutral| make(name, Family::Reduction { neutral });
    let from = step.reads.first().map(|r| r.laid.layout().device_dtype());
    let whole = from == Some(DataFormat::IEEE_INT32);
    if whole && !matches!(op.name(), "add" | "mul" | "cast" | "to" | "identity" | "clone") {
        return Err(format!("there is no function of {} on IEEE_INT32", op.name()));
    }
    if from == Some(DataFormat::IEEE_INT64) {
        return Err(format!("there is no function of {} on IEEE_INT64", op.name()));
    }
    match op.name() {
        name @ ("add" | "sub") if number("alpha").is_some_and(|a| a != 1.0) => {
            Err(format!("{name} with a factor is two functions; multiply first"))
        }
        "add" if whole => pointwise("addi32toi32"),
        "mul" if whole => pointwise("muli32toi32"),
        name @ ("add" | "sub" | "mul" | "maximum" | "minimum" | "abs" | "neg" | "exp" | "log"
        | "sqrt" | "rsqrt" | "reciprocal" | "tanh" | "floor" | "sigmoid" | "silu") => {
            pointwise(name)
        }
        "div" if word("rounding_mode").is_none_or(|m| m == "none") => pointwise("realdiv"),
        "div" => Err("a quotient that is rounded to an integer is no function".into()),
        "eq" => pointwise("equal"),
        "ne" => pointwise("notequal"),
        "lt" => pointwise("lesserthan"),
        "le" => pointwise("lesserequal"),
        "gt" => pointwise("greaterthan"),
        "ge" => pointwise("greaterequal"),
        "where" => pointwise("where3"),
        "relu" => pointwise("relufwd"),
        "gelu" => pointwise("gelufwd"),
        "identity" | "clone" => pointwise("identity"),
        "square" => Ok(OpFunc {
            name: "mul",
            family: Family::Pointwise,
            constants: Vec::new(),
            operands: vec![0, 0],
        }),
        "clip" | "clamp" => with(
            "clip",
            vec![
                ("clipMin", number("min").unwrap_or(f64::NEG_INFINITY)),
                ("clipMax", number("max").unwrap_or(f64::INFINITY)),
            ],
        ),
        "softplus" => with(
            "softplus",
            vec![
                ("softplusBeta", number("beta").unwrap_or(1.0)),
                ("softplusThresh", number("threshold").unwrap_or(20.0)),
            ],
        ),
        "cast" | "to" => {
            let to = step.writes.first().map(|b| program.buffer(*b).laid.layout().device_dtype());
            use DataFormat::{IEEE_FP32, IEEE_INT32, SEN143_FP8, SEN169_FP16};
            match (from, to) {
                (Some(a), Some(b)) if a == b => pointwise("identity"),
                (Some(SEN169_FP16), Some(IEEE_FP32)) => make("dl16tofp32", Family::Convert),
                (Some(IEEE_FP32), Some(SEN169_FP16)) => make("fp32todl16", Family::Convert),
                (Some(SEN143_FP8), Some(SEN169_FP16)) => make("fp8todl16", Family::Convert),
                (Some(IEEE_FP32), Some(IEEE_INT32)) => make("fp32toint32", Family::Convert),
                (Some(IEEE_INT32), Some(IEEE_FP32)) => make("int32tofp32", Family::Convert),
                (Some(a), Some(b)) => {
                    Err(format!("there is no conversion of {} to {}", a.name(), b.name()))
                }
                _ => Err("it has no operand".into()),
            }
        }
        "sum" => reduction("sum", 0.0),
        "mean" => reduction("mean", 0.0),
        "exx2" => reduction("exx2", 0.0),
        "amax" => reduction("max", f64::NEG_INFINITY),
        "amin" => reduction("min", f64::INFINITY),
        "matmul" | "mm" | "bmm" => make("batchmatmul", Family::Product),
        "linear" if count == 2 => make("batchmatmul", Family::Product),
        "cat" | "pad" | "slice_scatter" => {
            Err("it writes slices of its result one by one, and a kernel writes one".into())
        }
        name => Err(match op.layer() {
            Layer::Native => format!("{name} is native, and has no function of one output"),
            Layer::Custom => {
                format!("{name} is a custom kernel of several functions")
            }
            Layer::Decomposed => format!("{name} is made of other operations; decompose it"),
            Layer::Fallback => format!("the card leaves {name} to the host"),
            Layer::Missing => format!("the card does not have {name}"),
        }),
    }
}
