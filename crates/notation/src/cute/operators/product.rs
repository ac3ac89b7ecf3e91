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
/// `size(A) * cosize(B)`; of several, each mode is repeated over its own.
pub fn product(a: &Modes, by: &Tiler, arrange: Arrange) -> Result<Modes> {
    arranged(a, by, arrange, &repeat)
}

fn repeat(a: &Modes, b: &Modes) -> Result<(Modes, Modes)> {
    let places = i128::from(a.size()?) * i128::from(b.cosize()?);
    let free = complement(a, narrow(places, "the places of the product")?)?;
    Ok((a.clone(), compose(&free, b)?))
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
