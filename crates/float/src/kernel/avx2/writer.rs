//! Writing: 32 binary32 numbers to elements of a format.

use std::arch::x86_64::*;

use super::Avx2;
use super::lanes::{Avx2Lanes, blend_masked, broadcast_u32, each, mask_nans};
use super::store_register;
use crate::kernel::vector::WriteFormat;
use crate::minifloat::{self, F32_INFINITY, F32_QUIET, F32_SIGN, MinifloatShape, SpecialCodes};
use crate::small::{
    Bf16, DL16_DROPPED, DL16_INFINITE, DL16_MERGED, DL16_REBIAS, Dl16, Dl16Inf, F8E4M3Fn, F8E5M2,
    F8E5M2Fnuz, F16,
};

/// An 8-bit format, as a type so that its numbers are constants of the kernels.
trait Avx2SmallFormat {
    const SHAPE: MinifloatShape;
}

impl Avx2SmallFormat for F8E4M3Fn {
    const SHAPE: MinifloatShape = minifloat::F8E4M3FN;
}

impl Avx2SmallFormat for F8E5M2 {
    const SHAPE: MinifloatShape = minifloat::F8E5M2;
}

impl Avx2SmallFormat for F8E5M2Fnuz {
    const SHAPE: MinifloatShape = minifloat::F8E5M2FNUZ;
}

macro_rules! writers {
    ($($format:ty: |$dst:ident, $lanes:ident| $body:block)*) => {$(
        impl WriteFormat<$format> for Avx2 {
            #[inline]
            #[target_feature(enable = "avx2,f16c")]
            unsafe fn write_lanes<const STREAM: bool>($dst: *mut u8, $lanes: Avx2Lanes) $body
        }
    )*};
}

const ROUND: i32 = _MM_FROUND_TO_NEAREST_INT;

writers! {
    f32: |dst, lanes| {
        let [a, b, c, d] = lanes;
        // SAFETY: 32 elements are four vectors.
        unsafe {
            store_register::<STREAM>(dst, a);
            store_register::<STREAM>(dst.add(32), b);
            store_register::<STREAM>(dst.add(64), c);
            store_register::<STREAM>(dst.add(96), d);
        }
    }
    F16: |dst, lanes| {
        let [a, b, c, d] =
            each!(lanes, |bits| _mm256_cvtps_ph::<ROUND>(_mm256_castsi256_ps(bits)));
        // SAFETY: 32 elements are two vectors.
        unsafe {
            store_register::<STREAM>(dst, _mm256_set_m128i(b, a));
            store_register::<STREAM>(dst.add(32), _mm256_set_m128i(d, c));
        }
    }
    Bf16: |dst, lanes| {
        let codes = each!(lanes, |bits| {
            let even = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), broadcast_u32(1));
            let rounded = _mm256_add_epi32(_mm256_add_epi32(bits, broadcast_u32(0x7fff)), even);
            let nan = _mm256_or_si256(bits, broadcast_u32(F32_QUIET));
            _mm256_srli_epi32::<16>(blend_masked(rounded, mask_nans(bits), nan))
        });
        // SAFETY: the caller's promise is passed on.
        unsafe { store_u16_codes::<STREAM>(dst, codes) }
    }
    Dl16: |dst, lanes| {
        let codes = each!(lanes, round_to_dl16);
        let merged = _mm256_set1_epi16(0x7fff);
        // SAFETY: the caller's promise is passed on.
        unsafe { store_dl16_codes::<STREAM>(dst, lanes, pack_dl16_codes(codes), merged) }
    }
    Dl16Inf: |dst, lanes| {
        let codes = pack_dl16_codes(each!(lanes, round_to_dl16));
        let any = _mm256_or_si256(codes[0], codes[1]);
        let packed = if _mm256_testz_si256(any, _mm256_set1_epi16(i16::MIN)) == 0 {
            // What is past 2^33, and NaNs among it.
            pack_dl16_codes(each!(lanes, round_to_dl16_inf))
        } else {
            let limit = _mm256_set1_epi16(DL16_INFINITE_CODE);
            [_mm256_min_epu16(codes[0], limit), _mm256_min_epu16(codes[1], limit)]
        };
        let merged = _mm256_set1_epi16(0x7fff);
        // SAFETY: the caller's promise is passed on.
        unsafe { store_dl16_codes::<STREAM>(dst, lanes, packed, merged) }
    }
    F8E4M3Fn: |dst, lanes| {
        // SAFETY: 32 elements are one vector.
        unsafe { store_register::<STREAM>(dst, encode_small_bytes::<F8E4M3Fn>(lanes)) }
    }
    F8E5M2: |dst, lanes| {
        // SAFETY: 32 elements are one vector.
        unsafe { store_register::<STREAM>(dst, encode_small_bytes::<F8E5M2>(lanes)) }
    }
    F8E5M2Fnuz: |dst, lanes| {
        // SAFETY: 32 elements are one vector.
        unsafe { store_register::<STREAM>(dst, encode_small_bytes::<F8E5M2Fnuz>(lanes)) }
    }
}

