//! Kernels: what the dispatcher calls for an operator.

use super::aten::{Form, Role, Row, rows};
use super::cards::card;
use super::handle::{dtype_of, is_tensor, see};
use super::mint::mint;
use super::number::{self, Number};
use super::strides::Turned;
use super::{store, stream};
use crate::convert::to_json;
use crate::error::{self, DeviceFault};
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use serde_json::{Map, Value, json};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use zellige_device::RunOp;
use zellige_device::{Card, DeviceError, Tensor};
use zellige_float::Dtype;
use zellige_op::OpError;
use zellige_op::{TensorOp, TensorType};

/// The Python function that runs an operator on the CPU: `(name, reason, args, kwargs)`.
static FALLBACK: OnceLock<Py<PyAny>> = OnceLock::new();

pub(super) fn set_fallback(function: Py<PyAny>) {
    let _ = FALLBACK.set(function);
}

/// Tells the user something that is said once; `subject` is what the log calls it.
pub(super) fn warn(py: Python<'_>, subject: &str, text: &str) -> PyResult<()> {
    if let Some(function) = FALLBACK.get() {
        function.getattr(py, "warn")?.call1(py, (subject, text))?;
    }
    Ok(())
}

/// Operations by their attributes, as they were built.
#[derive(Default)]
struct Built {
    plain: OnceLock<TensorOp>,
    others: Mutex<HashMap<String, TensorOp>>,
}

impl Built {
    fn get(&self, name: &str, attributes: Map<String, Value>) -> Result<TensorOp, DeviceError> {
        if attributes.is_empty() {
            if let Some(op) = self.plain.get() {
                return Ok(op.clone());
            }
            let op = TensorOp::new(name, &Value::Null)?;
            return Ok(self.plain.get_or_init(|| op).clone());
        }
        let attributes = Value::Object(attributes);
        let key = attributes.to_string();
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(op) = others.get(&key) {
            return Ok(op.clone());
        }
        let op = TensorOp::new(name, &attributes)?;
        if others.len() >= 1024 {
            others.clear();
        }
        others.insert(key, op.clone());
        Ok(op)
    }
}

/// An operator of ATen on the card. Called by the dispatcher with ATen's arguments.
#[pyclass(module = "zellige", frozen)]
pub(super) struct Kernel {
    name: String,
    form: Form,
    row: Arc<Row>,
    built: Arc<Built>,
    compared: bool,
}

/// Every kernel of the table with the name of its overload.
#[pyfunction]
pub(super) fn kernels() -> Vec<(String, Kernel)> {
    let compares = ["eq", "ne", "lt", "le", "gt", "ge"];
    let mut all = Vec::new();
    for row in rows() {
        let built = Arc::new(Built::default());
        let compared = compares.contains(&row.op.as_str());
        for (name, form) in &row.overloads {
            let (row, built) = (row.clone(), built.clone());
            let kernel = Kernel { name: name.clone(), form: *form, row, built, compared };
            all.push((name.clone(), kernel));
        }
    }
    all
}

/// Why a kernel does not run: an error for the user, or a reason to ask the CPU.
enum Stop {
    Raise(PyErr),
    Refuse(DeviceError),
}

impl From<PyErr> for Stop {
    fn from(e: PyErr) -> Stop {
        Stop::Raise(e)
    }
}

impl From<DeviceError> for Stop {
    fn from(e: DeviceError) -> Stop {
        match e {
            // What the device has no room for is not the CPU's to do.
            DeviceError::OutOfMemory { .. }
            | DeviceError::TooLarge { .. }
            | DeviceError::HostMemory { .. } => Stop::Raise(error::device(&e)),
            other => Stop::Refuse(other),
        }
    }
}

fn refused(reason: impl Into<String>) -> Stop {
    let reason = reason.into();
    Stop::Refuse(OpError::BadOperand { op: "the operator".into(), operand: None, reason }.into())
}

/// Operands before numbers are tensors.
enum Operand {
    Tensor(Tensor),
    Number(Number),
    /// The element of a tensor of the host without dimensions, which has a dtype of its own.
    Host(Number, Dtype),
}

