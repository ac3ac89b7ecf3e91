//! Work division: which part of an iteration space each core takes.

use crate::error::{DeviceError, Result};
use smallvec::SmallVec;
use std::ops::Range;

/// One dimension of an iteration space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoopSpan {
    /// Iterations.
    pub size: usize,
    /// Iterations that stay together: the lanes of a stick for a stick dimension, else 1.
    pub unit: usize,
    /// Whether results of different slices have to be combined.
    pub reduced: bool,
}

impl LoopSpan {
    /// A dimension that appears in the result.
    pub fn for_output(size: usize, unit: usize) -> LoopSpan {
        LoopSpan { size, unit, reduced: false }
    }

    /// A dimension that is summed over.
    pub fn for_reduction(size: usize, unit: usize) -> LoopSpan {
        LoopSpan { size, unit, reduced: true }
    }

    /// How many pieces it can be cut into.
    pub fn unit_count(&self) -> usize {
        self.size.div_ceil(self.unit.max(1))
    }
}

/// How many slices each dimension of an iteration space is cut into, in output-then-reduction order.
///
/// A core's number is written in mixed radix over the splits, in the order of [`core_order`]. Slices are
/// whole units, as equal as they can be, the first ones larger; a split may exceed what divides the
/// dimension.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkDivision {
    splits: SmallVec<[usize; 6]>,
    /// The dimensions as core numbers count them, the fastest first.
    order: SmallVec<[usize; 6]>,
}

/// The dimensions of an iteration space as the numbers of cores count them, the fastest first: those that
/// are summed over, so that cores which share a result are neighbours on the ring, then those of the
/// result; both in the order of the loops. It is the order of torch-spyre.
///
/// ```
/// use zellige_device::core_order;
/// // Rows, columns and the sum of a product: core 1 has the second part of the sum.
/// assert_eq!(core_order([false, false, true]).as_slice(), [2, 0, 1]);
/// ```
pub fn core_order(reduced: impl IntoIterator<Item = bool>) -> SmallVec<[usize; 6]> {
    let (mut sums, mut results): (SmallVec<[usize; 6]>, SmallVec<[usize; 6]>) = Default::default();
    for (d, reduced) in reduced.into_iter().enumerate() {
        if reduced { sums.push(d) } else { results.push(d) }
    }
    sums.extend(results);
    sums
}

impl WorkDivision {
    /// Everything on one core.
    pub fn on_one_core(rank: usize) -> WorkDivision {
        WorkDivision { splits: SmallVec::from_elem(1, rank), order: (0..rank).collect() }
    }

    /// Checks the splits against the space and the number of cores.
    ///
    /// # Errors
    /// A split of 0 or of more than its dimension's units, too many cores, the wrong number of splits.
    pub fn new(splits: &[usize], space: &[LoopSpan], cores: usize) -> Result<WorkDivision> {
        let bad = |dim: Option<usize>, accepted: String| DeviceError::BadDivision {
            splits: splits.to_vec(),
            dim,
            accepted,
        };
        if splits.len() != space.len() {
            return Err(bad(None, format!("one split for each of the {} dimensions", space.len())));
        }
        for (dim, (split, span)) in splits.iter().zip(space).enumerate() {
            let most = span.unit_count().max(1);
            if *split == 0 || *split > most {
                return Err(bad(Some(dim), format!("1 to {most}")));
            }
        }
        // Splits come from files and requests, and their product may overflow.
        let used = splits.iter().try_fold(1usize, |a, b| a.checked_mul(*b));
        if used.is_none_or(|n| n > cores) {
            return Err(bad(None, format!("splits whose product is at most {cores}, the cores")));
        }
        Ok(WorkDivision {
            splits: splits.into(),
            order: core_order(space.iter().map(|s| s.reduced)),
        })
    }

    /// The default distribution: output dimensions by decreasing number of units (the first of equal
    /// ones first), each cut by its largest divisor that the remaining cores allow; then, where
    /// `reduce` allows it, one reduction dimension.
    pub fn distribute_units(space: &[LoopSpan], cores: usize, reduce: bool) -> WorkDivision {
        let mut splits: SmallVec<[usize; 6]> = SmallVec::from_elem(1, space.len());
        let mut left = cores.max(1);
        let largest = |units: usize, left: usize| {
            // A divisor, so that all cores have slices of one size: the slowest one decides when the operation
            // ends.
            (1..=units.min(left)).rev().find(|d| units.is_multiple_of(*d)).unwrap_or(1)
        };
        let mut order: SmallVec<[usize; 6]> =
            (0..space.len()).filter(|d| !space[*d].reduced).collect();
        // The dimension with the most units first, because it is the likeliest to use all cores alone. The sort is
        // stable.
        order.sort_by_key(|d| std::cmp::Reverse(space[*d].unit_count()));
        for d in order {
            splits[d] = largest(space[d].unit_count(), left);
            left /= splits[d];
        }
        // Only with cores that the result leaves idle: a split sum costs hops between cores.
        if reduce && left > 1 {
            let reduced = (0..space.len()).filter(|d| space[*d].reduced);
            let best = reduced.map(|d| (largest(space[d].unit_count(), left), d));
            if let Some((split, d)) = best.max_by_key(|(split, d)| (*split, std::cmp::Reverse(*d)))
            {
                splits[d] = split;
            }
        }
        WorkDivision { splits, order: core_order(space.iter().map(|s| s.reduced)) }
    }

