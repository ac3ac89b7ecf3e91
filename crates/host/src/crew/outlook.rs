//! The decision whether a helper would find a core at once.
//!
//! A helper that loses its core in the middle of a piece delays its caller for as long as other threads use the
//! core. So helpers are called only where a core seems to be free: by the number of threads that run on the machine
//! at the moment, where the system reports it; and by experience: after a caller has waited for a helper, no call
//! has helpers for many times as long, whatever the reason of the wait was.

use crate::cores::RunningThreads;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How long one answer of the system is used. Asking takes 1.5 microseconds (bench/README.md).
const MAX_ANSWER_AGE: Duration = Duration::from_micros(200);

/// Answers in a row after which one thread too many is taken for a neighbour that stays: timers and services run for
/// a moment on every machine.
const ANSWERS_OF_A_NEIGHBOUR: usize = 3;

/// Threads beside the caller that may be timers and services.
const MAX_PASSING_THREADS: usize = 2;

/// For one unit of time waited for a helper, so many pass without helpers: at most a thirty-second part of the time is
/// lost, where the system does not report what runs.
const PAUSE_PER_WAIT: u32 = 32;
/// The longest pause, because neighbours leave as suddenly as they come.
const MAX_PAUSE: Duration = Duration::from_secs(2);
/// A wait is counted as a loss where it is longer than so many of the caller's longest pieces and the time to be woken:
/// a helper that keeps its core is not slower than that.
const MAX_WAIT_IN_PIECES: u32 = 2;
const WAKE_UP_TIME: Duration = Duration::from_micros(100);

/// The state of the cores, as far as it is known.
pub(super) struct CoreOutlook {
    /// The question to the system.
    ask: fn() -> Option<RunningThreads>,
    /// The last answer, packed; zero before the first.
    seen: AtomicU64,
    /// Answers in a row by which no core was free.
    full: AtomicUsize,
    /// The end of the pause without helpers, in microseconds.
    alone: AtomicU64,
    /// Workers of ours that do not sleep, and those among them that work on a piece.
    pub(super) awake: AtomicUsize,
    pub(super) working: AtomicUsize,
    /// Callers that want helpers whatever the state is: for tests.
    pub(super) insisted: AtomicUsize,
    /// Whether helpers stop before their first piece, as if they had lost their cores there.
    #[cfg(test)]
    pub(super) held: std::sync::atomic::AtomicBool,
}

impl CoreOutlook {
    pub(super) const fn new(ask: fn() -> Option<RunningThreads>) -> CoreOutlook {
        CoreOutlook {
            ask,
            seen: AtomicU64::new(0),
            full: AtomicUsize::new(0),
            alone: AtomicU64::new(0),
            awake: AtomicUsize::new(0),
            working: AtomicUsize::new(0),
            insisted: AtomicUsize::new(0),
            #[cfg(test)]
            held: std::sync::atomic::AtomicBool::new(false),
        }
    }

    /// Forgets the workers of the parent, which a forked process has not.
    pub(super) fn forget_workers(&self) {
        self.awake.store(0, Ordering::Relaxed);
        self.working.store(0, Ordering::Relaxed);
    }

    /// The number of further helpers, of `wanted`, that would find a core.
    pub(super) fn count_spare_helpers(&self, wanted: usize) -> usize {
        if self.is_insisting() {
            return wanted;
        }
        if micros_since_start() < self.alone.load(Ordering::Relaxed) {
            return 0;
        }
        match self.count_other_threads() {
            None => wanted,
            Some(RunningThreads { threads, cores }) => {
                let ours = self.working.load(Ordering::Relaxed);
                let free = cores + self.tolerated_extra_threads(threads);
                free.saturating_sub(threads + ours).min(wanted)
            }
        }
    }

