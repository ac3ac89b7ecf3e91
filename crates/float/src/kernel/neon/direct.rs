//! Pairs that stay in 16-bit lanes, or only move bits.
//!
//! Between 16-bit floats most numbers are normal on both sides, and then the exponent needs an
//! addition and the fraction a shift. A step that meets another kind (a subnormal on either side)
//! goes through binary32 as a whole.

use std::arch::aarch64::*;

use super::reader::{self, NeonReader};
use super::through::NeonThroughF32;
use super::writer::{self, NeonWriter};
use super::{
    KernelPair, NeonStep, load_register, load_u16_register, run_non_temporal, step_kernels,
    store_register_pair, store_u16_pair,
};
use crate::format::Format;
use crate::kernel::copy_elements;

/// The pairs of this file.
pub(super) fn select_direct_kernels(src: Format, dst: Format) -> Option<KernelPair> {
    Some(match (src, dst) {
        (Format::F16, Format::DL16) => step_kernels::<F16ToDl16>(),
        (Format::F16, Format::DL16INF) => step_kernels::<F16ToDl16Inf>(),
        // What is past 2^16 is an infinity either way.
        (Format::DL16 | Format::DL16INF, Format::F16) => step_kernels::<Dl16ToF16>(),
        (Format::BF16, Format::DL16) => step_kernels::<Bf16ToDl16>(),
        (Format::DL16, Format::BF16) => step_kernels::<Dl16ToBf16>(),
        (Format::BF16, Format::DL16INF) => step_kernels::<Bf16ToDl16Inf>(),
        (Format::DL16INF, Format::BF16) => step_kernels::<Dl16InfToBf16>(),
        (Format::F16, Format::BF16) => step_kernels::<F16ToBf16>(),
        (Format::BF16, Format::F16) => step_kernels::<Bf16ToF16>(),
        (Format::Bool, Format::DL16 | Format::DL16INF) => step_kernels::<NeonBoolTo<0x3e00>>(),
        (Format::Bool, Format::F16) => step_kernels::<NeonBoolTo<0x3c00>>(),
        (Format::Bool, Format::BF16) => step_kernels::<NeonBoolTo<0x3f80>>(),
        (Format::DL16 | Format::DL16INF | Format::F16 | Format::BF16, Format::Bool) => {
            step_kernels::<NeonToBool>()
        }
        (Format::F8E4M3FN, Format::F16) => step_kernels::<NeonE4m3To<10, 15, 0x7e00>>(),
        (Format::F8E4M3FN, Format::BF16) => step_kernels::<NeonE4m3To<7, 127, 0x7fc0>>(),
        // No number of E4M3 is large enough to stand for an infinity.
        (Format::F8E4M3FN, Format::DL16 | Format::DL16INF) => {
            step_kernels::<NeonE4m3To<9, 31, 0x7fff>>()
        }
        (Format::F8E5M2, Format::F16) => step_kernels::<NeonE5m2ToF16>(),
        (Format::I64, Format::I32 | Format::U32) => step_kernels::<NeonI64ToI32>(),
        (Format::I32, Format::I64) => step_kernels::<NeonI32ToI64>(),
        _ => return None,
    })
}

/// The code that stands for an infinity in DL16INF.
const DL16INF_INFINITY: u16 = 0x7dfe;

/// A format to itself: the system's copy, or ours past the cache.
pub(super) fn copy_kernels(size: usize) -> KernelPair {
    match size {
        1 => KernelPair {
            cached: copy_elements::<1>,
            streaming: run_non_temporal::<NeonCopyStep<1>>,
            streaming_rows: None,
        },
        2 => KernelPair {
            cached: copy_elements::<2>,
            streaming: run_non_temporal::<NeonCopyStep<2>>,
            streaming_rows: None,
        },
        4 => KernelPair {
            cached: copy_elements::<4>,
            streaming: run_non_temporal::<NeonCopyStep<4>>,
            streaming_rows: None,
        },
        _ => KernelPair {
            cached: copy_elements::<8>,
            streaming: run_non_temporal::<NeonCopyStep<8>>,
            streaming_rows: None,
        },
    }
}

