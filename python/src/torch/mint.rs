//! New tensors of PyTorch over tensors of the card.

use super::cards::find_card;
use super::handle::{DimList, dtype_of};
use super::{held, store, views};
use crate::dlpack::{DlDevice, DlDtype, DlTensor, DlVersioned, ExchangeApi};
use crate::error::{self, DeviceFault};
use crate::panics;
use crate::stick::PyStickLayout;
use pyo3::prelude::*;
use std::ffi::c_void;
use std::sync::OnceLock;
use zellige_device::{DeviceError, KeptDtypes, Tensor, default_layout};
use zellige_float::Dtype;
use zellige_float::Format;
use zellige_layout::StridedLayout;
use zellige_op::OpError;
use zellige_stick::{DataFormat, StickLayout};

type ToObject = unsafe extern "C" fn(*mut DlVersioned, *mut *mut c_void) -> i32;

static TO_OBJECT: OnceLock<ToObject> = OnceLock::new();

/// Finds PyTorch's function that makes a tensor over memory of others.
pub(super) fn load_minting(py: Python<'_>) -> PyResult<()> {
    let class = py.import("torch")?.getattr("Tensor")?;
    let missing =
        || DeviceFault::new_err("this PyTorch has no DLPack exchange table; torch 2.15 has it");
    let capsule = class.getattr("__dlpack_c_exchange_api__").map_err(|_| missing())?;
    // SAFETY: the capsule is alive, and the table it holds lives as long as PyTorch.
    let table = unsafe {
        pyo3::ffi::PyCapsule_GetPointer(capsule.as_ptr(), c"dlpack_exchange_api".as_ptr())
    };
    if table.is_null() {
        return Err(PyErr::fetch(py));
    }
    // SAFETY: the table of that name has the fields of version 1.
    let api = unsafe { &*table.cast::<ExchangeApi>() };
    if api.major != 1 {
        return Err(DeviceFault::new_err(format!(
            "PyTorch speaks DLPack {}.{}; the device needs version 1",
            api.major, api.minor
        )));
    }
    let _ = TO_OBJECT.set(api.to_object.ok_or_else(missing)?);
    Ok(())
}

/// What a tensor of PyTorch holds of ours.
struct MintedContext {
    address: usize,
    size: DimList,
    stride: DimList,
}

unsafe extern "C" fn delete(managed: *mut DlVersioned) {
    if managed.is_null() {
        return;
    }
    panics::contain_panics(|| {
        // SAFETY: both were boxes of `mint`, and PyTorch calls this once.
        let context = unsafe {
            let managed = Box::from_raw(managed);
            Box::from_raw(managed.context.cast::<MintedContext>())
        };
        store::forget_storage(context.address);
    });
}

/// A PyTorch tensor with the sizes and strides of a tensor of the card. It may run without a GIL
/// problem: the caller holds it.
pub(super) fn mint_tensor<'py>(py: Python<'py>, tensor: &Tensor) -> PyResult<Bound<'py, PyAny>> {
    let view = tensor.view();
    mint_as(py, tensor, tensor.dtype(), view.size(), view.stride())
}

/// A PyTorch tensor over the memory of a tensor of the card.
fn mint_as<'py>(
    py: Python<'py>,
    tensor: &Tensor,
    dtype: Dtype,
    size: &[i64],
    stride: &[i64],
) -> PyResult<Bound<'py, PyAny>> {
    let unstored = || error::device_error(&OpError::HostDtype { dtype }.into());
    let dtype = DlDtype::for_dtype(dtype).ok_or_else(unstored)?;
    let address = store::keep_tensor(tensor).map_err(|e| error::device_error(&e))?;
    let mut stride = DimList::from_slice(stride);
    if size.contains(&0) {
        // PyTorch writes 1 where a product of sizes is 0.
        let mut step = 1;
        for (s, n) in stride.iter_mut().zip(size).rev() {
            *s = step;
            step *= (*n).max(1);
        }
    }
    let mut context = Box::new(MintedContext { address, size: DimList::from_slice(size), stride });
    let rank = i32::try_from(size.len()).unwrap_or(i32::MAX);
    let (size, stride) = (context.size.as_mut_ptr(), context.stride.as_mut_ptr());
    let index = i32::try_from(tensor.card().index()).unwrap_or(0);
    let managed = Box::new(DlVersioned {
        major: 1,
        minor: 0,
        context: Box::into_raw(context).cast(),
        deleter: Some(delete),
        flags: 0,
        tensor: DlTensor {
            data: address as *mut c_void,
            device: DlDevice { kind: DlDevice::EXTENSION, index },
            ndim: rank,
            dtype,
            shape: size,
            strides: stride,
            byte_offset: 0,
        },
    });
    let to_object = TO_OBJECT.get().expect("the device is registered after `load`");
    let (managed, mut object) = (Box::into_raw(managed), std::ptr::null_mut());
    // SAFETY: the structure is complete and lives until PyTorch calls its deleter.
    if unsafe { to_object(managed, &raw mut object) } != 0 {
        // SAFETY: PyTorch did not take it.
        unsafe { delete(managed) };
        return Err(PyErr::fetch(py));
    }
    // SAFETY: a new reference.
    Ok(unsafe { Bound::from_owned_ptr(py, object.cast()) })
}

