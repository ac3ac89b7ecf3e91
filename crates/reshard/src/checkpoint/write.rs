//! Threads that write the files of an output: they take slabs in turn, the first file's first.
//!
//! Whoever writes the last slab of a file puts it on the disk and gives it its name, while the others go on with the next file. Names are
//! put on the disk together.

use super::error::Result;
use super::gather::{Buffers, Gather};
use super::input::SHAPES;
use super::job::{Done, Job, Limits};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use zellige_files::{Metadata, Named, NewTensor, Writer, make_folder};

/// Bytes of a slab at most: as many as stay in the caches of a core, and are soon written anew after a kill.
pub(crate) const SLAB: usize = 1 << 20;

/// Finished files whose names are put on the disk together; each is open until then.
const NAMED: usize = 64;

/// A file that is being written.
struct OutFile<'a> {
    rank: i64,
    /// Taken by who finishes the file, once nobody writes to it.
    writer: RwLock<Option<Writer>>,
    /// Of each tensor: its number in the job, and the number of bytes in front of it and in it.
    tensors: Vec<(usize, u64, u64)>,
    gathers: Vec<OnceLock<Gather<'a>>>,
    bytes: u64,
    marks: Mutex<Marks>,
}

/// Which bytes of a file are there, counted over its tensors.
#[derive(Default)]
struct Marks {
    /// All in front of this one.
    low: u64,
    /// Ends by starts, of what is there behind it.
    beyond: BTreeMap<u64, u64>,
}

impl Marks {
    /// Adds a part; answers the mark, where it has moved.
    fn add(&mut self, start: u64, end: u64) -> Option<u64> {
        self.beyond.insert(start, end);
        let before = self.low;
        while let Some(end) = self.beyond.remove(&self.low) {
            self.low = end;
        }
        (self.low > before).then_some(self.low)
    }
}

/// A part of a tensor of a file.
struct Slab<'a> {
    file: Arc<OutFile<'a>>,
    tensor: usize,
    /// In the tensor.
    at: u64,
    len: u64,
}

/// Where the next slab is.
struct Cursor<'a> {
    file: usize,
    open: Option<Arc<OutFile<'a>>>,
    tensor: usize,
    at: u64,
}

struct Shared<P> {
    named: Vec<Named>,
    done: Done,
    reached: u64,
    progress: P,
}

struct Crew<'a, P> {
    job: &'a Job,
    folder: PathBuf,
    slab: usize,
    cursor: Mutex<Cursor<'a>>,
    shared: Mutex<Shared<P>>,
    stopped: AtomicBool,
}

/// What is locked is whole between any two statements, whoever panics.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes every file that is not finished yet.
pub(crate) fn write_files(
    job: &Job,
    folder: &Path,
    limits: Limits,
    progress: impl FnMut(u64) + Send,
) -> Result<Done> {
    let threads = limits.threads.clamp(1, 64);
    // A slab and a window for every thread.
    let slab = (limits.memory / 2 / threads).clamp(1 << 16, SLAB);
    let crew = Crew {
        job,
        folder: folder.to_path_buf(),
        slab,
        cursor: Mutex::new(Cursor { file: 0, open: None, tensor: 0, at: 0 }),
        shared: Mutex::new(Shared {
            named: Vec::new(),
            done: Done::default(),
            reached: 0,
            progress,
        }),
        stopped: AtomicBool::new(false),
    };
    let results: Vec<Result<()>> = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(|| crew.work())).collect();
        let mut results = vec![crew.work()];
        for other in others {
            results.push(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        results
    });
    results.into_iter().collect::<Result<Vec<()>>>()?;
    let shared = crew.shared.into_inner().unwrap_or_else(PoisonError::into_inner);
    Named::settle(shared.named)?;
    Ok(shared.done)
}

impl<'a, P: FnMut(u64) + Send> Crew<'a, P> {
    /// Slab after slab, until there is none or somebody failed.
    fn work(&self) -> Result<()> {
        let result = Buffers::new(self.slab).and_then(|mut buffers| {
            while !self.stopped.load(Ordering::Relaxed) {
                let Some(slab) = self.next()? else { break };
                self.write(&slab, &mut buffers)?;
            }
            Ok(())
        });
        if result.is_err() {
            self.stopped.store(true, Ordering::Relaxed);
        }
        result
    }

