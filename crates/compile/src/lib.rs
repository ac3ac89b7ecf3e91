//! The passes of the compiler, as functions over plain data.
//!
//! | module | decides |
//! |---|---|
//! | [`decompose`](mod@decompose) | what composite operations are made of |
//! | [`fold`](mod@fold) | what need not be computed, or only once |
//! | [`choose`] | one alternative for every operation, at the least total cost |
//! | [`pad`] | what lies in the padding, and what that costs |
//! | [`divide`] | which part of an operation each core takes |
//! | [`place`] | where buffers live in a scratchpad, or in device memory |
//! | [`report`] | nothing: what was decided, why, and what it costs, as data |
//! | [`emit`] | how a program is written down for other tools |
//!
//! [`compile`] runs them in order on a graph and gives a [`Program`]. The optimizers know no graph: they
//! take sizes, layouts and lifetimes, and answer with a plan and the reason for it. Beside every pass stands a checker that recomputes what the plan claims and shares no
//! code with the search that found it.
//!
//! ```
//! use zellige_compile::divide::{self, Form, Policy};
//! use zellige_machine::Hardware;
//! use zellige_layout::Dtype;
//! let card = Hardware::card();
//! let space = divide::space(&Form::matmul(2048, 2048, 2048), Dtype::Float16)?;
//! let plan = divide::divide(&space, &card, 32, Policy::Baseline, &[])?;
//! assert_eq!(plan.splits, [4, 8, 1]);
//! let best = divide::divide(&space, &card, 32, Policy::Best, &[])?;
//! assert!(best.latency_us <= plan.latency_us);
//! divide::check(&space, &card, 32, &best)?;
//! # Ok::<(), zellige_compile::CompileError>(())
//! ```
//!
//! # What it may not do
//! Execute, draw, touch files or threads: it also builds for `wasm32-unknown-unknown`.

#![forbid(unsafe_code)]

mod check;
pub mod choose;
mod compile;
mod decisions;
pub mod decompose;
pub mod divide;
pub mod emit;
mod error;
pub mod fold;
mod lower;
mod options;
pub mod pad;
pub mod place;
mod program;
pub mod propagate;
mod rebuild;
pub mod report;
mod schedule;
mod scratchpad;

pub use check::check;
pub use compile::{compile, compile_again};
pub use decisions::Decisions;
pub use decompose::decompose;
pub use error::{CompileError, Result, Witness};
pub use fold::fold;
pub use options::{Options, Outputs, Weights};
pub use program::{Action, Buffer, BufferId, Origin, Place, Program, Read, Step, StepId};
