//! Grouping: splitting iters at the boundaries of a shape.

use crate::axis::Axis;
use crate::error::{LayoutError, Result};
use crate::int::checked_product;
use crate::layout::Layout;
use crate::proof::refine_extents;
use crate::tile::{Iter, TileLayout};

impl TileLayout {
    /// Splits iters so that a boundary between iters falls on every boundary between dimensions of `shape`.
    ///
    /// Returns the layout and separators: dimension `d` owns the iters `seps[d] .. seps[d + 1]`, and the
    /// product of their extents is `shape[d]`. Unit iters are dropped; a unit dimension gets one.
    ///
    /// **Law**: the result equals the layout as a function. A boundary that does not divide is
    /// [`LayoutError::NotGroupable`].
    pub fn group(&self, shape: &[i64]) -> Result<(TileLayout, Vec<usize>)> {
        check_shape_size(self, shape)?;
        if self.size() == 0 {
            let shard = shape.iter().map(|e| Iter::in_memory(*e, 0)).collect();
            return Ok((self.with_shard(shard)?, (0..=shape.len()).collect()));
        }
        let mut source = self
            .shard()
            .iter()
            .enumerate()
            .rev()
            .filter(|(_, it)| it.extent != 1 || self.shard().len() == 1);
        let first = self.shard().last().copied().unwrap_or(Iter::in_memory(1, 1));
        let (mut index, mut current) = source.next().map_or((0, first), |(i, it)| (i, *it));
        // Fastest first, in the order of this loop; reversed at the end.
        let mut shard: Vec<Iter> = Vec::with_capacity(self.shard().len() + shape.len());
        let mut counts = vec![0usize; shape.len()];
        for (dim, extent) in shape.iter().enumerate().rev() {
            let mut need = *extent;
            if need == 1 {
                shard.push(Iter { extent: 1, ..current });
                counts[dim] = 1;
                continue;
            }
            while need > 1 {
                if current.extent == 1 {
                    (index, current) = source
                        .next()
                        .map(|(i, it)| (i, *it))
                        .expect("the products of both lists are equal");
                }
                let take = need.min(current.extent);
                // The smaller of the two must divide the larger one. Otherwise the boundary falls
                // inside an iter where no split of it into two iters exists.
                if need % take != 0 || current.extent % take != 0 {
                    return Err(LayoutError::NotGroupable {
                        shape: shape.to_vec(),
                        dim,
                        boundary: checked_product(shape[dim..].iter().copied(), "a boundary")?,
                        iter: index,
                        extent: self.shard()[index].extent,
                    });
                }
                shard.push(Iter { extent: take, ..current });
                counts[dim] += 1;
                need /= take;
                current.extent /= take;
                if current.extent > 1 || take > 1 {
                    current.stride = current.stride.saturating_mul(take);
                }
            }
        }
        shard.reverse();
        let mut seps = vec![0];
        for c in counts {
            seps.push(seps[seps.len() - 1] + c);
        }
        Ok((self.with_shard(shard)?, seps))
    }

    /// Splits iters at the boundaries of every shape: the smallest common refinement.
    ///
    /// The separators of each shape delimit the iters of its dimensions. A unit dimension owns a unit iter;
    /// for the other shapes that iter belongs to the dimension on its right.
    pub fn group_many(&self, shapes: &[Vec<i64>]) -> Result<(TileLayout, Vec<Vec<usize>>)> {
        for shape in shapes {
            check_shape_size(self, shape)?;
        }
        let extents = with_unit_extents(&refine_extents(shapes)?, shapes);
        let (layout, _) = self.group(&extents)?;
        let shard = layout.shard();
        let mut all = Vec::with_capacity(shapes.len());
        for shape in shapes {
            let mut at = shard.len();
            let mut seps = vec![at];
            for (dim, extent) in shape.iter().enumerate().rev() {
                let mut weight = 1;
                while weight < *extent && at > 0 {
                    at -= 1;
                    weight *= shard[at].extent;
                }
                // The unit iters at this boundary for other shapes are counted to this dimension. Those for
                // this shape's own unit dimensions are left for them.
                let units = shard[..at].iter().rev().take_while(|it| it.extent == 1).count();
                let mine = shape[..dim].iter().rev().take_while(|e| **e == 1).count();
                at -= units.saturating_sub(mine);
                seps.push(at);
            }
            seps.reverse();
            if let Some(first) = seps.first_mut() {
                *first = 0;
            }
            all.push(seps);
        }
        Ok((layout, all))
    }
}

impl Layout {
    /// [`TileLayout::group`] of the tile layout behind a swizzle.
    pub fn group(&self, shape: &[i64]) -> Result<(Layout, Vec<usize>)> {
        let (tile, seps) = self.require_unpadded("group")?.tile().group(shape)?;
        Ok((self.with_tile_layout(tile)?, seps))
    }

    /// [`TileLayout::group_many`] of the tile layout behind a swizzle.
    pub fn group_many(&self, shapes: &[Vec<i64>]) -> Result<(Layout, Vec<Vec<usize>>)> {
        let (tile, seps) = self.require_unpadded("group_many")?.tile().group_many(shapes)?;
        Ok((self.with_tile_layout(tile)?, seps))
    }
}

/// The refined extents with a unit extent for each unit dimension, at its boundary.
fn with_unit_extents(refined: &[i64], shapes: &[Vec<i64>]) -> Vec<i64> {
    if refined == [0] {
        return refined.to_vec();
    }
    let units_at = |boundary: i64| -> usize {
        let count = |shape: &Vec<i64>| {
            let mut weight = 1;
            shape
                .iter()
                .rev()
                .filter(|e| {
                    let here = **e == 1 && weight == boundary;
                    weight *= **e;
                    here
                })
                .count()
        };
        shapes.iter().map(count).max().unwrap_or(0)
    };
    let mut weight = 1;
    let mut out = vec![1; units_at(1)];
    for extent in refined.iter().rev() {
        weight *= extent;
        out.push(*extent);
        out.extend(std::iter::repeat_n(1, units_at(weight)));
    }
    out.reverse();
    out
}

fn check_shape_size(layout: &TileLayout, shape: &[i64]) -> Result<()> {
    Layout::from(layout.clone()).check_shape_size(shape)
}

/// The iters of every dimension of `shape`, in order.
pub(crate) fn group_iters(layout: &TileLayout, shape: &[i64]) -> Result<Vec<Vec<Iter>>> {
    let (grouped, seps) = layout.group(shape)?;
    Ok(seps.windows(2).map(|w| grouped.shard()[w[0]..w[1]].to_vec()).collect())
}

/// A unit iter that mentions an axis without moving on it.
pub(crate) fn unit_iter_on(axis: Axis) -> Iter {
    Iter::new(1, 1, axis)
}
