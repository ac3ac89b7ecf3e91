//! Pairs of 16-bit floats that stay in 16-bit elements.
//!
//! Between 16-bit floats most numbers are normal on both sides, and then the exponent needs an
//! addition and the fraction a shift. A step that meets another kind (a subnormal on either side)
//! goes through binary32 as a whole. Formulas see magnitudes, without the sign bit, which is restored afterwards.

use std::marker::PhantomData;

use super::KernelPair;
use super::vector::{ConvertStep, ReadFormat, ThroughF32, VectorIsa, WriteFormat, step_kernels};
use crate::element::Element;
use crate::format::Format;
use crate::small::{Bf16, Dl16, Dl16Inf, F16};

/// The pairs of this file.
pub(super) fn select_direct_kernels<I: VectorIsa>(src: Format, dst: Format) -> Option<KernelPair> {
    Some(match (src, dst) {
        (Format::F16, Format::DL16) => step_kernels::<I, DirectStep<I, F16ToDl16>>(),
        (Format::F16, Format::DL16INF) => step_kernels::<I, DirectStep<I, F16ToDl16Inf>>(),
        // What is past 2^16 is an infinity either way.
        (Format::DL16 | Format::DL16INF, Format::F16) => {
            step_kernels::<I, DirectStep<I, Dl16ToF16>>()
        }
        (Format::BF16, Format::DL16) => step_kernels::<I, DirectStep<I, Bf16ToDl16>>(),
        (Format::DL16, Format::BF16) => step_kernels::<I, DirectStep<I, Dl16ToBf16>>(),
        (Format::BF16, Format::DL16INF) => step_kernels::<I, DirectStep<I, Bf16ToDl16Inf>>(),
        (Format::DL16INF, Format::BF16) => step_kernels::<I, DirectStep<I, Dl16InfToBf16>>(),
        (Format::F16, Format::BF16) => step_kernels::<I, DirectStep<I, F16ToBf16>>(),
        (Format::BF16, Format::F16) => step_kernels::<I, DirectStep<I, Bf16ToF16>>(),
        _ => return None,
    })
}

/// The encoding of infinity in DL16INF.
const DL16INF_INFINITY: u16 = 0x7dfe;

/// A conversion between two 16-bit floats on magnitudes.
trait DirectFormula<I: VectorIsa> {
    /// The format that is read.
    type Source: Element;
    /// The format that is written.
    type Destination: Element;

    /// The magnitudes that the formula does not cover; none where it covers all.
    ///
    /// # Safety
    /// The machine has the instructions.
    unsafe fn find_rare(magnitude: I::Words) -> Option<I::WordMask>;

    /// The codes of magnitudes.
    ///
    /// # Safety
    /// The machine has the instructions.
    unsafe fn convert_magnitudes(magnitude: I::Words) -> I::Words;
}

/// A step by a formula.
struct DirectStep<I, F>(PhantomData<(I, F)>);

impl<I, F> ConvertStep for DirectStep<I, F>
where
    F: DirectFormula<I>,
    I: VectorIsa + ReadFormat<F::Source> + WriteFormat<F::Destination>,
{
    const IN: usize = 2;
    const OUT: usize = 2;

    #[inline(always)]
    unsafe fn convert_step<const STREAM: bool>(src: *const u8, dst: *mut u8) {
        // SAFETY: the caller's promise is passed on.
        unsafe {
            let bits = I::load_words(src);
            let magnitude = I::and_words(bits, I::splat_word(0x7fff));
            // One test for the whole step: a branch per element would cost more than the rare way through binary32.
            if let Some(rare) = F::find_rare(magnitude)
                && I::is_any(rare)
            {
                type Rare<I, S, D> = ThroughF32<I, S, D>;
                return I::run_rare_step::<Rare<I, F::Source, F::Destination>, STREAM>(src, dst);
            }
            let sign = I::and_words(bits, I::splat_word(0x8000));
            let code = F::convert_magnitudes(magnitude);
            I::store_words::<STREAM>(dst, I::or_words(code, sign));
        }
    }
}

