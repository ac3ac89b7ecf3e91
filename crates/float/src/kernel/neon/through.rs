//! Pairs that meet in binary32: whatever the source, 32 numbers in eight registers, then the
//! destination.

use std::arch::aarch64::*;

use super::reader::{self, Reader};
use super::writer::{self, Writer};
use super::{Pair, Step, pair};
use crate::format::Format;

/// 32 binary32 numbers, as bits.
pub(super) type Lanes = [uint32x4_t; 8];

/// The step that reads one format and writes another.
pub(super) struct Through<R, W>(R, W);

impl<R: Reader, W: Writer> Step for Through<R, W> {
    const IN: usize = R::SIZE;
    const OUT: usize = W::SIZE;

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn step<const STREAM: bool>(src: *const u8, dst: *mut u8) {
        // SAFETY: the caller's promise is passed on.
        unsafe { W::write::<STREAM>(dst, R::read(src)) }
    }
}

/// The pairs that go this way: sources that are exact as binary32.
pub(super) fn select(src: Format, dst: Format) -> Option<Pair> {
    match src {
        Format::F32 => to_float::<reader::F32>(dst),
        Format::F16 => to_float::<reader::F16>(dst),
        Format::BF16 => to_float::<reader::Bf16>(dst),
        Format::DL16 => to_float::<reader::Dl16>(dst),
        Format::DL16INF => to_float::<reader::Dl16Inf>(dst),
        Format::F8E4M3FN => to_float::<reader::E4m3>(dst),
        Format::F8E5M2 => to_float::<reader::E5m2>(dst),
        Format::F8E5M2FNUZ => to_float::<reader::Fnuz>(dst),
        Format::I16 => to_float::<reader::I16>(dst),
        Format::I8 => to_float::<reader::I8>(dst),
        Format::U8 => to_float::<reader::U8>(dst),
        Format::Bool => to_float::<reader::Bool>(dst),
        Format::F64 | Format::I64 | Format::I32 | Format::U32 => None,
    }
}

fn to_float<R: Reader>(dst: Format) -> Option<Pair> {
    Some(match dst {
        Format::F32 => pair::<Through<R, writer::F32>>(),
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

#[inline]
#[target_feature(enable = "neon")]
pub(super) fn set(value: u32) -> uint32x4_t {
    vdupq_n_u32(value)
}

/// All bits of the binary32 numbers that are NaNs.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn is_nan(bits: uint32x4_t) -> uint32x4_t {
    let value = vreinterpretq_f32_u32(bits);
    vmvnq_u32(vceqq_f32(value, value))
}

/// `other` where the mask has all bits, else `value`.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn instead(value: uint32x4_t, mask: uint32x4_t, other: uint32x4_t) -> uint32x4_t {
    vbslq_u32(mask, other, value)
}
