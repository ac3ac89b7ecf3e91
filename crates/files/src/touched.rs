//! Finds the ranges of source elements that a plan reads.

use zellige_movement::{CopyNest, MovePlan};

/// The number of ranges that are collected before ranges that are close to each other are joined.
// 65536 ranges take a megabyte. They have to be sorted before they are joined, so this is not done after every nest.
const MAX_COLLECTED_RANGES: usize = 1 << 16;

/// The ranges `(first, one past the last)` of source elements that a plan reads, in increasing order.
///
/// **Law**: the plan reads no element outside of the ranges. It reads the first and the last element of every
/// range, skips at most `gap` consecutive elements inside a range, and more than `gap` between two ranges.
pub(crate) fn source_ranges(plan: &MovePlan, gap: i64) -> Vec<(i64, i64)> {
    let mut out = Vec::new();
    let mut limit = MAX_COLLECTED_RANGES;
    for nest in plan.nests() {
        let walk = SourceWalk::new(nest, gap);
        for (start, _) in &nest.starts {
            walk.collect_ranges(0, start + walk.down, &mut out);
            if out.len() > limit {
                join_ranges(&mut out, gap);
                // Twice the ranges that remain: with a fixed limit, ranges that cannot be joined would be sorted again
                // after every start.
                limit = MAX_COLLECTED_RANGES.max(2 * out.len());
            }
        }
    }
    join_ranges(&mut out, gap);
    out
}

fn join_ranges(ranges: &mut Vec<(i64, i64)>, gap: i64) {
    ranges.sort_unstable();
    ranges.dedup_by(|next, last| {
        let meets = next.0 - last.1 <= gap;
        if meets {
            last.1 = last.1.max(next.1);
        }
        meets
    });
}

/// The loops of a nest on its source side, all with positive strides.
struct SourceWalk {
    /// The offset of the lowest element from a start; 0 or less, because strides of a plan may be negative.
    down: i64,
    /// Ranges and strides of the loops, largest stride first.
    loops: Vec<(i64, i64)>,
    /// For each level, the distance from the first to the last element of the loops from that level inward.
    reach: Vec<i64>,
    /// The outermost level whose loops, and all inside of it, leave no gap of more than `gap` elements.
    dense: usize,
}

impl SourceWalk {
    fn new(nest: &CopyNest, gap: i64) -> SourceWalk {
        let moving = nest.loops.iter().filter(|l| l.range > 1 && l.src != 0);
        let mut loops: Vec<(i64, i64)> = moving.clone().map(|l| (l.range, l.src.abs())).collect();
        let down = moving.map(|l| ((l.range - 1) * l.src).min(0)).sum();
        // With the largest stride outermost, the inner loops cover a block of elements, and the blocks of the outer
        // loop are in increasing order.
        loops.sort_by_key(|(_, stride)| std::cmp::Reverse(*stride));
        let mut reach = vec![0; loops.len() + 1];
        let mut dense = loops.len();
        for (i, (range, stride)) in loops.iter().enumerate().rev() {
            reach[i] = reach[i + 1] + (range - 1) * stride;
            // The number of elements between the last element of one step and the first element of the next.
            if dense == i + 1 && stride - reach[i + 1] - 1 <= gap {
                dense = i;
            }
        }
        SourceWalk { down, loops, reach, dense }
    }

    fn collect_ranges(&self, level: usize, at: i64, out: &mut Vec<(i64, i64)>) {
        if level >= self.dense {
            out.push((at, at + self.reach[level] + 1));
            return;
        }
        let (range, stride) = self.loops[level];
        for i in 0..range {
            self.collect_ranges(level + 1, at + i * stride, out);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use zellige_layout::{AxisTable, Layout, StridedLayout};
    use zellige_movement::PaddingFill;

    /// Every source element that a plan reads, enumerated.
    fn list_read_elements(plan: &MovePlan) -> Vec<i64> {
        let mut all = Vec::new();
        for nest in plan.nests() {
            for (start, _) in &nest.starts {
                let mut at = vec![*start];
                for l in &nest.loops {
                    at = at.iter().flat_map(|a| (0..l.range).map(move |i| a + i * l.src)).collect();
                }
                all.extend(at);
            }
        }
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The ranges of [`source_ranges`], computed from single elements.
    fn ranges_by_definition(plan: &MovePlan, gap: i64) -> Vec<(i64, i64)> {
        let mut ranges: Vec<(i64, i64)> =
            list_read_elements(plan).iter().map(|a| (*a, a + 1)).collect();
        join_ranges(&mut ranges, gap);
        ranges
    }

    #[test]
    fn ranges_are_those_of_the_elements() {
        let strided = |size: &[i64], stride: &[i64], offset: i64| -> Layout {
            StridedLayout::new(size, stride, offset).unwrap().to_layout().unwrap()
        };
        let shape = [6, 5, 8];
        let sources = [
            strided(&shape, &[40, 8, 1], 0),
            strided(&shape, &[1, 6, 30], 0),
            strided(&shape, &[-40, 8, -1], 207),
            strided(&shape, &[100, 17, 2], 3),
            strided(&shape, &[7, 200, 1], 0),
            zellige_notation::parse("Swizzle(2,2,3) o S[(6,5,8):(64,8,1)]", &AxisTable::new())
                .unwrap()
                .layout_over_shape(None)
                .unwrap(),
        ];
        let targets = [strided(&shape, &[40, 8, 1], 0), strided(&shape, &[1, 6, 30], 0)];
        let mut cases = 0;
        for from in &sources {
            for to in &targets {
                let plan = MovePlan::between(from, to, &shape, PaddingFill::Leave).unwrap();
                for low in [0, 3, 100] {
                    for high in [low + 1, low + 17, 240] {
                        let part = plan.clip_destination(low, high);
                        for gap in [0, 1, 4, 15, 1000] {
                            for most in [8, 50, 10_000] {
                                let parts = part.split_by_source(most);
                                let mut all: Vec<i64> =
                                    parts.iter().flat_map(list_read_elements).collect();
                                all.sort_unstable();
                                all.dedup();
                                assert_eq!(all, list_read_elements(&part), "split");
                                for part in parts {
                                    assert_eq!(
                                        source_ranges(&part, gap),
                                        ranges_by_definition(&part, gap)
                                    );
                                    let (low, high) = part.source_window();
                                    assert!(high - low <= most, "{low}..{high} of {most}");
                                    cases += 1;
                                }
                            }
                        }
                    }
                }
            }
        }
        assert!(cases > 1000, "{cases}");
    }
}
