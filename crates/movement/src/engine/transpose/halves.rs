//! Tiles for registers of 32 bytes, half a line each.
//!
//! **With non-temporal stores**: the squares of [`super::square`], 64 bytes of `64 / E` rows. Every line of the
//! source is read once, in groups of `16 / E` rows, so that rows a power of two apart, of which a set of
//! the first level cache holds eight, are still there for the second half of their lines. The groups are
//! transposed lane by lane and left in memory; a line of the destination is then four loads of 16 bytes,
//! one from each group, and is stored by two stores one behind the other. That exchange of lanes takes no
//! shuffle at all.
//!
//! **Through the caches**: squares of 32 bytes. A register takes 16 bytes of each of two rows, as far
//! apart as a lane has elements, and is a whole column of the square after the rounds of interleaving.

use super::super::cell::x86::Avx;
use super::gathered::{LineSquares, stream_gathered_squares};
use super::scratch::Scratch;
use super::square::LinePrefetcher;
use super::{
    TransposeTile, interleave_rounds, phased, registers, transpose_rows_in_lanes, unrolled,
};
use std::arch::x86_64::*;

/// Bytes of a register.
const REGISTER_BYTES: usize = 32;

/// Two stretches of 16 bytes.
///
/// # Safety
/// Both are readable, and the machine has AVX2.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn load_two_stretches(low: *const u8, high: *const u8) -> __m256i {
    // SAFETY: by the contract of this function.
    unsafe {
        let low = _mm256_castsi128_si256(_mm_loadu_si128(low.cast()));
        _mm256_inserti128_si256::<1>(low, _mm_loadu_si128(high.cast()))
    }
}

/// The first half of a square of lines: `4 * R` rows of 64 bytes, `R = 16 / E`, in groups of `R` that
/// are transposed lane by lane. `other` work is done between the groups.
///
/// # Safety
/// The rows, `sa` apart, are readable at `src`; `4 * R` lines are writable at `between`, aligned; and
/// the machine has AVX2.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn load_square<const E: usize, const R: usize>(
    src: *const u8,
    sa: isize,
    between: *mut u8,
    mut other: impl FnMut(),
) {
    for group in 0..4 {
        other();
        // SAFETY: by the contract of this function.
        unsafe {
            let from = src.offset((group * R).cast_signed() * sa);
            let to = between.add(group * R * 64);
            let v: [__m256i; R] = transpose_rows_in_lanes::<_, E, R>(from, sa);
            unrolled!(k < R, _mm256_store_si256(to.add(k * 64).cast(), v[k]));
            let v: [__m256i; R] = transpose_rows_in_lanes::<_, E, R>(from.add(REGISTER_BYTES), sa);
            unrolled!(k < R, _mm256_store_si256(to.add(k * 64 + REGISTER_BYTES).cast(), v[k]));
        }
    }
}

/// The second half: column `lane * R + k`, a line.
///
/// # Safety
/// `between` holds a square as [`load_square`] leaves it, and the machine has AVX2.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn gather_column<const R: usize>(between: *const u8, lane: usize, k: usize) -> [__m256i; 2] {
    // SAFETY: by the contract of this function.
    unsafe {
        let at = between.add(k * 64 + lane * 16);
        let group = R * 64;
        [
            load_two_stretches(at, at.add(group)),
            load_two_stretches(at.add(2 * group), at.add(3 * group)),
        ]
    }
}

/// A tile of whole lines that are aligned in the destination: they go there from the registers.
///
/// Memory is read all the while: half of the next tile is prefetched while squares are made, half while
/// they are stored.
///
/// # Safety
/// As [`super::transpose_sized`]; `na` and `nb` are at least `64 / E`; `na * E`, `dst` and `db` are multiples of
/// 64; and the machine has AVX2.
#[target_feature(enable = "avx2")]
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
            for a in 0..lines {
                ahead.prefetch_lines(side / 2);
                let from = src.add(b * E).offset((a * side).cast_signed() * t.sa);
                load_square::<E, R>(from, t.sa, squares.add(a * side * 64), || ());
            }
            let to = dst.offset(b.cast_signed() * t.db);
            // In the order in which the square has its registers, so that each is read while it is near.
            for k in 0..R {
                for lane in 0..4 {
                    ahead.prefetch_lines(lines.div_ceil(2));
                    let row = to.offset((lane * R + k).cast_signed() * t.db);
                    for a in 0..lines {
                        let [low, high] = gather_column::<R>(squares.add(a * side * 64), lane, k);
                        _mm256_stream_si256(row.add(a * 64).cast(), low);
                        _mm256_stream_si256(row.add(a * 64 + REGISTER_BYTES).cast(), high);
                    }
                }
            }
            if b + side >= t.nb {
                return;
            }
            b = (b + side).min(t.nb - side);
        }
    }
}

/// The squares of AVX2.
struct Avx2Squares;

impl LineSquares for Avx2Squares {
    type Lane = Avx;

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
        for lane in 0..4 {
            for k in 0..R {
                // SAFETY: by the contract of this function.
                unsafe {
                    let [low, high] = gather_column::<R>(between, lane, k);
                    let to = to.add((lane * R + k) * pitch);
                    _mm256_storeu_si256(to.cast(), low);
                    _mm256_storeu_si256(to.add(REGISTER_BYTES).cast(), high);
                }
            }
        }
    }
}

