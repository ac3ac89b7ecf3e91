//! Writing: 32 binary32 numbers to elements of a format.

use std::arch::x86_64::*;

use super::put;
use super::through::{Lanes, each, instead, is_nan, set, with_sign_of};
use crate::minifloat::{self, F32_QUIET, F32_SIGN, Shape, Specials};
use crate::small::{DL16_DROPPED, DL16_INFINITE, DL16_MERGED, DL16_REBIAS};

/// A format that binary32 numbers become.
pub(super) trait Writer {
    /// Bytes of an element.
    const SIZE: usize;

    /// # Safety
    /// The machine has AVX2 and F16C, and `dst` is valid for 32 elements and aligned as
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

macro_rules! writers {
    ($($name:ident, $size:literal: |$dst:ident, $lanes:ident| $body:block)*) => {$(
        impl Writer for $name {
            const SIZE: usize = $size;
            #[inline]
            #[target_feature(enable = "avx2,f16c")]
            unsafe fn write<const STREAM: bool>($dst: *mut u8, $lanes: Lanes) $body
        }
    )*};
}

const ROUND: i32 = _MM_FROUND_TO_NEAREST_INT;

writers! {
    F32, 4: |dst, lanes| {
        let [a, b, c, d] = lanes;
        // SAFETY: 32 elements are four vectors.
        unsafe {
            put::<STREAM>(dst, a);
            put::<STREAM>(dst.add(32), b);
            put::<STREAM>(dst.add(64), c);
            put::<STREAM>(dst.add(96), d);
        }
    }
    F16, 2: |dst, lanes| {
        let [a, b, c, d] =
            each!(lanes, |bits| _mm256_cvtps_ph::<ROUND>(_mm256_castsi256_ps(bits)));
        // SAFETY: 32 elements are two vectors.
        unsafe {
            put::<STREAM>(dst, _mm256_set_m128i(b, a));
            put::<STREAM>(dst.add(32), _mm256_set_m128i(d, c));
        }
    }
    Bf16, 2: |dst, lanes| {
        let codes = each!(lanes, |bits| {
            let even = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), set(1));
            let rounded = _mm256_add_epi32(_mm256_add_epi32(bits, set(0x7fff)), even);
            let nan = _mm256_or_si256(bits, set(F32_QUIET));
            _mm256_srli_epi32::<16>(instead(rounded, is_nan(bits), nan))
        });
        // SAFETY: the caller's promise is passed on.
        unsafe { put_codes::<STREAM>(dst, codes) }
    }
    Dl16, 2: |dst, lanes| {
        let codes = each!(lanes, |bits| {
            let code = _mm256_min_epu32(dl16_code(bits), set(DL16_MERGED));
            with_sign_of(code, _mm256_srli_epi32::<16>(bits), set(0x8000))
        });
        // SAFETY: the caller's promise is passed on.
        unsafe { put_codes::<STREAM>(dst, codes) }
    }
    Dl16Inf, 2: |dst, lanes| {
        let codes = each!(lanes, |bits| {
            let code = _mm256_min_epu32(dl16_code(bits), set(DL16_INFINITE));
            let code = instead(code, is_nan(bits), set(DL16_MERGED));
            with_sign_of(code, _mm256_srli_epi32::<16>(bits), set(0x8000))
        });
        // SAFETY: the caller's promise is passed on.
        unsafe { put_codes::<STREAM>(dst, codes) }
    }
    E4m3, 1: |dst, lanes| {
        let codes = each!(lanes, |bits| encode(bits, minifloat::F8E4M3FN));
        // SAFETY: 32 elements are one vector.
        unsafe { put::<STREAM>(dst, to_bytes(codes)) }
    }
    E5m2, 1: |dst, lanes| {
        let codes = each!(lanes, |bits| encode(bits, minifloat::F8E5M2));
        // SAFETY: 32 elements are one vector.
        unsafe { put::<STREAM>(dst, to_bytes(codes)) }
    }
    Fnuz, 1: |dst, lanes| {
        let codes = each!(lanes, |bits| encode(bits, minifloat::F8E5M2FNUZ));
        // SAFETY: 32 elements are one vector.
        unsafe { put::<STREAM>(dst, to_bytes(codes)) }
    }
}

