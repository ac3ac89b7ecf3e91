//! Elements between host and card, between cards, and on one card.

use super::handle::{SeenTensor, dtype_of, see_tensor};
use super::number::NumberOperand;
use super::{held, kernel, mint, store, stored, stream};
use crate::error::{self, DeviceFault};
use crate::stick::PyStickLayout;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};
use zellige_device::{DeviceError, MoveTraffic, OutOfRangeNumbers, Tensor, copy_again};
use zellige_float::Dtype;
use zellige_float::Format;
use zellige_layout::StridedLayout;
use zellige_machine::WorkKind;

/// Bytes below which the GIL stays held: releasing it costs more.
const SMALL_BYTES: u64 = 1 << 14;

fn account_transfer(
    tensor: &Tensor,
    moved: &MoveTraffic,
    name: &str,
    kind: WorkKind,
) -> Result<(), DeviceError> {
    let card = tensor.card();
    let work = moved.device_work(name, kind, card.core_count());
    card.account_work(stream::current_stream_id(card.index()), &work)?;
    Ok(())
}

/// The memory of a host tensor, from its first element to its last.
pub(super) fn host_memory(seen: &SeenTensor, host: &StridedLayout) -> (*mut u8, usize) {
    let last = host.address_range().map_or(0, |r| r.max + 1);
    let width = usize::try_from(seen.dtype.bits() / 8).unwrap_or(1);
    (seen.address as *mut u8, usize::try_from(last).unwrap_or(0) * width)
}

/// The strides of a source seen in the size of a destination.
fn expand_strides(seen: &SeenTensor, size: &[i64]) -> PyResult<StridedLayout> {
    let own =
        StridedLayout::new(&seen.size, &seen.stride, 0).map_err(|e| error::layout_error(&e))?;
    if own.size() == size {
        return Ok(own);
    }
    own.expand(size).map_err(|_| {
        DeviceFault::new_err(format!(
            "a copy: a source of size {:?} does not broadcast to {size:?}",
            seen.size.as_slice()
        ))
    })
}

static NARROWED: [AtomicBool; 2] = [AtomicBool::new(false), AtomicBool::new(false)];

/// Says once that elements lose bits on their way to the device.
fn warn_of_narrowing(py: Python<'_>, tensor: &Tensor) -> PyResult<()> {
    let Some(text) = stored::narrowing_warning(tensor) else { return Ok(()) };
    let dtype = tensor.dtype();
    let which = usize::from(dtype == Dtype::Int64);
    if !NARROWED[which].swap(true, Ordering::Relaxed) {
        kernel::warn_once(py, &format!("downcast of {dtype}"), &text)?;
    }
    Ok(())
}

static PASSED: AtomicBool = AtomicBool::new(false);

/// Says once that numbers are past those of the device's 16 bits; nothing is looked for after that.
fn warn_of_passing(
    py: Python<'_>,
    tensor: &Tensor,
    look: impl FnOnce() -> Result<Option<OutOfRangeNumbers>, DeviceError>,
) -> PyResult<()> {
    if tensor.format() != Format::DL16INF || PASSED.load(Ordering::Relaxed) {
        return Ok(());
    }
    let Some(past) = look().map_err(|e| error::device_error(&e))? else { return Ok(()) };
    if !PASSED.swap(true, Ordering::Relaxed) {
        let text = stored::past_range_warning(py, tensor, &past)?;
        kernel::warn_once(py, &text, &text)?;
    }
    Ok(())
}

