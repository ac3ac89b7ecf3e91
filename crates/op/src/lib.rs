//! One operation, one row: what an operation takes, what it gives, and what it is called elsewhere.
//!
//! A row of the table ([`OpRow`]) says everything that is decided by the name of an operation: its operands and
//! attributes, how torch-spyre runs it, which number its padding must hold, whether the compiler decomposes it, its
//! function in SuperDSC, its tile program in KTIR, its names in ONNX and PyTorch. A [`TensorOp`] is a row with attributes;
//! its [`OpForm`] is what it computes, as data, and infers sizes and dtypes of results.
//!
//! ```
//! use zellige_op::{TensorOp, TensorType};
//! use zellige_float::Dtype;
//! let op = TensorOp::new("sum", &serde_json::json!({"dim": 1}))?;
//! let x = TensorType { size: vec![3, 5], dtype: Dtype::Int32 };
//! assert_eq!(op.infer_types(&[x])?[0], TensorType { size: vec![3], dtype: Dtype::Int64 });
//! assert_eq!((op.row().neutral, op.row().superdsc.map(|f| f.function)), (Some(0.0), Some("sum")));
//! # Ok::<(), zellige_op::OpError>(())
//! ```
//!
//! | file | holds |
//! |---|---|
//! | `rows/` | the table, one file per family |
//! | `row`, `torch_operator` | the columns; names in PyTorch |
//! | `forms/` | what operations compute, and inference |
//! | `promotion`, `dims` | promotion and broadcasting; dimensions by number |
//! | `attributes`, `scalar`, `literal` | attributes and numbers as people write them |
//! | `coverage` | what runs where, and which dtypes are taken |
//!
//! # What it may not do
//! Compute, or know a card: kernels are in `zellige-device`.

#![forbid(unsafe_code)]

mod attributes;
mod coverage;
mod dims;
mod dtype;
mod error;
#[allow(missing_docs, reason = "fields are the attributes of the rows")]
mod forms;
mod literal;
mod op;
mod promotion;
mod row;
mod rows;
mod scalar;
mod tensor_type;
mod tile_program;
mod torch_operator;

pub use coverage::{CoverageProfile, OpCoverage, UpstreamLayer};
pub use dims::PerDimension;
pub use dtype::{check_host_dtype, dtype_category, is_float};
pub use error::{OpError, Result, refuse_operand};
pub use forms::*;
pub use literal::NumberLiteral;
pub use op::TensorOp;
pub use promotion::{broadcast_sizes, promote_dtypes};
pub use row::{OpDecomposition, OpRow, SuperDsc, TileProgram};
pub use scalar::HostScalar;
pub use tensor_type::TensorType;
pub use tile_program::TileExpression;
pub use torch_operator::{TorchArgument, TorchOperator, TorchRole};
