//! `zellige.relayout`: elements from one layout to another.

use crate::array::Array;
use crate::error;
use crate::layout::PyLayout;
use crate::memory;
use crate::plain::{Use, written};
use crate::stick::PyStickLayout;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};
use zellige_layout::{Layout, Strided};
use zellige_movement::{Dtypes, Fill, Padding, PlanCache};

static PLANS: LazyLock<PlanCache> = LazyLock::new(|| PlanCache::new(1024));

/// One side of the move.
enum Side<'py> {
    /// The strides of the array itself.
    Own(PyLayout),
    /// A layout of the array's memory.
    Object(Bound<'py, PyLayout>),
    Given(PyLayout),
}

impl Side<'_> {
    fn get(&self) -> &PyLayout {
        match self {
            Side::Own(l) | Side::Given(l) => l,
            Side::Object(l) => l.get(),
        }
    }

    fn layout(&self) -> &Layout {
        &self.get().layout
    }
}

/// Texts that were read before.
static TEXTS: LazyLock<Mutex<HashMap<(String, Option<Vec<i64>>), PyLayout>>> =
    LazyLock::new(Mutex::default);

/// Runs something with the locks of this file held.
pub(crate) fn with_locks(work: impl FnOnce()) {
    let _texts = TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    work();
}

fn given<'py>(value: &Bound<'py, PyAny>, shape: Option<&[i64]>) -> PyResult<Side<'py>> {
    if let Ok(layout) = value.cast::<PyLayout>() {
        return Ok(Side::Object(layout.clone()));
    }
    if value.is_instance_of::<PyString>() {
        let key = (value.extract::<String>()?, shape.map(<[i64]>::to_vec));
        let mut texts = TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = texts.get(&key) {
            return Ok(Side::Given(found.clone()));
        }
        // A text that says its own shape needs none.
        let read = PyLayout::read(&key.0, None, None)
            .or_else(|_| PyLayout::read(&key.0, key.1.clone(), None))?;
        if texts.len() > 4096 {
            texts.clear();
        }
        texts.insert(key, read.clone());
        return Ok(Side::Given(read));
    }
    let unbound = value.cast::<PyStickLayout>().is_ok_and(|s| s.get().0.host().is_none());
    let shape = if unbound { shape.map(<[i64]>::to_vec) } else { None };
    PyLayout::from_any(value, shape).map(Side::Given)
}

/// The array's own strides, over the memory from its first element on.
fn own<'py>(array: &Array<'_>) -> PyResult<Side<'py>> {
    let low = array.range().map_or(0, |(low, _)| low);
    let host = Strided::new(&array.shape, &array.stride, -low).map_err(|e| error::layout(&e))?;
    PyLayout::strided(&host).map(Side::Own)
}

