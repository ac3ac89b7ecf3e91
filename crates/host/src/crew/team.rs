//! Calls on the team of an OpenMP runtime.
//!
//! After a parallel operation the threads of such a team spin for some milliseconds, to begin the next operation at
//! once. Helpers of our own would share cores with them: a permute of 32 MiB took 3.85 ms right behind an operation of
//! PyTorch, 2.19 on one thread and 0.26 alone (16 cores of a Xeon, November 2026). So while the team is awake, calls
//! run on it. While it sleeps, helpers of our own are as fast, and only as many are woken as a call needs, whereas a
//! team begins and ends with all of its threads.
//!
//! A region ends when every member has come, and a member without a core comes late. So the team is used where the
//! machine has a core for each of its threads, and not for a while after a caller had to wait.
//!
//! What is never done with a team:
//! - a call inside of another one, or inside of a region of somebody else: its members have work already;
//! - two calls at the same time: each leads a team of its own, and the second would take the cores of the first;
//! - a call in a forked copy of a process: it has none of the threads that its runtime waits for.

use super::call::{CrewCall, PieceWork};
use super::openmp::OpenMpRuntime;
use super::outlook::CoreOutlook;
use super::pool::ThreadPool;
use crate::cores::{ProcessStatus, available_cores, count_own_threads};
use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Members whose threads are remembered; more are not looked at.
const MAX_KNOWN_MEMBERS: usize = 256;

/// Members whose clocks are read to see whether a team is awake. All of a team spin or none: a few tell, and each takes
/// half a microsecond.
const MAX_SAMPLED_MEMBERS: usize = 4;

/// Calls of a thread from which on it may lead a team that it is not known to have. The runtime would start all the
/// threads of a team for it, which takes longer than many a call, and a thread that lives for one call never needs them
/// again. The first thread of the process is the one that usually has a team.
const CALLS_BEFORE_OWN_TEAM: usize = 2;

/// Whether a call runs on a team now.
static TEAM_RUNS: AtomicBool = AtomicBool::new(false);
/// Calls that ran on a team.
static TEAM_CALLS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Calls that this thread is in the middle of. Workers of the crew begin with one that never ends, because they
    /// run pieces of others.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    /// The team that this thread leads.
    static KNOWN_TEAM: RefCell<KnownTeam> = const { RefCell::new(KnownTeam::new()) };
    /// Its address tells threads apart, also those that Rust did not start.
    static THREAD_MARK: u8 = const { 0 };
}

/// What became of a call.
pub(super) enum TeamOutcome {
    /// It ran.
    Done,
    /// It is for helpers of our own, and for so many threads at most.
    NotDone { threads: usize },
}

/// Calls that ran on a team so far.
pub(super) fn count_team_calls() -> u64 {
    TEAM_CALLS.load(Ordering::Relaxed)
}

/// Has the calling thread never lead a team.
pub(super) fn lead_no_team() {
    DEPTH.with(|depth| depth.set(depth.get() + 1));
}

/// Runs `work` with calls inside of it known as such.
pub(super) fn with_calls_inside<T>(work: impl FnOnce() -> T) -> T {
    struct RestoreDepth;
    impl Drop for RestoreDepth {
        fn drop(&mut self) {
            DEPTH.with(|depth| depth.set(depth.get() - 1));
        }
    }
    DEPTH.with(|depth| depth.set(depth.get() + 1));
    let _restore = RestoreDepth;
    work()
}

