//! Pairs that stay in 16-bit lanes, or only move bits.
//!
//! Between 16-bit floats most numbers are normal on both sides, and then the exponent needs an
//! addition and the fraction a shift. A step that meets another kind (a subnormal on either side)
//! goes through binary32 as a whole.

use std::arch::x86_64::*;

use super::reader::{self, Avx512Reader};
use super::through::Avx512ThroughF32;
use super::writer::{self, Avx512Writer};
use super::{
    Avx512Step, KernelPair, run_non_temporal, step_kernels, store_half_register, store_register,
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
        (Format::Bool, Format::DL16 | Format::DL16INF) => step_kernels::<Avx512BoolTo<0x3e00>>(),
        (Format::Bool, Format::F16) => step_kernels::<Avx512BoolTo<0x3c00>>(),
        (Format::Bool, Format::BF16) => step_kernels::<Avx512BoolTo<0x3f80>>(),
        (Format::DL16 | Format::DL16INF | Format::F16 | Format::BF16, Format::Bool) => {
            step_kernels::<Avx512ToBool>()
        }
        (Format::I64, Format::I32 | Format::U32) => step_kernels::<Avx512I64ToI32>(),
        (Format::I32, Format::I64) => step_kernels::<Avx512I32ToI64>(),
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
            streaming: run_non_temporal::<Avx512CopyStep<1>>,
            streaming_rows: None,
        },
        2 => KernelPair {
            cached: copy_elements::<2>,
            streaming: run_non_temporal::<Avx512CopyStep<2>>,
            streaming_rows: None,
        },
        4 => KernelPair {
            cached: copy_elements::<4>,
            streaming: run_non_temporal::<Avx512CopyStep<4>>,
            streaming_rows: None,
        },
        _ => KernelPair {
            cached: copy_elements::<8>,
            streaming: run_non_temporal::<Avx512CopyStep<8>>,
            streaming_rows: None,
        },
    }
}

