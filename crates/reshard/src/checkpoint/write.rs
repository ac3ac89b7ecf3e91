//! Writes the files of an output with several threads, which take slabs one after the other, file
//! by file.
//!
//! The thread that writes the last slab of a file flushes and renames it, while the others continue
//! with the next file. Names are flushed to the disk together.

use super::error::Result;
use super::gather::{ShardGather, SlabBuffers};
use super::input::SHAPES_KEY;
use super::job::{CheckpointJob, JobLimits, JobSummary};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use zellige_files::{ContainerWriter, FileMetadata, NamedFile, NewTensor, make_folder};

/// The largest slab in bytes: it fits in the caches of a core, and after a kill little has to be
/// written again.
pub(crate) const SLAB_BYTES: usize = 1 << 20;

/// The number of finished files whose names are flushed together; each stays open until then.
// Each open file takes a descriptor, of which a process often has 1024.
const UNSETTLED_FILES: usize = 64;

/// A file that is being written.
struct OutFile<'a> {
    rank: i64,
    /// Taken by the thread that finishes the file, when no other thread writes to it.
    writer: RwLock<Option<ContainerWriter>>,
    /// For each tensor: its number in the job, the bytes before it, and its own bytes.
    tensors: Vec<(usize, u64, u64)>,
    gathers: Vec<OnceLock<ShardGather<'a>>>,
    bytes: u64,
    marks: Mutex<WrittenRanges>,
}

/// The bytes of a file that are written, counted over its tensors.
#[derive(Default)]
struct WrittenRanges {
    /// All bytes before this one are written.
    low: u64,
    /// The written ranges beyond it: ends by starts.
    beyond: BTreeMap<u64, u64>,
}

impl WrittenRanges {
    /// Adds a written range; returns the new mark if it has moved.
    fn add_range(&mut self, start: u64, end: u64) -> Option<u64> {
        self.beyond.insert(start, end);
        let before = self.low;
        while let Some(end) = self.beyond.remove(&self.low) {
            self.low = end;
        }
        (self.low > before).then_some(self.low)
    }
}

/// A slab: a part of a tensor of a file.
struct FileSlab<'a> {
    file: Arc<OutFile<'a>>,
    tensor: usize,
    /// The first byte, counted in the tensor.
    at: u64,
    len: u64,
}

/// The position of the next slab.
struct SlabCursor<'a> {
    file: usize,
    open: Option<Arc<OutFile<'a>>>,
    tensor: usize,
    at: u64,
}

struct CrewProgress<P> {
    named: Vec<NamedFile>,
    done: JobSummary,
    reached: u64,
    progress: P,
}

struct WriterCrew<'a, P> {
    job: &'a CheckpointJob,
    folder: PathBuf,
    slab: usize,
    cursor: Mutex<SlabCursor<'a>>,
    shared: Mutex<CrewProgress<P>>,
    stopped: AtomicBool,
}

/// Locks a mutex, ignoring poisoning: a panic cannot leave the protected values half-changed.
pub(crate) fn lock_shared<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes every file that is not finished yet.
pub(crate) fn write_files(
    job: &CheckpointJob,
    folder: &Path,
    limits: JobLimits,
    progress: impl FnMut(u64) + Send,
) -> Result<JobSummary> {
    let threads = limits.threads.clamp(1, 64);
    // A slab and a window for every thread.
    let slab = (limits.memory / 2 / threads).clamp(1 << 16, SLAB_BYTES);
    let crew = WriterCrew {
        job,
        folder: folder.to_path_buf(),
        slab,
        cursor: Mutex::new(SlabCursor { file: 0, open: None, tensor: 0, at: 0 }),
        shared: Mutex::new(CrewProgress {
            named: Vec::new(),
            done: JobSummary::default(),
            reached: 0,
            progress,
        }),
        stopped: AtomicBool::new(false),
    };
    let results: Vec<Result<()>> = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(|| crew.write_slabs())).collect();
        let mut results = vec![crew.write_slabs()];
        for other in others {
            results.push(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        results
    });
    results.into_iter().collect::<Result<Vec<()>>>()?;
    let shared = crew.shared.into_inner().unwrap_or_else(PoisonError::into_inner);
    NamedFile::settle_names(shared.named)?;
    Ok(shared.done)
}

