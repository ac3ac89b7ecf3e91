//! Tiles with non-temporal stores from whole lines: 64 bytes of each of `64 / E` rows become as many columns
//! of 64 bytes.
//!
//! Every line of the source is read once, in place, so it matters little that rows a power of two apart fall
//! into few sets of the caches: a line need only stay from its prefetch to its one use. The columns of a tile
//! are gathered line by line and are stored as longer rows.

use super::super::cell::{prefetch_line, x86::Avx512};
use super::gathered::{LineSquares, stream_gathered_squares};
use super::scratch::Scratch;
use super::{TransposeTile, phased, registers, transpose_rows_in_lanes, unrolled};
use crate::engine::tuning::MAX_SAME_PAGE_STEP_BYTES;
use std::arch::x86_64::*;

/// Prefetches the lines of the next tile, row by row: bursts that memory answers from one of its pages.
pub(super) struct LinePrefetcher {
    row: *const u8,
    step: isize,
    at: usize,
    bytes: usize,
}

impl LinePrefetcher {
    /// The lines of the tile behind `t`, which has rows of `width` bytes for every element.
    pub(super) fn behind_tile(t: &TransposeTile, width: usize) -> LinePrefetcher {
        LinePrefetcher { row: t.next, step: t.next_step, at: 0, bytes: t.nb * width }
    }

    /// Prefetches the next `lines`.
    #[inline(always)]
    pub(super) fn prefetch_lines(&mut self, mut lines: usize) {
        while lines > 0 {
            let end = self.bytes.min(self.at + 64 * lines);
            while self.at < end {
                prefetch_line(self.row.wrapping_add(self.at));
                self.at += 64;
                lines -= 1;
            }
            // The row is over; where the tile is too, the prefetches continue behind it, which is harmless
            // and saves a count of rows.
            if self.at >= self.bytes {
                self.at = 0;
                self.row = self.row.wrapping_offset(self.step);
            }
        }
    }
}

/// The first half of a square: `4 * R` rows of 64 bytes, `R = 16 / E`, in groups of `R` that are
/// transposed lane by lane. `other` work is done between the groups.
///
/// # Safety
/// The rows, `sa` apart, are readable at `src`; `4 * R` lines are writable at `between`, aligned; and
/// the machine has AVX-512 BW.
#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
pub(super) unsafe fn load_square<const E: usize, const R: usize>(
    src: *const u8,
    sa: isize,
    between: *mut u8,
    mut other: impl FnMut(),
) {
    for group in 0..4 {
        other();
        // SAFETY: by the contract of this function.
        unsafe {
            let v: [__m512i; R] =
                transpose_rows_in_lanes::<_, E, R>(src.offset((group * R).cast_signed() * sa), sa);
            unrolled!(k < R, _mm512_store_si512(between.add((group * R + k) * 64).cast(), v[k]));
        }
    }
}

/// The second half: registers `k` of the four groups exchange their lanes, and become columns `k`,
/// `R + k`, `2 * R + k` and `3 * R + k`.
///
/// # Safety
/// `between` holds a square as [`load_square`] leaves it, and the machine has AVX-512.
#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
pub(super) unsafe fn exchange_columns<const R: usize>(
    between: *const u8,
    k: usize,
) -> [__m512i; 4] {
    // SAFETY: by the contract of this function.
    exchange_lanes(
        [0, 1, 2, 3]
            .map(|group| unsafe { _mm512_load_si512(between.add((group * R + k) * 64).cast()) }),
    )
}

/// Lane `i` of register `j` becomes lane `j` of register `i`.
#[target_feature(enable = "avx512f")]
#[inline]
pub(super) fn exchange_lanes([a, b, c, d]: [__m512i; 4]) -> [__m512i; 4] {
    let (ab, cd) = (_mm512_shuffle_i32x4::<0x44>(a, b), _mm512_shuffle_i32x4::<0x44>(c, d));
    let (ab_high, cd_high) =
        (_mm512_shuffle_i32x4::<0xee>(a, b), _mm512_shuffle_i32x4::<0xee>(c, d));
    [
        _mm512_shuffle_i32x4::<0x88>(ab, cd),
        _mm512_shuffle_i32x4::<0xdd>(ab, cd),
        _mm512_shuffle_i32x4::<0x88>(ab_high, cd_high),
        _mm512_shuffle_i32x4::<0xdd>(ab_high, cd_high),
    ]
}

/// Streams columns `k` of `N` squares side by side: `N` adjacent lines of each of four rows.
///
/// # Safety
/// As [`exchange_columns`] for every square; their places at `dst`, rows `db` apart, are writable and aligned.
#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
unsafe fn stream_columns<const R: usize, const N: usize>(
    between: *const u8,
    dst: *mut u8,
    db: isize,
    k: usize,
) {
    // SAFETY: by the contract of this function.
    unsafe {
        let mut lines = [exchange_columns::<R>(between, k); N];
        unrolled!(i < N, lines[i] = exchange_columns::<R>(between.add(i * 4 * R * 64), k));
        unrolled!(lane < 4, {
            let row = dst.offset((lane * R + k).cast_signed() * db);
            unrolled!(i < N, _mm512_stream_si512(row.add(i * 64).cast(), lines[i][lane]));
        });
    }
}

