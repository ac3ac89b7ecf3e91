//! AVX-512: kernels in steps of 32 elements.
//!
//! What the driver ([`vector`]) needs of the instruction set: a [`reader`] and a [`writer`] per format, operations on
//! 16-bit elements, and steps of its [`own`] for pairs that only move bits. Here 64-bit floats and wide integers are
//! read too, rounded to odd, and integers are written. The rest is left to the compiler.

pub(super) mod arithmetic;
mod lanes;
mod own;
mod reader;
pub(super) mod row;
mod writer;

use std::arch::x86_64::*;

use super::vector::{self, ConvertStep, LaneRegisters, ReadExactFormats, STEP_ELEMENTS, VectorIsa};
use super::vector::{ReadFormat, ThroughF32, WriteFloatFormats, step_kernels};
use super::{KernelPair, RowStrides, portable};
use crate::element::Element;
use crate::format::Format;
use crate::small::{Bf16, Dl16, Dl16Inf, F8E4M3Fn, F8E5M2, F8E5M2Fnuz, F16};

/// AVX-512 with its extensions for bytes, words and short vectors.
pub(super) struct Avx512;

impl LaneRegisters for Avx512 {
    type Lanes = lanes::Avx512Lanes;
}

impl ReadExactFormats for Avx512 {}

impl WriteFloatFormats for Avx512 {}

impl VectorIsa for Avx512 {
    type Words = __m512i;
    type WordMask = u32;

    // A register is a whole cache line here, and with such steps prefetching made streamed rows slower.
    const PREFETCH_BYTES: Option<usize> = None;
    const STREAMS_ROWS: bool = true;

