//! The exact range of swizzled addresses.

use crate::axis::Axis;
use crate::error::{LayoutError, Result};
use crate::int::{div_ceil, div_floor};
use crate::swizzle::Swizzle;
use crate::tile::{AxisBounds, Iter, TileLayout};
use smallvec::SmallVec;
use std::collections::BTreeSet;

/// Steps in one block of a swizzle before giving up.
// The swizzles of shared memory touch about ten bits, so a block holds at most a few thousand runs.
// The limit stops layouts whose large strides have exponentially many sums inside one block.
const MAX_SWIZZLE_STEPS: u64 = 1 << 20;

/// The smallest and largest swizzled address of a non-empty layout with addresses 0 or more.
///
/// Adding a multiple of `2^bits` commutes with the swizzle, so the largest swizzled address comes
/// from the topmost block of `2^bits` addresses that the layout reaches, and the smallest from the
/// lowermost.
pub(crate) fn swizzled_bounds(tile: &TileLayout, swizzle: Swizzle) -> Result<AxisBounds> {
    swizzled_bounds_within(tile, swizzle, &mut StepBudget::with_limit(MAX_SWIZZLE_STEPS))
}

/// The same, for many layouts that share a number of steps.
pub(crate) fn swizzled_bounds_within(
    tile: &TileLayout,
    swizzle: Swizzle,
    steps: &mut StepBudget,
) -> Result<AxisBounds> {
    let AxisBounds { min, max } = tile.axis_bounds(Axis::M);
    // `max - max % block` is where the topmost block begins; addresses are 0 or more, so `%` is the
    // residue.
    let block = 1i64 << swizzle.affected_low_bits();
    let top = find_runs_in(tile, max - max % block, max, steps)?;
    let bottom = find_runs_in(tile, min, (min - min % block) + block - 1, steps)?;
    let span = SwizzledRun::new(swizzle);
    let mut bounds = AxisBounds { min: i64::MAX, max: i64::MIN };
    for (low, high) in bottom {
        bounds.min = bounds.min.min(span.extreme_swizzled_address(low, high, false, steps)?);
    }
    for (low, high) in top {
        bounds.max = bounds.max.max(span.extreme_swizzled_address(low, high, true, steps)?);
    }
    Ok(bounds)
}

/// A number of steps that several searches share.
pub(crate) struct StepBudget {
    left: u64,
    limit: u64,
}

impl StepBudget {
    pub(crate) fn with_limit(limit: u64) -> StepBudget {
        StepBudget { left: limit, limit }
    }

    fn take_steps(&mut self, steps: u64) -> Result<()> {
        zellige_guard::count_step();
        let refuse =
            LayoutError::TooLarge { what: "the span of a swizzled layout", limit: self.limit };
        self.left = self.left.checked_sub(steps).ok_or(refuse)?;
        Ok(())
    }
}

/// The addresses on `m` inside `[low, high]`, as runs of consecutive ones.
///
/// The small strides that together leave no gap make one run; only the sums of the larger ones
/// are listed.
fn find_runs_in(
    tile: &TileLayout,
    low: i64,
    high: i64,
    steps: &mut StepBudget,
) -> Result<Vec<(i64, i64)>> {
    let mut iters: Vec<Iter> = tile
        .shard()
        .iter()
        .chain(tile.replica())
        .filter(|it| it.axis == Axis::M && it.extent > 1 && it.stride != 0)
        .copied()
        .collect();
    // Largest strides first: after a large digit is chosen, the rest can move the sum only a
    // little, so `[low, high]` leaves few values for the next digit.
    iters.sort_by_key(|it| std::cmp::Reverse(it.stride.unsigned_abs()));
    // Per suffix of the list, what its iters can subtract and add together; `listed` counts the iters
    // before the suffix that has no gap.
    let mut reach: Vec<(i64, i64)> = vec![(0, 0)];
    let mut listed = iters.len();
    for (i, it) in iters.iter().enumerate().rev() {
        let (down, up) = *reach.last().expect("starts with one entry");
        if listed == i + 1 && it.stride.unsigned_abs() <= (up - down).unsigned_abs() + 1 {
            listed = i;
        }
        let r = (it.extent - 1) * it.stride;
        reach.push((down + r.min(0), up + r.max(0)));
    }
    let mut sums = BTreeSet::from([tile.offset_on(Axis::M)]);
    for (i, it) in iters.iter().enumerate().take(listed) {
        let (down, up) = reach[iters.len() - 1 - i];
        let mut next = BTreeSet::new();
        for sum in &sums {
            // The rest of the iters adds between `down` and `up`, so this digit's contribution must
            // be in `[a, b]`. Every other value of the digit is left out without being visited.
            let (a, b) = ((low - up - sum), (high - down - sum));
            let (first, last) = if it.stride > 0 {
                (div_ceil(a, it.stride), div_floor(b, it.stride))
            } else {
                (div_ceil(b, it.stride), div_floor(a, it.stride))
            };
            for digit in first.max(0)..=last.min(it.extent - 1) {
                steps.take_steps(1)?;
                next.insert(sum + digit * it.stride);
            }
        }
        sums = next;
    }
    let (down, up) = reach[iters.len() - listed];
    Ok(sums.into_iter().map(|s| ((s + down).max(low), (s + up).min(high))).collect())
}

