//! Running a job: its tiles in order, each by its kernel.

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use super::carry::LineCarries;
use super::cell;
use super::job::{ByteLoop, JobKernel, NestJob};
use super::rows;
use super::stream::{LINE_BYTES, StreamRule};
use super::transpose::{Scratch, TransposeTile, Trim};
use crate::engine::tuning::{LINEAR_CHUNK_BYTES, MIN_BROKEN_STREAM_BYTES};
use smallvec::SmallVec;
use std::ops::Range;
use zellige_float::RowStrides;

/// What small tiles keep from one to the next.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
type TileCarries = LineCarries;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
type TileCarries = ();

/// A tile: its first steps `i` of loop `x` and `j` of loop `y`, and its offsets `a` in the source and `b` in the
/// destination, in bytes.
#[derive(Debug, Clone, Copy)]
struct TilePosition {
    i: isize,
    j: isize,
    a: isize,
    b: isize,
}

/// How a job is cut for one pair of buffers: where lines of memory begin inside its rows.
#[derive(Debug, Clone, Copy)]
pub(super) struct JobCut {
    stores: StoreMode,
    /// Steps of `x` before its first whole line of the destination, and of `y` before that of the source:
    /// tiles are cut there, and begin on lines from then on.
    shift: (isize, isize),
    tile: (isize, isize),
}

#[derive(Debug, Clone, Copy)]
enum StoreMode {
    Usual,
    NonTemporal,
    /// Non-temporal, also for lines that hold the end of one row and the beginning of the next.
    Joined(rows::RowCopyKernel),
}

impl StoreMode {
    fn is_non_temporal(self) -> bool {
        !matches!(self, StoreMode::Usual)
    }
}

impl NestJob {
    /// The cut for memory that begins at `src` and `dst`.
    #[inline]
    pub(super) fn cut_for_buffers(&self, src: *const u8, dst: *mut u8) -> JobCut {
        let whole = |stores| JobCut { stores, shift: (0, 0), tile: self.tile };
        if self.stream == StreamRule::Never {
            return whole(StoreMode::Usual);
        }
        self.cut_streamed(src, dst)
    }

    /// The same cut where threads share about so many pieces: large tiles are divided, if the kernel allows
    /// that a tile begins anywhere.
    pub(super) fn cut_for_pieces(&self, src: *const u8, dst: *mut u8, pieces: usize) -> JobCut {
        let mut cut = self.cut_for_buffers(src, dst);
        // The tile of a transpose is a compromise of registers, lines and caches; small tiles have tables of their
        // size; a repeat makes its stretch anew for every tile; joined rows follow one another inside a tile.
        // Dividing any of these would cost more than more threads gain.
        let divides = match self.kernel {
            JobKernel::Rows { .. } => !matches!(cut.stores, StoreMode::Joined(_)),
            JobKernel::Linear { .. }
            | JobKernel::Table { .. }
            | JobKernel::Convert { .. }
            | JobKernel::Elements { .. } => true,
            _ => false,
        };
        while divides && self.tile_count(cut) < pieces && cut.tile != (1, 1) {
            // Along `x` first: inside it, `y` is read or written in one stretch.
            let side = if cut.tile.0 > 1 { &mut cut.tile.0 } else { &mut cut.tile.1 };
            *side = (*side + 1) / 2;
        }
        cut
    }

    #[cold]
    fn cut_streamed(&self, src: *const u8, dst: *mut u8) -> JobCut {
        let whole = |stores| JobCut { stores, shift: (0, 0), tile: self.tile };
        let aligned = dst.addr().is_multiple_of(LINE_BYTES);
        match (&self.kernel, self.stream) {
            // Tiles of a transpose are cut so that they begin on a line of the destination, and on one of the
            // source where all rows of it agree.
            (JobKernel::Transpose { .. }, stream) => {
                let x = match stream {
                    StreamRule::Aligned => steps_to_line(dst, self.x.n, self.x.dst),
                    _ => Some(0),
                };
                let Some(x) = x else { return whole(StoreMode::Usual) };
                let steps = self.outer.iter().map(|l| l.src).chain([self.x.src]);
                let mut steps = steps.chain(self.starts.iter().map(|s| s.0));
                let lines = steps.all(|s| s.unsigned_abs().is_multiple_of(LINE_BYTES));
                let y = steps_to_line(src, self.y.n, self.y.src).filter(|_| lines);
                let shift = (x, y.unwrap_or(0));
                JobCut { stores: StoreMode::NonTemporal, shift, tile: self.tile }
            }
            (_, StreamRule::Always) => whole(StoreMode::NonTemporal),
            (_, StreamRule::Aligned) if aligned => whole(StoreMode::NonTemporal),
            (JobKernel::Rows { bytes, .. }, _) if self.has_adjacent_rows(*bytes) => {
                // All rows begin equally far from a line, because they follow one another and are whole lines.
                match rows::select_joined_kernel() {
                    Some(run) => whole(StoreMode::Joined(run)),
                    None => whole(StoreMode::Usual),
                }
            }
            _ => whole(StoreMode::Usual),
        }
    }

