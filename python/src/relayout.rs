//! `zellige.relayout`: elements from one layout to another.

use crate::array::LibraryArray;
use crate::cuda;
use crate::dlpack::DlDevice;
use crate::error;
use crate::known_calls::{HeldLayouts, KnownCalls, call_key};
use crate::layout::PyLayout;
use crate::memory;
use crate::plain::{ArrayUse, is_numpy_array, mark_written};
use crate::stick::PyStickLayout;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyString, PyTuple};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use zellige_layout::{Layout, StridedLayout};
use zellige_movement::{FillElement, MoveDtypes, Mover, PaddingFill, PaddingValue, PlanCache};

static PLANS: LazyLock<PlanCache> = LazyLock::new(|| PlanCache::new(1024));

/// Moves that were made before.
static KNOWN_MOVES: LazyLock<KnownCalls<PreparedMove>> = LazyLock::new(KnownCalls::new);

/// A move that was planned.
struct PreparedMove {
    mover: Arc<Mover>,
    element: Option<Vec<u8>>,
    /// The shape of a new result.
    shape: Py<PyTuple>,
    /// Layouts whose addresses are part of the key.
    _held: HeldLayouts,
}

/// One side of the move.
enum RelayoutSide<'py> {
    /// The strides of the array itself.
    Own(PyLayout),
    /// A layout of the array's memory.
    Object(Bound<'py, PyLayout>),
    Given(PyLayout),
}

impl RelayoutSide<'_> {
    fn py_layout(&self) -> &PyLayout {
        match self {
            RelayoutSide::Own(l) | RelayoutSide::Given(l) => l,
            RelayoutSide::Object(l) => l.get(),
        }
    }

    fn algebra_layout(&self) -> &Layout {
        &self.py_layout().layout
    }
}

/// Texts that were read before.
static PARSED_TEXTS: LazyLock<Mutex<HashMap<(String, Option<Vec<i64>>), PyLayout>>> =
    LazyLock::new(Mutex::default);

/// Runs something with the locks of this file held.
pub(crate) fn with_locks(work: impl FnOnce()) {
    let _texts = PARSED_TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    KNOWN_MOVES.with_lock(work);
}

fn read_given_side<'py>(
    value: &Bound<'py, PyAny>,
    shape: Option<&[i64]>,
) -> PyResult<RelayoutSide<'py>> {
    if let Ok(layout) = value.cast::<PyLayout>() {
        return Ok(RelayoutSide::Object(layout.clone()));
    }
    if value.is_instance_of::<PyString>() {
        let key = (value.extract::<String>()?, shape.map(<[i64]>::to_vec));
        let mut texts = PARSED_TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = texts.get(&key) {
            return Ok(RelayoutSide::Given(found.clone()));
        }
        let read = match PyLayout::from_whole(&key.0) {
            Some(whole) => whole?,
            // A text that contains its shape needs no other.
            None => PyLayout::read_text(&key.0, None, None)
                .or_else(|_| PyLayout::read_text(&key.0, key.1.clone(), None))?,
        };
        if texts.len() > 4096 {
            texts.clear();
        }
        texts.insert(key, read.clone());
        return Ok(RelayoutSide::Given(read));
    }
    let unbound = value.cast::<PyStickLayout>().is_ok_and(|s| s.get().0.host().is_none());
    let shape = if unbound { shape.map(<[i64]>::to_vec) } else { None };
    PyLayout::from_any(value, shape).map(RelayoutSide::Given)
}

/// The array's own strides, over the memory from its first element on.
fn own_strides_side<'py>(array: &LibraryArray<'_>) -> PyResult<RelayoutSide<'py>> {
    let low = array.offset_range().map_or(0, |(low, _)| low);
    let host = StridedLayout::new(&array.shape, &array.stride, -low)
        .map_err(|e| error::layout_error(&e))?;
    PyLayout::from_strided(&host).map(RelayoutSide::Own)
}

/// What a call asks for: both sides, as far as they are given.
pub(crate) struct RequestedRelayout<'py> {
    source: RelayoutSide<'py>,
    target: Option<RelayoutSide<'py>>,
    choice: PaddingValue,
}

/// A move with everything decided.
pub(crate) struct SettledRelayout<'py> {
    source: RelayoutSide<'py>,
    target: RelayoutSide<'py>,
    pub(crate) dtypes: MoveDtypes,
    pub(crate) fills: PaddingFill,
    pub(crate) element: Option<FillElement>,
}