    fn next(&self) -> Result<Option<Slab<'a>>> {
        let mut cursor = locked(&self.cursor);
        loop {
            let Some(file) = cursor.open.clone() else {
                let Some((name, rank)) = self.job.outputs.get(cursor.file) else { return Ok(None) };
                (cursor.open, cursor.tensor, cursor.at) = (self.open(name, *rank)?, 0, 0);
                cursor.file += usize::from(cursor.open.is_none());
                continue;
            };
            let Some((number, first, bytes)) = file.tensors.get(cursor.tensor).copied() else {
                (cursor.open, cursor.file) = (None, cursor.file + 1);
                continue;
            };
            // What an earlier run had written stays, as far as it is whole elements.
            let width = self.job.tensors[number].width as u64;
            let there = locked(&file.marks).low.saturating_sub(first).min(bytes);
            let at = cursor.at.max(if cursor.at == 0 { there / width * width } else { 0 });
            if at >= bytes {
                (cursor.tensor, cursor.at) = (cursor.tensor + 1, 0);
                continue;
            }
            let len = (self.slab as u64 / width * width).max(width).min(bytes - at);
            cursor.at = at + len;
            return Ok(Some(Slab { file, tensor: cursor.tensor, at, len }));
        }
    }

    /// Begins a file, or goes on with it; none where it is finished.
    fn open(&self, name: &'a str, rank: i64) -> Result<Option<Arc<OutFile<'a>>>> {
        let (job, path) = (self.job, self.folder.join(name));
        let bytes = job.file_bytes(rank);
        // A name is given to what is complete, and the folder held none before its state was written.
        if job.is_whole(&path, rank) {
            let mut shared = locked(&self.shared);
            shared.done.found += 1;
            shared.tell(bytes);
            return Ok(None);
        }
        if let Some(parent) = path.parent() {
            make_folder(parent)?;
        }
        let (new, metadata) = (job.wanted(rank), job.metadata(rank));
        let requests: Vec<NewTensor> = new.iter().map(|(_, n)| n.clone()).collect();
        let key = format!("{} {name}", job.key);
        let (writer, there) = Writer::resume(&path, &requests, &metadata, &key)?;
        let mut first = 0;
        let mut tensors = Vec::with_capacity(new.len());
        for ((number, _), info) in new.iter().zip(writer.tensors()) {
            tensors.push((*number, first, info.bytes()));
            first += info.bytes();
        }
        let there = there.min(bytes);
        let file = OutFile {
            rank,
            writer: RwLock::new(Some(writer)),
            gathers: tensors.iter().map(|_| OnceLock::new()).collect(),
            tensors,
            bytes,
            marks: Mutex::new(Marks { low: there, beyond: BTreeMap::new() }),
        };
        let mut shared = locked(&self.shared);
        shared.done.resumed += there;
        shared.tell(there);
        drop(shared);
        if there == bytes {
            self.finish(&file)?;
            return Ok(None);
        }
        Ok(Some(Arc::new(file)))
    }

    fn write(&self, slab: &Slab<'a>, buffers: &mut Buffers) -> Result<()> {
        let Slab { file, tensor, at, len } = slab;
        let (number, first, _) = file.tensors[*tensor];
        let gather = match file.gathers[*tensor].get() {
            Some(gather) => gather,
            None => {
                let made = self.job.gather(number, file.rank)?;
                file.gathers[*tensor].get_or_init(|| made)
            }
        };
        let writer = file.writer.read().unwrap_or_else(PoisonError::into_inner);
        let Some(open) = writer.as_ref() else { return Ok(()) };
        open.write_at(*tensor, *at, gather.read((*at, *len), buffers)?)?;
        // Noted under the lock, so that notes never go back.
        let mut marks = locked(&file.marks);
        let moved = marks.add(first + at, first + at + len);
        if let Some(low) = moved {
            open.note(low)?;
        }
        drop(marks);
        drop(writer);
        let mut shared = locked(&self.shared);
        shared.done.bytes += len;
        shared.tell(*len);
        drop(shared);
        match moved == Some(file.bytes) {
            true => self.finish(file),
            false => Ok(()),
        }
    }

    /// Puts a file on the disk and gives it its name.
    fn finish(&self, file: &OutFile<'_>) -> Result<()> {
        let writer = file.writer.write().unwrap_or_else(PoisonError::into_inner).take();
        let Some(writer) = writer else { return Ok(()) };
        let named = writer.finish_unsettled()?;
        let mut shared = locked(&self.shared);
        shared.done.written += 1;
        shared.named.push(named);
        if shared.named.len() < NAMED {
            return Ok(());
        }
        let all = std::mem::take(&mut shared.named);
        drop(shared);
        Ok(Named::settle(all)?)
    }
}

impl<P: FnMut(u64)> Shared<P> {
    fn tell(&mut self, bytes: u64) {
        self.reached += bytes;
        (self.progress)(self.reached);
    }
}

impl Job {
    /// Where the elements of the shard of a rank are.
    fn gather(&self, number: usize, rank: i64) -> Result<Gather<'_>> {
        let tensor = &self.tensors[number];
        let files = &self.rules.from;
        let (named, to) = ((tensor.name.as_str(), tensor.width), Some(&tensor.to));
        Gather::new(&self.opened, files, named, &tensor.from, to, &tensor.plan, (rank, 0))
    }

    /// The texts of all files of the input, and shapes that shards do not tell.
    pub(crate) fn metadata(&self, rank: i64) -> Metadata {
        let mut metadata = Metadata::new();
        for container in &self.opened.containers {
            metadata.extend(container.metadata().clone());
        }
        metadata.remove(SHAPES);
        let held = self.tensors.iter().filter(|t| t.flat && t.to.sharded.holds(rank));
        let shapes: BTreeMap<&str, &[i64]> =
            held.map(|t| (t.name.as_str(), t.shape.as_slice())).collect();
        if !shapes.is_empty() {
            metadata.insert(SHAPES.into(), serde_json::json!(shapes).to_string());
        }
        metadata
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_moves_over_what_is_there() {
        let mut marks = Marks::default();
        assert_eq!(marks.add(10, 20), None);
        assert_eq!(marks.add(30, 40), None);
        assert_eq!(marks.add(0, 10), Some(20));
        assert_eq!(marks.add(20, 30), Some(40));
        assert!(marks.beyond.is_empty());
    }
}