/// Copies the elements of `src` into `dst`, which has the same dtype: up, down, across or on a card.
/// `src` broadcasts.
#[pyfunction]
pub(super) fn copy<'py>(
    py: Python<'py>,
    src: &Bound<'py, PyAny>,
    dst: &Bound<'py, PyAny>,
) -> PyResult<()> {
    let (from, to) = (see_tensor(src)?, see_tensor(dst)?);
    if from.dtype != to.dtype {
        return Err(DeviceFault::new_err(format!(
            "a copy from {} to {}: convert first",
            from.dtype, to.dtype
        )));
    }
    let (from, to) = (held::as_integers(from), held::as_integers(to));
    if to.numel() == 0 {
        expand_strides(&from, &to.size)?;
        return Ok(());
    }
    let dtype = from.dtype;
    let bytes = to.numel().unsigned_abs() * dtype.bits().unsigned_abs() / 8;
    let run = |work: &(dyn Fn() -> Result<(), DeviceError> + Sync)| {
        let done = if bytes < SMALL_BYTES { work() } else { py.detach(work) };
        done.map_err(|e| error::device_error(&e))
    };
    match (from.card, to.card) {
        (None, Some(_)) => {
            let tensor = store::card_tensor(&to).map_err(|e| error::device_error(&e))?;
            warn_of_narrowing(py, &tensor)?;
            let host = expand_strides(&from, &to.size)?;
            let (start, len) = host_memory(&from, &host);
            warn_of_passing(py, &tensor, || {
                // SAFETY: the memory of a live host tensor, from its first element to its last.
                let memory = unsafe { std::slice::from_raw_parts(start.cast_const(), len) };
                tensor.find_out_of_range(memory, &host, dtype)
            })?;
            // SAFETY: the memory of a live host tensor, from its first element to its last.
            let memory = unsafe { std::slice::from_raw_parts(start.cast_const(), len) };
            run(&|| {
                let moved = tensor.write_from(memory, &host, dtype)?;
                account_transfer(&tensor, &moved, "upload", WorkKind::Upload)
            })
        }
        (Some(_), None) => {
            let tensor = store::card_tensor(&from).map_err(|e| error::device_error(&e))?;
            let tensor = broadcast_tensor(&tensor, &to.size)?;
            let host =
                StridedLayout::new(&to.size, &to.stride, 0).map_err(|e| error::layout_error(&e))?;
            let (start, len) = host_memory(&to, &host);
            let start = start as usize;
            run(&|| {
                // SAFETY: the memory of a live host tensor, which the caller may write.
                let memory = unsafe { std::slice::from_raw_parts_mut(start as *mut u8, len) };
                let moved = tensor.read_into(memory, &host, dtype)?;
                account_transfer(&tensor, &moved, "download", WorkKind::Download)
            })
        }
        (Some(a), Some(b)) => {
            let source = store::card_tensor(&from).map_err(|e| error::device_error(&e))?;
            let source = broadcast_tensor(&source, &to.size)?;
            let target = store::card_tensor(&to).map_err(|e| error::device_error(&e))?;
            run(&|| {
                if a == b {
                    copy_on_card(&source, &target)
                } else {
                    copy_across_cards(&source, &target)
                }
            })
        }
        (None, None) => Err(DeviceFault::new_err("neither tensor of the copy is on the device")),
    }
}

fn broadcast_tensor(tensor: &Tensor, size: &[i64]) -> PyResult<Tensor> {
    if tensor.size() == size {
        return Ok(tensor.clone());
    }
    tensor.view_with(|v| v.expand(size)).map_err(|e| error::device_error(&e))
}

fn copy_on_card(source: &Tensor, target: &Tensor) -> Result<(), DeviceError> {
    copy_again(stream::current_stream_id(target.card().index()), source, target)
}

/// A new row-major tensor in the default layout with the elements of a tensor of the device.
#[pyfunction]
pub(super) fn clone_contiguous<'py>(
    py: Python<'py>,
    object: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let source = store::tensor_of_object(object)?;
    let made = mint::zeros_tensor(source.card().index(), source.size(), source.dtype(), None);
    let made = made.map_err(|e| error::device_error(&e))?;
    if source.numel() > 0 {
        let bytes = source.numel().unsigned_abs() * source.dtype().bits().unsigned_abs() / 8;
        let copy = || copy_on_card(&source, &made);
        let done = if bytes < SMALL_BYTES { copy() } else { py.detach(copy) };
        done.map_err(|e| error::device_error(&e))?;
    }
    mint::mint_tensor(py, &made)
}

/// Between cards elements go through the host, wide enough for every format of the device.
fn copy_across_cards(source: &Tensor, target: &Tensor) -> Result<(), DeviceError> {
    let wide = match source.dtype() {
        Dtype::Float16 | Dtype::Bfloat16 => Dtype::Float32,
        other => other,
    };
    let (bytes, moved) = source.download_with_traffic(wide)?;
    account_transfer(source, &moved, "download", WorkKind::Download)?;
    let host = StridedLayout::new_contiguous(source.size())?;
    let moved = target.write_from(&bytes, &host, wide)?;
    account_transfer(target, &moved, "upload", WorkKind::Upload)
}