/// The operands of a call.
#[derive(Default)]
struct Operands {
    list: SmallVec<[Operand; 4]>,
    card: Option<usize>,
    /// An optional operand was left out: none may follow.
    gap: bool,
}

impl Operands {
    fn push(&mut self, object: &Bound<'_, PyAny>) -> Result<(), Stop> {
        if object.is_none() {
            self.gap = true;
            return Ok(());
        }
        if self.gap {
            return Err(refused("an operand follows one that is left out"));
        }
        if let Some(number) = Number::of(object) {
            self.list.push(Operand::Number(number));
            return Ok(());
        }
        if is_tensor(object) {
            return self.push_tensor(object);
        }
        if let Ok(list) = object.cast::<PyList>() {
            return list.iter().try_for_each(|o| self.push(&o));
        }
        if let Ok(list) = object.cast::<PyTuple>() {
            return list.iter().try_for_each(|o| self.push(&o));
        }
        let name = object.get_type().name()?;
        Err(Stop::Raise(PyTypeError::new_err(format!("{name} is neither tensor nor number"))))
    }

    fn push_tensor(&mut self, object: &Bound<'_, PyAny>) -> Result<(), Stop> {
        let seen = see(object)?;
        match (seen.card, self.card) {
            (None, _) if seen.size.is_empty() => {
                let value = object.call_method0("item")?;
                let number = Number::of(&value).ok_or_else(|| refused("a number that is none"))?;
                self.list.push(Operand::Host(number, seen.dtype));
            }
            (None, _) => return Err(mixed("cpu")),
            (Some(i), Some(j)) if i != j => return Err(mixed(&format!("spyre:{i}"))),
            (Some(i), _) => {
                self.card = Some(i);
                self.list.push(Operand::Tensor(store::tensor(&seen)?));
            }
        }
        Ok(())
    }

    /// All as tensors of one card.
    fn settle(
        self,
        py: Python<'_>,
        op: &TensorOp,
        compared: bool,
    ) -> Result<(&'static Card, SmallVec<[Tensor; 4]>), Stop> {
        let Some(index) = self.card else {
            return Err(refused("no operand is on the device"));
        };
        let card = card(index)?;
        let tensors: SmallVec<[Tensor; 4]> = self
            .list
            .iter()
            .filter_map(|o| match o {
                Operand::Tensor(t) => Some(t.clone()),
                Operand::Number(_) | Operand::Host(..) => None,
            })
            .collect();
        let mut all = SmallVec::new();
        for operand in &self.list {
            all.push(match operand {
                Operand::Tensor(t) => t.clone(),
                Operand::Number(n) => n.beside(card, &tensors, compared)?,
                Operand::Host(n, dtype) => n.of_host(card, &tensors, *dtype, compared)?,
            });
        }
        if op.is_pointwise() && number::narrows(&all, self.list.iter().map(Operand::number)) {
            self.narrow(py, card, op, &mut all)?;
        }
        Ok((card, all))
    }

    /// Converts integers that are wider than the integers beside them as PyTorch does: to the common dtype, where they
    /// wrap, or to a float where the operation computes with floats.
    fn narrow(
        &self,
        py: Python<'_>,
        card: &'static Card,
        op: &TensorOp,
        all: &mut SmallVec<[Tensor; 4]>,
    ) -> Result<(), Stop> {
        let metas: Vec<TensorType> = all.iter().map(|t| t.tensor_type()).collect();
        let results = op.infer_types(&metas).map_err(DeviceError::from)?;
        let float = results.iter().any(|r| number::category(r.dtype) == 2);
        let common = number::common_integer(all);
        for (operand, tensor) in self.list.iter().zip(all.iter_mut()) {
            match operand.number() {
                Some(Number::Int(n)) if float => *tensor = Number::float(n, card)?,
                Some(_) => {}
                None if float || !number::is_wider(tensor, common) => {}
                None => *tensor = cast(py, card, tensor, common.unwrap_or(tensor.dtype()))?,
            }
        }
        Ok(())
    }
}