/// Formulas on magnitudes: which ones they do not cover, and their codes.
macro_rules! formulas {
    ($($(#[$doc:meta])* $name:ident, $source:ident -> $destination:ident: |$isa:ident, $magnitude:ident|
        rare $rare:block, code $code:block)*) => {$(
        $(#[$doc])*
        struct $name;

        impl<$isa: VectorIsa> DirectFormula<$isa> for $name {
            type Source = $source;
            type Destination = $destination;

            #[inline(always)]
            #[allow(unused_variables, reason = "some formulas cover every magnitude")]
            #[allow(unused_unsafe, reason = "as above")]
            unsafe fn find_rare($magnitude: $isa::Words) -> Option<$isa::WordMask> {
                // SAFETY: the caller's promise is passed on.
                unsafe { $rare }
            }

            #[inline(always)]
            unsafe fn convert_magnitudes($magnitude: $isa::Words) -> $isa::Words {
                // SAFETY: the caller's promise is passed on.
                unsafe { $code }
            }
        }
    )*};
}

formulas! {
    /// One fraction bit goes, ties away; the exponent gains 16.
    F16ToDl16, F16 -> Dl16: |I, magnitude| rare {
        Some(I::within(magnitude, 1, 1 << 10))
    }, code {
        let special = I::at_least(magnitude, 0x7c00);
        I::select_words(special, I::splat_word(0x7fff), round_f16_to_dl16::<I>(magnitude))
    }

    /// The same, and an infinity gets its encoding.
    F16ToDl16Inf, F16 -> Dl16Inf: |I, magnitude| rare {
        Some(I::within(magnitude, 1, 1 << 10))
    }, code {
        let number = round_f16_to_dl16::<I>(magnitude);
        let infinite = I::equal_to(magnitude, 0x7c00);
        let number = I::select_words(infinite, I::splat_word(DL16INF_INFINITY), number);
        I::select_words(I::at_least(magnitude, 0x7c01), I::splat_word(0x7fff), number)
    }

    /// The exponent loses 16, exactly; from 2^16 on it is an infinity.
    Dl16ToF16, Dl16 -> F16: |I, magnitude| rare {
        Some(I::within(magnitude, 1, 17 << 9))
    }, code {
        let number = I::subtract_saturating(magnitude, I::splat_word(16 << 9));
        let number = I::min_words(I::shift_left::<1>(number), I::splat_word(0x7c00));
        I::select_words(I::equal_to(magnitude, 0x7fff), I::splat_word(0x7e00), number)
    }

    /// The fraction fits; from 2^-31 down it is zero, from 2^33 on the merged code.
    Bf16ToDl16, Bf16 -> Dl16: |I, magnitude| rare {
        None
    }, code {
        let low = I::subtract_saturating(magnitude, I::splat_word(96 << 7));
        let past = I::at_least(low, 64 << 7);
        I::select_words(past, I::splat_word(0x7fff), I::shift_left::<2>(low))
    }

    /// The same, and what is past 2^31 (1 + 509/512) gets the encoding of infinity.
    Bf16ToDl16Inf, Bf16 -> Dl16Inf: |I, magnitude| rare {
        None
    }, code {
        let low = I::subtract_saturating(magnitude, I::splat_word(96 << 7));
        // Before the shift, which would lose the upper bits of larger ones.
        let low = I::min_words(low, I::splat_word(64 << 7));
        let number = I::min_words(I::shift_left::<2>(low), I::splat_word(DL16INF_INFINITY));
        I::select_words(I::at_least(magnitude, 0x7f81), I::splat_word(0x7fff), number)
    }

    /// As below, with infinities.
    Dl16InfToBf16, Dl16Inf -> Bf16: |I, magnitude| rare {
        None
    }, code {
        let infinite = I::at_least(magnitude, DL16INF_INFINITY);
        let number = round_dl16_to_bf16::<I>(magnitude);
        let number = I::select_words(infinite, I::splat_word(0x7f80), number);
        I::select_words(I::equal_to(magnitude, 0x7fff), I::splat_word(0x7fc0), number)
    }

    /// Two fraction bits go, ties to even; every exponent is a normal one.
    Dl16ToBf16, Dl16 -> Bf16: |I, magnitude| rare {
        None
    }, code {
        let number = round_dl16_to_bf16::<I>(magnitude);
        I::select_words(I::equal_to(magnitude, 0x7fff), I::splat_word(0x7fc0), number)
    }

    /// Three fraction bits go, ties to even; the exponent gains 112. Infinities and NaNs are rare.
    F16ToBf16, F16 -> Bf16: |I, magnitude| rare {
        let special = I::at_least(magnitude, 0x7c00);
        Some(I::either(special, I::within(magnitude, 1, 1 << 10)))
    }, code {
        let even = I::and_words(I::shift_right::<3>(magnitude), I::splat_word(1));
        let rounded = I::add_words(I::add_words(magnitude, I::splat_word(3)), even);
        let number = I::add_words(I::shift_right::<3>(rounded), I::splat_word(112 << 7));
        I::keep_zero(magnitude, number)
    }

    /// The exponent loses 112, exactly; below 2^-25 all is zero. What overflows is rare.
    Bf16ToF16, Bf16 -> F16: |I, magnitude| rare {
        let past = I::at_least(magnitude, 143 << 7);
        Some(I::either(past, I::within(magnitude, 102 << 7, 113 << 7)))
    }, code {
        I::shift_left::<3>(I::subtract_saturating(magnitude, I::splat_word(112 << 7)))
    }
}

/// Rounded to DL16, as if there were neither subnormals nor specials.
///
/// # Safety
/// The machine has the instructions.
#[inline(always)]
unsafe fn round_f16_to_dl16<I: VectorIsa>(magnitude: I::Words) -> I::Words {
    // SAFETY: the caller's promise is passed on.
    unsafe {
        let rounded = I::halve_rounding_up(magnitude);
        I::keep_zero(magnitude, I::add_words(rounded, I::splat_word(16 << 9)))
    }
}

/// Rounded to bfloat16, as if there were no specials.
///
/// # Safety
/// The machine has the instructions.
#[inline(always)]
unsafe fn round_dl16_to_bf16<I: VectorIsa>(magnitude: I::Words) -> I::Words {
    // SAFETY: the caller's promise is passed on.
    unsafe {
        let even = I::and_words(I::shift_right::<2>(magnitude), I::splat_word(1));
        let rounded = I::add_words(I::add_words(magnitude, I::splat_word(1)), even);
        let number = I::add_words(I::shift_right::<2>(rounded), I::splat_word(96 << 7));
        I::keep_zero(magnitude, number)
    }
}
