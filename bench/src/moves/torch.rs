//! What threads are worth in one process with PyTorch.
//!
//! PyTorch's kernels run on the team of an OpenMP runtime, whose threads spin for some milliseconds after each of them.
//! Here the same runtime is loaded, and parallel copies on its team stand for PyTorch's: for a move it makes no
//! difference whose function the team ran before.

use super::busy::{BusyRow, busy_row_behind};
use super::{CaseError, MoveCase};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use zellige_host::crew::LoadedOpenMp;

/// Prints the file of the runtime that PyTorch uses.
const FIND_RUNTIME: &str = "
import torch
torch.ones(1 << 20).add(1)
print(next(l.split()[-1] for l in open('/proc/self/maps') if 'omp' in l.split('/')[-1] and '.so' in l))";

/// Bytes that each thread of the team copies in one operation: more than its second level cache.
const COPIED_BYTES: usize = 4 << 20;

/// How long the threads of a team spin, at most, before they sleep: they do for some milliseconds.
const SLEEP_AFTER: Duration = Duration::from_millis(30);

/// Parallel operations as PyTorch's are.
pub struct TorchOperations {
    runtime: LoadedOpenMp,
    path: String,
    buffers: Vec<Mutex<[Vec<u8>; 2]>>,
}

impl TorchOperations {
    /// With the runtime of the PyTorch of this Python, or with that of the system where there is none.
    ///
    /// # Errors
    /// Where there is no runtime at all.
    pub fn start_operations(python: &str) -> Result<TorchOperations, String> {
        let of_torch = Command::new(python).args(["-c", FIND_RUNTIME]).output().ok();
        let of_torch = of_torch
            .filter(|answer| answer.status.success())
            .map(|answer| String::from_utf8_lossy(&answer.stdout).trim().to_owned());
        let path = of_torch.unwrap_or_else(|| "libgomp.so.1".to_owned());
        let runtime = LoadedOpenMp::load_file(&path).map_err(|why| {
            format!(
                "--beside torch: {why}; ZELLIGE_PYTHON names a Python with PyTorch, and without one \
                 the system's libgomp is used"
            )
        })?;
        let buffers = (0..runtime.threads())
            .map(|_| Mutex::new([vec![1; COPIED_BYTES], vec![0; COPIED_BYTES]]))
            .collect();
        Ok(TorchOperations { runtime, path, buffers })
    }

    /// The file of the runtime, and the threads of its team.
    pub fn describe_runtime(&self) -> String {
        format!("{} with {} threads", self.path, self.runtime.threads())
    }

    /// One operation: every thread of the team copies a part.
    fn run_operation(&self) {
        let next = AtomicUsize::new(0);
        self.runtime.run_region(&|| {
            let mine = self.buffers.get(next.fetch_add(1, Ordering::Relaxed));
            if let Some(Ok(mut pair)) = mine.map(Mutex::lock) {
                let [from, to] = &mut *pair;
                to.copy_from_slice(from);
            }
        });
    }
}

/// Measures one case by itself, with the threads of the runtime asleep, and right behind operations.
///
/// # Errors
/// Where it has no plan.
pub fn torch_rows(
    case: &MoveCase,
    threads: usize,
    time: Duration,
    operations: &TorchOperations,
) -> Result<[BusyRow; 2], CaseError> {
    // Two operations, because the first one wakes the team.
    let behind = || (0..2).for_each(|_| operations.run_operation());
    let mut rows = [
        busy_row_behind(case, threads, time, &|| std::thread::sleep(SLEEP_AFTER))?,
        busy_row_behind(case, threads, time, &behind)?,
    ];
    for (row, place) in rows.iter_mut().zip(["by itself", "behind an operation"]) {
        row.name = format!("{}, {place}", row.name);
    }
    Ok(rows)
}
