//! Conversions: another dtype, and scaled float8.

use super::built;
use crate::attributes::Attributes;
use crate::coverage::Layer;
use crate::forms::{Cast, Form, Pointwise, Yields};
use crate::row::{OpRow, row};
use crate::rows::Built;
use zellige_float::Dtype;
use zellige_math::{Binary, FloatFunction};

fn cast(a: &mut Attributes) -> Built {
    let dtype = a.dtype(None)?;
    let wide = a.flag("wide", false)?;
    Ok(Form::Cast(Cast { name: a.op, dtype, wide }))
}

/// The largest number of a float8 format.
fn largest(dtype: Dtype) -> Option<f32> {
    match dtype {
        Dtype::Float8E4m3fn => Some(448.0),
        Dtype::Float8E5m2 | Dtype::Float8E5m2fnuz => Some(57_344.0),
        _ => None,
    }
}

/// `x / scale` in float32, kept within the format, rounded once: no number overflows, NaN stays.
fn quantize(a: &mut Attributes) -> Built {
    let dtype = a.dtype(Some(Dtype::Float8E4m3fn))?;
    let Some(most) = largest(dtype) else {
        let reason = format!("{dtype} is none of float8_e4m3fn, float8_e5m2, float8_e5m2fnuz");
        return Err(a.bad("dtype", reason));
    };
    let op = Pointwise::new(a.op, 2).float(FloatFunction::QuotientWithin(most));
    built(op.yields(Yields::Fixed(dtype)))
}

/// `x * scale` in float32, rounded once.
fn dequantize(a: &mut Attributes) -> Built {
    let dtype = a.dtype(Some(Dtype::Float16))?;
    if !crate::dtype::is_float(dtype) {
        return Err(a.bad("dtype", format!("{dtype} is no float")));
    }
    let op = Pointwise::new(a.op, 2).float(FloatFunction::Binary(Binary::Mul));
    built(op.mixing().yields(Yields::Fixed(dtype)))
}

pub(crate) static ROWS: &[OpRow] = &[
    row("cast", &["x"], Layer::Native, cast)
        .attributes(&[("dtype", ""), ("wide", "false")])
        .ktir("x"),
    row("to", &["x"], Layer::Native, cast)
        .attributes(&[("dtype", ""), ("wide", "false")])
        .ktir("x"),
    row("quantize_fp8", &["x", "scale"], Layer::Native, quantize)
        .attributes(&[("dtype", "float8_e4m3fn")]),
    row("dequantize_fp8", &["x", "scale"], Layer::Native, dequantize)
        .attributes(&[("dtype", "float16")]),
];
