//! Tiles that stay in the caches, from whole lines: the squares of [`square`], with usual stores.
//!
//! A line is stored at once instead of in four parts, so wide elements are bound by loads and stores
//! no more than a copy is.

use super::square::{columns, exchange, load};
use super::{Tile, by_element, lanes, unrolled};
use std::arch::x86_64::*;
use std::mem::MaybeUninit;

/// Room for the square of the narrowest elements.
#[repr(align(64))]
struct Between([MaybeUninit<u8>; 64 * 64]);

/// One square in registers.
///
/// # Safety
/// `4 * R` rows of a line, `sa` apart, are readable at `src`, as many are writable at `dst`, `db` apart,
/// and the machine has AVX-512 BW.
#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
unsafe fn in_registers<const E: usize, const R: usize>(
    src: *const u8,
    sa: isize,
    dst: *mut u8,
    db: isize,
) {
    // SAFETY: by the contract of this function.
    unsafe {
        let mut v = [[_mm512_setzero_si512(); R]; 4];
        unrolled!(g < 4, v[g] = lanes::<_, E, R>(src.offset((g * R).cast_signed() * sa), sa));
        unrolled!(k < R, {
            let lines = exchange([v[0][k], v[1][k], v[2][k], v[3][k]]);
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
/// As [`in_registers`].
#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
unsafe fn in_memory<const E: usize, const R: usize>(
    src: *const u8,
    sa: isize,
    dst: *mut u8,
    db: isize,
    between: &mut Between,
) {
    // SAFETY: by the contract of this function; a square has at most 64 lines, and all of them are
    // written before they are read.
    unsafe {
        let between = between.0.as_mut_ptr().cast::<u8>();
        load::<E, R>(src, sa, between, || ());
        for k in 0..R {
            let lines = columns::<R>(between, k);
            unrolled!(lane < 4, {
                let row = dst.offset((lane * R + k).cast_signed() * db);
                _mm512_storeu_si512(row.cast(), lines[lane]);
            });
        }
    }
}

/// # Safety
/// As [`super::sized`]; a square fits the tile, and the machine has AVX-512 BW.
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn sized<const E: usize, const R: usize>(src: *const u8, dst: *mut u8, t: Tile) {
    let side = 4 * R;
    let mut between = Between([MaybeUninit::uninit(); 64 * 64]);
    // SAFETY: squares stay inside the tile: the last one of each direction is moved back to end with
    // it, and writes the same bytes again.
    unsafe {
        let mut b = 0usize;
        loop {
            let (from, to) = (src.add(b * E), dst.offset(b.cast_signed() * t.db));
            let mut a = 0usize;
            loop {
                let (from, to) = (from.offset(a.cast_signed() * t.sa), to.add(a * E));
                if R <= 4 {
                    in_registers::<E, R>(from, t.sa, to, t.db);
                } else {
                    in_memory::<E, R>(from, t.sa, to, t.db, &mut between);
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

/// A tile in which a square [`fits`](super::square::fits).
///
/// # Safety
/// As [`sized`].
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) unsafe fn cached<const E: usize>(src: *const u8, dst: *mut u8, t: Tile) {
    // SAFETY: by the contract of this function. `E` is one of these widths.
    unsafe {
        match E {
            1 => sized::<E, 16>(src, dst, t),
            2 => sized::<E, 8>(src, dst, t),
            4 => sized::<E, 4>(src, dst, t),
            8 => sized::<E, 2>(src, dst, t),
            // Elements of a lane: a line of them is loaded and stored across two, where they do not begin on
            // lines, and gains nothing where they do.
            _ => by_element::<E>(src, dst, t),
        }
    }
}
