//! Threads that wait between calls, because starting a thread takes longer than many a move.
//!
//! A call is cut into pieces. The caller takes one after another, and so do the helpers that it has called. The
//! caller never waits for a helper that has not begun, because it runs the pieces that are left itself. It has to
//! wait for a helper in the middle of a piece, which writes where the caller will read. A helper that has lost its
//! core there delays the caller for as long as others keep that core, often for many times the call. So helpers
//! are called where a core is free for them (`outlook.rs`), check again while they work, leave where other threads
//! have come, and are called again when those have gone.
//!
//! A call owns its helpers until it ends, so calls from several threads, and calls inside of calls, never wait
//! for each other.
//!
//! Where the process has an OpenMP runtime whose threads are awake, as PyTorch's are for some milliseconds after each
//! of its operations, a call runs on those instead (`team.rs`), because helpers of ours would take turns with them.

mod call;
#[cfg(all(target_os = "linux", not(miri)))]
mod openmp;
mod outlook;
mod pool;
#[cfg(all(target_os = "linux", not(miri)))]
mod team;
#[cfg(test)]
mod tests;
mod worker;

use crate::cores::{available_cores, count_running_threads};
use call::{CrewCall, LOOK_AGAIN, PieceWork};
use outlook::CoreOutlook;
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use worker::{CrewWorker, IdleWorkers};

#[cfg(all(target_os = "linux", not(miri)))]
#[doc(hidden)]
pub use openmp::LoadedOpenMp;
pub use pool::{POOL_VARIABLE, ThreadPool};

/// Runs `work(0)` to `work(pieces - 1)`, each once, on up to `threads` threads at the same time; on fewer where
/// the process has fewer cores, or where others use them.
///
/// They are those of [`ThreadPool::of_process`]; where the process has an OpenMP runtime, no more than it would use.
///
/// Returns when all of them have. Pieces may run one after the other on one thread, so none may wait for
/// another. Short ones are best, some ten microseconds.
///
/// # Panics
/// Where a piece panics, after the pieces that were begun have returned; the others are not begun.
pub fn share_pieces(threads: usize, pieces: usize, work: &(dyn Fn(usize) + Sync)) {
    share_with_pool(threads, pieces, 1, &|range| range.for_each(work));
}

/// As [`share_pieces`], for pieces that are cheaper together: a thread takes up to `together` that follow one
/// another, and fewer towards the end.
pub fn share_piece_ranges(
    threads: usize,
    pieces: usize,
    together: usize,
    work: &(dyn Fn(Range<usize>) + Sync),
) {
    share_with_pool(threads, pieces, together.max(1), work);
}

fn share_with_pool(threads: usize, pieces: usize, together: usize, work: &PieceWork<'_>) {
    #[cfg(all(target_os = "linux", not(miri)))]
    {
        let outcome = team::share_with_team(&CREW.outlook, threads, pieces, together, work);
        if let team::TeamOutcome::NotDone { threads } = outcome {
            team::with_calls_inside(|| CREW.share_with_helpers(threads, pieces, together, work));
        }
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    CREW.share_with_helpers(threads, pieces, together, work);
}

/// The OpenMP runtime that calls of this process may run on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenMpUse {
    /// Its file.
    pub path: String,
    /// Threads that it would use for a call of this thread.
    pub threads: usize,
    /// Calls that ran on its threads so far.
    pub calls: u64,
}

/// The OpenMP runtime of this process and what it was used for; none where no library has loaded one.
pub fn openmp_use() -> Option<OpenMpUse> {
    #[cfg(all(target_os = "linux", not(miri)))]
    return openmp::OpenMpRuntime::of_process().map(|runtime| OpenMpUse {
        path: runtime.path().to_owned(),
        threads: runtime.team_size(),
        calls: team::count_team_calls(),
    });
    #[cfg(not(all(target_os = "linux", not(miri))))]
    None
}

/// Runs `work` while every call has as many helpers as it wants, on any machine: for tests.
#[doc(hidden)]
pub fn insist_on_helpers<T>(work: impl FnOnce() -> T) -> T {
    CREW.insist_while_running(work)
}

