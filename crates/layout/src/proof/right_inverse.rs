//! Right inverses: elements for the first physical coordinates, as a layout.

use crate::axis::Axis;
use crate::error::{LayoutError, Result};
use crate::int::narrow_to_i64;
use crate::layout::{Layout, PhysicalCoordinate};
use crate::proof::inverse::InverseLayout;
use crate::proof::longest::{DigitChain, STEP_LIMIT, find_longest_through};
use crate::proof::search::swizzles_moving_bits;
use crate::radix::{RadixDigit, RadixFunction};
use crate::swizzle::Swizzle;
use crate::tile::{Iter, TileLayout};
use smallvec::smallvec;

/// Elements listed to find the longest right inverse.
// The search evaluates candidates on prefixes of the list, so its cost is the list times the number
// of choices, and `longest::STEP_LIMIT` is 64 passes over a full list.
const MAX_LISTED_ELEMENTS: i64 = 1 << 16;

/// Elements of a swizzled layout up to which every swizzle of its right inverse is tried.
// Each swizzle repeats the search, and the 12 bits of such an index have 525 of them.
const SWIZZLES_TRIED: usize = 1 << 12;

impl Layout {
    /// A layout `R` on the physical coordinates `[0, n)` of every axis with `p` among the physical
    /// coordinates of `L(R(p))`.
    ///
    /// On each axis no such layout has a larger `n`: either no element is at the next physical coordinate,
    /// or every longer candidate was searched. Above 65,536 elements, or where elements share physical
    /// coordinates in so many ways that the search is cut off, `n` is the length of the chain of iters
    /// whose strides are 1, then the product of the extents before.
    ///
    /// Where `L` is swizzled, `R` may be: no swizzle gives a longer one, up to 4,096 elements.
    ///
    /// That no element is at physical coordinate 0 is the only refusal ([`LayoutError::NotCovered`]), apart from a
    /// search for one that is too large.
    pub fn right_inverse(&self) -> Result<InverseLayout> {
        let found = self.right_inverse_by_strides()?;
        let n = self.tile().size().saturating_mul(self.tile().replica_count());
        // An inverse that ends before a physical coordinate without an element cannot be extended, so the search
        // would find the same length.
        if n == 0 || n > MAX_LISTED_ELEMENTS || self.ends_at_a_gap(&found)? {
            return Ok(found);
        }
        let longest = self.longest_right_inverse(&found)?;
        Ok(if longest.layout.size() > found.layout.size() { longest } else { found })
    }

    /// A layout `R` on the physical coordinates `[0, n)` of every axis with `p` among the physical
    /// coordinates of `L(R(p))`, as the strides of `L` give it; CuTe's right inverse.
    ///
    /// It begins at an element at physical coordinate 0 and steps along the iters whose strides are 1, then
    /// the product of the extents before (backwards where an iter runs backwards); `n` is as large as these
    /// steps give a layout, and [`Layout::right_inverse`] may find a longer one. A swizzled layout is
    /// inverted up to the first address that the swizzle changes, or whole where the inverse of its tile
    /// layout keeps the bit fields of the swizzle together.
    pub fn right_inverse_by_strides(&self) -> Result<InverseLayout> {
        self.require_unpadded("right_inverse")?;
        let tile = self.tile();
        let axes: Vec<Axis> =
            if tile.axes().is_empty() { vec![Axis::M] } else { tile.axes().to_vec() };
        if tile.size() == 0 {
            let shape = vec![0; axes.len()];
            return Ok(InverseLayout {
                layout: TileLayout::row_major(&shape)?.into(),
                axes,
                shape,
            });
        }
        let Some(start) = self.look_up_first(&[])? else {
            let place = PhysicalCoordinate::new(axes.iter().map(|a| (*a, 0)));
            return Err(LayoutError::NotCovered { place: Box::new(place) });
        };
        let found = invert_along_chains(tile, start, &axes, i128::MAX)?;
        let Some(sw) = self.effective_swizzle() else { return Ok(found) };
        if let Ok(whole) = self.unswizzle_inverse(found) {
            return Ok(whole);
        }
        // Below the lowest bit that the swizzle reads, every address is its own image.
        let read = sw.per_element() + if sw.is_inner() { sw.atom_len() } else { 0 };
        invert_along_chains(tile, start, &axes, 1 << read)
    }

