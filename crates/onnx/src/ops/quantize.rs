//! Quantized numbers: whole numbers or float8 times a scale, and products of them.

use super::Table;
use super::window;
use crate::carried::range;
use crate::error::Result;
use crate::literal::is_float;
use crate::node::Node;
use crate::tensor::dtype_of;
use crate::walk::Value;
use serde_json::{Value as Json, json};
use zellige_float::Dtype;
use zellige_graph::TensorId;

pub(super) const TABLE: Table = &[
    ("QuantizeLinear", quantize),
    ("DequantizeLinear", dequantize),
    ("DynamicQuantizeLinear", dynamic),
    ("MatMulInteger", matmul_integer),
    ("ConvInteger", conv_integer),
    ("QLinearMatMul", quantized_matmul),
    ("QLinearConv", quantized_conv),
];

/// A scale or a zero point that broadcasts with a tensor of this size: one number, one for each slice of an
/// axis, or one for each block of it.
fn spread(
    n: &mut Node<'_, '_>,
    x: TensorId,
    size: &[i64],
    axis: i64,
    block: i64,
) -> Result<TensorId> {
    let own = n.size_of(x);
    if own.iter().all(|e| *e == 1) {
        return if own.is_empty() { Ok(x) } else { n.step("reshape", &[x], json!({"size": []})) };
    }
    let dim = n.dim(axis, size.len())?;
    if own.len() == 1 && size[dim] == own[0] {
        let mut shape = vec![1; size.len()];
        shape[dim] = own[0];
        return n.step("reshape", &[x], json!({"size": shape}));
    }
    let fits = own.len() == size.len()
        && block > 0
        && (0..size.len())
            .all(|d| own[d] == if d == dim { (size[d] + block - 1) / block } else { size[d] });
    if !fits {
        let message = format!(
            "a scale of {own:?} for {size:?}; accepted: one number, one for each slice of axis {axis}, or \
             blocks of `block_size` along it"
        );
        return Err(n.bad("bad_operand", message));
    }
    let each = n.step("repeat_interleave", &[x], json!({"repeats": block, "dim": dim}))?;
    if own[dim] * block == size[dim] {
        return Ok(each);
    }
    n.step("slice", &[each], json!({"dim": dim, "start": 0, "end": size[dim]}))
}

/// Numbers rounded to whole ones around a zero point and kept in the range of a dtype; float8 as they are.
fn stored(
    n: &mut Node<'_, '_>,
    x: TensorId,
    zero: Option<TensorId>,
    dtype: Dtype,
) -> Result<Value> {
    if is_float(dtype) {
        let most = match dtype {
            Dtype::Float8E4m3fn => 448.0,
            Dtype::Float8E5m2 | Dtype::Float8E5m2fnuz => 57_344.0,
            other => {
                let message =
                    format!("{other}; accepted: float8_e4m3fn, float8_e5m2, float8_e5m2fnuz");
                return Err(n.bad("bad_operand", message));
            }
        };
        let x = n.step("clamp", &[x], json!({"min": -most, "max": most}))?;
        return n.converted(x, dtype);
    }
    let Some((low, high)) = range(dtype) else {
        return Err(n.bad("bad_operand", format!("{dtype} has no quantized numbers")));
    };
    let mut x = n.step("round", &[x], Json::Null)?;
    if let Some(zero) = zero {
        x = n.step("add", &[x, zero], Json::Null)?;
    }
    let x = n.step("clamp", &[x], json!({"min": low, "max": high}))?;
    n.converted(x, dtype)
}

fn quantize(n: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    n.arity(2, 3)?;
    let (axis, block) = (n.int("axis", 1)?, n.int("block_size", 0)?);
    n.only("saturate", 1)?;
    n.int("precision", 0)?;
    let asked = n.int("output_dtype", 0)?;
    let dtype = match (n.has(2), asked) {
        (true, _) => n.dtype(2)?,
        (false, 0) => Dtype::Uint8,
        (false, code) => dtype_of(code)
            .map_err(|e| n.bad("bad_attribute", format!("attribute `output_dtype` is {e}")))?,
    };
    let size = n.size(0)?;
    let (x, scale) = (n.tensor(0)?, n.tensor(1)?);
    let x = n.cast(x, Dtype::Float32)?;
    let scale = n.cast(scale, Dtype::Float32)?;
    let scale = spread(n, scale, &size, axis, block)?;
    let x = n.step("div", &[x, scale], Json::Null)?;
    let mut zero = None;
    if n.has(2) && !is_float(dtype) {
        let point = n.tensor(2)?;
        let point = n.cast(point, Dtype::Float32)?;
        zero = Some(spread(n, point, &size, axis, block)?);
    }
    Ok(vec![stored(n, x, zero, dtype)?])
}

/// Whole numbers or float8 as float32, less their zero point.
fn centered(
    n: &mut Node<'_, '_>,
    k: usize,
    zero: usize,
    axis: i64,
    block: i64,
) -> Result<TensorId> {
    let (x, size) = (n.tensor(k)?, n.size(k)?);
    if !n.has(zero) || is_float(n.dtype(zero)?) {
        return n.cast(x, Dtype::Float32);
    }
    // Whole numbers are subtracted as such: float32 does not hold all of 32 bits.
    let (x, point) = (n.cast(x, Dtype::Int32)?, n.tensor(zero)?);
    let point = n.cast(point, Dtype::Int32)?;
    let point = spread(n, point, &size, axis, block)?;
    let x = n.step("sub", &[x, point], Json::Null)?;
    n.cast(x, Dtype::Float32)
}

