//! Calls to the operating system that fail on purpose.
//!
//! With the feature `faults`, which only tests have, the `k`-th call of an operation fails, for every `k`
//! until the operation makes no `k`-th call: `inject` in a test, `ZELLIGE_FAULT=HOW:K` for a whole
//! program, which then appends what failed to the file of `ZELLIGE_FAULT_LOG`. A release has no such door.

/// A kind of call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Call {
    /// Opening an existing file.
    Open,
    /// Asking what a file or a name is.
    Look,
    /// Reading.
    Read,
    /// Making a file.
    Create,
    /// Locking a file.
    Lock,
    /// Giving a file its length.
    SetLen,
    /// Finding room on the disk.
    Reserve,
    /// Writing.
    Write,
    /// Setting who may use a file.
    SetMode,
    /// Putting bytes on the disk.
    Sync,
    /// Giving a file its final name.
    Rename,
    /// Removing a file.
    Remove,
    /// Making a folder.
    MakeFolder,
    /// Listing a folder.
    List,
    /// Memory whose size a file or a user gives.
    Allocate,
}

/// How a call goes that does not fail at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Go {
    /// As asked.
    On,
    /// Half-way: a read finds the end of the file, a write the end of the disk.
    #[cfg_attr(not(feature = "faults"), allow(dead_code, reason = "only faults are short"))]
    Short,
}

/// A point at which a test may let a call fail.
#[cfg(not(feature = "faults"))]
#[inline(always)]
pub(crate) fn point(_: Call) -> std::io::Result<Go> {
    Ok(Go::On)
}

#[cfg(feature = "faults")]
pub(crate) use on::point;
#[cfg(feature = "faults")]
pub use on::{Fault, How, inject};

#[cfg(feature = "faults")]
mod on {
    use super::{Call, Go};
    use std::cell::Cell;
    use std::io::{self, Write};
    use std::sync::{LazyLock, Mutex, PoisonError};

    /// Which call fails, and how.
    #[derive(Debug, Clone, Copy)]
    pub struct Fault {
        /// The number of the call, from 0.
        pub at: u64,
        /// What happens then.
        pub how: How,
    }

    /// What happens at a fault.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum How {
        /// That call fails.
        Once,
        /// That call and all later ones of its kind fail.
        Always,
        /// A read finds the end of the file, a write stops half-way; others fail.
        Short,
        /// The process ends there, as by `kill -9`.
        Kill,
    }

    #[derive(Debug, Clone, Copy)]
    struct State {
        fault: Fault,
        calls: u64,
        failed: Option<Call>,
    }

    thread_local! {
        static INJECTED: Cell<Option<State>> = const { Cell::new(None) };
    }

    static PROGRAM: LazyLock<Option<Mutex<State>>> = LazyLock::new(|| {
        let text = std::env::var("ZELLIGE_FAULT").ok()?;
        let (how, at) = text.split_once(':')?;
        let how = match how {
            "once" => How::Once,
            "always" => How::Always,
            "short" => How::Short,
            "kill" => How::Kill,
            _ => return None,
        };
        let fault = Fault { at: at.parse().ok()?, how };
        Some(Mutex::new(State { fault, calls: 0, failed: None }))
    });

    /// Runs something with a fault among the calls of this thread; tells which call failed, if it came
    /// that far.
    pub fn inject<T>(fault: Fault, run: impl FnOnce() -> T) -> (T, Option<Call>) {
        INJECTED.set(Some(State { fault, calls: 0, failed: None }));
        let result = run();
        (result, INJECTED.take().and_then(|state| state.failed))
    }

    /// A point at which a test may let a call fail.
    pub(crate) fn point(call: Call) -> io::Result<Go> {
        if let Some(mut state) = INJECTED.get() {
            let outcome = state.next(call);
            INJECTED.set(Some(state));
            return outcome;
        }
        match &*PROGRAM {
            Some(state) => {
                let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
                let before = state.failed;
                let outcome = state.next(call);
                if before.is_none() && state.failed.is_some() {
                    log(call);
                    if state.fault.how == How::Kill {
                        // Not `abort`, whose core dump takes time; no destructor runs in either.
                        std::process::exit(137);
                    }
                }
                outcome
            }
            None => Ok(Go::On),
        }
    }

    impl State {
        fn next(&mut self, call: Call) -> io::Result<Go> {
            let number = self.calls;
            self.calls += 1;
            let again = self.fault.how == How::Always && self.failed == Some(call);
            if number != self.fault.at && !again {
                return Ok(Go::On);
            }
            self.failed = Some(call);
            match (self.fault.how, call) {
                (How::Short, Call::Read | Call::Write) => Ok(Go::Short),
                _ => Err(refusal(call)),
            }
        }
    }

    fn log(call: Call) {
        let Some(path) = std::env::var_os("ZELLIGE_FAULT_LOG") else { return };
        let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
        let _ = file.and_then(|mut file| writeln!(file, "{call:?}"));
    }

    /// What the system says when such a call fails.
    fn refusal(call: Call) -> io::Error {
        io::Error::from_raw_os_error(match call {
            Call::Open | Call::Create | Call::MakeFolder => libc::EACCES,
            Call::Write | Call::SetLen | Call::Reserve => libc::ENOSPC,
            Call::SetMode | Call::Remove | Call::Rename => libc::EPERM,
            Call::Lock => libc::ENOLCK,
            Call::Allocate => libc::ENOMEM,
            Call::Look | Call::Read | Call::Sync | Call::List => libc::EIO,
        })
    }
}
