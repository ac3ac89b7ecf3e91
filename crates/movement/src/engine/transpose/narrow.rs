//! Tiles of which one side, or both, has 8 to 15 bytes: half of a register's lane.
//!
//! Rows of 8 bytes are interleaved in pairs as they are loaded, so that half as many registers hold the
//! block. Columns of 8 bytes are the two halves of a register, and are stored one by one.

use super::{TransposeLanes, TransposeTile, for_each_block, interleave_rounds, unrolled};
use std::arch::x86_64::*;

/// Whether a tile is one for this file: too narrow for a block of whole lanes, and wide enough for halves.
pub(super) fn suits_narrow_blocks<const E: usize>(t: &TransposeTile) -> bool {
    let (rows, columns) = (t.na * E, t.nb * E);
    // One element of 8 bytes is half a lane, so a narrow block of them has nothing to transpose.
    E < 8 && rows >= 8 && columns >= 8 && (rows < 16 || columns < 16)
}

/// A block of `A` rows and `B` columns, each 8 or 16 bytes of elements, in `N` registers.
///
/// # Safety
/// The rows, `sa` apart, are readable at `src`, and the columns, `db` apart, writable at `dst`.
#[inline(always)]
unsafe fn transpose_narrow_block<const E: usize, const A: usize, const B: usize, const N: usize>(
    src: *const u8,
    sa: isize,
    dst: *mut u8,
    db: isize,
) {
    // SAFETY: by the contract of this function; SSE2 is part of the baseline.
    unsafe {
        let row = |k: usize| src.offset(k.cast_signed() * sa);
        let column = |k: usize| dst.offset(k.cast_signed() * db);
        let mut v = [_mm_setzero_si128(); N];
        if B * E == 16 {
            unrolled!(k < N, v[k] = _mm_loadu_si128(row(k).cast()));
        } else {
            // Two rows of 8 bytes fill a register, and their interleaving is the first of the rounds.
            let half = |k: usize| _mm_loadl_epi64(row(k).cast());
            unrolled!(
                k < N,
                v[k] = TransposeLanes::interleave_elements::<E>(half(k), half(k + N)).0
            );
        }
        let v = interleave_rounds::<__m128i, E, N>(v);
        if A * E == 16 {
            unrolled!(k < N, _mm_storeu_si128(column(k).cast(), v[k]));
        } else {
            unrolled!(k < N, {
                _mm_storel_epi64(column(2 * k).cast(), v[k]);
                _mm_storel_epi64(column(2 * k + 1).cast(), _mm_unpackhi_epi64(v[k], v[k]));
            });
        }
    }
}

/// # Safety
/// The tile has at least `A` rows and `B` columns, is readable at `src` and writable at `dst`, and the two do
/// not overlap.
#[inline(always)]
unsafe fn transpose_narrow_sized<const E: usize, const A: usize, const B: usize, const N: usize>(
    src: *const u8,
    dst: *mut u8,
    t: TransposeTile,
) {
    for_each_block((t.na, A), (t.nb, B), |a, b| {
        // SAFETY: rows `a .. a + A` and columns `b .. b + B` stay inside the tile.
        unsafe {
            let from = src.add(b * E).offset(a.cast_signed() * t.sa);
            let to = dst.add(a * E).offset(b.cast_signed() * t.db);
            transpose_narrow_block::<E, A, B, N>(from, t.sa, to, t.db);
        }
    });
}

/// # Safety
/// The tile [`suits_narrow_blocks`], is readable at `src` and writable at `dst`, and the two do not overlap.
#[inline(always)]
pub(super) unsafe fn transpose_narrow<const E: usize>(
    src: *const u8,
    dst: *mut u8,
    t: TransposeTile,
) {
    // SAFETY: by the contract of this function. `E` is one of these widths.
    unsafe {
        match (E, t.na * E < 16, t.nb * E < 16) {
            (1, true, true) => transpose_narrow_sized::<E, 8, 8, 4>(src, dst, t),
            (1, true, false) => transpose_narrow_sized::<E, 8, 16, 8>(src, dst, t),
            (1, false, _) => transpose_narrow_sized::<E, 16, 8, 8>(src, dst, t),
            (2, true, true) => transpose_narrow_sized::<E, 4, 4, 2>(src, dst, t),
            (2, true, false) => transpose_narrow_sized::<E, 4, 8, 4>(src, dst, t),
            (2, false, _) => transpose_narrow_sized::<E, 8, 4, 4>(src, dst, t),
            (_, true, true) => transpose_narrow_sized::<E, 2, 2, 1>(src, dst, t),
            (_, true, false) => transpose_narrow_sized::<E, 2, 4, 2>(src, dst, t),
            (_, false, _) => transpose_narrow_sized::<E, 4, 2, 2>(src, dst, t),
        }
    }
}
