//! Rules for quantized numbers: integers or float8 times a scale, and products of them.

use super::RuleTable;
use super::window;
use crate::carried::integer_range;
use crate::error::Result;
use crate::literal::is_float;
use crate::node::NodeLowering;
use crate::tensor::dtype_of_code;
use crate::walk::ModelValue;
use zellige_float::Dtype;
use zellige_graph::{OpCall, TensorId};

pub(super) const TABLE: RuleTable = &[
    ("QuantizeLinear", lower_quantize),
    ("DequantizeLinear", lower_dequantize),
    ("DynamicQuantizeLinear", lower_dynamic_quantize),
    ("MatMulInteger", lower_matmul_integer),
    ("ConvInteger", lower_conv_integer),
    ("QLinearMatMul", lower_quantized_matmul),
    ("QLinearConv", lower_quantized_conv),
];

/// Broadcasts a scale or a zero point to a tensor of this size: one number, one for each slice of
/// an axis, or one for each block of it.
fn spread_parameter(
    n: &mut NodeLowering<'_, '_>,
    x: TensorId,
    size: &[i64],
    axis: i64,
    block: i64,
) -> Result<TensorId> {
    let own = n.tensor_size(x);
    // A scale of one element may be written with shape [1]; it must not add a dimension.
    if own.iter().all(|e| *e == 1) {
        return if own.is_empty() { Ok(x) } else { n.emit_step(OpCall::reshape([]), &[x]) };
    }
    let dim = n.normalize_dim(axis, size.len())?;
    if own.len() == 1 && size[dim] == own[0] {
        let mut shape = vec![1; size.len()];
        shape[dim] = own[0];
        return n.emit_step(OpCall::reshape(shape), &[x]);
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
        return Err(n.refuse_node("bad_operand", message));
    }
    // Blocks exist since opset 21; the last one of an axis may be shorter.
    let each = n.emit_step(
        OpCall::new("repeat_interleave").with("repeats", block).with("dim", dim),
        &[x],
    )?;
    if own[dim] * block == size[dim] {
        return Ok(each);
    }
    n.emit_step(OpCall::slice(dim, 0, size[dim]), &[each])
}

/// Rounds numbers to integers, adds a zero point and clamps them to the range of a dtype; float8 is
/// only clamped.
fn round_and_store(
    n: &mut NodeLowering<'_, '_>,
    x: TensorId,
    zero: Option<TensorId>,
    dtype: Dtype,
) -> Result<ModelValue> {
    if is_float(dtype) {
        // float8 formats saturate to their largest finite value under `saturate` = 1, the only
        // accepted value.
        let most = match dtype {
            Dtype::Float8E4m3fn => 448.0,
            Dtype::Float8E5m2 | Dtype::Float8E5m2fnuz => 57_344.0,
            other => {
                let message =
                    format!("{other}; accepted: float8_e4m3fn, float8_e5m2, float8_e5m2fnuz");
                return Err(n.refuse_node("bad_operand", message));
            }
        };
        let x = n.emit_step(OpCall::new("clamp").with("min", -most).with("max", most), &[x])?;
        return n.convert_result(x, dtype);
    }
    let Some((low, high)) = integer_range(dtype) else {
        return Err(n.refuse_node("bad_operand", format!("{dtype} has no quantized numbers")));
    };
    // Rounded to nearest even before the zero point is added: adding first would move ties.
    let mut x = n.emit_step("round", &[x])?;
    if let Some(zero) = zero {
        x = n.emit_step("add", &[x, zero])?;
    }
    let x = n.emit_step(OpCall::new("clamp").with("min", low).with("max", high), &[x])?;
    n.convert_result(x, dtype)
}

