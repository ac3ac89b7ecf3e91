//! Tiling: a layout repeated by an outer one, and the two factors of a tiled layout.

use crate::axis::Axis;
use crate::error::{LayoutError, Result};
use crate::layout::Layout;
use crate::ops::direct_sum::{
    SumParts, interleave_dims, require_plain, split_sum_dims, subtract_iters,
};
use crate::tile::{Iter, TileLayout};

impl Layout {
    /// `self` repeated by `outer`: over `[outer_0, inner_0, outer_1, inner_1, ..]`, flattened to
    /// `[outer_0 * inner_0, ..]`, each stride, replica and offset of `outer` multiplied by the span
    /// of `self` on its axis.
    ///
    /// **Law**: `tile(x, y) = span(self) * outer(x) + self(y)`, before the swizzle of `self`; the
    /// span is that of the unswizzled layout, so tiles never overlap where `outer` is injective.
    pub fn tile_by(
        &self,
        outer: &Layout,
        outer_shape: &[i64],
        inner_shape: &[i64],
    ) -> Result<Layout> {
        let scaled = scale_outer_layout(
            require_plain(outer, "tile")?,
            self.require_unpadded("tile")?.tile(),
        )?;
        self.with_tile_layout(interleave_dims(&scaled, outer_shape, self.tile(), inner_shape)?)
    }

    /// `self` of shape `shape` repeated row-major up to `to_shape`; every extent must divide.
    pub fn tile_to(&self, to_shape: &[i64], shape: &[i64]) -> Result<Layout> {
        let outer_shape = divide_shapes(to_shape, shape)?.ok_or_else(|| {
            let dim = to_shape.iter().zip(shape).position(|(t, s)| *s == 0 || t % s != 0);
            LayoutError::NotExpressible {
                reason: format!(
                    "{to_shape:?} is not a whole number of tiles {shape:?} in dimension {}",
                    dim.unwrap_or(0)
                ),
                index: 0,
            }
        })?;
        let outer = TileLayout::row_major(&outer_shape)?;
        self.tile_by(&outer.into(), &outer_shape, shape)
    }

    /// The `outer` with `self.tile_by(outer) = tiled`, if there is one.
    pub fn is_tile_inner(
        &self,
        tiled: &Layout,
        tiled_shape: &[i64],
        inner_shape: &[i64],
    ) -> Result<Option<Layout>> {
        let op = "is_tile_inner";
        self.check_shape_size(inner_shape)?;
        tiled.check_shape_size(tiled_shape)?;
        self.require_unpadded(op)?;
        tiled.require_unpadded(op)?;
        let Some(outer_shape) = divide_shapes(tiled_shape, inner_shape)? else { return Ok(None) };
        let Some(parts) =
            split_sum_dims(tiled.tile(), &interleave_shapes(&outer_shape, inner_shape))?
        else {
            return Ok(None);
        };
        let Some(sum) = parts.left_factor_of(self.tile())? else { return Ok(None) };
        let Some(outer) = unscale_outer_layout(&sum, self.tile())? else { return Ok(None) };
        let outer = Layout::from(outer);
        if self.swizzle() == tiled.swizzle() {
            return Ok(Some(outer));
        }
        // Swizzles that are written differently may have the same effect on these addresses.
        let again = self.tile_by(&outer, &outer_shape, inner_shape)?;
        Ok(again.find_difference(tiled)?.is_none().then_some(outer))
    }

    /// The `inner` with `inner.tile_by(self) = tiled`, if there is one; it carries the swizzle of
    /// `tiled`.
    pub fn is_tile_outer(
        &self,
        tiled: &Layout,
        tiled_shape: &[i64],
        outer_shape: &[i64],
    ) -> Result<Option<Layout>> {
        let outer = require_plain(self, "is_tile_outer")?;
        let tiled_tile = tiled.require_unpadded("is_tile_outer")?.tile();
        self.check_shape_size(outer_shape)?;
        tiled.check_shape_size(tiled_shape)?;
        let Some(inner_shape) = divide_shapes(tiled_shape, outer_shape)? else { return Ok(None) };
        let shape = interleave_shapes(outer_shape, &inner_shape);
        let Some(parts) = split_sum_dims(tiled_tile, &shape)? else { return Ok(None) };
        for inner in inner_candidates(&parts, &outer.group(outer_shape)?.0)? {
            let Ok(outer) = scale_outer_layout(outer, &inner) else { continue };
            let again = interleave_dims(&outer, outer_shape, &inner, &inner_shape)?;
            if Layout::from(again).find_difference(&tiled_tile.clone().into())?.is_none() {
                return tiled.with_factor_tile(inner).map(Some);
            }
        }
        Ok(None)
    }
}

/// The outer layout with every stride, replica and offset multiplied by the inner span.
fn scale_outer_layout(outer: &TileLayout, inner: &TileLayout) -> Result<TileLayout> {
    let scale = |value: i64, axis: Axis| {
        let span = inner.axis_span(axis);
        if span <= 0 && value != 0 && inner.size() > 0 {
            // Scaled by 0 or less, all tiles would have the same physical coordinates, or run backwards.
            return Err(LayoutError::BadParameter {
                what: "the span of the inner layout",
                value: span,
                accepted: format!(
                    "to be tiled along `{axis}` it must reach coordinate 0 or beyond"
                ),
            });
        }
        value
            .checked_mul(span)
            .ok_or_else(|| LayoutError::overflow_of(format!("an outer stride on `{axis}`")))
    };
    // No element steps along a unit iter, so its stride is kept as it is and cannot overflow.
    let scaled = |it: &Iter| match it.extent {
        1 => Ok(*it),
        _ => Ok(Iter { stride: scale(it.stride, it.axis)?, ..*it }),
    };
    let iters = |its: &[Iter]| its.iter().map(scaled).collect::<Result<Vec<_>>>();
    let offset =
        outer.offset().iter().map(|(a, v)| Ok((*a, scale(*v, *a)?))).collect::<Result<Vec<_>>>()?;
    TileLayout::new(iters(outer.shard())?, iters(outer.replica())?, offset)
}

