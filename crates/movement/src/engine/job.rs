//! A nest made ready to run: a kernel for its inner loops, an odometer for the rest.
//!
//! **Idea.** How fast a move is depends on how many bytes are adjacent, and where. A job therefore
//! looks for the best case first: a run that is adjacent on both sides is copied as a row, one long
//! run in chunks; an element that is repeated is spread over its row; a run that the source holds
//! backwards is reversed; several short loops that are adjacent together are a small tile; a loop
//! adjacent in the source and another one adjacent in the destination are a transpose; what is
//! adjacent nowhere moves one element at a time. That loop, or that pair of
//! loops, goes to a kernel. The two loops around the kernel's rows are cut into tiles, small enough
//! that every line and page which a tile touches is used up while the caches still hold it. An
//! odometer counts the other loops.
//!
//! **Invariant.** Loops are reordered, split and fused, and never changed: a job visits every
//! combination of the digits of its loops with every start once. A plan writes every place once, so
//! tiles may run in any order and on any thread, and the bytes are the same.
//!
//! **Cost.** Making a job takes time quadratic in the number of loops, whatever the number of
//! elements; running it costs one call of a kernel for every tile and a few additions around it.

use super::elements::{self, ElementsKernel};
use super::lines;
use super::repeat::{self, RepeatedStretch};
use super::reverse::{self, ReverseKernel};
use super::rows::{self, RowCopyKernel, TableCopyKernel};
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use super::small::{self, Small};
use super::splat::{self, SplatKernel};
use super::staged::{self, StagedConversion};
use super::stream::{LINE_BYTES, LONG_ROW_BYTES, StreamRule};
use super::transpose::{self, MAX_ROW_BYTES, TileShape, TransposeKernel};
use crate::plan::{CopyLoop, CopyNest, FillNest};
use zellige_float::Converter;

/// A loop in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ByteLoop {
    pub(super) n: isize,
    pub(super) src: isize,
    pub(super) dst: isize,
}

impl ByteLoop {
    pub(super) const UNIT_LOOP: ByteLoop = ByteLoop { n: 1, src: 0, dst: 0 };
}

/// Repeated copies of a fill element.
pub(super) type FillPattern = Vec<u8>;

/// Bytes of a pattern: the longest run that one fill writes.
const PATTERN_BYTES: usize = 4096;

/// The fill element, repeated.
pub(super) fn repeat_fill_element(element: &[u8]) -> FillPattern {
    element.repeat(PATTERN_BYTES / element.len().max(1))
}

/// What becomes of the bytes of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RowRewrites {
    /// They stay.
    Copied,
    /// As many bytes of another format.
    Converted,
    /// Fewer bytes.
    Narrower,
}

impl RowRewrites {
    /// Whether rows that are `apart` in the destination, where they follow one another in the source,
    /// may leave together with those near them there. Conversions are measured to be faster in the order
    /// of the source, but for rows of the same size that go to places near one another.
    fn leave_together(self, apart: isize) -> bool {
        match self {
            RowRewrites::Copied => true,
            RowRewrites::Converted => apart.unsigned_abs() < CONFLICT_STRIDE_BYTES,
            RowRewrites::Narrower => false,
        }
    }
}

/// What is done at every position of the odometer.
#[derive(Debug, Clone)]
pub(super) enum JobKernel {
    /// Runs of adjacent bytes.
    Rows { run: StoreVariants<RowCopyKernel>, bytes: usize },
    /// Runs of adjacent bytes at every start: small tables, such as those of a swizzle.
    Table { run: StoreVariants<TableCopyKernel>, bytes: usize },
    /// A tile of single elements, adjacent along `y` in the source and along `x` in the destination.
    /// A `far` one reads more than the caches hold; of a `skewed` one every row of the destination begins
    /// elsewhere in a line.
    Transpose { run: StoreVariants<TransposeKernel>, far: bool, skewed: bool },
    /// Rows of one element each.
    Splat { run: StoreVariants<SplatKernel>, bytes: usize },
    /// Rows that the source holds backwards.
    Reverse { run: ReverseKernel, count: usize },
    /// A stretch and its copies.
    Repeat(Box<RepeatedStretch>),
    /// Small tiles of several loops.
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    Small(Box<Small>),
    /// Single elements.
    Elements { run: ElementsKernel },
    /// Runs of adjacent elements, converted.
    Convert { converter: Converter, count: usize },
    /// Single elements, converted through a stage.
    Staged(StagedConversion),
    /// One long run, cut into chunks.
    Linear { run: StoreVariants<RowCopyKernel>, bytes: usize },
}