/// Magnitudes rounded to DL16, ties away, before what is too large is merged.
#[inline]
#[target_feature(enable = "avx2")]
fn dl16_code(bits: __m256i) -> __m256i {
    let magnitude = _mm256_and_si256(bits, set(!F32_SIGN));
    let rounded = _mm256_add_epi32(magnitude, set(1 << (DL16_DROPPED - 1)));
    let floor = _mm256_max_epu32(rounded, set(DL16_REBIAS));
    _mm256_srli_epi32::<{ DL16_DROPPED.cast_signed() }>(_mm256_sub_epi32(floor, set(DL16_REBIAS)))
}

/// [`Shape::encode`] on 8 numbers, 8-bit shapes only.
#[inline]
#[target_feature(enable = "avx2")]
fn encode(bits: __m256i, shape: Shape) -> __m256i {
    let dropped = set(shape.dropped());
    let magnitude = _mm256_and_si256(bits, set(!F32_SIGN));
    let whole = _mm256_srlv_epi32(magnitude, dropped);
    let even = _mm256_and_si256(whole, set(1));
    let half = (1_u32 << (shape.dropped() - 1)) - 1;
    let offset = set(half.wrapping_sub(shape.rebias()));
    let rounded = _mm256_add_epi32(_mm256_add_epi32(magnitude, offset), even);
    let normal = _mm256_srlv_epi32(rounded, dropped);
    let magic = set(shape.magic());
    let sum = _mm256_add_ps(_mm256_castsi256_ps(magnitude), _mm256_castsi256_ps(magic));
    let subnormal = _mm256_sub_epi32(_mm256_castps_si256(sum), magic);
    // Magnitudes have no sign bit, so that a signed comparison will do.
    let small = _mm256_cmpgt_epi32(set(shape.min_normal()), magnitude);
    let code = instead(normal, small, subnormal);
    let code = _mm256_min_epu32(code, set(shape.max + 1));
    let sign = _mm256_and_si256(_mm256_srli_epi32::<24>(bits), set(0x80));
    match shape.specials {
        Specials::Ieee => {
            let payload = _mm256_and_si256(whole, set((1 << shape.fraction) - 1));
            let quiet = set((shape.max + 1) | (1 << (shape.fraction - 1)));
            let code = instead(code, is_nan(bits), _mm256_or_si256(payload, quiet));
            _mm256_or_si256(code, sign)
        }
        Specials::AllOnesNan => {
            let code = _mm256_min_epu32(code, set(shape.max));
            let code = instead(code, is_nan(bits), set(shape.max + 1));
            _mm256_or_si256(code, sign)
        }
        Specials::MinusZeroNan => {
            // Codes 1 to 0x7f have a sign: zero and the NaN have none.
            let zero = _mm256_cmpeq_epi32(code, _mm256_setzero_si256());
            let past = _mm256_cmpgt_epi32(code, set(shape.max));
            let alone = _mm256_or_si256(zero, past);
            _mm256_or_si256(code, _mm256_andnot_si256(alone, sign))
        }
    }
}

/// Stores 32 numbers below 2^16 as 16 bits.
///
/// # Safety
/// `dst` is valid for 64 bytes and, with `STREAM`, a multiple of 32.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn put_codes<const STREAM: bool>(dst: *mut u8, codes: Lanes) {
    let [a, b, c, d] = codes;
    // SAFETY: the caller's promise.
    unsafe {
        put::<STREAM>(dst, narrow(a, b));
        put::<STREAM>(dst.add(32), narrow(c, d));
    }
}

/// 16 numbers below 2^16 to 16 bits. Packing takes halves of both vectors in turn; the permutation
/// puts them back.
#[inline]
#[target_feature(enable = "avx2")]
fn narrow(a: __m256i, b: __m256i) -> __m256i {
    _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packus_epi32(a, b))
}

/// 32 numbers below 2^8 to 8 bits.
#[inline]
#[target_feature(enable = "avx2")]
fn to_bytes(codes: Lanes) -> __m256i {
    let [a, b, c, d] = codes;
    let mixed = _mm256_packus_epi16(_mm256_packus_epi32(a, b), _mm256_packus_epi32(c, d));
    _mm256_permutevar8x32_epi32(mixed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7))
}
