//! The figures of a GPU by which kernels are chosen.

use crate::choose::KernelCosts;
use crate::error::CudaError;

/// A GPU.
#[derive(Debug, Clone, PartialEq)]
pub struct Gpu {
    /// The name that is printed.
    pub name: &'static str,
    /// Streaming multiprocessors.
    pub sms: u32,
    /// Bytes per second that a copy inside the memory reads and writes together.
    pub bandwidth: f64,
    /// Seconds between the launch of an empty kernel and its end.
    pub launch_seconds: f64,
    /// Clocks per second of a multiprocessor.
    pub clock: f64,
    /// Bytes of shared memory that a block may take. More than [`Gpu::DECLARED_SHARED_BYTES`] is requested at the launch.
    pub shared: i64,
    /// The same for blocks whose tile is skewed.
    pub skewed_shared: i64,
    /// The constants of the estimate by which kernels are chosen.
    pub costs: KernelCosts,
    /// The source of the figures.
    pub source: &'static str,
}

impl Gpu {
    /// Bytes of shared memory that a kernel may declare statically (CUDA C++ Programming Guide, "Shared Memory": 48 KiB).
    pub const DECLARED_SHARED_BYTES: i64 = 48 << 10;

    /// Bytes of shared memory that a block with such a tile may take.
    pub(crate) fn max_shared_bytes(&self, skewed: bool) -> i64 {
        if skewed { self.skewed_shared } else { self.shared }
    }

    /// NVIDIA H200, sm_90.
    pub const H200: Gpu = Gpu {
        name: "NVIDIA H200",
        sms: 132,
        bandwidth: 4.15e12,
        launch_seconds: 3e-6,
        clock: 1.75e9,
        // 228 KiB of a multiprocessor hold three such blocks. Measured on 18 November 2026: a transpose of bytes went from
        // 0.91 to 0.95 of a copy with tiles of 64 KiB.
        shared: 75 << 10,
        // Measured on the same day: larger skewed tiles read fewer rows twice, and are not faster.
        skewed_shared: Gpu::DECLARED_SHARED_BYTES,
        // Fitted by `bench/gpu_kernels.py` to the times of candidates for many moves, most of them at once; single values
        // have no measurement of their own. 18 November 2026.
        costs: KernelCosts {
            read_run: 7.0,
            write_run: 8.0,
            rest_near: 0.1,
            rest_far: 0.9,
            part_sector: 100.0,
            rows: 1.05,
            squares: 1.13,
            tiles: 1.0,
            large: 0.005,
            large_bytes: 9000.0,
            again: 0.7,
            small_bytes: 950.0,
            last_wave: 0.25,
            shared_bytes: 128.0,
            gather: 4.0,
            flight: 32.0,
        },
        source: "measured",
    };
}

/// The alignment of the two addresses of a launch: the bytes of which they are multiples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LaunchAlignment {
    src: u32,
    dst: u32,
}

impl LaunchAlignment {
    /// Both addresses are multiples of 16 bytes.
    pub const FULL: LaunchAlignment = LaunchAlignment { src: 16, dst: 16 };

    /// Multiples of 1, 2, 4, 8 or 16 bytes.
    ///
    /// # Errors
    /// [`CudaError::Alignment`] for anything else.
    pub fn new(src: u64, dst: u64) -> Result<LaunchAlignment, CudaError> {
        let one = |bytes: u64| match u32::try_from(bytes) {
            Ok(b @ (1 | 2 | 4 | 8 | 16)) => Ok(b),
            _ => Err(CudaError::Alignment(bytes)),
        };
        Ok(LaunchAlignment { src: one(src)?, dst: one(dst)? })
    }

    /// The alignment of two addresses, up to 16.
    pub fn of_addresses(src: u64, dst: u64) -> LaunchAlignment {
        // No access is wider than 16 bytes, so a better alignment gains nothing and would only make more kernels.
        let one = |address: u64| 1 << address.trailing_zeros().min(4);
        LaunchAlignment { src: one(src), dst: one(dst) }
    }

    /// Bytes of which the source address is a multiple.
    pub fn src_alignment(self) -> u32 {
        self.src
    }

    /// Bytes of which the destination address is a multiple.
    pub fn dst_alignment(self) -> u32 {
        self.dst
    }
}
