//! What a program asks of the machine that it runs on: threads and memory.
//!
//! | file | holds |
//! |---|---|
//! | `crew` | threads that wait between calls |
//! | `buffer` | zeroed bytes, aligned to cache lines, on huge pages where they are long |
//! | `lazy` | zeroed bytes whose pages exist once they are touched |
//! | `zeroed` | zeroed bytes in a vector, or nothing where the system has not got them |
//! | `system` | what the standard library does not ask the operating system |
//!
//! # What it may not do
//! Know what they are used for. It depends on no other crate of the workspace.

mod buffer;
pub mod crew;
mod lazy;
#[cfg(unix)]
mod system;
mod zeroed;

pub use buffer::Buffer;
pub use lazy::LazyMemory;
#[cfg(unix)]
pub use system::effective_user;
pub use zeroed::try_zeroed;
