//! The operations by name, each with its attributes. One file per family holds its table.

mod index;
mod matmul;
mod pointwise;
mod reduce;
mod shape;

use crate::error::{DeviceError, Result};
use crate::kernels::{Kernel, Meta};
use crate::scalar::Scalar;
use serde_json::{Map, Value};
use std::fmt;
use std::sync::Arc;
use zellige_layout::Dtype;

/// An operation with its attributes.
#[derive(Clone)]
pub struct Op {
    name: &'static str,
    kernel: Arc<dyn Kernel>,
    pointwise: bool,
}

/// What the table says of an operation.
pub struct Entry {
    /// Its name.
    pub name: &'static str,
    /// Its operands.
    pub operands: &'static [&'static str],
    /// Its attributes with their defaults.
    pub attributes: &'static [(&'static str, &'static str)],
    /// How upstream runs it.
    pub layer: Layer,
    build: fn(&mut Attrs) -> Result<Arc<dyn Kernel>>,
}

/// How an operation reaches the card upstream; the coverage profile `card` follows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layer {
    /// An instruction of the hardware.
    Native,
    /// A kernel of its own.
    Custom,
    /// Made of other operations.
    Decomposed,
    /// Computed by the host.
    Fallback,
    /// Not at all.
    Missing,
}

/// The attributes of one operation, taken out one by one.
pub(crate) struct Attrs {
    op: &'static str,
    map: Map<String, Value>,
}

impl Attrs {
    fn bad(&self, name: &str, reason: String) -> DeviceError {
        DeviceError::BadAttribute { op: self.op.into(), name: name.into(), reason }
    }

    /// An integer.
    pub(crate) fn int(&mut self, name: &str, default: Option<i64>) -> Result<i64> {
        match (self.map.remove(name), default) {
            (Some(v), _) => v.as_i64().ok_or_else(|| self.bad(name, format!("{v} is no integer"))),
            (None, Some(d)) => Ok(d),
            (None, None) => Err(self.bad(name, "it is missing; an integer".into())),
        }
    }

    /// A number.
    pub(crate) fn number(&mut self, name: &str, default: Option<f64>) -> Result<f64> {
        Ok(self.scalar(name, default.map(Scalar::Float))?.float())
    }

    /// A number of which whole ones are exact.
    pub(crate) fn scalar(&mut self, name: &str, default: Option<Scalar>) -> Result<Scalar> {
        match (self.map.remove(name), default) {
            (Some(Value::String(s)), _) if s == "inf" => Ok(Scalar::Float(f64::INFINITY)),
            (Some(Value::String(s)), _) if s == "-inf" => Ok(Scalar::Float(f64::NEG_INFINITY)),
            (Some(Value::String(s)), _) if s == "nan" => Ok(Scalar::Float(f64::NAN)),
            (Some(Value::Bool(b)), _) => Ok(Scalar::Int(b.into())),
            (Some(v), _) => match (v.as_i64(), v.as_f64()) {
                (Some(n), _) => Ok(Scalar::Int(n)),
                (None, Some(x)) => Ok(Scalar::Float(x)),
                _ => Err(self.bad(name, format!("{v} is no number"))),
            },
            (None, Some(d)) => Ok(d),
            (None, None) => Err(self.bad(name, "it is missing; a number".into())),
        }
    }

    /// A truth value.
    pub(crate) fn flag(&mut self, name: &str, default: bool) -> Result<bool> {
        match self.map.remove(name) {
            Some(v) => {
                v.as_bool().ok_or_else(|| self.bad(name, format!("{v} is not true or false")))
            }
            None => Ok(default),
        }
    }

