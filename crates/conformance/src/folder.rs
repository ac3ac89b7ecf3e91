//! A folder of suites.

use crate::{CaseSuite, SUITES, SuiteOutcome};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// A folder with at least one file of a suite.
#[derive(Debug, Clone)]
pub struct SuiteFolder {
    path: PathBuf,
}

/// Why a folder, or a file in it, cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderError(String);

impl std::fmt::Display for FolderError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for FolderError {}

/// Files in that folder that are no suite: measured times have no right answers, and `zellige bench fidelity` reads them;
/// copies between scratchpads are read by the tests of `crates/exchange`.
const OTHER_FILES: [&str; 2] = ["spyre_measured.json", "spyre_relayouts.json"];

/// Where the cases are in the sources of the project.
const DATA_FOLDER: &str = "tests/data";

impl SuiteFolder {
    /// A folder by its path.
    pub fn new(path: &Path) -> Result<SuiteFolder, FolderError> {
        let folder = SuiteFolder { path: path.to_path_buf() };
        if !path.is_dir() {
            return Err(FolderError(format!("{} is no folder", path.display())));
        }
        // A wrong path would otherwise be reported as a run in which nothing failed.
        if folder.suites().is_empty() {
            let names: Vec<String> = SUITES.iter().map(|s| format!("{}.json", s.name)).collect();
            let (shown, names) = (path.display(), names.join(", "));
            return Err(FolderError(format!("{shown} has none of the files {names}")));
        }
        Ok(folder)
    }

    /// The cases of the project: `tests/data` in `from`, or in the nearest folder above that has one.
    pub fn find_above(from: &Path) -> Result<SuiteFolder, FolderError> {
        let found =
            from.ancestors().map(|f| f.join(DATA_FOLDER)).find_map(|f| SuiteFolder::new(&f).ok());
        found.ok_or_else(|| {
            FolderError(format!(
                "no recorded cases: neither {} nor a folder above it has {DATA_FOLDER}; pass --data DIR with the folder \
                 {DATA_FOLDER} of the project's sources, or with other files of the same form",
                from.display()
            ))
        })
    }

    /// The folder itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The suites that have a file here.
    pub fn suites(&self) -> Vec<&'static CaseSuite> {
        SUITES.iter().filter(|s| self.suite_file(s).is_file()).collect()
    }

    /// Files of JSON here that no suite reads.
    pub fn unread_files(&self) -> Vec<String> {
        // A folder that became unreadable has no files to name; reading the suites reports the error.
        let entries = std::fs::read_dir(&self.path).into_iter().flatten().flatten();
        let names = entries.filter_map(|e| e.file_name().into_string().ok());
        let mut unread: Vec<String> = names
            .filter(|n| {
                let stem = n.strip_suffix(".json");
                stem.is_some_and(|stem| CaseSuite::find_suite(stem).is_none())
                    && !OTHER_FILES.contains(&n.as_str())
            })
            .collect();
        unread.sort();
        unread
    }

    /// Reads the file of a suite and asks all of its cases.
    pub fn run_suite(&self, suite: &'static CaseSuite) -> Result<SuiteOutcome, FolderError> {
        let path = self.suite_file(suite);
        let problem = |e: &dyn std::fmt::Display| FolderError(format!("{}: {e}", path.display()));
        let text = std::fs::read_to_string(&path).map_err(|e| problem(&e))?;
        let data: Value = serde_json::from_str(&text).map_err(|e| problem(&e))?;
        Ok(suite.run_cases(&data))
    }

    fn suite_file(&self, suite: &CaseSuite) -> PathBuf {
        self.path.join(format!("{}.json", suite.name))
    }
}
