//! The compiler: from a graph to a program of the card.
//!
//! [`compile_graph`] runs [`PASSES`] in order; each takes what the one before it made and returns the next value, and
//! [`print_pass`] shows any of them.
//!
//! | pass | takes | returns |
//! |---|---|---|
//! | [`decompose_graph`](mod@decompose), [`fold_graph`](mod@fold) | a graph | a graph |
//! | [`propagate`] | a graph | candidates: the layouts that tensors and operations may have |
//! | [`choose`] | candidates | an assignment: one layout each |
//! | `lower` | an assignment | steps and buffers, with restickifies |
//! | `divide::reduce_step_spans` | those | the divisions that each step may have |
//! | `divide::distribute_work` | those | one division each, and what scratchpads may keep |
//! | `waves` | those | which steps run at the same time |
//! | `scratchpads`, `pool` | those | an address for every buffer |
//! | `schedule` | those | a [`CompiledProgram`] |
//!
//! Beside the passes stand [`solve`], the solvers of plain problems that they use; [`check_program`], which looks at a
//! program without any of their code; [`padding`] and [`report`], which compute what a program means; and
//! [`emit`], which writes it down for other tools.
//!
//! ```
//! use zellige_compile::Policy;
//! use zellige_compile::solve::division::{self as divide, OpSizes};
//! use zellige_machine::Hardware;
//! use zellige_float::Dtype;
//! let card = Hardware::card();
//! let space = divide::space(&OpSizes::matmul(2048, 2048, 2048), Dtype::Float16)?;
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
mod divide;
pub mod emit;
mod error;
mod evaluate;
pub mod fold;
mod lower;
mod options;
pub mod padding;
mod passes;
mod placement;
mod pool;
mod program;
pub mod propagate;
mod rebuild;
pub mod report;
mod schedule;
mod scratchpads;
mod single_pins;
pub mod solve;
mod split_views;
mod waves;

pub use check::check_program;
pub use compile::{compile_again, compile_graph, print_pass};
pub use decisions::CompileDecisions;
pub use decompose::decompose_graph;
pub use error::{CompileError, RefusalWitness, Result};
pub use fold::fold_graph;
pub use options::{
    BadVariable, CompilePolicy, CompilerOptions, OutputLayoutRule, WeightLayoutRule,
};
pub use passes::{CompilerPass, PASSES};
pub use program::{
    BufferId, BufferLocation, BufferRead, CompiledProgram, ElementOrigin, ProgramBuffer,
    ProgramStep, StepAction, StepId,
};
pub use single_pins::TriedPins;
