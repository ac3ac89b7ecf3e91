//! Operations on binary32 numbers in registers.

use std::arch::x86_64::*;

/// 32 binary32 numbers, as bits.
pub(super) type Avx2Lanes = [__m256i; 4];

/// The same function of every vector. (`map` on arrays is compiled without AVX2 and may not be
/// inlined.)
macro_rules! each {
    ($lanes:expr, $function:expr) => {{
        let [a, b, c, d] = $lanes;
        let function = $function;
        [function(a), function(b), function(c), function(d)]
    }};
}

pub(super) use each;

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn broadcast_u32(value: u32) -> __m256i {
    _mm256_set1_epi32(value.cast_signed())
}

/// All bits of the binary32 numbers that are NaNs.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn mask_nans(bits: __m256i) -> __m256i {
    let value = _mm256_castsi256_ps(bits);
    _mm256_castps_si256(_mm256_cmp_ps::<_CMP_UNORD_Q>(value, value))
}

/// `other` where the mask has all bits, else `value`.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn blend_masked(value: __m256i, mask: __m256i, other: __m256i) -> __m256i {
    _mm256_blendv_epi8(value, other, mask)
}

/// A value with the bits of `sign` under `mask` added.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn with_sign_of(value: __m256i, sign: __m256i, mask: __m256i) -> __m256i {
    _mm256_or_si256(value, _mm256_and_si256(sign, mask))
}
