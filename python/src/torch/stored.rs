//! How the card stores tensors: what the Python half asks, so that it needs no number format and no layout rule.

use super::cards::find_card;
use super::handle::{dtype_of, see_tensor};
use super::{held, store};
use crate::error::{self, DeviceFault};
use crate::stick::PyStickLayout;
use pyo3::prelude::*;
use pyo3::types::PyFloat;
use zellige_device::{OutOfRangeNumbers, Tensor, default_layout};
use zellige_float::Dtype;
use zellige_float::{Converter, Format};
use zellige_layout::StridedLayout;

/// Whether the card holds elements of a dtype without computing with them.
#[pyfunction]
pub(super) fn is_held(dtype: &Bound<'_, PyAny>) -> bool {
    dtype_of(dtype).is_ok_and(|d| held::holding_integers(d).is_some())
}

/// Whether the card computes with a dtype, so that a program can have tensors of it.
#[pyfunction]
pub(super) fn is_computed(dtype: &Bound<'_, PyAny>) -> bool {
    use Dtype::{Bfloat16, Bool, Float16, Float32, Int8, Int16, Int32, Int64, Uint8};
    dtype_of(dtype).is_ok_and(|d| {
        matches!(d, Float32 | Float16 | Bfloat16 | Int64 | Int32 | Int16 | Int8 | Uint8 | Bool)
    })
}

/// Whether a tensor of the device has all bits of float32 or int64, and not the half of them.
#[pyfunction]
pub(super) fn is_wide(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let tensor = store::card_tensor(&held::as_integers(see_tensor(object)?))
        .map_err(|e| error::device_error(&e))?;
    Ok(matches!(tensor.format(), Format::F32 | Format::I64))
}

/// The layout that the device gives a tensor without a request for one.
#[pyfunction]
#[pyo3(signature = (size, dtype, stride=None))]
pub(super) fn usual_layout(
    size: Vec<i64>,
    dtype: &Bound<'_, PyAny>,
    stride: Option<Vec<i64>>,
) -> PyResult<PyStickLayout> {
    let dtype = dtype_of(dtype)?;
    let layout =
        find_card(0).and_then(|c| default_layout(&size, stride.as_deref(), dtype, c.kept_dtypes()));
    layout.map(PyStickLayout).map_err(|e| error::device_error(&e))
}

/// The layout of a tensor, where it is another than the device gives by itself: a program has to take it as it is.
/// None of a view, which has no layout of its own.
#[pyfunction]
pub(super) fn chosen_layout(object: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    let seen = see_tensor(object)?;
    let view =
        StridedLayout::new(&seen.size, &seen.stride, 0).map_err(|e| error::layout_error(&e))?;
    if seen.offset != 0 || seen.numel() == 0 || !view.is_row_major() {
        return Ok(None);
    }
    let tensor = store::card_tensor(&seen).map_err(|e| error::device_error(&e))?;
    let usual = default_layout(tensor.size(), None, tensor.dtype(), tensor.card().kept_dtypes());
    let usual = usual.map_err(|e| error::device_error(&e))?;
    let layout = tensor.stick_layout();
    let chosen = layout.host().is_some_and(|h| h.size() == tensor.size()) && *layout != usual;
    Ok(chosen.then(|| zellige_notation::spyre::print_with_given_host(layout)))
}

/// The layout in which products read a weight of `outputs x inputs` without moving it: its sticks run along the
/// outputs. None where the weight cannot have it.
#[pyfunction]
pub(super) fn weight_layout(object: &Bound<'_, PyAny>) -> PyResult<Option<PyStickLayout>> {
    let tensor = store::tensor_of_object(object)?;
    let layout = tensor.stick_layout();
    let is_whole = layout.host().is_some_and(|h| h.size() == tensor.size());
    match tensor.size() {
        [outputs, inputs] if is_whole && *outputs > 1 && *inputs > 1 => layout
            .restickify_along(0)
            .map(PyStickLayout)
            .map(Some)
            .map_err(|e| error::layout_error(&e)),
        _ => Ok(None),
    }
}

/// The warning for elements that lose bits on their way to a tensor, where they do.
pub(super) fn narrowing_warning(tensor: &Tensor) -> Option<String> {
    let name = if tensor.dtype() == Dtype::Float32 { "ZELLIGE_FP32" } else { "ZELLIGE_INT64" };
    tensor.narrowing_warning().map(|text| {
        format!(
            "{text}; {name}=keep stores them as they are, TORCH_SPYRE_DOWNCAST_WARN=0 silences this"
        )
    })
}

/// The number whose bits encode infinity in the device's 16 bits.
fn infinity_encoding() -> PyResult<f64> {
    let fault = |e: zellige_float::ConvertError| DeviceFault::new_err(e.to_string());
    let (mut bits, mut number) = ([0; 2], [0; 8]);
    let into = Converter::new(Format::F64, Format::DL16INF);
    into.convert(&f64::INFINITY.to_le_bytes(), &mut bits, 1).map_err(fault)?;
    Converter::new(Format::DL16, Format::F64).convert(&bits, &mut number, 1).map_err(fault)?;
    Ok(f64::from_le_bytes(number))
}

/// The warning for a tensor with elements past the range of the device's 16 bits.
pub(super) fn past_range_warning(
    py: Python<'_>,
    tensor: &Tensor,
    past: &OutOfRangeNumbers,
) -> PyResult<String> {
    let value: String =
        PyFloat::new(py, past.value).call_method1("__format__", ("g",))?.extract()?;
    Ok(format!(
        "{} of {} elements of a {} tensor of size {:?}, the first at {:?} ({value}), are past the 16-bit numbers of \
         the device: they are stored as {} with their sign and come back as infinities; said once, \
         TORCH_SPYRE_DOWNCAST_WARN=0 silences this",
        past.count,
        tensor.numel(),
        tensor.dtype(),
        tensor.size(),
        past.first,
        infinity_encoding()?,
    ))
}
