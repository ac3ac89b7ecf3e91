//! Two loops around a run of adjacent bytes.

use super::cell::{self, CopyLane, PortableLane, copy_bytes};
use super::job::ByteLoop;
#[cfg(target_arch = "x86_64")]
use super::joined;
#[cfg(target_arch = "aarch64")]
use super::joined_neon;
use super::short;
#[cfg(target_arch = "x86_64")]
use super::stream::LINE_BYTES;
#[cfg(target_arch = "x86_64")]
use crate::engine::tuning::PAGE_BYTES;
use crate::engine::tuning::{MAX_ROW_PREFETCH_BYTES, ROW_PREFETCH_BYTES, ROW_PREFETCH_STEPS};
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use zellige_isa::Isa;

/// Copies `bytes` at every step of `x` and, inside it, of `y`.
pub(super) type RowCopyKernel =
    unsafe fn(src: *const u8, dst: *mut u8, bytes: usize, x: ByteLoop, y: ByteLoop);

/// Copies `bytes` at every start of a table, at every step of `x` and `y`.
pub(super) type TableCopyKernel = unsafe fn(
    src: *const u8,
    dst: *mut u8,
    bytes: usize,
    x: ByteLoop,
    y: ByteLoop,
    starts: &[(isize, isize)],
);

/// The fastest kernel for tables.
pub(super) fn select_table_kernel(bytes: usize, stream: bool) -> TableCopyKernel {
    #[cfg(target_arch = "x86_64")]
    if bytes.is_multiple_of(64) && Isa::process_isa().has_avx512() {
        return if stream { copy_table_avx512::<true> } else { copy_table_avx512::<false> };
    }
    // Shorter runs: registers no wider than the run.
    let _ = bytes;
    if stream { copy_table::<PortableLane, true> } else { copy_table::<PortableLane, false> }
}

