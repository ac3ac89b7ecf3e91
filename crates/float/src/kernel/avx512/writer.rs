//! Writing: 32 binary32 numbers to elements of a format.

use std::arch::x86_64::*;

use super::Avx512;
use super::lanes::{Avx512Lanes, both, broadcast_u32, mask_nans, with_sign_of};
use super::{store_half_register, store_register};
use crate::kernel::vector::WriteFormat;
use crate::minifloat::{self, F32_QUIET, F32_SIGN, MinifloatShape, SpecialCodes};
use crate::small::{
    Bf16, DL16_DROPPED, DL16_INFINITE, DL16_MERGED, DL16_REBIAS, Dl16, Dl16Inf, F8E4M3Fn, F8E5M2,
    F8E5M2Fnuz, F16,
};

macro_rules! writers {
    ($($format:ty: |$dst:ident, $lanes:ident| $body:block)*) => {$(
        impl WriteFormat<$format> for Avx512 {
            #[inline]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
            unsafe fn write_lanes<const STREAM: bool>($dst: *mut u8, $lanes: Avx512Lanes) $body
        }
    )*};
}

const ROUND_MODE: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;

writers! {
    f32: |dst, lanes| {
        // SAFETY: 32 elements are two vectors.
        unsafe {
            store_register::<STREAM>(dst, lanes[0]);
            store_register::<STREAM>(dst.add(64), lanes[1]);
        }
    }
    F16: |dst, lanes| {
        let [low, high] = both!(lanes, |bits| _mm512_cvtps_ph::<ROUND_MODE>(_mm512_castsi512_ps(bits)));
        // SAFETY: 32 elements are two half vectors.
        unsafe {
            store_half_register::<STREAM>(dst, low);
            store_half_register::<STREAM>(dst.add(32), high);
        }
    }
    Bf16: |dst, lanes| {
        let codes = both!(lanes, |bits| {
            let even = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), broadcast_u32(1));
            let rounded = _mm512_add_epi32(_mm512_add_epi32(bits, broadcast_u32(0x7fff)), even);
            let nan = mask_nans(bits);
            let value = _mm512_mask_or_epi32(rounded, nan, bits, broadcast_u32(F32_QUIET));
            _mm512_srli_epi32::<16>(value)
        });
        // SAFETY: 32 elements are one vector.
        unsafe { store_register::<STREAM>(dst, narrow_to_u16(codes)) }
    }
    Dl16: |dst, lanes| {
        let codes = both!(lanes, |bits| {
            let magnitude = _mm512_and_si512(bits, broadcast_u32(!F32_SIGN));
            let rounded = _mm512_add_epi32(magnitude, broadcast_u32(1 << (DL16_DROPPED - 1)));
            let floor = _mm512_max_epu32(rounded, broadcast_u32(DL16_REBIAS));
            let code = _mm512_srli_epi32::<DL16_DROPPED>(_mm512_sub_epi32(floor, broadcast_u32(DL16_REBIAS)));
            let code = _mm512_min_epu32(code, broadcast_u32(DL16_MERGED));
            with_sign_of(code, _mm512_srli_epi32::<16>(bits), broadcast_u32(0x8000))
        });
        // SAFETY: 32 elements are one vector.
        unsafe { store_register::<STREAM>(dst, narrow_to_u16(codes)) }
    }
    Dl16Inf: |dst, lanes| {
        let codes = both!(lanes, |bits| {
            let magnitude = _mm512_and_si512(bits, broadcast_u32(!F32_SIGN));
            let rounded = _mm512_add_epi32(magnitude, broadcast_u32(1 << (DL16_DROPPED - 1)));
            let floor = _mm512_max_epu32(rounded, broadcast_u32(DL16_REBIAS));
            let code = _mm512_srli_epi32::<DL16_DROPPED>(_mm512_sub_epi32(floor, broadcast_u32(DL16_REBIAS)));
            let code = _mm512_min_epu32(code, broadcast_u32(DL16_INFINITE));
            let code = _mm512_mask_mov_epi32(code, mask_nans(bits), broadcast_u32(DL16_MERGED));
            with_sign_of(code, _mm512_srli_epi32::<16>(bits), broadcast_u32(0x8000))
        });
        // SAFETY: 32 elements are one vector.
        unsafe { store_register::<STREAM>(dst, narrow_to_u16(codes)) }
    }
    F8E4M3Fn: |dst, lanes| {
        let codes = both!(lanes, |bits| encode_magnitudes(bits, minifloat::F8E4M3FN));
        // SAFETY: 32 elements are half a vector.
        unsafe { store_half_register::<STREAM>(dst, _mm512_cvtepi16_epi8(narrow_to_u16(codes))) }
    }
    F8E5M2: |dst, lanes| {
        let codes = both!(lanes, |bits| encode_magnitudes(bits, minifloat::F8E5M2));
        // SAFETY: 32 elements are half a vector.
        unsafe { store_half_register::<STREAM>(dst, _mm512_cvtepi16_epi8(narrow_to_u16(codes))) }
    }
    F8E5M2Fnuz: |dst, lanes| {
        let codes = both!(lanes, |bits| encode_magnitudes(bits, minifloat::F8E5M2FNUZ));
        // SAFETY: 32 elements are half a vector.
        unsafe { store_half_register::<STREAM>(dst, _mm512_cvtepi16_epi8(narrow_to_u16(codes))) }
    }
    i64: |dst, lanes| {
        for (half, bits) in lanes.into_iter().enumerate() {
            let low = saturate_to_i64(_mm512_castsi512_si256(bits));
            let high = saturate_to_i64(_mm512_extracti64x4_epi64::<1>(bits));
            // SAFETY: 32 elements are four vectors.
            unsafe {
                store_register::<STREAM>(dst.add(half * 128), low);
                store_register::<STREAM>(dst.add(half * 128 + 64), high);
            }
        }
    }
    i32: |dst, lanes| {
        let [low, high] = both!(lanes, saturate_to_i32);
        // SAFETY: 32 elements are two vectors.
        unsafe {
            store_register::<STREAM>(dst, low);
            store_register::<STREAM>(dst.add(64), high);
        }
    }
    // Past the range the instruction gives all ones, which is right above it only.
    u32: |dst, lanes| {
        let [low, high] = both!(lanes, |bits| {
            let value = _mm512_castsi512_ps(bits);
            let above = _mm512_cmp_ps_mask::<_CMP_GT_OQ>(value, _mm512_setzero_ps());
            _mm512_maskz_cvttps_epu32(above, value)
        });
        // SAFETY: 32 elements are two vectors.
        unsafe {
            store_register::<STREAM>(dst, low);
            store_register::<STREAM>(dst.add(64), high);
        }
    }
    i16: |dst, lanes| {
        // SAFETY: 32 elements are one vector.
        unsafe { store_register::<STREAM>(dst, saturate_to_i16(lanes)) }
    }
    i8: |dst, lanes| {
        // SAFETY: 32 elements are half a vector.
        unsafe { store_half_register::<STREAM>(dst, _mm512_cvtsepi16_epi8(saturate_to_i16(lanes))) }
    }
    u8: |dst, lanes| {
        let positive = _mm512_max_epi16(saturate_to_i16(lanes), _mm512_setzero_si512());
        // SAFETY: 32 elements are half a vector.
        unsafe { store_half_register::<STREAM>(dst, _mm512_cvtusepi16_epi8(positive)) }
    }
}