    vector::drivers!(Avx512, "avx512f,avx512bw,avx512dq,avx512vl");

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn run_short_array<K: ConvertStep>(src: *const u8, dst: *mut u8, count: usize) {
        // SAFETY: the caller's promise is passed on.
        unsafe { run_masked_array::<K>(src, dst, count) }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn load_words(src: *const u8) -> __m512i {
        // SAFETY: 32 elements are one vector.
        unsafe { _mm512_loadu_si512(src.cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn store_words<const STREAM: bool>(dst: *mut u8, words: __m512i) {
        // SAFETY: 32 elements are one vector.
        unsafe { store_register::<STREAM>(dst, words) }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn splat_word(word: u16) -> __m512i {
        _mm512_set1_epi16(word.cast_signed())
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn and_words(a: __m512i, b: __m512i) -> __m512i {
        _mm512_and_si512(a, b)
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn or_words(a: __m512i, b: __m512i) -> __m512i {
        _mm512_or_si512(a, b)
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn add_words(a: __m512i, b: __m512i) -> __m512i {
        _mm512_add_epi16(a, b)
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn subtract_saturating(a: __m512i, b: __m512i) -> __m512i {
        _mm512_subs_epu16(a, b)
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn min_words(a: __m512i, b: __m512i) -> __m512i {
        _mm512_min_epu16(a, b)
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn halve_rounding_up(words: __m512i) -> __m512i {
        // The average with zero, which rounds up.
        _mm512_avg_epu16(words, _mm512_setzero_si512())
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn shift_left<const BITS: u32>(words: __m512i) -> __m512i {
        _mm512_slli_epi16::<BITS>(words)
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn shift_right<const BITS: u32>(words: __m512i) -> __m512i {
        _mm512_srli_epi16::<BITS>(words)
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn at_least(magnitude: __m512i, low: u16) -> u32 {
        _mm512_cmpge_epu16_mask(magnitude, _mm512_set1_epi16(low.cast_signed()))
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn equal_to(words: __m512i, word: u16) -> u32 {
        _mm512_cmpeq_epi16_mask(words, _mm512_set1_epi16(word.cast_signed()))
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn within(magnitude: __m512i, low: u16, high: u16) -> u32 {
        // What is below `low` wraps around to numbers above the range: one comparison instead of two.
        let above = _mm512_sub_epi16(magnitude, _mm512_set1_epi16(low.cast_signed()));
        _mm512_cmplt_epu16_mask(above, _mm512_set1_epi16((high - low).cast_signed()))
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn either(a: u32, b: u32) -> u32 {
        a | b
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn is_any(mask: u32) -> bool {
        mask != 0
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn select_words(mask: u32, yes: __m512i, no: __m512i) -> __m512i {
        _mm512_mask_mov_epi16(no, mask, yes)
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn keep_zero(magnitude: __m512i, words: __m512i) -> __m512i {
        _mm512_maskz_mov_epi16(_mm512_test_epi16_mask(magnitude, magnitude), words)
    }

    unsafe fn prefetch_array_line(_: *const u8) {}

    unsafe fn prefetch_row_line(_: *const u8) {}

    fn copy_kernels(size: usize) -> KernelPair {
        own::copy_kernels(size)
    }

    fn select_own_kernels(src: Format, dst: Format) -> Option<KernelPair> {
        own::select_own_kernels(src, dst)
    }

    fn select_further_kernels(src: Format, dst: Format) -> Option<KernelPair> {
        match src {
            Format::F32 => select_to_integer::<f32>(dst),
            Format::F16 => select_to_integer::<F16>(dst),
            Format::BF16 => select_to_integer::<Bf16>(dst),
            Format::DL16 => select_to_integer::<Dl16>(dst),
            Format::DL16INF => select_to_integer::<Dl16Inf>(dst),
            Format::F8E4M3FN => select_to_integer::<F8E4M3Fn>(dst),
            Format::F8E5M2 => select_to_integer::<F8E5M2>(dst),
            Format::F8E5M2FNUZ => select_to_integer::<F8E5M2Fnuz>(dst),
            // Rounded to odd, which is not the number: good for formats with fewer bits only.
            Format::F64 => vector::select_to_small_float::<Avx512, f64>(dst),
            Format::I64 => vector::select_to_small_float::<Avx512, i64>(dst),
            Format::I32 => vector::select_to_small_float::<Avx512, i32>(dst),
            Format::U32 => vector::select_to_small_float::<Avx512, u32>(dst),
            Format::I16 | Format::I8 | Format::U8 | Format::Bool => None,
        }
    }
}

/// Floats that are exact as binary32 to integers, which are truncated from the same numbers, and saturate.
fn select_to_integer<S: Element>(dst: Format) -> Option<KernelPair>
where
    Avx512: ReadFormat<S>,
{
    Some(match dst {
        Format::I64 => step_kernels::<Avx512, ThroughF32<Avx512, S, i64>>(),
        Format::I32 => step_kernels::<Avx512, ThroughF32<Avx512, S, i32>>(),
        Format::U32 => step_kernels::<Avx512, ThroughF32<Avx512, S, u32>>(),
        Format::I16 => step_kernels::<Avx512, ThroughF32<Avx512, S, i16>>(),
        Format::I8 => step_kernels::<Avx512, ThroughF32<Avx512, S, i8>>(),
        Format::U8 => step_kernels::<Avx512, ThroughF32<Avx512, S, u8>>(),
        _ => return None,
    })
}

/// The portable loop, compiled for AVX-512.
///
/// # Safety
/// As for every [`ConvertKernel`](super::ConvertKernel).
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) unsafe fn run_portable_loop<S: Element, D: Element>(
    src: *const u8,
    dst: *mut u8,
    count: usize,
) {
    // SAFETY: the caller's promise is passed on.
    unsafe { portable::convert_portably::<S, D>(src, dst, count) }
}

/// Fewer than 32 elements go through buffers of a whole step, in and out under a mask.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
#[inline(never)]
unsafe fn run_masked_array<K: ConvertStep>(src: *const u8, dst: *mut u8, count: usize) {
    if count == 0 {
        return;
    }
    let mut input = [_mm512_setzero_si512(); STEP_ELEMENTS * 8 / 64];
    let mut output = input;
    let (read, write) = (count * K::IN, count * K::OUT);
    for (i, vector) in input.iter_mut().take((STEP_ELEMENTS * K::IN).div_ceil(64)).enumerate() {
        // SAFETY: the mask leaves the bytes of `count` elements, and others are not touched.
        *vector = unsafe {
            _mm512_maskz_loadu_epi8(tail_byte_mask(read, i), src.wrapping_add(i * 64).cast())
        };
    }
    // SAFETY: the buffers hold 32 elements of at most 8 bytes.
    unsafe { K::convert_step::<false>(input.as_ptr().cast(), output.as_mut_ptr().cast()) };
    for (i, vector) in output.iter().take((STEP_ELEMENTS * K::OUT).div_ceil(64)).enumerate() {
        // SAFETY: as above.
        unsafe {
            _mm512_mask_storeu_epi8(
                dst.wrapping_add(i * 64).cast(),
                tail_byte_mask(write, i),
                *vector,
            );
        };
    }
}

/// Which of the 64 bytes from `64 * i` on are among the first `bytes`.
fn tail_byte_mask(bytes: usize, i: usize) -> u64 {
    match bytes.saturating_sub(i * 64) {
        left @ 0..64 => (1 << left) - 1,
        _ => u64::MAX,
    }
}

/// Stores 64 bytes.
///
/// # Safety
/// `dst` is valid for 64 bytes and, with `STREAM`, a multiple of 64.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn store_register<const STREAM: bool>(dst: *mut u8, value: __m512i) {
    // SAFETY: the caller's promise.
    unsafe {
        if STREAM {
            _mm512_stream_si512(dst.cast(), value);
        } else {
            _mm512_storeu_si512(dst.cast(), value);
        }
    }
}

/// Stores 32 bytes.
///
/// # Safety
/// `dst` is valid for 32 bytes and, with `STREAM`, a multiple of 32.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn store_half_register<const STREAM: bool>(dst: *mut u8, value: __m256i) {
    // SAFETY: the caller's promise.
    unsafe {
        if STREAM {
            _mm256_stream_si256(dst.cast(), value);
        } else {
            _mm256_storeu_si256(dst.cast(), value);
        }
    }
}
