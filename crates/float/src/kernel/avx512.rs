//! AVX-512: kernels in steps of 32 elements.
//!
//! Pairs between 16-bit formats, and a few that only move bits, have steps of their own
//! ([`direct`]). All others that [round by way of binary32](crate::hub) meet there in registers
//! ([`through`]): a [`reader`] and a [`writer`] per format instead of a kernel per pair. The rest
//! is left to the compiler.

pub(super) mod arithmetic;
mod direct;
mod reader;
pub(super) mod row;
mod through;
mod writer;

use std::arch::x86_64::*;

use super::{ConvertKernel, KernelPair, RowStrides, portable};
use crate::element::Element;
use crate::format::Format;

/// Elements per step.
const STEP_ELEMENTS: usize = 32;

/// 32 elements at once.
trait Avx512Step {
    /// Bytes of a source element.
    const IN: usize;
    /// Bytes of a destination element.
    const OUT: usize;

    /// Converts 32 elements. With `STREAM`, `dst` is a multiple of 64, or of 32 where elements have
    /// one byte, and the stores go past the cache.
    ///
    /// # Safety
    /// The machine has AVX-512; `src` and `dst` are valid for 32 elements.
    unsafe fn convert_step<const STREAM: bool>(src: *const u8, dst: *mut u8);
}

/// The pairs that are written by hand.
pub(super) fn select_kernels(src: Format, dst: Format) -> Option<KernelPair> {
    if src == dst {
        return Some(direct::copy_kernels(src.byte_size()));
    }
    direct::select_direct_kernels(src, dst).or_else(|| through::select_through_kernels(src, dst))
}

fn step_kernels<K: Avx512Step>() -> KernelPair {
    KernelPair {
        cached: run_steps::<K> as ConvertKernel,
        streaming: run_non_temporal::<K>,
        streaming_rows: Some(run_rows_non_temporal::<K>),
    }
}

/// The portable loop, compiled for AVX-512.
///
/// # Safety
/// As for every [`ConvertKernel`].
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
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
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn run_steps<K: Avx512Step>(src: *const u8, dst: *mut u8, count: usize) {
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

/// Fewer than 32 elements go through buffers of a whole step, in and out under a mask.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
#[inline(never)]
unsafe fn run_short_array<K: Avx512Step>(src: *const u8, dst: *mut u8, count: usize) {
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

/// Like [`run_steps`], past the cache: ordinary stores up to a multiple of 64 bytes and for what is left
/// at the end. The caller fences.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn run_non_temporal<K: Avx512Step>(src: *const u8, dst: *mut u8, count: usize) {
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
        // SAFETY: `at + 32 <= count`. The first address is a multiple of 64, and 32 elements are
        // 32 bytes or a multiple of 64.
        unsafe { K::convert_step::<true>(src.add(at * K::IN), dst.add(at * K::OUT)) };
        at += STEP_ELEMENTS;
    }
    if at < count {
        // SAFETY: what is left, inside both ranges.
        unsafe { run_steps::<K>(src.add(at * K::IN), dst.add(at * K::OUT), count - at) };
    }
}

/// Rows of whole steps past the cache, to places that are multiples of 64: what a row needs is set up once
/// for all of them. Nothing is asked for ahead: with registers of a line that was slower. The caller fences.
///
/// # Safety
/// As for every [`ConvertKernel`], at every row; `count` is a multiple of 32, `dst` and the distance of its rows
/// are multiples of 64.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn run_rows_non_temporal<K: Avx512Step>(
    src: *const u8,
    dst: *mut u8,
    count: usize,
    rows: RowStrides,
) {
    let (mut from, mut to) = (src, dst);
    for _ in 0..rows.count {
        for at in (0..count).step_by(STEP_ELEMENTS) {
            // SAFETY: the caller's promise: the step lies inside a row.
            unsafe { K::convert_step::<true>(from.add(at * K::IN), to.add(at * K::OUT)) };
        }
        from = from.wrapping_offset(rows.src);
        to = to.wrapping_offset(rows.dst);
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
