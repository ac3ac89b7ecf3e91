//! Tiles in which the source is adjacent along one loop and the destination along the other.
//!
//! A register holds a stretch of one source row, 16 bytes in each lane. `16 / E` such registers, from
//! as many rows, are transposed lane by lane with rounds of interleaving: each round interleaves the
//! first half of the registers with the second, and after `log2` of their number every lane holds
//! columns. So each cache line of the source is read once, whole, however far apart the rows are
//! (rows a power of two apart conflict: they fall into few sets of the caches).
//!
//! Non-temporal stores must be whole lines: the columns are gathered in a buffer that stays in the first
//! level cache, and are stored from it as rows of up to [`MAX_TILE_ROW_BYTES`] bytes.

#[cfg(target_arch = "x86_64")]
mod cached;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod gathered;
#[cfg(target_arch = "x86_64")]
mod halves;
#[cfg(target_arch = "x86_64")]
mod narrow;
#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(target_arch = "x86_64")]
mod phased;
#[cfg(any(test, not(target_arch = "x86_64")))]
mod portable;
#[cfg(target_arch = "x86_64")]
mod registers;
mod scratch;
#[cfg(target_arch = "x86_64")]
mod square;
mod staged;
#[cfg(target_arch = "x86_64")]
mod x86;

use super::cell::CopyLane;
use crate::engine::tuning::{
    CACHED_TILE_READ_BYTES, CACHED_TILE_WRITE_BYTES, LINE_REGISTER_READ_BYTES,
    LINE_REGISTER_WRITE_BYTES, MAX_CONFLICTING_ROWS, MAX_TILE_ROW_BYTES,
};
#[cfg(target_arch = "x86_64")]
use crate::engine::tuning::{HALF_REGISTER_READ_BYTES, STAGE_ROW_BYTES};
#[cfg(target_arch = "aarch64")]
pub(super) use neon::interleave_lane_rounds;
#[cfg(target_arch = "aarch64")]
use neon::transpose_neon;
#[cfg(not(target_arch = "x86_64"))]
use portable::transpose_portable;
pub(super) use scratch::{Scratch, Trim};
use staged::transpose_through_stage;
#[cfg(target_arch = "x86_64")]
use x86::{transpose_avx2, transpose_avx512, transpose_sse2};
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use zellige_isa::Isa;

/// Transposes a tile: `na` steps of `sa` bytes in the source (adjacent in the destination), `nb`
/// adjacent elements in the source, `db` bytes apart in the destination.
#[derive(Debug, Clone, Copy)]
pub(super) struct TransposeTile {
    pub(super) na: usize,
    pub(super) sa: isize,
    pub(super) nb: usize,
    pub(super) db: isize,
    /// Where the next tile begins in the source: its lines are prefetched while this one is written.
    pub(super) next: *const u8,
    /// Bytes from one row of the next tile to the row behind it.
    pub(super) next_step: isize,
    /// Memory for tiles with non-temporal stores.
    pub(super) scratch: *mut Scratch,
}

/// A transpose of one tile for one element width.
pub(super) type TransposeKernel = unsafe fn(src: *const u8, dst: *mut u8, tile: TransposeTile);

/// How a transpose is cut into tiles.
#[derive(Debug, Clone, Copy)]
pub(super) struct TileShape {
    /// Adjacent bytes that a tile writes, at most.
    pub(super) burst: usize,
    /// Adjacent bytes that a tile reads, at most.
    pub(super) row: usize,
    /// Conflicting rows that a tile reads, at most: rows that share few sets of the caches.
    pub(super) crowded_rows: usize,
    /// Whether one tile follows another along the source.
    pub(super) along_src: bool,
}

impl TileShape {
    /// The shape of tiles that stay in the caches.
    pub(super) const IN_CACHES: TileShape = TileShape {
        burst: CACHED_TILE_WRITE_BYTES,
        row: CACHED_TILE_READ_BYTES,
        crowded_rows: MAX_CONFLICTING_ROWS,
        along_src: false,
    };

    /// The shape for non-temporal stores on this machine, for source rows that conflict or do not.
    pub(super) fn best_for_machine(crowded: bool) -> TileShape {
        #[cfg(target_arch = "x86_64")]
        if Isa::process_isa().has_avx2() {
            return match (crowded, Isa::process_isa().has_avx512()) {
                // Conflicting rows are copied to one place first (`phased`), so that only the bursts of the
                // destination count, and as many rows may be read as make the longest burst.
                (true, _) => TileShape {
                    burst: MAX_TILE_ROW_BYTES,
                    row: STAGE_ROW_BYTES,
                    crowded_rows: MAX_TILE_ROW_BYTES,
                    along_src: false,
                },
                // A register of a line completes a line by one store, so that short bursts are enough.
                (_, true) => TileShape {
                    burst: LINE_REGISTER_WRITE_BYTES,
                    row: LINE_REGISTER_READ_BYTES,
                    crowded_rows: MAX_TILE_ROW_BYTES,
                    along_src: false,
                },
                // Registers of half a line need the longest bursts. The tile is small in the source for
                // that, so its successor is the one along the source, whose lines are in the same pages.
                _ => TileShape {
                    burst: MAX_TILE_ROW_BYTES,
                    row: HALF_REGISTER_READ_BYTES,
                    crowded_rows: MAX_TILE_ROW_BYTES,
                    along_src: true,
                },
            };
        }
        let _ = crowded;
        TileShape {
            burst: LINE_REGISTER_WRITE_BYTES,
            row: LINE_REGISTER_READ_BYTES,
            crowded_rows: MAX_CONFLICTING_ROWS,
            along_src: false,
        }
    }
}

