//! Steps that only move bits: copies, truth values, integers of another width, and 8-bit floats whose every number a
//! 16-bit float has.

use std::arch::aarch64::*;

use super::{
    KernelPair, Neon, load_register, load_u16_register, store_register_pair, store_u16_pair,
};
use crate::format::Format;
use crate::kernel::copy_elements;
use crate::kernel::vector::{ConvertStep, VectorIsa, e4m3_subnormals, step_kernels};

/// The pairs of this file.
pub(super) fn select_own_kernels(src: Format, dst: Format) -> Option<KernelPair> {
    Some(match (src, dst) {
        (Format::Bool, Format::DL16 | Format::DL16INF) => {
            step_kernels::<Neon, NeonBoolTo<0x3e00>>()
        }
        (Format::Bool, Format::F16) => step_kernels::<Neon, NeonBoolTo<0x3c00>>(),
        (Format::Bool, Format::BF16) => step_kernels::<Neon, NeonBoolTo<0x3f80>>(),
        (Format::DL16 | Format::DL16INF | Format::F16 | Format::BF16, Format::Bool) => {
            step_kernels::<Neon, NeonToBool>()
        }
        (Format::F8E4M3FN, Format::F16) => step_kernels::<Neon, NeonE4m3To<10, 15, 0x7e00>>(),
        (Format::F8E4M3FN, Format::BF16) => step_kernels::<Neon, NeonE4m3To<7, 127, 0x7fc0>>(),
        // No number of E4M3 is large enough to stand for an infinity.
        (Format::F8E4M3FN, Format::DL16 | Format::DL16INF) => {
            step_kernels::<Neon, NeonE4m3To<9, 31, 0x7fff>>()
        }
        (Format::F8E5M2, Format::F16) => step_kernels::<Neon, NeonE5m2ToF16>(),
        (Format::I64, Format::I32 | Format::U32) => step_kernels::<Neon, NeonI64ToI32>(),
        (Format::I32, Format::I64) => step_kernels::<Neon, NeonI32ToI64>(),
        _ => return None,
    })
}

/// A format to itself: the system's copy, or ours with non-temporal stores.
pub(super) fn copy_kernels(size: usize) -> KernelPair {
    match size {
        1 => KernelPair {
            cached: copy_elements::<1>,
            streaming: Neon::run_non_temporal::<NeonCopyStep<1>>,
            streaming_rows: None,
        },
        2 => KernelPair {
            cached: copy_elements::<2>,
            streaming: Neon::run_non_temporal::<NeonCopyStep<2>>,
            streaming_rows: None,
        },
        4 => KernelPair {
            cached: copy_elements::<4>,
            streaming: Neon::run_non_temporal::<NeonCopyStep<4>>,
            streaming_rows: None,
        },
        _ => KernelPair {
            cached: copy_elements::<8>,
            streaming: Neon::run_non_temporal::<NeonCopyStep<8>>,
            streaming_rows: None,
        },
    }
}

/// Zero where the magnitude is, else the number.
#[inline]
#[target_feature(enable = "neon")]
fn keep_zero(magnitude: uint16x8_t, number: uint16x8_t) -> uint16x8_t {
    vandq_u16(vcgtq_u16(magnitude, splat_u16(0)), number)
}

#[inline]
#[target_feature(enable = "neon")]
fn splat_u16(value: u16) -> uint16x8_t {
    vdupq_n_u16(value)
}

/// `other` where the mask has all bits, else `value`.
#[inline]
#[target_feature(enable = "neon")]
fn blend_masked_u16(value: uint16x8_t, mask: uint16x8_t, other: uint16x8_t) -> uint16x8_t {
    vbslq_u16(mask, other, value)
}

/// Steps of 32 elements: what is read, and what is written.
macro_rules! steps {
    ($([$($generics:tt)*] $name:ty, $in:literal -> $out:literal:
        |$src:ident, $dst:ident| $body:block)*) => {$(
        impl<$($generics)*> ConvertStep for $name {
            const IN: usize = $in;
            const OUT: usize = $out;

            #[inline]
            #[target_feature(enable = "neon")]
            unsafe fn convert_step<const STREAM: bool>($src: *const u8, $dst: *mut u8) $body
        }
    )*};
}

/// A nonzero byte to the code of one.
struct NeonBoolTo<const ONE: u16>;
/// A 16-bit float to bool: any magnitude but zero.
struct NeonToBool;
/// An E4M3 to a 16-bit float with so many fraction bits, that bias and that NaN: always exact.
struct NeonE4m3To<const FRACTION: u32, const BIAS: u32, const NAN: u16>;
/// An E5M2 is the upper half of a float16.
struct NeonE5m2ToF16;
/// The low half of each number.
struct NeonI64ToI32;
/// Each number with its sign above it.
struct NeonI32ToI64;

