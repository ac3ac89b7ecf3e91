//! Copying one run of adjacent bytes with the widest registers of the machine.

use super::stream::LINE_BYTES;
use crate::engine::tuning::{
    COPY_PREFETCH_BYTES, MIN_ALIGNED_RUN_BYTES, MIN_BROKEN_STREAM_BYTES, MIN_SYSTEM_COPY_BYTES,
};

/// A register and how it touches memory.
pub(super) trait CopyLane: Copy {
    /// Its width in bytes.
    const BYTES: usize;
    /// # Safety
    /// `p` is readable for `BYTES`, and the machine has the instructions.
    unsafe fn load_lane(p: *const u8) -> Self;
    /// # Safety
    /// `p` is writable for `BYTES`, and the machine has the instructions.
    unsafe fn store_lane(self, p: *mut u8);
    /// An element over and over; its width divides `BYTES`.
    /// # Safety
    /// The machine has the instructions.
    #[inline(always)]
    unsafe fn splat_element<const E: usize>(element: [u8; E]) -> Self {
        let mut all = [0u8; 64];
        for part in all.chunks_exact_mut(E) {
            part.copy_from_slice(&element);
        }
        // SAFETY: no register is wider than this.
        unsafe { Self::load_lane(all.as_ptr()) }
    }
    /// A non-temporal store: past the caches.
    /// # Safety
    /// As [`CopyLane::store_lane`], and `p` is aligned to `BYTES`.
    unsafe fn store_non_temporal(self, p: *mut u8);
}