    /// Whether rows follow one another in the destination, for long enough.
    fn has_adjacent_rows(&self, bytes: usize) -> bool {
        let follow = |l: ByteLoop, tile: isize| {
            l.dst == bytes.cast_signed()
                && l.n.min(tile).unsigned_abs() * bytes >= MIN_BROKEN_STREAM_BYTES
        };
        follow(self.x, self.tile.0) || follow(self.y, self.tile.1)
    }

    /// Tiles of the job: what threads share.
    pub(super) fn tile_count(&self, cut: JobCut) -> usize {
        let starts = if self.is_table() { 1 } else { self.starts.len() };
        let outer: usize = self.outer.iter().map(|a| a.n.unsigned_abs()).product();
        let (tx, ty) = self.tile_counts(cut);
        starts * outer * tx * ty
    }

    fn tile_counts(&self, cut: JobCut) -> (usize, usize) {
        let count = |n: isize, shift: isize, tile: isize| {
            usize::from(shift > 0) + (n - shift).unsigned_abs().div_ceil(tile.unsigned_abs())
        };
        (count(self.x.n, cut.shift.0, cut.tile.0), count(self.y.n, cut.shift.1, cut.tile.1))
    }

    /// Runs some of the tiles.
    ///
    /// # Safety
    /// Everything that the nest reads from `src` is readable, everything it writes to `dst` is
    /// writable, and the two do not overlap.
    pub(super) unsafe fn run_tiles(
        &self,
        items: Range<usize>,
        src: *const u8,
        dst: *mut u8,
        cut: JobCut,
    ) {
        // A nest without a start has no first tile; a plan that was read from a file may have one.
        if items.is_empty() {
            return;
        }
        // The digits of the first tile by division; those of the next ones by counting, because a division
        // per loop and tile would be the price of some short rows.
        let table = self.is_table();
        let (tx, ty) = self.tile_counts(cut);
        let mut rest = items.start;
        let mut split = |n: usize| {
            let digit = rest % n.max(1);
            rest /= n.max(1);
            digit
        };
        let (mut j, mut i);
        if self.x_first {
            i = split(tx);
            j = split(ty);
        } else {
            j = split(ty);
            i = split(tx);
        }
        let mut digits: SmallVec<[isize; 8]> =
            self.outer.iter().rev().map(|a| split(a.n.unsigned_abs()).cast_signed()).collect();
        digits.reverse();
        let mut start = split(self.starts.len());
        let place = |start: usize, digits: &[isize], i: usize, j: usize| {
            let (mut a, mut b) = if table { (0, 0) } else { self.starts[start] };
            for (axis, digit) in self.outer.iter().zip(digits) {
                a += axis.src * digit;
                b += axis.dst * digit;
            }
            let i = first_step_of_tile(cut.shift.0, cut.tile.0, i);
            let j = first_step_of_tile(cut.shift.1, cut.tile.1, j);
            TilePosition {
                i,
                j,
                a: a + i * self.x.src + j * self.y.src,
                b: b + i * self.x.dst + j * self.y.dst,
            }
        };
        let stream = cut.stores.is_non_temporal();
        let mut scratch = Scratch::new(stream && self.needs_scratch());
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        let mut carries = self.carries_for_rows(stream);
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        let mut carries = ();
        let mut current = place(start.min(self.starts.len() - 1), &digits, i, j);
        for item in items.clone() {
            // The digits of the next tile, the fastest first.
            let (fast, slow) = if self.x_first { (&mut i, &mut j) } else { (&mut j, &mut i) };
            let (fast_end, slow_end) = if self.x_first { (tx, ty) } else { (ty, tx) };
            *fast += 1;
            if *fast == fast_end {
                *fast = 0;
                *slow += 1;
            }
            if *slow == slow_end {
                *slow = 0;
                let mut carry = true;
                for (axis, digit) in self.outer.iter().zip(&mut digits).rev() {
                    *digit += 1;
                    if *digit < axis.n {
                        carry = false;
                        break;
                    }
                    *digit = 0;
                }
                if carry {
                    start += 1;
                }
            }
            let last = item + 1 == items.end;
            // The last tile prefetches itself: its lines are in the caches already, so this costs nothing from memory.
            let next = if last { current } else { place(start, &digits, i, j) };
            let ahead = src.wrapping_offset(next.a);
            // SAFETY: by the contract of this function: these are offsets of the nest, and the
            // scratch is as long as a tile with non-temporal stores needs.
            unsafe {
                self.run_one_tile(
                    current,
                    ahead,
                    src,
                    dst,
                    cut,
                    &raw mut scratch,
                    &raw mut carries,
                );
            }
            current = next;
        }
        // SAFETY: by the contract of this function the destination is still writable.
        unsafe {
            scratch.flush_pending();
            #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
            carries.write_remaining();
        }
        // Other threads may read the destination as soon as this one reports its pieces done.
        if stream {
            cell::fence_stores();
        }
    }

