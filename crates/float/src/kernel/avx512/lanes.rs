//! Operations on binary32 numbers in registers.

use std::arch::x86_64::*;

/// 32 binary32 numbers, as bits.
pub(super) type Avx512Lanes = [__m512i; 2];

/// The same function of both vectors. (`map` on arrays is compiled without AVX-512 and may not be
/// inlined.)
macro_rules! both {
    ($lanes:expr, $function:expr) => {{
        let [low, high] = $lanes;
        let function = $function;
        [function(low), function(high)]
    }};
}

pub(super) use both;

#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn broadcast_u32(value: u32) -> __m512i {
    _mm512_set1_epi32(value.cast_signed())
}

/// Which binary32 numbers are NaNs.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn mask_nans(bits: __m512i) -> u16 {
    let value = _mm512_castsi512_ps(bits);
    _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(value, value)
}

/// A value with the bits of `sign` under `mask` added: `value | (sign & mask)`.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn with_sign_of(value: __m512i, sign: __m512i, mask: __m512i) -> __m512i {
    _mm512_ternarylogic_epi32::<0b1111_1000>(value, sign, mask)
}