/// Prefetches a cache line that will be read soon.
#[inline(always)]
pub(super) fn prefetch_line(p: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch of any address is harmless.
    unsafe {
        // Into the second level cache: what is prefetched here is a tile away, and a tile is larger than the
        // first level.
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T1>(p.cast());
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: a prefetch of any address is harmless, and it writes nothing.
    unsafe {
        std::arch::asm!(
            "prfm pldl2keep, [{}]",
            in(reg) p,
            options(nostack, preserves_flags, readonly)
        );
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = p;
}

/// Makes non-temporal stores visible to other threads before what this thread stores next. Only x86-64 orders
/// them less than usual stores.
pub(super) fn fence_stores() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: `sfence` is part of the x86-64 baseline and touches no memory of its own.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

/// Copies `bytes` from `s` to `d`; with `STREAM`, whole lines are stored past the caches. Broken lines are not:
/// half a line costs a transfer of its own, and drives the rest of it out of the caches.
///
/// # Safety
/// `s` is readable and `d` writable for `bytes`, they do not overlap, and the machine has the
/// instructions of `L`.
#[inline(always)]
pub(super) unsafe fn copy_bytes<L: CopyLane, const STREAM: bool>(
    s: *const u8,
    d: *mut u8,
    bytes: usize,
) {
    // SAFETY: every access below stays inside `[0, bytes)` of both pointers.
    unsafe {
        let mut at = 0;
        if STREAM {
            let off = d.addr() % LINE_BYTES;
            if off != 0 {
                at = (LINE_BYTES - off).min(bytes);
                copy_short_run(s, d, at);
            }
            while at + LINE_BYTES <= bytes {
                if L::BYTES == 32 && bytes >= MIN_BROKEN_STREAM_BYTES {
                    prefetch_line(s.wrapping_add(at + COPY_PREFETCH_BYTES));
                }
                for part in (at..at + LINE_BYTES).step_by(L::BYTES) {
                    L::load_lane(s.add(part)).store_non_temporal(d.add(part));
                }
                at += LINE_BYTES;
            }
            if at < bytes {
                copy_short_run(s.add(at), d.add(at), bytes - at);
            }
            return;
        }
        if bytes >= MIN_SYSTEM_COPY_BYTES {
            s.copy_to_nonoverlapping(d, bytes);
            return;
        }
        if bytes >= MIN_ALIGNED_RUN_BYTES {
            // Stores that straddle lines cost twice; a long run has one at the front and one at the end.
            L::load_lane(s).store_lane(d);
            at = d.addr().wrapping_neg() % L::BYTES;
            // Four loads before four stores: where they miss the caches, they wait together.
            while at + 4 * L::BYTES <= bytes {
                let v = [0, 1, 2, 3].map(|k| L::load_lane(s.add(at + k * L::BYTES)));
                for (k, v) in v.into_iter().enumerate() {
                    v.store_lane(d.add(at + k * L::BYTES));
                }
                at += 4 * L::BYTES;
            }
        }
        while at + L::BYTES <= bytes {
            L::load_lane(s.add(at)).store_lane(d.add(at));
            at += L::BYTES;
        }
        if at < bytes {
            if bytes >= L::BYTES {
                // The last register overlaps what is already written, with the same bytes.
                L::load_lane(s.add(bytes - L::BYTES)).store_lane(d.add(bytes - L::BYTES));
            } else {
                copy_short_run(s, d, bytes);
            }
        }
    }
}

/// Fewer than 64 bytes, by halves that may overlap.
///
/// # Safety
/// As [`copy_bytes`].
#[inline(always)]
unsafe fn copy_short_run(s: *const u8, d: *mut u8, bytes: usize) {
    macro_rules! halves {
        ($t:ty) => {
            if bytes >= size_of::<$t>() {
                let last = bytes - size_of::<$t>();
                // SAFETY: both halves are inside `[0, bytes)`; the accesses are unaligned.
                unsafe {
                    let (x, y) = (
                        s.cast::<$t>().read_unaligned(),
                        s.add(last).cast::<$t>().read_unaligned(),
                    );
                    d.cast::<$t>().write_unaligned(x);
                    d.add(last).cast::<$t>().write_unaligned(y);
                }
                return;
            }
        };
    }
    if bytes >= 32 {
        let last = bytes - 32;
        // SAFETY: both stretches of 32 bytes are inside `[0, bytes)`, and runs here are shorter than
        // 64, so that together they cover it.
        unsafe {
            let head = (PortableLane::load_lane(s), PortableLane::load_lane(s.add(16)));
            let tail =
                (PortableLane::load_lane(s.add(last)), PortableLane::load_lane(s.add(last + 16)));
            head.0.store_lane(d);
            head.1.store_lane(d.add(16));
            tail.0.store_lane(d.add(last));
            tail.1.store_lane(d.add(last + 16));
        }
        return;
    }
    // From the widest down: two overlapping words cover any length from their own to twice that.
    halves!(u128);
    halves!(u64);
    halves!(u32);
    halves!(u16);
    halves!(u8);
}

/// Sixteen bytes, everywhere.
#[derive(Clone, Copy)]
pub(super) struct PortableLane(u128);

impl CopyLane for PortableLane {
    const BYTES: usize = 16;
    #[inline(always)]
    unsafe fn load_lane(p: *const u8) -> PortableLane {
        // SAFETY: readable by the contract; the access is unaligned.
        PortableLane(unsafe { p.cast::<u128>().read_unaligned() })
    }
    #[inline(always)]
    unsafe fn store_lane(self, p: *mut u8) {
        // SAFETY: writable by the contract; the access is unaligned.
        unsafe { p.cast::<u128>().write_unaligned(self.0) };
    }
    #[inline(always)]
    unsafe fn store_non_temporal(self, p: *mut u8) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: SSE2 is part of the x86-64 baseline; `p` is aligned and writable by the contract.
        unsafe {
            use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
            _mm_stream_si128(p.cast::<__m128i>(), _mm_loadu_si128((&raw const self.0).cast()));
        }
        #[cfg(not(target_arch = "x86_64"))]
        // SAFETY: writable by the contract.
        unsafe {
            self.store_lane(p);
        }
    }
}

#[cfg(target_arch = "aarch64")]
pub(super) mod neon;

#[cfg(target_arch = "x86_64")]
pub(super) mod x86 {
    //! Wider registers, where the machine has them.
    use super::CopyLane;
    use std::arch::x86_64::*;

    /// 32 bytes: AVX.
    #[derive(Clone, Copy)]
    pub(in super::super) struct Avx(__m256i);

    impl CopyLane for Avx {
        const BYTES: usize = 32;
        #[inline(always)]
        unsafe fn load_lane(p: *const u8) -> Avx {
            // SAFETY: by the contract of `CopyLane`.
            Avx(unsafe { _mm256_loadu_si256(p.cast()) })
        }
        #[inline(always)]
        unsafe fn store_lane(self, p: *mut u8) {
            // SAFETY: by the contract of `CopyLane`.
            unsafe { _mm256_storeu_si256(p.cast(), self.0) };
        }
        #[inline(always)]
        unsafe fn splat_element<const E: usize>(element: [u8; E]) -> Avx {
            // SAFETY: by the contract of `CopyLane`; what is read of the element are its `E` bytes.
            unsafe {
                let e = element.as_ptr();
                Avx(match E {
                    1 => _mm256_set1_epi8(e.cast::<i8>().read_unaligned()),
                    2 => _mm256_set1_epi16(e.cast::<i16>().read_unaligned()),
                    4 => _mm256_set1_epi32(e.cast::<i32>().read_unaligned()),
                    8 => _mm256_set1_epi64x(e.cast::<i64>().read_unaligned()),
                    _ => _mm256_castpd_si256(_mm256_broadcast_pd(
                        &e.cast::<__m128d>().read_unaligned(),
                    )),
                })
            }
        }
        #[inline(always)]
        unsafe fn store_non_temporal(self, p: *mut u8) {
            // SAFETY: by the contract of `CopyLane`, `p` is aligned.
            unsafe { _mm256_stream_si256(p.cast(), self.0) };
        }
    }

    /// 64 bytes: AVX-512.
    #[derive(Clone, Copy)]
    pub(in super::super) struct Avx512(__m512i);

    impl CopyLane for Avx512 {
        const BYTES: usize = 64;
        #[inline(always)]
        unsafe fn load_lane(p: *const u8) -> Avx512 {
            // SAFETY: by the contract of `CopyLane`.
            Avx512(unsafe { _mm512_loadu_si512(p.cast()) })
        }
        #[inline(always)]
        unsafe fn store_lane(self, p: *mut u8) {
            // SAFETY: by the contract of `CopyLane`.
            unsafe { _mm512_storeu_si512(p.cast(), self.0) };
        }
        #[inline(always)]
        unsafe fn splat_element<const E: usize>(element: [u8; E]) -> Avx512 {
            // SAFETY: by the contract of `CopyLane`; what is read of the element are its `E` bytes.
            unsafe {
                let e = element.as_ptr();
                Avx512(match E {
                    1 => _mm512_set1_epi8(e.cast::<i8>().read_unaligned()),
                    2 => _mm512_set1_epi16(e.cast::<i16>().read_unaligned()),
                    4 => _mm512_set1_epi32(e.cast::<i32>().read_unaligned()),
                    8 => _mm512_set1_epi64(e.cast::<i64>().read_unaligned()),
                    _ => _mm512_broadcast_i32x4(_mm_loadu_si128(e.cast())),
                })
            }
        }
        #[inline(always)]
        unsafe fn store_non_temporal(self, p: *mut u8) {
            // SAFETY: by the contract of `CopyLane`, `p` is aligned.
            unsafe { _mm512_stream_si512(p.cast(), self.0) };
        }
    }
}
