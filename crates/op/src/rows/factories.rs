//! Constants, sequences, random numbers.
//!
//! Random numbers depend on the seed and the row-major index of the element alone.

use super::BuiltForm;
use crate::attributes::OpAttributes;
use crate::coverage::UpstreamLayer;
use crate::error::Result;
use crate::forms::{FactoryOp, FactoryValue, MaskRule, MaskedOp, OpForm};
use crate::row::{OpRow, row};
use crate::scalar::HostScalar;
use crate::torch_operator::{attribute, operand, operator};
use zellige_float::Dtype;

fn take_size(a: &mut OpAttributes) -> Result<Vec<i64>> {
    let Some(size) = a.take_ints("size")? else {
        return Err(a.bad_attribute("size", "it is missing; a list of extents".into()));
    };
    match size.iter().find(|n| **n < 0) {
        Some(n) => Err(a.bad_attribute("size", format!("{n} is negative"))),
        None => Ok(size),
    }
}

fn build_factory(
    a: &mut OpAttributes,
    size: Vec<i64>,
    default: Dtype,
    value: FactoryValue,
) -> BuiltForm {
    let (dtype, wide) = (a.take_dtype(Some(default))?, a.take_flag("wide", false)?);
    Ok(OpForm::Factory(FactoryOp { name: a.op, size, dtype, wide, value }))
}

fn build_constant(a: &mut OpAttributes, value: HostScalar) -> BuiltForm {
    let size = take_size(a)?;
    build_factory(a, size, Dtype::Float32, FactoryValue::Full(value))
}

fn build_full(a: &mut OpAttributes) -> BuiltForm {
    let value = a.take_scalar("value", None)?;
    build_constant(a, value)
}

/// How many steps lead from one number to another; whole ones are counted exactly.
fn count_steps(start: HostScalar, end: HostScalar, step: HostScalar) -> Option<i64> {
    const MAX_STEPS: i64 = 9_000_000_000_000_000;
    if let (HostScalar::Int(start), HostScalar::Int(end), HostScalar::Int(step)) =
        (start, end, step)
    {
        // In 128 bits, because the distance of two int64 numbers may not fit in 64.
        let (length, step) = (i128::from(end) - i128::from(start), i128::from(step));
        // A step of 0 never arrives, and one of the other sign leads away.
        if step == 0 || (length != 0 && (length < 0) != (step < 0)) {
            return None;
        }
        let count = length.unsigned_abs().div_ceil(step.unsigned_abs());
        return i64::try_from(count).ok().filter(|n| *n <= MAX_STEPS);
    }
    let count = ((end.to_f64() - start.to_f64()) / step.to_f64()).ceil();
    #[allow(clippy::cast_possible_truncation, reason = "it is in the range")]
    // Below 2^53, so that the count is exact in float64; NaN is in no range.
    (step.to_f64() != 0.0 && (0.0..=9e15).contains(&count)).then_some(count as i64)
}

fn build_arange(a: &mut OpAttributes) -> BuiltForm {
    let start = a.take_scalar("start", Some(HostScalar::Int(0)))?;
    let end = a.take_scalar("end", None)?;
    let step = a.take_scalar("step", Some(HostScalar::Int(1)))?;
    let Some(n) = count_steps(start, end, step) else {
        let reason = format!("{step} does not lead from {start} to {end} in 0 to 9e15 steps");
        return Err(a.bad_attribute("step", reason));
    };
    // PyTorch's rule for the dtype where none is given: int64 if all three numbers are whole.
    let whole = [start, end, step].iter().all(|x| x.to_whole().is_some());
    let dtype = if whole { Dtype::Int64 } else { Dtype::Float32 };
    build_factory(a, vec![n], dtype, FactoryValue::Arange { start, step })
}

fn build_linspace(a: &mut OpAttributes) -> BuiltForm {
    let (start, end) = (a.take_number("start", None)?, a.take_number("end", None)?);
    let n = a.take_int("steps", None)?;
    let Ok(steps) = u64::try_from(n) else {
        return Err(a.bad_attribute("steps", format!("{n} is negative")));
    };
    build_factory(a, vec![n], Dtype::Float32, FactoryValue::Linspace { start, end, steps })
}

