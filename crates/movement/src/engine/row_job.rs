//! Jobs of rows: which two loops are around them, and how these are cut into tiles.

use super::job::{
    ByteLoop, JobKernel, NestJob, StoreVariants, even_tile, smallest_stride_loop, without_loops,
};
use super::lines;
use super::rows;
use super::stream::{LINE_BYTES, StreamRule};
use crate::engine::tuning::{
    BURST_SRC_STEPS, CONFLICT_STRIDE_BYTES, L1_SETS, MAX_CROWDED_CACHED_ROWS,
    MIN_BROKEN_STREAM_BYTES, MIN_DST_ORDER_ROW_BYTES, MIN_INNER_STEPS, MIN_UNTABLED_RUN_BYTES,
    ROW_TILE_DST_BYTES, ROW_TILE_SRC_BYTES,
};

/// What becomes of the bytes of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowRewrites {
    /// They are copied.
    Copied,
    /// They become as many bytes of another format.
    Converted,
    /// They become fewer bytes of another format.
    Narrower,
}

impl RowRewrites {
    /// Whether rows that are `apart` in the destination, where they follow one another in the source,
    /// may be written together with those near them there.
    fn leave_together(self, apart: isize) -> bool {
        match self {
            RowRewrites::Copied => true,
            // Conversions were measured to be faster in the order of the source, except for rows of one
            // size whose addresses are near one another: float16 to DLFloat16 sticks went from 0.66 to 0.84
            // of a copy with AVX2 (18 November 2026).
            RowRewrites::Converted => apart.unsigned_abs() < CONFLICT_STRIDE_BYTES,
            RowRewrites::Narrower => false,
        }
    }
}

/// Two loops around rows, and the steps of each in a tile.
#[derive(Debug, Clone, Copy)]
struct RowTile {
    x: ByteLoop,
    y: ByteLoop,
    steps: (isize, isize),
}

/// The job of rows of `bytes`: the two loops that are nearest in source and destination are tiled, so that
/// both sides see long stretches.
pub(super) fn build_row_job(
    mut loops: Vec<ByteLoop>,
    mut starts: Vec<(isize, isize)>,
    bytes: usize,
    stream: bool,
    rewrites: RowRewrites,
) -> NestJob {
    // Many starts with short runs are what a swizzle makes: the starts are then the innermost loop, because a
    // call of the kernel for every start would cost more than its run.
    let table = starts.len() > 1 && bytes < MIN_UNTABLED_RUN_BYTES;
    if table {
        // Starts that follow one another in the destination are the pieces of a line.
        starts.sort_unstable_by_key(|(_, b)| *b);
    }
    let kernel = select_kernel_of_rows(&starts, bytes, table);
    let (x, y) = take_nearest_loops(&mut loops);
    let mut tile = cut_nearest_loops(x, y, bytes);
    if !stream {
        tile = order_for_caches(tile, bytes, rewrites);
    }
    // Where short bursts of non-temporal stores are slow, rows that are near in the destination are written
    // together; the tile still reads a few rows in one stretch.
    let bursts = stream
        && !table
        && bytes < MIN_BROKEN_STREAM_BYTES
        && tile.x.n > 1
        && rewrites.leave_together(tile.y.dst)
        && rows::streams_by_bursts(tile.y.dst);
    if bursts {
        // Not fewer bytes than are worth joining, where the lines of the destination are broken.
        let together = MIN_BROKEN_STREAM_BYTES.div_ceil(bytes.max(1)).cast_signed();
        let steps = (even_tile(tile.y.n, BURST_SRC_STEPS), tile.x.n.min(together));
        tile = RowTile { x: tile.y, y: tile.x, steps };
    }
    let RowTile { x, y, steps } = tile;
    let never = StreamRule::Never;
    let job =
        NestJob { kernel, stream: never, tile: steps, x_first: bursts, x, y, outer: loops, starts };
    NestJob { stream: job.choose_stream(stream, bytes), ..job }
}

fn select_kernel_of_rows(starts: &[(isize, isize)], bytes: usize, table: bool) -> JobKernel {
    if !table {
        let run = StoreVariants::new(|s| rows::select_row_kernel(bytes, s));
        return JobKernel::Rows { run, bytes };
    }
    let joined = lines::select_line_table(bytes).filter(|_| lines::runs_fill_lines(starts, bytes));
    // Non-temporal stores want whole lines, which the kernel for lines makes of several runs.
    let run = StoreVariants::new(|s| {
        joined.filter(|_| s).unwrap_or_else(|| rows::select_table_kernel(bytes, s))
    });
    JobKernel::Table { run, bytes }
}

