//! Addresses in the scratchpads for the results that stay there.
//!
//! Work distribution says which results could stay; here they get addresses beside what the steps stream
//! through the scratchpads, by the memory planner. What finds no room goes back to device memory: its
//! writer and its readers move it again, and their work is charged for that.

use crate::divide::ResidencyCandidate;
use crate::draft::{ProgramDraft, ResidentDraft, WavedDraft};
use crate::error::Result;
use crate::placement::is_in_lx;
use crate::program::BufferId;
use crate::solve::memory::{self, LiveBuffer, MemoryRequest, PlacementPolicy};
use std::rc::Rc;
use zellige_machine::OperationWork;

/// The fewest bytes of scratchpad beside what an operation streams through it.
// The alignment of torch-spyre's scratchpad planner: a stick has 128 bytes.
const LX_ALIGNMENT_BYTES: u64 = 128;

/// Which results have addresses in the scratchpads, and what the steps do because of that.
pub(crate) struct ScratchpadPlan {
    /// Of every buffer, its address in the scratchpad of every core; a buffer without one is in device memory.
    pub(crate) addresses: Vec<Option<u64>>,
    /// Of every step, what each core does, without the traffic of what stays in scratchpads.
    pub(crate) works: Vec<Rc<OperationWork>>,
    /// Results that are copied between scratchpads and found no room, themselves or a copy of them: the program is to be
    /// divided anew without copies of them.
    pub(crate) crowded: Vec<BufferId>,
}

/// Keeps results in scratchpads where they fit.
///
/// # Errors
/// Sizes past 64 bits.
pub(crate) fn place_in_scratchpads(waved: WavedDraft) -> Result<ResidentDraft> {
    let addresses = match waved.lowered.options.scratchpads {
        Some(policy) => plan_addresses(&waved, policy)?,
        None => vec![None; waved.lowered.buffers.len()],
    };
    let kept: Vec<bool> = addresses.iter().map(Option::is_some).collect();
    let works = waved.divisions.works_with_kept(&kept);
    let out = waved.divisions.residents.iter().filter(|r| !kept[r.buffer.0]);
    let crowded = out.filter_map(|r| r.group).collect();
    Ok(waved.with_residents(ScratchpadPlan { addresses, works, crowded }))
}

fn plan_addresses(waved: &WavedDraft, policy: PlacementPolicy) -> Result<Vec<Option<u64>>> {
    let ProgramDraft { lowered, divisions: divided, slots, .. } = waved;
    let mut places = vec![None; lowered.buffers.len()];
    let limit = lowered.options.lx_limit();
    let mut kept: Vec<&ResidencyCandidate> = divided.residents.iter().collect();
    let wave = |step: usize| slots[step].wave as u64;
    // What a step streams through the scratchpad is there while it runs, whatever else is.
    let peak =
        |step: usize| divided.steps[step].work.cores.iter().map(|c| c.lx_peak).max().unwrap_or(0);
    let waves = slots.iter().map(|s| s.wave + 1).max().unwrap_or(0);
    loop {
        let mut buffers = Vec::new();
        // How many results begin to live at a wave, less those that ended before it.
        let mut changes = vec![0i64; waves + 1];
        for keep in &kept {
            let size = keep.part_bytes;
            let mut uses: Vec<u64> = keep.users().map(wave).collect();
            uses.sort_unstable();
            uses.dedup();
            let ends = [uses[0], uses[uses.len() - 1]].map(|w| usize::try_from(w).unwrap_or(0));
            changes[ends[0]] += 1;
            changes[ends[1] + 1] -= 1;
            buffers.push(LiveBuffer::new(format!("{}", keep.buffer.0), size, &uses));
        }
        let mut alive = vec![0i64; waves];
        let mut now = 0;
        for (w, change) in changes.iter().take(waves).enumerate() {
            now += change;
            alive[w] = now;
        }
        let results = buffers.len();
        for step in (0..lowered.steps.len()).filter(|s| !lowered.steps[*s].load) {
            let size = peak(step);
            // A step that runs while no result lives has the scratchpad for itself, so that its tiles need no address
            // among the results.
            if size > 0 && alive[slots[step].wave] > 0 {
                buffers.push(LiveBuffer::new(format!("step {step}"), size, &[wave(step)]));
            }
        }
        if results == 0 {
            return Ok(places);
        }
        let request = MemoryRequest::new(limit, LX_ALIGNMENT_BYTES, buffers)?;
        let answer = memory::plan_memory(&request, policy);
        // A step without room for its tiles cannot run, so that the largest result that lives then goes to memory.
        // Several such steps are handled in one round, but a step that already gains room by what left for another one
        // is not handled again: planning is repeated anyway.
        let missing: Vec<u64> = (results..request.buffers().len())
            .filter(|i| answer.addresses[*i].is_none())
            .map(|i| request.buffers()[i].uses[0])
            .collect();
        let placed = |i: usize| is_in_lx(&lowered.graph, lowered.buffer(kept[i].buffer).tensor);
        // A result that the programmer placed here has precedence over results that are only faster here.
        let crowded_out = (0..results).find(|i| placed(*i) && answer.addresses[*i].is_none());
        let yields = crowded_out.and_then(|out| {
            let out = &request.buffers()[out].uses;
            let beside = (0..results).filter(|i| !placed(*i) && answer.addresses[*i].is_some());
            let beside = beside.filter(|i| {
                let uses = &request.buffers()[*i].uses;
                uses[0] <= out[out.len() - 1] && out[0] <= uses[uses.len() - 1]
            });
            beside.max_by_key(|i| request.buffers()[*i].size)
        });
        if let Some(yields) = yields {
            kept.remove(yields);
            continue;
        }
        if missing.is_empty() {
            for (keep, address) in kept.iter().zip(&answer.addresses) {
                places[keep.buffer.0] = *address;
            }
            return Ok(places);
        }
        let lives = |i: usize, wave: u64| {
            let b = &request.buffers()[i];
            b.uses[0] <= wave && wave <= b.uses[b.uses.len() - 1]
        };
        let mut gone: Vec<usize> = Vec::new();
        for wave in missing {
            if gone.iter().any(|i| lives(*i, wave)) {
                continue;
            }
            let alive = (0..results).filter(|i| lives(*i, wave));
            gone.extend(alive.max_by_key(|i| (!placed(*i), request.buffers()[*i].size)));
        }
        if gone.is_empty() {
            return Ok(places);
        }
        let mut at = 0..;
        kept.retain(|_| !gone.contains(&at.next().unwrap_or(0)));
    }
}