/// A kernel by usual stores and by those that go around the caches.
#[derive(Debug, Clone, Copy)]
pub(super) struct StoreVariants<F> {
    usual: F,
    around: F,
}

impl<F: Copy> StoreVariants<F> {
    fn new(select: impl Fn(bool) -> F) -> StoreVariants<F> {
        StoreVariants { usual: select(false), around: select(true) }
    }

    pub(super) fn for_stores(self, stream: bool) -> F {
        if stream { self.around } else { self.usual }
    }
}

/// A kernel, its two loops with the tiles they are cut into, and the loops around.
#[derive(Debug, Clone)]
pub(super) struct NestJob {
    pub(super) kernel: JobKernel,
    pub(super) stream: StreamRule,
    pub(super) x: ByteLoop,
    pub(super) y: ByteLoop,
    pub(super) tile: (isize, isize),
    /// Whether tiles follow one another along `x` first; otherwise along `y`.
    pub(super) x_first: bool,
    pub(super) outer: Vec<ByteLoop>,
    /// Offsets in bytes, sorted by destination.
    pub(super) starts: Vec<(isize, isize)>,
}

/// Bytes of a chunk of a long run.
pub(super) const LINEAR_CHUNK_BYTES: usize = 1 << 16;

/// Bytes of source that a tile of rows reads in one stretch, at most.
const TILE_SRC: usize = 1 << 16;
/// Bytes of destination that a tile of rows writes in one stretch, at most.
const TILE_DST: usize = 1 << 13;
/// Rows of a tile along the source, where those along the destination leave together.
const BURST_STEPS: isize = 16;
/// Steps below which a loop costs more than what is inside it, where that is a short row.
const FEW_STEPS: isize = 8;
/// Rows of at least this many bytes are written in the order of the destination, inside the caches.
const LONG_ROW: usize = 192;
/// Runs of at least this many elements are converted where they lie.
const LONG_RUN: usize = 16;
/// Adjacent bytes that a tile of a transpose through the caches writes, at most.
const BURST_BYTES: usize = 256;
/// Bytes of a row of the destination from which it is streamed although rows begin elsewhere in a line.
const SKEWED_ROW_BYTES: usize = 2048;
/// Rows that are a multiple of this many bytes apart crowd into few sets of the caches.
pub(super) const CONFLICT_STRIDE_BYTES: usize = 1 << 16;
/// Crowded rows that one tile reads, at most, unless it would then write less than a line.
pub(super) const CROWDED_ROWS: usize = 32;
/// Bytes of a tile of a transpose: it and the next one stay in the second level cache.
const TILE_BYTES: usize = 1 << 17;
/// Adjacent bytes that a tile of a transpose through the caches reads, at most.
const TILE_ROW: usize = 1 << 12;
/// Bytes of a transpose that leave the second level cache, and bytes between its rows from which the
/// hardware does not see them coming: tiles ask for the next one.
const FAR_ROW_BYTES: usize = 1 << 20;
const PAGE_BYTES: usize = 4096;
/// Single elements nearer than this in the source share lines, or pages that are fetched ahead.
const NEAR_ELEMENT_BYTES: usize = 256;
/// A tile of single elements along the source and the destination: its lines stay in the caches, and of wide
/// elements the hardware sees longer stretches of the source.
const ELEMENT_TILE: (isize, isize) = (16, 32);
const WIDE_SQUARE: (isize, isize) = (64, 16);
/// Rows of fewer bytes are reversed several at a time.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
const SHORT_REVERSE: isize = 32;
/// Runs shorter than this, with several starts, are a table.
const TABLE_RUN_BYTES: usize = 4096;