/// Elements of an array from one layout to another, without a copy on the way.
///
/// `src` says how the elements lie in the memory of `array`, `dst` how they shall lie in the result:
/// each a `Layout`, a `SpyreTensorLayout` or a text. Without `src` the array's own shape and strides
/// count; without `dst` those of `out`, or row-major order.
///
/// The result is `out`, or a new array of the same library: of the logical shape where `dst` is
/// row-major, of `device_size` for a device layout, flat memory otherwise. Elements become those of
/// `out`'s dtype.
///
/// Every byte of the result is written: where `dst` puts no element (padding, gaps between elements,
/// what lies in front of the first and behind the last) it holds `fill`, a number, "zero" (as is
/// usual), "max" or "min". With `out`, "leave" keeps what is there. An `out` without `dst` is written
/// at its own elements alone, as what lies between them is not its own.
///
/// Tensors of PyTorch are read as their elements are, also lazy conjugates and negatives; those whose
/// memory does not hold their elements are refused. A result has no gradient.
///
/// The GIL is released; `threads` bounds the threads of large moves.
#[pyfunction]
#[pyo3(signature = (array, src=None, dst=None, out=None, *, fill=None, threads=None))]
pub(crate) fn relayout<'py>(
    py: Python<'py>,
    array: &Bound<'py, PyAny>,
    src: Option<&Bound<'py, PyAny>>,
    dst: Option<&Bound<'py, PyAny>>,
    out: Option<&Bound<'py, PyAny>>,
    fill: Option<&Bound<'py, PyAny>>,
    threads: Option<usize>,
) -> PyResult<Bound<'py, PyAny>> {
    let from = Array::of(array, Use::Read)?;
    let source = match src {
        None => own(&from)?,
        Some(value) => {
            if !from.is_contiguous() {
                return Err(PyValueError::new_err(
                    "`src` describes the memory of an array without gaps, and this one has some: \
                     leave `src` out, or make the array contiguous",
                ));
            }
            given(value, Some(&from.shape))?
        }
    };
    let shape = &source.get().shape;
    let target = dst.map(|value| given(value, Some(shape))).transpose()?;
    let choice = padding(fill)?;
    if out.is_none() && choice == Padding::Leave {
        return Err(PyValueError::new_err(
            "fill=\"leave\" keeps what `out` holds, and without `out` there is nothing to keep: give \
             `out`, or a value to fill with",
        ));
    }
    let (result, to) = match out {
        Some(out) => (out.clone(), Array::of(out, Use::Written)?),
        None => {
            let made = fresh(py, array, &from, target.as_ref().map(Side::get), shape)?;
            let to = Array::of(&made, Use::Written)?;
            (made, to)
        }
    };
    if to.read_only {
        return Err(PyValueError::new_err("`out` is read-only"));
    }
    // What lies between the elements of a view of the caller's belongs to others.
    let whole = out.is_none() || target.is_some();
    let target = match target {
        None => own(&to)?,
        Some(_) if !to.is_contiguous() => {
            return Err(PyValueError::new_err(
                "`dst` describes the memory of an array without gaps, and `out` has some: leave \
                 `dst` out, or make `out` contiguous",
            ));
        }
        Some(given) => given,
    };
    if target.get().shape.iter().product::<i64>() != shape.iter().product::<i64>() {
        return Err(PyValueError::new_err(format!(
            "a move keeps the elements: the source has the shape {shape:?}, the destination {:?}",
            target.get().shape
        )));
    }
    let element = if whole { choice.element(to.dtype).map_err(|e| wrong(&e))? } else { None };
    let dtypes = Dtypes::of(from.dtype, to.dtype).map_err(|e| error::moved(&e))?;
    let fills = match element {
        None => Fill::Leave,
        // An `out` that is too short for the padding is refused by the mover.
        Some(_) => Fill::Rest { len: to.len().max(span(target.layout())?) },
    };
    let mover = PLANS
        .mover(source.layout(), target.layout(), shape, dtypes, fills)
        .map_err(|e| error::moved(&e))?;
    let ((read, read_bytes), (write, write_bytes)) = (from.memory(), to.memory());
    let overlap = (read as usize) < write as usize + write_bytes
        && (write as usize) < read as usize + read_bytes;
    if overlap && read_bytes > 0 && write_bytes > 0 {
        return Err(PyValueError::new_err("`out` shares memory with the array"));
    }
    // SAFETY: both are the memory of live arrays, from their first byte to their last, apart from
    // each other as was just checked; their owners live until the end of this function.
    let (read, write) = unsafe {
        (
            std::slice::from_raw_parts(
                if read_bytes == 0 { std::ptr::dangling() } else { read.cast_const() },
                read_bytes,
            ),
            std::slice::from_raw_parts_mut(
                if write_bytes == 0 { std::ptr::dangling_mut() } else { write },
                write_bytes,
            ),
        )
    };
    if out.is_none() {
        // Fresh memory of another library; numpy's and ours ask for themselves.
        zellige_host::prefer_huge_pages(write.as_mut_ptr(), write.len());
    }
    let small = read_bytes + write_bytes < 1 << 16;
    let threads = match threads {
        Some(n) => n.max(1),
        None if small => 1,
        None => zellige_host::cores(),
    };
    let element = element.as_ref().map(|e| e.bytes.as_slice());
    let mut run = || mover.run(read, write, element, threads);
    // Releasing the lock costs more than a small move.
    let moved = if small { run() } else { py.detach(run) };
    moved.map_err(|e| error::moved(&e))?;
    if out.is_some() {
        written(&result)?;
    }
    Ok(result)
}

fn wrong(e: &dyn std::fmt::Display) -> PyErr {
    PyValueError::new_err(e.to_string())
}

/// Elements that the memory of a layout takes, padding included.
fn span(layout: &Layout) -> PyResult<i64> {
    layout.padded().span(layout.memory_axis()).map_err(|e| error::layout(&e))
}

/// What is written where no element is.
fn padding(fill: Option<&Bound<'_, PyAny>>) -> PyResult<Padding> {
    let Some(fill) = fill else { return Ok(Padding::Zero) };
    if let Ok(text) = fill.extract::<String>() {
        Padding::parse(&text).map_err(|e| wrong(&e))
    } else if let Ok(n) = fill.extract::<i64>() {
        Ok(Padding::Integer(n))
    } else if let Ok(x) = fill.extract::<f64>() {
        Ok(Padding::Real(x))
    } else {
        Err(PyTypeError::new_err("`fill` is a number or a word"))
    }
}

/// A new array of the library that the source is of.
fn fresh<'py>(
    py: Python<'py>,
    array: &Bound<'py, PyAny>,
    from: &Array<'_>,
    dst: Option<&PyLayout>,
    shape: &[i64],
) -> PyResult<Bound<'py, PyAny>> {
    let shape: Vec<i64> = match dst {
        None => shape.to_vec(),
        Some(layout) => match (layout.parsed.stick(), layout.parsed.host()) {
            (Some(stick), _) => stick.storage_size().to_vec(),
            (_, Some(host)) if host.is_row_major() && host.offset() == 0 => host.size().to_vec(),
            _ => vec![span(&layout.layout)?],
        },
    };
    let shape = PyTuple::new(py, shape)?;
    if let Ok(method) = array.getattr("new_empty") {
        return method.call1((shape,));
    }
    let numpy = py.import("numpy")?;
    let read = numpy.getattr("dtype")?;
    let dtype = match array.getattr("dtype").and_then(|dtype| read.call1((dtype,))) {
        Ok(dtype) => dtype,
        Err(_) => read.call1((from.dtype.name(),))?,
    };
    memory::empty(&numpy, &shape, &dtype)
}
