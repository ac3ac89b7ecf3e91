//! A checkpoint on its way from one sharding to another: file by file, slab by slab.

use super::boxes::in_boxes;
use super::error::{Error, Result};
use super::input::{Division, Opened, SHAPES, Tensor, tensors};
use super::rules::{Files, Rules};
use crate::part::Part;
use crate::reshard::Reshard;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use zellige_files::{
    Container, Feed, Kind, Metadata, NewTensor, Writer, content_hash, make_folder, read_text,
    write_bytes,
};
use zellige_movement::{Dtypes, Nest, Plan};

/// What is done is written down here, until all is done.
const STATE: &str = "reshard-state.json";

/// A checkpoint and the rules that divide it anew: everything is known and checked, nothing is written.
#[derive(Debug)]
pub struct Job {
    pub(crate) rules: Rules,
    pub(crate) opened: Opened,
    pub(crate) tensors: Vec<Tensor>,
    /// The files of the output, each with the lowest rank whose file it is.
    pub(crate) outputs: Vec<(String, i64)>,
    /// Of the rules and the input.
    key: String,
}

/// How much may be used.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of memory for buffers, about.
    pub memory: usize,
    /// Threads at most.
    pub threads: usize,
}

/// What was done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Done {
    /// Files written now.
    pub written: usize,
    /// Files that an earlier run had finished.
    pub found: usize,
    /// Bytes of tensors written now.
    pub bytes: u64,
}

impl Job {
    /// Reads the rules, opens every file of the input and plans every tensor.
    ///
    /// # Errors
    /// A text that is no plan; a file that is missing, truncated or not as the rules say; a tensor that no rule names.
    pub fn new(input: impl AsRef<Path>, rules: &str) -> Result<Job> {
        let input = input.as_ref();
        let text = rules;
        let rules = Rules::parse(text)?;
        let opened = Opened::open(input, &rules.from)?;
        let tensors = tensors(&opened, &rules)?;
        let mut outputs: Vec<(String, i64)> = Vec::new();
        let mut first: BTreeMap<String, i64> = BTreeMap::new();
        for rank in 0..rules.to.mesh().ranks() {
            let file = rules.to.of_rank(rank);
            let known = *first.entry(file.clone()).or_insert(rank);
            if known == rank {
                outputs.push((file.clone(), rank));
            }
            for tensor in &tensors {
                let of = |r: i64| tensor.to.sharded.first_copy(r);
                if of(rank) != of(known) {
                    return Err(Error::Tensor {
                        name: tensor.name.clone(),
                        reason: format!(
                            "ranks {known} and {rank} hold different parts and both go to {file}; name files by every axis that divides"
                        ),
                    });
                }
            }
        }
        let mut parts: Vec<Vec<u8>> = vec![text.as_bytes().to_vec()];
        for container in &opened.containers {
            let path = container.path();
            let known = std::fs::metadata(path).and_then(|m| m.modified().map(|t| (m.len(), t)));
            parts.push(format!("{:?} {known:?}", path.file_name()).into_bytes());
        }
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        Ok(Job { key: content_hash(&parts), rules, opened, tensors, outputs })
    }

    /// Bytes of all shards of the output.
    pub fn bytes(&self) -> u64 {
        self.outputs.iter().map(|(_, rank)| self.file_bytes(*rank)).sum()
    }

    /// Tensors that are moved.
    pub fn tensors(&self) -> usize {
        self.tensors.len()
    }

    /// Files of the output.
    pub fn files(&self) -> usize {
        self.outputs.len()
    }

    fn file_bytes(&self, rank: i64) -> u64 {
        let held = self.tensors.iter().filter(|t| t.to.sharded.holds(rank));
        held.map(|t| {
            let elements: i64 = t.to.file_shape(rank).iter().product();
            elements.cast_unsigned() * t.width as u64
        })
        .sum()
    }