impl NestJob {
    /// Makes a nest of copies ready, for elements of `width` bytes.
    pub(super) fn copy_nest(nest: &CopyNest, width: usize, stream: bool) -> NestJob {
        let w = width.cast_signed();
        let axis = |l: &CopyLoop| ByteLoop {
            n: isize::try_from(l.range).unwrap_or(isize::MAX),
            src: elements_to_bytes(l.src, w),
            dst: elements_to_bytes(l.dst, w),
        };
        let starts = nest
            .starts
            .iter()
            .map(|(a, b)| (elements_to_bytes(*a, w), elements_to_bytes(*b, w)))
            .collect();
        let loops = nest.loops.iter().map(axis).collect();
        NestJob::build_from_loops(loops, starts, width, stream)
    }

    /// Makes a nest of converting copies ready.
    pub(super) fn convert_nest(nest: &CopyNest, converter: &Converter, stream: bool) -> NestJob {
        let (from, to) = (
            converter.src_format().byte_size().cast_signed(),
            converter.dst_format().byte_size().cast_signed(),
        );
        let mut count = 1;
        let mut loops = Vec::with_capacity(nest.loops.len());
        for l in &nest.loops {
            if l.src == 1 && l.dst == 1 && count == 1 {
                count = usize::try_from(l.range).unwrap_or(usize::MAX);
                continue;
            }
            let n = isize::try_from(l.range).unwrap_or(isize::MAX);
            loops.push(ByteLoop {
                n,
                src: elements_to_bytes(l.src, from),
                dst: elements_to_bytes(l.dst, to),
            });
        }
        if count < LONG_RUN && !loops.is_empty() {
            if count > 1 {
                loops.push(ByteLoop { n: count.cast_signed(), src: from, dst: to });
            }
            let starts = nest
                .starts
                .iter()
                .map(|(a, b)| (elements_to_bytes(*a, from), elements_to_bytes(*b, to)));
            let staged::StagedLoops { kernel, x, y, tile, outer } =
                staged::select_staged_loops(&loops, converter, stream);
            let starts = starts.collect();
            let stream = if kernel.stream { StreamRule::Always } else { StreamRule::Never };
            let kernel = JobKernel::Staged(kernel);
            return NestJob { kernel, stream, x, y, tile, x_first: false, outer, starts };
        }
        // A long run alone is cut, so that threads have something to share.
        let chunk = LINEAR_CHUNK_BYTES / 16;
        if loops.is_empty() && count > chunk && count % chunk == 0 {
            let n = (count / chunk).cast_signed();
            let step = chunk.cast_signed();
            loops.push(ByteLoop { n, src: step * from, dst: step * to });
            count = chunk;
        }
        let starts = nest
            .starts
            .iter()
            .map(|(a, b)| (elements_to_bytes(*a, from), elements_to_bytes(*b, to)))
            .collect();
        // The same tiles as for plain rows; each start is walked on its own.
        let width = converter.dst_format().byte_size().max(converter.src_format().byte_size());
        let rewrites = if from > to { RowRewrites::Narrower } else { RowRewrites::Converted };
        let rows = NestJob::build_rows(loops, starts, count * width, stream, rewrites);
        let stream = rows.choose_stream(stream, count * converter.dst_format().byte_size());
        NestJob { kernel: JobKernel::Convert { converter: *converter, count }, stream, ..rows }
    }

