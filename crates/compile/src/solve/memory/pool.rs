//! Device memory: one segment, where every buffer has to have a place.

use super::bound::find_most_crowded;
use super::fit::{self, GapPolicy};
use super::request::{LiveBuffer, MemoryRequest};
use super::{MemoryPlan, PlacementPolicy, plan_memory};
use crate::error::{CompileError, Result};
use zellige_machine::{Hardware, Key};
use zellige_stick::STICK_BYTES;

/// Places buffers in one segment of device memory: first fit, at multiples of a stick. Where that
/// leaves some out, once more with the largest first, and then by the exact search.
///
/// # Errors
/// As [`MemoryRequest::new`], and a buffer that has no place.
pub fn plan_pool(
    buffers: Vec<LiveBuffer>,
    hardware: &Hardware,
) -> Result<(MemoryRequest, MemoryPlan)> {
    let alignment = STICK_BYTES.unsigned_abs();
    let request = MemoryRequest::new(hardware.figure_count(Key::Segment), alignment, buffers)?;
    let members: Vec<usize> = (0..request.buffers().len()).collect();
    // The pool is a whole segment of device memory, so that the cheapest planner usually has room enough; the slower
    // ones run only where it does not. torch-spyre's pool is planned by first fit too.
    let first = plan_memory(&request, PlacementPolicy::FirstFit);
    if first.spilled_buffers(&request).next().is_none() {
        return Ok((request, first));
    }
    let largest = fit::order_by(&request, &members, |a, b| {
        request.buffer_size(b).cmp(&request.buffer_size(a))
    });
    let addresses = fit::fit_in_gaps(&request, &largest, GapPolicy::First);
    let mut found = MemoryPlan { addresses, bound: first.bound };
    if found.spilled_buffers(&request).next().is_some() {
        found = plan_memory(&request, PlacementPolicy::Exact);
    }
    if let Some(buffer) = found.spilled_buffers(&request).next() {
        let (past, _) = find_most_crowded(&request, &members);
        return Err(CompileError::PoolFull {
            buffer: buffer.name.clone(),
            bytes: buffer.size,
            limit: request.limit(),
            peak: request.limit().saturating_add(past),
        });
    }
    Ok((request, found))
}
