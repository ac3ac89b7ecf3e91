//! The cases, one file a subject.

pub(crate) mod algebra;
pub(crate) mod apply;
pub(crate) mod ask;
pub(crate) mod table;
pub(crate) mod text;

use anyhow::Result;
use zellige_layout::{AxisTable, Layout};

/// A layout from its text.
fn parse_layout(text: &str) -> Result<Layout> {
    Ok(zellige_notation::tirx::parse(text, &AxisTable::new())?)
}

/// The accumulator fragment of `mma.m16n8`, (16, 8): four iters on two axes.
const FRAGMENT: &str = "S[(2,8,4,2):(2,4@laneid,1@laneid,1)]";
/// (8, 16) on two of four warps, each element twice: four iters on three axes.
const REPLICA: &str = "S[(8,2,4,2):(4@laneid,1@warpid,1@laneid,1)] + R[2:4@warpid] + 5@warpid";
/// (64, 256) in shared memory, 128-byte swizzle.
const SWIZZLED: &str = "Swizzle(3,3,3) o S[(64,4,64):(64,4096,1)]";
/// The accumulator of `wgmma`, (64, 64): six iters on three axes.
const WGMMA: &str = "S[(4,2,8,8,4,2):(1@wid_in_wg,2,4@laneid,4,1@laneid,1)]";
