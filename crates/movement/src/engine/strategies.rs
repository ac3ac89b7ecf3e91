//! Which kernel copies a nest: an ordered table of strategies, of which the first that fits is taken.
//!
//! A strategy is a way to copy a nest of loops whose elements keep their bytes. `fits` is a cheap test of the
//! loops; `build` plans the job, and returns none where the plan would be slower than those of later rows. The last row fits every nest.
//!
//! **Order.** A kernel is as fast as the stretches that it reads and writes are long. The table therefore
//! tries the longest stretches first: what is repeated (a stretch is made once and copied), then runs that
//! are adjacent on both sides, then what is adjacent in the destination alone, and at last single elements.
//! A comment at each row gives the reason for its position.
//!
//! **Law.** Every row copies the same elements to the same addresses: the table decides about speed alone.

use super::elements;
use super::job::{
    ByteLoop, JobKernel, NestJob, StoreVariants, even_tile, round_to_lines, smallest_stride_loop,
    without_loops,
};
use super::repeat::{self, RepeatSplit, RepeatedStretch};
use super::reverse;
use super::row_job::{RowRewrites, build_row_job};
use super::rows;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use super::small;
use super::splat;
use super::stream::{LINE_BYTES, StreamRule};
use super::transpose::{self, TileShape};
use crate::engine::tuning::{
    CONFLICT_STRIDE_BYTES, FAR_ELEMENT_TILE_STEPS, LINEAR_CHUNK_BYTES, MAX_NEAR_STEP_BYTES,
    MAX_TILE_ROW_BYTES, MIN_BROKEN_STREAM_BYTES, MIN_FAR_TRANSPOSE_BYTES, MIN_REVERSED_ROW_BYTES,
    MIN_SKEWED_ROW_BYTES, MIN_SPLAT_ROW_BYTES, NEAR_ELEMENT_TILE_STEPS, PAGE_BYTES,
    TRANSPOSE_TILE_BYTES, WIDE_ELEMENT_TILE_STEPS,
};

/// A nest of copies, in bytes, while a kernel is looked for.
pub(super) struct NestLoops {
    /// The run that is adjacent on both sides, where there is one, and its position among the loops of the plan.
    run: Option<(usize, ByteLoop)>,
    /// The loops around the run.
    around: Vec<ByteLoop>,
    /// Bytes of that run, or of an element: what a kernel moves as one.
    unit: usize,
    /// Bytes of an element.
    width: usize,
    /// Offsets of source and destination at which the loops begin.
    starts: Vec<(isize, isize)>,
    /// Whether the move is more than the caches hold.
    stream: bool,
}

/// A way to copy a nest.
struct CopyStrategy {
    /// Its name in `docs/engine.md`.
    #[cfg_attr(
        not(test),
        allow(dead_code, reason = "tests compare it with the row that was chosen")
    )]
    name: &'static str,
    /// Whether loops that read backwards are reversed before this row is tried. Rows before the first one
    /// with this mark want to see them as they are.
    reads_forwards: bool,
    /// Whether the loops are of this kind.
    fits: fn(&NestLoops) -> bool,
    /// The job, or none where it would be slower than those of later rows.
    build: fn(&mut NestLoops) -> Option<NestJob>,
}