impl SettledRelayout<'_> {
    pub(crate) fn source_layout(&self) -> &Layout {
        self.source.algebra_layout()
    }

    pub(crate) fn target_layout(&self) -> &Layout {
        self.target.algebra_layout()
    }

    pub(crate) fn shape(&self) -> &[i64] {
        &self.source.py_layout().shape
    }
}

impl<'py> RequestedRelayout<'py> {
    pub(crate) fn new(
        from: &LibraryArray<'_>,
        src: Option<&Bound<'py, PyAny>>,
        dst: Option<&Bound<'py, PyAny>>,
        choice: PaddingValue,
        has_out: bool,
    ) -> PyResult<RequestedRelayout<'py>> {
        let source = match src {
            None => own_strides_side(from)?,
            Some(value) => {
                if !from.is_contiguous() {
                    return Err(PyValueError::new_err(
                        "`src` describes the memory of an array without gaps, and this one has some: \
                         leave `src` out, or make the array contiguous",
                    ));
                }
                read_given_side(value, Some(&from.shape))?
            }
        };
        let target =
            dst.map(|value| read_given_side(value, Some(&source.py_layout().shape))).transpose()?;
        if !has_out && choice == PaddingValue::Leave {
            return Err(PyValueError::new_err(
                "fill=\"leave\" keeps what `out` holds, and without `out` there is nothing to keep: \
                 give `out`, or a value to fill with",
            ));
        }
        Ok(RequestedRelayout { source, target, choice })
    }

    /// The array to write: `out`, or a new one.
    pub(crate) fn result_array(
        &self,
        py: Python<'py>,
        array: &Bound<'py, PyAny>,
        from: &LibraryArray<'_>,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyAny>, LibraryArray<'py>)> {
        let result = match out {
            Some(out) => out.clone(),
            None => {
                let target = self.target.as_ref().map(RelayoutSide::py_layout);
                let shape = new_array_shape(target, &self.source.py_layout().shape)?;
                new_library_array(py, array, from, &PyTuple::new(py, shape)?)?
            }
        };
        let to = LibraryArray::from_object(&result, ArrayUse::Written, &result)?;
        check_writable(from, &to)?;
        Ok((result, to))
    }

    pub(crate) fn settle_move(
        self,
        from: &LibraryArray<'_>,
        to: &LibraryArray<'_>,
        has_out: bool,
    ) -> PyResult<SettledRelayout<'py>> {
        let RequestedRelayout { source, target, choice } = self;
        // The bytes between the elements of the caller's view belong to other tensors.
        let whole = !has_out || target.is_some();
        let target = match target {
            None => own_strides_side(to)?,
            Some(_) if !to.is_contiguous() => {
                return Err(PyValueError::new_err(
                    "`dst` describes the memory of an array without gaps, and `out` has some: leave \
                     `dst` out, or make `out` contiguous",
                ));
            }
            Some(given) => given,
        };
        let shape = &source.py_layout().shape;
        if target.py_layout().shape.iter().product::<i64>() != shape.iter().product::<i64>() {
            return Err(PyValueError::new_err(format!(
                "a move keeps the elements: the source has the shape {shape:?}, the destination {:?}",
                target.py_layout().shape
            )));
        }
        let element = if whole {
            choice.element_for_dtype(to.dtype).map_err(|e| refuse_layout(&e))?
        } else {
            None
        };
        let dtypes =
            MoveDtypes::between(from.dtype, to.dtype).map_err(|e| error::move_error(&e))?;
        let fills = match element {
            None => PaddingFill::Leave,
            // An `out` that is too short for the padding is refused by the mover.
            Some(_) => {
                PaddingFill::Rest { len: to.len().max(memory_span(target.algebra_layout())?) }
            }
        };
        Ok(SettledRelayout { source, target, dtypes, fills, element })
    }
}

/// That the result may be written by a move from this array.
pub(crate) fn check_writable(from: &LibraryArray<'_>, to: &LibraryArray<'_>) -> PyResult<()> {
    if to.read_only {
        return Err(PyValueError::new_err("`out` is read-only"));
    }
    if to.device != from.device {
        return Err(PyValueError::new_err(format!(
            "the array is on {} and `out` on {}; a move stays in one memory",
            from.place_text(),
            to.place_text()
        )));
    }
    Ok(())
}

