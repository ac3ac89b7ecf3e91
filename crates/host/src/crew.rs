//! Threads that wait between calls: starting one takes longer than many a move.
//!
//! A call takes as many waiting threads as it can use, and starts more where too few wait; it owns them
//! until they are done, so calls from several threads, and calls inside of calls, never wait for each
//! other. What nobody has begun when the caller is done, the caller does itself: a thread that is slow to
//! wake, or cannot be had at all, costs no time.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::thread::{Builder, Thread};

/// Threads that are ever started; a call that finds them all at work has fewer helpers.
const MOST: usize = 256;

/// How often one looks before it sleeps: about as long as waking somebody takes.
const LOOKS: usize = 500;

/// Runs `work(0)` to `work(parts - 1)`, each once, at the same time as far as there are threads.
///
/// Returns when all of them have. Parts may run one after the other, so none may wait for another.
///
/// # Panics
/// Where a part does, after all others have returned.
pub fn together(parts: usize, work: &(dyn Fn(usize) + Sync)) {
    let mut workers = enlist(parts.saturating_sub(1));
    let helped = workers.len();
    let call = Arc::new(CrewCall {
        open: AtomicUsize::new(helped),
        caller: std::thread::current(),
        panic: Mutex::new(None),
    });
    for (i, worker) in workers.iter().enumerate() {
        // SAFETY: only the lifetime changes. Before this function returns or unwinds it waits until no
        // worker has a task, and a worker does not touch `work` after that.
        let work = unsafe {
            std::mem::transmute::<&PartFunction<'_>, &'static PartFunction<'static>>(work)
        };
        worker.send(Task { work, part: i + 1, call: call.clone() });
    }
    let own = catch_unwind(AssertUnwindSafe(|| {
        if parts > 0 {
            work(0);
        }
        (helped + 1..parts).for_each(work);
    }));
    // Whoever has not begun is not waited for.
    workers.iter().filter_map(Worker::recall).for_each(Task::run);
    until(|| call.open.load(Ordering::Acquire) == 0);
    dismiss(&mut workers);
    let panic = call.panic.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(cause) = own.err().or(panic) {
        resume_unwind(cause);
    }
}

type PartFunction<'a> = dyn Fn(usize) + Sync + 'a;

/// What the workers of one call share.
struct CrewCall {
    /// Parts that are not finished.
    open: AtomicUsize,
    caller: Thread,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

/// One part of a call, for a worker to do.
struct Task {
    work: &'static PartFunction<'static>,
    part: usize,
    call: Arc<CrewCall>,
}

impl Task {
    fn run(self) {
        let Task { work, part, call } = self;
        if let Err(cause) = catch_unwind(AssertUnwindSafe(|| work(part))) {
            *call.panic.lock().unwrap_or_else(PoisonError::into_inner) = Some(cause);
        }
        // After the last part the caller goes on, and `work` may be no more.
        if call.open.fetch_sub(1, Ordering::AcqRel) == 1 {
            call.caller.unpark();
        }
    }
}

/// A thread that waits for tasks.
struct Worker {
    mail: Arc<Mailbox>,
    thread: Thread,
}

#[derive(Default)]
struct Mailbox {
    /// Whether to look for a task; it changes only with the task.
    full: AtomicBool,
    task: Mutex<Option<Task>>,
}

impl Mailbox {
    /// The task, for whoever asks first.
    fn take(&self) -> Option<Task> {
        let mut task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        self.full.store(false, Ordering::Relaxed);
        task.take()
    }

    fn put(&self, task: Task) {
        let mut place = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        self.full.store(true, Ordering::Relaxed);
        *place = Some(task);
    }
}

impl Worker {
    /// `None` where the system gives no more threads.
    fn start() -> Option<Worker> {
        let mail = Arc::new(Mailbox::default());
        let theirs = mail.clone();
        let name = "zellige".to_owned();
        let started = Builder::new().name(name).spawn(move || {
            loop {
                until(|| theirs.full.load(Ordering::Relaxed));
                if let Some(task) = theirs.take() {
                    task.run();
                }
            }
        });
        started.ok().map(|handle| Worker { mail, thread: handle.thread().clone() })
    }

