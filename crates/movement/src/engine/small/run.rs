//! Running the programs of small tiles.

use super::super::carry::LineCarries;
use super::super::cell::{self, prefetch_line};
use super::super::job::ByteLoop;
use super::super::stream::LINE_BYTES;
use super::gather::StretchGather;
use super::kernels::{self, GatherKernel, SquareKernel, WideLane};
use crate::engine::tuning::{
    MAX_SQUARE_ROW_BYTES, MIN_BROKEN_STREAM_BYTES, SQUARE_STAGE_BYTES, SQUARE_STAGE_GAP_BYTES,
};
use std::mem::MaybeUninit;

/// The program that runs inside every tile.
#[derive(Debug, Clone)]
pub(in super::super) struct Small {
    pub(super) program: SmallProgram,
    /// Bytes of a row of a whole tile.
    pub(super) row: usize,
}

#[derive(Debug, Clone)]
pub(super) enum SmallProgram {
    Gather(GatherTile),
    Squares(SquareTile),
}

/// Rows that are gathered.
#[derive(Debug, Clone)]
pub(super) struct GatherTile {
    pub(super) gather: StretchGather,
    pub(super) run: GatherKernel,
    pub(super) along: ByteLoop,
    /// Whether `along` is the loop `x` of the job, which is cut into tiles.
    pub(super) along_x: bool,
    /// Offsets of the runs of a row, for every step of `x` where `x` is another loop than `along`.
    pub(super) within: Vec<(isize, isize)>,
    /// Offsets of the rows of a tile.
    pub(super) rows: Vec<(isize, isize)>,
    /// Offsets of the stretches of the source that a tile reads, and their bytes.
    pub(super) ahead: (Vec<isize>, usize),
}

/// Rows that are transposed.
#[derive(Debug, Clone)]
pub(super) struct SquareTile {
    run: SquareKernel,
    /// Offsets in the source of every element of a row.
    rows: Vec<isize>,
    /// Offsets in the destination of the column of every adjacent element of the source.
    columns: Vec<isize>,
    /// Rows for each step of `x`, and columns for each of `y`.
    units: (usize, usize),
    width: usize,
    /// Offsets of rows in the stage, where they conflict in the caches.
    staged: Option<Vec<isize>>,
    /// Offsets in the stage of columns that are stored past the caches from there.
    leaving: Vec<isize>,
    /// The kernel that stores columns straight from the registers, where all of them are whole lines.
    lines: Option<LineKernel>,
}

/// Prefetches the rows of the next tile, line by line.
pub(super) struct TileRowPrefetcher<'a> {
    base: *const u8,
    rows: &'a [isize],
    bytes: usize,
    row: usize,
    at: usize,
}

impl<'a> TileRowPrefetcher<'a> {
    /// `bytes` of every row of the tile that begins at `base`.
    pub(super) fn new(base: *const u8, rows: &'a [isize], bytes: usize) -> TileRowPrefetcher<'a> {
        TileRowPrefetcher { base, rows, bytes, row: 0, at: 0 }
    }

    /// Prefetches one more line, until there are none.
    #[inline(always)]
    pub(super) fn prefetch_next_line(&mut self) {
        if let Some(row) = self.rows.get(self.row) {
            prefetch_line(self.base.wrapping_offset(*row).wrapping_add(self.at));
            self.at += LINE_BYTES;
            if self.at >= self.bytes {
                (self.row, self.at) = (self.row + 1, 0);
            }
        }
    }
}

/// Transposes `16 / E` adjacent elements of every row and stores whole lines past the caches, straight from the
/// registers: column `c` goes to `to[c]`. Meanwhile the rows of the next tile are prefetched.
pub(super) type LineKernel = unsafe fn(
    src: *const u8,
    rows: &[isize],
    dst: *mut u8,
    to: &[isize],
    ahead: &mut TileRowPrefetcher<'_>,
);

const STAGE_OUT: usize = 16 * (MAX_SQUARE_ROW_BYTES + LINE_BYTES);

/// Memory of one tile. It begins on a line, and only what was written is read.
#[repr(align(64))]
struct RowStage<const N: usize>([MaybeUninit<u8>; N]);

impl SquareTile {
    /// Tables of a tile of `parts` steps of its two cut loops.
    pub(super) fn new(
        run: SquareKernel,
        rows: Vec<isize>,
        columns: Vec<isize>,
        parts: (isize, isize),
        width: usize,
        stream: bool,
    ) -> SquareTile {
        let units = (rows.len() / parts.0.unsigned_abs(), columns.len() / parts.1.unsigned_abs());
        let pitch = ((columns.len() * width).next_multiple_of(LINE_BYTES) + SQUARE_STAGE_GAP_BYTES)
            .cast_signed();
        let staged = stream.then(|| (0..rows.len().cast_signed()).map(|r| r * pitch).collect());
        let row = rows.len() * width;
        // Columns that follow one another are stored as one.
        let follow = columns.windows(2).all(|w| w[1] - w[0] == row.cast_signed());
        let pitch = if follow { row } else { row + LINE_BYTES }.cast_signed();
        let leaving = (0..(16 / width).cast_signed()).map(|c| c * pitch).collect();
        let whole = |bytes: usize| bytes.is_multiple_of(LINE_BYTES);
        let aligned = columns.iter().all(|c| whole(c.unsigned_abs()));
        let lines = kernels::select_line_kernel(width).filter(|_| aligned);
        SquareTile { run, rows, columns, units, width, staged, leaving, lines }
    }

