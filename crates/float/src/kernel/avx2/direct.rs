//! Pairs that stay in 16-bit lanes, or only move bits.
//!
//! Between 16-bit floats most numbers are normal on both sides, and then the exponent needs an
//! addition and the fraction a shift. A step that meets another kind (a subnormal on either side)
//! goes through binary32 as a whole. Magnitudes have no sign bit, so that signed comparisons will do.

use std::arch::x86_64::*;

use super::reader::{self, Avx2Reader};
use super::through::{Avx2ThroughF32, blend_masked};
use super::writer::{self, Avx2Writer};
use super::{
    Avx2Step, KernelPair, load_half_register, load_register, run_non_temporal, step_kernels,
    store_register,
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
        (Format::Bool, Format::DL16 | Format::DL16INF) => step_kernels::<Avx2BoolTo<0x3e00>>(),
        (Format::Bool, Format::F16) => step_kernels::<Avx2BoolTo<0x3c00>>(),
        (Format::Bool, Format::BF16) => step_kernels::<Avx2BoolTo<0x3f80>>(),
        (Format::DL16 | Format::DL16INF | Format::F16 | Format::BF16, Format::Bool) => {
            step_kernels::<Avx2ToBool>()
        }
        (Format::F8E4M3FN, Format::F16) => step_kernels::<Avx2E4m3To<10, 15, 0x7e00>>(),
        (Format::F8E4M3FN, Format::BF16) => step_kernels::<Avx2E4m3To<7, 127, 0x7fc0>>(),
        // No number of E4M3 is large enough to stand for an infinity.
        (Format::F8E4M3FN, Format::DL16 | Format::DL16INF) => {
            step_kernels::<Avx2E4m3To<9, 31, 0x7fff>>()
        }
        (Format::F8E5M2, Format::F16) => step_kernels::<Avx2E5m2ToF16>(),
        (Format::I64, Format::I32 | Format::U32) => step_kernels::<Avx2I64ToI32>(),
        (Format::I32, Format::I64) => step_kernels::<Avx2I32ToI64>(),
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
            streaming: run_non_temporal::<Avx2CopyStep<1>>,
            streaming_rows: None,
        },
        2 => KernelPair {
            cached: copy_elements::<2>,
            streaming: run_non_temporal::<Avx2CopyStep<2>>,
            streaming_rows: None,
        },
        4 => KernelPair {
            cached: copy_elements::<4>,
            streaming: run_non_temporal::<Avx2CopyStep<4>>,
            streaming_rows: None,
        },
        _ => KernelPair {
            cached: copy_elements::<8>,
            streaming: run_non_temporal::<Avx2CopyStep<8>>,
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

        impl Avx2Step for $name {
            const IN: usize = 2;
            const OUT: usize = 2;

            #[inline]
            #[target_feature(enable = "avx2,f16c")]
            unsafe fn convert_step<const STREAM: bool>(src: *const u8, dst: *mut u8) {
                // SAFETY: 32 elements are two vectors.
                let (low, high) = unsafe { (load_register(src), load_register(src.add(32))) };
                let rare = |bits| {
                    #[allow(unused_variables, reason = "some kernels cover every magnitude")]
                    let $magnitude = _mm256_and_si256(bits, broadcast_u16(0x7fff));
                    $rare
                };
                let rare: __m256i = _mm256_or_si256(rare(low), rare(high));
                if _mm256_testz_si256(rare, rare) == 0 {
                    // SAFETY: the caller's promise is passed on.
                    return unsafe { step_through_f32::<reader::$reader, writer::$writer, STREAM>(src, dst) };
                }
                let code = |bits| {
                    let $magnitude = _mm256_and_si256(bits, broadcast_u16(0x7fff));
                    let code: __m256i = $code;
                    _mm256_or_si256(code, _mm256_and_si256(bits, broadcast_u16(0x8000)))
                };
                // SAFETY: 32 elements are two vectors.
                unsafe {
                    store_register::<STREAM>(dst, code(low));
                    store_register::<STREAM>(dst.add(32), code(high));
                }
            }
        }
    )*};
}

