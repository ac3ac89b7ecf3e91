//! One lane and two on AArch64, and squares of lines for non-temporal stores.
//!
//! **Through the caches**: the blocks of this folder, with registers of one lane, or of two for elements
//! that leave room for them among the 32 registers.
//!
//! **With non-temporal stores**: squares of 64 bytes of `64 / E` rows. Every line of the source is read once, in
//! groups of `16 / E` rows; the groups are transposed lane by lane and left in memory. A line of the destination
//! is then four loads of 16 bytes, one from each group, and is stored by two stores one behind the other.
//!
//! These kernels were tested under an emulator; no processor of this kind was at hand to time them.

use super::super::cell::neon::Neon;
use super::super::cell::{CopyLane, prefetch_line};
use super::gathered::{LineSquares, stream_gathered_squares};
use super::scratch::Scratch;
use super::{
    TransposeLanes, TransposeTile, interleave_rounds, transpose_rows_in_lanes, transpose_width,
    unrolled,
};
use std::arch::aarch64::*;

/// Two lanes.
#[derive(Clone, Copy)]
struct NeonTwoLanes(uint8x16_t, uint8x16_t);

impl TransposeLanes for uint8x16_t {
    const COUNT: usize = 1;
    #[inline(always)]
    unsafe fn load_lanes(p: *const u8) -> uint8x16_t {
        // SAFETY: by the contract of `TransposeLanes`.
        unsafe { vld1q_u8(p) }
    }
    #[inline(always)]
    unsafe fn interleave_elements<const E: usize>(
        a: uint8x16_t,
        b: uint8x16_t,
    ) -> (uint8x16_t, uint8x16_t) {
        macro_rules! zip {
            ($to:ident, $from:ident, $low:ident, $high:ident) => {{
                let (a, b) = ($to(a), $to(b));
                ($from($low(a, b)), $from($high(a, b)))
            }};
        }
        // SAFETY: every AArch64 machine has NEON.
        unsafe {
            match E {
                1 => (vzip1q_u8(a, b), vzip2q_u8(a, b)),
                2 => zip!(vreinterpretq_u16_u8, vreinterpretq_u8_u16, vzip1q_u16, vzip2q_u16),
                4 => zip!(vreinterpretq_u32_u8, vreinterpretq_u8_u32, vzip1q_u32, vzip2q_u32),
                _ => zip!(vreinterpretq_u64_u8, vreinterpretq_u8_u64, vzip1q_u64, vzip2q_u64),
            }
        }
    }
    #[inline(always)]
    unsafe fn scatter_lanes(self, p: *mut u8, _: isize) {
        // SAFETY: by the contract of `TransposeLanes`.
        unsafe { vst1q_u8(p, self) };
    }
}

impl TransposeLanes for NeonTwoLanes {
    const COUNT: usize = 2;
    #[inline(always)]
    unsafe fn load_lanes(p: *const u8) -> NeonTwoLanes {
        // SAFETY: by the contract of `TransposeLanes`.
        unsafe { NeonTwoLanes(vld1q_u8(p), vld1q_u8(p.add(16))) }
    }
    #[inline(always)]
    unsafe fn interleave_elements<const E: usize>(
        a: NeonTwoLanes,
        b: NeonTwoLanes,
    ) -> (NeonTwoLanes, NeonTwoLanes) {
        // SAFETY: by the contract of `TransposeLanes`.
        unsafe {
            let (low, high) = (
                TransposeLanes::interleave_elements::<E>(a.0, b.0),
                TransposeLanes::interleave_elements::<E>(a.1, b.1),
            );
            (NeonTwoLanes(low.0, high.0), NeonTwoLanes(low.1, high.1))
        }
    }
    #[inline(always)]
    unsafe fn scatter_lanes(self, p: *mut u8, step: isize) {
        // SAFETY: by the contract of `TransposeLanes`.
        unsafe {
            vst1q_u8(p, self.0);
            vst1q_u8(p.offset(step), self.1);
        }
    }
}

/// The rounds of interleaving that transpose `R = 16 / E` registers.
#[inline(always)]
pub(in super::super) fn interleave_lane_rounds<const E: usize, const R: usize>(
    v: [uint8x16_t; R],
) -> [uint8x16_t; R] {
    // SAFETY: every AArch64 machine has NEON.
    unsafe { interleave_rounds::<_, E, R>(v) }
}

