//! Any layout as minor-to-major with tiles, or why there are none.
//!
//! Tiles can produce every order of blocks: `T(t,1,1)` splits a block of `t` off the third dimension from
//! the end and moves it last. So a layout has tiles exactly when its digits are dense in memory apart from
//! padding ([`BlockedDigits::dense_block_order`]). First one tile per level of nesting is tried, which is
//! the usual form (`T(8,128)(2,1)`), then one tile per block.

use super::XlaLayout;
use crate::WrittenLayout;
use crate::blocked::{
    BlockedDigits, DigitBlock, outer_dim_order, prove_candidate, split_outer_and_inner,
};
use crate::convert::{ConversionRefusal, not_expressible};
use zellige_layout::Layout;

/// The most dimensions in memory after all tiles. A tile over the last `n` dimensions adds `n` of them, so
/// that an order that takes many tiles, each over the result of the one before, doubles them again and
/// again.
const MAX_TILED_DIMS: usize = 256;

/// Blocks of one dimension that are still together, slowest first: indices into the order of memory.
#[derive(Clone)]
struct BlockRun {
    blocks: Vec<usize>,
    /// Whether a tile has moved it.
    tiled: bool,
}

pub(super) fn express_with_tiles(
    layout: &Layout,
    shape: &[i64],
) -> Result<XlaLayout, ConversionRefusal> {
    let refused = match express_with_separate_tiles(layout, shape) {
        Ok(found) => return Ok(found),
        Err(refused) => refused,
    };
    // Neighbouring dimensions that are padded together need a tile that merges them with `*`.
    let merged = layout.window().map(zellige_layout::ValidWindow::shape);
    let merged = merged.and_then(|coarse| express_with_merged_tile(layout, shape, &coarse));
    match merged {
        Some(found) if prove_xla_candidate(&found, layout, shape).is_ok() => Ok(found),
        _ => Err(refused),
    }
}

/// The layout with one tile over dimensions that are merged to a coarser shape.
fn express_with_merged_tile(layout: &Layout, shape: &[i64], coarse: &[i64]) -> Option<XlaLayout> {
    // The range of dimensions of which each coarse one consists.
    let mut parts: Vec<std::ops::Range<usize>> = Vec::new();
    let mut at = 0;
    for extent in coarse {
        let (start, mut count) = (at, 1);
        while at < shape.len() && (count != *extent || at == start) {
            count *= shape[at];
            at += 1;
        }
        if count != *extent {
            return None;
        }
        parts.push(start..at);
    }
    if at != shape.len() {
        return None;
    }
    let found = express_with_separate_tiles(layout, coarse).ok()?;
    let [tile] = found.tiles.as_slice() else { return None };
    let major: Vec<usize> = found.minor_to_major.iter().rev().copied().collect();
    let untiled = coarse.len().checked_sub(tile.len())?;
    let first = major.iter().take(untiled).position(|d| parts[*d].len() > 1).unwrap_or(untiled);
    let mut merged = Vec::new();
    for (k, d) in major.iter().enumerate().skip(first) {
        merged.extend(std::iter::repeat_n(None, parts[*d].len().saturating_sub(1)));
        merged.push(if k < untiled { Some(1) } else { tile[k - untiled] });
    }
    let minor = major.iter().flat_map(|d| parts[*d].clone()).rev().collect();
    Some(XlaLayout::new(minor, vec![merged]))
}

fn prove_xla_candidate(
    candidate: &XlaLayout,
    layout: &Layout,
    shape: &[i64],
) -> Result<(), ConversionRefusal> {
    match candidate.layout_over_shape(Some(shape)) {
        Ok(lowered) => prove_candidate(&lowered, layout, &candidate.notation_text()),
        Err(reason) => not_expressible(reason.message, None),
    }
}

/// The layout with tiles that cut each dimension by itself.
fn express_with_separate_tiles(
    layout: &Layout,
    shape: &[i64],
) -> Result<XlaLayout, ConversionRefusal> {
    let digits = BlockedDigits::from_layout(layout, shape, "an XLA layout")?;
    let order = match digits.dense_block_order(shape, true, |d| d.to_string()) {
        Ok(order) => order,
        Err((reason, witness)) => {
            return not_expressible(format!("no XLA tiles found: {reason}"), witness);
        }
    };
    // Dimensions in the order of their slowest blocks.
    let slowest: Vec<DigitBlock> = order.iter().filter(|b| b.digit == 0).copied().collect();
    let major_to_minor = outer_dim_order(&slowest, shape.len());
    let run = |d: &usize| {
        let mut blocks: Vec<usize> = (0..order.len()).filter(|b| order[*b].dim == *d).collect();
        blocks.sort_by_key(|b| order[*b].digit);
        BlockRun { blocks, tiled: false }
    };
    let runs: Vec<BlockRun> = major_to_minor.iter().map(run).collect();
    let minor_to_major: Vec<usize> = major_to_minor.into_iter().rev().collect();
    let mut refused = None;
    for tiles in [tile_by_level(&order, runs.clone()), tile_by_block(&order, runs)] {
        let Some(tiles) = tiles else { continue };
        let candidate = XlaLayout::new(minor_to_major.clone(), tiles);
        match prove_xla_candidate(&candidate, layout, shape) {
            Ok(()) => return Ok(candidate),
            Err(reason) => refused = Some(Err(reason)),
        }
    }
    refused.unwrap_or_else(|| {
        let reason = format!(
            "no XLA tiles found: {} blocks in this order take tiles of more than {MAX_TILED_DIMS} dimensions in memory",
            order.len()
        );
        not_expressible(reason, None)
    })
}