/// Shares a call with the team of this thread, where the process has a runtime and where that helps.
pub(super) fn share_with_team(
    outlook: &CoreOutlook,
    threads: usize,
    pieces: usize,
    together: usize,
    work: &PieceWork<'_>,
) -> TeamOutcome {
    let pool = ThreadPool::of_process();
    if pool == ThreadPool::Own || threads < 2 || pieces < 2 {
        return TeamOutcome::NotDone { threads };
    }
    // Tests that insist on helpers want as many threads as they name, which a team may not have.
    if pool == ThreadPool::Auto && outlook.is_insisting() {
        return TeamOutcome::NotDone { threads };
    }
    let Some(runtime) = OpenMpRuntime::of_process() else {
        return TeamOutcome::NotDone { threads };
    };
    // A region of somebody else, or of ours: the other members have work of their own, and the runtime would run the
    // call on this thread alone anyway.
    if runtime.is_in_parallel() {
        work(0..pieces);
        return TeamOutcome::Done;
    }
    let team = runtime.team_size();
    let threads = threads.min(team);
    let not_done = TeamOutcome::NotDone { threads };
    let inside = DEPTH.with(Cell::get) > 0;
    // Without a status it is not known whether the process was forked.
    if threads < 2 || inside || !ProcessStatus::is_original() {
        return not_done;
    }
    if TEAM_RUNS.swap(true, Ordering::Acquire) {
        return not_done;
    }
    // From here on the flag is ours, and it is given back also where a piece panics.
    let _running = EndTeamRun;
    let state = KNOWN_TEAM
        .try_with(|known| known.borrow_mut().find_state(runtime, team))
        .unwrap_or(TeamState::Unknown { begun: false });
    let helps = match pool {
        ThreadPool::OpenMp => true,
        _ => helps_now(state, team, available_cores(), outlook),
    };
    if !helps {
        return not_done;
    }
    run_on_team(runtime, outlook, threads, pieces, together, work);
    TeamOutcome::Done
}

struct EndTeamRun;

impl Drop for EndTeamRun {
    fn drop(&mut self) {
        TEAM_RUNS.store(false, Ordering::Release);
    }
}

/// Whether a call is faster on a team in this state than on helpers of our own.
fn helps_now(state: TeamState, team: usize, cores: usize, outlook: &CoreOutlook) -> bool {
    let may = match state {
        TeamState::Awake => true,
        TeamState::Asleep => false,
        // One call finds out who is in the team.
        TeamState::Unknown { begun } => begun,
    };
    // A team of more threads than a control group has cores for would be stopped in the middle of a region.
    may && team <= cores && outlook.has_room_for_team(team)
}

/// What is known of a team.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TeamState {
    /// Its threads spin for work.
    Awake,
    /// They sleep, or have lost their cores.
    Asleep,
    /// It is not known who they are. Whether the runtime has begun any is guessed from the threads of the process.
    Unknown { begun: bool },
}

/// The threads of a team, as of the last call.
struct KnownTeam {
    process: u32,
    runtime: usize,
    members: Vec<libc::pid_t>,
    calls: usize,
}

impl KnownTeam {
    const fn new() -> KnownTeam {
        KnownTeam { process: 0, runtime: 0, members: Vec::new(), calls: 0 }
    }

    fn find_state(&mut self, runtime: &OpenMpRuntime, team: usize) -> TeamState {
        self.calls += 1;
        let (process, address) = (std::process::id(), std::ptr::from_ref(runtime) as usize);
        if (self.process, self.runtime) != (process, address) {
            (self.process, self.runtime) = (process, address);
            self.members.clear();
        }
        // The other members: this thread is awake in any case. A team of another size was begun anew.
        if self.members.len() + 1 == team {
            let sampled = &self.members[..self.members.len().min(MAX_SAMPLED_MEMBERS)];
            if let Some(awake) = are_running(sampled) {
                return if awake { TeamState::Awake } else { TeamState::Asleep };
            }
        }
        // Either its threads have ended or it was never seen.
        self.members.clear();
        let first = thread_id().cast_unsigned() == process;
        let begun = (first || self.calls >= CALLS_BEFORE_OWN_TEAM)
            && count_own_threads().is_some_and(|threads| threads >= team);
        TeamState::Unknown { begun }
    }
}