/// A tile of whole lines that are aligned in the destination: they go there from the registers.
///
/// # Safety
/// As [`super::transpose_sized`]; `na` and `nb` are at least `64 / E`; `na * E`, `dst` and `db` are multiples of
/// 64; and the machine has AVX-512 BW.
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn stream_aligned_tile<const E: usize, const R: usize>(
    src: *const u8,
    dst: *mut u8,
    t: TransposeTile,
) {
    let side = 4 * R;
    // SAFETY: `na * E / 64 <= MAX_TILE_ROW_BYTES / 64` squares fit the scratch. They stay inside the tile: the last
    // one along the source is moved back to end with it, and writes the same bytes again.
    unsafe {
        let scratch: &mut Scratch = &mut *t.scratch;
        let squares = scratch.square_memory();
        let lines = t.na / side;
        let mut ahead = LinePrefetcher::behind_tile(&t, E);
        let mut b = 0usize;
        loop {
            // All squares of a row of lines first: the lines of a destination row are then stored one behind
            // the other, and memory writes them as one burst.
            for a in 0..lines {
                let from = src.add(b * E).offset((a * side).cast_signed() * t.sa);
                load_square::<E, R>(from, t.sa, squares.add(a * side * 64), || {
                    ahead.prefetch_lines(R);
                });
            }
            let to = dst.offset(b.cast_signed() * t.db);
            for k in 0..R {
                let mut a = 0;
                while a < lines {
                    let (from, to) = (squares.add(a * side * 64), to.add(a * 64));
                    // Four squares give four adjacent lines of every row, as many as fit the registers.
                    a += match lines - a {
                        1 => {
                            stream_columns::<R, 1>(from, to, t.db, k);
                            1
                        }
                        2 | 3 => {
                            stream_columns::<R, 2>(from, to, t.db, k);
                            2
                        }
                        _ => {
                            stream_columns::<R, 4>(from, to, t.db, k);
                            4
                        }
                    };
                }
            }
            if b + side >= t.nb {
                return;
            }
            b = (b + side).min(t.nb - side);
        }
    }
}

/// The squares of AVX-512.
struct Avx512Squares;

impl LineSquares for Avx512Squares {
    type Lane = Avx512;

    #[inline(always)]
    unsafe fn load_square<const E: usize, const R: usize>(
        src: *const u8,
        sa: isize,
        between: *mut u8,
        mut other: impl FnMut(usize),
    ) {
        let mut group = 0;
        // SAFETY: by the contract of this function.
        unsafe {
            load_square::<E, R>(src, sa, between, || {
                other(group);
                group += 1;
            });
        }
    }

    #[inline(always)]
    unsafe fn store_columns<const R: usize>(between: *const u8, to: *mut u8, pitch: usize) {
        for k in 0..R {
            // SAFETY: by the contract of this function.
            unsafe {
                for (lane, line) in exchange_columns::<R>(between, k).into_iter().enumerate() {
                    _mm512_storeu_si512(to.add((lane * R + k) * pitch).cast(), line);
                }
            }
        }
    }
}

/// Any other tile of at least one square, by gathered columns.
///
/// # Safety
/// As [`super::transpose_sized`]; `na` and `nb` are at least `64 / E`, and the machine has AVX-512 BW.
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn stream_gathered_tile<const E: usize, const R: usize>(
    src: *const u8,
    dst: *mut u8,
    t: TransposeTile,
) {
    let mut ahead = LinePrefetcher::behind_tile(&t, E);
    // SAFETY: by the contract of this function.
    unsafe {
        stream_gathered_squares::<Avx512Squares, E, R>(src, dst, t, |_, _| ahead.prefetch_lines(R));
    }
}

/// # Safety
/// As [`stream_gathered_tile`].
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn stream_sized_tile<const E: usize, const R: usize>(
    src: *const u8,
    dst: *mut u8,
    t: TransposeTile,
) {
    let (row, step) = (t.na * E, t.db.unsigned_abs());
    let aligned = (row | dst.addr() | step).is_multiple_of(64);
    // SAFETY: by the contract of this function; the destination is aligned where lines go directly.
    unsafe {
        // Registers alone are best where they can be: whatever is kept in memory waits behind the stores.
        if aligned && registers::suits_registers(&t, E) {
            registers::transpose_avx512::<E>(src, dst, t);
        } else if phased::suits_phased(&t) {
            // Conflicting rows would drive one another out of the caches before their last use.
            phased::transpose_staged::<Avx512, E>(src, dst, t, |src, dst, t| {
                if aligned {
                    registers::transpose_avx512::<E>(src, dst, t);
                } else {
                    stream_gathered_tile::<E, R>(src, dst, t);
                }
            });
        } else if aligned && (step >= MAX_SAME_PAGE_STEP_BYTES || step == row) {
            // Lines may go to their rows one by one where these are in pages of their own, or follow one another.
            stream_aligned_tile::<E, R>(src, dst, t);
        } else {
            stream_gathered_tile::<E, R>(src, dst, t);
        }
    }
}

/// Whether a tile holds a square.
pub(super) fn fits_line_square<const E: usize>(t: &TransposeTile) -> bool {
    t.na * E >= 64 && t.nb * E >= 64
}

/// A tile with non-temporal stores that [`fits_line_square`].
///
/// # Safety
/// As [`stream_sized_tile`].
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) unsafe fn transpose_streamed<const E: usize>(
    src: *const u8,
    dst: *mut u8,
    t: TransposeTile,
) {
    // SAFETY: by the contract of this function. `E` is one of these widths.
    unsafe {
        match E {
            1 => stream_sized_tile::<E, 16>(src, dst, t),
            2 => stream_sized_tile::<E, 8>(src, dst, t),
            4 => stream_sized_tile::<E, 4>(src, dst, t),
            8 => stream_sized_tile::<E, 2>(src, dst, t),
            _ => stream_sized_tile::<E, 1>(src, dst, t),
        }
    }
}