sixteen! {
    /// One fraction bit goes, ties away; the exponent gains 16.
    F16ToDl16, Avx2F16Reader -> Avx2Dl16Writer: |magnitude| rare {
        mask_within(magnitude, 1, 1 << 10)
    }, code {
        let special = _mm256_cmpgt_epi16(magnitude, broadcast_u16(0x7bff));
        // All bits of the magnitude.
        _mm256_or_si256(round_f16_to_dl16(magnitude), _mm256_srli_epi16::<1>(special))
    }

    /// The same, and an infinity is the number that stands for it.
    F16ToDl16Inf, Avx2F16Reader -> Avx2Dl16InfWriter: |magnitude| rare {
        mask_within(magnitude, 1, 1 << 10)
    }, code {
        let infinite = _mm256_cmpeq_epi16(magnitude, broadcast_u16(0x7c00));
        let number = blend_masked(round_f16_to_dl16(magnitude), infinite, broadcast_u16(DL16INF_INFINITY));
        let nan = _mm256_cmpgt_epi16(magnitude, broadcast_u16(0x7c00));
        _mm256_or_si256(number, _mm256_srli_epi16::<1>(nan))
    }

    /// The exponent loses 16, exactly; from 2^16 on it is an infinity.
    Dl16ToF16, Avx2Dl16Reader -> Avx2F16Writer: |magnitude| rare {
        mask_within(magnitude, 1, 17 << 9)
    }, code {
        let number = _mm256_slli_epi16::<1>(_mm256_subs_epu16(magnitude, broadcast_u16(16 << 9)));
        let number = _mm256_min_epu16(number, broadcast_u16(0x7c00));
        let merged = _mm256_cmpeq_epi16(magnitude, broadcast_u16(0x7fff));
        _mm256_or_si256(number, _mm256_and_si256(merged, broadcast_u16(0x0200)))
    }

    /// The fraction fits; from 2^-31 down it is zero, from 2^33 on the merged code.
    Bf16ToDl16, Avx2Bf16Reader -> Avx2Dl16Writer: |magnitude| rare {
        _mm256_setzero_si256()
    }, code {
        let low = _mm256_subs_epu16(magnitude, broadcast_u16(96 << 7));
        let past = _mm256_cmpgt_epi16(low, broadcast_u16((64 << 7) - 1));
        blend_masked(_mm256_slli_epi16::<2>(low), past, broadcast_u16(0x7fff))
    }

    /// The same, and what is past 2^31 (1 + 509/512) is the number that stands for an infinity.
    Bf16ToDl16Inf, Avx2Bf16Reader -> Avx2Dl16InfWriter: |magnitude| rare {
        _mm256_setzero_si256()
    }, code {
        let low = _mm256_subs_epu16(magnitude, broadcast_u16(96 << 7));
        let low = _mm256_min_epu16(low, broadcast_u16(64 << 7));
        let number = _mm256_min_epu16(_mm256_slli_epi16::<2>(low), broadcast_u16(DL16INF_INFINITY));
        let nan = _mm256_cmpgt_epi16(magnitude, broadcast_u16(0x7f80));
        _mm256_or_si256(number, _mm256_srli_epi16::<1>(nan))
    }

    /// As below, with infinities.
    Dl16InfToBf16, Avx2Dl16InfReader -> Avx2Bf16Writer: |magnitude| rare {
        _mm256_setzero_si256()
    }, code {
        let infinite = _mm256_cmpgt_epi16(magnitude, broadcast_u16(DL16INF_INFINITY - 1));
        let number = blend_masked(round_dl16_to_bf16(magnitude), infinite, broadcast_u16(0x7f80));
        let merged = _mm256_cmpeq_epi16(magnitude, broadcast_u16(0x7fff));
        blend_masked(number, merged, broadcast_u16(0x7fc0))
    }

    /// Two fraction bits go, ties to even; every exponent is a normal one.
    Dl16ToBf16, Avx2Dl16Reader -> Avx2Bf16Writer: |magnitude| rare {
        _mm256_setzero_si256()
    }, code {
        let merged = _mm256_cmpeq_epi16(magnitude, broadcast_u16(0x7fff));
        blend_masked(round_dl16_to_bf16(magnitude), merged, broadcast_u16(0x7fc0))
    }

    /// Three fraction bits go, ties to even; the exponent gains 112. Infinities and NaNs are rare.
    F16ToBf16, Avx2F16Reader -> Avx2Bf16Writer: |magnitude| rare {
        let special = _mm256_cmpgt_epi16(magnitude, broadcast_u16(0x7bff));
        _mm256_or_si256(special, mask_within(magnitude, 1, 1 << 10))
    }, code {
        let even = _mm256_and_si256(_mm256_srli_epi16::<3>(magnitude), broadcast_u16(1));
        let rounded = _mm256_add_epi16(_mm256_add_epi16(magnitude, broadcast_u16(3)), even);
        let number = _mm256_add_epi16(_mm256_srli_epi16::<3>(rounded), broadcast_u16(112 << 7));
        keep_zero(magnitude, number)
    }

    /// The exponent loses 112, exactly; below 2^-25 all is zero. What overflows is rare.
    Bf16ToF16, Avx2Bf16Reader -> Avx2F16Writer: |magnitude| rare {
        let past = _mm256_cmpgt_epi16(magnitude, broadcast_u16((143 << 7) - 1));
        _mm256_or_si256(past, mask_within(magnitude, 102 << 7, 113 << 7))
    }, code {
        _mm256_slli_epi16::<3>(_mm256_subs_epu16(magnitude, broadcast_u16(112 << 7)))
    }
}

