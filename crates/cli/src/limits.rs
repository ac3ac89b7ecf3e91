//! What a command, or a request of `zellige ask`, may use.

use std::time::Duration;
use zellige_guard::{CallLimits, LimitError};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Stop after this time: seconds, `500ms`, `2m` or `none` [default: 60 for each request of `ask`,
    /// none otherwise]
    #[arg(long, global = true, value_name = "TIME", value_parser = Time::parse, help_heading = "Limits")]
    limit_time: Option<Time>,
    /// Stop where more memory is needed: bytes, `512MiB`, `2GiB` or `none` [default: 2GiB for each request
    /// of `ask`, 4GiB for a tile kernel, else three quarters of what the machine has free]
    #[arg(long, global = true, value_name = "SIZE", value_parser = Memory::parse, help_heading = "Limits")]
    limit_memory: Option<Memory>,
}

/// A time limit as it was given.
#[derive(Clone, Copy)]
struct Time(Option<Duration>);

impl Time {
    fn parse(text: &str) -> Result<Time, LimitError> {
        CallLimits::parse_time_limit(text).map(Time)
    }
}

/// A memory limit as it was given.
#[derive(Clone, Copy)]
struct Memory(Option<u64>);

impl Memory {
    fn parse(text: &str) -> Result<Memory, LimitError> {
        CallLimits::parse_memory_limit(text).map(Memory)
    }
}

impl Args {
    /// Of one request of `zellige ask`.
    pub(crate) fn of_request(&self) -> CallLimits {
        self.over(CallLimits::REQUEST)
    }

    /// Of a whole command: a person watches it and can stop it, but cannot stop a machine that ran out
    /// of memory.
    pub(crate) fn of_command(&self) -> CallLimits {
        self.over(CallLimits { time: None, memory: free_memory().map(|bytes| bytes / 4 * 3) })
    }

    /// The memory limit that was asked for; the largest number is none.
    pub(crate) fn memory(&self) -> Option<u64> {
        self.limit_memory.map(|m| m.0.unwrap_or(u64::MAX))
    }

    fn over(&self, usual: CallLimits) -> CallLimits {
        CallLimits {
            time: self.limit_time.map_or(usual.time, |t| t.0),
            memory: self.limit_memory.map_or(usual.memory, |m| m.0),
        }
    }
}

/// Bytes that the machine has free, where it says so.
fn free_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}