fn build_eye(a: &mut OpAttributes) -> BuiltForm {
    let n = a.take_int("n", None)?;
    let m = a.take_int("m", Some(n))?;
    match u64::try_from(m) {
        Ok(columns) if n >= 0 => {
            build_factory(a, vec![n, m], Dtype::Float32, FactoryValue::Eye { columns })
        }
        _ => Err(a.bad_attribute("n", format!("{n} by {m} is no size"))),
    }
}

fn take_seed(a: &mut OpAttributes) -> Result<u64> {
    Ok(u64::from_ne_bytes(a.take_int("seed", Some(0))?.to_ne_bytes()))
}

fn take_finite(a: &mut OpAttributes, name: &str, default: f64) -> Result<f32> {
    let x = a.take_number(name, Some(default))?;
    #[allow(clippy::cast_possible_truncation, reason = "attributes round to float32")]
    let narrow = x as f32;
    if narrow.is_finite() {
        Ok(narrow)
    } else {
        Err(a.bad_attribute(name, format!("{x} is not finite")))
    }
}

fn build_uniform(a: &mut OpAttributes) -> BuiltForm {
    let (low, high) = (take_finite(a, "low", 0.0)?, take_finite(a, "high", 1.0)?);
    let (size, seed) = (take_size(a)?, take_seed(a)?);
    if low > high {
        return Err(a.bad_attribute("high", format!("{high} is below {low}, the low end")));
    }
    build_factory(a, size, Dtype::Float32, FactoryValue::Uniform { low, high, seed })
}

fn build_normal(a: &mut OpAttributes) -> BuiltForm {
    let (mean, std) = (take_finite(a, "mean", 0.0)?, take_finite(a, "std", 1.0)?);
    let (size, seed) = (take_size(a)?, take_seed(a)?);
    if std < 0.0 {
        return Err(a.bad_attribute("std", format!("{std} is negative")));
    }
    build_factory(a, size, Dtype::Float32, FactoryValue::Normal { mean, std, seed })
}

fn build_randint(a: &mut OpAttributes) -> BuiltForm {
    let (low, high) = (a.take_int("low", Some(0))?, a.take_int("high", None)?);
    let (size, seed) = (take_size(a)?, take_seed(a)?);
    match u64::try_from(i128::from(high) - i128::from(low)) {
        Ok(count) if count > 0 => {
            build_factory(a, size, Dtype::Int64, FactoryValue::Integer { low, count, seed })
        }
        _ => Err(a.bad_attribute("high", format!("{high} is not above {low}, the low end"))),
    }
}

fn take_probability(a: &mut OpAttributes, default: Option<f64>) -> Result<f32> {
    let p = a.take_number("p", default)?;
    #[allow(clippy::cast_possible_truncation, reason = "attributes round to float32")]
    let narrow = p as f32;
    if (0.0..=1.0).contains(&p) {
        Ok(narrow)
    } else {
        Err(a.bad_attribute("p", format!("{p} is not in 0 to 1")))
    }
}

/// True where dropout keeps the element: with the probability `1 - p`, and where [`build_dropout`] with
/// the same seed does.
fn build_dropout_mask(a: &mut OpAttributes) -> BuiltForm {
    let p = take_probability(a, Some(0.5))?;
    let (size, seed) = (take_size(a)?, take_seed(a)?);
    build_factory(a, size, Dtype::Bool, FactoryValue::Kept { p, seed })
}

fn build_dropout(a: &mut OpAttributes) -> BuiltForm {
    let (p, seed) = (take_probability(a, Some(0.5))?, take_seed(a)?);
    Ok(OpForm::Masked(MaskedOp { name: a.op, rule: MaskRule::Dropout { p, seed } }))
}

