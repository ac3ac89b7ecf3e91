//! Conversion where no run is adjacent on both sides: through a small stage that stays in the caches.
//!
//! A converter is fast on long runs; a transpose, a gather or a scatter moves single elements of one width. A tile
//! therefore passes through a stage between the two, and the width of the stage is that of the narrower format:
//! rows that become narrower are converted first and then transposed, rows that become wider are transposed
//! first.

use super::cell::prefetch_line;
use super::elements::{self, ElementsKernel};
use super::job::ByteLoop;
use super::transpose::{self, Scratch, TransposeKernel, TransposeTile};
use crate::engine::tuning::{
    CONVERT_STAGE_BYTES, MAX_SCATTERED_ELEMENTS, MAX_STAGED_LONG_SIDE_ELEMENTS,
    MAX_STAGED_SHORT_SIDE_ELEMENTS, MAX_TILE_ROW_BYTES, MIN_IN_PLACE_ELEMENTS, STAGE_ROW_GAP_BYTES,
    STAGED_PREFETCH_ROWS,
};
use std::mem::MaybeUninit;
use zellige_float::Converter;

/// A converting kernel for two loops without runs.
#[derive(Debug, Clone, Copy)]
pub(super) struct StagedConversion {
    converter: Converter,
    how: StagedMethod,
    /// Whether stores are non-temporal.
    pub(super) stream: bool,
}

#[derive(Debug, Clone, Copy)]
enum StagedMethod {
    /// Rows of the source are converted into the stage and transposed out of it.
    Narrowing(TransposeKernel),
    /// Rows of the source are transposed into the stage and converted out of it.
    Widening(TransposeKernel),
    /// Elements are gathered into a stage, converted into another, and scattered.
    Scattered { gather: ElementsKernel, scatter: ElementsKernel },
}

/// A kernel, the two loops it takes, their tiles, and the loops that are left.
pub(super) struct StagedLoops {
    pub(super) kernel: StagedConversion,
    pub(super) x: ByteLoop,
    pub(super) y: ByteLoop,
    pub(super) tile: (isize, isize),
    pub(super) outer: Vec<ByteLoop>,
}

/// Memory of one tile. It begins on a line, and only what was written is read.
#[repr(align(64))]
struct TileStage([MaybeUninit<u8>; CONVERT_STAGE_BYTES]);

/// The kernel for some loops, in bytes, of which none is a long run.
pub(super) fn select_staged_loops(
    loops: &[ByteLoop],
    converter: &Converter,
    stream: bool,
) -> StagedLoops {
    let (from, to) = (converter.src_format().byte_size(), converter.dst_format().byte_size());
    let adjacent = |f: fn(&ByteLoop) -> isize, size: usize| {
        let fits = loops.iter().enumerate().filter(|(_, l)| f(l) == size.cast_signed() && l.n > 1);
        fits.max_by_key(|(_, l)| l.n).map(|(i, _)| i)
    };
    let (along_dst, along_src) = (adjacent(|l| l.dst, to), adjacent(|l| l.src, from));
    let rest = |drop: &[usize]| -> Vec<ByteLoop> {
        loops.iter().enumerate().filter(|(i, _)| !drop.contains(i)).map(|(_, l)| *l).collect()
    };
    let kernel = |how, stream| StagedConversion { converter: *converter, how, stream };
    if let (Some(a), Some(b)) = (along_dst, along_src)
        && a != b
    {
        let (x, y) = (loops[a], loops[b]);
        let outer = rest(&[a, b]);
        // The stage holds the narrower format: fewer bytes pass through it, and the transpose, which is the
        // slower part, moves fewer of them.
        let narrowing = to <= from;
        let (most_x, most_y) = if narrowing {
            (MAX_STAGED_SHORT_SIDE_ELEMENTS, MAX_STAGED_LONG_SIDE_ELEMENTS)
        } else {
            (MAX_STAGED_LONG_SIDE_ELEMENTS, MAX_STAGED_SHORT_SIDE_ELEMENTS)
        };
        let width = if narrowing { to } else { from };
        // A row of the kernel is at most `MAX_TILE_ROW_BYTES` bytes; a row of the stage no longer than that.
        let fits = (MAX_TILE_ROW_BYTES / width).cast_signed();
        let tile =
            (cut_to_lines(x.n, most_x.min(fits), to), cut_to_lines(y.n, most_y.min(fits), from));
        let kernel = if narrowing {
            kernel(StagedMethod::Narrowing(transpose::select_transpose(width, stream)), stream)
        } else {
            kernel(StagedMethod::Widening(transpose::select_transpose(width, false)), stream)
        };
        return StagedLoops { kernel, x, y, tile, outer };
    }
    // Iteration follows the destination, along what is adjacent in it where something is, because a line that is
    // written in parts costs more than one that is read in parts.
    let nearest = |drop: &[usize]| {
        let left = (0..loops.len()).filter(|i| !drop.contains(i) && loops[*i].dst != 0);
        left.min_by_key(|i| loops[*i].dst.unsigned_abs())
    };
    let unit = ByteLoop { n: 1, src: 0, dst: 0 };
    let first = along_dst.or(along_src).or(nearest(&[]));
    let second = first.and_then(|i| nearest(&[i]));
    let taken: Vec<usize> = [first, second].into_iter().flatten().collect();
    let y = first.map_or(unit, |i| loops[i]);
    let x = second.map_or(unit, |i| loops[i]);
    let ty = even_tile(y.n, MAX_SCATTERED_ELEMENTS);
    let how = StagedMethod::Scattered {
        gather: elements::select_elements_kernel(from),
        scatter: elements::select_elements_kernel(to),
    };
    let tile = (even_tile(x.n, (MAX_SCATTERED_ELEMENTS / ty).max(1)), ty);
    StagedLoops { kernel: kernel(how, false), x, y, tile, outer: rest(&taken) }
}

