//! A simulated card.
//!
//! A [`Card`] is [`Hardware`] in numbers, [`Memory`] that costs the host nothing until it is
//! touched, scratchpads ([`Lx`]), [`stream`]s that work in the background, and an account of what
//! everything costs in simulated time.
//!
//! ```
//! use zellige_device::Card;
//! use zellige_machine::Hardware;
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

mod again;
mod card;
mod choice;
mod coverage;
mod describe;
mod division;
mod eager;
mod error;
mod fallback;
mod format;
mod into;
mod kernels;
mod laid;
mod lay;
mod literal;
mod loops;
mod lx;
pub mod memory;
mod mode;
mod narrow;
mod ops;
mod planned;
mod profile;
mod scalar;
mod sticks;
pub mod stream;
mod tensor;
mod transfer;
mod want;

pub use card::{Card, CardBuilder, CardStats, Cards, Receipt, Stamp};
pub use choice::LayoutChoice;
pub use coverage::Coverage;
pub use division::{Division, Span};
pub use eager::Ran;
pub use error::{DeviceError, Result};
pub use format::{default_layout, host_format};
pub use kernels::{Lay, Meta, Want};
pub use laid::{Kept, Laid, Storage};
pub use literal::Literal;
pub use loops::Loops;
pub use lx::Lx;
pub use memory::{Block, Guards, Memory, MemoryStats};
pub use mode::Mode;
pub use narrow::Past;
pub use ops::{Entry, Layer, Op};
pub use profile::Profile;
pub use scalar::Scalar;
pub use sticks::Sticks;
pub use stream::{Event, StreamId, Streams};
pub use tensor::Tensor;
pub use transfer::Moved;
