//! Coalesce and composition.

use super::super::modes::{CuteMode, CuteModes};
use super::super::nest::{NestedTuple, tuple_of_leaves};
use super::{Tiler, mode_of_iter, refuse_in_mode, split_modes_by_tiler};
use zellige_layout::int::{checked_product, div_ceil, narrow_to_i64};
use zellige_layout::{Iter, LayoutError, Result, TileLayout};

/// The same function of the index with as few modes as possible, without nesting.
///
/// **Law**: `coalesce(A)(i) = A(i)` for every index; no mode has extent 1 and no mode continues the
/// one before it. A layout of one element is `1:0`.
pub fn coalesce(a: &CuteModes) -> CuteModes {
    tuple_of_leaves(coalesced_leaves(a), CuteMode::unit_mode())
}

/// The leaves of the coalesced layout; none for one element.
fn coalesced_leaves(a: &CuteModes) -> Vec<CuteMode> {
    let leaves = a.leaves();
    if leaves.iter().any(|m| m.extent == 0) {
        return vec![CuteMode::new(0, 0)];
    }
    let mut found: Vec<CuteMode> = Vec::new();
    for m in leaves.into_iter().filter(|m| m.extent != 1) {
        match found.last_mut() {
            Some(last) if continues_mode(last, m) => {
                last.extent = last.extent.saturating_mul(m.extent);
            }
            _ => found.push(m.clone()),
        }
    }
    found
}

fn continues_mode(inner: &CuteMode, outer: &CuteMode) -> bool {
    let same = inner.basis == outer.basis || outer.stride == 0;
    same && i128::from(inner.extent) * i128::from(inner.stride) == i128::from(outer.stride)
}

/// `A o B`, compatible with `B`: each leaf of `B` becomes one leaf or a tuple of leaves.
///
/// **Law**: `R(i) = A(B(i))` for every index `i` of `B`. With a tiler of several parts, mode `k` is
/// `A_k o B_k`, and the modes that are left stay.
///
/// Where `B` leaves the domain of `A`, the last mode of `A` is extended (CuTe documentation,
/// "Composition"). Strides of `B` on a basis step along the modes of `A`. A refusal is a proof that no
/// layout compatible with `B` is that function.
pub fn composition(a: &CuteModes, b: &Tiler) -> Result<CuteModes> {
    match b {
        Tiler::Keep => Ok(a.clone()),
        Tiler::Layout(b) => compose_modes(a, b),
        Tiler::ByMode(parts) => {
            let (tiled, left) = split_modes_by_tiler(a, parts)?;
            let mut modes = Vec::with_capacity(a.top_modes().len());
            for (i, (mode, part)) in tiled.iter().zip(parts).enumerate() {
                modes.push(composition(mode, part).map_err(refuse_in_mode(i))?);
            }
            modes.extend_from_slice(left);
            Ok(NestedTuple::Tuple(modes))
        }
    }
}

pub(super) fn compose_modes(a: &CuteModes, b: &CuteModes) -> Result<CuteModes> {
    let b = basis_to_index_strides(a, b)?;
    let right = b.tile_layout_by_index()?;
    let left = extend_last_mode(a, b.cosize()?)?;
    // Leaf by leaf, because the result must keep the nesting of `B`: composing the whole would fuse
    // modes across leaves.
    let mut each = left.compose_each_iter(&right)?;
    each.reverse();
    let last = coalesced_leaves(a);
    let mut found = Vec::with_capacity(each.len());
    for (leaf, iters) in b.leaves().into_iter().zip(each) {
        let modes = match leaf.extent {
            1 => compose_unit_mode(&last, leaf.stride)?,
            _ => iters.iter().rev().map(mode_of_iter).collect::<Result<_>>()?,
        };
        found.push(tuple_of_leaves(modes, CuteMode::unit_mode()));
    }
    let mut found = found.into_iter();
    Ok(b.expand_leaves(&mut |_| found.next().unwrap_or(NestedTuple::Leaf(CuteMode::unit_mode()))))
}