/// The images under a swizzle of aligned runs of `2^k` addresses.
///
/// A swizzle is linear in the bits of an address: such a run becomes one address XORed with every
/// combination of the swizzled low bits. In echelon form those bits give the extremes greedily.
struct SwizzledRun {
    swizzle: Swizzle,
    /// Per `k`, the swizzled bits below `k` with distinct leading bits, the highest first.
    bases: Vec<SmallVec<[i64; 8]>>,
}

impl SwizzledRun {
    fn new(swizzle: Swizzle) -> SwizzledRun {
        let mut bases: Vec<SmallVec<[i64; 8]>> = vec![SmallVec::new()];
        // `Swizzle::new` keeps every touched bit below 62, so these bases cover all addresses.
        for k in 0..62 {
            let mut basis = bases[k].clone();
            let mut bit = swizzle.apply_to_address(1 << k);
            for b in &basis {
                // Gaussian elimination on the leading bits: `min` clears the leading bit of `b`
                // from the new vector where it has it.
                bit = bit.min(bit ^ b);
            }
            basis.push(bit);
            basis.sort_unstable_by_key(|b| std::cmp::Reverse(*b));
            bases.push(basis);
        }
        SwizzledRun { swizzle, bases }
    }

    /// The largest or smallest swizzled address of `low ..= high`.
    fn extreme_swizzled_address(
        &self,
        low: i64,
        high: i64,
        largest: bool,
        steps: &mut StepBudget,
    ) -> Result<i64> {
        let mut best = if largest { i64::MIN } else { i64::MAX };
        let mut at = low;
        while at <= high {
            // The longest aligned run that starts here and ends at `high` or before it: an interval is at
            // most 2 * 62 of them.
            let room = (high - at + 1).ilog2().min(62);
            let k = if at == 0 { room } else { room.min(at.trailing_zeros()) };
            let basis = &self.bases[k as usize];
            steps.take_steps(1 + u64::from(k))?;
            let mut value = self.swizzle.apply_to_address(at);
            for b in basis {
                value = if largest { value.max(value ^ b) } else { value.min(value ^ b) };
            }
            best = if largest { best.max(value) } else { best.min(value) };
            at += 1 << k;
        }
        Ok(best)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extremes_of_runs_are_those_of_enumeration() {
        for (m, b, s, inner) in
            [(0, 1, 1, true), (1, 2, 3, true), (0, 2, 2, false), (1, 1, 2, false)]
        {
            let sw = Swizzle::new(m, b, s, inner).expect("well-formed");
            let span = SwizzledRun::new(sw);
            for low in 0..70 {
                for high in low..70 {
                    let all = || (low..=high).map(|a| sw.apply_to_address(a));
                    let mut steps = StepBudget::with_limit(MAX_SWIZZLE_STEPS);
                    let max =
                        span.extreme_swizzled_address(low, high, true, &mut steps).expect("small");
                    let min =
                        span.extreme_swizzled_address(low, high, false, &mut steps).expect("small");
                    assert_eq!(
                        (Some(min), Some(max)),
                        (all().min(), all().max()),
                        "{sw:?} {low} {high}"
                    );
                }
            }
        }
    }
}
