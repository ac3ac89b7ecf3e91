//! Composition: `compose(a, b)(i) == a(b(i))`, exactly or not at all.

use crate::axis::Axis;
use crate::error::{LayoutError, Result};
use crate::int::narrow_to_i64;
use crate::layout::Layout;
use crate::proof::effective::bits_are_clear;
use crate::proof::replicas::compose_place_sets;
use crate::proof::search::find_layout_of_places;
use crate::radix::{AxisVector, NotLinear, RadixDigit, RadixFunction, SCAN_LIMIT, scan_for_digits};
use crate::swizzle::Swizzle;
use crate::tile::{Iter, TileLayout};
use smallvec::SmallVec;

impl Layout {
    /// The layout `R` with `R(i) = self(b(i))` for every index `i` of `b`.
    ///
    /// `b` must land on one memory axis, inside `[0, size)` of `self`. The result keeps the replicas, the
    /// offset and the swizzle of `self`; replicas of `b` become replicas of the result. Where no iters
    /// behind that swizzle are that function, every swizzle is tried, where elements have one physical
    /// coordinate each. If `b` is swizzled, the result has any swizzle that gives the function: a left
    /// layout that scales by a power of two keeps the swizzle of `b`, otherwise every swizzle is tried in
    /// the same way.
    ///
    /// [`LayoutError::NotExpressible`] says that no layout is the function, with an index that proves it: no
    /// iters, and where one of both is swizzled, no swizzle either. [`LayoutError::Undecided`] says that the
    /// search ended without one.
    pub fn compose(&self, b: &Layout) -> Result<Layout> {
        self.require_unpadded("compose")?;
        b.require_unpadded("compose")?;
        if let Some(sw) = b.effective_swizzle() {
            return self.compose_swizzled(b, sw);
        }
        match compose_tiles(self.tile(), b.tile()) {
            Ok(tile) => self.with_tile_layout(tile),
            // A swizzle on the left stays on the left only if the tile layouts compose. The
            // function may still be another swizzle of other iters, which the search decides.
            Err(LayoutError::NotExpressible { reason, .. })
                if self.effective_swizzle().is_some() =>
            {
                self.compose_by_search(b, &reason)
            }
            Err(e) => Err(e),
        }
    }

    /// The composition under any swizzle that gives it, for a composition that no iters behind the swizzle
    /// of `self` give.
    fn compose_by_search(&self, b: &Layout, behind: &str) -> Result<Layout> {
        let not_found = |why: &str| LayoutError::Undecided {
            reason: format!("no composition was found: behind the swizzle, {behind}; {why}"),
        };
        if self.tile().replica_count() > 1 || b.tile().replica_count() > 1 {
            return Err(not_found("other swizzles are not tried where elements have replicas"));
        }
        if b.size() > MAX_LISTED_ELEMENTS {
            let why = format!("other swizzles are tried for up to {MAX_LISTED_ELEMENTS} elements");
            return Err(not_found(&why));
        }
        find_layout_of_places(&self.places_through(b)?, self.tile().axes(), "the composition")
    }

    /// The one physical coordinate of `self(b(i))` for every index `i` of `b`, on the axes of `self`.
    fn places_through(&self, b: &Layout) -> Result<Vec<AxisVector>> {
        let axes = self.tile().axes();
        let on = b.tile().axes().first().copied().unwrap_or(Axis::M);
        let mut places = Vec::new();
        for address in b.offset_table(on)? {
            let place = self.physical_coordinates(address)?.sorted_coordinates().swap_remove(0);
            places.push(axes.iter().map(|a| i128::from(place.get(*a))).collect());
        }
        Ok(places)
    }

