//! NEON: kernels in steps of 32 elements.
//!
//! What the driver ([`vector`]) needs of the instruction set: a [`reader`] and a [`writer`] per format, operations on
//! 16-bit elements, and steps of its [`own`] for pairs that only move bits. All other pairs are the portable loop, which
//! is compiled for NEON already.
//!
//! Kernels with non-temporal stores store pairs of registers with the hint of that (`stnp`). Unlike the
//! non-temporal stores of x86-64, those are ordered as other stores are, so no fence is needed.

mod lanes;
mod own;
mod reader;
mod writer;

use std::arch::aarch64::*;

use super::vector::WriteFloatFormats;
use super::vector::{self, ConvertStep, LaneRegisters, ReadExactFormats, VectorIsa};
use super::{KernelPair, RowStrides};
use crate::format::Format;

/// Two registers: what one store writes.
type RegisterPair = [uint8x16_t; 2];

/// NEON, which every AArch64 has.
pub(super) struct Neon;

impl LaneRegisters for Neon {
    type Lanes = lanes::NeonLanes;
}

impl ReadExactFormats for Neon {}

impl WriteFloatFormats for Neon {}

impl VectorIsa for Neon {
    type Words = [uint16x8_t; 4];
    type WordMask = [uint16x8_t; 4];

    const PREFETCH_BYTES: Option<usize> = Some(1024);
    const STREAMS_ROWS: bool = false;

