//! Tiles with non-temporal stores that never leave the registers: `64 / E` rows of 16 bytes become `16 / E`
//! lines.
//!
//! A register takes 16 bytes of each of several rows, as far apart as a lane has elements, and is a whole
//! line of the destination, or half of one, after the rounds of interleaving. No line is kept in memory on
//! the way: stores are done in order, so a usual store behind non-temporal ones waits for all of them, and
//! a load of what was kept in memory waits for the destination. Measured on Zen 4, tiles that are compact
//! on both sides reach the speed of a copy this way and half of it by squares.
//!
//! A line of the source is read four times, so it has to stay near: this is for few rows, or near ones.

use super::super::stream::LINE_BYTES;
use super::{TransposeTile, interleave_rounds, unrolled};
use crate::engine::tuning::{L1_SETS, L1_TILE_WAYS, MAX_COMPACT_TILE_BYTES};
use std::arch::x86_64::*;

/// Whether the source of a tile is one compact stretch of memory.
fn has_compact_source(t: &TransposeTile) -> bool {
    t.na * t.sa.unsigned_abs() <= MAX_COMPACT_TILE_BYTES
}

/// Whether a tile is one for this file: its rows follow one another in the destination, and the first level
/// cache holds a line of each of them, which it cannot where they are a power of two apart.
pub(super) fn suits_registers(t: &TransposeTile, width: usize) -> bool {
    let step = t.sa.unsigned_abs();
    // Rows that are 2^k lines apart use one of every 2^k sets, because a set is the line number modulo 64.
    let sets = L1_SETS >> (step / LINE_BYTES).trailing_zeros().min(L1_SETS.trailing_zeros());
    let near = step <= LINE_BYTES || t.na <= sets * L1_TILE_WAYS;
    t.db == (t.na * width).cast_signed() && near
}

/// Prefetches the lines of the next tile, row by row, one at a time.
struct RowPrefetcher {
    at: *const u8,
    left: usize,
    lines: usize,
    skip: isize,
}

impl RowPrefetcher {
    fn behind_tile(t: &TransposeTile, width: usize) -> RowPrefetcher {
        let lines = (t.nb * width).div_ceil(LINE_BYTES);
        let skip = t.next_step - (lines * LINE_BYTES).cast_signed();
        RowPrefetcher { at: t.next, left: lines, lines, skip }
    }

    /// Prefetches one more line; a `NEAR` one into the first level cache, because it is read at once.
    #[inline(always)]
    fn prefetch_next<const NEAR: bool>(&mut self) {
        // SAFETY: a prefetch of any address is harmless.
        unsafe {
            if NEAR {
                _mm_prefetch::<_MM_HINT_T0>(self.at.cast());
            } else {
                _mm_prefetch::<_MM_HINT_T1>(self.at.cast());
            }
        }
        self.at = self.at.wrapping_add(LINE_BYTES);
        self.left -= 1;
        if self.left == 0 {
            self.left = self.lines;
            self.at = self.at.wrapping_offset(self.skip);
        }
    }
}

/// 16 bytes of each of `4 * R` rows as `R` columns, each a line.
///
/// # Safety
/// The rows, `sa` apart, are readable at `src` for 16 bytes, and the machine has AVX-512 BW.
#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
unsafe fn transpose_to_lines<const E: usize, const R: usize>(
    src: *const u8,
    sa: isize,
) -> [__m512i; R] {
    let mut v = [_mm512_setzero_si512(); R];
    let far = R.cast_signed() * sa;
    // SAFETY: by the contract of this function.
    unsafe {
        unrolled!(k < R, {
            let row = src.offset(k.cast_signed() * sa);
            let lane = |i: isize| _mm_loadu_si128(row.offset(i * far).cast());
            let one = _mm512_castsi128_si512(lane(0));
            let two = _mm512_inserti32x4::<1>(one, lane(1));
            let three = _mm512_inserti32x4::<2>(two, lane(2));
            v[k] = _mm512_inserti32x4::<3>(three, lane(3));
        });
        interleave_rounds::<_, E, R>(v)
    }
}

/// 16 bytes of each of `2 * R` rows as `R` columns, each half a line.
///
/// # Safety
/// The rows, `sa` apart, are readable at `src` for 16 bytes, and the machine has AVX2.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn transpose_to_half_lines<const E: usize, const R: usize>(
    src: *const u8,
    sa: isize,
) -> [__m256i; R] {
    let mut v = [_mm256_setzero_si256(); R];
    let far = R.cast_signed() * sa;
    // SAFETY: by the contract of this function.
    unsafe {
        unrolled!(k < R, {
            let row = src.offset(k.cast_signed() * sa);
            let low = _mm256_castsi128_si256(_mm_loadu_si128(row.cast()));
            v[k] = _mm256_inserti128_si256::<1>(low, _mm_loadu_si128(row.offset(far).cast()));
        });
        interleave_rounds::<_, E, R>(v)
    }
}

