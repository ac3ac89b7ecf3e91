//! One, two and four lanes on x86-64.
use super::super::cell::PortableLane;
use super::super::cell::x86::{Avx, Avx512};
use super::{TransposeLanes, TransposeTile, cached, halves, narrow, square, transpose_width};

use std::arch::x86_64::*;

macro_rules! unpack {
    ($a:expr, $b:expr, $e:expr, $lo8:ident, $hi8:ident, $lo16:ident, $hi16:ident, $lo32:ident, $hi32:ident, $lo64:ident, $hi64:ident) => {
        match $e {
            1 => ($lo8($a, $b), $hi8($a, $b)),
            2 => ($lo16($a, $b), $hi16($a, $b)),
            4 => ($lo32($a, $b), $hi32($a, $b)),
            _ => ($lo64($a, $b), $hi64($a, $b)),
        }
    };
}

impl TransposeLanes for __m128i {
    const COUNT: usize = 1;
    #[inline(always)]
    unsafe fn load_lanes(p: *const u8) -> __m128i {
        // SAFETY: by the contract of `TransposeLanes`.
        unsafe { _mm_loadu_si128(p.cast()) }
    }
    #[inline(always)]
    unsafe fn interleave_elements<const E: usize>(a: __m128i, b: __m128i) -> (__m128i, __m128i) {
        // SAFETY: SSE2 is part of the x86-64 baseline.
        unsafe {
            unpack!(
                a,
                b,
                E,
                _mm_unpacklo_epi8,
                _mm_unpackhi_epi8,
                _mm_unpacklo_epi16,
                _mm_unpackhi_epi16,
                _mm_unpacklo_epi32,
                _mm_unpackhi_epi32,
                _mm_unpacklo_epi64,
                _mm_unpackhi_epi64
            )
        }
    }
    #[inline(always)]
    unsafe fn scatter_lanes(self, p: *mut u8, _: isize) {
        // SAFETY: by the contract of `TransposeLanes`.
        unsafe { _mm_storeu_si128(p.cast(), self) };
    }
}

impl TransposeLanes for __m256i {
    const COUNT: usize = 2;
    #[inline(always)]
    unsafe fn load_lanes(p: *const u8) -> __m256i {
        // SAFETY: by the contract of `TransposeLanes`.
        unsafe { _mm256_loadu_si256(p.cast()) }
    }
    #[inline(always)]
    unsafe fn interleave_elements<const E: usize>(a: __m256i, b: __m256i) -> (__m256i, __m256i) {
        // SAFETY: by the contract of `TransposeLanes`.
        unsafe {
            unpack!(
                a,
                b,
                E,
                _mm256_unpacklo_epi8,
                _mm256_unpackhi_epi8,
                _mm256_unpacklo_epi16,
                _mm256_unpackhi_epi16,
                _mm256_unpacklo_epi32,
                _mm256_unpackhi_epi32,
                _mm256_unpacklo_epi64,
                _mm256_unpackhi_epi64
            )
        }
    }
    #[inline(always)]
    unsafe fn scatter_lanes(self, p: *mut u8, step: isize) {
        // SAFETY: by the contract of `TransposeLanes`.
        unsafe {
            _mm_storeu_si128(p.cast(), _mm256_castsi256_si128(self));
            _mm_storeu_si128(p.offset(step).cast(), _mm256_extracti128_si256::<1>(self));
        }
    }
}