fn lower_quantize(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    n.check_arity(2, 3)?;
    let (axis, block) = (n.int_attribute("axis", 1)?, n.int_attribute("block_size", 0)?);
    n.require_attribute_is("saturate", 1)?;
    n.int_attribute("precision", 0)?;
    let asked = n.int_attribute("output_dtype", 0)?;
    let dtype = match (n.has_operand(2), asked) {
        (true, _) => n.operand_dtype(2)?,
        // The default of the specification without a zero point and without `output_dtype`.
        (false, 0) => Dtype::Uint8,
        (false, code) => dtype_of_code(code).map_err(|e| {
            n.refuse_node("bad_attribute", format!("attribute `output_dtype` is {e}"))
        })?,
    };
    let size = n.operand_size(0)?;
    let (x, scale) = (n.operand_tensor(0)?, n.operand_tensor(1)?);
    let x = n.cast_tensor(x, Dtype::Float32)?;
    let scale = n.cast_tensor(scale, Dtype::Float32)?;
    let scale = spread_parameter(n, scale, &size, axis, block)?;
    let x = n.emit_step("div", &[x, scale])?;
    let mut zero = None;
    if n.has_operand(2) && !is_float(dtype) {
        let point = n.operand_tensor(2)?;
        let point = n.cast_tensor(point, Dtype::Float32)?;
        zero = Some(spread_parameter(n, point, &size, axis, block)?);
    }
    Ok(vec![round_and_store(n, x, zero, dtype)?])
}

/// Converts integers or float8 to float32 and subtracts their zero point.
fn center_operand(
    n: &mut NodeLowering<'_, '_>,
    k: usize,
    zero: usize,
    axis: i64,
    block: i64,
) -> Result<TensorId> {
    let (x, size) = (n.operand_tensor(k)?, n.operand_size(k)?);
    if !n.has_operand(zero) || is_float(n.operand_dtype(zero)?) {
        return n.cast_tensor(x, Dtype::Float32);
    }
    // Integers are subtracted as integers, because float32 does not hold all 32 bits.
    let (x, point) = (n.cast_tensor(x, Dtype::Int32)?, n.operand_tensor(zero)?);
    let point = n.cast_tensor(point, Dtype::Int32)?;
    let point = spread_parameter(n, point, &size, axis, block)?;
    let x = n.emit_step("sub", &[x, point])?;
    n.cast_tensor(x, Dtype::Float32)
}

fn lower_dequantize(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    n.check_arity(2, 3)?;
    let (axis, block) = (n.int_attribute("axis", 1)?, n.int_attribute("block_size", 0)?);
    let asked = n.int_attribute("output_dtype", 0)?;
    let dtype = match asked {
        0 => n.operand_dtype(1)?,
        code => dtype_of_code(code).map_err(|e| {
            n.refuse_node("bad_attribute", format!("attribute `output_dtype` is {e}"))
        })?,
    };
    let size = n.operand_size(0)?;
    let x = center_operand(n, 0, 2, axis, block)?;
    let scale = n.operand_tensor(1)?;
    let scale = n.cast_tensor(scale, Dtype::Float32)?;
    let scale = spread_parameter(n, scale, &size, axis, block)?;
    let y = n.emit_step("mul", &[x, scale])?;
    Ok(vec![n.convert_result(y, dtype)?])
}

/// Quantizes to unsigned 8 bits, with a scale from the range of the numbers.
fn lower_dynamic_quantize(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    n.check_arity(1, 1)?;
    let x = n.operand_tensor(0)?;
    let high = n.emit_step("amax", &[x])?;
    // The range is extended to 0, because padding and ReLU need a zero that is exact.
    let high = n.emit_step(OpCall::new("clamp").with("min", 0.0), &[high])?;
    let low = n.emit_step("amin", &[x])?;
    let low = n.emit_step(OpCall::new("clamp").with("max", 0.0), &[low])?;
    let span = n.emit_step("sub", &[high, low])?;
    let scale = n.emit_with_number("div", span, 255.0)?;
    let point = n.emit_step("div", &[low, scale])?;
    let point = n.emit_step("neg", &[point])?;
    let point = n.emit_step("round", &[point])?;
    let point = n.emit_step(OpCall::new("clamp").with("min", 0).with("max", 255), &[point])?;
    let y = n.emit_step("div", &[x, scale])?;
    let y = round_and_store(n, y, Some(point), Dtype::Uint8)?;
    let point = n.cast_tensor(point, Dtype::Uint8)?;
    Ok(vec![y, ModelValue::Tensor(scale), ModelValue::Tensor(point)])
}