    /// `sw` is the effective swizzle of `b`, which must be on `m` alone.
    fn compose_swizzled(&self, b: &Layout, sw: Swizzle) -> Result<Layout> {
        if b.tile().axes() != [Axis::M] {
            return Err(LayoutError::not_on_one_axis("compose", Axis::M, b.tile().axes()));
        }
        // The bound is that of the swizzled addresses, which may be larger than those of the tile
        // layout.
        let value = b.axis_bounds(Axis::M)?.max;
        if value >= self.size() {
            let index = b.look_up_first(&[(Axis::M, value)])?.unwrap_or(0);
            return Err(LayoutError::OutsideDomain { index, value, size: self.size() });
        }
        if let Some(scaled) = self.scale_swizzled(b.tile(), sw)? {
            return Ok(scaled);
        }
        if self.tile().replica_count() > 1 || b.tile().replica_count() > 1 {
            let help = "where elements have replicas, the left layout must be S[n:2^k] plus what \
                        leaves the bits of the swizzle on the right alone";
            return Err(LayoutError::Swizzled { op: "compose", help });
        }
        let what = "the composition";
        if b.size() > MAX_LISTED_ELEMENTS {
            return Err(LayoutError::TooLarge { what, limit: MAX_LISTED_ELEMENTS.cast_unsigned() });
        }
        find_layout_of_places(&self.places_through(b)?, self.tile().axes(), what)
    }

    /// The composition with a left layout that only scales by a power of two and adds values that do not
    /// touch the bits of the swizzle.
    fn scale_swizzled(&self, b: &TileLayout, sw: Swizzle) -> Result<Option<Layout>> {
        let tile = self.tile();
        let shift = match tile.canonical_form().shard() {
            [it] if it.axis == Axis::M && it.stride > 0 && it.stride.count_ones() == 1 => {
                it.stride.trailing_zeros()
            }
            _ => return Ok(None),
        };
        // `2^k * sw(x)` is the swizzle with both fields `k` bits higher, applied to `2^k * x`.
        let Ok(unpacked) = sw.unpack_elements(shift) else { return Ok(None) };
        let bits = shift..shift + sw.affected_low_bits();
        // What the left layout adds must not reach these bits, because XOR and addition differ as
        // soon as both touch a bit.
        let apart = bits_are_clear(tile.offset_on(Axis::M), tile.replica().iter(), bits);
        if !apart || self.effective_swizzle().is_some() {
            return Ok(None);
        }
        let scale = |value: i64| {
            let scaled = i128::from(value) << shift;
            narrow_to_i64(scaled, "an address of the composition")
        };
        let iters = |its: &[Iter]| -> Result<Vec<Iter>> {
            its.iter().map(|it| Ok(Iter { stride: scale(it.stride)?, ..*it })).collect()
        };
        let mut replica = tile.replica().to_vec();
        replica.extend(iters(b.replica())?);
        let offset = (Axis::M, scale(b.offset_on(Axis::M))?);
        let offset = tile.offset().iter().copied().chain([offset]);
        let scaled = TileLayout::new(iters(b.shard())?, replica, offset)?;
        Ok(Layout::from_swizzled_tile(unpacked, scaled).ok())
    }
}

/// Elements listed to find the composition with a swizzled layout.
// `find_layout_of_places` scans the list once for each swizzle, and bounds the product.
const MAX_LISTED_ELEMENTS: i64 = 1 << 16;

