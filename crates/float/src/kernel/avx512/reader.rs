//! Reading: 32 elements of a format to binary32.

use std::arch::x86_64::*;

use super::Avx512;
use super::lanes::{Avx512Lanes, both, broadcast_u32, mask_nans, with_sign_of};
use crate::element::Bool;
use crate::kernel::vector::ReadFormat;
use crate::minifloat::{self, F32_INFINITY, F32_NAN, F32_QUIET, F32_SIGN};
use crate::small::{
    Bf16, DL16_DROPPED, DL16_INFINITE, DL16_MERGED, DL16_REBIAS, Dl16, Dl16Inf, F8E4M3Fn, F8E5M2,
    F8E5M2Fnuz, F16,
};

macro_rules! readers {
    ($($format:ty: |$src:ident| $body:block)*) => {$(
        impl ReadFormat<$format> for Avx512 {
            #[inline]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
            unsafe fn read_lanes($src: *const u8) -> Avx512Lanes $body
        }
    )*};
}

readers! {
    f32: |src| {
        // SAFETY: 32 elements are two vectors.
        unsafe { [_mm512_loadu_si512(src.cast()), _mm512_loadu_si512(src.add(64).cast())] }
    }
    F16: |src| {
        // SAFETY: 32 elements are one vector.
        f16_to_f32_bits(unsafe { _mm512_loadu_si512(src.cast()) })
    }
    Bf16: |src| {
        // SAFETY: 32 elements are one vector.
        both!(widen_u16_codes(unsafe { _mm512_loadu_si512(src.cast()) }), |code| {
            let bits = _mm512_slli_epi32::<16>(code);
            let nan = mask_nans(bits);
            _mm512_mask_or_epi32(bits, nan, bits, broadcast_u32(F32_QUIET))
        })
    }
    Dl16: |src| {
        // SAFETY: 32 elements are one vector.
        both!(widen_u16_codes(unsafe { _mm512_loadu_si512(src.cast()) }), |code| {
            let magnitude = _mm512_and_si512(code, broadcast_u32(0x7fff));
            let wide = _mm512_slli_epi32::<DL16_DROPPED>(magnitude);
            let nonzero = _mm512_test_epi32_mask(magnitude, magnitude);
            let number = _mm512_maskz_add_epi32(nonzero, wide, broadcast_u32(DL16_REBIAS));
            let merged = _mm512_cmpeq_epi32_mask(magnitude, broadcast_u32(DL16_MERGED));
            let value = _mm512_mask_mov_epi32(number, merged, broadcast_u32(F32_NAN));
            with_sign(value, _mm512_slli_epi32::<16>(code))
        })
    }
    Dl16Inf: |src| {
        // SAFETY: 32 elements are one vector.
        both!(widen_u16_codes(unsafe { _mm512_loadu_si512(src.cast()) }), |code| {
            let magnitude = _mm512_and_si512(code, broadcast_u32(0x7fff));
            let wide = _mm512_slli_epi32::<DL16_DROPPED>(magnitude);
            let nonzero = _mm512_test_epi32_mask(magnitude, magnitude);
            let number = _mm512_maskz_add_epi32(nonzero, wide, broadcast_u32(DL16_REBIAS));
            let infinite = _mm512_cmpge_epu32_mask(magnitude, broadcast_u32(DL16_INFINITE));
            let value = _mm512_mask_mov_epi32(number, infinite, broadcast_u32(F32_INFINITY));
            let merged = _mm512_cmpeq_epi32_mask(magnitude, broadcast_u32(DL16_MERGED));
            let value = _mm512_mask_mov_epi32(value, merged, broadcast_u32(F32_NAN));
            with_sign(value, _mm512_slli_epi32::<16>(code))
        })
    }
    // Moved to the places of a float16, the exponent reads 8 less than it is, subnormals included.
    F8E4M3Fn: |src| {
        // SAFETY: 32 elements are half a vector.
        let code = _mm512_cvtepu8_epi16(unsafe { _mm256_loadu_si256(src.cast()) });
        let magnitude = _mm512_and_si512(code, _mm512_set1_epi16(0x7f));
        let nan = _mm512_cmpeq_epi16_mask(magnitude, _mm512_set1_epi16(0x7f));
        let half = _mm512_slli_epi16::<7>(magnitude);
        let half = _mm512_mask_mov_epi16(half, nan, _mm512_set1_epi16(0x7e00));
        let sign = _mm512_slli_epi16::<8>(code);
        let half = with_sign_of(half, sign, _mm512_set1_epi16(i16::MIN));
        both!(f16_to_f32_bits(half), |bits| {
            _mm512_castps_si512(_mm512_mul_ps(_mm512_castsi512_ps(bits), _mm512_set1_ps(256.0)))
        })
    }
    // The upper half of a float16.
    F8E5M2: |src| {
        // SAFETY: 32 elements are half a vector.
        let code = _mm512_cvtepu8_epi16(unsafe { _mm256_loadu_si256(src.cast()) });
        f16_to_f32_bits(_mm512_slli_epi16::<8>(code))
    }
    F8E5M2Fnuz: |src| {
        // SAFETY: 32 elements are half a vector.
        both!(widen_u16_codes(_mm512_cvtepu8_epi16(unsafe { _mm256_loadu_si256(src.cast()) })), |code| {
            let shape = minifloat::F8E5M2FNUZ;
            let magnitude = _mm512_and_si512(code, broadcast_u32(shape.magnitude_mask()));
            let wide = _mm512_sllv_epi32(magnitude, broadcast_u32(shape.dropped_bits()));
            let normal = _mm512_add_epi32(wide, broadcast_u32(shape.exponent_rebias()));
            let unit = _mm512_castsi512_ps(broadcast_u32(shape.subnormal_unit_bits()));
            let subnormal = _mm512_castps_si512(_mm512_mul_ps(_mm512_cvtepi32_ps(magnitude), unit));
            let small = _mm512_cmplt_epu32_mask(magnitude, broadcast_u32(1 << shape.fraction));
            let finite = _mm512_mask_mov_epi32(normal, small, subnormal);
            let signed = with_sign(finite, _mm512_slli_epi32::<24>(code));
            let nan = _mm512_cmpeq_epi32_mask(code, broadcast_u32(0x80));
            _mm512_mask_mov_epi32(signed, nan, broadcast_u32(F32_NAN))
        })
    }
    i16: |src| {
        // SAFETY: 32 elements are one vector.
        integers_to_f32_bits(unsafe { _mm512_loadu_si512(src.cast()) })
    }
    i8: |src| {
        // SAFETY: 32 elements are half a vector.
        integers_to_f32_bits(_mm512_cvtepi8_epi16(unsafe { _mm256_loadu_si256(src.cast()) }))
    }
    u8: |src| {
        // SAFETY: 32 elements are half a vector.
        integers_to_f32_bits(_mm512_cvtepu8_epi16(unsafe { _mm256_loadu_si256(src.cast()) }))
    }
    Bool: |src| {
        // SAFETY: 32 elements are half a vector.
        let byte = unsafe { _mm256_loadu_si256(src.cast()) };
        let one = _mm256_maskz_set1_epi8(_mm256_test_epi8_mask(byte, byte), 1);
        integers_to_f32_bits(_mm512_cvtepu8_epi16(one))
    }
    f64: |src| {
        // SAFETY: 32 elements are four vectors, and these are their places.
        both!([src, src.wrapping_add(128)], |src: *const u8| unsafe {
            join_halves(load_f64_to_odd(src), load_f64_to_odd(src.add(64)))
        })
    }
    i64: |src| {
        // SAFETY: 32 elements are four vectors, and these are their places.
        both!([src, src.wrapping_add(128)], |src: *const u8| unsafe {
            join_halves(load_i64_to_odd(src), load_i64_to_odd(src.add(64)))
        })
    }
    i32: |src| {
        // SAFETY: the caller's promise, on elements of the same size.
        both!(unsafe { <Avx512 as ReadFormat<f32>>::read_lanes(src) }, |value| {
            let cut = _mm512_cvt_roundepi32_ps::<TRUNCATE_MODE>(value);
            let inexact = _mm512_cmpneq_epi32_mask(_mm512_cvttps_epi32(cut), value);
            let bits = _mm512_castps_si512(cut);
            _mm512_mask_or_epi32(bits, inexact, bits, broadcast_u32(1))
        })
    }
    u32: |src| {
        // SAFETY: the caller's promise, on elements of the same size.
        both!(unsafe { <Avx512 as ReadFormat<f32>>::read_lanes(src) }, |value| {
            let cut = _mm512_cvt_roundepu32_ps::<TRUNCATE_MODE>(value);
            let inexact = _mm512_cmpneq_epi32_mask(_mm512_cvttps_epu32(cut), value);
            let bits = _mm512_castps_si512(cut);
            _mm512_mask_or_epi32(bits, inexact, bits, broadcast_u32(1))
        })
    }
}

