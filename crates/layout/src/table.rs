//! Offset tables: a coordinate for every element, written in one pass.

use crate::axis::Axis;
use crate::error::{LayoutError, Result};
use crate::layout::Layout;
use crate::tile::{Iter, TileLayout};
use crate::window::{PaddedExtent, ValidWindow};
use smallvec::SmallVec;

/// The most entries of the innermost block, which is computed once and then copied with an offset.
// 4,096 entries of 8 bytes are 32 KiB, which stay in a first-level data cache while they are read again and again.
const MAX_BLOCK_ENTRIES: i64 = 1 << 12;

impl Layout {
    /// The coordinate on one axis of every element, in row-major order (first replica).
    ///
    /// **Law**: `offsets(a)[i]` is the coordinate of `D(i) + O` on `a`, swizzled on `m`.
    pub fn offset_table(&self, axis: Axis) -> Result<Vec<i64>> {
        let mut table = Vec::new();
        self.write_offset_table(axis, &mut table)?;
        Ok(table)
    }

    /// [`Layout::offset_table`] into an existing table, which is cleared first. A caller that needs many
    /// tables reuses one, because the first write to fresh memory costs a page fault for every page.
    pub fn write_offset_table(&self, axis: Axis, table: &mut Vec<i64>) -> Result<()> {
        table.clear();
        let size =
            usize::try_from(self.size()).map_err(|_| LayoutError::overflow_of("the table"))?;
        zellige_guard::reserve_memory(size_of::<i64>().saturating_mul(size));
        table
            .try_reserve_exact(size)
            .map_err(|_| LayoutError::TooLarge { what: "an offset table", limit: u64::MAX })?;
        if size == 0 {
            return Ok(());
        }
        match self.swizzle().filter(|s| axis == Axis::M && !s.is_identity()) {
            // The swizzle is applied inside the loop that writes the table, and the loop without
            // one is separate, so that both stay simple enough to be vectorised.
            None => {
                self.emit_offset_runs(axis, |run, add| table.extend(run.iter().map(|v| v + add)));
            }
            Some(sw) => {
                self.emit_offset_runs(axis, |run, add| {
                    table.extend(run.iter().map(|v| sw.apply_to_address(v + add)));
                });
            }
        }
        Ok(())
    }

    /// The table before the swizzle, as runs in order: each is `run` with `add` added.
    fn emit_offset_runs(&self, axis: Axis, mut emit: impl FnMut(&[i64], i64)) {
        let origin = self.tile().offset_on(axis);
        let Some(window) = self.window() else {
            let walk = AxisWalk::new(self.tile().canonical_form().shard(), axis, vec![0]);
            return walk.emit_walk_runs(0, self.size(), |run, add| emit(run, add + origin));
        };
        let Some(mut dims) = split_window_dimensions(self.tile(), window) else {
            // The iters cross the dimensions of the window, so the coordinate is no sum over dimensions and
            // every element is computed by itself.
            let slot = self.tile().axis_index(axis);
            for i in 0..self.size() {
                emit(
                    &[slot.map_or(0, |k| {
                        self.tile().unreplicated_coordinate(window.padded_index_of(i))[k]
                    })],
                    0,
                );
            }
            return;
        };
        let mut row = IndexRange::new(dims.pop(), axis, vec![0]);
        // Short inner dimensions are joined into one row, because a run of a few entries costs more
        // in calls than in writing.
        while row.count <= MAX_BLOCK_ENTRIES && !dims.is_empty() {
            row = IndexRange::new(dims.pop(), axis, row.index_table());
        }
        let outer: Vec<IndexRange> =
            dims.into_iter().map(|d| IndexRange::new(Some(d), axis, vec![0])).collect();
        repeat_row_runs(&outer, &row, origin, &mut emit);
    }
}

/// `row` once for every index of `outer`, the coordinate of the index added.
fn repeat_row_runs(
    outer: &[IndexRange],
    row: &IndexRange,
    base: i64,
    emit: &mut impl FnMut(&[i64], i64),
) {
    let Some((first, rest)) = outer.split_first() else {
        return row.emit_index_runs(|run, add| emit(run, base + add));
    };
    first.emit_index_runs(|run, add| {
        for value in run {
            repeat_row_runs(rest, row, base + add + value, emit);
        }
    });
}

/// One dimension of a window with the iters that it owns.
type SplitDimension = (PaddedExtent, Vec<Iter>);

/// The dimensions of a window if the iters follow them: the coordinate is then the sum of one function for
/// each dimension. A dimension without padding is joined with the one on its left, because together they
/// are one range.
fn split_window_dimensions(tile: &TileLayout, window: &ValidWindow) -> Option<Vec<SplitDimension>> {
    let mut dims: Vec<PaddedExtent> = Vec::new();
    for d in window.dims() {
        match dims.last_mut() {
            Some(left) if d.valid == d.padded => {
                left.begin *= d.padded;
                left.valid *= d.padded;
                left.padded *= d.padded;
            }
            _ => dims.push(*d),
        }
    }
    let padded: Vec<i64> = dims.iter().map(|d| d.padded).collect();
    let (grouped, seps) = tile.group(&padded).ok()?;
    let iters = seps.windows(2).map(|s| grouped.shard()[s[0]..s[1]].to_vec());
    Some(dims.into_iter().zip(iters).collect())
}

/// A range of the indices of a walk: `count` of them from `begin` on.
struct IndexRange {
    walk: AxisWalk,
    begin: i64,
    count: i64,
}

