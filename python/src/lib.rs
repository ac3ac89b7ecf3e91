//! The native half of the Python package `zellige`.
//!
//! Thin: arguments come in as Python objects, are checked and handed to the crates; results go back.
//! [`layout`], [`stick`], [`relayout_on_device`], [`reshard`] and [`draw`] need numpy at most; [`torch`] is the device
//! "spyre", and is only touched once PyTorch is there.

#![allow(
    clippy::needless_pass_by_value,
    clippy::type_complexity,
    clippy::upper_case_acronyms,
    reason = "signatures and names are those that Python sees"
)]

mod array;
mod convert;
mod cuda;
mod dlpack;
mod draw;
mod error;
mod known_calls;
mod ktir;
mod layout;
mod memory;
mod operators;
mod panics;
mod plain;
mod program;
mod relayout;
mod reshard;
mod stick;
mod thread_pool;
mod torch;

use pyo3::exceptions::PyRuntimeWarning;
use pyo3::prelude::*;
use zellige_float::Isa;
use zellige_movement::ThreadPool;

/// The instruction set that moves and the simulated device use: "avx512", "avx2", "neon" or "baseline". The
/// environment variable `ZELLIGE_ISA` lowers it; results have the same bits on all.
#[pyfunction]
fn instruction_set() -> &'static str {
    Isa::process_isa().name()
}

/// Counts memory in use, for the limits of the program and of requests, as the binary `zellige` does.
#[global_allocator]
static ALLOCATOR: zellige_guard::CountingAllocator = zellige_guard::CountingAllocator;

/// Layouts, moves, and the simulated device, in Rust.
#[pymodule]
fn _native(m: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = m.py();
    m.add("__version__", env!("CARGO_PKG_VERSION"))?;
    if let Err(why) = Isa::requested_by_variable() {
        // The package works all the same, so this is no error.
        let text = format!("{why}; {} is used", Isa::process_isa()).replace('\0', " ");
        let text = std::ffi::CString::new(text)?;
        PyErr::warn(py, &py.get_type::<PyRuntimeWarning>(), &text, 1)?;
    }
    if let Err(why) = ThreadPool::requested_by_variable() {
        let text = format!("{why}; {} is used", ThreadPool::of_process().name()).replace('\0', " ");
        let text = std::ffi::CString::new(text)?;
        PyErr::warn(py, &py.get_type::<PyRuntimeWarning>(), &text, 1)?;
    }
    m.add_function(wrap_pyfunction!(instruction_set, m)?)?;
    m.add_function(wrap_pyfunction!(thread_pool::thread_pool, m)?)?;
    m.add_function(wrap_pyfunction!(thread_pool::set_thread_pool, m)?)?;
    m.add_class::<memory::Memory>()?;
    m.add("LayoutError", py.get_type::<error::LayoutError>())?;
    m.add("DeviceError", py.get_type::<error::DeviceFault>())?;
    error::add_refused_result(py)?;
    panics::register_exception(m)?;
    m.add_class::<ktir::PyKtirModule>()?;
    m.add_class::<layout::PyLayout>()?;
    m.add_class::<stick::PyStickLayout>()?;
    m.add_class::<stick::DataFormats>()?;
    m.add_class::<stick::ElementArrangement>()?;
    m.add_function(wrap_pyfunction!(stick::box_access, m)?)?;
    m.add_function(wrap_pyfunction!(relayout::relayout, m)?)?;
    m.add_function(wrap_pyfunction!(relayout::relayout_shape, m)?)?;
    m.add_class::<reshard::ReshardPlan>()?;
    m.add_class::<reshard::ReshardProcess>()?;
    m.add_class::<reshard::ReshardRound>()?;
    m.add_function(wrap_pyfunction!(reshard::slots_say, m)?)?;
    m.add_function(wrap_pyfunction!(reshard::is_new, m)?)?;
    m.add_function(wrap_pyfunction!(cuda::cuda_program, m)?)?;
    m.add_function(wrap_pyfunction!(cuda::cuda_compile, m)?)?;
    m.add_function(wrap_pyfunction!(cuda::cuda_device, m)?)?;
    m.add_function(wrap_pyfunction!(draw::explain, m)?)?;
    m.add_function(wrap_pyfunction!(draw::draw, m)?)?;
    m.add_function(wrap_pyfunction!(draw::ask, m)?)?;
    m.add_function(wrap_pyfunction!(program::run_program, m)?)?;
    torch::register_torch(m)
}