    /// Writes the output, each file under its name only when it is complete. A run that was ended goes on with the file that it had
    /// not finished. `progress` hears the bytes that are done.
    ///
    /// # Errors
    /// A folder that holds something else; files that cannot be read or written, or that change meanwhile.
    pub fn run(
        &self,
        output: impl AsRef<Path>,
        limits: Limits,
        mut progress: impl FnMut(u64),
    ) -> Result<Done> {
        let folder = output.as_ref();
        make_folder(folder)?;
        let mut finished = self.finished(folder)?;
        let mut done = Done::default();
        let mut reached = 0;
        for (file, rank) in &self.outputs {
            let path = folder.join(file);
            let bytes = self.file_bytes(*rank);
            if finished.contains(file) && self.is_whole(&path, *rank) {
                done.found += 1;
                reached += bytes;
                progress(reached);
                continue;
            }
            if let Some(parent) = path.parent() {
                make_folder(parent)?;
            }
            self.write(&path, *rank, limits, |n| progress(reached + n))?;
            finished.insert(file.clone());
            self.note(folder, &finished)?;
            done.written += 1;
            done.bytes += bytes;
            reached += bytes;
        }
        for container in &self.opened.containers {
            container.check_unchanged()?;
        }
        Ok(done)
    }

    /// Forgets what was done: the output is complete.
    ///
    /// # Errors
    /// A file that cannot be removed.
    pub fn close(&self, output: impl AsRef<Path>) -> Result<()> {
        let path = output.as_ref().join(STATE);
        std::fs::remove_file(&path).map_err(|e| Error::Output {
            folder: path.display().to_string(),
            reason: format!("cannot be removed: {e}"),
        })
    }

    /// The files that an earlier run of the same plan has finished.
    fn finished(&self, folder: &Path) -> Result<BTreeSet<String>> {
        let path = folder.join(STATE);
        let refuse = |reason: &str| Error::Output {
            folder: folder.display().to_string(),
            reason: reason.to_string(),
        };
        if !path.exists() {
            if let Some((file, _)) = self.outputs.iter().find(|(f, _)| folder.join(f).exists()) {
                return Err(refuse(&format!("holds {file} already; name a folder without it")));
            }
            self.note(folder, &BTreeSet::new())?;
            return Ok(BTreeSet::new());
        }
        let text = read_text(&path, 1 << 24)?;
        let state: serde_json::Value = serde_json::from_str(&text)
            .map_err(|e| refuse(&format!("{STATE} is not ours: {e}")))?;
        if state.get("plan").and_then(|p| p.as_str()) != Some(&self.key) {
            return Err(refuse(&format!(
                "{STATE} is of another plan or of an input that was changed; remove the folder or name another one"
            )));
        }
        let files = state.get("finished").and_then(|f| f.as_array()).into_iter().flatten();
        Ok(files.filter_map(|f| f.as_str().map(str::to_string)).collect())
    }

    fn note(&self, folder: &Path, finished: &BTreeSet<String>) -> Result<()> {
        let state = serde_json::json!({"plan": self.key, "finished": finished});
        Ok(write_bytes(folder.join(STATE), state.to_string().as_bytes())?)
    }

    /// Whether a file holds the tensors of a rank.
    fn is_whole(&self, path: &Path, rank: i64) -> bool {
        let Ok(container) = Container::open(path) else { return false };
        let wanted = self.wanted(rank);
        container.tensors().len() == wanted.len()
            && wanted.iter().all(|(tensor, new)| {
                let found = container.tensor(&new.name);
                found.is_ok_and(|f| f.shape() == new.shape && f.dtype() == tensor.dtype)
            })
    }

    fn wanted(&self, rank: i64) -> Vec<(&Tensor, NewTensor)> {
        let held = self.tensors.iter().filter(|t| t.to.sharded.holds(rank));
        held.map(|t| (t, NewTensor::new(t.name.clone(), t.dtype, t.to.file_shape(rank)))).collect()
    }

