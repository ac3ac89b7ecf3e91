//! The choice of a kernel and of its tile, by an estimate of the time from what the accesses touch.
//!
//! Memory is read and written in sectors of 32 bytes, and long runs are faster than short ones. The estimate of a
//! candidate is the bytes of the sectors that it touches on each side, weighted by the length of the runs, over the
//! bandwidth of a copy; a tile pays for its passes through shared memory as well. The constants are one table
//! ([`KernelCosts`]), fitted to measurements by `bench/gpu_kernels.py`.

use crate::description::{BlockProgram, TensorSide};
use crate::digits::ByteNest;
use crate::gpu::Gpu;
use crate::rows;
use crate::squares;
use crate::swizzle;
use crate::tile::{SharedTile, TileOrder, TileRows};
use crate::tile_part;
use std::ops::Range;

/// The constants of the estimate of a kernel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KernelCosts {
    /// A run of n bytes costs as much as n plus this many bytes, when it is read.
    pub read_run: f64,
    /// The same of a run that is written.
    pub write_run: f64,
    /// The cost of a byte that shares a line of 128 bytes with a run and does not belong to it, as a part of the cost of
    /// a byte of the run; for lines whose other bytes are needed by a block that runs at about the same time.
    pub rest_near: f64,
    /// The same for lines that have left the cache when their other bytes are needed.
    pub rest_far: f64,
    /// A sector that is written in two parts costs this many bytes more than one that is written whole.
    pub part_sector: f64,
    /// Time of a kernel without shared memory, for rows that stay rows: a factor.
    pub rows: f64,
    /// Time of squares that are transposed in registers: a factor.
    pub squares: f64,
    /// Time of tiles through shared memory: a factor.
    pub tiles: f64,
    /// The part that a tile costs more for each doubling of its shared memory beyond [`KernelCosts::large_bytes`].
    pub large: f64,
    /// Bytes of shared memory up to which a tile costs no more.
    pub large_bytes: f64,
    /// The cost of a second read of a row, which a cache answers, as a part of that of the first.
    pub again: f64,
    /// Bytes of a tile whose overhead takes as long as the move of its bytes.
    pub small_bytes: f64,
    /// The part of the multiprocessors that has nothing to do while the last blocks run.
    pub last_wave: f64,
    /// Bytes that a clock of one multiprocessor moves through shared memory without conflicts, at
    /// most, in one access of a warp.
    pub shared_bytes: f64,
    /// Instructions that a thread issues for each element that it gathers from shared memory.
    pub gather: f64,
    /// Bytes that a thread has to have in flight before the memory is busy.
    pub flight: f64,
}

/// A kernel that was chosen.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct KernelChoice {
    pub(crate) part: BlockProgram,
    /// The estimated time in seconds.
    pub(crate) seconds: f64,
    /// The kind of kernel, in a word.
    pub(crate) kind: &'static str,
}

/// Runs of a tile, in bytes, that are tried on each side: from two sectors to four lines.
const TILE_RUN_BYTES: [i64; 4] = [64, 128, 256, 512];
/// Bytes of a tile that are tried.
const TILE_SIZE_BYTES: [i64; 2] = [8 << 10, 16 << 10];
/// Units in flight in a thread that measurements try beside the number that is chosen.
const UNITS_IN_FLIGHT: [u32; 4] = [1, 4, 8, 16];
/// Blocks of 256 threads that run together on a multiprocessor, which has 2048 threads on sm_80 and sm_90.
const RESIDENT_BLOCKS: f64 = 8.0;
/// Multiples at which the rows of a skewed tile begin: none, a vector, or a sector.
const SKEW_BYTES: [Option<i64>; 3] = [None, Some(16), Some(32)];

/// The kernel with the least estimated time for a nest.
pub(crate) fn choose_kernel(nest: &ByteNest, readable: &Range<i64>, gpu: &Gpu) -> KernelChoice {
    // Rows fit every nest, so they are the choice that others have to beat. Squares come before tiles because they need
    // no shared memory, and of equal estimates the earlier one stays.
    let wide = nest.widen_units();
    let mut best = choose_row_copy(&wide, gpu);
    if let Some(pair) = squares::transposable_digits(&wide) {
        let seconds = estimate_squares_seconds(&wide, pair, gpu);
        if seconds < best.seconds {
            best = KernelChoice {
                part: squares::describe_square_transpose(&wide, pair),
                seconds,
                kind: "squares",
            };
        }
    }
    if let Some((tile, seconds)) = choose_best_tile(&wide, gpu)
        && seconds < best.seconds
    {
        best = KernelChoice {
            part: tile_part::describe_tile_move(&wide, &tile, readable),
            seconds,
            kind: "tile",
        };
    }
    best
}