/// The strategies, in the order in which they are tried.
static STRATEGIES: [CopyStrategy; 12] = [
    // Before the run of the nest is looked at, because a repeated stretch may be larger than a run: it is
    // gathered once, whatever it takes, and its copies are rows of many lines. Short stretches are better as
    // a part of a small tile, which makes whole lines of several copies at once; a job of its own would be
    // called for every few dozen bytes.
    CopyStrategy {
        name: "small tiles of a short repeat",
        reads_forwards: false,
        fits: NestLoops::has_repeat_loop,
        build: build_small_tiles_of_repeat,
    },
    CopyStrategy {
        name: "repeat",
        reads_forwards: false,
        fits: NestLoops::has_repeat_loop,
        build: build_repeat,
    },
    // One run and nothing around it: there is no loop to cut for the threads, so the run itself is cut.
    CopyStrategy {
        name: "linear",
        reads_forwards: false,
        fits: NestLoops::is_one_long_run,
        build: build_linear,
    },
    // Runs that are no register are no elements either: every row below this pair moves elements of 1, 2, 4,
    // 8 or 16 bytes. Small tiles come first because they take short runs together that rows would copy by a
    // call each; they refuse long ones.
    CopyStrategy {
        name: "small tiles of runs",
        reads_forwards: false,
        fits: |nest| !nest.moves_elements(),
        build: build_small_tiles,
    },
    CopyStrategy {
        name: "rows",
        reads_forwards: false,
        fits: |nest| !nest.moves_elements(),
        build: build_rows_of_runs,
    },
    // An element that fills a row is read once for all of it: no other row stores as much for a load.
    CopyStrategy {
        name: "splat",
        reads_forwards: false,
        fits: |nest| nest.find_splat_loop().is_some(),
        build: build_splat,
    },
    // A row that is read backwards is adjacent on both sides, so it comes before transposes. Short rows are
    // shuffled several at a time first, because the kernel for reversed rows has a call for each.
    CopyStrategy {
        name: "small tiles of short reversed rows",
        reads_forwards: false,
        fits: NestLoops::has_short_reversed_rows,
        build: build_small_tiles,
    },
    CopyStrategy {
        name: "reverse",
        reads_forwards: false,
        fits: |nest| nest.find_reversed_loop().is_some(),
        build: build_reverse,
    },
    // Every loop that is left is adjacent on one side at most. Loops that read backwards are reversed
    // now: the kernels below know adjacent elements in rising order alone. Small tiles come
    // before the transpose because they refuse loops that are long enough for it.
    CopyStrategy {
        name: "small tiles",
        reads_forwards: true,
        fits: |_| true,
        build: build_small_tiles,
    },
    CopyStrategy {
        name: "transpose",
        reads_forwards: true,
        fits: |nest| nest.find_transposed_loops().is_some(),
        build: build_transpose,
    },
    // Single elements at several starts, such as those of a swizzle: the starts become the innermost loop.
    CopyStrategy {
        name: "rows of elements at several starts",
        reads_forwards: true,
        fits: |nest| nest.starts.len() > 1,
        build: build_rows_of_runs,
    },
    CopyStrategy { name: "elements", reads_forwards: true, fits: |_| true, build: build_elements },
];

/// The job of a nest of copies for elements of `width` bytes.
pub(super) fn build_copy_job(
    loops: Vec<ByteLoop>,
    starts: Vec<(isize, isize)>,
    width: usize,
    stream: bool,
) -> NestJob {
    choose_strategy(NestLoops::new(loops, starts, width, stream)).1
}

/// The first strategy that fits and pays, and its job.
fn choose_strategy(mut nest: NestLoops) -> (&'static CopyStrategy, NestJob) {
    let chosen = STRATEGIES.iter().find_map(|strategy| {
        if strategy.reads_forwards {
            nest.reverse_backward_loops();
        }
        let job = if (strategy.fits)(&nest) { (strategy.build)(&mut nest) } else { None };
        job.map(|job| (strategy, job))
    });
    chosen.expect("single elements fit every nest")
}

impl NestLoops {
    fn new(
        loops: Vec<ByteLoop>,
        starts: Vec<(isize, isize)>,
        width: usize,
        stream: bool,
    ) -> NestLoops {
        let w = width.cast_signed();
        let mut around = loops;
        let run = around.iter().position(|l| l.src == w && l.dst == w);
        let run = run.map(|i| (i, around.remove(i)));
        let unit = run.map_or(width, |(_, l)| l.n.unsigned_abs() * width);
        NestLoops { run, around, unit, width, starts, stream }
    }

    /// Whether the unit is moved as one element: a register of some width holds it.
    fn moves_elements(&self) -> bool {
        matches!(self.unit, 1 | 2 | 4 | 8 | 16)
    }

    /// Whether the source does not move along some loop. Several starts are several sources, so that a stretch
    /// would have to be made for each of them.
    fn has_repeat_loop(&self) -> bool {
        self.starts.len() == 1 && self.around.iter().any(|l| l.src == 0)
    }

    /// The loops of a repeat, where those inside it fill a stretch without gaps.
    fn split_repeat(&self) -> Option<RepeatSplit> {
        // The run is inside of the stretch, so it is a loop like the others here. Most nests have no repeat, and
        // keep a single list of loops.
        let mut all = self.around.clone();
        if let Some((at, run)) = self.run {
            all.insert(at, run);
        }
        repeat::split_repeat_loop(&all, self.width)
    }

    /// Whether the nest is a single run of more than one chunk.
    fn is_one_long_run(&self) -> bool {
        self.around.is_empty() && self.starts.len() == 1 && self.unit > LINEAR_CHUNK_BYTES
    }

