//! Lines that one tile begins and the next one ends, written by non-temporal stores.
//!
//! A line that is stored in two parts is read from memory first, and everything behind it waits. Rows that
//! grow from tile to tile therefore keep their last, unfinished line back until its rest comes.
//!
//! Rows are made in a stage, and are copied out of it one row later: stores are done in order, so a row that was
//! just made still waits behind the last one on its way to memory, and to read it at once is to wait for both.

use super::cell::{CopyLane, PortableLane, copy_bytes};
use super::stream::LINE_BYTES;
use std::mem::MaybeUninit;

/// The unfinished lines of a run, one for every row of a tile.
#[derive(Debug)]
pub(super) struct LineCarries {
    lines: Vec<CarriedLine>,
    /// Two stages, one behind the other; only what was written is read.
    stages: Vec<AlignedLine>,
    /// Bytes of a stage.
    stage: usize,
    second: bool,
    pending: Option<PendingRow>,
}

/// Memory that begins on a line.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct AlignedLine {
    _bytes: [MaybeUninit<u8>; LINE_BYTES],
}

/// A row that is made, and where it goes.
#[derive(Debug, Clone, Copy)]
struct PendingRow {
    row: usize,
    from: *const u8,
    to: *mut u8,
    bytes: usize,
}

/// The bytes `begin .. end` of a line of the destination.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct CarriedLine {
    bytes: [u8; LINE_BYTES],
    line: *mut u8,
    begin: usize,
    end: usize,
}

impl LineCarries {
    /// For tiles of some rows, each of at most `stage` bytes.
    pub(super) fn new(rows: usize, stage: usize) -> LineCarries {
        let none =
            CarriedLine { bytes: [0; LINE_BYTES], line: std::ptr::null_mut(), begin: 0, end: 0 };
        let stage = if rows > 0 { stage.next_multiple_of(LINE_BYTES) } else { 0 };
        let stages = Vec::with_capacity(2 * stage / LINE_BYTES);
        LineCarries { lines: vec![none; rows], stages, stage, second: false, pending: None }
    }

    /// Where the next row is made.
    pub(super) fn stage_memory(&mut self) -> *mut u8 {
        let second = if self.second { self.stage } else { 0 };
        self.stages.as_mut_ptr().cast::<u8>().wrapping_add(second)
    }

    /// Takes a row that was made in the stage, and writes the one that was taken before it.
    ///
    /// # Safety
    /// As [`LineCarries::write_row`], of the stage.
    #[inline(always)]
    pub(super) unsafe fn hand_over<L: CopyLane>(&mut self, row: usize, to: *mut u8, bytes: usize) {
        let made = PendingRow { row, from: self.stage_memory(), to, bytes };
        self.second = !self.second;
        if let Some(PendingRow { row, from, to, bytes }) = self.pending.replace(made) {
            // SAFETY: by the contract of this function, when that row was handed over.
            unsafe { self.write_row::<L>(row, from, to, bytes) };
        }
    }