/// One of the kernels that can move a nest, by its number: for tests and measurements. A number past the last
/// counts from the first again.
pub(crate) fn pick_candidate(
    nest: &ByteNest,
    readable: &Range<i64>,
    gpu: &Gpu,
    pick: usize,
) -> KernelChoice {
    let wide = nest.widen_units();
    let squares = squares::transposable_digits(&wide);
    let tiles = list_tiles(&wide, gpu);
    let rows = 1 + UNITS_IN_FLIGHT.len();
    match (pick % (rows + usize::from(squares.is_some()) + tiles.len()), squares) {
        (0, _) => choose_row_copy(&wide, gpu),
        (k, _) if k < rows => {
            // The estimate is that of the chosen number of units; a measurement does not use it.
            let part = rows::describe_unit_copies(&wide, UNITS_IN_FLIGHT[k - 1], None);
            KernelChoice { part, ..choose_row_copy(&wide, gpu) }
        }
        (k, Some(pair)) if k == rows => {
            let seconds = estimate_squares_seconds(&wide, pair, gpu);
            KernelChoice {
                part: squares::describe_square_transpose(&wide, pair),
                seconds,
                kind: "squares",
            }
        }
        (k, squares) => {
            let tile = &tiles[k - rows - usize::from(squares.is_some())];
            let (tile, conflicts) =
                swizzle::choose_swizzle(&wide, tile, gpu.max_shared_bytes(tile.skew.is_some()));
            let seconds = estimate_tile_seconds(&wide, &tile, Some(conflicts), gpu);
            KernelChoice {
                part: tile_part::describe_tile_move(&wide, &tile, readable),
                seconds,
                kind: "tile",
            }
        }
    }
}

/// Every tile that is considered.
fn list_tiles(wide: &ByteNest, gpu: &Gpu) -> Vec<SharedTile> {
    let mut all: Vec<SharedTile> = Vec::new();
    if !is_tileable(wide) {
        return all;
    }
    for size in TILE_SIZE_BYTES {
        for run in
            TILE_RUN_BYTES.into_iter().flat_map(|a| TILE_RUN_BYTES.into_iter().map(move |b| (a, b)))
        {
            for skew in SKEW_BYTES {
                let Some(tile) =
                    SharedTile::new(wide, run, size, skew, gpu.max_shared_bytes(skew.is_some()))
                else {
                    continue;
                };
                let mut orders: Vec<Vec<usize>> = Vec::new();
                for order in [TileOrder::Destination, TileOrder::Either] {
                    let tile = SharedTile { order, ..tile.clone() };
                    // An order matters only where it differs, and the estimate of every tile takes time.
                    let cut = tile.cut_digits(wide);
                    if !orders.contains(&cut) {
                        orders.push(cut);
                        if !all.contains(&tile) {
                            all.push(tile);
                        }
                    }
                }
            }
        }
    }
    all
}

/// Whether elements are aligned on both sides; a tile gathers and stores whole elements.
fn is_tileable(wide: &ByteNest) -> bool {
    let whole = |side: TensorSide, width: u32| wide.address_alignment(side, &[]) >= width.min(16);
    whole(TensorSide::Src, wide.unit.src)
        && whole(TensorSide::Dst, wide.unit.dst)
        && !wide.digits.is_empty()
}

fn choose_best_tile(wide: &ByteNest, gpu: &Gpu) -> Option<(SharedTile, f64)> {
    let mut all: Vec<(f64, SharedTile)> = list_tiles(wide, gpu)
        .into_iter()
        .map(|tile| (estimate_tile_seconds(wide, &tile, None, gpu), tile))
        .collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    // Conflicts are slow to count, and can only add to the time. So tiles are taken by rising estimates without
    // conflicts, and the search ends when that lower bound reaches the best time found.
    let mut best: Option<(SharedTile, f64)> = None;
    for (least, tile) in all {
        if best.as_ref().is_some_and(|(_, seconds)| *seconds <= least) {
            break;
        }
        let (tile, conflicts) =
            swizzle::choose_swizzle(wide, &tile, gpu.max_shared_bytes(tile.skew.is_some()));
        let seconds = estimate_tile_seconds(wide, &tile, Some(conflicts), gpu);
        if best.as_ref().is_none_or(|(_, s)| seconds < *s) {
            best = Some((tile, seconds));
        }
    }
    best
}

/// The runs of adjacent bytes that one side of a kernel accesses.
struct RowRuns {
    /// Bytes of a run.
    bytes: f64,
    /// Whether runs begin where lines of memory begin.
    aligned: bool,
    /// Whether a block that runs at about the same time needs the rest of a line.
    near: bool,
    /// Sectors of a run that are written in parts.
    parts: f64,
}

