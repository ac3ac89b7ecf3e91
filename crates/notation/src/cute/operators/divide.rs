//! Divides: a layout as tiles, and what is left beside one tile.

use super::super::modes::Modes;
use super::super::nest::Nest;
use super::compose::compose;
use super::{Tiler, by_mode, complement, in_mode};
use zellige_layout::{Error, Result};

/// How the two parts of a divide or a product are put together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrange {
    /// Each mode has its own two parts: `((tile0,rest0),(tile1,rest1),left)`.
    Logical,
    /// `((tile0,tile1),(rest0,rest1,left))`.
    Zipped,
    /// `((tile0,tile1),rest0,rest1,left)`.
    Tiled,
    /// `(tile0,tile1,rest0,rest1,left)`.
    Flat,
}

/// `A` divided by tiles: the first part is the tile `B`, the second all places of the tile.
///
/// **Law**: of one layout the divide is `A o (B, B*)` with `B*` the complement of `B` in the size of
/// `A`; of several, each is divided by its own.
pub fn divide(a: &Modes, by: &Tiler, arrange: Arrange) -> Result<Modes> {
    arranged(a, by, arrange, &|a, b| {
        let both = Nest::Tuple(vec![b.clone(), complement(b, a.size()?)?]);
        let mut parts = compose(a, &both)?.into_modes();
        match (parts.pop(), parts.pop()) {
            (Some(rest), Some(tile)) => Ok((tile, rest)),
            _ => Err(Error::LengthMismatch { what: "the divide", expected: 2, found: 0 }),
        }
    })
}

/// Splits every mode that has a tiler into two parts, and arranges these.
pub(super) fn arranged(
    a: &Modes,
    by: &Tiler,
    arrange: Arrange,
    split: &impl Fn(&Modes, &Modes) -> Result<(Modes, Modes)>,
) -> Result<Modes> {
    if arrange == Arrange::Logical {
        return match by {
            Tiler::Keep => Ok(a.clone()),
            Tiler::Layout(b) => split(a, b).map(|(tile, rest)| Nest::Tuple(vec![tile, rest])),
            Tiler::ByMode(parts) => {
                let (tiled, left) = by_mode(a, parts)?;
                let mut modes = Vec::with_capacity(a.modes().len());
                for (i, (mode, part)) in tiled.iter().zip(parts).enumerate() {
                    modes.push(arranged(mode, part, arrange, split).map_err(in_mode(i))?);
                }
                modes.extend_from_slice(left);
                Ok(Nest::Tuple(modes))
            }
        };
    }
    let (tile, rest) = zipped(a, by, split)?;
    Ok(Nest::Tuple(match arrange {
        Arrange::Logical | Arrange::Zipped => vec![tile, rest],
        Arrange::Tiled => [vec![tile], rest.into_modes()].concat(),
        Arrange::Flat => [tile.into_modes(), rest.into_modes()].concat(),
    }))
}

/// All first parts, and all second parts with the modes that are left.
fn zipped(
    a: &Modes,
    by: &Tiler,
    split: &impl Fn(&Modes, &Modes) -> Result<(Modes, Modes)>,
) -> Result<(Modes, Modes)> {
    match by {
        Tiler::Layout(b) => split(a, b),
        Tiler::Keep => Err(Error::BadParameter {
            what: "the tiler `_`",
            value: 0,
            accepted: "parts are put side by side where every mode has two".into(),
        }),
        Tiler::ByMode(parts) => {
            let (tiled, left) = by_mode(a, parts)?;
            let (mut tiles, mut rests) = (Vec::new(), Vec::new());
            for (i, (mode, part)) in tiled.iter().zip(parts).enumerate() {
                let (tile, rest) = zipped(mode, part, split).map_err(in_mode(i))?;
                tiles.push(tile);
                rests.push(rest);
            }
            rests.extend_from_slice(left);
            Ok((Nest::Tuple(tiles), Nest::Tuple(rests)))
        }
    }
}
