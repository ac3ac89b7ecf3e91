//! Writing: 32 binary32 numbers to elements of a format.

use std::arch::aarch64::*;

use super::through::{Lanes, instead, is_nan, set};
use super::{put, put16};
use crate::minifloat::{self, F32_INFINITY, F32_QUIET, F32_SIGN, Shape, Specials};
use crate::small::{DL16_DROPPED, DL16_INFINITE, DL16_MERGED, DL16_REBIAS};

/// A format that binary32 numbers become.
pub(super) trait Writer {
    /// Bytes of an element.
    const SIZE: usize;

    /// # Safety
    /// The machine has NEON, and `dst` is valid for 32 elements.
    unsafe fn write<const STREAM: bool>(dst: *mut u8, lanes: Lanes);
}

/// Formats of 16 bits: eight numbers to eight codes.
macro_rules! sixteen {
    ($($name:ident: |$low:ident, $high:ident| $body:block)*) => {$(
        pub(super) struct $name;

        impl Writer for $name {
            const SIZE: usize = 2;
            #[inline]
            #[target_feature(enable = "neon")]
            unsafe fn write<const STREAM: bool>(dst: *mut u8, lanes: Lanes) {
                let some = |$low: uint32x4_t, $high: uint32x4_t| -> uint16x8_t { $body };
                let [a, b, c, d, e, f, g, h] = lanes;
                // SAFETY: 32 elements are four registers.
                unsafe {
                    put16::<STREAM>(dst, some(a, b), some(c, d));
                    put16::<STREAM>(dst.add(32), some(e, f), some(g, h));
                }
            }
        }
    )*};
}

/// Formats of 8 bits, as types so that their numbers are constants of the kernels.
trait Small {
    const SHAPE: Shape;
}

macro_rules! eight {
    ($($name:ident: $shape:ident)*) => {$(
        pub(super) struct $name;

        impl Small for $name {
            const SHAPE: Shape = minifloat::$shape;
        }

        impl Writer for $name {
            const SIZE: usize = 1;
            #[inline]
            #[target_feature(enable = "neon")]
            unsafe fn write<const STREAM: bool>(dst: *mut u8, lanes: Lanes) {
                let [a, b, c, d, e, f, g, h] = lanes;
                let codes = [small::<$name>([a, b, c, d]), small::<$name>([e, f, g, h])];
                // SAFETY: 32 elements are two registers.
                unsafe { put::<STREAM>(dst, codes) }
            }
        }
    )*};
}

pub(super) struct F32;

impl Writer for F32 {
    const SIZE: usize = 4;

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn write<const STREAM: bool>(dst: *mut u8, lanes: Lanes) {
        let [a, b, c, d, e, f, g, h] = lanes;
        let two = |low, high| [vreinterpretq_u8_u32(low), vreinterpretq_u8_u32(high)];
        // SAFETY: 32 elements are eight registers.
        unsafe {
            put::<STREAM>(dst, two(a, b));
            put::<STREAM>(dst.add(32), two(c, d));
            put::<STREAM>(dst.add(64), two(e, f));
            put::<STREAM>(dst.add(96), two(g, h));
        }
    }
}

sixteen! {
    F16: |low, high| {
        let low = vcvt_f16_f32(vreinterpretq_f32_u32(low));
        vreinterpretq_u16_f16(vcvt_high_f16_f32(low, vreinterpretq_f32_u32(high)))
    }
    Bf16: |low, high| {
        let code = |bits| {
            let even = vandq_u32(vshrq_n_u32::<16>(bits), set(1));
            let rounded = vaddq_u32(vaddq_u32(bits, set(0x7fff)), even);
            instead(rounded, is_nan(bits), vorrq_u32(bits, set(F32_QUIET)))
        };
        upper(code(low), code(high))
    }
    Dl16: |low, high| {
        with_signs(vminq_u16(dl16(low, high), merged()), low, high)
    }
    Dl16Inf: |low, high| {
        const INFINITE: u16 = 0x7dfe;
        const _: () = assert!(DL16_INFINITE == 0x7dfe);
        let number = vminq_u16(dl16(low, high), vdupq_n_u16(INFINITE));
        let nan = vmovn_high_u32(vmovn_u32(is_nan(low)), is_nan(high));
        with_signs(vbslq_u16(nan, merged(), number), low, high)
    }
}

eight! {
    E4m3: F8E4M3FN
    E5m2: F8E5M2
    Fnuz: F8E5M2FNUZ
}

