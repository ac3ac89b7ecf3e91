//! Coalesce and composition.

use super::super::modes::{Mode, Modes};
use super::super::nest::{Nest, tuple_of};
use super::{Tiler, by_mode, in_mode, mode_of};
use zellige_layout::int::{div_ceil, narrow, product};
use zellige_layout::{Error, Iter, Result, TileLayout};

/// The same function of the index with as few modes as possible, without nesting.
///
/// **Law**: `coalesce(A)(i) = A(i)` for every index; no mode has extent 1 and no mode continues the
/// one before it. A layout of one element is `1:0`.
pub fn coalesce(a: &Modes) -> Modes {
    tuple_of(coalesced(a), Mode::unit())
}

/// The leaves of the coalesced layout; none for one element.
fn coalesced(a: &Modes) -> Vec<Mode> {
    let leaves = a.leaves();
    if leaves.iter().any(|m| m.extent == 0) {
        return vec![Mode::new(0, 0)];
    }
    let mut found: Vec<Mode> = Vec::new();
    for m in leaves.into_iter().filter(|m| m.extent != 1) {
        match found.last_mut() {
            Some(last) if continues(last, m) => last.extent = last.extent.saturating_mul(m.extent),
            _ => found.push(m.clone()),
        }
    }
    found
}

fn continues(inner: &Mode, outer: &Mode) -> bool {
    let same = inner.basis == outer.basis || outer.stride == 0;
    same && i128::from(inner.extent) * i128::from(inner.stride) == i128::from(outer.stride)
}

/// `A o B`, compatible with `B`: each leaf of `B` becomes one leaf or a tuple of leaves.
///
/// **Law**: `R(i) = A(B(i))` for every index `i` of `B`. With a tiler of several parts, mode `k` is
/// `A_k o B_k`, and the modes that are left stay.
///
/// Where `B` leaves the domain of `A`, the last mode of `A` goes on. Strides of `B` on a basis step
/// along the modes of `A`. A refusal is a proof that no layout compatible with `B` is that function.
pub fn composition(a: &Modes, b: &Tiler) -> Result<Modes> {
    match b {
        Tiler::Keep => Ok(a.clone()),
        Tiler::Layout(b) => compose(a, b),
        Tiler::ByMode(parts) => {
            let (tiled, left) = by_mode(a, parts)?;
            let mut modes = Vec::with_capacity(a.modes().len());
            for (i, (mode, part)) in tiled.iter().zip(parts).enumerate() {
                modes.push(composition(mode, part).map_err(in_mode(i))?);
            }
            modes.extend_from_slice(left);
            Ok(Nest::Tuple(modes))
        }
    }
}

pub(super) fn compose(a: &Modes, b: &Modes) -> Result<Modes> {
    let b = in_indices(a, b)?;
    let right = b.tile_by_index()?;
    let left = extended(a, b.cosize()?)?;
    let mut each = left.compose_each(&right)?;
    each.reverse();
    let last = coalesced(a);
    let mut found = Vec::with_capacity(each.len());
    for (leaf, iters) in b.leaves().into_iter().zip(each) {
        let modes = match leaf.extent {
            1 => unit(&last, leaf.stride)?,
            _ => iters.iter().rev().map(mode_of).collect::<Result<_>>()?,
        };
        found.push(tuple_of(modes, Mode::unit()));
    }
    let mut found = found.into_iter();
    Ok(b.expand(&mut |_| found.next().unwrap_or(Nest::Leaf(Mode::unit()))))
}

/// What a mode without a choice becomes: its stride, which nothing depends on, is that of the last mode
/// times the steps that are left of it, as CuTe has it.
fn unit(a: &[Mode], stride: i64) -> Result<Vec<Mode>> {
    let Some((last, before)) = a.split_last() else { return Ok(vec![Mode::unit()]) };
    let steps = before.iter().fold(stride, |steps, m| div_ceil(steps, m.extent.max(1)));
    let stride =
        narrow(i128::from(steps) * i128::from(last.stride), "a stride of the composition")?;
    let basis = if stride == 0 { Vec::new() } else { last.basis.clone() };
    Ok(vec![Mode { extent: 1, stride, basis }])
}

/// `a` as a layout of the algebra by CuTe's index, its last mode long enough for `needed` indices.
fn extended(a: &Modes, needed: i64) -> Result<TileLayout> {
    let mut iters = a.by_index()?;
    let size = product(iters.iter().map(|it| it.extent), "the number of elements")?;
    if needed <= size || size == 0 {
        return TileLayout::of(iters);
    }
    match iters.first_mut() {
        Some(last) => last.extent = div_ceil(needed, size / last.extent),
        None => iters.push(Iter::mem(needed, 0)),
    }
    TileLayout::of(iters)
}

/// `b` with strides on a basis as strides of the index of `a`.
fn in_indices(a: &Modes, b: &Modes) -> Result<Modes> {
    if b.leaves().iter().all(|m| m.basis.is_empty()) {
        return Ok(b.clone());
    }
    // Refuses strides of both kinds.
    b.by_index()?;
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
        let (_, size, open) = weight(a, basis)?;
        if last < 0 || (last >= i128::from(size) && !open) {
            let value = i64::try_from(last).unwrap_or(i64::MAX);
            return Err(Error::OutsideDomain { index: b.size()? - 1, value, size });
        }
    }
    b.try_map(&mut |m| {
        if m.stride == 0 || m.basis.is_empty() {
            return Ok(Mode::new(m.extent, 0));
        }
        let (weight, ..) = weight(a, &m.basis)?;
        let stride = i128::from(m.stride) * i128::from(weight);
        Ok(Mode::new(m.extent, narrow(stride, "a stride of the right layout")?))
    })
}

/// What a step along one mode of `a` counts in its index, the size of that mode, and whether it is the
/// last one.
fn weight(a: &Modes, basis: &[usize]) -> Result<(i64, i64, bool)> {
    let (mut at, mut weight, mut open) = (a, 1, true);
    for mode in basis {
        let modes = at.modes();
        let Some(next) = modes.get(*mode) else {
            return Err(Error::BadParameter {
                what: "the mode of a stride on a basis",
                value: i64::try_from(*mode).unwrap_or(i64::MAX),
                accepted: format!("the left layout has {} modes there", modes.len()),
            });
        };
        for before in &modes[..*mode] {
            let wide = i128::from(weight) * i128::from(before.size()?);
            weight = narrow(wide, "the index of a mode")?;
        }
        open &= mode + 1 == modes.len();
        at = next;
    }
    Ok((weight, at.size()?, open))
}