const TRUNCATE_MODE: i32 = _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC;

/// Eight binary64 numbers: truncated, and odd where that changed them.
///
/// # Safety
/// `src` is valid for 64 bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn load_f64_to_odd(src: *const u8) -> __m256i {
    // SAFETY: the caller's promise.
    let value = unsafe { _mm512_loadu_pd(src.cast()) };
    let cut = _mm512_cvt_roundpd_ps::<TRUNCATE_MODE>(value);
    // No NaN differs from another in an ordered comparison.
    let inexact = _mm512_cmp_pd_mask::<_CMP_NEQ_OQ>(_mm512_cvtps_pd(cut), value);
    let bits = _mm256_castps_si256(cut);
    _mm256_mask_or_epi32(bits, inexact, bits, _mm256_set1_epi32(1))
}

/// Eight 64-bit integers: truncated, and odd where that changed them.
///
/// # Safety
/// `src` is valid for 64 bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn load_i64_to_odd(src: *const u8) -> __m256i {
    // SAFETY: the caller's promise.
    let value = unsafe { _mm512_loadu_si512(src.cast()) };
    let cut = _mm512_cvt_roundepi64_ps::<TRUNCATE_MODE>(value);
    let inexact = _mm512_cmpneq_epi64_mask(_mm512_cvttps_epi64(cut), value);
    let bits = _mm256_castps_si256(cut);
    _mm256_mask_or_epi32(bits, inexact, bits, _mm256_set1_epi32(1))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn join_halves(low: __m256i, high: __m256i) -> __m512i {
    _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn with_sign(value: __m512i, sign: __m512i) -> __m512i {
    with_sign_of(value, sign, broadcast_u32(F32_SIGN))
}

/// 32 numbers of 16 bits to 32 bits, zeros above.
#[inline]
#[target_feature(enable = "avx512f")]
fn widen_u16_codes(codes: __m512i) -> Avx512Lanes {
    [
        _mm512_cvtepu16_epi32(_mm512_castsi512_si256(codes)),
        _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64::<1>(codes)),
    ]
}

/// 32 float16 to binary32.
#[inline]
#[target_feature(enable = "avx512f")]
fn f16_to_f32_bits(codes: __m512i) -> Avx512Lanes {
    both!([_mm512_castsi512_si256(codes), _mm512_extracti64x4_epi64::<1>(codes)], |half| {
        _mm512_castps_si512(_mm512_cvtph_ps(half))
    })
}

/// 32 signed 16-bit integers to binary32.
#[inline]
#[target_feature(enable = "avx512f")]
fn integers_to_f32_bits(values: __m512i) -> Avx512Lanes {
    both!([_mm512_castsi512_si256(values), _mm512_extracti64x4_epi64::<1>(values)], |half| {
        _mm512_castps_si512(_mm512_cvtepi32_ps(_mm512_cvtepi16_epi32(half)))
    })
}
