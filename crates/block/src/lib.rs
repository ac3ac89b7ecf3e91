//! Conversions inside a thread block: a tensor that threads hold in registers in one layout, wanted in another.
//!
//! A [`BlockFragment`] says which element each register of each thread holds. Two of them over one tensor are a
//! [`BlockConversion`]: the cheapest of nothing at all (another name for a register), byte permutations inside a thread,
//! shuffles inside a warp, and a round trip through shared memory. Extents need not be powers of two.
//!
//! ```
//! use zellige_block::{BlockConversion, BlockFragment, ConversionRoute};
//! use zellige_layout::{Axis, AxisTable, Iter, Layout, TileLayout};
//! let axes = AxisTable::new();
//! let lane = |extent, stride| Iter::new(extent, stride, axes.get("laneid").unwrap());
//! // 32 x 2 elements: lane i has row i; then lane i has elements i and 32 + i of the row-major order.
//! let rows = TileLayout::from_shard(vec![lane(32, 1), Iter::in_memory(2, 1)])?;
//! let halves = TileLayout::from_shard(vec![Iter::in_memory(2, 1), lane(32, 1)])?;
//! let from = BlockFragment::from_layout(&Layout::from(rows))?;
//! let to = BlockFragment::from_layout(&Layout::from(halves))?;
//! let plan = BlockConversion::between(&from, &to, 32)?;
//! assert_eq!(plan.route(), ConversionRoute::Shuffles);
//! assert_eq!(plan.counts().shuffles, 2);
//! plan.check(&from, &to)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! **Law**: [`BlockConversion::check`] runs the steps of a plan thread by thread, with none of the planner's code, and
//! every register of the destination holds its element.
//!
//! # What it may not do
//! Know a notation, a dtype or a GPU: elements have bits, and counts are of instructions and wavefronts.

#![forbid(unsafe_code)]

mod code;
mod error;
mod execute;
mod fragment;
mod linear;
mod plan;
mod rounds;
mod shared;
mod steps;

pub use code::print_cuda;
pub use error::{BlockError, Result};
pub use fragment::{BlockFragment, MAX_SLOTS, THREADS_OF_WARP};
pub use plan::{BlockConversion, ConversionCounts, ConversionRoute};
pub use shared::{SharedAccesses, SharedAddressing, SharedOrder, SharedPlan};
pub use steps::{ConversionStep, LaneMask, WordPart};