    /// A list of integers; one integer is a list of one.
    pub(crate) fn ints(&mut self, name: &str) -> Result<Option<Vec<i64>>> {
        let whole = |v: &Value| v.as_i64();
        match self.map.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(v @ Value::Number(_)) => match whole(&v) {
                Some(n) => Ok(Some(vec![n])),
                None => Err(self.bad(name, format!("{v} is no integer"))),
            },
            Some(Value::Array(list)) => {
                let all: Option<Vec<i64>> = list.iter().map(whole).collect();
                all.map(Some).ok_or_else(|| self.bad(name, "it is a list of integers".into()))
            }
            Some(v) => Err(self.bad(name, format!("{v} is no list of integers"))),
        }
    }

    /// The dtype that the attribute `dtype` names.
    pub(crate) fn dtype(&mut self, default: Option<Dtype>) -> Result<Dtype> {
        match (self.map.remove("dtype"), default) {
            (Some(Value::String(name)), _) => {
                let dtype =
                    Dtype::from_name(&name).map_err(|e| self.bad("dtype", e.to_string()))?;
                dtype.device_format().map_err(|e| self.bad("dtype", e.to_string()))?;
                Ok(dtype)
            }
            (Some(v), _) => Err(self.bad("dtype", format!("{v} is no text"))),
            (None, Some(d)) => Ok(d),
            (None, None) => Err(self.bad("dtype", "it is missing; a dtype such as float16".into())),
        }
    }

    /// A word.
    pub(crate) fn word(&mut self, name: &str, default: &str, accepted: &[&str]) -> Result<String> {
        let word = match self.map.remove(name) {
            None => default.to_string(),
            Some(Value::String(s)) => s,
            Some(v) => return Err(self.bad(name, format!("{v} is no text"))),
        };
        if accepted.contains(&word.as_str()) {
            return Ok(word);
        }
        Err(self.bad(name, format!("`{word}` is none of {}", accepted.join(", "))))
    }
}

impl Op {
    /// The operation of that name with attributes from a JSON object.
    ///
    /// # Errors
    /// Unknown names and attributes, attributes of the wrong kind.
    pub fn new(name: &str, attributes: &Value) -> Result<Op> {
        let Some(entry) = table().find(|e| e.name == name) else {
            let hint = nearest(name).map(str::to_string);
            return Err(DeviceError::NoSuchOp { name: name.chars().take(64).collect(), hint });
        };
        let map = match attributes {
            Value::Null => Map::new(),
            Value::Object(map) => map.clone(),
            other => {
                return Err(DeviceError::BadAttribute {
                    op: name.into(),
                    name: String::new(),
                    reason: format!("attributes are a JSON object, not {other}"),
                });
            }
        };
        let mut attrs = Attrs { op: entry.name, map };
        let kernel = (entry.build)(&mut attrs)?;
        if let Some(left) = attrs.map.keys().next() {
            let known: Vec<&str> = entry.attributes.iter().map(|(n, _)| *n).collect();
            let accepted = if known.is_empty() { "it has none".into() } else { known.join(", ") };
            return Err(
                attrs.bad(left, format!("there is no such attribute; accepted: {accepted}"))
            );
        }
        let pointwise = pointwise::TABLES.iter().any(|t| t.iter().any(|e| e.name == entry.name));
        Ok(Op { name: entry.name, kernel, pointwise })
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Whether it computes an element of its result from the elements of its operands, which broadcast, at the
    /// same place.
    pub fn is_pointwise(&self) -> bool {
        self.pointwise
    }

    /// Sizes and dtypes of its results.
    ///
    /// # Errors
    /// Operands that it does not take.
    pub fn infer(&self, inputs: &[Meta]) -> Result<Vec<Meta>> {
        self.kernel().infer(inputs)
    }

    /// The same operation with its only result in the place of an operand, and which one; none for
    /// operations that write all of their result anyway. What it does not change is not touched.
    pub fn over(&self) -> Option<(usize, Op)> {
        let (operand, kernel) = self.kernel.over()?;
        Some((operand, Op { kernel, ..self.clone() }))
    }

    /// Every operation.
    pub fn all() -> impl Iterator<Item = &'static Entry> {
        table()
    }

    /// An address that no other live operation has; clones share it.
    pub(crate) fn address(&self) -> usize {
        Arc::as_ptr(&self.kernel).cast::<()>() as usize
    }

    pub(crate) fn kernel(&self) -> &dyn Kernel {
        self.kernel.as_ref()
    }
}

impl fmt::Debug for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.name, self.kernel)
    }
}

/// The name that shares the most with another.
fn nearest(name: &str) -> Option<&'static str> {
    let common = |a: &str, b: &str| a.chars().zip(b.chars()).take_while(|(x, y)| x == y).count();
    let best = table().map(|e| (common(e.name, name), e.name));
    // Of names that share as much, the shortest.
    let key = |(n, name): &(usize, &str)| (*n, std::cmp::Reverse(name.len()));
    best.filter(|(n, _)| *n >= 3).max_by_key(key).map(|(_, name)| name)
}

/// Every operation, family by family.
fn table() -> impl Iterator<Item = &'static Entry> {
    [pointwise::TABLES, &[matmul::TABLE, index::TABLE], shape::TABLES]
        .concat()
        .into_iter()
        .flatten()
        .chain(reduce::table())
}