/// The fastest transpose for this machine and element width (1, 2, 4, 8 or 16 bytes).
pub(super) fn select_transpose(width: usize, stream: bool) -> TransposeKernel {
    macro_rules! widths {
        ($f:ident) => {
            match (width, stream) {
                (1, false) => $f::<1, false>,
                (1, true) => $f::<1, true>,
                (2, false) => $f::<2, false>,
                (2, true) => $f::<2, true>,
                (4, false) => $f::<4, false>,
                (4, true) => $f::<4, true>,
                (8, false) => $f::<8, false>,
                (8, true) => $f::<8, true>,
                (_, false) => $f::<16, false>,
                (_, true) => $f::<16, true>,
            }
        };
    }
    #[cfg(target_arch = "x86_64")]
    {
        if Isa::process_isa().has_avx512() {
            return widths!(transpose_avx512);
        }
        if Isa::process_isa().has_avx2() {
            return widths!(transpose_avx2);
        }
        widths!(transpose_sse2)
    }
    #[cfg(target_arch = "aarch64")]
    if Isa::process_isa().has_neon() {
        return widths!(transpose_neon);
    }
    #[cfg(not(target_arch = "x86_64"))]
    widths!(transpose_portable)
}

/// Registers made of 16-byte lanes.
pub(super) trait TransposeLanes: Copy {
    /// Lanes in a register.
    const COUNT: usize;
    /// # Safety
    /// `p` is readable for `16 * COUNT` bytes, and the machine has the instructions.
    unsafe fn load_lanes(p: *const u8) -> Self;
    /// Interleaves elements of `E` bytes of the low and of the high half of each lane.
    /// # Safety
    /// The machine has the instructions.
    unsafe fn interleave_elements<const E: usize>(a: Self, b: Self) -> (Self, Self);
    /// Stores lane `k` at `p + k * step`.
    /// # Safety
    /// All of them are writable for 16 bytes, and the machine has the instructions.
    unsafe fn scatter_lanes(self, p: *mut u8, step: isize);
}

