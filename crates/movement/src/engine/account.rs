//! What a run will take, to decide how many threads it is worth.
//!
//! An estimate from the kernels of the jobs: rates of one core that hold within a factor of two or three on
//! the machines that were measured. It need not be better, as all it decides is whether a thread is woken.

use super::job::{ByteLoop, Job, Kernel};

/// The estimated time of a run on one thread, and its bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Account {
    nanoseconds: usize,
    bytes: usize,
}

/// A thread is woken for at least so much work: waking takes some microseconds of the caller, and some more
/// until the other one runs. A copy of 4 MiB inside the last level cache, 130 microseconds, gained a tenth
/// by a second thread; one of 1 MiB lost half.
const THREAD_NS: usize = 50_000;

/// Bytes that a piece writes, about: small enough that nobody waits long for the last one, large enough that a
/// piece is many tiles.
const PIECE_BYTES: usize = 1 << 18;
/// Pieces at most; and jobs in all of them, as every piece has a part of every job.
const MOST_PIECES: usize = 4096;
/// Pieces at least, for each thread, where that leaves each something to do.
const FEW_PIECES: usize = 4;
const LEAST_BYTES: usize = 1 << 15;

impl Account {
    /// For jobs that read elements of `width` bytes and write `bytes` in all; `far` ones more than the caches hold.
    pub(super) fn of(jobs: &[Job], width: usize, bytes: usize, far: bool) -> Account {
        let kernels = jobs.iter().map(|j| job_picoseconds(j, width)).fold(0, usize::saturating_add);
        // Memory gives one core about 15 GB/s each way.
        let memory = if far { bytes.saturating_mul(65) } else { 0 };
        Account { nanoseconds: kernels.max(memory) / 1000, bytes }
    }

    /// Threads that the run is worth.
    pub(super) fn threads(self) -> usize {
        (self.nanoseconds / THREAD_NS).max(1)
    }

    /// Pieces for so many threads, of a run of so many jobs.
    pub(super) fn pieces(self, threads: usize, jobs: usize) -> usize {
        let least = (threads * FEW_PIECES).min(self.bytes / LEAST_BYTES).max(threads);
        (self.bytes / PIECE_BYTES).min(MOST_PIECES / jobs.max(1)).max(least)
    }
}

/// The estimated time of a job on one thread, where its kernel is the limit.
fn job_picoseconds(job: &Job, width: usize) -> usize {
    let loops = job.outer.iter().chain([&job.x, &job.y]);
    let steps = |sum: usize, l: &ByteLoop| sum.saturating_mul(l.n.unsigned_abs());
    let calls = loops.fold(job.starts.len(), steps);
    let each = match &job.kernel {
        Kernel::Rows { bytes, .. } | Kernel::Table { bytes, .. } => 1500 + 30 * bytes,
        Kernel::Splat { bytes, .. } => 1500 + 20 * bytes,
        Kernel::Reverse { count, .. } => 1500 + 60 * width * count,
        Kernel::Transpose { .. } => 100 * width + 100,
        Kernel::Convert { count, .. } => 2000 + 150 * count,
        Kernel::Linear { .. } => 30 * super::job::CHUNK,
        Kernel::Elements { .. } => 1000,
        // Single elements, or something whose copies are most of it.
        _ => 500 * width,
    };
    calls.saturating_mul(each)
}
