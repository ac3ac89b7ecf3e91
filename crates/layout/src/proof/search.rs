//! The swizzle and the iters that give a function that is listed value by value: every swizzle is tried.

use crate::axis::Axis;
use crate::error::{LayoutError, Result};
use crate::int::narrow_to_i64;
use crate::layout::Layout;
use crate::proof::compose::iters_on_one_axis;
use crate::radix::{AxisVector, NotLinear, scan_for_digits};
use crate::swizzle::Swizzle;
use crate::tile::TileLayout;

/// Physical coordinates examined, over all swizzles, before the question is refused as too large.
// Each candidate swizzle scans the whole list: 16 address bits have 1,188 candidates, so that lists
// of up to 2^13 elements are decided in any case.
const MAX_EXAMINED_PLACES: usize = 1 << 24;

/// The layout, swizzle included, that maps each index `i` to `places[i]` on `axes`.
///
/// A swizzle is its own inverse, so it is the right one exactly when the physical coordinates, swizzled,
/// are a mixed-radix function of the index. Fields of bits that no physical coordinate sets change nothing
/// and are not tried. The witness of a refusal is the largest index at which a candidate failed: the
/// elements up to it rule out every swizzle.
pub(crate) fn find_layout_of_places(
    places: &[AxisVector],
    axes: &[Axis],
    what: &'static str,
) -> Result<Layout> {
    let m = axes.iter().position(|a| *a == Axis::M);
    let candidates = m.map_or_else(|| vec![None], |m| candidate_swizzles(places, m));
    if places.len().saturating_mul(candidates.len()) > MAX_EXAMINED_PLACES {
        return Err(LayoutError::TooLarge { what, limit: MAX_EXAMINED_PLACES as u64 });
    }
    let n = i128::try_from(places.len()).expect("listed");
    let mut index = 0;
    for swizzle in candidates {
        let at = |i: i128| -> AxisVector {
            let mut place = places[usize::try_from(i).expect("inside")].clone();
            if let (Some(sw), Some(m)) = (swizzle, m) {
                place[m] = sw.apply_to_address(i64::try_from(place[m]).expect("an address")).into();
            }
            place
        };
        let found =
            scan_for_digits(n, axes.len(), at).and_then(|found| iters_on_one_axis(&found, axes));
        match found {
            Ok(mut shard) => {
                shard.reverse();
                let base = at(0);
                let mut offset = Vec::new();
                for (axis, value) in axes.iter().zip(base) {
                    offset.push((*axis, narrow_to_i64(value, "an offset")?));
                }
                let tile = TileLayout::new(shard, Vec::new(), offset)?;
                return match swizzle {
                    Some(sw) => Layout::from_swizzled_tile(sw, tile),
                    None => Ok(tile.into()),
                };
            }
            // Each candidate is ruled out by the elements up to its own witness, so the largest
            // witness rules out all of them together.
            Err(NotLinear::At(i) | NotLinear::TwoAxes(i)) => index = index.max(i),
            Err(NotLinear::TooLarge) => {
                return Err(LayoutError::TooLarge { what, limit: MAX_EXAMINED_PLACES as u64 });
            }
        }
    }
    let index = i64::try_from(index).unwrap_or(i64::MAX);
    let reason = format!("no swizzle and no iters reach every element up to {index}");
    Err(LayoutError::NotExpressible { reason, index })
}

/// No swizzle, and every one that moves some physical coordinate; the simplest first.
fn candidate_swizzles(places: &[AxisVector], m: usize) -> Vec<Option<Swizzle>> {
    // A swizzle is not defined below 0, and above 2^61 it has no room for a second field of bits.
    let set = places.iter().fold(0, |set, p| set | p[m]);
    if places.iter().any(|p| p[m] < 0) || set >= 1 << 61 {
        return vec![None];
    }
    swizzles_moving_bits(set)
}

/// No swizzle, and every one that moves some address whose bits are among those of `set`, which is below
/// 2^61. A swizzle whose field is longer acts on these addresses like one of these, because the other bits
/// that it reads are 0.
pub(super) fn swizzles_moving_bits(set: i128) -> Vec<Option<Swizzle>> {
    let mut all = vec![None];
    let top = i64::from(128 - set.leading_zeros());
    for inner in [true, false] {
        for low in 0..top {
            for distance in 1..=top - low {
                for len in 1..=distance {
                    // Only the bits that are read decide; none of them beyond the top is set.
                    let read = if inner { low + distance } else { low };
                    // A field whose highest bit is never set acts like the shorter field without
                    // that bit, which is tried by itself.
                    let highest = read + len - 1;
                    if highest < top && set >> highest & 1 == 1 {
                        all.extend(Swizzle::new(low, len, distance, inner).ok().map(Some));
                    }
                }
            }
        }
    }
    all
}
