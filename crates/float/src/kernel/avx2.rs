//! AVX2 with F16C: kernels in steps of 32 elements.
//!
//! What the driver ([`vector`]) needs of the instruction set: a [`reader`] and a [`writer`] per format, operations on
//! 16-bit elements, and steps of its [`own`] for pairs that only move bits. Sources that have to be rounded to odd
//! (float64, wide integers) and integer destinations are left to the compiler.

pub(super) mod arithmetic;
mod lanes;
mod own;
mod reader;
pub(super) mod row;
mod writer;

use std::arch::x86_64::*;

use super::vector::WriteFloatFormats;
use super::vector::{self, ConvertStep, LaneRegisters, ReadExactFormats, VectorIsa};
use super::{KernelPair, RowStrides, portable};
use crate::element::Element;
use crate::format::Format;

/// AVX2 with the conversions of F16C.
pub(super) struct Avx2;

impl LaneRegisters for Avx2 {
    type Lanes = lanes::Avx2Lanes;
}

impl ReadExactFormats for Avx2 {}

impl WriteFloatFormats for Avx2 {}

impl VectorIsa for Avx2 {
    type Words = [__m256i; 2];
    type WordMask = [__m256i; 2];

    const PREFETCH_BYTES: Option<usize> = Some(1024);
    const STREAMS_ROWS: bool = true;

    vector::drivers!(Avx2, "avx2,f16c");

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn run_short_array<K: ConvertStep>(src: *const u8, dst: *mut u8, count: usize) {
        // SAFETY: the caller's promise is passed on.
        unsafe { run_buffered_array::<K>(src, dst, count) }
    }

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn load_words(src: *const u8) -> [__m256i; 2] {
        // SAFETY: 32 elements are two vectors.
        unsafe { [load_register(src), load_register(src.add(32))] }
    }

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn store_words<const STREAM: bool>(dst: *mut u8, words: [__m256i; 2]) {
        // SAFETY: 32 elements are two vectors.
        unsafe {
            store_register::<STREAM>(dst, words[0]);
            store_register::<STREAM>(dst.add(32), words[1]);
        }
    }

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn splat_word(word: u16) -> [__m256i; 2] {
        [_mm256_set1_epi16(word.cast_signed()); 2]
    }

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn and_words(a: [__m256i; 2], b: [__m256i; 2]) -> [__m256i; 2] {
        [_mm256_and_si256(a[0], b[0]), _mm256_and_si256(a[1], b[1])]
    }

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn or_words(a: [__m256i; 2], b: [__m256i; 2]) -> [__m256i; 2] {
        [_mm256_or_si256(a[0], b[0]), _mm256_or_si256(a[1], b[1])]
    }

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn add_words(a: [__m256i; 2], b: [__m256i; 2]) -> [__m256i; 2] {
        [_mm256_add_epi16(a[0], b[0]), _mm256_add_epi16(a[1], b[1])]
    }

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn subtract_saturating(a: [__m256i; 2], b: [__m256i; 2]) -> [__m256i; 2] {
        [_mm256_subs_epu16(a[0], b[0]), _mm256_subs_epu16(a[1], b[1])]
    }

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn min_words(a: [__m256i; 2], b: [__m256i; 2]) -> [__m256i; 2] {
        [_mm256_min_epu16(a[0], b[0]), _mm256_min_epu16(a[1], b[1])]
    }

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn halve_rounding_up(words: [__m256i; 2]) -> [__m256i; 2] {
        // The average with zero, which rounds up.
        let zero = _mm256_setzero_si256();
        [_mm256_avg_epu16(words[0], zero), _mm256_avg_epu16(words[1], zero)]
    }

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn shift_left<const BITS: u32>(words: [__m256i; 2]) -> [__m256i; 2] {
        // The intrinsic wants a constant of another type, which no expression of `BITS` may be.
        match BITS {
            1 => [_mm256_slli_epi16::<1>(words[0]), _mm256_slli_epi16::<1>(words[1])],
            2 => [_mm256_slli_epi16::<2>(words[0]), _mm256_slli_epi16::<2>(words[1])],
            _ => {
                const { assert!(BITS <= 3, "the formulas need no more") };
                [_mm256_slli_epi16::<3>(words[0]), _mm256_slli_epi16::<3>(words[1])]
            }
        }
    }

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn shift_right<const BITS: u32>(words: [__m256i; 2]) -> [__m256i; 2] {
        if BITS == 2 {
            [_mm256_srli_epi16::<2>(words[0]), _mm256_srli_epi16::<2>(words[1])]
        } else {
            const { assert!(BITS == 2 || BITS == 3, "the formulas need no others") };
            [_mm256_srli_epi16::<3>(words[0]), _mm256_srli_epi16::<3>(words[1])]
        }
    }

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn at_least(magnitude: [__m256i; 2], low: u16) -> [__m256i; 2] {
        // AVX2 compares signed numbers only, which will do: magnitudes have no sign bit.
        let below = _mm256_set1_epi16((low - 1).cast_signed());
        [_mm256_cmpgt_epi16(magnitude[0], below), _mm256_cmpgt_epi16(magnitude[1], below)]
    }

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn equal_to(words: [__m256i; 2], word: u16) -> [__m256i; 2] {
        let word = _mm256_set1_epi16(word.cast_signed());
        [_mm256_cmpeq_epi16(words[0], word), _mm256_cmpeq_epi16(words[1], word)]
    }

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn within(magnitude: [__m256i; 2], low: u16, high: u16) -> [__m256i; 2] {
        let (below, high) =
            (_mm256_set1_epi16((low - 1).cast_signed()), _mm256_set1_epi16(high.cast_signed()));
        let inside =
            |x| _mm256_and_si256(_mm256_cmpgt_epi16(x, below), _mm256_cmpgt_epi16(high, x));
        [inside(magnitude[0]), inside(magnitude[1])]
    }

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn either(a: [__m256i; 2], b: [__m256i; 2]) -> [__m256i; 2] {
        [_mm256_or_si256(a[0], b[0]), _mm256_or_si256(a[1], b[1])]
    }

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn is_any(mask: [__m256i; 2]) -> bool {
        let any = _mm256_or_si256(mask[0], mask[1]);
        _mm256_testz_si256(any, any) == 0
    }

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn select_words(
        mask: [__m256i; 2],
        yes: [__m256i; 2],
        no: [__m256i; 2],
    ) -> [__m256i; 2] {
        [_mm256_blendv_epi8(no[0], yes[0], mask[0]), _mm256_blendv_epi8(no[1], yes[1], mask[1])]
    }

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn keep_zero(magnitude: [__m256i; 2], words: [__m256i; 2]) -> [__m256i; 2] {
        let zero = _mm256_setzero_si256();
        let keep = |magnitude, word| _mm256_andnot_si256(_mm256_cmpeq_epi16(magnitude, zero), word);
        [keep(magnitude[0], words[0]), keep(magnitude[1], words[1])]
    }

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn prefetch_array_line(at: *const u8) {
        _mm_prefetch::<_MM_HINT_T1>(at.cast());
    }

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn prefetch_row_line(at: *const u8) {
        _mm_prefetch::<_MM_HINT_T0>(at.cast());
    }