    fn write(
        &self,
        path: &Path,
        rank: i64,
        limits: Limits,
        mut progress: impl FnMut(u64),
    ) -> Result<()> {
        let wanted = self.wanted(rank);
        let mut metadata = Metadata::new();
        for container in &self.opened.containers {
            metadata.extend(container.metadata().clone());
        }
        metadata.remove(SHAPES);
        let shapes: BTreeMap<&str, &[i64]> = wanted
            .iter()
            .filter(|(t, _)| t.flat)
            .map(|(t, _)| (t.name.as_str(), t.shape.as_slice()))
            .collect();
        if !shapes.is_empty() {
            metadata.insert(SHAPES.into(), serde_json::json!(shapes).to_string());
        }
        let new: Vec<NewTensor> = wanted.iter().map(|(_, n)| n.clone()).collect();
        let writer = Writer::create_with_metadata(path, &new, Kind::Safetensors, &metadata)?;
        let mut reached = 0;
        for (index, (tensor, _)) in wanted.iter().enumerate() {
            let total = writer.tensors()[index].bytes();
            let gather = Gather {
                opened: &self.opened,
                files: &self.rules.from,
                tensor: &tensor.name,
                width: tensor.width,
                from: &tensor.from,
                to: Some((&tensor.to, rank)),
                plan: &tensor.plan,
            };
            gather.run(rank, 0, total, limits, |at, slab| {
                writer.write_at(index, at, slab)?;
                progress(reached + at + slab.len() as u64);
                Ok(())
            })?;
            reached += total;
        }
        Ok(writer.finish()?)
    }

    /// The paths of the output below a folder.
    pub fn paths(&self, output: impl AsRef<Path>) -> Vec<PathBuf> {
        self.outputs.iter().map(|(file, _)| output.as_ref().join(file)).collect()
    }
}

/// What a rank needs of a tensor, read from the files of another sharding.
pub(crate) struct Gather<'a> {
    pub(crate) opened: &'a Opened,
    pub(crate) files: &'a Files,
    pub(crate) tensor: &'a str,
    pub(crate) width: usize,
    pub(crate) from: &'a Division,
    pub(crate) to: Option<(&'a Division, i64)>,
    pub(crate) plan: &'a Reshard,
}

impl Gather<'_> {
    /// Gives the bytes of the shard to `put`, slab by slab; what holds no element is zero.
    pub(crate) fn run(
        &self,
        rank: i64,
        copy: i64,
        total: u64,
        limits: Limits,
        mut put: impl FnMut(u64, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let to = self.to.and_then(|(division, rank)| division.shard_box(rank));
        let parts = self.plan.gathered_by(rank, copy);
        let mut sources = Vec::new();
        for same in parts.chunk_by(|a, b| a.from == b.from) {
            let from = same[0].from;
            let nests: Vec<Nest> = same.iter().flat_map(Part::nests).collect();
            let nests = in_boxes(nests, self.from.shard_box(from).as_ref(), to.as_ref());
            let plan = Plan::of_nests(nests).map_err(crate::Error::Plan)?;
            let (container, info) = self.opened.shard(self.files, self.tensor, from)?;
            sources.push((container, info, plan));
        }
        let width = self.width as u64;
        let slab = ((limits.memory as u64 / 2).clamp(1 << 16, 1 << 30) / width * width).min(total);
        let mut buffer = vec![0u8; usize::try_from(slab).unwrap_or(0)];
        let mut done = 0;
        while done < total {
            let len = slab.min(total - done);
            let target = &mut buffer[..usize::try_from(len).unwrap_or(0)];
            let element = |bytes: u64| i64::try_from(bytes / width).unwrap_or(i64::MAX);
            let (low, high) = (element(done), element(done + len));
            let mut clips = Vec::with_capacity(sources.len());
            let mut written = 0;
            for (container, info, plan) in &sources {
                let part = plan.clip(low, high);
                if part.elements() > 0 {
                    written += part.elements();
                    clips.push((container, info, part));
                }
            }
            if written != high - low {
                target.fill(0);
            }
            for (container, info, part) in clips {
                let memory = limits.memory / 2;
                let folder = container.path().parent().unwrap_or(Path::new("."));
                let mut feed = Feed::new(container, info, self.width, memory, folder)?;
                let threads = limits.threads.max(1);
                feed.run(&part, Dtypes::Bytes(self.width), target, None, threads)?;
            }
            put(done, target)?;
            done += len;
        }
        Ok(())
    }
}
