//! Kernels.

mod io;
mod walk;
