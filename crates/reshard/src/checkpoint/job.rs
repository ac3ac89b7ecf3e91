//! The job that reshards a checkpoint, file by file and slab by slab.

use super::error::{CheckpointError, Result};
use super::input::{CheckpointTensor, OpenedFiles, plan_tensors};
use super::rules::DivisionRules;
use super::write::write_files;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use zellige_files::{Container, NewTensor, content_hash, make_folder, read_text, write_bytes};

/// The file that identifies an unfinished output.
const STATE_FILE: &str = "reshard-state.json";

/// A checkpoint and the rules that reshard it. Everything is read and checked, and nothing is
/// written yet.
#[derive(Debug)]
pub struct CheckpointJob {
    pub(crate) rules: DivisionRules,
    pub(crate) opened: OpenedFiles,
    pub(crate) tensors: Vec<CheckpointTensor>,
    /// The files of the output, each with the lowest rank that it belongs to.
    pub(crate) outputs: Vec<(String, i64)>,
    /// A hash of the rules and the input.
    pub(crate) key: String,
}

/// The resources that may be used.
#[derive(Debug, Clone, Copy)]
pub struct JobLimits {
    /// The approximate number of bytes for buffers.
    pub memory: usize,
    /// The largest number of threads.
    pub threads: usize,
}

/// The summary of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JobSummary {
    /// The number of files written by this run.
    pub written: usize,
    /// The number of files that an earlier run had finished.
    pub found: usize,
    /// The bytes of tensors written by this run.
    pub bytes: u64,
    /// The bytes that an earlier run had written to unfinished files.
    pub resumed: u64,
}

/// The state of a folder when a run begins.
enum FolderState {
    /// None of the files, or those of an unfinished earlier run.
    Unfinished,
    /// All files without a state file: perhaps of a run whose process ended after it had finished.
    Complete,
}

