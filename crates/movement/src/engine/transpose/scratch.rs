//! What tiles with non-temporal stores keep from one to the next.

use super::super::cell::{CopyLane, PortableLane, copy_bytes};
use super::super::stream::LINE_BYTES;
use crate::engine::tuning::{COLUMN_PITCH_BYTES, MAX_TILE_ROW_BYTES, STAGE_PITCH_BYTES};
use std::mem::MaybeUninit;

/// Squares of lines while they are transposed: 64 lines each at most, side by side for a row of a tile.
const SQUARES_BYTES: usize = MAX_TILE_ROW_BYTES / 64 * 64 * 64;
const COLUMNS_BYTES: usize = 64 * COLUMN_PITCH_BYTES;
const STAGE_BYTES: usize = MAX_TILE_ROW_BYTES * STAGE_PITCH_BYTES;

/// Memory for squares, for two sets of gathered columns and for a stage of source rows; and the set
/// that is still on its way to memory.
///
/// Non-temporal stores queue up behind memory. Handing them over a few at a time, between the blocks of
/// the next columns, lets registers and memory work at once.
#[derive(Debug)]
pub(in super::super) struct Scratch {
    /// Only what was written is read.
    memory: Vec<ScratchLine>,
    pending: PendingColumns,
    /// What is written of the columns that are gathered.
    trim: Trim,
    /// Which set of columns is gathered next.
    second: bool,
}

/// Which bytes of the columns of a *skewed* tile are written: the lines of the destination begin elsewhere in
/// every one of its columns.
///
/// A skewed tile also reads as many rows of the next tile as make a line, and writes from the first line that
/// begins in it to the first that begins behind it: tiles side by side write whole lines, each once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Trim {
    /// Whether the columns begin with the tile, in the middle of a line or not.
    pub(in super::super) first: bool,
    /// Bytes of a column that belong to this tile; `usize::MAX` where no tile follows.
    pub(in super::super) own: usize,
}

impl Trim {
    /// All bytes.
    pub(in super::super) const WHOLE: Trim = Trim { first: true, own: usize::MAX };

    /// The first and the end of the bytes that are written of a column of `bytes` at `to`.
    #[inline(always)]
    fn written_range(self, to: *const u8, bytes: usize) -> (usize, usize) {
        let next_line =
            |from: usize| from + to.addr().wrapping_add(from).wrapping_neg() % LINE_BYTES;
        let begin = if self.first { 0 } else { next_line(0).min(bytes) };
        let end = if self.own < bytes { next_line(self.own).min(bytes) } else { bytes };
        (begin, end.max(begin))
    }
}

/// Memory that begins on a line.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct ScratchLine {
    _bytes: [MaybeUninit<u8>; 64],
}

/// Columns that are gathered and not yet written.
#[derive(Debug, Clone, Copy)]
struct PendingColumns {
    from: *const u8,
    to: *mut u8,
    step: isize,
    bytes: usize,
    left: usize,
    trim: Trim,
}

/// The distance between gathered columns of `bytes` that are stored `step` apart: those that follow one
/// another there are gathered so, and leave as one.
#[inline(always)]
pub(super) fn column_pitch(bytes: usize, step: isize) -> usize {
    if step == bytes.cast_signed() { bytes } else { COLUMN_PITCH_BYTES }
}

impl Scratch {
    /// Scratch for a job; without memory where its stores are not non-temporal.
    pub(in super::super) fn new(streamed: bool) -> Scratch {
        let bytes = if streamed { SQUARES_BYTES + 2 * COLUMNS_BYTES + STAGE_BYTES } else { 0 };
        let (from, to) = (std::ptr::null(), std::ptr::null_mut());
        let trim = Trim::WHOLE;
        let pending = PendingColumns { from, to, step: 0, bytes: 0, left: 0, trim };
        // Not zeroed: half a megabyte would cost more than a small move, and all that is read was written.
        let memory = Vec::with_capacity(bytes / size_of::<ScratchLine>());
        Scratch { memory, pending, trim, second: false }
    }

    /// What is written of the columns of the next tile.
    #[inline(always)]
    pub(in super::super) fn set_trim(&mut self, trim: Trim) {
        self.trim = trim;
    }

    /// Whether every byte of a tile is written.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "a kernel of SSE2 asks"))]
    pub(super) fn is_untrimmed(&self) -> bool {
        self.trim == Trim::WHOLE
    }

    /// Writes one column from `from`.
    ///
    /// # Safety
    /// `bytes` are readable at `from` and writable at `to`.
    pub(super) unsafe fn write_column(&self, from: *const u8, to: *mut u8, bytes: usize) {
        let (begin, end) = self.trim.written_range(to, bytes);
        // SAFETY: by the contract of this function: the range is inside of the column.
        unsafe { copy_bytes::<PortableLane, true>(from.add(begin), to.add(begin), end - begin) };
    }