/// `i -> a(b(i))` for tile layouts.
pub(crate) fn compose_tiles(a: &TileLayout, b: &TileLayout) -> Result<TileLayout> {
    let axis = match b.axes() {
        [] => Axis::M,
        [one] if one.is_memory() => *one,
        all => return Err(LayoutError::not_on_one_axis("compose", Axis::M, all)),
    };
    // Only the shape of an empty layout is left to keep.
    if b.size() == 0 {
        let shard = b.shard().iter().map(|it| Iter::in_memory(it.extent, 0)).collect();
        return a.with_shard(shard);
    }
    check_composition_domain(a, b, axis)?;

    let function = RadixFunction::from_iters(a.shard(), a.axes());
    let inner = RadixFunction::from_iters(b.shard(), &[axis]);
    let copies = RadixFunction::from_iters(b.replica(), &[axis]);
    // Replica digits of `b` are treated like shard digits whose results become replicas.
    let digits: Vec<(i128, i128)> =
        inner.digits().iter().chain(copies.digits()).map(|d| (d.extent, d.stride[0])).collect();
    let start = i128::from(b.offset_on(axis));

    let mut shard = Vec::new();
    let mut replica = a.replica().to_vec();
    let carries = !is_separable(&function, &digits, start);
    let replicated = copies.digits().iter().any(|d| d.extent > 1);
    // Where digits carry into one another, the copies of different elements are different sets in
    // general, which only the sets themselves decide.
    if carries && replicated {
        return compose_place_sets(a, b, axis);
    }
    // Each digit is then restricted by itself, in time that does not depend on its extent.
    if !carries {
        let mut weight = 1i128;
        for (k, (extent, stride)) in digits.iter().enumerate() {
            let is_shard = k < inner.digits().len();
            let found = function
                .restrict_to_progression(start, *stride, *extent)
                .and_then(|found| iters_on_one_axis(&found, a.axes()));
            if !is_shard && found.is_err() {
                // The copies are a set: in another order they may be progressions.
                return compose_place_sets(a, b, axis);
            }
            let iters = found.map_err(|r| composition_refusal(r, weight))?;
            if is_shard {
                shard.extend(iters);
                weight *= extent;
            } else {
                replica.extend(iters);
            }
        }
    } else {
        // Digits that carry into one another make one function of the whole index. It is scanned,
        // which is exact up to `SCAN_LIMIT` elements and refused beyond it.
        let n = inner.size();
        let found = scan_for_digits(n, function.width(), |i| {
            function.evaluate_at(start + inner.evaluate_at(i)[0])
        })
        .and_then(|found| iters_on_one_axis(&found, a.axes()));
        shard = found.map_err(|r| composition_refusal(r, 1))?;
    }
    shard.reverse();

    let base = function.evaluate_at(start);
    let mut offset: Vec<(Axis, i64)> = a.offset().to_vec();
    for (axis, value) in a.axes().iter().zip(base) {
        if value != 0 {
            offset.push((*axis, narrow_to_i64(value, "the offset of the composition")?));
        }
    }
    // A result without any iter would print as a scalar; one unit iter keeps a layout of one
    // element a layout of rank 1.
    if shard.is_empty() && inner.digits().is_empty() && !b.shard().is_empty() {
        let axis = a.shard().first().map_or(Axis::M, |it| it.axis);
        shard.push(Iter::new(1, 1, axis));
    }
    TileLayout::new(shard, replica, offset)
}

/// `i -> a(b(c(i)))`, also where no layout is `b(c(i))`.
///
/// `b` and `c` give one address on `m` for each element, inside the domain of the next layout.
pub(crate) fn compose_through(
    a: &TileLayout,
    b: &TileLayout,
    c: &TileLayout,
) -> Result<TileLayout> {
    match compose_tiles(b, c) {
        Ok(inner) => return compose_tiles(a, &inner),
        Err(LayoutError::NotExpressible { .. }) => {}
        Err(e) => return Err(e),
    }
    let function = RadixFunction::from_iters(a.shard(), a.axes());
    let address = |t: &TileLayout, i: i64| {
        t.axis_index(Axis::M).map_or(0, |m| t.unreplicated_coordinate(i)[m])
    };
    let at = |i: i128| {
        let i = i64::try_from(i).expect("inside the layout");
        function.evaluate_at(address(b, address(c, i)).into())
    };
    let mut shard = scan_for_digits(c.size().into(), function.width(), at)
        .and_then(|found| iters_on_one_axis(&found, a.axes()))
        .map_err(|r| composition_refusal(r, 1))?;
    shard.reverse();
    let mut offset: Vec<(Axis, i64)> = a.offset().to_vec();
    for (axis, value) in a.axes().iter().zip(at(0)) {
        offset.push((*axis, narrow_to_i64(value, "the offset of the composition")?));
    }
    TileLayout::new(shard, a.replica().to_vec(), offset)
}