    /// Makes a fill ready: its source is a [`FillPattern`], read from the start by every run.
    ///
    /// A run is written in equal parts that fit the pattern; where those would be short, in whole
    /// patterns, and what is left behind them by a job of its own.
    pub(super) fn fill_jobs(
        fill: &FillNest,
        width: usize,
        stream: bool,
    ) -> impl Iterator<Item = NestJob> {
        let most = (PATTERN_BYTES / width).cast_signed();
        let run = fill.loops.iter().position(|(_, stride)| *stride == 1);
        let n = run.map_or(1, |i| isize::try_from(fill.loops[i].0).unwrap_or(isize::MAX));
        let equal = (1..=most.min(n)).rev().find(|part| n % part == 0).unwrap_or(1);
        let (behind, rest) = (n - n % most, n % most);
        let parts = if 4 * equal >= most.min(n) {
            [Some((0, n, equal)), None]
        } else {
            [Some((0, behind, most)), Some((behind, rest, rest))]
        };
        parts.into_iter().flatten().map(move |(from, n, part)| {
            let w = width.cast_signed();
            let axis = |(i, (range, stride)): (usize, &(i64, i64))| match run {
                Some(along) if along == i => ByteLoop { n: n / part, src: 0, dst: part * w },
                _ => ByteLoop {
                    n: isize::try_from(*range).unwrap_or(isize::MAX),
                    src: 0,
                    dst: elements_to_bytes(*stride, w),
                },
            };
            let loops = fill.loops.iter().enumerate().map(axis).collect();
            let starts =
                fill.starts.iter().map(|b| (0, elements_to_bytes(*b, w) + from * w)).collect();
            NestJob::build_rows(
                loops,
                starts,
                part.unsigned_abs() * width,
                stream,
                RowRewrites::Copied,
            )
        })
    }