/// A tensor of zeros; `stride` are the host's strides, by default row-major.
#[pyfunction]
#[pyo3(signature = (size, dtype, index, stride=None))]
pub(super) fn empty<'py>(
    py: Python<'py>,
    size: Vec<i64>,
    dtype: &Bound<'py, PyAny>,
    index: usize,
    stride: Option<Vec<i64>>,
) -> PyResult<Bound<'py, PyAny>> {
    let dtype = dtype_of(dtype)?;
    let Some((integer, parts)) = held::holding_integers(dtype) else {
        let made = zeros_tensor(index, &size, dtype, stride.as_deref());
        return mint_tensor(py, &made.map_err(|e| error::device_error(&e))?);
    };
    let stride = match stride {
        Some(stride) => stride,
        None => StridedLayout::new_contiguous(&size)
            .map_err(|e| error::layout_error(&e))?
            .stride()
            .to_vec(),
    };
    let (mut own_size, mut own_stride) = (size.clone(), stride.clone());
    if parts > 1 {
        own_stride.iter_mut().for_each(|s| *s *= parts);
        own_size.push(parts);
        own_stride.push(1);
    }
    let made = find_card(index).and_then(|card| {
        let layout = default_layout(&own_size, Some(&own_stride), integer, KeptDtypes::ALL)?;
        Tensor::zeros(card, integer, &layout)
    });
    mint_as(py, &made.map_err(|e| error::device_error(&e))?, dtype, &size, &stride)
}

/// A tensor of zeros with strides of the caller's. Memory that the tensor does not fill, or where elements share a
/// place, is a view of a line.
#[pyfunction]
pub(super) fn empty_strided<'py>(
    py: Python<'py>,
    size: Vec<i64>,
    dtype: &Bound<'py, PyAny>,
    index: usize,
    stride: Vec<i64>,
) -> PyResult<Bound<'py, PyAny>> {
    let view = StridedLayout::new(&size, &stride, 0).map_err(|e| error::layout_error(&e))?;
    // Without elements any strides are dense, and PyTorch keeps the given ones.
    if view.is_dense_non_overlapping() && !size.contains(&0) {
        return empty(py, size, dtype, index, Some(stride));
    }
    let length = view.address_range().map_or(0, |range| range.max + 1);
    let line = empty(py, vec![length], dtype, index, None)?;
    views::as_strided(&line, size, stride, Some(0))
}

pub(super) fn zeros_tensor(
    index: usize,
    size: &[i64],
    dtype: Dtype,
    stride: Option<&[i64]>,
) -> Result<Tensor, DeviceError> {
    let card = find_card(index)?;
    let layout = default_layout(size, stride, dtype, card.kept_dtypes())?;
    Tensor::zeros(card, dtype, &layout)
}

/// Refuses a layout whose format has not the kind of numbers that the dtype has.
pub(super) fn check_format(layout: &StickLayout, dtype: Dtype) -> Result<(), DeviceError> {
    let own = DataFormat::device_format_of(dtype)?;
    let float = |format: DataFormat| format.element_number_format().map(Format::is_float);
    if float(own) == float(layout.device_dtype()) {
        return Ok(());
    }
    Err(DeviceError::Unstored { format: layout.device_dtype(), dtype })
}

/// A tensor of zeros in a device layout of the caller's.
#[pyfunction]
#[pyo3(signature = (size, dtype, index, layout, stride=None))]
pub(super) fn empty_with_layout<'py>(
    py: Python<'py>,
    size: Vec<i64>,
    dtype: &Bound<'py, PyAny>,
    index: usize,
    layout: &Bound<'py, PyStickLayout>,
    stride: Option<Vec<i64>>,
) -> PyResult<Bound<'py, PyAny>> {
    let dtype = dtype_of(dtype)?;
    check_format(&layout.get().0, dtype).map_err(|e| error::device_error(&e))?;
    let made = find_card(index).and_then(|card| {
        let bound = layout.get().0.with_host(&size, stride.as_deref())?;
        Tensor::zeros(card, dtype, &bound)
    });
    mint_tensor(py, &made.map_err(|e| error::device_error(&e))?)
}
