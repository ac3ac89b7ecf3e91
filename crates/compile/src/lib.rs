//! The compiler: from a graph to a program of the card.
//!
//! [`compile_graph`] runs [`PASSES`] in order, and [`print_pass`] shows what any of them made. From lowering on, a
//! program is one context with a column for each pass (`draft`), which the search for layouts fills by the same chain
//! of passes (`chain`) as the compilation itself.
//!
//! | pass | takes | returns |
//! |---|---|---|
//! | [`decompose_graph`](mod@decompose), [`fold_graph`](mod@fold), `split_views` | a graph | a graph |
//! | [`propagate`] | a graph | candidates: the layouts that tensors and operations may have |
//! | [`choose`] | candidates | an assignment: one layout each |
//! | `lower` | an assignment | steps and buffers, with restickifies |
//! | `divide::reduce_step_spans` | those | with the divisions that each step may have |
//! | `divide::distribute_work` | those | with one division each, and what scratchpads may keep |
//! | `waves` | those | with the wave and the cores of every step |
//! | `scratchpads`, `pool` | those | with an address for every buffer |
//! | `schedule` | those and the assignment | a [`CompiledProgram`] |
//!
//! Beside the passes there are [`solve`], the solvers of plain problems that they use; [`check_program`], which looks
//! at a program without any of their code; [`padding`] and [`report`], which compute what a program means; and
//! [`emit`], which writes it down for other tools.
//!
//! ```
//! use zellige_compile::CompilePolicy;
//! use zellige_compile::solve::division::{
//!     OpSizes, build_iteration_space, check_division, divide_iterations,
//! };
//! use zellige_machine::Hardware;
//! use zellige_float::Dtype;
//! let card = Hardware::card_preset();
//! let space = build_iteration_space(&OpSizes::matmul(2048, 2048, 2048), Dtype::Float16)?;
//! let plan = divide_iterations(&space, &card, 32, CompilePolicy::Baseline, &[])?;
//! assert_eq!(plan.splits, [4, 8, 1]);
//! let best = divide_iterations(&space, &card, 32, CompilePolicy::Best, &[])?;
//! assert!(best.latency_us <= plan.latency_us);
//! check_division(&space, &card, 32, &best)?;
//! # Ok::<(), zellige_compile::CompileError>(())
//! ```
//!
//! # What it may not do
//! Execute, draw, touch files or threads: it also builds for `wasm32-unknown-unknown`.

#![forbid(unsafe_code)]

mod bundles;
mod chain;
mod check;
pub mod choose;
mod compile;
mod decisions;
pub mod decompose;
mod divide;
mod draft;
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
    BufferId, BufferLocation, BufferRead, BundleId, BundleKind, CompiledProgram, ElementOrigin,
    ProgramBuffer, ProgramBundle, ProgramStep, StepAction, StepId,
};
pub use single_pins::TriedPins;