/// Whether a path is a symbolic link; `None` if nothing has this name.
fn is_link(path: &Path) -> std::io::Result<Option<bool>> {
    match std::fs::symlink_metadata(path) {
        Ok(known) => Ok(Some(known.is_symlink())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn folder_refusal(place: &Path, reason: &str) -> CheckpointError {
    CheckpointError::Output { folder: place.display().to_string(), reason: reason.to_string() }
}

impl CheckpointJob {
    /// Reads the rules, opens every file of the input and plans every tensor.
    ///
    /// # Errors
    /// Invalid rules; a file that is missing, truncated or does not match the rules; a tensor that
    /// no rule matches.
    pub fn new(input: impl AsRef<Path>, rules: &str) -> Result<CheckpointJob> {
        let input = input.as_ref();
        let text = rules;
        let rules = DivisionRules::parse(text)?;
        let opened = OpenedFiles::open_files(input, &rules.from)?;
        let tensors = plan_tensors(&opened, &rules)?;
        let mut outputs: Vec<(String, i64)> = Vec::new();
        let mut first: BTreeMap<String, i64> = BTreeMap::new();
        for rank in 0..rules.to.mesh().rank_count() {
            let file = rules.to.file_of_rank(rank);
            let known = *first.entry(file.clone()).or_insert(rank);
            if known == rank {
                outputs.push((file.clone(), rank));
            }
            for tensor in &tensors {
                let of = |r: i64| tensor.to.sharded.first_copy_of(r);
                // Two ranks with one file name must hold the same part, or one would overwrite the
                // other.
                if of(rank) != of(known) {
                    return Err(CheckpointError::Tensor {
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
            // Name, length and time of every input file belong to the key: a run must not continue
            // with another input.
            parts.push(format!("{:?} {known:?}", path.file_name()).into_bytes());
        }
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        Ok(CheckpointJob { key: content_hash(&parts), rules, opened, tensors, outputs })
    }

    /// The bytes of all shards of the output.
    pub fn output_bytes(&self) -> u64 {
        self.outputs.iter().map(|(_, rank)| self.file_bytes(*rank)).sum()
    }

    /// The number of tensors that are moved.
    pub fn tensor_count(&self) -> usize {
        self.tensors.len()
    }

    /// The number of files of the output.
    pub fn file_count(&self) -> usize {
        self.outputs.len()
    }

    pub(crate) fn file_bytes(&self, rank: i64) -> u64 {
        let held = self.tensors.iter().filter(|t| t.to.sharded.holds_elements(rank));
        held.map(|t| {
            let elements: i64 = t.to.shape_in_file(rank).iter().product();
            elements.cast_unsigned() * t.width as u64
        })
        .sum()
    }

    /// Writes the output; each file gets its name only when it is complete. After an interruption a
    /// new run resumes in the middle of unfinished files, unless the system was rebooted. If all
    /// files are complete already, they are compared with the input and kept: the process of an
    /// earlier run may have been killed after [`CheckpointJob::close_output`]. `progress` is called
    /// with the bytes done so far.
    ///
    /// # Errors
    /// A folder with other contents; files that cannot be read or written, or that change
    /// meanwhile.
    pub fn write_output(
        &self,
        output: impl AsRef<Path>,
        limits: JobLimits,
        progress: impl FnMut(u64) + Send,
    ) -> Result<JobSummary> {
        let folder = output.as_ref();
        make_folder(folder)?;
        let done = match self.begin_output(folder)? {
            FolderState::Unfinished => write_files(self, folder, limits, progress)?,
            FolderState::Complete => self.confirm_output(folder, limits, progress)?,
        };
        for container in &self.opened.containers {
            container.check_unchanged()?;
        }
        Ok(done)
    }

    /// Removes the state file, because the output is complete. Does nothing if it was removed
    /// already.
    ///
    /// # Errors
    /// A file that cannot be removed.
    pub fn close_output(&self, output: impl AsRef<Path>) -> Result<()> {
        let path = output.as_ref().join(STATE_FILE);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(folder_refusal(&path, &format!("cannot be removed: {error}")))
            }
            _ => Ok(()),
        }
    }

    /// Checks that a folder has none of these files, or those of an earlier run of the same plan.
    fn begin_output(&self, folder: &Path) -> Result<FolderState> {
        let path = folder.join(STATE_FILE);
        // A link that another user placed there would redirect the write to another file.
        match is_link(&path) {
            Ok(Some(true)) => {
                let reason =
                    "is a symbolic link, through which nothing is written; remove the link";
                Err(folder_refusal(&path, reason))
            }
            Ok(Some(false)) => self.check_continues(folder, &path),
            Ok(None) => self.begin_anew(folder, &path),
            Err(error) => Err(folder_refusal(&path, &format!("cannot be examined: {error}"))),
        }
    }

    /// Checks that the state file in a folder belongs to this plan and this input.
    fn check_continues(&self, folder: &Path, path: &Path) -> Result<FolderState> {
        let text = read_text(path, 1 << 24)?;
        let state: serde_json::Value = serde_json::from_str(&text).map_err(|e| {
            folder_refusal(folder, &format!("{STATE_FILE} is not a state of this program: {e}"))
        })?;
        if state.get("plan").and_then(|p| p.as_str()) != Some(&self.key) {
            return Err(folder_refusal(
                folder,
                &format!(
                    "{STATE_FILE} is of another plan or of an input that was changed; remove the folder or name another one"
                ),
            ));
        }
        Ok(FolderState::Unfinished)
    }

    /// Writes the state file into a folder that has none of the files; a folder that has all of
    /// them is left unchanged.
    fn begin_anew(&self, folder: &Path, path: &Path) -> Result<FolderState> {
        // A dangling link occupies the name too.
        let taken = |file: &str| is_link(&folder.join(file)).is_ok_and(|found| found.is_some());
        if let Some((file, _)) = self.outputs.iter().find(|(file, _)| taken(file)) {
            return match self.is_complete(folder) {
                true => Ok(FolderState::Complete),
                false => Err(folder_refusal(
                    folder,
                    &format!("holds {file} already; name a folder without it"),
                )),
            };
        }
        let state = serde_json::json!({"plan": self.key});
        write_bytes(path, state.to_string().as_bytes())?;
        Ok(FolderState::Unfinished)
    }

    /// Whether a folder has every file, with the tensors and metadata that this job writes. The
    /// bytes of the tensors are not compared.
    fn is_complete(&self, folder: &Path) -> bool {
        self.outputs.iter().all(|(file, rank)| {
            let path = folder.join(file);
            self.is_whole_file(&path, *rank)
                && Container::open(&path)
                    .is_ok_and(|c| *c.metadata() == self.output_metadata(*rank))
        })
    }

    /// Compares a complete set of files with the input: without a state file their contents alone
    /// tell whether they belong to this job.
    fn confirm_output(
        &self,
        folder: &Path,
        limits: JobLimits,
        progress: impl FnMut(u64) + Send,
    ) -> Result<JobSummary> {
        match self.verify_output(folder, limits, progress) {
            Ok(_) => Ok(JobSummary { found: self.outputs.len(), ..JobSummary::default() }),
            Err(CheckpointError::Differs { name, .. }) => {
                let name = zellige_notation::make_visible(&name);
                let reason = format!(
                    "holds these files already, and `{name}` in them is not that of the input; name a folder without them"
                );
                Err(folder_refusal(folder, &reason))
            }
            Err(error) => Err(error),
        }
    }

    /// Whether a file has the tensors of a rank.
    pub(crate) fn is_whole_file(&self, path: &Path, rank: i64) -> bool {
        let Ok(container) = Container::open(path) else { return false };
        let wanted = self.tensors_of_rank(rank);
        container.tensors().len() == wanted.len()
            && wanted.iter().all(|(_, new)| {
                let found = container.find_tensor(&new.name);
                found.is_ok_and(|f| f.shape() == new.shape && f.dtype() == new.dtype)
            })
    }

    /// The tensors of a rank, each with its number and the shape in the rank's file.
    pub(crate) fn tensors_of_rank(&self, rank: i64) -> Vec<(usize, NewTensor)> {
        let held =
            self.tensors.iter().enumerate().filter(|(_, t)| t.to.sharded.holds_elements(rank));
        held.map(|(k, t)| (k, NewTensor::new(t.name.clone(), t.dtype, t.to.shape_in_file(rank))))
            .collect()
    }

    /// The paths of the output below a folder.
    pub fn output_paths(&self, output: impl AsRef<Path>) -> Vec<PathBuf> {
        self.outputs.iter().map(|(file, _)| output.as_ref().join(file)).collect()
    }
}