fn build_triangle(a: &mut OpAttributes, rule: fn(i64) -> MaskRule) -> BuiltForm {
    let diagonal = a.take_int("diagonal", Some(0))?.clamp(-(1 << 60), 1 << 60);
    Ok(OpForm::Masked(MaskedOp { name: a.op, rule: rule(diagonal) }))
}

fn build_bernoulli(a: &mut OpAttributes) -> BuiltForm {
    let seed = take_seed(a)?;
    Ok(OpForm::Masked(MaskedOp { name: a.op, rule: MaskRule::Bernoulli { seed } }))
}

pub(crate) static ROWS: &[OpRow] = &[
    row("full", &[], UpstreamLayer::Decomposed, build_full)
        .attributes(&[("size", ""), ("value", ""), ("dtype", "float32"), ("wide", "false")])
        .whole("it fills memory and has no parts"),
    row("zeros", &[], UpstreamLayer::Decomposed, |a| build_constant(a, HostScalar::Int(0)))
        .attributes(&[("size", ""), ("dtype", "float32"), ("wide", "false")])
        .whole("it fills memory and has no parts"),
    row("ones", &[], UpstreamLayer::Decomposed, |a| build_constant(a, HostScalar::Int(1)))
        .attributes(&[("size", ""), ("dtype", "float32"), ("wide", "false")])
        .whole("it fills memory and has no parts"),
    row("arange", &[], UpstreamLayer::Fallback, build_arange).attributes(&[
        ("start", "0"),
        ("end", ""),
        ("step", "1"),
        ("dtype", "int64 or float32"),
        ("wide", "false"),
    ]),
    row("linspace", &[], UpstreamLayer::Fallback, build_linspace).attributes(&[
        ("start", ""),
        ("end", ""),
        ("steps", ""),
        ("dtype", "float32"),
        ("wide", "false"),
    ]),
    row("eye", &[], UpstreamLayer::Fallback, build_eye).attributes(&[
        ("n", ""),
        ("m", "n"),
        ("dtype", "float32"),
        ("wide", "false"),
    ]),
    row("uniform", &[], UpstreamLayer::Fallback, build_uniform).attributes(&[
        ("size", ""),
        ("low", "0"),
        ("high", "1"),
        ("seed", "0"),
        ("dtype", "float32"),
        ("wide", "false"),
    ]),
    row("normal", &[], UpstreamLayer::Fallback, build_normal).attributes(&[
        ("size", ""),
        ("mean", "0"),
        ("std", "1"),
        ("seed", "0"),
        ("dtype", "float32"),
        ("wide", "false"),
    ]),
    row("randint", &[], UpstreamLayer::Fallback, build_randint).attributes(&[
        ("size", ""),
        ("low", "0"),
        ("high", ""),
        ("seed", "0"),
        ("dtype", "int64"),
        ("wide", "false"),
    ]),
    row("dropout_mask", &[], UpstreamLayer::Fallback, build_dropout_mask).attributes(&[
        ("size", ""),
        ("p", "0.5"),
        ("seed", "0"),
        ("dtype", "bool"),
        ("wide", "false"),
    ]),
    row("dropout", &["x"], UpstreamLayer::Fallback, build_dropout)
        .attributes(&[("p", "0.5"), ("seed", "0")]),
    row("bernoulli", &["p"], UpstreamLayer::Fallback, build_bernoulli).attributes(&[("seed", "0")]),
    row("tril", &["x"], UpstreamLayer::Fallback, |a| {
        build_triangle(a, |diagonal| MaskRule::Lower { diagonal })
    })
    .attributes(&[("diagonal", "0")])
    .torch(&[operator(&["tril", "tril_", "tril.out"], &[operand("self"), attribute("diagonal")])]),
    row("triu", &["x"], UpstreamLayer::Fallback, |a| {
        build_triangle(a, |diagonal| MaskRule::Upper { diagonal })
    })
    .attributes(&[("diagonal", "0")])
    .torch(&[operator(&["triu", "triu_", "triu.out"], &[operand("self"), attribute("diagonal")])]),
];