/// The result for a mode of extent 1. No offset depends on its stride, but programs compare printed
/// layouts, so it is computed as CuTe does: the stride of the last mode times the steps that remain for it.
fn compose_unit_mode(a: &[CuteMode], stride: i64) -> Result<Vec<CuteMode>> {
    let Some((last, before)) = a.split_last() else { return Ok(vec![CuteMode::unit_mode()]) };
    let steps = before.iter().fold(stride, |steps, m| div_ceil(steps, m.extent.max(1)));
    let stride =
        narrow_to_i64(i128::from(steps) * i128::from(last.stride), "a stride of the composition")?;
    let basis = if stride == 0 { Vec::new() } else { last.basis.clone() };
    Ok(vec![CuteMode { extent: 1, stride, basis }])
}

/// `a` as a layout of the algebra by CuTe's index, its last mode long enough for `needed` indices.
fn extend_last_mode(a: &CuteModes, needed: i64) -> Result<TileLayout> {
    let mut iters = a.iters_by_index()?;
    let size = checked_product(iters.iter().map(|it| it.extent), "the number of elements")?;
    if needed <= size || size == 0 {
        return TileLayout::from_shard(iters);
    }
    match iters.first_mut() {
        Some(last) => last.extent = div_ceil(needed, size / last.extent),
        None => iters.push(Iter::in_memory(needed, 0)),
    }
    TileLayout::from_shard(iters)
}

/// `b` with strides on a basis as strides of the index of `a`.
fn basis_to_index_strides(a: &CuteModes, b: &CuteModes) -> Result<CuteModes> {
    if b.leaves().iter().all(|m| m.basis.is_empty()) {
        return Ok(b.clone());
    }
    // Called for its check: strides with and without a basis cannot be mixed.
    b.iters_by_index()?;
    let mut reached: Vec<(&[usize], i128)> = Vec::new();
    for m in b.leaves().into_iter().filter(|m| m.stride != 0 && m.extent != 1) {
        let reach = i128::from(m.stride) * i128::from((m.extent - 1).max(0));
        match reached.iter_mut().find(|(basis, _)| *basis == m.basis) {
            Some((_, sum)) if reach > 0 && *sum > 0 => *sum = sum.saturating_add(reach),
            Some((_, sum)) => *sum = reach.min(*sum),
            None => reached.push((&m.basis, reach)),
        }
    }
    for (basis, last) in reached {
        let (_, size, open) = weight_of_basis(a, basis)?;
        if last < 0 || (last >= i128::from(size) && !open) {
            let value = i64::try_from(last).unwrap_or(i64::MAX);
            return Err(LayoutError::OutsideDomain { index: b.size()? - 1, value, size });
        }
    }
    b.try_map_leaves(&mut |m| {
        if m.stride == 0 || m.basis.is_empty() {
            return Ok(CuteMode::new(m.extent, 0));
        }
        let (weight, ..) = weight_of_basis(a, &m.basis)?;
        let stride = i128::from(m.stride) * i128::from(weight);
        Ok(CuteMode::new(m.extent, narrow_to_i64(stride, "a stride of the right layout")?))
    })
}

/// The weight in the index of `a` of a step along one of its modes, the size of that mode, and whether it
/// is the last one, which may be extended.
fn weight_of_basis(a: &CuteModes, basis: &[usize]) -> Result<(i64, i64, bool)> {
    let (mut at, mut weight, mut open) = (a, 1, true);
    for mode in basis {
        let modes = at.top_modes();
        let Some(next) = modes.get(*mode) else {
            return Err(LayoutError::BadParameter {
                what: "the mode of a stride on a basis",
                value: i64::try_from(*mode).unwrap_or(i64::MAX),
                accepted: format!("the left layout has {} modes there", modes.len()),
            });
        };
        for before in &modes[..*mode] {
            let wide = i128::from(weight) * i128::from(before.size()?);
            weight = narrow_to_i64(wide, "the index of a mode")?;
        }
        open &= mode + 1 == modes.len();
        at = next;
    }
    Ok((weight, at.size()?, open))
}