/// Whether some [`insist_on_helpers`] is running: then work that is too short for threads is shared too.
#[doc(hidden)]
pub fn is_insisting_on_helpers() -> bool {
    CREW.outlook.insisted.load(Ordering::Relaxed) > 0
}

/// How long a caller spins until the last piece ends, at most, before it sleeps. Being woken takes longer than a few
/// pieces do (17 November 2026).
const LONGEST_LOOK: Duration = Duration::from_micros(50);

static CREW: ThreadCrew = ThreadCrew::new(CoreOutlook::new(count_running_threads));

/// Workers, and the state of the cores that they run on.
struct ThreadCrew {
    idle: Mutex<IdleWorkers>,
    outlook: CoreOutlook,
}

impl ThreadCrew {
    const fn new(outlook: CoreOutlook) -> ThreadCrew {
        ThreadCrew { idle: IdleWorkers::new_empty_list(), outlook }
    }

    fn insist_while_running<T>(&self, work: impl FnOnce() -> T) -> T {
        struct RestoreOutlook<'a>(&'a CoreOutlook);
        impl Drop for RestoreOutlook<'_> {
            fn drop(&mut self) {
                self.0.insisted.fetch_sub(1, Ordering::Relaxed);
            }
        }
        self.outlook.insisted.fetch_add(1, Ordering::Relaxed);
        let _restore = RestoreOutlook(&self.outlook);
        work()
    }

    fn share_with_helpers(
        &'static self,
        threads: usize,
        pieces: usize,
        together: usize,
        work: &PieceWork<'_>,
    ) {
        let insisted = self.outlook.insisted.load(Ordering::Relaxed) > 0;
        let threads = if insisted { threads } else { threads.min(available_cores()) };
        let wanted = threads.min(pieces).saturating_sub(1);
        if wanted == 0 {
            return work(0..pieces);
        }
        // SAFETY: this function neither returns nor unwinds before the call is finished: pieces that panic are
        // caught, and nothing else here panics.
        let call = Arc::new(unsafe { CrewCall::new(wanted + 1, pieces, together, work) });
        let mut helpers = Vec::new();
        let (mut looked, mut longest) = (None, Duration::ZERO);
        let mut begin = Instant::now();
        loop {
            if looked.is_none_or(|at: Instant| at.elapsed() >= LOOK_AGAIN) {
                self.call_helpers(&mut helpers, wanted, &call);
                looked = Some(Instant::now());
            }
            if !call.run_next_pieces() {
                break;
            }
            let end = Instant::now();
            longest = longest.max(end - begin);
            begin = end;
        }
        // A helper that has not begun may never get a core, so it is not waited for.
        helpers.iter().for_each(CrewWorker::recall_call);
        if !call.is_finished() {
            // For about two pieces the end is near; behind that the helper has probably lost its core, and spinning
            // would use a core on which it could finish.
            let waits = Instant::now();
            worker::spin_then_park_until(&self.outlook, (longest * 2).min(LONGEST_LOOK), || {
                call.is_finished()
            });
            self.outlook.record_helper_wait(waits.elapsed(), longest);
        }
        worker::dismiss_workers(&self.idle, &mut helpers);
        if let Some(cause) = call.take_panic() {
            resume_unwind(cause);
        }
    }

    /// Sends a call to as many helpers as would find a core, if it has fewer than are wanted.
    fn call_helpers(
        &'static self,
        helpers: &mut Vec<CrewWorker>,
        wanted: usize,
        call: &Arc<CrewCall>,
    ) {
        let helping = helpers.iter().filter(|w| w.is_helping()).count();
        let mut more = match wanted.saturating_sub(helping) {
            0 => return,
            missing => self.outlook.count_spare_helpers(missing),
        };
        // Helpers of this call that have left are called before others, because their caches have its data.
        for worker in helpers.iter().filter(|w| !w.is_helping()).take(more) {
            worker.send_call(Arc::clone(call));
            more -= 1;
        }
        let enlisted = worker::enlist_workers(&self.idle, &self.outlook, more);
        enlisted.iter().for_each(|w| w.send_call(Arc::clone(call)));
        helpers.extend(enlisted);
    }
}
