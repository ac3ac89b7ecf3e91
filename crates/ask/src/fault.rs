//! What is wrong with a request, as data.

use crate::json::place_json;
use serde_json::{Value, json};
use zellige_float::UnknownDtype;
use zellige_guard::StopReason;
use zellige_layout::{AxisTable, LayoutError, LayoutWitness};
use zellige_notation::json::JsonError;
use zellige_notation::{Diagnostic, ParsedText, all_readings, tirx};
use zellige_stick::StickError;

/// A refused request: a kind for programs, a message for people, a witness where there is one.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestFault {
    /// A stable identifier in snake case.
    pub kind: &'static str,
    /// One line.
    pub message: String,
    /// The place it points at; null where there is none.
    pub witness: Value,
}

impl RequestFault {
    pub(crate) fn new(kind: &'static str, message: impl Into<String>) -> RequestFault {
        RequestFault { kind, message: message.into(), witness: Value::Null }
    }

    pub(crate) fn invalid_json(e: &serde_json::Error) -> RequestFault {
        RequestFault {
            kind: "json",
            message: format!("the line is not JSON: {e}"),
            witness: json!({"column": e.column()}),
        }
    }

    /// A field of the wrong type.
    pub(crate) fn wrong_type(what: &str, expected: &str, found: &Value) -> RequestFault {
        // Cut, because the wrong value may be a whole tensor.
        let shown = clip_text(&found.to_string(), 80);
        RequestFault {
            kind: "bad_request",
            message: format!("{what} must be {expected}, found {shown}"),
            witness: json!({"field": what.trim_matches('`')}),
        }
    }

    /// A text that could not be read: the place in it is the witness.
    pub(crate) fn unreadable_text(field: &str, text: &str, d: &Diagnostic) -> RequestFault {
        RequestFault {
            kind: d.kind(),
            message: format!("`{field}`: {d}"),
            witness: json!({
                "field": field,
                "span": [d.span.start, d.span.end],
                "rendered": d.render(text, false),
            }),
        }
    }

    /// The same with every reading of the text, where several notations read it.
    pub(crate) fn with_readings(
        mut self,
        d: &Diagnostic,
        text: &str,
        axes: &AxisTable,
    ) -> RequestFault {
        if d.id == "Z007" {
            let reading = |p: &ParsedText| {
                json!({
                    "notation": p.notation().name(),
                    "title": p.notation().short_description(),
                    "layout": p.layout_over_shape(None).ok().map(|l| tirx::print_tirx(&l)),
                })
            };
            let all: Vec<Value> = all_readings(text, axes).iter().map(reading).collect();
            self.witness["readings"] = json!(all);
        }
        self
    }

    /// A JSON layout that could not be read.
    pub(crate) fn unreadable_layout_json(field: &str, e: &JsonError) -> RequestFault {
        RequestFault {
            kind: e.cause.as_ref().map_or("bad_request", |c| c.kind()),
            message: format!("`{field}`: {e}"),
            witness: json!({"field": field, "path": e.path}),
        }
    }

    /// Its JSON.
    pub fn to_json(&self) -> Value {
        json!({"kind": self.kind, "message": clip_text(&self.message, 2000), "witness": self.witness})
    }
}

/// A text that may quote the request, cut to a number of bytes, with the number of bytes that are left out.
pub(crate) fn clip_text(text: &str, bytes: usize) -> String {
    if text.len() <= bytes {
        return text.into();
    }
    // At a character, because the answer must be UTF-8.
    let cut = text.floor_char_boundary(bytes);
    format!("{}… ({} more bytes)", &text[..cut], text.len() - cut)
}

impl From<StopReason> for RequestFault {
    fn from(stopped: StopReason) -> RequestFault {
        let witness = match &stopped {
            StopReason::Time { limit } => json!({"limit_s": limit.as_secs_f64()}),
            StopReason::Memory { limit, needed } => json!({"limit_bytes": limit, "bytes": needed}),
            StopReason::Panic { place, .. } => json!({"place": place}),
        };
        RequestFault { kind: stopped.kind(), message: stopped.to_string(), witness }
    }
}

impl From<StickError> for RequestFault {
    fn from(e: StickError) -> RequestFault {
        let witness = match e.witness() {
            None => Value::Null,
            Some(LayoutWitness::Index(i)) => json!({"index": i}),
            Some(LayoutWitness::Coordinate(c)) => json!({"coord": c}),
            Some(LayoutWitness::Pair(a, b)) => json!({"pair": [a, b]}),
            Some(LayoutWitness::Dim(d)) => json!({"dim": d}),
            Some(LayoutWitness::Place(p)) => json!({"place": place_json(&p)}),
            Some(LayoutWitness::Name(n)) => json!({"name": n}),
        };
        RequestFault { kind: e.kind(), message: e.to_string(), witness }
    }
}

impl From<LayoutError> for RequestFault {
    fn from(e: LayoutError) -> RequestFault {
        StickError::from(e).into()
    }
}

impl From<UnknownDtype> for RequestFault {
    fn from(e: UnknownDtype) -> RequestFault {
        StickError::from(e).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_has_its_readings() {
        let (axes, text) = (AxisTable::new(), "(8,4):(4,1)");
        let asked =
            Diagnostic::syntax_error(0..11, "the text can be read as ..", "which").with_id("Z007");
        let fault = RequestFault::unreadable_text("layout", text, &asked)
            .with_readings(&asked, text, &axes);
        let reading = json!({"notation": "cute", "title": "CuTe shape and stride", "layout": "S[(8,4):(4,1)]"});
        assert_eq!(fault.witness["readings"], json!([reading]));
        let refused = Diagnostic::syntax_error(0..11, "no", "no");
        let fault = RequestFault::unreadable_text("layout", text, &refused)
            .with_readings(&refused, text, &axes);
        assert_eq!(fault.witness.get("readings"), None);
    }
}
