//! Rows of one element over and over: the source does not move along the loop that is adjacent in the
//! destination.

use super::cell::{CopyLane, PortableLane};
use super::job::ByteLoop;
use super::stream::LINE_BYTES;
use crate::engine::tuning::MIN_ALIGNED_SPLAT_BYTES;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use zellige_isa::Isa;

/// Fills `bytes` with the element there, at every step of `x` and, inside it, of `y`.
pub(super) type SplatKernel =
    unsafe fn(src: *const u8, dst: *mut u8, bytes: usize, x: ByteLoop, y: ByteLoop);

/// The fastest kernel for elements of `width` bytes in rows of `bytes`, at least
/// [`MIN_SPLAT_ROW_BYTES`](super::tuning::MIN_SPLAT_ROW_BYTES); with `stream`, whole lines are stored past the caches.
pub(super) fn select_splat_kernel(width: usize, bytes: usize, stream: bool) -> SplatKernel {
    macro_rules! widths {
        ($f:ident) => {
            match (width, stream) {
                (1, false) => $f::<1, false>,
                (2, false) => $f::<2, false>,
                (4, false) => $f::<4, false>,
                (8, false) => $f::<8, false>,
                (_, false) => $f::<16, false>,
                (1, true) => $f::<1, true>,
                (2, true) => $f::<2, true>,
                (4, true) => $f::<4, true>,
                (8, true) => $f::<8, true>,
                (_, true) => $f::<16, true>,
            }
        };
    }
    #[cfg(target_arch = "x86_64")]
    {
        if bytes >= 64 && Isa::process_isa().has_avx512() {
            return widths!(splat_rows_avx512);
        }
        if bytes >= 32 && Isa::process_isa().has_avx2() {
            return widths!(splat_rows_avx);
        }
    }
    #[cfg(target_arch = "aarch64")]
    if bytes >= 32 && Isa::process_isa().has_neon() {
        return widths!(splat_rows_neon);
    }
    let _ = bytes;
    widths!(splat_rows_portable)
}

/// # Safety
/// Every element of the two loops is readable at `src` and `bytes` from every step writable at `dst`,
/// `bytes` is a multiple of `E` and at least a register, and the machine has the instructions of `L`.
#[inline(always)]
unsafe fn splat_rows<L: CopyLane, const E: usize, const STREAM: bool>(
    src: *const u8,
    dst: *mut u8,
    bytes: usize,
    x: ByteLoop,
    y: ByteLoop,
) {
    // SAFETY: offsets are those of the loops, which the caller vouches for. The last register ends
    // with the row: it is moved back by a multiple of `E`, and the same bytes are written again.
    unsafe {
        for i in 0..x.n {
            for j in 0..y.n {
                let s = src.offset(i * x.src + j * y.src);
                let d = dst.offset(i * x.dst + j * y.dst);
                let value = L::splat_element(s.cast::<[u8; E]>().read_unaligned());
                // Stores that straddle lines cost twice; long rows have one at the front, at most.
                let skip = d.addr().wrapping_neg() % L::BYTES;
                let mut at = 0;
                if bytes >= MIN_ALIGNED_SPLAT_BYTES && skip.is_multiple_of(E) {
                    value.store_lane(d);
                    at = skip;
                }
                if STREAM && d.addr().wrapping_add(at).is_multiple_of(L::BYTES) {
                    // Up to the first whole line by usual stores: a non-temporal store of half a line is a
                    // transfer of its own.
                    while at + L::BYTES < bytes
                        && !d.addr().wrapping_add(at).is_multiple_of(LINE_BYTES)
                    {
                        value.store_lane(d.add(at));
                        at += L::BYTES;
                    }
                    while at + LINE_BYTES <= bytes {
                        for part in (at..at + LINE_BYTES).step_by(L::BYTES) {
                            value.store_non_temporal(d.add(part));
                        }
                        at += LINE_BYTES;
                    }
                }
                while at + 4 * L::BYTES <= bytes {
                    for part in (at..at + 4 * L::BYTES).step_by(L::BYTES) {
                        value.store_lane(d.add(part));
                    }
                    at += 4 * L::BYTES;
                }
                while at + L::BYTES < bytes {
                    value.store_lane(d.add(at));
                    at += L::BYTES;
                }
                if at < bytes {
                    value.store_lane(d.add(bytes - L::BYTES));
                }
            }
        }
    }
}

/// # Safety
/// As [`splat_rows`].
unsafe fn splat_rows_portable<const E: usize, const STREAM: bool>(
    src: *const u8,
    dst: *mut u8,
    bytes: usize,
    x: ByteLoop,
    y: ByteLoop,
) {
    // SAFETY: by the contract of this function.
    unsafe { splat_rows::<PortableLane, E, STREAM>(src, dst, bytes, x, y) };
}

/// # Safety
/// As [`splat_rows`].
#[cfg(target_arch = "aarch64")]
unsafe fn splat_rows_neon<const E: usize, const STREAM: bool>(
    src: *const u8,
    dst: *mut u8,
    bytes: usize,
    x: ByteLoop,
    y: ByteLoop,
) {
    // SAFETY: by the contract of this function.
    unsafe { splat_rows::<super::cell::neon::Neon, E, STREAM>(src, dst, bytes, x, y) };
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx")]
unsafe fn splat_rows_avx<const E: usize, const STREAM: bool>(
    src: *const u8,
    dst: *mut u8,
    bytes: usize,
    x: ByteLoop,
    y: ByteLoop,
) {
    // SAFETY: by the contract of this function, which enables the instructions.
    unsafe { splat_rows::<super::cell::x86::Avx, E, STREAM>(src, dst, bytes, x, y) };
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn splat_rows_avx512<const E: usize, const STREAM: bool>(
    src: *const u8,
    dst: *mut u8,
    bytes: usize,
    x: ByteLoop,
    y: ByteLoop,
) {
    // SAFETY: by the contract of this function, which enables the instructions.
    unsafe { splat_rows::<super::cell::x86::Avx512, E, STREAM>(src, dst, bytes, x, y) };
}