/// The first half of a square: `4 * R` rows of 64 bytes, `R = 16 / E`, in groups of `R` that are
/// transposed lane by lane. `other` work is done between the groups.
///
/// # Safety
/// The rows, `sa` apart, are readable at `src`, and `4 * R` lines are writable at `between`.
#[inline(always)]
unsafe fn load_square<const E: usize, const R: usize>(
    src: *const u8,
    sa: isize,
    between: *mut u8,
    mut other: impl FnMut(usize),
) {
    for group in 0..4 {
        other(group);
        for lane in 0..4 {
            // SAFETY: by the contract of this function.
            unsafe {
                let from = src.offset((group * R).cast_signed() * sa).add(lane * 16);
                let to = between.add(group * R * 64 + lane * 16);
                let v: [uint8x16_t; R] = transpose_rows_in_lanes::<_, E, R>(from, sa);
                unrolled!(k < R, vst1q_u8(to.add(k * 64), v[k]));
            }
        }
    }
}

/// The second half: column `lane * R + k`, a line.
///
/// # Safety
/// `between` holds a square as [`load_square`] leaves it.
#[inline(always)]
unsafe fn gather_column<const R: usize>(between: *const u8, lane: usize, k: usize) -> [Neon; 2] {
    // SAFETY: by the contract of this function.
    unsafe {
        let at = |group: usize| vld1q_u8(between.add((group * R + k) * 64 + lane * 16));
        [Neon(at(0), at(1)), Neon(at(2), at(3))]
    }
}

/// Prefetches the lines of the next tile that correspond to those of `rows` from `a` on, at column `b`.
#[inline(always)]
fn prefetch_next_tile<const E: usize>(t: &TransposeTile, a: usize, rows: usize, b: usize) {
    for row in a..a + rows {
        prefetch_line(t.next.wrapping_offset(row.cast_signed() * t.sa).wrapping_add(b * E));
    }
}

/// A tile of whole lines that are aligned in the destination: they go there from the registers.
///
/// # Safety
/// As [`super::transpose_sized`]; `na` and `nb` are at least `64 / E`; `na * E`, `dst` and `db` are multiples of 64.
unsafe fn stream_aligned_tile<const E: usize, const R: usize>(
    src: *const u8,
    dst: *mut u8,
    t: TransposeTile,
) {
    let side = 4 * R;
    // SAFETY: `na * E / 64 <= MAX_TILE_ROW_BYTES / 64` squares fit the scratch. They stay inside the tile: the last
    // one along the source is moved back to end with it, and writes the same bytes again.
    unsafe {
        let scratch: &mut Scratch = &mut *t.scratch;
        let squares = scratch.square_memory();
        let lines = t.na / side;
        let mut b = 0usize;
        loop {
            for a in 0..lines {
                let from = src.add(b * E).offset((a * side).cast_signed() * t.sa);
                load_square::<E, R>(from, t.sa, squares.add(a * side * 64), |group| {
                    prefetch_next_tile::<E>(&t, a * side + group * R, R, b);
                });
            }
            let to = dst.offset(b.cast_signed() * t.db);
            for lane in 0..4 {
                for k in 0..R {
                    let row = to.offset((lane * R + k).cast_signed() * t.db);
                    for a in 0..lines {
                        let [low, high] = gather_column::<R>(squares.add(a * side * 64), lane, k);
                        low.store_non_temporal(row.add(a * 64));
                        high.store_non_temporal(row.add(a * 64 + 32));
                    }
                }
            }
            if b + side >= t.nb {
                return;
            }
            b = (b + side).min(t.nb - side);
        }
    }
}

/// The squares of NEON.
struct NeonSquares;

impl LineSquares for NeonSquares {
    type Lane = Neon;

    #[inline(always)]
    unsafe fn load_square<const E: usize, const R: usize>(
        src: *const u8,
        sa: isize,
        between: *mut u8,
        other: impl FnMut(usize),
    ) {
        // SAFETY: by the contract of this function.
        unsafe { load_square::<E, R>(src, sa, between, other) };
    }

    #[inline(always)]
    unsafe fn store_columns<const R: usize>(between: *const u8, to: *mut u8, pitch: usize) {
        for lane in 0..4 {
            for k in 0..R {
                // SAFETY: by the contract of this function.
                unsafe {
                    let [low, high] = gather_column::<R>(between, lane, k);
                    let to = to.add((lane * R + k) * pitch);
                    low.store_lane(to);
                    high.store_lane(to.add(32));
                }
            }
        }
    }
}

/// Any other tile of at least one square, by gathered columns.
///
/// # Safety
/// As [`super::transpose_sized`]; `na` and `nb` are at least `64 / E`.
unsafe fn stream_gathered_tile<const E: usize, const R: usize>(
    src: *const u8,
    dst: *mut u8,
    t: TransposeTile,
) {
    // SAFETY: by the contract of this function.
    unsafe {
        stream_gathered_squares::<NeonSquares, E, R>(src, dst, t, |a, b| {
            prefetch_next_tile::<E>(&t, a, R, b);
        });
    }
}