impl<'a, P: FnMut(u64) + Send> WriterCrew<'a, P> {
    /// Writes slabs until none is left or a thread has failed.
    fn write_slabs(&self) -> Result<()> {
        let result = SlabBuffers::new(self.slab).and_then(|mut buffers| {
            while !self.stopped.load(Ordering::Relaxed) {
                let Some(slab) = self.take_next_slab()? else { break };
                self.write_slab(&slab, &mut buffers)?;
            }
            Ok(())
        });
        if result.is_err() {
            self.stopped.store(true, Ordering::Relaxed);
        }
        result
    }

    fn take_next_slab(&self) -> Result<Option<FileSlab<'a>>> {
        let mut cursor = lock_shared(&self.cursor);
        loop {
            let Some(file) = cursor.open.clone() else {
                let Some((name, rank)) = self.job.outputs.get(cursor.file) else { return Ok(None) };
                (cursor.open, cursor.tensor, cursor.at) = (self.begin_file(name, *rank)?, 0, 0);
                cursor.file += usize::from(cursor.open.is_none());
                continue;
            };
            let Some((number, first, bytes)) = file.tensors.get(cursor.tensor).copied() else {
                (cursor.open, cursor.file) = (None, cursor.file + 1);
                continue;
            };
            // The bytes that an earlier run has written are kept, rounded down to whole elements.
            let width = self.job.tensors[number].width as u64;
            let there = lock_shared(&file.marks).low.saturating_sub(first).min(bytes);
            // A note may end in the middle of an element after a kill; that element is written
            // again.
            let at = cursor.at.max(if cursor.at == 0 { there / width * width } else { 0 });
            if at >= bytes {
                (cursor.tensor, cursor.at) = (cursor.tensor + 1, 0);
                continue;
            }
            let len = (self.slab as u64 / width * width).max(width).min(bytes - at);
            cursor.at = at + len;
            return Ok(Some(FileSlab { file, tensor: cursor.tensor, at, len }));
        }
    }

    /// Begins or resumes a file; `None` if it is already finished.
    fn begin_file(&self, name: &'a str, rank: i64) -> Result<Option<Arc<OutFile<'a>>>> {
        let (job, path) = (self.job, self.folder.join(name));
        let bytes = job.file_bytes(rank);
        // Only complete files get their final name, and the folder had no such file before its
        // state was written.
        if job.is_whole_file(&path, rank) {
            let mut shared = lock_shared(&self.shared);
            shared.done.found += 1;
            shared.report_progress(bytes);
            return Ok(None);
        }
        if let Some(parent) = path.parent() {
            make_folder(parent)?;
        }
        let (new, metadata) = (job.tensors_of_rank(rank), job.output_metadata(rank));
        let requests: Vec<NewTensor> = new.iter().map(|(_, n)| n.clone()).collect();
        let key = format!("{} {name}", job.key);
        let (writer, there) = ContainerWriter::resume_partial(&path, &requests, &metadata, &key)?;
        let mut first = 0;
        let mut tensors = Vec::with_capacity(new.len());
        for ((number, _), info) in new.iter().zip(writer.tensors()) {
            tensors.push((*number, first, info.byte_len()));
            first += info.byte_len();
        }
        let there = there.min(bytes);
        let file = OutFile {
            rank,
            writer: RwLock::new(Some(writer)),
            gathers: tensors.iter().map(|_| OnceLock::new()).collect(),
            tensors,
            bytes,
            marks: Mutex::new(WrittenRanges { low: there, beyond: BTreeMap::new() }),
        };
        let mut shared = lock_shared(&self.shared);
        shared.done.resumed += there;
        shared.report_progress(there);
        drop(shared);
        if there == bytes {
            self.finish_file(&file)?;
            return Ok(None);
        }
        Ok(Some(Arc::new(file)))
    }

    fn write_slab(&self, slab: &FileSlab<'a>, buffers: &mut SlabBuffers) -> Result<()> {
        let FileSlab { file, tensor, at, len } = slab;
        let (number, first, _) = file.tensors[*tensor];
        let gather = match file.gathers[*tensor].get() {
            Some(gather) => gather,
            None => {
                let made = self.job.gather_shard(number, file.rank)?;
                // Two threads may build the same gather; the second result is dropped, which is
                // cheaper than a lock around the building.
                file.gathers[*tensor].get_or_init(|| made)
            }
        };
        let writer = file.writer.read().unwrap_or_else(PoisonError::into_inner);
        let Some(open) = writer.as_ref() else { return Ok(()) };
        open.write_at(*tensor, *at, gather.read_shard_range((*at, *len), buffers)?)?;
        // The note is written under the lock, so that a later note never has a smaller number.
        let mut marks = lock_shared(&file.marks);
        let moved = marks.add_range(first + at, first + at + len);
        if let Some(low) = moved {
            open.note_progress(low)?;
        }
        drop(marks);
        drop(writer);
        let mut shared = lock_shared(&self.shared);
        shared.done.bytes += len;
        shared.report_progress(*len);
        drop(shared);
        match moved == Some(file.bytes) {
            true => self.finish_file(file),
            false => Ok(()),
        }
    }

    /// Flushes a file to the disk and renames it.
    fn finish_file(&self, file: &OutFile<'_>) -> Result<()> {
        let writer = file.writer.write().unwrap_or_else(PoisonError::into_inner).take();
        let Some(writer) = writer else { return Ok(()) };
        let named = writer.finish_unsettled()?;
        let mut shared = lock_shared(&self.shared);
        shared.done.written += 1;
        shared.named.push(named);
        if shared.named.len() < UNSETTLED_FILES {
            return Ok(());
        }
        let all = std::mem::take(&mut shared.named);
        drop(shared);
        Ok(NamedFile::settle_names(all)?)
    }
}

