//! What a release relies on: one version, crates that can be published together, a changelog, a form for reports.

#![allow(clippy::unwrap_used, reason = "a failed step of a test is a failed test")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The manifests of the workspace's crates, by the name of the crate.
fn manifests() -> BTreeMap<String, String> {
    let mut folders =
        vec![root().join("bench"), root().join("python"), root().join("explorer/core")];
    folders.extend(fs::read_dir(root().join("crates")).unwrap().map(|e| e.unwrap().path()));
    let texts = folders.iter().map(|f| read(f.join("Cargo.toml")));
    texts
        .map(|text| {
            let name = text.lines().find_map(|l| l.strip_prefix("name = ")).unwrap();
            (name.trim_matches('"').to_string(), text)
        })
        .collect()
}

/// The lines of a section that name crates of the workspace.
fn needed<'t>(text: &'t str, wanted: &str) -> Vec<&'t str> {
    let mut section = "";
    let mut lines = Vec::new();
    for line in text.lines() {
        if let Some(title) = line.strip_prefix('[') {
            section = title.trim_end_matches(']');
        } else if section == wanted && line.starts_with("zellige-") {
            lines.push(line);
        }
    }
    lines
}

#[test]
fn the_version_stands_in_one_place() {
    let version = env!("CARGO_PKG_VERSION");
    let workspace = read("Cargo.toml");
    assert!(workspace.contains(&format!("\nversion = \"{version}\"\n")));
    let exact = format!("version = \"={version}\"");
    for line in needed(&workspace, "workspace.dependencies") {
        assert!(line.contains(&exact), "{line}: release/set-version writes it");
    }
    for (name, text) in manifests() {
        assert!(text.contains("version.workspace = true"), "{name} has a version of its own");
        for line in needed(&text, "dependencies") {
            assert!(line.contains(".workspace = true") || line.contains(&exact), "{name}: {line}");
        }
    }
    let wheel = read("pyproject.toml");
    assert!(
        wheel.contains("dynamic = [\"version\"]") && !wheel.contains(&format!("\"{version}\""))
    );
    assert!(read("CHANGELOG.md").contains(&format!("\n## {version}")), "no heading for {version}");
}

#[test]
fn what_is_published_needs_only_what_is_published() {
    let manifests = manifests();
    let published = |name: &str| !manifests[name].contains("\npublish = false\n");
    for (name, text) in manifests.iter().filter(|(name, _)| published(name)) {
        for field in
            ["description = \"", "license.workspace = true", "rust-version.workspace = true"]
        {
            assert!(text.contains(field), "{name} has no {field}");
        }
        for line in needed(text, "dependencies") {
            let other = line.split(['.', ' ', '=']).next().unwrap();
            assert!(published(other), "{name} needs {other}, which is not published");
        }
    }
    let kept: Vec<&String> = manifests.keys().filter(|name| !published(name)).collect();
    assert_eq!(
        kept,
        ["zellige-explorer", "zellige-fuzz-targets", "zellige-notices", "zellige-python"]
    );
}

#[test]
fn a_report_has_what_is_needed() {
    let form = read(".github/ISSUE_TEMPLATE/defect.yml");
    assert!(form.contains("zellige --version --json") && form.contains("SECURITY.md"));
}
