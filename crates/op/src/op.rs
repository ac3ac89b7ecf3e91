//! An operation with its attributes.

use crate::attributes::Attributes;
use crate::coverage::Layer;
use crate::dims::Dims;
use crate::error::{OpError, Result};
use crate::forms::{Form, LineOperation};
use crate::row::OpRow;
use crate::rows;
use crate::tensor_type::TensorType;
use serde_json::{Map, Value};
use std::fmt;
use std::sync::Arc;

/// An operation with its attributes. Clones are the same operation.
#[derive(Clone)]
pub struct Op {
    row: &'static OpRow,
    form: Arc<Form>,
}

impl Op {
    /// The operation of that name with attributes from a JSON object.
    ///
    /// # Errors
    /// Unknown names and attributes, attributes of the wrong kind.
    pub fn new(name: &str, attributes: &Value) -> Result<Op> {
        let Some(row) = Op::row_of(name) else {
            let hint = nearest(name).map(str::to_string);
            return Err(OpError::NoSuchOp { name: name.chars().take(64).collect(), hint });
        };
        let map = match attributes {
            Value::Null => Map::new(),
            Value::Object(map) => map.clone(),
            other => {
                return Err(OpError::BadAttribute {
                    op: name.into(),
                    name: String::new(),
                    reason: format!("attributes are a JSON object, not {other}"),
                });
            }
        };
        let mut attributes = Attributes { op: row.name, map };
        let form = (row.form)(&mut attributes)?;
        if let Some(left) = attributes.map.keys().next() {
            let known: Vec<&str> = row.attributes.iter().map(|(n, _)| *n).collect();
            let accepted = if known.is_empty() { "it has none".into() } else { known.join(", ") };
            let reason = format!("there is no such attribute; accepted: {accepted}");
            return Err(attributes.bad(left, reason));
        }
        Ok(Op { row, form: Arc::new(form) })
    }

    /// Every row of the table.
    pub fn all() -> impl Iterator<Item = &'static OpRow> {
        rows::all()
    }

    /// The row of an operation by its name.
    pub fn row_of(name: &str) -> Option<&'static OpRow> {
        rows::all().find(|row| row.name == name)
    }

    /// What the table says of it.
    pub fn row(&self) -> &'static OpRow {
        self.row
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.row.name
    }

    /// How upstream runs it.
    pub fn layer(&self) -> Layer {
        self.row.layer
    }

    /// What it computes, with its attributes.
    pub fn form(&self) -> &Form {
        &self.form
    }

    /// Whether it computes an element of its result from the elements of its operands, which broadcast, at the
    /// same place.
    pub fn is_pointwise(&self) -> bool {
        matches!(*self.form, Form::Pointwise(_) | Form::Cast(_))
    }

    /// Sizes and dtypes of its results.
    ///
    /// # Errors
    /// Operands that it does not take.
    pub fn infer(&self, inputs: &[TensorType]) -> Result<Vec<TensorType>> {
        self.form.infer(inputs)
    }

    /// The dimensions of operand 0, of this size, that it works along: those that are reduced, or make up a line. None
    /// for an operation on single elements.
    pub fn along(&self, size: &[usize]) -> Option<Dims<usize>> {
        match &*self.form {
            Form::Reduce(op) => op.gone(size.len()).ok(),
            Form::Softmax(op) => op.0.along(size).ok(),
            Form::Norm(op) => op.0.along(size).ok(),
            Form::Scan(op) => op.0.along(size).ok(),
            Form::Pick(op) => op.0.along(size).ok(),
            Form::Quantile(op) => op.0.along(size).ok(),
            _ => None,
        }
    }

    /// The same operation with its only result in the place of an operand, and which one; none for
    /// operations that write all of their result anyway. What it does not change is not touched.
    pub fn over(&self) -> Option<(usize, Op)> {
        let form = match &*self.form {
            Form::IndexWrite(op) => {
                Form::IndexWrite(crate::IndexWrite { over: true, ..op.clone() })
            }
            Form::SliceScatter(op) => {
                let mut op = op.clone();
                op.rule.over = true;
                Form::SliceScatter(op)
            }
            _ => return None,
        };
        Some((0, Op { form: Arc::new(form), ..self.clone() }))
    }

    /// An address that no other live operation has; clones share it.
    pub fn address(&self) -> usize {
        Arc::as_ptr(&self.form).cast::<()>() as usize
    }
}

impl fmt::Debug for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.row.name, self.form)
    }
}

/// The name that shares the most with another.
fn nearest(name: &str) -> Option<&'static str> {
    let common = |a: &str, b: &str| a.chars().zip(b.chars()).take_while(|(x, y)| x == y).count();
    let best = rows::all().map(|e| (common(e.name, name), e.name));
    // Of names that share as much, the shortest.
    let key = |(n, name): &(usize, &str)| (*n, std::cmp::Reverse(name.len()));
    best.filter(|(n, _)| *n >= 3).max_by_key(key).map(|(_, name)| name)
}
