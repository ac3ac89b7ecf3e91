//! Figures of a memory.

use super::segment::MemorySegment;
use serde::Serialize;
use zellige_machine::{SegmentPurpose, SegmentSpec};

/// A memory at one moment. All numbers are bytes of device memory unless they are counts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MemoryStats {
    /// Bytes that were requested for live blocks.
    pub allocated: u64,
    /// The most that `allocated` ever was.
    pub peak: u64,
    /// Bytes that live blocks take: `allocated`, each block rounded up to sticks.
    pub reserved: u64,
    /// The most that `reserved` ever was.
    pub peak_reserved: u64,
    /// Bytes not taken.
    pub free: u64,
    /// Bytes of all segments: `reserved + free`.
    pub capacity: u64,
    /// Live blocks; zero-byte blocks take nothing and are not counted.
    pub blocks: usize,
    /// The longest allocation that would succeed in a segment for tensors (or in a scratchpad).
    pub largest_hole: u64,
    /// Each segment.
    pub segments: Vec<SegmentStats>,
}

/// One segment at one moment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SegmentStats {
    /// The segment.
    #[serde(flatten)]
    pub spec: SegmentSpec,
    /// Bytes that were requested for live blocks.
    pub allocated: u64,
    /// The most that `allocated` ever was.
    pub peak: u64,
    /// Bytes that live blocks take.
    pub reserved: u64,
    /// The most that `reserved` ever was.
    pub peak_reserved: u64,
    /// Bytes not taken.
    pub free: u64,
    /// Live blocks.
    pub blocks: usize,
    /// The longest allocation that would succeed here.
    pub largest_hole: u64,
    /// How many holes there are.
    pub holes: usize,
}

impl MemoryStats {
    /// The share of free bytes outside the largest hole of their segment: 0 when every segment's
    /// free bytes are in one piece (as in an empty memory), towards 1 when they are crumbs.
    pub fn fragmentation(&self) -> f64 {
        let largest: u64 = self.segments.iter().map(|s| s.largest_hole).sum();
        share_outside(largest, self.free)
    }

    pub(super) fn from_segments(
        segments: &[MemorySegment],
        peak: u64,
        peak_reserved: u64,
    ) -> MemoryStats {
        let segments: Vec<SegmentStats> = segments.iter().map(SegmentStats::from_segment).collect();
        let sum = |f: fn(&SegmentStats) -> u64| segments.iter().map(f).sum::<u64>();
        MemoryStats {
            allocated: sum(|s| s.allocated),
            peak,
            reserved: sum(|s| s.reserved),
            peak_reserved,
            free: sum(|s| s.free),
            capacity: sum(|s| s.spec.bytes),
            blocks: segments.iter().map(|s| s.blocks).sum(),
            largest_hole: segments
                .iter()
                .filter(|s| s.spec.purpose != SegmentPurpose::Programs)
                .map(|s| s.largest_hole)
                .max()
                .unwrap_or(0),
            segments,
        }
    }
}

impl SegmentStats {
    /// `1 - largest hole / free`; 0 when nothing is free.
    pub fn fragmentation(&self) -> f64 {
        share_outside(self.largest_hole, self.free)
    }

    fn from_segment(segment: &MemorySegment) -> SegmentStats {
        SegmentStats {
            spec: segment.spec,
            allocated: segment.allocated,
            peak: segment.peak,
            reserved: segment.reserved_bytes(),
            peak_reserved: segment.peak_reserved,
            free: segment.holes.free_bytes(),
            blocks: segment.blocks,
            largest_hole: segment.holes.largest_hole(),
            holes: segment.holes.hole_count(),
        }
    }
}

fn share_outside(largest: u64, free: u64) -> f64 {
    if free == 0 { 0.0 } else { (free - largest) as f64 / free as f64 }
}
