//! A nest made ready to run: a kernel for its inner loops, an odometer for the rest.
//!
//! **Idea.** How fast a move is depends on how many bytes are adjacent, and on which side. The table of
//! [`strategies`](super::strategies) therefore looks for the best case first, and gives one loop, or a pair of
//! loops, to a kernel. The two loops around the rows of the kernel are cut into tiles, small enough that every
//! line and page which a tile touches is used up while the caches still hold it. An odometer counts the other
//! loops.
//!
//! **Invariant.** Loops are reordered, split, fused and reversed, and what they visit stays the same: a job visits
//! every combination of the digits of its loops with every start once. A plan writes every address once, so
//! tiles may run in any order and on any thread, and the bytes are the same.
//!
//! **Cost.** Making a job takes time quadratic in the number of loops, whatever the number of
//! elements; running it costs one call of a kernel for every tile and a few additions around it.

use super::elements::ElementsKernel;
use super::repeat::RepeatedStretch;
use super::reverse::ReverseKernel;
use super::row_job::{RowRewrites, build_row_job};
use super::rows::{RowCopyKernel, TableCopyKernel};
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use super::small::Small;
use super::splat::SplatKernel;
use super::staged::{self, StagedConversion};
use super::strategies::build_copy_job;
use super::stream::StreamRule;
use super::transpose::TransposeKernel;
use crate::engine::tuning::{CONVERT_CHUNK_ELEMENTS, FILL_PATTERN_BYTES, MIN_CONVERT_RUN_ELEMENTS};
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

/// The fill element, repeated.
pub(super) fn repeat_fill_element(element: &[u8]) -> FillPattern {
    element.repeat(FILL_PATTERN_BYTES / element.len().max(1))
}

/// The kernel that runs at every position of the odometer.
#[derive(Debug, Clone)]
pub(super) enum JobKernel {
    /// Runs of adjacent bytes.
    Rows { run: StoreVariants<RowCopyKernel>, bytes: usize },
    /// Runs of adjacent bytes at every start: small tables, such as those of a swizzle.
    Table { run: StoreVariants<TableCopyKernel>, bytes: usize },
    /// A tile of single elements, adjacent along `y` in the source and along `x` in the destination.
    /// A `far` one reads more than the caches hold; in a `skewed` one every row of the destination begins
    /// at another offset from a line.
    Transpose { run: StoreVariants<TransposeKernel>, far: bool, skewed: bool },
    /// Rows of one element each.
    Splat { run: StoreVariants<SplatKernel>, bytes: usize },
    /// Rows that are read backwards in the source.
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

/// A kernel with usual and with non-temporal stores.
#[derive(Debug, Clone, Copy)]
pub(super) struct StoreVariants<F> {
    usual: F,
    non_temporal: F,
}

impl<F: Copy> StoreVariants<F> {
    pub(super) fn new(select: impl Fn(bool) -> F) -> StoreVariants<F> {
        StoreVariants { usual: select(false), non_temporal: select(true) }
    }

    pub(super) fn for_stores(self, stream: bool) -> F {
        if stream { self.non_temporal } else { self.usual }
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
        build_copy_job(loops, starts, width, stream)
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
        // A converter has a fixed price for every run, so short runs are brought together in a stage first.
        if count < MIN_CONVERT_RUN_ELEMENTS && !loops.is_empty() {
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
            // The stage writes whole rows of tiles, wherever they begin.
            let stream = if kernel.stream { StreamRule::Always } else { StreamRule::Never };
            let kernel = JobKernel::Staged(kernel);
            return NestJob { kernel, stream, x, y, tile, x_first: false, outer, starts };
        }
        // A long run alone is cut, so that threads have something to share. A remainder would need a job of its
        // own, so a run that the chunk does not divide stays whole.
        let chunk = CONVERT_CHUNK_ELEMENTS;
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
        // The same tiles as for plain rows, of the wider side, so that neither side leaves the caches.
        let width = converter.dst_format().byte_size().max(converter.src_format().byte_size());
        let rewrites = if from > to { RowRewrites::Narrower } else { RowRewrites::Converted };
        let rows = build_row_job(loops, starts, count * width, stream, rewrites);
        let stream = rows.choose_stream(stream, count * converter.dst_format().byte_size());
        NestJob { kernel: JobKernel::Convert { converter: *converter, count }, stream, ..rows }
    }

    /// Makes a fill ready: its source is a [`FillPattern`], read from the start by every run.
    ///
    /// A run is written in equal parts that fit the pattern; where those would be short, in whole
    /// patterns, and the remainder by a job of its own.
    pub(super) fn fill_jobs(
        fill: &FillNest,
        width: usize,
        stream: bool,
    ) -> impl Iterator<Item = NestJob> {
        let most = (FILL_PATTERN_BYTES / width).cast_signed();
        let run = fill.loops.iter().position(|(_, stride)| *stride == 1);
        let n = run.map_or(1, |i| isize::try_from(fill.loops[i].0).unwrap_or(isize::MAX));
        // Equal parts are one job; the largest that divides the run, unless it is so short (a run of a prime
        // length has parts of one element) that two jobs write faster.
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
            build_row_job(loops, starts, part.unsigned_abs() * width, stream, RowRewrites::Copied)
        })
    }

    /// Whether the starts are the innermost loop.
    pub(super) fn is_table(&self) -> bool {
        matches!(self.kernel, JobKernel::Table { .. })
    }
}

/// The loop with the smallest nonzero stride on one side.
pub(super) fn smallest_stride_loop(
    loops: &[ByteLoop],
    stride: fn(&ByteLoop) -> isize,
) -> Option<usize> {
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
pub(super) fn round_to_lines(tile: isize, width: isize) -> isize {
    let unit = (64 / width).max(1);
    (tile + unit - 1) / unit * unit
}

/// Elements as bytes. Strides and offsets of a plan stay inside its buffers, whose length in bytes was
/// checked to fit.
fn elements_to_bytes(elements: i64, width: isize) -> isize {
    isize::try_from(elements).expect("inside a buffer") * width
}
