//! Complement and inverses.

use super::super::modes::{CuteMode, CuteModes};
use super::super::nest::{NestedTuple, tuple_of_leaves};
use super::{coalesce, mode_of_iter};
use zellige_layout::{InverseLayout, Layout, LayoutError, Result, TileLayout};

/// A layout of the gaps of `a` below `cosize`: its strides rise, all sums of one of its offsets and one of
/// `a` are distinct, and together they fill `[0, cosize)`.
///
/// Modes of stride 0 add no offset and are left out. Two elements of `a` with one offset are refused with
/// both as witness.
pub fn complement(a: &CuteModes, cosize: i64) -> Result<CuteModes> {
    require_memory_strides(a, "complement")?;
    let moving: Vec<CuteMode> =
        a.leaves().into_iter().filter(|m| m.extent != 1 && m.stride != 0).cloned().collect();
    let tile = NestedTuple::Tuple(moving.iter().cloned().map(NestedTuple::Leaf).collect())
        .tile_layout_by_index()?;
    let found = Layout::from(tile).complement(cosize).map_err(|e| match e {
        LayoutError::Aliased { a: i, b: j, place } => LayoutError::Aliased {
            a: index_with_unit_modes(a, i),
            b: index_with_unit_modes(a, j),
            place,
        },
        other => other,
    })?;
    modes_of_tile_layout(&found)
}

/// The index in `a` of an index in the layout without unit modes and modes of stride 0, so that witnesses
/// are indices of `a`.
fn index_with_unit_modes(a: &CuteModes, index: i64) -> i64 {
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

/// `R` with `A(R(i)) = i` for as many indices as the strides of `A`, starting at 1, continue one another.
/// This is CuTe's `right_inverse`; the algebra's own may be longer.
pub fn right_inverse(a: &CuteModes) -> Result<CuteModes> {
    require_memory_strides(a, "right_inverse")?;
    modes_of_inverse(&Layout::from(a.tile_layout_by_index()?).right_inverse_by_strides()?)
}

/// `R` with `R(A(i)) = i` for every index of `A`; offsets between the elements map anywhere.
///
/// Two elements of `A` with one offset are refused with both as witness. Other refusals are those of
/// [`Layout::left_inverse`]: a proof that there is none, or a statement that none was found.
pub fn left_inverse(a: &CuteModes) -> Result<CuteModes> {
    require_memory_strides(a, "left_inverse")?;
    modes_of_inverse(&Layout::from(a.tile_layout_by_index()?).left_inverse()?)
}

fn modes_of_inverse(found: &InverseLayout) -> Result<CuteModes> {
    let tile = found.layout.tile();
    if let Some((_, offset)) = tile.offset().iter().find(|(_, v)| *v != 0) {
        return Err(LayoutError::NotExpressible {
            reason: format!("place 0 holds element {offset}, and a CuTe layout begins at 0"),
            index: *offset,
        });
    }
    modes_of_tile_layout(tile)
}

/// A layout by its index, coalesced.
fn modes_of_tile_layout(tile: &TileLayout) -> Result<CuteModes> {
    let leaves: Vec<CuteMode> =
        tile.shard().iter().rev().map(mode_of_iter).collect::<Result<_>>()?;
    Ok(coalesce(&tuple_of_leaves(leaves, CuteMode::unit_mode())))
}

/// Refuses strides on a basis.
fn require_memory_strides(a: &CuteModes, op: &'static str) -> Result<()> {
    match a.leaves().iter().find(|m| !m.basis.is_empty()) {
        None => Ok(()),
        Some(_) => {
            let found = "strides on the modes of a coordinate".into();
            Err(LayoutError::NotOneAxis { op, axis: "m".into(), found })
        }
    }
}
