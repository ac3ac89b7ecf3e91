//! A simulated card.
//!
//! A [`Card`] is [`Hardware`](zellige_machine::Hardware) in numbers, [`Memory`] that costs the host nothing until it is
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

mod card;
mod error;
mod kernels;
pub mod memory;
mod run;
pub mod stream;
mod tensor;

pub use card::lx::Lx;
pub use card::mode::Mode;
pub use card::{Card, CardBuilder, CardStats, Cards, PreparedWave, Receipt, Stamp};
pub use error::{DeviceError, Result};
pub use kernels::moves::{Move, Piece, PieceOf};
pub use kernels::{KernelLayouts, LayoutNeed};
pub use memory::{Block, Guards, Memory, MemoryStats, WriteStamp};
pub use run::division::{Division, Span, core_order};
pub use run::eager::{Launched, Ran};
pub use run::loops::Loops;
pub use run::prepared::PreparedLaunch;
pub use run::recall::copy_again;
pub use run::{PlanOp, RunOp};
pub use stream::{Event, StreamId, Streams};
pub use tensor::Tensor;
pub use tensor::format::{default_layout, host_format};
pub use tensor::kept::Kept;
pub use tensor::out_of_range::Past;
pub use tensor::sticks::Sticks;
pub use tensor::tensor_layout::{Storage, TensorLayout};
pub use tensor::transfer::Moved;
pub use tensor::upload_layout::requested_layout;
