//! Errors: a library that is missing, or a call that the driver refused.

/// A kernel that cannot be compiled, loaded or launched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DriverError {
    /// The driver is not installed, or too old.
    #[error("moves on a GPU need NVIDIA's driver, and it cannot be loaded: {0}")]
    NoDriver(String),
    /// The driver is there and has no such device.
    #[error("there is no CUDA device {ordinal}: the driver has {count}")]
    NoDevice {
        /// The number that was requested.
        ordinal: i32,
        /// Devices that there are.
        count: i32,
    },
    /// The compiler is not installed.
    #[error(
        "moves on a GPU need NVIDIA's compiler NVRTC, and it cannot be loaded: install the package \
         nvidia-cuda-nvrtc from PyPI, or name the file libnvrtc.so by ZELLIGE_NVRTC ({0})"
    )]
    NoNvrtc(String),
    /// A call of the driver that failed.
    #[error("the CUDA driver refused {call}: {what}")]
    Driver {
        /// The function.
        call: &'static str,
        /// The driver's name for the error, and its message.
        what: String,
    },
    /// A call of the compiler that failed.
    #[error("NVRTC refused {call}: {what}")]
    Nvrtc {
        /// The function.
        call: &'static str,
        /// The compiler's message for the error.
        what: String,
    },
    /// A text that does not compile, which is a defect of this crate.
    #[error("a kernel of zellige does not compile for {target}, please report it: {log}")]
    Compile {
        /// The architecture.
        target: String,
        /// The compiler's messages.
        log: String,
    },
    /// More blocks than a launch has.
    #[error("the move needs {0} blocks, and a launch has at most 2147483647")]
    TooManyBlocks(u64),
}
