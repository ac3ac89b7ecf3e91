//! Which threads work is shared with.

use std::sync::atomic::{AtomicU8, Ordering};

/// The threads that a call is shared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThreadPool {
    /// The team of the process's OpenMP runtime while its threads are awake, threads of our own otherwise. Either way
    /// no more threads than the runtime would use.
    Auto,
    /// Threads of our own, whatever else the process has loaded.
    Own,
    /// The team of the process's OpenMP runtime, awake or not; threads of our own where there is none, and where it
    /// cannot be used (inside another call, and in a process that was forked).
    OpenMp,
}

/// The environment variable that names the pool of a process.
pub const POOL_VARIABLE: &str = "ZELLIGE_POOL";

/// The number of the chosen pool plus 1; 0 before it is chosen.
static CHOSEN_POOL: AtomicU8 = AtomicU8::new(0);

impl ThreadPool {
    /// Every pool.
    pub const ALL: [ThreadPool; 3] = [ThreadPool::Auto, ThreadPool::Own, ThreadPool::OpenMp];

    /// As [`POOL_VARIABLE`] names it.
    pub fn name(self) -> &'static str {
        match self {
            ThreadPool::Auto => "auto",
            ThreadPool::Own => "own",
            ThreadPool::OpenMp => "openmp",
        }
    }

    /// The pool of that name.
    ///
    /// # Errors
    /// A name of none; the message lists those that are.
    pub fn parse(name: &str) -> Result<ThreadPool, String> {
        ThreadPool::ALL.into_iter().find(|pool| pool.name() == name).ok_or_else(|| {
            // A variable may hold anything of any length, and this is a message.
            let shown: String = name.chars().take(40).collect();
            let names = ThreadPool::ALL.map(ThreadPool::name).join(", ");
            format!("\"{shown}\" is no pool of threads; the pools are {names}")
        })
    }

    /// The pool that [`POOL_VARIABLE`] names; none where it is not set or empty.
    ///
    /// # Errors
    /// As [`ThreadPool::parse`].
    pub fn requested_by_variable() -> Result<Option<ThreadPool>, String> {
        match std::env::var(POOL_VARIABLE) {
            Ok(name) if !name.is_empty() => ThreadPool::parse(&name)
                .map(Some)
                .map_err(|why| format!("the variable {POOL_VARIABLE}: {why}")),
            Ok(_) | Err(std::env::VarError::NotPresent) => Ok(None),
            Err(std::env::VarError::NotUnicode(_)) => {
                Err(format!("the variable {POOL_VARIABLE} is no text"))
            }
        }
    }

    /// The pool that this process uses. A variable that names none is ignored here; programs report it at their start
    /// ([`ThreadPool::requested_by_variable`]).
    pub fn of_process() -> ThreadPool {
        match CHOSEN_POOL.load(Ordering::Relaxed) {
            0 => {
                let pool = ThreadPool::requested_by_variable().ok().flatten();
                let pool = pool.unwrap_or(ThreadPool::Auto);
                // A choice that was made meanwhile is kept, because it was made by a call and not by default.
                let _ = CHOSEN_POOL.compare_exchange(
                    0,
                    pool.stored_number(),
                    Ordering::Relaxed,
                    Ordering::Relaxed,
                );
                ThreadPool::of_process()
            }
            1 => ThreadPool::Auto,
            2 => ThreadPool::Own,
            _ => ThreadPool::OpenMp,
        }
    }

    /// Has the process use this pool from its next call on; the pool until then.
    pub fn use_in_process(self) -> ThreadPool {
        let before = ThreadPool::of_process();
        CHOSEN_POOL.store(self.stored_number(), Ordering::Relaxed);
        before
    }

    fn stored_number(self) -> u8 {
        self as u8 + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_others_refused() {
        for pool in ThreadPool::ALL {
            assert_eq!(ThreadPool::parse(pool.name()), Ok(pool));
        }
        for name in ["", "OpenMP", "auto ", "8"] {
            let why = ThreadPool::parse(name).expect_err("no pool");
            assert_eq!(
                why,
                format!("\"{name}\" is no pool of threads; the pools are auto, own, openmp")
            );
        }
    }
}