    /// The loop that writes one element over and over, where that makes a row of some length.
    fn find_splat_loop(&self) -> Option<usize> {
        let e = self.unit.cast_signed();
        let found = self.around.iter().position(|l| l.src == 0 && l.dst == e && l.n > 1);
        found.filter(|i| self.around[*i].n.unsigned_abs() * self.unit >= MIN_SPLAT_ROW_BYTES)
    }

    /// The loop whose elements are adjacent on both sides, and in falling order in the source.
    fn find_reversed_loop(&self) -> Option<usize> {
        let e = self.unit.cast_signed();
        self.around.iter().position(|l| l.src == -e && l.dst == e && l.n > 1)
    }

    fn has_short_reversed_rows(&self) -> bool {
        let e = self.unit.cast_signed();
        self.find_reversed_loop().is_some_and(|i| self.around[i].n * e < MIN_REVERSED_ROW_BYTES)
    }

    /// The longest loop that is adjacent in the destination, and the longest that is in the source.
    fn find_transposed_loops(&self) -> Option<(usize, usize)> {
        let e = self.unit.cast_signed();
        let along = |f: fn(&ByteLoop) -> isize| {
            let fits = self.around.iter().enumerate().filter(|(_, l)| f(l) == e && l.n > 1);
            fits.max_by_key(|(_, l)| l.n).map(|(i, _)| i)
        };
        // One loop that is both is a run, and was taken as the unit.
        along(|l| l.dst).zip(along(|l| l.src)).filter(|(a, b)| a != b)
    }

    /// Walks loops that read backwards from their other end, so that the source is adjacent forwards: their
    /// steps may be taken in any order. Loops that are adjacent in the destination stay as they are, because
    /// they would be backward there.
    fn reverse_backward_loops(&mut self) {
        let e = self.unit.cast_signed();
        for l in self.around.iter_mut().filter(|l| l.src == -e && l.dst != e && l.n > 1) {
            for (a, b) in &mut self.starts {
                *a += (l.n - 1) * l.src;
                *b += (l.n - 1) * l.dst;
            }
            (l.src, l.dst) = (-l.src, -l.dst);
        }
    }

    /// The loops around the unit and the starts, for a job that is certain.
    fn take_parts(&mut self) -> (Vec<ByteLoop>, Vec<(isize, isize)>) {
        (std::mem::take(&mut self.around), std::mem::take(&mut self.starts))
    }
}

fn build_small_tiles(nest: &mut NestLoops) -> Option<NestJob> {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    return small::select_small_tiles(&nest.around, &nest.starts, nest.unit, nest.stream);
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        let _ = nest;
        None
    }
}

fn build_small_tiles_of_repeat(nest: &mut NestLoops) -> Option<NestJob> {
    let short = nest.split_repeat().is_some_and(|split| split.is_short());
    if short { build_small_tiles(nest) } else { None }
}

/// The stretch is made by a job of its own, and copied to every step of the loop.
fn build_repeat(nest: &mut NestLoops) -> Option<NestJob> {
    let split = nest.split_repeat()?;
    // The stretch is read again for every copy, so it has to stay in the caches.
    let stream = false;
    let body = build_copy_job(split.inner.clone(), vec![(0, 0)], nest.width, stream);
    let repeat = RepeatedStretch::new(&split, body, nest.stream);
    let tile = (1, repeat.tile_steps());
    let (_, starts) = nest.take_parts();
    Some(NestJob {
        kernel: JobKernel::Repeat(Box::new(repeat)),
        // The kernel decides for itself how it stores its copies.
        stream: StreamRule::Always,
        x: ByteLoop::UNIT_LOOP,
        y: split.over,
        tile,
        x_first: false,
        outer: split.outer,
        starts,
    })
}

fn build_linear(nest: &mut NestLoops) -> Option<NestJob> {
    let bytes = nest.unit;
    let chunks = bytes.div_ceil(LINEAR_CHUNK_BYTES).cast_signed();
    let step = LINEAR_CHUNK_BYTES.cast_signed();
    let (_, starts) = nest.take_parts();
    Some(NestJob {
        kernel: JobKernel::Linear {
            run: StoreVariants::new(|s| rows::select_row_kernel(bytes, s)),
            bytes,
        },
        stream: StreamRule::for_rows(nest.stream, bytes, std::iter::empty()),
        x: ByteLoop::UNIT_LOOP,
        y: ByteLoop { n: chunks, src: step, dst: step },
        tile: (1, chunks),
        x_first: false,
        outer: Vec::new(),
        starts,
    })
}

