//! Reading: 32 elements of a format to binary32, exactly.

use std::arch::x86_64::*;

use super::Avx2;
use super::lanes::{Avx2Lanes, blend_masked, broadcast_u32, each, mask_nans, with_sign_of};
use super::{load_half_register, load_register};
use crate::element::Bool;
use crate::kernel::vector::ReadFormat;
use crate::minifloat::{self, F32_INFINITY, F32_NAN, F32_QUIET, F32_SIGN};
use crate::small::{
    Bf16, DL16_DROPPED, DL16_INFINITE, DL16_MERGED, DL16_REBIAS, Dl16, Dl16Inf, F8E4M3Fn, F8E5M2,
    F8E5M2Fnuz, F16,
};

macro_rules! readers {
    ($($format:ty: |$src:ident| $body:block)*) => {$(
        impl ReadFormat<$format> for Avx2 {
            #[inline]
            #[target_feature(enable = "avx2,f16c")]
            unsafe fn read_lanes($src: *const u8) -> Avx2Lanes $body
        }
    )*};
}

readers! {
    f32: |src| {
        // SAFETY: 32 elements are four vectors.
        unsafe { [load_register(src), load_register(src.add(32)), load_register(src.add(64)), load_register(src.add(96))] }
    }
    F16: |src| {
        // SAFETY: 32 elements are four half vectors.
        each!(unsafe { load_u16_groups(src) }, f16_to_f32_bits)
    }
    // The upper half of a binary32.
    Bf16: |src| {
        // SAFETY: 32 elements are two vectors.
        let codes = unsafe { load_spread_u16(src) };
        if any_above(codes, F32_INFINITY >> 16) {
            // A NaN is quiet.
            return each!(join_halves(codes, zero_registers()), |bits| {
                _mm256_or_si256(bits, _mm256_and_si256(mask_nans(bits), broadcast_u32(F32_QUIET)))
            });
        }
        join_halves(codes, zero_registers())
    }
    Dl16: |src| {
        // SAFETY: 32 elements are two vectors.
        let codes = unsafe { load_spread_u16(src) };
        if any_above(codes, DL16_MERGED - 1) {
            return each!(decode_dl16_numbers(codes), |bits| decode_dl16_specials(bits, DL16_MERGED));
        }
        decode_dl16_numbers(codes)
    }
    Dl16Inf: |src| {
        // SAFETY: 32 elements are two vectors.
        let codes = unsafe { load_spread_u16(src) };
        if any_above(codes, DL16_INFINITE - 1) {
            return each!(decode_dl16_numbers(codes), |bits| decode_dl16_specials(bits, DL16_INFINITE));
        }
        decode_dl16_numbers(codes)
    }
    // Moved to the places of a float16, the exponent reads 8 less than it is, subnormals included.
    F8E4M3Fn: |src| {
        // SAFETY: 32 elements are one vector.
        each!(unsafe { load_u8_groups(src) }, |codes| {
            let code = _mm_cvtepu8_epi16(codes);
            let magnitude = _mm_and_si128(code, _mm_set1_epi16(0x7f));
            let nan = _mm_cmpeq_epi16(magnitude, _mm_set1_epi16(0x7f));
            let half = _mm_slli_epi16::<7>(magnitude);
            let half = _mm_blendv_epi8(half, _mm_set1_epi16(0x7e00), nan);
            let sign = _mm_and_si128(_mm_slli_epi16::<8>(code), _mm_set1_epi16(i16::MIN));
            let bits = f16_to_f32_bits(_mm_or_si128(half, sign));
            _mm256_castps_si256(_mm256_mul_ps(_mm256_castsi256_ps(bits), _mm256_set1_ps(256.0)))
        })
    }
    // The upper half of a float16.
    F8E5M2: |src| {
        // SAFETY: 32 elements are one vector.
        each!(unsafe { load_u8_groups(src) }, |codes| {
            f16_to_f32_bits(_mm_slli_epi16::<8>(_mm_cvtepu8_epi16(codes)))
        })
    }
    F8E5M2Fnuz: |src| {
        // SAFETY: 32 elements are one vector.
        each!(unsafe { load_u8_groups(src) }, |codes| {
            let shape = minifloat::F8E5M2FNUZ;
            let code = _mm256_cvtepu8_epi32(codes);
            let magnitude = _mm256_and_si256(code, broadcast_u32(shape.magnitude_mask()));
            let wide = _mm256_sllv_epi32(magnitude, broadcast_u32(shape.dropped_bits()));
            let normal = _mm256_add_epi32(wide, broadcast_u32(shape.exponent_rebias()));
            let unit = _mm256_castsi256_ps(broadcast_u32(shape.subnormal_unit_bits()));
            let subnormal = _mm256_castps_si256(_mm256_mul_ps(_mm256_cvtepi32_ps(magnitude), unit));
            let small = _mm256_cmpgt_epi32(broadcast_u32(1 << shape.fraction), magnitude);
            let finite = blend_masked(normal, small, subnormal);
            let signed = with_sign(finite, _mm256_slli_epi32::<24>(code));
            blend_masked(signed, _mm256_cmpeq_epi32(code, broadcast_u32(0x80)), broadcast_u32(F32_NAN))
        })
    }
    i16: |src| {
        // SAFETY: 32 elements are four half vectors.
        each!(unsafe { load_u16_groups(src) }, |codes| integers_to_f32_bits(_mm256_cvtepi16_epi32(codes)))
    }
    i8: |src| {
        // SAFETY: 32 elements are one vector.
        each!(unsafe { load_u8_groups(src) }, |codes| integers_to_f32_bits(_mm256_cvtepi8_epi32(codes)))
    }
    u8: |src| {
        // SAFETY: 32 elements are one vector.
        each!(unsafe { load_u8_groups(src) }, |codes| integers_to_f32_bits(_mm256_cvtepu8_epi32(codes)))
    }
    Bool: |src| {
        // SAFETY: 32 elements are one vector.
        each!(unsafe { load_u8_groups(src) }, |codes| {
            let zero = _mm256_cmpeq_epi32(_mm256_cvtepu8_epi32(codes), _mm256_setzero_si256());
            _mm256_andnot_si256(zero, broadcast_u32(1.0_f32.to_bits()))
        })
    }
}

