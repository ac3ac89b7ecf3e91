//! What a plan becomes on a GPU.

use crate::error::CudaError;
use crate::gpu::{Alignment, Gpu};
use zellige_movement::{Dtypes, Plan};

/// A plan as CUDA C++ with constants, and the launches that run it.
///
/// **Law**: the launches, in their order on one stream, do to the destination what [`zellige_movement::Mover::run`]
/// does with the same plan, dtypes and fill, and touch no other byte; the source is only read, and never outside
/// of what the plan reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    source: String,
    launches: Vec<Launch>,
}

/// One launch of a kernel of [`Program::source`]. Every kernel takes
/// `(const unsigned char* src, unsigned char* dst)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// The name of the `extern "C"` function.
    pub name: String,
    /// Blocks, all in x.
    pub grid: u64,
    /// Threads of a block, all in x.
    pub block: u32,
    /// Bytes of dynamic shared memory. More than [`Gpu::shared_per_block`] needs the attribute
    /// `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES` of the function.
    pub shared: u32,
}

impl Program {
    /// The program of a plan for elements of these types. `fill` is the element that is written to the plan's
    /// fills, `None` leaves them as they are. `align` is what is known of the two addresses.
    ///
    /// # Errors
    /// [`CudaError::Move`] with what the engine for the CPU says of widths that are not moved, a fill of another
    /// width than an element, sizes past memory.
    pub fn new(
        _plan: &Plan,
        _dtypes: Dtypes,
        _fill: Option<&[u8]>,
        _align: Alignment,
        _gpu: &Gpu,
    ) -> Result<Program, CudaError> {
        Ok(Program { source: String::new(), launches: Vec::new() })
    }

    /// The text: compiles by NVRTC without any header; `extern "C" __global__` functions.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The launches, in order, on one stream. None where there is nothing to move.
    pub fn launches(&self) -> &[Launch] {
        &self.launches
    }
}