/// # Safety
/// As [`copy_rows`], at every start.
#[inline(always)]
unsafe fn copy_table<L: CopyLane, const STREAM: bool>(
    src: *const u8,
    dst: *mut u8,
    bytes: usize,
    x: ByteLoop,
    y: ByteLoop,
    starts: &[(isize, isize)],
) {
    // SAFETY: offsets are those of the loops and starts, which the caller vouches for.
    unsafe {
        for i in 0..x.n {
            for j in 0..y.n {
                let (s, d) = (src.offset(i * x.src + j * y.src), dst.offset(i * x.dst + j * y.dst));
                if bytes == 16 {
                    for (a, b) in starts {
                        copy_bytes::<L, STREAM>(s.offset(*a), d.offset(*b), 16);
                    }
                } else {
                    for (a, b) in starts {
                        copy_bytes::<L, STREAM>(s.offset(*a), d.offset(*b), bytes);
                    }
                }
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn copy_table_avx512<const STREAM: bool>(
    src: *const u8,
    dst: *mut u8,
    bytes: usize,
    x: ByteLoop,
    y: ByteLoop,
    starts: &[(isize, isize)],
) {
    // SAFETY: the caller's contract is that of `table_body`; the feature is enabled here.
    unsafe { copy_table::<cell::x86::Avx512, STREAM>(src, dst, bytes, x, y, starts) };
}

/// The fastest kernel for this machine and rows of `bytes`.
pub(super) fn select_row_kernel(bytes: usize, stream: bool) -> RowCopyKernel {
    // A run of a few registers has no lines to store past the caches, and its length decides the code.
    if !stream && let Some(run) = short::select_short_rows(bytes) {
        return run;
    }
    #[cfg(target_arch = "x86_64")]
    {
        if Isa::process_isa().has_avx512() {
            return if stream { copy_rows_avx512::<true> } else { copy_rows_avx512::<false> };
        }
        if Isa::process_isa().has_avx2() {
            return if stream { copy_rows_avx::<true> } else { copy_rows_avx::<false> };
        }
    }
    #[cfg(target_arch = "aarch64")]
    if Isa::process_isa().has_neon() {
        return if stream {
            copy_rows::<cell::neon::Neon, true>
        } else {
            copy_rows::<cell::neon::Neon, false>
        };
    }
    if stream { copy_rows::<PortableLane, true> } else { copy_rows::<PortableLane, false> }
}

/// Whether non-temporal stores of pieces `step` bytes apart are fast only in bursts of several lines.
pub(super) fn streams_by_bursts(step: isize) -> bool {
    // Measured on Zen 3: pieces of 128 bytes a power of two apart are written at a quarter of the speed of 512
    // bytes. On Zen 4, which writes whole lines at once, this is so where they are pages apart, and bursts cost
    // a little elsewhere. It is the memory side of a processor that is slow, and not its instruction set: a Zen 4
    // that is lowered to AVX2 moves patches of 64 bytes twice as fast without bursts, and Intel's were never
    // measured to need them.
    #[cfg(target_arch = "x86_64")]
    return super::stream::is_amd_processor()
        && (!Isa::detect_widest().has_avx512() || step.unsigned_abs().is_multiple_of(PAGE_BYTES));
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = step;
        false
    }
}

/// The kernel for rows that follow one another and do not begin on lines, where the machine can join them.
pub(super) fn select_joined_kernel() -> Option<RowCopyKernel> {
    #[cfg(target_arch = "x86_64")]
    {
        if Isa::process_isa().has_avx512() {
            return Some(copy_joined_avx512);
        }
        if Isa::process_isa().has_avx2() {
            return Some(joined::copy_joined_avx2);
        }
    }
    #[cfg(target_arch = "aarch64")]
    if Isa::process_isa().has_neon() {
        return Some(joined_neon::copy_joined_neon);
    }
    None
}

/// Stores every whole line past the caches, also those that hold the end of one row and the beginning of the
/// next, which are put together from both. Only the first and the last line of the loop along which rows
/// follow one another are written in part.
///
/// # Safety
/// As [`copy_rows`]; rows are whole lines long, and follow one another in the destination along `x` or along
/// `y`, all of them equally far from the beginning of a line, and not 0.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn copy_joined_avx512(src: *const u8, dst: *mut u8, bytes: usize, x: ByteLoop, y: ByteLoop) {
    use std::arch::x86_64::{
        __mmask64, _mm512_loadu_si512, _mm512_mask_loadu_epi8, _mm512_maskz_loadu_epi8,
        _mm512_stream_si512,
    };
    let along_x = x.dst == bytes.cast_signed();
    let off = dst.addr() % LINE_BYTES;
    let head = LINE_BYTES - off;
    let ends: __mmask64 = (1 << off) - 1;
    // SAFETY: offsets are those of the loops, which the caller vouches for. Of a joined line only the
    // bytes of the two rows are read: a mask hides the others. A prefetch may point anywhere.
    unsafe {
        for i in 0..x.n {
            for j in 0..y.n {
                let s = src.offset(i * x.src + j * y.src);
                let d = dst.offset(i * x.dst + j * y.dst);
                // The first lines of a row some steps ahead; the hardware sees the rest of it coming.
                let next = s.wrapping_offset(y.src * ROW_PREFETCH_STEPS);
                for at in (0..bytes.min(MAX_ROW_PREFETCH_BYTES)).step_by(LINE_BYTES) {
                    cell::prefetch_line(next.wrapping_add(at));
                }
                let (step, last, back) =
                    if along_x { (i, x.n - 1, x.src) } else { (j, y.n - 1, y.src) };
                if step == 0 {
                    copy_bytes::<PortableLane, false>(s, d, head);
                } else {
                    let before = s.wrapping_offset(-back).wrapping_add(bytes - off);
                    let end = _mm512_maskz_loadu_epi8(ends, before.cast());
                    let line = _mm512_mask_loadu_epi8(end, !ends, s.wrapping_sub(off).cast());
                    _mm512_stream_si512(d.sub(off).cast(), line);
                }
                for at in (head..bytes - off).step_by(LINE_BYTES) {
                    _mm512_stream_si512(d.add(at).cast(), _mm512_loadu_si512(s.add(at).cast()));
                }
                if step == last {
                    copy_bytes::<PortableLane, false>(s.add(bytes - off), d.add(bytes - off), off);
                }
            }
        }
    }
}

/// # Safety
/// Every run of the two loops is readable at `src` and writable at `dst`, the two do not overlap,
/// and the machine has the instructions of `L`.
#[inline(always)]
unsafe fn copy_rows<L: CopyLane, const STREAM: bool>(
    src: *const u8,
    dst: *mut u8,
    bytes: usize,
    x: ByteLoop,
    y: ByteLoop,
) {
    // SAFETY: offsets are those of the loops, which the caller vouches for; a prefetch may point
    // anywhere.
    unsafe {
        for i in 0..x.n {
            let (mut s, mut d) = (src.offset(i * x.src), dst.offset(i * x.dst));
            // The hardware prefetches rows that follow one another, so a short distance in front of it is enough.
            // Of others it does not see where the next one is.
            let skips = y.src.unsigned_abs() != bytes;
            for _ in 0..y.n {
                if STREAM {
                    let next = if skips {
                        s.wrapping_offset(y.src * ROW_PREFETCH_STEPS)
                    } else {
                        s.wrapping_add(ROW_PREFETCH_BYTES)
                    };
                    let mut at = 0;
                    while at < bytes && at < MAX_ROW_PREFETCH_BYTES {
                        cell::prefetch_line(next.wrapping_add(at));
                        at += 64;
                    }
                }
                copy_bytes::<L, STREAM>(s, d, bytes);
                s = s.wrapping_offset(y.src);
                d = d.wrapping_offset(y.dst);
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn copy_rows_avx512<const STREAM: bool>(
    src: *const u8,
    dst: *mut u8,
    bytes: usize,
    x: ByteLoop,
    y: ByteLoop,
) {
    // SAFETY: by the contract of this function, which enables the instructions.
    unsafe { copy_rows::<cell::x86::Avx512, STREAM>(src, dst, bytes, x, y) };
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx")]
unsafe fn copy_rows_avx<const STREAM: bool>(
    src: *const u8,
    dst: *mut u8,
    bytes: usize,
    x: ByteLoop,
    y: ByteLoop,
) {
    // SAFETY: by the contract of this function, which enables the instructions.
    unsafe { copy_rows::<cell::x86::Avx, STREAM>(src, dst, bytes, x, y) };
}
