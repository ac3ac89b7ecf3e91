//! What can be wrong with a graph.

use std::ops::Range;

/// The result of every fallible function of this crate.
pub type Result<T, E = GraphError> = std::result::Result<T, E>;

/// A refused graph: what is wrong, in which operation, and where that is written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", zellige_notation::make_lines_visible(&format!("{}{message}", error_prefix(op, operand)), false))]
pub struct GraphError {
    /// A stable identifier for programs.
    pub kind: &'static str,
    /// What is wrong and what would be accepted.
    pub message: String,
    /// The operation: its first result and its name.
    pub op: Option<String>,
    /// The operand, from 0.
    pub operand: Option<usize>,
    /// The bytes of the text that it is about, where the graph came from one.
    pub span: Option<Range<usize>>,
}

fn error_prefix(op: &Option<String>, operand: &Option<usize>) -> String {
    match (op, operand) {
        (Some(op), Some(k)) => format!("{op}, operand {k}: "),
        (Some(op), None) => format!("{op}: "),
        _ => String::new(),
    }
}

impl GraphError {
    pub(crate) fn new(kind: &'static str, message: impl Into<String>) -> GraphError {
        GraphError { kind, message: message.into(), op: None, operand: None, span: None }
    }

    pub(crate) fn with_op(self, op: impl Into<String>) -> GraphError {
        GraphError { op: self.op.or(Some(op.into())), ..self }
    }

    pub(crate) fn with_operand(self, operand: usize) -> GraphError {
        GraphError { operand: Some(operand), ..self }
    }

    pub(crate) fn with_span(self, span: &Range<usize>) -> GraphError {
        GraphError { span: self.span.or(Some(span.clone())), ..self }
    }
}

impl From<zellige_op::OpError> for GraphError {
    fn from(e: zellige_op::OpError) -> GraphError {
        use zellige_op::OpError::{BadAttribute, BadOperand};
        let kind = e.kind();
        // The operation is named by what it is part of here.
        let (operand, message) = match e {
            BadOperand { operand, reason, .. } => (operand, reason),
            BadAttribute { name, reason, .. } => (None, format!("attribute `{name}`: {reason}")),
            other => (None, other.to_string()),
        };
        GraphError { operand, ..GraphError::new(kind, message) }
    }
}

impl From<zellige_layout::LayoutError> for GraphError {
    fn from(e: zellige_layout::LayoutError) -> GraphError {
        GraphError::new(e.kind(), e.to_string())
    }
}

impl From<zellige_stick::StickError> for GraphError {
    fn from(e: zellige_stick::StickError) -> GraphError {
        GraphError::new(e.kind(), e.to_string())
    }
}

impl From<zellige_float::UnknownDtype> for GraphError {
    fn from(e: zellige_float::UnknownDtype) -> GraphError {
        GraphError::new(e.kind(), e.to_string())
    }
}
