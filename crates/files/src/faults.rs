//! Injected failures of calls to the operating system.
//!
//! With the feature `faults`, which only tests enable, a test chooses the number `k` of a system call
//! that fails. It repeats an operation for `k` = 0, 1, 2, and so on until the operation makes fewer than
//! `k + 1` calls, so that every call has failed once. `inject_fault` does this to a function.
//! `ZELLIGE_FAULT=HOW:K` in the environment does it to a program, which appends the kind of the first
//! failed call to the file that `ZELLIGE_FAULT_LOG` names. Release builds do not contain this code.

/// A kind of call to the operating system that can be made to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SystemCall {
    /// Opening an existing file.
    Open,
    /// Querying the metadata of a file or a path.
    Look,
    /// Reading.
    Read,
    /// Creating a file.
    Create,
    /// Locking a file.
    Lock,
    /// Setting the length of a file.
    SetLen,
    /// Reserving disk space.
    Reserve,
    /// Writing.
    Write,
    /// Setting the permissions of a file.
    SetMode,
    /// Flushing bytes to the disk.
    Sync,
    /// Renaming a file.
    Rename,
    /// Removing a file.
    Remove,
    /// Creating a folder.
    MakeFolder,
    /// Listing a folder.
    List,
    /// Allocating memory whose size comes from a file or a user.
    Allocate,
}

/// What `disk.rs` does with a call that is not refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallOutcome {
    /// It makes the call.
    On,
    /// It cuts the call short: a read returns 0 bytes, as at the end of a file, and a write fails after half of its
    /// bytes, as on a full disk.
    #[cfg_attr(not(feature = "faults"), allow(dead_code, reason = "only faults are short"))]
    Short,
}

/// Called before every system call. Without the feature `faults` no call fails.
#[cfg(not(feature = "faults"))]
#[inline(always)]
pub(crate) fn fault_point(_: SystemCall) -> std::io::Result<CallOutcome> {
    Ok(CallOutcome::On)
}

#[cfg(feature = "faults")]
pub(crate) use on::fault_point;
#[cfg(feature = "faults")]
pub use on::{FaultEffect, InjectedFault, inject_fault};

#[cfg(feature = "faults")]
mod on {
    use super::{CallOutcome, SystemCall};
    use std::cell::Cell;
    use std::io::{self, Write};
    use std::sync::{LazyLock, Mutex, PoisonError};

    /// An injected fault: which call fails, and how.
    #[derive(Debug, Clone, Copy)]
    pub struct InjectedFault {
        /// The number of the call, from 0.
        pub at: u64,
        /// The effect of the fault.
        pub how: FaultEffect,
    }

    /// The effect of a fault.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum FaultEffect {
        /// That call fails.
        Once,
        /// That call and all later ones of its kind fail.
        Always,
        /// A read finds the end of the file, and a write stops after half of its bytes; any other call fails.
        Short,
        /// The process ends at that call, as after `kill -9`.
        Kill,
    }

    #[derive(Debug, Clone, Copy)]
    struct FaultState {
        fault: InjectedFault,
        calls: u64,
        failed: Option<SystemCall>,
    }

    thread_local! {
        static INJECTED: Cell<Option<FaultState>> = const { Cell::new(None) };
    }

    static PROGRAM_FAULT: LazyLock<Option<Mutex<FaultState>>> = LazyLock::new(|| {
        let text = std::env::var("ZELLIGE_FAULT").ok()?;
        let (how, at) = text.split_once(':')?;
        let how = match how {
            "once" => FaultEffect::Once,
            "always" => FaultEffect::Always,
            "short" => FaultEffect::Short,
            "kill" => FaultEffect::Kill,
            _ => return None,
        };
        let fault = InjectedFault { at: at.parse().ok()?, how };
        Some(Mutex::new(FaultState { fault, calls: 0, failed: None }))
    });

    /// Runs a function while one call of this thread fails. Also returns the kind of the call that failed;
    /// none if the function made too few calls.
    pub fn inject_fault<T>(
        fault: InjectedFault,
        run: impl FnOnce() -> T,
    ) -> (T, Option<SystemCall>) {
        INJECTED.set(Some(FaultState { fault, calls: 0, failed: None }));
        let result = run();
        (result, INJECTED.take().and_then(|state| state.failed))
    }

    /// Called before every system call: counts it, and returns an error if it is the one that fails.
    pub(crate) fn fault_point(call: SystemCall) -> io::Result<CallOutcome> {
        if let Some(mut state) = INJECTED.get() {
            let outcome = state.next_outcome(call);
            INJECTED.set(Some(state));
            return outcome;
        }
        match &*PROGRAM_FAULT {
            Some(state) => {
                let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
                let before = state.failed;
                let outcome = state.next_outcome(call);
                if before.is_none() && state.failed.is_some() {
                    log_call(call);
                    if state.fault.how == FaultEffect::Kill {
                        // 137 is the status that a shell reports after `kill -9`. `abort` would end the process as
                        // well, but write a core dump, which takes time; neither of them runs destructors.
                        std::process::exit(137);
                    }
                }
                outcome
            }
            None => Ok(CallOutcome::On),
        }
    }

    impl FaultState {
        fn next_outcome(&mut self, call: SystemCall) -> io::Result<CallOutcome> {
            let number = self.calls;
            self.calls += 1;
            let again = self.fault.how == FaultEffect::Always && self.failed == Some(call);
            if number != self.fault.at && !again {
                return Ok(CallOutcome::On);
            }
            self.failed = Some(call);
            match (self.fault.how, call) {
                (FaultEffect::Short, SystemCall::Read | SystemCall::Write) => {
                    Ok(CallOutcome::Short)
                }
                _ => Err(injected_error(call)),
            }
        }
    }

    fn log_call(call: SystemCall) {
        let Some(path) = std::env::var_os("ZELLIGE_FAULT_LOG") else { return };
        let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
        let _ = file.and_then(|mut file| writeln!(file, "{call:?}"));
    }

    /// A typical error of the system for such a call.
    fn injected_error(call: SystemCall) -> io::Error {
        io::Error::from_raw_os_error(match call {
            SystemCall::Open | SystemCall::Create | SystemCall::MakeFolder => libc::EACCES,
            SystemCall::Write | SystemCall::SetLen | SystemCall::Reserve => libc::ENOSPC,
            SystemCall::SetMode | SystemCall::Remove | SystemCall::Rename => libc::EPERM,
            SystemCall::Lock => libc::ENOLCK,
            SystemCall::Allocate => libc::ENOMEM,
            SystemCall::Look | SystemCall::Read | SystemCall::Sync | SystemCall::List => libc::EIO,
        })
    }
}