    /// # Safety
    /// As [`Small::run_tile`].
    #[inline(never)]
    unsafe fn transpose_tile(
        &self,
        src: *const u8,
        dst: *mut u8,
        (nx, ny): (usize, usize),
        next: *const u8,
        stream: bool,
    ) {
        let mut stage = RowStage([const { MaybeUninit::uninit() }; SQUARE_STAGE_BYTES + STAGE_OUT]);
        let stage = stage.0.as_mut_ptr().cast::<u8>();
        let e = self.width;
        let side = 16 / e;
        let rows = &self.rows[..nx * self.units.0];
        let columns = &self.columns[..ny * self.units.1];
        // SAFETY: rows and columns are those of the loops, which the caller vouches for. The stage holds
        // the rows of a whole tile with their gaps, and behind them 16 bytes of columns of rows; what is
        // read of it was written before. Squares need as many rows and columns as they have sides.
        unsafe {
            // The remainder of a loop that tiles do not divide may be smaller than a square.
            if rows.len() < side || columns.len() < side {
                for (c, to) in columns.iter().enumerate() {
                    for (r, from) in rows.iter().enumerate() {
                        let (from, to) = (src.offset(*from).add(c * e), dst.offset(*to).add(r * e));
                        from.copy_to_nonoverlapping(to, e);
                    }
                }
                return;
            }
            let whole = (dst.addr() | (rows.len() * e)).is_multiple_of(LINE_BYTES);
            // Whether the kernel for lines may be used depends on the buffer, so the stage is planned anyway.
            let direct = self.lines.filter(|_| stream && whole);
            let (from, places) = match &self.staged {
                Some(staged) => {
                    gather_to_stage(src, rows, columns.len() * e, stage, staged);
                    (stage.cast_const(), &staged[..rows.len()])
                }
                None => (src, rows),
            };
            let out = stage.add(SQUARE_STAGE_BYTES);
            let bytes = rows.len() * e;
            let joined = self.leaving.get(1).is_some_and(|p| *p == bytes.cast_signed());
            let blocks = columns.len().div_ceil(side);
            let mut ahead = TileRowPrefetcher::new(next, rows, columns.len() * e);
            // Lines of the next tile for every column, so that loads are spread over the stores.
            let lines =
                (rows.len() * (columns.len() * e).div_ceil(LINE_BYTES)).div_ceil(blocks * side);
            for block in 0..blocks {
                let c = (block * side).min(columns.len() - side);
                let to = &columns[c..c + side];
                let from = from.add(c * e);
                if let Some(lines) = direct {
                    lines(from, places, dst, to, &mut ahead);
                    continue;
                }
                if !stream {
                    (self.run)(from, places, side, dst, to);
                    continue;
                }
                (self.run)(from, places, side, out, &self.leaving);
                if joined {
                    copy_from_stage(out, dst.offset(to[0]), bytes * side);
                    (0..lines * side).for_each(|_| ahead.prefetch_next_line());
                } else {
                    for (from, to) in self.leaving.iter().zip(to) {
                        copy_from_stage(out.offset(*from), dst.offset(*to), bytes);
                        (0..lines).for_each(|_| ahead.prefetch_next_line());
                    }
                }
            }
        }
    }
}

impl GatherTile {
    /// # Safety
    /// As [`Small::run_tile`].
    #[inline(never)]
    #[allow(clippy::too_many_arguments, reason = "all of them are of one tile")]
    unsafe fn gather_tile(
        &self,
        src: *const u8,
        dst: *mut u8,
        x: ByteLoop,
        y: ByteLoop,
        row: usize,
        next: *const u8,
        carries: *mut LineCarries,
        stream: bool,
    ) {
        // Long stretches are prefetched by the hardware, which was measured to be disturbed by prefetches of ours.
        if stream && self.ahead.1 < MIN_BROKEN_STREAM_BYTES {
            for stretch in &self.ahead.0 {
                for at in (0..self.ahead.1).step_by(LINE_BYTES) {
                    prefetch_line(next.wrapping_offset(*stretch).wrapping_add(at));
                }
            }
        }
        // SAFETY: offsets are those of the loops, which the caller vouches for; the stage holds a row,
        // all of which is written before it is handed over.
        unsafe {
            for j in 0..y.n {
                for (k, (a, b)) in self.rows.iter().enumerate() {
                    let (s, d) = (src.offset(j * y.src + a), dst.offset(j * y.dst + b));
                    // Runs of a row begin anywhere in a line, so the row is made whole before it is stored.
                    let out = if stream { (*carries).stage_memory() } else { d };
                    if self.along_x {
                        (self.run)(&self.gather, s, out, x.n, x);
                    } else {
                        for i in 0..x.n {
                            for (a, b) in &self.within {
                                let s = s.offset(i * x.src + a);
                                let out = out.offset(i * x.dst + b);
                                (self.run)(&self.gather, s, out, self.along.n, self.along);
                            }
                        }
                    }
                    if stream {
                        let k = j.unsigned_abs() * self.rows.len() + k;
                        extend_row(&mut *carries, k, d, row);
                    }
                }
            }
        }
    }
}

impl Small {
    /// Whether rows grow from tile to tile, so that their unfinished lines are kept for the next tile.
    pub(in super::super) fn grows_rows(&self) -> bool {
        matches!(self.program, SmallProgram::Gather(_))
    }

