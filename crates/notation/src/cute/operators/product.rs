//! Products: a layout repeated over another one (CuTe documentation, "Product (Tiling)").

use super::super::modes::{CuteMode, CuteModes};
use super::super::nest::NestedTuple;
use super::compose::compose_modes;
use super::divide::{TileArrangement, split_and_arrange};
use super::{Tiler, complement};
use zellige_layout::int::narrow_to_i64;
use zellige_layout::{LayoutError, Result};

/// `A` repeated over `B`: the first part is `A`, the second the offsets of its copies.
///
/// **Law**: of one layout the product is `(A, A* o B)` with `A*` the complement of `A` in
/// `size(A) * cosize(B)`; of several, each mode is repeated over its own. If `A` has no complement of that
/// size, `A*` is a smaller one that has the `cosize(B)` offsets that `B` needs: its first offsets are those
/// of every larger complement. A refusal says that no complement has as many.
pub fn product_with_tiler(
    a: &CuteModes,
    by: &Tiler,
    arrange: TileArrangement,
) -> Result<CuteModes> {
    split_and_arrange(a, by, arrange, &repeat_modes)
}

fn repeat_modes(a: &CuteModes, b: &CuteModes) -> Result<(CuteModes, CuteModes)> {
    Ok((a.clone(), compose_modes(&find_free_places(a, b.cosize()?)?, b)?))
}

/// A complement of `a` with at least `count` offsets for copies.
fn find_free_places(a: &CuteModes, count: i64) -> Result<CuteModes> {
    let places = i128::from(a.size()?) * i128::from(count);
    let refusal = match complement(a, narrow_to_i64(places, "the places of the product")?) {
        Ok(free) => return Ok(free),
        // A single copy needs no offset but 0.
        Err(_) if count <= 1 => return Ok(NestedTuple::Leaf(CuteMode::unit_mode())),
        Err(e) => e,
    };
    if !matches!(refusal, LayoutError::NotExpressible { .. }) {
        return Err(refusal);
    }
    // A larger cosize has more offsets, and beyond a cosize without a complement there is none either, so
    // the smallest cosize that decides is found by bisection.
    let enough = |cosize: i64| -> Result<Option<CuteModes>> {
        let free = complement(a, cosize)?;
        Ok((free.size()? >= count).then_some(free))
    };
    let (mut low, mut high) = (0, narrow_to_i64(places, "the places of the product")?);
    while low + 1 < high {
        let middle = low + (high - low) / 2;
        match enough(middle) {
            Ok(None) => low = middle,
            Ok(Some(_)) | Err(LayoutError::NotExpressible { .. }) => high = middle,
            Err(e) => return Err(e),
        }
    }
    enough(high)?.ok_or(refusal)
}

/// The product with mode `k` of `B` beside mode `k` of `A`: blocks of `A` next to one another.
pub fn blocked_product(a: &CuteModes, b: &CuteModes) -> Result<CuteModes> {
    let (block, tiles) = pad_to_same_rank(a, b)?;
    Ok(NestedTuple::Tuple(
        block.into_iter().zip(tiles).map(|(a, b)| NestedTuple::Tuple(vec![a, b])).collect(),
    ))
}

/// The product with mode `k` of `B` before mode `k` of `A`: the elements of the blocks interleaved.
pub fn raked_product(a: &CuteModes, b: &CuteModes) -> Result<CuteModes> {
    let (block, tiles) = pad_to_same_rank(a, b)?;
    Ok(NestedTuple::Tuple(
        block.into_iter().zip(tiles).map(|(a, b)| NestedTuple::Tuple(vec![b, a])).collect(),
    ))
}

/// Both parts of the product, with as many modes each: the shorter one gets modes `1:0`.
fn pad_to_same_rank(a: &CuteModes, b: &CuteModes) -> Result<(Vec<CuteModes>, Vec<CuteModes>)> {
    let rank = a.top_modes().len().max(b.top_modes().len());
    let padded = |m: &CuteModes| {
        let mut modes = m.top_modes().to_vec();
        modes.resize(rank, NestedTuple::Leaf(CuteMode::unit_mode()));
        NestedTuple::Tuple(modes)
    };
    let (block, tiles) = repeat_modes(&padded(a), &padded(b))?;
    let (block, tiles) = (block.into_top_modes(), tiles.into_top_modes());
    if block.len() != tiles.len() {
        let (expected, found) = (block.len(), tiles.len());
        return Err(LayoutError::LengthMismatch { what: "the product", expected, found });
    }
    Ok((block, tiles))
}
