//! A nest made ready to run: a kernel for its inner loops, an odometer for the rest.

use super::cell;
use super::elements::{self, Elements};
use super::rows::{self, Rows};
use super::transpose::{self, ROW, Tile, Transpose};
use crate::plan::{FillNest, Loop, Nest};
use std::ops::Range;

/// A loop in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Axis {
    pub(super) n: isize,
    pub(super) src: isize,
    pub(super) dst: isize,
}

impl Axis {
    const UNIT: Axis = Axis { n: 1, src: 0, dst: 0 };
}

/// Repeated copies of a fill element.
pub(super) type Pattern = Vec<u8>;

/// Bytes of a pattern: the longest run that one fill writes.
const PATTERN: usize = 4096;

/// The fill element, repeated.
pub(super) fn pattern(element: &[u8]) -> Pattern {
    element.iter().copied().cycle().take(PATTERN).collect()
}

/// What is done at every position of the odometer.
#[derive(Debug, Clone, Copy)]
enum Kernel {
    /// Runs of adjacent bytes.
    Rows { run: Rows, bytes: usize },
    /// A tile of single elements, adjacent along `y` in the source and along `x` in the destination.
    Transpose { run: Transpose },
    /// Single elements.
    Elements { run: Elements },
    /// One long run, cut into chunks.
    Linear { run: Rows, bytes: usize },
}

/// A kernel, its two loops with the tiles they are cut into, and the loops around.
#[derive(Debug, Clone)]
pub(super) struct Job {
    kernel: Kernel,
    x: Axis,
    y: Axis,
    tile: (isize, isize),
    outer: Vec<Axis>,
    /// Offsets in bytes, sorted by destination.
    starts: Vec<(isize, isize)>,
    /// Whether the starts are the innermost loop: small tables, such as those of a swizzle.
    table: bool,
}

/// Bytes of a chunk of a long run.
const CHUNK: usize = 1 << 16;

/// Bytes that a tile of rows covers in each direction.
const TILE: usize = 4096;

impl Job {
    /// Makes a nest of copies ready, for elements of `width` bytes.
    pub(super) fn copy(nest: &Nest, width: usize, stream: bool) -> Job {
        let w = width.cast_signed();
        let axis = |l: &Loop| Axis {
            n: isize::try_from(l.range).unwrap_or(isize::MAX),
            src: l.src as isize * w,
            dst: l.dst as isize * w,
        };
        let starts = nest.starts.iter().map(|(a, b)| (*a as isize * w, *b as isize * w)).collect();
        let loops = nest.loops.iter().map(axis).collect();
        Job::build(loops, starts, width, stream)
    }

    /// Makes a fill ready: its source is a [`Pattern`], read from the start by every run.
    pub(super) fn fill(fill: &FillNest, width: usize, stream: bool) -> Job {
        let w = width.cast_signed();
        let mut loops: Vec<Axis> = Vec::new();
        let mut run = width;
        for (range, stride) in &fill.loops {
            let n = isize::try_from(*range).unwrap_or(isize::MAX);
            if *stride == 1 && run == width {
                // The longest part of the run that divides it and fits the pattern.
                let fits = (PATTERN / width).cast_signed();
                let part = (1..=fits.min(n)).rev().find(|p| n % p == 0).unwrap_or(1);
                run = part.unsigned_abs() * width;
                loops.push(Axis { n: n / part, src: 0, dst: part * w });
            } else {
                loops.push(Axis { n, src: 0, dst: *stride as isize * w });
            }
        }
        let starts = fill.starts.iter().map(|b| (0, *b as isize * w)).collect();
        Job::rows(loops, starts, run, stream)
    }

