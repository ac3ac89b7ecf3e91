//! The time of a copy between the scratchpads of two divisions of a tensor.
//!
//! Two laws, for the two ways in which the ring has been used. Both are stated in figures of the preset.
//!
//! - [`ExchangeCarrier::Shuffle`], load and store units of the scratchpads (torch-spyre since August 2026):
//!   `runs x (run_doubling x log2 split - run_saving) + bytes x split / walk` of the side that governs. `runs` and `bytes`
//!   are those of one core, every element of the tensor counted once: copies on several cores add no measurable time.
//!   The side with the shorter contiguous run governs, and on a tie the one with the larger split, which is clamped to
//!   2 to 8, the range that was measured. No shuffle takes less than its busiest link at `ring.bandwidth`.
//! - [`ExchangeCarrier::Move`], a program of the ring for every move (torch-spyre until July 2026):
//!   `move_start + bytes of the busiest link / move_link`.
//!
//! Hardware without these figures takes `bytes of the busiest link / ring.bandwidth`, which nothing measured supports: a
//! compiler plans copies where [`Hardware::prices_shuffles`] holds.

use crate::hardware::{Hardware, Key};
use crate::ratio::Ratio;
use serde::Serialize;

/// What carries a copy over the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ExchangeCarrier {
    /// The load and store units of the scratchpads.
    Shuffle,
    /// A program of the ring.
    Move,
}

/// One side of a copy: how its cores cut the tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub struct ExchangeSide {
    /// Cores that hold something.
    pub cores: u64,
    /// Consecutive bytes of the tensor that one core holds.
    pub run_bytes: u64,
    /// Slices of the dimension that ends those runs.
    pub split: u64,
}

/// What decides the time of a copy between scratchpads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub struct ExchangeWork {
    /// What carries it.
    pub carrier: ExchangeCarrier,
    /// Bytes of the part of the tensor that is copied, each counted once.
    pub bytes: u64,
    /// The cores that hold it before.
    pub source: ExchangeSide,
    /// The cores that hold it afterwards.
    pub destination: ExchangeSide,
    /// Bytes that the busiest link of the ring carries in one direction.
    pub link_bytes: u64,
}

/// Cycles of a copy, by term; they add up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct ExchangeCycles {
    /// What a move takes before its first byte.
    pub start: u64,
    /// Beginning every run of consecutive bytes.
    pub runs: u64,
    /// Walking along the part of a core, as often as its dimension is split.
    pub walk: u64,
    /// The busiest link of the ring.
    pub link: u64,
}

impl ExchangeCycles {
    /// All terms.
    pub fn total(&self) -> u64 {
        [self.start, self.runs, self.walk, self.link].into_iter().fold(0, u64::saturating_add)
    }
}

/// Binary logarithms of the splits 2 to 8, in billionths rounded to the nearest: integers alone, so that all machines
/// agree.
const LOG2_BILLIONTHS: [u64; 7] = [
    1_000_000_000,
    1_584_962_501,
    2_000_000_000,
    2_321_928_095,
    2_584_962_501,
    2_807_354_922,
    3_000_000_000,
];

/// The splits that were measured. Beyond them the law is not known: larger ones are taken as 8.
const SPLITS: std::ops::RangeInclusive<u64> = 2..=8;

impl ExchangeWork {
    /// The side that governs the time of a shuffle.
    pub fn governing_side(&self) -> &ExchangeSide {
        let (a, b) = (&self.source, &self.destination);
        match a.run_bytes.cmp(&b.run_bytes) {
            std::cmp::Ordering::Less => a,
            std::cmp::Ordering::Greater => b,
            // Both orders of one pair of sides were measured alike, so that the choice must not depend on the direction.
            std::cmp::Ordering::Equal if a.split >= b.split => a,
            std::cmp::Ordering::Equal => b,
        }
    }
}

impl Hardware {
    /// Whether it has the measured figures of copies between scratchpads.
    pub fn prices_shuffles(&self) -> bool {
        [Key::RingRunDoubling, Key::RingRunSaving, Key::RingWalk]
            .iter()
            .all(|key| self.find_figure(*key).is_some())
    }

