//! Writing: 32 binary32 numbers to elements of a format.

use std::arch::x86_64::*;

use super::put;
use super::through::{Lanes, each, instead, is_nan, set};
use crate::minifloat::{self, F32_INFINITY, F32_QUIET, F32_SIGN, Shape, Specials};
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

/// An 8-bit format, as a type so that its numbers are constants of the kernels.
trait Small {
    const SHAPE: Shape;
}

impl Small for E4m3 {
    const SHAPE: Shape = minifloat::F8E4M3FN;
}

impl Small for E5m2 {
    const SHAPE: Shape = minifloat::F8E5M2;
}

impl Small for Fnuz {
    const SHAPE: Shape = minifloat::F8E5M2FNUZ;
}

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
        let codes = each!(lanes, dl16_code);
        let merged = _mm256_set1_epi16(0x7fff);
        // SAFETY: the caller's promise is passed on.
        unsafe { put_dl16::<STREAM>(dst, lanes, dl16_pack(codes), merged) }
    }
    Dl16Inf, 2: |dst, lanes| {
        let codes = dl16_pack(each!(lanes, dl16_code));
        let any = _mm256_or_si256(codes[0], codes[1]);
        let packed = if _mm256_testz_si256(any, _mm256_set1_epi16(i16::MIN)) == 0 {
            // What is past 2^33, and NaNs among it.
            dl16_pack(each!(lanes, dl16_inf_code))
        } else {
            let limit = _mm256_set1_epi16(DL16_INFINITE_CODE);
            [_mm256_min_epu16(codes[0], limit), _mm256_min_epu16(codes[1], limit)]
        };
        let merged = _mm256_set1_epi16(0x7fff);
        // SAFETY: the caller's promise is passed on.
        unsafe { put_dl16::<STREAM>(dst, lanes, packed, merged) }
    }
    E4m3, 1: |dst, lanes| {
        // SAFETY: 32 elements are one vector.
        unsafe { put::<STREAM>(dst, small::<E4m3>(lanes)) }
    }
    E5m2, 1: |dst, lanes| {
        // SAFETY: 32 elements are one vector.
        unsafe { put::<STREAM>(dst, small::<E5m2>(lanes)) }
    }
    Fnuz, 1: |dst, lanes| {
        // SAFETY: 32 elements are one vector.
        unsafe { put::<STREAM>(dst, small::<Fnuz>(lanes)) }
    }
}

/// The number that stands for an infinity.
const DL16_INFINITE_CODE: i16 = 0x7dfe;
const _: () = assert!(DL16_INFINITE == 0x7dfe);

/// Magnitudes rounded to DL16, ties away: negative where it is zero, and past the largest code.
#[inline]
#[target_feature(enable = "avx2")]
fn dl16_code(bits: __m256i) -> __m256i {
    const HALF: u32 = 1 << (DL16_DROPPED - 1);
    let magnitude = _mm256_and_si256(bits, set(!F32_SIGN));
    let rounded = _mm256_add_epi32(magnitude, set(HALF.wrapping_sub(DL16_REBIAS)));
    _mm256_srai_epi32::<{ DL16_DROPPED.cast_signed() }>(rounded)
}

/// The same with infinities, and the merged code for NaNs only.
#[cold]
#[inline(never)]
#[target_feature(enable = "avx2")]
fn dl16_inf_code(bits: __m256i) -> __m256i {
    let code = _mm256_min_epi32(dl16_code(bits), set(DL16_INFINITE));
    instead(code, is_nan(bits), set(DL16_MERGED))
}

/// 32 codes to 16 bits: zero where they are negative, 0xffff where they are too large. Each half of a
/// vector has quarters of two.
#[inline]
#[target_feature(enable = "avx2")]
fn dl16_pack(codes: Lanes) -> [__m256i; 2] {
    let [a, b, c, d] = codes;
    [_mm256_packus_epi32(a, b), _mm256_packus_epi32(c, d)]
}