fn build_rows_of_runs(nest: &mut NestLoops) -> Option<NestJob> {
    let (loops, starts) = nest.take_parts();
    Some(build_row_job(loops, starts, nest.unit, nest.stream, RowRewrites::Copied))
}

fn build_splat(nest: &mut NestLoops) -> Option<NestJob> {
    let along = nest.find_splat_loop()?;
    let (mut loops, starts) = nest.take_parts();
    let mut long = loops.remove(along).n.unsigned_abs() * nest.unit;
    // One long row is cut, so that threads have something to share.
    if loops.is_empty() && long > LINEAR_CHUNK_BYTES && long.is_multiple_of(LINEAR_CHUNK_BYTES) {
        let n = (long / LINEAR_CHUNK_BYTES).cast_signed();
        loops.push(ByteLoop { n, src: 0, dst: LINEAR_CHUNK_BYTES.cast_signed() });
        long = LINEAR_CHUNK_BYTES;
    }
    let run = StoreVariants::new(|s| splat::select_splat_kernel(nest.unit, long, s));
    let rows = build_row_job(loops, starts, long, false, RowRewrites::Copied);
    // Non-temporal stores only in long rows, because the first and the last line of each are broken.
    let long_enough = nest.stream && long >= MIN_BROKEN_STREAM_BYTES;
    let stream = if long_enough { StreamRule::Always } else { StreamRule::Never };
    Some(NestJob { kernel: JobKernel::Splat { run, bytes: long }, stream, ..rows })
}

fn build_reverse(nest: &mut NestLoops) -> Option<NestJob> {
    let along = nest.find_reversed_loop()?;
    let (mut loops, starts) = nest.take_parts();
    let count = loops.remove(along).n.unsigned_abs();
    let kernel = JobKernel::Reverse { run: reverse::select_reverse_kernel(nest.unit), count };
    let rows = build_row_job(loops, starts, count * nest.unit, false, RowRewrites::Copied);
    Some(NestJob { kernel, ..rows })
}

fn build_transpose(nest: &mut NestLoops) -> Option<NestJob> {
    let (a, b) = nest.find_transposed_loops()?;
    let (unit, stream) = (nest.unit, nest.stream);
    let e = unit.cast_signed();
    let (loops, starts) = nest.take_parts();
    let (x, y) = (loops[a], loops[b]);
    let mut outer = without_loops(&loops, &[a, b]);
    let crowded = x.src.unsigned_abs().is_multiple_of(CONFLICT_STRIDE_BYTES);
    let shape = if stream { TileShape::best_for_machine(crowded) } else { TileShape::IN_CACHES };
    let whole = |l: &ByteLoop| l.dst.unsigned_abs().is_multiple_of(LINE_BYTES);
    let skewed = stream
        && x.n.unsigned_abs() * unit >= MIN_SKEWED_ROW_BYTES
        && !(whole(&y) && outer.iter().all(whole));
    // A skewed tile has a line of the next one beside its own rows, and both fit the scratch.
    let burst = if skewed { MAX_TILE_ROW_BYTES - LINE_BYTES } else { shape.burst };
    let most = if crowded { (burst / unit).min(shape.crowded_rows) } else { burst / unit };
    let rows = round_to_lines(even_tile(x.n, most.cast_signed()), e);
    let read = (TRANSPOSE_TILE_BYTES / rows.unsigned_abs()).min(shape.row).cast_signed();
    let tile = (rows, round_to_lines(even_tile(y.n, read / e), e));
    let total = loops.iter().fold(unit, |all, l| all.saturating_mul(l.n.unsigned_abs()));
    let far = stream || total >= MIN_FAR_TRANSPOSE_BYTES && x.src.unsigned_abs() >= PAGE_BYTES;
    // A tile writes at most a burst of every row.
    let burst = (x.n.min(rows) * e).unsigned_abs();
    // Whole rows that follow one another leave together.
    let joined = x.n <= rows && y.dst == burst.cast_signed() && burst >= LINE_BYTES;
    if joined && stream {
        // Their addresses are far apart in any order, so the order is that of the source, which is then
        // read in long stretches.
        outer.sort_by_key(|l| std::cmp::Reverse(l.src.unsigned_abs()));
    }
    let long = if joined { burst * y.n.min(tile.1).unsigned_abs() } else { burst };
    let steps = [x.n * e, y.dst].into_iter().chain(outer.iter().map(|l| l.dst));
    let rule = StreamRule::for_rows(stream, burst, steps.chain(starts.iter().map(|s| s.1)));
    // Few lines of a long stretch are broken, and a skewed tile writes none in part.
    let anywhere = stream && long >= MIN_BROKEN_STREAM_BYTES || skewed;
    let run = StoreVariants::new(|s| transpose::select_transpose(unit, s));
    Some(NestJob {
        kernel: JobKernel::Transpose { run, far, skewed },
        stream: if anywhere { StreamRule::Always } else { rule },
        tile,
        x_first: !shape.along_src,
        x,
        y,
        outer,
        starts,
    })
}

