//! Reading: 32 elements of a format to binary32.

use std::arch::x86_64::*;

use super::through::{Lanes, both, is_nan, set, with_sign_of};
use crate::minifloat::{self, F32_INFINITY, F32_NAN, F32_QUIET, F32_SIGN};
use crate::small::{DL16_DROPPED, DL16_INFINITE, DL16_MERGED, DL16_REBIAS};

/// A format that becomes binary32: exactly, or rounded to odd (64-bit floats, 32- and 64-bit
/// integers).
pub(super) trait Reader {
    /// Bytes of an element.
    const SIZE: usize;

    /// # Safety
    /// The machine has AVX-512, and `src` is valid for 32 elements.
    unsafe fn read(src: *const u8) -> Lanes;
}

pub(super) struct F64;
pub(super) struct F32;
pub(super) struct F16;
pub(super) struct Bf16;
pub(super) struct Dl16;
pub(super) struct Dl16Inf;
pub(super) struct E4m3;
pub(super) struct E5m2;
pub(super) struct Fnuz;
pub(super) struct I64;
pub(super) struct I32;
pub(super) struct U32;
pub(super) struct I16;
pub(super) struct I8;
pub(super) struct U8;
pub(super) struct Bool;

macro_rules! readers {
    ($($name:ident, $size:literal: |$src:ident| $body:block)*) => {$(
        impl Reader for $name {
            const SIZE: usize = $size;
            #[inline]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
            unsafe fn read($src: *const u8) -> Lanes $body
        }
    )*};
}

readers! {
    F32, 4: |src| {
        // SAFETY: 32 elements are two vectors.
        unsafe { [_mm512_loadu_si512(src.cast()), _mm512_loadu_si512(src.add(64).cast())] }
    }
    F16, 2: |src| {
        // SAFETY: 32 elements are one vector.
        halves_to_f32(unsafe { _mm512_loadu_si512(src.cast()) })
    }
    Bf16, 2: |src| {
        // SAFETY: 32 elements are one vector.
        both!(widen(unsafe { _mm512_loadu_si512(src.cast()) }), |code| {
            let bits = _mm512_slli_epi32::<16>(code);
            let nan = is_nan(bits);
            _mm512_mask_or_epi32(bits, nan, bits, set(F32_QUIET))
        })
    }
    Dl16, 2: |src| {
        // SAFETY: 32 elements are one vector.
        both!(widen(unsafe { _mm512_loadu_si512(src.cast()) }), |code| {
            let magnitude = _mm512_and_si512(code, set(0x7fff));
            let wide = _mm512_slli_epi32::<DL16_DROPPED>(magnitude);
            let nonzero = _mm512_test_epi32_mask(magnitude, magnitude);
            let number = _mm512_maskz_add_epi32(nonzero, wide, set(DL16_REBIAS));
            let merged = _mm512_cmpeq_epi32_mask(magnitude, set(DL16_MERGED));
            let value = _mm512_mask_mov_epi32(number, merged, set(F32_NAN));
            with_sign(value, _mm512_slli_epi32::<16>(code))
        })
    }
    Dl16Inf, 2: |src| {
        // SAFETY: 32 elements are one vector.
        both!(widen(unsafe { _mm512_loadu_si512(src.cast()) }), |code| {
            let magnitude = _mm512_and_si512(code, set(0x7fff));
            let wide = _mm512_slli_epi32::<DL16_DROPPED>(magnitude);
            let nonzero = _mm512_test_epi32_mask(magnitude, magnitude);
            let number = _mm512_maskz_add_epi32(nonzero, wide, set(DL16_REBIAS));
            let infinite = _mm512_cmpge_epu32_mask(magnitude, set(DL16_INFINITE));
            let value = _mm512_mask_mov_epi32(number, infinite, set(F32_INFINITY));
            let merged = _mm512_cmpeq_epi32_mask(magnitude, set(DL16_MERGED));
            let value = _mm512_mask_mov_epi32(value, merged, set(F32_NAN));
            with_sign(value, _mm512_slli_epi32::<16>(code))
        })
    }
    // Moved to the places of a float16, the exponent reads 8 less than it is, subnormals included.
    E4m3, 1: |src| {
        // SAFETY: 32 elements are half a vector.
        let code = _mm512_cvtepu8_epi16(unsafe { _mm256_loadu_si256(src.cast()) });
        let magnitude = _mm512_and_si512(code, _mm512_set1_epi16(0x7f));
        let nan = _mm512_cmpeq_epi16_mask(magnitude, _mm512_set1_epi16(0x7f));
        let half = _mm512_slli_epi16::<7>(magnitude);
        let half = _mm512_mask_mov_epi16(half, nan, _mm512_set1_epi16(0x7e00));
        let sign = _mm512_slli_epi16::<8>(code);
        let half = with_sign_of(half, sign, _mm512_set1_epi16(i16::MIN));
        both!(halves_to_f32(half), |bits| {
            _mm512_castps_si512(_mm512_mul_ps(_mm512_castsi512_ps(bits), _mm512_set1_ps(256.0)))
        })
    }
    // The upper half of a float16.
    E5m2, 1: |src| {
        // SAFETY: 32 elements are half a vector.
        let code = _mm512_cvtepu8_epi16(unsafe { _mm256_loadu_si256(src.cast()) });
        halves_to_f32(_mm512_slli_epi16::<8>(code))
    }
    Fnuz, 1: |src| {
        // SAFETY: 32 elements are half a vector.
        both!(widen(_mm512_cvtepu8_epi16(unsafe { _mm256_loadu_si256(src.cast()) })), |code| {
            let shape = minifloat::F8E5M2FNUZ;
            let magnitude = _mm512_and_si512(code, set(shape.magnitude()));
            let wide = _mm512_sllv_epi32(magnitude, set(shape.dropped()));
            let normal = _mm512_add_epi32(wide, set(shape.rebias()));
            let unit = _mm512_castsi512_ps(set(shape.unit()));
            let subnormal = _mm512_castps_si512(_mm512_mul_ps(_mm512_cvtepi32_ps(magnitude), unit));
            let small = _mm512_cmplt_epu32_mask(magnitude, set(1 << shape.fraction));
            let finite = _mm512_mask_mov_epi32(normal, small, subnormal);
            let signed = with_sign(finite, _mm512_slli_epi32::<24>(code));
            let nan = _mm512_cmpeq_epi32_mask(code, set(0x80));
            _mm512_mask_mov_epi32(signed, nan, set(F32_NAN))
        })
    }
    I16, 2: |src| {
        // SAFETY: 32 elements are one vector.
        integers(unsafe { _mm512_loadu_si512(src.cast()) })
    }
    I8, 1: |src| {
        // SAFETY: 32 elements are half a vector.
        integers(_mm512_cvtepi8_epi16(unsafe { _mm256_loadu_si256(src.cast()) }))
    }
    U8, 1: |src| {
        // SAFETY: 32 elements are half a vector.
        integers(_mm512_cvtepu8_epi16(unsafe { _mm256_loadu_si256(src.cast()) }))
    }
    Bool, 1: |src| {
        // SAFETY: 32 elements are half a vector.
        let byte = unsafe { _mm256_loadu_si256(src.cast()) };
        let one = _mm256_maskz_set1_epi8(_mm256_test_epi8_mask(byte, byte), 1);
        integers(_mm512_cvtepu8_epi16(one))
    }
    F64, 8: |src| {
        // SAFETY: 32 elements are four vectors, and these are their places.
        both!([src, src.wrapping_add(128)], |src: *const u8| unsafe {
            join(f64_to_odd(src), f64_to_odd(src.add(64)))
        })
    }
    I64, 8: |src| {
        // SAFETY: 32 elements are four vectors, and these are their places.
        both!([src, src.wrapping_add(128)], |src: *const u8| unsafe {
            join(i64_to_odd(src), i64_to_odd(src.add(64)))
        })
    }
    I32, 4: |src| {
        // SAFETY: the caller's promise, on elements of the same size.
        both!(unsafe { F32::read(src) }, |value| {
            let cut = _mm512_cvt_roundepi32_ps::<TRUNCATE>(value);
            let inexact = _mm512_cmpneq_epi32_mask(_mm512_cvttps_epi32(cut), value);
            let bits = _mm512_castps_si512(cut);
            _mm512_mask_or_epi32(bits, inexact, bits, set(1))
        })
    }
    U32, 4: |src| {
        // SAFETY: the caller's promise, on elements of the same size.
        both!(unsafe { F32::read(src) }, |value| {
            let cut = _mm512_cvt_roundepu32_ps::<TRUNCATE>(value);
            let inexact = _mm512_cmpneq_epi32_mask(_mm512_cvttps_epu32(cut), value);
            let bits = _mm512_castps_si512(cut);
            _mm512_mask_or_epi32(bits, inexact, bits, set(1))
        })
    }
}