impl Operand {
    fn number(&self) -> Option<Number> {
        match self {
            Operand::Tensor(_) => None,
            Operand::Number(n) | Operand::Host(n, _) => Some(*n),
        }
    }
}

fn mixed(other: &str) -> Stop {
    Stop::Raise(PyRuntimeError::new_err(format!(
        "Expected all tensors to be on the same device, but found at least two devices, spyre:0 \
         and {other}!"
    )))
}

/// An attribute of ATen for the operation.
fn attribute(value: &Bound<'_, PyAny>) -> PyResult<Value> {
    match to_json(value) {
        Ok(v) => Ok(v),
        Err(_) => Ok(dtype_of(value)?.name().into()),
    }
}

/// Elements of all operands below which the GIL stays held.
const SMALL: i64 = 1 << 13;

fn execute(
    py: Python<'_>,
    card: &'static Card,
    op: &TensorOp,
    inputs: &[Tensor],
    into: Option<&[Tensor]>,
) -> Result<Vec<Tensor>, Stop> {
    let stream = stream::current(card.index());
    let run = || op.run_again(card, stream, inputs, into);
    let small = inputs.iter().map(|t| t.numel()).sum::<i64>() < SMALL;
    let ran = if small { run() } else { py.detach(run) };
    let outputs = ran?.outputs;
    if op.runs_on_host(card)
        && let Some(function) = FALLBACK.get()
    {
        let bytes = |t: &Tensor| t.numel() * t.dtype().bits() / 8;
        let moved: i64 = inputs.iter().chain(&outputs).map(bytes).sum();
        function.getattr(py, "listed")?.call1(py, (op.name(), moved))?;
    }
    Ok(outputs)
}

/// New tensors that lie as those of PyTorch would.
fn made(
    py: Python<'_>,
    card: &'static Card,
    op: &TensorOp,
    inputs: &[Tensor],
) -> Result<Vec<Tensor>, Stop> {
    match Turned::new(op, inputs)? {
        None => execute(py, card, op, inputs, None),
        Some(turned) => {
            let made = execute(py, card, op, &turned.inputs, None)?;
            Ok(made.iter().map(|t| turned.back(t)).collect::<Result<_, DeviceError>>()?)
        }
    }
}

/// The tensor in another dtype.
fn cast(
    py: Python<'_>,
    card: &'static Card,
    tensor: &Tensor,
    dtype: Dtype,
) -> Result<Tensor, Stop> {
    let attributes = json!({"dtype": dtype.name(), "wide": card.kept_dtypes().keeps_dtype(dtype)});
    let op = TensorOp::new("cast", &attributes).map_err(DeviceError::from)?;
    let made = made(py, card, &op, std::slice::from_ref(tensor))?;
    Ok(made[0].clone())
}