/// The error for a refused digit; `weight` is its weight in the flat index of `b`.
fn composition_refusal(refusal: NotLinear, weight: i128) -> LayoutError {
    let not_expressible = |reason: &str, i: i128| {
        let index = i64::try_from(i * weight).unwrap_or(i64::MAX);
        LayoutError::NotExpressible {
            reason: format!("no iters reach element {index}: {reason}"),
            index,
        }
    };
    match refusal {
        NotLinear::TooLarge => LayoutError::TooLarge {
            what: "the composition",
            limit: u64::try_from(SCAN_LIMIT).unwrap_or(u64::MAX),
        },
        NotLinear::At(i) => not_expressible(
            "its place contradicts the strides that the elements before it determine",
            i,
        ),
        NotLinear::TwoAxes(i) => not_expressible(
            "the step to it moves on several axes at once, and an iter moves on one",
            i,
        ),
    }
}

/// Checks that the image of `b` is inside the domain of `a`; the witness is an index that leaves it.
fn check_composition_domain(a: &TileLayout, b: &TileLayout, axis: Axis) -> Result<()> {
    let bounds = b.axis_bounds(axis);
    // The index at which every digit is at the end that makes the value largest (or smallest): the
    // witness, without a search.
    let extreme = |towards_max: bool| {
        let mut weight = 1;
        let mut index = 0;
        for it in b.shard().iter().rev() {
            if (it.stride > 0) == towards_max && it.stride != 0 {
                index += (it.extent - 1) * weight;
            }
            weight *= it.extent;
        }
        index
    };
    let size = a.size();
    if bounds.max >= size {
        return Err(LayoutError::OutsideDomain { index: extreme(true), value: bounds.max, size });
    }
    if bounds.min < 0 {
        return Err(LayoutError::OutsideDomain { index: extreme(false), value: bounds.min, size });
    }
    Ok(())
}

/// Whether the digits of `b` never carry into one another inside `a`, so that
/// `a(o + sum i_k s_k) - a(o)` is the sum of `a(o + i_k s_k) - a(o)`.
///
/// `a` is linear in the floors of its argument by its weights `P_j`, so it is enough that each
/// floor is additive. Over the digits whose stride is no multiple of `P_j` that holds when there is
/// at most one; or when they never reach the next multiple of `P_j`; or when the largest of them
/// divides `P_j` and the others together stay below it.
fn is_separable(a: &RadixFunction, digits: &[(i128, i128)], o: i128) -> bool {
    // Run every digit upwards: a backwards digit is the same set of steps from its other end.
    let start = digits.iter().fold(o, |o, (e, s)| if *s < 0 { o + (e - 1) * s } else { o });
    let mut weight = 1i128;
    // The outermost digit of `a` has no floor above it, so nothing can carry out of it.
    for d in &a.digits()[..a.digits().len().saturating_sub(1)] {
        weight *= d.extent;
        let mut loose: Vec<(i128, i128)> =
            digits.iter().map(|(e, s)| (*e, s.abs())).filter(|(_, s)| s % weight != 0).collect();
        // Multiples of the weight add whole numbers to the floor, and a single other digit has no
        // partner that it could carry with.
        if loose.len() <= 1 {
            continue;
        }
        let reach = |set: &[(i128, i128)]| -> i128 { set.iter().map(|(e, s)| (e - 1) * s).sum() };
        if start.rem_euclid(weight) + reach(&loose) < weight {
            continue;
        }
        loose.sort_by_key(|(_, s)| *s);
        let (_, largest) = loose.pop().expect("more than one");
        // Without this condition the floors may or may not be additive. The caller then treats the digits
        // as carrying, which costs time but not exactness.
        if weight % largest != 0 || start.rem_euclid(largest) + reach(&loose) >= largest {
            return false;
        }
    }
    true
}