/// The cost of a side, in bytes.
fn estimate_side_bytes(total: f64, runs: &RowRuns, side: TensorSide, costs: &KernelCosts) -> f64 {
    let per_run = match side {
        TensorSide::Src => costs.read_run,
        TensorSide::Dst => costs.write_run,
    };
    let lines = if runs.aligned { (runs.bytes / 128.0).ceil() } else { runs.bytes / 128.0 + 1.0 };
    let rest = if runs.near { costs.rest_near } else { costs.rest_far };
    // Reads bring whole lines, of which the rest may be wasted. Writes to parts of a sector make the memory read the
    // sector first.
    let more = match side {
        TensorSide::Src => rest * (lines * 128.0 - runs.bytes),
        TensorSide::Dst => costs.part_sector * runs.parts,
    };
    total / runs.bytes * (runs.bytes + per_run + more)
}

/// The adjacent bytes of a run on one side, for threads that follow the destination.
fn adjacent_run_bytes(all: &ByteNest, side: TensorSide) -> f64 {
    let chain = all.adjacent_chain(side);
    let width = match side {
        TensorSide::Src => all.unit.src,
        TensorSide::Dst => all.unit.dst,
    };
    let mut run = f64::from(width);
    for (k, i) in chain.iter().enumerate() {
        // Threads follow the destination, so a run of the source lasts as long as it is also one of the destination.
        if side == TensorSide::Src && all.digits.get(k).is_none_or(|d| *d != all.digits[*i]) {
            break;
        }
        run *= all.digits[*i].range as f64;
    }
    run
}

fn choose_row_copy(wide: &ByteNest, gpu: &Gpu) -> KernelChoice {
    let costs = &gpu.costs;
    let widest = wide.unit.src.max(wide.unit.dst);
    let flight: u32 = match widest {
        // Few wide units or many narrow ones keep about as many bytes in flight.
        8.. => 2,
        _ => 8,
    };
    let total = wide.unit_count() as f64;
    let (src, dst) = (total * f64::from(wide.unit.src), total * f64::from(wide.unit.dst));
    let side = |side, total| {
        let (bytes, aligned) =
            (adjacent_run_bytes(wide, side), wide.address_alignment(side, &[]) >= 16);
        let parts = if aligned && bytes % 32.0 == 0.0 { 0.0 } else { 0.5 };
        // Threads follow the destination, so blocks that run at the same time read far parts of the source.
        estimate_side_bytes(
            total,
            &RowRuns { bytes, aligned, near: side == TensorSide::Dst, parts },
            side,
            costs,
        )
    };
    let (read, write) = (side(TensorSide::Src, src), side(TensorSide::Dst, dst));
    // Narrow accesses do not keep enough bytes in flight to use the bandwidth.
    let narrow = (costs.flight / f64::from(widest * flight)).max(1.0);
    let seconds = (read + write) / gpu.bandwidth * costs.rows * narrow;
    KernelChoice { part: rows::describe_unit_copies(wide, flight, None), seconds, kind: "rows" }
}

fn estimate_squares_seconds(wide: &ByteNest, (a, b): (usize, usize), gpu: &Gpu) -> f64 {
    let costs = &gpu.costs;
    let bytes = wide.unit_count() as f64 * f64::from(wide.unit.src);
    let (tile_a, tile_b) = squares::block_elements(wide.unit.src);
    let width = f64::from(wide.unit.src);
    let (ra, rb) = (wide.digits[a].range, wide.digits[b].range);
    let run = |range: i64, tile: i64| {
        let tiles = (range + tile - 1) / tile;
        range as f64 / tiles as f64 * width
    };
    // Blocks at the edge are launched whole. Threads without work cost less than others, which the square root below
    // stands for; the exponents here and for tiles have no measurement of their own.
    let waste = |range: i64, tile: i64| ((range + tile - 1) / tile * tile) as f64 / range as f64;
    let runs = |bytes| RowRuns { bytes, aligned: true, near: true, parts: 0.0 };
    let read = estimate_side_bytes(bytes, &runs(run(ra, tile_a)), TensorSide::Src, costs);
    let write = estimate_side_bytes(bytes, &runs(run(rb, tile_b)), TensorSide::Dst, costs);
    (read + write) / gpu.bandwidth * costs.squares * (waste(ra, tile_a) * waste(rb, tile_b)).sqrt()
}

