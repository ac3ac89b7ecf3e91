//! AVX2 with F16C: kernels in steps of 32 elements.
//!
//! As with AVX-512, pairs between 16-bit formats, and a few that only move bits, have steps of their
//! own ([`direct`]), and the other pairs of small floats meet in binary32 ([`through`]): a [`reader`]
//! and a [`writer`] per format. Sources that have to be rounded to odd (float64, wide integers) and
//! integer destinations are left to the compiler.

pub(super) mod arithmetic;
mod direct;
mod reader;
pub(super) mod row;
mod through;
mod writer;

use std::arch::x86_64::*;
use std::mem::MaybeUninit;

use super::{ConvertKernel, KernelPair, RowStrides, portable};
use crate::element::Element;
use crate::format::Format;

/// Elements per step.
const STEP_ELEMENTS: usize = 32;

/// Bytes of source that a streaming kernel asks for before it reads them.
const PREFETCH_BYTES: usize = 1024;

/// 32 elements at once.
trait Avx2Step {
    /// Bytes of a source element.
    const IN: usize;
    /// Bytes of a destination element.
    const OUT: usize;

    /// Converts 32 elements. With `STREAM`, `dst` is a multiple of 32, and the stores go past the
    /// cache.
    ///
    /// # Safety
    /// The machine has AVX2 and F16C; `src` and `dst` are valid for 32 elements.
    unsafe fn convert_step<const STREAM: bool>(src: *const u8, dst: *mut u8);
}

/// The pairs that are written by hand.
pub(super) fn select_kernels(src: Format, dst: Format) -> Option<KernelPair> {
    if src == dst {
        return Some(direct::copy_kernels(src.byte_size()));
    }
    direct::select_direct_kernels(src, dst).or_else(|| through::select_through_kernels(src, dst))
}

fn step_kernels<K: Avx2Step>() -> KernelPair {
    KernelPair {
        cached: run_steps::<K> as ConvertKernel,
        streaming: run_non_temporal::<K>,
        streaming_rows: Some(run_rows_non_temporal::<K>),
    }
}

/// The portable loop, compiled for AVX2.
///
/// # Safety
/// As for every [`ConvertKernel`].
#[target_feature(enable = "avx2,f16c")]
pub(super) unsafe fn run_portable_loop<S: Element, D: Element>(
    src: *const u8,
    dst: *mut u8,
    count: usize,
) {
    // SAFETY: the caller's promise is passed on.
    unsafe { portable::convert_portably::<S, D>(src, dst, count) }
}

/// Steps over the array; the last one is pulled back so that it ends where the array ends. It does
/// some elements twice, to the same result, as source and destination are apart.
#[target_feature(enable = "avx2,f16c")]
unsafe fn run_steps<K: Avx2Step>(src: *const u8, dst: *mut u8, count: usize) {
    if count < STEP_ELEMENTS {
        // SAFETY: the caller's promise is passed on.
        return unsafe { run_short_array::<K>(src, dst, count) };
    }
    let last = count - STEP_ELEMENTS;
    let mut at = 0;
    loop {
        // SAFETY: `at + 32 <= count`.
        unsafe { K::convert_step::<false>(src.add(at * K::IN), dst.add(at * K::OUT)) };
        if at == last {
            return;
        }
        at = (at + STEP_ELEMENTS).min(last);
    }
}

/// Fewer than 32 elements go through buffers of a whole step.
#[target_feature(enable = "avx2,f16c")]
#[inline(never)]
unsafe fn run_short_array<K: Avx2Step>(src: *const u8, dst: *mut u8, count: usize) {
    if count == 0 {
        return;
    }
    // Any bits are a number to convert, so that nothing is left uninitialised.
    let mut input = [_mm256_setzero_si256(); STEP_ELEMENTS * 8 / 32];
    let mut output = [const { MaybeUninit::<__m256i>::uninit() }; STEP_ELEMENTS * 8 / 32];
    let (input, output) = (input.as_mut_ptr().cast::<u8>(), output.as_mut_ptr().cast::<u8>());
    // SAFETY: the buffers hold 32 elements of at most 8 bytes, and `count` is less; the arrays hold
    // `count` by the caller's promise. The step writes what is then copied.
    unsafe {
        input.copy_from_nonoverlapping(src, count * K::IN);
        K::convert_step::<false>(input, output);
        dst.copy_from_nonoverlapping(output, count * K::OUT);
    }
}

/// Like [`run_steps`], past the cache: ordinary stores up to a multiple of 64 bytes and for what is left
/// at the end. The caller fences.
#[target_feature(enable = "avx2,f16c")]
unsafe fn run_non_temporal<K: Avx2Step>(src: *const u8, dst: *mut u8, count: usize) {
    let head = dst.align_offset(64) / K::OUT;
    // An address that no whole number of elements leads to is left to ordinary stores.
    let aligned = dst.addr().wrapping_add(head * K::OUT).is_multiple_of(64);
    if !aligned || count < head + 2 * STEP_ELEMENTS {
        // SAFETY: the caller's promise is passed on.
        return unsafe { run_steps::<K>(src, dst, count) };
    }
    if head > 0 {
        // SAFETY: `head < count`.
        unsafe { run_steps::<K>(src, dst, head) };
    }
    let steps = (count - head) / STEP_ELEMENTS;
    let mut at = head;
    for _ in 0..steps {
        let from = src.wrapping_add(at * K::IN);
        for line in (0..STEP_ELEMENTS * K::IN).step_by(64) {
            _mm_prefetch::<_MM_HINT_T1>(from.wrapping_add(PREFETCH_BYTES + line).cast());
        }
        // SAFETY: `at + 32 <= count`. The first address is a multiple of 64, and 32 elements are a
        // multiple of 32 bytes.
        unsafe { K::convert_step::<true>(from, dst.add(at * K::OUT)) };
        at += STEP_ELEMENTS;
    }
    if at < count {
        // SAFETY: what is left, inside both ranges.
        unsafe { run_steps::<K>(src.add(at * K::IN), dst.add(at * K::OUT), count - at) };
    }
}

/// Bytes of source that a kernel of rows asks for before it reads them.
const ROWS_AHEAD: usize = 1024;

/// Rows of whole steps past the cache, to places that are multiples of 64: what a row needs is set up once
/// for all of them, and rows that follow one another are asked for ahead. The caller fences.
///
/// # Safety
/// As for every [`ConvertKernel`], at every row; `count` is a multiple of 32, `dst` and the distance of its rows
/// are multiples of 64.
#[target_feature(enable = "avx2,f16c")]
unsafe fn run_rows_non_temporal<K: Avx2Step>(
    src: *const u8,
    dst: *mut u8,
    count: usize,
    rows: RowStrides,
) {
    // Rows apart from one another come again, a little further on, and the hardware fetches those.
    let follow = rows.src == (count * K::IN).cast_signed();
    let (mut from, mut to) = (src, dst);
    for _ in 0..rows.count {
        for at in (0..count).step_by(STEP_ELEMENTS) {
            if follow {
                let soon = from.wrapping_add(at * K::IN + ROWS_AHEAD);
                for line in (0..STEP_ELEMENTS * K::IN).step_by(64) {
                    _mm_prefetch::<_MM_HINT_T0>(soon.wrapping_add(line).cast());
                }
            }
            // SAFETY: the caller's promise: the step lies inside a row.
            unsafe { K::convert_step::<true>(from.add(at * K::IN), to.add(at * K::OUT)) };
        }
        from = from.wrapping_offset(rows.src);
        to = to.wrapping_offset(rows.dst);
    }
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
