//! An operation with its attributes.

use crate::attributes::OpAttributes;
use crate::coverage::UpstreamLayer;
use crate::dims::PerDimension;
use crate::error::{OpError, Result};
use crate::forms::{LineOperation, OpForm};
use crate::row::OpRow;
use crate::rows;
use crate::tensor_type::TensorType;
use serde_json::{Map, Value};
use std::fmt;
use std::sync::Arc;

/// An operation with its attributes. Clones are the same operation.
#[derive(Clone)]
pub struct TensorOp {
    row: &'static OpRow,
    form: Arc<OpForm>,
}

impl TensorOp {
    /// The operation of that name with attributes from a JSON object.
    ///
    /// # Errors
    /// Unknown names and attributes, attributes of the wrong kind.
    pub fn new(name: &str, attributes: &Value) -> Result<TensorOp> {
        let Some(row) = TensorOp::find_row(name) else {
            let hint = nearest_name(name).map(str::to_string);
            // Cut, because the name comes from a request and goes into a message.
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
        let mut attributes = OpAttributes { op: row.name, map };
        let form = (row.form)(&mut attributes)?;
        // Every attribute that the form knows has been taken out: one that is left is misspelt, and ignoring it
        // would compute something else.
        if let Some(left) = attributes.map.keys().next() {
            let known: Vec<&str> = row.attributes.iter().map(|(n, _)| *n).collect();
            let accepted = if known.is_empty() { "it has none".into() } else { known.join(", ") };
            let reason = format!("there is no such attribute; accepted: {accepted}");
            return Err(attributes.bad_attribute(left, reason));
        }
        Ok(TensorOp { row, form: Arc::new(form) })
    }

    /// Every row of the table.
    pub fn all_rows() -> impl Iterator<Item = &'static OpRow> {
        rows::all_rows()
    }

    /// The row of an operation by its name.
    pub fn find_row(name: &str) -> Option<&'static OpRow> {
        rows::all_rows().find(|row| row.name == name)
    }

    /// What the table says of it.
    pub fn row(&self) -> &'static OpRow {
        self.row
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.row.name
    }

    /// How torch-spyre runs it.
    pub fn layer(&self) -> UpstreamLayer {
        self.row.layer
    }

    /// What it computes, with its attributes.
    pub fn form(&self) -> &OpForm {
        &self.form
    }

    /// Whether it computes an element of its result from the elements of its operands, which broadcast, at the
    /// same place.
    pub fn is_pointwise(&self) -> bool {
        matches!(*self.form, OpForm::Pointwise(_) | OpForm::Cast(_))
    }

    /// Sizes and dtypes of its results.
    ///
    /// # Errors
    /// Operands that it does not take.
    pub fn infer_types(&self, inputs: &[TensorType]) -> Result<Vec<TensorType>> {
        zellige_calls::record_call!();
        self.form.infer_types(inputs)
    }

    /// The dimensions of operand 0, of this size, that it works along: those that are reduced, or make up a line. None
    /// for an operation on single elements.
    pub fn working_dims(&self, size: &[usize]) -> Option<PerDimension<usize>> {
        match &*self.form {
            OpForm::Reduce(op) => op.reduced_dims(size.len()).ok(),
            OpForm::Softmax(op) => op.0.line_dims(size).ok(),
            OpForm::Norm(op) => op.0.line_dims(size).ok(),
            OpForm::Scan(op) => op.0.line_dims(size).ok(),
            OpForm::Pick(op) => op.0.line_dims(size).ok(),
            OpForm::Quantile(op) => op.0.line_dims(size).ok(),
            _ => None,
        }
    }

    /// The same operation with its only result in the place of an operand, and which one; none for
    /// operations that write all of their result anyway. What it does not change is not touched.
    pub fn overwriting_form(&self) -> Option<(usize, TensorOp)> {
        let form = match &*self.form {
            OpForm::IndexWrite(op) => {
                OpForm::IndexWrite(crate::IndexWrite { over: true, ..op.clone() })
            }
            OpForm::SliceScatter(op) => {
                let mut op = op.clone();
                op.rule.over = true;
                OpForm::SliceScatter(op)
            }
            _ => return None,
        };
        Some((0, TensorOp { form: Arc::new(form), ..self.clone() }))
    }

    /// An address that no other live operation has; clones share it.
    pub fn unique_address(&self) -> usize {
        // Forms are compared by address because comparing attributes would take longer than a small operation; a
        // live operation keeps its address.
        Arc::as_ptr(&self.form).cast::<()>() as usize
    }
}

impl fmt::Debug for TensorOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.row.name, self.form)
    }
}

/// The name that shares the most with another.
fn nearest_name(name: &str) -> Option<&'static str> {
    let common = |a: &str, b: &str| a.chars().zip(b.chars()).take_while(|(x, y)| x == y).count();
    let best = rows::all_rows().map(|e| (common(e.name, name), e.name));
    // Of names that share as much, the shortest.
    let key = |(n, name): &(usize, &str)| (*n, std::cmp::Reverse(name.len()));
    // Fewer common letters are chance, and a hint would mislead.
    best.filter(|(n, _)| *n >= 3).max_by_key(key).map(|(_, name)| name)
}