/// The encoding of infinity.
const DL16_INFINITE_CODE: i16 = 0x7dfe;
const _: () = assert!(DL16_INFINITE == 0x7dfe);

/// Magnitudes rounded to DL16, ties away: negative where it is zero, and past the largest code.
#[inline]
#[target_feature(enable = "avx2")]
fn round_to_dl16(bits: __m256i) -> __m256i {
    const HALF: u32 = 1 << (DL16_DROPPED - 1);
    let magnitude = _mm256_and_si256(bits, broadcast_u32(!F32_SIGN));
    let rounded = _mm256_add_epi32(magnitude, broadcast_u32(HALF.wrapping_sub(DL16_REBIAS)));
    _mm256_srai_epi32::<{ DL16_DROPPED.cast_signed() }>(rounded)
}

/// The same with infinities, and the merged code for NaNs only.
#[cold]
#[inline(never)]
#[target_feature(enable = "avx2")]
fn round_to_dl16_inf(bits: __m256i) -> __m256i {
    let code = _mm256_min_epi32(round_to_dl16(bits), broadcast_u32(DL16_INFINITE));
    blend_masked(code, mask_nans(bits), broadcast_u32(DL16_MERGED))
}

/// 32 codes to 16 bits: zero where they are negative, 0xffff where they are too large. Each half of a
/// vector has quarters of two.
#[inline]
#[target_feature(enable = "avx2")]
fn pack_dl16_codes(codes: Avx2Lanes) -> [__m256i; 2] {
    let [a, b, c, d] = codes;
    [_mm256_packus_epi32(a, b), _mm256_packus_epi32(c, d)]
}

/// Stores packed magnitudes of at most `most` with the signs of the numbers.
///
/// # Safety
/// `dst` is valid for 64 bytes and, with `STREAM`, a multiple of 32.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn store_dl16_codes<const STREAM: bool>(
    dst: *mut u8,
    lanes: Avx2Lanes,
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
        store_register::<STREAM>(dst, code(packed[0], a, b));
        store_register::<STREAM>(dst.add(32), code(packed[1], c, d));
    }
}