/// A tensor of the device in another layout.
#[pyfunction]
pub(super) fn to_layout<'py>(
    py: Python<'py>,
    object: &Bound<'py, PyAny>,
    layout: &Bound<'py, PyStickLayout>,
) -> PyResult<Bound<'py, PyAny>> {
    let tensor = store::tensor_of_object(object)?;
    let wanted = &layout.get().0;
    mint::check_format(wanted, tensor.dtype()).map_err(|e| error::device_error(&e))?;
    let work = || {
        let bound = match wanted.host() {
            Some(host) if host.size() == tensor.size() => wanted.clone(),
            _ => wanted.with_host(tensor.size(), None)?,
        };
        let (made, moved) = tensor.to_layout(&bound)?;
        account_transfer(&made, &moved, "restickify", WorkKind::Restickify)?;
        Ok(made)
    };
    let made = py.detach(work).map_err(|e: DeviceError| error::device_error(&e))?;
    mint::mint_tensor(py, &made)
}

/// Sets every element of a tensor or view.
#[pyfunction]
pub(super) fn fill<'py>(object: &Bound<'py, PyAny>, value: &Bound<'py, PyAny>) -> PyResult<()> {
    let py = object.py();
    let tensor = store::tensor_of_object(object)?;
    if tensor.numel() == 0 {
        return Ok(());
    }
    let Some(number) = NumberOperand::from_object(value) else {
        return Err(PyTypeError::new_err("a tensor is filled with a number of at most 64 bits"));
    };
    // An infinity is downloaded as an infinity again, so only a finite number that changes needs a warning.
    let value = number.to_scalar().to_f64();
    if value.is_finite() && tensor.dtype() != Dtype::Bool {
        warn_of_passing(py, &tensor, || {
            let one = StridedLayout::new(tensor.size(), &vec![0; tensor.size().len()], 0)?;
            tensor.find_out_of_range(&value.to_le_bytes(), &one, Dtype::Float64)
        })?;
    }
    let moved = tensor.fill(number.to_scalar()).map_err(|e| error::device_error(&e))?;
    account_transfer(&tensor, &moved, "fill", WorkKind::Copy).map_err(|e| error::device_error(&e))
}

/// The one element of a tensor, as a number.
#[pyfunction]
pub(super) fn item<'py>(
    py: Python<'py>,
    object: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let tensor = store::tensor_of_object(object)?;
    if tensor.numel() != 1 {
        return Err(DeviceFault::new_err(format!(
            "a Tensor with {} elements cannot be converted to Scalar",
            tensor.numel()
        )));
    }
    let float = super::number::dtype_category(tensor.dtype()) == 2;
    // Half-width elements come as float32: the device holds more of them than float16 does.
    let narrow = matches!(tensor.dtype(), Dtype::Float16);
    let as_dtype = if !float {
        Dtype::Int64
    } else if narrow {
        Dtype::Float16
    } else {
        Dtype::Float64
    };
    let (bytes, moved) =
        tensor.download_with_traffic(as_dtype).map_err(|e| error::device_error(&e))?;
    account_transfer(&tensor, &moved, "download", WorkKind::Download)
        .map_err(|e| error::device_error(&e))?;
    let whole: [u8; 8] = std::array::from_fn(|i| bytes.get(i).copied().unwrap_or(0));
    Ok(match (tensor.dtype(), as_dtype) {
        (Dtype::Bool, _) => pyo3::types::PyBool::new(py, whole != [0; 8]).to_owned().into_any(),
        (_, Dtype::Int64) => i64::from_le_bytes(whole).into_pyobject(py)?.into_any(),
        (_, Dtype::Float64) => f64::from_le_bytes(whole).into_pyobject(py)?.into_any(),
        _ => {
            let mut wide = [0u8; 8];
            zellige_float::Converter::new(Format::F16, Format::F64)
                .convert(&bytes, &mut wide, 1)
                .map_err(|e| DeviceFault::new_err(e.to_string()))?;
            f64::from_le_bytes(wide).into_pyobject(py)?.into_any()
        }
    })
}

/// A tensor of another size with the first elements of this one; the rest is zero.
#[pyfunction]
pub(super) fn resized<'py>(
    py: Python<'py>,
    object: &Bound<'py, PyAny>,
    size: Vec<i64>,
    dtype: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let (tensor, dtype) = (store::tensor_of_object(object)?, dtype_of(dtype)?);
    let made = if tensor.numel() == 0 {
        mint::zeros_tensor(tensor.card().index(), &size, dtype, None)
    } else {
        tensor.resized_to(&size)
    };
    mint::mint_tensor(py, &made.map_err(|e| error::device_error(&e))?)
}