/// The inverse of [`scale_outer_layout`]; `None` where something does not divide.
fn unscale_outer_layout(sum: &TileLayout, inner: &TileLayout) -> Result<Option<TileLayout>> {
    let divide = |value: i64, axis: Axis| {
        let span = inner.axis_span(axis);
        match span {
            ..=0 => (value == 0).then_some(0),
            _ => (value % span == 0).then(|| value / span),
        }
    };
    let iters = |its: &[Iter]| -> Option<Vec<Iter>> {
        its.iter()
            .map(|it| {
                let stride = if it.extent == 1 { Some(1) } else { divide(it.stride, it.axis) };
                stride.map(|stride| Iter { stride, ..*it })
            })
            .collect()
    };
    let offset: Option<Vec<(Axis, i64)>> =
        sum.offset().iter().map(|(a, v)| Some((*a, divide(*v, *a)?))).collect();
    match (iters(sum.shard()), iters(sum.replica()), offset) {
        (Some(s), Some(r), Some(o)) => TileLayout::new(s, r, o).map(Some),
        _ => Ok(None),
    }
}

/// The most replicas of which every subset is tried.
// 256 subsets, each a candidate that is built and compared.
const MAX_SHARED: usize = 8;

/// Inner layouts that could have been tiled: the odd dimensions with each way to divide the replicas
/// between inner and outer layout, and the offset that solves `O = outer_O * span(inner) + inner_O`.
fn inner_candidates(parts: &SumParts<'_>, outer: &TileLayout) -> Result<Vec<TileLayout>> {
    let tiled = parts.sum.canonical_form();
    let mut shares: Vec<Vec<Iter>> = Vec::new();
    if outer.replica().is_empty() {
        shares.push(tiled.replica().to_vec());
    } else {
        // The outer replicas were scaled by the inner span, which usually follows from the strides of the shard.
        let spans: Vec<(Axis, i64)> = parts
            .left
            .iter()
            .zip(outer.shard())
            .filter(|(t, o)| o.extent > 1 && o.stride != 0 && t.stride % o.stride == 0)
            .map(|(t, o)| (t.axis, t.stride / o.stride))
            .collect();
        let inner = TileLayout::from_shard(parts.right.clone())?;
        let span_on = |axis: Axis| {
            spans.iter().find(|(a, _)| *a == axis).map_or(inner.axis_span(axis), |(_, s)| *s)
        };
        let scaled: Vec<Iter> = outer
            .canonical_form()
            .replica()
            .iter()
            .map(|it| Iter { stride: it.stride.saturating_mul(span_on(it.axis)), ..*it })
            .collect();
        shares.extend(subtract_iters(tiled.replica(), &scaled));
        // Where it does not, the inner layout has some of the replicas: each choice is tried, and the
        // caller compares the result with the tiled layout.
        let all = tiled.replica();
        if all.len() <= MAX_SHARED {
            for choice in 0..1u32 << all.len() {
                let some = all.iter().enumerate().filter(|(k, _)| choice >> k & 1 == 1);
                shares.push(some.map(|(_, it)| *it).collect());
            }
        }
    }
    let mut candidates = Vec::new();
    for replica in shares {
        let bare = TileLayout::new(parts.right.clone(), replica, [])?;
        let offset: Option<Vec<(Axis, i64)>> = tiled
            .axes()
            .iter()
            .chain(outer.axes())
            .map(|axis| {
                let (t, o) = (tiled.offset_on(*axis), outer.offset_on(*axis));
                let rest = t.checked_sub(o.checked_mul(bare.axis_span(*axis))?)?;
                // The span of the inner layout contains its own offset once more, hence the factor
                // `outer_O + 1`.
                let by = o.checked_add(1)?;
                match by {
                    0 => (rest == 0).then_some((*axis, 0)),
                    _ => (rest % by == 0).then(|| (*axis, rest / by)),
                }
            })
            .collect();
        let Some(mut offset) = offset else { continue };
        offset.sort_unstable();
        offset.dedup();
        offset.retain(|(_, v)| *v != 0);
        let replica = bare.replica().to_vec();
        candidates.push(TileLayout::new(bare.shard().to_vec(), replica, offset)?);
    }
    Ok(candidates)
}

/// Dimension by dimension `whole / part`, or `None` where it does not divide.
fn divide_shapes(whole: &[i64], part: &[i64]) -> Result<Option<Vec<i64>>> {
    if whole.len() != part.len() {
        return Err(LayoutError::LengthMismatch {
            what: "the shape of the factor",
            expected: whole.len(),
            found: part.len(),
        });
    }
    for (index, extent) in whole.iter().chain(part).enumerate() {
        if *extent < 0 {
            let index = index % whole.len();
            return Err(LayoutError::NegativeExtent { what: "dimension", index, extent: *extent });
        }
    }
    Ok(whole
        .iter()
        .zip(part)
        .map(|(w, p)| if *p == 0 || w % p != 0 { None } else { Some(w / p) })
        .collect())
}

fn interleave_shapes(outer: &[i64], inner: &[i64]) -> Vec<i64> {
    outer.iter().zip(inner).flat_map(|(o, i)| [*o, *i]).collect()
}
