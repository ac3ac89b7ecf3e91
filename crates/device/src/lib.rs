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
mod error;
pub mod hardware;
mod lx;
pub mod memory;
mod ratio;
pub mod stream;
mod time;
mod timeline;
mod units;

pub use account::{CoreWork, Cost, Kind, Latency, Work};
pub use error::{DeviceError, Result};
pub use hardware::{Hardware, Key, Model};
pub use lx::Lx;
pub use memory::{Block, Guards, Memory, MemoryStats, SegmentSpec};
pub use ratio::Ratio;
pub use stream::{Event, StreamId, Streams};
pub use time::Time;
pub use timeline::{Event as TraceEvent, Timeline, Track, chrome_trace};
