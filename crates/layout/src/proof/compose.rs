//! Composition: `compose(a, b)(i) == a(b(i))`, exactly or not at all.

use crate::axis::Axis;
use crate::error::{Error, Result};
use crate::int::narrow;
use crate::layout::Layout;
use crate::radix::{Digit, Radix, Refusal, SCAN_LIMIT, Vector, scan};
use crate::tile::{Iter, TileLayout};
use smallvec::SmallVec;

impl Layout {
    /// The layout `R` with `R(i) = self(b(i))` for every index `i` of `b`.
    ///
    /// `b` must land on one memory axis, inside `[0, size)` of `self`. The result keeps the
    /// replicas, the offset and the swizzle of `self`; replicas of `b` become replicas of the
    /// result. Where no layout of the model is that function the answer is
    /// [`Error::NotExpressible`] with an index that proves it: never a wrong layout.
    ///
    /// A swizzle of `b` survives where `self` is the identity or scales by a power of two.
    pub fn compose(&self, b: &Layout) -> Result<Layout> {
        self.unpadded("compose")?;
        b.unpadded("compose")?;
        if let Some(sw) = b.swizzle().filter(|sw| !sw.is_identity()) {
            return self.compose_swizzled(b, sw);
        }
        self.with_tile(compose_tiles(self.tile(), b.tile())?)
    }

    fn compose_swizzled(&self, b: &Layout, sw: crate::Swizzle) -> Result<Layout> {
        let refuse = Error::Swizzled {
            op: "compose",
            help: "the left layout must be S[n:2^k] so that it commutes with the swizzle on the right",
        };
        let span = b.span(Axis::M)?;
        if span > self.size() {
            let value = span - 1;
            let index = b.lookup_first(&[(Axis::M, value)])?.unwrap_or(0);
            return Err(Error::OutsideDomain { index, value, size: self.size() });
        }
        if self.tile().is_trivial() && self.swizzle().is_none_or(|s| s.is_identity()) {
            return Ok(b.clone());
        }
        let shift = match self.tile().canonical().shard() {
            [it] if it.axis == Axis::M && it.stride > 0 && it.stride.count_ones() == 1 => {
                it.stride.trailing_zeros()
            }
            _ => return Err(refuse),
        };
        let plain = self.tile().offset().iter().all(|(_, v)| *v == 0) && self.tile().copies() == 1;
        if !plain || self.swizzle().is_some_and(|s| !s.is_identity()) {
            return Err(refuse);
        }
        Layout::swizzled(sw.unpack(shift)?, compose_tiles(self.tile(), b.tile())?)
    }
}

/// `i -> a(b(i))` for tile layouts.
pub(crate) fn compose_tiles(a: &TileLayout, b: &TileLayout) -> Result<TileLayout> {
    let axis = match b.axes() {
        [] => Axis::M,
        [one] if one.is_memory() => *one,
        all => return Err(Error::not_one_axis("compose", Axis::M, all)),
    };
    if b.size() == 0 {
        let shard = b.shard().iter().map(|it| Iter::mem(it.extent, 0)).collect();
        return a.with_shard(shard);
    }
    check_domain(a, b, axis)?;

    let function = Radix::of(a.shard(), a.axes());
    let inner = Radix::of(b.shard(), &[axis]);
    let copies = Radix::of(b.replica(), &[axis]);
    let digits: Vec<(i128, i128)> =
        inner.digits().iter().chain(copies.digits()).map(|d| (d.extent, d.stride[0])).collect();
    let start = i128::from(b.offset_on(axis));

    let mut shard = Vec::new();
    let mut replica = a.replica().to_vec();
    if separable(&function, &digits, start) {
        let mut weight = 1i128;
        for (k, (extent, stride)) in digits.iter().enumerate() {
            let is_shard = k < inner.digits().len();
            let found = function
                .progression(start, *stride, *extent)
                .and_then(|found| on_one_axis(&found, a.axes()));
            let iters = found.map_err(|r| refusal(r, weight, is_shard))?;
            if is_shard {
                shard.extend(iters);
                weight *= extent;
            } else {
                replica.extend(iters);
            }
        }
    } else {
        if copies.digits().iter().any(|d| d.extent > 1) {
            return Err(Error::NotExpressible {
                reason: "the replicas of the right layout carry into its elements".into(),
                index: 0,
            });
        }
        let n = inner.size();
        let found = scan(n, function.width(), |i| function.eval(start + inner.eval(i)[0]))
            .and_then(|found| on_one_axis(&found, a.axes()));
        shard = found.map_err(|r| refusal(r, 1, true))?;
    }
    shard.reverse();

    let base = function.eval(start);
    let mut offset: Vec<(Axis, i64)> = a.offset().to_vec();
    for (axis, value) in a.axes().iter().zip(base) {
        if value != 0 {
            offset.push((*axis, narrow(value, "the offset of the composition")?));
        }
    }
    if shard.is_empty() && inner.digits().is_empty() && !b.shard().is_empty() {
        let axis = a.shard().first().map_or(Axis::M, |it| it.axis);
        shard.push(Iter::new(1, 1, axis));
    }
    TileLayout::new(shard, replica, offset)
}

