//! The exact range of swizzled addresses.

use crate::axis::Axis;
use crate::error::{Error, Result};
use crate::int::{div_ceil, div_floor};
use crate::swizzle::Swizzle;
use crate::tile::{Bounds, Iter, TileLayout};
use std::collections::BTreeSet;

/// Distinct addresses looked at in one block of a swizzle before giving up.
const LIMIT: usize = 1 << 20;

/// The smallest and largest swizzled address of a non-empty layout with addresses 0 or more.
///
/// Adding a multiple of `2^bits` commutes with the swizzle, so the largest swizzled address comes
/// from the topmost block of `2^bits` addresses that the layout reaches, and the smallest from the
/// lowermost.
pub(crate) fn swizzled_bounds(tile: &TileLayout, swizzle: Swizzle) -> Result<Bounds> {
    let Bounds { min, max } = tile.bounds(Axis::M);
    let block = 1i64 << swizzle.bits();
    let top = addresses_in(tile, max - max % block, max)?;
    let bottom = addresses_in(tile, min, (min - min % block) + block - 1)?;
    let swizzled = |set: BTreeSet<i64>| set.into_iter().map(move |a| swizzle.apply(a));
    Ok(Bounds {
        min: swizzled(bottom).min().expect("the smallest address is in its own block"),
        max: swizzled(top).max().expect("the largest address is in its own block"),
    })
}

/// The addresses on `m` that lie in `[low, high]`.
fn addresses_in(tile: &TileLayout, low: i64, high: i64) -> Result<BTreeSet<i64>> {
    let mut iters: Vec<Iter> = tile
        .shard()
        .iter()
        .chain(tile.replica())
        .filter(|it| it.axis == Axis::M && it.extent > 1 && it.stride != 0)
        .copied()
        .collect();
    iters.sort_by_key(|it| std::cmp::Reverse(it.stride.unsigned_abs()));
    // What the iters still to come can subtract and add.
    let mut reach: Vec<(i64, i64)> = vec![(0, 0)];
    for it in iters.iter().rev() {
        let (down, up) = *reach.last().expect("starts with one entry");
        let r = (it.extent - 1) * it.stride;
        reach.push((down + r.min(0), up + r.max(0)));
    }
    let mut sums = BTreeSet::from([tile.offset_on(Axis::M)]);
    for (i, it) in iters.iter().enumerate() {
        let (down, up) = reach[iters.len() - 1 - i];
        let mut next = BTreeSet::new();
        for sum in &sums {
            let (a, b) = ((low - up - sum), (high - down - sum));
            let (first, last) = if it.stride > 0 {
                (div_ceil(a, it.stride), div_floor(b, it.stride))
            } else {
                (div_ceil(b, it.stride), div_floor(a, it.stride))
            };
            for digit in first.max(0)..=last.min(it.extent - 1) {
                next.insert(sum + digit * it.stride);
                if next.len() > LIMIT {
                    let limit = LIMIT as u64;
                    return Err(Error::TooLarge { what: "the span of a swizzled layout", limit });
                }
            }
        }
        sums = next;
    }
    Ok(sums)
}
