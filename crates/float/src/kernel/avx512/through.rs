//! Pairs that meet in binary32: whatever the source, 32 numbers in two registers, then the
//! destination.

use std::arch::x86_64::*;

use super::reader::{self, Avx512Reader};
use super::writer::{self, Avx512Writer};
use super::{Avx512Step, KernelPair, step_kernels};
use crate::format::Format;

/// 32 binary32 numbers, as bits.
pub(super) type Avx512Lanes = [__m512i; 2];

/// The step that reads one format and writes another.
pub(super) struct Avx512ThroughF32<R, W>(R, W);

impl<R: Avx512Reader, W: Avx512Writer> Avx512Step for Avx512ThroughF32<R, W> {
    const IN: usize = R::SIZE;
    const OUT: usize = W::SIZE;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn convert_step<const STREAM: bool>(src: *const u8, dst: *mut u8) {
        // SAFETY: the caller's promise is passed on.
        unsafe { W::write_lanes::<STREAM>(dst, R::read_lanes(src)) }
    }
}

/// The pairs that can go this way.
pub(super) fn select_through_kernels(src: Format, dst: Format) -> Option<KernelPair> {
    match src {
        Format::F32 => select_from_float::<reader::Avx512F32Reader>(dst),
        Format::F16 => select_from_float::<reader::Avx512F16Reader>(dst),
        Format::BF16 => select_from_float::<reader::Avx512Bf16Reader>(dst),
        Format::DL16 => select_from_float::<reader::Avx512Dl16Reader>(dst),
        Format::DL16INF => select_from_float::<reader::Avx512Dl16InfReader>(dst),
        Format::F8E4M3FN => select_from_float::<reader::Avx512E4m3Reader>(dst),
        Format::F8E5M2 => select_from_float::<reader::Avx512E5m2Reader>(dst),
        Format::F8E5M2FNUZ => select_from_float::<reader::Avx512FnuzReader>(dst),
        Format::I16 => select_from_exact::<reader::Avx512I16Reader>(dst),
        Format::I8 => select_from_exact::<reader::Avx512I8Reader>(dst),
        Format::U8 => select_from_exact::<reader::Avx512U8Reader>(dst),
        Format::Bool => select_from_exact::<reader::Avx512BoolReader>(dst),
        Format::F64 => select_to_small::<reader::Avx512F64Reader>(dst),
        Format::I64 => select_to_small::<reader::Avx512I64Reader>(dst),
        Format::I32 => select_to_small::<reader::Avx512I32Reader>(dst),
        Format::U32 => select_to_small::<reader::Avx512U32Reader>(dst),
    }
}

/// Floats that are exact as binary32. Integers are truncated from the same numbers, and saturate.
fn select_from_float<R: Avx512Reader>(dst: Format) -> Option<KernelPair> {
    Some(match dst {
        Format::I64 => step_kernels::<Avx512ThroughF32<R, writer::Avx512I64Writer>>(),
        Format::I32 => step_kernels::<Avx512ThroughF32<R, writer::Avx512I32Writer>>(),
        Format::U32 => step_kernels::<Avx512ThroughF32<R, writer::Avx512U32Writer>>(),
        Format::I16 => step_kernels::<Avx512ThroughF32<R, writer::Avx512I16Writer>>(),
        Format::I8 => step_kernels::<Avx512ThroughF32<R, writer::Avx512I8Writer>>(),
        Format::U8 => step_kernels::<Avx512ThroughF32<R, writer::Avx512U8Writer>>(),
        _ => return select_from_exact::<R>(dst),
    })
}

/// Any numbers that are exact as binary32.
fn select_from_exact<R: Avx512Reader>(dst: Format) -> Option<KernelPair> {
    Some(match dst {
        Format::F32 => step_kernels::<Avx512ThroughF32<R, writer::Avx512F32Writer>>(),
        _ => return select_to_small::<R>(dst),
    })
}

/// Any numbers, if need be rounded to odd.
fn select_to_small<R: Avx512Reader>(dst: Format) -> Option<KernelPair> {
    Some(match dst {
        Format::F16 => step_kernels::<Avx512ThroughF32<R, writer::Avx512F16Writer>>(),
        Format::BF16 => step_kernels::<Avx512ThroughF32<R, writer::Avx512Bf16Writer>>(),
        Format::DL16 => step_kernels::<Avx512ThroughF32<R, writer::Avx512Dl16Writer>>(),
        Format::DL16INF => step_kernels::<Avx512ThroughF32<R, writer::Avx512Dl16InfWriter>>(),
        Format::F8E4M3FN => step_kernels::<Avx512ThroughF32<R, writer::Avx512E4m3Writer>>(),
        Format::F8E5M2 => step_kernels::<Avx512ThroughF32<R, writer::Avx512E5m2Writer>>(),
        Format::F8E5M2FNUZ => step_kernels::<Avx512ThroughF32<R, writer::Avx512FnuzWriter>>(),
        _ => return None,
    })
}

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
