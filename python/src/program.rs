//! The program `zellige`, inside of the package.

use pyo3::prelude::*;
use std::ffi::OsString;

/// Runs the program with these arguments, of which the first is its name, and returns its exit code. It is for a process of
/// its own: it may register handlers of signals.
#[pyfunction]
pub(crate) fn run_program(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| zellige_cli::run_program(arguments).number())
}
