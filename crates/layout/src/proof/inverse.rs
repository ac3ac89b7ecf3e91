//! Inverses: from physical coordinates to indices, as layouts.

use crate::axis::Axis;
use crate::error::{LayoutError, Result};
use crate::int::{gcd, narrow_to_i64};
use crate::layout::{Layout, flatten_coordinate};
use crate::proof::compose_tiles;
use crate::proof::digit_search::Digits;
use crate::proof::search::find_layout_of_places;
use crate::radix::AxisVector;
use crate::swizzle::Swizzle;
use crate::tile::{Iter, TileLayout};
use smallvec::smallvec;

/// A layout from physical coordinates to flat indices.
///
/// Its domain is the box of physical coordinates, row-major over `shape`, one dimension per axis of `axes`; its
/// coordinate on `m` is the flat index of the element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InverseLayout {
    /// The layout.
    pub layout: Layout,
    /// The axes of its domain, in the order of its dimensions.
    pub axes: Vec<Axis>,
    /// The number of coordinates on each.
    pub shape: Vec<i64>,
}

/// A shard iter with its weight in the flat index; 0 for a replica, which counts nothing.
#[derive(Debug, Clone, Copy)]
struct WeightedIter {
    it: Iter,
    weight: i64,
}

/// Addresses looked at to prove the inverse of a swizzle.
// Larger layouts mostly have power-of-two iters only, which are proved bit by bit whatever their
// size.
const PROOF_LIMIT: i64 = 1 << 20;

impl Layout {
    /// The exact inverse of a bijective layout: `inverse(L)(L(i)) = i` and `L(inverse(L)(p)) = p`.
    ///
    /// Two elements at one physical coordinate, or a physical coordinate without an element, are errors
    /// with that witness. The inverse of a swizzled layout is swizzled where some swizzle gives it; a
    /// refusal is a proof that none does.
    pub fn exact_inverse(&self) -> Result<InverseLayout> {
        self.require_unpadded("inverse")?;
        if let Some((a, b, place)) = self.find_clash()? {
            return Err(LayoutError::Aliased { a, b, place: Box::new(place) });
        }
        if let Some(place) = self.find_unused_place()? {
            return Err(LayoutError::NotCovered { place: Box::new(place) });
        }
        self.check_one_place_each()?;
        // With a swizzle, the tile layout may have gaps although the swizzled one has none, because the
        // test for coverage above was about swizzled addresses.
        let Some(sw) = self.effective_swizzle() else { return build_inverse(self.tile()) };
        // Whole blocks of the swizzle that have no gap have none after it either, so the inverse of the
        // tile layout exists and only the swizzle has to be moved to its other side.
        let whole = self.tile().size() % (1 << sw.affected_low_bits()) == 0
            && Layout::from(self.tile().clone()).find_unused_place()?.is_none();
        match whole.then(|| self.unswizzle_inverse(build_inverse(self.tile())?)) {
            Some(Ok(found)) => Ok(found),
            _ => self.search_inverse(),
        }
    }

    /// Refuses replicas: an inverse maps each physical coordinate to an index, and its own inverse must
    /// give one physical coordinate.
    fn check_one_place_each(&self) -> Result<()> {
        if self.count_distinct_copies()? == 1 {
            return Ok(());
        }
        Err(LayoutError::NotExpressible {
            reason: "each element has several places (take the layout of one replica)".into(),
            index: 0,
        })
    }

