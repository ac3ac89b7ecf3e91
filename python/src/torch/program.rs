//! Compiled programs.

use super::cards::{env_variable, find_card, refuse_variable};
use super::compile_options::CompileOptions;
use super::input_form::RowMajorStorage;
use super::{mint, plan_cache, store, stream};
use crate::convert::from_json;
use crate::error::{self, DeviceFault};
use crate::stick::PyStickLayout;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use zellige_compile::emit;
use zellige_compile::report::report_program;
use zellige_compile::{BadVariable, BufferLocation, CompilerOptions, StepAction, check_program};
use zellige_device::{DeviceError, Tensor};
use zellige_files::{create_numbered_folder, write_folder};
use zellige_graph::InputRole;
use zellige_run::{LoadedModel, ProgramRunError};
use zellige_stick::StickLayout;
use zellige_view::page::{self, ReportedCollective};

/// An exchange with other cards: operation, dtype, size, cards, messages, bytes, microseconds, those that were waited.
type GivenCollective = (String, String, Vec<i64>, usize, u64, u64, f64, f64);

/// A graph, compiled for a card: a plan that holds nothing on it.
#[pyclass(module = "zellige", frozen)]
pub(super) struct Program {
    program: Arc<zellige_compile::CompiledProgram>,
    card: usize,
    source: &'static str,
    /// The key of its decisions in the cache.
    key: String,
}

/// A program with its weights on the card. A run takes the other inputs.
#[pyclass(module = "zellige", frozen)]
pub(super) struct Loaded {
    card: usize,
    model: Mutex<LoadedModel>,
}

/// Weights in the layouts that programs want them in, for programs that share them.
#[pyclass(module = "zellige", frozen)]
#[derive(Default)]
pub(super) struct Weights(Mutex<HashMap<(String, StickLayout), Tensor>>);

#[pymethods]
impl Weights {
    #[new]
    fn new() -> Weights {
        Weights::default()
    }

