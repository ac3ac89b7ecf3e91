//! Kernels: what the dispatcher calls for an operator.

use super::aten::{ArgumentRole, AtenRow, ResultForm, aten_rows};
use super::cards::find_card;
use super::handle::{dtype_of, is_tensor, see_tensor};
use super::mint::mint_tensor;
use super::number::{self, NumberOperand};
use super::strides::TransposedOperands;
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

/// Warns the user once; `subject` is the name of the warning in the log.
pub(super) fn warn_once(py: Python<'_>, subject: &str, text: &str) -> PyResult<()> {
    if let Some(function) = FALLBACK.get() {
        function.getattr(py, "warn")?.call1(py, (subject, text))?;
    }
    Ok(())
}

/// Operations by their attributes, as they were built.
#[derive(Default)]
struct BuiltOps {
    plain: OnceLock<TensorOp>,
    others: Mutex<HashMap<String, TensorOp>>,
}

impl BuiltOps {
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
    form: ResultForm,
    row: Arc<AtenRow>,
    built: Arc<BuiltOps>,
    compared: bool,
}

/// Every kernel of the table with the name of its overload.
#[pyfunction]
pub(super) fn kernels() -> Vec<(String, Kernel)> {
    let compares = ["eq", "ne", "lt", "le", "gt", "ge"];
    let mut all = Vec::new();
    for row in aten_rows() {
        let built = Arc::new(BuiltOps::default());
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
enum KernelStop {
    Raise(PyErr),
    Refuse(DeviceError),
}

impl From<PyErr> for KernelStop {
    fn from(e: PyErr) -> KernelStop {
        KernelStop::Raise(e)
    }
}

impl From<DeviceError> for KernelStop {
    fn from(e: DeviceError) -> KernelStop {
        match e {
            // What the device has no room for is not the CPU's to do.
            DeviceError::OutOfMemory { .. }
            | DeviceError::TooLarge { .. }
            | DeviceError::HostMemory { .. } => KernelStop::Raise(error::device_error(&e)),
            other => KernelStop::Refuse(other),
        }
    }
}

fn refuse_call(reason: impl Into<String>) -> KernelStop {
    let reason = reason.into();
    KernelStop::Refuse(
        OpError::BadOperand { op: "the operator".into(), operand: None, reason }.into(),
    )
}

/// Operands before numbers are tensors.
enum KernelOperand {
    Tensor(Tensor),
    Number(NumberOperand),
    /// The element of a tensor of the host without dimensions, which has a dtype of its own.
    Host(NumberOperand, Dtype),
}

/// The operands of a call.
#[derive(Default)]
struct KernelOperands {
    list: SmallVec<[KernelOperand; 4]>,
    card: Option<usize>,
    /// An optional operand was left out: none may follow.
    gap: bool,
}

impl KernelOperands {
    fn push_operand(&mut self, object: &Bound<'_, PyAny>) -> Result<(), KernelStop> {
        if object.is_none() {
            self.gap = true;
            return Ok(());
        }
        if self.gap {
            return Err(refuse_call("an operand follows one that is left out"));
        }
        if let Some(number) = NumberOperand::from_object(object) {
            self.list.push(KernelOperand::Number(number));
            return Ok(());
        }
        if is_tensor(object) {
            return self.push_tensor(object);
        }
        if let Ok(list) = object.cast::<PyList>() {
            return list.iter().try_for_each(|o| self.push_operand(&o));
        }
        if let Ok(list) = object.cast::<PyTuple>() {
            return list.iter().try_for_each(|o| self.push_operand(&o));
        }
        let name = object.get_type().name()?;
        Err(KernelStop::Raise(PyTypeError::new_err(format!("{name} is neither tensor nor number"))))
    }

    fn push_tensor(&mut self, object: &Bound<'_, PyAny>) -> Result<(), KernelStop> {
        let seen = see_tensor(object)?;
        match (seen.card, self.card) {
            (None, _) if seen.size.is_empty() => {
                let value = object.call_method0("item")?;
                let number = NumberOperand::from_object(&value)
                    .ok_or_else(|| refuse_call("a number that is none"))?;
                self.list.push(KernelOperand::Host(number, seen.dtype));
            }
            (None, _) => return Err(refuse_mixed("cpu")),
            (Some(i), Some(j)) if i != j => return Err(refuse_mixed(&format!("spyre:{i}"))),
            (Some(i), _) => {
                self.card = Some(i);
                self.list.push(KernelOperand::Tensor(store::card_tensor(&seen)?));
            }
        }
        Ok(())
    }

    /// All as tensors of one card.
    fn settle_operands(
        self,
        py: Python<'_>,
        op: &TensorOp,
        compared: bool,
    ) -> Result<(&'static Card, SmallVec<[Tensor; 4]>), KernelStop> {
        let Some(index) = self.card else {
            return Err(refuse_call("no operand is on the device"));
        };
        let card = find_card(index)?;
        let tensors: SmallVec<[Tensor; 4]> = self
            .list
            .iter()
            .filter_map(|o| match o {
                KernelOperand::Tensor(t) => Some(t.clone()),
                KernelOperand::Number(_) | KernelOperand::Host(..) => None,
            })
            .collect();
        let mut all = SmallVec::new();
        for operand in &self.list {
            all.push(match operand {
                KernelOperand::Tensor(t) => t.clone(),
                KernelOperand::Number(n) => n.operand_beside(card, &tensors, compared)?,
                KernelOperand::Host(n, dtype) => {
                    n.host_operand_beside(card, &tensors, *dtype, compared)?
                }
            });
        }
        if op.is_pointwise()
            && number::needs_narrowing(&all, self.list.iter().map(KernelOperand::as_number))
        {
            self.narrow_integers(py, card, op, &mut all)?;
        }
        Ok((card, all))
    }

    /// Converts integers that are wider than the integers beside them as PyTorch does: to the common dtype, where they
    /// wrap, or to a float where the operation computes with floats.
    fn narrow_integers(
        &self,
        py: Python<'_>,
        card: &'static Card,
        op: &TensorOp,
        all: &mut SmallVec<[Tensor; 4]>,
    ) -> Result<(), KernelStop> {
        let metas: Vec<TensorType> = all.iter().map(|t| t.tensor_type()).collect();
        let results = op.infer_types(&metas).map_err(DeviceError::from)?;
        let float = results.iter().any(|r| number::dtype_category(r.dtype) == 2);
        let common = number::common_integer(all);
        for (operand, tensor) in self.list.iter().zip(all.iter_mut()) {
            match operand.as_number() {
                Some(NumberOperand::Int(n)) if float => {
                    *tensor = NumberOperand::float_tensor(n, card)?;
                }
                Some(_) => {}
                None if float || !number::is_wider(tensor, common) => {}
                None => *tensor = cast_tensor(py, card, tensor, common.unwrap_or(tensor.dtype()))?,
            }
        }
        Ok(())
    }
}

impl KernelOperand {
    fn as_number(&self) -> Option<NumberOperand> {
        match self {
            KernelOperand::Tensor(_) => None,
            KernelOperand::Number(n) | KernelOperand::Host(n, _) => Some(*n),
        }
    }
}

fn refuse_mixed(other: &str) -> KernelStop {
    KernelStop::Raise(PyRuntimeError::new_err(format!(
        "Expected all tensors to be on the same device, but found at least two devices, spyre:0 \
         and {other}!"
    )))
}

/// An attribute of ATen for the operation.
fn read_attribute(value: &Bound<'_, PyAny>) -> PyResult<Value> {
    match to_json(value) {
        Ok(v) => Ok(v),
        Err(_) => Ok(dtype_of(value)?.name().into()),
    }
}

/// Elements of all operands below which the GIL stays held.
const SMALL_ELEMENTS: i64 = 1 << 13;

fn execute_op(
    py: Python<'_>,
    card: &'static Card,
    op: &TensorOp,
    inputs: &[Tensor],
    into: Option<&[Tensor]>,
) -> Result<Vec<Tensor>, KernelStop> {
    let stream = stream::current_stream_id(card.index());
    let run = || op.run_again(card, stream, inputs, into);
    let small = inputs.iter().map(|t| t.numel()).sum::<i64>() < SMALL_ELEMENTS;
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

/// New tensors with the strides that PyTorch would give them.
fn make_results(
    py: Python<'_>,
    card: &'static Card,
    op: &TensorOp,
    inputs: &[Tensor],
) -> Result<Vec<Tensor>, KernelStop> {
    match TransposedOperands::new(op, inputs)? {
        None => execute_op(py, card, op, inputs, None),
        Some(turned) => {
            let made = execute_op(py, card, op, &turned.inputs, None)?;
            Ok(made.iter().map(|t| turned.transpose_back(t)).collect::<Result<_, DeviceError>>()?)
        }
    }
}

/// The tensor in another dtype.
fn cast_tensor(
    py: Python<'_>,
    card: &'static Card,
    tensor: &Tensor,
    dtype: Dtype,
) -> Result<Tensor, KernelStop> {
    let attributes = json!({"dtype": dtype.name(), "wide": card.kept_dtypes().keeps_dtype(dtype)});
    let op = TensorOp::new("cast", &attributes).map_err(DeviceError::from)?;
    let made = make_results(py, card, &op, std::slice::from_ref(tensor))?;
    Ok(made[0].clone())
}

impl Kernel {
    fn call_kernel<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> Result<Bound<'py, PyAny>, KernelStop> {
        let mut operands = KernelOperands::default();
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
                ArgumentRole::Operand => operands.push_operand(&given)?,
                ArgumentRole::Ignored => {}
                _ if given.is_none() => {}
                ArgumentRole::Refused(truth) => {
                    if given.is_truthy()? == *truth {
                        let (name, op) = (&argument.name, &self.row.op);
                        return Err(refuse_call(format!("{op} on the device has no `{name}`")));
                    }
                }
                ArgumentRole::One => {
                    if !given.eq(1)? {
                        let (name, op) = (&argument.name, &self.row.op);
                        return Err(refuse_call(format!("{op} on the device has no `{name}`")));
                    }
                }
                ArgumentRole::Dtype => dtype = Some(dtype_of(&given)?),
                // No dimension at all means all of them.
                ArgumentRole::Attribute(name)
                    if name == "dim" && given.len().is_ok_and(|n| n == 0) => {}
                ArgumentRole::Attribute(name) => {
                    attributes.insert(name.clone(), read_attribute(&given)?);
                }
            }
        }
        let op = self.built.get(&self.row.op, attributes)?;
        let (card, mut inputs) = operands.settle_operands(py, &op, self.compared)?;
        if let (Some(dtype), Some(first)) = (dtype, inputs.first_mut())
            && first.dtype() != dtype
        {
            *first = cast_tensor(py, card, first, dtype)?;
        }
        match self.form {
            ResultForm::New => {
                let mut made = make_results(py, card, &op, &inputs)?;
                // Sums of small integers are int64, as in PyTorch, unless the call names a dtype.
                if let (Some(dtype), [one]) = (dtype, made.as_mut_slice())
                    && one.dtype() != dtype
                {
                    *one = cast_tensor(py, card, one, dtype)?;
                }
                match made.as_slice() {
                    [one] => Ok(mint_tensor(py, one)?),
                    many => Ok(mint_all(py, many)?.into_any()),
                }
            }
            ResultForm::InPlace => {
                let target = args.get_item(0)?;
                let output = store::tensor_of_object(&target)?;
                execute_op(py, card, &op, &inputs, Some(&[output]))?;
                Ok(target)
            }
            ResultForm::Out => self.write_outputs(py, card, &op, &inputs, args, kwargs),
        }
    }

    /// Results into the tensors that come after all other arguments, which take their size.
    fn write_outputs<'py>(
        &self,
        py: Python<'py>,
        card: &'static Card,
        op: &TensorOp,
        inputs: &[Tensor],
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> Result<Bound<'py, PyAny>, KernelStop> {
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
            return Err(refuse_call("another number of outputs than of results"));
        }
        let mut outputs = Vec::with_capacity(targets.len());
        for (target, result) in targets.iter().zip(&results) {
            let mut output = store::tensor_of_object(target)?;
            if output.size() != result.size {
                target.call_method1("resize_", (result.size.clone(),))?;
                output = store::tensor_of_object(target)?;
            }
            outputs.push(output);
        }
        execute_op(py, card, op, inputs, Some(&outputs))?;
        Ok(match targets.as_slice() {
            [one] => one.clone(),
            _ => PyTuple::new(py, targets)?.into_any(),
        })
    }
}

