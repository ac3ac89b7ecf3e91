//! The threads that moves and the simulated card are shared with.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use zellige_host::crew::openmp_use;
use zellige_movement::ThreadPool;

/// Which threads large moves and the simulated card use, as a dictionary.
///
/// `"pool"` is "auto", "own" or "openmp" (see `set_thread_pool`). `"openmp"` is the file of the OpenMP runtime that a
/// library of this process has loaded, such as PyTorch's, or None; `"openmp_threads"` the number of threads that it
/// would use for a call of this thread, and `"openmp_calls"` how many calls ran on them so far.
#[pyfunction]
pub(crate) fn thread_pool(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let used = openmp_use();
    let answer = PyDict::new(py);
    answer.set_item("pool", ThreadPool::of_process().name())?;
    answer.set_item("openmp", used.as_ref().map(|used| &used.path))?;
    answer.set_item("openmp_threads", used.as_ref().map_or(0, |used| used.threads))?;
    answer.set_item("openmp_calls", used.as_ref().map_or(0, |used| used.calls))?;
    Ok(answer)
}

/// Has this process share large moves and the simulated card with these threads; returns the name of those until then.
///
/// "auto" is the usual one: the threads of the OpenMP runtime that PyTorch or another library has loaded, while they
/// are awake after an operation of that library, and threads of zellige otherwise. Either way `torch.set_num_threads`
/// and `OMP_NUM_THREADS` bound their number. "own" is threads of zellige alone, "openmp" those of the runtime, awake
/// or not. The environment variable `ZELLIGE_POOL` names the pool at the start. Results do not depend on it.
#[pyfunction]
pub(crate) fn set_thread_pool(name: &str) -> PyResult<&'static str> {
    let pool = ThreadPool::parse(name).map_err(PyValueError::new_err)?;
    Ok(pool.use_in_process().name())
}
