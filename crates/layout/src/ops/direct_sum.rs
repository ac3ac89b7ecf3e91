//! Direct sums: two layouts interleaved dimension by dimension.

use crate::axis::Axis;
use crate::error::{LayoutError, Result};
use crate::layout::Layout;
use crate::ops::group::group_iters;
use crate::proof::find_remaining_replicas;
use crate::radix::RadixFunction;
use crate::tile::{Iter, TileLayout};

impl Layout {
    /// The layout over `[left_0, right_0, left_1, right_1, ..]`: for all `x` of `left` and `y` of
    /// `self`, `sum(x, y) = left(x) + self(y)`, before the swizzle of `self`.
    pub fn direct_sum(
        &self,
        left: &Layout,
        left_shape: &[i64],
        right_shape: &[i64],
    ) -> Result<Layout> {
        let left = require_plain(left, "direct_sum")?;
        self.with_tile_layout(interleave_dims(
            left,
            left_shape,
            self.require_unpadded("direct_sum")?.tile(),
            right_shape,
        )?)
    }

    /// The `left` with `direct_sum(left, self) = sum`, if there is one. `interleaved` is the shape
    /// `[left_0, right_0, ..]` of the sum.
    pub fn is_direct_sum_right(&self, sum: &Layout, interleaved: &[i64]) -> Result<Option<Layout>> {
        let op = "is_direct_sum_right";
        self.require_unpadded(op)?;
        sum.require_unpadded(op)?;
        let Some(parts) = split_sum_dims(sum.tile(), interleaved)? else { return Ok(None) };
        let Some(left) = parts.left_factor_of(self.tile())?.map(Layout::from) else {
            return Ok(None);
        };
        if self.swizzle() == sum.swizzle() {
            return Ok(Some(left));
        }
        // Swizzles that are written differently may have the same effect on these addresses.
        let shape =
            |odd: usize| -> Vec<i64> { interleaved.iter().skip(odd).step_by(2).copied().collect() };
        let again = self.direct_sum(&left, &shape(0), &shape(1))?;
        Ok(again.find_difference(sum)?.is_none().then_some(left))
    }

    /// The `right` with `direct_sum(self, right) = sum`, if there is one; it carries the swizzle of
    /// the sum.
    pub fn is_direct_sum_left(&self, sum: &Layout, interleaved: &[i64]) -> Result<Option<Layout>> {
        let left = require_plain(self, "is_direct_sum_left")?;
        let Some(parts) =
            split_sum_dims(sum.require_unpadded("is_direct_sum_left")?.tile(), interleaved)?
        else {
            return Ok(None);
        };
        let swapped = SumParts { left: parts.right, right: parts.left, sum: parts.sum };
        match swapped.left_factor_of(left)? {
            Some(tile) => sum.with_factor_tile(tile).map(Some),
            None => Ok(None),
        }
    }
}

impl Layout {
    /// A factor with the swizzle of the whole. The whole may have coordinates on `m` where the factor has
    /// none, and a swizzle needs that axis.
    pub(crate) fn with_factor_tile(&self, tile: TileLayout) -> Result<Layout> {
        if self.swizzle().is_none() {
            return Ok(tile.into());
        }
        let offset = tile.offset().iter().copied().chain([(Axis::M, 0)]);
        self.with_tile_layout(TileLayout::new(
            tile.shard().to_vec(),
            tile.replica().to_vec(),
            offset,
        )?)
    }
}

/// A layout without swizzle or window.
pub(crate) fn require_plain<'a>(layout: &'a Layout, op: &'static str) -> Result<&'a TileLayout> {
    if layout.require_unpadded(op)?.effective_swizzle().is_some() {
        let help = "this operand takes a tile layout without swizzle";
        return Err(LayoutError::Swizzled { op, help });
    }
    Ok(layout.tile())
}

/// The iters of two layouts, dimension by dimension, replicas joined and offsets added.
pub(crate) fn interleave_dims(
    left: &TileLayout,
    left_shape: &[i64],
    right: &TileLayout,
    right_shape: &[i64],
) -> Result<TileLayout> {
    if left_shape.len() != right_shape.len() {
        return Err(LayoutError::LengthMismatch {
            what: "the shape of the right layout",
            expected: left_shape.len(),
            found: right_shape.len(),
        });
    }
    let (l, r) = (group_iters(left, left_shape)?, group_iters(right, right_shape)?);
    let shard = l.into_iter().zip(r).flat_map(|(a, b)| a.into_iter().chain(b)).collect();
    let replica = right.replica().iter().chain(left.replica()).copied().collect();
    let offset = right.offset().iter().chain(left.offset()).copied();
    Ok(TileLayout::new(shard, replica, offset)?.canonical_form())
}

