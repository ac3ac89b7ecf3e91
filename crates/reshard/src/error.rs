//! Why there is no plan, or none within the bounds.

/// The result of every fallible operation of this crate.
pub type Result<T, E = ReshardError> = std::result::Result<T, E>;

/// A refused sharding, plan or certificate.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ReshardError {
    /// The algebra refuses.
    #[error(transparent)]
    Layout(#[from] zellige_layout::LayoutError),
    /// A mesh that is none.
    #[error("{0}")]
    Mesh(String),
    /// A layout that is no sharding over a mesh.
    #[error("not a sharding over {mesh}: {reason}")]
    NotSharded {
        /// The mesh.
        mesh: String,
        /// What is wrong, with the axis or iter.
        reason: String,
    },
    /// A rank that the mesh does not have.
    #[error("rank {rank}: the plan is between {ranks} ranks, counted from 0")]
    NoSuchRank {
        /// The rank.
        rank: i64,
        /// Ranks of both sides together.
        ranks: i64,
    },
    /// More than can be listed.
    #[error("{what}: more than {limit}")]
    TooLarge {
        /// What there is too much of.
        what: &'static str,
        /// The most.
        limit: u64,
    },
    /// Staging buffers that cannot be so small.
    #[error(
        "rank {rank} exchanges with {messages} others at once: {bytes} bytes for staging are too few, \
         at least {least} are needed"
    )]
    Memory {
        /// The rank with the most messages.
        rank: i64,
        /// Its messages.
        messages: u64,
        /// What was allowed.
        bytes: u64,
        /// What would be enough.
        least: u64,
    },
    /// A text that is no topology.
    #[error("topology, line {line}: {key}: {reason}")]
    Topology {
        /// Counted from 1.
        line: usize,
        /// The key that is meant.
        key: String,
        /// What is wrong and what would be accepted.
        reason: String,
    },
    /// A plan that does not do what it says.
    #[error("certificate: {0}")]
    Wrong(String),
    /// Nests that are no plan of the engine.
    #[error("a local copy: {0}")]
    Plan(String),
}