fn dequantize(n: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    n.arity(2, 3)?;
    let (axis, block) = (n.int("axis", 1)?, n.int("block_size", 0)?);
    let asked = n.int("output_dtype", 0)?;
    let dtype = match asked {
        0 => n.dtype(1)?,
        code => dtype_of(code)
            .map_err(|e| n.bad("bad_attribute", format!("attribute `output_dtype` is {e}")))?,
    };
    let size = n.size(0)?;
    let x = centered(n, 0, 2, axis, block)?;
    let scale = n.tensor(1)?;
    let scale = n.cast(scale, Dtype::Float32)?;
    let scale = spread(n, scale, &size, axis, block)?;
    let y = n.step("mul", &[x, scale], Json::Null)?;
    Ok(vec![n.converted(y, dtype)?])
}

/// Into 8 bits without a sign, by the range of the numbers themselves.
fn dynamic(n: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    n.arity(1, 1)?;
    let x = n.tensor(0)?;
    let high = n.step("amax", &[x], Json::Null)?;
    let high = n.step("clamp", &[high], json!({"min": 0.0}))?;
    let low = n.step("amin", &[x], Json::Null)?;
    let low = n.step("clamp", &[low], json!({"max": 0.0}))?;
    let span = n.step("sub", &[high, low], Json::Null)?;
    let scale = n.with("div", span, 255.0)?;
    let point = n.step("div", &[low, scale], Json::Null)?;
    let point = n.step("neg", &[point], Json::Null)?;
    let point = n.step("round", &[point], Json::Null)?;
    let point = n.step("clamp", &[point], json!({"min": 0, "max": 255}))?;
    let y = n.step("div", &[x, scale], Json::Null)?;
    let y = stored(n, y, Some(point), Dtype::Uint8)?;
    let point = n.cast(point, Dtype::Uint8)?;
    Ok(vec![y, Value::Tensor(scale), Value::Tensor(point)])
}

/// A factor of a product of whole numbers, less its zero point: one number, or one for each row or column.
fn factor(n: &mut Node<'_, '_>, k: usize, zero: usize, axis: i64) -> Result<TensorId> {
    let (x, size) = (n.tensor(k)?, n.size(k)?);
    let x = n.cast(x, Dtype::Int32)?;
    if !n.has(zero) {
        return Ok(x);
    }
    let point = n.tensor(zero)?;
    let point = n.cast(point, Dtype::Int32)?;
    let point = along(n, point, &size, axis)?;
    n.step("sub", &[x, point], Json::Null)
}

/// A scale or zero point of a matrix: one number, one for each slice of an axis, or of the matrix's own rank.
fn along(n: &mut Node<'_, '_>, x: TensorId, size: &[i64], axis: i64) -> Result<TensorId> {
    if n.size_of(x).len() > 1 {
        return Ok(x);
    }
    spread(n, x, size, axis, 0)
}

fn matmul_integer(n: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    n.arity(2, 4)?;
    let (a, b) = (factor(n, 0, 2, -2)?, factor(n, 1, 3, -1)?);
    let y = n.step("matmul", &[a, b], Json::Null)?;
    Ok(vec![n.converted(y, Dtype::Int32)?])
}

fn conv_integer(n: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    n.arity(2, 4)?;
    let (x, w) = (factor(n, 0, 2, 1)?, factor(n, 1, 3, 0)?);
    let y = window::summed(n, x, w, None)?;
    Ok(vec![n.converted(y, Dtype::Int32)?])
}

/// A product of whole numbers with its scales, quantized by those of the result.
fn rescaled(
    n: &mut Node<'_, '_>,
    product: TensorId,
    scales: [TensorId; 2],
    result: [usize; 2],
) -> Result<Value> {
    let x = n.cast(product, Dtype::Float32)?;
    let mut factor = n.step("mul", &scales, Json::Null)?;
    let to = n.tensor(result[0])?;
    let to = n.cast(to, Dtype::Float32)?;
    let to = spread(n, to, &[], 0, 0)?;
    factor = n.step("div", &[factor, to], Json::Null)?;
    let y = n.step("mul", &[x, factor], Json::Null)?;
    let (point, dtype) = (n.tensor(result[1])?, n.dtype(result[1])?);
    let point = n.cast(point, Dtype::Float32)?;
    let point = spread(n, point, &[], 0, 0)?;
    stored(n, y, Some(point), dtype)
}

/// Operands: a, its scale and zero point, b, its scale and zero point, scale and zero point of the result.
fn quantized_matmul(n: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    n.arity(8, 8)?;
    let (a, b) = (factor(n, 0, 2, -2)?, factor(n, 3, 5, -1)?);
    let product = n.step("matmul", &[a, b], Json::Null)?;
    let (left, right) = (n.size(0)?, n.size(3)?);
    let mut scales = Vec::new();
    for (k, size, axis) in [(1, &left, -2), (4, &right, -1)] {
        let scale = n.tensor(k)?;
        let scale = n.cast(scale, Dtype::Float32)?;
        scales.push(along(n, scale, size, axis)?);
    }
    Ok(vec![rescaled(n, product, [scales[0], scales[1]], [6, 7])?])
}

/// As the product, with a bias of 32 bits as operand 8.
fn quantized_conv(n: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    n.arity(8, 9)?;
    let (x, w) = (factor(n, 0, 2, 1)?, factor(n, 3, 5, 0)?);
    let bias = if n.has(8) { Some(n.tensor(8)?) } else { None };
    let product = window::summed(n, x, w, bias)?;
    let size = n.size_of(product);
    let mut scales = Vec::new();
    for (k, axis) in [(1, 1), (4, 1)] {
        let scale = n.tensor(k)?;
        let scale = n.cast(scale, Dtype::Float32)?;
        scales.push(spread(n, scale, &size, axis, 0)?);
    }
    let y = rescaled(n, product, [scales[0], scales[1]], [6, 7])?;
    Ok(vec![y])
}
