//! Addresses in the scratchpads for the results that stay there.
//!
//! Work distribution says which results could stay; here they get addresses beside what the steps stream
//! through the scratchpads, by the memory planner. What finds no room goes back to device memory: its
//! writer and its readers move it again, and their work says so.

use crate::divide::{Divided, ResidencyCandidate};
use crate::error::Result;
use crate::solve::memory::{self, LiveBuffer, MemoryRequest, PlacementPolicy};
use crate::waves::Waved;
use zellige_machine::Work;

/// The fewest bytes of scratchpad beside what an operation streams through it.
const ALIGNMENT: u64 = 128;

/// A program in waves of which some results have addresses in the scratchpads.
pub(crate) struct Resident {
    pub(crate) waved: Waved,
    /// Of every buffer, its address in the scratchpad of every core; none lies in device memory.
    pub(crate) addresses: Vec<Option<u64>>,
    /// Of every step, what each core does, without the traffic of what stays in scratchpads.
    pub(crate) works: Vec<Work>,
}

/// Keeps results in scratchpads where they fit.
///
/// # Errors
/// Sizes past 64 bits.
pub(crate) fn scratchpads(waved: Waved) -> Result<Resident> {
    let addresses = match waved.divided.lowered.options.scratchpads {
        Some(policy) => addresses(&waved, policy)?,
        None => vec![None; waved.divided.lowered.buffers.len()],
    };
    let kept: Vec<bool> = addresses.iter().map(Option::is_some).collect();
    let works = waved.divided.works(&kept);
    Ok(Resident { waved, addresses, works })
}

fn addresses(waved: &Waved, policy: PlacementPolicy) -> Result<Vec<Option<u64>>> {
    let Waved { divided, slots } = waved;
    let Divided { lowered, .. } = divided;
    let mut places = vec![None; lowered.buffers.len()];
    let limit = lowered.options.lx_limit();
    let mut kept: Vec<&ResidencyCandidate> = divided.residents.iter().collect();
    let wave = |step: usize| slots[step].wave as u64;
    // What a step streams through the scratchpad is there while it runs, whatever else is.
    let peak =
        |step: usize| divided.steps[step].work.cores.iter().map(|c| c.lx_peak).max().unwrap_or(0);
    loop {
        let mut buffers = Vec::new();
        let mut streamed = Vec::new();
        for keep in &kept {
            let (step, tensor) = keep.producer;
            let Some(op) = &divided.ops[step] else { continue };
            let size = op.part_bytes(tensor, &divided.steps[step].division);
            let mut uses: Vec<u64> = vec![wave(step)];
            uses.extend(keep.readers.iter().map(|(s, _)| wave(*s)));
            uses.sort_unstable();
            uses.dedup();
            let life = uses[0]..=uses[uses.len() - 1];
            streamed.extend(
                (0..lowered.steps.len())
                    .filter(|s| !lowered.steps[*s].load && life.contains(&wave(*s))),
            );
            buffers.push(LiveBuffer::new(format!("{}", keep.buffer.0), size, &uses));
        }
        streamed.sort_unstable();
        streamed.dedup();
        let results = buffers.len();
        for step in &streamed {
            let size = peak(*step);
            if size > 0 {
                buffers.push(LiveBuffer::new(format!("step {step}"), size, &[wave(*step)]));
            }
        }
        if results == 0 {
            return Ok(places);
        }
        let request = MemoryRequest::new(limit, ALIGNMENT, buffers)?;
        let answer = memory::plan(&request, policy);
        // A step without its tiles cannot run: the largest result that lives then goes to memory.
        let missing = (results..request.buffers().len())
            .find(|i| answer.addresses[*i].is_none())
            .map(|i| request.buffers()[i].uses[0]);
        let Some(wave) = missing else {
            for (keep, address) in kept.iter().zip(&answer.addresses) {
                places[keep.buffer.0] = *address;
            }
            return Ok(places);
        };
        let alive = |i: &usize| {
            let b = &request.buffers()[*i];
            b.uses[0] <= wave && wave <= b.uses[b.uses.len() - 1]
        };
        let largest = (0..results).filter(alive).max_by_key(|i| request.buffers()[*i].size);
        match largest {
            Some(i) => {
                kept.remove(i);
            }
            None => return Ok(places),
        }
    }
}
