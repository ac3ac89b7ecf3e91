//! Products: a layout, repeated as another says.

use super::super::modes::{Mode, Modes};
use super::super::nest::Nest;
use super::compose::compose;
use super::divide::{Arrange, arranged};
use super::{Tiler, complement};
use zellige_layout::int::narrow;
use zellige_layout::{Error, Result};

/// `A` repeated over `B`: the first part is `A`, the second the places of its copies.
///
/// **Law**: of one layout the product is `(A, A* o B)` with `A*` the complement of `A` in
/// `size(A) * cosize(B)`; of several, each mode is repeated over its own. Where `A` has no complement
/// that fills so much, `A*` is one that fills less and has the `cosize(B)` places that `B` asks for: its
/// first places are those of every larger complement. A refusal says that no complement has as many.
pub fn product(a: &Modes, by: &Tiler, arrange: Arrange) -> Result<Modes> {
    arranged(a, by, arrange, &repeat)
}

fn repeat(a: &Modes, b: &Modes) -> Result<(Modes, Modes)> {
    Ok((a.clone(), compose(&free_places(a, b.cosize()?)?, b)?))
}

/// The first places that copies of `a` may be moved to, at least so many.
fn free_places(a: &Modes, count: i64) -> Result<Modes> {
    let places = i128::from(a.size()?) * i128::from(count);
    let refusal = match complement(a, narrow(places, "the places of the product")?) {
        Ok(free) => return Ok(free),
        // A single copy stays in its place, and needs no other.
        Err(_) if count <= 1 => return Ok(Nest::Leaf(Mode::unit())),
        Err(e) => e,
    };
    if !matches!(refusal, Error::NotExpressible { .. }) {
        return Err(refusal);
    }
    // What fills more has more places, and what cannot be filled cannot be filled further: the
    // smallest cosize that gives enough places, or that has no complement, is found by halving.
    let enough = |cosize: i64| -> Result<Option<Modes>> {
        let free = complement(a, cosize)?;
        Ok((free.size()? >= count).then_some(free))
    };
    let (mut low, mut high) = (0, narrow(places, "the places of the product")?);
    while low + 1 < high {
        let middle = low + (high - low) / 2;
        match enough(middle) {
            Ok(None) => low = middle,
            Ok(Some(_)) | Err(Error::NotExpressible { .. }) => high = middle,
            Err(e) => return Err(e),
        }
    }
    enough(high)?.ok_or(refusal)
}

/// The product with mode `k` of `B` beside mode `k` of `A`: blocks of `A` next to one another.
pub fn blocked_product(a: &Modes, b: &Modes) -> Result<Modes> {
    let (block, tiles) = ranked(a, b)?;
    Ok(Nest::Tuple(block.into_iter().zip(tiles).map(|(a, b)| Nest::Tuple(vec![a, b])).collect()))
}

/// The product with mode `k` of `B` before mode `k` of `A`: the elements of the blocks interleaved.
pub fn raked_product(a: &Modes, b: &Modes) -> Result<Modes> {
    let (block, tiles) = ranked(a, b)?;
    Ok(Nest::Tuple(block.into_iter().zip(tiles).map(|(a, b)| Nest::Tuple(vec![b, a])).collect()))
}

/// Both parts of the product, with as many modes each: the shorter one gets modes `1:0`.
fn ranked(a: &Modes, b: &Modes) -> Result<(Vec<Modes>, Vec<Modes>)> {
    let rank = a.modes().len().max(b.modes().len());
    let padded = |m: &Modes| {
        let mut modes = m.modes().to_vec();
        modes.resize(rank, Nest::Leaf(Mode::unit()));
        Nest::Tuple(modes)
    };
    let (block, tiles) = repeat(&padded(a), &padded(b))?;
    let (block, tiles) = (block.into_modes(), tiles.into_modes());
    if block.len() != tiles.len() {
        let (expected, found) = (block.len(), tiles.len());
        return Err(Error::LengthMismatch { what: "the product", expected, found });
    }
    Ok((block, tiles))
}