impl<P: FnMut(u64)> CrewProgress<P> {
    fn report_progress(&mut self, bytes: u64) {
        self.reached += bytes;
        (self.progress)(self.reached);
    }
}

impl CheckpointJob {
    /// Finds the sources of the shard of a rank.
    fn gather_shard(&self, number: usize, rank: i64) -> Result<ShardGather<'_>> {
        let tensor = &self.tensors[number];
        let files = &self.rules.from;
        let (named, to) = ((tensor.name.as_str(), tensor.width), Some(&tensor.to));
        ShardGather::new(&self.opened, files, named, &tensor.from, to, &tensor.plan, (rank, 0))
    }

    /// The metadata of all files of the input, and the shapes of flat shards.
    pub(crate) fn output_metadata(&self, rank: i64) -> FileMetadata {
        let mut metadata = FileMetadata::new();
        for container in &self.opened.containers {
            metadata.extend(container.metadata().clone());
        }
        // The key describes flat shards of the input; those of the output have shapes of their own.
        metadata.remove(SHAPES_KEY);
        let held = self.tensors.iter().filter(|t| t.flat && t.to.sharded.holds_elements(rank));
        let shapes: BTreeMap<&str, &[i64]> =
            held.map(|t| (t.name.as_str(), t.shape.as_slice())).collect();
        if !shapes.is_empty() {
            metadata.insert(SHAPES_KEY.into(), serde_json::json!(shapes).to_string());
        }
        metadata
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_moves_over_what_is_there() {
        let mut marks = WrittenRanges::default();
        assert_eq!(marks.add_range(10, 20), None);
        assert_eq!(marks.add_range(30, 40), None);
        assert_eq!(marks.add_range(0, 10), Some(20));
        assert_eq!(marks.add_range(20, 30), Some(40));
        assert!(marks.beyond.is_empty());
    }
}
