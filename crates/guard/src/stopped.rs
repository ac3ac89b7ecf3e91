//! The reason why a call did not end by itself.

use std::fmt;
use std::time::Duration;

/// Why a [`run_guarded_call`](crate::run_guarded_call) did not end by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StopReason {
    /// It took longer than its limit.
    Time {
        /// The limit.
        limit: Duration,
    },
    /// It needs more memory than its limit.
    Memory {
        /// The bytes that it may have.
        limit: u64,
        /// The bytes that it would have had.
        needed: u64,
    },
    /// It panicked: a mistake in the engine, whatever the request was.
    Panic {
        /// The message of the panic.
        message: String,
        /// The file and line, where they are known.
        place: Option<String>,
    },
}

impl StopReason {
    /// A stable identifier in snake case.
    pub fn kind(&self) -> &'static str {
        match self {
            StopReason::Time { .. } => "over_time",
            StopReason::Memory { .. } => "over_memory",
            StopReason::Panic { .. } => "internal",
        }
    }
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StopReason::Time { limit } => write!(
                f,
                "stopped at the time limit of {} s (--limit-time sets another)",
                limit.as_secs_f64()
            ),
            StopReason::Memory { limit, needed } => write!(
                f,
                "stopped at {needed} bytes of memory, past the limit of {limit} (--limit-memory sets \
                 another)"
            ),
            StopReason::Panic { message, place } => {
                let place = place.as_deref().unwrap_or("an unknown place");
                write!(
                    f,
                    "a mistake in the engine, at {place}: {message}; please report it with what you asked \
                     for"
                )
            }
        }
    }
}

impl std::error::Error for StopReason {}