    /// Whether the machine has a core for every thread of a team, which may run already or not. One thread too many may be
    /// gone in a moment; where it stays, the caller has to wait for a member, and experience counts.
    #[cfg_attr(
        not(all(target_os = "linux", not(miri))),
        allow(dead_code, reason = "teams are looked for on Linux")
    )]
    pub(super) fn has_room_for_team(&self, team: usize) -> bool {
        if micros_since_start() < self.alone.load(Ordering::Relaxed) {
            return false;
        }
        self.count_other_threads().is_none_or(|r| r.threads.max(team) <= r.cores + 1)
    }

    /// Whether more threads run than there are cores, so that a helper takes the core of another thread.
    pub(super) fn is_crowded(&self) -> bool {
        let crowded = |RunningThreads { threads, cores }| {
            let ours = self.working.load(Ordering::Relaxed).max(1);
            threads + ours > cores + self.tolerated_extra_threads(threads)
        };
        !self.is_insisting() && self.count_other_threads().is_some_and(crowded)
    }

    /// Whether another thread may want the core of one that spins, by the last answer.
    pub(super) fn is_shared(&self) -> bool {
        let busy = |RunningThreads { threads, cores }| threads >= cores;
        micros_since_start() < self.alone.load(Ordering::Relaxed)
            || unpack_thread_count(self.seen.load(Ordering::Relaxed)).1.is_some_and(busy)
    }

    /// Notes that a caller waited so long for helpers, after pieces of its own that took up to `piece`.
    pub(super) fn record_helper_wait(&self, wait: Duration, piece: Duration) {
        if wait > WAKE_UP_TIME + piece * MAX_WAIT_IN_PIECES && !self.is_insisting() {
            let until =
                micros_since_start() + duration_as_micros((wait * PAUSE_PER_WAIT).min(MAX_PAUSE));
            self.alone.fetch_max(until, Ordering::Relaxed);
        }
    }

    /// One thread too many is tolerated at first: a timer or a service may be gone in a moment. A thread that still runs
    /// at the next answers is a neighbour, and so are several, because these do not meet by chance: they are a pool of
    /// another library that spins after its work, and a helper among them loses its core.
    fn tolerated_extra_threads(&self, threads: usize) -> usize {
        let passing = threads <= MAX_PASSING_THREADS + 1;
        usize::from(passing && self.full.load(Ordering::Relaxed) < ANSWERS_OF_A_NEIGHBOUR)
    }

    pub(super) fn is_insisting(&self) -> bool {
        self.insisted.load(Ordering::Relaxed) > 0
    }

    /// The threads that run and are not workers of ours; the caller is one.
    fn count_other_threads(&self) -> Option<RunningThreads> {
        let now = micros_since_start();
        let last = self.seen.load(Ordering::Relaxed);
        let (when, seen) = unpack_thread_count(last);
        if last != 0
            && u64::from(low_32_bits(now).wrapping_sub(when)) < duration_as_micros(MAX_ANSWER_AGE)
        {
            return seen;
        }
        // Read before the system is asked: a worker that wakes meanwhile is then taken for another thread, which the
        // next answer corrects. Read afterwards, one that falls asleep would hide another thread.
        let ours = self.awake.load(Ordering::Relaxed);
        let found = (self.ask)()
            .map(|r| RunningThreads { threads: r.threads.saturating_sub(ours).max(1), ..r });
        let full = match found {
            Some(r) if r.threads >= r.cores => self.full.load(Ordering::Relaxed) + 1,
            _ => 0,
        };
        self.full.store(full.min(ANSWERS_OF_A_NEIGHBOUR), Ordering::Relaxed);
        self.seen.store(pack_thread_count(now, found), Ordering::Relaxed);
        found
    }
}

/// Microseconds since the first call of this function, plus 1.
fn micros_since_start() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    duration_as_micros(START.get_or_init(Instant::now).elapsed()) + 1
}

fn duration_as_micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// The low 32 bits. They wrap around after 72 minutes, when one old answer may be taken for a fresh one.
#[allow(clippy::cast_possible_truncation, reason = "the low bits are meant")]
fn low_32_bits(micros: u64) -> u32 {
    micros as u32
}

/// An answer and its time: 32 bits of microseconds, 16 of threads, 16 of cores, which are none where the
/// system had no answer.
fn pack_thread_count(when: u64, seen: Option<RunningThreads>) -> u64 {
    let small = |n: usize| u64::try_from(n.min(0xffff)).unwrap_or(0xffff);
    let RunningThreads { threads, cores } = seen.unwrap_or(RunningThreads { threads: 0, cores: 0 });
    u64::from(low_32_bits(when)) << 32 | small(threads) << 16 | small(cores)
}

