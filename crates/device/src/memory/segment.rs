//! Segments of the device memory, and what is free in them.

use super::allocator::{FreeHoles, GRANULE_BYTES};
use crate::error::{DeviceError, Result};
use zellige_machine::{SegmentPurpose, SegmentSpec};

/// A segment and what is free in it.
#[derive(Debug)]
pub(super) struct MemorySegment {
    pub(super) spec: SegmentSpec,
    pub(super) holes: FreeHoles,
    pub(super) blocks: usize,
    pub(super) allocated: u64,
    pub(super) peak: u64,
    pub(super) peak_reserved: u64,
}

impl MemorySegment {
    /// Checks every description; the segments may not overlap unless they are scratchpads, each of
    /// which has addresses of its own.
    pub(super) fn from_specs(specs: &[SegmentSpec]) -> Result<Vec<MemorySegment>> {
        let bad = |segment: usize, reason| {
            let SegmentSpec { base, bytes, .. } = specs[segment];
            Err(DeviceError::BadSegment { segment, base, bytes, reason })
        };
        for (i, spec) in specs.iter().enumerate() {
            if spec.bytes == 0 || !spec.bytes.is_multiple_of(GRANULE_BYTES) {
                return bad(i, "the length must be a positive multiple of 128");
            }
            if !spec.base.is_multiple_of(GRANULE_BYTES) {
                return bad(i, "the base must be a multiple of 128");
            }
            let Some(end) = spec.base.checked_add(spec.bytes) else {
                return bad(i, "it must end below 2^64");
            };
            let overlaps = |other: &SegmentSpec| {
                other.purpose != SegmentPurpose::Scratchpad
                    && spec.purpose != SegmentPurpose::Scratchpad
                    && other.base < end
                    && spec.base < other.base + other.bytes
            };
            if specs[..i].iter().any(overlaps) {
                return bad(i, "it overlaps an earlier segment; segments must be disjoint");
            }
        }
        Ok(specs.iter().map(|spec| MemorySegment::new(*spec)).collect())
    }

    fn new(spec: SegmentSpec) -> MemorySegment {
        let holes = FreeHoles::new(spec.bytes);
        MemorySegment { spec, holes, blocks: 0, allocated: 0, peak: 0, peak_reserved: 0 }
    }

    pub(super) fn reserved_bytes(&self) -> u64 {
        self.holes.total_bytes() - self.holes.free_bytes()
    }

    /// Takes `bytes` rounded up to sticks; gives the address.
    pub(super) fn take_range(&mut self, bytes: u64, rounded: u64) -> Option<u64> {
        let start = self.holes.take_range(rounded)?;
        self.blocks += 1;
        self.allocated += bytes;
        self.peak = self.peak.max(self.allocated);
        self.peak_reserved = self.peak_reserved.max(self.reserved_bytes());
        Some(self.spec.base + start)
    }

    pub(super) fn give_back(&mut self, address: u64, bytes: u64, rounded: u64) {
        self.holes.give_back(address - self.spec.base, rounded);
        self.blocks -= 1;
        self.allocated -= bytes;
    }
}
