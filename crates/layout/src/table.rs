//! Offset tables: a coordinate for every element, written in one pass.

use crate::axis::Axis;
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::tile::{Iter, TileLayout};
use crate::window::{Extent, Window};
use smallvec::SmallVec;

/// Entries of the innermost block that is copied instead of computed.
const BLOCK: i64 = 1 << 12;

impl Layout {
    /// The coordinate on one axis of every element, in row-major order (first replica).
    ///
    /// **Law**: `offsets(a)[i]` is the coordinate of `D(i) + O` on `a`, swizzled on `m`.
    pub fn offsets(&self, axis: Axis) -> Result<Vec<i64>> {
        let mut table = Vec::new();
        self.offsets_into(axis, &mut table)?;
        Ok(table)
    }

    /// [`Layout::offsets`] into a table that is cleared first: memory that is used again is several
    /// times faster to write than fresh memory.
    pub fn offsets_into(&self, axis: Axis, table: &mut Vec<i64>) -> Result<()> {
        table.clear();
        let size = usize::try_from(self.size()).map_err(|_| Error::overflow("the table"))?;
        zellige_guard::reserve(size_of::<i64>().saturating_mul(size));
        table
            .try_reserve_exact(size)
            .map_err(|_| Error::TooLarge { what: "an offset table", limit: u64::MAX })?;
        if size == 0 {
            return Ok(());
        }
        match self.swizzle().filter(|s| axis == Axis::M && !s.is_identity()) {
            None => self.runs(axis, |run, add| table.extend(run.iter().map(|v| v + add))),
            Some(sw) => {
                self.runs(axis, |run, add| table.extend(run.iter().map(|v| sw.apply(v + add))));
            }
        }
        Ok(())
    }

    /// The table before the swizzle, as runs in order: each is `run` with `add` added.
    fn runs(&self, axis: Axis, mut emit: impl FnMut(&[i64], i64)) {
        let origin = self.tile().offset_on(axis);
        let Some(window) = self.window() else {
            let walk = AxisWalk::new(self.tile().canonical().shard(), axis, vec![0]);
            return walk.runs(0, self.size(), |run, add| emit(run, add + origin));
        };
        let Some(mut dims) = dimensions(self.tile(), window) else {
            // The iters cross the dimensions of the window: element by element.
            let slot = self.tile().slot(axis);
            for i in 0..self.size() {
                emit(&[slot.map_or(0, |k| self.tile().base(window.to_padded(i))[k])], 0);
            }
            return;
        };
        let mut row = IndexRange::new(dims.pop(), axis, vec![0]);
        while row.count <= BLOCK && !dims.is_empty() {
            row = IndexRange::new(dims.pop(), axis, row.table());
        }
        let outer: Vec<IndexRange> =
            dims.into_iter().map(|d| IndexRange::new(Some(d), axis, vec![0])).collect();
        repeat(&outer, &row, origin, &mut emit);
    }
}

/// `row` once for every index of `outer`, the coordinate of the index added.
fn repeat(outer: &[IndexRange], row: &IndexRange, base: i64, emit: &mut impl FnMut(&[i64], i64)) {
    let Some((first, rest)) = outer.split_first() else {
        return row.runs(|run, add| emit(run, base + add));
    };
    first.runs(|run, add| {
        for value in run {
            repeat(rest, row, base + add + value, emit);
        }
    });
}

/// One dimension of a window with the iters that it owns.
type Dimension = (Extent, Vec<Iter>);

/// The dimensions of a window, where the iters follow them: each is a function of its own, and the
/// coordinate is their sum. A dimension without padding is one with that on its left.
fn dimensions(tile: &TileLayout, window: &Window) -> Option<Vec<Dimension>> {
    let mut dims: Vec<Extent> = Vec::new();
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

/// A part of a walk: `count` indices from `begin` on.
struct IndexRange {
    walk: AxisWalk,
    begin: i64,
    count: i64,
}

impl IndexRange {
    /// The valid indices of a dimension, each with the indices of `inner` inside it.
    fn new(dimension: Option<Dimension>, axis: Axis, inner: Vec<i64>) -> IndexRange {
        let len = i64::try_from(inner.len()).unwrap_or(i64::MAX);
        let (extent, iters) = dimension.unwrap_or((Extent::full(1), Vec::new()));
        let walk = AxisWalk::new(&iters, axis, inner);
        IndexRange { walk, begin: extent.begin * len, count: extent.valid * len }
    }

    fn runs(&self, emit: impl FnMut(&[i64], i64)) {
        self.walk.runs(self.begin, self.count, emit);
    }

    fn table(&self) -> Vec<i64> {
        let mut table = Vec::new();
        self.runs(|run, add| table.extend(run.iter().map(|v| v + add)));
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
    /// Digits grow the block from the inside out: the table of one more digit is the table so far,
    /// repeated with its stride added, up to [`BLOCK`] entries. It starts as `block`, the values of
    /// what lies inside the iters.
    fn new(shard: &[Iter], axis: Axis, mut block: Vec<i64>) -> AxisWalk {
        let mut outer = Vec::new();
        for it in shard.iter().rev().filter(|it| it.extent != 1) {
            let stride = if it.axis == axis { it.stride } else { 0 };
            let len = i64::try_from(block.len()).unwrap_or(i64::MAX);
            let inside = (BLOCK / len).clamp(1, it.extent);
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
    fn runs(&self, begin: i64, count: i64, mut emit: impl FnMut(&[i64], i64)) {
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
            .map(|i| layout.places(i).expect("inside").points()[0].get(Axis::M))
            .collect();
        assert_eq!(layout.offsets(Axis::M), Ok(want), "{layout:?}");
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
            let iters: Vec<_> = shard.iter().map(|(e, s)| Iter::mem(*e, *s)).collect();
            let tile = TileLayout::new(iters, Vec::new(), [(Axis::M, 9)]).expect("well-formed");
            let size = tile.size();
            let swizzle = Swizzle::new(0, 1, 2, true).expect("well-formed");
            let plain = Layout::from(tile.clone());
            check(&plain);
            let swizzled = Layout::swizzled(swizzle, tile).expect("no negative address");
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
                        Extent { begin: rows / 2, valid: rows - rows / 2, padded: rows },
                        Extent { begin: skip, valid, padded: columns },
                    ];
                    let window = Window::new(dims).expect("well-formed");
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
        let tile = TileLayout::strided(&[2, 1 << 14], &[far, 1], 0).expect("fits");
        let table = Layout::from(tile).offsets(Axis::M).expect("small");
        assert_eq!(table[1 << 14], far);
    }
}
