//! Plans that move tensors between shardings.
//!
//! A sharding is a layout whose device axes give the rank that holds an element and whose memory
//! axis gives its address in the shard. Two shardings of one shape, on any meshes, define a
//! [`Reshard`]: the messages between ranks, as loop nests between addresses in the shards.
//!
//! ```
//! use zellige_layout::{Axis, Iter, Layout, TileLayout};
//! use zellige_reshard::{DeviceMesh, Reshard, ShardedLayout};
//! // A matrix of 4 x 6: over two ranks by rows, then over three by columns.
//! let memory = Iter::in_memory;
//! let rows = vec![Iter::new(2, 1, Axis::PID), memory(2, 6), memory(6, 1)];
//! let columns = vec![memory(4, 2), Iter::new(3, 1, Axis::PID), memory(2, 1)];
//! let mesh = |n| DeviceMesh::new(vec![(Axis::PID, n)]);
//! let sharded = |iters, n| -> Result<ShardedLayout, Box<dyn std::error::Error>> {
//!     Ok(ShardedLayout::new(Layout::from(TileLayout::from_shard(iters)?), mesh(n)?)?)
//! };
//! let (from, to) = (sharded(rows, 2)?, sharded(columns, 3)?);
//! let plan = Reshard::between(&from, &to, &[4, 6])?;
//! // Rank 2 had nothing and gets a third; rank 0 has half of what it needs.
//! assert_eq!((plan.elements_received(2), plan.elements_received(0)), (8, 4));
//! assert_eq!(plan.parts_received_by(2)?.len(), 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - **A plan is a formula.** Both layouts are refined to common digits by
//!   `zellige_movement::MovePlan::between`, the one planner, over addresses that contain the rank
//!   too. The result is a list of loop nests whose steps move ranks and addresses on both sides;
//!   the digits of a rank fix the loops that move it, and the remaining loops enumerate its peers
//!   and their blocks. Only a dimension that DTensor divides unevenly, and then divides again, has
//!   no layout; blocks are then listed pair by pair.
//! - **No element travels twice.** A rank receives what it needs and does not have, each element
//!   once. The sender is chosen among replicas: the holders of a block share the requests for it
//!   evenly, to one element ([`Reshard::between`]), or so that the links of a [`Topology`] are
//!   balanced ([`Reshard::balance_links`]).
//! - **One process** ([`RankProcess`]) derives its copies and the messages of its rounds from a
//!   plan; Python's `zellige.distributed` runs them.
//! - **A certificate** ([`certify_plan`]) checks a plan by enumerating elements, with none of the
//!   planner's code.
//!
//! # What it may not do
//! Open a socket: the caller that moves the bytes runs the plan. There is no `unsafe` here.

#![forbid(unsafe_code)]

mod balance;
#[cfg_attr(
    target_family = "wasm",
    allow(dead_code, reason = "processes and files keep shards as boxes")
)]
mod boxes;
mod certificate;
mod chain;
#[cfg(not(target_family = "wasm"))]
pub mod checkpoint;
mod error;
mod line;
mod links;
mod mesh;
mod overlap;
mod part;
mod pieces;
mod placed;
#[cfg(not(target_family = "wasm"))]
mod process;
mod reshard;
mod rounds;
mod sharded;
mod topology;

pub use boxes::ShardBox;
pub use certificate::{LinkBound, ReshardCertificate, certify_plan};
pub use chain::{ChainStep, CollectiveChain, plan_collective_chain};
pub use error::{ReshardError, Result};
pub use links::{GroupLink, LinkLoads};
pub use mesh::DeviceMesh;
pub use part::TransferPart;
pub use placed::{AxisCoordinate, PlacementText};
#[cfg(not(target_family = "wasm"))]
pub use process::{ExchangeRound, PeerMessage, RankProcess};
pub use reshard::Reshard;
pub use rounds::RoundPlan;
pub use sharded::ShardedLayout;
pub use topology::{LinkLevel, Topology};