impl Kernel {
    fn call<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> Result<Bound<'py, PyAny>, Stop> {
        let mut operands = Operands::default();
        let mut attributes = Map::new();
        let mut dtype = None;
        if let Some((name, value)) = &self.row.constant {
            attributes.insert(name.clone(), value.clone().into());
        }
        for (i, argument) in self.row.arguments.iter().enumerate() {
            let given = match (args.get_item(i), kwargs) {
                (Ok(value), _) => value,
                (Err(_), Some(kwargs)) => match kwargs.get_item(&argument.name)? {
                    Some(value) => value,
                    None => continue,
                },
                (Err(_), None) => continue,
            };
            match &argument.role {
                Role::Operand => operands.push(&given)?,
                Role::Ignored => {}
                _ if given.is_none() => {}
                Role::Refused(truth) => {
                    if given.is_truthy()? == *truth {
                        let (name, op) = (&argument.name, &self.row.op);
                        return Err(refused(format!("{op} on the device has no `{name}`")));
                    }
                }
                Role::One => {
                    if !given.eq(1)? {
                        let (name, op) = (&argument.name, &self.row.op);
                        return Err(refused(format!("{op} on the device has no `{name}`")));
                    }
                }
                Role::Dtype => dtype = Some(dtype_of(&given)?),
                // No dimension at all means all of them.
                Role::Attribute(name) if name == "dim" && given.len().is_ok_and(|n| n == 0) => {}
                Role::Attribute(name) => {
                    attributes.insert(name.clone(), attribute(&given)?);
                }
            }
        }
        let op = self.built.get(&self.row.op, attributes)?;
        let (card, mut inputs) = operands.settle(py, &op, self.compared)?;
        if let (Some(dtype), Some(first)) = (dtype, inputs.first_mut())
            && first.dtype() != dtype
        {
            *first = cast(py, card, first, dtype)?;
        }
        match self.form {
            Form::New => {
                let mut made = made(py, card, &op, &inputs)?;
                // Sums of small integers are wide unless somebody says otherwise.
                if let (Some(dtype), [one]) = (dtype, made.as_mut_slice())
                    && one.dtype() != dtype
                {
                    *one = cast(py, card, one, dtype)?;
                }
                match made.as_slice() {
                    [one] => Ok(mint(py, one)?),
                    many => Ok(minted(py, many)?.into_any()),
                }
            }
            Form::InPlace => {
                let target = args.get_item(0)?;
                let output = store::of(&target)?;
                execute(py, card, &op, &inputs, Some(&[output]))?;
                Ok(target)
            }
            Form::Out => self.out(py, card, &op, &inputs, args, kwargs),
        }
    }

    /// Results into the tensors that come after all other arguments, which take their size.
    fn out<'py>(
        &self,
        py: Python<'py>,
        card: &'static Card,
        op: &TensorOp,
        inputs: &[Tensor],
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> Result<Bound<'py, PyAny>, Stop> {
        let known = |name: &str| self.row.arguments.iter().any(|a| a.name == name);
        let mut targets: Vec<Bound<'py, PyAny>> = (self.row.arguments.len()..args.len())
            .map(|i| args.get_item(i))
            .collect::<PyResult<_>>()?;
        for (name, value) in kwargs.into_iter().flatten() {
            if !known(&name.extract::<String>()?) {
                targets.push(value);
            }
        }
        let metas: Vec<TensorType> = inputs.iter().map(|t| t.tensor_type()).collect();
        let results = op.infer_types(&metas).map_err(DeviceError::from)?;
        if results.len() != targets.len() {
            return Err(refused("another number of outputs than of results"));
        }
        let mut outputs = Vec::with_capacity(targets.len());
        for (target, result) in targets.iter().zip(&results) {
            let mut output = store::of(target)?;
            if output.size() != result.size {
                target.call_method1("resize_", (result.size.clone(),))?;
                output = store::of(target)?;
            }
            outputs.push(output);
        }
        execute(py, card, op, inputs, Some(&outputs))?;
        Ok(match targets.as_slice() {
            [one] => one.clone(),
            _ => PyTuple::new(py, targets)?.into_any(),
        })
    }
}

fn minted<'py>(py: Python<'py>, tensors: &[Tensor]) -> PyResult<Bound<'py, PyTuple>> {
    let objects = tensors.iter().map(|t| mint(py, t)).collect::<PyResult<Vec<_>>>()?;
    PyTuple::new(py, objects)
}

