//! Reading: 32 elements of a format to binary32, exactly.

use std::arch::aarch64::*;

use super::Neon;
use super::lanes::{NeonLanes, blend_masked, broadcast_u32, mask_nans};
use super::{load_register, load_u16_register};
use crate::element::Bool;
use crate::kernel::vector::ReadFormat;
use crate::minifloat::{self, F32_INFINITY, F32_NAN, F32_QUIET, F32_SIGN};
use crate::small::{
    Bf16, DL16_DROPPED, DL16_INFINITE, DL16_MERGED, DL16_REBIAS, Dl16, Dl16Inf, F8E4M3Fn, F8E5M2,
    F8E5M2Fnuz, F16,
};

/// Formats of 16 bits: eight codes to eight numbers.
macro_rules! sixteen {
    ($($format:ty: |$codes:ident| $body:block)*) => {$(
        impl ReadFormat<$format> for Neon {
            #[inline]
            #[target_feature(enable = "neon")]
            unsafe fn read_lanes(src: *const u8) -> NeonLanes {
                let some = |$codes: uint16x8_t| -> [uint32x4_t; 2] { $body };
                // SAFETY: 32 elements are four registers.
                let ([a, b], [c, d], [e, f], [g, h]) = unsafe {
                    let at = |k: usize| some(load_u16_register(src.add(16 * k)));
                    (at(0), at(1), at(2), at(3))
                };
                [a, b, c, d, e, f, g, h]
            }
        }
    )*};
}

/// Formats of 8 bits: eight codes to eight numbers.
macro_rules! eight {
    ($($format:ty: |$codes:ident| $body:block)*) => {$(
        impl ReadFormat<$format> for Neon {
            #[inline]
            #[target_feature(enable = "neon")]
            unsafe fn read_lanes(src: *const u8) -> NeonLanes {
                let some = |$codes: uint8x8_t| -> [uint32x4_t; 2] { $body };
                // SAFETY: 32 elements are two registers.
                let (low, high) = unsafe { (load_register(src), load_register(src.add(16))) };
                let ([a, b], [c, d]) = (some(vget_low_u8(low)), some(vget_high_u8(low)));
                let ([e, f], [g, h]) = (some(vget_low_u8(high)), some(vget_high_u8(high)));
                [a, b, c, d, e, f, g, h]
            }
        }
    )*};
}

impl ReadFormat<f32> for Neon {
    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn read_lanes(src: *const u8) -> NeonLanes {
        // SAFETY: 32 elements are eight registers.
        unsafe {
            let at = |k: usize| vreinterpretq_u32_u8(load_register(src.add(16 * k)));
            [at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7)]
        }
    }
}

sixteen! {
    F16: |codes| {
        f16_to_f32_bits(codes)
    }
    // The upper half of a binary32; a NaN is quiet.
    Bf16: |codes| {
        let quiet = |bits| vorrq_u32(bits, vandq_u32(mask_nans(bits), broadcast_u32(F32_QUIET)));
        let low = vshll_n_u16::<16>(vget_low_u16(codes));
        [quiet(low), quiet(vshll_high_n_u16::<16>(codes))]
    }
    Dl16: |codes| {
        decode_dl16_codes(codes, DL16_MERGED)
    }
    Dl16Inf: |codes| {
        decode_dl16_codes(codes, DL16_INFINITE)
    }
    i16: |codes| {
        let codes = vreinterpretq_s16_u16(codes);
        [integers_to_f32_bits(vmovl_s16(vget_low_s16(codes))), integers_to_f32_bits(vmovl_high_s16(codes))]
    }
}