/// # Safety
/// As [`super::transpose_sized`]; `nb` is at least `R`; `na * E`, `dst` and `db` are multiples of 64; and the machine
/// has AVX-512 BW.
#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
unsafe fn transpose_avx512_sized<const E: usize, const R: usize, const NEAR: bool>(
    src: *const u8,
    dst: *mut u8,
    t: TransposeTile,
) {
    let far = (4 * R).cast_signed() * t.sa;
    let count = t.na / (4 * R);
    let mut ahead = RowPrefetcher::behind_tile(&t, E);
    // SAFETY: columns and lines stay inside the tile: the last columns are moved back to end with it, and
    // the same bytes are written again.
    unsafe {
        let mut b = 0usize;
        loop {
            let (mut from, mut to) = (src.add(b * E), dst.offset(b.cast_signed() * t.db));
            // Two lines of every row at a time, so that memory has both for one of its bursts.
            for _ in 0..count / 2 {
                let v = [
                    transpose_to_lines::<E, R>(from, t.sa),
                    transpose_to_lines::<E, R>(from.offset(far), t.sa),
                ];
                unrolled!(k < R, {
                    let row = to.offset(k.cast_signed() * t.db);
                    ahead.prefetch_next::<NEAR>();
                    _mm512_stream_si512(row.cast(), v[0][k]);
                    ahead.prefetch_next::<NEAR>();
                    _mm512_stream_si512(row.add(LINE_BYTES).cast(), v[1][k]);
                });
                (from, to) = (from.wrapping_offset(2 * far), to.wrapping_add(2 * LINE_BYTES));
            }
            if count % 2 == 1 {
                let v = transpose_to_lines::<E, R>(from, t.sa);
                unrolled!(k < R, {
                    ahead.prefetch_next::<NEAR>();
                    _mm512_stream_si512(to.offset(k.cast_signed() * t.db).cast(), v[k]);
                });
            }
            if b + R >= t.nb {
                return;
            }
            b = (b + R).min(t.nb - R);
        }
    }
}

/// # Safety
/// As [`transpose_avx512_sized`], with AVX2.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn transpose_avx2_sized<const E: usize, const R: usize, const NEAR: bool>(
    src: *const u8,
    dst: *mut u8,
    t: TransposeTile,
) {
    let far = (2 * R).cast_signed() * t.sa;
    let count = t.na / (4 * R);
    let mut ahead = RowPrefetcher::behind_tile(&t, E);
    // SAFETY: columns and lines stay inside the tile, as with AVX-512.
    unsafe {
        let mut b = 0usize;
        loop {
            let (mut from, mut to) = (src.add(b * E), dst.offset(b.cast_signed() * t.db));
            for _ in 0..count {
                let low = transpose_to_half_lines::<E, R>(from, t.sa);
                let high = transpose_to_half_lines::<E, R>(from.offset(far), t.sa);
                unrolled!(k < R, {
                    let row = to.offset(k.cast_signed() * t.db);
                    ahead.prefetch_next::<NEAR>();
                    _mm256_stream_si256(row.cast(), low[k]);
                    _mm256_stream_si256(row.add(LINE_BYTES / 2).cast(), high[k]);
                });
                (from, to) = (from.wrapping_offset(2 * far), to.wrapping_add(LINE_BYTES));
            }
            if b + R >= t.nb {
                return;
            }
            b = (b + R).min(t.nb - R);
        }
    }
}

macro_rules! widths {
    ($f:ident, $e:ident, $near:literal, ($($argument:expr),*)) => {
        match $e {
            1 => $f::<$e, 16, $near>($($argument),*),
            2 => $f::<$e, 8, $near>($($argument),*),
            4 => $f::<$e, 4, $near>($($argument),*),
            8 => $f::<$e, 2, $near>($($argument),*),
            _ => $f::<$e, 1, $near>($($argument),*),
        }
    };
}

/// # Safety
/// As [`super::transpose_sized`]; `nb * E` is at least 16; `na * E`, `dst` and `db` are multiples of 64; and the
/// machine has AVX-512 BW.
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) unsafe fn transpose_avx512<const E: usize>(
    src: *const u8,
    dst: *mut u8,
    t: TransposeTile,
) {
    // SAFETY: by the contract of this function. `E` is one of these widths.
    unsafe {
        // A compact tile leaves room in the first level cache for the next one; another would drive out the
        // rows that are still to be read.
        if has_compact_source(&t) {
            widths!(transpose_avx512_sized, E, true, (src, dst, t));
        } else {
            widths!(transpose_avx512_sized, E, false, (src, dst, t));
        }
    }
}

/// # Safety
/// As [`transpose_avx512`], with AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn transpose_avx2<const E: usize>(
    src: *const u8,
    dst: *mut u8,
    t: TransposeTile,
) {
    // SAFETY: by the contract of this function. `E` is one of these widths.
    unsafe {
        if has_compact_source(&t) {
            widths!(transpose_avx2_sized, E, true, (src, dst, t));
        } else {
            widths!(transpose_avx2_sized, E, false, (src, dst, t));
        }
    }
}
