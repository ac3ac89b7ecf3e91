//! Options of a compilation that a user gives to `torch.compile`.

use super::cards::find_card;
use crate::error;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyInt};
use zellige_compile::solve::memory::PlacementPolicy;
use zellige_compile::{CompilePolicy, CompilerOptions, OutputLayoutRule};
use zellige_device::{Card, DeviceError};
use zellige_machine::Hardware;

/// The names of all options, in order.
const KNOWN_OPTIONS: [&str; 6] = ["cores", "hardware", "lx", "outputs", "policy", "strict"];

/// What a user asks of a compilation, with the meaning of the flags of `zellige compile`. What is left out is as the
/// environment sets, and results have the layouts in which they are computed.
#[pyclass(module = "zellige", frozen)]
#[derive(Debug, Clone)]
pub(super) struct CompileOptions {
    policy: CompilePolicy,
    strict: bool,
    outputs: OutputLayoutRule,
    cores: Option<usize>,
    hardware: Option<Hardware>,
    lx: Option<bool>,
}

impl Default for CompileOptions {
    fn default() -> CompileOptions {
        CompileOptions {
            policy: CompilePolicy::Best,
            strict: false,
            outputs: OutputLayoutRule::AsComputed,
            cores: None,
            hardware: None,
            lx: None,
        }
    }
}

fn refuse_option(key: &str, value: &Bound<'_, PyAny>, accepted: &str) -> PyErr {
    let value = value.repr().map_or_else(|_| "?".into(), |text| text.to_string());
    PyValueError::new_err(format!(
        "the option {key:?} of the backend \"spyre\": {value} is not accepted; accepted: {accepted}"
    ))
}

fn read_flag(key: &str, value: &Bound<'_, PyAny>) -> PyResult<bool> {
    value
        .cast::<PyBool>()
        .map(|b| b.is_true())
        .map_err(|_| refuse_option(key, value, "True or False"))
}

fn read_word<T>(
    key: &str,
    value: &Bound<'_, PyAny>,
    accepted: &str,
    read: impl Fn(&str) -> Option<T>,
) -> PyResult<T> {
    let text = value.extract::<String>().ok();
    text.as_deref().and_then(read).ok_or_else(|| refuse_option(key, value, accepted))
}

#[pymethods]
impl CompileOptions {
    /// Reads options by their names.
    #[new]
    fn new(given: &Bound<'_, PyDict>) -> PyResult<CompileOptions> {
        let mut options = CompileOptions::default();
        for (key, value) in given {
            let key = key.str()?.to_string();
            match key.as_str() {
                "strict" => options.strict = read_flag(&key, &value)?,
                "lx" => options.lx = Some(read_flag(&key, &value)?),
                "policy" => {
                    let accepted = "\"best\" or \"baseline\"";
                    options.policy = read_word(&key, &value, accepted, CompilePolicy::from_name)?;
                }
                "outputs" => {
                    let accepted = "\"computed\" or \"default\"";
                    options.outputs = read_word(&key, &value, accepted, |w| match w {
                        "computed" => Some(OutputLayoutRule::AsComputed),
                        "default" => Some(OutputLayoutRule::Default),
                        _ => None,
                    })?;
                }
                "hardware" => {
                    let accepted = "the name of a preset such as \"card\", or a file named *.toml";
                    let name = read_word(&key, &value, accepted, |w| Some(w.to_string()))?;
                    let hardware = Hardware::load_named(&name);
                    options.hardware =
                        Some(hardware.map_err(|e| refuse_option(&key, &value, &e.to_string()))?);
                }
                "cores" => {}
                _ => {
                    return Err(PyValueError::new_err(format!(
                        "the backend \"spyre\" has no option {key:?}; it has {}",
                        KNOWN_OPTIONS.join(", ")
                    )));
                }
            }
        }
        if let Some(value) = given.get_item("cores")? {
            // The last, since the hardware limits it.
            let most = options.most_cores(find_card(0).map_err(|e| error::device_error(&e))?);
            let number = value.is_exact_instance_of::<PyInt>().then(|| value.extract::<usize>());
            match number {
                Some(Ok(cores)) if (1..=most).contains(&cores) => options.cores = Some(cores),
                _ => {
                    return Err(refuse_option(
                        "cores",
                        &value,
                        &format!("an integer from 1 to {most}"),
                    ));
                }
            }
        }
        Ok(options)
    }

    /// The names of all options.
    #[staticmethod]
    fn names() -> Vec<&'static str> {
        KNOWN_OPTIONS.to_vec()
    }

    /// Whether what upstream refuses is an error.
    #[getter]
    fn strict(&self) -> bool {
        self.strict
    }

    /// Whether results have the layouts in which they are computed, and not the default ones.
    #[getter]
    fn keeps_computed_layouts(&self) -> bool {
        self.outputs == OutputLayoutRule::AsComputed
    }
}

impl CompileOptions {
    /// The cores that a program may use: no more than the card has, and than the hardware that it is compiled for.
    fn most_cores(&self, card: &Card) -> usize {
        self.hardware.as_ref().map_or(card.core_count(), |h| h.core_count().min(card.core_count()))
    }

    /// The options of the compiler for a card.
    pub(super) fn for_card(&self, card: &Card) -> Result<CompilerOptions, DeviceError> {
        let usual = match self.policy {
            CompilePolicy::Best => CompilerOptions::default(),
            CompilePolicy::Baseline => CompilerOptions::baseline(),
        };
        let planned: Option<PlacementPolicy> = usual.scratchpads;
        let mut options = super::program::with_environment(usual)?;
        match self.lx {
            Some(true) => options.scratchpads = planned,
            Some(false) => options.scratchpads = None,
            None => {}
        }
        let most = self.most_cores(card);
        options.strict = self.strict;
        options.outputs = self.outputs;
        options.coverage = card.profile();
        options.hardware = self.hardware.clone().unwrap_or_else(|| card.hardware().clone());
        options.cores = self.cores.map_or(most, |cores| cores.min(most));
        options.storage = card.storage_policy();
        Ok(options)
    }
}