/// 32 elements of 16 bits, eight in each.
///
/// # Safety
/// `src` is valid for 64 bytes.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn load_u16_groups(src: *const u8) -> [__m128i; 4] {
    // SAFETY: the caller's promise.
    unsafe {
        [
            load_half_register(src),
            load_half_register(src.add(16)),
            load_half_register(src.add(32)),
            load_half_register(src.add(48)),
        ]
    }
}

/// 32 elements of 8 bits, eight in each.
///
/// # Safety
/// `src` is valid for 32 bytes.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn load_u8_groups(src: *const u8) -> [__m128i; 4] {
    // SAFETY: the caller's promise.
    unsafe {
        let eight = |at| _mm_loadl_epi64(src.wrapping_add(at).cast());
        [eight(0), eight(8), eight(16), eight(24)]
    }
}

#[inline]
#[target_feature(enable = "avx2,f16c")]
fn f16_to_f32_bits(codes: __m128i) -> __m256i {
    _mm256_castps_si256(_mm256_cvtph_ps(codes))
}

#[inline]
#[target_feature(enable = "avx2")]
fn integers_to_f32_bits(values: __m256i) -> __m256i {
    _mm256_castps_si256(_mm256_cvtepi32_ps(values))
}

/// 32 elements of 16 bits, the quarters of both vectors so that [`join_halves`] puts them in order.
///
/// # Safety
/// `src` is valid for 64 bytes.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn load_spread_u16(src: *const u8) -> [__m256i; 2] {
    // SAFETY: the caller's promise.
    let (low, high) = unsafe { (load_register(src), load_register(src.add(32))) };
    const QUARTER_ORDER: i32 = 0b11_01_10_00;
    [
        _mm256_permute4x64_epi64::<QUARTER_ORDER>(low),
        _mm256_permute4x64_epi64::<QUARTER_ORDER>(high),
    ]
}

