//! Threads that wait for calls, and help with them.

use super::call::CrewCall;
use super::outlook::CoreOutlook;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::thread::{Builder, Thread};
use std::time::{Duration, Instant};

/// Threads that are ever started, at most; a call that finds all of them at work has fewer helpers.
const MAX_WORKERS: usize = 256;

/// How long a worker spins for the next call before it sleeps: about as long as waking it takes, so that spinning
/// costs at most twice the best choice.
const SPIN_TIME: Duration = Duration::from_micros(8);

/// How often a caller tries to lock the list of workers, yielding its core between two tries.
const MAX_LOCK_TRIES: usize = 500;

/// A thread that waits for calls.
pub(super) struct CrewWorker {
    mail: Arc<CallMailbox>,
    thread: Thread,
}

#[derive(Default)]
struct CallMailbox {
    /// Whether there is a call; it changes under the lock of the call alone, and is read without it.
    full: AtomicBool,
    call: Mutex<Option<Arc<CrewCall>>>,
    /// Set from the time that a call is sent until the worker has left it or it was recalled.
    helping: AtomicBool,
}

impl CallMailbox {
    /// The call, for the worker or for the caller that recalls it, whichever is first.
    fn take_call(&self) -> Option<Arc<CrewCall>> {
        let mut call = self.call.lock().unwrap_or_else(PoisonError::into_inner);
        self.full.store(false, Ordering::Relaxed);
        call.take()
    }

    fn put_call(&self, call: Arc<CrewCall>) {
        let mut place = self.call.lock().unwrap_or_else(PoisonError::into_inner);
        self.helping.store(true, Ordering::Relaxed);
        self.full.store(true, Ordering::Relaxed);
        *place = Some(call);
    }
}

impl CrewWorker {
    /// `None` where the system gives no more threads.
    fn start_thread(outlook: &'static CoreOutlook) -> Option<CrewWorker> {
        let mail = Arc::new(CallMailbox::default());
        let theirs = mail.clone();
        let started = Builder::new().name("zellige".to_owned()).spawn(move || {
            outlook.awake.fetch_add(1, Ordering::Relaxed);
            // A call inside of a piece would begin a team of this worker beside that of its caller.
            #[cfg(all(target_os = "linux", not(miri)))]
            super::team::lead_no_team();
            loop {
                wait_for_call(outlook, || theirs.full.load(Ordering::Relaxed));
                if let Some(call) = theirs.take_call() {
                    call.help_until_done(outlook);
                    drop(call);
                    theirs.helping.store(false, Ordering::Relaxed);
                }
            }
        });
        started.ok().map(|handle| CrewWorker { mail, thread: handle.thread().clone() })
    }

    pub(super) fn send_call(&self, call: Arc<CrewCall>) {
        self.mail.put_call(call);
        self.thread.unpark();
    }

    /// Recalls the call, if it was not begun.
    pub(super) fn recall_call(&self) {
        if self.mail.take_call().is_some() {
            self.mail.helping.store(false, Ordering::Relaxed);
        }
    }

    /// Whether the worker has a call, or is about to begin or to end one.
    pub(super) fn is_helping(&self) -> bool {
        self.mail.helping.load(Ordering::Relaxed)
    }
}

/// Waits for a call: spinning first, then asleep.
fn wait_for_call(outlook: &CoreOutlook, come: impl Fn() -> bool) {
    if spin_until(outlook, SPIN_TIME, &come) {
        return;
    }
    while !come() {
        // A worker that sleeps is none of the threads that run, so it is not counted.
        outlook.awake.fetch_sub(1, Ordering::Relaxed);
        std::thread::park();
        outlook.awake.fetch_add(1, Ordering::Relaxed);
    }
}

/// Waits for a condition whose change is followed by an `unpark` of this thread: spins for up to `time`, then sleeps.
pub(super) fn spin_then_park_until(outlook: &CoreOutlook, time: Duration, come: impl Fn() -> bool) {
    if !spin_until(outlook, time, &come) {
        while !come() {
            std::thread::park();
        }
    }
}

/// Whether the condition holds before `time` is over. It spins only where no other thread may want the core.
fn spin_until(outlook: &CoreOutlook, time: Duration, come: &impl Fn() -> bool) -> bool {
    if outlook.is_shared() {
        return come();
    }
    let start = Instant::now();
    while start.elapsed() < time {
        for _ in 0..8 {
            if come() {
                return true;
            }
            std::hint::spin_loop();
        }
    }
    come()
}

/// The workers without a call.
pub(super) struct IdleWorkers {
    /// The process that started them: a forked process has none of its parent's threads.
    process: u32,
    workers: Vec<CrewWorker>,
    started: usize,
}

impl IdleWorkers {
    pub(super) const fn new_empty_list() -> Mutex<IdleWorkers> {
        Mutex::new(IdleWorkers { process: 0, workers: Vec::new(), started: 0 })
    }

    /// Threads that were started.
    #[cfg(test)]
    pub(super) fn started_threads(&self) -> usize {
        self.started
    }
}

/// Up to `count` workers; fewer where the system or [`MAX_WORKERS`] give no more.
pub(super) fn enlist_workers(
    idle: &Mutex<IdleWorkers>,
    outlook: &'static CoreOutlook,
    count: usize,
) -> Vec<CrewWorker> {
    if count == 0 || cfg!(target_family = "wasm") {
        return Vec::new();
    }
    let Some(taken) = with_idle_workers(idle, |idle| {
        let process = std::process::id();
        if idle.process != process {
            // Handles of threads of the parent are forgotten, because dropping them would free memory whose counts a
            // thread of the parent may have held when the process was forked.
            std::mem::forget(std::mem::take(&mut idle.workers));
            (idle.process, idle.started) = (process, 0);
            outlook.forget_workers();
        }
        let waiting = idle.workers.len().saturating_sub(count);
        let taken = idle.workers.split_off(waiting);
        let more = (count - taken.len()).min(MAX_WORKERS - idle.started);
        idle.started += more;
        (taken, more)
    }) else {
        return Vec::new();
    };
    let (mut taken, more) = taken;
    for missing in 0..more {
        let Some(worker) = CrewWorker::start_thread(outlook) else {
            with_idle_workers(idle, |idle| idle.started -= more - missing);
            break;
        };
        taken.push(worker);
    }
    taken
}

/// Puts workers back into the list of those that wait.
pub(super) fn dismiss_workers(idle: &Mutex<IdleWorkers>, workers: &mut Vec<CrewWorker>) {
    if !workers.is_empty() {
        with_idle_workers(idle, |idle| idle.workers.append(workers));
    }
}

/// Runs `act` on the list; `None` where its lock cannot be taken, as in a process that was forked while another thread
/// held it.
fn with_idle_workers<T>(
    idle: &Mutex<IdleWorkers>,
    act: impl FnOnce(&mut IdleWorkers) -> T,
) -> Option<T> {
    for _ in 0..MAX_LOCK_TRIES {
        match idle.try_lock() {
            Ok(mut idle) => return Some(act(&mut idle)),
            Err(TryLockError::Poisoned(idle)) => return Some(act(&mut idle.into_inner())),
            Err(TryLockError::WouldBlock) => std::thread::yield_now(),
        }
    }
    None
}
