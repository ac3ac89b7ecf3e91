//! A simulated card.
//!
//! [`Memory`] is its address space: segments of device memory that cost the host nothing until
//! they are touched. A [`Block`] is a piece of it.
//!
//! ```
//! use zellige_device::Memory;
//! let memory = Memory::card();
//! let block = memory.alloc(1000)?;
//! assert_eq!((block.address() % 128, block.bytes()), (0, 1000));
//! block.write()[0] = 7;
//! assert_eq!(block.read()[..2], [7, 0]);
//! assert_eq!(memory.stats().reserved, 1024);
//! # Ok::<(), zellige_device::DeviceError>(())
//! ```
//!
//! # What it may not do
//! Know of graphs: an operation comes in with its tensors and its division over cores.

pub mod account;
mod card;
mod division;
mod eager;
mod error;
mod format;
pub mod hardware;
mod kernels;
mod lay;
mod lx;
pub(crate) mod math;
pub mod memory;
mod ops;
mod ratio;
mod sticks;
mod tensor;
mod time;
mod timeline;
mod transfer;
mod units;

pub use account::{CoreWork, Cost, Kind, Latency, Work};
pub use card::Card;
pub use division::{Division, Span};
pub use eager::Ran;
pub use error::{DeviceError, Result};
pub use format::{Mode, default_layout, host_format};
pub use hardware::{Hardware, Key, Model};
pub use kernels::{Lay, Meta, Want};
pub use lx::Lx;
pub use memory::{Block, Guards, Memory, MemoryStats, SegmentSpec};
pub use ops::{Entry, Layer, Op};
pub use ratio::Ratio;
pub use sticks::Sticks;
pub use tensor::Tensor;
pub use time::Time;
pub use timeline::{Event as TraceEvent, Timeline, Track, chrome_trace};
pub use transfer::Moved;
