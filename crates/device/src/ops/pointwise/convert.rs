//! Conversions: another dtype, and scaled float8.

use super::{Attrs, Built, built, table};
use crate::kernels::cast::Cast;
use crate::kernels::pointwise::{Pointwise, Yields};
use std::sync::Arc;
use zellige_layout::Dtype;
use zellige_math::{Binary, map2, ternary};

fn cast(a: &mut Attrs) -> Built {
    let dtype = a.dtype(None)?;
    let wide = a.flag("wide", false)?;
    Ok(Arc::new(Cast { name: a.op, dtype, wide }))
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
fn quantize(a: &mut Attrs) -> Built {
    let dtype = a.dtype(Some(Dtype::Float8E4m3fn))?;
    let Some(most) = largest(dtype) else {
        let reason = format!("{dtype} is none of float8_e4m3fn, float8_e5m2, float8_e5m2fnuz");
        return Err(a.bad("dtype", reason));
    };
    let op = Pointwise::new(a.op, 2)
        .float(move |x, out| ternary::quotient_within(x[0], x[1], most, out));
    built(op.yields(Yields::Fixed(dtype)))
}

/// `x * scale` in float32, rounded once.
fn dequantize(a: &mut Attrs) -> Built {
    let dtype = a.dtype(Some(Dtype::Float16))?;
    if !crate::lay::is_float(dtype) {
        return Err(a.bad("dtype", format!("{dtype} is no float")));
    }
    let op = Pointwise::new(a.op, 2).float(|x, out| map2(Binary::Mul, x[0], x[1], out));
    built(op.mixing().yields(Yields::Fixed(dtype)))
}

table! {
    "cast" ("x") ["dtype" = "", "wide" = "false"] Native, cast;
    "to" ("x") ["dtype" = "", "wide" = "false"] Native, cast;
    "quantize_fp8" ("x", "scale") ["dtype" = "float8_e4m3fn"] Native, quantize;
    "dequantize_fp8" ("x", "scale") ["dtype" = "float16"] Native, dequantize;
}
