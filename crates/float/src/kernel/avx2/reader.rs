//! Reading: 32 elements of a format to binary32, exactly.

use std::arch::x86_64::*;

use super::through::{Lanes, each, instead, is_nan, set, with_sign_of};
use super::{get, get_half};
use crate::minifloat::{self, F32_INFINITY, F32_NAN, F32_QUIET, F32_SIGN};
use crate::small::{DL16_DROPPED, DL16_INFINITE, DL16_MERGED, DL16_REBIAS};

/// A format that is exact as binary32.
pub(super) trait Reader {
    /// Bytes of an element.
    const SIZE: usize;

    /// # Safety
    /// The machine has AVX2 and F16C, and `src` is valid for 32 elements.
    unsafe fn read(src: *const u8) -> Lanes;
}

pub(super) struct F32;
pub(super) struct F16;
pub(super) struct Bf16;
pub(super) struct Dl16;
pub(super) struct Dl16Inf;
pub(super) struct E4m3;
pub(super) struct E5m2;
pub(super) struct Fnuz;
pub(super) struct I16;
pub(super) struct I8;
pub(super) struct U8;
pub(super) struct Bool;

macro_rules! readers {
    ($($name:ident, $size:literal: |$src:ident| $body:block)*) => {$(
        impl Reader for $name {
            const SIZE: usize = $size;
            #[inline]
            #[target_feature(enable = "avx2,f16c")]
            unsafe fn read($src: *const u8) -> Lanes $body
        }
    )*};
}

readers! {
    F32, 4: |src| {
        // SAFETY: 32 elements are four vectors.
        unsafe { [get(src), get(src.add(32)), get(src.add(64)), get(src.add(96))] }
    }
    F16, 2: |src| {
        // SAFETY: 32 elements are four half vectors.
        each!(unsafe { halves(src) }, half_to_f32)
    }
    // The upper half of a binary32.
    Bf16, 2: |src| {
        // SAFETY: 32 elements are two vectors.
        let codes = unsafe { spread(src) };
        if any_above(codes, F32_INFINITY >> 16) {
            // A NaN is quiet.
            return each!(joined(codes, zeros()), |bits| {
                _mm256_or_si256(bits, _mm256_and_si256(is_nan(bits), set(F32_QUIET)))
            });
        }
        joined(codes, zeros())
    }
    Dl16, 2: |src| {
        // SAFETY: 32 elements are two vectors.
        let codes = unsafe { spread(src) };
        if any_above(codes, DL16_MERGED - 1) {
            return each!(dl16(codes), |bits| dl16_special(bits, DL16_MERGED));
        }
        dl16(codes)
    }
    Dl16Inf, 2: |src| {
        // SAFETY: 32 elements are two vectors.
        let codes = unsafe { spread(src) };
        if any_above(codes, DL16_INFINITE - 1) {
            return each!(dl16(codes), |bits| dl16_special(bits, DL16_INFINITE));
        }
        dl16(codes)
    }
    // Moved to the places of a float16, the exponent reads 8 less than it is, subnormals included.
    E4m3, 1: |src| {
        // SAFETY: 32 elements are one vector.
        each!(unsafe { bytes(src) }, |codes| {
            let code = _mm_cvtepu8_epi16(codes);
            let magnitude = _mm_and_si128(code, _mm_set1_epi16(0x7f));
            let nan = _mm_cmpeq_epi16(magnitude, _mm_set1_epi16(0x7f));
            let half = _mm_slli_epi16::<7>(magnitude);
            let half = _mm_blendv_epi8(half, _mm_set1_epi16(0x7e00), nan);
            let sign = _mm_and_si128(_mm_slli_epi16::<8>(code), _mm_set1_epi16(i16::MIN));
            let bits = half_to_f32(_mm_or_si128(half, sign));
            _mm256_castps_si256(_mm256_mul_ps(_mm256_castsi256_ps(bits), _mm256_set1_ps(256.0)))
        })
    }
    // The upper half of a float16.
    E5m2, 1: |src| {
        // SAFETY: 32 elements are one vector.
        each!(unsafe { bytes(src) }, |codes| {
            half_to_f32(_mm_slli_epi16::<8>(_mm_cvtepu8_epi16(codes)))
        })
    }
    Fnuz, 1: |src| {
        // SAFETY: 32 elements are one vector.
        each!(unsafe { bytes(src) }, |codes| {
            let shape = minifloat::F8E5M2FNUZ;
            let code = _mm256_cvtepu8_epi32(codes);
            let magnitude = _mm256_and_si256(code, set(shape.magnitude()));
            let wide = _mm256_sllv_epi32(magnitude, set(shape.dropped()));
            let normal = _mm256_add_epi32(wide, set(shape.rebias()));
            let unit = _mm256_castsi256_ps(set(shape.unit()));
            let subnormal = _mm256_castps_si256(_mm256_mul_ps(_mm256_cvtepi32_ps(magnitude), unit));
            let small = _mm256_cmpgt_epi32(set(1 << shape.fraction), magnitude);
            let finite = instead(normal, small, subnormal);
            let signed = with_sign(finite, _mm256_slli_epi32::<24>(code));
            instead(signed, _mm256_cmpeq_epi32(code, set(0x80)), set(F32_NAN))
        })
    }
    I16, 2: |src| {
        // SAFETY: 32 elements are four half vectors.
        each!(unsafe { halves(src) }, |codes| integers(_mm256_cvtepi16_epi32(codes)))
    }
    I8, 1: |src| {
        // SAFETY: 32 elements are one vector.
        each!(unsafe { bytes(src) }, |codes| integers(_mm256_cvtepi8_epi32(codes)))
    }
    U8, 1: |src| {
        // SAFETY: 32 elements are one vector.
        each!(unsafe { bytes(src) }, |codes| integers(_mm256_cvtepu8_epi32(codes)))
    }
    Bool, 1: |src| {
        // SAFETY: 32 elements are one vector.
        each!(unsafe { bytes(src) }, |codes| {
            let zero = _mm256_cmpeq_epi32(_mm256_cvtepu8_epi32(codes), _mm256_setzero_si256());
            _mm256_andnot_si256(zero, set(1.0_f32.to_bits()))
        })
    }
}

