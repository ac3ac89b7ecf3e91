//! Two loops around a run of adjacent bytes.

use super::cell::{self, Lane, Plain, copy};
use super::job::ByteLoop;
#[cfg(target_arch = "x86_64")]
use super::joined;
#[cfg(target_arch = "aarch64")]
use super::joined_neon;
use super::short;
#[cfg(target_arch = "x86_64")]
use super::stream::LINE;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use zellige_isa::Isa;

/// Copies `bytes` at every step of `x` and, inside it, of `y`.
pub(super) type Rows =
    unsafe fn(src: *const u8, dst: *mut u8, bytes: usize, x: ByteLoop, y: ByteLoop);

/// Copies `bytes` at every start of a table, at every step of `x` and `y`.
pub(super) type Table = unsafe fn(
    src: *const u8,
    dst: *mut u8,
    bytes: usize,
    x: ByteLoop,
    y: ByteLoop,
    starts: &[(isize, isize)],
);

/// The fastest version for tables.
pub(super) fn select_table(bytes: usize, stream: bool) -> Table {
    #[cfg(target_arch = "x86_64")]
    if bytes.is_multiple_of(64) && Isa::best().has_avx512() {
        return if stream { table_avx512::<true> } else { table_avx512::<false> };
    }
    // Shorter runs: registers no wider than the run.
    let _ = bytes;
    if stream { table_body::<Plain, true> } else { table_body::<Plain, false> }
}

/// # Safety
/// As [`body`], at every start.
#[inline(always)]
unsafe fn table_body<L: Lane, const STREAM: bool>(
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
                        copy::<L, STREAM>(s.offset(*a), d.offset(*b), 16);
                    }
                } else {
                    for (a, b) in starts {
                        copy::<L, STREAM>(s.offset(*a), d.offset(*b), bytes);
                    }
                }
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn table_avx512<const STREAM: bool>(
    src: *const u8,
    dst: *mut u8,
    bytes: usize,
    x: ByteLoop,
    y: ByteLoop,
    starts: &[(isize, isize)],
) {
    // SAFETY: the caller's contract is that of `table_body`; the feature is enabled here.
    unsafe { table_body::<cell::x86::Avx512, STREAM>(src, dst, bytes, x, y, starts) };
}

/// The fastest version for this machine and rows of `bytes`.
pub(super) fn select(bytes: usize, stream: bool) -> Rows {
    if !stream && let Some(run) = short::select(bytes) {
        return run;
    }
    #[cfg(target_arch = "x86_64")]
    {
        if Isa::best().has_avx512() {
            return if stream { avx512::<true> } else { avx512::<false> };
        }
        if Isa::best().has_avx2() {
            return if stream { avx::<true> } else { avx::<false> };
        }
    }
    #[cfg(target_arch = "aarch64")]
    if Isa::best().has_neon() {
        return if stream {
            body::<cell::neon::Neon, true>
        } else {
            body::<cell::neon::Neon, false>
        };
    }
    if stream { body::<Plain, true> } else { body::<Plain, false> }
}

/// Whether streamed stores of pieces `step` bytes apart are fast only in bursts of several lines. Measured
/// on Zen 3: pieces of 128 bytes a power of two apart leave at a quarter of the speed of 512 bytes. On Zen 4,
/// which writes whole lines at once, they do where they are pages apart, and the bursts cost a little elsewhere.
pub(super) fn streams_by_bursts(step: isize) -> bool {
    #[cfg(target_arch = "x86_64")]
    return if Isa::best().has_avx512() {
        super::stream::is_amd() && step.unsigned_abs().is_multiple_of(PAGE)
    } else {
        Isa::best().has_avx2()
    };
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = step;
        false
    }
}

/// Bytes of a page.
#[cfg(target_arch = "x86_64")]
const PAGE: usize = 4096;

/// Rows that follow one another in a destination of broken lines, where the machine can join them.
pub(super) fn select_joined() -> Option<Rows> {
    #[cfg(target_arch = "x86_64")]
    {
        if Isa::best().has_avx512() {
            return Some(joined_avx512);
        }
        if Isa::best().has_avx2() {
            return Some(joined::avx2);
        }
    }
    #[cfg(target_arch = "aarch64")]
    if Isa::best().has_neon() {
        return Some(joined_neon::neon);
    }
    None
}

