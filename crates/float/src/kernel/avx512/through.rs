//! Pairs that meet in binary32: a reader and a writer per format.

use std::arch::x86_64::{
    __m512i, _MM_FROUND_NO_EXC, _MM_FROUND_TO_NEAREST_INT, _mm256_loadu_si256,
    _mm256_maskz_set1_epi8, _mm256_test_epi8_mask, _mm512_add_epi32, _mm512_add_ps,
    _mm512_and_si512, _mm512_castps_si512, _mm512_castsi512_ps, _mm512_castsi512_si256,
    _mm512_cmpeq_epi16_mask, _mm512_cmpeq_epi32_mask, _mm512_cmpgt_epu32_mask,
    _mm512_cmplt_epu32_mask, _mm512_cvtepi8_epi16, _mm512_cvtepi16_epi8, _mm512_cvtepi16_epi32,
    _mm512_cvtepi32_ps, _mm512_cvtepu8_epi16, _mm512_cvtepu16_epi32, _mm512_cvtph_ps,
    _mm512_cvtps_ph, _mm512_extracti64x4_epi64, _mm512_loadu_si512, _mm512_mask_mov_epi16,
    _mm512_mask_mov_epi32, _mm512_mask_or_epi32, _mm512_maskz_add_epi32, _mm512_max_epu32,
    _mm512_min_epu32, _mm512_mul_ps, _mm512_or_si512, _mm512_packus_epi32,
    _mm512_permutexvar_epi64, _mm512_set1_epi16, _mm512_set1_epi32, _mm512_set1_ps,
    _mm512_setr_epi64, _mm512_slli_epi16, _mm512_slli_epi32, _mm512_sllv_epi32, _mm512_srli_epi32,
    _mm512_srlv_epi32, _mm512_sub_epi32, _mm512_ternarylogic_epi32, _mm512_test_epi32_mask,
};

use super::{Pair, Step, pair, put, put_half};
use crate::format::Format;
use crate::minifloat::{self, F32_INFINITY, F32_NAN, F32_QUIET, F32_SIGN, Shape, Specials};
use crate::small::{DL16_DROPPED, DL16_MERGED, DL16_REBIAS};

/// 32 binary32 numbers, as bits.
type Lanes = [__m512i; 2];

/// A format that is exact as binary32.
pub(super) trait Reader {
    const SIZE: usize;

    /// # Safety
    /// The machine has AVX-512, and `src` is valid for 32 elements.
    unsafe fn read(src: *const u8) -> Lanes;
}

/// A format that is rounded from binary32.
pub(super) trait Writer {
    const SIZE: usize;

    /// # Safety
    /// The machine has AVX-512, and `dst` is valid for 32 elements and aligned as [`Step`] says.
    unsafe fn write<const STREAM: bool>(dst: *mut u8, lanes: Lanes);
}

/// The step that reads one format and writes another.
pub(super) struct Through<R, W>(R, W);

impl<R: Reader, W: Writer> Step for Through<R, W> {
    const IN: usize = R::SIZE;
    const OUT: usize = W::SIZE;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn step<const STREAM: bool>(src: *const u8, dst: *mut u8) {
        // SAFETY: the caller's promise is passed on.
        unsafe { W::write::<STREAM>(dst, R::read(src)) }
    }
}

/// The pairs that can go this way.
pub(super) fn select(src: Format, dst: Format) -> Option<Pair> {
    Some(match src {
        Format::F32 => writer::<F32>(dst)?,
        Format::F16 => writer::<F16>(dst)?,
        Format::BF16 => writer::<Bf16>(dst)?,
        Format::DL16 => writer::<Dl16>(dst)?,
        Format::F8E4M3FN => writer::<E4m3>(dst)?,
        Format::F8E5M2 => writer::<E5m2>(dst)?,
        Format::F8E5M2FNUZ => writer::<Fnuz>(dst)?,
        Format::I16 => writer::<I16>(dst)?,
        Format::I8 => writer::<I8>(dst)?,
        Format::U8 => writer::<U8>(dst)?,
        Format::Bool => writer::<Bool>(dst)?,
        Format::F64 | Format::I64 | Format::I32 | Format::U32 => return None,
    })
}

fn writer<R: Reader>(dst: Format) -> Option<Pair> {
    Some(match dst {
        Format::F32 => pair::<Through<R, F32>>(),
        Format::F16 => pair::<Through<R, F16>>(),
        Format::BF16 => pair::<Through<R, Bf16>>(),
        Format::DL16 => pair::<Through<R, Dl16>>(),
        Format::F8E4M3FN => pair::<Through<R, E4m3>>(),
        Format::F8E5M2 => pair::<Through<R, E5m2>>(),
        Format::F8E5M2FNUZ => pair::<Through<R, Fnuz>>(),
        _ => return None,
    })
}

pub(super) struct F32;
pub(super) struct F16;
pub(super) struct Bf16;
pub(super) struct Dl16;
struct E4m3;
struct E5m2;
struct Fnuz;
struct I16;
struct I8;
struct U8;
struct Bool;

/// The same function of both vectors. (`map` on arrays is compiled without AVX-512 and may not be
/// inlined.)
macro_rules! both {
    ($lanes:expr, $function:expr) => {{
        let [low, high] = $lanes;
        let function = $function;
        [function(low), function(high)]
    }};
}

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
            let nan = is_nan(_mm512_and_si512(bits, set(!F32_SIGN)));
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
}

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
            let nan = is_nan(_mm512_and_si512(bits, set(!F32_SIGN)));
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
            code = _mm512_mask_or_epi32(code, is_nan(magnitude), payload, quiet);
            _mm512_or_si512(code, sign)
        }
        Specials::AllOnesNan => _mm512_or_si512(code, sign),
        Specials::MinusZeroNan => {
            // Codes 1 to 0x7f: one comparison, as zero wraps around.
            let signed = _mm512_cmplt_epu32_mask(_mm512_sub_epi32(code, set(1)), set(shape.max));
            _mm512_mask_or_epi32(code, signed, code, sign)
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn set(value: u32) -> __m512i {
    _mm512_set1_epi32(value.cast_signed())
}

/// Whether binary32 magnitudes are NaNs.
#[inline]
#[target_feature(enable = "avx512f")]
fn is_nan(magnitude: __m512i) -> u16 {
    _mm512_cmpgt_epu32_mask(magnitude, set(F32_INFINITY))
}

/// A value with the bits of `sign` under `mask` added: `value | (sign & mask)`.
#[inline]
#[target_feature(enable = "avx512f")]
fn with_sign_of(value: __m512i, sign: __m512i, mask: __m512i) -> __m512i {
    _mm512_ternarylogic_epi32::<0b1111_1000>(value, sign, mask)
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

/// 32 numbers below 2^16 to 16 bits.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn narrow(codes: Lanes) -> __m512i {
    // Packing takes quarters of both vectors in turn.
    let packed = _mm512_packus_epi32(codes[0], codes[1]);
    _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), packed)
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
