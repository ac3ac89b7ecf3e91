//! Left inverses: layouts that map every used physical coordinate to the index of its element.

use crate::axis::Axis;
use crate::error::{LayoutError, Result};
use crate::layout::Layout;
use crate::proof::digit_search::{Answer, Digits, find_digits};
use crate::proof::inverse::{InverseLayout, below_zero_error, digits_by_chain, domain_axes};
use crate::proof::search::swizzles_moving_bits;

/// Physical coordinates on one axis that are listed to find the digits of an inverse.
// The digit search divides every listed coordinate for every choice of extents, and tries the
// primes up to the last coordinate.
const MAX_LISTED_PLACES: i64 = 1 << 16;

/// Elements of a swizzled layout up to which every swizzle of its inverse is tried.
const MAX_ELEMENTS_WITH_EVERY_SWIZZLE: i64 = 1 << 12;

impl Layout {
    /// A layout `R` on physical coordinates with `R(p) = i` for every physical coordinate `p` of every
    /// element `i`: gaps between the elements are allowed, and map anywhere.
    ///
    /// `R` is the sum of what the digits of the coordinate on each axis contribute. Two elements at one
    /// physical coordinate ([`LayoutError::Aliased`]) and a physical coordinate below 0 are refused with
    /// that witness. Without a swizzle, [`LayoutError::NotExpressible`] is a proof: no digits recover the
    /// elements up to its index. That is decided where the coordinates on every axis are at most 65,536, as
    /// long as the search takes at most 2^24 steps. Everywhere else, [`LayoutError::Undecided`] says that
    /// no inverse was found.
    pub fn left_inverse(&self) -> Result<InverseLayout> {
        self.require_unpadded("left_inverse")?;
        if let Some((a, b, place)) = self.find_clash()? {
            return Err(LayoutError::Aliased { a, b, place: Box::new(place) });
        }
        let axes = domain_axes(self.tile());
        if self.size() == 0 {
            return InverseLayout::of_nothing(axes);
        }
        for axis in &axes {
            let lowest = self.tile().axis_bounds(*axis).min;
            if lowest < 0 {
                return Err(below_zero_error(*axis, lowest));
            }
        }
        let swizzled = self.effective_swizzle().is_some();
        // The cheap construction first: layouts with the usual swizzles keep their bit fields
        // together.
        if swizzled && let Ok(found) = self.left_inverse_by_fields(&axes) {
            return Ok(found);
        }
        let mut digits = Vec::with_capacity(axes.len());
        let (mut steps, mut refused, mut undecided) = (0, None::<(i64, Axis)>, false);
        for axis in &axes {
            match self.digits_on(*axis, &mut steps) {
                AxisAnswer::Found(found) => digits.push(found),
                AxisAnswer::Impossible { index } => {
                    // The witness of the whole refusal is the smallest one over all axes, as each
                    // is a proof by itself.
                    let first = refused.is_none_or(|(before, _)| index < before);
                    refused = if first { Some((index, *axis)) } else { refused };
                }
                AxisAnswer::NotFound => undecided = true,
            }
        }
        match refused {
            None if !undecided => InverseLayout::of_digits(axes, digits),
            // Under a swizzle the refusal is about plain digits only; another swizzle may still
            // give an inverse.
            Some((index, axis)) if !swizzled => Err(LayoutError::NotExpressible {
                reason: format!(
                    "no digits of the coordinate on `{axis}` recover every element up to {index}"
                ),
                index,
            }),
            _ => self.swizzled_left_inverse(&axes, &mut steps).ok_or_else(|| {
                LayoutError::Undecided {
                    reason:
                        "no left inverse was found, and nothing shows that there is none (one is \
                         found or ruled out without a swizzle, for coordinates up to 65,536)"
                            .into(),
                }
            }),
        }
    }

    /// The swizzle behind the inverse of the tile layout, where that keeps the fields of bits together.
    fn left_inverse_by_fields(&self, axes: &[Axis]) -> Result<InverseLayout> {
        let digits = axes.iter().map(|axis| digits_by_chain(self.tile(), *axis));
        let inverse = InverseLayout::of_digits(axes.to_vec(), digits.collect::<Result<_>>()?)?;
        self.unswizzle_inverse(inverse.extend_to_whole_blocks(self.effective_swizzle())?)
    }