/// Whether all of these threads run at the moment: the clocks of their processor time go on. `None` where one of them
/// has ended.
fn are_running(threads: &[libc::pid_t]) -> Option<bool> {
    let mut before = [Duration::ZERO; MAX_SAMPLED_MEMBERS];
    for (time, thread) in before.iter_mut().zip(threads) {
        *time = processor_time(*thread)?;
    }
    for (time, thread) in before.iter().zip(threads) {
        // Between the two readings of a thread are those of the others, or nothing at all where it is the only one;
        // then it is read until the clocks of a running thread would have moved.
        let mut moved = false;
        for _ in 0..3 {
            moved |= processor_time(*thread)? > *time;
            if moved {
                break;
            }
        }
        if !moved {
            return Some(false);
        }
    }
    Some(true)
}

/// The processor time that a thread of this process has used.
fn processor_time(thread: libc::pid_t) -> Option<Duration> {
    /// The clock of what the scheduler counts, for one thread (`CPUCLOCK_SCHED` and `CPUCLOCK_PERTHREAD_MASK` of the
    /// kernel, which `pthread_getcpuclockid` uses too).
    const THREAD_CLOCK: libc::clockid_t = 6;
    // SAFETY: zeros are a time.
    let mut time: libc::timespec = unsafe { std::mem::zeroed() };
    // SAFETY: it writes the time, and refuses threads that are none of this process.
    let done = unsafe { libc::clock_gettime(!thread << 3 | THREAD_CLOCK, &raw mut time) };
    if done != 0 {
        return None;
    }
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Some(Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0)))
}

/// What the members of a region share.
struct TeamRegion<'a> {
    call: &'a CrewCall,
    /// Members that may still take pieces, without the caller.
    seats: AtomicUsize,
    /// The other members, as they come.
    came: AtomicUsize,
    members: &'a [AtomicI32],
    caller: usize,
    /// When the caller found no piece any more, and its longest turn.
    caller_end: &'a Cell<Option<(Instant, Duration)>>,
}