/// Rounded to DL16, as if there were neither subnormals nor specials.
#[inline]
#[target_feature(enable = "avx2")]
fn round_f16_to_dl16(magnitude: __m256i) -> __m256i {
    // The average with zero, which rounds up.
    let rounded = _mm256_avg_epu16(magnitude, broadcast_u16(0));
    keep_zero(magnitude, _mm256_add_epi16(rounded, broadcast_u16(16 << 9)))
}

/// Rounded to bfloat16, as if there were no specials.
#[inline]
#[target_feature(enable = "avx2")]
fn round_dl16_to_bf16(magnitude: __m256i) -> __m256i {
    let even = _mm256_and_si256(_mm256_srli_epi16::<2>(magnitude), broadcast_u16(1));
    let rounded = _mm256_add_epi16(_mm256_add_epi16(magnitude, broadcast_u16(1)), even);
    let number = _mm256_add_epi16(_mm256_srli_epi16::<2>(rounded), broadcast_u16(96 << 7));
    keep_zero(magnitude, number)
}

/// Zero where the magnitude is, else the number.
#[inline]
#[target_feature(enable = "avx2")]
fn keep_zero(magnitude: __m256i, number: __m256i) -> __m256i {
    _mm256_andnot_si256(_mm256_cmpeq_epi16(magnitude, broadcast_u16(0)), number)
}

/// A step that a direct kernel does not cover, out of its way.
#[cold]
#[inline(never)]
#[target_feature(enable = "avx2,f16c")]
unsafe fn step_through_f32<R: Avx2Reader, W: Avx2Writer, const STREAM: bool>(
    src: *const u8,
    dst: *mut u8,
) {
    // SAFETY: the caller's promise is passed on.
    unsafe { Avx2ThroughF32::<R, W>::convert_step::<STREAM>(src, dst) }
}

/// All bits of the magnitudes that are at least `low` and below `high`.
#[inline]
#[target_feature(enable = "avx2")]
fn mask_within(magnitude: __m256i, low: u16, high: u16) -> __m256i {
    let above = _mm256_cmpgt_epi16(magnitude, broadcast_u16(low - 1));
    _mm256_and_si256(above, _mm256_cmpgt_epi16(broadcast_u16(high), magnitude))
}

#[inline]
#[target_feature(enable = "avx2")]
fn broadcast_u16(value: u16) -> __m256i {
    _mm256_set1_epi16(value.cast_signed())
}

