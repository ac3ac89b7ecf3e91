//! A simulated card.
//!
//! A [`Card`] is [`Hardware`](zellige_machine::Hardware) in numbers, [`DeviceMemory`] that costs the host nothing until it is
//! touched, scratchpads ([`LxScratchpads`]), [`stream`]s that work in the background, and an account of what
//! everything costs in simulated time.
//!
//! ```
//! use zellige_device::Card;
//! use zellige_machine::Hardware;
//! let card = Card::new(0, Hardware::card_preset())?;
//! let block = card.memory().alloc_block(1000)?;
//! assert_eq!((block.address() % 128, block.requested_bytes()), (0, 1000));
//! block.lock_for_write()[0] = 7;
//! assert_eq!(block.lock_for_read()[..2], [7, 0]);
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

pub use card::lx::LxScratchpads;
pub use card::mode::FloatMode;
pub use card::{Card, CardBuilder, CardSet, CardStats, PreparedWave, RecordingStamp, WorkReceipt};
pub use error::{DeviceError, Result};
pub use kernels::moves::{ElementMove, PieceOwner, TensorPiece};
pub use kernels::{KernelLayouts, LayoutNeed};
pub use memory::{BlockGuards, DeviceMemory, MemoryBlock, MemoryStats, WriteStamp};
pub use run::compute::OpOutcome;
pub use run::division::{LoopSpan, WorkDivision, core_order};
pub use run::launch::LaunchOutcome;
pub use run::loops::OpLoops;
pub use run::plan::PlanOp;
pub use run::prepared::PreparedLaunch;
pub use run::recall::copy_again;
pub use run::run_op::RunOp;
pub use stream::{CardEvent, CardStreams, StreamId};
pub use tensor::Tensor;
pub use tensor::core_copy::{CoreBoxSend, CoreBoxes};
pub use tensor::format::{default_layout, host_format};
pub use tensor::kept::KeptDtypes;
pub use tensor::out_of_range::OutOfRangeNumbers;
pub use tensor::sticks::StickForm;
pub use tensor::tensor_layout::{StoragePolicy, TensorLayout};
pub use tensor::transfer::MoveTraffic;
pub use tensor::upload_layout::requested_layout;