    vector::drivers!(Neon, "neon");

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn run_short_array<K: ConvertStep>(src: *const u8, dst: *mut u8, count: usize) {
        // SAFETY: the caller's promise is passed on.
        unsafe { run_buffered_array::<K>(src, dst, count) }
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn load_words(src: *const u8) -> [uint16x8_t; 4] {
        // SAFETY: 32 elements are four registers.
        unsafe {
            let at = |k: usize| load_u16_register(src.add(16 * k));
            [at(0), at(1), at(2), at(3)]
        }
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn store_words<const STREAM: bool>(dst: *mut u8, words: [uint16x8_t; 4]) {
        // SAFETY: 32 elements are four registers.
        unsafe {
            store_u16_pair::<STREAM>(dst, words[0], words[1]);
            store_u16_pair::<STREAM>(dst.add(32), words[2], words[3]);
        }
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn splat_word(word: u16) -> [uint16x8_t; 4] {
        [vdupq_n_u16(word); 4]
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn and_words(a: [uint16x8_t; 4], b: [uint16x8_t; 4]) -> [uint16x8_t; 4] {
        [vandq_u16(a[0], b[0]), vandq_u16(a[1], b[1]), vandq_u16(a[2], b[2]), vandq_u16(a[3], b[3])]
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn or_words(a: [uint16x8_t; 4], b: [uint16x8_t; 4]) -> [uint16x8_t; 4] {
        [vorrq_u16(a[0], b[0]), vorrq_u16(a[1], b[1]), vorrq_u16(a[2], b[2]), vorrq_u16(a[3], b[3])]
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn add_words(a: [uint16x8_t; 4], b: [uint16x8_t; 4]) -> [uint16x8_t; 4] {
        [vaddq_u16(a[0], b[0]), vaddq_u16(a[1], b[1]), vaddq_u16(a[2], b[2]), vaddq_u16(a[3], b[3])]
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn subtract_saturating(a: [uint16x8_t; 4], b: [uint16x8_t; 4]) -> [uint16x8_t; 4] {
        [
            vqsubq_u16(a[0], b[0]),
            vqsubq_u16(a[1], b[1]),
            vqsubq_u16(a[2], b[2]),
            vqsubq_u16(a[3], b[3]),
        ]
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn min_words(a: [uint16x8_t; 4], b: [uint16x8_t; 4]) -> [uint16x8_t; 4] {
        [vminq_u16(a[0], b[0]), vminq_u16(a[1], b[1]), vminq_u16(a[2], b[2]), vminq_u16(a[3], b[3])]
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn halve_rounding_up(words: [uint16x8_t; 4]) -> [uint16x8_t; 4] {
        // A shift that rounds ties up.
        [
            vrshrq_n_u16::<1>(words[0]),
            vrshrq_n_u16::<1>(words[1]),
            vrshrq_n_u16::<1>(words[2]),
            vrshrq_n_u16::<1>(words[3]),
        ]
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn shift_left<const BITS: u32>(words: [uint16x8_t; 4]) -> [uint16x8_t; 4] {
        // The intrinsic wants a constant of another type, which no expression of `BITS` may be.
        match BITS {
            1 => [
                vshlq_n_u16::<1>(words[0]),
                vshlq_n_u16::<1>(words[1]),
                vshlq_n_u16::<1>(words[2]),
                vshlq_n_u16::<1>(words[3]),
            ],
            2 => [
                vshlq_n_u16::<2>(words[0]),
                vshlq_n_u16::<2>(words[1]),
                vshlq_n_u16::<2>(words[2]),
                vshlq_n_u16::<2>(words[3]),
            ],
            _ => {
                const { assert!(BITS <= 3, "the formulas need no more") };
                [
                    vshlq_n_u16::<3>(words[0]),
                    vshlq_n_u16::<3>(words[1]),
                    vshlq_n_u16::<3>(words[2]),
                    vshlq_n_u16::<3>(words[3]),
                ]
            }
        }
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn shift_right<const BITS: u32>(words: [uint16x8_t; 4]) -> [uint16x8_t; 4] {
        if BITS == 2 {
            [
                vshrq_n_u16::<2>(words[0]),
                vshrq_n_u16::<2>(words[1]),
                vshrq_n_u16::<2>(words[2]),
                vshrq_n_u16::<2>(words[3]),
            ]
        } else {
            const { assert!(BITS == 2 || BITS == 3, "the formulas need no others") };
            [
                vshrq_n_u16::<3>(words[0]),
                vshrq_n_u16::<3>(words[1]),
                vshrq_n_u16::<3>(words[2]),
                vshrq_n_u16::<3>(words[3]),
            ]
        }
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn at_least(magnitude: [uint16x8_t; 4], low: u16) -> [uint16x8_t; 4] {
        let low = vdupq_n_u16(low);
        [
            vcgeq_u16(magnitude[0], low),
            vcgeq_u16(magnitude[1], low),
            vcgeq_u16(magnitude[2], low),
            vcgeq_u16(magnitude[3], low),
        ]
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn equal_to(words: [uint16x8_t; 4], word: u16) -> [uint16x8_t; 4] {
        let word = vdupq_n_u16(word);
        [
            vceqq_u16(words[0], word),
            vceqq_u16(words[1], word),
            vceqq_u16(words[2], word),
            vceqq_u16(words[3], word),
        ]
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn within(magnitude: [uint16x8_t; 4], low: u16, high: u16) -> [uint16x8_t; 4] {
        // What is below `low` wraps around to numbers above the range: one comparison instead of two.
        let (low, width) = (vdupq_n_u16(low), vdupq_n_u16(high - low));
        [
            vcgtq_u16(width, vsubq_u16(magnitude[0], low)),
            vcgtq_u16(width, vsubq_u16(magnitude[1], low)),
            vcgtq_u16(width, vsubq_u16(magnitude[2], low)),
            vcgtq_u16(width, vsubq_u16(magnitude[3], low)),
        ]
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn either(a: [uint16x8_t; 4], b: [uint16x8_t; 4]) -> [uint16x8_t; 4] {
        [vorrq_u16(a[0], b[0]), vorrq_u16(a[1], b[1]), vorrq_u16(a[2], b[2]), vorrq_u16(a[3], b[3])]
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn is_any(mask: [uint16x8_t; 4]) -> bool {
        let any = vorrq_u16(vorrq_u16(mask[0], mask[1]), vorrq_u16(mask[2], mask[3]));
        vmaxvq_u16(any) != 0
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn select_words(
        mask: [uint16x8_t; 4],
        yes: [uint16x8_t; 4],
        no: [uint16x8_t; 4],
    ) -> [uint16x8_t; 4] {
        [
            vbslq_u16(mask[0], yes[0], no[0]),
            vbslq_u16(mask[1], yes[1], no[1]),
            vbslq_u16(mask[2], yes[2], no[2]),
            vbslq_u16(mask[3], yes[3], no[3]),
        ]
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn keep_zero(magnitude: [uint16x8_t; 4], words: [uint16x8_t; 4]) -> [uint16x8_t; 4] {
        let zero = vdupq_n_u16(0);
        [
            vandq_u16(vcgtq_u16(magnitude[0], zero), words[0]),
            vandq_u16(vcgtq_u16(magnitude[1], zero), words[1]),
            vandq_u16(vcgtq_u16(magnitude[2], zero), words[2]),
            vandq_u16(vcgtq_u16(magnitude[3], zero), words[3]),
        ]
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn prefetch_array_line(at: *const u8) {
        // SAFETY: a prefetch of any address is harmless, and it writes nothing.
        unsafe {
            std::arch::asm!("prfm pldl2strm, [{}]", in(reg) at, options(nostack, preserves_flags, readonly));
        }
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn prefetch_row_line(at: *const u8) {
        // SAFETY: as above.
        unsafe { Neon::prefetch_array_line(at) }
    }

    fn copy_kernels(size: usize) -> KernelPair {
        own::copy_kernels(size)
    }

    fn select_own_kernels(src: Format, dst: Format) -> Option<KernelPair> {
        own::select_own_kernels(src, dst)
    }
}

/// Fewer than 32 elements. The buffers stay out of the frame of [`vector::run_steps`], whose loop is all that most calls
/// need.
#[target_feature(enable = "neon")]
#[inline(never)]
unsafe fn run_buffered_array<K: ConvertStep>(src: *const u8, dst: *mut u8, count: usize) {
    // SAFETY: the caller's promise is passed on.
    unsafe { vector::run_short_array::<K>(src, dst, count) }
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
        store_register_pair::<STREAM>(dst, [vreinterpretq_u8_u16(low), vreinterpretq_u8_u16(high)]);
    }
}
