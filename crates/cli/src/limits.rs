//! What a command, or a request of `zellige ask`, may use.

use std::time::Duration;
use zellige_guard::{CallLimits, LimitError};

#[derive(clap::Args)]
pub(crate) struct LimitArgs {
    /// Stop after this time: seconds, `500ms`, `2m` or `none` [default: 60 for each request of `ask`,
    /// none otherwise]
    #[arg(long, global = true, value_name = "TIME", value_parser = TimeLimit::parse, help_heading = "Limits")]
    limit_time: Option<TimeLimit>,
    /// Stop where more memory is needed: bytes, `512MiB`, `2GiB` or `none` [default: 2GiB for each request
    /// of `ask`, 4GiB for a tile kernel, else three quarters of what the machine has free]
    #[arg(long, global = true, value_name = "SIZE", value_parser = MemoryLimit::parse, help_heading = "Limits")]
    limit_memory: Option<MemoryLimit>,
}

/// A time limit as it was given.
#[derive(Clone, Copy)]
struct TimeLimit(Option<Duration>);

impl TimeLimit {
    fn parse(text: &str) -> Result<TimeLimit, LimitError> {
        CallLimits::parse_time_limit(text).map(TimeLimit)
    }
}

/// A memory limit as it was given.
#[derive(Clone, Copy)]
struct MemoryLimit(Option<u64>);

impl MemoryLimit {
    fn parse(text: &str) -> Result<MemoryLimit, LimitError> {
        CallLimits::parse_memory_limit(text).map(MemoryLimit)
    }
}

impl LimitArgs {
    /// Of one request of `zellige ask`.
    pub(crate) fn for_request(&self) -> CallLimits {
        self.override_limits(CallLimits::REQUEST)
    }

    /// Of a whole command: a person watches it and can stop it, but cannot stop a machine that ran out
    /// of memory.
    pub(crate) fn for_command(&self) -> CallLimits {
        self.override_limits(CallLimits {
            time: None,
            // A quarter stays for the rest of the machine, because the kernel of the system would otherwise end
            // some process, which need not be this one.
            memory: free_memory().map(|bytes| bytes / 4 * 3),
        })
    }

    /// The memory limit of the command line; the largest number means no limit.
    pub(crate) fn memory_limit(&self) -> Option<u64> {
        self.limit_memory.map(|m| m.0.unwrap_or(u64::MAX))
    }

    fn override_limits(&self, usual: CallLimits) -> CallLimits {
        CallLimits {
            time: self.limit_time.map_or(usual.time, |t| t.0),
            memory: self.limit_memory.map_or(usual.memory, |m| m.0),
        }
    }
}

/// Bytes of free memory, where the system reports them.
fn free_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    // MemAvailable counts caches that the system can give back, and MemFree does not: see proc(5).
    let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}