    fn build_from_loops(
        mut loops: Vec<ByteLoop>,
        mut starts: Vec<(isize, isize)>,
        width: usize,
        stream: bool,
    ) -> NestJob {
        let w = width.cast_signed();
        let mut bytes = width;
        let run = loops.iter().position(|l| l.src == w && l.dst == w);
        if starts.len() == 1
            && let Some(split) = repeat::split_repeat_loop(&loops, width)
        {
            #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
            if split.is_short()
                && let Some(job) = small::select_outside_run(&loops, run, &starts, width, stream)
            {
                return job;
            }
            let body = NestJob::build_from_loops(split.inner.clone(), vec![(0, 0)], width, false);
            let repeat = RepeatedStretch::new(&split, body, stream);
            let (x, y, tile) = (ByteLoop::UNIT_LOOP, split.over, (1, repeat.tile_steps()));
            let (kernel, stream) = (JobKernel::Repeat(Box::new(repeat)), StreamRule::Always);
            return NestJob {
                kernel,
                stream,
                x,
                y,
                tile,
                x_first: false,
                outer: split.outer,
                starts,
            };
        }
        if let Some(i) = run {
            bytes = loops.remove(i).n.unsigned_abs() * width;
        }
        if loops.is_empty() && starts.len() == 1 && bytes > LINEAR_CHUNK_BYTES {
            let chunks = bytes.div_ceil(LINEAR_CHUNK_BYTES).cast_signed();
            let step = LINEAR_CHUNK_BYTES.cast_signed();
            return NestJob {
                kernel: JobKernel::Linear {
                    run: StoreVariants::new(|s| rows::select_row_kernel(bytes, s)),
                    bytes,
                },
                stream: StreamRule::for_rows(stream, bytes, std::iter::empty()),
                x: ByteLoop::UNIT_LOOP,
                y: ByteLoop { n: chunks, src: step, dst: step },
                tile: (1, chunks),
                x_first: false,
                outer: Vec::new(),
                starts,
            };
        }
        if !matches!(bytes, 1 | 2 | 4 | 8 | 16) {
            #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
            if let Some(job) = small::select_small_tiles(&loops, &starts, bytes, stream) {
                return job;
            }
            return NestJob::build_rows(loops, starts, bytes, stream, RowRewrites::Copied);
        }
        // A short run is one wider element.
        let e = bytes.cast_signed();
        if let Some(i) = loops.iter().position(|l| l.src == 0 && l.dst == e && l.n > 1)
            && loops[i].n.unsigned_abs() * bytes >= splat::MIN_SPLAT_BYTES
        {
            let mut long = loops.remove(i).n.unsigned_abs() * bytes;
            // One long row is cut, so that threads have something to share.
            if loops.is_empty()
                && long > LINEAR_CHUNK_BYTES
                && long.is_multiple_of(LINEAR_CHUNK_BYTES)
            {
                let n = (long / LINEAR_CHUNK_BYTES).cast_signed();
                loops.push(ByteLoop { n, src: 0, dst: LINEAR_CHUNK_BYTES.cast_signed() });
                long = LINEAR_CHUNK_BYTES;
            }
            let run = StoreVariants::new(|s| splat::select_splat_kernel(bytes, long, s));
            let rows = NestJob::build_rows(loops, starts, long, false, RowRewrites::Copied);
            // Around the caches only in long rows: their first and last lines are broken.
            let stream = if stream && long >= LONG_ROW_BYTES {
                StreamRule::Always
            } else {
                StreamRule::Never
            };
            return NestJob { kernel: JobKernel::Splat { run, bytes: long }, stream, ..rows };
        }
        let back = loops.iter().position(|l| l.src == -e && l.dst == e && l.n > 1);
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        if back.is_some_and(|i| loops[i].n * e < SHORT_REVERSE)
            && let Some(job) = small::select_small_tiles(&loops, &starts, bytes, stream)
        {
            return job;
        }
        if let Some(i) = back {
            let count = loops.remove(i).n.unsigned_abs();
            let kernel = JobKernel::Reverse { run: reverse::select_reverse_kernel(bytes), count };
            return NestJob {
                kernel,
                ..NestJob::build_rows(loops, starts, count * bytes, false, RowRewrites::Copied)
            };
        }
        reverse_backward_loops(&mut loops, &mut starts, e);
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        if let Some(job) = small::select_small_tiles(&loops, &starts, bytes, stream) {
            return job;
        }
        let along = |f: fn(&ByteLoop) -> isize| {
            let fits = loops.iter().enumerate().filter(|(_, l)| f(l) == e && l.n > 1);
            fits.max_by_key(|(_, l)| l.n).map(|(i, _)| i)
        };
        if let (Some(a), Some(b)) = (along(|l| l.dst), along(|l| l.src))
            && a != b
        {
            let (x, y) = (loops[a], loops[b]);
            let mut outer = without_loops(&loops, &[a, b]);
            let crowded = x.src.unsigned_abs().is_multiple_of(CONFLICT_STRIDE_BYTES);
            let usual = TileShape {
                burst: BURST_BYTES,
                row: TILE_ROW,
                crowded_rows: CROWDED_ROWS,
                along_src: false,
            };
            let shape = if stream { TileShape::best_for_machine(crowded) } else { usual };
            let row = x.n.unsigned_abs() * bytes;
            let whole = |l: &ByteLoop| l.dst.unsigned_abs().is_multiple_of(LINE_BYTES);
            let skewed =
                stream && row >= SKEWED_ROW_BYTES && !(whole(&y) && outer.iter().all(whole));
            // A skewed tile has a line of the next one.
            let burst = if skewed { MAX_ROW_BYTES - LINE_BYTES } else { shape.burst };
            let most = burst / bytes;
            let most = if crowded { most.min(shape.crowded_rows) } else { most };
            let rows = round_to_lines(even_tile(x.n, most.cast_signed()), e);
            let row = (TILE_BYTES / rows.unsigned_abs()).min(shape.row).cast_signed();
            let run = StoreVariants::new(|s| transpose::select_transpose(bytes, s));
            let total = loops.iter().fold(bytes, |all, l| all.saturating_mul(l.n.unsigned_abs()));
            let far = stream || total >= FAR_ROW_BYTES && x.src.unsigned_abs() >= PAGE_BYTES;
            // A tile writes at most a burst of every row.
            let burst = (x.n.min(rows) * e).unsigned_abs();
            let tile = (rows, round_to_lines(even_tile(y.n, row / e), e));
            // Whole rows that follow one another leave together.
            let joined = x.n <= rows && y.dst == burst.cast_signed() && burst >= LINE_BYTES;
            if joined && stream {
                // They are far apart however they are ordered; what is read is then in order.
                outer.sort_by_key(|l| std::cmp::Reverse(l.src.unsigned_abs()));
            }
            let long = if joined { burst * y.n.min(tile.1).unsigned_abs() } else { burst };
            let steps = [x.n * e, y.dst].into_iter().chain(outer.iter().map(|l| l.dst));
            let stream = match StreamRule::for_rows(
                stream,
                burst,
                steps.chain(starts.iter().map(|s| s.1)),
            ) {
                _ if stream && long >= LONG_ROW_BYTES || skewed => StreamRule::Always,
                known => known,
            };
            return NestJob {
                kernel: JobKernel::Transpose { run, far, skewed },
                stream,
                tile,
                x_first: !shape.along_src,
                x,
                y,
                outer,
                starts,
            };
        }
        if starts.len() > 1 {
            return NestJob::build_rows(loops, starts, bytes, stream, RowRewrites::Copied);
        }
        // Nothing adjacent: along the destination, in tiles along what is nearest in the source.
        let (mut x, mut y) = (ByteLoop::UNIT_LOOP, ByteLoop::UNIT_LOOP);
        let mut tile = (64, 4096);
        if let Some(i) = smallest_stride_loop(&loops, |l| l.dst) {
            y = loops.remove(i);
        }
        if let Some(i) = smallest_stride_loop(&loops, |l| l.src)
            && loops[i].src.unsigned_abs() < y.src.unsigned_abs().min(NEAR_ELEMENT_BYTES)
        {
            x = loops.remove(i);
            tile = if bytes == 16 { WIDE_SQUARE } else { ELEMENT_TILE };
        } else if let Some(i) = smallest_stride_loop(&loops, |l| l.dst) {
            x = loops.remove(i);
        }
        let kernel = JobKernel::Elements { run: elements::select_elements_kernel(bytes) };
        NestJob {
            kernel,
            stream: StreamRule::Never,
            tile,
            x_first: false,
            x,
            y,
            outer: loops,
            starts,
        }
    }

