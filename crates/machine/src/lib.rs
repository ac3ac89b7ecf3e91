//! The machine in numbers: what hardware has, what work costs on it, and when everything happens.
//!
//! | module | holds |
//! |---|---|
//! | [`hardware`] | figures of a card, each with its unit and source |
//! | [`account`] | the work of every core, and the latency that follows from it |
//! | `charges` | the work of an operation as a function of the slices of its loops |
//! | `collective` | what several cards take to exchange data over their links |
//! | `scratchpad` | what kernels keep in the scratchpad, and what a product reads again |
//! | `segment` | the address space |
//! | `time`, [`timeline`] | simulated time, and what happened when |
//! | `ratio`, [`sum_unit_work`] | exact fractions; numbers with units in words |
//!
//! ```
//! use zellige_machine::{CoreWork, Hardware, MemoryTraffic, OperationWork, WorkKind};
//! let each = CoreWork { reads: MemoryTraffic::from_bursts(256, 2), sfu: 128, ..CoreWork::default() };
//! let work = OperationWork::uniform_cores("add", WorkKind::Pointwise, 32, each);
//! assert_eq!(Hardware::ktir_preset().operation_latency(&work).cycles, 130);
//! ```
//!
//! # What it may not do
//! Know kernels, tensors or memory: work comes in as numbers.

#![forbid(unsafe_code)]

pub mod account;
mod charges;
mod collective;
mod error;
pub mod hardware;
mod ratio;
mod scratchpad;
mod segment;
mod time;
pub mod timeline;
pub mod units;

pub use account::{
    CoreWork, MemoryTraffic, OperationCost, OperationLatency, OperationWork, ProductTile,
    TileOperand, TimeTerm, WorkKind,
};
pub use charges::{LoopCharge, OperationCharges, PartialSums, SumGroup, sum_unit_work};
pub use collective::{CardCollective, LinkCost};
pub use error::{MachineError, Result};
pub use hardware::{CycleModel, Hardware, Key, LaunchUnit, parse_sencores};
pub use ratio::Ratio;
pub use scratchpad::{
    KERNEL_SCRATCHPAD, ProductOperand, ProductReads, STREAMED_TENSOR_BYTES, plan_product_reads,
};
pub use segment::{SegmentPurpose, SegmentSpec};
pub use time::SimulatedTime;
pub use timeline::Timeline;
