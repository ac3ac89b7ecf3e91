//! Errors of plans, and of inputs beyond their bounds.

/// The result of every fallible operation of this crate.
pub type Result<T, E = ReshardError> = std::result::Result<T, E>;

/// A refused sharding, plan or certificate.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ReshardError {
    /// The algebra refuses.
    #[error(transparent)]
    Layout(#[from] zellige_layout::LayoutError),
    /// An invalid mesh.
    #[error("{0}")]
    Mesh(String),
    /// A layout that is not a sharding over a mesh.
    #[error("not a sharding over {mesh}: {reason}")]
    NotSharded {
        /// The mesh.
        mesh: String,
        /// The reason, with the axis or iter.
        reason: String,
    },
    /// A rank that the mesh does not have.
    #[error("rank {rank}: the plan is between {ranks} ranks, counted from 0")]
    NoSuchRank {
        /// The rank.
        rank: i64,
        /// The number of ranks of both sides together.
        ranks: i64,
    },
    /// More items than can be listed.
    #[error("{what}: more than {limit}")]
    TooLarge {
        /// The items.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
    /// Staging buffers that are too small.
    #[error(
        "rank {rank} exchanges with {messages} others at once: {bytes} bytes for staging are too few, \
         at least {least} are needed"
    )]
    Memory {
        /// The rank with the most messages.
        rank: i64,
        /// The number of its messages.
        messages: u64,
        /// The allowed bytes.
        bytes: u64,
        /// The bytes that would be enough.
        least: u64,
    },
    /// An invalid text of a topology.
    #[error("topology, line {line}: {key}: {reason}")]
    Topology {
        /// Counted from 1.
        line: usize,
        /// The key that is meant.
        key: String,
        /// What is wrong and what would be accepted.
        reason: String,
    },
    /// A plan that violates its law.
    #[error("certificate: {0}")]
    Wrong(String),
    /// Nests that are not a plan of the engine.
    #[error("a local copy: {0}")]
    Plan(String),
}