/// The loops of the smallest steps in the destination and in the source; where one loop has both, it is the
/// inner one, and the next of the destination is around it.
fn take_nearest_loops(loops: &mut Vec<ByteLoop>) -> (ByteLoop, ByteLoop) {
    let near_dst = smallest_stride_loop(loops, |l| l.dst);
    let near_src = smallest_stride_loop(loops, |l| l.src);
    let (mut x, mut y) = (ByteLoop::UNIT_LOOP, ByteLoop::UNIT_LOOP);
    match (near_dst, near_src) {
        (Some(d), Some(s)) if d != s => {
            (x, y) = (loops[d], loops[s]);
            *loops = without_loops(loops, &[d, s]);
        }
        (Some(d), _) => {
            y = loops.remove(d);
            if let Some(i) = smallest_stride_loop(loops, |l| l.dst) {
                x = loops.remove(i);
            }
        }
        (None, _) => {}
    }
    (x, y)
}

/// Steps of a loop that take at most so many bytes of rows.
fn steps_within(bytes: usize, row: usize) -> isize {
    (bytes / row.max(1)).max(1).cast_signed()
}

/// The tile where stores are non-temporal. It reads long stretches of the source, as far as a page of them
/// helps, and writes fewer rows of the destination, whose lines are complete after each row.
fn cut_nearest_loops(x: ByteLoop, y: ByteLoop, bytes: usize) -> RowTile {
    let steps = (
        even_tile(x.n, steps_within(ROW_TILE_DST_BYTES, bytes)),
        even_tile(y.n, steps_within(ROW_TILE_SRC_BYTES, bytes)),
    );
    RowTile { x, y, steps }
}

/// In the caches the loop whose rows follow one another is better inside: in the source, or in the
/// destination where those of the source do not follow one another, or where the source does not move, or where the
/// order of the source would write crowded rows. Otherwise the longer loop is, because every start of an inner loop
/// costs as much as some short rows.
fn order_for_caches(tile: RowTile, bytes: usize, rewrites: RowRewrites) -> RowTile {
    let RowTile { x, y, steps } = tile;
    let side_by_side = |stride: isize| stride == bytes.cast_signed();
    let along_dst = x.n >= MIN_INNER_STEPS && side_by_side(x.dst);
    // More rows than a set of the first level cache has ways for drive each other out between their stores: 64 by 64
    // rows of 64 bytes were copied in a third of the time in the order of the destination, and 1024 by 16 rows of 256
    // bytes in four fifths (Zen 5, 20 November 2026). Conversions read and write at different steps.
    let crowded = rewrites == RowRewrites::Copied
        && y.n > MAX_CROWDED_CACHED_ROWS
        && y.dst != 0
        && y.dst.unsigned_abs().is_multiple_of(L1_SETS * LINE_BYTES);
    let better = x.src == 0 || !side_by_side(y.src) || crowded;
    if !(y.n < MIN_INNER_STEPS && x.n > y.n || along_dst && better) {
        return tile;
    }
    let mut swapped = RowTile { x: y, y: x, steps: (steps.1, steps.0) };
    if along_dst && better && bytes >= MIN_DST_ORDER_ROW_BYTES {
        // Each of these rows is more than a line or two: one long stretch of the destination at a time.
        swapped.steps = (1, even_tile(swapped.y.n, steps_within(ROW_TILE_SRC_BYTES, bytes)));
    }
    swapped
}

impl NestJob {
    /// Where rows of `bytes` at the addresses of this job are written by non-temporal stores.
    pub(super) fn choose_stream(&self, asked: bool, bytes: usize) -> StreamRule {
        let loops = self.outer.iter().chain([&self.x, &self.y]).map(|l| l.dst);
        if self.is_table() && lines::runs_fill_lines(&self.starts, bytes) {
            // The pieces of a line follow one another in the table, so that what counts is the line.
            return StreamRule::for_rows(asked, LINE_BYTES, loops);
        }
        StreamRule::for_rows(asked, bytes, loops.chain(self.starts.iter().map(|s| s.1)))
    }
}
