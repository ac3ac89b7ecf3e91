//! Running compiled programs on a simulated card.
//!
//! A [`LoadedModel`] is a program loaded onto a card: constants and weights are written in the layouts that
//! the program wants, once. A run takes the other inputs, does the steps in their order and gives the
//! outputs; states stay on the card.
//!
//! **Laws.**
//! - What a step does on the card is what the plan says: the work of every launch is compared with the
//!   planned one, and a difference is an error.
//! - A run is as long as the plan says, every time.
//! - With `ZELLIGE_CHECK=1` in the environment, a program is loaded only if the independent check
//!   ([`check_program`](zellige_compile::check_program)) accepts it.
//! - The numbers are those of the same operations one by one, bit for bit, where the divisions split the
//!   same reductions.
//!
//! ```
//! use zellige_compile::{CompilerOptions, compile_graph};
//! use zellige_device::Card;
//! use zellige_run::{HostArray, LoadedModel};
//! let graph = zellige_graph::text::parse("graph twice(x: float32[2, 3]) { y = add(x, x) return y }")?;
//! let program = compile_graph(&graph, &CompilerOptions::default())?;
//! let card = Card::builder().build()?;
//! let mut model = LoadedModel::load_program(program, &card, |_| unreachable!("it has no weights"))?;
//! let x = HostArray::from_f32(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
//! let run = model.run_program(|_| Ok(x.clone()))?;
//! assert_eq!(run.outputs[0].to_f32()?, [2.0, 4.0, 6.0, 8.0, 10.0, 12.0]);
//! assert_eq!(run.latency, model.program().latency());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What it may not do
//! Choose anything: layouts, divisions and places are the program's.

#![forbid(unsafe_code)]

mod error;
mod host_array;
mod model;
mod numbers;
mod timeline;
mod uncompiled;

pub use error::{ProgramRunError, Result};
pub use host_array::HostArray;
pub use model::{BundleCounts, CHECK_VARIABLE, LoadedModel, RunOutcome};
pub use numbers::{NumberLoss, NumberLossKind};
pub use timeline::program_timeline;
pub use uncompiled::run_graph_eagerly;
