//! The small floats as values: a bit pattern and its number.

use crate::minifloat::{self, F32_INFINITY, F32_NAN, F32_QUIET, F32_SIGN};

macro_rules! small_floats {
    ($($(#[$doc:meta])* $name:ident($bits:ty): $decode:expr, $encode:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        #[repr(transparent)]
        pub struct $name(
            /// The bit pattern. Equality compares it, so a NaN equals itself.
            pub $bits,
        );

        impl $name {
            /// The value, exactly. A NaN comes out quiet.
            #[inline(always)]
            #[must_use]
            pub fn to_f32(self) -> f32 {
                f32::from_bits($decode(u32::from(self.0)))
            }

            /// The value rounded once, by the rule of the format.
            #[inline(always)]
            #[must_use]
            pub fn from_f32(value: f32) -> Self {
                Self::from_hub(value.to_bits())
            }

            /// From binary32 bits that are exact or rounded to odd (see [`crate::Element::to_hub_bits`]).
            #[inline(always)]
            pub(crate) fn from_hub(bits: u32) -> Self {
                #[allow(clippy::cast_possible_truncation, reason = "a code fits its bits")]
                let code = $encode(bits) as $bits;
                Self(code)
            }
        }
    )*};
}

small_floats! {
    /// IEEE binary16. To nearest, ties to even; past 65520 an infinity.
    F16(u16): |code| minifloat::F16.decode_to_f32_bits(code), |bits| minifloat::F16.encode_f32_bits(bits);

    /// bfloat16. To nearest, ties to even; past the largest number an infinity.
    Bf16(u16): decode_bf16, encode_bf16;

    /// DLFloat16, the device's SEN169_FP16.
    ///
    /// Exponent code 0 is an ordinary binade except that code 0 with fraction 0 is zero, so 2^-31
    /// is not representable. Rounding adds half a unit of the 9-bit fraction to the magnitude and
    /// truncates: nearest, ties away from zero. What lands below 2^-31 (1 + 1/512) is zero with
    /// its sign; what lands past 2^32 (1 + 510/512), an infinity and a NaN give the merged code
    /// (0x7FFF, or 0xFFFF with the sign), which is read as NaN.
    Dl16(u16): decode_dl16, encode_dl16;

    /// DLFloat16 as tensors of the card hold it: with infinities.
    ///
    /// As [`Dl16`], but what lands at 2^31 (1 + 510/512) or past it, an infinity too, gives the code of
    /// that number with its sign, and every number from there on is read as an infinity. The sum of two
    /// such numbers is still one of the format, so hardware that knows of no infinity adds masks to masks
    /// and gets no NaN. The merged code encodes NaN alone.
    Dl16Inf(u16): decode_dl16_inf, encode_dl16_inf;

    /// OCP E4M3. To nearest, ties to even; past the largest number 448, and for an infinity, that
    /// number with the sign: it saturates, as PyTorch 2.15 does. (`ml_dtypes` gives a NaN.)
    F8E4M3Fn(u8): |code| minifloat::F8E4M3FN.decode_to_f32_bits(code), |bits| minifloat::F8E4M3FN.encode_f32_bits(bits);

    /// OCP E5M2. To nearest, ties to even; from 61440 on an infinity.
    F8E5M2(u8): |code| minifloat::F8E5M2.decode_to_f32_bits(code), |bits| minifloat::F8E5M2.encode_f32_bits(bits);

    /// E5M2 with bias 16. To nearest, ties to even; from 61440 on, and for an infinity or a NaN,
    /// the one NaN 0x80. Minus zero, and what rounds to it, is zero.
    F8E5M2Fnuz(u8):
        |code| minifloat::F8E5M2FNUZ.decode_to_f32_bits(code), |bits| minifloat::F8E5M2FNUZ.encode_f32_bits(bits);
}

/// DL16 has 9 fraction bits, so 14 of a binary32 go.
pub(crate) const DL16_DROPPED: u32 = 14;
/// The binary32 bits of 2^-31: exponent code 0 of DL16.
pub(crate) const DL16_REBIAS: u32 = (127 - 31) << 23;
/// The merged code of NaN and the infinities.
pub(crate) const DL16_MERGED: u32 = 0x7fff;

/// The first magnitude that encodes an infinity in [`Dl16Inf`].
pub(crate) const DL16_INFINITE: u32 = 0x7dfe;

#[inline(always)]
fn decode_bf16(code: u32) -> u32 {
    let bits = code << 16;
    let quiet = if bits & !F32_SIGN > F32_INFINITY { F32_QUIET } else { 0 };
    bits | quiet
}

#[inline(always)]
fn encode_bf16(bits: u32) -> u32 {
    let even = (bits >> 16) & 1;
    let rounded = bits.wrapping_add(0x7fff + even);
    (if bits & !F32_SIGN > F32_INFINITY { bits | F32_QUIET } else { rounded }) >> 16
}

#[inline(always)]
fn decode_dl16(code: u32) -> u32 {
    let sign = (code << 16) & F32_SIGN;
    let magnitude = code & 0x7fff;
    let number = (magnitude << DL16_DROPPED) + DL16_REBIAS;
    let finite = if magnitude == 0 { 0 } else { number };
    sign | if magnitude == DL16_MERGED { F32_NAN } else { finite }
}

#[inline(always)]
fn encode_dl16(bits: u32) -> u32 {
    let sign = (bits >> 16) & 0x8000;
    let rounded = (bits & !F32_SIGN) + (1 << (DL16_DROPPED - 1));
    let code = (rounded.max(DL16_REBIAS) - DL16_REBIAS) >> DL16_DROPPED;
    sign | code.min(DL16_MERGED)
}

#[inline(always)]
fn decode_dl16_inf(code: u32) -> u32 {
    let magnitude = code & 0x7fff;
    if magnitude >= DL16_INFINITE && magnitude != DL16_MERGED {
        return ((code << 16) & F32_SIGN) | F32_INFINITY;
    }
    decode_dl16(code)
}

#[inline(always)]
fn encode_dl16_inf(bits: u32) -> u32 {
    let code = encode_dl16(bits);
    let magnitude = (code & 0x7fff).min(DL16_INFINITE);
    let nan = bits & !F32_SIGN > F32_INFINITY;
    (code & 0x8000) | if nan { DL16_MERGED } else { magnitude }
}
