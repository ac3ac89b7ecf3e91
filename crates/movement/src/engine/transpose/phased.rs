//! Tiles whose rows conflict in every cache, with non-temporal stores: all is read first, then written.
//!
//! Rows that are 64 KiB apart, or a multiple of it, share a handful of sets even of the second level
//! cache. Where a tile reads them while it writes, few rows can be in flight, so a tile has few rows, and
//! few rows make short stores: every one of them opens another page of memory for a line or two. Here a
//! tile has as many rows as make [`MAX_TILE_ROW_BYTES`](super::MAX_TILE_ROW_BYTES) bytes of the destination.
//! [`STAGE_ROW_BYTES`] bytes of each are copied into one compact stage first. They are transposed from there
//! afterwards, and long stretches are stored while the next tile is prefetched: what the second level cache
//! cannot hold of it waits in the third.
//!
//! The two phases also keep usual stores from waiting behind non-temporal ones, because a processor does its
//! stores in order.

use super::super::cell::{CopyLane, copy_bytes, prefetch_line};
use super::super::stream::LINE_BYTES;
use super::TransposeTile;
use crate::engine::tuning::{
    CONFLICT_STRIDE_BYTES, PHASED_PREFETCH_ROWS, STAGE_PITCH_BYTES, STAGE_ROW_BYTES,
};

/// Whether a tile is one for this file.
pub(super) fn suits_phased(t: &TransposeTile) -> bool {
    t.sa.unsigned_abs().is_multiple_of(CONFLICT_STRIDE_BYTES)
}

/// Copies `bytes` of every row of a tile into the stage, and prefetches the rows of the stretch at `next`
/// behind them.
///
/// # Safety
/// `na` rows of `bytes`, `sa` apart, are readable at `src`, `stage` holds as many at its pitch, and the
/// machine has the instructions of `L`.
#[inline(always)]
unsafe fn gather_to_stage<L: CopyLane>(
    src: *const u8,
    t: &TransposeTile,
    bytes: usize,
    stage: *mut u8,
    next: *const u8,
) {
    for a in 0..t.na {
        // The hardware does not prefetch rows this far apart, so the distance is counted in rows.
        let soon = match (a + PHASED_PREFETCH_ROWS).checked_sub(t.na) {
            None => src.wrapping_offset((a + PHASED_PREFETCH_ROWS).cast_signed() * t.sa),
            Some(row) => next.wrapping_offset(row.cast_signed() * t.sa),
        };
        for at in (0..bytes).step_by(LINE_BYTES) {
            prefetch_line(soon.wrapping_add(at));
        }
        // SAFETY: by the contract of this function.
        unsafe {
            let row = src.offset(a.cast_signed() * t.sa);
            copy_bytes::<L, false>(row, stage.add(a * STAGE_PITCH_BYTES), bytes);
        }
    }
}

/// A tile in which a square of lines fits, through the stage; `transpose` is called for what the stage holds.
///
/// # Safety
/// As [`super::transpose_sized`] with non-temporal stores; `na` and `nb` are at least `64 / E`, the machine has the
/// instructions of `L`, and `transpose` may be called with any tile of `na` rows and at least as many columns
/// as a line has elements.
#[inline(always)]
pub(super) unsafe fn transpose_staged<L: CopyLane, const E: usize>(
    src: *const u8,
    dst: *mut u8,
    t: TransposeTile,
    transpose: impl Fn(*const u8, *mut u8, TransposeTile),
) {
    // SAFETY: `na * E <= MAX_TILE_ROW_BYTES`, so that many rows of `STAGE_ROW_BYTES` bytes fit the stage. Stretches stay inside
    // the tile: the last one is moved back to be a line long, and writes the same bytes again.
    unsafe {
        let stage = (*t.scratch).stage_memory();
        let mut b = 0;
        loop {
            let count = (STAGE_ROW_BYTES / E).min(t.nb - b);
            let from = src.add(b * E);
            let end = b + count;
            let next = if end < t.nb { from.wrapping_add(count * E) } else { t.next };
            gather_to_stage::<L>(from, &t, count * E, stage, next);
            let (sa, next_step) = (STAGE_PITCH_BYTES.cast_signed(), t.sa);
            let compact = TransposeTile { sa, nb: count, next, next_step, ..t };
            transpose(stage, dst.offset(b.cast_signed() * t.db), compact);
            if end >= t.nb {
                return;
            }
            // The last stretch has a line at least: `transpose` takes no less.
            b = end.min(t.nb - LINE_BYTES / E);
        }
    }
}