/// # Safety
/// As [`stream_gathered_tile`].
#[inline(always)]
unsafe fn stream_squares<const E: usize, const R: usize>(
    src: *const u8,
    dst: *mut u8,
    t: TransposeTile,
) {
    let aligned = ((t.na * E) | dst.addr() | t.db.unsigned_abs()).is_multiple_of(64);
    // SAFETY: by the contract of this function; the destination is aligned where lines go directly.
    unsafe {
        if aligned {
            stream_aligned_tile::<E, R>(src, dst, t);
        } else {
            stream_gathered_tile::<E, R>(src, dst, t);
        }
    }
}

/// Narrow tiles use as many lanes as they fill.
///
/// # Safety
/// As [`super::transpose_sized`].
pub(super) unsafe fn transpose_neon<const E: usize, const STREAM: bool>(
    src: *const u8,
    dst: *mut u8,
    t: TransposeTile,
) {
    // SAFETY: by the contract of this function. `E` is one of these widths.
    unsafe {
        if STREAM && t.na * E >= 64 && t.nb * E >= 64 {
            match E {
                1 => stream_squares::<E, 16>(src, dst, t),
                2 => stream_squares::<E, 8>(src, dst, t),
                4 => stream_squares::<E, 4>(src, dst, t),
                8 => stream_squares::<E, 2>(src, dst, t),
                _ => stream_squares::<E, 1>(src, dst, t),
            }
        } else if E > 1 && t.nb >= 2 * (16 / E) {
            // Sixteen pairs of registers for single bytes are all 32 that there are, and rounds need more.
            transpose_width::<NeonTwoLanes, Neon, E, STREAM>(src, dst, t);
        } else {
            transpose_width::<uint8x16_t, Neon, E, STREAM>(src, dst, t);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::tuning::MAX_TILE_ROW_BYTES;

    /// Memory of bytes that no element has, so that what is written outside of a tile shows.
    const OUTSIDE: u8 = 0xee;

    /// One tile of `na` by `nb` elements, `gap` bytes between the rows of the destination, which begins
    /// `off` bytes behind a line.
    fn check<const E: usize>(na: usize, nb: usize, gap: usize, off: usize, stream: bool) {
        let (sa, db) = (nb * E + 3, na * E + gap);
        let src: Vec<u8> = (0..na * sa).map(|i| (i * 7 % 233).to_le_bytes()[0]).collect();
        let mut memory = vec![OUTSIDE; nb * db + 128];
        let start = memory.as_ptr().align_offset(64) + off;
        let mut want = memory.clone();
        for a in 0..na {
            for b in 0..nb {
                want[start + b * db + a * E..][..E].copy_from_slice(&src[a * sa + b * E..][..E]);
            }
        }
        let mut scratch = Scratch::new(true);
        let (sa, db) = (sa.cast_signed(), db.cast_signed());
        let (next, scratch) = (src.as_ptr(), &raw mut scratch);
        let t = TransposeTile { na, sa, nb, db, next, next_step: sa, scratch };
        // SAFETY: both buffers hold the whole tile, `na * E <= MAX_TILE_ROW_BYTES`, and the scratch lives until it is
        // finished.
        unsafe {
            let dst = memory.as_mut_ptr().add(start);
            if stream {
                transpose_neon::<E, true>(src.as_ptr(), dst, t);
            } else {
                transpose_neon::<E, false>(src.as_ptr(), dst, t);
            }
            (*t.scratch).flush_pending();
        }
        assert!(memory == want, "{E} bytes, {na} by {nb}, gap {gap}, offset {off}, {stream}");
    }

    /// Tiles of every kind are their transposes, and nothing outside of them is written.
    #[test]
    #[cfg_attr(miri, ignore = "inline assembly")]
    fn tiles_are_transposes() {
        fn every<const E: usize>() {
            let line = 64 / E;
            let sizes = [
                1,
                line / 2,
                line - 1,
                line,
                line + 1,
                2 * line,
                2 * line + 3,
                MAX_TILE_ROW_BYTES / E,
            ];
            for na in sizes.into_iter().filter(|n| *n > 0) {
                for nb in [1, 16 / E, 32 / E, line, line + 1, 3 * line, 3 * line + 5] {
                    for (gap, off) in [(0, 0), (64, 0), (5, 0), (0, 16), (64, 33), (7, 1)] {
                        check::<E>(na, nb, gap, off, false);
                        check::<E>(na, nb, gap, off, true);
                    }
                }
            }
        }
        every::<1>();
        every::<2>();
        every::<4>();
        every::<8>();
        every::<16>();
    }
}
