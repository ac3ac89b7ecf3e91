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
    let mut members = enlist(parts.saturating_sub(1));
    let helped = members.len();
    let call = Arc::new(Call {
        open: AtomicUsize::new(helped),
        caller: std::thread::current(),
        panic: Mutex::new(None),
    });
    for (i, member) in members.iter().enumerate() {
        // SAFETY: only the lifetime changes. Before this function returns or unwinds it waits until no
        // member has an errand, and a member does not touch `work` after that.
        let work = unsafe { std::mem::transmute::<&Work<'_>, &'static Work<'static>>(work) };
        member.send(Errand { work, part: i + 1, call: call.clone() });
    }
    let own = catch_unwind(AssertUnwindSafe(|| {
        if parts > 0 {
            work(0);
        }
        (helped + 1..parts).for_each(work);
    }));
    // Whoever has not begun is not waited for.
    members.iter().filter_map(Member::recall).for_each(Errand::run);
    until(|| call.open.load(Ordering::Acquire) == 0);
    dismiss(&mut members);
    let panic = call.panic.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(cause) = own.err().or(panic) {
        resume_unwind(cause);
    }
}

type Work<'a> = dyn Fn(usize) + Sync + 'a;

/// What the members of one call share.
struct Call {
    /// Parts that are not finished.
    open: AtomicUsize,
    caller: Thread,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

/// One part of a call, for a member to do.
struct Errand {
    work: &'static Work<'static>,
    part: usize,
    call: Arc<Call>,
}

impl Errand {
    fn run(self) {
        let Errand { work, part, call } = self;
        if let Err(cause) = catch_unwind(AssertUnwindSafe(|| work(part))) {
            *call.panic.lock().unwrap_or_else(PoisonError::into_inner) = Some(cause);
        }
        // After the last part the caller goes on, and `work` may be no more.
        if call.open.fetch_sub(1, Ordering::AcqRel) == 1 {
            call.caller.unpark();
        }
    }
}

/// A thread that waits for errands.
struct Member {
    mail: Arc<Mail>,
    thread: Thread,
}

#[derive(Default)]
struct Mail {
    /// Whether to look for an errand; it changes only with the errand.
    full: AtomicBool,
    errand: Mutex<Option<Errand>>,
}

impl Mail {
    /// The errand, for whoever asks first.
    fn take(&self) -> Option<Errand> {
        let mut errand = self.errand.lock().unwrap_or_else(PoisonError::into_inner);
        self.full.store(false, Ordering::Relaxed);
        errand.take()
    }

    fn put(&self, errand: Errand) {
        let mut place = self.errand.lock().unwrap_or_else(PoisonError::into_inner);
        self.full.store(true, Ordering::Relaxed);
        *place = Some(errand);
    }
}

impl Member {
    /// `None` where the system gives no more threads.
    fn start() -> Option<Member> {
        let mail = Arc::new(Mail::default());
        let theirs = mail.clone();
        let name = "zellige".to_owned();
        let started = Builder::new().name(name).spawn(move || {
            loop {
                until(|| theirs.full.load(Ordering::Relaxed));
                if let Some(errand) = theirs.take() {
                    errand.run();
                }
            }
        });
        started.ok().map(|handle| Member { mail, thread: handle.thread().clone() })
    }

    fn send(&self, errand: Errand) {
        self.mail.put(errand);
        self.thread.unpark();
    }

    /// The errand back, where it was not begun.
    fn recall(&self) -> Option<Errand> {
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

/// The members without an errand.
struct Idle {
    /// Whose they are: a process that was forked has none of its parent's threads.
    process: u32,
    members: Vec<Member>,
    started: usize,
}

static IDLE: Mutex<Idle> = Mutex::new(Idle { process: 0, members: Vec::new(), started: 0 });

/// Up to `count` members; fewer where the system or [`MOST`] give no more.
fn enlist(count: usize) -> Vec<Member> {
    if count == 0 || cfg!(target_family = "wasm") {
        return Vec::new();
    }
    let Some(taken) = with_idle(|idle| {
        let process = std::process::id();
        if idle.process != process {
            // Threads of the parent: nothing here may be dropped that they hold.
            std::mem::forget(std::mem::take(&mut idle.members));
            (idle.process, idle.started) = (process, 0);
        }
        let waiting = idle.members.len().saturating_sub(count);
        let taken = idle.members.split_off(waiting);
        let more = (count - taken.len()).min(MOST - idle.started);
        idle.started += more;
        (taken, more)
    }) else {
        return Vec::new();
    };
    let (mut taken, more) = taken;
    for missing in 0..more {
        let Some(member) = Member::start() else {
            with_idle(|idle| idle.started -= more - missing);
            break;
        };
        taken.push(member);
    }
    taken
}

/// Members wait again.
fn dismiss(members: &mut Vec<Member>) {
    if !members.is_empty() {
        with_idle(|idle| idle.members.append(members));
    }
}

/// Holds the list for a moment; `None` where it cannot be had, as in a process that was forked while
/// another thread held it.
fn with_idle<T>(act: impl FnOnce(&mut Idle) -> T) -> Option<T> {
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
            // The caller's own parts end with its panic; those of members do not.
            assert!(ran.into_inner() >= 1);
        }
        every_part_runs_once();
    }
}