/// Stores packed magnitudes of at most `most` with the signs of the numbers.
///
/// # Safety
/// `dst` is valid for 64 bytes and, with `STREAM`, a multiple of 32.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn put_dl16<const STREAM: bool>(
    dst: *mut u8,
    lanes: Lanes,
    packed: [__m256i; 2],
    most: __m256i,
) {
    let [a, b, c, d] = lanes;
    let code = |packed, a, b| {
        // Packing saturates, which keeps the sign.
        let sign = _mm256_and_si256(_mm256_packs_epi32(a, b), _mm256_set1_epi16(i16::MIN));
        let code = _mm256_or_si256(_mm256_min_epu16(packed, most), sign);
        _mm256_permute4x64_epi64::<0b11_01_10_00>(code)
    };
    // SAFETY: the caller's promise.
    unsafe {
        put::<STREAM>(dst, code(packed[0], a, b));
        put::<STREAM>(dst.add(32), code(packed[1], c, d));
    }
}

/// [`Shape::encode`] on 8 numbers without their sign.
///
/// Adding a power of two whose last place is that of the code rounds to it, ties to even. The power
/// follows the number, from the binade of the smallest normal number to the one past the largest.
#[inline]
#[target_feature(enable = "avx2")]
fn encode<S: Small>(bits: __m256i) -> __m256i {
    let shape = const { S::SHAPE };
    let magnitude = _mm256_and_si256(bits, set(!F32_SIGN));
    let binade =
        _mm256_max_epi32(_mm256_and_si256(bits, set(F32_INFINITY)), set(shape.min_normal()));
    let binade = _mm256_min_epi32(binade, set(shape.past()));
    let dropped = shape.dropped();
    let magic = _mm256_add_epi32(binade, set(dropped << 23));
    let sum = _mm256_add_ps(_mm256_castsi256_ps(magnitude), _mm256_castsi256_ps(magic));
    // What was added comes off again: the number in last places of its code, with the leading bit.
    // An infinity and a NaN leave far more than any code.
    let places = _mm256_sub_epi32(_mm256_castps_si256(sum), magic);
    let first = _mm256_srlv_epi32(_mm256_sub_epi32(binade, set(shape.min_normal())), set(dropped));
    let code = _mm256_add_epi32(first, places);
    match shape.specials {
        Specials::Ieee => {
            let code = _mm256_min_epu32(code, set(shape.max + 1));
            let whole = _mm256_srlv_epi32(magnitude, set(dropped));
            let payload = _mm256_and_si256(whole, set(shape.magnitude()));
            let nan = _mm256_or_si256(payload, set(1 << (shape.fraction - 1)));
            instead(code, is_nan(bits), nan)
        }
        Specials::AllOnesNan => {
            let code = _mm256_min_epu32(code, set(shape.max));
            instead(code, is_nan(bits), set(shape.max + 1))
        }
        Specials::MinusZeroNan => _mm256_min_epu32(code, set(shape.max + 1)),
    }
}

/// 32 numbers as bytes of a format, with their signs.
#[inline]
#[target_feature(enable = "avx2")]
fn small<S: Small>(lanes: Lanes) -> __m256i {
    let codes = to_bytes(each!(lanes, encode::<S>));
    // Packing saturates, which keeps the sign.
    let [a, b, c, d] = lanes;
    let signs = _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
    let signs = _mm256_and_si256(signs, _mm256_set1_epi8(i8::MIN));
    let signs = match S::SHAPE.specials {
        // The sign alone is the NaN, and zero has none.
        Specials::MinusZeroNan => {
            _mm256_andnot_si256(_mm256_cmpeq_epi8(codes, _mm256_setzero_si256()), signs)
        }
        _ => signs,
    };
    in_order(_mm256_or_si256(codes, signs))
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

/// 32 numbers below 2^8 to 8 bits, each half with quarters of all four vectors.
#[inline]
#[target_feature(enable = "avx2")]
fn to_bytes(codes: Lanes) -> __m256i {
    let [a, b, c, d] = codes;
    _mm256_packus_epi16(_mm256_packus_epi32(a, b), _mm256_packus_epi32(c, d))
}

/// What was packed twice in the order of the elements.
#[inline]
#[target_feature(enable = "avx2")]
fn in_order(mixed: __m256i) -> __m256i {
    _mm256_permutevar8x32_epi32(mixed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7))
}