/// The body of a region.
extern "C" fn run_member(data: *mut c_void) {
    // SAFETY: `run_on_team` gives the address of a region that lives until every member has returned.
    let region = unsafe { &*data.cast::<TeamRegion<'_>>() };
    if thread_mark() == region.caller {
        let mut longest = Duration::ZERO;
        let mut begin = Instant::now();
        // Pieces that panic are caught in there, so nothing unwinds into the runtime.
        while region.call.run_next_pieces() {
            let end = Instant::now();
            longest = longest.max(end - begin);
            begin = end;
        }
        region.caller_end.set(Some((begin, longest)));
        return;
    }
    if let Some(place) = region.members.get(region.came.fetch_add(1, Ordering::Relaxed)) {
        place.store(thread_id(), Ordering::Relaxed);
    }
    // Those that come too late for a seat return at once: the call asked for fewer threads than the team has.
    let take = |seats: usize| seats.checked_sub(1);
    if region.seats.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok() {
        while region.call.run_next_pieces() {}
    }
}

fn thread_id() -> libc::pid_t {
    // SAFETY: it has no preconditions.
    unsafe { libc::gettid() }
}

fn thread_mark() -> usize {
    THREAD_MARK.with(|mark| std::ptr::from_ref(mark) as usize)
}

fn run_on_team(
    runtime: &OpenMpRuntime,
    outlook: &CoreOutlook,
    threads: usize,
    pieces: usize,
    together: usize,
    work: &PieceWork<'_>,
) {
    TEAM_CALLS.fetch_add(1, Ordering::Relaxed);
    // SAFETY: this function neither returns nor unwinds before the region has ended, and with it the call.
    let call = unsafe { CrewCall::new(threads.min(pieces), pieces, together, work) };
    let members = [const { AtomicI32::new(0) }; MAX_KNOWN_MEMBERS];
    let caller_end = Cell::new(None);
    let mut region = TeamRegion {
        call: &call,
        seats: AtomicUsize::new(threads.min(pieces) - 1),
        came: AtomicUsize::new(0),
        members: &members,
        caller: thread_mark(),
        caller_end: &caller_end,
    };
    // SAFETY: members share the region, whose parts are atomic or, the end of the caller, written by one of them;
    // `share_with_team` has found that the process is no forked copy.
    with_calls_inside(|| unsafe { runtime.run_team(run_member, (&raw mut region).cast()) });
    let end = Instant::now();
    debug_assert!(call.is_finished(), "a region ends when every member has returned");
    if let Some((left, longest)) = caller_end.get() {
        outlook.record_helper_wait(end.saturating_duration_since(left), longest);
    }
    let came = region.came.load(Ordering::Relaxed).min(MAX_KNOWN_MEMBERS);
    // Where the thread is about to end its variables are gone, and nothing needs to be remembered.
    let _ = KNOWN_TEAM.try_with(|known| {
        let ids = members[..came].iter().map(|m| m.load(Ordering::Relaxed));
        let mut known = known.borrow_mut();
        known.members.clear();
        known.members.extend(ids);
    });
    if let Some(cause) = call.take_panic() {
        resume_unwind(cause);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cores::RunningThreads;

    #[test]
    fn a_thread_that_spins_runs_and_one_that_sleeps_does_not() {
        let (told, stop) = (AtomicI32::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                told.store(thread_id(), Ordering::Relaxed);
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            let spinner = loop {
                match told.load(Ordering::Relaxed) {
                    0 => std::thread::yield_now(),
                    thread => break thread,
                }
            };
            // On a busy machine it may not have a core in the first moment, but it gets one.
            let begin = Instant::now();
            while are_running(&[spinner]) != Some(true) {
                assert!(begin.elapsed() < Duration::from_secs(20), "it spins and is not seen to");
                std::thread::yield_now();
            }
            told.store(0, Ordering::Relaxed);
            let sleeper = scope.spawn(|| {
                told.store(thread_id(), Ordering::Relaxed);
                while !stop.load(Ordering::Relaxed) {
                    std::thread::park();
                }
            });
            let sleeping = loop {
                match told.load(Ordering::Relaxed) {
                    0 => std::thread::yield_now(),
                    thread => break thread,
                }
            };
            let begin = Instant::now();
            while are_running(&[sleeping]) != Some(false) {
                assert!(begin.elapsed() < Duration::from_secs(20), "it sleeps and is not seen to");
                std::thread::yield_now();
            }
            assert_eq!(are_running(&[spinner, sleeping]), Some(false));
            stop.store(true, Ordering::Relaxed);
            sleeper.thread().unpark();
        });
        // A scope ends when its threads have returned, which is a little before they are gone.
        let begin = Instant::now();
        while are_running(&[told.load(Ordering::Relaxed)]).is_some() {
            assert!(begin.elapsed() < Duration::from_secs(20), "it has ended and is still seen");
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_team_is_used_where_it_is_awake_and_has_room() {
        let quiet = CoreOutlook::new(|| Some(RunningThreads { threads: 16, cores: 16 }));
        assert!(helps_now(TeamState::Awake, 16, 16, &quiet));
        assert!(!helps_now(TeamState::Asleep, 16, 16, &quiet));
        assert!(helps_now(TeamState::Unknown { begun: true }, 16, 16, &quiet));
        assert!(!helps_now(TeamState::Unknown { begun: false }, 16, 16, &quiet));
        // A control group that is worth fewer cores than the machine has.
        assert!(!helps_now(TeamState::Awake, 16, 4, &quiet));
        // Two neighbours: members that share a core come late.
        let busy = CoreOutlook::new(|| Some(RunningThreads { threads: 18, cores: 16 }));
        assert!(!helps_now(TeamState::Awake, 16, 16, &busy));
        // Where nothing is known, only experience counts.
        let unknown = CoreOutlook::new(|| None);
        assert!(helps_now(TeamState::Awake, 16, 16, &unknown));
        unknown.record_helper_wait(Duration::from_millis(3), Duration::from_micros(50));
        assert!(!helps_now(TeamState::Awake, 16, 16, &unknown));
    }
}