/// [`MinifloatShape::encode_f32_bits`] on 16 numbers, 8-bit shapes only.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn encode_magnitudes(bits: __m512i, shape: MinifloatShape) -> __m512i {
    let dropped = broadcast_u32(shape.dropped_bits());
    let magnitude = _mm512_and_si512(bits, broadcast_u32(!F32_SIGN));
    let whole = _mm512_srlv_epi32(magnitude, dropped);
    let even = _mm512_and_si512(whole, broadcast_u32(1));
    let half = broadcast_u32((1 << (shape.dropped_bits() - 1)) - 1);
    let offset = _mm512_sub_epi32(half, broadcast_u32(shape.exponent_rebias()));
    let rounded = _mm512_add_epi32(_mm512_add_epi32(magnitude, offset), even);
    let normal = _mm512_srlv_epi32(rounded, dropped);
    let magic = broadcast_u32(shape.rounding_magic_bits());
    let sum = _mm512_add_ps(_mm512_castsi512_ps(magnitude), _mm512_castsi512_ps(magic));
    let subnormal = _mm512_sub_epi32(_mm512_castps_si512(sum), magic);
    let small = _mm512_cmplt_epu32_mask(magnitude, broadcast_u32(shape.min_normal_bits()));
    let code = _mm512_mask_mov_epi32(normal, small, subnormal);
    let mut code = _mm512_min_epu32(code, broadcast_u32(shape.max + 1));
    let sign = _mm512_and_si512(_mm512_srli_epi32::<24>(bits), broadcast_u32(0x80));
    match shape.specials {
        SpecialCodes::Ieee => {
            let payload = _mm512_and_si512(whole, broadcast_u32((1 << shape.fraction) - 1));
            let quiet = broadcast_u32((shape.max + 1) | (1 << (shape.fraction - 1)));
            code = _mm512_mask_or_epi32(code, mask_nans(bits), payload, quiet);
            _mm512_or_si512(code, sign)
        }
        SpecialCodes::AllOnesNan => {
            code = _mm512_min_epu32(code, broadcast_u32(shape.max));
            code = _mm512_mask_mov_epi32(code, mask_nans(bits), broadcast_u32(shape.max + 1));
            _mm512_or_si512(code, sign)
        }
        SpecialCodes::MinusZeroNan => {
            // Codes 1 to 0x7f: one comparison, as zero wraps around.
            let signed = _mm512_cmplt_epu32_mask(
                _mm512_sub_epi32(code, broadcast_u32(1)),
                broadcast_u32(shape.max),
            );
            _mm512_mask_or_epi32(code, signed, code, sign)
        }
    }
}

