//! NEON: kernels in steps of 32 elements.
//!
//! As with AVX2, pairs between 16-bit formats, and a few that only move bits, have steps of their own
//! ([`direct`]), and the other pairs of small floats meet in binary32 ([`through`]): a [`reader`] and a
//! [`writer`] per format. All other pairs are the portable loop, which is compiled for NEON already.
//!
//! Kernels that go past the cache store pairs of registers with the hint of that (`stnp`). Unlike the
//! streamed stores of x86-64, those are ordered as other stores are, so no fence is needed.

mod direct;
mod reader;
mod through;
mod writer;

use std::arch::aarch64::*;
use std::mem::MaybeUninit;

use super::{ConvertKernel, KernelPair};
use crate::format::Format;

/// Elements per step.
const STEP_ELEMENTS: usize = 32;

/// Bytes of source that a streaming kernel asks for before it reads them.
const PREFETCH_BYTES: usize = 1024;

/// Two registers: what one store writes.
type RegisterPair = [uint8x16_t; 2];

/// 32 elements at once.
trait NeonStep {
    /// Bytes of a source element.
    const IN: usize;
    /// Bytes of a destination element.
    const OUT: usize;

    /// Converts 32 elements; with `STREAM`, the stores go past the cache.
    ///
    /// # Safety
    /// The machine has NEON; `src` and `dst` are valid for 32 elements.
    unsafe fn convert_step<const STREAM: bool>(src: *const u8, dst: *mut u8);
}

/// The pairs that are written by hand.
pub(super) fn select_kernels(src: Format, dst: Format) -> Option<KernelPair> {
    if src == dst {
        return Some(direct::copy_kernels(src.byte_size()));
    }
    direct::select_direct_kernels(src, dst).or_else(|| through::select_through_kernels(src, dst))
}

fn step_kernels<K: NeonStep>() -> KernelPair {
    KernelPair {
        cached: run_steps::<K> as ConvertKernel,
        streaming: run_non_temporal::<K>,
        streaming_rows: None,
    }
}

/// Steps over the array; the last one is pulled back so that it ends where the array ends. It does
/// some elements twice, to the same result, as source and destination are apart.
///
/// # Safety
/// As for every [`ConvertKernel`].
#[target_feature(enable = "neon")]
unsafe fn run_steps<K: NeonStep>(src: *const u8, dst: *mut u8, count: usize) {
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
///
/// # Safety
/// As for every [`ConvertKernel`], and `count` is less than a step.
#[target_feature(enable = "neon")]
#[inline(never)]
unsafe fn run_short_array<K: NeonStep>(src: *const u8, dst: *mut u8, count: usize) {
    if count == 0 {
        return;
    }
    // Any bits are a number to convert, so that nothing is left uninitialised.
    let mut input = [0_u64; STEP_ELEMENTS];
    let mut output = [const { MaybeUninit::<u64>::uninit() }; STEP_ELEMENTS];
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
/// at the end.
///
/// # Safety
/// As for every [`ConvertKernel`].
#[target_feature(enable = "neon")]
unsafe fn run_non_temporal<K: NeonStep>(src: *const u8, dst: *mut u8, count: usize) {
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
            prefetch_line(from.wrapping_add(PREFETCH_BYTES + line));
        }
        // SAFETY: `at + 32 <= count`.
        unsafe { K::convert_step::<true>(from, dst.add(at * K::OUT)) };
        at += STEP_ELEMENTS;
    }
    if at < count {
        // SAFETY: what is left, inside both ranges.
        unsafe { run_steps::<K>(src.add(at * K::IN), dst.add(at * K::OUT), count - at) };
    }
}

/// Asks for a cache line that will be read soon.
#[inline(always)]
fn prefetch_line(p: *const u8) {
    // SAFETY: a prefetch of any address is harmless, and it writes nothing.
    unsafe {
        std::arch::asm!("prfm pldl2strm, [{}]", in(reg) p, options(nostack, preserves_flags, readonly));
    }
}

/// Loads 16 bytes.
///
/// # Safety
/// `src` is valid for 16 bytes.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn load_register(src: *const u8) -> uint8x16_t {
    // SAFETY: the caller's promise; the instruction takes any address.
    unsafe { vld1q_u8(src) }
}

/// Loads eight elements of 16 bits.
///
/// # Safety
/// `src` is valid for 16 bytes.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn load_u16_register(src: *const u8) -> uint16x8_t {
    // SAFETY: the caller's promise.
    vreinterpretq_u16_u8(unsafe { load_register(src) })
}

/// Stores 32 bytes.
///
/// # Safety
/// `dst` is valid for 32 bytes.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn store_register_pair<const STREAM: bool>(dst: *mut u8, value: RegisterPair) {
    let [low, high] = value;
    // SAFETY: the caller's promise; the instructions take any address.
    unsafe {
        if STREAM {
            std::arch::asm!(
                "stnp {low:q}, {high:q}, [{dst}]",
                low = in(vreg) low,
                high = in(vreg) high,
                dst = in(reg) dst,
                options(nostack, preserves_flags)
            );
        } else {
            vst1q_u8(dst, low);
            vst1q_u8(dst.add(16), high);
        }
    }
}

/// Stores sixteen elements of 16 bits.
///
/// # Safety
/// `dst` is valid for 32 bytes.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn store_u16_pair<const STREAM: bool>(dst: *mut u8, low: uint16x8_t, high: uint16x8_t) {
    // SAFETY: the caller's promise.
    unsafe {
        store_register_pair::<STREAM>(dst, [vreinterpretq_u8_u16(low), vreinterpretq_u8_u16(high)])
    }
}