/// A kernel on 16-bit lanes: `$magnitude` without its sign to a code without it. `$rare` has all bits of
/// the magnitudes that it does not cover.
macro_rules! sixteen {
    ($($(#[$doc:meta])* $name:ident, $reader:ident -> $writer:ident:
        |$magnitude:ident| rare $rare:block, code $code:block)*) => {$(
        $(#[$doc])*
        struct $name;

        impl Step for $name {
            const IN: usize = 2;
            const OUT: usize = 2;

            #[inline]
            #[target_feature(enable = "neon")]
            unsafe fn step<const STREAM: bool>(src: *const u8, dst: *mut u8) {
                // SAFETY: 32 elements are four registers.
                let (a, b, c, d) = unsafe {
                    (get16(src), get16(src.add(16)), get16(src.add(32)), get16(src.add(48)))
                };
                let rare = |bits| -> uint16x8_t {
                    #[allow(unused_variables, reason = "some kernels cover every magnitude")]
                    let $magnitude = vandq_u16(bits, set(0x7fff));
                    $rare
                };
                let any = vorrq_u16(vorrq_u16(rare(a), rare(b)), vorrq_u16(rare(c), rare(d)));
                if vmaxvq_u16(any) != 0 {
                    // SAFETY: the caller's promise is passed on.
                    return unsafe { by_way::<reader::$reader, writer::$writer, STREAM>(src, dst) };
                }
                let code = |bits| {
                    let $magnitude = vandq_u16(bits, set(0x7fff));
                    let code: uint16x8_t = $code;
                    vorrq_u16(code, vandq_u16(bits, set(0x8000)))
                };
                // SAFETY: 32 elements are four registers.
                unsafe {
                    put16::<STREAM>(dst, code(a), code(b));
                    put16::<STREAM>(dst.add(32), code(c), code(d));
                }
            }
        }
    )*};
}

sixteen! {
    /// One fraction bit goes, ties away; the exponent gains 16.
    F16ToDl16, F16 -> Dl16: |magnitude| rare {
        mask_within(magnitude, 1, 1 << 10)
    }, code {
        let special = vcgtq_u16(magnitude, broadcast_u16(0x7bff));
        blend_masked_u16(round_f16_to_dl16(magnitude), special, broadcast_u16(0x7fff))
    }

    /// The same, and an infinity is the number that stands for it.
    F16ToDl16Inf, F16 -> Dl16Inf: |magnitude| rare {
        mask_within(magnitude, 1, 1 << 10)
    }, code {
        let infinite = vceqq_u16(magnitude, broadcast_u16(0x7c00));
        let number = blend_masked_u16(round_f16_to_dl16(magnitude), infinite, broadcast_u16(DL16INF_INFINITY));
        blend_masked_u16(number, vcgtq_u16(magnitude, broadcast_u16(0x7c00)), broadcast_u16(0x7fff))
    }

    /// The exponent loses 16, exactly; from 2^16 on it is an infinity.
    Dl16ToF16, Dl16 -> F16: |magnitude| rare {
        mask_within(magnitude, 1, 17 << 9)
    }, code {
        let number = vshlq_n_u16::<1>(vqsubq_u16(magnitude, broadcast_u16(16 << 9)));
        let number = vminq_u16(number, broadcast_u16(0x7c00));
        let merged = vceqq_u16(magnitude, broadcast_u16(0x7fff));
        vorrq_u16(number, vandq_u16(merged, broadcast_u16(0x0200)))
    }

    /// The fraction fits; from 2^-31 down it is zero, from 2^33 on the merged code.
    Bf16ToDl16, Bf16 -> Dl16: |magnitude| rare {
        broadcast_u16(0)
    }, code {
        let low = vqsubq_u16(magnitude, broadcast_u16(96 << 7));
        let past = vcgeq_u16(low, broadcast_u16(64 << 7));
        blend_masked_u16(vshlq_n_u16::<2>(low), past, broadcast_u16(0x7fff))
    }

    /// The same, and what is past 2^31 (1 + 509/512) is the number that stands for an infinity.
    Bf16ToDl16Inf, Bf16 -> Dl16Inf: |magnitude| rare {
        broadcast_u16(0)
    }, code {
        let low = vqsubq_u16(magnitude, broadcast_u16(96 << 7));
        let low = vminq_u16(low, broadcast_u16(64 << 7));
        let number = vminq_u16(vshlq_n_u16::<2>(low), broadcast_u16(DL16INF_INFINITY));
        blend_masked_u16(number, vcgtq_u16(magnitude, broadcast_u16(0x7f80)), broadcast_u16(0x7fff))
    }

    /// As below, with infinities.
    Dl16InfToBf16, Dl16Inf -> Bf16: |magnitude| rare {
        broadcast_u16(0)
    }, code {
        let infinite = vcgeq_u16(magnitude, broadcast_u16(DL16INF_INFINITY));
        let number = blend_masked_u16(round_dl16_to_bf16(magnitude), infinite, broadcast_u16(0x7f80));
        let merged = vceqq_u16(magnitude, broadcast_u16(0x7fff));
        blend_masked_u16(number, merged, broadcast_u16(0x7fc0))
    }

    /// Two fraction bits go, ties to even; every exponent is a normal one.
    Dl16ToBf16, Dl16 -> Bf16: |magnitude| rare {
        broadcast_u16(0)
    }, code {
        let merged = vceqq_u16(magnitude, broadcast_u16(0x7fff));
        blend_masked_u16(round_dl16_to_bf16(magnitude), merged, broadcast_u16(0x7fc0))
    }

    /// Three fraction bits go, ties to even; the exponent gains 112. Infinities and NaNs are rare.
    F16ToBf16, F16 -> Bf16: |magnitude| rare {
        let special = vcgtq_u16(magnitude, broadcast_u16(0x7bff));
        vorrq_u16(special, mask_within(magnitude, 1, 1 << 10))
    }, code {
        let even = vandq_u16(vshrq_n_u16::<3>(magnitude), broadcast_u16(1));
        let rounded = vaddq_u16(vaddq_u16(magnitude, broadcast_u16(3)), even);
        let number = vaddq_u16(vshrq_n_u16::<3>(rounded), broadcast_u16(112 << 7));
        keep_zero(magnitude, number)
    }

    /// The exponent loses 112, exactly; below 2^-25 all is zero. What overflows is rare.
    Bf16ToF16, Bf16 -> F16: |magnitude| rare {
        let past = vcgeq_u16(magnitude, broadcast_u16(143 << 7));
        vorrq_u16(past, mask_within(magnitude, 102 << 7, 113 << 7))
    }, code {
        vshlq_n_u16::<3>(vqsubq_u16(magnitude, broadcast_u16(112 << 7)))
    }
}

/// Rounded to DL16, as if there were neither subnormals nor specials.
#[inline]
#[target_feature(enable = "neon")]
fn round_f16_to_dl16(magnitude: uint16x8_t) -> uint16x8_t {
    // A shift that rounds ties up.
    let rounded = vrshrq_n_u16::<1>(magnitude);
    keep_zero(magnitude, vaddq_u16(rounded, broadcast_u16(16 << 9)))
}

/// Rounded to bfloat16, as if there were no specials.
#[inline]
#[target_feature(enable = "neon")]
fn round_dl16_to_bf16(magnitude: uint16x8_t) -> uint16x8_t {
    let even = vandq_u16(vshrq_n_u16::<2>(magnitude), broadcast_u16(1));
    let rounded = vaddq_u16(vaddq_u16(magnitude, broadcast_u16(1)), even);
    let number = vaddq_u16(vshrq_n_u16::<2>(rounded), broadcast_u16(96 << 7));
    keep_zero(magnitude, number)
}

/// Zero where the magnitude is, else the number.
#[inline]
#[target_feature(enable = "neon")]
fn keep_zero(magnitude: uint16x8_t, number: uint16x8_t) -> uint16x8_t {
    vandq_u16(vcgtq_u16(magnitude, broadcast_u16(0)), number)
}

/// A step that a direct kernel does not cover, out of its way.
///
/// # Safety
/// As for every [`Step`].
#[cold]
#[inline(never)]
#[target_feature(enable = "neon")]
unsafe fn step_through_f32<R: NeonReader, W: NeonWriter, const STREAM: bool>(
    src: *const u8,
    dst: *mut u8,
) {
    // SAFETY: the caller's promise is passed on.
    unsafe { NeonThroughF32::<R, W>::convert_step::<STREAM>(src, dst) }
}

/// All bits of the magnitudes that are at least `low` and below `high`.
#[inline]
#[target_feature(enable = "neon")]
fn mask_within(magnitude: uint16x8_t, low: u16, high: u16) -> uint16x8_t {
    vcgtq_u16(broadcast_u16(high - low), vsubq_u16(magnitude, broadcast_u16(low)))
}

#[inline]
#[target_feature(enable = "neon")]
fn broadcast_u16(value: u16) -> uint16x8_t {
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
        impl<$($generics)*> Step for $name {
            const IN: usize = $in;
            const OUT: usize = $out;

            #[inline]
            #[target_feature(enable = "neon")]
            unsafe fn step<const STREAM: bool>($src: *const u8, $dst: *mut u8) $body
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
                let code = |byte| keep_zero(byte, broadcast_u16(ONE));
                let low = code(vmovl_u8(vget_low_u8(byte)));
                store_u16_pair::<STREAM>(dst.add(half * 32), low, code(vmovl_high_u8(byte)));
            }
        }
    }
    [] NeonToBool, 2 -> 1: |src, dst| {
        // SAFETY: 32 codes are four registers, 32 bytes are two.
        unsafe {
            let truth = |at: usize| {
                let magnitude = vandq_u16(load_u16_register(src.add(at)), broadcast_u16(0x7fff));
                keep_zero(magnitude, broadcast_u16(1))
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
                    let nan = vcgtq_u16(vandq_u16(code, broadcast_u16(0x7fff)), broadcast_u16(0x7c00));
                    vorrq_u16(code, vandq_u16(nan, broadcast_u16(0x0200)))
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
    let magnitude = vandq_u16(code, broadcast_u16(0x7f));
    #[allow(clippy::cast_possible_truncation, reason = "less than 16")]
    let up = const { (FRACTION - 3) as i16 };
    #[allow(clippy::cast_possible_truncation, reason = "a code has 16 bits")]
    let rebias = const { ((BIAS - 7) << FRACTION) as u16 };
    let normal = vaddq_u16(vshlq_u16(magnitude, vdupq_n_s16(up)), broadcast_u16(rebias));
    // The two bytes of a subnormal's entry; places past the table, which normal numbers have, give zero.
    let low = vshlq_n_u16::<1>(magnitude);
    let places = vaddq_u16(vorrq_u16(low, vshlq_n_u16::<8>(low)), broadcast_u16(0x0100));
    let subnormal = vreinterpretq_u16_u8(vqtbl1q_u8(table, vreinterpretq_u8_u16(places)));
    let number = blend_masked_u16(normal, vcgtq_u16(broadcast_u16(8), magnitude), subnormal);
    let number =
        blend_masked_u16(number, vceqq_u16(magnitude, broadcast_u16(0x7f)), broadcast_u16(NAN));
    vorrq_u16(number, vandq_u16(vshlq_n_u16::<8>(code), broadcast_u16(0x8000)))
}

/// The eight subnormals of E4M3, multiples of 2^-9, as numbers of a wider format.
const fn e4m3_subnormals(fraction: u32, bias: u32) -> [u16; 8] {
    let mut table = [0; 8];
    let mut multiple = 1_u32;
    while multiple < 8 {
        let leading = multiple.ilog2();
        let rest = (multiple - (1 << leading)) << (fraction - leading);
        #[allow(clippy::cast_possible_truncation, reason = "a code has 16 bits")]
        let code = (((bias + leading - 9) << fraction) + rest) as u16;
        table[multiple as usize] = code;
        multiple += 1;
    }
    table
}

/// The bytes as they are.
struct NeonCopyStep<const SIZE: usize>;

impl<const SIZE: usize> NeonStep for NeonCopyStep<SIZE> {
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
