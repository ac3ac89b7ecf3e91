//! Python values as values of the crates, and back.

use crate::error;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use serde_json::{Map, Number, Value};
use zellige_float::Dtype;

/// A dtype: of PyTorch, of numpy, or its name.
pub(crate) fn parse_dtype(value: &Bound<'_, PyAny>) -> PyResult<Dtype> {
    let name = if let Ok(text) = value.cast::<PyString>() {
        text.to_string()
    } else if let Ok(name) = value.getattr("name").and_then(|n| n.extract::<String>()) {
        name
    } else if let Ok(name) = value.getattr("__name__").and_then(|n| n.extract::<String>()) {
        name
    } else {
        value.str()?.to_string()
    };
    let name = match name.as_str() {
        "bool_" => "bool",
        other => other,
    };
    Dtype::from_name(name).map_err(|e| error::layout_error(&e))
}

/// A value as JSON. Numbers that JSON has no word for become the texts `inf`, `-inf` and `nan`.
pub(crate) fn to_json(value: &Bound<'_, PyAny>) -> PyResult<Value> {
    if value.is_none() {
        return Ok(Value::Null);
    }
    if let Ok(b) = value.cast::<PyBool>() {
        return Ok(Value::Bool(b.is_true()));
    }
    if value.is_instance_of::<PyInt>() {
        return Ok(Value::from(value.extract::<i64>()?));
    }
    if let Ok(x) = value.cast::<PyFloat>() {
        let x = x.value();
        return Ok(match Number::from_f64(x) {
            Some(n) => Value::Number(n),
            None if x.is_nan() => "nan".into(),
            None if x > 0.0 => "inf".into(),
            None => "-inf".into(),
        });
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(Value::String(text.to_string()));
    }
    if let Ok(list) = value.cast::<PyList>() {
        return Ok(Value::Array(list.iter().map(|v| to_json(&v)).collect::<PyResult<_>>()?));
    }
    if let Ok(list) = value.cast::<PyTuple>() {
        return Ok(Value::Array(list.iter().map(|v| to_json(&v)).collect::<PyResult<_>>()?));
    }
    if let Ok(dict) = value.cast::<PyDict>() {
        let mut map = Map::new();
        for (k, v) in dict {
            map.insert(k.extract()?, to_json(&v)?);
        }
        return Ok(Value::Object(map));
    }
    // A dtype of PyTorch prints as its name with a prefix.
    let text = value.str()?.to_string();
    match text.strip_prefix("torch.") {
        Some(name) => Ok(Value::String(name.into())),
        None => Err(PyTypeError::new_err(format!("{text} has no form in JSON"))),
    }
}

/// JSON as a Python value.
pub(crate) fn from_json<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Null => py.None().into_bound(py),
        Value::Bool(b) => PyBool::new(py, *b).to_owned().into_any(),
        Value::Number(n) => match n.as_i64() {
            Some(n) => n.into_pyobject(py)?.into_any(),
            None => n.as_f64().unwrap_or(f64::NAN).into_pyobject(py)?.into_any(),
        },
        Value::String(s) => PyString::new(py, s).into_any(),
        Value::Array(list) => {
            let items = list.iter().map(|v| from_json(py, v)).collect::<PyResult<Vec<_>>>()?;
            PyList::new(py, items)?.into_any()
        }
        Value::Object(map) => {
            let dict = PyDict::new(py);
            for (k, v) in map {
                dict.set_item(k, from_json(py, v)?)?;
            }
            dict.into_any()
        }
    })
}
