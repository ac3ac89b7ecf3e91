//! Threads that wait for calls to help with.

use super::call::CrewCall;
use super::outlook::CoreOutlook;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::thread::{Builder, Thread};
use std::time::{Duration, Instant};

/// Threads that are ever started; a call that finds them all at work has fewer helpers.
const MAX_WORKERS: usize = 256;

/// How long a worker looks for the next call before it sleeps: about as long as waking it takes.
const SPIN_TIME: Duration = Duration::from_micros(8);

/// How often one tries to hold the list of workers, each time after others could run.
const MAX_LOCK_TRIES: usize = 500;

/// A thread that waits for calls.
pub(super) struct CrewWorker {
    mail: Arc<CallMailbox>,
    thread: Thread,
}

#[derive(Default)]
struct CallMailbox {
    /// Whether to look for a call; it changes only with the call.
    full: AtomicBool,
    call: Mutex<Option<Arc<CrewCall>>>,
    /// From when a call is sent until the worker has left it or it was taken back.
    helping: AtomicBool,
}

impl CallMailbox {
    /// The call, for whoever asks first.
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

    /// Takes the call back, where it was not begun.
    pub(super) fn recall_call(&self) {
        if self.mail.take_call().is_some() {
            self.mail.helping.store(false, Ordering::Relaxed);
        }
    }

    /// Whether it has a call, or is about to begin or to end one.
    pub(super) fn is_helping(&self) -> bool {
        self.mail.helping.load(Ordering::Relaxed)
    }
}

/// Waits for a call, asleep after a while.
fn wait_for_call(outlook: &CoreOutlook, come: impl Fn() -> bool) {
    if spin_until(outlook, SPIN_TIME, &come) {
        return;
    }
    while !come() {
        outlook.awake.fetch_sub(1, Ordering::Relaxed);
        std::thread::park();
        outlook.awake.fetch_add(1, Ordering::Relaxed);
    }
}

/// Waits for something that is followed by an `unpark` of this thread: looks for up to `time`, then sleeps.
pub(super) fn spin_then_park_until(outlook: &CoreOutlook, time: Duration, come: impl Fn() -> bool) {
    if !spin_until(outlook, time, &come) {
        while !come() {
            std::thread::park();
        }
    }
}

/// Whether something comes while one looks, which one does where nobody else may want the core.
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
    /// Whose they are: a process that was forked has none of its parent's threads.
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
            // Threads of the parent: nothing here may be dropped that they hold.
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

/// Workers wait again.
pub(super) fn dismiss_workers(idle: &Mutex<IdleWorkers>, workers: &mut Vec<CrewWorker>) {
    if !workers.is_empty() {
        with_idle_workers(idle, |idle| idle.workers.append(workers));
    }
}

/// Holds the list for a moment; `None` where it cannot be had, as in a process that was forked while
/// another thread held it.
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