    /// Whether on every axis no element is at the first physical coordinate that an inverse leaves out.
    fn ends_at_a_gap(&self, inverse: &InverseLayout) -> Result<bool> {
        for (axis, end) in inverse.axes.iter().zip(&inverse.shape) {
            if self.look_up_first(&[(*axis, *end)])?.is_some() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The longest right inverse on each axis of `found`, by search.
    fn longest_right_inverse(&self, found: &InverseLayout) -> Result<InverseLayout> {
        let swizzled = self.effective_swizzle().is_some() && found.axes == [Axis::M];
        let (mut shard, mut shape, mut start) = (Vec::new(), Vec::new(), 0i64);
        let (mut swizzle, mut steps) = (None, 0);
        for axis in &found.axes {
            let sets = self.index_parts_of_places(*axis);
            let mut best = find_longest_through(&sets, &mut steps);
            // A search that covers every set cannot be improved by a swizzle.
            if swizzled && sets.len() <= SWIZZLES_TRIED && best.len < sets.len() {
                (best, swizzle) = find_longest_swizzled(&sets, best, &mut steps);
            }
            shape.push(i64::try_from(best.len).expect("listed"));
            shard.extend(best.digits.iter().rev().map(|(e, s)| Iter::in_memory(*e, *s)));
            start += best.start;
        }
        let offset = (start != 0).then_some((Axis::M, start));
        let tile = TileLayout::new(shard, Vec::new(), offset)?;
        let layout = match swizzle {
            Some(sw) => Layout::from_swizzled_tile(sw, tile)?,
            None => tile.into(),
        };
        Ok(InverseLayout { layout, axes: found.axes.clone(), shape })
    }

    /// Every coordinate on `axis` that the digits of the iters on that axis reach, in any of their
    /// copies, with what these digits contribute to the flat index.
    pub(super) fn parts_on(&self, axis: Axis) -> Vec<(i64, i64)> {
        let mut weight = self.tile().size();
        let mut reached = vec![(self.tile().offset_on(axis), 0i64)];
        let mut add = |it: &Iter, weight: i64| {
            if it.moves_on_axis(axis) {
                let steps = 0..it.extent;
                let from = std::mem::take(&mut reached);
                reached = from
                    .iter()
                    .flat_map(|(at, part)| {
                        steps.clone().map(move |d| (at + d * it.stride, part + d * weight))
                    })
                    .collect();
            }
        };
        for it in self.tile().shard() {
            weight /= it.extent;
            add(it, weight);
        }
        self.tile().replica().iter().for_each(|it| add(it, 0));
        if let Some(sw) = self.swizzle().filter(|_| axis == Axis::M) {
            reached.iter_mut().for_each(|(at, _)| *at = sw.apply_to_address(*at));
        }
        reached
    }

    /// For each physical coordinate of `axis` from 0 up to the first free one, the contributions to the
    /// flat index of the digits that reach it.
    fn index_parts_of_places(&self, axis: Axis) -> Vec<Vec<i64>> {
        let reached = self.parts_on(axis);
        let mut sets = vec![Vec::new(); reached.len()];
        for (at, part) in reached {
            if let Some(set) = usize::try_from(at).ok().and_then(|at| sets.get_mut(at)) {
                set.push(part);
            }
        }
        // A right inverse has a value at every physical coordinate of its domain, so nothing past a free
        // physical coordinate counts.
        let end = sets.iter().position(Vec::is_empty).unwrap_or(sets.len());
        sets.truncate(end);
        for set in &mut sets {
            set.sort_unstable();
            set.dedup();
        }
        sets
    }
}

/// The longest layout through the sets under any swizzle, or `best` where none is longer.
fn find_longest_swizzled(
    sets: &[Vec<i64>],
    best: DigitChain,
    steps: &mut u64,
) -> (DigitChain, Option<Swizzle>) {
    let mut best = (best, None);
    let set = sets.iter().flatten().fold(0, |set, v| set | i128::from(*v));
    for sw in swizzles_moving_bits(set).into_iter().flatten() {
        let mut moved = sets.to_vec();
        for set in &mut moved {
            set.iter_mut().for_each(|v| *v = sw.apply_to_address(*v));
            set.sort_unstable();
        }
        let found = find_longest_through(&moved, steps);
        if found.len > best.0.len {
            best = (found, Some(sw));
        }
        if best.0.len == sets.len() || *steps > STEP_LIMIT {
            break;
        }
    }
    best
}

/// The right inverse of a tile layout from the element `start` at physical coordinate 0 on; on `m` with at
/// most `most` physical coordinates.
fn invert_along_chains(
    tile: &TileLayout,
    start: i64,
    axes: &[Axis],
    most: i128,
) -> Result<InverseLayout> {
    let mut weight = 1;
    let mut iters: Vec<(Iter, i64)> = Vec::new();
    for it in tile.shard().iter().rev() {
        iters.push((*it, weight));
        weight *= it.extent;
    }
    let (mut shard, mut shape) = (Vec::new(), Vec::new());
    for axis in axes {
        let mut mine: Vec<(Iter, i64)> =
            iters.iter().filter(|(it, _)| it.moves_on_axis(*axis)).copied().collect();
        mine.sort_by_key(|(it, _)| (it.stride.unsigned_abs(), std::cmp::Reverse(it.extent)));
        // The chain counts upwards from its lowest physical coordinate, and the start may be anywhere along
        // it, because an iter of negative stride reaches physical coordinates below its first one.
        let (mut chain, mut reached, mut at) = (Vec::new(), 1i128, 0i128);
        for (it, weight) in mine {
            // The next iter of the chain steps exactly over the physical coordinates reached so far. Another
            // stride would leave a gap, or reach a physical coordinate again.
            if i128::from(it.stride).abs() != reached {
                continue;
            }
            let digit = start / weight % it.extent;
            let (digit, step) =
                if it.stride < 0 { (it.extent - 1 - digit, -weight) } else { (digit, weight) };
            at += i128::from(digit) * reached;
            let extent = i128::from(it.extent);
            chain.push(RadixDigit { extent, stride: smallvec![i128::from(step)] });
            reached *= extent;
        }
        let most = if *axis == Axis::M { most } else { i128::MAX };
        let digits =
            RadixFunction::from_digits(chain, 1).longest_range_from(at, (reached - at).min(most));
        shape.push(narrow_to_i64(
            digits.iter().map(|d| d.extent).product(),
            "the domain of the inverse",
        )?);
        for d in digits.iter().rev() {
            let (extent, stride) =
                (narrow_to_i64(d.extent, "an extent")?, narrow_to_i64(d.stride[0], "a stride")?);
            shard.push(Iter::in_memory(extent, stride));
        }
    }
    let offset = (start != 0).then_some((Axis::M, start));
    Ok(InverseLayout {
        layout: TileLayout::new(shard, Vec::new(), offset)?.into(),
        axes: axes.to_vec(),
        shape,
    })
}