/// A loop over `0..n`, `n <= 16`, that is unrolled whatever the optimizer decides: registers in an array stay
/// registers only when every index is a constant. For single bytes the optimizer kept them in memory.
macro_rules! unrolled {
    ($k:ident < $n:expr, $body:expr) => {
        unrolled!($k, $n, $body, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)
    };
    ($k:ident, $n:expr, $body:expr, $($i:literal)*) => {
        $(if $i < $n {
            let $k: usize = $i;
            $body;
        })*
    };
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(super) use unrolled;

/// `R = 16 / E` rows, transposed inside every lane: register `k` has column `k` of lane 0, then
/// column `R + k`, which is column `k` of lane 1, and so on.
///
/// # Safety
/// `R` rows of `16 * COUNT` bytes, `sa` apart, are readable at `src`, and the machine has the
/// instructions.
#[inline(always)]
unsafe fn transpose_rows_in_lanes<V: TransposeLanes, const E: usize, const R: usize>(
    src: *const u8,
    sa: isize,
) -> [V; R] {
    // SAFETY: by the contract of this function.
    unsafe {
        let mut v = [V::load_lanes(src); R];
        unrolled!(k < R, v[k] = V::load_lanes(src.offset(k.cast_signed() * sa)));
        interleave_rounds::<V, E, R>(v)
    }
}

/// The rounds of interleaving that transpose `R` registers inside every lane.
///
/// # Safety
/// The machine has the instructions of `V`.
#[inline(always)]
pub(super) unsafe fn interleave_rounds<V: TransposeLanes, const E: usize, const R: usize>(
    mut v: [V; R],
) -> [V; R] {
    unrolled!(round < R.ilog2(), {
        let _ = round;
        let old = v;
        unrolled!(i < R / 2, {
            // SAFETY: by the contract of this function.
            (v[2 * i], v[2 * i + 1]) =
                unsafe { V::interleave_elements::<E>(old[i], old[i + R / 2]) };
        });
    });
    v
}

/// One register block: `R` rows of as many elements in every lane.
///
/// # Safety
/// As [`transpose_rows_in_lanes`]; `R * COUNT` rows of 16 bytes, `pitch` apart, are writable at `out`.
#[inline(always)]
unsafe fn transpose_block<V: TransposeLanes, const E: usize, const R: usize>(
    src: *const u8,
    sa: isize,
    out: *mut u8,
    pitch: isize,
) {
    // SAFETY: by the contract of this function.
    unsafe {
        let v = transpose_rows_in_lanes::<V, E, R>(src, sa);
        unrolled!(k < R, {
            v[k].scatter_lanes(out.offset(k.cast_signed() * pitch), R.cast_signed() * pitch);
        });
    }
}

/// # Safety
/// The tile is readable at `src` and writable at `dst`, `na * E <= MAX_TILE_ROW_BYTES`, the two do not overlap,
/// `scratch` has memory where stores are non-temporal, and the machine has the instructions of `V` and
/// `L`. With `STREAM` a tile is complete only after [`Scratch::flush_pending`].
#[inline(always)]
unsafe fn transpose_sized<
    V: TransposeLanes,
    L: CopyLane,
    const E: usize,
    const R: usize,
    const STREAM: bool,
>(
    src: *const u8,
    dst: *mut u8,
    t: TransposeTile,
) {
    let rows = R;
    let wide = rows * V::COUNT;
    if t.na < rows || t.nb < wide {
        // SAFETY: by the contract of this function.
        unsafe {
            if STREAM {
                transpose_by_column::<E>(src, dst, t);
            } else {
                transpose_by_element::<E>(src, dst, t);
            }
        }
        return;
    }
    // Blocks write 16 bytes of a line at a time. Through the caches these become lines again, but a
    // non-temporal store of a part of a line is a transfer of its own, so they pass through a stage.
    if STREAM {
        // SAFETY: by the contract of this function; the tile is wide enough.
        unsafe { transpose_through_stage::<V, L, E, R>(src, dst, t) };
        return;
    }
    for_each_block((t.na, rows), (t.nb, wide), |a, b| {
        // SAFETY: rows `a .. a + rows` and columns `b .. b + wide` stay inside the tile.
        unsafe {
            let from = src.add(b * E).offset(a.cast_signed() * t.sa);
            let to = dst.add(a * E).offset(b.cast_signed() * t.db);
            transpose_block::<V, E, R>(from, t.sa, to, t.db);
        }
    });
}

/// The first row and column of every block of a tile, given how many it and a block have of each, in the order of
/// columns. The last block of each direction is moved back to end with the tile, and writes the same bytes again.
#[inline(always)]
fn for_each_block(
    (rows, row_step): (usize, usize),
    (columns, column_step): (usize, usize),
    mut each: impl FnMut(usize, usize),
) {
    // Moving the last block back costs a few stores; a loop over single elements at the border would cost as
    // much as several blocks.
    let mut b = 0;
    loop {
        let mut a = 0;
        loop {
            each(a, b);
            if a + row_step >= rows {
                break;
            }
            a = (a + row_step).min(rows - row_step);
        }
        if b + column_step >= columns {
            return;
        }
        b = (b + column_step).min(columns - column_step);
    }
}

/// # Safety
/// As [`transpose_sized`].
#[inline(always)]
unsafe fn transpose_width<V: TransposeLanes, L: CopyLane, const E: usize, const STREAM: bool>(
    src: *const u8,
    dst: *mut u8,
    t: TransposeTile,
) {
    // SAFETY: by the contract of this function. `E` is one of these widths.
    unsafe {
        match E {
            1 => transpose_sized::<V, L, E, 16, STREAM>(src, dst, t),
            2 => transpose_sized::<V, L, E, 8, STREAM>(src, dst, t),
            4 => transpose_sized::<V, L, E, 4, STREAM>(src, dst, t),
            8 => transpose_sized::<V, L, E, 2, STREAM>(src, dst, t),
            _ => transpose_sized::<V, L, E, 1, STREAM>(src, dst, t),
        }
    }
}

/// Tiles too narrow for a register block, with non-temporal stores.
///
/// # Safety
/// As [`transpose_sized`] with `STREAM`.
unsafe fn transpose_by_column<const E: usize>(src: *const u8, dst: *mut u8, t: TransposeTile) {
    // A column is made whole first, because only whole lines may be stored past the caches.
    let mut column = [0u8; MAX_TILE_ROW_BYTES];
    for b in 0..t.nb {
        // SAFETY: `a` and `b` are inside the tile, and a column is no longer than `MAX_TILE_ROW_BYTES`.
        unsafe {
            for a in 0..t.na {
                let s = src.add(b * E).offset(a.cast_signed() * t.sa);
                s.copy_to_nonoverlapping(column.as_mut_ptr().add(a * E), E);
            }
            (*t.scratch).write_column(
                column.as_ptr(),
                dst.offset(b.cast_signed() * t.db),
                t.na * E,
            );
        }
    }
}

/// Tiles too narrow for a register block.
///
/// # Safety
/// The tile is readable at `src` and writable at `dst`, and the two do not overlap.
unsafe fn transpose_by_element<const E: usize>(src: *const u8, dst: *mut u8, t: TransposeTile) {
    for b in 0..t.nb {
        for a in 0..t.na {
            // SAFETY: `a` and `b` are inside the tile.
            unsafe {
                let s = src.add(b * E).offset(a.cast_signed() * t.sa).cast::<[u8; E]>();
                let d = dst.add(a * E).offset(b.cast_signed() * t.db).cast::<[u8; E]>();
                d.write_unaligned(s.read_unaligned());
            }
        }
    }
}