    /// Memory for as many squares as a row has lines, 64 lines each, aligned to lines.
    #[inline(always)]
    #[cfg_attr(
        not(any(target_arch = "x86_64", target_arch = "aarch64")),
        allow(dead_code, reason = "squares are of AVX and NEON")
    )]
    pub(super) fn square_memory(&mut self) -> *mut u8 {
        self.memory.as_mut_ptr().cast::<u8>()
    }

    /// Memory for the next 64 columns of up to [`MAX_TILE_ROW_BYTES`] bytes, [`column_pitch`] apart.
    #[inline(always)]
    pub(super) fn column_memory(&mut self) -> *mut u8 {
        let set = if self.second { COLUMNS_BYTES } else { 0 };
        self.memory.as_mut_ptr().cast::<u8>().wrapping_add(SQUARES_BYTES + set)
    }

    /// Memory for [`MAX_TILE_ROW_BYTES`] stretches of [`STAGE_ROW_BYTES`](crate::engine::tuning::STAGE_ROW_BYTES) bytes,
    /// [`STAGE_PITCH_BYTES`] apart.
    #[inline(always)]
    pub(super) fn stage_memory(&mut self) -> *mut u8 {
        self.memory.as_mut_ptr().cast::<u8>().wrapping_add(SQUARES_BYTES + 2 * COLUMNS_BYTES)
    }

    /// Hands over the columns just gathered: `count` of them, each `bytes` long, to addresses `step`
    /// apart. Those handed over before are written first.
    ///
    /// # Safety
    /// All these addresses stay writable until they are written, the columns hold what goes there, and
    /// the machine has the instructions of `L`.
    #[inline(always)]
    pub(super) unsafe fn hand_over_columns<L: CopyLane>(
        &mut self,
        to: *mut u8,
        step: isize,
        bytes: usize,
        count: usize,
    ) {
        // SAFETY: by the contract of this function.
        unsafe { self.flush_columns::<L>(usize::MAX) };
        // Columns that follow one another are one: only its two ends may be broken lines.
        let joined = column_pitch(bytes, step) == bytes;
        let (bytes, left) = if joined { (bytes * count, 1) } else { (bytes, count) };
        self.pending =
            PendingColumns { from: self.column_memory(), to, step, bytes, left, trim: self.trim };
        // The next columns are gathered into the other set, while these are on their way.
        self.second = !self.second;
    }

    /// Writes up to `rows` of the columns handed over.
    ///
    /// # Safety
    /// Their addresses are still writable, and the machine has the instructions of `L`.
    #[inline(always)]
    pub(super) unsafe fn flush_columns<L: CopyLane>(&mut self, rows: usize) {
        let p = &mut self.pending;
        for _ in 0..rows.min(p.left) {
            let (begin, end) = p.trim.written_range(p.to, p.bytes);
            // SAFETY: `from` holds `left` columns at its pitch, and their places are writable; the range is
            // inside of a column.
            unsafe { copy_bytes::<L, true>(p.from.add(begin), p.to.add(begin), end - begin) };
            p.from = p.from.wrapping_add(COLUMN_PITCH_BYTES);
            p.to = p.to.wrapping_offset(p.step);
            p.left -= 1;
        }
    }

    /// Writes what is still pending.
    ///
    /// # Safety
    /// The destination of the tiles that ran with it is still writable.
    pub(in super::super) unsafe fn flush_pending(&mut self) {
        // SAFETY: by the contract of this function.
        unsafe { self.flush_columns::<PortableLane>(usize::MAX) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ranges of tiles side by side follow one another, and all but the outer ends are lines.
    #[test]
    fn trimmed_tiles_cover_a_row_once_in_whole_lines() {
        for (offset, element) in [(0, 2), (2, 2), (6, 2), (4, 4), (3, 1), (16, 16), (5, 2)] {
            for total in [64, 130, 700, 1000, 1023] {
                for part in [64, 192, 256] {
                    let (total, mut done) = (total * element, 0);
                    for at in (0..total).step_by(part) {
                        let bytes = (part + LINE_BYTES).min(total - at);
                        let own = if at + part < total { part } else { usize::MAX };
                        let trim = Trim { first: at == 0, own };
                        let to = std::ptr::without_provenance(4096 + offset + at);
                        let (begin, end) = trim.written_range(to, bytes);
                        assert_eq!(at + begin, done.max(at + begin), "a gap before {at}");
                        assert!(at + begin <= done || begin == end);
                        if begin < end {
                            assert_eq!(at + begin, done);
                            done = at + end;
                            let lines = (4096 + offset + done).is_multiple_of(LINE_BYTES);
                            assert!(lines || done == total, "{offset} {total} {part} {at}");
                        }
                    }
                    assert_eq!(done, total, "{offset} {element} {part}");
                }
            }
        }
    }
}