/// Steps of two vectors of 16 elements each: what is read for 16 elements, and what is written.
macro_rules! steps {
    ($($(#[$doc:meta])* [$($generics:tt)*] $name:ty, $in:literal -> $out:literal:
        |$src:ident, $dst:ident| $body:block)*) => {$(
        $(#[$doc])*
        impl<$($generics)*> Avx2Step for $name {
            const IN: usize = $in;
            const OUT: usize = $out;

            #[inline]
            #[target_feature(enable = "avx2,f16c")]
            unsafe fn convert_step<const STREAM: bool>($src: *const u8, $dst: *mut u8) $body
        }
    )*};
}

/// A nonzero byte to the code of one.
struct Avx2BoolTo<const ONE: u16>;
/// A 16-bit float to bool: any magnitude but zero.
struct Avx2ToBool;
/// An E4M3 to a 16-bit float with so many fraction bits, that bias and that NaN: always exact.
struct Avx2E4m3To<const FRACTION: u32, const BIAS: u32, const NAN: u16>;
/// An E5M2 is the upper half of a float16.
struct Avx2E5m2ToF16;
/// The low half of each number.
struct Avx2I64ToI32;
/// Each number with its sign above it.
struct Avx2I32ToI64;

steps! {
    [const ONE: u16] Avx2BoolTo<ONE>, 1 -> 2: |src, dst| {
        for half in 0..2 {
            // SAFETY: 16 bytes are half a vector, 16 codes are one.
            unsafe {
                let byte = _mm256_cvtepu8_epi16(load_half_register(src.add(half * 16)));
                store_register::<STREAM>(dst.add(half * 32), keep_zero(byte, broadcast_u16(ONE)));
            }
        }
    }
    [] Avx2ToBool, 2 -> 1: |src, dst| {
        // SAFETY: 32 codes are two vectors, 32 bytes are one.
        unsafe {
            let truth = |at| {
                let magnitude = _mm256_and_si256(load_register(src.wrapping_add(at)), broadcast_u16(0x7fff));
                keep_zero(magnitude, broadcast_u16(1))
            };
            let mixed = _mm256_packus_epi16(truth(0), truth(32));
            store_register::<STREAM>(dst, _mm256_permute4x64_epi64::<0b11_01_10_00>(mixed));
        }
    }
    [const FRACTION: u32, const BIAS: u32, const NAN: u16] Avx2E4m3To<FRACTION, BIAS, NAN>, 1 -> 2:
    |src, dst| {
        let table = const { e4m3_subnormals(FRACTION, BIAS) };
        for half in 0..2 {
            // SAFETY: 16 bytes are half a vector, 16 codes are one; the table is half a vector.
            unsafe {
                let code = _mm256_cvtepu8_epi16(load_half_register(src.add(half * 16)));
                let table = _mm256_broadcastsi128_si256(load_half_register(table.as_ptr().cast()));
                let magnitude = _mm256_and_si256(code, broadcast_u16(0x7f));
                let wide = _mm256_sll_epi16(magnitude, _mm_cvtsi32_si128(FRACTION.cast_signed() - 3));
                #[allow(clippy::cast_possible_truncation, reason = "a code has 16 bits")]
                let normal = _mm256_add_epi16(wide, broadcast_u16(((BIAS - 7) << FRACTION) as u16));
                // The two bytes of a subnormal's entry.
                let low = _mm256_slli_epi16::<1>(magnitude);
                let places = _mm256_or_si256(low, _mm256_slli_epi16::<8>(low));
                let places = _mm256_add_epi16(places, broadcast_u16(0x0100));
                let subnormal = _mm256_shuffle_epi8(table, places);
                let number = blend_masked(normal, _mm256_cmpgt_epi16(broadcast_u16(8), magnitude), subnormal);
                let nan = _mm256_cmpeq_epi16(magnitude, broadcast_u16(0x7f));
                let number = blend_masked(number, nan, broadcast_u16(NAN));
                let sign = _mm256_and_si256(_mm256_slli_epi16::<8>(code), broadcast_u16(0x8000));
                store_register::<STREAM>(dst.add(half * 32), _mm256_or_si256(number, sign));
            }
        }
    }
    [] Avx2E5m2ToF16, 1 -> 2: |src, dst| {
        for half in 0..2 {
            // SAFETY: 16 bytes are half a vector, 16 codes are one.
            unsafe {
                let code = _mm256_cvtepu8_epi16(load_half_register(src.add(half * 16)));
                let code = _mm256_slli_epi16::<8>(code);
                // A NaN is quiet.
                let magnitude = _mm256_and_si256(code, broadcast_u16(0x7fff));
                let nan = _mm256_cmpgt_epi16(magnitude, broadcast_u16(0x7c00));
                let quiet = _mm256_and_si256(nan, broadcast_u16(0x0200));
                store_register::<STREAM>(dst.add(half * 32), _mm256_or_si256(code, quiet));
            }
        }
    }
    [] Avx2I64ToI32, 8 -> 4: |src, dst| {
        for quarter in 0..4 {
            // SAFETY: 8 elements are two vectors, and one.
            unsafe {
                let low = _mm256_castsi256_ps(load_register(src.add(quarter * 64)));
                let high = _mm256_castsi256_ps(load_register(src.add(quarter * 64 + 32)));
                let mixed = _mm256_shuffle_ps::<0b10_00_10_00>(low, high);
                let mixed = _mm256_castps_si256(mixed);
                let value = _mm256_permute4x64_epi64::<0b11_01_10_00>(mixed);
                store_register::<STREAM>(dst.add(quarter * 32), value);
            }
        }
    }
    [] Avx2I32ToI64, 4 -> 8: |src, dst| {
        for eighth in 0..8 {
            // SAFETY: 4 elements are half a vector, and one.
            unsafe {
                let value = load_half_register(src.add(eighth * 16));
                store_register::<STREAM>(dst.add(eighth * 32), _mm256_cvtepi32_epi64(value));
            }
        }
    }
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
struct Avx2CopyStep<const SIZE: usize>;

impl<const SIZE: usize> Avx2Step for Avx2CopyStep<SIZE> {
    const IN: usize = SIZE;
    const OUT: usize = SIZE;

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn convert_step<const STREAM: bool>(src: *const u8, dst: *mut u8) {
        for vector in 0..SIZE {
            // SAFETY: 32 elements are a vector for each of their bytes.
            unsafe {
                store_register::<STREAM>(dst.add(vector * 32), load_register(src.add(vector * 32)));
            };
        }
    }
}
