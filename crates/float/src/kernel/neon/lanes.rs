//! Operations on binary32 numbers in registers.

use std::arch::aarch64::*;

/// 32 binary32 numbers, as bits.
pub(super) type NeonLanes = [uint32x4_t; 8];

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