    /// How many there are.
    fn __len__(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

/// Name, dtype, size, strides, offset, device layout; and the kind of its place with the address there.
type BufferRow =
    (String, String, Vec<i64>, Vec<i64>, i64, PyStickLayout, (&'static str, Option<u64>));

/// The time between two checks of a run for an interrupt.
// Short enough that Ctrl-C feels immediate, and long beside the check, which takes the lock of the interpreter.
const PATIENCE: Duration = Duration::from_millis(50);

/// Options with what the environment asks of compilations: `LX_PLANNING=0` leaves everything in memory,
/// `DXP_LX_FRAC_AVAIL` is the part of the scratchpads that plans leave free.
pub(super) fn with_environment(options: CompilerOptions) -> Result<CompilerOptions, DeviceError> {
    let refused = |e: BadVariable| refuse_variable(e.name, &e.value, e.accepted);
    options.with_variables(env_variable).map_err(refused)
}

/// The variable that has every compiled program checked against its graph.
const CHECK_VARIABLE: &str = "ZELLIGE_CHECK";

/// Whether programs are checked before they run. Tests ask for it; a user's compilation does not wait for it.
fn wants_check() -> Result<bool, DeviceError> {
    match env_variable(CHECK_VARIABLE).as_deref() {
        None | Some("0") => Ok(false),
        Some("1") => Ok(true),
        Some(other) => Err(refuse_variable(CHECK_VARIABLE, other, "`0` or `1`")),
    }
}

fn run_error(e: &ProgramRunError) -> PyErr {
    match e {
        ProgramRunError::Device(inner) => error::device_error(inner),
        other => DeviceFault::new_err(other.to_string()),
    }
}

/// The tensor of a name among those that were given.
fn find_given_tensor(
    tensors: &HashMap<String, Tensor>,
    name: &str,
) -> Result<Tensor, ProgramRunError> {
    tensors.get(name).cloned().ok_or_else(|| ProgramRunError::NoInput {
        name: name.into(),
        reason: "it was not given".into(),
    })
}

#[pymethods]
impl Program {
    /// Compiles a graph, given as JSON, for a card. Given a program of the same operations on other
    /// sizes, it is divided as that one is, without a search.
    #[new]
    #[pyo3(signature = (graph, index, like=None, options=None))]
    fn new(
        py: Python<'_>,
        graph: &str,
        index: usize,
        like: Option<&Program>,
        options: Option<&CompileOptions>,
    ) -> PyResult<Program> {
        let card = find_card(index).map_err(|e| error::device_error(&e))?;
        let asked = options.cloned().unwrap_or_default();
        let options = asked.for_card(card).map_err(|e| error::device_error(&e))?;
        let like = like.map(|p| &p.program.decisions);
        let key = plan_cache::graph_key(graph, &options, like);
        let graph = zellige_graph::json::parse(graph)
            .map_err(|e| DeviceFault::new_err(format!("the graph: {e}")))?;
        let (program, source) = py
            .detach(|| plan_cache::compile_cached(&graph, &options, like, &key))
            .map_err(|e| error::compile_error(&e))?;
        if wants_check().map_err(|e| error::device_error(&e))? {
            // The check shares no code with the passes, so it also finds mistakes of decisions that were read from the
            // cache or taken from a program of other sizes.
            py.detach(|| check_program(&program)).map_err(|e| error::compile_error(&e))?;
        }
        Ok(Program { program: Arc::new(program), card: index, source, key })
    }

    /// Where the decisions come from: `search`, `cache` on disk, or a program of `other sizes`.
    #[getter]
    fn source(&self) -> &'static str {
        self.source
    }

    /// The key and the content of its entry in the cache, for another process; see `add_plan`.
    fn plan(&self) -> Option<(&str, Vec<u8>)> {
        Some((&self.key, plan_cache::encode_entry(&self.program)?))
    }

    /// Writes the weights in the layouts that the program wants, unless `shared` has them.
    #[pyo3(signature = (weights, shared=None))]
    fn load(
        &self,
        py: Python<'_>,
        weights: &Bound<'_, PyDict>,
        shared: Option<&Weights>,
    ) -> PyResult<Loaded> {
        let mut tensors = HashMap::new();
        for (name, object) in weights {
            tensors.insert(name.extract::<String>()?, store::tensor_of_object(&object)?);
        }
        let card = find_card(self.card).map_err(|e| error::device_error(&e))?;
        let program = Arc::clone(&self.program);
        let loaded = py.detach(|| {
            let mut none = HashMap::new();
            let mut guard = shared.map(|s| s.0.lock().unwrap_or_else(PoisonError::into_inner));
            let known = guard.as_deref_mut().unwrap_or(&mut none);
            let model = LoadedModel::load_resident(program, card, |name, laid| {
                match known.get(&(name.to_string(), laid.stick_layout().clone())) {
                    Some(there) => Ok(there.clone()),
                    None => find_given_tensor(&tensors, name),
                }
            })?;
            for (name, tensor) in model.weight_tensors() {
                known.insert((name.to_string(), tensor.stick_layout().clone()), tensor.clone());
            }
            Ok(model)
        });
        let model = loaded.map_err(|e| run_error(&e))?;
        Ok(Loaded { card: self.card, model: Mutex::new(model) })
    }

    /// The graph that was compiled, as JSON.
    fn graph(&self) -> String {
        zellige_graph::json::print_graph(&self.program.graph)
    }

    /// Microseconds of a run on the card.
    #[getter]
    fn latency_us(&self) -> f64 {
        self.program.latency().microseconds()
    }

    /// Whether the host does a step of every run.
    #[getter]
    fn has_host_steps(&self) -> bool {
        let steps = &self.program.steps;
        steps.iter().any(|s| !s.load && matches!(s.action, StepAction::Host(..)))
    }

    /// What was decided: steps with their times, moves with their reasons, layouts and places.
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        from_json(py, &self.describe_json())
    }

    /// The compiler's whole report, in the form of `docs/schemas/report.schema.json`.
    fn data<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        from_json(py, &self.report_json()?)
    }

    /// Every buffer: name, dtype, size, strides, offset, device layout, and address.
    fn buffers(&self) -> Vec<BufferRow> {
        let buffer = |b: &zellige_compile::ProgramBuffer| {
            let view = b.laid.view();
            let (size, stride) = (view.size().to_vec(), view.stride().to_vec());
            let layout = PyStickLayout(b.laid.stick_layout().clone());
            let place = match b.place {
                BufferLocation::Own => ("own", None),
                BufferLocation::Pool(at) => ("pool", Some(at)),
                BufferLocation::Lx(at) => ("lx", Some(at)),
                BufferLocation::Over(_) => ("over", None),
            };
            let dtype = b.laid.dtype().name().to_string();
            (b.name.clone(), dtype, size, stride, view.offset(), layout, place)
        };
        self.program.buffers.iter().map(buffer).collect()
    }

    /// The number of the card.
    #[getter]
    fn card(&self) -> usize {
        self.card
    }

    /// The same as a web page that needs nothing else, with what a run exchanged with other cards.
    #[pyo3(signature = (collectives=Vec::new()))]
    fn page(&self, collectives: Vec<GivenCollective>) -> String {
        let made = collectives.into_iter().map(
            |(op, dtype, size, ranks, messages, bytes, us, waited_us)| ReportedCollective {
                op,
                dtype,
                size,
                ranks,
                messages,
                bytes,
                us,
                waited_us,
            },
        );
        page::render_run_page(&report_program(&self.program), &made.collect::<Vec<_>>())
    }

    /// Writes kernels, transfers, tile programs, the host program and the report into a folder of its own below this one;
    /// the folder, and what the forms leave out: the form, the step and the reason.
    fn emit(&self, py: Python<'_>, folder: PathBuf) -> PyResult<(PathBuf, Vec<[String; 3]>)> {
        let program = &self.program;
        py.detach(|| {
            let emitted = emit::emit_program(program, &emit::EmitOptions::default())
                .map_err(|e| DeviceFault::new_err(e.to_string()))?;
            let name: String = emit::sanitize_name(program.graph.name()).chars().take(80).collect();
            let refused = |e: zellige_files::FileError| PyOSError::new_err(e.to_string());
            let own = create_numbered_folder(&folder, &name).map_err(refused)?;
            write_folder(&own, emitted.paths_and_texts()).map_err(refused)?;
            let left_out = emitted
                .refused
                .iter()
                .map(|r| [r.target.to_string(), r.name.clone(), r.reason.clone()]);
            Ok((own, left_out.collect()))
        })
    }

    /// One run as a Chrome trace in simulated time.
    fn trace(&self) -> String {
        zellige_run::program_timeline(&self.program).to_chrome_trace()
    }
}

#[pymethods]
impl Loaded {
    /// How many bundles of steps were prepared so far, and how often bundles were launched: only the first launch of a
    /// bundle prepares it.
    fn bundle_counts(&self) -> (usize, usize) {
        let counts = self.model.lock().unwrap_or_else(PoisonError::into_inner).bundle_counts();
        (counts.prepared, counts.launched)
    }

