//! ARCHITECTURE.md says what is there: the crate graph is that of the manifests, and every function of the two walks exists.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

type Edges = BTreeMap<String, BTreeSet<String>>;

/// The graph as it is drawn, in its order.
fn drawn(text: &str) -> (Edges, Vec<String>) {
    let block =
        text.split("```").find_map(|block| block.strip_prefix("text\n")).expect("a drawing");
    let (mut edges, mut order) = (Edges::new(), Vec::new());
    for line in block.lines() {
        let (name, needs) = line.split_once("->").unwrap_or_else(|| panic!("no arrow in {line:?}"));
        let needs = needs.split_whitespace().map(str::to_string).collect();
        order.push(name.trim().to_string());
        assert!(edges.insert(name.trim().into(), needs).is_none(), "{name} is drawn twice");
    }
    (edges, order)
}

/// The crates of the workspace that a manifest depends on, tests left out.
fn manifest(text: &str) -> (String, BTreeSet<String>) {
    let mut name = String::new();
    let (mut section, mut needs) = (String::new(), BTreeSet::new());
    let short = |full: &str| match full.strip_prefix("zellige-") {
        Some(rest) => rest.to_string(),
        None => full.to_string(),
    };
    for line in text.lines() {
        if let Some(title) = line.strip_prefix('[') {
            section = title.trim_end_matches(']').to_string();
        } else if section == "package" && line.starts_with("name = ") {
            name = short(line.trim_start_matches("name = ").trim_matches('"'));
        } else if section.ends_with("dependencies") && !section.ends_with("dev-dependencies") {
            let key = line.split(['.', ' ', '=']).next().unwrap_or("");
            if key.starts_with("zellige-") {
                needs.insert(short(key));
            }
        }
    }
    (name, needs)
}

#[test]
fn crates_depend_on_whom_the_drawing_says() {
    let mut folders =
        vec![root().join("bench"), root().join("python"), root().join("explorer/core")];
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        folders.push(entry.unwrap().path());
    }
    let mut found = Edges::new();
    for folder in folders {
        let text = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        let (name, needs) = manifest(&text);
        found.insert(name, needs);
    }
    let (edges, order) = drawn(&read("ARCHITECTURE.md"));
    for (name, needs) in &found {
        let says = edges.get(name).unwrap_or_else(|| panic!("{name} is not drawn"));
        assert_eq!(needs, says, "{name}: the manifest, then the drawing");
    }
    assert_eq!(edges.len(), found.len(), "what is drawn exists");
    // A crate depends on those above it only.
    for (i, name) in order.iter().enumerate() {
        for needed in &edges[name] {
            let above = order.iter().position(|o| o == needed);
            assert!(above.is_some_and(|at| at < i), "{name} stands above {needed}");
        }
    }
}

#[test]
fn crates_that_know_no_card_depend_on_none() {
    let (edges, _) = drawn(&read("ARCHITECTURE.md"));
    let reaches = |from: &str, to: &str| {
        let mut open = vec![from.to_string()];
        while let Some(name) = open.pop() {
            if name == to {
                return true;
            }
            open.extend(edges[&name].iter().cloned());
        }
        false
    };
    for (from, to) in [
        ("op", "device"),
        ("graph", "device"),
        ("onnx", "device"),
        ("machine", "device"),
        ("ktir", "device"),
        ("movement", "stick"),
        ("layout", "float"),
        ("report", "compile"),
    ] {
        assert!(!reaches(from, to), "{from} knows {to}");
    }
}

#[test]
fn every_function_of_the_walks_exists() {
    let text = read("ARCHITECTURE.md");
    let walks = text.split("## Two walks").nth(1).unwrap().split("\n## ").next().unwrap();
    // `file` `function`, in this order and side by side.
    let quoted: Vec<&str> = walks.split('`').skip(1).step_by(2).collect();
    let mut checked = 0;
    for pair in quoted.windows(2) {
        let [file, function] = pair else { continue };
        if !file.contains('/') || function.contains(['/', ' ', '.', '(']) {
            continue;
        }
        let source = read(file);
        let defined =
            [format!("fn {function}("), format!("fn {function}<"), format!("def {function}(")];
        assert!(defined.iter().any(|d| source.contains(d)), "{file} has no function `{function}`");
        checked += 1;
    }
    assert!(checked >= 18, "{checked} functions of the walks");
}

#[test]
fn every_file_that_it_names_exists() {
    let text = read("ARCHITECTURE.md");
    let mut named = 0;
    for word in text.split('`').skip(1).step_by(2) {
        let is_path = word.contains('/') && !word.contains([' ', '{', '<', '*', '(', '?']);
        if !is_path || word.ends_with("..") {
            continue;
        }
        let whole = root().join(word).exists();
        // Inside of a crate that the sentence names: `device/src/kernels`.
        let inside = ["crates", "python/zellige", "python", "crates/compile/src"]
            .iter()
            .any(|top| root().join(top).join(word).exists());
        assert!(whole || inside, "`{word}` does not exist");
        named += 1;
    }
    assert!(named > 40, "{named} paths");
}