/// The number of values of some blocks of one dimension together, with or without the padding of the first.
fn count_of_blocks(order: &[DigitBlock], blocks: &[usize], padded: bool) -> i64 {
    let first = |k: usize, b: &DigitBlock| if k == 0 && padded { b.extent } else { b.count };
    blocks.iter().enumerate().map(|(k, b)| first(k, &order[*b])).product()
}

/// Cuts every run from the first one that must be cut; `None` if the blocks end up in another order, or in
/// too many dimensions.
fn tile_by_level(order: &[DigitBlock], mut runs: Vec<BlockRun>) -> Option<Vec<Vec<Option<i64>>>> {
    if order.iter().any(|b| b.digit > 0 && b.extent != b.count) {
        return None;
    }
    let mut tiles = Vec::new();
    // The position at which a run must be cut: the blocks from there on move behind all others.
    let must = |run: &BlockRun| match run.blocks.as_slice() {
        [] => None,
        [first, ..] if !run.tiled && !order[*first].outer => Some(0),
        [_] => None,
        _ => Some(1),
    };
    while let Some(start) = runs.iter().position(|r| must(r).is_some()) {
        zellige_guard::count_step();
        let suffix = runs.split_off(start);
        let mut cuts: Vec<usize> =
            suffix.iter().map(|r| must(r).unwrap_or(r.blocks.len())).collect();
        // A whole run that belongs behind a moved block must be moved by the same tile.
        loop {
            let first = suffix.iter().zip(&cuts).filter_map(|(r, c)| r.blocks.get(*c)).min();
            let Some(first) = first.copied() else { break };
            let late = suffix
                .iter()
                .zip(&cuts)
                .position(|(r, c)| *c == 1 && r.blocks.len() == 1 && r.blocks[0] > first);
            match late {
                Some(at) => cuts[at] = 0,
                None => break,
            }
        }
        tiles.push(
            suffix
                .iter()
                .zip(&cuts)
                .map(|(r, c)| Some(count_of_blocks(order, &r.blocks[*c..], true)))
                .collect(),
        );
        let part = |r: &BlockRun, blocks: &[usize], tiled: bool| BlockRun {
            blocks: blocks.to_vec(),
            tiled: tiled || r.tiled,
        };
        runs.extend(suffix.iter().zip(&cuts).map(|(r, c)| part(r, &r.blocks[..*c], false)));
        runs.extend(suffix.iter().zip(&cuts).map(|(r, c)| part(r, &r.blocks[*c..], true)));
        if tiles.len() > order.len() || runs.len() > MAX_TILED_DIMS {
            return None;
        }
    }
    let found: Vec<usize> = runs.into_iter().flat_map(|r| r.blocks).collect();
    found.is_sorted().then_some(tiles)
}

/// One tile for every inner block, from the slowest to the fastest; `None` where that takes too many dimensions.
fn tile_by_block(order: &[DigitBlock], mut runs: Vec<BlockRun>) -> Option<Vec<Vec<Option<i64>>>> {
    let inner = split_outer_and_inner(order).0.len();
    let mut tiles = Vec::new();
    for block in inner..order.len() {
        zellige_guard::count_step();
        let held = |r: &BlockRun| r.blocks.iter().position(|b| *b == block);
        let Some((at, cut)) = runs.iter().enumerate().find_map(|(k, r)| held(r).map(|c| (k, c)))
        else {
            continue;
        };
        let moved = runs[at].blocks.split_off(cut);
        // A block that is padded inside its dimension needs two tiles: one to split it off, and one that is
        // larger and pads it.
        let inside = cut > 0 && order[block].extent != order[block].count;
        move_block_last(
            &mut runs,
            at,
            count_of_blocks(order, &moved, !inside),
            moved.clone(),
            &mut tiles,
        );
        if inside {
            let at = runs.iter().rposition(|r| r.blocks == moved).unwrap_or(at);
            runs[at].blocks.clear();
            move_block_last(&mut runs, at, count_of_blocks(order, &moved, true), moved, &mut tiles);
        }
        if runs.len() > MAX_TILED_DIMS {
            return None;
        }
    }
    Some(tiles)
}

/// One tile that moves a block of the run at `at` behind all others.
fn move_block_last(
    runs: &mut Vec<BlockRun>,
    at: usize,
    size: i64,
    blocks: Vec<usize>,
    tiles: &mut Vec<Vec<Option<i64>>>,
) {
    // A tile extent of 1 leaves a dimension as it is, with a remainder that has one value.
    let rest = runs.len() - at - 1;
    let mut tile = vec![Some(1); rest + 1];
    tile[0] = Some(size);
    runs.push(BlockRun { blocks, tiled: true });
    runs.extend(std::iter::repeat_n(BlockRun { blocks: Vec::new(), tiled: true }, rest));
    tiles.push(tile);
}
