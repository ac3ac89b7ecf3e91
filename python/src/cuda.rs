//! Moves of arrays on a CUDA device.
//!
//! A call of a move that was made before must cost the host less than the launch itself, so it is found by the arguments of
//! the call (`known_calls.rs`), before any layout is read or compared. What is found has the kernels for every
//! alignment that came up.

use crate::array::LibraryArray;
use crate::convert;
use crate::error;
use crate::known_calls::{HeldLayouts, KnownCalls, call_key};
use crate::layout::PyLayout;
use crate::plain::{ArrayUse, mark_written};
use crate::relayout::{
    RequestedRelayout, SettledRelayout, check_disjoint, check_writable,
    new_library_array as new_array, read_padding,
};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};
use smallvec::SmallVec;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex, Once, PoisonError};
use zellige_cuda::driver::{self, CudaDevice, DriverError, LoadedKernels};
use zellige_cuda::{CudaError, CudaProgram, Gpu, LaunchAlignment, plan_moves};
use zellige_movement::{MoveDtypes, MoveError, MovePlan, PaddingFill, PaddingValue};

/// Moves that were made before.
static KNOWN_MOVES: LazyLock<KnownCalls<PreparedCudaMove>> = LazyLock::new(KnownCalls::new);

/// A move that was planned and checked.
struct PreparedCudaMove {
    device: &'static CudaDevice,
    plans: Vec<MovePlan>,
    dtypes: MoveDtypes,
    element: Option<Vec<u8>>,
    /// The shape of a new result.
    shape: Py<PyTuple>,
    /// For every alignment that came up, the kernels of every plan.
    kernels: Mutex<Vec<(LaunchAlignment, Vec<&'static LoadedKernels>)>>,
    /// Layouts whose addresses are part of the key: nothing else gets these addresses while they are held.
    _held: HeldLayouts,
}

/// Moves the elements of an array on a CUDA device, on a stream of its library, without waiting.
pub(crate) fn relayout_on_device<'py>(
    py: Python<'py>,
    array: &Bound<'py, PyAny>,
    from: &LibraryArray<'py>,
    layouts: [Option<&Bound<'py, PyAny>>; 2],
    out: Option<&Bound<'py, PyAny>>,
    choice: PaddingValue,
) -> PyResult<Bound<'py, PyAny>> {
    let given =
        out.map(|out| LibraryArray::from_object(out, ArrayUse::Written, out)).transpose()?;
    let (key, held) = call_key(from, layouts, given.as_ref(), choice)?;
    let (prepared, result, to) = match (KNOWN_MOVES.find_call(&key), out, given) {
        (Some(prepared), Some(out), Some(to)) => {
            check_writable(from, &to)?;
            (prepared, out.clone(), to)
        }
        (Some(prepared), ..) => {
            let made = new_array(py, array, from, prepared.shape.bind(py))?;
            let to = LibraryArray::from_plain_object(&made, &made)?;
            (prepared, made, to)
        }
        (None, ..) => {
            let asked =
                RequestedRelayout::new(from, layouts[0], layouts[1], choice, out.is_some())?;
            let (result, to) = asked.result_array(py, array, from, out)?;
            let settled = asked.settle_move(from, &to, out.is_some())?;
            let prepared = Arc::new(PreparedCudaMove::new(py, &settled, from, &to, held)?);
            KNOWN_MOVES.keep_call(key, &prepared);
            (prepared, result, to)
        }
    };
    let stream = match to.library_stream() {
        Some(stream) => stream,
        None => stream_of(&result, from.device.index)?,
    };
    prepared.launch_move(py, from, &to, out.is_some(), stream)?;
    if out.is_some() {
        mark_written(&result)?;
    }
    Ok(result)
}

impl PreparedCudaMove {
    fn new(
        py: Python<'_>,
        settled: &SettledRelayout<'_>,
        from: &LibraryArray<'_>,
        to: &LibraryArray<'_>,
        held: HeldLayouts,
    ) -> PyResult<PreparedCudaMove> {
        let device = CudaDevice::open_cached(from.device.index).map_err(|e| driver_error(&e))?;
        let plans = plan_moves(
            settled.source_layout(),
            settled.target_layout(),
            settled.shape(),
            settled.fills,
        )
        .map_err(|e| error::move_error(&e))?;
        let dtypes = settled.dtypes;
        for plan in &plans {
            for (what, len, width, found) in [
                ("source", plan.src_len(), dtypes.src_bytes(), from.memory_range().1),
                ("destination", plan.dst_len(), dtypes.dst_bytes(), to.memory_range().1),
            ] {
                let needed = usize::try_from(len).ok().and_then(|n| n.checked_mul(width));
                let needed = needed.ok_or_else(|| error::move_error(&MoveError::TooLarge))?;
                if found < needed {
                    return Err(error::move_error(&MoveError::Short { what, needed, found }));
                }
            }
        }
        Ok(PreparedCudaMove {
            device,
            plans,
            dtypes,
            element: settled.element.as_ref().map(|e| e.bytes.clone()),
            shape: PyTuple::new(py, &to.shape)?.unbind(),
            kernels: Mutex::default(),
            _held: held,
        })
    }

