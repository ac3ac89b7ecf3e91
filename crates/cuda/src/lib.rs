//! Moves on a GPU: a plan as a CUDA kernel.
//!
//! [`Program::new`] turns a [`zellige_movement::Plan`] into CUDA C++ that compiles by NVRTC without any header, and
//! the launches that run it.
//!
//! # What it may not do
//! Need a GPU, a driver or a compiler of CUDA to build or to test.

mod error;
mod gpu;
mod plans;
mod program;

#[cfg(unix)]
pub mod driver;

pub use error::CudaError;
pub use gpu::{Alignment, Gpu};
pub use plans::plans;
pub use program::{Launch, Program};