/// Upper and lower halves of 32 numbers that were [`load_spread_u16`].
#[inline]
#[target_feature(enable = "avx2")]
fn join_halves(upper: [__m256i; 2], lower: [__m256i; 2]) -> Avx2Lanes {
    [
        _mm256_unpacklo_epi16(lower[0], upper[0]),
        _mm256_unpackhi_epi16(lower[0], upper[0]),
        _mm256_unpacklo_epi16(lower[1], upper[1]),
        _mm256_unpackhi_epi16(lower[1], upper[1]),
    ]
}

#[inline]
#[target_feature(enable = "avx2")]
fn zero_registers() -> [__m256i; 2] {
    [_mm256_setzero_si256(); 2]
}

/// Whether any magnitude of 16-bit codes is above a limit.
#[inline]
#[target_feature(enable = "avx2")]
fn any_above(codes: [__m256i; 2], limit: u32) -> bool {
    let limit = broadcast_low_u16(limit);
    let magnitude = |codes| _mm256_and_si256(codes, broadcast_low_u16(0x7fff));
    let low = _mm256_cmpgt_epi16(magnitude(codes[0]), limit);
    let high = _mm256_cmpgt_epi16(magnitude(codes[1]), limit);
    let any = _mm256_or_si256(low, high);
    _mm256_testz_si256(any, any) == 0
}

#[inline]
#[target_feature(enable = "avx2")]
fn broadcast_low_u16(value: u32) -> __m256i {
    _mm256_set1_epi16(u16::try_from(value).expect("16 bits").cast_signed())
}

/// DL16 codes as if none of them were special. All but two bits of the fraction are in the upper half
/// of a binary32.
#[inline]
#[target_feature(enable = "avx2")]
fn decode_dl16_numbers(codes: [__m256i; 2]) -> Avx2Lanes {
    let upper = |codes| {
        let magnitude = _mm256_and_si256(codes, broadcast_low_u16(0x7fff));
        // Zero stays zero.
        let rebias = _mm256_sign_epi16(broadcast_low_u16(DL16_REBIAS >> 16), magnitude);
        let number = _mm256_add_epi16(_mm256_srli_epi16::<2>(magnitude), rebias);
        _mm256_or_si256(number, _mm256_and_si256(codes, broadcast_low_u16(0x8000)))
    };
    let lower = [_mm256_slli_epi16::<14>(codes[0]), _mm256_slli_epi16::<14>(codes[1])];
    join_halves([upper(codes[0]), upper(codes[1])], lower)
}

/// Infinities from a code on, and the NaN, where [`decode_dl16_numbers`] gave numbers.
#[cold]
#[inline(never)]
#[target_feature(enable = "avx2")]
fn decode_dl16_specials(bits: __m256i, infinite: u32) -> __m256i {
    let number = |code: u32| broadcast_u32((code << DL16_DROPPED) + DL16_REBIAS);
    let magnitude = _mm256_and_si256(bits, broadcast_u32(!F32_SIGN));
    let past = _mm256_cmpgt_epi32(magnitude, number(infinite - 1));
    let value = blend_masked(magnitude, past, broadcast_u32(F32_INFINITY));
    let merged = _mm256_cmpeq_epi32(magnitude, number(DL16_MERGED));
    let value = blend_masked(value, merged, broadcast_u32(F32_NAN));
    with_sign_of(value, bits, broadcast_u32(F32_SIGN))
}

#[inline]
#[target_feature(enable = "avx2")]
fn with_sign(value: __m256i, sign: __m256i) -> __m256i {
    with_sign_of(value, sign, broadcast_u32(F32_SIGN))
}