    /// `T^-1` becomes `T^-1 after the swizzle` (an involution), written as a swizzle after `T^-1`
    /// where `T^-1` moves both bit fields whole.
    pub(super) fn unswizzle_inverse(&self, inverse: InverseLayout) -> Result<InverseLayout> {
        let Some(sw) = self.effective_swizzle() else { return Ok(inverse) };
        let refuse = || LayoutError::Swizzled {
            op: "inverse",
            help: "the inverse of its tile layout must keep both bit fields of the swizzle together",
        };
        let back = inverse.layout.tile();
        if inverse.axes != [Axis::M] {
            return Err(refuse());
        }
        if back.size() % (1 << sw.affected_low_bits()) != 0 {
            return Err(refuse());
        }
        // Where a bit field of the address ends up after `T^-1`: its lowest bit, if all bits move
        // to consecutive bits in order. Otherwise the conjugated swizzle XORs scattered bits, which
        // is no swizzle.
        let field = |from: u32| -> Option<u32> {
            let mut start = None;
            for k in 0..sw.swizzle_len() {
                let m = back.axis_index(Axis::M)?;
                let moved = back.unreplicated_coordinate(1 << (from + k))[m]
                    - back.unreplicated_coordinate(0)[m];
                if moved <= 0 || moved.count_ones() != 1 {
                    return None;
                }
                let bit = moved.trailing_zeros();
                if *start.get_or_insert(bit) + k != bit {
                    return None;
                }
            }
            start
        };
        let low = field(sw.per_element()).ok_or_else(refuse)?;
        let high = field(sw.per_element() + sw.atom_len()).ok_or_else(refuse)?;
        // The field that is read is XORed into the one that is written; after `T^-1` either may be
        // the higher one.
        let (read, written) = if sw.is_inner() { (high, low) } else { (low, high) };
        let moved = Swizzle::new(
            written.min(read).into(),
            sw.swizzle_len().into(),
            i64::from(read.abs_diff(written)),
            read > written,
        )
        .map_err(|_| refuse())?;
        // Physical coordinates between the elements may map below 0, where a swizzle is not defined.
        let layout = Layout::from_swizzled_tile(moved, back.clone()).map_err(|_| refuse())?;
        // The fields are a candidate only; this proves it. One block is enough where the digits above it
        // add multiples of the moved swizzle's period, because both sides commute with these. Otherwise
        // every address is compared.
        let m = back.axis_index(Axis::M).ok_or_else(refuse)?;
        let block = 1i64 << sw.affected_low_bits();
        // A multiple of the period commutes with the swizzle, so such a digit can be left out of
        // the proof.
        let passes =
            |it: &Iter| it.extent == 1 || it.stride % (1i64 << moved.affected_low_bits()) == 0;
        let apart = back.group(&[back.size() / block, block]);
        let apart =
            apart.is_ok_and(|(grouped, seps)| grouped.shard()[..seps[1]].iter().all(passes));
        let proved = if apart { block } else { back.size() };
        let agrees = |p: i64| {
            moved.apply_to_address(back.unreplicated_coordinate(p)[m])
                == back.unreplicated_coordinate(sw.apply_to_address(p))[m]
        };
        let all_agree = if moves_whole_bits(back) {
            // Both sides are linear over XOR, so the single bits decide.
            (0..62).map(|k| 1i64 << k).take_while(|p| *p < proved).all(agrees)
        } else {
            proved <= PROOF_LIMIT && (0..proved).all(agrees)
        };
        if !all_agree {
            return Err(refuse());
        }
        Ok(InverseLayout { layout, ..inverse })
    }
}

impl Layout {
    /// The inverse of a bijective layout under whatever swizzle gives it.
    ///
    /// A tile layout with gaps may have none after its swizzle, so the domain is computed from the swizzled
    /// physical coordinates.
    fn search_inverse(&self) -> Result<InverseLayout> {
        let what = "the inverse of a swizzled layout";
        if self.size() > MAX_SEARCHED_PLACES {
            return Err(LayoutError::TooLarge { what, limit: MAX_SEARCHED_PLACES.cast_unsigned() });
        }
        let axes = self.tile().axes().to_vec();
        let mut shape = Vec::with_capacity(axes.len());
        for axis in &axes {
            let bounds = self.axis_bounds(*axis)?;
            if bounds.min < 0 {
                return Err(below_zero_error(*axis, bounds.min));
            }
            shape.push(bounds.max + 1);
        }
        let mut places: Vec<AxisVector> =
            vec![smallvec![0]; usize::try_from(self.size()).unwrap_or(0)];
        for i in 0..self.size() {
            let place = &self.physical_coordinates(i)?.sorted_coordinates()[0];
            let coordinate: Vec<i64> = axes.iter().map(|a| place.get(*a)).collect();
            let at = usize::try_from(flatten_coordinate(&shape, &coordinate)?).expect("0 or more");
            places[at] = smallvec![i128::from(i)];
        }
        Ok(InverseLayout { layout: find_layout_of_places(&places, &[Axis::M], what)?, axes, shape })
    }
}

/// Physical coordinates listed to find the inverse of a swizzled layout.
// `find_layout_of_places` bounds this list once more, times the number of swizzles.
const MAX_SEARCHED_PLACES: i64 = 1 << 16;

impl InverseLayout {
    /// The inverse of a layout without elements.
    pub(super) fn of_nothing(axes: Vec<Axis>) -> Result<InverseLayout> {
        let shape = vec![0; axes.len()];
        Ok(InverseLayout { layout: TileLayout::row_major(&shape)?.into(), axes, shape })
    }