#[pymethods]
impl Kernel {
    #[pyo3(signature = (*args, **kwargs))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match self.call(py, args, kwargs) {
            Ok(result) => Ok(result),
            Err(Stop::Raise(e)) => Err(e),
            Err(Stop::Refuse(reason)) => {
                let Some(fallback) = FALLBACK.get() else { return Err(error::device(&reason)) };
                let reason = reason.to_string();
                Ok(fallback.call1(py, (&self.name, reason, args, kwargs))?.into_bound(py))
            }
        }
    }

    /// The operator of ATen.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// The operation of the card.
    #[getter]
    fn op(&self) -> &str {
        &self.row.op
    }

    /// What each argument is to the operation: `operand`, `attribute NAME`, `ignored`, `dtype`,
    /// `one` where it must be that number, or `refused` where it is set.
    #[getter]
    fn roles(&self) -> Vec<String> {
        let role = |role: &Role| match role {
            Role::Operand => "operand".into(),
            Role::Attribute(name) => format!("attribute {name}"),
            Role::Ignored => "ignored".into(),
            Role::Dtype => "dtype".into(),
            Role::Refused(truth) => format!("refused {truth}"),
            Role::One => "one".into(),
        };
        self.row.arguments.iter().map(|a| role(&a.role)).collect()
    }

    /// Attributes that every call has.
    #[getter]
    fn constants(&self) -> HashMap<String, String> {
        self.row.constant.iter().cloned().collect()
    }

    /// Whether it makes new tensors, and not writes into its arguments.
    #[getter]
    fn functional(&self) -> bool {
        self.form == Form::New
    }

    /// ATen's arguments, in order.
    #[getter]
    fn arguments(&self) -> Vec<String> {
        self.row.arguments.iter().map(|a| a.name.clone()).collect()
    }

    fn __repr__(&self) -> String {
        format!("<kernel of aten::{}>", self.name)
    }
}

/// Operations that Python asks for by name.
static NAMED: Mutex<Option<HashMap<String, Arc<Built>>>> = Mutex::new(None);

fn prepare(
    py: Python<'_>,
    name: &str,
    operands: &Bound<'_, PyAny>,
    attributes: Option<&Bound<'_, PyDict>>,
) -> Result<(TensorOp, &'static Card, SmallVec<[Tensor; 4]>), Stop> {
    let mut map = Map::new();
    for (key, value) in attributes.into_iter().flatten() {
        if !value.is_none() {
            map.insert(key.extract::<String>()?, attribute(&value)?);
        }
    }
    let index = map.remove("device").and_then(|v| v.as_u64());
    let built = {
        let mut named = NAMED.lock().unwrap_or_else(PoisonError::into_inner);
        let named = named.get_or_insert_with(HashMap::new);
        named.entry(name.to_string()).or_default().clone()
    };
    let op = built.get(name, map)?;
    let mut list =
        Operands { card: index.and_then(|i| usize::try_from(i).ok()), ..Operands::default() };
    for object in operands.try_iter()? {
        list.push(&object?)?;
    }
    let (card, inputs) = list.settle(py, &op, false)?;
    Ok((op, card, inputs))
}

fn raise(stop: Stop) -> PyErr {
    match stop {
        Stop::Raise(e) => e,
        Stop::Refuse(e) => error::device(&e),
    }
}

/// Runs an operation of the card: operands are tensors and numbers, and `device` among the attributes
/// names the card where no operand does.
#[pyfunction]
#[pyo3(signature = (name, operands, attributes=None))]
pub(super) fn run<'py>(
    py: Python<'py>,
    name: &str,
    operands: &Bound<'py, PyAny>,
    attributes: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let (op, card, inputs) = prepare(py, name, operands, attributes).map_err(raise)?;
    let made = made(py, card, &op, &inputs).map_err(raise)?;
    match made.as_slice() {
        [one] => mint(py, one),
        many => Ok(minted(py, many)?.into_any()),
    }
}

/// The same into tensors that exist.
#[pyfunction]
#[pyo3(signature = (name, operands, attributes, outputs))]
pub(super) fn run_into<'py>(
    py: Python<'py>,
    name: &str,
    operands: &Bound<'py, PyAny>,
    attributes: Option<&Bound<'py, PyDict>>,
    outputs: Vec<Bound<'py, PyAny>>,
) -> PyResult<()> {
    let (op, card, inputs) = prepare(py, name, operands, attributes).map_err(raise)?;
    let outputs = outputs.iter().map(store::of).collect::<PyResult<Vec<_>>>()?;
    if outputs.iter().any(|o| o.card() != card) {
        return Err(DeviceFault::new_err("an output is on another card than the operands"));
    }
    execute(py, card, &op, &inputs, Some(&outputs)).map_err(raise)?;
    Ok(())
}