    /// The digits of the coordinate on one axis that recover the index digits of its iters.
    fn digits_on(&self, axis: Axis, steps: &mut u64) -> AxisAnswer {
        let swizzled = axis == Axis::M && self.effective_swizzle().is_some();
        // Nested strides are inverted in closed form for any size; the search is for the others.
        if !swizzled && let Ok(found) = digits_by_chain(self.tile(), axis) {
            return AxisAnswer::Found(found);
        }
        let Some(pairs) = self.listed_on(axis) else { return AxisAnswer::NotFound };
        let strides = self.strides_on(axis);
        match find_digits(&pairs, &strides, steps) {
            Answer::Found(found) => AxisAnswer::Found(found),
            Answer::Impossible => {
                AxisAnswer::Impossible { index: first_impossible(&pairs, &strides, steps) }
            }
            Answer::NotFound => AxisAnswer::NotFound,
        }
    }

    /// The physical coordinates on one axis by rising coordinate, each with what it contributes to the flat
    /// index; `None` above [`MAX_LISTED_PLACES`].
    fn listed_on(&self, axis: Axis) -> Option<Vec<(i64, i64)>> {
        let iters = self.tile().shard().iter().chain(self.tile().replica());
        let moving = iters.filter(|it| it.moves_on_axis(axis));
        let count = moving.fold(1i64, |all, it| all.saturating_mul(it.extent));
        (count <= MAX_LISTED_PLACES).then(|| {
            let mut pairs = self.parts_on(axis);
            pairs.sort_unstable();
            pairs.dedup();
            pairs
        })
    }

    fn strides_on(&self, axis: Axis) -> Vec<i64> {
        let iters = self.tile().shard().iter().chain(self.tile().replica());
        iters.filter(|it| it.moves_on_axis(axis)).map(|it| it.stride).collect()
    }

    /// An inverse under another swizzle.
    ///
    /// A swizzle is its own inverse, so the iters behind it must give the swizzled indices.
    fn swizzled_left_inverse(&self, axes: &[Axis], steps: &mut u64) -> Option<InverseLayout> {
        let small = self.size() <= MAX_ELEMENTS_WITH_EVERY_SWIZZLE;
        if axes != [Axis::M] || !small || self.effective_swizzle().is_none() {
            return None;
        }
        let pairs = self.listed_on(Axis::M)?;
        let strides = self.strides_on(Axis::M);
        // The values of the inverse are indices, so only bits below the number of elements can be
        // moved.
        let bits = i128::from(self.size() - 1);
        let set = if bits == 0 { 0 } else { (1i128 << (128 - bits.leading_zeros())) - 1 };
        swizzles_moving_bits(set).into_iter().flatten().find_map(|sw| {
            let moved: Vec<(i64, i64)> =
                pairs.iter().map(|(p, i)| (*p, sw.apply_to_address(*i))).collect();
            let Answer::Found(found) = find_digits(&moved, &strides, steps) else { return None };
            let inverse = InverseLayout::of_digits(axes.to_vec(), vec![found]).ok()?;
            // Gaps may map below 0, where a swizzle is not defined.
            let layout = Layout::from_swizzled_tile(sw, inverse.layout.tile().clone()).ok()?;
            Some(InverseLayout { layout, ..inverse })
        })
    }
}

enum AxisAnswer {
    Found(Digits),
    /// Elements up to that index have no digits.
    Impossible {
        index: i64,
    },
    NotFound,
}

/// The smallest index such that no digits recover the elements up to it, as far as the searches end; for
/// all of `pairs` it is known already that no digits do.
///
/// The elements up to `i` contribute at most `i` on every axis, and the element whose whole index is
/// contributed by this axis is among them, so a prefix of the sorted contributions is the right set.
fn first_impossible(pairs: &[(i64, i64)], strides: &[i64], steps: &mut u64) -> i64 {
    let mut counts: Vec<i64> = pairs.iter().map(|(_, count)| *count).collect();
    counts.sort_unstable();
    counts.dedup();
    let (mut possible, mut impossible) = (0, counts.len() - 1);
    // Bisection is sound because a longer prefix has more equations: what is impossible stays
    // impossible.
    while possible + 1 < impossible {
        let middle = possible.midpoint(impossible);
        let prefix: Vec<(i64, i64)> =
            pairs.iter().filter(|(_, count)| *count <= counts[middle]).copied().collect();
        match find_digits(&prefix, strides, steps) {
            Answer::Impossible => impossible = middle,
            // A search that was cut off counts as possible, which may make the witness larger but
            // never wrong.
            _ => possible = middle,
        }
    }
    counts[impossible]
}
