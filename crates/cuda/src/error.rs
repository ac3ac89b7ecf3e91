//! The reasons why a plan does not become a kernel.

use zellige_movement::MoveError;

/// A plan that does not become a kernel. The messages are those of the CPU engine where it refuses too.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CudaError {
    /// A move that the engine for the CPU refuses as well.
    #[error(transparent)]
    Move(#[from] MoveError),
    /// An alignment that is no width of an access.
    #[error("an address is known to be a multiple of {0} bytes; accepted are 1, 2, 4, 8 and 16")]
    Alignment(u64),
    /// A plan with more starts than the text of a kernel has room for.
    #[error(
        "the plan has {entries} starts that no loop describes, and a kernel has at most {limit}"
    )]
    Scattered {
        /// Starts of one nest.
        entries: usize,
        /// Starts that a kernel may have.
        limit: usize,
    },
    /// More blocks than one launch has.
    #[error("the move needs {0} blocks, and a launch has at most 2147483647")]
    TooManyBlocks(u128),
}
