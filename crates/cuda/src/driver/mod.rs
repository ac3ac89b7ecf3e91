//! The launcher: NVIDIA's driver and its run-time compiler, both loaded when the first kernel is asked for.
//!
//! Nothing here is needed to build, nor to run on a machine without a GPU: a library that is not there is one
//! sentence in [`DriverError`]. The way of a program:
//!
//! 1. `compile_cached`: CUDA C++ into machine code, by NVRTC; a second time it comes from the cache of `zellige-files`
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
