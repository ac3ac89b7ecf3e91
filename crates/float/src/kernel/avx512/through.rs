//! Pairs that meet in binary32: whatever the source, 32 numbers in two registers, then the
//! destination.

use std::arch::x86_64::*;

use super::reader::{self, Reader};
use super::writer::{self, Writer};
use super::{Pair, Step, pair};
use crate::format::Format;

/// 32 binary32 numbers, as bits.
pub(super) type Lanes = [__m512i; 2];

/// The step that reads one format and writes another.
pub(super) struct Through<R, W>(R, W);

impl<R: Reader, W: Writer> Step for Through<R, W> {
    const IN: usize = R::SIZE;
    const OUT: usize = W::SIZE;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn step<const STREAM: bool>(src: *const u8, dst: *mut u8) {
        // SAFETY: the caller's promise is passed on.
        unsafe { W::write::<STREAM>(dst, R::read(src)) }
    }
}

/// The pairs that can go this way.
pub(super) fn select(src: Format, dst: Format) -> Option<Pair> {
    match src {
        Format::F32 => from_float::<reader::F32>(dst),
        Format::F16 => from_float::<reader::F16>(dst),
        Format::BF16 => from_float::<reader::Bf16>(dst),
        Format::DL16 => from_float::<reader::Dl16>(dst),
        Format::DL16INF => from_float::<reader::Dl16Inf>(dst),
        Format::F8E4M3FN => from_float::<reader::E4m3>(dst),
        Format::F8E5M2 => from_float::<reader::E5m2>(dst),
        Format::F8E5M2FNUZ => from_float::<reader::Fnuz>(dst),
        Format::I16 => from_exact::<reader::I16>(dst),
        Format::I8 => from_exact::<reader::I8>(dst),
        Format::U8 => from_exact::<reader::U8>(dst),
        Format::Bool => from_exact::<reader::Bool>(dst),
        Format::F64 => to_small::<reader::F64>(dst),
        Format::I64 => to_small::<reader::I64>(dst),
        Format::I32 => to_small::<reader::I32>(dst),
        Format::U32 => to_small::<reader::U32>(dst),
    }
}

/// Floats that are exact as binary32. Integers are truncated from the same numbers, and saturate.
fn from_float<R: Reader>(dst: Format) -> Option<Pair> {
    Some(match dst {
        Format::I64 => pair::<Through<R, writer::I64>>(),
        Format::I32 => pair::<Through<R, writer::I32>>(),
        Format::U32 => pair::<Through<R, writer::U32>>(),
        Format::I16 => pair::<Through<R, writer::I16>>(),
        Format::I8 => pair::<Through<R, writer::I8>>(),
        Format::U8 => pair::<Through<R, writer::U8>>(),
        _ => return from_exact::<R>(dst),
    })
}

/// Any numbers that are exact as binary32.
fn from_exact<R: Reader>(dst: Format) -> Option<Pair> {
    Some(match dst {
        Format::F32 => pair::<Through<R, writer::F32>>(),
        _ => return to_small::<R>(dst),
    })
}

/// Any numbers, if need be rounded to odd.
fn to_small<R: Reader>(dst: Format) -> Option<Pair> {
    Some(match dst {
        Format::F16 => pair::<Through<R, writer::F16>>(),
        Format::BF16 => pair::<Through<R, writer::Bf16>>(),
        Format::DL16 => pair::<Through<R, writer::Dl16>>(),
        Format::DL16INF => pair::<Through<R, writer::Dl16Inf>>(),
        Format::F8E4M3FN => pair::<Through<R, writer::E4m3>>(),
        Format::F8E5M2 => pair::<Through<R, writer::E5m2>>(),
        Format::F8E5M2FNUZ => pair::<Through<R, writer::Fnuz>>(),
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
pub(super) fn set(value: u32) -> __m512i {
    _mm512_set1_epi32(value.cast_signed())
}

/// Which binary32 numbers are NaNs.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn is_nan(bits: __m512i) -> u16 {
    let value = _mm512_castsi512_ps(bits);
    _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(value, value)
}

/// A value with the bits of `sign` under `mask` added: `value | (sign & mask)`.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn with_sign_of(value: __m512i, sign: __m512i, mask: __m512i) -> __m512i {
    _mm512_ternarylogic_epi32::<0b1111_1000>(value, sign, mask)
}
