//! One value at a time: what every conversion means.

use crate::format::Format;
use crate::hub::{f32_to_f64, f64_to_f32, f64_to_odd, i64_to_odd};
use crate::small::{Bf16, Dl16, Dl16Inf, F8E4M3Fn, F8E5M2, F8E5M2Fnuz, F16};

mod sealed {
    pub trait Sealed {}
}

/// A type whose bit patterns are those of a [`Format`].
///
/// `D::cast_from(s)` is the definition that the bulk kernels follow bit for bit. Its rules are those
/// of the [crate documentation](crate).
///
/// ```
/// use zellige_float::{Dl16, Element, F16};
/// assert_eq!(Dl16::cast_from(1.0_f32), Dl16(0x3e00));
/// assert_eq!(F16::cast_from(65520_i64).0, 0x7c00);
/// assert_eq!(i8::cast_from(-300.9_f64), -128);
/// assert_eq!(i8::cast_from(300_i32), 44);
/// ```
pub trait Element: Copy + sealed::Sealed + 'static {
    /// The format of the bit patterns.
    const FORMAT: Format;

    /// Binary32 bits: the value, or the value rounded to odd where 24 bits do not hold it.
    #[doc(hidden)]
    fn to_hub_bits(self) -> u32;

    /// The value as float32, rounded to nearest even.
    fn to_f32(self) -> f32;

    /// The value as float64, rounded to nearest even (only 64-bit integers need it).
    fn to_f64(self) -> f64;

    /// The value as a 64-bit integer: truncated toward zero and saturated; a NaN is zero.
    fn to_i64(self) -> i64;

    /// Whether the value differs from zero. A NaN does.
    fn is_nonzero(self) -> bool;

    /// The value of another format in this one.
    fn cast_from<S: Element>(value: S) -> Self;
}

#[allow(clippy::cast_possible_truncation, reason = "saturation is the rule")]
mod floats {
    use super::*;

    macro_rules! small {
        ($($name:ident: $format:ident, $nonzero:expr;)*) => {$(
            impl sealed::Sealed for $name {}
            impl Element for $name {
                const FORMAT: Format = Format::$format;
                #[inline(always)]
                fn to_hub_bits(self) -> u32 {
                    $name::to_f32(self).to_bits()
                }
                #[inline(always)]
                fn to_f32(self) -> f32 {
                    $name::to_f32(self)
                }
                #[inline(always)]
                fn to_f64(self) -> f64 {
                    f32_to_f64($name::to_f32(self))
                }
                #[inline(always)]
                fn to_i64(self) -> i64 {
                    $name::to_f32(self) as i64
                }
                #[inline(always)]
                fn is_nonzero(self) -> bool {
                    $nonzero(self.0)
                }
                #[inline(always)]
                fn cast_from<S: Element>(value: S) -> Self {
                    Self::from_hub(value.to_hub_bits())
                }
            }
        )*};
    }
    small! {
        F16: F16, |code: u16| code & 0x7fff != 0;
        Bf16: BF16, |code: u16| code & 0x7fff != 0;
        Dl16: DL16, |code: u16| code & 0x7fff != 0;
        Dl16Inf: DL16INF, |code: u16| code & 0x7fff != 0;
        F8E4M3Fn: F8E4M3FN, |code: u8| code & 0x7f != 0;
        F8E5M2: F8E5M2, |code: u8| code & 0x7f != 0;
        F8E5M2Fnuz: F8E5M2FNUZ, |code: u8| code != 0;
    }

    impl sealed::Sealed for f32 {}
    impl Element for f32 {
        const FORMAT: Format = Format::F32;
        #[inline(always)]
        fn to_hub_bits(self) -> u32 {
            self.to_bits()
        }
        #[inline(always)]
        fn to_f32(self) -> f32 {
            self
        }
        #[inline(always)]
        fn to_f64(self) -> f64 {
            f32_to_f64(self)
        }
        #[inline(always)]
        fn to_i64(self) -> i64 {
            self as i64
        }
        #[inline(always)]
        fn is_nonzero(self) -> bool {
            self.to_bits() << 1 != 0
        }
        #[inline(always)]
        fn cast_from<S: Element>(value: S) -> Self {
            value.to_f32()
        }
    }

    impl sealed::Sealed for f64 {}
    impl Element for f64 {
        const FORMAT: Format = Format::F64;
        #[inline(always)]
        fn to_hub_bits(self) -> u32 {
            f64_to_odd(self.to_bits())
        }
        #[inline(always)]
        fn to_f32(self) -> f32 {
            f64_to_f32(self)
        }
        #[inline(always)]
        fn to_f64(self) -> f64 {
            self
        }
        #[inline(always)]
        fn to_i64(self) -> i64 {
            self as i64
        }
        #[inline(always)]
        fn is_nonzero(self) -> bool {
            self.to_bits() << 1 != 0
        }
        #[inline(always)]
        fn cast_from<S: Element>(value: S) -> Self {
            value.to_f64()
        }
    }
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "wrapping, saturating and rounding are the rules"
)]
mod integers {
    use super::*;

    macro_rules! integers {
        ($($name:ident: $format:ident, $hub:expr;)*) => {$(
            impl sealed::Sealed for $name {}
            impl Element for $name {
                const FORMAT: Format = Format::$format;
                #[inline(always)]
                fn to_hub_bits(self) -> u32 {
                    $hub(self)
                }
                #[inline(always)]
                fn to_f32(self) -> f32 {
                    self as f32
                }
                #[inline(always)]
                fn to_f64(self) -> f64 {
                    self as f64
                }
                #[inline(always)]
                fn to_i64(self) -> i64 {
                    i64::from(self)
                }
                #[inline(always)]
                fn is_nonzero(self) -> bool {
                    self != 0
                }
                #[inline(always)]
                fn cast_from<S: Element>(value: S) -> Self {
                    if !S::FORMAT.is_float() {
                        value.to_i64() as $name
                    } else if S::FORMAT.byte_size() == 8 {
                        value.to_f64() as $name
                    } else {
                        value.to_f32() as $name
                    }
                }
            }
        )*};
    }
    integers! {
        i64: I64, i64_to_odd;
        i32: I32, |value: i32| f64_to_odd(f64::from(value).to_bits());
        u32: U32, |value: u32| f64_to_odd(f64::from(value).to_bits());
        i16: I16, |value: i16| f32::from(value).to_bits();
        i8: I8, |value: i8| f32::from(value).to_bits();
        u8: U8, |value: u8| f32::from(value).to_bits();
    }
}

/// A boolean of the host: zero is false, any other byte is true; conversions write 0 or 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Bool(
    /// The byte.
    pub u8,
);

impl sealed::Sealed for Bool {}
impl Element for Bool {
    const FORMAT: Format = Format::Bool;
    #[inline(always)]
    fn to_hub_bits(self) -> u32 {
        self.to_f32().to_bits()
    }
    #[inline(always)]
    fn to_f32(self) -> f32 {
        if self.0 == 0 { 0.0 } else { 1.0 }
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        if self.0 == 0 { 0.0 } else { 1.0 }
    }
    #[inline(always)]
    fn to_i64(self) -> i64 {
        i64::from(self.0 != 0)
    }
    #[inline(always)]
    fn is_nonzero(self) -> bool {
        self.0 != 0
    }
    #[inline(always)]
    fn cast_from<S: Element>(value: S) -> Self {
        Bool(u8::from(value.is_nonzero()))
    }
}
