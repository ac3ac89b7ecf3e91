//! Right inverses: elements for the first places, as a layout.

use crate::axis::Axis;
use crate::error::{Error, Result};
use crate::int::narrow;
use crate::layout::{Layout, Point};
use crate::proof::inverse::Inverse;
use crate::radix::{Digit, Radix};
use crate::tile::{Iter, TileLayout};
use smallvec::smallvec;

impl Layout {
    /// A layout `R` on the places `[0, n)` of every axis with `p` among the places of `L(R(p))`.
    ///
    /// It begins at an element that lives in place 0 and steps along the iters whose strides are 1,
    /// then the product of the extents before (backwards where an iter runs backwards); `n` is as
    /// large as these steps give a layout. A swizzle is followed as far as it leaves addresses where
    /// they are, or whole where the inverse of its tile layout keeps its bit fields together.
    ///
    /// That no element lives in place 0 is the only refusal ([`Error::NotCovered`]), apart from a
    /// search for one that is too large.
    pub fn right_inverse(&self) -> Result<Inverse> {
        self.unpadded("right_inverse")?;
        let tile = self.tile();
        let axes: Vec<Axis> =
            if tile.axes().is_empty() { vec![Axis::M] } else { tile.axes().to_vec() };
        if tile.size() == 0 {
            let shape = vec![0; axes.len()];
            return Ok(Inverse { layout: TileLayout::row_major(&shape)?.into(), axes, shape });
        }
        let Some(start) = self.lookup_first(&[])? else {
            let place = Point::new(axes.iter().map(|a| (*a, 0)));
            return Err(Error::NotCovered { place: Box::new(place) });
        };
        let found = along_chains(tile, start, &axes, i128::MAX)?;
        let Some(sw) = self.effective_swizzle() else { return Ok(found) };
        if let Ok(whole) = self.unswizzle(found) {
            return Ok(whole);
        }
        let read = sw.per_element() + if sw.is_inner() { sw.atom_len() } else { 0 };
        along_chains(tile, start, &axes, 1 << read)
    }
}

/// The right inverse of a tile layout from the element `start` at place 0 on; on `m` at most so many
/// places.
fn along_chains(tile: &TileLayout, start: i64, axes: &[Axis], most: i128) -> Result<Inverse> {
    let mut weight = 1;
    let mut iters: Vec<(Iter, i64)> = Vec::new();
    for it in tile.shard().iter().rev() {
        iters.push((*it, weight));
        weight *= it.extent;
    }
    let (mut shard, mut shape) = (Vec::new(), Vec::new());
    for axis in axes {
        let mut mine: Vec<(Iter, i64)> =
            iters.iter().filter(|(it, _)| it.moves_on(*axis)).copied().collect();
        mine.sort_by_key(|(it, _)| (it.stride.unsigned_abs(), std::cmp::Reverse(it.extent)));
        // The chain counts upwards from its lowest place; the start is somewhere along it.
        let (mut chain, mut reached, mut at) = (Vec::new(), 1i128, 0i128);
        for (it, weight) in mine {
            if i128::from(it.stride).abs() != reached {
                continue;
            }
            let digit = start / weight % it.extent;
            let (digit, step) =
                if it.stride < 0 { (it.extent - 1 - digit, -weight) } else { (digit, weight) };
            at += i128::from(digit) * reached;
            let extent = i128::from(it.extent);
            chain.push(Digit { extent, stride: smallvec![i128::from(step)] });
            reached *= extent;
        }
        let most = if *axis == Axis::M { most } else { i128::MAX };
        let digits = Radix::from_digits(chain, 1).longest_from(at, (reached - at).min(most));
        shape.push(narrow(digits.iter().map(|d| d.extent).product(), "the domain of the inverse")?);
        for d in digits.iter().rev() {
            let (extent, stride) =
                (narrow(d.extent, "an extent")?, narrow(d.stride[0], "a stride")?);
            shard.push(Iter::mem(extent, stride));
        }
    }
    let offset = (start != 0).then_some((Axis::M, start));
    Ok(Inverse {
        layout: TileLayout::new(shard, Vec::new(), offset)?.into(),
        axes: axes.to_vec(),
        shape,
    })
}
