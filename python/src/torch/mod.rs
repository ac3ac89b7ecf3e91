//! The device "spyre" of PyTorch: tensors whose memory the simulated card owns.
//!
//! A tensor of the device is a `torch.Tensor` over an address that nothing is mapped at
//! ([`store`]); behind the address stands a tensor of a [`zellige_device::Card`]. Views are PyTorch's
//! own: they share the address, and size, strides and offset say which part is meant. Kernels
//! ([`kernel`]) come in by the dispatcher, as Python callables; libtorch itself is reached by its
//! stable C functions ([`loaded_shim`]), found at run time.

mod aten;
mod cards;
mod compile_options;
mod device_functions;
mod exchange;
mod guard;
mod handle;
mod held;
mod input_form;
mod kernel;
mod mint;
mod number;
mod plan_cache;
mod program;
mod recording;
mod shim;
mod store;
mod stored;
mod stream;
mod strides;
mod transfer;
mod views;

use crate::error;
use pyo3::prelude::*;

/// Finds the functions of libtorch and reads the environment. Called once, after `import torch`.
#[pyfunction]
fn init(py: Python<'_>, libtorch: &str, fallback: Py<PyAny>) -> PyResult<()> {
    shim::load_shim(libtorch).map_err(error::DeviceFault::new_err)?;
    mint::load_minting(py)?;
    handle::load_dtypes(py)?;
    kernel::set_fallback(fallback);
    cards::configure_cards().map_err(|e| error::device_error(&e))
}

/// Runs something with the locks of the device held.
pub(crate) fn with_locks(work: impl FnOnce()) {
    store::with_lock(|| number::with_lock(work));
}

pub(crate) fn register_torch(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<kernel::Kernel>()?;
    m.add_class::<program::Program>()?;
    m.add_class::<program::Loaded>()?;
    m.add_class::<program::Weights>()?;
    m.add_class::<compile_options::CompileOptions>()?;
    m.add_class::<input_form::InputForm>()?;
    m.add_class::<input_form::RowMajorStorage>()?;
    m.add_class::<stream::StreamEvent>()?;
    m.add_class::<recording::Recorded>()?;
    for function in [
        wrap_pyfunction!(init, m)?,
        wrap_pyfunction!(kernel::kernels, m)?,
        wrap_pyfunction!(kernel::run, m)?,
        wrap_pyfunction!(kernel::run_into, m)?,
        wrap_pyfunction!(mint::empty, m)?,
        wrap_pyfunction!(mint::empty_strided, m)?,
        wrap_pyfunction!(mint::empty_with_layout, m)?,
        wrap_pyfunction!(transfer::copy, m)?,
        wrap_pyfunction!(transfer::clone_contiguous, m)?,
        wrap_pyfunction!(transfer::to_layout, m)?,
        wrap_pyfunction!(transfer::fill, m)?,
        wrap_pyfunction!(transfer::item, m)?,
        wrap_pyfunction!(transfer::resized, m)?,
        wrap_pyfunction!(store::tensor_layout, m)?,
        wrap_pyfunction!(store::read_write_stamps, m)?,
        wrap_pyfunction!(store::free_storage, m)?,
        wrap_pyfunction!(store::allocate_storage, m)?,
        wrap_pyfunction!(store::is_storage_freed, m)?,
        wrap_pyfunction!(stored::is_held, m)?,
        wrap_pyfunction!(stored::is_computed, m)?,
        wrap_pyfunction!(stored::is_wide, m)?,
        wrap_pyfunction!(stored::usual_layout, m)?,
        wrap_pyfunction!(stored::chosen_layout, m)?,
        wrap_pyfunction!(stored::weight_layout, m)?,
        wrap_pyfunction!(strides::choose_strides, m)?,
        wrap_pyfunction!(input_form::input_form, m)?,
        wrap_pyfunction!(input_form::row_major_storage, m)?,
        wrap_pyfunction!(input_form::same_memory_in, m)?,
        wrap_pyfunction!(device_functions::device_functions, m)?,
        wrap_pyfunction!(views::view, m)?,
        wrap_pyfunction!(views::as_strided, m)?,
        wrap_pyfunction!(views::unfold, m)?,
        wrap_pyfunction!(plan_cache::add_plan, m)?,
        wrap_pyfunction!(cards::device_count, m)?,
        wrap_pyfunction!(guard::current_device, m)?,
        wrap_pyfunction!(guard::set_current_device, m)?,
        wrap_pyfunction!(guard::install_guard, m)?,
        wrap_pyfunction!(cards::memory_stats, m)?,
        wrap_pyfunction!(cards::reset_peak, m)?,
        wrap_pyfunction!(cards::card_info, m)?,
        wrap_pyfunction!(cards::keeps, m)?,
        wrap_pyfunction!(recording::start_recording, m)?,
        wrap_pyfunction!(recording::stop_recording, m)?,
        wrap_pyfunction!(stream::set_stream, m)?,
        wrap_pyfunction!(stream::current_stream, m)?,
        wrap_pyfunction!(stream::synchronize, m)?,
        wrap_pyfunction!(stream::record_event, m)?,
        wrap_pyfunction!(stream::wait_event, m)?,
        wrap_pyfunction!(stream::trace, m)?,
        wrap_pyfunction!(exchange::stream_clock, m)?,
        wrap_pyfunction!(exchange::collective_cost, m)?,
        wrap_pyfunction!(exchange::account_collective, m)?,
        wrap_pyfunction!(exchange::stage, m)?,
    ] {
        m.add_function(function)?;
    }
    Ok(())
}
