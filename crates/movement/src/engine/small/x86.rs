//! The two programs of small tiles in AVX2.

use super::super::cell::x86::Avx;
use super::super::job::ByteLoop;
use super::super::stream::LINE_BYTES;
use super::super::transpose::{interleave_rounds, unrolled};
use super::gather::StretchGather;
use super::run::{LineKernel, TileRowPrefetcher};
use std::arch::x86_64::*;
use zellige_isa::Isa;

/// The registers that rows are copied with.
pub(super) type WideLane = Avx;

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
/// `n` steps are readable at `src` and writable at `dst`, the two do not overlap, `K` is the number of
/// windows of the gather, and the machine has AVX2.
#[target_feature(enable = "avx2")]
unsafe fn run_gather<const K: usize>(
    g: &StretchGather,
    src: *const u8,
    dst: *mut u8,
    n: isize,
    along: ByteLoop,
) {
    // SAFETY: windows are inside of the stretch that they are read for, and registers inside of the one
    // that they are written to; the last stretch is moved back to end with the loop.
    unsafe {
        if n < g.steps {
            g.copy_by_element(src, dst, n);
            return;
        }
        // Registers outside, steps inside: the masks of a register are loaded once for all steps.
        let whole = n / g.steps;
        for (at, windows) in g.at.iter().zip(g.windows.chunks_exact(K)) {
            let masks: [__m256i; K] =
                std::array::from_fn(|k| _mm256_loadu_si256(windows[k].mask.as_ptr().cast()));
            let low: [isize; K] = std::array::from_fn(|k| windows[k].low);
            let high: [isize; K] = std::array::from_fn(|k| windows[k].high);
            // All whole stretches; then a last one that ends with the loop, where they do not.
            for (first, count) in [(0, whole), (n - g.steps, isize::from(n % g.steps > 0))] {
                let mut s = src.offset(first * along.src);
                let mut d = dst.add(*at).offset(first * along.dst);
                for _ in 0..count {
                    let mut all = _mm256_setzero_si256();
                    unrolled!(k < K, {
                        let low = _mm_loadu_si128(s.offset(low[k]).cast());
                        let high = _mm_loadu_si128(s.offset(high[k]).cast());
                        let both = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(low), high);
                        all = _mm256_or_si256(all, _mm256_shuffle_epi8(both, masks[k]));
                    });
                    _mm256_storeu_si256(d.cast(), all);
                    s = s.wrapping_offset(g.steps * along.src);
                    d = d.wrapping_offset(g.steps * along.dst);
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
        // Sixteen registers and those between two rounds are more than AVX2 has, and bytes take them all.
        1 if Isa::process_isa().has_avx512() => transpose_squares_avx512::<1, 16>,
        1 => transpose_squares::<1, 16>,
        2 => transpose_squares::<2, 8>,
        4 => transpose_squares::<4, 4>,
        8 => transpose_squares::<8, 2>,
        _ => return None,
    })
}

/// # Safety
/// As [`transpose_every_square`], and the machine has AVX2.
#[target_feature(enable = "avx2")]
unsafe fn transpose_squares<const E: usize, const R: usize>(
    src: *const u8,
    rows: &[isize],
    columns: usize,
    dst: *mut u8,
    to: &[isize],
) {
    // SAFETY: by the contract of this function.
    unsafe { transpose_every_square::<E, R>(src, rows, columns, dst, to) };
}

/// The same with twice as many registers.
///
/// # Safety
/// As [`transpose_every_square`], and the machine has AVX-512 BW and VL.
#[target_feature(enable = "avx2,avx512f,avx512bw,avx512vl")]
unsafe fn transpose_squares_avx512<const E: usize, const R: usize>(
    src: *const u8,
    rows: &[isize],
    columns: usize,
    dst: *mut u8,
    to: &[isize],
) {
    // SAFETY: by the contract of this function.
    unsafe { transpose_every_square::<E, R>(src, rows, columns, dst, to) };
}

/// # Safety
/// Rows and columns are at least `R`; `columns` elements are readable at every row of `src`, one of each
/// row writable at every place of `dst`, the two do not overlap, and the machine has AVX2.
#[inline(always)]
unsafe fn transpose_every_square<const E: usize, const R: usize>(
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
            // The last pair is moved back to end with the rows, and the last columns with theirs; what
            // is written twice is the same.
            let second = (r + R).min(rows.len() - R);
            // SAFETY: by the contract of this function.
            unsafe {
                let from = src.add(c * E);
                transpose_two_squares::<E, R>(
                    from,
                    &rows[r..],
                    &rows[second..],
                    dst,
                    &to[c..],
                    (r, second),
                );
            }
            if second + R >= rows.len() {
                break;
            }
            r = (second + R).min(rows.len() - R);
        }
        if c + R >= columns {
            return;
        }
        c = (c + R).min(columns - R);
    }
}

