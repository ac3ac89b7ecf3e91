//! Writing: 32 binary32 numbers to elements of a format.

use std::arch::aarch64::*;

use super::Neon;
use super::lanes::{NeonLanes, blend_masked, broadcast_u32, mask_nans};
use super::{store_register_pair, store_u16_pair};
use crate::kernel::vector::WriteFormat;
use crate::minifloat::{self, F32_INFINITY, F32_QUIET, F32_SIGN, MinifloatShape, SpecialCodes};
use crate::small::{
    Bf16, DL16_DROPPED, DL16_INFINITE, DL16_MERGED, DL16_REBIAS, Dl16, Dl16Inf, F8E4M3Fn, F8E5M2,
    F8E5M2Fnuz, F16,
};

/// Formats of 16 bits: eight numbers to eight codes.
macro_rules! sixteen {
    ($($format:ty: |$low:ident, $high:ident| $body:block)*) => {$(
        impl WriteFormat<$format> for Neon {
            #[inline]
            #[target_feature(enable = "neon")]
            unsafe fn write_lanes<const STREAM: bool>(dst: *mut u8, lanes: NeonLanes) {
                let some = |$low: uint32x4_t, $high: uint32x4_t| -> uint16x8_t { $body };
                let [a, b, c, d, e, f, g, h] = lanes;
                // SAFETY: 32 elements are four registers.
                unsafe {
                    store_u16_pair::<STREAM>(dst, some(a, b), some(c, d));
                    store_u16_pair::<STREAM>(dst.add(32), some(e, f), some(g, h));
                }
            }
        }
    )*};
}

/// Formats of 8 bits, as types so that their numbers are constants of the kernels.
trait NeonSmallFormat {
    const SHAPE: MinifloatShape;
}

macro_rules! eight {
    ($($format:ident: $shape:ident)*) => {$(
        impl NeonSmallFormat for $format {
            const SHAPE: MinifloatShape = minifloat::$shape;
        }

        impl WriteFormat<$format> for Neon {
            #[inline]
            #[target_feature(enable = "neon")]
            unsafe fn write_lanes<const STREAM: bool>(dst: *mut u8, lanes: NeonLanes) {
                let [a, b, c, d, e, f, g, h] = lanes;
                let low = encode_small_bytes::<$format>([a, b, c, d]);
                let high = encode_small_bytes::<$format>([e, f, g, h]);
                // SAFETY: 32 elements are two registers.
                unsafe { store_register_pair::<STREAM>(dst, [low, high]) }
            }
        }
    )*};
}

impl WriteFormat<f32> for Neon {
    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn write_lanes<const STREAM: bool>(dst: *mut u8, lanes: NeonLanes) {
        let [a, b, c, d, e, f, g, h] = lanes;
        let two = |low, high| [vreinterpretq_u8_u32(low), vreinterpretq_u8_u32(high)];
        // SAFETY: 32 elements are eight registers.
        unsafe {
            store_register_pair::<STREAM>(dst, two(a, b));
            store_register_pair::<STREAM>(dst.add(32), two(c, d));
            store_register_pair::<STREAM>(dst.add(64), two(e, f));
            store_register_pair::<STREAM>(dst.add(96), two(g, h));
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
            let even = vandq_u32(vshrq_n_u32::<16>(bits), broadcast_u32(1));
            let rounded = vaddq_u32(vaddq_u32(bits, broadcast_u32(0x7fff)), even);
            blend_masked(rounded, mask_nans(bits), vorrq_u32(bits, broadcast_u32(F32_QUIET)))
        };
        upper_halves(code(low), code(high))
    }
    Dl16: |low, high| {
        with_signs(vminq_u16(round_to_dl16(low, high), merged_dl16_code()), low, high)
    }
    Dl16Inf: |low, high| {
        const DL16INF_INFINITY: u16 = 0x7dfe;
        const _: () = assert!(DL16_INFINITE == 0x7dfe);
        let number = vminq_u16(round_to_dl16(low, high), vdupq_n_u16(DL16INF_INFINITY));
        let nan = vmovn_high_u32(vmovn_u32(mask_nans(low)), mask_nans(high));
        with_signs(vbslq_u16(nan, merged_dl16_code(), number), low, high)
    }
}

eight! {
    F8E4M3Fn: F8E4M3FN
    F8E5M2: F8E5M2
    F8E5M2Fnuz: F8E5M2FNUZ
}

/// The code of DL16 that is no number.
#[inline]
#[target_feature(enable = "neon")]
fn merged_dl16_code() -> uint16x8_t {
    const _: () = assert!(DL16_MERGED == 0x7fff);
    vdupq_n_u16(0x7fff)
}