/// Nothing is adjacent: along the destination, in tiles along what is nearest in the source.
fn build_elements(nest: &mut NestLoops) -> Option<NestJob> {
    let (mut loops, starts) = nest.take_parts();
    let (mut x, mut y) = (ByteLoop::UNIT_LOOP, ByteLoop::UNIT_LOOP);
    let mut tile = FAR_ELEMENT_TILE_STEPS;
    if let Some(i) = smallest_stride_loop(&loops, |l| l.dst) {
        y = loops.remove(i);
    }
    // A loop whose elements share lines of the source is worth a tile, which uses these lines up while the
    // caches hold them. Otherwise the order of the destination is all that is left to keep.
    if let Some(i) = smallest_stride_loop(&loops, |l| l.src)
        && loops[i].src.unsigned_abs() < y.src.unsigned_abs().min(MAX_NEAR_STEP_BYTES)
    {
        x = loops.remove(i);
        tile = if nest.unit == 16 { WIDE_ELEMENT_TILE_STEPS } else { NEAR_ELEMENT_TILE_STEPS };
    } else if let Some(i) = smallest_stride_loop(&loops, |l| l.dst) {
        x = loops.remove(i);
    }
    let kernel = JobKernel::Elements { run: elements::select_elements_kernel(nest.unit) };
    let stream = StreamRule::Never;
    Some(NestJob { kernel, stream, tile, x_first: false, x, y, outer: loops, starts })
}

#[cfg(test)]
mod tests {
    use super::*;
    use zellige_isa::Isa;

    fn chosen(loops: &[(isize, isize, isize)], starts: usize, width: usize) -> &'static str {
        let loops = loops.iter().map(|&(n, src, dst)| ByteLoop { n, src, dst }).collect();
        let starts = (0..starts.cast_signed()).map(|k| (k << 30, k << 30)).collect();
        choose_strategy(NestLoops::new(loops, starts, width, false)).0.name
    }

    /// Every row of the table is the choice for some nest, so that no row hides another one behind it.
    #[test]
    fn every_strategy_is_the_choice_for_some_nest() {
        let whole = [
            ("repeat", chosen(&[(10, 0, 40_000), (100, 4, 400), (100, 400, 4)], 1, 4)),
            ("linear", chosen(&[(100_000, 4, 4)], 1, 4)),
            ("rows", chosen(&[(100, 1000, 400), (100, 4, 4)], 1, 4)),
            ("splat", chosen(&[(100, 4, 400), (100, 0, 4)], 1, 4)),
            ("reverse", chosen(&[(100, 4000, 4000), (1000, -4, 4)], 1, 4)),
            ("transpose", chosen(&[(100, 4, 400), (100, 400, 4)], 1, 4)),
            ("rows of elements at several starts", chosen(&[(100, 400, 400)], 2, 4)),
            ("elements", chosen(&[(100, 400, 400)], 1, 4)),
        ];
        let small = [
            ("small tiles of a short repeat", chosen(&[(1000, 0, 24), (6, 8, 4)], 1, 4)),
            ("small tiles of runs", chosen(&[(1000, 36, 12), (3, 4, 4)], 1, 4)),
            ("small tiles of short reversed rows", chosen(&[(1000, 64, 20), (5, -4, 4)], 1, 4)),
            ("small tiles", chosen(&[(3, 1, 10_000), (10_000, 3, 1)], 1, 1)),
        ];
        for (expected, found) in whole {
            assert_eq!(expected, found);
        }
        // Small tiles are of registers that shuffle bytes, which the baseline has not.
        if Isa::process_isa() != Isa::BASELINE {
            for (expected, found) in small {
                assert_eq!(expected, found);
            }
        }
        let listed = |s: &CopyStrategy| whole.iter().chain(&small).any(|(name, _)| *name == s.name);
        assert!(STRATEGIES.iter().all(listed), "a row without a nest");
    }
}