/// The code of DL16 that is no number.
#[inline]
#[target_feature(enable = "neon")]
fn merged() -> uint16x8_t {
    const _: () = assert!(DL16_MERGED == 0x7fff);
    vdupq_n_u16(0x7fff)
}

/// The upper halves of eight numbers.
#[inline]
#[target_feature(enable = "neon")]
fn upper(low: uint32x4_t, high: uint32x4_t) -> uint16x8_t {
    vshrn_high_n_u32::<16>(vshrn_n_u32::<16>(low), high)
}

/// Magnitudes of 16 bits with the signs of eight numbers.
#[inline]
#[target_feature(enable = "neon")]
fn with_signs(magnitude: uint16x8_t, low: uint32x4_t, high: uint32x4_t) -> uint16x8_t {
    vbslq_u16(vdupq_n_u16(0x8000), upper(low, high), magnitude)
}

/// Magnitudes rounded to DL16, ties away: 0xffff where they are far past the largest code.
#[inline]
#[target_feature(enable = "neon")]
fn dl16(low: uint32x4_t, high: uint32x4_t) -> uint16x8_t {
    const HALF: u32 = 1 << (DL16_DROPPED - 1);
    // Negative where it is zero.
    let code = |bits| {
        let magnitude = vandq_u32(bits, set(!F32_SIGN));
        let rounded = vaddq_u32(magnitude, set(HALF.wrapping_sub(DL16_REBIAS)));
        vshrq_n_s32::<{ DL16_DROPPED.cast_signed() }>(vreinterpretq_s32_u32(rounded))
    };
    vqmovun_high_s32(vqmovun_s32(code(low)), code(high))
}

/// [`Shape::encode`] on four numbers without their sign.
///
/// Adding a power of two whose last place is that of the code rounds to it, ties to even. The power
/// follows the number, from the binade of the smallest normal number to the one past the largest.
#[inline]
#[target_feature(enable = "neon")]
fn encode<S: Small>(bits: uint32x4_t) -> uint32x4_t {
    let shape = const { S::SHAPE };
    let magnitude = vandq_u32(bits, set(!F32_SIGN));
    let binade = vmaxq_u32(vandq_u32(bits, set(F32_INFINITY)), set(shape.min_normal()));
    let binade = vminq_u32(binade, set(shape.past()));
    let down = vdupq_n_s32(-shape.dropped().cast_signed());
    let magic = vaddq_u32(binade, set(shape.dropped() << 23));
    let sum = vaddq_f32(vreinterpretq_f32_u32(magnitude), vreinterpretq_f32_u32(magic));
    // What was added comes off again: the number in last places of its code, with the leading bit.
    // An infinity and a NaN leave far more than any code.
    let places = vsubq_u32(vreinterpretq_u32_f32(sum), magic);
    let first = vshlq_u32(vsubq_u32(binade, set(shape.min_normal())), down);
    let code = vaddq_u32(first, places);
    match shape.specials {
        Specials::Ieee => {
            let code = vminq_u32(code, set(shape.max + 1));
            let payload = vandq_u32(vshlq_u32(magnitude, down), set(shape.magnitude()));
            let nan = vorrq_u32(payload, set(1 << (shape.fraction - 1)));
            instead(code, is_nan(bits), nan)
        }
        Specials::AllOnesNan => {
            let code = vminq_u32(code, set(shape.max));
            instead(code, is_nan(bits), set(shape.max + 1))
        }
        Specials::MinusZeroNan => vminq_u32(code, set(shape.max + 1)),
    }
}

/// 16 numbers as bytes of a format, with their signs.
#[inline]
#[target_feature(enable = "neon")]
fn small<S: Small>([a, b, c, d]: [uint32x4_t; 4]) -> uint8x16_t {
    let narrow = |low, high| vmovn_high_u32(vmovn_u32(encode::<S>(low)), encode::<S>(high));
    let codes = vmovn_high_u16(vmovn_u16(narrow(a, b)), narrow(c, d));
    let signs = vshrn_high_n_u16::<8>(vshrn_n_u16::<8>(upper(a, b)), upper(c, d));
    let signs = vandq_u8(signs, vdupq_n_u8(0x80));
    let signs = match S::SHAPE.specials {
        // The sign alone is the NaN, and zero has none.
        Specials::MinusZeroNan => vbicq_u8(signs, vceqq_u8(codes, vdupq_n_u8(0))),
        _ => signs,
    };
    vorrq_u8(codes, signs)
}
