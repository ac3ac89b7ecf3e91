//! Segments: the pieces of an address space, and who may live there.

use super::allocator::{GRANULE, Holes};
use crate::error::{DeviceError, Result};
use serde::Serialize;

/// Bytes of a segment of the card.
pub const SEGMENT_BYTES: u64 = 16 << 30;
/// Segments of the card; the last one is for programs.
pub const SEGMENTS: usize = 8;

/// Who may live in a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// Tensors: what [`alloc`](super::Memory::alloc) gives out.
    Tensors,
    /// Compiled programs.
    Programs,
    /// The scratchpad of one core.
    Scratchpad,
}

/// One segment, described.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SegmentSpec {
    /// The address of its first byte, a multiple of 128.
    pub base: u64,
    /// Its length, a positive multiple of 128.
    pub bytes: u64,
    /// Who may live there.
    pub purpose: Purpose,
}

impl SegmentSpec {
    /// The eight segments of the card: 16 GiB each, one after the other, the last for programs.
    pub fn card() -> Vec<SegmentSpec> {
        (0..SEGMENTS)
            .map(|i| SegmentSpec {
                base: i as u64 * SEGMENT_BYTES,
                bytes: SEGMENT_BYTES,
                purpose: if i + 1 == SEGMENTS { Purpose::Programs } else { Purpose::Tensors },
            })
            .collect()
    }
}

/// A segment and what is free in it.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) spec: SegmentSpec,
    pub(super) holes: Holes,
    pub(super) blocks: usize,
    pub(super) allocated: u64,
    pub(super) peak: u64,
    pub(super) peak_reserved: u64,
}

impl Segment {
    /// Checks every description; the segments may not overlap unless they are scratchpads, each of
    /// which has addresses of its own.
    pub(super) fn all(specs: &[SegmentSpec]) -> Result<Vec<Segment>> {
        let bad = |segment: usize, reason| {
            let SegmentSpec { base, bytes, .. } = specs[segment];
            Err(DeviceError::BadSegment { segment, base, bytes, reason })
        };
        for (i, spec) in specs.iter().enumerate() {
            if spec.bytes == 0 || !spec.bytes.is_multiple_of(GRANULE) {
                return bad(i, "the length must be a positive multiple of 128");
            }
            if !spec.base.is_multiple_of(GRANULE) {
                return bad(i, "the base must be a multiple of 128");
            }
            let Some(end) = spec.base.checked_add(spec.bytes) else {
                return bad(i, "it must end below 2^64");
            };
            let overlaps = |other: &SegmentSpec| {
                other.purpose != Purpose::Scratchpad
                    && spec.purpose != Purpose::Scratchpad
                    && other.base < end
                    && spec.base < other.base + other.bytes
            };
            if specs[..i].iter().any(overlaps) {
                return bad(i, "it overlaps an earlier segment; segments must be disjoint");
            }
        }
        Ok(specs.iter().map(|spec| Segment::new(*spec)).collect())
    }

    fn new(spec: SegmentSpec) -> Segment {
        let holes = Holes::new(spec.bytes);
        Segment { spec, holes, blocks: 0, allocated: 0, peak: 0, peak_reserved: 0 }
    }

    pub(super) fn reserved(&self) -> u64 {
        self.holes.size() - self.holes.free()
    }

    /// Takes `bytes` rounded up to sticks; gives the address.
    pub(super) fn take(&mut self, bytes: u64, rounded: u64) -> Option<u64> {
        let start = self.holes.take(rounded)?;
        self.blocks += 1;
        self.allocated += bytes;
        self.peak = self.peak.max(self.allocated);
        self.peak_reserved = self.peak_reserved.max(self.reserved());
        Some(self.spec.base + start)
    }

    pub(super) fn give(&mut self, address: u64, bytes: u64, rounded: u64) {
        self.holes.give(address - self.spec.base, rounded);
        self.blocks -= 1;
        self.allocated -= bytes;
    }
}
