//! Memory of other libraries, on the host or on a GPU, seen without a copy.

use crate::cuda;
use crate::dlpack::{DlDevice, DlManaged, DlTensor, DlVersioned, ExchangeApi, READ_ONLY};
use crate::plain::{self, ArrayUse, plain_object};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};
use smallvec::SmallVec;
use std::ffi::CStr;
use zellige_float::Dtype;

/// An array in host memory or on a GPU. It lives as long as its owner, which it keeps.
pub(crate) struct LibraryArray<'py> {
    /// The address of the element at the origin.
    origin: *mut u8,
    pub(crate) shape: SmallVec<[i64; 6]>,
    pub(crate) stride: SmallVec<[i64; 6]>,
    pub(crate) dtype: Dtype,
    pub(crate) read_only: bool,
    pub(crate) device: DlDevice,
    /// The functions of its library, where it exports them.
    api: Option<*const ExchangeApi>,
    _owner: Bound<'py, PyAny>,
}

/// A capsule's pointer, where it has this name.
fn capsule_pointer<T>(capsule: &Bound<'_, PyAny>, name: &CStr) -> Option<*mut T> {
    let capsule = capsule.cast::<PyCapsule>().ok()?;
    capsule.pointer_checked(Some(name)).ok().map(|p| p.as_ptr().cast())
}