/// A kernel on 16-bit lanes: `$magnitude` without its sign to a code without it. `$rare` says which
/// magnitudes it does not cover.
macro_rules! sixteen {
    ($($(#[$doc:meta])* $name:ident, $reader:ident -> $writer:ident:
        |$magnitude:ident| rare $rare:block, code $code:block)*) => {$(
        $(#[$doc])*
        struct $name;

        impl Avx512Step for $name {
            const IN: usize = 2;
            const OUT: usize = 2;

            #[inline]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
            unsafe fn convert_step<const STREAM: bool>(src: *const u8, dst: *mut u8) {
                // SAFETY: 32 elements are one vector.
                let bits = unsafe { _mm512_loadu_si512(src.cast()) };
                let $magnitude = _mm512_and_si512(bits, broadcast_u16(0x7fff));
                if $rare {
                    // SAFETY: the caller's promise is passed on.
                    return unsafe { step_through_f32::<reader::$reader, writer::$writer, STREAM>(src, dst) };
                }
                let code: __m512i = $code;
                // code | (bits & 0x8000)
                let signed = _mm512_ternarylogic_epi32::<0b1111_1000>(code, bits, broadcast_u16(0x8000));
                // SAFETY: 32 elements are one vector.
                unsafe { store_register::<STREAM>(dst, signed) }
            }
        }
    )*};
}

sixteen! {
    /// One fraction bit goes, ties away; the exponent gains 16.
    F16ToDl16, Avx512F16Reader -> Avx512Dl16Writer: |magnitude| rare {
        any_subnormal(magnitude, 1 << 10)
    }, code {
        // The average with zero, which rounds up.
        let rounded = _mm512_avg_epu16(magnitude, broadcast_u16(0));
        let nonzero = _mm512_test_epi16_mask(magnitude, magnitude);
        let number = _mm512_maskz_add_epi16(nonzero, rounded, broadcast_u16(16 << 9));
        let special = _mm512_cmpge_epu16_mask(magnitude, broadcast_u16(0x7c00));
        _mm512_mask_mov_epi16(number, special, broadcast_u16(0x7fff))
    }

    /// The same, and an infinity is the number that stands for it.
    F16ToDl16Inf, Avx512F16Reader -> Avx512Dl16InfWriter: |magnitude| rare {
        any_subnormal(magnitude, 1 << 10)
    }, code {
        let rounded = _mm512_avg_epu16(magnitude, broadcast_u16(0));
        let nonzero = _mm512_test_epi16_mask(magnitude, magnitude);
        let number = _mm512_maskz_add_epi16(nonzero, rounded, broadcast_u16(16 << 9));
        let infinite = _mm512_cmpeq_epi16_mask(magnitude, broadcast_u16(0x7c00));
        let number = _mm512_mask_mov_epi16(number, infinite, broadcast_u16(DL16INF_INFINITY));
        let nan = _mm512_cmpgt_epu16_mask(magnitude, broadcast_u16(0x7c00));
        _mm512_mask_mov_epi16(number, nan, broadcast_u16(0x7fff))
    }

    /// The exponent loses 16, exactly; from 2^16 on it is an infinity.
    Dl16ToF16, Avx512Dl16Reader -> Avx512F16Writer: |magnitude| rare {
        any_subnormal(magnitude, 17 << 9)
    }, code {
        let number = _mm512_slli_epi16::<1>(_mm512_subs_epu16(magnitude, broadcast_u16(16 << 9)));
        let number = _mm512_min_epu16(number, broadcast_u16(0x7c00));
        let merged = _mm512_cmpeq_epi16_mask(magnitude, broadcast_u16(0x7fff));
        _mm512_mask_mov_epi16(number, merged, broadcast_u16(0x7e00))
    }

    /// The fraction fits; from 2^-31 down it is zero, from 2^33 on the merged code.
    Bf16ToDl16, Avx512Bf16Reader -> Avx512Dl16Writer: |magnitude| rare {
        false
    }, code {
        let low = _mm512_subs_epu16(magnitude, broadcast_u16(96 << 7));
        let past = _mm512_cmpge_epu16_mask(low, broadcast_u16(64 << 7));
        _mm512_mask_mov_epi16(_mm512_slli_epi16::<2>(low), past, broadcast_u16(0x7fff))
    }

    /// The same, and what is past 2^31 (1 + 509/512) is the number that stands for an infinity.
    Bf16ToDl16Inf, Avx512Bf16Reader -> Avx512Dl16InfWriter: |magnitude| rare {
        false
    }, code {
        let low = _mm512_subs_epu16(magnitude, broadcast_u16(96 << 7));
        let past = _mm512_cmpge_epu16_mask(low, broadcast_u16(64 << 7));
        let number = _mm512_min_epu16(_mm512_slli_epi16::<2>(low), broadcast_u16(DL16INF_INFINITY));
        let number = _mm512_mask_mov_epi16(number, past, broadcast_u16(DL16INF_INFINITY));
        let nan = _mm512_cmpgt_epu16_mask(magnitude, broadcast_u16(0x7f80));
        _mm512_mask_mov_epi16(number, nan, broadcast_u16(0x7fff))
    }

    /// As below, with infinities.
    Dl16InfToBf16, Avx512Dl16InfReader -> Avx512Bf16Writer: |magnitude| rare {
        false
    }, code {
        let even = _mm512_and_si512(_mm512_srli_epi16::<2>(magnitude), broadcast_u16(1));
        let rounded = _mm512_add_epi16(_mm512_add_epi16(magnitude, broadcast_u16(1)), even);
        let nonzero = _mm512_test_epi16_mask(magnitude, magnitude);
        let shifted = _mm512_srli_epi16::<2>(rounded);
        let number = _mm512_maskz_add_epi16(nonzero, shifted, broadcast_u16(96 << 7));
        let infinite = _mm512_cmpge_epu16_mask(magnitude, broadcast_u16(DL16INF_INFINITY));
        let number = _mm512_mask_mov_epi16(number, infinite, broadcast_u16(0x7f80));
        let merged = _mm512_cmpeq_epi16_mask(magnitude, broadcast_u16(0x7fff));
        _mm512_mask_mov_epi16(number, merged, broadcast_u16(0x7fc0))
    }

    /// Two fraction bits go, ties to even; every exponent is a normal one.
    Dl16ToBf16, Avx512Dl16Reader -> Avx512Bf16Writer: |magnitude| rare {
        false
    }, code {
        let even = _mm512_and_si512(_mm512_srli_epi16::<2>(magnitude), broadcast_u16(1));
        let rounded = _mm512_add_epi16(_mm512_add_epi16(magnitude, broadcast_u16(1)), even);
        let nonzero = _mm512_test_epi16_mask(magnitude, magnitude);
        let shifted = _mm512_srli_epi16::<2>(rounded);
        let number = _mm512_maskz_add_epi16(nonzero, shifted, broadcast_u16(96 << 7));
        let merged = _mm512_cmpeq_epi16_mask(magnitude, broadcast_u16(0x7fff));
        _mm512_mask_mov_epi16(number, merged, broadcast_u16(0x7fc0))
    }

    /// Three fraction bits go, ties to even; the exponent gains 112. Infinities and NaNs are rare.
    F16ToBf16, Avx512F16Reader -> Avx512Bf16Writer: |magnitude| rare {
        let normal = mask_within(magnitude, 1 << 10, 0x7c00);
        normal != _mm512_test_epi16_mask(magnitude, magnitude)
    }, code {
        let even = _mm512_and_si512(_mm512_srli_epi16::<3>(magnitude), broadcast_u16(1));
        let rounded = _mm512_add_epi16(_mm512_add_epi16(magnitude, broadcast_u16(3)), even);
        let nonzero = _mm512_test_epi16_mask(magnitude, magnitude);
        _mm512_maskz_add_epi16(nonzero, _mm512_srli_epi16::<3>(rounded), broadcast_u16(112 << 7))
    }

    /// The exponent loses 112, exactly; below 2^-25 all is zero. What overflows is rare.
    Bf16ToF16, Avx512Bf16Reader -> Avx512F16Writer: |magnitude| rare {
        let normal = mask_within(magnitude, 113 << 7, 143 << 7);
        let zero = _mm512_cmplt_epu16_mask(magnitude, broadcast_u16(102 << 7));
        normal | zero != u32::MAX
    }, code {
        _mm512_slli_epi16::<3>(_mm512_subs_epu16(magnitude, broadcast_u16(112 << 7)))
    }
}

/// A step that a direct kernel does not cover, out of its way.
#[cold]
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn step_through_f32<R: Avx512Reader, W: Avx512Writer, const STREAM: bool>(
    src: *const u8,
    dst: *mut u8,
) {
    // SAFETY: the caller's promise is passed on.
    unsafe { Avx512ThroughF32::<R, W>::convert_step::<STREAM>(src, dst) }
}

/// Whether any magnitude is nonzero and below `normal`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn any_subnormal(magnitude: __m512i, normal: u16) -> bool {
    mask_within(magnitude, 1, normal) != 0
}

/// Which magnitudes are at least `low` and below `high`. What is below wraps around.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn mask_within(magnitude: __m512i, low: u16, high: u16) -> u32 {
    _mm512_cmplt_epu16_mask(
        _mm512_sub_epi16(magnitude, broadcast_u16(low)),
        broadcast_u16(high - low),
    )
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn broadcast_u16(value: u16) -> __m512i {
    _mm512_set1_epi16(value.cast_signed())
}

/// A nonzero byte to the code of one.
struct Avx512BoolTo<const ONE: u16>;

impl<const ONE: u16> Avx512Step for Avx512BoolTo<ONE> {
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

impl Avx512Step for Avx512ToBool {
    const IN: usize = 2;
    const OUT: usize = 1;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn convert_step<const STREAM: bool>(src: *const u8, dst: *mut u8) {
        // SAFETY: 32 codes are one vector, 32 bytes are half of one.
        unsafe {
            let code = _mm512_loadu_si512(src.cast());
            let nonzero = _mm512_test_epi16_mask(code, broadcast_u16(0x7fff));
            store_half_register::<STREAM>(dst, _mm256_maskz_set1_epi8(nonzero, 1));
        }
    }
}

/// The low half of each number.
struct Avx512I64ToI32;

impl Avx512Step for Avx512I64ToI32 {
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

impl Avx512Step for Avx512I32ToI64 {
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

impl<const SIZE: usize> Avx512Step for Avx512CopyStep<SIZE> {
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
