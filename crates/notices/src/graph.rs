//! The crates of the workspace, from `cargo metadata`.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A crate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrateInfo {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its licence, an SPDX expression.
    pub license: Option<String>,
    /// The registry or repository that it comes from; `None` for a crate of this workspace.
    pub source: Option<String>,
    /// The folder of its source on this machine.
    pub folder: PathBuf,
    /// Whether it is a procedural macro, which only runs in the compiler.
    pub is_macro: bool,
}

/// Crates and the crates that they link.
#[derive(Debug, Default)]
pub struct CrateGraph {
    all: BTreeMap<String, CrateInfo>,
    /// The crates that a crate links, by id.
    needs: BTreeMap<String, Vec<String>>,
}

/// The folder of the workspace.
pub fn workspace_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

impl CrateGraph {
    /// Runs `cargo metadata` for one target or for all, without the network.
    ///
    /// # Errors
    /// Errors of cargo, and answers of another form than the documented one.
    pub fn ask_cargo(target: Option<&str>) -> Result<CrateGraph, String> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        // `--locked` because the notice is of this lock file, `--offline` because a test must not
        // need the network.
        command.args(["metadata", "--format-version", "1", "--locked", "--offline"]);
        command
            .args(["--all-features", "--manifest-path"])
            .arg(workspace_root().join("Cargo.toml"));
        if let Some(target) = target {
            command.args(["--filter-platform", target]);
        }
        let output = command.output().map_err(|e| format!("cargo metadata: {e}"))?;
        if !output.status.success() {
            let reason = String::from_utf8_lossy(&output.stderr);
            return Err(format!(
                "cargo metadata: {reason}`cargo fetch --locked` fetches the crates of every platform"
            ));
        }
        let answer: Value = serde_json::from_slice(&output.stdout)
            .map_err(|e| format!("cargo metadata gives JSON: {e}"))?;
        CrateGraph::parse_metadata(&answer)
            .ok_or_else(|| "cargo metadata answers in another form".into())
    }

    fn parse_metadata(answer: &Value) -> Option<CrateGraph> {
        let text = |v: &Value| v.as_str().map(str::to_string);
        let mut packages = CrateGraph::default();
        for p in answer["packages"].as_array()? {
            let manifest = PathBuf::from(p["manifest_path"].as_str()?);
            let kinds = p["targets"].as_array()?.iter().filter_map(|t| t["kind"].as_array());
            let package = CrateInfo {
                name: text(&p["name"])?,
                version: text(&p["version"])?,
                license: text(&p["license"]),
                source: text(&p["source"]),
                folder: manifest.parent()?.to_path_buf(),
                is_macro: kinds.flatten().any(|k| k == "proc-macro"),
            };
            packages.all.insert(text(&p["id"])?, package);
        }
        for node in answer["resolve"]["nodes"].as_array()? {
            let mut needs = Vec::new();
            for dep in node["deps"].as_array()? {
                // A kind of null is a dependency that is linked, unlike "dev" and "build".
                if dep["dep_kinds"].as_array()?.iter().any(|k| k["kind"].is_null()) {
                    needs.push(text(&dep["pkg"])?);
                }
            }
            packages.needs.insert(text(&node["id"])?, needs);
        }
        Some(packages)
    }

    /// Every crate of the lock file.
    pub fn all_crates(&self) -> impl Iterator<Item = &CrateInfo> {
        self.all.values()
    }

    /// The crates of other authors that are linked into a crate of this workspace.
    pub fn linked_into(&self, name: &str) -> Vec<&CrateInfo> {
        let own = |p: &CrateInfo| p.source.is_none() && p.name == name;
        let mut open: Vec<&String> =
            self.all.iter().filter(|(_, p)| own(p)).map(|(id, _)| id).collect();
        let mut seen: BTreeSet<&String> = open.iter().copied().collect();
        while let Some(id) = open.pop() {
            for next in self.needs.get(id).into_iter().flatten() {
                // The dependencies of a macro run in the compiler too, so they are not linked.
                if self.all.get(next).is_some_and(|p| !p.is_macro) && seen.insert(next) {
                    open.push(next);
                }
            }
        }
        let others = seen.iter().filter_map(|id| self.all.get(*id)).filter(|p| p.source.is_some());
        others.collect()
    }
}