/// The upper halves of eight numbers.
#[inline]
#[target_feature(enable = "neon")]
fn upper_halves(low: uint32x4_t, high: uint32x4_t) -> uint16x8_t {
    vshrn_high_n_u32::<16>(vshrn_n_u32::<16>(low), high)
}

/// Magnitudes of 16 bits with the signs of eight numbers.
#[inline]
#[target_feature(enable = "neon")]
fn with_signs(magnitude: uint16x8_t, low: uint32x4_t, high: uint32x4_t) -> uint16x8_t {
    vbslq_u16(vdupq_n_u16(0x8000), upper_halves(low, high), magnitude)
}

/// Magnitudes rounded to DL16, ties away: 0xffff where they are far past the largest code.
#[inline]
#[target_feature(enable = "neon")]
fn round_to_dl16(low: uint32x4_t, high: uint32x4_t) -> uint16x8_t {
    const HALF: u32 = 1 << (DL16_DROPPED - 1);
    // Negative where it is zero.
    let code = |bits| {
        let magnitude = vandq_u32(bits, broadcast_u32(!F32_SIGN));
        let rounded = vaddq_u32(magnitude, broadcast_u32(HALF.wrapping_sub(DL16_REBIAS)));
        vshrq_n_s32::<{ DL16_DROPPED.cast_signed() }>(vreinterpretq_s32_u32(rounded))
    };
    vqmovun_high_s32(vqmovun_s32(code(low)), code(high))
}

/// [`MinifloatShape::encode_f32_bits`] on four numbers without their sign.
///
/// Adding a power of two whose last place is that of the code rounds to it, ties to even. The power
/// follows the number, from the binade of the smallest normal number to the one past the largest.
#[inline]
#[target_feature(enable = "neon")]
fn encode_magnitudes<S: NeonSmallFormat>(bits: uint32x4_t) -> uint32x4_t {
    let shape = const { S::SHAPE };
    let magnitude = vandq_u32(bits, broadcast_u32(!F32_SIGN));
    let binade = vmaxq_u32(
        vandq_u32(bits, broadcast_u32(F32_INFINITY)),
        broadcast_u32(shape.min_normal_bits()),
    );
    let binade = vminq_u32(binade, broadcast_u32(shape.overflow_bits()));
    let down = vdupq_n_s32(-shape.dropped_bits().cast_signed());
    let magic = vaddq_u32(binade, broadcast_u32(shape.dropped_bits() << 23));
    let sum = vaddq_f32(vreinterpretq_f32_u32(magnitude), vreinterpretq_f32_u32(magic));
    // What was added comes off again: the number in last places of its code, with the leading bit.
    // An infinity and a NaN leave far more than any code.
    let places = vsubq_u32(vreinterpretq_u32_f32(sum), magic);
    let first = vshlq_u32(vsubq_u32(binade, broadcast_u32(shape.min_normal_bits())), down);
    let code = vaddq_u32(first, places);
    match shape.specials {
        SpecialCodes::Ieee => {
            let code = vminq_u32(code, broadcast_u32(shape.max + 1));
            let payload =
                vandq_u32(vshlq_u32(magnitude, down), broadcast_u32(shape.magnitude_mask()));
            let nan = vorrq_u32(payload, broadcast_u32(1 << (shape.fraction - 1)));
            blend_masked(code, mask_nans(bits), nan)
        }
        SpecialCodes::AllOnesNan => {
            let code = vminq_u32(code, broadcast_u32(shape.max));
            blend_masked(code, mask_nans(bits), broadcast_u32(shape.max + 1))
        }
        SpecialCodes::MinusZeroNan => vminq_u32(code, broadcast_u32(shape.max + 1)),
    }
}

/// 16 numbers as bytes of a format, with their signs.
#[inline]
#[target_feature(enable = "neon")]
fn encode_small_bytes<S: NeonSmallFormat>([a, b, c, d]: [uint32x4_t; 4]) -> uint8x16_t {
    let narrow = |low, high| {
        vmovn_high_u32(vmovn_u32(encode_magnitudes::<S>(low)), encode_magnitudes::<S>(high))
    };
    let codes = vmovn_high_u16(vmovn_u16(narrow(a, b)), narrow(c, d));
    let signs = vshrn_high_n_u16::<8>(vshrn_n_u16::<8>(upper_halves(a, b)), upper_halves(c, d));
    let signs = vandq_u8(signs, vdupq_n_u8(0x80));
    let signs = match S::SHAPE.specials {
        // The sign alone is the NaN, and zero has none.
        SpecialCodes::MinusZeroNan => vbicq_u8(signs, vceqq_u8(codes, vdupq_n_u8(0))),
        _ => signs,
    };
    vorrq_u8(codes, signs)
}