    /// Rows of `bytes`: the two loops that are nearest in source and destination are tiled, so that
    /// both sides see long stretches.
    fn build_rows(
        mut loops: Vec<ByteLoop>,
        mut starts: Vec<(isize, isize)>,
        bytes: usize,
        stream: bool,
        rewrites: RowRewrites,
    ) -> NestJob {
        let table = starts.len() > 1 && bytes < TABLE_RUN_BYTES;
        if table {
            starts.sort_unstable_by_key(|(_, b)| *b);
        }
        let kernel = if table {
            let joined =
                lines::select_line_table(bytes).filter(|_| lines::runs_fill_lines(&starts, bytes));
            let run = StoreVariants::new(|s| {
                joined.filter(|_| s).unwrap_or_else(|| rows::select_table_kernel(bytes, s))
            });
            JobKernel::Table { run, bytes }
        } else {
            JobKernel::Rows {
                run: StoreVariants::new(|s| rows::select_row_kernel(bytes, s)),
                bytes,
            }
        };
        let near_dst = smallest_stride_loop(&loops, |l| l.dst);
        let near_src = smallest_stride_loop(&loops, |l| l.src);
        let (mut x, mut y) = (ByteLoop::UNIT_LOOP, ByteLoop::UNIT_LOOP);
        match (near_dst, near_src) {
            (Some(d), Some(s)) if d != s => {
                (x, y) = (loops[d], loops[s]);
                loops = without_loops(&loops, &[d, s]);
            }
            (Some(d), _) => {
                y = loops.remove(d);
                if let Some(i) = smallest_stride_loop(&loops, |l| l.dst) {
                    x = loops.remove(i);
                }
            }
            (None, _) => {}
        }
        // Long stretches where the source is adjacent, as far as a page of them helps; fewer rows of
        // the destination, which streamed stores complete line by line anyway.
        let side = |most: usize| (most / bytes.max(1)).max(1).cast_signed();
        let mut tile = (even_tile(x.n, side(TILE_DST)), even_tile(y.n, side(TILE_SRC)));
        // In the caches the loop whose rows follow one another is better inside: in the source, or in the
        // destination where those of the source do not, or stand still. Otherwise the longer one is.
        let side_by_side = |stride: isize| stride == bytes.cast_signed();
        let along_dst = x.n >= FEW_STEPS && side_by_side(x.dst);
        let better = x.src == 0 || !side_by_side(y.src);
        if !stream && (y.n < FEW_STEPS && x.n > y.n || along_dst && better) {
            (x, y) = (y, x);
            tile = (tile.1, tile.0);
            if along_dst && better && bytes >= LONG_ROW {
                // Each of them is more than a line or two: one long stretch of the destination at a time.
                tile = (1, even_tile(y.n, side(TILE_SRC)));
            }
        }
        // Where short bursts of streamed stores are slow, rows that are near in the destination leave
        // together; the tile still reads a few rows in one stretch.
        let bursts = stream
            && !table
            && bytes < LONG_ROW_BYTES
            && x.n > 1
            && rewrites.leave_together(y.dst)
            && rows::streams_by_bursts(y.dst);
        if bursts {
            // Not fewer bytes than are worth joining, where the lines of the destination are broken.
            let together = LONG_ROW_BYTES.div_ceil(bytes.max(1)).cast_signed();
            tile = (even_tile(y.n, BURST_STEPS), x.n.min(together));
            (x, y) = (y, x);
        }
        let never = StreamRule::Never;
        let job =
            NestJob { kernel, stream: never, tile, x_first: bursts, x, y, outer: loops, starts };
        NestJob { stream: job.choose_stream(stream, bytes), ..job }
    }