    /// The inverse whose value is the sum of the values that the digits of every axis contribute.
    pub(super) fn of_digits(axes: Vec<Axis>, digits: Vec<Digits>) -> Result<InverseLayout> {
        let (mut shard, mut shape, mut start) = (Vec::new(), Vec::new(), 0i128);
        for found in digits {
            start += i128::from(found.start);
            shape.push(found.digits.iter().map(|(extent, _)| extent).product());
            shard.extend(found.digits.into_iter().rev().map(|(e, s)| Iter::in_memory(e, s)));
        }
        let start = narrow_to_i64(start, "the start of the inverse")?;
        let offset = (start != 0).then_some((Axis::M, start));
        Ok(InverseLayout {
            layout: TileLayout::new(shard, Vec::new(), offset)?.into(),
            axes,
            shape,
        })
    }

    /// The same inverse on whole blocks of a swizzle: physical coordinates past the last element map anywhere.
    pub(super) fn extend_to_whole_blocks(self, swizzle: Option<Swizzle>) -> Result<InverseLayout> {
        let Some(sw) = swizzle.filter(|_| self.axes == [Axis::M]) else { return Ok(self) };
        let tile = self.layout.tile();
        let mut shard = tile.shard().to_vec();
        let Some(outermost) = shard.first_mut() else { return Ok(self) };
        let (block, inner) =
            (1i128 << sw.affected_low_bits(), i128::from(tile.size() / outermost.extent.max(1)));
        // The smallest multiple of the outer extent for which the size is a multiple of the block.
        // A swizzle is checked on whole blocks only, and rounding up adds physical coordinates that hold no
        // element.
        let step = block / gcd(inner, block);
        let extent = (i128::from(outermost.extent) + step - 1) / step * step;
        outermost.extent = narrow_to_i64(extent, "the domain of the inverse")?;
        let tile = tile.with_shard(shard)?;
        Ok(InverseLayout { shape: vec![tile.size()], layout: tile.into(), axes: self.axes })
    }
}

/// Whether every bit of the index becomes one bit of the coordinate on `m`, no two the same one:
/// extents and strides are powers of two, and nothing carries.
fn moves_whole_bits(tile: &TileLayout) -> bool {
    let mut taken = 0;
    tile.offset().iter().all(|(_, v)| *v == 0)
        && tile.shard().iter().filter(|it| it.extent != 1).all(|it| {
            let power = |v: i64| v > 0 && v.cast_unsigned().is_power_of_two();
            if it.axis != Axis::M || !power(it.extent) || !power(it.stride) {
                return false;
            }
            // At most the largest coordinate, so this does not overflow.
            let bits = (it.extent - 1) * it.stride;
            let free = taken & bits == 0;
            taken |= bits;
            free
        })
}

fn no_chain_error(index: i64) -> LayoutError {
    LayoutError::NotExpressible {
        reason: "the strides on an axis do not nest, so no digits of the place give the index"
            .into(),
        index,
    }
}

pub(super) fn below_zero_error(axis: Axis, value: i64) -> LayoutError {
    let accepted = format!("an inverse is a layout of places on `{axis}` from 0 on");
    LayoutError::BadParameter { what: "the smallest coordinate", value, accepted }
}

/// The axes that the domain of an inverse has.
pub(super) fn domain_axes(tile: &TileLayout) -> Vec<Axis> {
    if tile.axes().is_empty() { vec![Axis::M] } else { tile.axes().to_vec() }
}

/// The inverse of a bijective tile layout: per axis, the chain of its iters.
fn build_inverse(tile: &TileLayout) -> Result<InverseLayout> {
    let axes = domain_axes(tile);
    if tile.size() == 0 {
        return InverseLayout::of_nothing(axes);
    }
    let iters = weighted_iters(tile);
    let digits = axes.iter().map(|axis| find_axis_digits(tile, *axis, &chain_of(&iters, *axis)));
    let digits = digits.collect::<Result<_>>()?;
    InverseLayout::of_digits(axes, digits)
}

/// The digits of a coordinate on one axis that the chain of its iters gives, proved to recover the index
/// digits of these iters.
pub(super) fn digits_by_chain(tile: &TileLayout, axis: Axis) -> Result<Digits> {
    let iters = weighted_iters(tile);
    let digits = find_axis_digits(tile, axis, &chain_of(&iters, axis))?;
    prove_axis_digits(tile, axis, &iters, &digits)?;
    Ok(digits)
}

