//! Tables whose short runs make up whole lines of the destination, such as those of a swizzle.
//!
//! A store that goes around the caches is worth it only where its line is written whole, and at once. The
//! runs of a line are known: they follow one another in the table, so a line is put together from all of
//! them. Lines that follow one another are written along the inner loop before those of the next group, so
//! that both sides see long stretches.

use super::cell::{Lane, Plain, prefetch};
use super::job::ByteLoop;
use super::rows::Table;
use super::stream::LINE;

/// Bytes ahead that are asked for.
const AHEAD: usize = 512;

/// The kernel for runs of `bytes` that are parts of whole lines, where it is one of registers.
pub(super) fn select(bytes: usize) -> Option<Table> {
    match bytes {
        16 => Some(body::<1>),
        32 => Some(body::<2>),
        _ => None,
    }
}

/// Runs of `N` registers.
///
/// # Safety
/// Every run of the loops and starts is readable at `src` and writable at `dst`, the two do not overlap,
/// and places of the destination are multiples of 16.
unsafe fn body<const N: usize>(
    src: *const u8,
    dst: *mut u8,
    bytes: usize,
    x: ByteLoop,
    y: ByteLoop,
    starts: &[(isize, isize)],
) {
    debug_assert_eq!(bytes, N * Plain::BYTES);
    let follows = |a: &(isize, isize), b: &(isize, isize)| b.1 == a.1 + bytes.cast_signed();
    // SAFETY: offsets are those of the loops and starts, which the caller vouches for.
    unsafe {
        for i in 0..x.n {
            for group in starts.chunk_by(follows) {
                for j in 0..y.n {
                    let s = src.offset(i * x.src + j * y.src);
                    let d = dst.offset(i * x.dst + j * y.dst);
                    let soon = s.wrapping_offset(group[0].0).wrapping_add(AHEAD);
                    for at in (0..group.len() * bytes).step_by(LINE) {
                        prefetch(soon.wrapping_add(at));
                    }
                    for (a, b) in group {
                        let (s, d) = (s.offset(*a), d.offset(*b));
                        for k in 0..N {
                            Plain::load(s.add(k * 16)).stream(d.add(k * 16));
                        }
                    }
                }
            }
        }
    }
}

/// Whether runs of `bytes`, sorted by destination, come in groups that are whole lines.
pub(super) fn whole(starts: &[(isize, isize)], bytes: usize) -> bool {
    let per_line = LINE / bytes.clamp(1, LINE);
    if bytes * per_line != LINE || !starts.len().is_multiple_of(per_line) {
        return false;
    }
    starts.chunks_exact(per_line).all(|line| {
        let first = line[0].1;
        let adjacent = (0..).zip(line).all(|(k, s)| s.1 == first + k * bytes.cast_signed());
        first.unsigned_abs().is_multiple_of(LINE) && adjacent
    })
}
