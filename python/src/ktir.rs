//! Tile kernels: modules, and runs of them.

use crate::error::DeviceFault;
use pyo3::exceptions::{PyKeyError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyDict};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;
use zellige_ktir::{
    KtirArray, KtirElem, KtirModule, KtirPipeline, KtirRun, KtirRunError, KtirRunOutcome,
    KtirScalar, KtirStopFlag, text,
};
use zellige_machine::Hardware;
use zellige_notation::Diagnostic;

/// How often a running kernel looks whether the user wants it to stop.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);

/// A module of tile kernels.
#[pyclass(name = "KtirModule", module = "zellige._native", frozen)]
pub(crate) struct PyKtirModule {
    source: String,
    module: Arc<KtirModule>,
}

/// A number argument.
#[derive(FromPyObject)]
enum GivenScalar {
    Int(i64),
    Float(f64),
}

fn refuse_text(source: &str, d: &Diagnostic) -> PyErr {
    let (line, column) = text::find_line_and_column(source, &d.span);
    PyValueError::new_err(format!("{}\n at line {line}, column {column}", d.render(source, false)))
}

impl PyKtirModule {
    fn refuse_run(&self, e: &KtirRunError) -> PyErr {
        let kind = e.fault.kind();
        if kind == "bad_argument" {
            return PyTypeError::new_err(e.to_string());
        }
        if e.span.is_empty() {
            return DeviceFault::new_err(e.to_string());
        }
        let d = e.to_diagnostic();
        let (line, column) = text::find_line_and_column(&self.source, &d.span);
        let shown = d.render(&self.source, false);
        DeviceFault::new_err(format!("{shown}\n at line {line}, column {column}"))
    }
}

#[pymethods]
impl PyKtirModule {
    #[new]
    fn new(py: Python<'_>, source: String) -> PyResult<PyKtirModule> {
        let module = py.detach(|| text::parse(&source)).map_err(|d| refuse_text(&source, &d))?;
        Ok(PyKtirModule { source, module: Arc::new(module) })
    }

    /// The names of the functions.
    fn functions(&self) -> Vec<String> {
        self.module.functions.iter().map(|f| f.name().to_string()).collect()
    }

    /// The names and types of a function's arguments.
    fn arguments(&self, kernel: &str) -> PyResult<Vec<(String, String)>> {
        let f =
            self.module.function(kernel).ok_or_else(|| PyKeyError::new_err(kernel.to_string()))?;
        let arg = |v: &zellige_ktir::KtirValue| {
            (f.value_def(*v).name.clone(), f.value_type(*v).to_string())
        };
        Ok(f.args().iter().map(arg).collect())
    }

    /// The grid of a function.
    fn grid(&self, kernel: &str) -> PyResult<Vec<i64>> {
        let f =
            self.module.function(kernel).ok_or_else(|| PyKeyError::new_err(kernel.to_string()))?;
        Ok(f.grid().to_vec())
    }

    /// The shape and the element type of the arrays that views describe, by the names of arguments.
    fn sizes(&self, kernel: &str) -> Vec<(String, Vec<i64>, String)> {
        let all = self.module.argument_shapes(kernel);
        all.into_iter().map(|(name, (shape, elem))| (name, shape, elem.to_string())).collect()
    }

    /// The module in its standard form.
    fn print(&self) -> String {
        text::print_module(&self.module)
    }

    /// Runs a kernel: arrays are (name, element type, shape, bytes). Returns the bytes of every array and the report as
    /// JSON.
    #[allow(clippy::too_many_arguments, reason = "Python gives them by name")]
    #[pyo3(signature = (kernel, arrays, scalars, hardware="ktir", pipeline="serial", compat=false, threads=None))]
    fn run<'py>(
        &self,
        py: Python<'py>,
        kernel: String,
        arrays: Vec<(String, String, Vec<i64>, Vec<u8>)>,
        scalars: Vec<(String, GivenScalar)>,
        hardware: &str,
        pipeline: &str,
        compat: bool,
        threads: Option<usize>,
    ) -> PyResult<(Bound<'py, PyDict>, String)> {
        let hardware = if hardware.contains('\n') {
            Hardware::from_toml(hardware).map_err(|e| PyValueError::new_err(e.to_string()))?
        } else {
            Hardware::load_named(hardware).map_err(|e| PyValueError::new_err(e.to_string()))?
        };
        let pipeline = KtirPipeline::from_name(pipeline).ok_or_else(|| {
            PyValueError::new_err(format!(
                "pipeline is serial, overlapped or overlapped_3way, not {pipeline:?}"
            ))
        })?;
        let mut given = Vec::with_capacity(arrays.len());
        for (name, elem, shape, bytes) in arrays {
            let elem = KtirElem::from_name(&elem).ok_or_else(|| {
                PyTypeError::new_err(format!("{name}: kernels have no elements {elem}"))
            })?;
            given.push((name, KtirArray { elem, shape, bytes }));
        }
        let (module, stop) = (self.module.clone(), KtirStopFlag::default());
        let flag = stop.clone();
        let (sender, mut receiver) = mpsc::channel();
        // On a thread of its own, so that this one can look for Ctrl-C.
        let worker = std::thread::Builder::new().name("zellige-ktir".into()).spawn(move || {
            let mut run = KtirRun::new(&module, &kernel)
                .with_hardware(hardware)
                .with_pipeline(pipeline)
                .with_compatibility(compat)
                .with_stop_flag(&flag);
            if let Some(threads) = threads {
                run = run.with_threads(threads);
            }
            for (name, array) in given {
                run = run.with_array(&name, array);
            }
            for (name, value) in scalars {
                run = run.with_scalar(
                    &name,
                    match value {
                        GivenScalar::Int(n) => KtirScalar::Int(n),
                        GivenScalar::Float(x) => KtirScalar::Float(x),
                    },
                );
            }
            let _ = sender.send(run.execute_kernel());
        });
        let worker = worker.map_err(|e| DeviceFault::new_err(e.to_string()))?;
        let done: Result<KtirRunOutcome, KtirRunError> = loop {
            // A receiver belongs to one thread, so it goes into the closure and comes back.
            let (back, waited) = py.detach(move || {
                let waited = receiver.recv_timeout(SIGNAL_INTERVAL);
                (receiver, waited)
            });
            receiver = back;
            match waited {
                Ok(done) => break done,
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    if let Err(interrupt) = py.check_signals() {
                        stop.stop();
                        let _ = py.detach(|| worker.join());
                        return Err(interrupt);
                    }
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    return Err(crate::panics::internal_error("the thread of a kernel ended"));
                }
            }
        };
        let _ = py.detach(|| worker.join());
        let outcome = done.map_err(|e| self.refuse_run(&e))?;
        let out = PyDict::new(py);
        for (name, array) in &outcome.arrays {
            out.set_item(name, PyByteArray::new(py, &array.bytes))?;
        }
        let mut report = outcome.to_json();
        report["text"] = outcome.to_string().into();
        Ok((out, report.to_string()))
    }
}
