//! What a request may use, and how a process survives one that goes wrong.
//!
//! A program that answers requests of strangers must not die of one. [`run_guarded_call`] runs a request inside
//! [`CallLimits`] of time and memory; a request that passes one of them, or that panics, ends with a
//! [`StopReason`] that says which, and the next request finds the process as it was.
//!
//! ```
//! use std::time::Duration;
//! use zellige_guard::{Limits, Stopped, call, step};
//! let limits = Limits { time: Some(Duration::from_millis(20)), memory: None };
//! let endless = || -> u64 {
//!     let mut turns = 0;
//!     loop {
//!         step();
//!         turns += 1;
//!     }
//! };
//! assert_eq!(call(limits, endless), Err(Stopped::Time { limit: Duration::from_millis(20) }));
//! assert_eq!(call(limits, || 1 + 1), Ok(2));
//! assert!(matches!(call(limits, || panic!("a mistake")), Err(Stopped::Panic { .. })));
//! ```
//!
//! # How
//! Nothing in Rust can stop a thread from outside, so code that loops over something a request can
//! make large says so: it calls [`count_step`] once per turn, and [`reserve_memory`] before it takes memory whose
//! size a request decides. Both cost a few instructions, and nothing at all happens outside of a
//! [`run_guarded_call`]. Where a limit is passed they unwind to the [`run_guarded_call`], as rust-analyzer cancels a query:
//! every function in between would otherwise have to return an error that it knows nothing about. So
//! code that steps must leave shared state whole when it unwinds; destructors run.
//!
//! Memory in use is counted by [`CountingAllocator`], which the program installs as its global allocator.
//! Without it, only what is reserved at once is held against the limit.
//!
//! On WebAssembly nothing unwinds and there is no clock: a limit that is passed ends the instance, and
//! the page starts another one.
//!
//! # What it may not do
//! Know what a request is. Set a limit by itself.

mod allocator;
mod budget;
mod limits;
mod stopped;
mod survive;

pub use allocator::CountingAllocator;
pub use budget::{count_many_steps, count_step, reserve_memory};
pub use limits::{CallLimits, LimitError};
pub use stopped::StopReason;
pub use survive::{run_guarded_call, silence_call_panics};