/// A tile of at most `most` steps, in whole lines of elements of `width` bytes where it is cut.
fn cut_to_lines(n: isize, most: isize, width: usize) -> isize {
    let unit = (64 / width).cast_signed();
    let even = even_tile(n, most);
    if even == n { n } else { ((even + unit - 1) / unit * unit).min(most) }
}

fn even_tile(n: isize, most: isize) -> isize {
    let parts = n.unsigned_abs().div_ceil(most.max(1).unsigned_abs()).max(1);
    n.unsigned_abs().div_ceil(parts).max(1).cast_signed()
}

/// Prefetches the lines of a row; a prefetch of any address is harmless.
#[inline(always)]
fn prefetch_row(row: *const u8, bytes: usize) {
    for at in (0..bytes).step_by(64) {
        prefetch_line(row.wrapping_add(at));
    }
}

impl StagedConversion {
    /// One tile; `next` is where the next one begins in the source.
    ///
    /// # Safety
    /// Every element of the two loops is readable at `src` and writable at `dst`, the two do not
    /// overlap, the loops are no longer than the tile of [`select_staged_loops`], and `scratch` is that of the
    /// job, flushed after its last tile.
    // Its stage is on the stack, and every page of that is touched. Inlined into the function that runs every job
    // it made each planned call take 140 ns instead of 55 (15 November 2026), so it is a function of its own.
    #[inline(never)]
    pub(super) unsafe fn convert_tile(
        &self,
        src: *const u8,
        dst: *mut u8,
        x: ByteLoop,
        y: ByteLoop,
        next: *const u8,
        scratch: *mut Scratch,
    ) {
        let mut stage = TileStage([MaybeUninit::uninit(); CONVERT_STAGE_BYTES]);
        let stage = stage.0.as_mut_ptr().cast::<u8>();
        let (from, to) =
            (self.converter.src_format().byte_size(), self.converter.dst_format().byte_size());
        let (nx, ny) = (x.n.unsigned_abs(), y.n.unsigned_abs());
        // SAFETY: addresses of `src` and `dst` are those of the loops, which the caller vouches for.
        // Rows of the stage: at most 128 of `MAX_TILE_ROW_BYTES + STAGE_ROW_GAP_BYTES` bytes (or 256 of half), which is less than
        // `CONVERT_STAGE_BYTES`; scattered tiles hold at most `MAX_SCATTERED_ELEMENTS` elements of 8 bytes twice. Every byte of the
        // stage is written before it is read.
        unsafe {
            match self.how {
                StagedMethod::Narrowing(run) => {
                    let pitch = ny * to + STAGE_ROW_GAP_BYTES;
                    for i in 0..nx {
                        let row = src.offset(i.cast_signed() * x.src);
                        // A distance in rows, which runs over into the next tile.
                        let ahead = i + STAGED_PREFETCH_ROWS;
                        let (tile, k) = if ahead < nx { (src, ahead) } else { (next, ahead - nx) };
                        prefetch_row(tile.wrapping_offset(k.cast_signed() * x.src), ny * from);
                        self.converter.convert_raw(row, stage.add(i * pitch), ny);
                    }
                    let (sa, at) = (pitch.cast_signed(), stage.cast_const());
                    run(
                        at,
                        dst,
                        TransposeTile {
                            na: nx,
                            sa,
                            nb: ny,
                            db: y.dst,
                            next: at,
                            next_step: sa,
                            scratch,
                        },
                    );
                }
                StagedMethod::Widening(run) => {
                    let pitch = nx * from + STAGE_ROW_GAP_BYTES;
                    let db = pitch.cast_signed();
                    run(
                        src,
                        stage,
                        TransposeTile {
                            na: nx,
                            sa: x.src,
                            nb: ny,
                            db,
                            next: src,
                            next_step: x.src,
                            scratch,
                        },
                    );
                    for j in 0..ny {
                        // The next tile is prefetched while this one is written, its rows spread over these.
                        for i in j * nx / ny..(j + 1) * nx / ny {
                            prefetch_row(next.wrapping_offset(i.cast_signed() * x.src), ny * from);
                        }
                        let (row, out) =
                            (stage.add(j * pitch), dst.offset(j.cast_signed() * y.dst));
                        if self.stream {
                            self.converter.convert_streaming_raw(row, out, nx);
                        } else {
                            self.converter.convert_raw(row, out, nx);
                        }
                    }
                }
                StagedMethod::Scattered { gather, scatter } => {
                    let (from, to) = (from.cast_signed(), to.cast_signed());
                    let (a, b) = (stage, stage.add(CONVERT_STAGE_BYTES / 2));
                    let reads_rows = y.src == from && y.n >= MIN_IN_PLACE_ELEMENTS;
                    let writes_rows = y.dst == to && y.n >= MIN_IN_PLACE_ELEMENTS;
                    let source = if reads_rows {
                        (src, x.src)
                    } else {
                        let into = |l: ByteLoop, step: isize| ByteLoop { dst: step, ..l };
                        gather(src, a, into(x, y.n * from), into(y, from));
                        (a.cast_const(), y.n * from)
                    };
                    let target = if writes_rows { (dst, x.dst) } else { (b, y.n * to) };
                    for i in 0..x.n {
                        let (s, d) = (source.0.offset(i * source.1), target.0.offset(i * target.1));
                        self.converter.convert_raw(s, d, ny);
                    }
                    if !writes_rows {
                        let out = |l: ByteLoop, step: isize| ByteLoop { src: step, ..l };
                        scatter(b, dst, out(x, y.n * to), out(y, to));
                    }
                }
            }
        }
    }
}
