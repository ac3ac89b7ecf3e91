//! The complement: a layout that fills the gaps of another (CuTe's `complement`).

use crate::axis::Axis;
use crate::error::{LayoutError, Result};
use crate::int::narrow_to_i64;
use crate::layout::Layout;
use crate::tile::{Iter, TileLayout};

impl Layout {
    /// The layout `C` that fills the gaps of `self` below `cosize`, on the memory axis of `self`.
    ///
    /// **Laws**: the addresses `L(i) + C(j)` are all distinct, and every address of
    /// `[0, cosize)` is one of them, so `size(L) * size(C) >= cosize`; the strides of `C` fall from its
    /// first iter to its last. Where the strides of `self` nest, every gap between them is filled, also
    /// past `cosize`.
    ///
    /// A layout is complemented where it begins at 0, runs upwards and has no two elements at one address.
    /// Then a refusal is a proof: the smallest address below `cosize` that nothing else reaches must be a
    /// step of `C`, so these steps are known, and the error names an address that two elements would share
    /// with them.
    pub fn complement(&self, cosize: i64) -> Result<TileLayout> {
        self.require_unpadded("complement")?;
        if self.effective_swizzle().is_some() {
            let help = "complement its tile layout: a swizzle permutes addresses and adds none";
            return Err(LayoutError::Swizzled { op: "complement", help });
        }
        if cosize < 0 {
            let accepted = "a cosize is 0 or more".into();
            return Err(LayoutError::BadParameter { what: "cosize", value: cosize, accepted });
        }
        let tile = self.tile();
        let axis = match tile.axes() {
            [] => Axis::M,
            [one] if one.is_memory() => *one,
            all => return Err(LayoutError::not_on_one_axis("complement", Axis::M, all)),
        };
        if let Some((a, b, place)) = self.find_clash()? {
            return Err(LayoutError::Aliased { a, b, place: Box::new(place) });
        }
        if self.count_distinct_copies()? != tile.replica_count() && tile.size() > 0 {
            return Err(LayoutError::BadParameter {
                what: "the number of replicas",
                value: tile.replica_count(),
                accepted: "a layout is complemented where replicas have places of their own".into(),
            });
        }
        let offset = tile.offset_on(axis);
        if offset != 0 && tile.size() > 0 {
            let accepted = "a layout is complemented from its first element on, at 0".into();
            return Err(LayoutError::BadParameter { what: "the offset", value: offset, accepted });
        }
        let mut iters: Vec<Iter> = tile
            .shard()
            .iter()
            .chain(tile.replica())
            .filter(|it| it.extent != 1 && tile.size() > 0)
            .copied()
            .collect();
        iters.retain(|it| it.stride != 0);
        iters.sort_by_key(|it| it.stride);
        if let Some(back) = iters.iter().find(|it| it.stride < 0) {
            let accepted = "a layout is complemented where its iters run upwards".into();
            return Err(LayoutError::BadParameter {
                what: "a stride",
                value: back.stride,
                accepted,
            });
        }
        // Nested strides first, because their complement also fills gaps past `cosize`, as CuTe's
        // does. The general construction stops at `cosize`.
        match nested_complement(&iters, cosize, axis)? {
            Some(found) => Ok(found),
            None => self.smallest_complement(&iters, cosize, axis),
        }
    }

    /// The complement of the addresses below `cosize` alone, with only the steps that every
    /// complement has.
    fn smallest_complement(&self, iters: &[Iter], cosize: i64, axis: Axis) -> Result<TileLayout> {
        let mut chain = ComplementChain::new_on_axis(axis);
        let mut meets = false;
        for it in iters {
            let stride = i128::from(it.stride);
            // The iters from here on begin past `cosize`, so they leave no gap that has to be
            // filled.
            if chain.repeats_to_reach(cosize) * chain.filled <= stride {
                break;
            }
            meets = stride % chain.filled != 0;
            if meets {
                // The last of these addresses is below `cosize` and inside the block that is already filled
                // from `stride` on.
                chain.repeat_filled(stride / chain.filled + 1)?;
                break;
            }
            chain.repeat_filled(stride / chain.filled)?;
            chain.filled = stride * i128::from(it.extent);
        }
        if !meets {
            chain.repeat_filled(chain.repeats_to_reach(cosize))?;
        }
        let found = TileLayout::from_shard(chain.into_gap_iters()?)?.canonical_form();
        // Each of its steps is an address below `cosize` that nothing else holds, and no sum of smaller
        // steps, hence a step of every complement. If two sums are equal here, they are equal in every
        // complement.
        let sums = self.tile().shard().iter().chain(found.shard()).copied().collect();
        let sums = TileLayout::new(sums, self.tile().replica().to_vec(), [])?;
        let Some((a, b, place)) = Layout::from(sums).find_clash()? else { return Ok(found) };
        let (a, b) = ((a / found.size(), a % found.size()), (b / found.size(), b % found.size()));
        let moved = |j: i64| {
            Layout::from(found.clone())
                .physical_coordinates(j)
                .map(|p| p.sorted_coordinates()[0].get(axis))
        };
        let reason = format!(
            "every complement makes the steps of {found:?}, to the places below {cosize} that nothing \
             else reaches, and with them {place} is the place of element {} moved by {} and of element \
             {} moved by {}",
            a.0,
            moved(a.1)?,
            b.0,
            moved(b.1)?,
        );
        Err(LayoutError::NotExpressible { reason, index: b.0 })
    }
}

/// The complement that fills every gap, if each stride is a multiple of the number of addresses filled
/// below it; else `None`.
fn nested_complement(iters: &[Iter], cosize: i64, axis: Axis) -> Result<Option<TileLayout>> {
    let mut chain = ComplementChain::new_on_axis(axis);
    for it in iters {
        let stride = i128::from(it.stride);
        if stride % chain.filled != 0 {
            return Ok(None);
        }
        chain.repeat_filled(stride / chain.filled)?;
        chain.filled = stride * i128::from(it.extent);
    }
    chain.repeat_filled(chain.repeats_to_reach(cosize))?;
    Ok(Some(TileLayout::from_shard(chain.into_gap_iters()?)?.canonical_form()))
}

/// The iters of a complement, the smallest stride first.
struct ComplementChain {
    axis: Axis,
    found: Vec<Iter>,
    /// The addresses `[0, filled)` are held by the iters so far and their complement.
    filled: i128,
}

impl ComplementChain {
    fn new_on_axis(axis: Axis) -> ComplementChain {
        ComplementChain { axis, found: Vec::new(), filled: 1 }
    }

    /// The number of repetitions of the filled block that reaches `cosize`.
    fn repeats_to_reach(&self, cosize: i64) -> i128 {
        ((i128::from(cosize) + self.filled - 1) / self.filled).max(1)
    }

    /// Repeats the filled addresses.
    fn repeat_filled(&mut self, times: i128) -> Result<()> {
        if times > 1 {
            let (extent, stride) =
                (narrow_to_i64(times, "an extent")?, narrow_to_i64(self.filled, "a stride")?);
            self.found.push(Iter::new(extent, stride, self.axis));
            self.filled = self.filled.saturating_mul(times);
        }
        Ok(())
    }

    /// The iters, the largest stride first; at least one.
    fn into_gap_iters(mut self) -> Result<Vec<Iter>> {
        if self.found.is_empty() {
            self.found.push(Iter::new(1, narrow_to_i64(self.filled, "a stride")?, self.axis));
        }
        self.found.reverse();
        Ok(self.found)
    }
}
