//! Bytes in use over time.

use super::to_microseconds;
use crate::program::{BufferId, BufferLocation, CompiledProgram};
use std::collections::BTreeMap;
use zellige_machine::SimulatedTime;
use zellige_report::MemoryOccupancy;

/// Bytes in use: what there is, the highest in use, and how many from when on.
pub(super) struct MemoryLevels {
    limit: u64,
    pub(super) peak: u64,
    pub(super) points: Vec<(SimulatedTime, u64)>,
}

impl MemoryLevels {
    pub(super) fn to_occupancy(&self) -> MemoryOccupancy {
        let points = self.points.iter().map(|(at, bytes)| (to_microseconds(*at), *bytes)).collect();
        MemoryOccupancy { limit: self.limit, peak: self.peak, points }
    }
}

/// Of one core's scratchpad: what stays there, an even share of its writer's cores, beside the largest
/// tiles that the steps of a wave stream.
pub(super) fn scratchpad_levels(program: &CompiledProgram) -> MemoryLevels {
    let limit = program.options.scratchpads.map_or(0, |_| program.options.lx_limit());
    let resident = |p| if let BufferLocation::Lx(at) = p { Some(at) } else { None };
    let writers = find_first_writers(program);
    let mut changes =
        collect_changes(program, resident, |b| largest_slice_bytes(program, &writers, b)).0;
    let mut waves: BTreeMap<usize, (SimulatedTime, SimulatedTime, u64)> = BTreeMap::new();
    for (_, step) in program.run_steps() {
        let tiles = step.work.cores.iter().map(|c| c.lx_peak).max().unwrap_or(0);
        let wave = waves.entry(step.wave).or_insert((step.start, step.end_time(), 0));
        *wave = (wave.0.min(step.start), wave.1.max(step.end_time()), wave.2.max(tiles));
    }
    for (from, to, tiles) in waves.into_values().filter(|w| w.2 > 0) {
        changes.push((to, false, tiles));
        changes.push((from, true, tiles));
    }
    let points = occupancy_points(changes);
    let peak = points.iter().map(|p| p.1).max().unwrap_or(0);
    MemoryLevels { limit, peak, points }
}

/// Of the program's pool of device memory.
pub(super) fn pool_levels(program: &CompiledProgram) -> MemoryLevels {
    let at = |p| if let BufferLocation::Pool(at) = p { Some(at) } else { None };
    let (changes, peak) = collect_changes(program, at, |b| program.buffer(b).bytes());
    MemoryLevels { limit: 0, peak, points: occupancy_points(changes) }
}

/// Bytes of a buffer on the core that holds most of it: an even share of its writer's cores.
fn largest_slice_bytes(
    program: &CompiledProgram,
    writers: &[Option<usize>],
    buffer: BufferId,
) -> u64 {
    let writer = writers[buffer.0].map(|step| &program.steps[step]);
    let cores = writer.map_or(1, |s| s.work.sum_over_cores().cores.max(1)) as u64;
    let sticks = program.buffer(buffer).bytes().div_ceil(128);
    sticks.div_ceil(cores) * 128
}

/// Of every buffer, the first step that writes it.
fn find_first_writers(program: &CompiledProgram) -> Vec<Option<usize>> {
    let mut writers = vec![None; program.buffers.len()];
    for (i, step) in program.steps.iter().enumerate() {
        for buffer in &step.writes {
            writers[buffer.0].get_or_insert(i);
        }
    }
    writers
}

/// A moment, whether memory begins to be used, and how much.
type MemoryChange = (SimulatedTime, bool, u64);

/// When the buffers of a kind of memory begin and end, and the highest byte in use.
fn collect_changes(
    program: &CompiledProgram,
    address: impl Fn(BufferLocation) -> Option<u64>,
    bytes: impl Fn(BufferId) -> u64,
) -> (Vec<MemoryChange>, u64) {
    let (mut list, mut peak) = (Vec::new(), 0);
    for (i, span) in memory_lifetimes(program).into_iter().enumerate() {
        let (Some((from, to)), Some(at)) = (span, address(program.buffers[i].place)) else {
            continue;
        };
        let size = bytes(BufferId(i));
        peak = peak.max(at.saturating_add(size));
        list.push((to, false, size));
        list.push((from, true, size));
    }
    (list, peak)
}

/// The bytes in use from every moment on; what ends makes room before what begins at that moment.
fn occupancy_points(mut changes: Vec<MemoryChange>) -> Vec<(SimulatedTime, u64)> {
    changes.sort_unstable();
    let (mut used, mut points) = (0u64, Vec::<(SimulatedTime, u64)>::new());
    for (at, begins, size) in changes {
        used = if begins { used.saturating_add(size) } else { used.saturating_sub(size) };
        match points.last_mut() {
            Some((time, bytes)) if *time == at => *bytes = used,
            _ => points.push((at, used)),
        }
    }
    points
}

/// When the memory of every buffer is in use during a run, that of buffers in its place included.
fn memory_lifetimes(program: &CompiledProgram) -> Vec<Option<(SimulatedTime, SimulatedTime)>> {
    let mut spans: Vec<Option<(SimulatedTime, SimulatedTime)>> = vec![None; program.buffers.len()];
    let mut touch = |b: BufferId, from: SimulatedTime, to: SimulatedTime| {
        let span = spans[b.0].get_or_insert((from, to));
        *span = (span.0.min(from), span.1.max(to));
    };
    for (_, step) in program.run_steps() {
        let used = step.reads.iter().map(|r| r.buffer).chain(step.writes.iter().copied());
        for mut b in used {
            touch(b, step.start, step.end_time());
            for _ in 0..program.buffers.len() {
                let BufferLocation::Over(other) = program.buffer(b).place else { break };
                touch(other, step.start, step.end_time());
                b = other;
            }
        }
    }
    for output in &program.outputs {
        touch(output.buffer, program.latency(), program.latency());
    }
    spans
}