    /// Writes `bytes` of row `row` by non-temporal stores. What is behind the last whole line is written later,
    /// at the latest by [`LineCarries::write_remaining`].
    ///
    /// # Safety
    /// `from` is readable and `to` writable for `bytes`, the latter until it is finished, they do not
    /// overlap, and the machine has the instructions of `L`.
    #[inline(always)]
    unsafe fn write_row<L: CopyLane>(
        &mut self,
        row: usize,
        mut from: *const u8,
        mut to: *mut u8,
        mut bytes: usize,
    ) {
        let carry = &mut self.lines[row];
        // SAFETY: by the contract of this function: what is carried is part of an earlier row, and every
        // line that is stored past the caches is inside of what was given to this function.
        unsafe {
            // Tiles usually follow one another along the row; behind the end of a row another one begins.
            let follows = carry.end > 0 && carry.line.wrapping_add(carry.end) == to;
            if !follows {
                carry.write_carried();
                let off = to.addr() % LINE_BYTES;
                *carry = CarriedLine { line: to.wrapping_sub(off), begin: off, end: off, ..*carry };
            }
            if carry.end > 0 {
                let some = bytes.min(LINE_BYTES - carry.end);
                copy_bytes::<PortableLane, false>(
                    from,
                    carry.bytes.as_mut_ptr().add(carry.end),
                    some,
                );
                carry.end += some;
                (from, to, bytes) = (from.add(some), to.add(some), bytes - some);
                if carry.end < LINE_BYTES {
                    return;
                }
                // Of the first line of a row something is before it, which is not ours to write.
                if carry.begin == 0 {
                    copy_line::<L>(carry.bytes.as_ptr(), carry.line);
                    carry.end = 0;
                } else {
                    carry.write_carried();
                }
            }
            while bytes >= LINE_BYTES {
                copy_line::<L>(from, to);
                (from, to, bytes) = (from.add(LINE_BYTES), to.add(LINE_BYTES), bytes - LINE_BYTES);
            }
            copy_bytes::<PortableLane, false>(from, carry.bytes.as_mut_ptr(), bytes);
            *carry = CarriedLine { line: to, begin: 0, end: bytes, ..*carry };
        }
    }

    /// Writes what is left.
    ///
    /// # Safety
    /// What was handed over is still writable.
    pub(super) unsafe fn write_remaining(&mut self) {
        if let Some(PendingRow { row, from, to, bytes }) = self.pending.take() {
            // SAFETY: by the contract of this function.
            unsafe { self.write_row::<PortableLane>(row, from, to, bytes) };
        }
        for carry in &mut self.lines {
            // SAFETY: by the contract of this function.
            unsafe { carry.write_carried() };
        }
    }
}

impl CarriedLine {
    /// # Safety
    /// Its part of the line is writable.
    unsafe fn write_carried(&mut self) {
        if self.begin < self.end {
            // SAFETY: by the contract of this function; the part is inside of a line.
            unsafe {
                let (from, to) = (self.bytes.as_ptr().add(self.begin), self.line.add(self.begin));
                copy_bytes::<PortableLane, false>(from, to, self.end - self.begin);
            }
        }
        (self.begin, self.end) = (0, 0);
    }
}

/// # Safety
/// A line is readable at `from`; `to` is writable and begins on one; the machine has the instructions.
#[inline(always)]
unsafe fn copy_line<L: CopyLane>(from: *const u8, to: *mut u8) {
    for at in (0..LINE_BYTES).step_by(L::BYTES) {
        // SAFETY: by the contract of this function.
        unsafe { L::load_lane(from.add(at)).store_non_temporal(to.add(at)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows that are handed over in pieces of any length, at any address, are written whole.
    #[test]
    fn pieces_make_up_their_rows() {
        let source: Vec<u8> = (0..4000u32).map(|i| (i % 251).to_le_bytes()[0]).collect();
        for begin in [0, 1, 30, 63, 64, 100] {
            for piece in [1, 7, 50, 63, 64, 65, 200, 1000] {
                let mut out = vec![0u8; 2400];
                let mut carries = LineCarries::new(2, 1000);
                let (mut at, to) = (0, out.as_mut_ptr());
                while at + piece <= 1000 {
                    for row in [0, 1] {
                        let from = &source[row * 2000 + at..][..piece];
                        // SAFETY: rows are inside of the buffer, which lives until they are finished, and
                        // pieces are no longer than the stage.
                        unsafe {
                            carries.stage_memory().copy_from_nonoverlapping(from.as_ptr(), piece);
                            let place = to.add(row * 1200 + begin + at);
                            carries.hand_over::<PortableLane>(row, place, piece);
                        }
                    }
                    at += piece;
                }
                // SAFETY: as above.
                unsafe { carries.write_remaining() };
                super::super::cell::fence_stores();
                let mut want = vec![0u8; 2400];
                want[begin..begin + at].copy_from_slice(&source[..at]);
                want[1200 + begin..][..at].copy_from_slice(&source[2000..][..at]);
                assert!(out == want, "pieces of {piece} at {begin}");
            }
        }
    }
}