/// That two memories are apart.
pub(crate) fn check_disjoint(read: (*mut u8, usize), write: (*mut u8, usize)) -> PyResult<()> {
    let ((read, read_bytes), (write, write_bytes)) = (read, write);
    let overlap = (read as usize) < write as usize + write_bytes
        && (write as usize) < read as usize + read_bytes;
    if overlap && read_bytes > 0 && write_bytes > 0 {
        return Err(PyValueError::new_err("`out` shares memory with the array"));
    }
    Ok(())
}

/// Moves the elements of an array from one layout to another, without an intermediate copy.
///
/// `src` is the layout of the elements in the memory of `array`, `dst` their layout in the result:
/// each a `Layout`, a `SpyreTensorLayout` or a text. Without `src` the array's own shape and strides
/// count; without `dst` those of `out`, or row-major order.
///
/// The result is `out`, or a new array of the same library: of the logical shape where `dst` is
/// row-major, of `device_size` for a device layout, flat memory otherwise. Elements become those of
/// `out`'s dtype.
///
/// Every byte of the result is written: where `dst` puts no element (padding, gaps between elements,
/// the bytes before the first and after the last element) it holds `fill`, a number, "zero" (as is
/// usual), "max" or "min". With `out`, "leave" keeps what is there. An `out` without `dst` is written
/// at its own elements alone, because the bytes between them belong to other tensors.
///
/// Tensors of PyTorch are read as their elements are, also lazy conjugates and negatives; those whose
/// memory does not hold their elements are refused. A result has no gradient.
///
/// Arrays on a CUDA device move there, by a kernel for this pair of layouts, on the current stream of
/// the library of `out` (of `array` where there is none), and the call returns before it is done.
///
/// The GIL is released; `threads` bounds the threads of large moves on the CPU.
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
    let from = LibraryArray::from_object(array, ArrayUse::Read, out.unwrap_or(array))?;
    let choice = read_padding(fill)?;
    if from.device.kind == DlDevice::CUDA {
        return cuda::relayout_on_device(py, array, &from, [src, dst], out, choice);
    }
    let (prepared, result, to) = prepare_move(py, array, &from, [src, dst], out, choice)?;
    check_disjoint(from.memory_range(), to.memory_range())?;
    let ((read, read_bytes), (write, write_bytes)) = (from.memory_range(), to.memory_range());
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
        None => zellige_host::available_cores(),
    };
    let PreparedMove { mover, element, .. } = &*prepared;
    let mut run = || mover.run_on_slices(read, write, element.as_deref(), threads);
    // Releasing the lock costs more than a small move.
    let moved = if small { run() } else { py.detach(run) };
    moved.map_err(|e| error::move_error(&e))?;
    if out.is_some() {
        mark_written(&result)?;
    }
    Ok(result)
}

/// The move of a call on the CPU, with the array to write: found by the arguments, or planned.
fn prepare_move<'py>(
    py: Python<'py>,
    array: &Bound<'py, PyAny>,
    from: &LibraryArray<'py>,
    layouts: [Option<&Bound<'py, PyAny>>; 2],
    out: Option<&Bound<'py, PyAny>>,
    choice: PaddingValue,
) -> PyResult<(Arc<PreparedMove>, Bound<'py, PyAny>, LibraryArray<'py>)> {
    let given =
        out.map(|out| LibraryArray::from_object(out, ArrayUse::Written, out)).transpose()?;
    let (key, held) = call_key(from, layouts, given.as_ref(), choice)?;
    if let Some(prepared) = KNOWN_MOVES.find_call(&key) {
        return match (out, given) {
            (Some(out), Some(to)) => {
                check_writable(from, &to)?;
                Ok((prepared, out.clone(), to))
            }
            _ => {
                let made = new_library_array(py, array, from, prepared.shape.bind(py))?;
                let to = LibraryArray::from_plain_object(&made, &made)?;
                Ok((prepared, made, to))
            }
        };
    }
    let asked = RequestedRelayout::new(from, layouts[0], layouts[1], choice, out.is_some())?;
    let (result, to) = asked.result_array(py, array, from, out)?;
    let settled = asked.settle_move(from, &to, out.is_some())?;
    let mover = PLANS
        .plan_or_reuse(
            settled.source_layout(),
            settled.target_layout(),
            settled.shape(),
            settled.dtypes,
            settled.fills,
        )
        .map_err(|e| error::move_error(&e))?;
    let prepared = Arc::new(PreparedMove {
        mover,
        element: settled.element.map(|e| e.bytes),
        shape: PyTuple::new(py, &to.shape)?.unbind(),
        _held: held,
    });
    KNOWN_MOVES.keep_call(key, &prepared);
    Ok((prepared, result, to))
}