const TRUNCATE: i32 = _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC;

/// Eight binary64 numbers: truncated, and odd where that changed them.
///
/// # Safety
/// `src` is valid for 64 bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn f64_to_odd(src: *const u8) -> __m256i {
    // SAFETY: the caller's promise.
    let value = unsafe { _mm512_loadu_pd(src.cast()) };
    let cut = _mm512_cvt_roundpd_ps::<TRUNCATE>(value);
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
unsafe fn i64_to_odd(src: *const u8) -> __m256i {
    // SAFETY: the caller's promise.
    let value = unsafe { _mm512_loadu_si512(src.cast()) };
    let cut = _mm512_cvt_roundepi64_ps::<TRUNCATE>(value);
    let inexact = _mm512_cmpneq_epi64_mask(_mm512_cvttps_epi64(cut), value);
    let bits = _mm256_castps_si256(cut);
    _mm256_mask_or_epi32(bits, inexact, bits, _mm256_set1_epi32(1))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn join(low: __m256i, high: __m256i) -> __m512i {
    _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn with_sign(value: __m512i, sign: __m512i) -> __m512i {
    with_sign_of(value, sign, set(F32_SIGN))
}

/// 32 numbers of 16 bits to 32 bits, zeros above.
#[inline]
#[target_feature(enable = "avx512f")]
fn widen(codes: __m512i) -> Lanes {
    [
        _mm512_cvtepu16_epi32(_mm512_castsi512_si256(codes)),
        _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64::<1>(codes)),
    ]
}

/// 32 float16 to binary32.
#[inline]
#[target_feature(enable = "avx512f")]
fn halves_to_f32(codes: __m512i) -> Lanes {
    both!([_mm512_castsi512_si256(codes), _mm512_extracti64x4_epi64::<1>(codes)], |half| {
        _mm512_castps_si512(_mm512_cvtph_ps(half))
    })
}

/// 32 signed 16-bit integers to binary32.
#[inline]
#[target_feature(enable = "avx512f")]
fn integers(values: __m512i) -> Lanes {
    both!([_mm512_castsi512_si256(values), _mm512_extracti64x4_epi64::<1>(values)], |half| {
        _mm512_castps_si512(_mm512_cvtepi32_ps(_mm512_cvtepi16_epi32(half)))
    })
}
