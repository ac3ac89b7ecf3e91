//! Two registers of NEON as one of 32 bytes.

use super::CopyLane;
use std::arch::aarch64::*;

/// 32 bytes: what one instruction stores with the hint that the caches need not keep it.
#[derive(Clone, Copy)]
pub(in super::super) struct Neon(pub(in super::super) uint8x16_t, pub(in super::super) uint8x16_t);

impl CopyLane for Neon {
    const BYTES: usize = 32;
    #[inline(always)]
    unsafe fn load_lane(p: *const u8) -> Neon {
        // SAFETY: by the contract of `CopyLane`.
        unsafe { Neon(vld1q_u8(p), vld1q_u8(p.add(16))) }
    }
    #[inline(always)]
    unsafe fn store_lane(self, p: *mut u8) {
        // SAFETY: by the contract of `CopyLane`.
        unsafe {
            vst1q_u8(p, self.0);
            vst1q_u8(p.add(16), self.1);
        }
    }
    /// A store of two registers with the hint that they are not read again soon. It is ordered as every
    /// other store is, so it needs no fence of its own.
    #[inline(always)]
    unsafe fn store_non_temporal(self, p: *mut u8) {
        // SAFETY: by the contract of `CopyLane`; the instruction writes these 32 bytes and nothing else.
        unsafe {
            std::arch::asm!(
                "stnp {low:q}, {high:q}, [{p}]",
                low = in(vreg) self.0,
                high = in(vreg) self.1,
                p = in(reg) p,
                options(nostack, preserves_flags)
            );
        }
    }
}
