//! Time and memory that an input may take.

use peak_alloc::PeakAlloc;
use std::time::{Duration, Instant};

/// Counts what is in use; every program that links this crate has it.
#[global_allocator]
// A global allocator is the only place that sees the memory of every crate underneath.
static MEMORY: PeakAlloc = PeakAlloc;

/// What one input may take, also in an unoptimised build on a busy machine. libFuzzer ends an input
/// that does not come back at all (`-timeout`).
const MAX_SECONDS: u64 = 20;

/// Calls a function and returns what it gives.
///
/// # Panics
/// If it takes longer than `MAX_SECONDS`, or more than so many bytes of memory at once.
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
