//! Limits of a request, and how a process survives a request that exceeds them or panics.
//!
//! A program that answers requests of strangers must not end with one of them. [`run_guarded_call`] runs a request
//! inside [`CallLimits`] of time and memory. A request that exceeds one of them, or that panics, ends with a
//! [`StopReason`] that names it, and the next request finds the process as it was.
//!
//! ```
//! use std::time::Duration;
//! use zellige_guard::{CallLimits, StopReason, count_step, run_guarded_call};
//! let limits = CallLimits { time: Some(Duration::from_millis(20)), memory: None };
//! let endless = || -> u64 {
//!     let mut iterations = 0;
//!     loop {
//!         count_step();
//!         iterations += 1;
//!     }
//! };
//! let late = StopReason::Time { limit: Duration::from_millis(20) };
//! assert_eq!(run_guarded_call(limits, endless), Err(late));
//! assert_eq!(run_guarded_call(limits, || 1 + 1), Ok(2));
//! let panics = run_guarded_call(limits, || panic!("a mistake"));
//! assert!(matches!(panics, Err(StopReason::Panic { .. })));
//! ```
//!
//! # How
//! Nothing in Rust can stop a thread from outside, so the cooperation of the code is needed. A loop over something
//! that a request can make large calls [`count_step`] once per iteration, and [`reserve_memory`] is called before
//! memory is allocated whose size a request decides. Both cost a few instructions, and do nothing outside of a
//! [`run_guarded_call`]. Where a limit is exceeded they unwind to the [`run_guarded_call`], as rust-analyzer cancels a
//! query: every function in between would otherwise have to return an error that it knows nothing about. So code that
//! counts steps must leave shared state consistent when it unwinds; destructors run.
//!
//! Memory in use is counted by [`CountingAllocator`], which the program installs as its global allocator.
//! Without it, only what is reserved at once is compared with the limit.
//!
//! On WebAssembly nothing unwinds and there is no clock: a limit that is exceeded ends the instance, and
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
