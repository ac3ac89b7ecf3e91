//! Tiles that stay in the caches, from whole lines: the squares of [`super::square`], with usual stores.
//!
//! A line is stored at once instead of in four parts, so for wide elements loads and stores are no more than
//! those of a copy.

use super::square::{exchange_columns, exchange_lanes, load_square};
use super::{TransposeTile, transpose_by_element, transpose_rows_in_lanes, unrolled};
use std::arch::x86_64::*;
use std::mem::MaybeUninit;

/// Room for the square of the narrowest elements.
#[repr(align(64))]
struct SquareBuffer([MaybeUninit<u8>; 64 * 64]);

/// One square in registers.
///
/// # Safety
/// `4 * R` rows of a line, `sa` apart, are readable at `src`, as many are writable at `dst`, `db` apart,
/// and the machine has AVX-512 BW.
#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
unsafe fn transpose_in_registers<const E: usize, const R: usize>(
    src: *const u8,
    sa: isize,
    dst: *mut u8,
    db: isize,
) {
    // SAFETY: by the contract of this function.
    unsafe {
        let mut v = [[_mm512_setzero_si512(); R]; 4];
        unrolled!(
            g < 4,
            v[g] = transpose_rows_in_lanes::<_, E, R>(src.offset((g * R).cast_signed() * sa), sa)
        );
        unrolled!(k < R, {
            let lines = exchange_lanes([v[0][k], v[1][k], v[2][k], v[3][k]]);
            unrolled!(lane < 4, {
                let row = dst.offset((lane * R + k).cast_signed() * db);
                _mm512_storeu_si512(row.cast(), lines[lane]);
            });
        });
    }
}

/// One square of more lines than there are registers.
///
/// # Safety
/// As [`transpose_in_registers`].
#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
unsafe fn transpose_in_memory<const E: usize, const R: usize>(
    src: *const u8,
    sa: isize,
    dst: *mut u8,
    db: isize,
    between: &mut SquareBuffer,
) {
    // SAFETY: by the contract of this function; a square has at most 64 lines, and all of them are
    // written before they are read.
    unsafe {
        let between = between.0.as_mut_ptr().cast::<u8>();
        load_square::<E, R>(src, sa, between, || ());
        for k in 0..R {
            let lines = exchange_columns::<R>(between, k);
            unrolled!(lane < 4, {
                let row = dst.offset((lane * R + k).cast_signed() * db);
                _mm512_storeu_si512(row.cast(), lines[lane]);
            });
        }
    }
}

/// # Safety
/// As [`super::transpose_sized`]; a square fits the tile, and the machine has AVX-512 BW.
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn transpose_squares<const E: usize, const R: usize>(
    src: *const u8,
    dst: *mut u8,
    t: TransposeTile,
) {
    let side = 4 * R;
    let mut between = SquareBuffer([MaybeUninit::uninit(); 64 * 64]);
    // SAFETY: squares stay inside the tile: the last one of each direction is moved back to end with
    // it, and writes the same bytes again.
    unsafe {
        let mut b = 0usize;
        loop {
            let (from, to) = (src.add(b * E), dst.offset(b.cast_signed() * t.db));
            let mut a = 0usize;
            loop {
                let (from, to) = (from.offset(a.cast_signed() * t.sa), to.add(a * E));
                // 4 * R registers, and some between two rounds, are at most the 32 of AVX-512 for R <= 4.
                if R <= 4 {
                    transpose_in_registers::<E, R>(from, t.sa, to, t.db);
                } else {
                    transpose_in_memory::<E, R>(from, t.sa, to, t.db, &mut between);
                }
                if a + side >= t.na {
                    break;
                }
                a = (a + side).min(t.na - side);
            }
            if b + side >= t.nb {
                return;
            }
            b = (b + side).min(t.nb - side);
        }
    }
}

/// A tile that [fits a square](super::square::fits_line_square).
///
/// # Safety
/// As [`transpose_squares`].
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) unsafe fn transpose_cached<const E: usize>(
    src: *const u8,
    dst: *mut u8,
    t: TransposeTile,
) {
    // SAFETY: by the contract of this function. `E` is one of these widths.
    unsafe {
        match E {
            1 => transpose_squares::<E, 16>(src, dst, t),
            2 => transpose_squares::<E, 8>(src, dst, t),
            4 => transpose_squares::<E, 4>(src, dst, t),
            8 => transpose_squares::<E, 2>(src, dst, t),
            // Elements of a lane: where they do not begin on lines, a square loads and stores across two
            // lines, and where they do it gains nothing.
            _ => transpose_by_element::<E>(src, dst, t),
        }
    }
}
