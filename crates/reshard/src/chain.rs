//! The chain of collectives that changes one sharding into another one mesh axis at a time, for
//! comparison.
//!
//! This is how DTensor redistributes: placements are compared axis by axis, from the fastest axis
//! to the slowest, and a dimension whose slower axes change is gathered first; the remaining
//! changes are made from the slowest axis to the fastest.

use crate::error::{ReshardError, Result};
use crate::mesh::DeviceMesh;
use crate::sharded::ShardedLayout;
use std::fmt;
use zellige_layout::int::div_ceil;

/// One step of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChainStep {
    /// The shards along a mesh axis are gathered on every rank of the axis.
    AllGather,
    /// The shards of one dimension become shards of another one.
    AllToAll,
    /// Every rank keeps a part of what it has; nothing is sent.
    Slice,
}

/// A chain of collectives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectiveChain {
    /// Each step with the number of its mesh axis.
    pub steps: Vec<(ChainStep, usize)>,
    /// The number of elements that a rank receives in all steps.
    pub received: i64,
    /// The largest number of elements that a rank holds after a step.
    pub peak: i64,
}

impl fmt::Display for ChainStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ChainStep::AllGather => "all-gather",
            ChainStep::AllToAll => "all-to-all",
            ChainStep::Slice => "slice",
        })
    }
}

/// The chain between two shardings of a shape.
///
/// # Errors
/// Different meshes, and shardings that no list of placements describes: DTensor cannot
/// redistribute those.
pub fn plan_collective_chain(
    src: &ShardedLayout,
    dst: &ShardedLayout,
    shape: &[i64],
) -> Result<CollectiveChain> {
    if src.mesh() != dst.mesh() {
        return Err(ReshardError::Mesh(format!(
            "from {} to {}: a chain of collectives stays on one mesh",
            src.mesh(),
            dst.mesh()
        )));
    }
    let (mut now, then) = (find_placements(src, shape)?, find_placements(dst, shape)?);
    let sizes: Vec<i64> = src.mesh().axes().iter().map(|(_, n)| *n).collect();
    let parts = |list: &[Option<usize>]| -> i64 {
        list.iter().zip(&sizes).filter(|(p, _)| p.is_some()).map(|(_, n)| n).product()
    };
    let mut transforms = Vec::new();
    // Only a tensor that is already divided can be divided in the wrong order.
    let inner = if parts(&now) > 1 { now.len() } else { 0 };
    // The first pass of DTensor's algorithm, from the fastest axis: it gathers what would otherwise
    // end in the wrong order of axes within a dimension.
    for axis in (0..inner).rev() {
        let mut target = then[axis];
        if let Some(dim) = target {
            let on = |list: &[Option<usize>]| -> Vec<usize> {
                (0..axis).filter(|a| list[*a] == Some(dim)).collect()
            };
            if on(&now) != on(&then) {
                target = None;
            }
        }
        if now[axis] != target {
            transforms.push((axis, now[axis], target));
            now[axis] = target;
        }
    }
    for axis in 0..now.len() {
        if now[axis] != then[axis] {
            transforms.push((axis, now[axis], then[axis]));
            now[axis] = then[axis];
        }
    }
    let total: i64 = shape.iter().product();
    let mut held = div_ceil(total, parts(&find_placements(src, shape)?).max(1));
    let mut chain = CollectiveChain { steps: Vec::new(), received: 0, peak: held };
    for (axis, from, to) in transforms {
        let n = sizes[axis];
        let collective = match (from, to) {
            (Some(_), None) => {
                // An all-gather brings the shards of the n - 1 others.
                chain.received += held * (n - 1);
                held *= n;
                ChainStep::AllGather
            }
            (Some(_), Some(_)) => {
                // An all-to-all keeps one of n pieces and exchanges the rest.
                chain.received += held - held / n;
                ChainStep::AllToAll
            }
            _ => {
                held = div_ceil(held, n);
                ChainStep::Slice
            }
        };
        chain.steps.push((collective, axis));
        chain.peak = chain.peak.max(held);
    }
    Ok(chain)
}

/// The dimension that each mesh axis divides; `None` for an axis of replicas.
fn find_placements(sharded: &ShardedLayout, shape: &[i64]) -> Result<Vec<Option<usize>>> {
    let refuse = |mesh: &DeviceMesh, reason: String| ReshardError::NotSharded {
        mesh: mesh.to_string(),
        reason,
    };
    let mesh = sharded.mesh();
    let dims = sharded.sharded_dimensions(shape);
    let mut out = Vec::new();
    for (axis, size) in mesh.axes() {
        let tile = sharded.layout().tile();
        let own: Vec<usize> = (0..tile.shard().len())
            .filter(|k| tile.shard()[*k].axis == *axis && tile.shard()[*k].extent > 1)
            .collect();
        let placement = match own.as_slice() {
            // An axis of one device divides nothing, whatever the layout says.
            [] if *size == 1
                || tile.replica().iter().any(|r| r.axis == *axis && r.extent == *size) =>
            {
                None
            }
            [one] if tile.shard()[*one].extent == *size => dims.as_ref().map(|d| d[*one]),
            _ => return Err(refuse(mesh, format!("no placement describes how `{axis}` is used"))),
        };
        if placement.is_none() && !own.is_empty() {
            return Err(refuse(mesh, format!("`{axis}` divides more than one dimension")));
        }
        out.push(placement);
    }
    Ok(out)
}
