//! Small binary floating-point formats, described by a few numbers.
//!
//! Both directions work on binary32 bits, branch-free, so that a loop over them becomes SIMD code
//! of whatever width the machine has. No step depends on the value of a NaN or on arithmetic with
//! subnormal operands, so flush-to-zero modes of the host change nothing.

/// What the codes past the largest finite number mean.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum SpecialCodes {
    /// Infinity, then NaNs, as in IEEE 754.
    Ieee,
    /// All ones is NaN; there is no infinity, and what is too large becomes the largest number.
    AllOnesNan,
    /// The code of minus zero is the only NaN; there is no infinity.
    MinusZeroNan,
}

/// A format with subnormals and at most 10 fraction bits.
#[derive(Clone, Copy)]
pub(crate) struct MinifloatShape {
    /// The position of the sign: exponent and fraction bits together.
    pub(crate) sign_at: u32,
    pub(crate) fraction: u32,
    pub(crate) bias: u32,
    /// The code of the largest finite number. What is past it overflows to the next code, or
    /// saturates to this one ([`SpecialCodes::AllOnesNan`]).
    pub(crate) max: u32,
    pub(crate) specials: SpecialCodes,
}

pub(crate) const F16: MinifloatShape = MinifloatShape {
    sign_at: 15,
    fraction: 10,
    bias: 15,
    max: 0x7bff,
    specials: SpecialCodes::Ieee,
};
pub(crate) const F8E4M3FN: MinifloatShape = MinifloatShape {
    sign_at: 7,
    fraction: 3,
    bias: 7,
    max: 0x7e,
    specials: SpecialCodes::AllOnesNan,
};
pub(crate) const F8E5M2: MinifloatShape =
    MinifloatShape { sign_at: 7, fraction: 2, bias: 15, max: 0x7b, specials: SpecialCodes::Ieee };
pub(crate) const F8E5M2FNUZ: MinifloatShape = MinifloatShape {
    sign_at: 7,
    fraction: 2,
    bias: 16,
    max: 0x7f,
    specials: SpecialCodes::MinusZeroNan,
};

pub(crate) const F32_SIGN: u32 = 0x8000_0000;
pub(crate) const F32_INFINITY: u32 = 0x7f80_0000;
/// The bit that is set in a quiet NaN and not in a signalling one.
pub(crate) const F32_QUIET: u32 = 0x0040_0000;
pub(crate) const F32_NAN: u32 = F32_INFINITY | F32_QUIET;

impl MinifloatShape {
    /// Fraction bits of a binary32 that do not fit.
    pub(crate) const fn dropped_bits(self) -> u32 {
        23 - self.fraction
    }

    /// What the exponent code of a binary32 has more, in place.
    pub(crate) const fn exponent_rebias(self) -> u32 {
        (127 - self.bias) << 23
    }

    /// The binary32 bits of the smallest normal number.
    pub(crate) const fn min_normal_bits(self) -> u32 {
        self.exponent_rebias() + (1 << 23)
    }

    /// The binary32 bits of a power of two past every number that rounds to a finite one.
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    pub(crate) const fn overflow_bits(self) -> u32 {
        self.exponent_rebias() + (((self.max >> self.fraction) + 2) << 23)
    }

    /// The binary32 bits of the distance between subnormals.
    pub(crate) const fn subnormal_unit_bits(self) -> u32 {
        (127 + 1 - self.bias - self.fraction) << 23
    }

    /// A power of two whose last place is the distance between subnormals: adding it to a smaller
    /// number rounds that number to a multiple of the distance.
    pub(crate) const fn rounding_magic_bits(self) -> u32 {
        (127 + 24 - self.bias - self.fraction) << 23
    }

    /// The bits of a code below its sign.
    pub(crate) const fn magnitude_mask(self) -> u32 {
        (1 << self.sign_at) - 1
    }

    /// The value of a code as binary32 bits: always exact; a NaN comes out quiet with its sign and
    /// its payload in the leading bits.
    #[inline(always)]
    pub(crate) fn decode_to_f32_bits(self, code: u32) -> u32 {
        let sign = (code << (31 - self.sign_at)) & F32_SIGN;
        let magnitude = code & self.magnitude_mask();
        let wide = magnitude << self.dropped_bits();
        let normal = wide + self.exponent_rebias();
        #[allow(clippy::cast_precision_loss, reason = "at most 15 bits")]
        let subnormal = (magnitude as f32 * f32::from_bits(self.subnormal_unit_bits())).to_bits();
        let finite = if magnitude < 1 << self.fraction { subnormal } else { normal };
        match self.specials {
            SpecialCodes::Ieee => {
                let special = F32_INFINITY | wide;
                let quiet = if magnitude > self.max + 1 { F32_QUIET } else { 0 };
                sign | if magnitude > self.max { special | quiet } else { finite }
            }
            SpecialCodes::AllOnesNan => sign | if magnitude > self.max { F32_NAN } else { finite },
            SpecialCodes::MinusZeroNan => {
                if code == 1 << self.sign_at {
                    F32_NAN
                } else {
                    sign | finite
                }
            }
        }
    }

    /// The code nearest to the value of binary32 bits, ties to the even code; past half a unit
    /// beyond the largest finite number comes the overflow code (infinity or NaN), or that number
    /// itself where the format saturates.
    #[inline(always)]
    pub(crate) fn encode_f32_bits(self, bits: u32) -> u32 {
        let sign = (bits & F32_SIGN) >> (31 - self.sign_at);
        let magnitude = bits & !F32_SIGN;
        let even = (magnitude >> self.dropped_bits()) & 1;
        let rounded = magnitude + ((1 << (self.dropped_bits() - 1)) - 1) + even;
        let normal = rounded.wrapping_sub(self.exponent_rebias()) >> self.dropped_bits();
        // Only selected where the sum is a small number: a NaN may pass through, unused.
        let subnormal = (f32::from_bits(magnitude) + f32::from_bits(self.rounding_magic_bits()))
            .to_bits()
            .wrapping_sub(self.rounding_magic_bits());
        let code = if magnitude < self.min_normal_bits() { subnormal } else { normal };
        let code = code.min(self.max + 1);
        match self.specials {
            SpecialCodes::Ieee => {
                let payload = (magnitude >> self.dropped_bits()) & ((1 << self.fraction) - 1);
                let nan = (self.max + 1) | (1 << (self.fraction - 1)) | payload;
                sign | if magnitude > F32_INFINITY { nan } else { code }
            }
            SpecialCodes::AllOnesNan => {
                let nan = magnitude > F32_INFINITY;
                sign | if nan { self.max + 1 } else { code.min(self.max) }
            }
            SpecialCodes::MinusZeroNan => {
                if code == 0 || code > self.max {
                    code
                } else {
                    sign | code
                }
            }
        }
    }
}
