//! Tiles with non-temporal stores through a stage: for registers narrower than a line, and for narrow tiles.

use super::super::cell::{CopyLane, copy_bytes, prefetch_line};
use super::scratch::column_pitch;
use super::{TransposeLanes, TransposeTile, transpose_block};
use crate::engine::tuning::{MIN_STAGED_STEP_BYTES, STAGE_PITCH_BYTES, STAGE_ROW_BYTES};

/// Copies `bytes` of every row of a tile into the stage.
///
/// # Safety
/// `na` rows of `bytes` are readable at `src`, and `stage` holds as many at its pitch.
#[inline(always)]
unsafe fn gather_rows_to_stage<L: CopyLane>(
    src: *const u8,
    t: TransposeTile,
    bytes: usize,
    stage: *mut u8,
) {
    // SAFETY: every access is inside a row, and rows inside the tile.
    unsafe {
        // Four rows at a time, because they miss the caches each and their misses overlap.
        let mut a = 0usize;
        while a + 4 <= t.na && bytes >= L::BYTES {
            let rows: [*const u8; 4] =
                std::array::from_fn(|k| src.offset((a + k).cast_signed() * t.sa));
            let mut at = 0;
            loop {
                let v = rows.map(|r| L::load_lane(r.add(at)));
                for (k, v) in v.into_iter().enumerate() {
                    v.store_lane(stage.add((a + k) * STAGE_PITCH_BYTES + at));
                }
                if at + L::BYTES >= bytes {
                    break;
                }
                at = (at + L::BYTES).min(bytes - L::BYTES);
            }
            a += 4;
        }
        for a in a..t.na {
            let row = src.offset(a.cast_signed() * t.sa);
            copy_bytes::<L, false>(row, stage.add(a * STAGE_PITCH_BYTES), bytes);
        }
    }
}

/// A tile through the buffers.
///
/// Rows that are a power of two apart share few sets of the caches, so their lines would drive one
/// another out between one block and the next. A stretch of every row is therefore copied first, in
/// bursts; blocks then read it from a compact place, and the columns are stored as long rows.
///
/// # Safety
/// As [`super::transpose_sized`]; `na >= 16 / E` and `nb >= 16 / E * COUNT`.
#[inline(always)]
pub(super) unsafe fn transpose_through_stage<
    V: TransposeLanes,
    L: CopyLane,
    const E: usize,
    const R: usize,
>(
    src: *const u8,
    dst: *mut u8,
    t: TransposeTile,
) {
    let rows = R;
    let wide = rows * V::COUNT;
    // SAFETY: `na <= MAX_TILE_ROW_BYTES / E` rows of `STAGE_ROW_BYTES` bytes fit the stage, and `wide <= 64` columns of
    // `na * E <= MAX_TILE_ROW_BYTES` bytes fit the columns. Only what was written is read: a stretch of `len` bytes
    // of each row is copied before its blocks run, and the blocks of a piece cover all of its columns
    // before these leave. The last block of each direction is moved back to end with the tile.
    unsafe {
        let scratch = &mut *t.scratch;
        let stage = scratch.stage_memory();
        let gathered = column_pitch(t.na * E, t.db).cast_signed();
        // The columns of the last blocks are stored in equal parts behind each block of these, so that the
        // stores do not queue up at once.
        let share = wide.div_ceil(t.na.div_ceil(rows));
        let per_stage = (STAGE_ROW_BYTES / E).max(wide);
        // Rows near one another share no sets, and are read in place.
        let staged = t.sa.unsigned_abs() >= MIN_STAGED_STEP_BYTES;
        let mut b = 0usize;
        loop {
            let count = per_stage.min(t.nb - b);
            let from = src.add(b * E);
            let (at, pitch) = if staged {
                gather_rows_to_stage::<L>(from, t, count * E, stage);
                (stage.cast_const(), STAGE_PITCH_BYTES.cast_signed())
            } else {
                (from, t.sa)
            };
            let ahead = if b + count < t.nb { from.wrapping_add(count * E) } else { t.next };
            let mut c = 0usize;
            loop {
                let columns = scratch.column_memory();
                let mut a = 0usize;
                loop {
                    // The same lines of the next stretch are prefetched while this one is in registers.
                    let step = t.next_step;
                    let next = ahead.wrapping_add(c * E).wrapping_offset(a.cast_signed() * step);
                    for k in 0..rows {
                        prefetch_line(next.wrapping_offset(k.cast_signed() * step));
                    }
                    transpose_block::<V, E, R>(
                        at.add(c * E).offset(a.cast_signed() * pitch),
                        pitch,
                        columns.add(a * E),
                        gathered,
                    );
                    scratch.flush_columns::<L>(share);
                    if a + rows >= t.na {
                        break;
                    }
                    a = (a + rows).min(t.na - rows);
                }
                let to = dst.offset((b + c).cast_signed() * t.db);
                scratch.hand_over_columns::<L>(to, t.db, t.na * E, wide);
                if c + wide >= count {
                    break;
                }
                c = (c + wide).min(count - wide);
            }
            if b + count >= t.nb {
                return;
            }
            // A last stretch shorter than a block would not fill the registers.
            b = (b + count).min(t.nb - wide);
        }
    }
}
