//! Views: another size, other strides, another offset of the same storage.

use super::handle::{OwnedHandle, SeenTensor, see_tensor};
use super::shim::{Slot, check_code, loaded_shim};
use crate::error::DeviceFault;
use pyo3::prelude::*;
use zellige_layout::StridedLayout;

fn new_list(values: &[i64]) -> Result<Slot, String> {
    let mut list = std::ptr::null_mut();
    // SAFETY: a new list, which the dispatcher takes.
    unsafe {
        check_code((loaded_shim().torch_new_list_reserve_size)(values.len(), &raw mut list))?;
        for v in values {
            check_code((loaded_shim().torch_list_push_back)(list, v.cast_unsigned()))?;
        }
    }
    Ok(list as Slot)
}

/// An alias of a tensor, with other sizes and strides. Two calls of the dispatcher, which also know
/// what inference mode wants.
fn alias_tensor(
    tensor: OwnedHandle,
    size: &[i64],
    stride: &[i64],
    offset: i64,
) -> Result<OwnedHandle, String> {
    let s = loaded_shim();
    // SAFETY: the stack holds what the schemas of the two operators say; each call takes its
    // arguments and leaves one tensor.
    unsafe {
        let version = (s.aoti_torch_abi_version)();
        let mut stack = [tensor.0 as Slot];
        std::mem::forget(tensor);
        check_code((s.torch_call_dispatcher)(
            c"aten::alias".as_ptr(),
            c"".as_ptr(),
            stack.as_mut_ptr(),
            version,
        ))?;
        let mut at = std::ptr::null_mut();
        check_code((s.torch_new_stable_ivalue)(&raw mut at))?;
        *at = offset.cast_unsigned();
        let mut stack = [stack[0], new_list(size)?, new_list(stride)?, at as Slot];
        check_code((s.torch_call_dispatcher)(
            c"aten::as_strided_".as_ptr(),
            c"".as_ptr(),
            stack.as_mut_ptr(),
            version,
        ))?;
        Ok(OwnedHandle(stack[0] as *mut _))
    }
}

fn seen_as<'py>(
    object: &Bound<'py, PyAny>,
    size: &[i64],
    stride: &[i64],
    offset: i64,
) -> PyResult<Bound<'py, PyAny>> {
    let made = alias_tensor(OwnedHandle::from_object(object)?, size, stride, offset)
        .map_err(DeviceFault::new_err)?;
    made.into_object(object.py())
}

fn strided_view(seen: &SeenTensor) -> Result<StridedLayout, zellige_layout::LayoutError> {
    StridedLayout::new(&seen.size, &seen.stride, seen.offset)
}

/// `aten::as_strided`.
#[pyfunction]
#[pyo3(signature = (object, size, stride, storage_offset=None))]
pub(super) fn as_strided<'py>(
    object: &Bound<'py, PyAny>,
    size: Vec<i64>,
    stride: Vec<i64>,
    storage_offset: Option<i64>,
) -> PyResult<Bound<'py, PyAny>> {
    let offset = match storage_offset {
        Some(offset) => offset,
        None => see_tensor(object)?.offset,
    };
    seen_as(object, &size, &stride, offset)
}

/// `aten::view`.
#[pyfunction]
pub(super) fn view<'py>(object: &Bound<'py, PyAny>, size: Vec<i64>) -> PyResult<Bound<'py, PyAny>> {
    let seen = see_tensor(object)?;
    let mut size = size;
    if let Some(open) = size.iter().position(|n| *n == -1) {
        let rest: i64 = size.iter().filter(|n| **n != -1).product();
        size[open] = if rest == 0 { 0 } else { seen.numel() / rest };
    }
    if size.iter().product::<i64>() != seen.numel() || size.iter().any(|n| *n < 0) {
        return Err(DeviceFault::new_err(format!(
            "shape '{size:?}' is invalid for input of size {}",
            seen.numel()
        )));
    }
    if seen.numel() == 0 {
        let mut stride = vec![1; size.len()];
        for d in (1..size.len()).rev() {
            stride[d - 1] = stride[d] * size[d].max(1);
        }
        return seen_as(object, &size, &stride, seen.offset);
    }
    match strided_view(&seen).and_then(|s| s.view(&size)) {
        Ok(view) => seen_as(object, &size, view.stride(), seen.offset),
        Err(e) => Err(DeviceFault::new_err(format!(
            "view size is not compatible with input tensor's size and stride (at least one \
             dimension spans across two contiguous subspaces). Use .reshape(...) instead. {e}"
        ))),
    }
}

/// `aten::unfold`.
#[pyfunction]
pub(super) fn unfold<'py>(
    object: &Bound<'py, PyAny>,
    dimension: i64,
    size: i64,
    step: i64,
) -> PyResult<Bound<'py, PyAny>> {
    let seen = see_tensor(object)?;
    let view = strided_view(&seen).and_then(|s| s.unfold(dimension, size, step));
    let view = view.map_err(|e| crate::error::layout_error(&e))?;
    seen_as(object, view.size(), view.stride(), seen.offset)
}
