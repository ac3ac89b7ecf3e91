//! Compiled programs.

use super::cards::card;
use super::{mint, store, stream};
use crate::convert::from_json;
use crate::error::{self, DeviceFault};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use zellige_compile::report::report;
use zellige_compile::{Action, Options, Outputs, Place, compile};
use zellige_device::Tensor;
use zellige_graph::Role;
use zellige_run::{Model, RunError};
use zellige_view::page;

/// A graph, compiled for a card. Weights are loaded once; a run takes the other inputs in their order.
#[pyclass(module = "zellige", frozen)]
pub(super) struct Program {
    program: zellige_compile::Program,
    card: usize,
    model: Mutex<Option<Model>>,
}

fn run_error(e: &RunError) -> PyErr {
    DeviceFault::new_err(e.to_string())
}

/// The tensor of a name among those that were given.
fn named(tensors: &HashMap<String, Tensor>, name: &str) -> Result<Tensor, RunError> {
    tensors
        .get(name)
        .cloned()
        .ok_or_else(|| RunError::NoInput { name: name.into(), reason: "it was not given".into() })
}

#[pymethods]
impl Program {
    /// Compiles a graph, given as JSON, for a card.
    #[new]
    fn new(py: Python<'_>, graph: &str, index: usize) -> PyResult<Program> {
        let card = card(index).map_err(|e| error::device(&e))?;
        let graph = zellige_graph::json::parse(graph)
            .map_err(|e| DeviceFault::new_err(format!("the graph: {e}")))?;
        let options = Options {
            coverage: card.profile(),
            hardware: card.hardware().clone(),
            cores: card.cores(),
            storage: card.storage(),
            outputs: Outputs::Default,
            ..Options::default()
        };
        let program = py
            .detach(|| compile(&graph, &options))
            .map_err(|e| DeviceFault::new_err(e.to_string()))?;
        Ok(Program { program, card: index, model: Mutex::new(None) })
    }

    /// Writes the weights in the layouts that the program wants.
    fn load(&self, py: Python<'_>, weights: &Bound<'_, PyDict>) -> PyResult<()> {
        let mut tensors = HashMap::new();
        for (name, object) in weights {
            tensors.insert(name.extract::<String>()?, store::of(&object)?);
        }
        let card = card(self.card).map_err(|e| error::device(&e))?;
        let program = self.program.clone();
        let model = py
            .detach(|| Model::load_resident(program, card, |name| named(&tensors, name)))
            .map_err(|e| run_error(&e))?;
        *self.model.lock().unwrap_or_else(PoisonError::into_inner) = Some(model);
        Ok(())
    }

    /// One run.
    fn run<'py>(
        &self,
        py: Python<'py>,
        inputs: &Bound<'py, PyDict>,
    ) -> PyResult<Bound<'py, PyList>> {
        let mut tensors = HashMap::new();
        for (name, object) in inputs {
            tensors.insert(name.extract::<String>()?, store::of(&object)?);
        }
        let stream = stream::current(self.card);
        let made = py.detach(|| {
            let mut model = self.model.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(model) = model.as_mut() else {
                return Err(RunError::NoInput {
                    name: "weights".into(),
                    reason: "the program is not loaded".into(),
                });
            };
            model.run_resident(stream, |name| named(&tensors, name))
        });
        let made = made.map_err(|e| run_error(&e))?;
        let objects = made.iter().map(|t| mint::mint(py, t)).collect::<PyResult<Vec<_>>>()?;
        PyList::new(py, objects)
    }

    /// Microseconds of a run on the card.
    #[getter]
    fn latency_us(&self) -> f64 {
        self.program.latency().microseconds()
    }

    /// What was decided: steps with their times, moves with their reasons, layouts and places.
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        from_json(py, &self.described())
    }

    /// The compiler's whole report, in the form of `docs/schemas/report.schema.json`.
    fn data<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        from_json(py, &self.reported()?)
    }

    /// The same as a web page that needs nothing else.
    fn page(&self) -> PyResult<String> {
        let model: page::Model =
            serde_json::from_value(self.reported()?).map_err(|e| unread(&e))?;
        Ok(page::html(&model))
    }

    /// One run as a Chrome trace in simulated time.
    fn trace(&self) -> String {
        zellige_run::timeline(&self.program).to_chrome_trace()
    }
}

fn unread(e: &serde_json::Error) -> PyErr {
    DeviceFault::new_err(format!("the report has no form as data: {e}"))
}

impl Program {
    fn reported(&self) -> PyResult<Value> {
        serde_json::to_value(report(&self.program)).map_err(|e| unread(&e))
    }

    fn described(&self) -> Value {
        let p = &self.program;
        let steps = p.steps.iter().map(|step| {
            let (op, why) = match &step.action {
                Action::Op(_, op) => (op.name(), None),
                Action::Host(_, op) => (op.name(), Some("the host does it")),
                Action::Move { why, .. } => ("move", Some(why.as_str())),
            };
            json!({
                "name": step.name,
                "op": op,
                "why": why,
                "at": step.node().and_then(|n| p.graph.node(n).at.clone()),
                "on_host": matches!(step.action, Action::Host(..)),
                "is_move": step.is_move(),
                "load": step.load,
                "us": step.duration.microseconds(),
                "start_us": step.start.microseconds(),
                "cores": step.division.cores(),
                "splits": step.division.splits(),
                "bound": step.latency.bottleneck.to_string(),
            })
        });
        let buffers = p.buffers.iter().map(|b| {
            let place = match b.place {
                Place::Own => "own".to_string(),
                Place::Pool(at) => format!("pool {at:#x}"),
                Place::Lx(at) => format!("scratchpad {at:#x}"),
                Place::Over(of) => format!("over {}", p.buffer(of).name),
            };
            let weight = b.origin == zellige_compile::Origin::Input(Role::Weight);
            json!({
                "name": b.name, "layout": b.laid.layout().to_string(), "bytes": b.bytes(),
                "place": place, "weight": weight,
            })
        });
        json!({
            "graph": p.graph.name(),
            "latency_us": p.latency().microseconds(),
            "load_us": p.load_latency().microseconds(),
            "optimal": p.divided_optimally,
            "steps": steps.collect::<Vec<_>>(),
            "buffers": buffers.collect::<Vec<_>>(),
        })
    }
}
