//! What can be wrong with a checkpoint or with the text that divides it.

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
    /// A tensor that no rule names.
    #[error(
        "the plan leaves out `{}`: no rule matches; a last rule with name = \"*\" keeps all others whole, to = \"drop\" leaves them out",
        make_visible(name)
    )]
    LeftOut {
        /// The tensor.
        name: String,
    },
    /// A tensor that is not divided as its rule says.
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
    /// A copy that is not the tensor that was read.
    #[error(
        "verify: `{}` has checksum {found} in {place}, and {expected} in the input",
        make_visible(name)
    )]
    Differs {
        /// The tensor.
        name: String,
        /// Which copy.
        place: String,
        /// Of the copy.
        found: String,
        /// Of the input.
        expected: String,
    },
    /// Memory that the system has not got.
    #[error("{bytes} bytes of memory for a buffer are not to be had; --memory asks for less")]
    Memory {
        /// How many.
        bytes: u64,
    },
    /// A file could not be read or written. It is the cause, so that who asks a chain of causes for it finds it.
    #[error("{0}")]
    File(#[from] zellige_files::FileError),
    /// A move within files, which is the cause.
    #[error("{0}")]
    Move(#[from] RelayoutError),
    /// There is no plan.
    #[error(transparent)]
    Plan(#[from] crate::ReshardError),
}