    fn build(mut loops: Vec<Axis>, starts: Vec<(isize, isize)>, width: usize, stream: bool) -> Job {
        let w = width.cast_signed();
        let mut bytes = width;
        if let Some(i) = loops.iter().position(|l| l.src == w && l.dst == w) {
            bytes = loops.remove(i).n.unsigned_abs() * width;
        }
        if loops.is_empty() && starts.len() == 1 && bytes > CHUNK {
            let chunks = bytes.div_ceil(CHUNK).cast_signed();
            let step = CHUNK.cast_signed();
            return Job {
                kernel: Kernel::Linear { run: rows::select(stream), bytes },
                x: Axis::UNIT,
                y: Axis { n: chunks, src: step, dst: step },
                tile: (1, 1),
                outer: Vec::new(),
                starts,
                table: false,
            };
        }
        if !matches!(bytes, 1 | 2 | 4 | 8 | 16) {
            return Job::rows(loops, starts, bytes, stream);
        }
        // A short run is one wider element.
        let e = bytes.cast_signed();
        let along = |f: fn(&Axis) -> isize| {
            let fits = loops.iter().enumerate().filter(|(_, l)| f(l) == e && l.n > 1);
            fits.max_by_key(|(_, l)| l.n).map(|(i, _)| i)
        };
        if let (Some(a), Some(b)) = (along(|l| l.dst), along(|l| l.src))
            && a != b
        {
            let (x, y) = (loops[a], loops[b]);
            let outer = without(&loops, &[a, b]);
            let rows = (ROW / bytes).cast_signed();
            return Job {
                kernel: Kernel::Transpose { run: transpose::select(bytes, stream) },
                tile: (even(x.n, rows), even(y.n, 2 * rows)),
                x,
                y,
                outer,
                starts,
                table: false,
            };
        }
        if bytes == 16 || starts.len() > 1 {
            return Job::rows(loops, starts, bytes, stream);
        }
        // Nothing adjacent: the destination is walked in order.
        let inner = smallest(&loops, |l| l.dst);
        let (mut x, mut y) = (Axis::UNIT, Axis::UNIT);
        if let Some(i) = inner {
            y = loops.remove(i);
        }
        if let Some(i) = smallest(&loops, |l| l.dst) {
            x = loops.remove(i);
        }
        let kernel = Kernel::Elements { run: elements::select(bytes) };
        Job { kernel, tile: (64, 4096), x, y, outer: loops, starts, table: false }
    }

    /// Rows of `bytes`: the two loops that are nearest in source and destination are tiled, so that
    /// both sides see long stretches.
    fn rows(
        mut loops: Vec<Axis>,
        mut starts: Vec<(isize, isize)>,
        bytes: usize,
        stream: bool,
    ) -> Job {
        let table = starts.len() > 1 && bytes < TILE;
        if table {
            starts.sort_unstable_by_key(|(_, b)| *b);
        }
        let kernel = Kernel::Rows { run: rows::select(stream), bytes };
        let near_dst = smallest(&loops, |l| l.dst);
        let near_src = smallest(&loops, |l| l.src);
        let (mut x, mut y) = (Axis::UNIT, Axis::UNIT);
        match (near_dst, near_src) {
            (Some(d), Some(s)) if d != s => {
                (x, y) = (loops[d], loops[s]);
                loops = without(&loops, &[d, s]);
            }
            (Some(d), _) => {
                y = loops.remove(d);
                if let Some(i) = smallest(&loops, |l| l.dst) {
                    x = loops.remove(i);
                }
            }
            (None, _) => {}
        }
        let side = (TILE / bytes.max(1)).max(1).cast_signed();
        Job { kernel, tile: (even(x.n, side), even(y.n, side)), x, y, outer: loops, starts, table }
    }

    /// Tiles of the job: what threads share.
    pub(super) fn items(&self) -> usize {
        let starts = if self.table { 1 } else { self.starts.len() };
        let outer: usize = self.outer.iter().map(|a| a.n.unsigned_abs()).product();
        let (tx, ty) = self.tiles();
        starts * outer * tx * ty
    }

    fn tiles(&self) -> (usize, usize) {
        let count = |n: isize, t: isize| n.unsigned_abs().div_ceil(t.unsigned_abs());
        (count(self.x.n, self.tile.0), count(self.y.n, self.tile.1))
    }

