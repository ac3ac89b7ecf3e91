//! Steps that only move bits: copies, truth values, integers of another width, and 8-bit floats whose every number a
//! 16-bit float has.

use std::arch::x86_64::*;

use super::lanes::blend_masked;
use super::{Avx2, KernelPair, load_half_register, load_register, store_register};
use crate::format::Format;
use crate::kernel::copy_elements;
use crate::kernel::vector::{ConvertStep, VectorIsa, e4m3_subnormals, step_kernels};

/// The pairs of this file.
pub(super) fn select_own_kernels(src: Format, dst: Format) -> Option<KernelPair> {
    Some(match (src, dst) {
        (Format::Bool, Format::DL16 | Format::DL16INF) => {
            step_kernels::<Avx2, Avx2BoolTo<0x3e00>>()
        }
        (Format::Bool, Format::F16) => step_kernels::<Avx2, Avx2BoolTo<0x3c00>>(),
        (Format::Bool, Format::BF16) => step_kernels::<Avx2, Avx2BoolTo<0x3f80>>(),
        (Format::DL16 | Format::DL16INF | Format::F16 | Format::BF16, Format::Bool) => {
            step_kernels::<Avx2, Avx2ToBool>()
        }
        (Format::F8E4M3FN, Format::F16) => step_kernels::<Avx2, Avx2E4m3To<10, 15, 0x7e00>>(),
        (Format::F8E4M3FN, Format::BF16) => step_kernels::<Avx2, Avx2E4m3To<7, 127, 0x7fc0>>(),
        // No number of E4M3 is large enough to stand for an infinity.
        (Format::F8E4M3FN, Format::DL16 | Format::DL16INF) => {
            step_kernels::<Avx2, Avx2E4m3To<9, 31, 0x7fff>>()
        }
        (Format::F8E5M2, Format::F16) => step_kernels::<Avx2, Avx2E5m2ToF16>(),
        (Format::I64, Format::I32 | Format::U32) => step_kernels::<Avx2, Avx2I64ToI32>(),
        (Format::I32, Format::I64) => step_kernels::<Avx2, Avx2I32ToI64>(),
        _ => return None,
    })
}

/// A format to itself: the system's copy, or ours with non-temporal stores.
pub(super) fn copy_kernels(size: usize) -> KernelPair {
    match size {
        1 => KernelPair {
            cached: copy_elements::<1>,
            streaming: Avx2::run_non_temporal::<Avx2CopyStep<1>>,
            streaming_rows: None,
        },
        2 => KernelPair {
            cached: copy_elements::<2>,
            streaming: Avx2::run_non_temporal::<Avx2CopyStep<2>>,
            streaming_rows: None,
        },
        4 => KernelPair {
            cached: copy_elements::<4>,
            streaming: Avx2::run_non_temporal::<Avx2CopyStep<4>>,
            streaming_rows: None,
        },
        _ => KernelPair {
            cached: copy_elements::<8>,
            streaming: Avx2::run_non_temporal::<Avx2CopyStep<8>>,
            streaming_rows: None,
        },
    }
}

/// Zero where the magnitude is, else the number.
#[inline]
#[target_feature(enable = "avx2")]
fn keep_zero(magnitude: __m256i, number: __m256i) -> __m256i {
    _mm256_andnot_si256(_mm256_cmpeq_epi16(magnitude, splat_u16(0)), number)
}

#[inline]
#[target_feature(enable = "avx2")]
fn splat_u16(value: u16) -> __m256i {
    _mm256_set1_epi16(value.cast_signed())
}

/// Steps of two vectors of 16 elements each: what is read for 16 elements, and what is written.
macro_rules! steps {
    ($($(#[$doc:meta])* [$($generics:tt)*] $name:ty, $in:literal -> $out:literal:
        |$src:ident, $dst:ident| $body:block)*) => {$(
        $(#[$doc])*
        impl<$($generics)*> ConvertStep for $name {
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
                store_register::<STREAM>(dst.add(half * 32), keep_zero(byte, splat_u16(ONE)));
            }
        }
    }
    [] Avx2ToBool, 2 -> 1: |src, dst| {
        // SAFETY: 32 codes are two vectors, 32 bytes are one.
        unsafe {
            let truth = |at| {
                let magnitude = _mm256_and_si256(load_register(src.wrapping_add(at)), splat_u16(0x7fff));
                keep_zero(magnitude, splat_u16(1))
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
                let magnitude = _mm256_and_si256(code, splat_u16(0x7f));
                let wide = _mm256_sll_epi16(magnitude, _mm_cvtsi32_si128(FRACTION.cast_signed() - 3));
                #[allow(clippy::cast_possible_truncation, reason = "a code has 16 bits")]
                let normal = _mm256_add_epi16(wide, splat_u16(((BIAS - 7) << FRACTION) as u16));
                // The two bytes of a subnormal's entry.
                let low = _mm256_slli_epi16::<1>(magnitude);
                let places = _mm256_or_si256(low, _mm256_slli_epi16::<8>(low));
                let places = _mm256_add_epi16(places, splat_u16(0x0100));
                let subnormal = _mm256_shuffle_epi8(table, places);
                let number = blend_masked(normal, _mm256_cmpgt_epi16(splat_u16(8), magnitude), subnormal);
                let nan = _mm256_cmpeq_epi16(magnitude, splat_u16(0x7f));
                let number = blend_masked(number, nan, splat_u16(NAN));
                let sign = _mm256_and_si256(_mm256_slli_epi16::<8>(code), splat_u16(0x8000));
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
                let magnitude = _mm256_and_si256(code, splat_u16(0x7fff));
                let nan = _mm256_cmpgt_epi16(magnitude, splat_u16(0x7c00));
                let quiet = _mm256_and_si256(nan, splat_u16(0x0200));
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

/// The bytes as they are.
struct Avx2CopyStep<const SIZE: usize>;

impl<const SIZE: usize> ConvertStep for Avx2CopyStep<SIZE> {
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