/// `weight` is what one step of the refused digit counts in the flat index.
fn refusal(refusal: Refusal, weight: i128, is_shard: bool) -> Error {
    let not_expressible = |reason: &str, i: i128| {
        let index = if is_shard { i64::try_from(i * weight).unwrap_or(i64::MAX) } else { 0 };
        Error::NotExpressible { reason: format!("no iters reach element {index}: {reason}"), index }
    };
    match refusal {
        Refusal::TooLarge => Error::TooLarge {
            what: "the composition",
            limit: u64::try_from(SCAN_LIMIT).unwrap_or(u64::MAX),
        },
        Refusal::At(i) => {
            not_expressible("its place breaks the pattern that the places before force", i)
        }
        Refusal::TwoAxes(i) => not_expressible(
            "the step to it moves on several axes at once, and an iter moves on one",
            i,
        ),
    }
}

/// The image of `b` must lie inside the domain of `a`; the witness is an index that leaves it.
fn check_domain(a: &TileLayout, b: &TileLayout, axis: Axis) -> Result<()> {
    let bounds = b.bounds(axis);
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
        return Err(Error::OutsideDomain { index: extreme(true), value: bounds.max, size });
    }
    if bounds.min < 0 {
        return Err(Error::OutsideDomain { index: extreme(false), value: bounds.min, size });
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
fn separable(a: &Radix, digits: &[(i128, i128)], o: i128) -> bool {
    // Run every digit upwards: a backwards digit is the same set of steps from its other end.
    let start = digits.iter().fold(o, |o, (e, s)| if *s < 0 { o + (e - 1) * s } else { o });
    let mut weight = 1i128;
    for d in &a.digits()[..a.digits().len().saturating_sub(1)] {
        weight *= d.extent;
        let mut loose: Vec<(i128, i128)> =
            digits.iter().map(|(e, s)| (*e, s.abs())).filter(|(_, s)| s % weight != 0).collect();
        if loose.len() <= 1 {
            continue;
        }
        let reach = |set: &[(i128, i128)]| -> i128 { set.iter().map(|(e, s)| (e - 1) * s).sum() };
        if start.rem_euclid(weight) + reach(&loose) < weight {
            continue;
        }
        loose.sort_by_key(|(_, s)| *s);
        let (_, largest) = loose.pop().expect("more than one");
        if weight % largest != 0 || start.rem_euclid(largest) + reach(&loose) >= largest {
            return false;
        }
    }
    true
}

/// Digits as iters, innermost first; a digit that moves on two axes at once is no iter.
fn on_one_axis(digits: &[Digit], axes: &[Axis]) -> Result<Vec<Iter>, Refusal> {
    let mut weight = 1i128;
    let mut iters = Vec::with_capacity(digits.len());
    for d in digits {
        let moving: SmallVec<[usize; 4]> =
            d.stride.iter().enumerate().filter(|(_, s)| **s != 0).map(|(i, _)| i).collect();
        let slot = match moving.as_slice() {
            [] => 0,
            [one] => *one,
            _ => return Err(Refusal::TwoAxes(weight)),
        };
        let axis = axes.get(slot).copied().unwrap_or(Axis::M);
        let stride: &Vector = &d.stride;
        let stride = stride.get(slot).copied().unwrap_or(0);
        let fits = (i64::try_from(d.extent), i64::try_from(stride));
        let (Ok(extent), Ok(stride)) = fits else { return Err(Refusal::At(weight)) };
        iters.push(Iter::new(extent, stride, axis));
        weight *= d.extent;
    }
    Ok(iters)
}