    /// One run: `states` names inputs that become an output, by number; the other outputs are given. An input is a
    /// tensor, or the storage of one.
    #[pyo3(signature = (inputs, states=Vec::new()))]
    fn run<'py>(
        &self,
        py: Python<'py>,
        inputs: &Bound<'py, PyDict>,
        states: Vec<(String, usize)>,
    ) -> PyResult<Bound<'py, PyList>> {
        let mut tensors = HashMap::new();
        for (name, object) in inputs {
            let tensor = match object.cast::<RowMajorStorage>() {
                Ok(storage) => storage.get().0.clone(),
                Err(_) => store::tensor_of_object(&object)?,
            };
            tensors.insert(name.extract::<String>()?, tensor);
        }
        let stream = stream::current_stream_id(self.card);
        // An interrupt ends a long run between two steps.
        let (mut asked, mut interrupted) = (Instant::now(), None);
        let made = py.detach(|| {
            let mut model = self.model.lock().unwrap_or_else(PoisonError::into_inner);
            let go_on = || {
                if asked.elapsed() >= PATIENCE {
                    asked = Instant::now();
                    interrupted = Python::attach(|py| py.check_signals()).err();
                }
                interrupted.is_none()
            };
            model.run_resident(stream, &states, |name| find_given_tensor(&tensors, name), go_on)
        });
        if let Some(signal) = interrupted {
            return Err(signal);
        }
        let made = made.map_err(|e| run_error(&e))?;
        let objects =
            made.iter().map(|t| mint::mint_tensor(py, t)).collect::<PyResult<Vec<_>>>()?;
        PyList::new(py, objects)
    }
}

fn report_error(e: &serde_json::Error) -> PyErr {
    DeviceFault::new_err(format!("the report has no form as data: {e}"))
}

impl Program {
    fn report_json(&self) -> PyResult<Value> {
        serde_json::to_value(report_program(&self.program)).map_err(|e| report_error(&e))
    }

    fn describe_json(&self) -> Value {
        let p = &self.program;
        let steps = p.steps.iter().map(|step| {
            let (op, why) = match &step.action {
                StepAction::Op(_, op) => (op.name(), None),
                StepAction::Host(_, op) => (op.name(), Some("the host does it")),
                StepAction::Move { why, .. } => ("move", Some(why.as_str())),
            };
            json!({
                "name": step.name,
                "op": op,
                "why": why,
                "at": step.node().and_then(|n| p.graph.node(n).at.clone()),
                "on_host": matches!(step.action, StepAction::Host(..)),
                "is_move": step.is_move(),
                "load": step.load,
                "us": step.duration.microseconds(),
                "start_us": step.start.microseconds(),
                "cores": step.division.core_count(),
                "splits": step.division.splits(),
                "bound": step.latency.bottleneck.to_string(),
            })
        });
        let buffers = p.buffers.iter().map(|b| {
            let place = match b.place {
                BufferLocation::Own => "own".to_string(),
                BufferLocation::Pool(at) => format!("pool {at:#x}"),
                BufferLocation::Lx(at) => format!("scratchpad {at:#x}"),
                BufferLocation::Over(of) => format!("over {}", p.buffer(of).name),
            };
            let weight = b.origin == zellige_compile::ElementOrigin::Input(InputRole::Weight);
            json!({
                "name": b.name, "layout": b.laid.stick_layout().to_string(), "bytes": b.bytes(),
                "place": place, "weight": weight,
            })
        });
        json!({
            "graph": p.graph.name(),
            "latency_us": p.latency().microseconds(),
            "launch_us": p.launch_time().microseconds(),
            "launches": p.launch_count(),
            "load_us": p.load_latency().microseconds(),
            "optimal": p.divided_optimally,
            "decisions": self.source,
            "steps": steps.collect::<Vec<_>>(),
            "buffers": buffers.collect::<Vec<_>>(),
        })
    }
}
