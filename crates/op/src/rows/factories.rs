//! Constants, sequences, random numbers.
//!
//! Random numbers depend on the seed and the row-major index of the element alone.

use super::Built;
use crate::attributes::Attributes;
use crate::coverage::Layer;
use crate::error::Result;
use crate::forms::{Factory, FactoryValue, Form, MaskRule, Masked};
use crate::row::{OpRow, row};
use crate::scalar::Scalar;
use zellige_float::Dtype;

fn size(a: &mut Attributes) -> Result<Vec<i64>> {
    let Some(size) = a.ints("size")? else {
        return Err(a.bad("size", "it is missing; a list of extents".into()));
    };
    match size.iter().find(|n| **n < 0) {
        Some(n) => Err(a.bad("size", format!("{n} is negative"))),
        None => Ok(size),
    }
}

fn make(a: &mut Attributes, size: Vec<i64>, default: Dtype, value: FactoryValue) -> Built {
    let (dtype, wide) = (a.dtype(Some(default))?, a.flag("wide", false)?);
    Ok(Form::Factory(Factory { name: a.op, size, dtype, wide, value }))
}

fn constant(a: &mut Attributes, value: Scalar) -> Built {
    let size = size(a)?;
    make(a, size, Dtype::Float32, FactoryValue::Full(value))
}

fn full(a: &mut Attributes) -> Built {
    let value = a.scalar("value", None)?;
    constant(a, value)
}

/// How many steps lead from one number to another; whole ones are counted exactly.
fn steps(start: Scalar, end: Scalar, step: Scalar) -> Option<i64> {
    const MOST: i64 = 9_000_000_000_000_000;
    if let (Scalar::Int(start), Scalar::Int(end), Scalar::Int(step)) = (start, end, step) {
        let (length, step) = (i128::from(end) - i128::from(start), i128::from(step));
        if step == 0 || (length != 0 && (length < 0) != (step < 0)) {
            return None;
        }
        let count = length.unsigned_abs().div_ceil(step.unsigned_abs());
        return i64::try_from(count).ok().filter(|n| *n <= MOST);
    }
    let count = ((end.float() - start.float()) / step.float()).ceil();
    #[allow(clippy::cast_possible_truncation, reason = "it is in the range")]
    (step.float() != 0.0 && (0.0..=9e15).contains(&count)).then_some(count as i64)
}

fn arange(a: &mut Attributes) -> Built {
    let start = a.scalar("start", Some(Scalar::Int(0)))?;
    let end = a.scalar("end", None)?;
    let step = a.scalar("step", Some(Scalar::Int(1)))?;
    let Some(n) = steps(start, end, step) else {
        let reason = format!("{step} does not lead from {start} to {end} in 0 to 9e15 steps");
        return Err(a.bad("step", reason));
    };
    let whole = [start, end, step].iter().all(|x| x.whole().is_some());
    let dtype = if whole { Dtype::Int64 } else { Dtype::Float32 };
    make(a, vec![n], dtype, FactoryValue::Arange { start, step })
}

fn linspace(a: &mut Attributes) -> Built {
    let (start, end) = (a.number("start", None)?, a.number("end", None)?);
    let n = a.int("steps", None)?;
    let Ok(steps) = u64::try_from(n) else {
        return Err(a.bad("steps", format!("{n} is negative")));
    };
    make(a, vec![n], Dtype::Float32, FactoryValue::Linspace { start, end, steps })
}

fn eye(a: &mut Attributes) -> Built {
    let n = a.int("n", None)?;
    let m = a.int("m", Some(n))?;
    match u64::try_from(m) {
        Ok(columns) if n >= 0 => make(a, vec![n, m], Dtype::Float32, FactoryValue::Eye { columns }),
        _ => Err(a.bad("n", format!("{n} by {m} is no size"))),
    }
}

fn seed(a: &mut Attributes) -> Result<u64> {
    Ok(u64::from_ne_bytes(a.int("seed", Some(0))?.to_ne_bytes()))
}

fn finite(a: &mut Attributes, name: &str, default: f64) -> Result<f32> {
    let x = a.number(name, Some(default))?;
    #[allow(clippy::cast_possible_truncation, reason = "attributes round to float32")]
    let narrow = x as f32;
    if narrow.is_finite() { Ok(narrow) } else { Err(a.bad(name, format!("{x} is not finite"))) }
}

fn uniform(a: &mut Attributes) -> Built {
    let (low, high) = (finite(a, "low", 0.0)?, finite(a, "high", 1.0)?);
    let (size, seed) = (size(a)?, seed(a)?);
    if low > high {
        return Err(a.bad("high", format!("{high} is below {low}, the low end")));
    }
    make(a, size, Dtype::Float32, FactoryValue::Uniform { low, high, seed })
}

fn normal(a: &mut Attributes) -> Built {
    let (mean, std) = (finite(a, "mean", 0.0)?, finite(a, "std", 1.0)?);
    let (size, seed) = (size(a)?, seed(a)?);
    if std < 0.0 {
        return Err(a.bad("std", format!("{std} is negative")));
    }
    make(a, size, Dtype::Float32, FactoryValue::Normal { mean, std, seed })
}