/// [`MinifloatShape::encode_f32_bits`] on 8 numbers without their sign.
///
/// Adding a power of two whose last place is that of the code rounds to it, ties to even. The power
/// follows the number, from the binade of the smallest normal number to the one past the largest.
#[inline]
#[target_feature(enable = "avx2")]
fn encode_magnitudes<S: Avx2SmallFormat>(bits: __m256i) -> __m256i {
    let shape = const { S::SHAPE };
    let magnitude = _mm256_and_si256(bits, broadcast_u32(!F32_SIGN));
    let binade = _mm256_max_epi32(
        _mm256_and_si256(bits, broadcast_u32(F32_INFINITY)),
        broadcast_u32(shape.min_normal_bits()),
    );
    let binade = _mm256_min_epi32(binade, broadcast_u32(shape.overflow_bits()));
    let dropped = shape.dropped_bits();
    let magic = _mm256_add_epi32(binade, broadcast_u32(dropped << 23));
    let sum = _mm256_add_ps(_mm256_castsi256_ps(magnitude), _mm256_castsi256_ps(magic));
    // What was added comes off again: the number in last places of its code, with the leading bit.
    // An infinity and a NaN leave far more than any code.
    let places = _mm256_sub_epi32(_mm256_castps_si256(sum), magic);
    let first = _mm256_srlv_epi32(
        _mm256_sub_epi32(binade, broadcast_u32(shape.min_normal_bits())),
        broadcast_u32(dropped),
    );
    let code = _mm256_add_epi32(first, places);
    match shape.specials {
        SpecialCodes::Ieee => {
            let code = _mm256_min_epu32(code, broadcast_u32(shape.max + 1));
            let whole = _mm256_srlv_epi32(magnitude, broadcast_u32(dropped));
            let payload = _mm256_and_si256(whole, broadcast_u32(shape.magnitude_mask()));
            let nan = _mm256_or_si256(payload, broadcast_u32(1 << (shape.fraction - 1)));
            blend_masked(code, mask_nans(bits), nan)
        }
        SpecialCodes::AllOnesNan => {
            let code = _mm256_min_epu32(code, broadcast_u32(shape.max));
            blend_masked(code, mask_nans(bits), broadcast_u32(shape.max + 1))
        }
        SpecialCodes::MinusZeroNan => _mm256_min_epu32(code, broadcast_u32(shape.max + 1)),
    }
}

/// 32 numbers as bytes of a format, with their signs.
#[inline]
#[target_feature(enable = "avx2")]
fn encode_small_bytes<S: Avx2SmallFormat>(lanes: Avx2Lanes) -> __m256i {
    let codes = pack_to_bytes(each!(lanes, encode_magnitudes::<S>));
    // Packing saturates, which keeps the sign.
    let [a, b, c, d] = lanes;
    let signs = _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
    let signs = _mm256_and_si256(signs, _mm256_set1_epi8(i8::MIN));
    let signs = match S::SHAPE.specials {
        // The sign alone is the NaN, and zero has none.
        SpecialCodes::MinusZeroNan => {
            _mm256_andnot_si256(_mm256_cmpeq_epi8(codes, _mm256_setzero_si256()), signs)
        }
        _ => signs,
    };
    restore_element_order(_mm256_or_si256(codes, signs))
}

/// Stores 32 numbers below 2^16 as 16 bits.
///
/// # Safety
/// `dst` is valid for 64 bytes and, with `STREAM`, a multiple of 32.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn store_u16_codes<const STREAM: bool>(dst: *mut u8, codes: Avx2Lanes) {
    let [a, b, c, d] = codes;
    // SAFETY: the caller's promise.
    unsafe {
        store_register::<STREAM>(dst, narrow_to_u16(a, b));
        store_register::<STREAM>(dst.add(32), narrow_to_u16(c, d));
    }
}

/// 16 numbers below 2^16 to 16 bits. Packing takes halves of both vectors in turn; the permutation
/// puts them back.
#[inline]
#[target_feature(enable = "avx2")]
fn narrow_to_u16(a: __m256i, b: __m256i) -> __m256i {
    _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packus_epi32(a, b))
}

/// 32 numbers below 2^8 to 8 bits, each half with quarters of all four vectors.
#[inline]
#[target_feature(enable = "avx2")]
fn pack_to_bytes(codes: Avx2Lanes) -> __m256i {
    let [a, b, c, d] = codes;
    _mm256_packus_epi16(_mm256_packus_epi32(a, b), _mm256_packus_epi32(c, d))
}

/// What was packed twice in the order of the elements.
#[inline]
#[target_feature(enable = "avx2")]
fn restore_element_order(mixed: __m256i) -> __m256i {
    _mm256_permutevar8x32_epi32(mixed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7))
}
