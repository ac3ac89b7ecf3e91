//! Pairs that meet in binary32: whatever the source, 32 numbers in four registers, then the
//! destination.

use std::arch::x86_64::*;

use super::reader::{self, Avx2Reader};
use super::writer::{self, Avx2Writer};
use super::{Avx2Step, KernelPair, step_kernels};
use crate::format::Format;

/// 32 binary32 numbers, as bits.
pub(super) type Avx2Lanes = [__m256i; 4];

/// The step that reads one format and writes another.
pub(super) struct Avx2ThroughF32<R, W>(R, W);

impl<R: Avx2Reader, W: Avx2Writer> Avx2Step for Avx2ThroughF32<R, W> {
    const IN: usize = R::SIZE;
    const OUT: usize = W::SIZE;

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn convert_step<const STREAM: bool>(src: *const u8, dst: *mut u8) {
        // SAFETY: the caller's promise is passed on.
        unsafe { W::write_lanes::<STREAM>(dst, R::read_lanes(src)) }
    }
}

/// The pairs that go this way: sources that are exact as binary32.
pub(super) fn select_through_kernels(src: Format, dst: Format) -> Option<KernelPair> {
    match src {
        Format::F32 => select_to_float::<reader::Avx2F32Reader>(dst),
        Format::F16 => select_to_float::<reader::Avx2F16Reader>(dst),
        Format::BF16 => select_to_float::<reader::Avx2Bf16Reader>(dst),
        Format::DL16 => select_to_float::<reader::Avx2Dl16Reader>(dst),
        Format::DL16INF => select_to_float::<reader::Avx2Dl16InfReader>(dst),
        Format::F8E4M3FN => select_to_float::<reader::Avx2E4m3Reader>(dst),
        Format::F8E5M2 => select_to_float::<reader::Avx2E5m2Reader>(dst),
        Format::F8E5M2FNUZ => select_to_float::<reader::Avx2FnuzReader>(dst),
        Format::I16 => select_to_float::<reader::Avx2I16Reader>(dst),
        Format::I8 => select_to_float::<reader::Avx2I8Reader>(dst),
        Format::U8 => select_to_float::<reader::Avx2U8Reader>(dst),
        Format::Bool => select_to_float::<reader::Avx2BoolReader>(dst),
        Format::F64 | Format::I64 | Format::I32 | Format::U32 => None,
    }
}

fn select_to_float<R: Avx2Reader>(dst: Format) -> Option<KernelPair> {
    Some(match dst {
        Format::F32 => step_kernels::<Avx2ThroughF32<R, writer::Avx2F32Writer>>(),
        Format::F16 => step_kernels::<Avx2ThroughF32<R, writer::Avx2F16Writer>>(),
        Format::BF16 => step_kernels::<Avx2ThroughF32<R, writer::Avx2Bf16Writer>>(),
        Format::DL16 => step_kernels::<Avx2ThroughF32<R, writer::Avx2Dl16Writer>>(),
        Format::DL16INF => step_kernels::<Avx2ThroughF32<R, writer::Avx2Dl16InfWriter>>(),
        Format::F8E4M3FN => step_kernels::<Avx2ThroughF32<R, writer::Avx2E4m3Writer>>(),
        Format::F8E5M2 => step_kernels::<Avx2ThroughF32<R, writer::Avx2E5m2Writer>>(),
        Format::F8E5M2FNUZ => step_kernels::<Avx2ThroughF32<R, writer::Avx2FnuzWriter>>(),
        _ => return None,
    })
}

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
