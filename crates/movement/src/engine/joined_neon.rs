//! Rows that follow one another in the destination and do not begin on lines, with the registers of NEON.
//!
//! As with AVX2: a line that holds the end of one row and the beginning of the next is put together from
//! both, 16 bytes at a time, and nothing is read that is not of the two rows.

use super::cell::neon::Neon;
use super::cell::{self, CopyLane, PortableLane, copy_bytes};
use super::job::ByteLoop;
use super::stream::LINE_BYTES;
use crate::engine::tuning::{MAX_ROW_PREFETCH_BYTES, ROW_PREFETCH_STEPS};
use std::arch::aarch64::*;

/// The 16 bytes of a joined line that two rows share: the last `from_first` of the one, then the first of
/// the other.
#[derive(Clone, Copy)]
struct NeonSeam {
    first: [u8; 16],
    second: [u8; 16],
}

impl NeonSeam {
    fn new(from_first: u8) -> NeonSeam {
        // An index outside of the register gives zero, so that the two halves can be joined by OR.
        let (mut first, mut second) = ([0x80u8; 16], [0x80u8; 16]);
        for (i, (f, s)) in (0..).zip(first.iter_mut().zip(&mut second)) {
            if i < from_first {
                *f = 16 - from_first + i;
            } else {
                *s = i - from_first;
            }
        }
        NeonSeam { first, second }
    }

    /// The last bytes of 16 before `end`, then the first of 16 from `beginning` on.
    ///
    /// # Safety
    /// Both stretches are readable.
    #[inline(always)]
    unsafe fn join_halves(&self, end: *const u8, beginning: *const u8) -> uint8x16_t {
        // SAFETY: by the contract of this function; every AArch64 machine has NEON.
        unsafe {
            let end = vqtbl1q_u8(vld1q_u8(end.sub(16)), vld1q_u8(self.first.as_ptr()));
            let beginning = vqtbl1q_u8(vld1q_u8(beginning), vld1q_u8(self.second.as_ptr()));
            vorrq_u8(end, beginning)
        }
    }
}

/// Stores every whole line past the caches, also those that two rows share. Only the first and the last line
/// of the loop along which rows follow one another are written in part.
///
/// # Safety
/// As for [`RowCopyKernel`](super::rows::RowCopyKernel); rows are whole lines long, and follow one another in the
/// destination along `x` or along `y`, all of them equally far from the beginning of a line, and not 0.
pub(super) unsafe fn copy_joined_neon(
    src: *const u8,
    dst: *mut u8,
    bytes: usize,
    x: ByteLoop,
    y: ByteLoop,
) {
    let along_x = x.dst == bytes.cast_signed();
    let off = dst.addr() % LINE_BYTES;
    let head = LINE_BYTES - off;
    // So many times 16 bytes of a joined line are of the first row alone.
    let whole = off / 16;
    let seam = NeonSeam::new((off % 16).to_le_bytes()[0]);
    // SAFETY: offsets are those of the loops, which the caller vouches for. A row is at least a line
    // long, so that 16 bytes on either side of the seam are inside of the two rows. A prefetch may point
    // anywhere.
    unsafe {
        for i in 0..x.n {
            for j in 0..y.n {
                let s = src.offset(i * x.src + j * y.src);
                let d = dst.offset(i * x.dst + j * y.dst);
                let next = s.wrapping_offset(y.src * ROW_PREFETCH_STEPS);
                for at in (0..bytes.min(MAX_ROW_PREFETCH_BYTES)).step_by(LINE_BYTES) {
                    cell::prefetch_line(next.wrapping_add(at));
                }
                let (step, last, back) =
                    if along_x { (i, x.n - 1, x.src) } else { (j, y.n - 1, y.src) };
                // Of the first line only the end is ours; later ones begin in the row before, which is written
                // here, because its own end was left out there.
                if step == 0 {
                    copy_bytes::<PortableLane, false>(s, d, head);
                } else {
                    let end = s.wrapping_offset(-back).wrapping_add(bytes);
                    let part = |i: usize| match i.cmp(&whole) {
                        std::cmp::Ordering::Less => vld1q_u8(end.sub(off).add(i * 16)),
                        std::cmp::Ordering::Equal => seam.join_halves(end, s),
                        std::cmp::Ordering::Greater => vld1q_u8(s.add(i * 16 - off)),
                    };
                    Neon(part(0), part(1)).store_non_temporal(d.sub(off));
                    Neon(part(2), part(3)).store_non_temporal(d.sub(off).add(32));
                }
                for at in (head..bytes - off).step_by(LINE_BYTES) {
                    Neon::load_lane(s.add(at)).store_non_temporal(d.add(at));
                    Neon::load_lane(s.add(at + 32)).store_non_temporal(d.add(at + 32));
                }
                if step == last {
                    copy_bytes::<PortableLane, false>(s.add(bytes - off), d.add(bytes - off), off);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows are joined at every offset from a line, along either loop, and nothing outside of them is
    /// written.
    #[test]
    #[cfg_attr(miri, ignore = "inline assembly")]
    fn joined_rows_are_the_rows() {
        for off in 1..LINE_BYTES {
            for bytes in [LINE_BYTES, 2 * LINE_BYTES, 5 * LINE_BYTES] {
                for (n, along_x) in [(1, true), (2, true), (7, true), (1, false), (6, false)] {
                    let (apart, others) = (bytes + 37, 3);
                    let src: Vec<u8> =
                        (0..n * others * apart).map(|i| (i * 11 % 241).to_le_bytes()[0]).collect();
                    // The other loop goes to another place, as far from the beginning of a line.
                    let far = n * bytes + 2 * LINE_BYTES;
                    let mut memory = vec![0xee_u8; others * far + 2 * LINE_BYTES];
                    let start = memory.as_ptr().align_offset(LINE_BYTES) + off;
                    let mut want = memory.clone();
                    for other in 0..others {
                        for row in 0..n {
                            let from = &src[(other * n + row) * apart..][..bytes];
                            want[start + other * far + row * bytes..][..bytes]
                                .copy_from_slice(from);
                        }
                    }
                    let step = |n: usize, src: usize, dst: usize| ByteLoop {
                        n: n.cast_signed(),
                        src: src.cast_signed(),
                        dst: dst.cast_signed(),
                    };
                    let (follow, other) = (step(n, apart, bytes), step(others, n * apart, far));
                    let (x, y) = if along_x { (follow, other) } else { (other, follow) };
                    // SAFETY: rows are inside of both buffers, and are whole lines that follow one another.
                    unsafe {
                        copy_joined_neon(src.as_ptr(), memory.as_mut_ptr().add(start), bytes, x, y)
                    };
                    assert!(memory == want, "{n} rows of {bytes} at {off}, {along_x}");
                }
            }
        }
    }
}