    /// Where rows of `bytes` at the places of this job are streamed.
    fn choose_stream(&self, asked: bool, bytes: usize) -> StreamRule {
        if self.is_table() && lines::runs_fill_lines(&self.starts, bytes) {
            // The pieces of a line follow one another.
            let steps = self.outer.iter().chain([&self.x, &self.y]).map(|l| l.dst);
            return StreamRule::for_rows(asked, LINE_BYTES, steps);
        }
        let loops = self.outer.iter().chain([&self.x, &self.y]).map(|l| l.dst);
        StreamRule::for_rows(asked, bytes, loops.chain(self.starts.iter().map(|s| s.1)))
    }

    /// Whether the starts are the innermost loop.
    pub(super) fn is_table(&self) -> bool {
        matches!(self.kernel, JobKernel::Table { .. })
    }
}

/// Loops whose source is adjacent backwards are walked from their other end, so that it is adjacent
/// forwards: their steps may be taken in any order. Where the destination is adjacent, it stays so.
fn reverse_backward_loops(loops: &mut [ByteLoop], starts: &mut [(isize, isize)], element: isize) {
    for l in loops.iter_mut().filter(|l| l.src == -element && l.dst != element && l.n > 1) {
        for (a, b) in starts.iter_mut() {
            *a += (l.n - 1) * l.src;
            *b += (l.n - 1) * l.dst;
        }
        (l.src, l.dst) = (-l.src, -l.dst);
    }
}

/// The loop with the smallest nonzero stride on one side.
fn smallest_stride_loop(loops: &[ByteLoop], stride: fn(&ByteLoop) -> isize) -> Option<usize> {
    let moving = loops.iter().enumerate().filter(|(_, l)| stride(l) != 0);
    moving.min_by_key(|(_, l)| stride(l).abs()).map(|(i, _)| i).or(if loops.is_empty() {
        None
    } else {
        Some(0)
    })
}

pub(super) fn without_loops(loops: &[ByteLoop], drop: &[usize]) -> Vec<ByteLoop> {
    loops.iter().enumerate().filter(|(i, _)| !drop.contains(i)).map(|(_, l)| *l).collect()
}

/// A tile of about `most` steps that cuts `n` into nearly equal parts.
pub(super) fn even_tile(n: isize, most: isize) -> isize {
    let parts = n.unsigned_abs().div_ceil(most.max(1).unsigned_abs()).max(1);
    n.unsigned_abs().div_ceil(parts).max(1).cast_signed()
}

/// A tile rounded up to whole 64-byte lines, so that the next one begins on a line too.
fn round_to_lines(tile: isize, width: isize) -> isize {
    let unit = (64 / width).max(1);
    (tile + unit - 1) / unit * unit
}

/// Elements as bytes. Strides and offsets of a plan stay inside its buffers, whose length in bytes was
/// checked to fit.
fn elements_to_bytes(elements: i64, width: isize) -> isize {
    isize::try_from(elements).expect("inside a buffer") * width
}