    /// Runs some of the tiles.
    ///
    /// # Safety
    /// Everything that the nest reads from `src` is readable, everything it writes to `dst` is
    /// writable, and the two do not overlap.
    pub(super) unsafe fn run(&self, items: Range<usize>, src: *const u8, dst: *mut u8) {
        let (tx, ty) = self.tiles();
        let mut rest = items.start;
        let mut split = |n: usize| {
            let digit = rest % n.max(1);
            rest /= n.max(1);
            digit
        };
        let (mut j, mut i) = (split(ty), split(tx));
        let mut digits: Vec<isize> =
            self.outer.iter().rev().map(|a| split(a.n.unsigned_abs()).cast_signed()).collect();
        digits.reverse();
        let mut start = split(self.starts.len());
        for _ in items {
            let (mut a, mut b) = if self.table { (0, 0) } else { self.starts[start] };
            for (axis, digit) in self.outer.iter().zip(&digits) {
                a += axis.src * digit;
                b += axis.dst * digit;
            }
            // SAFETY: by the contract of this function: these are offsets of the nest.
            unsafe {
                self.one(
                    i.cast_signed() * self.tile.0,
                    j.cast_signed() * self.tile.1,
                    a,
                    b,
                    src,
                    dst,
                )
            };
            // The next tile: fastest first.
            j += 1;
            if j < ty {
                continue;
            }
            j = 0;
            i += 1;
            if i < tx {
                continue;
            }
            i = 0;
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
        cell::fence();
    }

    /// The tile that begins at step `i` of `x` and `j` of `y`, at offsets `a` and `b`.
    ///
    /// # Safety
    /// As [`Job::run`].
    #[inline]
    unsafe fn one(&self, i: isize, j: isize, a: isize, b: isize, src: *const u8, dst: *mut u8) {
        let (x, y) = (self.x, self.y);
        let x_part = Axis { n: (x.n - i).min(self.tile.0), ..x };
        let y_part = Axis { n: (y.n - j).min(self.tile.1), ..y };
        let (a, b) = (a + i * x.src + j * y.src, b + i * x.dst + j * y.dst);
        // SAFETY: the tile lies inside the loops of the nest, whose addresses the caller vouches for.
        unsafe {
            match self.kernel {
                Kernel::Rows { run, bytes } if self.table => {
                    let width = bytes;
                    for p in 0..x_part.n {
                        for q in 0..y_part.n {
                            let s = src.offset(a + p * x.src + q * y.src);
                            let d = dst.offset(b + p * x.dst + q * y.dst);
                            self.table_rows(run, s, d, width);
                        }
                    }
                }
                Kernel::Rows { run, bytes } => {
                    run(src.offset(a), dst.offset(b), bytes, x_part, y_part)
                }
                Kernel::Transpose { run } => {
                    let tile = Tile {
                        na: x_part.n.unsigned_abs(),
                        sa: x.src,
                        nb: y_part.n.unsigned_abs(),
                        db: y.dst,
                    };
                    run(src.offset(a), dst.offset(b), tile);
                }
                Kernel::Elements { run } => run(src.offset(a), dst.offset(b), x_part, y_part),
                Kernel::Linear { run, bytes } => {
                    let done = j.unsigned_abs() * CHUNK;
                    let length = (bytes - done).min(CHUNK * y_part.n.unsigned_abs());
                    run(src.offset(a), dst.offset(b), length, Axis::UNIT, Axis::UNIT);
                }
            }
        }
    }

    /// One run at every start of the table.
    ///
    /// # Safety
    /// As [`Job::run`].
    #[inline]
    unsafe fn table_rows(&self, run: Rows, src: *const u8, dst: *mut u8, bytes: usize) {
        for (a, b) in &self.starts {
            // SAFETY: by the contract of this function.
            unsafe { run(src.offset(*a), dst.offset(*b), bytes, Axis::UNIT, Axis::UNIT) };
        }
    }
}

/// The loop with the smallest nonzero stride on one side.
fn smallest(loops: &[Axis], stride: fn(&Axis) -> isize) -> Option<usize> {
    let moving = loops.iter().enumerate().filter(|(_, l)| stride(l) != 0);
    moving.min_by_key(|(_, l)| stride(l).abs()).map(|(i, _)| i).or(if loops.is_empty() {
        None
    } else {
        Some(0)
    })
}

fn without(loops: &[Axis], drop: &[usize]) -> Vec<Axis> {
    loops.iter().enumerate().filter(|(i, _)| !drop.contains(i)).map(|(_, l)| *l).collect()
}

/// A tile of about `most` steps that cuts `n` into nearly equal parts.
fn even(n: isize, most: isize) -> isize {
    let parts = n.unsigned_abs().div_ceil(most.max(1).unsigned_abs()).max(1);
    n.unsigned_abs().div_ceil(parts).max(1).cast_signed()
}
