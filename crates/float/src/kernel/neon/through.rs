//! Pairs that meet in binary32: whatever the source, 32 numbers in eight registers, then the
//! destination.

use std::arch::aarch64::*;

use super::reader::{self, NeonReader};
use super::writer::{self, NeonWriter};
use super::{KernelPair, NeonStep, step_kernels};
use crate::format::Format;

/// 32 binary32 numbers, as bits.
pub(super) type NeonLanes = [uint32x4_t; 8];

/// The step that reads one format and writes another.
pub(super) struct NeonThroughF32<R, W>(R, W);

impl<R: NeonReader, W: NeonWriter> NeonStep for NeonThroughF32<R, W> {
    const IN: usize = R::SIZE;
    const OUT: usize = W::SIZE;

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn convert_step<const STREAM: bool>(src: *const u8, dst: *mut u8) {
        // SAFETY: the caller's promise is passed on.
        unsafe { W::write_lanes::<STREAM>(dst, R::read_lanes(src)) }
    }
}

/// The pairs that go this way: sources that are exact as binary32.
pub(super) fn select_through_kernels(src: Format, dst: Format) -> Option<KernelPair> {
    match src {
        Format::F32 => select_to_float::<reader::NeonF32Reader>(dst),
        Format::F16 => select_to_float::<reader::F16>(dst),
        Format::BF16 => select_to_float::<reader::Bf16>(dst),
        Format::DL16 => select_to_float::<reader::Dl16>(dst),
        Format::DL16INF => select_to_float::<reader::Dl16Inf>(dst),
        Format::F8E4M3FN => select_to_float::<reader::E4m3>(dst),
        Format::F8E5M2 => select_to_float::<reader::E5m2>(dst),
        Format::F8E5M2FNUZ => select_to_float::<reader::Fnuz>(dst),
        Format::I16 => select_to_float::<reader::I16>(dst),
        Format::I8 => select_to_float::<reader::I8>(dst),
        Format::U8 => select_to_float::<reader::U8>(dst),
        Format::Bool => select_to_float::<reader::Bool>(dst),
        Format::F64 | Format::I64 | Format::I32 | Format::U32 => None,
    }
}

fn select_to_float<R: NeonReader>(dst: Format) -> Option<KernelPair> {
    Some(match dst {
        Format::F32 => step_kernels::<NeonThroughF32<R, writer::NeonF32Writer>>(),
        Format::F16 => step_kernels::<NeonThroughF32<R, writer::F16>>(),
        Format::BF16 => step_kernels::<NeonThroughF32<R, writer::Bf16>>(),
        Format::DL16 => step_kernels::<NeonThroughF32<R, writer::Dl16>>(),
        Format::DL16INF => step_kernels::<NeonThroughF32<R, writer::Dl16Inf>>(),
        Format::F8E4M3FN => step_kernels::<NeonThroughF32<R, writer::E4m3>>(),
        Format::F8E5M2 => step_kernels::<NeonThroughF32<R, writer::E5m2>>(),
        Format::F8E5M2FNUZ => step_kernels::<NeonThroughF32<R, writer::Fnuz>>(),
        _ => return None,
    })
}

#[inline]
#[target_feature(enable = "neon")]
pub(super) fn broadcast_u32(value: u32) -> uint32x4_t {
    vdupq_n_u32(value)
}

/// All bits of the binary32 numbers that are NaNs.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn mask_nans(bits: uint32x4_t) -> uint32x4_t {
    let value = vreinterpretq_f32_u32(bits);
    vmvnq_u32(vceqq_f32(value, value))
}

/// `other` where the mask has all bits, else `value`.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn blend_masked(value: uint32x4_t, mask: uint32x4_t, other: uint32x4_t) -> uint32x4_t {
    vbslq_u32(mask, other, value)
}
