//! Which kernel, and which tile: by an estimate of the time from what the accesses touch.
//!
//! Memory is read and written in sectors of 32 bytes, and long runs are faster than short ones. The estimate of a
//! candidate is the bytes of the sectors that it touches on each side, each weighed by the length of the runs,
//! over the bandwidth of a copy; a tile pays for its passes through shared memory. The constants are one table
//! ([`Costs`]), fitted to measurements.

use crate::description::{Part, Side};
use crate::digits::Digits;
use crate::gpu::Gpu;
use crate::rows;
use crate::squares;
use crate::swizzle;
use crate::tile::Tile;
use crate::tile_part;
use std::ops::Range;

/// What the estimate of a kernel is made of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Costs {
    /// A run of n bytes costs as much as n plus this many bytes, when it is read.
    pub read_run: f64,
    /// The same of a run that is written.
    pub write_run: f64,
    /// A part of a sector that is written costs this many bytes more than a whole one.
    pub part_sector: f64,
    /// Time of a kernel without shared memory, for rows that stay rows: a factor.
    pub rows: f64,
    /// Time of squares that turn in registers: a factor.
    pub squares: f64,
    /// Time of tiles through shared memory: a factor.
    pub tiles: f64,
    /// Bytes that a clock of one multiprocessor moves through shared memory without conflicts, at
    /// most, in one access of a warp.
    pub shared_bytes: f64,
    /// Instructions that a thread issues for each element that it gathers from shared memory.
    pub gather: f64,
    /// Bytes that have to be on the way in a thread before the memory is busy.
    pub flight: f64,
}

/// A kernel that was chosen.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Choice {
    pub(crate) part: Part,
    /// The estimated time in seconds.
    pub(crate) seconds: f64,
    /// The kind in a word.
    pub(crate) kind: &'static str,
}

/// Runs of a tile, in bytes, that are tried on each side.
const RUNS: [i64; 4] = [64, 128, 256, 512];
/// Bytes of a tile that are tried.
const SIZES: [i64; 2] = [8 << 10, 16 << 10];

/// The kernel with the least estimated time for a nest.
pub(crate) fn choose(nest: &Digits, readable: &Range<i64>, gpu: &Gpu) -> Choice {
    let wide = nest.widened();
    let mut best = candidate_rows(&wide, gpu);
    if let Some(pair) = squares::digits(&wide) {
        let seconds = squares_seconds(&wide, pair, gpu);
        if seconds < best.seconds {
            best = Choice { part: squares::part(&wide, pair), seconds, kind: "squares" };
        }
    }
    if let Some((tile, seconds)) = best_tile(&wide, gpu)
        && seconds < best.seconds
    {
        best = Choice { part: tile_part::part(&wide, &tile, readable), seconds, kind: "tile" };
    }
    best
}

/// Every kernel that can move a nest, for tests.
#[doc(hidden)]
pub(crate) fn candidates(nest: &Digits, readable: &Range<i64>, gpu: &Gpu) -> Vec<Choice> {
    let wide = nest.widened();
    let mut all = vec![candidate_rows(&wide, gpu)];
    if let Some(pair) = squares::digits(&wide) {
        let seconds = squares_seconds(&wide, pair, gpu);
        all.push(Choice { part: squares::part(&wide, pair), seconds, kind: "squares" });
    }
    if tileable(&wide) {
        let mut seen: Vec<Tile> = Vec::new();
        for (run, size) in shapes() {
            let Some(tile) = Tile::new(&wide, run, size) else { continue };
            if seen.contains(&tile) {
                continue;
            }
            seen.push(tile.clone());
            let (tile, conflicts) = swizzle::choose(&wide, &tile);
            let seconds = tile_seconds(&wide, &tile, Some(conflicts), gpu);
            all.push(Choice {
                part: tile_part::part(&wide, &tile, readable),
                seconds,
                kind: "tile",
            });
        }
    }
    all
}

fn shapes() -> impl Iterator<Item = ((i64, i64), i64)> {
    SIZES.into_iter().flat_map(|size| {
        RUNS.into_iter().flat_map(move |a| RUNS.into_iter().map(move |b| ((a, b), size)))
    })
}

/// Elements that lie whole on both sides: without that a tile has nothing to gather.
fn tileable(wide: &Digits) -> bool {
    let whole = |side: Side, width: u32| wide.grain(side, &[]) >= width.min(16);
    whole(Side::Src, wide.unit.src) && whole(Side::Dst, wide.unit.dst) && !wide.digits.is_empty()
}

fn best_tile(wide: &Digits, gpu: &Gpu) -> Option<(Tile, f64)> {
    if !tileable(wide) {
        return None;
    }
    let mut best: Option<(Tile, f64)> = None;
    for (run, size) in shapes() {
        let Some(tile) = Tile::new(wide, run, size) else { continue };
        let seconds = tile_seconds(wide, &tile, None, gpu);
        if best.as_ref().is_none_or(|(_, s)| seconds < *s) {
            best = Some((tile, seconds));
        }
    }
    let (tile, _) = best?;
    let (tile, conflicts) = swizzle::choose(wide, &tile);
    let seconds = tile_seconds(wide, &tile, Some(conflicts), gpu);
    Some((tile, seconds))
}

