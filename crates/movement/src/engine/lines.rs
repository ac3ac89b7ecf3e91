//! Tables whose short runs make up whole lines of the destination, such as those of a swizzle.
//!
//! A non-temporal store is worth it only where its line is written whole, and at once. The runs of a line are
//! known: they follow one another in the table, so a line is put together from all of them. Lines that follow
//! one another are written along the inner loop before those of the next group, so that both sides see long
//! stretches.

use super::cell::{CopyLane, PortableLane, prefetch_line};
use super::job::ByteLoop;
use super::rows::TableCopyKernel;
use super::stream::LINE_BYTES;
use crate::engine::tuning::TABLE_PREFETCH_BYTES;
#[cfg(target_arch = "x86_64")]
use zellige_isa::Isa;

/// The kernel for runs of `bytes` that are parts of whole lines, where `bytes` are a few registers.
pub(super) fn select_line_table(bytes: usize) -> Option<TableCopyKernel> {
    #[cfg(target_arch = "x86_64")]
    if bytes == x86::PIECE_BYTES {
        if Isa::process_isa().has_avx512() {
            return Some(x86::avx512);
        }
        if Isa::process_isa().has_avx2() {
            return Some(x86::avx2);
        }
    }
    // Without wider registers a line is written by four stores one behind the other, which the processor
    // combines.
    match bytes {
        16 => Some(copy_line_table::<1>),
        32 => Some(copy_line_table::<2>),
        _ => None,
    }
}

/// Runs of `N` registers.
///
/// # Safety
/// Every run of the loops and starts is readable at `src` and writable at `dst`, the two do not overlap,
/// and addresses of the destination are multiples of 16.
unsafe fn copy_line_table<const N: usize>(
    src: *const u8,
    dst: *mut u8,
    bytes: usize,
    x: ByteLoop,
    y: ByteLoop,
    starts: &[(isize, isize)],
) {
    debug_assert_eq!(bytes, N * PortableLane::BYTES);
    let follows = |a: &(isize, isize), b: &(isize, isize)| b.1 == a.1 + bytes.cast_signed();
    // SAFETY: offsets are those of the loops and starts, which the caller vouches for.
    unsafe {
        for i in 0..x.n {
            for group in starts.chunk_by(follows) {
                for j in 0..y.n {
                    let s = src.offset(i * x.src + j * y.src);
                    let d = dst.offset(i * x.dst + j * y.dst);
                    let soon = s.wrapping_offset(group[0].0).wrapping_add(TABLE_PREFETCH_BYTES);
                    for at in (0..group.len() * bytes).step_by(LINE_BYTES) {
                        prefetch_line(soon.wrapping_add(at));
                    }
                    for (a, b) in group {
                        let (s, d) = (s.offset(*a), d.offset(*b));
                        for k in 0..N {
                            PortableLane::load_lane(s.add(k * 16))
                                .store_non_temporal(d.add(k * 16));
                        }
                    }
                }
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    //! Lines of four runs each, put together in registers: fewer stores, and no half of a line.
    use super::{ByteLoop, LINE_BYTES, TABLE_PREFETCH_BYTES, prefetch_line};
    use std::arch::x86_64::*;

    /// Bytes of a run.
    pub(super) const PIECE_BYTES: usize = 16;

    macro_rules! table {
        ($(#[$doc:meta])* $name:ident, $features:literal, |$lane:ident, $to:ident| $put:block) => {
            $(#[$doc])*
            ///
            /// # Safety
            /// As [`super::copy_line_table`]; every four runs, in order, are a line of the destination.
            #[target_feature(enable = $features)]
            pub(super) unsafe fn $name(
                src: *const u8,
                dst: *mut u8,
                bytes: usize,
                x: ByteLoop,
                y: ByteLoop,
                starts: &[(isize, isize)],
            ) {
                debug_assert_eq!(bytes, PIECE_BYTES);
                let follows = |a: &(isize, isize), b: &(isize, isize)| b.1 == a.1 + 16;
                // SAFETY: offsets are those of the loops and starts, which the caller vouches for.
                unsafe {
                    for i in 0..x.n {
                        for group in starts.chunk_by(follows) {
                            let (mut s, mut d) = (src.offset(i * x.src), dst.offset(i * x.dst));
                            for _ in 0..y.n {
                                for line in group.chunks_exact(LINE_BYTES / PIECE_BYTES) {
                                    prefetch_line(s.wrapping_offset(line[0].0 & !63).wrapping_add(TABLE_PREFETCH_BYTES));
                                    let $lane = |k: usize| {
                                        _mm_loadu_si128(s.wrapping_offset(line[k].0).cast())
                                    };
                                    let $to = d.wrapping_offset(line[0].1);
                                    $put
                                }
                                s = s.wrapping_offset(y.src);
                                d = d.wrapping_offset(y.dst);
                            }
                        }
                    }
                }
            }
        };
    }

    table! {
        /// With registers of a line.
        avx512, "avx512f", |lane, to| {
            let one = _mm512_castsi128_si512(lane(0));
            let two = _mm512_inserti32x4::<1>(one, lane(1));
            let three = _mm512_inserti32x4::<2>(two, lane(2));
            _mm512_stream_si512(to.cast(), _mm512_inserti32x4::<3>(three, lane(3)));
        }
    }

    table! {
        /// With registers of half a line.
        avx2, "avx2", |lane, to| {
            let two = |k: usize| {
                _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(lane(k)), lane(k + 1))
            };
            let (low, high) = (two(0), two(2));
            _mm256_stream_si256(to.cast(), low);
            _mm256_stream_si256(to.add(LINE_BYTES / 2).cast(), high);
        }
    }
}

/// Whether runs of `bytes`, sorted by destination, form groups that are whole lines.
pub(super) fn runs_fill_lines(starts: &[(isize, isize)], bytes: usize) -> bool {
    // Starts are sorted by destination, so the runs of a line are neighbours in the table.
    let per_line = LINE_BYTES / bytes.clamp(1, LINE_BYTES);
    if bytes * per_line != LINE_BYTES || !starts.len().is_multiple_of(per_line) {
        return false;
    }
    starts.chunks_exact(per_line).all(|line| {
        let first = line[0].1;
        let adjacent = (0..).zip(line).all(|(k, s)| s.1 == first + k * bytes.cast_signed());
        first.unsigned_abs().is_multiple_of(LINE_BYTES) && adjacent
    })
}