impl<'py> LibraryArray<'py> {
    /// The memory of a numpy array, a PyTorch tensor, or anything with `__dlpack__`, which holds its
    /// elements as they are.
    ///
    /// A lazy conjugate or negative is read from a copy of its own. An array on a GPU is ready for work
    /// on the stream that the library of `lead` puts its own work on.
    pub(crate) fn from_object(
        object: &Bound<'py, PyAny>,
        used: ArrayUse,
        lead: &Bound<'py, PyAny>,
    ) -> PyResult<LibraryArray<'py>> {
        LibraryArray::from_plain_object(&plain_object(object, used)?, lead)
    }

    /// As [`LibraryArray::from_object`] for an object that is known to be a plain array, such as one that was just made.
    pub(crate) fn from_plain_object(
        object: &Bound<'py, PyAny>,
        lead: &Bound<'py, PyAny>,
    ) -> PyResult<LibraryArray<'py>> {
        let py = object.py();
        // numpy has no such table, and a question for one costs an exception. Its arrays are in host memory.
        let numpy = plain::is_numpy_array(object);
        if !numpy
            && let Ok(api) = object.get_type().getattr(intern!(py, "__dlpack_c_exchange_api__"))
            && let Some(api) = capsule_pointer::<ExchangeApi>(&api, c"dlpack_exchange_api")
        {
            // SAFETY: the capsule of that name holds the function table of a library that stays
            // loaded, with the fields of version 1.
            let look = unsafe { (*api).look };
            let mut tensor = DlTensor::empty();
            if let Some(look) = look {
                // SAFETY: the object is a tensor of the type whose table this is.
                if unsafe { look(object.as_ptr().cast(), &raw mut tensor) } != 0 {
                    return Err(PyErr::fetch(py));
                }
                let seen = LibraryArray::from_dlpack(object, &tensor, false, object.clone())?;
                return Ok(LibraryArray { api: Some(api.cast_const()), ..seen });
            }
        }
        let method = object.getattr(intern!(py, "__dlpack__")).map_err(|_| {
            let name = object.get_type().name().map_or_else(|_| "it".into(), |n| n.to_string());
            PyTypeError::new_err(format!(
                "{name} is no array: numpy arrays, PyTorch tensors and objects with __dlpack__ are"
            ))
        })?;
        let options = PyDict::new(py);
        options.set_item(intern!(py, "max_version"), (1, 0))?;
        if !numpy
            && let Ok(device) = object.call_method0(intern!(py, "__dlpack_device__"))
            && let Ok((DlDevice::CUDA, ordinal)) = device.extract::<(i32, i32)>()
        {
            // Zero would be taken for no stream; the default one is 1.
            let stream = cuda::stream_of(lead, ordinal)?.max(1);
            options.set_item(intern!(py, "stream"), stream)?;
        }
        // Libraries from before versions take no such argument.
        let capsule = match method.call((), Some(&options)) {
            Err(e) if e.is_instance_of::<PyTypeError>(py) => method.call0()?,
            other => other?,
        };
        if let Some(managed) = capsule_pointer::<DlVersioned>(&capsule, c"dltensor_versioned") {
            // SAFETY: a capsule of that name holds such a structure; it lives as long as the capsule.
            let managed = unsafe { &*managed };
            let read_only = managed.flags & READ_ONLY != 0;
            return LibraryArray::from_dlpack(object, &managed.tensor, read_only, capsule);
        }
        if let Some(managed) = capsule_pointer::<DlManaged>(&capsule, c"dltensor") {
            // SAFETY: as above.
            let managed = unsafe { &*managed };
            return LibraryArray::from_dlpack(object, &managed.tensor, false, capsule);
        }
        Err(PyTypeError::new_err("its __dlpack__ gives no tensor"))
    }

    fn from_dlpack(
        object: &Bound<'py, PyAny>,
        tensor: &DlTensor,
        read_only: bool,
        owner: Bound<'py, PyAny>,
    ) -> PyResult<LibraryArray<'py>> {
        if !matches!(tensor.device.kind, DlDevice::CPU | DlDevice::CUDA) {
            let device = object.getattr("device").map(|d| d.to_string()).unwrap_or_default();
            return Err(PyValueError::new_err(format!(
                "the array is on {device}; arrays here are in host memory or on a CUDA device"
            )));
        }
        let Some(dtype) = tensor.dtype.to_dtype() else {
            let named = object.getattr("dtype").map(|d| d.to_string()).unwrap_or_default();
            return Err(PyTypeError::new_err(format!(
                "elements of {named} ({}) are not moved; as integers of the same width they are, \
                 such as `x.view(torch.uint8)`",
                tensor.dtype.describe()
            )));
        };
        let rank = usize::try_from(tensor.ndim).unwrap_or(0);
        let list = |start: *const i64| -> SmallVec<[i64; 6]> {
            // SAFETY: `shape` and `strides` have `ndim` entries.
            (0..rank).map(|d| unsafe { *start.add(d) }).collect()
        };
        let shape = list(tensor.shape);
        let stride = if tensor.strides.is_null() {
            let mut stride: SmallVec<[i64; 6]> = SmallVec::from_elem(1, rank);
            for d in (1..rank).rev() {
                stride[d - 1] = stride[d] * shape[d];
            }
            stride
        } else {
            list(tensor.strides)
        };
        let offset = usize::try_from(tensor.byte_offset).unwrap_or(0);
        let origin = tensor.data.cast::<u8>().wrapping_add(offset);
        if tensor.data.is_null() && shape.iter().all(|n| *n > 0) {
            return Err(PyValueError::new_err(
                "the array has elements and no memory: its storage was freed, or made shorter",
            ));
        }
        let device = tensor.device;
        Ok(LibraryArray {
            origin,
            shape,
            stride,
            dtype,
            read_only,
            device,
            api: None,
            _owner: owner,
        })
    }

    /// Where it is, as it is written in messages.
    pub(crate) fn place_text(&self) -> String {
        match self.device.kind {
            DlDevice::CUDA => format!("cuda:{}", self.device.index),
            _ => "the CPU".into(),
        }
    }

    /// The stream that its library uses now, where the library has a function for it that needs no Python.
    pub(crate) fn library_stream(&self) -> Option<u64> {
        // SAFETY: the table of a library that stays loaded.
        let ask = unsafe { (*self.api?).stream }?;
        let mut stream = std::ptr::null_mut();
        // SAFETY: it writes one pointer, for a device that the library has memory on.
        let code = unsafe { ask(self.device.kind, self.device.index, &raw mut stream) };
        (code == 0).then_some(stream as u64)
    }

    /// Bytes of an element.
    pub(crate) fn element_width(&self) -> usize {
        usize::try_from(self.dtype.bits() / 8).unwrap_or(1)
    }

    /// The number of elements.
    pub(crate) fn len(&self) -> i64 {
        self.shape.iter().product()
    }

    /// Whether its elements are in row-major order without gaps.
    pub(crate) fn is_contiguous(&self) -> bool {
        let mut step = 1;
        self.len() == 0
            || self.shape.iter().zip(&self.stride).rev().all(|(n, s)| {
                let fits = *n == 1 || *s == step;
                step *= n;
                fits
            })
    }

    /// The lowest and the highest offset of an element from the origin; none where there are none.
    pub(crate) fn offset_range(&self) -> Option<(i64, i64)> {
        if self.len() == 0 {
            return None;
        }
        let ends = self.shape.iter().zip(&self.stride).map(|(n, s)| (n - 1) * s);
        Some(ends.fold((0, 0), |(low, high), end| (low + end.min(0), high + end.max(0))))
    }

    /// Its memory from the first element to the last: the start, and the number of bytes.
    pub(crate) fn memory_range(&self) -> (*mut u8, usize) {
        let Some((low, high)) = self.offset_range() else { return (self.origin, 0) };
        let width = self.element_width();
        let bytes = usize::try_from(high - low + 1).unwrap_or(0) * width;
        let start = isize::try_from(low).unwrap_or(0) * isize::try_from(width).unwrap_or(1);
        (self.origin.wrapping_offset(start), bytes)
    }
}