/// The iters of the shard with their weights, innermost first; a copy counts nothing.
fn weighted_iters(tile: &TileLayout) -> Vec<WeightedIter> {
    let mut weight = 1;
    let mut iters = Vec::new();
    for it in tile.shard().iter().rev() {
        iters.push(WeightedIter { it: *it, weight });
        weight *= it.extent;
    }
    let copies = tile.replica().iter().filter(|it| it.stride != 0);
    iters.extend(copies.map(|it| WeightedIter { it: *it, weight: 0 }));
    iters
}

/// The iters that move on one axis by rising stride.
fn chain_of(iters: &[WeightedIter], axis: Axis) -> Vec<WeightedIter> {
    let mut chain: Vec<WeightedIter> =
        iters.iter().filter(|w| w.it.moves_on_axis(axis)).copied().collect();
    chain.sort_by_key(|w| (w.it.stride.unsigned_abs(), std::cmp::Reverse(w.it.extent)));
    chain
}

/// Proves that the digits of one axis recover the index digits of its iters. With gaps and offsets a digit
/// may carry where the construction assumes that it does not, so the result is composed with the layout and
/// compared with the identity.
fn prove_axis_digits(
    tile: &TileLayout,
    axis: Axis,
    iters: &[WeightedIter],
    found: &Digits,
) -> Result<()> {
    let mine = || iters.iter().rev().filter(|w| w.it.axis == axis);
    let there = mine().map(|w| Iter::in_memory(w.it.extent, w.it.stride)).collect();
    let there = TileLayout::new(there, Vec::new(), [(Axis::M, tile.offset_on(axis))])?;
    let back = found.digits.iter().rev().map(|(e, s)| Iter::in_memory(*e, *s)).collect();
    let back = TileLayout::new(back, Vec::new(), [(Axis::M, found.start)])?;
    let want =
        TileLayout::from_shard(mine().map(|w| Iter::in_memory(w.it.extent, w.weight)).collect())?;
    let got = compose_tiles(&back, &there)?;
    match Layout::from(got).find_difference(&want.into())? {
        None => Ok(()),
        Some(crate::LayoutDifference::At { index, .. }) => Err(no_chain_error(index)),
        Some(crate::LayoutDifference::Size(..)) => Err(no_chain_error(0)),
    }
}

/// The digits of a coordinate on one axis; their start is the index part of coordinate 0.
fn find_axis_digits(tile: &TileLayout, axis: Axis, chain: &[WeightedIter]) -> Result<Digits> {
    let mut digits: Vec<(i64, i64)> = Vec::new();
    let mut base = 0;
    let mut reached = 1i64;
    // The coordinate of the lowest element: with nested strides it is a constant in every digit.
    let mut rest = tile.axis_bounds(axis).min;
    if rest < 0 {
        return Err(below_zero_error(axis, rest));
    }
    for (i, w) in chain.iter().enumerate() {
        let stride = i64::try_from(w.it.stride.unsigned_abs()).unwrap_or(i64::MAX);
        // Between two elements there may be more physical coordinates than the digits below reach, as long
        // as the digit before can be widened to count them.
        let step = if i == 0 { 1 } else { chain[i - 1].it.stride.saturating_abs() };
        if stride < reached || stride % step != 0 {
            return Err(no_chain_error(w.weight));
        }
        if stride > reached {
            // Physical coordinates between two elements: the digit below is widened, or, if there is none, a digit of
            // stride 0 steps over them.
            match digits.last_mut() {
                Some((extent, _)) => *extent = stride / step,
                None => digits.push((stride, 0)),
            }
        }
        // The offset shifts this digit by a constant, as long as that causes no carry. Whether it does is
        // left to `prove_axis_digits`.
        let top = i + 1 == chain.len();
        let next = if top { i64::MAX } else { chain[i + 1].it.stride.saturating_abs() };
        let low = if top { rest / stride } else { rest % next / stride };
        if !top {
            rest -= rest % next;
        }
        let steps = if w.it.stride < 0 { -w.weight } else { w.weight };
        let zero = if w.it.stride < 0 { (w.it.extent - 1) * w.weight } else { 0 };
        base += zero - low * steps;
        digits.push((w.it.extent + low, steps));
        reached = stride
            .checked_mul(w.it.extent + low)
            .ok_or_else(|| LayoutError::overflow_of("the domain of the inverse"))?;
    }
    if digits.is_empty() {
        digits.push((tile.axis_bounds(axis).max + 1, 0));
    }
    Ok(Digits { start: base, digits })
}
