//! Rows that follow one another in the destination and do not begin on lines, with registers of 32 bytes.
//!
//! A line that holds the end of one row and the beginning of the next is put together from both, 16
//! bytes at a time: some from the first row, some from the second, and one that has bytes of both. No
//! masked loads are needed, and nothing is read that is not of the two rows.

use super::cell::{self, PortableLane, copy_bytes};
use super::job::ByteLoop;
use super::stream::LINE_BYTES;
use crate::engine::tuning::{MAX_ROW_PREFETCH_BYTES, ROW_PREFETCH_STEPS};
use std::arch::x86_64::*;

/// The 16 bytes of a joined line that two rows share: the last `from_first` of the one, then the first of
/// the other.
struct Avx2Seam {
    first: __m128i,
    second: __m128i,
}

impl Avx2Seam {
    #[target_feature(enable = "avx2")]
    fn new(from_first: u8) -> Avx2Seam {
        let (mut first, mut second) = ([0x80u8; 16], [0x80u8; 16]);
        for (i, (f, s)) in (0..).zip(first.iter_mut().zip(&mut second)) {
            if i < from_first {
                *f = 16 - from_first + i;
            } else {
                *s = i - from_first;
            }
        }
        // SAFETY: both arrays are 16 bytes long.
        unsafe {
            Avx2Seam {
                first: _mm_loadu_si128(first.as_ptr().cast()),
                second: _mm_loadu_si128(second.as_ptr().cast()),
            }
        }
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn join_halves(&self, end: __m128i, beginning: __m128i) -> __m128i {
        _mm_or_si128(_mm_shuffle_epi8(end, self.first), _mm_shuffle_epi8(beginning, self.second))
    }
}

/// Stores every whole line past the caches, also those that two rows share. Only the first and the last line
/// of the loop along which rows follow one another are written in part.
///
/// # Safety
/// As for [`RowCopyKernel`](super::rows::RowCopyKernel); rows are whole lines long, and follow one another in the
/// destination along `x` or along `y`, all of them equally far from the beginning of a line, and not 0;
/// and the machine has AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn copy_joined_avx2(
    src: *const u8,
    dst: *mut u8,
    bytes: usize,
    x: ByteLoop,
    y: ByteLoop,
) {
    // SAFETY: by the contract of this function.
    unsafe {
        // How many of the four parts are of the first row decides which loads there are, so it is a constant of
        // the code.
        match dst.addr() % LINE_BYTES / 16 {
            0 => copy_joined_lines::<0>(src, dst, bytes, x, y),
            1 => copy_joined_lines::<1>(src, dst, bytes, x, y),
            2 => copy_joined_lines::<2>(src, dst, bytes, x, y),
            _ => copy_joined_lines::<3>(src, dst, bytes, x, y),
        }
    }
}

/// `WHOLE` times 16 bytes of a joined line are of the first row alone.
///
/// # Safety
/// As [`copy_joined_avx2`].
#[target_feature(enable = "avx2")]
unsafe fn copy_joined_lines<const WHOLE: usize>(
    src: *const u8,
    dst: *mut u8,
    bytes: usize,
    x: ByteLoop,
    y: ByteLoop,
) {
    let along_x = x.dst == bytes.cast_signed();
    let off = dst.addr() % LINE_BYTES;
    let head = LINE_BYTES - off;
    let seam = Avx2Seam::new((off % 16).to_le_bytes()[0]);
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
                    let before = s.wrapping_offset(-back).wrapping_add(bytes);
                    let part = |i: usize| {
                        let at = if i < WHOLE {
                            before.wrapping_sub(off).wrapping_add(i * 16)
                        } else {
                            s.wrapping_sub(off).wrapping_add(i * 16)
                        };
                        if i == WHOLE {
                            let end = _mm_loadu_si128(before.wrapping_sub(16).cast());
                            seam.join_halves(end, _mm_loadu_si128(s.cast()))
                        } else {
                            _mm_loadu_si128(at.cast())
                        }
                    };
                    let line = d.sub(off);
                    _mm256_stream_si256(line.cast(), _mm256_set_m128i(part(1), part(0)));
                    _mm256_stream_si256(line.add(32).cast(), _mm256_set_m128i(part(3), part(2)));
                }
                for at in (head..bytes - off).step_by(LINE_BYTES) {
                    let (low, high) = (s.add(at), s.add(at + 32));
                    let (low, high) =
                        (_mm256_loadu_si256(low.cast()), _mm256_loadu_si256(high.cast()));
                    _mm256_stream_si256(d.add(at).cast(), low);
                    _mm256_stream_si256(d.add(at + 32).cast(), high);
                }
                if step == last {
                    copy_bytes::<PortableLane, false>(s.add(bytes - off), d.add(bytes - off), off);
                }
            }
        }
    }
}