/// 32 elements of 16 bits, eight in each.
///
/// # Safety
/// `src` is valid for 64 bytes.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn halves(src: *const u8) -> [__m128i; 4] {
    // SAFETY: the caller's promise.
    unsafe { [get_half(src), get_half(src.add(16)), get_half(src.add(32)), get_half(src.add(48))] }
}

/// 32 elements of 8 bits, eight in each.
///
/// # Safety
/// `src` is valid for 32 bytes.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn bytes(src: *const u8) -> [__m128i; 4] {
    // SAFETY: the caller's promise.
    unsafe {
        let eight = |at| _mm_loadl_epi64(src.wrapping_add(at).cast());
        [eight(0), eight(8), eight(16), eight(24)]
    }
}

#[inline]
#[target_feature(enable = "avx2,f16c")]
fn half_to_f32(codes: __m128i) -> __m256i {
    _mm256_castps_si256(_mm256_cvtph_ps(codes))
}

#[inline]
#[target_feature(enable = "avx2")]
fn integers(values: __m256i) -> __m256i {
    _mm256_castps_si256(_mm256_cvtepi32_ps(values))
}

/// 32 elements of 16 bits, the quarters of both vectors so that [`joined`] puts them in order.
///
/// # Safety
/// `src` is valid for 64 bytes.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn spread(src: *const u8) -> [__m256i; 2] {
    // SAFETY: the caller's promise.
    let (low, high) = unsafe { (get(src), get(src.add(32))) };
    const TURN: i32 = 0b11_01_10_00;
    [_mm256_permute4x64_epi64::<TURN>(low), _mm256_permute4x64_epi64::<TURN>(high)]
}

/// Upper and lower halves of 32 numbers that were [`spread`].
#[inline]
#[target_feature(enable = "avx2")]
fn joined(upper: [__m256i; 2], lower: [__m256i; 2]) -> Lanes {
    [
        _mm256_unpacklo_epi16(lower[0], upper[0]),
        _mm256_unpackhi_epi16(lower[0], upper[0]),
        _mm256_unpacklo_epi16(lower[1], upper[1]),
        _mm256_unpackhi_epi16(lower[1], upper[1]),
    ]
}

#[inline]
#[target_feature(enable = "avx2")]
fn zeros() -> [__m256i; 2] {
    [_mm256_setzero_si256(); 2]
}

/// Whether any magnitude of 16-bit codes is above a limit.
#[inline]
#[target_feature(enable = "avx2")]
fn any_above(codes: [__m256i; 2], limit: u32) -> bool {
    let limit = set16(limit);
    let magnitude = |codes| _mm256_and_si256(codes, set16(0x7fff));
    let low = _mm256_cmpgt_epi16(magnitude(codes[0]), limit);
    let high = _mm256_cmpgt_epi16(magnitude(codes[1]), limit);
    let any = _mm256_or_si256(low, high);
    _mm256_testz_si256(any, any) == 0
}

#[inline]
#[target_feature(enable = "avx2")]
fn set16(value: u32) -> __m256i {
    _mm256_set1_epi16(u16::try_from(value).expect("16 bits").cast_signed())
}

/// DL16 codes as if none of them were special. All but two bits of the fraction are in the upper half
/// of a binary32.
#[inline]
#[target_feature(enable = "avx2")]
fn dl16(codes: [__m256i; 2]) -> Lanes {
    let upper = |codes| {
        let magnitude = _mm256_and_si256(codes, set16(0x7fff));
        // Zero stays zero.
        let rebias = _mm256_sign_epi16(set16(DL16_REBIAS >> 16), magnitude);
        let number = _mm256_add_epi16(_mm256_srli_epi16::<2>(magnitude), rebias);
        _mm256_or_si256(number, _mm256_and_si256(codes, set16(0x8000)))
    };
    let lower = [_mm256_slli_epi16::<14>(codes[0]), _mm256_slli_epi16::<14>(codes[1])];
    joined([upper(codes[0]), upper(codes[1])], lower)
}

/// Infinities from a code on, and the NaN, where [`dl16`] gave numbers.
#[cold]
#[inline(never)]
#[target_feature(enable = "avx2")]
fn dl16_special(bits: __m256i, infinite: u32) -> __m256i {
    let number = |code: u32| set((code << DL16_DROPPED) + DL16_REBIAS);
    let magnitude = _mm256_and_si256(bits, set(!F32_SIGN));
    let past = _mm256_cmpgt_epi32(magnitude, number(infinite - 1));
    let value = instead(magnitude, past, set(F32_INFINITY));
    let merged = _mm256_cmpeq_epi32(magnitude, number(DL16_MERGED));
    let value = instead(value, merged, set(F32_NAN));
    with_sign_of(value, bits, set(F32_SIGN))
}

#[inline]
#[target_feature(enable = "avx2")]
fn with_sign(value: __m256i, sign: __m256i) -> __m256i {
    with_sign_of(value, sign, set(F32_SIGN))
}
