//! The blocks between shards without a layout, pair by pair: the intersections of their boxes.
//!
//! This is for a dimension that is divided unevenly and then divided again. A shard is then a box
//! of the tensor; on the other side a shard may also be an interval of the elements in row-major
//! order, which is a few boxes.

use crate::boxes::ShardBox;
use crate::error::{ReshardError, Result};
use crate::pieces::{MAX_STARTS, RankNest, RankStep};
use crate::sharded::ShardedLayout;
use std::collections::HashMap;
use zellige_layout::int::row_major_strides;
use zellige_movement::CopyLoop;

/// A box of the tensor, in the shard of a rank.
struct ShardPiece {
    rank: i64,
    begin: Vec<i64>,
    len: Vec<i64>,
    /// The address of its first element, and the steps along every dimension.
    address: i64,
    steps: Vec<i64>,
}

/// Lists the nests between two shardings, for the first copy of each part.
///
/// # Errors
/// Shards that are not boxes, and more pairs than can be listed.
pub(crate) fn overlap_rank_nests(
    src: &ShardedLayout,
    dst: &ShardedLayout,
    shape: &[i64],
) -> Result<Vec<RankNest>> {
    let (from, to) = (list_shard_pieces(src, shape)?, list_shard_pieces(dst, shape)?);
    // Every pair is intersected, so the bound is on the product, before the work begins.
    if from.len().saturating_mul(to.len()) > MAX_STARTS {
        return Err(ReshardError::TooLarge { what: "pairs of shards", limit: MAX_STARTS as u64 });
    }
    // Blocks of one form are collected in one nest, in the order in which they are found.
    let mut known: HashMap<Vec<CopyLoop>, usize> = HashMap::new();
    let mut nests: Vec<(Vec<CopyLoop>, Vec<RankStep>)> = Vec::new();
    for a in &from {
        for b in &to {
            let Some((loops, start)) = intersect_pieces(a, b) else { continue };
            let at = *known.entry(loops).or_insert_with_key(|loops| {
                nests.push((loops.clone(), Vec::new()));
                nests.len() - 1
            });
            nests[at].1.push(start);
        }
    }
    Ok(nests
        .into_iter()
        .map(|(loops, starts)| RankNest::from_listed_starts(loops, starts))
        .collect())
}

/// The intersection of two boxes.
fn intersect_pieces(a: &ShardPiece, b: &ShardPiece) -> Option<(Vec<CopyLoop>, RankStep)> {
    let mut loops = Vec::with_capacity(a.len.len());
    let mut start = RankStep { src_rank: a.rank, src: a.address, dst_rank: b.rank, dst: b.address };
    for d in 0..a.len.len() {
        let low = a.begin[d].max(b.begin[d]);
        let high = (a.begin[d] + a.len[d]).min(b.begin[d] + b.len[d]);
        if low >= high {
            return None;
        }
        start.src += (low - a.begin[d]) * a.steps[d];
        start.dst += (low - b.begin[d]) * b.steps[d];
        if high - low > 1 {
            loops.push(CopyLoop { range: high - low, src: a.steps[d], dst: b.steps[d] });
        }
    }
    Some((loops, start))
}

/// Lists the boxes of all shards that are first copies.
fn list_shard_pieces(sharded: &ShardedLayout, shape: &[i64]) -> Result<Vec<ShardPiece>> {
    let refuse = || {
        ReshardError::NotSharded {
        mesh: sharded.mesh().to_string(),
        reason: "the other side divides a dimension unevenly, and then again: shards are then boxes of the tensor, or intervals of its elements in a row".into(),
    }
    };
    let row = [shape.iter().product()];
    let strides = row_major_strides(shape)?;
    let mut out = Vec::new();
    for rank in (0..sharded.mesh().rank_count()).filter(|r| sharded.first_copy_of(*r) == Some(*r)) {
        let of = |shape: &[i64]| {
            let found = ShardBox::of_rank(sharded, shape, rank)?;
            Some((found.begin.clone()?, found))
        };
        if let Some((begin, found)) = of(shape) {
            let steps = row_major_strides(&found.padded)?;
            out.push(ShardPiece { rank, begin, len: found.actual, address: 0, steps });
            continue;
        }
        let (begin, found) = of(&row).ok_or_else(refuse)?;
        let (low, high) = (begin[0], begin[0] + found.actual[0]);
        let mut boxes = Vec::new();
        split_interval(shape, low, high, &mut Vec::new(), &mut boxes);
        for (begin, len) in boxes {
            let flat: i64 = begin.iter().zip(&strides).map(|(b, s)| b * s).sum();
            let steps = strides.clone();
            out.push(ShardPiece { rank, begin, len, address: flat - low, steps });
        }
    }
    // Ranks past the end of an uneven dimension hold empty boxes.
    out.retain(|piece| piece.len.iter().all(|n| *n > 0));
    Ok(out)
}

/// Splits elements `low..high` of a shape in row-major order into boxes, prefixed by the
/// coordinates `fixed`.
fn split_interval(
    shape: &[i64],
    low: i64,
    high: i64,
    fixed: &mut Vec<i64>,
    out: &mut Vec<(Vec<i64>, Vec<i64>)>,
) {
    if low >= high {
        return;
    }
    let size: i64 = shape.iter().skip(1).product();
    let whole = |from: i64, to: i64, fixed: &[i64], out: &mut Vec<(Vec<i64>, Vec<i64>)>| {
        let first = shape.first().map(|_| from);
        let begin = fixed.iter().copied().chain(first).chain(shape.iter().skip(1).map(|_| 0));
        let len = fixed.iter().map(|_| 1).chain(first.map(|_| to - from));
        out.push((begin.collect(), len.chain(shape.iter().skip(1).copied()).collect()));
    };
    let (first, last) = (low / size, (high - 1) / size);
    // The interval consists of whole steps of the first dimension: one box.
    if (low % size, high % size) == (0, 0) {
        return whole(first, last + 1, fixed, out);
    }
    let mut inner = |at: i64, low: i64, high: i64, out: &mut Vec<_>| {
        fixed.push(at);
        split_interval(&shape[1..], low, high, fixed, out);
        fixed.pop();
    };
    if first == last {
        return inner(first, low - first * size, high - first * size, out);
    }
    let (from, to) = ((low + size - 1) / size, high / size);
    if from > first {
        inner(first, low - first * size, size, out);
    }
    if to < last + 1 {
        inner(last, 0, high - last * size, out);
    }
    if from < to {
        whole(from, to, fixed, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_its_boxes() {
        for shape in [vec![], vec![7], vec![3, 5], vec![2, 3, 4], vec![2, 1, 3, 2]] {
            let total: i64 = shape.iter().product();
            for low in 0..=total {
                for high in low..=total {
                    let mut boxes = Vec::new();
                    split_interval(&shape, low, high, &mut Vec::new(), &mut boxes);
                    let mut found = Vec::new();
                    for (begin, len) in boxes {
                        let mut flats = vec![0];
                        for d in 0..shape.len() {
                            flats = flats
                                .iter()
                                .flat_map(|f| (begin[d]..begin[d] + len[d]).map(move |i| (f, i)))
                                .map(|(f, i)| f * shape[d] + i)
                                .collect();
                        }
                        found.extend(flats);
                    }
                    found.sort_unstable();
                    assert_eq!(found, (low..high).collect::<Vec<i64>>(), "{shape:?}");
                }
            }
        }
    }
}