/// Truncates and saturates. Past the range the instruction gives the least integer.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn saturate_to_i32(bits: __m512i) -> __m512i {
    let value = _mm512_castsi512_ps(bits);
    let number = _mm512_cmp_ps_mask::<_CMP_ORD_Q>(value, value);
    let above = _mm512_cmp_ps_mask::<_CMP_GE_OQ>(value, _mm512_set1_ps(TWO_31));
    let whole = _mm512_maskz_cvttps_epi32(number, value);
    _mm512_mask_mov_epi32(whole, above, _mm512_set1_epi32(i32::MAX))
}

const TWO_31: f32 = 2_147_483_648.0;
const TWO_63: f32 = TWO_31 * TWO_31 * 2.0;

/// Truncates and saturates eight numbers.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn saturate_to_i64(bits: __m256i) -> __m512i {
    let value = _mm256_castsi256_ps(bits);
    let number = _mm256_cmp_ps_mask::<_CMP_ORD_Q>(value, value);
    let above = _mm256_cmp_ps_mask::<_CMP_GE_OQ>(value, _mm256_set1_ps(TWO_63));
    let whole = _mm512_maskz_cvttps_epi64(number, value);
    _mm512_mask_mov_epi64(whole, above, _mm512_set1_epi64(i64::MAX))
}

/// Truncates and saturates 32 numbers.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn saturate_to_i16(lanes: Avx512Lanes) -> __m512i {
    let [low, high] = both!(lanes, saturate_to_i32);
    restore_element_order(_mm512_packs_epi32(low, high))
}

/// 32 numbers below 2^16 to 16 bits.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn narrow_to_u16(codes: Avx512Lanes) -> __m512i {
    restore_element_order(_mm512_packus_epi32(codes[0], codes[1]))
}

/// Packing takes quarters of both vectors in turn; this puts them back.
#[inline]
#[target_feature(enable = "avx512f")]
fn restore_element_order(packed: __m512i) -> __m512i {
    _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), packed)
}
