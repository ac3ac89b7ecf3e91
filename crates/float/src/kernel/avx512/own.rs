//! Steps that only move bits: copies, truth values, integers of another width.

use std::arch::x86_64::*;

use super::{Avx512, KernelPair, store_half_register, store_register};
use crate::format::Format;
use crate::kernel::copy_elements;
use crate::kernel::vector::{ConvertStep, VectorIsa, step_kernels};

/// The pairs of this file.
pub(super) fn select_own_kernels(src: Format, dst: Format) -> Option<KernelPair> {
    Some(match (src, dst) {
        (Format::Bool, Format::DL16 | Format::DL16INF) => {
            step_kernels::<Avx512, Avx512BoolTo<0x3e00>>()
        }
        (Format::Bool, Format::F16) => step_kernels::<Avx512, Avx512BoolTo<0x3c00>>(),
        (Format::Bool, Format::BF16) => step_kernels::<Avx512, Avx512BoolTo<0x3f80>>(),
        (Format::DL16 | Format::DL16INF | Format::F16 | Format::BF16, Format::Bool) => {
            step_kernels::<Avx512, Avx512ToBool>()
        }
        (Format::I64, Format::I32 | Format::U32) => step_kernels::<Avx512, Avx512I64ToI32>(),
        (Format::I32, Format::I64) => step_kernels::<Avx512, Avx512I32ToI64>(),
        _ => return None,
    })
}

/// A format to itself: the system's copy, or ours with non-temporal stores.
pub(super) fn copy_kernels(size: usize) -> KernelPair {
    match size {
        1 => KernelPair {
            cached: copy_elements::<1>,
            streaming: Avx512::run_non_temporal::<Avx512CopyStep<1>>,
            streaming_rows: None,
        },
        2 => KernelPair {
            cached: copy_elements::<2>,
            streaming: Avx512::run_non_temporal::<Avx512CopyStep<2>>,
            streaming_rows: None,
        },
        4 => KernelPair {
            cached: copy_elements::<4>,
            streaming: Avx512::run_non_temporal::<Avx512CopyStep<4>>,
            streaming_rows: None,
        },
        _ => KernelPair {
            cached: copy_elements::<8>,
            streaming: Avx512::run_non_temporal::<Avx512CopyStep<8>>,
            streaming_rows: None,
        },
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn splat_u16(value: u16) -> __m512i {
    _mm512_set1_epi16(value.cast_signed())
}

/// A nonzero byte to the code of one.
struct Avx512BoolTo<const ONE: u16>;

impl<const ONE: u16> ConvertStep for Avx512BoolTo<ONE> {
    const IN: usize = 1;
    const OUT: usize = 2;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn convert_step<const STREAM: bool>(src: *const u8, dst: *mut u8) {
        // SAFETY: 32 bytes are half a vector, 32 codes are one.
        unsafe {
            let byte = _mm256_loadu_si256(src.cast());
            let nonzero = _mm256_test_epi8_mask(byte, byte);
            store_register::<STREAM>(dst, _mm512_maskz_set1_epi16(nonzero, ONE.cast_signed()));
        }
    }
}

/// A 16-bit float to bool: any magnitude but zero.
struct Avx512ToBool;

impl ConvertStep for Avx512ToBool {
    const IN: usize = 2;
    const OUT: usize = 1;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn convert_step<const STREAM: bool>(src: *const u8, dst: *mut u8) {
        // SAFETY: 32 codes are one vector, 32 bytes are half of one.
        unsafe {
            let code = _mm512_loadu_si512(src.cast());
            let nonzero = _mm512_test_epi16_mask(code, splat_u16(0x7fff));
            store_half_register::<STREAM>(dst, _mm256_maskz_set1_epi8(nonzero, 1));
        }
    }
}

/// The low half of each number.
struct Avx512I64ToI32;

impl ConvertStep for Avx512I64ToI32 {
    const IN: usize = 8;
    const OUT: usize = 4;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn convert_step<const STREAM: bool>(src: *const u8, dst: *mut u8) {
        for quarter in 0..4 {
            // SAFETY: 32 elements are four vectors, and four half vectors.
            unsafe {
                let value = _mm512_loadu_si512(src.add(quarter * 64).cast());
                store_half_register::<STREAM>(dst.add(quarter * 32), _mm512_cvtepi64_epi32(value));
            }
        }
    }
}

/// Each number with its sign above it.
struct Avx512I32ToI64;

impl ConvertStep for Avx512I32ToI64 {
    const IN: usize = 4;
    const OUT: usize = 8;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn convert_step<const STREAM: bool>(src: *const u8, dst: *mut u8) {
        for quarter in 0..4 {
            // SAFETY: 32 elements are four half vectors, and four vectors.
            unsafe {
                let value = _mm256_loadu_si256(src.add(quarter * 32).cast());
                store_register::<STREAM>(dst.add(quarter * 64), _mm512_cvtepi32_epi64(value));
            }
        }
    }
}

/// The bytes as they are.
struct Avx512CopyStep<const SIZE: usize>;

impl<const SIZE: usize> ConvertStep for Avx512CopyStep<SIZE> {
    const IN: usize = SIZE;
    const OUT: usize = SIZE;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn convert_step<const STREAM: bool>(src: *const u8, dst: *mut u8) {
        // SAFETY: 32 elements are half a vector for each of their bytes.
        unsafe {
            if SIZE == 1 {
                return store_half_register::<STREAM>(dst, _mm256_loadu_si256(src.cast()));
            }
            for vector in 0..SIZE / 2 {
                store_register::<STREAM>(
                    dst.add(vector * 64),
                    _mm512_loadu_si512(src.add(vector * 64).cast()),
                );
            }
        }
    }
}