    /// The splits.
    pub fn splits(&self) -> &[usize] {
        &self.splits
    }

    /// Cores that have a slice.
    pub fn core_count(&self) -> usize {
        self.splits.iter().product()
    }

    /// The number of a core's slice in every dimension.
    pub fn core_digits(&self, core: usize) -> SmallVec<[usize; 6]> {
        let mut rest = core;
        let mut digits: SmallVec<[usize; 6]> = SmallVec::from_elem(0, self.splits.len());
        for d in &self.order {
            digits[*d] = rest % self.splits[*d];
            rest /= self.splits[*d];
        }
        digits
    }

    /// The iterations of a core.
    pub fn core_slice(&self, core: usize, space: &[LoopSpan]) -> SmallVec<[Range<usize>; 6]> {
        let digits = self.core_digits(core);
        let cut = |d: usize| {
            let (span, n) = (space[d], self.splits[d]);
            // A given split need not divide the units: the first slices have one more.
            let (base, extra) = (span.unit_count() / n, span.unit_count() % n);
            let first = |i: usize| ((base * i + extra.min(i)) * span.unit).min(span.size);
            first(digits[d])..first(digits[d] + 1)
        };
        (0..space.len()).map(cut).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_partition_the_space() {
        for sizes in [[10usize, 130, 7], [1, 64, 1], [32, 0, 5], [3, 200, 31]] {
            let space = [
                LoopSpan::for_output(sizes[0], 1),
                LoopSpan::for_output(sizes[1], 64),
                LoopSpan::for_reduction(sizes[2], 1),
            ];
            for cores in [1, 2, 5, 32] {
                for reduce in [false, true] {
                    let division = WorkDivision::distribute_units(&space, cores, reduce);
                    assert!(division.core_count() <= cores);
                    let mut seen = vec![0u8; sizes.iter().product()];
                    for core in 0..division.core_count() {
                        let s = division.core_slice(core, &space);
                        assert!(s[1].start.is_multiple_of(64));
                        for i in s[0].clone() {
                            for j in s[1].clone() {
                                for k in s[2].clone() {
                                    seen[(i * sizes[1] + j) * sizes[2] + k] += 1;
                                }
                            }
                        }
                    }
                    assert!(seen.iter().all(|n| *n == 1));
                }
            }
        }
    }

    #[test]
    fn the_documented_examples() {
        // abs of [256, 128, 512] in float32: all 32 cores on dimension 0.
        let space = [
            LoopSpan::for_output(256, 1),
            LoopSpan::for_output(128, 1),
            LoopSpan::for_output(512, 32),
        ];
        assert_eq!(WorkDivision::distribute_units(&space, 32, true).splits(), [32, 1, 1]);
        // One row, 12800 columns in sticks of 64: 200 sticks, 25 cores.
        let space = [
            LoopSpan::for_output(1, 1),
            LoopSpan::for_output(12800, 64),
            LoopSpan::for_reduction(4096, 64),
        ];
        assert_eq!(WorkDivision::distribute_units(&space, 32, false).splits(), [1, 25, 1]);
        assert!(WorkDivision::new(&[2, 1, 1], &space, 32).is_err());
        assert!(WorkDivision::new(&[1, 25, 2], &space, 32).is_err());
        assert!(WorkDivision::new(&[1, 25], &space, 32).is_err());
        assert!(WorkDivision::new(&[1, 0, 1], &space, 32).is_err());
        assert_eq!(
            WorkDivision::new(&[1, 16, 2], &space, 32).unwrap().core_digits(3).as_slice(),
            [0, 1, 1]
        );
        // Two loops of a result, the first fastest: core 1 has the second rows of the first columns.
        let space = [LoopSpan::for_output(128, 64), LoopSpan::for_output(128, 64)];
        let division = WorkDivision::new(&[2, 2], &space, 32).unwrap();
        let slices = (0..4).map(|core| division.core_digits(core).to_vec());
        assert_eq!(slices.collect::<Vec<_>>(), [[0, 0], [1, 0], [0, 1], [1, 1]]);
        // With a sum that is split: its parts, then rows, then columns.
        let space = [
            LoopSpan::for_output(128, 64),
            LoopSpan::for_output(128, 64),
            LoopSpan::for_reduction(128, 64),
        ];
        let division = WorkDivision::new(&[2, 2, 2], &space, 32).unwrap();
        let slices = (0..8).map(|core| division.core_digits(core).to_vec());
        let mut want = Vec::new();
        for n in 0..2 {
            for m in 0..2 {
                want.extend([[m, n, 0], [m, n, 1]]);
            }
        }
        assert_eq!(slices.collect::<Vec<_>>(), want);
    }
}
