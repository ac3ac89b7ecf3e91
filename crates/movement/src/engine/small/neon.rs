//! The two programs of small tiles in NEON.

use super::super::cell::neon::Neon;
use super::super::job::ByteLoop;
use super::super::transpose::{interleave_lane_rounds, unrolled};
use super::gather::{StretchGather, WINDOW_BYTES};
use super::run::LineKernel;
use std::arch::aarch64::*;

/// The registers that rows are copied with.
pub(super) type WideLane = Neon;

/// Runs a gather along `n` steps of its loop.
pub(super) type GatherKernel =
    unsafe fn(gather: &StretchGather, src: *const u8, dst: *mut u8, n: isize, along: ByteLoop);

/// The kernel for registers of so many windows.
pub(super) fn select_gather_kernel(each: usize) -> Option<GatherKernel> {
    let all: [GatherKernel; 8] = [
        run_gather::<1>,
        run_gather::<2>,
        run_gather::<3>,
        run_gather::<4>,
        run_gather::<5>,
        run_gather::<6>,
        run_gather::<7>,
        run_gather::<8>,
    ];
    all.get(each.wrapping_sub(1)).copied()
}

/// # Safety
/// `n` steps are readable at `src` and writable at `dst`, the two do not overlap, and `K` is the number of
/// windows of the gather.
unsafe fn run_gather<const K: usize>(
    g: &StretchGather,
    src: *const u8,
    dst: *mut u8,
    n: isize,
    along: ByteLoop,
) {
    // SAFETY: windows are inside of the stretch that they are read for, and registers inside of the one
    // that they are written to; the last stretch is moved back to end with the loop. Masks are two
    // registers long, and what they do not pick is past the register, which gives zero.
    unsafe {
        if n < g.steps {
            g.copy_by_element(src, dst, n);
            return;
        }
        // Registers outside, steps inside: the masks of a register are loaded once for all steps.
        let whole = n / g.steps;
        for (at, windows) in g.at.iter().zip(g.windows.chunks_exact(K)) {
            for half in 0..2 {
                let masks: [uint8x16_t; K] = std::array::from_fn(|k| {
                    vld1q_u8(windows[k].mask.as_ptr().add(half * WINDOW_BYTES))
                });
                let from: [isize; K] =
                    std::array::from_fn(|k| [windows[k].low, windows[k].high][half]);
                // All whole stretches; then a last one that ends with the loop, where they do not.
                for (first, count) in [(0, whole), (n - g.steps, isize::from(n % g.steps > 0))] {
                    let mut s = src.offset(first * along.src);
                    let mut d = dst.add(*at + half * WINDOW_BYTES).offset(first * along.dst);
                    for _ in 0..count {
                        let mut all = vdupq_n_u8(0);
                        unrolled!(k < K, {
                            let window = vld1q_u8(s.offset(from[k]));
                            all = vorrq_u8(all, vqtbl1q_u8(window, masks[k]));
                        });
                        vst1q_u8(d, all);
                        s = s.wrapping_offset(g.steps * along.src);
                        d = d.wrapping_offset(g.steps * along.dst);
                    }
                }
            }
        }
    }
}

/// Transposes a tile of `rows` of the source, whose first `columns` elements are adjacent: column `c`
/// goes to `to[c]`, where the elements of all rows are adjacent.
pub(super) type SquareKernel =
    unsafe fn(src: *const u8, rows: &[isize], columns: usize, dst: *mut u8, to: &[isize]);

/// The kernel for elements of `width` bytes.
pub(super) fn select_square_kernel(width: usize) -> Option<SquareKernel> {
    Some(match width {
        1 => transpose_squares::<1, 16>,
        2 => transpose_squares::<2, 8>,
        4 => transpose_squares::<4, 4>,
        8 => transpose_squares::<8, 2>,
        _ => return None,
    })
}

/// No kernel stores whole lines from the registers: columns are stored from a stage.
pub(super) fn select_line_kernel(_width: usize) -> Option<LineKernel> {
    None
}

/// # Safety
/// Rows and columns are at least `R`; `columns` elements are readable at every row of `src`, one of each
/// row writable at every place of `dst`, and the two do not overlap.
unsafe fn transpose_squares<const E: usize, const R: usize>(
    src: *const u8,
    rows: &[isize],
    columns: usize,
    dst: *mut u8,
    to: &[isize],
) {
    let mut c = 0;
    loop {
        let mut r = 0;
        loop {
            // The last square of each direction is moved back to end with it; what is written twice is
            // the same.
            let (from, places) = (&rows[r..][..R], &to[c..][..R]);
            // SAFETY: by the contract of this function.
            unsafe {
                let mut v = [vdupq_n_u8(0); R];
                unrolled!(k < R, v[k] = vld1q_u8(src.offset(from[k]).add(c * E)));
                let v = interleave_lane_rounds::<E, R>(v);
                unrolled!(k < R, vst1q_u8(dst.offset(places[k]).add(r * E), v[k]));
            }
            if r + R >= rows.len() {
                break;
            }
            r = (r + R).min(rows.len() - R);
        }
        if c + R >= columns {
            return;
        }
        c = (c + R).min(columns - R);
    }
}