    /// Cycles of a copy between scratchpads; the head of this file has the laws.
    pub(super) fn exchange_cycles(&self, work: &ExchangeWork) -> ExchangeCycles {
        let number = |key| self.figure_number(key);
        let clock = number(Key::Clock);
        let moves = [Key::RingMoveStart, Key::RingMoveLink];
        let has_moves = moves.iter().all(|key| self.find_figure(*key).is_some());
        let link = Ratio::ONE.divided_by(number(Key::Ring)).ceil_product(work.link_bytes);
        match work.carrier {
            ExchangeCarrier::Shuffle if self.prices_shuffles() && work.bytes > 0 => {
                let side = work.governing_side();
                let split = side.split.clamp(*SPLITS.start(), *SPLITS.end());
                let place = usize::try_from(split - SPLITS.start()).expect("clamped to the table");
                let log2 = LOG2_BILLIONTHS[place];
                // Nanoseconds of a run in billionths.
                let doubled = number(Key::RingRunDoubling).ceil_product(log2);
                let saved = number(Key::RingRunSaving).ceil_product(1_000_000_000);
                let run = Ratio::new(doubled.saturating_sub(saved), 1_000_000_000);
                let own = work.bytes.div_ceil(side.cores.max(1));
                let runs = own.div_ceil(side.run_bytes.max(1));
                let walk = Ratio::new(split, 1).divided_by(number(Key::RingWalk));
                let walked = ExchangeCycles {
                    runs: run.multiplied_by(clock).ceil_product(runs),
                    walk: walk.multiplied_by(clock).ceil_product(own),
                    ..ExchangeCycles::default()
                };
                // Copies to many cores are beyond what was measured; the ring bounds them all the same.
                if link > walked.total() {
                    ExchangeCycles { link, ..ExchangeCycles::default() }
                } else {
                    walked
                }
            }
            ExchangeCarrier::Move if has_moves => ExchangeCycles {
                // GHz times microseconds are thousands of cycles.
                start: number(Key::RingMoveStart).multiplied_by(clock).ceil_product(1000),
                link: clock.divided_by(number(Key::RingMoveLink)).ceil_product(work.link_bytes),
                ..ExchangeCycles::default()
            },
            _ => ExchangeCycles { link, ..ExchangeCycles::default() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::{CoreWork, OperationWork, WorkKind};
    use crate::time::SimulatedTime;

    const MIB: u64 = 1 << 20;

    fn price(preset: &str, work: ExchangeWork) -> f64 {
        let hardware = Hardware::built_in_preset(preset).unwrap();
        let cores = usize::try_from(work.source.cores.max(work.destination.cores)).unwrap();
        let each = CoreWork { ring_in: work.bytes, ..CoreWork::default() };
        let made = OperationWork::uniform_cores("x", WorkKind::Exchange(work), cores, each);
        let latency = hardware.operation_latency(&made);
        let sum: SimulatedTime = hardware.list_time_terms(&latency).iter().map(|t| t.counted).sum();
        assert_eq!(sum, latency.time);
        latency.time.microseconds()
    }

    fn shuffle(bytes: u64, cores: u64, run_bytes: u64, split: u64) -> ExchangeWork {
        let source = ExchangeSide { cores, run_bytes, split };
        let destination = ExchangeSide { cores, run_bytes: 1 << 20, split: 1 };
        ExchangeWork {
            carrier: ExchangeCarrier::Shuffle,
            bytes,
            source,
            destination,
            link_bytes: 0,
        }
    }

    #[test]
    fn measured_copies_are_close() {
        // Published single copies: bytes, cores, run, split, microseconds.
        for (bytes, cores, run, split, measured) in [
            (2 * MIB, 8, 256, 4, 8.72),
            (2 * MIB, 8, 512, 2, 2.33),
            (2 * MIB, 4, 1024, 4, 7.22),
            (2 * MIB, 32, 1024, 4, 0.99),
            (4 * MIB, 8, 256, 4, 17.30),
        ] {
            let work = shuffle(bytes, cores, run, split);
            let ratio = price("card-2026-09", work) / measured;
            assert!((0.9..1.1).contains(&ratio), "{work:?}: {ratio}");
            let reversed =
                ExchangeWork { source: work.destination, destination: work.source, ..work };
            assert_eq!(price("card-2026-09", work), price("card-2026-09", reversed));
        }
    }

    #[test]
    fn the_law_is_that_of_the_reals() {
        for split in 1..20_u64 {
            for run in [128, 256, 4096] {
                let s = split.clamp(2, 8) as f64;
                let own = MIB as f64 / 8.0;
                let ns = own / run as f64 * (3.92 * s.log2() - 1.14) + own * s / 547.0;
                let found = 1000.0 * price("card-2026-09", shuffle(MIB, 8, run, split));
                assert!((found - ns).abs() < 3.0, "{split} {run}: {found} {ns}");
            }
        }
    }

    #[test]
    fn hardware_without_figures_has_the_ring_alone() {
        let work = ExchangeWork { link_bytes: 12_800, ..shuffle(MIB, 8, 128, 8) };
        let preset = "card-2026-05";
        assert!(!Hardware::built_in_preset(preset).unwrap().prices_shuffles());
        assert!((price(preset, work) - 100.0 / 1500.0).abs() < 1e-3);
    }

    #[test]
    fn nothing_takes_no_time() {
        assert_eq!(price("card-2026-09", shuffle(0, 8, 128, 8)), 0.0);
        let still = ExchangeWork { carrier: ExchangeCarrier::Move, ..shuffle(MIB, 8, 128, 8) };
        assert_eq!(price("card-2026-09", still), 60.0);
    }

    #[test]
    fn no_shuffle_is_faster_than_the_ring() {
        let work = ExchangeWork { link_bytes: 192_000_000, ..shuffle(MIB, 32, 4096, 2) };
        assert!((price("card-2026-09", work) - 1000.0).abs() < 1e-3);
    }
}
