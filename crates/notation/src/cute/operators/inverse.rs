//! Complement and inverses.

use super::super::modes::{Mode, Modes};
use super::super::nest::{Nest, tuple_of};
use super::{coalesce, mode_of};
use zellige_layout::{Error, Inverse, Layout, Result, TileLayout};

/// The layout of what `a` leaves free below `cosize`: its strides rise, no two of its places and none
/// of `a` added to one of them coincide, and together they fill `[0, cosize)`.
///
/// Modes of stride 0 take no place of their own and do not count. Two elements of `a` in one place are
/// refused with both.
pub fn complement(a: &Modes, cosize: i64) -> Result<Modes> {
    in_memory(a, "complement")?;
    let moving: Vec<Mode> =
        a.leaves().into_iter().filter(|m| m.extent != 1 && m.stride != 0).cloned().collect();
    let tile = Nest::Tuple(moving.iter().cloned().map(Nest::Leaf).collect()).tile_by_index()?;
    let found = Layout::from(tile).complement(cosize).map_err(|e| match e {
        Error::Aliased { a: i, b: j, place } => {
            Error::Aliased { a: index_in(a, i), b: index_in(a, j), place }
        }
        other => other,
    })?;
    read_back(&found)
}

/// The index in `a` of an index in `a` without its modes of one place.
fn index_in(a: &Modes, index: i64) -> i64 {
    let (mut rest, mut weight, mut found) = (index, 1i64, 0i64);
    for m in a.leaves() {
        if m.extent != 1 && m.stride != 0 {
            found = found.saturating_add((rest % m.extent).saturating_mul(weight));
            rest /= m.extent;
        }
        weight = weight.saturating_mul(m.extent.max(1));
    }
    found
}

/// `R` with `A(R(i)) = i`, as long as the strides of `A` count on from 1.
pub fn right_inverse(a: &Modes) -> Result<Modes> {
    in_memory(a, "right_inverse")?;
    inverse(&Layout::from(a.tile_by_index()?).right_inverse_by_strides()?)
}

/// `R` with `R(A(i)) = i` for every index of `A`; places between the elements map anywhere.
///
/// Two elements of `A` in one place are refused with both: there is no way back. Other refusals are
/// those of [`Layout::left_inverse`]: a proof that there is none, or that none was found.
pub fn left_inverse(a: &Modes) -> Result<Modes> {
    in_memory(a, "left_inverse")?;
    inverse(&Layout::from(a.tile_by_index()?).left_inverse()?)
}

fn inverse(found: &Inverse) -> Result<Modes> {
    let tile = found.layout.tile();
    if let Some((_, offset)) = tile.offset().iter().find(|(_, v)| *v != 0) {
        return Err(Error::NotExpressible {
            reason: format!("place 0 holds element {offset}, and a CuTe layout begins at 0"),
            index: *offset,
        });
    }
    read_back(tile)
}

/// A layout by its index, coalesced.
fn read_back(tile: &TileLayout) -> Result<Modes> {
    let leaves: Vec<Mode> = tile.shard().iter().rev().map(mode_of).collect::<Result<_>>()?;
    Ok(coalesce(&tuple_of(leaves, Mode::unit())))
}

/// Refuses strides on a basis.
fn in_memory(a: &Modes, op: &'static str) -> Result<()> {
    match a.leaves().iter().find(|m| !m.basis.is_empty()) {
        None => Ok(()),
        Some(_) => {
            let found = "strides on the modes of a coordinate".into();
            Err(Error::NotOneAxis { op, axis: "m".into(), found })
        }
    }
}