fn estimate_tile_seconds(
    wide: &ByteNest,
    tile: &SharedTile,
    conflicts: Option<swizzle::BankConflicts>,
    gpu: &Gpu,
) -> f64 {
    let costs = &gpu.costs;
    let elements = wide.unit_count() as f64;
    let (src, dst) = (f64::from(wide.unit.src), f64::from(wide.unit.dst));
    // Digits of source stride 0 are read once for each tile and stored many times.
    let still: f64 = (0..tile.steps.len())
        .filter(|i| wide.digits[*i].src == 0)
        .map(|i| tile.steps[i] as f64)
        .product();
    let (runs_in, runs_out) = measure_tile_runs(wide, tile, gpu);
    let read = estimate_side_bytes(elements * src / still, &runs_in, TensorSide::Src, costs);
    let write = estimate_side_bytes(elements * dst, &runs_out, TensorSide::Dst, costs);
    // The rows in front of a skewed tile are read by the tile before it as well.
    let lead =
        tile.skew.map_or(1.0, |s| tile.loaded_span(s.digit) as f64 / tile.steps[s.digit] as f64);
    let read = read * (1.0 + costs.again * (lead - 1.0));
    let memory = (read + write) / gpu.bandwidth * costs.tiles;
    // Tiles at the ends of digits are smaller than their blocks.
    let waste: f64 = (0..tile.steps.len())
        .map(|i| (tile.tiles_along(wide, i) * tile.steps[i]) as f64 / wide.digits[i].range as f64)
        .product();
    let conflicts = conflicts.unwrap_or(swizzle::BankConflicts { store: 1.0, load: 1.0 });
    // Shared memory is filled in vectors, but read element by element, and never in less than a word of 4 bytes.
    let store = elements * src / still * lead / costs.shared_bytes * conflicts.store;
    let load = elements * src.max(4.0) / costs.shared_bytes * conflicts.load;
    let issue = elements * costs.gather / 128.0;
    let clocks = (store + load + issue) / f64::from(gpu.sms) * waste.sqrt();
    let shared = clocks / gpu.clock;
    // Small blocks keep few bytes in flight, and of large ones few run together.
    let bytes = tile.steps.iter().product::<i64>() as f64 * src / still;
    let small = 1.0 + (costs.small_bytes / bytes).powi(2);
    // By the logarithm: half as many resident blocks hide half as much of the latency.
    let doublings = (tile.shared_bytes(wide) as f64 / costs.large_bytes).log2().max(0.0);
    // Wide elements are gathered by few instructions, so small tiles are enough for them. Measured on an H200 (18
    // November 2026): float32 to float16 sticks went from 0.958 to 0.996 of a copy, float64 transposes from 0.959 to
    // 0.968.
    let large = 1.0 + costs.large * (src / 2.0).clamp(1.0, 4.0) * doublings;
    let blocks: f64 = (0..tile.steps.len()).map(|i| tile.tiles_along(wide, i) as f64).product();
    let waves = blocks * wide.table.len() as f64 / (f64::from(gpu.sms) * RESIDENT_BLOCKS);
    // The last blocks leave a part of the multiprocessors idle, which few waves of blocks do not make up for.
    let last = 1.0 + costs.last_wave / waves.max(1.0);
    // Memory and shared memory work at the same time, so that the longer one counts; a tenth of the shorter one is
    // added for blocks that wait (not recorded).
    (memory.max(shared) + 0.1 * memory.min(shared)) * waste.powf(0.25) * small * large * last
}

/// The runs that the rows of a tile make in memory.
fn measure_tile_runs(wide: &ByteNest, tile: &SharedTile, gpu: &Gpu) -> (RowRuns, RowRuns) {
    let runs = |rows: &TileRows, side: TensorSide| {
        let bytes = (rows.length * rows.width) as f64;
        // Blocks from this one to the block that continues its rows. Where they run together, the lines at the ends of
        // rows are still in the cache.
        let mut between = 1.0;
        for i in tile.cut_digits(wide) {
            if rows.chain.last() == Some(&i) {
                break;
            }
            between *= tile.tiles_along(wide, i) as f64;
        }
        let near = between <= f64::from(gpu.sms) * RESIDENT_BLOCKS;
        let whole = rows.aligned && bytes % 32.0 == 0.0;
        let parts = match tile.skew.filter(|_| side == TensorSide::Dst) {
            None if whole => 0.0,
            // Both ends of a row are parts of sectors.
            None => 2.0,
            Some(skew) => {
                // Only the ends of the rows of the tensor are parts of sectors, and half of the rows where they begin at
                // vectors, which are half a sector.
                let row = wide.digits[skew.digit].range * skew.inner * rows.width;
                2.0 * bytes / row as f64 + if skew.bytes < 32 { 0.5 } else { 0.0 }
            }
        };
        RowRuns { bytes, aligned: rows.aligned, near, parts }
    };
    (runs(&tile.src, TensorSide::Src), runs(&tile.dst, TensorSide::Dst))
}
