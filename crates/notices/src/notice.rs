//! The notice: every linked crate with its licence and the licence's text.

use crate::graph::{CrateGraph, CrateInfo};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

/// The published parts: the program, the wheel, and the engine inside of the page.
const PUBLISHED_PARTS: [(&str, &str); 3] = [
    ("zellige-cli", "x86_64-unknown-linux-gnu"),
    ("zellige-python", "x86_64-unknown-linux-gnu"),
    ("zellige-explorer", "wasm32-unknown-unknown"),
];

const HEAD: &str = "\
Third-party notices of Zellige
==============================

Zellige is licensed under the Apache License 2.0 (see LICENSE). The program `zellige`, the Python
package and the engine of the explorer contain the crates below, each with its licence and the
number of the text, which follows. The explorer's page contains no package of npm. All of them
contain the standard library of Rust, which is licensed under MIT OR Apache-2.0: copyright by The
Rust Project Contributors, https://github.com/rust-lang/rust/blob/master/COPYRIGHT.

";

/// Builds the notice.
///
/// # Errors
/// Errors of cargo, and crates without a licence text.
pub fn make_notice() -> Result<String, String> {
    let mut linked: BTreeMap<(String, String), CrateInfo> = BTreeMap::new();
    for (name, target) in PUBLISHED_PARTS {
        let packages = CrateGraph::ask_cargo(Some(target))?;
        for p in packages.linked_into(name) {
            linked.insert((p.name.clone(), p.version.clone()), p.clone());
        }
    }
    let (mut out, mut texts) = (HEAD.to_string(), Vec::<String>::new());
    for p in linked.values() {
        let license = p.license.as_deref().unwrap_or("no licence");
        let mut numbers = Vec::new();
        for text in license_texts(p)? {
            let known = texts.iter().position(|t| *t == text);
            let number = known.unwrap_or_else(|| {
                texts.push(text);
                texts.len() - 1
            });
            numbers.push(format!("text {}", number + 1));
        }
        let _ = writeln!(out, "{} {}: {license} ({})", p.name, p.version, numbers.join(", "));
    }
    for (i, text) in texts.iter().enumerate() {
        let title = format!("Text {}", i + 1);
        let _ = write!(out, "\n{title}\n{}\n\n{text}", "-".repeat(title.len()));
    }
    Ok(out)
}

/// The licence texts of a crate. If it is available under MIT, that text alone, because it is the
/// one that names the authors.
fn license_texts(p: &CrateInfo) -> Result<Vec<String>, String> {
    let missing = |why: &str| format!("{} {}: {why}", p.name, p.version);
    let entries = std::fs::read_dir(&p.folder).map_err(|e| missing(&e.to_string()))?;
    let mut paths: Vec<PathBuf> = entries.filter_map(|e| Some(e.ok()?.path())).collect();
    let name = |path: &PathBuf| {
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        name.to_ascii_lowercase()
    };
    let begins = ["license", "licence", "copying", "notice", "copyright", "unlicense"];
    paths.retain(|p| p.is_file() && begins.iter().any(|b| name(p).starts_with(b)));
    paths.sort();
    let license = p.license.as_deref().unwrap_or_default();
    let only_mit = paths.iter().filter(|p| name(p).contains("mit")).count() == 1
        && !license.contains(" AND ")
        && license.split(['/', ' ']).any(|w| w == "MIT");
    if only_mit {
        paths.retain(|p| name(p).contains("mit") || name(p).starts_with("notice"));
    }
    if paths.is_empty() {
        return Err(missing("there is no licence file beside its source"));
    }
    let read = |path: &PathBuf| {
        let bytes = std::fs::read(path).map_err(|e| missing(&e.to_string()))?;
        // Line ends and blanks at the end of lines differ between crates with the same licence;
        // without them equal texts are printed once.
        let text = String::from_utf8_lossy(&bytes).replace('\r', "");
        let lines: Vec<&str> = text.trim_matches('\n').lines().map(str::trim_end).collect();
        Ok(lines.join("\n") + "\n")
    };
    paths.iter().map(read).collect()
}