fn mint_all<'py>(py: Python<'py>, tensors: &[Tensor]) -> PyResult<Bound<'py, PyTuple>> {
    let objects = tensors.iter().map(|t| mint_tensor(py, t)).collect::<PyResult<Vec<_>>>()?;
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
        match self.call_kernel(py, args, kwargs) {
            Ok(result) => Ok(result),
            Err(KernelStop::Raise(e)) => Err(e),
            Err(KernelStop::Refuse(reason)) => {
                let Some(fallback) = FALLBACK.get() else {
                    return Err(error::device_error(&reason));
                };
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
        let role = |role: &ArgumentRole| match role {
            ArgumentRole::Operand => "operand".into(),
            ArgumentRole::Attribute(name) => format!("attribute {name}"),
            ArgumentRole::Ignored => "ignored".into(),
            ArgumentRole::Dtype => "dtype".into(),
            ArgumentRole::Refused(truth) => format!("refused {truth}"),
            ArgumentRole::One => "one".into(),
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
        self.form == ResultForm::New
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
static NAMED: Mutex<Option<HashMap<String, Arc<BuiltOps>>>> = Mutex::new(None);

fn prepare_op(
    py: Python<'_>,
    name: &str,
    operands: &Bound<'_, PyAny>,
    attributes: Option<&Bound<'_, PyDict>>,
) -> Result<(TensorOp, &'static Card, SmallVec<[Tensor; 4]>), KernelStop> {
    let mut map = Map::new();
    for (key, value) in attributes.into_iter().flatten() {
        if !value.is_none() {
            map.insert(key.extract::<String>()?, read_attribute(&value)?);
        }
    }
    let index = map.remove("device").and_then(|v| v.as_u64());
    let built = {
        let mut named = NAMED.lock().unwrap_or_else(PoisonError::into_inner);
        let named = named.get_or_insert_with(HashMap::new);
        named.entry(name.to_string()).or_default().clone()
    };
    let op = built.get(name, map)?;
    let mut list = KernelOperands {
        card: index.and_then(|i| usize::try_from(i).ok()),
        ..KernelOperands::default()
    };
    for object in operands.try_iter()? {
        list.push_operand(&object?)?;
    }
    let (card, inputs) = list.settle_operands(py, &op, false)?;
    Ok((op, card, inputs))
}

fn stop_error(stop: KernelStop) -> PyErr {
    match stop {
        KernelStop::Raise(e) => e,
        KernelStop::Refuse(e) => error::device_error(&e),
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
    let (op, card, inputs) = prepare_op(py, name, operands, attributes).map_err(stop_error)?;
    let made = make_results(py, card, &op, &inputs).map_err(stop_error)?;
    match made.as_slice() {
        [one] => mint_tensor(py, one),
        many => Ok(mint_all(py, many)?.into_any()),
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
    let (op, card, inputs) = prepare_op(py, name, operands, attributes).map_err(stop_error)?;
    let outputs = outputs.iter().map(store::tensor_of_object).collect::<PyResult<Vec<_>>>()?;
    if outputs.iter().any(|o| o.card() != card) {
        return Err(DeviceFault::new_err("an output is on another card than the operands"));
    }
    execute_op(py, card, &op, &inputs, Some(&outputs)).map_err(stop_error)?;
    Ok(())
}