steps! {
    [const ONE: u16] NeonBoolTo<ONE>, 1 -> 2: |src, dst| {
        for half in 0..2 {
            // SAFETY: 16 bytes are a register, 16 codes are two.
            unsafe {
                let byte = load_register(src.add(half * 16));
                let code = |byte| keep_zero(byte, splat_u16(ONE));
                let low = code(vmovl_u8(vget_low_u8(byte)));
                store_u16_pair::<STREAM>(dst.add(half * 32), low, code(vmovl_high_u8(byte)));
            }
        }
    }
    [] NeonToBool, 2 -> 1: |src, dst| {
        // SAFETY: 32 codes are four registers, 32 bytes are two.
        unsafe {
            let truth = |at: usize| {
                let magnitude = vandq_u16(load_u16_register(src.add(at)), splat_u16(0x7fff));
                keep_zero(magnitude, splat_u16(1))
            };
            let low = vmovn_high_u16(vmovn_u16(truth(0)), truth(16));
            store_register_pair::<STREAM>(dst, [low, vmovn_high_u16(vmovn_u16(truth(32)), truth(48))]);
        }
    }
    [const FRACTION: u32, const BIAS: u32, const NAN: u16] NeonE4m3To<FRACTION, BIAS, NAN>, 1 -> 2:
    |src, dst| {
        let table = const { e4m3_subnormals(FRACTION, BIAS) };
        for half in 0..2 {
            // SAFETY: 16 bytes are a register, 16 codes are two; the table is a register.
            unsafe {
                let table = load_register(table.as_ptr().cast());
                let bytes = load_register(src.add(half * 16));
                let low = decode_e4m3::<FRACTION, BIAS, NAN>(vmovl_u8(vget_low_u8(bytes)), table);
                let high = decode_e4m3::<FRACTION, BIAS, NAN>(vmovl_high_u8(bytes), table);
                store_u16_pair::<STREAM>(dst.add(half * 32), low, high);
            }
        }
    }
    [] NeonE5m2ToF16, 1 -> 2: |src, dst| {
        for half in 0..2 {
            // SAFETY: 16 bytes are a register, 16 codes are two.
            unsafe {
                let bytes = load_register(src.add(half * 16));
                // A NaN is quiet.
                let quiet = |code| {
                    let nan = vcgtq_u16(vandq_u16(code, splat_u16(0x7fff)), splat_u16(0x7c00));
                    vorrq_u16(code, vandq_u16(nan, splat_u16(0x0200)))
                };
                let low = quiet(vshll_n_u8::<8>(vget_low_u8(bytes)));
                store_u16_pair::<STREAM>(dst.add(half * 32), low, quiet(vshll_high_n_u8::<8>(bytes)));
            }
        }
    }
    [] NeonI64ToI32, 8 -> 4: |src, dst| {
        for quarter in 0..4 {
            // SAFETY: 8 elements are four registers, and two.
            unsafe {
                let from = src.add(quarter * 64);
                let numbers = |at: usize| vreinterpretq_u64_u8(load_register(from.add(at)));
                let low = vmovn_high_u64(vmovn_u64(numbers(0)), numbers(16));
                let high = vmovn_high_u64(vmovn_u64(numbers(32)), numbers(48));
                let both = [vreinterpretq_u8_u32(low), vreinterpretq_u8_u32(high)];
                store_register_pair::<STREAM>(dst.add(quarter * 32), both);
            }
        }
    }
    [] NeonI32ToI64, 4 -> 8: |src, dst| {
        for eighth in 0..8 {
            // SAFETY: 4 elements are a register, and two.
            unsafe {
                let value = vreinterpretq_s32_u8(load_register(src.add(eighth * 16)));
                let (low, high) = (vmovl_s32(vget_low_s32(value)), vmovl_high_s32(value));
                let both = [vreinterpretq_u8_s64(low), vreinterpretq_u8_s64(high)];
                store_register_pair::<STREAM>(dst.add(eighth * 32), both);
            }
        }
    }
}

/// Eight codes of E4M3 in the format of [`NeonE4m3To`], with its table of subnormals.
#[inline]
#[target_feature(enable = "neon")]
fn decode_e4m3<const FRACTION: u32, const BIAS: u32, const NAN: u16>(
    code: uint16x8_t,
    table: uint8x16_t,
) -> uint16x8_t {
    let magnitude = vandq_u16(code, splat_u16(0x7f));
    #[allow(clippy::cast_possible_truncation, reason = "less than 16")]
    let up = const { (FRACTION - 3) as i16 };
    #[allow(clippy::cast_possible_truncation, reason = "a code has 16 bits")]
    let rebias = const { ((BIAS - 7) << FRACTION) as u16 };
    let normal = vaddq_u16(vshlq_u16(magnitude, vdupq_n_s16(up)), splat_u16(rebias));
    // The two bytes of a subnormal's entry; places past the table, which normal numbers have, give zero.
    let low = vshlq_n_u16::<1>(magnitude);
    let places = vaddq_u16(vorrq_u16(low, vshlq_n_u16::<8>(low)), splat_u16(0x0100));
    let subnormal = vreinterpretq_u16_u8(vqtbl1q_u8(table, vreinterpretq_u8_u16(places)));
    let number = blend_masked_u16(normal, vcgtq_u16(splat_u16(8), magnitude), subnormal);
    let number = blend_masked_u16(number, vceqq_u16(magnitude, splat_u16(0x7f)), splat_u16(NAN));
    vorrq_u16(number, vandq_u16(vshlq_n_u16::<8>(code), splat_u16(0x8000)))
}

/// The bytes as they are.
struct NeonCopyStep<const SIZE: usize>;

impl<const SIZE: usize> ConvertStep for NeonCopyStep<SIZE> {
    const IN: usize = SIZE;
    const OUT: usize = SIZE;

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn convert_step<const STREAM: bool>(src: *const u8, dst: *mut u8) {
        for pair in 0..SIZE {
            // SAFETY: 32 elements are two registers for each of their bytes.
            unsafe {
                let both =
                    [load_register(src.add(pair * 32)), load_register(src.add(pair * 32 + 16))];
                store_register_pair::<STREAM>(dst.add(pair * 32), both);
            }
        }
    }
}