/// The shape of the new array that `relayout` makes of an array of this shape.
#[pyfunction]
#[pyo3(signature = (shape, src=None, dst=None))]
pub(crate) fn relayout_shape(
    shape: Vec<i64>,
    src: Option<&Bound<'_, PyAny>>,
    dst: Option<&Bound<'_, PyAny>>,
) -> PyResult<Vec<i64>> {
    let source = src.map(|value| read_given_side(value, Some(&shape))).transpose()?;
    let shape = source.as_ref().map_or(&shape, |s| &s.py_layout().shape);
    let target = dst.map(|value| read_given_side(value, Some(shape))).transpose()?;
    new_array_shape(target.as_ref().map(RelayoutSide::py_layout), shape)
}

fn refuse_layout(e: &dyn std::fmt::Display) -> PyErr {
    PyValueError::new_err(e.to_string())
}

/// Elements that the memory of a layout takes, padding included.
fn memory_span(layout: &Layout) -> PyResult<i64> {
    layout.padded_domain().axis_span(layout.memory_axis()).map_err(|e| error::layout_error(&e))
}

/// What is written where no element is.
pub(crate) fn read_padding(fill: Option<&Bound<'_, PyAny>>) -> PyResult<PaddingValue> {
    // The usual call gives none, and finds no reason to look for a word.
    let Some(fill) = fill else { return Ok(PaddingValue::Zero) };
    if let Ok(text) = fill.extract::<String>() {
        PaddingValue::parse(&text).map_err(|e| refuse_layout(&e))
    } else if let Ok(n) = fill.extract::<i64>() {
        Ok(PaddingValue::Integer(n))
    } else if let Ok(x) = fill.extract::<f64>() {
        Ok(PaddingValue::Real(x))
    } else {
        Err(PyTypeError::new_err("`fill` is a number or a word"))
    }
}

/// The shape of a new array for a tensor of this shape.
fn new_array_shape(dst: Option<&PyLayout>, shape: &[i64]) -> PyResult<Vec<i64>> {
    Ok(match dst {
        None => shape.to_vec(),
        Some(layout) => match (layout.parsed.stick_layout(), layout.parsed.host_layout()) {
            (Some(stick), _) => stick.storage_size().to_vec(),
            (_, Some(host)) if host.is_row_major() && host.offset() == 0 => host.size().to_vec(),
            _ => vec![memory_span(&layout.layout)?],
        },
    })
}

/// A new array of the library that the source is of.
pub(crate) fn new_library_array<'py>(
    py: Python<'py>,
    array: &Bound<'py, PyAny>,
    from: &LibraryArray<'_>,
    shape: &Bound<'py, PyTuple>,
) -> PyResult<Bound<'py, PyAny>> {
    if is_numpy_array(array) {
        // The element type of an array of numpy is the one of its result, and small results need no memory of ours.
        let elements = shape.iter().try_fold(from.element_width(), |bytes, extent| {
            bytes.checked_mul(extent.extract().ok()?)
        });
        if elements.is_some_and(|bytes| bytes < memory::MIN_OWNED_BYTES) {
            static EMPTY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
            let empty = EMPTY.get_or_try_init(py, || {
                Ok::<_, PyErr>(py.import("numpy")?.getattr(intern!(py, "empty"))?.unbind())
            })?;
            return empty.bind(py).call1((shape, array.getattr(intern!(py, "dtype"))?));
        }
    } else if let Ok(method) = array.getattr(intern!(py, "new_empty")) {
        return method.call1((shape,));
    }
    if from.device.kind == DlDevice::CUDA {
        return cuda::new_device_array(array, shape);
    }
    let numpy = py.import("numpy")?;
    let read = numpy.getattr("dtype")?;
    let dtype = match array.getattr("dtype").and_then(|dtype| read.call1((dtype,))) {
        Ok(dtype) => dtype,
        Err(_) => read.call1((from.dtype.name(),))?,
    };
    memory::empty_array(&numpy, shape, &dtype)
}
