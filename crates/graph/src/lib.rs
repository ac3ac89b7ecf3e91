//! Graphs of tensor operations.
//!
//! A [`Graph`] is a list of operations over tensors, in an order in which each uses only what is
//! there: every tensor has a size and a dtype, views are strided maps onto the tensor they look at,
//! and the programmer may pin layouts and work divisions. A graph that exists is well-typed.
//!
//! ```
//! let text = "graph mlp(x: float16[64, 256], w: float16[256] @weight) {
//!     h = add(x, w)
//!     y = add(h, 1) pin stick 1
//!     return y
//! }";
//! let graph = zellige_graph::text::parse(text)?;
//! assert_eq!(graph.tensor("y").unwrap().size, [64, 256]);
//! assert_eq!(zellige_graph::text::parse(&zellige_graph::text::print_graph(&graph))?, graph);
//! # Ok::<(), zellige_notation::Diagnostic>(())
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`text`] | the readable form |
//! | [`json`] | the form of programs, with its schema |
//! | `build` | checks and inference, operation by operation |
//! | `op_call` | an operation with its attributes, for code that makes operations |
//! | `view` | views as strided maps |
//! | `source` | a graph as it is written, with sizes that are bound later |
//! | `format` | which of the formats a file holds |
//!
//! # What it may not do
//! Choose anything: layouts, divisions and places are the compiler's.

#![forbid(unsafe_code)]

mod build;
mod error;
mod format;
mod graph;
pub mod json;
mod op_call;
mod source;
pub mod text;
mod view;

pub use build::{GraphBuilder, GraphOperand};
pub use error::{GraphError, Result};
pub use format::GraphFormat;
pub use graph::{
    Graph, GraphNode, GraphTensor, InputRole, NodeId, RequestedMemory, SliceHints, TensorId,
    TensorOrigin,
};
pub use op_call::{DimNumber, OpCall};
pub use source::{GraphSource, SizeSymbol, SourceInput, SourceOp, SourceOutput, SymbolicSize};
pub use view::VIEW_OPS;
