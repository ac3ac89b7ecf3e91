//! How programs take tensors of PyTorch: a whole tensor as it is, a view as its storage with the view as strides over it.

use super::handle::see_tensor;
use super::{held, store};
use crate::error::{self, DeviceFault};
use crate::stick::PyStickLayout;
use pyo3::prelude::*;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use zellige_device::{Tensor, TensorLayout, default_layout};
use zellige_layout::StridedLayout;

/// Everything of a tensor that a program is compiled for: the layout of its storage, and how it looks at it. Tensors with
/// equal forms can take the same program.
#[pyclass(module = "zellige", frozen)]
#[derive(PartialEq, Eq, Hash)]
pub(super) struct InputForm {
    laid: TensorLayout,
    /// The size of the storage. Equal layouts can have hosts of different sizes.
    host: Option<StridedLayout>,
}

impl InputForm {
    fn storage_layout(&self) -> Option<TensorLayout> {
        if self.laid.numel() == 0 { None } else { self.laid.row_major_storage() }
    }
}

#[pymethods]
impl InputForm {
    /// Whether it is the whole of a row-major storage, or has no elements: a program takes it as it is.
    #[getter]
    fn is_whole(&self) -> bool {
        let plain = StridedLayout::new_contiguous(self.laid.size());
        self.laid.numel() == 0
            || (self.laid.is_base() && plain.is_ok_and(|p| p == *self.laid.view()))
    }

    /// The size of its storage as a row-major tensor; none where the storage has no such form.
    #[getter]
    fn storage_size(&self) -> Option<Vec<i64>> {
        self.storage_layout().map(|s| s.size().to_vec())
    }

    /// The layout of the storage, where it is another than the device gives a tensor of that size by itself.
    #[getter]
    fn storage_pin(&self) -> PyResult<Option<String>> {
        let Some(storage) = self.storage_layout() else { return Ok(None) };
        let keep = storage.storage_policy().keep;
        let usual = default_layout(storage.size(), None, storage.dtype(), keep);
        let usual = usual.map_err(|e| error::device_error(&e))?;
        let chosen =
            *storage.stick_layout() != usual || storage.stick_layout().host() != usual.host();
        Ok(chosen.then(|| zellige_notation::spyre::print_with_given_host(storage.stick_layout())))
    }

    /// What forms have in common that differ in sizes alone: the dimensions by falling strides.
    #[getter]
    fn stride_order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.laid.size().len()).collect();
        order.sort_by_key(|d| std::cmp::Reverse(self.laid.view().stride()[*d]));
        order
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<InputForm>().is_ok_and(|o| o.get() == self)
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }
}

/// The form of a tensor of the device; none of a tensor of another device.
#[pyfunction]
pub(super) fn input_form(object: &Bound<'_, PyAny>) -> PyResult<Option<InputForm>> {
    let seen = held::as_integers(see_tensor(object)?);
    if seen.card.is_none() {
        return Ok(None);
    }
    let tensor = store::card_tensor(&seen).map_err(|e| error::device_error(&e))?;
    let host = tensor.stick_layout().host().cloned();
    Ok(Some(InputForm { laid: tensor.tensor_layout().clone(), host }))
}

/// The memory of a tensor in another form, for a program that reads it so.
#[pyclass(module = "zellige", frozen)]
pub(super) struct RowMajorStorage(pub(super) Tensor);

/// The memory of a tensor in a layout over the same device positions, which is bound to a host of its own.
#[pyfunction]
pub(super) fn same_memory_in(
    object: &Bound<'_, PyAny>,
    layout: PyRef<'_, PyStickLayout>,
) -> PyResult<RowMajorStorage> {
    let tensor = store::tensor_of_object(object)?.same_memory_in(&layout.0);
    tensor.map(RowMajorStorage).map_err(|e| error::device_error(&e))
}

/// The storage of a tensor as a row-major tensor.
#[pyfunction]
pub(super) fn row_major_storage(object: &Bound<'_, PyAny>) -> PyResult<RowMajorStorage> {
    let storage = store::tensor_of_object(object)?.row_major_storage();
    let none = || DeviceFault::new_err("the storage of this view has no row-major form");
    storage.map(RowMajorStorage).ok_or_else(none)
}
