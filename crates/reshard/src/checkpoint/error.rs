//! Errors about a checkpoint or the text of its rules.

use zellige_files::RelayoutError;
use zellige_notation::make_visible;

/// The result of every fallible operation on checkpoints.
pub type Result<T, E = CheckpointError> = std::result::Result<T, E>;

/// A refused plan, checkpoint or tensor.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The text of the rules.
    #[error("plan, line {line}: {key}: {reason}")]
    Rules {
        /// Counted from 1.
        line: usize,
        /// The key that is meant.
        key: String,
        /// What is wrong and what would be accepted.
        reason: String,
    },
    /// A tensor that no rule matches.
    #[error(
        "the plan leaves out `{}`: no rule matches; a last rule with name = \"*\" keeps all others whole, to = \"drop\" leaves them out",
        make_visible(name)
    )]
    LeftOut {
        /// The tensor.
        name: String,
    },
    /// A tensor whose shards do not match its rule.
    #[error("`{}`: {reason}", make_visible(name))]
    Tensor {
        /// The tensor.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// The folder of the output.
    #[error("{folder}: {reason}")]
    Output {
        /// The folder.
        folder: String,
        /// What is wrong.
        reason: String,
    },
    /// A copy in the output that differs from the input.
    #[error(
        "verify: `{}` has checksum {found} in {place}, and {expected} in the input",
        make_visible(name)
    )]
    Differs {
        /// The tensor.
        name: String,
        /// Which copy.
        place: String,
        /// The checksum of the copy.
        found: String,
        /// The checksum of the input.
        expected: String,
    },
    /// Memory that the system cannot allocate.
    #[error("{bytes} bytes of memory for a buffer cannot be allocated; use a smaller --memory")]
    Memory {
        /// The number of bytes.
        bytes: u64,
    },
    /// A file could not be read or written. The file error is also the source of this error, so
    /// that a chain of sources contains it.
    #[error("{0}")]
    File(#[from] zellige_files::FileError),
    /// A move between files failed; its error is the source.
    #[error("{0}")]
    Move(#[from] RelayoutError),
    /// There is no plan.
    #[error(transparent)]
    Plan(#[from] crate::ReshardError),
}