fn randint(a: &mut Attributes) -> Built {
    let (low, high) = (a.int("low", Some(0))?, a.int("high", None)?);
    let (size, seed) = (size(a)?, seed(a)?);
    match u64::try_from(i128::from(high) - i128::from(low)) {
        Ok(count) if count > 0 => {
            make(a, size, Dtype::Int64, FactoryValue::Integer { low, count, seed })
        }
        _ => Err(a.bad("high", format!("{high} is not above {low}, the low end"))),
    }
}

fn probability(a: &mut Attributes, default: Option<f64>) -> Result<f32> {
    let p = a.number("p", default)?;
    #[allow(clippy::cast_possible_truncation, reason = "attributes round to float32")]
    let narrow = p as f32;
    if (0.0..=1.0).contains(&p) {
        Ok(narrow)
    } else {
        Err(a.bad("p", format!("{p} is not in 0 to 1")))
    }
}

/// True where dropout keeps the element: with the probability `1 - p`, and where [`dropout`] with
/// the same seed does.
fn dropout_mask(a: &mut Attributes) -> Built {
    let p = probability(a, Some(0.5))?;
    let (size, seed) = (size(a)?, seed(a)?);
    make(a, size, Dtype::Bool, FactoryValue::Kept { p, seed })
}

fn dropout(a: &mut Attributes) -> Built {
    let (p, seed) = (probability(a, Some(0.5))?, seed(a)?);
    Ok(Form::Masked(Masked { name: a.op, rule: MaskRule::Dropout { p, seed } }))
}

fn triangle(a: &mut Attributes, rule: fn(i64) -> MaskRule) -> Built {
    let diagonal = a.int("diagonal", Some(0))?.clamp(-(1 << 60), 1 << 60);
    Ok(Form::Masked(Masked { name: a.op, rule: rule(diagonal) }))
}

fn bernoulli(a: &mut Attributes) -> Built {
    let seed = seed(a)?;
    Ok(Form::Masked(Masked { name: a.op, rule: MaskRule::Bernoulli { seed } }))
}

pub(crate) static ROWS: &[OpRow] = &[
    row("full", &[], Layer::Decomposed, full)
        .attributes(&[("size", ""), ("value", ""), ("dtype", "float32"), ("wide", "false")])
        .whole("it fills memory and has no parts"),
    row("zeros", &[], Layer::Decomposed, |a| constant(a, Scalar::Int(0)))
        .attributes(&[("size", ""), ("dtype", "float32"), ("wide", "false")])
        .whole("it fills memory and has no parts"),
    row("ones", &[], Layer::Decomposed, |a| constant(a, Scalar::Int(1)))
        .attributes(&[("size", ""), ("dtype", "float32"), ("wide", "false")])
        .whole("it fills memory and has no parts"),
    row("arange", &[], Layer::Fallback, arange).attributes(&[
        ("start", "0"),
        ("end", ""),
        ("step", "1"),
        ("dtype", "int64 or float32"),
        ("wide", "false"),
    ]),
    row("linspace", &[], Layer::Fallback, linspace).attributes(&[
        ("start", ""),
        ("end", ""),
        ("steps", ""),
        ("dtype", "float32"),
        ("wide", "false"),
    ]),
    row("eye", &[], Layer::Fallback, eye).attributes(&[
        ("n", ""),
        ("m", "n"),
        ("dtype", "float32"),
        ("wide", "false"),
    ]),
    row("uniform", &[], Layer::Fallback, uniform).attributes(&[
        ("size", ""),
        ("low", "0"),
        ("high", "1"),
        ("seed", "0"),
        ("dtype", "float32"),
        ("wide", "false"),
    ]),
    row("normal", &[], Layer::Fallback, normal).attributes(&[
        ("size", ""),
        ("mean", "0"),
        ("std", "1"),
        ("seed", "0"),
        ("dtype", "float32"),
        ("wide", "false"),
    ]),
    row("randint", &[], Layer::Fallback, randint).attributes(&[
        ("size", ""),
        ("low", "0"),
        ("high", ""),
        ("seed", "0"),
        ("dtype", "int64"),
        ("wide", "false"),
    ]),
    row("dropout_mask", &[], Layer::Fallback, dropout_mask).attributes(&[
        ("size", ""),
        ("p", "0.5"),
        ("seed", "0"),
        ("dtype", "bool"),
        ("wide", "false"),
    ]),
    row("dropout", &["x"], Layer::Fallback, dropout).attributes(&[("p", "0.5"), ("seed", "0")]),
    row("bernoulli", &["p"], Layer::Fallback, bernoulli).attributes(&[("seed", "0")]),
    row("tril", &["x"], Layer::Fallback, |a| triangle(a, |diagonal| MaskRule::Lower { diagonal }))
        .attributes(&[("diagonal", "0")])
        .torch(&["tril tril_ tril.out (self, diagonal=)"]),
    row("triu", &["x"], Layer::Fallback, |a| triangle(a, |diagonal| MaskRule::Upper { diagonal }))
        .attributes(&[("diagonal", "0")])
        .torch(&["triu triu_ triu.out (self, diagonal=)"]),
];