    /// Memory for the last, unfinished line of every row of a tile, which the next tile completes.
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    fn carries_for_rows(&self, stream: bool) -> LineCarries {
        match &self.kernel {
            JobKernel::Small(small) if stream => LineCarries::new(
                small.growing_rows() * self.tile.1.unsigned_abs(),
                small.row_bytes(),
            ),
            _ => LineCarries::new(0, 0),
        }
    }

    /// Whether its tiles are transposed, which takes scratch memory where stores are non-temporal.
    fn needs_scratch(&self) -> bool {
        matches!(self.kernel, JobKernel::Transpose { .. } | JobKernel::Staged(_))
    }

    /// One tile.
    ///
    /// # Safety
    /// As [`NestJob::run_tiles`]; `scratch` has memory where stores are non-temporal, and `carries` a line for
    /// every row.
    #[inline]
    #[allow(clippy::too_many_arguments, reason = "all of them are of one tile")]
    unsafe fn run_one_tile(
        &self,
        at: TilePosition,
        next: *const u8,
        src: *const u8,
        dst: *mut u8,
        cut: JobCut,
        scratch: *mut Scratch,
        #[cfg_attr(
            not(any(target_arch = "x86_64", target_arch = "aarch64")),
            allow(unused_variables)
        )]
        carries: *mut TileCarries,
    ) {
        let TilePosition { i, j, a, b } = at;
        let x = ByteLoop { n: steps_in_tile(cut.shift.0, cut.tile.0, self.x.n, i), ..self.x };
        let y = ByteLoop { n: steps_in_tile(cut.shift.1, cut.tile.1, self.y.n, j), ..self.y };
        // The part of a row before its first whole line has no whole line to store.
        let stores = if i < cut.shift.0 { StoreMode::Usual } else { cut.stores };
        let stream = stores.is_non_temporal();
        // SAFETY: the tile is inside the loops of the nest, whose addresses the caller vouches for.
        unsafe {
            match &self.kernel {
                JobKernel::Table { run, bytes } => {
                    let (from, to) = (src.offset(a), dst.offset(b));
                    run.for_stores(stream)(from, to, *bytes, x, y, &self.starts);
                }
                JobKernel::Rows { run, bytes } => {
                    let run = match stores {
                        StoreMode::Joined(run) => run,
                        _ => run.for_stores(stream),
                    };
                    run(src.offset(a), dst.offset(b), *bytes, x, y);
                }
                JobKernel::Splat { run, bytes } => {
                    run.for_stores(stream)(src.offset(a), dst.offset(b), *bytes, x, y);
                }
                JobKernel::Reverse { run, count } => {
                    run(src.offset(a), dst.offset(b), *count, x, y);
                }
                JobKernel::Repeat(repeat) => {
                    repeat.write_copies(src.offset(a), dst.offset(b), y.n.unsigned_abs());
                }
                JobKernel::Transpose { run, far, skewed } => {
                    // A skewed tile reads a line's worth of the next one, to complete the last line of each of
                    // its rows; the next tile leaves that part out.
                    let own = x.n;
                    let more =
                        if *skewed && stream { LINE_BYTES.cast_signed() / self.x.dst } else { 0 };
                    let x = ByteLoop { n: (own + more).min(self.x.n - i), ..x };
                    if *skewed && stream {
                        let last = i + own >= self.x.n;
                        let bytes = (own * self.x.dst).unsigned_abs();
                        let own = if last { usize::MAX } else { bytes };
                        (*scratch).set_trim(Trim { first: i == 0, own });
                    }
                    if *far && !stream {
                        // Kernels with non-temporal stores prefetch the next tile themselves, between stores.
                        let bytes = (y.n * y.src).unsigned_abs();
                        for row in (0..x.n).map(|k| next.wrapping_offset(k * x.src)) {
                            for at in (0..bytes).step_by(LINE_BYTES) {
                                cell::prefetch_line(row.wrapping_add(at));
                            }
                        }
                    }
                    let tile = TransposeTile {
                        next,
                        next_step: x.src,
                        scratch,
                        na: x.n.unsigned_abs(),
                        sa: x.src,
                        nb: y.n.unsigned_abs(),
                        db: y.dst,
                    };
                    run.for_stores(stream)(src.offset(a), dst.offset(b), tile);
                }
                JobKernel::Convert { converter, count } => {
                    for p in 0..x.n {
                        let s = src.offset(a + p * x.src);
                        let d = dst.offset(b + p * x.dst);
                        if stream {
                            let rows =
                                RowStrides { count: y.n.unsigned_abs(), src: y.src, dst: y.dst };
                            converter.convert_streaming_rows_raw(s, d, *count, rows);
                            continue;
                        }
                        for q in 0..y.n {
                            converter.convert_raw(s.offset(q * y.src), d.offset(q * y.dst), *count);
                        }
                    }
                }
                JobKernel::Staged(staged) => {
                    staged.convert_tile(src.offset(a), dst.offset(b), x, y, next, scratch);
                }
                #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
                JobKernel::Small(small) => {
                    small.run_tile(src.offset(a), dst.offset(b), x, y, next, carries, stream);
                }
                JobKernel::Elements { run } => run(src.offset(a), dst.offset(b), x, y),
                JobKernel::Linear { run, bytes } => {
                    let done = j.unsigned_abs() * LINEAR_CHUNK_BYTES;
                    let length = (bytes - done).min(LINEAR_CHUNK_BYTES * y.n.unsigned_abs());
                    let (from, to) = (src.offset(a), dst.offset(b));
                    run.for_stores(stream)(
                        from,
                        to,
                        length,
                        ByteLoop::UNIT_LOOP,
                        ByteLoop::UNIT_LOOP,
                    );
                }
            }
        }
    }
}

/// Steps of a loop of `e` bytes before the first whole line from `start` on: 0 where it begins there, and
/// `None` where lines begin inside of steps, or the loop is too short to be cut for them.
fn steps_to_line(start: *const u8, n: isize, e: isize) -> Option<isize> {
    // A short first tile costs as much as a whole one, so short loops are not cut for it.
    let left = start.addr().wrapping_neg() % LINE_BYTES;
    let long = (n * e).unsigned_abs() >= MIN_BROKEN_STREAM_BYTES;
    match left.cast_signed() {
        0 => Some(0),
        left if long && left % e == 0 => Some(left / e),
        _ => None,
    }
}

/// The first step of tile `i`.
#[inline]
fn first_step_of_tile(shift: isize, tile: isize, i: usize) -> isize {
    let i = i.cast_signed();
    if shift > 0 && i > 0 { shift + (i - 1) * tile } else { i * tile }
}

/// The steps of a loop of `n` in the tile that begins at `first`.
#[inline]
fn steps_in_tile(shift: isize, tile: isize, n: isize, first: isize) -> isize {
    let end = if first < shift { shift } else { first + tile };
    end.min(n) - first
}
