//! Conversions: another dtype, and scaled float8.

use super::build_pointwise;
use crate::attributes::OpAttributes;
use crate::coverage::UpstreamLayer;
use crate::forms::{CastOp, OpForm, PointwiseOp, ResultDtype};
use crate::row::{OpRow, row};
use crate::rows::BuiltForm;
use zellige_float::Dtype;
use zellige_math::{Binary, FloatFunction};

fn build_cast(a: &mut OpAttributes) -> BuiltForm {
    let dtype = a.take_dtype(None)?;
    let wide = a.take_flag("wide", false)?;
    Ok(OpForm::Cast(CastOp { name: a.op, dtype, wide }))
}

/// The largest number of a float8 format.
fn largest_finite(dtype: Dtype) -> Option<f32> {
    match dtype {
        Dtype::Float8E4m3fn => Some(448.0),
        Dtype::Float8E5m2 | Dtype::Float8E5m2fnuz => Some(57_344.0),
        _ => None,
    }
}

/// `x / scale` in float32, kept within the format, rounded once: no number overflows, NaN stays.
fn build_quantize(a: &mut OpAttributes) -> BuiltForm {
    let dtype = a.take_dtype(Some(Dtype::Float8E4m3fn))?;
    // Kept within the largest number before it is rounded, because an overflow would be an infinity or a NaN in some of
    // these formats.
    let Some(most) = largest_finite(dtype) else {
        let reason = format!("{dtype} is none of float8_e4m3fn, float8_e5m2, float8_e5m2fnuz");
        return Err(a.bad_attribute("dtype", reason));
    };
    let op = PointwiseOp::new(a.op, 2).with_float(FloatFunction::QuotientWithin(most));
    build_pointwise(op.with_result_dtype(ResultDtype::Fixed(dtype)))
}

/// `x * scale` in float32, rounded once.
fn build_dequantize(a: &mut OpAttributes) -> BuiltForm {
    let dtype = a.take_dtype(Some(Dtype::Float16))?;
    if !crate::dtype::is_float(dtype) {
        return Err(a.bad_attribute("dtype", format!("{dtype} is no float")));
    }
    let op = PointwiseOp::new(a.op, 2).with_float(FloatFunction::Binary(Binary::Mul));
    // Codes of 8 bits and a scale of another dtype do not promote, and the result has a dtype of its own.
    build_pointwise(op.with_mixed_dtypes().with_result_dtype(ResultDtype::Fixed(dtype)))
}

pub(crate) static ROWS: &[OpRow] = &[
    row("cast", &["x"], UpstreamLayer::Native, build_cast)
        .attributes(&[("dtype", ""), ("wide", "false")])
        .ktir("x"),
    row("to", &["x"], UpstreamLayer::Native, build_cast)
        .attributes(&[("dtype", ""), ("wide", "false")])
        .ktir("x"),
    row("quantize_fp8", &["x", "scale"], UpstreamLayer::Native, build_quantize)
        .attributes(&[("dtype", "float8_e4m3fn")]),
    row("dequantize_fp8", &["x", "scale"], UpstreamLayer::Native, build_dequantize)
        .attributes(&[("dtype", "float16")]),
];