/// Any other tile of at least one square, by gathered columns.
///
/// # Safety
/// As [`super::transpose_sized`]; `na` and `nb` are at least `64 / E`, and the machine has AVX2.
#[target_feature(enable = "avx2")]
unsafe fn stream_gathered_tile<const E: usize, const R: usize>(
    src: *const u8,
    dst: *mut u8,
    t: TransposeTile,
) {
    let mut ahead = LinePrefetcher::behind_tile(&t, E);
    // SAFETY: by the contract of this function.
    unsafe {
        stream_gathered_squares::<Avx2Squares, E, R>(src, dst, t, |_, _| ahead.prefetch_lines(R));
    }
}

/// # Safety
/// As [`stream_gathered_tile`].
#[target_feature(enable = "avx2")]
unsafe fn stream_sized_tile<const E: usize, const R: usize>(
    src: *const u8,
    dst: *mut u8,
    t: TransposeTile,
) {
    let aligned = ((t.na * E) | dst.addr() | t.db.unsigned_abs()).is_multiple_of(64);
    // SAFETY: by the contract of this function; the destination is aligned where lines go directly.
    unsafe {
        // Sixteen registers of bytes and those between two rounds are more than AVX2 has.
        if aligned && E > 1 && registers::suits_registers(&t, E) {
            registers::transpose_avx2::<E>(src, dst, t);
        } else if phased::suits_phased(&t) {
            // Conflicting rows are read before anything is written; what is staged is compact, so that the
            // registers suit it whatever the rows were.
            phased::transpose_staged::<Avx, E>(src, dst, t, |src, dst, t| match (aligned, E) {
                (true, 1) => stream_aligned_tile::<E, R>(src, dst, t),
                (true, _) => registers::transpose_avx2::<E>(src, dst, t),
                _ => stream_gathered_tile::<E, R>(src, dst, t),
            });
        } else if aligned {
            stream_aligned_tile::<E, R>(src, dst, t);
        } else {
            stream_gathered_tile::<E, R>(src, dst, t);
        }
    }
}

/// Whether a tile holds a square of registers.
pub(super) fn fits_register_square<const E: usize>(t: &TransposeTile) -> bool {
    t.na * E >= REGISTER_BYTES && t.nb * E >= REGISTER_BYTES
}

/// # Safety
/// As [`super::transpose_sized`]; the tile [`fits_register_square`], and the machine has AVX2.
#[target_feature(enable = "avx2")]
unsafe fn transpose_cached_sized<const E: usize, const R: usize>(
    src: *const u8,
    dst: *mut u8,
    t: TransposeTile,
) {
    let side = 2 * R;
    // SAFETY: squares stay inside the tile: the last one of each direction is moved back to end with
    // it, and writes the same bytes again.
    unsafe {
        let far = R.cast_signed() * t.sa;
        // Inner steps go along the rows of the destination, whose lines two squares share.
        let mut b = 0usize;
        loop {
            let (from, to) = (src.add(b * E), dst.offset(b.cast_signed() * t.db));
            let mut a = 0usize;
            loop {
                let (from, to) = (from.offset(a.cast_signed() * t.sa), to.add(a * E));
                for half in 0..2 {
                    let from = from.add(half * 16);
                    let mut v = [_mm256_setzero_si256(); R];
                    unrolled!(k < R, {
                        let row = from.offset(k.cast_signed() * t.sa);
                        v[k] = load_two_stretches(row, row.offset(far));
                    });
                    let v = interleave_rounds::<_, E, R>(v);
                    unrolled!(k < R, {
                        let row = to.offset((half * R + k).cast_signed() * t.db);
                        _mm256_storeu_si256(row.cast(), v[k]);
                    });
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

macro_rules! widths {
    ($f:ident, $e:ident ($($argument:expr),*)) => {
        match $e {
            1 => $f::<$e, 16>($($argument),*),
            2 => $f::<$e, 8>($($argument),*),
            4 => $f::<$e, 4>($($argument),*),
            8 => $f::<$e, 2>($($argument),*),
            _ => $f::<$e, 1>($($argument),*),
        }
    };
}

/// A tile with non-temporal stores that [fits a square of lines](super::square::fits_line_square).
///
/// # Safety
/// As [`stream_gathered_tile`].
#[target_feature(enable = "avx2")]
pub(super) unsafe fn transpose_streamed<const E: usize>(
    src: *const u8,
    dst: *mut u8,
    t: TransposeTile,
) {
    // SAFETY: by the contract of this function. `E` is one of these widths.
    unsafe { widths!(stream_sized_tile, E(src, dst, t)) }
}

/// A tile through the caches that [`fits_register_square`].
///
/// # Safety
/// As [`transpose_cached_sized`].
#[target_feature(enable = "avx2")]
pub(super) unsafe fn transpose_cached<const E: usize>(
    src: *const u8,
    dst: *mut u8,
    t: TransposeTile,
) {
    // SAFETY: by the contract of this function. `E` is one of these widths.
    unsafe { widths!(transpose_cached_sized, E(src, dst, t)) }
}
