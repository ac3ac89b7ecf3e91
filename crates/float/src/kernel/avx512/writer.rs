//! Writing: 32 binary32 numbers to elements of a format.

use std::arch::x86_64::*;

use super::through::{Lanes, both, is_nan, set, with_sign_of};
use super::{put, put_half};
use crate::minifloat::{self, F32_QUIET, F32_SIGN, Shape, Specials};
use crate::small::{DL16_DROPPED, DL16_INFINITE, DL16_MERGED, DL16_REBIAS};

/// A format that binary32 numbers become.
pub(super) trait Writer {
    /// Bytes of an element.
    const SIZE: usize;

    /// # Safety
    /// The machine has AVX-512, and `dst` is valid for 32 elements and aligned as
    /// [`Step`](super::Step) says.
    unsafe fn write<const STREAM: bool>(dst: *mut u8, lanes: Lanes);
}

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

macro_rules! writers {
    ($($name:ident, $size:literal: |$dst:ident, $lanes:ident| $body:block)*) => {$(
        impl Writer for $name {
            const SIZE: usize = $size;
            #[inline]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
            unsafe fn write<const STREAM: bool>($dst: *mut u8, $lanes: Lanes) $body
        }
    )*};
}

const ROUND: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;

writers! {
    F32, 4: |dst, lanes| {
        // SAFETY: 32 elements are two vectors.
        unsafe {
            put::<STREAM>(dst, lanes[0]);
            put::<STREAM>(dst.add(64), lanes[1]);
        }
    }
    F16, 2: |dst, lanes| {
        let [low, high] = both!(lanes, |bits| _mm512_cvtps_ph::<ROUND>(_mm512_castsi512_ps(bits)));
        // SAFETY: 32 elements are two half vectors.
        unsafe {
            put_half::<STREAM>(dst, low);
            put_half::<STREAM>(dst.add(32), high);
        }
    }
    Bf16, 2: |dst, lanes| {
        let codes = both!(lanes, |bits| {
            let even = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), set(1));
            let rounded = _mm512_add_epi32(_mm512_add_epi32(bits, set(0x7fff)), even);
            let nan = is_nan(bits);
            let value = _mm512_mask_or_epi32(rounded, nan, bits, set(F32_QUIET));
            _mm512_srli_epi32::<16>(value)
        });
        // SAFETY: 32 elements are one vector.
        unsafe { put::<STREAM>(dst, narrow(codes)) }
    }
    Dl16, 2: |dst, lanes| {
        let codes = both!(lanes, |bits| {
            let magnitude = _mm512_and_si512(bits, set(!F32_SIGN));
            let rounded = _mm512_add_epi32(magnitude, set(1 << (DL16_DROPPED - 1)));
            let floor = _mm512_max_epu32(rounded, set(DL16_REBIAS));
            let code = _mm512_srli_epi32::<DL16_DROPPED>(_mm512_sub_epi32(floor, set(DL16_REBIAS)));
            let code = _mm512_min_epu32(code, set(DL16_MERGED));
            with_sign_of(code, _mm512_srli_epi32::<16>(bits), set(0x8000))
        });
        // SAFETY: 32 elements are one vector.
        unsafe { put::<STREAM>(dst, narrow(codes)) }
    }
    Dl16Inf, 2: |dst, lanes| {
        let codes = both!(lanes, |bits| {
            let magnitude = _mm512_and_si512(bits, set(!F32_SIGN));
            let rounded = _mm512_add_epi32(magnitude, set(1 << (DL16_DROPPED - 1)));
            let floor = _mm512_max_epu32(rounded, set(DL16_REBIAS));
            let code = _mm512_srli_epi32::<DL16_DROPPED>(_mm512_sub_epi32(floor, set(DL16_REBIAS)));
            let code = _mm512_min_epu32(code, set(DL16_INFINITE));
            let code = _mm512_mask_mov_epi32(code, is_nan(bits), set(DL16_MERGED));
            with_sign_of(code, _mm512_srli_epi32::<16>(bits), set(0x8000))
        });
        // SAFETY: 32 elements are one vector.
        unsafe { put::<STREAM>(dst, narrow(codes)) }
    }
    E4m3, 1: |dst, lanes| {
        let codes = both!(lanes, |bits| encode(bits, minifloat::F8E4M3FN));
        // SAFETY: 32 elements are half a vector.
        unsafe { put_half::<STREAM>(dst, _mm512_cvtepi16_epi8(narrow(codes))) }
    }
    E5m2, 1: |dst, lanes| {
        let codes = both!(lanes, |bits| encode(bits, minifloat::F8E5M2));
        // SAFETY: 32 elements are half a vector.
        unsafe { put_half::<STREAM>(dst, _mm512_cvtepi16_epi8(narrow(codes))) }
    }
    Fnuz, 1: |dst, lanes| {
        let codes = both!(lanes, |bits| encode(bits, minifloat::F8E5M2FNUZ));
        // SAFETY: 32 elements are half a vector.
        unsafe { put_half::<STREAM>(dst, _mm512_cvtepi16_epi8(narrow(codes))) }
    }
    I64, 8: |dst, lanes| {
        for (half, bits) in lanes.into_iter().enumerate() {
            let low = to_i64(_mm512_castsi512_si256(bits));
            let high = to_i64(_mm512_extracti64x4_epi64::<1>(bits));
            // SAFETY: 32 elements are four vectors.
            unsafe {
                put::<STREAM>(dst.add(half * 128), low);
                put::<STREAM>(dst.add(half * 128 + 64), high);
            }
        }
    }
    I32, 4: |dst, lanes| {
        let [low, high] = both!(lanes, to_i32);
        // SAFETY: 32 elements are two vectors.
        unsafe {
            put::<STREAM>(dst, low);
            put::<STREAM>(dst.add(64), high);
        }
    }
    // Past the range the instruction gives all ones, which is right above it only.
    U32, 4: |dst, lanes| {
        let [low, high] = both!(lanes, |bits| {
            let value = _mm512_castsi512_ps(bits);
            let above = _mm512_cmp_ps_mask::<_CMP_GT_OQ>(value, _mm512_setzero_ps());
            _mm512_maskz_cvttps_epu32(above, value)
        });
        // SAFETY: 32 elements are two vectors.
        unsafe {
            put::<STREAM>(dst, low);
            put::<STREAM>(dst.add(64), high);
        }
    }
    I16, 2: |dst, lanes| {
        // SAFETY: 32 elements are one vector.
        unsafe { put::<STREAM>(dst, to_i16(lanes)) }
    }
    I8, 1: |dst, lanes| {
        // SAFETY: 32 elements are half a vector.
        unsafe { put_half::<STREAM>(dst, _mm512_cvtsepi16_epi8(to_i16(lanes))) }
    }
    U8, 1: |dst, lanes| {
        let positive = _mm512_max_epi16(to_i16(lanes), _mm512_setzero_si512());
        // SAFETY: 32 elements are half a vector.
        unsafe { put_half::<STREAM>(dst, _mm512_cvtusepi16_epi8(positive)) }
    }
}

