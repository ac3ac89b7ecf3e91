//! Tiles with non-temporal stores whose columns are gathered: one driver for every instruction set with squares of
//! lines.
//!
//! An instruction set has its own way to transpose a square (`square.rs`, `halves.rs`, `neon.rs`). The order of the
//! squares, the gathered columns and their stores are the same for all of them. Tiles whose rows begin on lines are
//! not shared: AVX-512 stores four lines of a square at once, AVX2 and NEON halves of one line after the other, and
//! that decides the loops.

use super::TransposeTile;
use super::scratch::{Scratch, column_pitch};
use crate::engine::cell::CopyLane;

/// The two halves of the transpose of a square of 64 bytes by `4 * R` rows, `R = 16 / E`.
pub(super) trait LineSquares {
    /// The register by which columns are stored.
    type Lane: CopyLane;

    /// Transposes the four groups of rows lane by lane, and leaves them at `between`. `other(group)` runs before
    /// each group.
    ///
    /// # Safety
    /// `4 * R` rows of 64 bytes, `sa` apart, are readable at `src`; `4 * R` lines are writable at `between`,
    /// aligned; and the machine has the instructions.
    unsafe fn load_square<const E: usize, const R: usize>(
        src: *const u8,
        sa: isize,
        between: *mut u8,
        other: impl FnMut(usize),
    );

    /// Stores the columns of a square, each a line: column `c` at `to + c * pitch`.
    ///
    /// # Safety
    /// `between` holds a square as [`LineSquares::load_square`] leaves it, the lines are writable at `to`, and the
    /// machine has the instructions.
    unsafe fn store_columns<const R: usize>(between: *const u8, to: *mut u8, pitch: usize);
}

/// A tile of at least one square: columns are gathered, and are stored a few at a time while the next are gathered.
/// `prefetch(a, b)` runs before the rows from `a` on are loaded at column `b`.
///
/// # Safety
/// As [`super::transpose_sized`]; `na` and `nb` are at least `64 / E`, and the machine has the instructions of `S`.
#[inline(always)]
pub(super) unsafe fn stream_gathered_squares<S: LineSquares, const E: usize, const R: usize>(
    src: *const u8,
    dst: *mut u8,
    t: TransposeTile,
    mut prefetch: impl FnMut(usize, usize),
) {
    let side = 4 * R;
    // SAFETY: columns of `na * E <= MAX_TILE_ROW_BYTES` bytes fit the scratch. Squares stay inside the tile: the
    // last one of each direction is moved back to end with it, and the same bytes are written again. All
    // of a column is gathered before it is handed over.
    unsafe {
        let scratch: &mut Scratch = &mut *t.scratch;
        let square = scratch.square_memory();
        // Columns of the last squares are stored in as many parts as there are groups of rows to load, so
        // that loads and stores of memory go on at once.
        let share = side.div_ceil(4 * t.na.div_ceil(side));
        let pitch = column_pitch(t.na * E, t.db);
        let mut b = 0usize;
        loop {
            let gather = scratch.column_memory();
            let mut a = 0usize;
            loop {
                let from = src.add(b * E).offset(a.cast_signed() * t.sa);
                S::load_square::<E, R>(from, t.sa, square, |group| {
                    prefetch(a + group * R, b);
                    scratch.flush_columns::<S::Lane>(share);
                });
                S::store_columns::<R>(square, gather.add(a * E), pitch);
                if a + side >= t.na {
                    break;
                }
                a = (a + side).min(t.na - side);
            }
            let to = dst.offset(b.cast_signed() * t.db);
            scratch.hand_over_columns::<S::Lane>(to, t.db, t.na * E, side);
            if b + side >= t.nb {
                return;
            }
            b = (b + side).min(t.nb - side);
        }
    }
}
