//! When stores are non-temporal.
//!
//! A non-temporal store writes a line to memory without a place for it in the caches. It spares the read of the
//! line that a usual store begins with, and what the line would drive out. It costs where the caches would have
//! held the line until its next use, and far more where the line is not written whole: memory then gets its
//! parts one by one (Intel 64 and IA-32 Optimization Reference Manual, "Non-temporal Stores"; AMD's guides for
//! their families say the same of write combining).

#[cfg(target_arch = "x86_64")]
use crate::engine::tuning::LAST_LEVEL_QUARTERS;
use crate::engine::tuning::{MIN_BROKEN_STREAM_BYTES, MIN_STREAMED_MOVE_BYTES};
use std::sync::OnceLock;

/// Bytes of a cache line.
pub(super) const LINE_BYTES: usize = 64;

/// Whether a move that reads and writes so many bytes is more than the caches hold.
pub(super) fn exceeds_caches(read: usize, written: usize) -> bool {
    static FROM: OnceLock<usize> = OnceLock::new();
    read.saturating_add(written)
        >= *FROM.get_or_init(|| last_level_threshold().unwrap_or(MIN_STREAMED_MOVE_BYTES))
}

/// The part of the last level cache that a move may fill, on processors where that is known to pay.
#[cfg(target_arch = "x86_64")]
fn last_level_threshold() -> Option<usize> {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    // The last level cache of an AMD processor answers one core as fast as the core can ask. On Intel's one core
    // was measured to stream faster than its share of that cache is filled, so the default holds there.
    if !is_amd_processor() {
        return None;
    }
    if __cpuid(0x8000_0000).eax < 0x8000_001d {
        return None;
    }
    // CPUID function 8000_001D lists one cache in each call, ending with type 0 (AMD64 Architecture Programmer's
    // Manual, volume 3, appendix E): level in bits 5 to 7 of EAX, ways, partitions and line in EBX, sets in ECX.
    let caches = (0..8).map(|i| __cpuid_count(0x8000_001d, i)).take_while(|c| c.eax & 0x1f != 0);
    let third = caches.into_iter().find(|c| (c.eax >> 5) & 7 == 3)?;
    let field = |word: u32, low: u32, bits: u32| ((word >> low) & ((1 << bits) - 1)) as usize + 1;
    let ways = field(third.ebx, 22, 10) * field(third.ebx, 12, 10);
    let bytes = ways * field(third.ebx, 0, 12) * (third.ecx as usize + 1);
    Some(bytes / 4 * LAST_LEVEL_QUARTERS).filter(|b| *b >= MIN_STREAMED_MOVE_BYTES)
}

/// Whether AMD made the processor.
#[cfg(target_arch = "x86_64")]
pub(super) fn is_amd_processor() -> bool {
    static AMD: OnceLock<bool> = OnceLock::new();
    *AMD.get_or_init(|| {
        let vendor = std::arch::x86_64::__cpuid(0);
        [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes).concat() == b"AuthenticAMD"
    })
}

#[cfg(not(target_arch = "x86_64"))]
fn last_level_threshold() -> Option<usize> {
    None
}

/// Where the rows of a job are written by non-temporal stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamRule {
    /// Nowhere: the caches hold the move, or most lines would be written in parts.
    Never,
    /// Where the destination begins on a line: then every row is whole lines.
    Aligned,
    /// Anywhere.
    Always,
}

impl StreamRule {
    /// For rows of `bytes` at addresses that are sums of multiples of `steps`.
    pub(super) fn for_rows(
        asked: bool,
        bytes: usize,
        mut steps: impl Iterator<Item = isize>,
    ) -> StreamRule {
        if !asked {
            StreamRule::Never
        } else if bytes >= MIN_BROKEN_STREAM_BYTES {
            // Two of its lines may be broken, which are few of so many.
            StreamRule::Always
        } else if bytes.is_multiple_of(LINE_BYTES)
            && steps.all(|s| s.unsigned_abs().is_multiple_of(LINE_BYTES))
        {
            // Every row begins on a line if the first one does, which only the buffer can tell.
            StreamRule::Aligned
        } else {
            StreamRule::Never
        }
    }
}
