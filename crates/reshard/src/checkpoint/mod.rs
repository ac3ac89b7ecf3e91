//! Checkpoints: safetensors files of one sharding, written anew as files of another.
//!
//! [`Job::new`] reads the rules ([`rules`]) and every header, and refuses what does not fit before anything is written. [`Job::run`] writes
//! file by file, each under its name only when it is complete; shards are gathered slab by slab in bounded memory. [`Job::verify`] compares
//! checksums of logical tensors.

mod error;
mod gather;
mod input;
mod job;
mod patterns;
pub mod rules;
mod traffic;
mod verify;
mod write;

pub use error::{Error, Result};
pub use job::{Done, Job, Limits};
pub use traffic::{ChainTraffic, Traffic};
