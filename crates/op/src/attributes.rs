//! The attributes of an operation while they are read.

use crate::error::{OpError, Result};
use crate::scalar::HostScalar;
use serde_json::{Map, Value};
use zellige_float::Dtype;

/// The attributes of one operation, taken out one by one.
pub(crate) struct OpAttributes {
    pub(crate) op: &'static str,
    pub(crate) map: Map<String, Value>,
}

impl OpAttributes {
    pub(crate) fn bad_attribute(&self, name: &str, reason: String) -> OpError {
        OpError::BadAttribute { op: self.op.into(), name: name.into(), reason }
    }

    /// An integer.
    pub(crate) fn take_int(&mut self, name: &str, default: Option<i64>) -> Result<i64> {
        match (self.map.remove(name), default) {
            (Some(v), _) => {
                v.as_i64().ok_or_else(|| self.bad_attribute(name, format!("{v} is no integer")))
            }
            (None, Some(d)) => Ok(d),
            (None, None) => Err(self.bad_attribute(name, "it is missing; an integer".into())),
        }
    }

    /// A number.
    pub(crate) fn take_number(&mut self, name: &str, default: Option<f64>) -> Result<f64> {
        Ok(self.take_scalar(name, default.map(HostScalar::Float))?.to_f64())
    }

    /// A number of which whole ones are exact.
    pub(crate) fn take_scalar(
        &mut self,
        name: &str,
        default: Option<HostScalar>,
    ) -> Result<HostScalar> {
        match (self.map.remove(name), default) {
            // JSON has no infinities and no NaN, so that they are written as words.
            (Some(Value::String(s)), _) if s == "inf" => Ok(HostScalar::Float(f64::INFINITY)),
            (Some(Value::String(s)), _) if s == "-inf" => Ok(HostScalar::Float(f64::NEG_INFINITY)),
            (Some(Value::String(s)), _) if s == "nan" => Ok(HostScalar::Float(f64::NAN)),
            (Some(Value::Bool(b)), _) => Ok(HostScalar::Int(b.into())),
            (Some(v), _) => match (v.as_i64(), v.as_f64()) {
                // First as an integer: float64 would lose the digits of one past 2^53.
                (Some(n), _) => Ok(HostScalar::Int(n)),
                (None, Some(x)) => Ok(HostScalar::Float(x)),
                _ => Err(self.bad_attribute(name, format!("{v} is no number"))),
            },
            (None, Some(d)) => Ok(d),
            (None, None) => Err(self.bad_attribute(name, "it is missing; a number".into())),
        }
    }

    /// A truth value.
    pub(crate) fn take_flag(&mut self, name: &str, default: bool) -> Result<bool> {
        match self.map.remove(name) {
            Some(v) => v
                .as_bool()
                .ok_or_else(|| self.bad_attribute(name, format!("{v} is not true or false"))),
            None => Ok(default),
        }
    }

    /// A list of integers; one integer is a list of one.
    pub(crate) fn take_ints(&mut self, name: &str) -> Result<Option<Vec<i64>>> {
        let whole = |v: &Value| v.as_i64();
        match self.map.remove(name) {
            None | Some(Value::Null) => Ok(None),
            // PyTorch takes one number for a list of one in many places.
            Some(v @ Value::Number(_)) => match whole(&v) {
                Some(n) => Ok(Some(vec![n])),
                None => Err(self.bad_attribute(name, format!("{v} is no integer"))),
            },
            Some(Value::Array(list)) => {
                let all: Option<Vec<i64>> = list.iter().map(whole).collect();
                all.map(Some)
                    .ok_or_else(|| self.bad_attribute(name, "it is a list of integers".into()))
            }
            Some(v) => Err(self.bad_attribute(name, format!("{v} is no list of integers"))),
        }
    }

    /// The dtype that the attribute `dtype` names.
    pub(crate) fn take_dtype(&mut self, default: Option<Dtype>) -> Result<Dtype> {
        match (self.map.remove("dtype"), default) {
            (Some(Value::String(name)), _) => {
                let dtype = Dtype::from_name(&name)
                    .map_err(|e| self.bad_attribute("dtype", e.to_string()))?;
                // A dtype that the device cannot store is refused where it is named, with the name of the
                // attribute.
                zellige_stick::DataFormat::device_format_of(dtype)
                    .map_err(|e| self.bad_attribute("dtype", e.to_string()))?;
                Ok(dtype)
            }
            (Some(v), _) => Err(self.bad_attribute("dtype", format!("{v} is no text"))),
            (None, Some(d)) => Ok(d),
            (None, None) => {
                Err(self.bad_attribute("dtype", "it is missing; a dtype such as float16".into()))
            }
        }
    }

    /// A word.
    pub(crate) fn take_word(
        &mut self,
        name: &str,
        default: &str,
        accepted: &[&str],
    ) -> Result<String> {
        let word = match self.map.remove(name) {
            None => default.to_string(),
            Some(Value::String(s)) => s,
            Some(v) => return Err(self.bad_attribute(name, format!("{v} is no text"))),
        };
        if accepted.contains(&word.as_str()) {
            return Ok(word);
        }
        Err(self.bad_attribute(name, format!("`{word}` is none of {}", accepted.join(", "))))
    }
}
