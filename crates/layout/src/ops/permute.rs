//! Reordering, dropping and repeating iters.

use crate::axis::Axis;
use crate::error::{LayoutError, Result};
use crate::layout::Layout;
use crate::tile::{Iter, TileLayout};

impl Layout {
    /// The shard iters in another order: iter `i` of the result is iter `perm[i]`.
    pub fn permute_dims(&self, perm: &[usize]) -> Result<Layout> {
        let tile = self.require_unpadded("permute_dims")?.tile();
        check_permutation(perm, tile.shard().len())?;
        self.with_tile_layout(tile.with_shard(perm.iter().map(|i| tile.shard()[*i]).collect())?)
    }

    /// Groups of shard iters in another order; `seps` delimit the groups as [`Layout::group`] returns them.
    pub fn permute_by_groups(&self, seps: &[usize], perm: &[usize]) -> Result<Layout> {
        let tile = self.require_unpadded("permute_by_groups")?.tile();
        let len = tile.shard().len();
        let rising = seps.windows(2).all(|w| w[0] <= w[1]);
        if seps.first() != Some(&0) || seps.last() != Some(&len) || !rising {
            return Err(LayoutError::BadSeparators { seps: seps.to_vec(), len });
        }
        check_permutation(perm, seps.len() - 1)?;
        let shard = perm.iter().flat_map(|g| &tile.shard()[seps[*g]..seps[g + 1]]).copied();
        self.with_tile_layout(tile.with_shard(shard.collect())?)
    }

    /// The layout inside the memory of one owner: the memory axes alone, without thread and device axes.
    pub fn storage_layout(&self) -> Result<Layout> {
        let tile = self.require_unpadded("storage")?.tile();
        let keep = |its: &[Iter]| its.iter().filter(|it| it.axis.is_memory()).copied().collect();
        let offset = tile.offset().iter().filter(|(a, _)| a.is_memory()).copied();
        self.with_tile_layout(TileLayout::new(keep(tile.shard()), keep(tile.replica()), offset)?)
    }

    /// A new shard iter of stride 0 before iter `pos`: `num` logical elements at one physical coordinate. Negative
    /// positions count from the end; `-1` is after the last iter.
    pub fn broadcast_elements(&self, num: i64, pos: i64, axis: Axis) -> Result<Layout> {
        let tile = self.require_unpadded("broadcast")?.tile();
        let len = i64::try_from(tile.shard().len()).unwrap_or(i64::MAX);
        let at = if pos < 0 { pos.saturating_add(len + 1) } else { pos };
        let Some(pos) = usize::try_from(at).ok().filter(|p| *p <= tile.shard().len()) else {
            return Err(LayoutError::BadParameter {
                what: "the position of the broadcast iter",
                value: pos,
                accepted: format!("it is from {} to {len}", -len - 1),
            });
        };
        let mut shard = tile.shard().to_vec();
        shard.insert(pos, Iter::new(num, 0, axis));
        self.with_tile_layout(tile.with_shard(shard)?)
    }
}

/// Checks that `perm` names each of `0..len` once.
pub(crate) fn check_permutation(perm: &[usize], len: usize) -> Result<()> {
    let bad = |reason: String| {
        // The list is user input of any length, and the message repeats it.
        let shown = perm.iter().take(64).copied().collect();
        Err(LayoutError::BadPermutation { perm: shown, len, reason })
    };
    if perm.len() != len {
        return bad(format!("it has {} entries", perm.len()));
    }
    let mut seen = vec![false; len];
    for p in perm {
        match seen.get_mut(*p) {
            None => return bad(format!("{p} is out of range")),
            Some(true) => return bad(format!("{p} occurs twice")),
            Some(s) => *s = true,
        }
    }
    Ok(())
}