    fn copy_kernels(size: usize) -> KernelPair {
        own::copy_kernels(size)
    }

    fn select_own_kernels(src: Format, dst: Format) -> Option<KernelPair> {
        own::select_own_kernels(src, dst)
    }
}

/// The portable loop, compiled for AVX2.
///
/// # Safety
/// As for every [`ConvertKernel`](super::ConvertKernel).
#[target_feature(enable = "avx2,f16c")]
pub(super) unsafe fn run_portable_loop<S: Element, D: Element>(
    src: *const u8,
    dst: *mut u8,
    count: usize,
) {
    // SAFETY: the caller's promise is passed on.
    unsafe { portable::convert_portably::<S, D>(src, dst, count) }
}

/// Fewer than 32 elements. The buffers stay out of the frame of [`vector::run_steps`], whose loop is all that most calls
/// need.
#[target_feature(enable = "avx2,f16c")]
#[inline(never)]
unsafe fn run_buffered_array<K: ConvertStep>(src: *const u8, dst: *mut u8, count: usize) {
    // SAFETY: the caller's promise is passed on.
    unsafe { vector::run_short_array::<K>(src, dst, count) }
}

/// Loads 32 bytes.
///
/// # Safety
/// `src` is valid for 32 bytes.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn load_register(src: *const u8) -> __m256i {
    // SAFETY: the caller's promise; the instruction takes any address.
    unsafe { _mm256_loadu_si256(src.cast()) }
}

/// Loads 16 bytes.
///
/// # Safety
/// `src` is valid for 16 bytes.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn load_half_register(src: *const u8) -> __m128i {
    // SAFETY: the caller's promise; the instruction takes any address.
    unsafe { _mm_loadu_si128(src.cast()) }
}

/// Stores 32 bytes.
///
/// # Safety
/// `dst` is valid for 32 bytes and, with `STREAM`, a multiple of 32.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn store_register<const STREAM: bool>(dst: *mut u8, value: __m256i) {
    // SAFETY: the caller's promise.
    unsafe {
        if STREAM {
            _mm256_stream_si256(dst.cast(), value);
        } else {
            _mm256_storeu_si256(dst.cast(), value);
        }
    }
}