fn unpack_thread_count(word: u64) -> (u32, Option<RunningThreads>) {
    let field = |shift: u32| usize::try_from(word >> shift & 0xffff).unwrap_or(0);
    let seen = RunningThreads { threads: field(16), cores: field(0) };
    (low_32_bits(word >> 32), (seen.cores > 0).then_some(seen))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outlook(threads: usize, cores: usize) -> CoreOutlook {
        let outlook = CoreOutlook::new(|| None);
        outlook.seen.store(
            pack_thread_count(micros_since_start(), Some(RunningThreads { threads, cores })),
            Ordering::Relaxed,
        );
        outlook
    }

    #[test]
    fn answers_are_packed() {
        for seen in [
            None,
            Some(RunningThreads { threads: 1, cores: 2 }),
            Some(RunningThreads { threads: 300, cores: 256 }),
        ] {
            assert_eq!(unpack_thread_count(pack_thread_count(7 << 20, seen)), (7 << 20, seen));
        }
        let many = Some(RunningThreads { threads: 1 << 20, cores: 2 });
        assert_eq!(
            unpack_thread_count(pack_thread_count(1, many)).1,
            Some(RunningThreads { threads: 0xffff, cores: 2 })
        );
    }

    /// The answer of these outlooks is fresh for [`MAX_ANSWER_AGE`]; a test that is delayed for longer asks
    /// again and gets no answer, so the laws are stated for both.
    fn spare(
        threads: usize,
        cores: usize,
        working: usize,
        wanted: usize,
        full: usize,
    ) -> Option<usize> {
        (0..100).find_map(|_| {
            let outlook = outlook(threads, cores);
            outlook.working.store(working, Ordering::Relaxed);
            outlook.full.store(full, Ordering::Relaxed);
            let spare = outlook.count_spare_helpers(wanted);
            unpack_thread_count(outlook.seen.load(Ordering::Relaxed)).1.is_some().then_some(spare)
        })
    }

    #[test]
    fn helpers_take_free_cores_alone() {
        for (threads, cores, working, wanted, want) in [
            (1, 2, 0, 1, 1),
            (2, 2, 0, 1, 0),
            (9, 2, 0, 1, 0),
            (1, 16, 0, 15, 15),
            (1, 16, 0, 3, 3),
            (10, 16, 0, 15, 6),
            (1, 16, 15, 5, 0),
            (1, 16, 10, 5, 5),
        ] {
            let strict = spare(threads, cores, working, wanted, ANSWERS_OF_A_NEIGHBOUR);
            assert_eq!(strict.unwrap_or(want), want);
            // A thread that may be gone in a moment does not count, and where many run they are neighbours.
            let passing = usize::from(threads <= MAX_PASSING_THREADS + 1);
            let want = (want + passing)
                .min(wanted)
                .min((cores + passing).saturating_sub(threads + working));
            assert_eq!(spare(threads, cores, working, wanted, 0).unwrap_or(want), want);
        }
    }

    #[test]
    fn a_neighbour_is_one_that_stays() {
        let outlook = CoreOutlook::new(|| Some(RunningThreads { threads: 2, cores: 2 }));
        let spare: Vec<usize> = (0..5)
            .map(|_| {
                outlook.seen.store(0, Ordering::Relaxed);
                outlook.count_spare_helpers(1)
            })
            .collect();
        assert_eq!(spare, [1, 1, 0, 0, 0]);
        let busy = CoreOutlook::new(|| Some(RunningThreads { threads: 3, cores: 2 }));
        assert_eq!(busy.count_spare_helpers(1), 0);
        assert!(busy.is_crowded());
    }

    #[test]
    fn where_nothing_is_known_experience_counts() {
        let outlook = CoreOutlook::new(|| None);
        assert_eq!(outlook.count_spare_helpers(5), 5);
        assert!(!outlook.is_crowded());
        // A helper that runs may take as long as a piece takes.
        outlook.record_helper_wait(Duration::from_millis(2), Duration::from_millis(1));
        assert_eq!(outlook.count_spare_helpers(5), 5);
        // An hour's wait is repaid for no longer than the longest.
        outlook.record_helper_wait(Duration::from_secs(3600), Duration::from_millis(1));
        assert_eq!(outlook.count_spare_helpers(5), 0);
        assert!(
            outlook.alone.load(Ordering::Relaxed)
                <= micros_since_start() + duration_as_micros(MAX_PAUSE)
        );
        outlook.insisted.store(1, Ordering::Relaxed);
        assert_eq!(outlook.count_spare_helpers(5), 5);
        outlook.insisted.store(0, Ordering::Relaxed);
        outlook.alone.store(0, Ordering::Relaxed);
        outlook.record_helper_wait(Duration::from_millis(1), Duration::from_micros(20));
        let until = outlook.alone.load(Ordering::Relaxed);
        assert!(until > 0 && until <= micros_since_start() + 32_000);
    }
}
