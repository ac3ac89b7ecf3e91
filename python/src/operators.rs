//! CuTe's operators on `zellige.Layout`: the same names, the same nesting of results.

use crate::error;
use crate::layout::PyLayout;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use serde_json::{Value, json};
use zellige_ask::answer_line;
use zellige_notation::{Notation, convert as between};

impl PyLayout {
    /// The layout as CuTe writes it.
    fn cute_text(&self) -> PyResult<String> {
        let cute = Notation::CUTE;
        if self.parsed.notation() == cute {
            return Ok(self.layout_text());
        }
        between::translate_notation(&self.parsed, &self.shape, None, cute)
            .map_err(|e| error::refusal_error(&e))
    }

    /// An operator with this layout as its first operand.
    pub(crate) fn apply_operator(&self, op: &str, fields: &[(&str, Value)]) -> PyResult<PyLayout> {
        let first = if matches!(op, "coalesce" | "complement" | "right_inverse" | "left_inverse") {
            "layout"
        } else {
            "a"
        };
        let mut request = json!({"op": op, "notation": "cute"});
        request[first] = json!(self.cute_text()?);
        for (name, value) in fields {
            request[*name] = value.clone();
        }
        let reply: Value = serde_json::from_str(&answer_line(&request.to_string()))
            .map_err(|e| error::LayoutError::new_err(format!("the answer is not JSON: {e}")))?;
        match (&reply["ok"]["layout"], &reply["error"]["message"]) {
            (Value::String(text), _) => PyLayout::read_text(text, None, Some("cute")),
            (_, Value::String(message)) => Err(error::LayoutError::new_err(message.clone())),
            _ => Err(error::LayoutError::new_err("the operator gave no layout")),
        }
    }

    /// The same with a second operand: a layout, or a list or tuple of one for each mode, of which numbers are
    /// modes without gaps.
    pub(crate) fn apply_operator_with(
        &self,
        op: &str,
        other: &Bound<'_, PyAny>,
    ) -> PyResult<PyLayout> {
        let modes: Option<Vec<Bound<'_, PyAny>>> = match other.cast::<PyList>() {
            Ok(list) => Some(list.iter().collect()),
            Err(_) => other.cast::<PyTuple>().ok().map(|tuple| tuple.iter().collect()),
        };
        let text = |value: &Bound<'_, PyAny>| -> PyResult<String> {
            match value.extract::<i64>() {
                Ok(n) => Ok(format!("{n}:1")),
                Err(_) => match value.extract::<String>() {
                    Ok(text) => PyLayout::read_text(&text, None, None)?.cute_text(),
                    Err(_) => PyLayout::from_any(value, None)?.cute_text(),
                },
            }
        };
        match modes {
            Some(modes) => {
                let tiler = modes.iter().map(text).collect::<PyResult<Vec<_>>>()?;
                self.apply_operator(op, &[("tiler", json!(tiler))])
            }
            None => self.apply_operator(op, &[("b", json!(text(other)?))]),
        }
    }
}