impl TransposeLanes for __m512i {
    const COUNT: usize = 4;
    #[inline(always)]
    unsafe fn load_lanes(p: *const u8) -> __m512i {
        // SAFETY: by the contract of `TransposeLanes`.
        unsafe { _mm512_loadu_si512(p.cast()) }
    }
    #[inline(always)]
    unsafe fn interleave_elements<const E: usize>(a: __m512i, b: __m512i) -> (__m512i, __m512i) {
        // SAFETY: by the contract of `TransposeLanes`.
        unsafe {
            unpack!(
                a,
                b,
                E,
                _mm512_unpacklo_epi8,
                _mm512_unpackhi_epi8,
                _mm512_unpacklo_epi16,
                _mm512_unpackhi_epi16,
                _mm512_unpacklo_epi32,
                _mm512_unpackhi_epi32,
                _mm512_unpacklo_epi64,
                _mm512_unpackhi_epi64
            )
        }
    }
    #[inline(always)]
    unsafe fn scatter_lanes(self, p: *mut u8, step: isize) {
        // SAFETY: by the contract of `TransposeLanes`.
        unsafe {
            _mm_storeu_si128(p.cast(), _mm512_castsi512_si128(self));
            _mm_storeu_si128(p.offset(step).cast(), _mm512_extracti32x4_epi32::<1>(self));
            _mm_storeu_si128(p.offset(2 * step).cast(), _mm512_extracti32x4_epi32::<2>(self));
            _mm_storeu_si128(p.offset(3 * step).cast(), _mm512_extracti32x4_epi32::<3>(self));
        }
    }
}

/// Narrow tiles use the widest register that they fill.
#[target_feature(enable = "avx512f,avx512bw,avx2")]
pub(super) unsafe fn transpose_avx512<const E: usize, const STREAM: bool>(
    src: *const u8,
    dst: *mut u8,
    t: TransposeTile,
) {
    // SAFETY: by the contract of this function, which enables the instructions.
    unsafe {
        // From the largest block that fits to the smallest, because every step down doubles the number of
        // stores for a line.
        if STREAM && square::fits_line_square::<E>(&t) {
            square::transpose_streamed::<E>(src, dst, t);
        } else if square::fits_line_square::<E>(&t) {
            cached::transpose_cached::<E>(src, dst, t);
        } else if narrow::suits_narrow_blocks::<E>(&t) && (!STREAM || (*t.scratch).is_untrimmed()) {
            // Narrow blocks write whole columns, so a tile that is written in part cannot use them.
            narrow::transpose_narrow::<E>(src, dst, t);
        } else if t.nb >= 4 * (16 / E) {
            transpose_width::<__m512i, Avx512, E, STREAM>(src, dst, t);
        } else if t.nb >= 2 * (16 / E) {
            transpose_width::<__m256i, Avx512, E, STREAM>(src, dst, t);
        } else {
            transpose_width::<__m128i, Avx512, E, STREAM>(src, dst, t);
        }
    }
}

#[target_feature(enable = "avx2")]
pub(super) unsafe fn transpose_avx2<const E: usize, const STREAM: bool>(
    src: *const u8,
    dst: *mut u8,
    t: TransposeTile,
) {
    // SAFETY: by the contract of this function, which enables the instructions.
    unsafe {
        // As with AVX-512; a square in the caches is one of registers here, half as wide as a line, so that
        // tiles too narrow for lines have one too.
        if STREAM && square::fits_line_square::<E>(&t) {
            halves::transpose_streamed::<E>(src, dst, t);
        } else if !STREAM && halves::fits_register_square::<E>(&t) {
            halves::transpose_cached::<E>(src, dst, t);
        } else if narrow::suits_narrow_blocks::<E>(&t) && (!STREAM || (*t.scratch).is_untrimmed()) {
            narrow::transpose_narrow::<E>(src, dst, t);
        } else if t.nb >= 2 * (16 / E) {
            transpose_width::<__m256i, Avx, E, STREAM>(src, dst, t);
        } else {
            transpose_width::<__m128i, PortableLane, E, STREAM>(src, dst, t);
        }
    }
}

/// Whatever the tile: SSE2 has one width of registers, and no stores of lines.
pub(super) unsafe fn transpose_sse2<const E: usize, const STREAM: bool>(
    src: *const u8,
    dst: *mut u8,
    t: TransposeTile,
) {
    // SAFETY: by the contract of this function; SSE2 is part of the baseline.
    unsafe {
        if narrow::suits_narrow_blocks::<E>(&t) && (!STREAM || (*t.scratch).is_untrimmed()) {
            narrow::transpose_narrow::<E>(src, dst, t);
        } else {
            transpose_width::<__m128i, PortableLane, E, STREAM>(src, dst, t);
        }
    }
}