    fn launch_move(
        &self,
        py: Python<'_>,
        from: &LibraryArray<'_>,
        to: &LibraryArray<'_>,
        given: bool,
        stream: u64,
    ) -> PyResult<()> {
        let (read, write) = (from.memory_range(), to.memory_range());
        check_disjoint(read, write)?;
        // What was just made needs no look at the driver's list.
        for (what, (address, bytes), ask) in [("array", read, true), ("`out`", write, given)] {
            if ask && bytes > 0 && !self.device.knows_address(address as u64) {
                return Err(PyValueError::new_err(format!(
                    "the driver knows no memory of {} at the address of the {what}: it was freed, or \
                     belongs to another device",
                    from.place_text()
                )));
            }
        }
        let align = LaunchAlignment::of_addresses(read.0 as u64, write.0 as u64);
        for kernels in self.load_kernels(py, align)? {
            // SAFETY: the stream is the one that the library puts its own work on; both memories belong to arrays
            // whose library keeps them until work of this stream is done, hold what the plan touches, which was
            // checked when it was prepared, and are apart.
            unsafe { kernels.launch_all(read.0 as u64, write.0 as u64, stream as *mut _) }
                .map_err(|e| driver_error(&e))?;
        }
        Ok(())
    }

    fn load_kernels(
        &self,
        py: Python<'_>,
        align: LaunchAlignment,
    ) -> PyResult<SmallVec<[&'static LoadedKernels; 2]>> {
        let lock = || self.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, found)) = lock().iter().find(|(known, _)| *known == align) {
            return Ok(found.iter().copied().collect());
        }
        find_compiler(py)?;
        let gpu = gpu_figures(self.device);
        let build = || -> Result<Vec<&'static LoadedKernels>, KernelError> {
            let mut all = Vec::new();
            for plan in &self.plans {
                let program =
                    CudaProgram::new(plan, self.dtypes, self.element.as_deref(), align, &gpu)?;
                // Without a launch there is nothing to compile.
                if !program.launches().is_empty() {
                    all.push(self.device.load_kernels(&program)?);
                }
            }
            Ok(all)
        };
        // The compiler takes some hundredths of a second.
        let built = py.detach(build)?;
        let list = built.iter().copied().collect();
        lock().push((align, built));
        Ok(list)
    }
}

/// Why there are no kernels.
enum KernelError {
    Plan(CudaError),
    Driver(DriverError),
}

impl From<CudaError> for KernelError {
    fn from(e: CudaError) -> KernelError {
        KernelError::Plan(e)
    }
}

impl From<DriverError> for KernelError {
    fn from(e: DriverError) -> KernelError {
        KernelError::Driver(e)
    }
}

impl From<KernelError> for PyErr {
    fn from(e: KernelError) -> PyErr {
        match e {
            KernelError::Plan(CudaError::Move(e)) => error::move_error(&e),
            KernelError::Plan(e) => error::LayoutError::new_err(e.to_string()),
            KernelError::Driver(e) => driver_error(&e),
        }
    }
}

fn driver_error(e: &DriverError) -> PyErr {
    PyRuntimeError::new_err(e.to_string())
}

/// The figures by which kernels are chosen, of a device of this machine.
fn gpu_figures(device: &CudaDevice) -> Gpu {
    let sms = u32::try_from(device.multiprocessor_count()).unwrap_or(0);
    let most = i64::from(device.max_shared_bytes());
    let (shared, skewed_shared) = (Gpu::H200.shared.min(most), Gpu::H200.skewed_shared.min(most));
    Gpu { sms, shared, skewed_shared, ..Gpu::H200 }
}

/// Tells the driver's side where Python packages have NVRTC, once.
fn find_compiler(py: Python<'_>) -> PyResult<()> {
    static ONCE: Once = Once::new();
    if ONCE.is_completed() {
        return Ok(());
    }
    let found = py.import("zellige._nvrtc")?.getattr("folders")?.call0()?;
    let folders: Vec<PathBuf> = found.extract()?;
    ONCE.call_once(|| driver::add_search_folders(folders));
    Ok(())
}

