//! Packing and unpacking: the same memory seen with wider or narrower elements.

use crate::axis::Axis;
use crate::error::{LayoutError, Result};
use crate::layout::Layout;
use crate::ops::group::{group_iters, unit_iter_on};
use crate::proof::compose_tiles;
use crate::swizzle::Swizzle;
use crate::tile::{Iter, TileLayout};

impl Layout {
    /// [`Layout::pack_elements`] with `axis` instead of `m`, because cells of tensor memory hold several elements.
    pub fn pack_elements_on(&self, num: i64, axis: Axis) -> Result<Layout> {
        let packed = self.exchange_with_m("pack", axis)?.pack_elements(num);
        packed.map_err(|e| name_axis_in_error(e, axis))?.exchange_with_m("pack", axis)
    }

    /// [`Layout::unpack_elements`] with `axis` instead of `m`.
    pub fn unpack_elements_on(&self, num: i64, axis: Axis) -> Result<Layout> {
        self.exchange_with_m("unpack", axis)?.unpack_elements(num)?.exchange_with_m("unpack", axis)
    }

    /// The same layout with `axis` and `m` exchanged.
    fn exchange_with_m(&self, op: &'static str, axis: Axis) -> Result<Layout> {
        if axis == Axis::M {
            return Ok(self.clone());
        }
        if !axis.is_memory() {
            return Err(LayoutError::not_on_one_axis(op, Axis::M, &[axis]));
        }
        if self.effective_swizzle().is_some() {
            let help = "a swizzle moves addresses on `m`; pack on `m`, or take its tile layout";
            return Err(LayoutError::Swizzled { op, help });
        }
        let other = |a: Axis| match a {
            a if a == axis => Axis::M,
            a if a == Axis::M => axis,
            a => a,
        };
        let tile = self.require_unpadded(op)?.tile();
        let iters = |its: &[Iter]| -> Vec<Iter> {
            its.iter().map(|it| Iter { axis: other(it.axis), ..*it }).collect()
        };
        let offset = tile.offset().iter().map(|(a, v)| (other(*a), *v));
        Ok(TileLayout::new(iters(tile.shard()), iters(tile.replica()), offset)?.into())
    }

    /// Elements `num` times wider: `num` neighbours in index and on `m` become one.
    ///
    /// **Law**: `L(num * q + j) = num * pack(L)(q) + j` on `m` for all `0 <= j < num`; other axes
    /// stay as they are. Neighbours that are not aligned and adjacent are
    /// [`LayoutError::NotPackable`] with their index.
    pub fn pack_elements(&self, num: i64) -> Result<Layout> {
        check_pack_factor(num)?;
        let tile = self.require_unpadded("pack")?.tile();
        let narrowed = self.swizzle().map(|sw| pack_swizzle(sw, num)).transpose();
        // A swizzle that moves bits inside a packed element is refused, unless its effective part on these
        // addresses does not.
        let swizzle = narrowed
            .or_else(|_| self.effective_swizzle().map(|sw| pack_swizzle(sw, num)).transpose())?;
        if tile.size() % num != 0 {
            let index = tile.size() - tile.size() % num;
            return Err(LayoutError::NotPackable { num, index, axis: Axis::M });
        }
        if tile.size() == 0 {
            let mut shard = tile.shard().to_vec();
            if let Some(last) = shard.last_mut() {
                last.extent /= num;
            }
            return rebuild_layout(tile.with_shard(shard)?, swizzle);
        }
        match pack_tile_layout(tile, num)? {
            Ok(packed) => rebuild_layout(packed, swizzle),
            Err(index) => Err(LayoutError::NotPackable { num, index, axis: Axis::M }),
        }
    }

    /// Elements `num` times narrower: each becomes `num` neighbours in index and on `m`.
    ///
    /// **Law**: `unpack(L)(num * q + j) = num * L(q) + j` on `m` for all `0 <= j < num`; other axes
    /// stay as they are.
    pub fn unpack_elements(&self, num: i64) -> Result<Layout> {
        check_pack_factor(num)?;
        let tile = self.require_unpadded("unpack")?.tile();
        let swizzle = match self.swizzle() {
            Some(sw) => Some(sw.unpack_elements(log2_of_factor(num)?)?),
            None => None,
        };
        let scale = |value: i64, axis: Axis| {
            if axis != Axis::M {
                return Ok(value);
            }
            value.checked_mul(num).ok_or_else(|| LayoutError::overflow_of("an unpacked address"))
        };
        let iters = |its: &[Iter]| -> Result<Vec<Iter>> {
            its.iter().map(|it| Ok(Iter { stride: scale(it.stride, it.axis)?, ..*it })).collect()
        };
        let mut shard = iters(tile.shard())?;
        shard.push(Iter::in_memory(num, 1));
        let offset = tile
            .offset()
            .iter()
            .map(|(a, v)| Ok((*a, scale(*v, *a)?)))
            .collect::<Result<Vec<_>>>()?;
        rebuild_layout(TileLayout::new(shard, iters(tile.replica())?, offset)?, swizzle)
    }
}

