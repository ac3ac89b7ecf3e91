//! Reshards checkpoints: safetensors files of one sharding are rewritten as files of another.
//!
//! [`CheckpointJob::new`] reads the rules ([`rules`]) and every header, and refuses everything that
//! does not fit before anything is written. [`CheckpointJob::write_output`] writes file by file,
//! each under its name only when it is complete; shards are gathered slab by slab in bounded
//! memory. [`CheckpointJob::verify_output`] compares checksums of logical tensors.

mod error;
mod gather;
mod input;
mod job;
mod patterns;
pub mod rules;
mod traffic;
mod verify;
mod write;

pub use error::{CheckpointError, Result};
pub use job::{CheckpointJob, JobLimits, JobSummary};
pub use traffic::{ChainTraffic, RankTraffic};
