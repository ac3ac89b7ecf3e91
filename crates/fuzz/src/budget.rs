//! The budget of time and memory of one input.

use peak_alloc::PeakAlloc;
use std::time::{Duration, Instant};

/// Counts the memory in use, in every program that links this crate.
#[global_allocator]
// A global allocator is the only place that sees the memory of every crate underneath.
static MEMORY: PeakAlloc = PeakAlloc;

/// The time limit of one input, also for an unoptimised build on a busy machine. libFuzzer stops an
/// input that never returns (`-timeout`).
const MAX_SECONDS: u64 = 20;

/// Calls a function within the budget and returns its result.
///
/// # Panics
/// If it takes longer than `MAX_SECONDS`, or more than `bytes` bytes of memory at once.
pub fn run_bounded<T>(what: &str, bytes: usize, f: impl FnOnce() -> T) -> T {
    let before = MEMORY.current_usage();
    // The peak of an earlier input must not be charged to this one.
    MEMORY.reset_peak_usage();
    let begun = Instant::now();
    let out = f();
    let (took, peak) = (begun.elapsed(), MEMORY.peak_usage().saturating_sub(before));
    assert!(took < Duration::from_secs(MAX_SECONDS), "{what} took {took:?}");
    assert!(peak <= bytes, "{what} took {peak} bytes, more than {bytes}");
    out
}
