//! Divides: a layout as a tile and the layout of all tiles (CuTe documentation, "Division (Tiling)").

use super::super::modes::CuteModes;
use super::super::nest::NestedTuple;
use super::compose::compose_modes;
use super::{Tiler, complement, refuse_in_mode, split_modes_by_tiler};
use zellige_layout::{LayoutError, Result};

/// How the two parts of a divide or a product are put together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TileArrangement {
    /// Each mode has its own two parts: `((tile0,rest0),(tile1,rest1),left)`.
    Logical,
    /// `((tile0,tile1),(rest0,rest1,left))`.
    Zipped,
    /// `((tile0,tile1),rest0,rest1,left)`.
    Tiled,
    /// `(tile0,tile1,rest0,rest1,left)`.
    Flat,
}

/// `A` divided by tiles: the first part is the tile `B`, the second the layout of the tiles.
///
/// **Law**: of one layout the divide is `A o (B, B*)` with `B*` the complement of `B` in the size of
/// `A`; of several, each is divided by its own.
pub fn divide_by_tiler(a: &CuteModes, by: &Tiler, arrange: TileArrangement) -> Result<CuteModes> {
    split_and_arrange(a, by, arrange, &|a, b| {
        let both = NestedTuple::Tuple(vec![b.clone(), complement(b, a.size()?)?]);
        let mut parts = compose_modes(a, &both)?.into_top_modes();
        match (parts.pop(), parts.pop()) {
            // The composition with `(B, B*)` keeps that nesting, so its two modes are the two
            // parts.
            (Some(rest), Some(tile)) => Ok((tile, rest)),
            _ => Err(LayoutError::LengthMismatch { what: "the divide", expected: 2, found: 0 }),
        }
    })
}

/// Splits every mode that has a tiler into two parts, and arranges these.
pub(super) fn split_and_arrange(
    a: &CuteModes,
    by: &Tiler,
    arrange: TileArrangement,
    split: &impl Fn(&CuteModes, &CuteModes) -> Result<(CuteModes, CuteModes)>,
) -> Result<CuteModes> {
    if arrange == TileArrangement::Logical {
        return match by {
            Tiler::Keep => Ok(a.clone()),
            Tiler::Layout(b) => {
                split(a, b).map(|(tile, rest)| NestedTuple::Tuple(vec![tile, rest]))
            }
            Tiler::ByMode(parts) => {
                let (tiled, left) = split_modes_by_tiler(a, parts)?;
                let mut modes = Vec::with_capacity(a.top_modes().len());
                for (i, (mode, part)) in tiled.iter().zip(parts).enumerate() {
                    modes.push(
                        split_and_arrange(mode, part, arrange, split).map_err(refuse_in_mode(i))?,
                    );
                }
                modes.extend_from_slice(left);
                Ok(NestedTuple::Tuple(modes))
            }
        };
    }
    let (tile, rest) = zip_split_modes(a, by, split)?;
    Ok(NestedTuple::Tuple(match arrange {
        TileArrangement::Logical | TileArrangement::Zipped => vec![tile, rest],
        TileArrangement::Tiled => [vec![tile], rest.into_top_modes()].concat(),
        TileArrangement::Flat => [tile.into_top_modes(), rest.into_top_modes()].concat(),
    }))
}

/// All first parts, and all second parts with the modes that are left.
fn zip_split_modes(
    a: &CuteModes,
    by: &Tiler,
    split: &impl Fn(&CuteModes, &CuteModes) -> Result<(CuteModes, CuteModes)>,
) -> Result<(CuteModes, CuteModes)> {
    match by {
        Tiler::Layout(b) => split(a, b),
        Tiler::Keep => Err(LayoutError::BadParameter {
            what: "the tiler `_`",
            value: 0,
            accepted: "parts are collected where every mode has two".into(),
        }),
        Tiler::ByMode(parts) => {
            let (tiled, left) = split_modes_by_tiler(a, parts)?;
            let (mut tiles, mut rests) = (Vec::new(), Vec::new());
            for (i, (mode, part)) in tiled.iter().zip(parts).enumerate() {
                let (tile, rest) = zip_split_modes(mode, part, split).map_err(refuse_in_mode(i))?;
                tiles.push(tile);
                rests.push(rest);
            }
            rests.extend_from_slice(left);
            Ok((NestedTuple::Tuple(tiles), NestedTuple::Tuple(rests)))
        }
    }
}