/// Subtracts the zero point from a factor of an integer product: one number, or one for each row or
/// column.
fn center_factor(
    n: &mut NodeLowering<'_, '_>,
    k: usize,
    zero: usize,
    axis: i64,
) -> Result<TensorId> {
    let (x, size) = (n.operand_tensor(k)?, n.operand_size(k)?);
    let x = n.cast_tensor(x, Dtype::Int32)?;
    if !n.has_operand(zero) {
        return Ok(x);
    }
    let point = n.operand_tensor(zero)?;
    let point = n.cast_tensor(point, Dtype::Int32)?;
    let point = spread_over_matrix(n, point, &size, axis)?;
    n.emit_step("sub", &[x, point])
}

/// Broadcasts a scale or zero point of a matrix: one number, one for each slice of an axis, or a
/// tensor of the matrix's rank.
fn spread_over_matrix(
    n: &mut NodeLowering<'_, '_>,
    x: TensorId,
    size: &[i64],
    axis: i64,
) -> Result<TensorId> {
    if n.tensor_size(x).len() > 1 {
        return Ok(x);
    }
    spread_parameter(n, x, size, axis, 0)
}

fn lower_matmul_integer(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    n.check_arity(2, 4)?;
    let (a, b) = (center_factor(n, 0, 2, -2)?, center_factor(n, 1, 3, -1)?);
    let y = n.emit_step("matmul", &[a, b])?;
    Ok(vec![n.convert_result(y, Dtype::Int32)?])
}

fn lower_conv_integer(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    n.check_arity(2, 4)?;
    let (x, w) = (center_factor(n, 0, 2, 1)?, center_factor(n, 1, 3, 0)?);
    let y = window::convolve_integers(n, x, w, None)?;
    Ok(vec![n.convert_result(y, Dtype::Int32)?])
}

/// Multiplies an integer product by its scales and quantizes it with those of the result.
fn rescale_product(
    n: &mut NodeLowering<'_, '_>,
    product: TensorId,
    scales: [TensorId; 2],
    result: [usize; 2],
) -> Result<ModelValue> {
    let x = n.cast_tensor(product, Dtype::Float32)?;
    // One factor for both scales and the result's: each further product with the whole matrix would
    // round again.
    let mut factor = n.emit_step("mul", &scales)?;
    let to = n.operand_tensor(result[0])?;
    let to = n.cast_tensor(to, Dtype::Float32)?;
    let to = spread_parameter(n, to, &[], 0, 0)?;
    factor = n.emit_step("div", &[factor, to])?;
    let y = n.emit_step("mul", &[x, factor])?;
    let (point, dtype) = (n.operand_tensor(result[1])?, n.operand_dtype(result[1])?);
    let point = n.cast_tensor(point, Dtype::Float32)?;
    let point = spread_parameter(n, point, &[], 0, 0)?;
    round_and_store(n, y, Some(point), dtype)
}

/// Operands: a, its scale and zero point, b, its scale and zero point, scale and zero point of the result.
fn lower_quantized_matmul(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    n.check_arity(8, 8)?;
    let (a, b) = (center_factor(n, 0, 2, -2)?, center_factor(n, 3, 5, -1)?);
    let product = n.emit_step("matmul", &[a, b])?;
    let (left, right) = (n.operand_size(0)?, n.operand_size(3)?);
    let mut scales = Vec::new();
    for (k, size, axis) in [(1, &left, -2), (4, &right, -1)] {
        let scale = n.operand_tensor(k)?;
        let scale = n.cast_tensor(scale, Dtype::Float32)?;
        scales.push(spread_over_matrix(n, scale, size, axis)?);
    }
    Ok(vec![rescale_product(n, product, [scales[0], scales[1]], [6, 7])?])
}

/// As for the matrix product, with a bias of 32 bits as operand 8.
fn lower_quantized_conv(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    n.check_arity(8, 9)?;
    let (x, w) = (center_factor(n, 0, 2, 1)?, center_factor(n, 3, 5, 0)?);
    let bias = if n.has_operand(8) { Some(n.operand_tensor(8)?) } else { None };
    let product = window::convolve_integers(n, x, w, bias)?;
    let size = n.tensor_size(product);
    let mut scales = Vec::new();
    for (k, axis) in [(1, 1), (4, 1)] {
        let scale = n.operand_tensor(k)?;
        let scale = n.cast_tensor(scale, Dtype::Float32)?;
        scales.push(spread_parameter(n, scale, &size, axis, 0)?);
    }
    let y = rescale_product(n, product, [scales[0], scales[1]], [6, 7])?;
    Ok(vec![y])
}