eight! {
    // Moved to the places of a float16, the exponent reads 8 less than it is, subnormals included.
    F8E4M3Fn: |codes| {
        let code = vmovl_u8(codes);
        let magnitude = vandq_u16(code, vdupq_n_u16(0x7f));
        let nan = vceqq_u16(magnitude, vdupq_n_u16(0x7f));
        let half = vbslq_u16(nan, vdupq_n_u16(0x7e00), vshlq_n_u16::<7>(magnitude));
        let sign = vandq_u16(vshlq_n_u16::<8>(code), vdupq_n_u16(0x8000));
        let [low, high] = f16_to_f32_bits(vorrq_u16(half, sign));
        let scaled = |bits| {
            vreinterpretq_u32_f32(vmulq_n_f32(vreinterpretq_f32_u32(bits), 256.0))
        };
        [scaled(low), scaled(high)]
    }
    // The upper half of a float16.
    F8E5M2: |codes| {
        f16_to_f32_bits(vshll_n_u8::<8>(codes))
    }
    F8E5M2Fnuz: |codes| {
        let code = vmovl_u8(codes);
        [decode_fnuz_codes(vmovl_u16(vget_low_u16(code))), decode_fnuz_codes(vmovl_high_u16(code))]
    }
    i8: |codes| {
        let wide = vmovl_s8(vreinterpret_s8_u8(codes));
        [integers_to_f32_bits(vmovl_s16(vget_low_s16(wide))), integers_to_f32_bits(vmovl_high_s16(wide))]
    }
    u8: |codes| {
        let wide = vreinterpretq_s16_u16(vmovl_u8(codes));
        [integers_to_f32_bits(vmovl_s16(vget_low_s16(wide))), integers_to_f32_bits(vmovl_high_s16(wide))]
    }
    Bool: |codes| {
        let code = vmovl_u8(codes);
        let one = |code| vandq_u32(vcgtq_u32(code, broadcast_u32(0)), broadcast_u32(1.0_f32.to_bits()));
        [one(vmovl_u16(vget_low_u16(code))), one(vmovl_high_u16(code))]
    }
}

/// Float16 codes, exactly; a NaN comes out quiet with its payload.
#[inline]
#[target_feature(enable = "neon")]
fn f16_to_f32_bits(codes: uint16x8_t) -> [uint32x4_t; 2] {
    let codes = vreinterpretq_f16_u16(codes);
    let (low, high) = (vcvt_f32_f16(vget_low_f16(codes)), vcvt_high_f32_f16(codes));
    [vreinterpretq_u32_f32(low), vreinterpretq_u32_f32(high)]
}

#[inline]
#[target_feature(enable = "neon")]
fn integers_to_f32_bits(values: int32x4_t) -> uint32x4_t {
    vreinterpretq_u32_f32(vcvtq_f32_s32(values))
}

/// DL16 codes, of which those from `infinite` up to the merged one stand for an infinity.
#[inline]
#[target_feature(enable = "neon")]
fn decode_dl16_codes(codes: uint16x8_t, infinite: u32) -> [uint32x4_t; 2] {
    let some = |code: uint32x4_t| {
        let magnitude = vandq_u32(code, broadcast_u32(0x7fff));
        let number = vshlq_n_u32::<{ DL16_DROPPED.cast_signed() }>(magnitude);
        let number = vaddq_u32(number, broadcast_u32(DL16_REBIAS));
        let number = vandq_u32(number, vcgtq_u32(magnitude, broadcast_u32(0)));
        let number = blend_masked(
            number,
            vcgeq_u32(magnitude, broadcast_u32(infinite)),
            broadcast_u32(F32_INFINITY),
        );
        let number = blend_masked(
            number,
            vceqq_u32(magnitude, broadcast_u32(DL16_MERGED)),
            broadcast_u32(F32_NAN),
        );
        with_sign(number, vshlq_n_u32::<16>(code))
    };
    [some(vmovl_u16(vget_low_u16(codes))), some(vmovl_high_u16(codes))]
}

#[inline]
#[target_feature(enable = "neon")]
fn decode_fnuz_codes(code: uint32x4_t) -> uint32x4_t {
    let shape = const { minifloat::F8E5M2FNUZ };
    let magnitude = vandq_u32(code, broadcast_u32(shape.magnitude_mask()));
    let wide = vshlq_u32(magnitude, vdupq_n_s32(shape.dropped_bits().cast_signed()));
    let normal = vaddq_u32(wide, broadcast_u32(shape.exponent_rebias()));
    let unit = vreinterpretq_f32_u32(broadcast_u32(shape.subnormal_unit_bits()));
    let subnormal = vreinterpretq_u32_f32(vmulq_f32(vcvtq_f32_u32(magnitude), unit));
    let small = vcgtq_u32(broadcast_u32(1 << shape.fraction), magnitude);
    let signed = with_sign(blend_masked(normal, small, subnormal), vshlq_n_u32::<24>(code));
    blend_masked(signed, vceqq_u32(code, broadcast_u32(0x80)), broadcast_u32(F32_NAN))
}

/// A magnitude with the uppermost bit of another number.
#[inline]
#[target_feature(enable = "neon")]
fn with_sign(value: uint32x4_t, sign: uint32x4_t) -> uint32x4_t {
    vbslq_u32(broadcast_u32(F32_SIGN), sign, value)
}