/// Digits as iters, innermost first; a digit that moves on two axes at once is no iter.
pub(super) fn iters_on_one_axis(
    digits: &[RadixDigit],
    axes: &[Axis],
) -> Result<Vec<Iter>, NotLinear> {
    let mut weight = 1i128;
    let mut iters = Vec::with_capacity(digits.len());
    for d in digits {
        let moving: SmallVec<[usize; 4]> =
            d.stride.iter().enumerate().filter(|(_, s)| **s != 0).map(|(i, _)| i).collect();
        let slot = match moving.as_slice() {
            [] => 0,
            [one] => *one,
            _ => return Err(NotLinear::TwoAxes(weight)),
        };
        let axis = axes.get(slot).copied().unwrap_or(Axis::M);
        let stride: &AxisVector = &d.stride;
        let stride = stride.get(slot).copied().unwrap_or(0);
        // Extents and strides of a result are bounded by those of its parts; a value past 64 bits
        // has no iter.
        let fits = (i64::try_from(d.extent), i64::try_from(stride));
        let (Ok(extent), Ok(stride)) = fits else { return Err(NotLinear::At(weight)) };
        iters.push(Iter::new(extent, stride, axis));
        weight *= d.extent;
    }
    Ok(iters)
}

impl TileLayout {
    /// The iters that each iter of `b` becomes in `i -> self(b(i))`, slowest first, in the order of `b`. A
    /// unit iter becomes none. Offsets and replicas of `self` are left out.
    ///
    /// **Law**: the layout of all these iters, in order, is `i -> self(b(i))` less the offset, and its
    /// domain can be split where that of `b` can be. As a function of one iter of `b` the iters are
    /// unique up to the way they are split, so a refusal is a proof: no layout compatible with `b` is
    /// that function, and the error names an index that shows it.
    ///
    /// `b` has no replicas, begins at 0, and its addresses are inside `[0, size)` on one memory axis.
    pub fn compose_each_iter(&self, b: &TileLayout) -> Result<Vec<Vec<Iter>>> {
        let axis = match b.axes() {
            [] => Axis::M,
            [one] if one.is_memory() => *one,
            all => return Err(LayoutError::not_on_one_axis("compose_each", Axis::M, all)),
        };
        for (what, value) in [
            ("the offset of the right layout", b.offset_on(axis)),
            ("the replicas of the right layout, less one", b.replica_count() - 1),
        ] {
            if value != 0 {
                let accepted = "iters alone are composed one by one".into();
                return Err(LayoutError::BadParameter { what, value, accepted });
            }
        }
        if b.size() == 0 {
            let empty = |it: &Iter| vec![Iter::in_memory(it.extent, 0)];
            return Ok(b.shard().iter().map(empty).collect());
        }
        check_composition_domain(self, b, axis)?;
        let function = RadixFunction::from_iters(self.shard(), self.axes());
        let digits: Vec<(i128, i128)> =
            b.shard().iter().rev().map(|it| (it.extent.into(), it.stride.into())).collect();
        let mut found = Vec::with_capacity(digits.len());
        let mut weight = 1i128;
        for (extent, stride) in &digits {
            let iters = function
                .restrict_to_progression(0, *stride, *extent)
                .and_then(|digits| iters_on_one_axis(&digits, self.axes()));
            let mut iters = iters.map_err(|r| composition_refusal(r, weight))?;
            iters.reverse();
            found.push(iters);
            weight *= extent;
        }
        found.reverse();
        let moving: Vec<(i128, i128)> = digits.iter().filter(|(e, _)| *e > 1).copied().collect();
        // Restricting each iter by itself is only the candidate where digits carry. The candidate
        // is unique, so comparing it with the composition at every index decides.
        if !is_separable(&function, &moving, 0) {
            let (inner, all) = (RadixFunction::from_iters(b.shard(), &[axis]), found.concat());
            let candidate = RadixFunction::from_iters(&all, self.axes());
            if inner.size() > SCAN_LIMIT {
                return Err(composition_refusal(NotLinear::TooLarge, 1));
            }
            let parts = (0..inner.size()).find(|i| {
                zellige_guard::count_step();
                candidate.evaluate_at(*i) != function.evaluate_at(inner.evaluate_at(*i)[0])
            });
            if let Some(i) = parts {
                return Err(composition_refusal(NotLinear::At(i), 1));
            }
        }
        Ok(found)
    }
}
