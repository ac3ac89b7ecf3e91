//! Loops along which the source does not move: what is inside such a loop is moved once, and copied.

use super::job::{ByteLoop, NestJob};
use super::rows::{self, RowCopyKernel};
use crate::engine::tuning::{
    GROWN_REPEAT_BYTES, MAX_REPEAT_BYTES, MIN_COPIES_PER_TILE, MIN_PLAIN_REPEAT_BYTES,
    REPEAT_TILE_BYTES,
};

/// A dense stretch of the destination that is written once by a job of its own, then copied.
#[derive(Debug, Clone)]
pub(super) struct RepeatedStretch {
    body: NestJob,
    bytes: usize,
    /// Bytes from one copy to the next.
    step: isize,
    copy: RowCopyKernel,
}

/// The loops of a nest, divided into those of a repeat and the others, in bytes.
pub(super) struct RepeatSplit {
    /// The loop along which the source does not move.
    pub(super) over: ByteLoop,
    pub(super) inner: Vec<ByteLoop>,
    pub(super) outer: Vec<ByteLoop>,
    bytes: usize,
}

/// Divides loops at the outermost one that can be a repeat: its inner loops fill a stretch without gaps.
pub(super) fn split_repeat_loop(loops: &[ByteLoop], width: usize) -> Option<RepeatSplit> {
    let still = loops.iter().filter(|l| l.src == 0 && l.n > 1 && l.dst > 0);
    let fits = still.filter_map(|over| {
        let (mut inner, mut outer) = (Vec::new(), Vec::new());
        for l in loops.iter().filter(|l| *l != over) {
            if l.dst.abs() < over.dst { inner.push(*l) } else { outer.push(*l) }
        }
        let mut sorted = inner.clone();
        sorted.sort_unstable_by_key(|l| l.dst);
        let dense = sorted.iter().try_fold(width.cast_signed(), |next, l| {
            (l.dst == next).then(|| next.saturating_mul(l.n))
        });
        let bytes = dense?.unsigned_abs();
        // One long run is copied as fast from the source as from its first copy.
        let plain = inner.iter().all(|l| l.src == l.dst) && inner.len() < 2;
        let short = bytes < MIN_PLAIN_REPEAT_BYTES && over.dst == bytes.cast_signed();
        let good = !inner.is_empty() && bytes <= MAX_REPEAT_BYTES && (!plain || short);
        good.then_some(RepeatSplit { over: *over, inner, outer, bytes })
    });
    // The outermost one: its stretch holds those of the others, so that most is copied.
    fits.max_by_key(|s| s.over.dst)
}

impl RepeatSplit {
    /// Whether a stretch is too short for a job of its own.
    pub(super) fn is_short(&self) -> bool {
        self.bytes < GROWN_REPEAT_BYTES
    }
}

impl RepeatedStretch {
    /// The kernel, made of the job of the inner loops.
    pub(super) fn new(split: &RepeatSplit, body: NestJob, stream: bool) -> RepeatedStretch {
        let step = split.over.dst;
        // A stretch that grows is read again at once, so it has to stay in the caches.
        let grows = step.unsigned_abs() == split.bytes && split.bytes < GROWN_REPEAT_BYTES;
        let bytes = split.bytes;
        RepeatedStretch {
            body,
            bytes,
            step,
            copy: rows::select_row_kernel(bytes, stream && !grows),
        }
    }

    /// Steps of the loop that one tile takes: many, as each tile moves the stretch once.
    pub(super) fn tile_steps(&self) -> isize {
        (REPEAT_TILE_BYTES / self.bytes).max(MIN_COPIES_PER_TILE).cast_signed()
    }

    /// Writes the stretch at `dst` and its copies, `count` in all.
    ///
    /// # Safety
    /// What the body reads is readable at `src`, the stretch and its copies are writable at `dst`,
    /// and the two do not overlap.
    pub(super) unsafe fn write_copies(&self, src: *const u8, dst: *mut u8, count: usize) {
        // SAFETY: by the contract of this function. The stretch is written before it is read, and no
        // copy overlaps what it is copied from.
        unsafe {
            let cut = self.body.cut_for_buffers(src, dst);
            self.body.run_tiles(0..self.body.tile_count(cut), src, dst, cut);
            if count < 2 {
                return;
            }
            if self.step.unsigned_abs() != self.bytes || self.bytes >= GROWN_REPEAT_BYTES {
                let copies = ByteLoop { n: count.cast_signed() - 1, src: 0, dst: self.step };
                let to = dst.offset(self.step);
                (self.copy)(dst.cast_const(), to, self.bytes, ByteLoop::UNIT_LOOP, copies);
                return;
            }
            // What is written doubles with every copy until it is long enough to be copied on.
            let all = self.bytes * count;
            let (mut done, mut part) = (self.bytes, self.bytes);
            while done < all {
                let next = part.min(all - done);
                dst.cast_const().copy_to_nonoverlapping(dst.add(done), next);
                done += next;
                if part < GROWN_REPEAT_BYTES {
                    part = done;
                }
            }
        }
    }
}