/// Whole lines go around the caches, also those that hold the end of one row and the beginning of the
/// next, which is put together from both. Only the first and the last line of the loop along which rows
/// follow one another are written in part.
///
/// # Safety
/// As [`body`]; rows are whole lines long, and follow one another in the destination along `x` or along
/// `y`, all of them equally far from the beginning of a line, and not 0.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn joined_avx512(src: *const u8, dst: *mut u8, bytes: usize, x: ByteLoop, y: ByteLoop) {
    use std::arch::x86_64::{
        __mmask64, _mm512_loadu_si512, _mm512_mask_loadu_epi8, _mm512_maskz_loadu_epi8,
        _mm512_stream_si512,
    };
    let along_x = x.dst == bytes.cast_signed();
    let off = dst.addr() % LINE;
    let head = LINE - off;
    let ends: __mmask64 = (1 << off) - 1;
    // SAFETY: offsets are those of the loops, which the caller vouches for. Of a joined line only the
    // bytes of the two rows are read: a mask hides the others. A prefetch may point anywhere.
    unsafe {
        for i in 0..x.n {
            for j in 0..y.n {
                let s = src.offset(i * x.src + j * y.src);
                let d = dst.offset(i * x.dst + j * y.dst);
                let next = s.wrapping_offset(y.src * 4);
                for at in (0..bytes.min(256)).step_by(LINE) {
                    cell::prefetch(next.wrapping_add(at));
                }
                let (step, last, back) =
                    if along_x { (i, x.n - 1, x.src) } else { (j, y.n - 1, y.src) };
                if step == 0 {
                    copy::<Plain, false>(s, d, head);
                } else {
                    let before = s.wrapping_offset(-back).wrapping_add(bytes - off);
                    let end = _mm512_maskz_loadu_epi8(ends, before.cast());
                    let line = _mm512_mask_loadu_epi8(end, !ends, s.wrapping_sub(off).cast());
                    _mm512_stream_si512(d.sub(off).cast(), line);
                }
                for at in (head..bytes - off).step_by(LINE) {
                    _mm512_stream_si512(d.add(at).cast(), _mm512_loadu_si512(s.add(at).cast()));
                }
                if step == last {
                    copy::<Plain, false>(s.add(bytes - off), d.add(bytes - off), off);
                }
            }
        }
    }
}

/// Lines ahead that are asked for while a row is copied.
const AHEAD: usize = 512;

/// # Safety
/// Every run of the two loops is readable at `src` and writable at `dst`, the two do not overlap,
/// and the machine has the instructions of `L`.
#[inline(always)]
unsafe fn body<L: Lane, const STREAM: bool>(
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
            // Rows that are read side by side are fetched by the hardware; others ask ahead.
            let skips = y.src.unsigned_abs() != bytes;
            for _ in 0..y.n {
                if STREAM {
                    let next =
                        if skips { s.wrapping_offset(y.src * 4) } else { s.wrapping_add(AHEAD) };
                    let mut at = 0;
                    while at < bytes && at < 256 {
                        cell::prefetch(next.wrapping_add(at));
                        at += 64;
                    }
                }
                copy::<L, STREAM>(s, d, bytes);
                s = s.wrapping_offset(y.src);
                d = d.wrapping_offset(y.dst);
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn avx512<const STREAM: bool>(
    src: *const u8,
    dst: *mut u8,
    bytes: usize,
    x: ByteLoop,
    y: ByteLoop,
) {
    // SAFETY: the caller's contract is that of `body`; the feature is enabled here.
    unsafe { body::<cell::x86::Avx512, STREAM>(src, dst, bytes, x, y) };
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx")]
unsafe fn avx<const STREAM: bool>(
    src: *const u8,
    dst: *mut u8,
    bytes: usize,
    x: ByteLoop,
    y: ByteLoop,
) {
    // SAFETY: the caller's contract is that of `body`; the feature is enabled here.
    unsafe { body::<cell::x86::Avx, STREAM>(src, dst, bytes, x, y) };
}
