//! What time a run will take, to decide how many threads it is worth.
//!
//! An estimate from the kernels of the jobs: rates of one core that hold within a factor of two or three on
//! the machines that were measured. It need not be better, because all it decides is whether a thread is woken.

use super::job::{ByteLoop, JobKernel, NestJob};
use crate::engine::tuning::{
    CACHES_PS_PER_BYTE, CONVERT_PS, CONVERT_PS_PER_ELEMENT, ELEMENT_PS, LINEAR_CHUNK_BYTES,
    MAX_PIECES, MEMORY_PS_PER_BYTE, MIN_PIECE_BYTES, MIN_PIECES_PER_THREAD, MIN_THREAD_WORK_NS,
    OTHER_PS_PER_BYTE, PIECE_BYTES, RANGE_BYTES, REVERSE_PS_PER_BYTE, ROW_PS, ROW_PS_PER_BYTE,
    SPLAT_PS_PER_BYTE, TRANSPOSE_PS_PER_BYTE, TRANSPOSE_PS_PER_ELEMENT,
};

/// The estimated time of a run on one thread, and its bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct RunEstimate {
    nanoseconds: usize,
    bytes: usize,
}

/// How a run is shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RunPieces {
    /// Equal parts of all jobs.
    pub(super) count: usize,
    /// How many of them a thread takes together, at most.
    pub(super) together: usize,
}

impl RunEstimate {
    /// For jobs that read elements of `width` bytes and write `bytes` in all; `far` ones more than the caches hold.
    pub(super) fn for_jobs(jobs: &[NestJob], width: usize, bytes: usize, far: bool) -> RunEstimate {
        let kernels =
            jobs.iter().map(|j| estimate_job_picoseconds(j, width)).fold(0, usize::saturating_add);
        // A run is bound by its kernels or by memory, whichever takes longer: they work at the same time.
        let memory =
            bytes.saturating_mul(if far { MEMORY_PS_PER_BYTE } else { CACHES_PS_PER_BYTE });
        RunEstimate { nanoseconds: kernels.max(memory) / 1000, bytes }
    }

    /// Threads that the run is worth.
    pub(super) fn useful_threads(self) -> usize {
        (self.nanoseconds / MIN_THREAD_WORK_NS).max(1)
    }

    /// Pieces for so many threads, of a run of so many jobs.
    pub(super) fn divide_into_pieces(self, threads: usize, jobs: usize) -> RunPieces {
        // Several pieces for each thread, unless they were so small that taking them cost more than they do.
        let least =
            (threads * MIN_PIECES_PER_THREAD).min(self.bytes / MIN_PIECE_BYTES).max(threads);
        let count = (self.bytes / PIECE_BYTES).min(MAX_PIECES / jobs.max(1)).max(least);
        let together = (RANGE_BYTES / (self.bytes / count).max(1)).max(1);
        RunPieces { count, together }
    }
}

/// The estimated time of a job on one thread, where its kernel is the limit.
fn estimate_job_picoseconds(job: &NestJob, width: usize) -> usize {
    let steps = |sum: usize, l: &ByteLoop| sum.saturating_mul(l.n.unsigned_abs());
    let around = job.outer.iter().fold(job.starts.len(), steps);
    let calls = [&job.x, &job.y].into_iter().fold(around, steps);
    let each = match &job.kernel {
        JobKernel::Rows { bytes, .. } | JobKernel::Table { bytes, .. } => {
            ROW_PS + ROW_PS_PER_BYTE * bytes
        }
        JobKernel::Splat { bytes, .. } => ROW_PS + SPLAT_PS_PER_BYTE * bytes,
        JobKernel::Reverse { count, .. } => ROW_PS + REVERSE_PS_PER_BYTE * width * count,
        JobKernel::Transpose { .. } => TRANSPOSE_PS_PER_BYTE * width + TRANSPOSE_PS_PER_ELEMENT,
        JobKernel::Convert { count, .. } => CONVERT_PS + CONVERT_PS_PER_ELEMENT * count,
        JobKernel::Linear { .. } => ROW_PS_PER_BYTE * LINEAR_CHUNK_BYTES,
        JobKernel::Elements { .. } => ELEMENT_PS,
        // Small tiles, repeats and stages differ too much for a rate of their own; what they write counts.
        _ => OTHER_PS_PER_BYTE * width,
    };
    calls.saturating_mul(each)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Mover;
    use crate::{MovePlan, PaddingFill};
    use zellige_layout::{Layout, TileLayout};

    fn account(size: [i64; 2], stride: [i64; 2], width: usize) -> RunEstimate {
        let src = Layout::from(TileLayout::row_major(&size).expect("small"));
        let dst = Layout::from(TileLayout::from_strides(&size, &stride, 0).expect("small"));
        let plan = MovePlan::between(&src, &dst, &size, PaddingFill::Leave).expect("a plan");
        Mover::new(&plan, width).expect("a width").account
    }

    /// What one core does in a few microseconds is not shared, whatever the kernel; what takes it milliseconds is.
    #[test]
    fn threads_are_for_long_moves() {
        for width in [1, 2, 4, 8, 16] {
            assert_eq!(account([16, 16], [16, 1], width).useful_threads(), 1);
            assert_eq!(account([32, 32], [1, 32], width).useful_threads(), 1);
            assert!(
                account([4096, 4096], [1, 4096], width).useful_threads() >= 16,
                "{width} bytes"
            );
        }
        // Rows of a megabyte in the caches are copied sooner than a thread wakes; 64 MB are not.
        assert_eq!(account([1024, 1024], [1025, 1], 1).useful_threads(), 1);
        assert!(account([4096, 4096], [4097, 1], 4).useful_threads() >= 16);
    }

    #[test]
    fn pieces_are_many_and_not_too_many() {
        for bytes in [0, 1 << 16, 1 << 20, 1 << 24, 1 << 30, usize::MAX] {
            for threads in [2, 16, 256] {
                for jobs in [1, 7, 5000] {
                    let pieces =
                        RunEstimate { nanoseconds: 0, bytes }.divide_into_pieces(threads, jobs);
                    assert!(pieces.count >= threads, "{bytes} bytes, {threads} threads");
                    let most = (MAX_PIECES / jobs).max(threads * MIN_PIECES_PER_THREAD);
                    assert!(pieces.count <= most, "{bytes} bytes, {threads} threads, {jobs} jobs");
                    assert!(pieces.together >= 1);
                }
            }
        }
    }
}