/// Two squares side by side, one in each half of the registers.
///
/// # Safety
/// As [`transpose_every_square`], for `R` rows of either half and `R` columns; `at` has the positions of these rows.
#[inline(always)]
unsafe fn transpose_two_squares<const E: usize, const R: usize>(
    src: *const u8,
    first: &[isize],
    second: &[isize],
    dst: *mut u8,
    to: &[isize],
    at: (usize, usize),
) {
    let (first, second, to) = (&first[..R], &second[..R], &to[..R]);
    // SAFETY: by the contract of this function.
    unsafe {
        let mut v = [_mm256_setzero_si256(); R];
        unrolled!(k < R, {
            let low = _mm_loadu_si128(src.offset(first[k]).cast());
            let high = _mm_loadu_si128(src.offset(second[k]).cast());
            v[k] = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(low), high);
        });
        unrolled!(round < R.ilog2(), {
            let _ = round;
            let old = v;
            unrolled!(i < R / 2, {
                let (a, b) = (old[i], old[i + R / 2]);
                v[2 * i] = match E {
                    1 => _mm256_unpacklo_epi8(a, b),
                    2 => _mm256_unpacklo_epi16(a, b),
                    4 => _mm256_unpacklo_epi32(a, b),
                    _ => _mm256_unpacklo_epi64(a, b),
                };
                v[2 * i + 1] = match E {
                    1 => _mm256_unpackhi_epi8(a, b),
                    2 => _mm256_unpackhi_epi16(a, b),
                    4 => _mm256_unpackhi_epi32(a, b),
                    _ => _mm256_unpackhi_epi64(a, b),
                };
            });
        });
        // Two squares that follow one another fill a register of each column; the last pair may overlap.
        if at.1 == at.0 + R {
            unrolled!(k < R, {
                _mm256_storeu_si256(dst.offset(to[k]).add(at.0 * E).cast(), v[k]);
            });
        } else {
            unrolled!(k < R, {
                let column = dst.offset(to[k]);
                _mm_storeu_si128(column.add(at.0 * E).cast(), _mm256_castsi256_si128(v[k]));
                _mm_storeu_si128(column.add(at.1 * E).cast(), _mm256_extracti128_si256::<1>(v[k]));
            });
        }
    }
}

/// The kernel for elements of `width` bytes.
pub(super) fn select_line_kernel(width: usize) -> Option<LineKernel> {
    // Bytes take more registers than AVX2 has, and with AVX-512 they are stored no faster than by a stage.
    let wide = Isa::process_isa().has_avx512();
    Some(match width {
        2 if wide => transpose_lines_avx512::<2, 8>,
        4 if wide => transpose_lines_avx512::<4, 4>,
        8 if wide => transpose_lines_avx512::<8, 2>,
        2 => transpose_lines_avx2::<2, 8>,
        4 => transpose_lines_avx2::<4, 4>,
        8 => transpose_lines_avx2::<8, 2>,
        _ => return None,
    })
}

/// # Safety
/// Rows make up whole lines, 16 bytes of each are readable at `src`; as many bytes as there are rows of
/// elements are writable at every place of `dst`, which begins on a line; the two do not overlap, and the
/// machine has AVX-512 BW.
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn transpose_lines_avx512<const E: usize, const R: usize>(
    src: *const u8,
    rows: &[isize],
    dst: *mut u8,
    to: &[isize],
    ahead: &mut TileRowPrefetcher<'_>,
) {
    let to = &to[..R];
    for (line, rows) in rows.chunks_exact(4 * R).enumerate() {
        // SAFETY: by the contract of this function.
        unsafe {
            let mut v = [_mm512_setzero_si512(); R];
            unrolled!(k < R, {
                let lane = |i: usize| _mm_loadu_si128(src.offset(rows[i * R + k]).cast());
                let one = _mm512_castsi128_si512(lane(0));
                let two = _mm512_inserti32x4::<1>(one, lane(1));
                let three = _mm512_inserti32x4::<2>(two, lane(2));
                v[k] = _mm512_inserti32x4::<3>(three, lane(3));
            });
            let v = interleave_rounds::<_, E, R>(v);
            unrolled!(k < R, {
                ahead.prefetch_next_line();
                _mm512_stream_si512(dst.offset(to[k]).add(line * LINE_BYTES).cast(), v[k]);
            });
        }
    }
}

/// # Safety
/// As [`transpose_lines_avx512`], with AVX2.
#[target_feature(enable = "avx2")]
unsafe fn transpose_lines_avx2<const E: usize, const R: usize>(
    src: *const u8,
    rows: &[isize],
    dst: *mut u8,
    to: &[isize],
    ahead: &mut TileRowPrefetcher<'_>,
) {
    let to = &to[..R];
    for (line, rows) in rows.chunks_exact(4 * R).enumerate() {
        // SAFETY: by the contract of this function.
        unsafe {
            let mut halves = [[_mm256_setzero_si256(); R]; 2];
            unrolled!(h < 2, {
                unrolled!(k < R, {
                    let lane =
                        |i: usize| _mm_loadu_si128(src.offset(rows[(2 * h + i) * R + k]).cast());
                    let low = _mm256_castsi128_si256(lane(0));
                    halves[h][k] = _mm256_inserti128_si256::<1>(low, lane(1));
                });
                halves[h] = interleave_rounds::<_, E, R>(halves[h]);
            });
            unrolled!(k < R, {
                ahead.prefetch_next_line();
                let to = dst.offset(to[k]).add(line * LINE_BYTES);
                _mm256_stream_si256(to.cast(), halves[0][k]);
                _mm256_stream_si256(to.add(LINE_BYTES / 2).cast(), halves[1][k]);
            });
        }
    }
}
