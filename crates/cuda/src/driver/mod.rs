//! The launcher: NVIDIA's driver and its run-time compiler, both loaded with the first kernel.
//!
//! Neither is needed to build, or to run on a machine without a GPU: a library that is missing is one sentence of
//! [`DriverError`]. A program passes these steps:
//!
//! 1. `compile_cached`: CUDA C++ becomes machine code, by NVRTC; the second time it is read from the cache of
//!    `zellige-files`
//! 2. [`CudaDevice::load_kernels`]: the machine code as a module of the device's primary context, which PyTorch, CuPy and
//!    JAX use as well; kept in memory, once for every text
//! 3. [`LoadedKernels::launch_all`]: on a stream of the caller, without waiting for anything

mod compile;
mod cuda;
mod device;
mod error;
mod kernels;
mod library;
mod nvrtc;

pub use compile::{KernelImage, compile_cached};
pub use device::CudaDevice;
pub use error::DriverError;
pub use kernels::LoadedKernels;
pub use nvrtc::{Nvrtc, add_search_folders};
