//! A call: pieces of work that its caller and its helpers take one after another.

use super::outlook::CoreOutlook;
use std::any::Any;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// The work on some pieces that follow one another.
pub(super) type PieceWork<'a> = dyn Fn(Range<usize>) + Sync + 'a;

/// How often a helper checks whether others want its core, and a caller whether more helpers would find one. A look
/// takes 1.5 microseconds (bench/README.md), so it is well below one per cent of the time.
pub(super) const LOOK_AGAIN: Duration = Duration::from_micros(500);

/// The state that a caller and its helpers share.
///
/// **Invariant.** `work` may be called by a thread that has taken a piece, until that piece is counted as finished;
/// the caller stays until all pieces are. So a helper that comes too late accesses nothing but this state.
pub(super) struct CrewCall {
    work: &'static PieceWork<'static>,
    pieces: usize,
    /// Pieces that are taken together, at most, and threads that take them.
    together: usize,
    threads: usize,
    /// The first piece that nobody has taken yet.
    next: AtomicUsize,
    /// Pieces that are finished, or that a panic has skipped.
    finished: AtomicUsize,
    caller: Thread,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

impl CrewCall {
    /// # Safety
    /// `work` lives until [`CrewCall::is_finished`].
    pub(super) unsafe fn new(
        threads: usize,
        pieces: usize,
        together: usize,
        work: &PieceWork<'_>,
    ) -> CrewCall {
        // SAFETY: only the lifetime changes, and by the contract of this function and the invariant of the
        // type `work` is not called after its end.
        let work =
            unsafe { std::mem::transmute::<&PieceWork<'_>, &'static PieceWork<'static>>(work) };
        CrewCall {
            work,
            pieces,
            together,
            threads,
            next: AtomicUsize::new(0),
            finished: AtomicUsize::new(0),
            caller: std::thread::current(),
            panic: Mutex::new(None),
        }
    }

    /// The next pieces: half of what each thread would have left, so that many are taken together at first, and
    /// single ones at the end, where the threads have to finish at the same time.
    fn take_next_pieces(&self) -> Option<Range<usize>> {
        let mut from = self.next.load(Ordering::Relaxed);
        loop {
            let left = self.pieces.checked_sub(from).filter(|left| *left > 0)?;
            // This is guided self-scheduling with half of the usual share (Polychronopoulos and Kuck, IEEE Transactions
            // on Computers C-36, 1987): the last pieces are small, so no thread ends long after the others.
            let count = (left / (2 * self.threads)).clamp(1, self.together);
            match self.next.compare_exchange_weak(
                from,
                from + count,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Some(from..from + count),
                Err(now) => from = now,
            }
        }
    }

    /// Runs the next pieces; `false` where none is left.
    pub(super) fn run_next_pieces(&self) -> bool {
        let Some(range) = self.take_next_pieces() else {
            return false;
        };
        let mut done = range.len();
        if let Err(cause) = catch_unwind(AssertUnwindSafe(|| (self.work)(range))) {
            self.panic.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(cause);
            // Pieces that no thread has taken yet are skipped, and counted as finished so that the caller wakes.
            let left = self.next.swap(self.pieces, Ordering::Relaxed).min(self.pieces);
            done += self.pieces - left;
        }
        // After the last piece the caller returns, and `work` ends with it: nothing behind this line may call it.
        if self.finished.fetch_add(done, Ordering::AcqRel) + done == self.pieces {
            self.caller.unpark();
        }
        true
    }

    /// Whether all pieces are finished or skipped.
    pub(super) fn is_finished(&self) -> bool {
        self.finished.load(Ordering::Acquire) == self.pieces
    }

    /// Runs pieces until none is left, or until others want the core.
    pub(super) fn help_until_done(&self, outlook: &CoreOutlook) {
        outlook.working.fetch_add(1, Ordering::Relaxed);
        #[cfg(test)]
        while outlook.held.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_micros(100));
        }
        let mut looked = Instant::now();
        while self.run_next_pieces() {
            if looked.elapsed() >= LOOK_AGAIN {
                if outlook.is_crowded() {
                    break;
                }
                looked = Instant::now();
            }
        }
        outlook.working.fetch_sub(1, Ordering::Relaxed);
    }

    /// The first panic of a piece.
    pub(super) fn take_panic(&self) -> Option<Box<dyn Any + Send>> {
        self.panic.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
