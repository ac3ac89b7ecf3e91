//! Moves on a GPU: a plan as a CUDA kernel.
//!
//! [`CudaProgram::new`] makes of a [`zellige_movement::MovePlan`] CUDA C++ that NVRTC compiles without any header, and
//! the launches that run it. `docs/engine.md` says how its kernels are chosen, `docs/gpu.md` how they are used.
//!
//! # What it may not do
//! Need a GPU, a driver or a compiler of CUDA to build or to test.

pub mod analysis;
mod choose;
pub mod description;
mod digits;
mod error;
mod formats;
mod gpu;
pub mod interpret;
mod padded;
mod plans;
mod print;
mod program;
mod rows;
mod squares;
mod swizzle;
mod tile;
mod tile_part;
mod tile_store;

#[cfg(unix)]
pub mod driver;

pub use choose::KernelCosts;
pub use error::CudaError;
pub use gpu::{Gpu, LaunchAlignment};
pub use plans::plan_moves;
pub use program::{CudaProgram, KernelLaunch, ProgramPiece};
