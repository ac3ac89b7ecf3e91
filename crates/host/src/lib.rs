//! Threads and memory of the machine that a program runs on.
//!
//! | file | holds |
//! |---|---|
//! | `crew` | threads that wait between calls, and help where a core is free for them |
//! | `cores` | the cores that a process has, and the threads that run on them |
//! | `buffer` | bytes aligned to cache lines, on huge pages where they are long |
//! | `kept` | large memory that was freed, kept for the next buffer of its size |
//! | `pages` | advice about pages: huge ones, and those that the system may take back |
//! | `lazy` | zeroed bytes whose pages exist once they are touched |
//! | `zeroed` | zeroed bytes in a vector, or none where the system has not so many |
//! | `system` | calls to the operating system that the standard library lacks |
//!
//! # What it may not do
//! Know what threads and memory are used for. It depends on no other crate of the workspace.

mod buffer;
mod cores;
pub mod crew;
mod kept;
mod lazy;
mod pages;
#[cfg(unix)]
mod system;
mod zeroed;

pub use buffer::AlignedBuffer;
pub use cores::available_cores;
pub use lazy::LazyMemory;
pub use pages::prefer_huge_pages;
#[cfg(unix)]
pub use system::{effective_user, reserve_file_space};
pub use zeroed::try_zeroed_vec;