impl IndexRange {
    /// The valid indices of a dimension, each with the indices of `inner` inside it.
    fn new(dimension: Option<SplitDimension>, axis: Axis, inner: Vec<i64>) -> IndexRange {
        let len = i64::try_from(inner.len()).unwrap_or(i64::MAX);
        let (extent, iters) = dimension.unwrap_or((PaddedExtent::without_padding(1), Vec::new()));
        let walk = AxisWalk::new(&iters, axis, inner);
        IndexRange { walk, begin: extent.begin * len, count: extent.valid * len }
    }

    fn emit_index_runs(&self, emit: impl FnMut(&[i64], i64)) {
        self.walk.emit_walk_runs(self.begin, self.count, emit);
    }

    fn index_table(&self) -> Vec<i64> {
        let mut table = Vec::new();
        self.emit_index_runs(|run, add| table.extend(run.iter().map(|v| v + add)));
        table
    }
}

/// The coordinate on one axis of a list of iters: a block of the innermost digits, written out, and
/// the digits outside it, innermost first.
struct AxisWalk {
    block: Vec<i64>,
    outer: Vec<(i64, i64)>,
}

impl AxisWalk {
    /// Digits grow the block from the inside out: the table of one more digit is the table so far, repeated
    /// with its stride added, up to [`MAX_BLOCK_ENTRIES`] entries. It starts as `block`, the values of the
    /// dimensions inside these iters.
    fn new(shard: &[Iter], axis: Axis, mut block: Vec<i64>) -> AxisWalk {
        let mut outer = Vec::new();
        for it in shard.iter().rev().filter(|it| it.extent != 1) {
            let stride = if it.axis == axis { it.stride } else { 0 };
            let len = i64::try_from(block.len()).unwrap_or(i64::MAX);
            let inside = (MAX_BLOCK_ENTRIES / len).clamp(1, it.extent);
            // Grow the block by a divisor of this extent, so that whole blocks tile the rest.
            let take = (1..=inside).rev().find(|d| it.extent % d == 0).unwrap_or(1);
            if !outer.is_empty() || take == 1 {
                outer.push((it.extent, stride));
                continue;
            }
            let base = block.clone();
            for digit in 1..take {
                block.extend(base.iter().map(|v| v + digit * stride));
            }
            if take < it.extent {
                outer.push((it.extent / take, stride * take));
            }
        }
        AxisWalk { block, outer }
    }

    /// The values of `count` indices from `begin` on, as runs: whole blocks, and parts of one at
    /// both ends.
    fn emit_walk_runs(&self, begin: i64, count: i64, mut emit: impl FnMut(&[i64], i64)) {
        let len = i64::try_from(self.block.len()).unwrap_or(i64::MAX);
        let (mut from, mut left) = (begin % len, count);
        let mut rest = begin / len;
        let mut sum = 0;
        let mut digits: SmallVec<[i64; 8]> = SmallVec::new();
        for (extent, stride) in &self.outer {
            digits.push(rest % extent);
            sum += rest % extent * stride;
            rest /= extent;
        }
        while left > 0 {
            let to = len.min(from.saturating_add(left));
            let index = |i| usize::try_from(i).expect("inside the block");
            emit(&self.block[index(from)..index(to)], sum);
            left -= to - from;
            from = 0;
            for (digit, (extent, stride)) in digits.iter_mut().zip(&self.outer) {
                if *digit + 1 < *extent {
                    *digit += 1;
                    sum += stride;
                    break;
                }
                sum -= *digit * stride;
                *digit = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Swizzle;

    fn check(layout: &Layout) {
        let want: Vec<i64> = (0..layout.size())
            .map(|i| {
                layout.physical_coordinates(i).expect("inside").sorted_coordinates()[0].get(Axis::M)
            })
            .collect();
        assert_eq!(layout.offset_table(Axis::M), Ok(want), "{layout:?}");
    }

    #[test]
    fn a_table_is_the_coordinate_of_every_element() {
        let shards: [&[(i64, i64)]; 6] = [
            &[(12, 7)],
            &[(3, -4), (1, 9), (4, 1)],
            &[(4, 1), (3, 4)],
            &[(2, 6), (6, 1)],
            &[(97, 1), (101, 97)],
            &[(40, 1), (6, 8000), (200, 40)],
        ];
        for shard in shards {
            let iters: Vec<_> = shard.iter().map(|(e, s)| Iter::in_memory(*e, *s)).collect();
            let tile = TileLayout::new(iters, Vec::new(), [(Axis::M, 9)]).expect("well-formed");
            let size = tile.size();
            let swizzle = Swizzle::new(0, 1, 2, true).expect("well-formed");
            let plain = Layout::from(tile.clone());
            check(&plain);
            let swizzled = Layout::from_swizzled_tile(swizzle, tile).expect("no negative address");
            check(&swizzled);
            // Windows along the iters, across them, and in one dimension.
            for rows in [1, 2, 3, 4, 6, 12, 97].into_iter().filter(|r| size % r == 0) {
                let columns = size / rows;
                for (cut, skip) in [(1, 0), (1, 1), (columns / 2, 1)] {
                    let valid = columns - cut - skip;
                    if valid < 0 {
                        continue;
                    }
                    let dims = vec![
                        PaddedExtent { begin: rows / 2, valid: rows - rows / 2, padded: rows },
                        PaddedExtent { begin: skip, valid, padded: columns },
                    ];
                    let window = ValidWindow::new(dims).expect("well-formed");
                    for layout in [&plain, &swizzled] {
                        check(&layout.clone().with_window(window.clone()).expect("same size"));
                    }
                }
            }
        }
    }

    #[test]
    fn far_strides_do_not_overflow() {
        let far = 1i64 << 62;
        let tile = TileLayout::from_strides(&[2, 1 << 14], &[far, 1], 0).expect("fits");
        let table = Layout::from(tile).offset_table(Axis::M).expect("small");
        assert_eq!(table[1 << 14], far);
    }
}
