//! What a core does for attention.

use super::super::TILES;
use super::super::matmul::account::{LX, padded};
use crate::account::CoreWork;
use crate::sticks::Sticks;

/// What a core does with its rows of Q, of the result and of the mask, and the keys of one batch.
///
/// A block of rows is resident with its scores and sums; K and V are streamed past it, once for each
/// block of rows of each batch. A score takes four operations of the SFU (scale, maximum, sum,
/// division), one more with a mask, and an exponential.
pub(super) fn work(
    q: &Sticks,
    out: &Sticks,
    mask: Option<&Sticks>,
    k: &Sticks,
    v: &Sticks,
) -> CoreWork {
    let mut work = CoreWork::default();
    let (row, column) = (q.rank() - 2, q.rank() - 1);
    let (key, value) = (k.rank() - 2, k.rank() - 1);
    let rows: u64 = q.size[..column].iter().map(|n| *n as u64).product();
    let keys = padded(k, key);
    let (depth, width) = (padded(q, column), padded(v, value));
    work.macs = rows * keys * (depth + width);
    work.macs_valid = rows * (k.size[key] * (q.size[column] + v.size[value])) as u64;
    work.sfu = rows * keys * if mask.is_some() { 5 } else { 4 };
    work.sfu_transcendental = rows * keys;
    for (t, read) in [(Some(q), true), (mask, true), (Some(out), false)] {
        let Some(t) = t else { continue };
        let (bursts, padding) = t.traffic();
        if read { &mut work.reads } else { &mut work.writes }.merge(&bursts);
        work.padding_bytes += padding;
    }
    let lines = q.size[row] as u64;
    let resident = depth * q.format.size() as u64 + keys * 4 + width * 4;
    let block = ((LX - 2 * TILES) / resident.max(1)).clamp(1, lines.max(1));
    work.lx_peak = (block * resident + 2 * TILES).min(LX);
    let batches: u64 = q.size[..row].iter().map(|n| *n as u64).product();
    let times = batches * lines.div_ceil(block);
    for t in [k, v] {
        let (bursts, padding) = t.traffic();
        bursts.bursts().iter().for_each(|b| work.reads.add(b.bytes, b.count * times));
        work.padding_bytes += padding * times;
    }
    work.lx_bytes = work.reads.bytes() + work.writes.bytes();
    if k.stick == Some(value) {
        // Tiles of K are turned: written and read once more.
        work.lx_bytes += 2 * times * k.traffic().0.bytes();
    }
    work
}
