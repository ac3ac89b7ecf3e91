//! The readable form of a graph.
//!
//! ```text
//! # Comments run to the end of the line.
//! graph decode[s in 1..4096](
//!     x: float16[1, 4096],
//!     cache: float16[s, 4096] @state pin stick 1,
//!     w: float16[4096, 4096] @weight pin order [1, 0],
//! ) {
//!     q = matmul(x, w)
//!     k = transpose(cache, dim0=0, dim1=1)
//!     scores = matmul(q, k) split {c0: 1, c1: 32} at "model.py:17"
//!     p = softmax(scores, dim=-1)
//!     return p
//! }
//! ```
//!
//! Operands are names and numbers; attributes are JSON values. A pin is `stick D`, `sparse`,
//! `order [..]` or a whole `SpyreTensorLayout(..)`. After it, `place lx` or `place memory` says in which memory
//! of the card the tensor is.

mod parse;
mod print;

pub use parse::parse_source;
pub use print::{print_graph, print_pin, print_source};

use crate::graph::Graph;
use std::collections::BTreeMap;
use zellige_notation::Diagnostic;

/// Reads a graph and binds its symbols to their largest values.
///
/// # Errors
/// A diagnostic that underlines the place.
pub fn parse(text: &str) -> Result<Graph, Diagnostic> {
    parse_and_bind(text, &BTreeMap::new())
}

/// Reads a graph and binds its symbols.
///
/// # Errors
/// A diagnostic that underlines the place.
pub fn parse_and_bind(text: &str, values: &BTreeMap<String, i64>) -> Result<Graph, Diagnostic> {
    parse_source(text)?.bind_symbols(values).map_err(|e| to_diagnostic(&e))
}

/// An error of the graph as one of its text.
pub fn to_diagnostic(e: &crate::GraphError) -> Diagnostic {
    let span = e.span.clone().unwrap_or(0..0);
    Diagnostic::syntax_error(span, e.to_string(), "here").with_id("Z100")
}
