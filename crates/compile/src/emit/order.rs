//! Which steps have to end before another begins.

use super::{BufferAddress, MemoryMap};
use crate::program::{BufferId, CompiledProgram, ProgramStep, StepId};
use std::collections::BTreeSet;
use std::ops::Range;

/// Where a step reads or writes.
#[derive(Debug, Clone, PartialEq, Eq)]
struct MemoryAccess {
    step: StepId,
    memory: AccessedMemory,
    bytes: Range<u64>,
    /// The cores whose scratchpads are meant; all of them share device memory.
    cores: Range<usize>,
    writes: bool,
}

/// A memory with addresses of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AccessedMemory {
    Argument(usize),
    Pool,
    Lx,
}

impl MemoryAccess {
    fn overlaps_access(&self, other: &MemoryAccess) -> bool {
        let cross = |a: &Range<u64>, b: &Range<u64>| a.start < b.end && b.start < a.end;
        let cores = self.cores.start < other.cores.end && other.cores.start < self.cores.end;
        self.memory == other.memory && cores && cross(&self.bytes, &other.bytes)
    }

    fn covers_access(&self, other: &MemoryAccess) -> bool {
        self.memory == other.memory
            && self.bytes.start <= other.bytes.start
            && other.bytes.end <= self.bytes.end
            && self.cores.start <= other.cores.start
            && other.cores.end <= self.cores.end
    }
}

/// The accesses of a phase that later ones have to wait for.
#[derive(Debug, Default)]
pub(super) struct AccessOrder(Vec<MemoryAccess>);

impl AccessOrder {
    /// The steps that one has to wait for: those that wrote what it reads, and those that read or wrote
    /// the memory that it writes.
    pub(super) fn add_step(
        &mut self,
        program: &CompiledProgram,
        map: &MemoryMap,
        id: StepId,
        step: &ProgramStep,
    ) -> Vec<StepId> {
        let of = |buffer: BufferId, writes: bool| {
            describe_access(program, map, (id, step), buffer, writes)
        };
        let reads = step.reads.iter().map(|r| of(r.buffer, false));
        let new: Vec<MemoryAccess> =
            reads.chain(step.writes.iter().map(|b| of(*b, true))).collect();
        let mut after = BTreeSet::new();
        for a in &new {
            let waits = self
                .0
                .iter()
                // Two reads need no order.
                .filter(|b| b.step != id && (a.writes || b.writes) && a.overlaps_access(b));
            after.extend(waits.map(|b| b.step));
        }
        for a in new {
            // Dropping covered accesses keeps the list as short as the memory has live regions; otherwise the order
            // of a long program would take quadratic time.
            // Whoever waits for a write waits for what it waited for.
            if a.writes {
                self.0.retain(|b| b.step == id || !a.covers_access(b));
            }
            self.0.push(a);
        }
        after.into_iter().collect()
    }

    /// The steps that wrote a buffer.
    pub(super) fn find_writers(
        &self,
        program: &CompiledProgram,
        map: &MemoryMap,
        id: BufferId,
    ) -> Vec<StepId> {
        let Some(last) = self.0.last() else { return Vec::new() };
        let step = &program.steps[last.step.0];
        let wanted = describe_access(program, map, (StepId(usize::MAX), step), id, false);
        let wanted = MemoryAccess { cores: 0..usize::MAX, ..wanted };
        let found = self.0.iter().filter(|b| b.writes && wanted.overlaps_access(b)).map(|b| b.step);
        found.collect::<BTreeSet<_>>().into_iter().collect()
    }
}

fn describe_access(
    program: &CompiledProgram,
    map: &MemoryMap,
    (id, step): (StepId, &ProgramStep),
    buffer: BufferId,
    writes: bool,
) -> MemoryAccess {
    let bytes = program.buffer(buffer).bytes();
    let used = step.division.core_count();
    let on = |memory, start: u64, bytes: u64, cores| MemoryAccess {
        step: id,
        memory,
        bytes: start..start + bytes,
        cores,
        writes,
    };
    match map.buffer_address(buffer) {
        BufferAddress::Argument(k, _) => on(AccessedMemory::Argument(k), 0, bytes, 0..usize::MAX),
        BufferAddress::Pool(at) => on(AccessedMemory::Pool, at, bytes, 0..usize::MAX),
        BufferAddress::Lx(at) => {
            // Every core has its own slice at the same address, so that two steps on different cores use different
            // bytes.
            let slice = bytes.div_ceil(used.max(1) as u64);
            on(AccessedMemory::Lx, at, slice, step.first_core..step.first_core + used.max(1))
        }
    }
}
