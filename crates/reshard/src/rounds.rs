//! Divides an exchange into several rounds, so that it needs less memory.

use crate::error::{ReshardError, Result};
use crate::part::TransferPart;
use crate::reshard::Reshard;

/// The number of rounds, and the memory that they need.
///
/// In round `i` of `n` every part sends its `i`-th slice, `TransferPart::slice_of(i, n)`: all rounds load the links alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundPlan {
    /// The number of rounds.
    pub count: i64,
    /// The bytes that the busiest rank holds at once in send and receive buffers.
    pub staging: u64,
}

impl Reshard {
    /// The fewest rounds in which no rank holds more than `most` bytes in buffers, with elements of `width` bytes.
    ///
    /// # Errors
    /// Too few bytes for one element of every part of some rank.
    pub fn choose_rounds(&self, width: u64, most: u64) -> Result<RoundPlan> {
        let mut ranks: Vec<Vec<u64>> = Vec::new();
        for rank in 0..self.rank_count() {
            let mut sizes = Vec::new();
            for part in self.parts_received_by(rank)?.iter().chain(&self.parts_sent_by(rank)?) {
                sizes.push(u64::try_from(TransferPart::element_count(part)).unwrap_or(0));
            }
            ranks.push(sizes);
        }
        let staging = |rounds: u64| {
            // Each part is sliced evenly, and a slice is rounded up to whole elements: that is what
            // a buffer has to hold.
            let held = |sizes: &Vec<u64>| sizes.iter().map(|n| n.div_ceil(rounds)).sum::<u64>();
            ranks.iter().map(held).max().unwrap_or(0).saturating_mul(width)
        };
        let largest = ranks.iter().flatten().copied().max().unwrap_or(1).max(1);
        // More rounds than the largest part has elements make no buffer smaller, because each slice
        // is then one element.
        if staging(largest) > most {
            let crowded = (0i64..).zip(&ranks).max_by_key(|(_, sizes)| sizes.len());
            let (rank, messages) = crowded.map_or((0, 0), |(r, sizes)| (r, sizes.len() as u64));
            return Err(ReshardError::Memory {
                rank,
                messages,
                bytes: most,
                least: staging(largest),
            });
        }
        // Staging falls with the number of rounds, so the fewest rounds are found by bisection.
        let (mut low, mut high) = (1, largest);
        while low < high {
            let middle = low + (high - low) / 2;
            if staging(middle) <= most { high = middle } else { low = middle + 1 }
        }
        Ok(RoundPlan { count: i64::try_from(low).unwrap_or(i64::MAX), staging: staging(low) })
    }
}
