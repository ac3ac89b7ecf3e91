//! Refusals of the crates as Python exceptions, message for message.

use crate::panics;
use pyo3::create_exception;
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyType;
use zellige_compile::CompileError;
use zellige_device::DeviceError;
use zellige_movement::MoveError;
use zellige_notation::Diagnostic;
use zellige_notation::convert::ConversionRefusal;
use zellige_stick::StickError;

create_exception!(
    zellige,
    LayoutError,
    PyValueError,
    "A layout, or a request about one, that is refused."
);
create_exception!(zellige, DeviceFault, PyRuntimeError, "What the simulated device refuses.");

/// A refusal of the algebra.
pub(crate) fn layout_error<E: Clone + Into<StickError>>(e: &E) -> PyErr {
    let e: StickError = e.clone().into();
    match e {
        StickError::UnknownDtype(_) | StickError::UnsupportedDtype { .. } => {
            PyTypeError::new_err(e.to_string())
        }
        _ => LayoutError::new_err(e.to_string()),
    }
}

/// A refusal of the device.
pub(crate) fn device_error(e: &DeviceError) -> PyErr {
    match e {
        DeviceError::Op(zellige_op::OpError::HostDtype { .. }) | DeviceError::Unstored { .. } => {
            PyTypeError::new_err(e.to_string())
        }
        DeviceError::Layout(inner) | DeviceError::Op(zellige_op::OpError::Layout(inner)) => {
            layout_error(inner)
        }
        DeviceError::Panicked { message } => panics::internal_error(message),
        DeviceError::OutOfMemory { .. }
        | DeviceError::TooLarge { .. }
        | DeviceError::HostMemory { .. } => out_of_memory(e.to_string()),
        _ => DeviceFault::new_err(e.to_string()),
    }
}

/// A refusal of the compiler. Where it is about one operation, the attribute `refused_result` of the exception is the
/// name of that operation's first result, so that Python can run the operation alone without reading the message.
pub(crate) fn compile_error(e: &CompileError) -> PyErr {
    let error = match e {
        // A number of cores or a place that no card has is a mistake of the caller, whatever the operation.
        CompileError::HintCores { .. } | CompileError::NotInScratchpads { .. } => {
            return PyValueError::new_err(e.to_string());
        }
        _ => DeviceFault::new_err(e.to_string()),
    };
    let CompileError::Infeasible { result, .. } = e else { return error };
    let marked = Python::attach(|py| error.value(py).setattr(REFUSED_RESULT, result.as_str()));
    // An attribute that cannot be set is an error of its own, and more urgent than the refusal.
    marked.err().unwrap_or(error)
}

/// Gives the exception class the value of `refused_result` that refusals have which are about no single operation.
pub(crate) fn add_refused_result(py: Python<'_>) -> PyResult<()> {
    py.get_type::<DeviceFault>().setattr(REFUSED_RESULT, py.None())
}

/// The attribute of the exception that names the refused operation by its first result.
const REFUSED_RESULT: &str = "refused_result";

/// What the device has no room for: PyTorch's exception, which programs catch to try again with less.
fn out_of_memory(message: String) -> PyErr {
    Python::attach(|py| {
        // A program without PyTorch has no such exception, and need not import it for one.
        let modules = py.import("sys")?.getattr("modules")?;
        let kind = modules.get_item("torch")?.getattr("OutOfMemoryError")?;
        PyResult::Ok(PyErr::from_type(kind.cast_into::<PyType>()?, message.clone()))
    })
    .unwrap_or_else(|_| DeviceFault::new_err(message))
}

/// A text that cannot be read, with its place underlined.
pub(crate) fn diagnostic_error(e: &Diagnostic, text: &str) -> PyErr {
    LayoutError::new_err(e.render(text, false))
}

/// A conversion that has no answer.
pub(crate) fn refusal_error(e: &ConversionRefusal) -> PyErr {
    match e {
        ConversionRefusal::Error(e) => layout_error(e),
        ConversionRefusal::NotExpressible(no) => LayoutError::new_err(match no.witness {
            Some(at) => format!("not expressible: {} (element {at})", no.reason),
            None => format!("not expressible: {}", no.reason),
        }),
    }
}

/// A move that is refused.
pub(crate) fn move_error(e: &MoveError) -> PyErr {
    LayoutError::new_err(e.to_string())
}
