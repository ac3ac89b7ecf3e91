//! What a program asks of the machine that it runs on: threads and memory.
//!
//! | file | holds |
//! |---|---|
//! | `crew` | threads that wait between calls, and help where a core is free for them |
//! | `cores` | how many cores a process has, and who runs on them |
//! | `buffer` | bytes aligned to cache lines, on huge pages where they are long |
//! | `kept` | large memory that was freed, for the next who wants as much |
//! | `pages` | asking for huge pages |
//! | `lazy` | zeroed bytes whose pages exist once they are touched |
//! | `zeroed` | zeroed bytes in a vector, or nothing where the system has not got them |
//! | `system` | what the standard library does not ask the operating system |
//!
//! # What it may not do
//! Know what they are used for. It depends on no other crate of the workspace.

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