/// What a side costs in bytes: runs of `run` bytes that begin at multiples of `grain`.
fn side_bytes(total: f64, run: f64, aligned: bool, side: Side, costs: &Costs) -> f64 {
    let per_run = match side {
        Side::Src => costs.read_run,
        Side::Dst => costs.write_run,
    };
    let sectors = if aligned { (run / 32.0).ceil() } else { run / 32.0 + 1.0 };
    let mut one = sectors * 32.0 + per_run;
    if side == Side::Dst && (!aligned || run % 32.0 != 0.0) {
        one += costs.part_sector * if aligned { 1.0 } else { 2.0 };
    }
    total / run * one
}

/// The bytes that the digits of one side run through without a gap, seen by threads that follow the destination.
fn run_bytes(all: &Digits, side: Side) -> f64 {
    let chain = all.chain(side);
    let width = match side {
        Side::Src => all.unit.src,
        Side::Dst => all.unit.dst,
    };
    let mut run = f64::from(width);
    for (k, i) in chain.iter().enumerate() {
        // The source's run counts as far as it is the destination's too.
        if side == Side::Src && all.digits.get(k).is_none_or(|d| *d != all.digits[*i]) {
            break;
        }
        run *= all.digits[*i].range as f64;
    }
    run
}

fn candidate_rows(wide: &Digits, gpu: &Gpu) -> Choice {
    let costs = &gpu.costs;
    let widest = wide.unit.src.max(wide.unit.dst);
    let flight: u32 = match widest {
        16 => 4,
        8 => 4,
        _ => 8,
    };
    let total = wide.units() as f64;
    let (src, dst) = (total * f64::from(wide.unit.src), total * f64::from(wide.unit.dst));
    let grain = |side| wide.grain(side, &[]) >= 16;
    let read = side_bytes(src, run_bytes(wide, Side::Src), grain(Side::Src), Side::Src, costs);
    let write = side_bytes(dst, run_bytes(wide, Side::Dst), grain(Side::Dst), Side::Dst, costs);
    // Narrow accesses do not keep enough bytes on the way.
    let narrow = (costs.flight / f64::from(widest * flight)).max(1.0);
    let seconds = (read + write) / gpu.bandwidth * costs.rows * narrow;
    Choice { part: rows::part(wide, flight, None), seconds, kind: "rows" }
}

fn squares_seconds(wide: &Digits, (a, b): (usize, usize), gpu: &Gpu) -> f64 {
    let costs = &gpu.costs;
    let bytes = wide.units() as f64 * f64::from(wide.unit.src);
    let (tile_a, tile_b) = squares::block(wide.unit.src);
    let width = f64::from(wide.unit.src);
    let (ra, rb) = (wide.digits[a].range, wide.digits[b].range);
    let run = |range: i64, tile: i64| {
        let tiles = (range + tile - 1) / tile;
        range as f64 / tiles as f64 * width
    };
    let waste = |range: i64, tile: i64| ((range + tile - 1) / tile * tile) as f64 / range as f64;
    let read = side_bytes(bytes, run(ra, tile_a), true, Side::Src, costs);
    let write = side_bytes(bytes, run(rb, tile_b), true, Side::Dst, costs);
    (read + write) / gpu.bandwidth * costs.squares * (waste(ra, tile_a) * waste(rb, tile_b)).sqrt()
}

fn tile_seconds(
    wide: &Digits,
    tile: &Tile,
    conflicts: Option<swizzle::Conflicts>,
    gpu: &Gpu,
) -> f64 {
    let costs = &gpu.costs;
    let elements = wide.units() as f64;
    let (src, dst) = (f64::from(wide.unit.src), f64::from(wide.unit.dst));
    // What stands still in the source is read once for each tile.
    let still: f64 = (0..tile.steps.len())
        .filter(|i| wide.digits[*i].src == 0)
        .map(|i| tile.steps[i] as f64)
        .product();
    let read = side_bytes(
        elements * src / still,
        tile.src.length as f64 * src,
        tile.src.aligned,
        Side::Src,
        costs,
    );
    let write = side_bytes(
        elements * dst,
        tile.dst.length as f64 * dst,
        tile.dst.aligned,
        Side::Dst,
        costs,
    );
    let memory = (read + write) / gpu.bandwidth * costs.tiles;
    // Tiles at the ends of digits are smaller than their blocks.
    let waste: f64 = (0..tile.steps.len())
        .map(|i| (tile.tiles(wide, i) * tile.steps[i]) as f64 / wide.digits[i].range as f64)
        .product();
    let conflicts = conflicts.unwrap_or(swizzle::Conflicts { store: 1.0, load: 1.0 });
    let store = elements * src / still / costs.shared_bytes * conflicts.store;
    let load = elements * src.max(4.0) / costs.shared_bytes * conflicts.load;
    let issue = elements * costs.gather / 128.0;
    let clocks = (store + load + issue) / f64::from(gpu.sms) * waste.sqrt();
    let shared = clocks / gpu.clock;
    // Small blocks keep little on the way.
    let bytes = tile.steps.iter().product::<i64>() as f64 * src / still;
    let small = (costs.flight * f64::from(rows::THREADS) / 4.0 / bytes).max(1.0);
    let many = gpu.shared_per_sm as f64 / (tile.src.count * tile.pitch()) as f64;
    let resident = (2.0 / many.min(8.0)).max(1.0);
    memory.max(shared) * waste.powf(0.25) * small.powf(0.5) * resident + 0.1 * memory.min(shared)
}