/// [`Shape::encode`] on 16 numbers, 8-bit shapes only.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn encode(bits: __m512i, shape: Shape) -> __m512i {
    let dropped = set(shape.dropped());
    let magnitude = _mm512_and_si512(bits, set(!F32_SIGN));
    let whole = _mm512_srlv_epi32(magnitude, dropped);
    let even = _mm512_and_si512(whole, set(1));
    let half = set((1 << (shape.dropped() - 1)) - 1);
    let offset = _mm512_sub_epi32(half, set(shape.rebias()));
    let rounded = _mm512_add_epi32(_mm512_add_epi32(magnitude, offset), even);
    let normal = _mm512_srlv_epi32(rounded, dropped);
    let magic = set(shape.magic());
    let sum = _mm512_add_ps(_mm512_castsi512_ps(magnitude), _mm512_castsi512_ps(magic));
    let subnormal = _mm512_sub_epi32(_mm512_castps_si512(sum), magic);
    let small = _mm512_cmplt_epu32_mask(magnitude, set(shape.min_normal()));
    let code = _mm512_mask_mov_epi32(normal, small, subnormal);
    let mut code = _mm512_min_epu32(code, set(shape.max + 1));
    let sign = _mm512_and_si512(_mm512_srli_epi32::<24>(bits), set(0x80));
    match shape.specials {
        Specials::Ieee => {
            let payload = _mm512_and_si512(whole, set((1 << shape.fraction) - 1));
            let quiet = set((shape.max + 1) | (1 << (shape.fraction - 1)));
            code = _mm512_mask_or_epi32(code, is_nan(bits), payload, quiet);
            _mm512_or_si512(code, sign)
        }
        Specials::AllOnesNan => {
            code = _mm512_min_epu32(code, set(shape.max));
            code = _mm512_mask_mov_epi32(code, is_nan(bits), set(shape.max + 1));
            _mm512_or_si512(code, sign)
        }
        Specials::MinusZeroNan => {
            // Codes 1 to 0x7f: one comparison, as zero wraps around.
            let signed = _mm512_cmplt_epu32_mask(_mm512_sub_epi32(code, set(1)), set(shape.max));
            _mm512_mask_or_epi32(code, signed, code, sign)
        }
    }
}

/// Truncates and saturates. Past the range the instruction gives the least integer.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn to_i32(bits: __m512i) -> __m512i {
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
fn to_i64(bits: __m256i) -> __m512i {
    let value = _mm256_castsi256_ps(bits);
    let number = _mm256_cmp_ps_mask::<_CMP_ORD_Q>(value, value);
    let above = _mm256_cmp_ps_mask::<_CMP_GE_OQ>(value, _mm256_set1_ps(TWO_63));
    let whole = _mm512_maskz_cvttps_epi64(number, value);
    _mm512_mask_mov_epi64(whole, above, _mm512_set1_epi64(i64::MAX))
}

/// Truncates and saturates 32 numbers.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn to_i16(lanes: Lanes) -> __m512i {
    let [low, high] = both!(lanes, to_i32);
    in_order(_mm512_packs_epi32(low, high))
}

/// 32 numbers below 2^16 to 16 bits.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn narrow(codes: Lanes) -> __m512i {
    in_order(_mm512_packus_epi32(codes[0], codes[1]))
}

/// Packing takes quarters of both vectors in turn; this puts them back.
#[inline]
#[target_feature(enable = "avx512f")]
fn in_order(packed: __m512i) -> __m512i {
    _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), packed)
}
