//! Memory of results, which numpy arrays show and keep alive.

use pyo3::exceptions::PyMemoryError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use zellige_host::AlignedBuffer;

/// Results from this many bytes on are made here; the allocator of numpy keeps and reuses smaller ones.
pub(crate) const MIN_OWNED_BYTES: usize = 16 << 20;

/// The owner of an array's memory: on huge pages, and used again by a later result.
#[pyclass(frozen, name = "_Memory", module = "zellige._native")]
pub(crate) struct Memory {
    start: usize,
    /// Kept alive for the arrays, which use the memory by its address.
    buffer: AlignedBuffer,
}

#[pymethods]
impl Memory {
    /// How numpy sees it: plain bytes that may be written.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let view = PyDict::new(py);
        view.set_item(intern!(py, "data"), (self.start, false))?;
        view.set_item(intern!(py, "shape"), (self.buffer.len(),))?;
        view.set_item(intern!(py, "typestr"), "|u1")?;
        view.set_item(intern!(py, "version"), 3)?;
        Ok(view)
    }
}

/// An array of `numpy.empty`, which every byte of is written next: what it holds until then may be that of
/// results that are gone.
pub(crate) fn empty_array<'py>(
    numpy: &Bound<'py, PyModule>,
    shape: &Bound<'py, PyTuple>,
    dtype: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = numpy.py();
    let width: usize = dtype.getattr(intern!(py, "itemsize"))?.extract()?;
    let extents: Vec<usize> = shape.extract()?;
    let bytes = extents.iter().try_fold(width, |n, e| n.checked_mul(*e));
    let objects: bool = dtype.getattr(intern!(py, "hasobject"))?.extract()?;
    let Some(bytes) = bytes.filter(|n| *n >= MIN_OWNED_BYTES && !objects) else {
        return numpy.getattr(intern!(py, "empty"))?.call1((shape, dtype));
    };
    let mut buffer = AlignedBuffer::try_new_uninit(bytes).ok_or_else(|| {
        PyMemoryError::new_err(format!("{bytes} bytes for the result are not to be had"))
    })?;
    let start = buffer.as_mut_ptr().expose_provenance();
    let owner = Bound::new(py, Memory { start, buffer })?;
    let flat = numpy.getattr(intern!(py, "asarray"))?.call1((owner,))?;
    flat.call_method1(intern!(py, "view"), (dtype,))?.call_method1(intern!(py, "reshape"), (shape,))
}
