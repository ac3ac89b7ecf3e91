//! The swizzle, or the padding, with the fewest conflicts.

use crate::analysis::access::LaneAccessPattern;
use crate::axis::Axis;
use crate::error::{LayoutError, Result};
use crate::layout::Layout;
use crate::proof::{StepBudget, swizzled_bounds_within};
use crate::swizzle::Swizzle;
use crate::tile::{Iter, TileLayout};

/// The change to the layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConflictRemedy {
    /// Nothing helps, or nothing is needed.
    None,
    /// An XOR swizzle.
    Swizzle(Swizzle),
    /// This many unused elements after each run of the given stride.
    Padding {
        /// The stride that grew.
        stride: i64,
        /// By how many elements.
        by: i64,
    },
}

/// The outcome of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwizzleChoice {
    /// The layout to use.
    pub layout: Layout,
    /// The change to the layout.
    pub remedy: ConflictRemedy,
    /// The worst conflict of each access.
    pub ways: Vec<usize>,
    /// The worst conflict of each access before.
    pub before: Vec<usize>,
}

/// Elements and addresses examined, over all candidates, before the search is refused as too large.
// A count and not a time, so that the same search has the same answer on every machine.
const MAX_SEARCH_STEPS: u64 = 1 << 23;

/// The score of a candidate, smaller is better: total ways, worst way, memory used, complexity.
type CandidateScore = (usize, usize, i64, u32);

impl Layout {
    /// The swizzle, or else the padding, with the fewest bank conflicts for a set of accesses with
    /// their vector widths.
    ///
    /// Exhaustive over every swizzle that keeps the given vectors whole and reads bits that the
    /// addresses have, and over growing one stride by up to 128 bytes in steps of the vector.
    /// Among equals, less memory wins, then the smaller swizzle; where any swizzle is as good,
    /// padding is not used.
    pub fn find_least_conflict_swizzle(
        &self,
        shape: &[i64],
        bits: i64,
        accesses: &[(LaneAccessPattern, i64)],
    ) -> Result<SwizzleChoice> {
        Layout::check_element_bits(bits)?;
        self.check_shape_size(shape)?;
        let tile = self.require_unpadded("swizzle_for")?.tile();
        if tile.axes() != [Axis::M] {
            return Err(LayoutError::not_on_one_axis("swizzle_for", Axis::M, tile.axes()));
        }
        let (mut vector, mut touched) = (1, 0u64);
        for (access, v) in accesses {
            let lanes = access.lane_elements(shape, *v, bits)?;
            vector = vector.max(lanes.first().map_or(1, |l| i64::try_from(l.len()).unwrap_or(1)));
            touched += lanes.iter().map(|l| l.len() as u64).sum::<u64>();
        }
        let ways = |l: &Layout| -> Result<Vec<usize>> {
            accesses
                .iter()
                .map(|(a, v)| Ok(l.find_bank_conflicts(shape, bits, a, *v)?.ways))
                .collect()
        };
        let before = ways(self)?;
        let mut best = SwizzleChoice {
            layout: self.clone(),
            remedy: ConflictRemedy::None,
            ways: before.clone(),
            before,
        };
        let mut steps = StepBudget::with_limit(MAX_SEARCH_STEPS);
        let mut best_score = score_candidate(&best.layout, &best.ways, 0, &mut steps)?;
        let mut worst = best_score.1;
        let mut consider =
            |layout: Layout, remedy: ConflictRemedy, complexity: u32| -> Result<usize> {
                let found = ways(&layout)?;
                // Computing the span of a swizzled layout costs more than counting conflicts, so it
                // is left out for a candidate that is worse already.
                if total_and_worst_ways(&found) > (best_score.0, best_score.1) {
                    return Ok(best_score.1);
                }
                let score = score_candidate(&layout, &found, complexity, &mut steps)?;
                if score < best_score {
                    best_score = score;
                    (best.layout, best.remedy, best.ways) = (layout, remedy, found);
                }
                Ok(best_score.1)
            };
        let top = i64::from(64 - tile.axis_bounds(Axis::M).max.leading_zeros());
        // Low bits inside one vector must stay; bits above the addresses read as 0.
        let low = i64::from(64 - (vector - 1).max(0).leading_zeros());
        let bits_left = (top - low).max(0).cast_unsigned();
        if touched * (bits_left * bits_left / 2 * 5 + 1) > MAX_SEARCH_STEPS {
            let what = "trying every swizzle on every element of the accesses";
            return Err(LayoutError::TooLarge { what, limit: MAX_SEARCH_STEPS });
        }
        for m in low..top {
            // Five bits select one of the 32 banks; XOR with more bits cannot separate more of
            // them.
            for b in 1..=5 {
                for s in b..top - m {
                    let sw = Swizzle::new(m, b, s, true)?;
                    // Fewer bits first, then a distance near 3, which is that of the hardware's own
                    // modes, then a low unit.
                    let complexity = u32::try_from(b * 64 + (s - 3).abs() * 8 + m).unwrap_or(0);
                    let layout = Layout::from_swizzled_tile(sw, tile.clone())?;
                    worst = consider(layout, ConflictRemedy::Swizzle(sw), complexity)?;
                }
            }
        }
        // Padding costs memory, so it is tried only if no swizzle removes all conflicts.
        if worst > 1 {
            for (layout, stride, by) in padded_candidates(tile, vector, bits)? {
                consider(layout.into(), ConflictRemedy::Padding { stride, by }, 1024)?;
            }
        }
        Ok(best)
    }
}

fn total_and_worst_ways(ways: &[usize]) -> (usize, usize) {
    (ways.iter().sum(), ways.iter().copied().max().unwrap_or(0))
}

fn score_candidate(
    layout: &Layout,
    ways: &[usize],
    complexity: u32,
    steps: &mut StepBudget,
) -> Result<CandidateScore> {
    let span = match layout.swizzle() {
        Some(sw) if layout.size() > 0 => swizzled_bounds_within(layout.tile(), sw, steps)?.max + 1,
        _ => layout.axis_span(Axis::M)?,
    };
    let (total, worst) = total_and_worst_ways(ways);
    Ok((total, worst, span, complexity))
}

/// The layout with each of its strides grown, larger strides following where they are multiples.
fn padded_candidates(
    tile: &TileLayout,
    vector: i64,
    bits: i64,
) -> Result<Vec<(TileLayout, i64, i64)>> {
    let mut strides: Vec<i64> = tile.shard().iter().map(|it| it.stride).collect();
    strides.sort_unstable();
    strides.dedup();
    let mut all = Vec::new();
    for stride in strides.into_iter().filter(|s| *s > 1) {
        for by in (1..=(1024 / bits / vector).max(1)).map(|k| k * vector) {
            let grown = |it: &Iter| -> Option<Iter> {
                if it.stride < stride {
                    return Some(*it);
                }
                (it.stride % stride == 0)
                    .then(|| (it.stride / stride).checked_mul(stride + by))
                    .flatten()
                    .map(|s| Iter { stride: s, ..*it })
            };
            let shard: Option<Vec<Iter>> = tile.shard().iter().map(grown).collect();
            if let Some(shard) = shard {
                all.push((tile.with_shard(shard)?, stride, by));
            }
        }
    }
    Ok(all)
}