/// The stream that the library of an object puts its work on now: a handle of the driver.
pub(crate) fn stream_of(object: &Bound<'_, PyAny>, ordinal: i32) -> PyResult<u64> {
    let py = object.py();
    let home = object.get_type().getattr(intern!(py, "__module__"))?.extract::<String>()?;
    match home.split('.').next() {
        Some("torch") => {
            let torch = py.import(intern!(py, "torch"))?.getattr(intern!(py, "_C"))?;
            torch.call_method1(intern!(py, "_cuda_getCurrentRawStream"), (ordinal,))?.extract()
        }
        Some("cupy") => {
            let cuda = py.import(intern!(py, "cupy"))?.getattr(intern!(py, "cuda"))?;
            let stream = cuda.call_method0(intern!(py, "get_current_stream"))?;
            stream.getattr(intern!(py, "ptr"))?.extract()
        }
        // Libraries without streams of their own meet others on the default one.
        _ => Ok(0),
    }
}

/// A new array on the device of another.
pub(crate) fn new_device_array<'py>(
    array: &Bound<'py, PyAny>,
    shape: &Bound<'py, PyTuple>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = array.py();
    let class = array.get_type();
    if class.module()?.to_str()?.split('.').next() == Some("cupy") {
        let options = PyDict::new(py);
        options.set_item("dtype", array.getattr("dtype")?)?;
        return py.import("cupy")?.getattr("empty")?.call((shape,), Some(&options));
    }
    Err(PyTypeError::new_err(format!(
        "{} has no way to make an array that is written later: give `out`, such as a tensor of \
         PyTorch, which the library then reads by DLPack without a copy",
        class.name()?
    )))
}

/// The CUDA C++ of a move, and its launches (name, blocks, threads, bytes of shared memory), without a device.
///
/// `alignment` is what the two addresses are multiples of; kernels are chosen for an H200.
#[pyfunction]
#[pyo3(signature = (src, dst, shape, dtype, out_dtype=None, *, fill=None, alignment=(16, 16)))]
pub(crate) fn cuda_program(
    src: &Bound<'_, PyAny>,
    dst: &Bound<'_, PyAny>,
    shape: Vec<i64>,
    dtype: &Bound<'_, PyAny>,
    out_dtype: Option<&Bound<'_, PyAny>>,
    fill: Option<&Bound<'_, PyAny>>,
    alignment: (u64, u64),
) -> PyResult<Vec<(String, Vec<(String, u64, u32, u32)>)>> {
    let (source, target) = (
        PyLayout::from_any(src, Some(shape.clone()))?,
        PyLayout::from_any(dst, Some(shape.clone()))?,
    );
    let from = convert::parse_dtype(dtype)?;
    let to = out_dtype.map_or(Ok(from), convert::parse_dtype)?;
    let dtypes = MoveDtypes::between(from, to).map_err(|e| error::move_error(&e))?;
    let element = read_padding(fill)?.element_for_dtype(to);
    let element = element.map_err(|e| PyValueError::new_err(e.to_string()))?;
    let span = target.layout.padded_domain().axis_span(target.layout.memory_axis());
    let fills = match element {
        None => PaddingFill::Leave,
        Some(_) => PaddingFill::Rest { len: span.map_err(|e| error::layout_error(&e))? },
    };
    let align = LaunchAlignment::new(alignment.0, alignment.1).map_err(KernelError::from)?;
    let plans = plan_moves(&source.layout, &target.layout, &shape, fills)
        .map_err(|e| error::move_error(&e))?;
    let bytes = element.as_ref().map(|e| e.bytes.as_slice());
    let mut all = Vec::new();
    for plan in &plans {
        let program =
            CudaProgram::new(plan, dtypes, bytes, align, &Gpu::H200).map_err(KernelError::from)?;
        let launches = program.launches().iter();
        let launches = launches.map(|l| (l.name.clone(), l.grid, l.block, l.shared)).collect();
        all.push((program.source_text().to_owned(), launches));
    }
    Ok(all)
}

/// CUDA C++ compiled by NVRTC for an architecture (90 for sm_90): the machine code, and whether it was compiled
/// before. Needs no device.
#[pyfunction]
#[pyo3(signature = (source, arch=90))]
pub(crate) fn cuda_compile<'py>(
    py: Python<'py>,
    source: &str,
    arch: i32,
) -> PyResult<(Bound<'py, PyBytes>, bool)> {
    find_compiler(py)?;
    let image = py.detach(|| driver::compile_cached(source, arch)).map_err(|e| driver_error(&e))?;
    Ok((PyBytes::new(py, &image.bytes), image.cached))
}

/// The name, the architecture and the multiprocessors of a CUDA device; and the version of NVRTC.
#[pyfunction]
#[pyo3(signature = (ordinal=0))]
pub(crate) fn cuda_device(
    py: Python<'_>,
    ordinal: i32,
) -> PyResult<(String, i32, i32, (i32, i32))> {
    let device = CudaDevice::open_cached(ordinal).map_err(|e| driver_error(&e))?;
    find_compiler(py)?;
    let version = driver::Nvrtc::load_once().map_err(|e| driver_error(&e))?.version();
    Ok((device.name().to_owned(), device.arch(), device.multiprocessor_count(), version))
}
