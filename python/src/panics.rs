//! Panics of the engine, as an exception of ours.
//!
//! A panic is a defect of the engine, not the end of the caller's process. PyO3 catches it at every
//! door (functions, methods, properties, also those that are still to be written) and raises one
//! class for all of them, which derives from `BaseException`, so that `except Exception` lets it pass.
//! That class gets our name, the base `RuntimeError` and a message that asks for a report.

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::panic::PanicException;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::sync::{Mutex, PoisonError};

/// The last panics: their messages and places.
static LAST_PANICS: Mutex<VecDeque<(String, String)>> = Mutex::new(VecDeque::new());
/// How many of them: threads may panic at the same time.
const MAX_KEPT_PANICS: usize = 16;

const DOC: &str =
    "A defect of zellige: the engine panicked. Calls after it work; please report it.";

/// What every message begins with, so that one that passes two doors is not wrapped twice.
const OPENING: &str = "internal error: ";

/// Makes the class `InternalError`, and remembers where panics happen.
pub(crate) fn register_exception(m: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = m.py();
    let class = py.get_type::<PanicException>();
    class.setattr("__bases__", (py.get_type::<PyRuntimeError>(),))?;
    class.setattr("__name__", "InternalError")?;
    class.setattr("__qualname__", "InternalError")?;
    class.setattr("__module__", "zellige")?;
    class.setattr("__doc__", DOC)?;
    let names = PyDict::new(py);
    names.set_item("describe", wrap_pyfunction!(describe, m)?)?;
    let init = c"lambda self, *args: RuntimeError.__init__(self, describe(*args))";
    class.setattr("__init__", py.eval(init, Some(&names), None)?)?;
    m.add("InternalError", class)?;
    m.add_function(wrap_pyfunction!(_panic_for_tests, m)?)?;
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        remember_panic(info);
        // The exception has the message and the place; a backtrace is printed only where the variable asks for it.
        if std::env::var_os("RUST_BACKTRACE").is_some() {
            before(info);
        }
    }));
    Ok(())
}

fn remember_panic(info: &PanicHookInfo<'_>) {
    // The text that PyO3 gives a panic without a message.
    let text = info.payload_as_str().unwrap_or("panic from Rust code").to_owned();
    let place = info.location().map(ToString::to_string).unwrap_or_default();
    let mut last = LAST_PANICS.lock().unwrap_or_else(PoisonError::into_inner);
    if last.len() == MAX_KEPT_PANICS {
        last.pop_front();
    }
    last.push_back((text, place));
}

/// The message of a panic.
#[pyfunction]
#[pyo3(signature = (text=String::new()))]
fn describe(text: String) -> String {
    if text.starts_with(OPENING) {
        return text;
    }
    let last = LAST_PANICS.lock().unwrap_or_else(PoisonError::into_inner);
    let place = last.iter().rev().find(|(said, _)| *said == text).map(|(_, place)| place.as_str());
    let place = place.map(|p| format!(" ({p})")).unwrap_or_default();
    let version = env!("CARGO_PKG_VERSION");
    format!(
        "{OPENING}{text}{place}; this is a defect of zellige {version}: please report it, with this \
         message and the call that led to it"
    )
}

/// The exception of a panic that was caught on a thread of the engine.
pub(crate) fn internal_error(text: &str) -> PyErr {
    PanicException::new_err((text.to_owned(),))
}

/// Runs a callback of a foreign library. A panic that unwinds into such a library would end the process;
/// it is written to standard error instead, because no Python frame is there to raise it in.
pub(crate) fn contain_panics(work: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(work)) {
        let text = payload.downcast_ref::<String>().cloned();
        let text = text.or_else(|| payload.downcast_ref::<&str>().map(|s| (*s).to_owned()));
        eprintln!("zellige: {}", describe(text.unwrap_or_default()));
    }
}

/// Panics, for the tests: at the door, with every lock of this module held, on a thread of the
/// engine, in work of the device, or where a library calls back.
#[pyfunction]
fn _panic_for_tests(py: Python<'_>, place: &str) -> PyResult<()> {
    fn panic_at(place: &str) {
        panic!("a panic {place}, asked for by a test")
    }
    match place {
        "at the door" => panic_at(place),
        "with locks" => {
            crate::relayout::with_locks(|| crate::torch::with_locks(|| panic_at(place)));
        }
        "on a thread" => py.detach(|| {
            zellige_host::crew::share_pieces(4, 4, &|piece| {
                if piece > 0 {
                    panic_at(place);
                }
            });
        }),
        "in a callback" => contain_panics(|| panic_at(place)),
        other => {
            return Err(PyValueError::new_err(format!(
                "no panic {other:?}; there are \"at the door\", \"with locks\", \"on a thread\", \
                 \"in a callback\""
            )));
        }
    }
    Ok(())
}