/// The tile layout with `num` neighbours packed into one, or the first element of a group that is not contiguous.
fn pack_tile_layout(tile: &TileLayout, num: i64) -> Result<Result<TileLayout, i64>> {
    let multiple = |it: &Iter| it.axis != Axis::M || it.extent == 1 || it.stride % num == 0;
    // Every element moves by the offset and by replicas, so these must keep groups aligned.
    let whole = tile.offset_on(Axis::M) % num == 0 && tile.replica().iter().all(multiple);
    let run = TileLayout::from_strides(&[num], &[1], 0)?;
    let bare = TileLayout::from_shard(tile.shard().to_vec())?;
    if !whole || !compose_tiles(&bare, &run).is_ok_and(|t| t.is_trivial()) {
        return Ok(Err(0));
    }
    let shape = [tile.size() / num, num];
    let parts = group_iters(tile, &shape).or_else(|_| group_iters(&tile.canonical_form(), &shape));
    let Ok([mut outer, _]) = parts.map(|p| <[Vec<Iter>; 2]>::try_from(p).unwrap_or_default())
    else {
        // The first group is contiguous, so the group that fails is the one across the end of the canonical
        // iter that the boundary cuts.
        let mut run = 1;
        for it in tile.canonical_form().shard().iter().rev() {
            run *= it.extent;
            if run % num != 0 && num % run != 0 {
                break;
            }
        }
        return Ok(Err(run / num * num));
    };
    let mut weight = num;
    for it in outer.iter().rev() {
        if !multiple(it) {
            return Ok(Err(weight));
        }
        weight *= it.extent;
    }
    let narrow = |it: &Iter| {
        if it.axis == Axis::M { Iter { stride: it.stride / num, ..*it } } else { *it }
    };
    outer = outer.iter().map(narrow).collect();
    outer.push(unit_iter_on(Axis::M));
    let replica = tile.replica().iter().map(narrow).collect();
    let narrowed = |(a, v): &(Axis, i64)| (*a, if *a == Axis::M { v / num } else { *v });
    let offset: Vec<(Axis, i64)> = tile.offset().iter().map(narrowed).collect();
    Ok(Ok(drop_redundant_unit_iter(TileLayout::new(outer, replica, offset)?)?))
}

/// An error about `m` as one about the caller's axis.
fn name_axis_in_error(e: LayoutError, axis: Axis) -> LayoutError {
    match e {
        LayoutError::NotPackable { num, index, .. } => {
            LayoutError::NotPackable { num, index, axis }
        }
        other => other,
    }
}

fn rebuild_layout(tile: TileLayout, swizzle: Option<Swizzle>) -> Result<Layout> {
    match swizzle {
        Some(sw) => Layout::from_swizzled_tile(sw, tile),
        None => Ok(tile.into()),
    }
}

/// Drops the unit iter that mentions `m` where another iter already does.
fn drop_redundant_unit_iter(tile: TileLayout) -> Result<TileLayout> {
    let shard = tile.shard();
    let others = &shard[..shard.len() - 1];
    if others.iter().any(|it| it.axis == Axis::M) {
        tile.with_shard(others.to_vec())
    } else {
        Ok(tile)
    }
}

fn check_pack_factor(num: i64) -> Result<()> {
    if num >= 1 {
        return Ok(());
    }
    let accepted = "elements are packed by 1 or more".into();
    Err(LayoutError::BadParameter { what: "num", value: num, accepted })
}

fn log2_of_factor(num: i64) -> Result<u32> {
    if num.count_ones() == 1 {
        return Ok(num.trailing_zeros());
    }
    let accepted = "through a swizzle, elements are packed by powers of two".into();
    Err(LayoutError::BadParameter { what: "num", value: num, accepted })
}

fn pack_swizzle(sw: Swizzle, num: i64) -> Result<Swizzle> {
    let log2 = log2_of_factor(num)?;
    // A swizzle whose unit is smaller than a packed element would move parts of it to different physical coordinates.
    if !sw.is_identity() && sw.per_element() < log2 {
        return Err(LayoutError::BadParameter {
            what: "num",
            value: num,
            accepted: format!("the swizzle moves units of {} elements", 1i64 << sw.per_element()),
        });
    }
    let m = i64::from(sw.per_element().saturating_sub(log2));
    Swizzle::new(m, sw.swizzle_len().into(), sw.atom_len().into(), sw.is_inner())
}
