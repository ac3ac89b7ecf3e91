//! Addresses in the pool of device memory, which all results share that stay in no scratchpad.
//!
//! A result lives from the wave that writes it through the last that reads it; those that never live at the
//! same time have the same bytes. Weights, inputs and states have blocks of their own.

use crate::draft::{PlacedDraft, ResidentDraft};
use crate::error::{CompileError, Result};
use crate::lower::{LoweredProgram, MemoryClass};
use crate::program::{BufferId, BufferLocation};
use crate::solve::memory::{self, LiveBuffer};
use zellige_machine::Key;

/// Places in the pool for what lives in device memory between steps of a run.
///
/// # Errors
/// A pool that does not hold what lives at the same time, and more weights than device memory.
pub(crate) fn place_in_pool(draft: ResidentDraft) -> Result<PlacedDraft> {
    let (lowered, slots, in_lx) = (&draft.lowered, &draft.slots, &draft.residents.addresses);
    let in_pool =
        |id: usize| lowered.buffers[id].memory == MemoryClass::Temporary && in_lx[id].is_none();
    let mut uses: Vec<Vec<u64>> = vec![Vec::new(); lowered.buffers.len()];
    let end = slots.iter().map(|s| s.wave + 1).max().unwrap_or(0) as u64;
    for (step, slot) in lowered.steps.iter().zip(slots).filter(|(s, _)| !s.load) {
        let all = step.reads.iter().map(|r| r.buffer).chain(step.writes.iter().copied());
        all.for_each(|b| uses[find_memory_root(lowered, b).0].push(slot.wave as u64));
    }
    // The caller reads after the last wave, so that an output lives one wave longer than any step.
    for output in &lowered.outputs {
        uses[find_memory_root(lowered, output.buffer).0].push(end);
    }
    let (mut buffers, mut ids) = (Vec::new(), Vec::new());
    for (i, buffer) in lowered.buffers.iter().enumerate() {
        uses[i].sort_unstable();
        if in_pool(i) && !uses[i].is_empty() {
            buffers.push(LiveBuffer::new(buffer.name.clone(), buffer.bytes(), &uses[i]));
            ids.push(i);
        }
    }
    // Before the pool is planned: the message about weights that do not fit is of more use than one about
    // temporaries.
    check_own_blocks(lowered)?;
    let (_, plan) = memory::plan_pool(buffers, &lowered.options.hardware)?;
    let mut addresses: Vec<u64> = vec![0; lowered.buffers.len()];
    for (id, address) in ids.into_iter().zip(plan.addresses) {
        addresses[id] = address.unwrap_or(0);
    }
    let place = |(i, address): (usize, u64)| match (lowered.buffers[i].memory, in_lx[i]) {
        (_, Some(lx)) => BufferLocation::Lx(lx),
        (MemoryClass::Own, None) => BufferLocation::Own,
        (MemoryClass::InPlaceOf(of), None) => BufferLocation::Over(of),
        (MemoryClass::Temporary, None) => BufferLocation::Pool(address),
    };
    let places = addresses.into_iter().enumerate().map(place).collect();
    Ok(draft.with_places(places))
}

/// Weights, inputs and states have blocks of their own, none larger than a segment; the pool has one
/// segment, and programs have one.
fn check_own_blocks(lowered: &LoweredProgram) -> Result<()> {
    let hardware = &lowered.options.hardware;
    let segment = hardware.figure_count(Key::Segment);
    // Two of the segments are taken: one holds the programs and one the pool.
    let limit = segment.saturating_mul(hardware.figure_count(Key::Segments).saturating_sub(2));
    let mut total = 0u64;
    for buffer in lowered.buffers.iter().filter(|b| b.memory == MemoryClass::Own) {
        total = total.saturating_add(buffer.bytes());
        if buffer.bytes() > segment || total > limit {
            return Err(CompileError::PoolFull {
                buffer: buffer.name.clone(),
                bytes: buffer.bytes(),
                limit: if buffer.bytes() > segment { segment } else { limit },
                peak: total,
            });
        }
    }
    Ok(())
}

/// The buffer whose memory another is in.
fn find_memory_root(lowered: &LoweredProgram, id: BufferId) -> BufferId {
    match lowered.buffer(id).memory {
        MemoryClass::InPlaceOf(of) => find_memory_root(lowered, of),
        _ => id,
    }
}
