//! Shared-memory banks: 32 of them, 4 bytes wide.

use crate::analysis::access::{LaneAccessPattern, WARP};
use crate::axis::Axis;
use crate::error::{LayoutError, Result};
use crate::layout::Layout;
use std::collections::{BTreeMap, BTreeSet};

/// Number of banks.
pub const BANKS: i128 = 32;
/// Width of a bank in bytes.
pub const BANK_BYTES: i128 = 4;

/// Bytes that all banks deliver in one cycle: 32 banks of 4 bytes.
const LINE_BYTES: i64 = 128;

/// The bank and the 128-byte line of a byte address.
pub fn bank_and_line(byte: i128) -> (i128, i128) {
    (byte / BANK_BYTES % BANKS, byte / (BANK_BYTES * BANKS))
}

/// The lanes that are served together, and the banks they access.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BankPhase {
    /// Lane numbers.
    pub lanes: Vec<usize>,
    /// For each bank the distinct words that are read from it or written to it.
    pub banks: BTreeMap<i64, Vec<i64>>,
    /// The largest number of words accessed in one bank: 1 is conflict-free.
    pub ways: usize,
}

/// The bank conflicts of one access.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BankConflictReport {
    /// The worst phase.
    pub ways: usize,
    /// Every phase, in lane order.
    pub phases: Vec<BankPhase>,
}

impl BankConflictReport {
    /// Whether no phase accesses two words of one bank.
    pub fn is_conflict_free(&self) -> bool {
        self.ways <= 1
    }
}

impl Layout {
    /// The bank conflicts of an access with `vector` elements of `bits` bits per lane.
    ///
    /// Lanes are served in phases of at most 128 bytes: 32 lanes of up to 4 bytes, 16 of 8, 8 of
    /// 16. In a phase a bank serves one word at a time; lanes that access the same word share it. The CUDA
    ///     C++ Programming Guide describes both (section "Shared Memory"); that wider accesses are split
    ///     into phases of 128 bytes follows from the 32 banks of 4 bytes.
    pub fn find_bank_conflicts(
        &self,
        shape: &[i64],
        bits: i64,
        access: &LaneAccessPattern,
        vector: i64,
    ) -> Result<BankConflictReport> {
        Layout::check_element_bits(bits)?;
        self.check_shape_size(shape)?;
        if self.tile().axes() != [Axis::M] {
            return Err(LayoutError::not_on_one_axis("conflicts", Axis::M, self.tile().axes()));
        }
        let lanes = access.lane_elements(shape, vector, bits)?;
        let per_lane = lanes.first().map_or(1, Vec::len);
        let bytes = (i64::try_from(per_lane).unwrap_or(i64::MAX).saturating_mul(bits) + 7) / 8;
        let together =
            usize::try_from(LINE_BYTES / bytes.clamp(4, LINE_BYTES)).unwrap_or(1).min(WARP);
        let mut phases = Vec::new();
        for (warp, warp_lanes) in lanes.chunks(WARP).enumerate() {
            for (i, group) in warp_lanes.chunks(together).enumerate() {
                let first = warp * WARP + i * together;
                let mut banks: BTreeMap<i64, BTreeSet<i64>> = BTreeMap::new();
                for flat in group.iter().flatten() {
                    let start = self.bit_address(*flat, bits)?;
                    let last = (start + i128::from(bits) - 1) / (8 * BANK_BYTES);
                    for word in start / (8 * BANK_BYTES)..=last {
                        let bank = i64::try_from(word % BANKS).unwrap_or(0);
                        let word = i64::try_from(word).unwrap_or(i64::MAX);
                        banks.entry(bank).or_default().insert(word);
                    }
                }
                phases.push(BankPhase {
                    lanes: (first..first + group.len()).collect(),
                    ways: banks.values().map(BTreeSet::len).max().unwrap_or(0),
                    banks: banks.into_iter().map(|(b, w)| (b, w.into_iter().collect())).collect(),
                });
            }
        }
        Ok(BankConflictReport { ways: phases.iter().map(|p| p.ways).max().unwrap_or(0), phases })
    }
}
