//! The part of a swizzle that has an effect on the addresses of a layout.

use crate::axis::Axis;
use crate::layout::Layout;
use crate::swizzle::Swizzle;
use crate::tile::{Iter, TileLayout};
use std::ops::Range;

impl Layout {
    /// The part of the swizzle that moves addresses of the padded domain, or `None` where it moves
    /// none.
    ///
    /// A bit that a swizzle reads and that no address sets flips nothing. Such bits are cut from both
    /// ends of the field, and a field without any other bit is no swizzle.
    ///
    /// **Laws**: with the effective swizzle in place of its own, a layout is the same function;
    /// there is none exactly when the layout without its swizzle is the same function.
    pub fn effective_swizzle(&self) -> Option<Swizzle> {
        let sw = self.swizzle().filter(|sw| !sw.is_identity())?;
        // The inner variant reads its high field, the outer one its low field.
        let low = sw.per_element() + if sw.is_inner() { sw.atom_len() } else { 0 };
        let mut read = (0..sw.swizzle_len()).filter(|k| sets_address_bit(self.tile(), low + k));
        // Bits inside the field may be clear too, but a swizzle is one contiguous field: cutting
        // both ends is all that can be done.
        let first = read.next()?;
        let last = read.next_back().unwrap_or(first);
        let [m, b, s] = [sw.per_element() + first, last - first + 1, sw.atom_len()].map(i64::from);
        Some(Swizzle::new(m, b, s, sw.is_inner()).expect("a part of a well-formed field"))
    }
}

/// Whether some address on `m` of the padded domain has this bit; addresses are 0 or more.
fn sets_address_bit(tile: &TileLayout, bit: u32) -> bool {
    tile.size() > 0
        && tile.axis_bounds(Axis::M).max >= 1 << bit
        && !bits_are_clear(
            tile.offset_on(Axis::M),
            tile.shard().iter().chain(tile.replica()),
            bit..bit + 1,
        )
}

/// Whether no sum of the offset and steps of the iters on `m` has any of these bits.
///
/// With `P = 2^end` and `W = 2^begin`, that is so exactly when every sum is below `W` modulo `P`. A step
/// between two such sums is less than `W <= P / 2` in size modulo `P`, so going from one sum to another
/// digit by digit never wraps around: the sums of those steps, as integers, must all be in `[0, W)`.
pub(crate) fn bits_are_clear<'a>(
    offset: i64,
    iters: impl Iterator<Item = &'a Iter>,
    bits: Range<u32>,
) -> bool {
    let (window, period) = (1i128 << bits.start, 1i128 << bits.end);
    let start = i128::from(offset).rem_euclid(period);
    let (mut low, mut high) = (start, start);
    for it in iters.filter(|it| it.moves_on_axis(Axis::M)) {
        let residue = i128::from(it.stride).rem_euclid(period);
        // The representative of the stride nearest to 0, as the argument above needs it.
        let step = if residue >= period / 2 { residue - period } else { residue };
        let reach = step.saturating_mul(i128::from(it.extent - 1));
        if reach < 0 {
            low = low.saturating_add(reach);
        } else {
            high = high.saturating_add(reach);
        }
    }
    bits.is_empty() || (low >= 0 && high < window)
}