/// The even and the odd dimensions of a sum.
pub(crate) struct SumParts<'a> {
    pub(crate) left: Vec<Iter>,
    pub(crate) right: Vec<Iter>,
    pub(crate) sum: &'a TileLayout,
}

/// Splits a sum over its interleaved shape; `None` where its iters do not follow that shape.
pub(crate) fn split_sum_dims<'a>(
    sum: &'a TileLayout,
    interleaved: &[i64],
) -> Result<Option<SumParts<'a>>> {
    if !interleaved.len().is_multiple_of(2) {
        return Err(LayoutError::LengthMismatch {
            what: "the interleaved shape [left_0, right_0, ..]",
            expected: interleaved.len() + 1,
            found: interleaved.len(),
        });
    }
    let grouped = match group_iters(sum, interleaved) {
        Ok(g) => g,
        Err(LayoutError::NotGroupable { .. }) => {
            // Iters that were split elsewhere may still be cut by this shape once neighbours are
            // fused.
            match group_iters(&sum.canonical_form(), interleaved) {
                Ok(g) => g,
                Err(LayoutError::NotGroupable { .. }) => return Ok(None),
                Err(e) => return Err(e),
            }
        }
        Err(e) => return Err(e),
    };
    let (mut left, mut right) = (Vec::new(), Vec::new());
    for (d, iters) in grouped.into_iter().enumerate() {
        if d % 2 == 0 { left.extend(iters) } else { right.extend(iters) }
    }
    Ok(Some(SumParts { left, right, sum }))
}

impl SumParts<'_> {
    /// The left factor, given that the right one is `right`: its shard must be the odd dimensions,
    /// its replicas must be among those of the sum, and its offset is the difference.
    pub(crate) fn left_factor_of(&self, right: &TileLayout) -> Result<Option<TileLayout>> {
        let own = TileLayout::from_shard(self.right.clone())?;
        if own.size() != right.size() {
            return Ok(None);
        }
        if right.size() > 0 {
            let axes: Vec<Axis> = self.sum.axes().iter().chain(right.axes()).copied().collect();
            let (f, g) = (
                RadixFunction::from_iters(own.shard(), &axes),
                RadixFunction::from_iters(right.shard(), &axes),
            );
            if f.first_difference(0, &g, 0, right.size().into()).is_some() {
                return Ok(None);
            }
        }
        let canonical_sum = self.sum.canonical_form();
        let canonical_right = right.canonical_form();
        let (all, part) = (canonical_sum.replica(), canonical_right.replica());
        // Subtracting iters is quick and finds the usual cases. Only its failure needs the sets
        // themselves, because one set has many iters.
        let Some(replica) = subtract_iters(all, part)
            .map_or_else(|| find_remaining_replicas(all, part), |r| Ok(Some(r)))?
        else {
            return Ok(None);
        };
        let mut offset = canonical_sum.offset().to_vec();
        for (axis, v) in canonical_right.offset() {
            offset.push((
                *axis,
                v.checked_neg().ok_or_else(|| LayoutError::overflow_of("an offset"))?,
            ));
        }
        TileLayout::new(self.left.clone(), replica, offset).map(Some)
    }
}

/// The multiset `all` without `part`. An iter of `all` may be split into factors of which one is in `part`.
pub(crate) fn subtract_iters(all: &[Iter], part: &[Iter]) -> Option<Vec<Iter>> {
    let mut rest = all.to_vec();
    for p in part {
        if let Some(i) = rest.iter().position(|r| r == p) {
            rest.remove(i);
            continue;
        }
        // e:s is (e/c : s*c) together with (c : s).
        let i = rest.iter().position(|r| {
            r.axis == p.axis
                && p.stride % r.stride == 0
                && p.stride / r.stride > 0
                && r.extent % (p.stride / r.stride) == 0
                && (r.extent / (p.stride / r.stride)) % p.extent == 0
        })?;
        let r = rest.remove(i);
        let low = p.stride / r.stride;
        let high = r.extent / low / p.extent;
        rest.push(Iter { extent: low, ..r });
        rest.push(Iter { extent: high, stride: p.stride * p.extent, ..r });
    }
    rest.retain(|it| it.extent != 1);
    Some(rest)
}