    /// Bytes of a row of a whole tile.
    pub(in super::super) fn row_bytes(&self) -> usize {
        self.row
    }

    /// Rows of a tile that grow, for every step of `y`.
    pub(in super::super) fn growing_rows(&self) -> usize {
        match &self.program {
            SmallProgram::Gather(tile) => tile.rows.len(),
            SmallProgram::Squares(_) => 0,
        }
    }

    /// One tile; `next` is where the next one begins in the source.
    ///
    /// # Safety
    /// Every element of the tile is readable at `src` and writable at `dst`, the two do not overlap, and
    /// the loops are no longer than the parts that the job was made with. Where stores are non-temporal,
    /// `carries` has a line for every row, and is written out after the last tile.
    #[allow(clippy::too_many_arguments, reason = "all of them are of one tile")]
    pub(in super::super) unsafe fn run_tile(
        &self,
        src: *const u8,
        dst: *mut u8,
        x: ByteLoop,
        y: ByteLoop,
        next: *const u8,
        carries: *mut LineCarries,
        stream: bool,
    ) {
        // SAFETY: by the contract of this function.
        unsafe {
            match &self.program {
                SmallProgram::Gather(tile) => {
                    let row = if x.dst == 0 { self.row } else { (x.n * x.dst).unsigned_abs() };
                    tile.gather_tile(src, dst, x, y, row, next, carries, stream);
                }
                SmallProgram::Squares(tile) => {
                    tile.transpose_tile(
                        src,
                        dst,
                        (x.n.unsigned_abs(), y.n.unsigned_abs()),
                        next,
                        stream,
                    );
                }
            }
        }
    }
}

/// Copies `bytes` of every row to its place in the stage.
///
/// # Safety
/// Rows are readable at `src`, their places writable at `stage`, and the machine has the instructions of
/// [`WideLane`].
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2"))]
unsafe fn gather_to_stage(
    src: *const u8,
    rows: &[isize],
    bytes: usize,
    stage: *mut u8,
    places: &[isize],
) {
    for (row, place) in rows.iter().zip(places) {
        // SAFETY: by the contract of this function.
        unsafe {
            cell::copy_bytes::<WideLane, false>(src.offset(*row), stage.offset(*place), bytes);
        }
    }
}

/// Copies a row out of the stage, past the caches.
///
/// # Safety
/// `bytes` are readable at `from` and writable at `to`, and the machine has the instructions of [`WideLane`].
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2"))]
unsafe fn copy_from_stage(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: by the contract of this function.
    unsafe { cell::copy_bytes::<WideLane, true>(from, to, bytes) };
}

/// Hands over a row that grows.
///
/// # Safety
/// As [`LineCarries::hand_over`], and the machine has the instructions of [`WideLane`].
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2"))]
unsafe fn extend_row(carries: &mut LineCarries, row: usize, to: *mut u8, bytes: usize) {
    // SAFETY: by the contract of this function.
    unsafe { carries.hand_over::<WideLane>(row, to, bytes) };
}
