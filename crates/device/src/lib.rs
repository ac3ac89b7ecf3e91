//! A simulated card.
//!
//! A [`Card`] is [`Hardware`] in numbers, [`Memory`] that costs the host nothing until it is
//! touched, scratchpads ([`Lx`]), [`stream`]s that work in the background, and an account of what
//! everything costs in simulated time.
//!
//! ```
//! use zellige_device::{Card, Hardware};
//! let card = Card::new(0, Hardware::card())?;
//! let block = card.memory().alloc(1000)?;
//! assert_eq!((block.address() % 128, block.bytes()), (0, 1000));
//! block.write()[0] = 7;
//! assert_eq!(block.read()[..2], [7, 0]);
//! assert_eq!(card.stats().memory.reserved, 1024);
//! # Ok::<(), zellige_device::DeviceError>(())
//! ```
//!
//! # What it may not do
//! Know of graphs: an operation comes in with its tensors and its division over cores.

pub mod account;
mod card;
mod error;
pub mod hardware;
mod lx;
pub mod memory;
mod mode;
mod ratio;
pub mod stream;
mod time;
pub mod timeline;
mod units;

pub use account::{CoreWork, Cost, Kind, Latency, Work};
pub use card::{Card, CardBuilder, CardStats, Cards, Receipt};
pub use error::{DeviceError, Result};
pub use hardware::{Hardware, Key, Model};
pub use lx::Lx;
pub use memory::{Block, Guards, Memory, MemoryStats, SegmentSpec};
pub use mode::Mode;
pub use ratio::Ratio;
pub use stream::{Event, StreamId, Streams};
pub use time::Time;
pub use timeline::Timeline;