    fn send(&self, task: Task) {
        self.mail.put(task);
        self.thread.unpark();
    }

    /// The task back, where it was not begun.
    fn recall(&self) -> Option<Task> {
        self.mail.take()
    }
}

/// Waits for something that is followed by an `unpark` of this thread.
fn until(come: impl Fn() -> bool) {
    for _ in 0..LOOKS {
        if come() {
            return;
        }
        std::hint::spin_loop();
    }
    while !come() {
        std::thread::park();
    }
}

/// The workers without a task.
struct IdleWorkers {
    /// Whose they are: a process that was forked has none of its parent's threads.
    process: u32,
    workers: Vec<Worker>,
    started: usize,
}

static IDLE: Mutex<IdleWorkers> =
    Mutex::new(IdleWorkers { process: 0, workers: Vec::new(), started: 0 });

/// Up to `count` workers; fewer where the system or [`MOST`] give no more.
fn enlist(count: usize) -> Vec<Worker> {
    if count == 0 || cfg!(target_family = "wasm") {
        return Vec::new();
    }
    let Some(taken) = with_idle(|idle| {
        let process = std::process::id();
        if idle.process != process {
            // Threads of the parent: nothing here may be dropped that they hold.
            std::mem::forget(std::mem::take(&mut idle.workers));
            (idle.process, idle.started) = (process, 0);
        }
        let waiting = idle.workers.len().saturating_sub(count);
        let taken = idle.workers.split_off(waiting);
        let more = (count - taken.len()).min(MOST - idle.started);
        idle.started += more;
        (taken, more)
    }) else {
        return Vec::new();
    };
    let (mut taken, more) = taken;
    for missing in 0..more {
        let Some(worker) = Worker::start() else {
            with_idle(|idle| idle.started -= more - missing);
            break;
        };
        taken.push(worker);
    }
    taken
}

/// Workers wait again.
fn dismiss(workers: &mut Vec<Worker>) {
    if !workers.is_empty() {
        with_idle(|idle| idle.workers.append(workers));
    }
}

/// Holds the list for a moment; `None` where it cannot be had, as in a process that was forked while
/// another thread held it.
fn with_idle<T>(act: impl FnOnce(&mut IdleWorkers) -> T) -> Option<T> {
    for _ in 0..LOOKS {
        match IDLE.try_lock() {
            Ok(mut idle) => return Some(act(&mut idle)),
            Err(TryLockError::Poisoned(idle)) => return Some(act(&mut idle.into_inner())),
            Err(TryLockError::WouldBlock) => std::thread::yield_now(),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_runs_once() {
        for parts in [0, 1, 2, 3, 7, 32, 300] {
            let ran: Vec<AtomicUsize> = (0..parts).map(|_| AtomicUsize::new(0)).collect();
            together(parts, &|part| {
                ran[part].fetch_add(1, Ordering::Relaxed);
            });
            assert!(ran.iter().all(|n| n.load(Ordering::Relaxed) == 1), "of {parts}");
        }
    }

    #[test]
    fn calls_inside_of_calls_and_beside_them_end() {
        let ran = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        together(3, &|_| {
                            together(3, &|_| {
                                ran.fetch_add(1, Ordering::Relaxed);
                            });
                        });
                    }
                });
            }
        });
        assert_eq!(ran.into_inner(), 4 * 200 * 9);
    }

    #[test]
    fn a_panic_reaches_the_caller_after_the_others_and_the_threads_go_on() {
        for bad in 0..4 {
            let ran = AtomicUsize::new(0);
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                together(4, &|part| {
                    ran.fetch_add(1, Ordering::Relaxed);
                    assert!(part != bad, "part {part}");
                });
            }));
            let cause = outcome.expect_err("a part panicked");
            let text = cause.downcast_ref::<String>().expect("a message");
            assert_eq!(*text, format!("part {bad}"));
            // The caller's own parts end with its panic; those of workers do not.
            assert!(ran.into_inner() >= 1);
        }
        every_part_runs_once();
    }
}
