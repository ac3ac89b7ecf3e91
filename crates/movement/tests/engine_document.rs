//! docs/engine.md is true by test: the functions, files and constants that it names exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn repository_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read_file(path: &str) -> String {
    let path = repository_root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The quoted words of a text.
fn quoted_words(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Each `**Code:**` line has groups of functions, in front of the file that they are in.
#[test]
fn every_function_of_the_document_exists() {
    let mut checked = 0;
    for line in read_file("docs/engine.md").lines().filter(|l| l.starts_with("**Code:**")) {
        let mut functions: Vec<&str> = Vec::new();
        for word in quoted_words(line) {
            if !word.contains('/') {
                functions.push(word);
                continue;
            }
            assert!(!functions.is_empty(), "no function in front of {word}");
            let source = read_file(word);
            for function in functions.drain(..) {
                let defined = [format!("fn {function}("), format!("fn {function}<")];
                let found = defined.iter().any(|d| source.contains(d.as_str()));
                assert!(found, "{word} has no function `{function}`");
                checked += 1;
            }
        }
        assert!(functions.is_empty(), "{functions:?} without a file");
    }
    assert!(checked > 60, "{checked} functions");
}

/// Names in capitals are constants of `tuning.rs`, and every file of a kernel that is named exists.
#[test]
fn every_constant_and_file_of_the_document_exists() {
    let document = read_file("docs/engine.md");
    let tuning = read_file("crates/movement/src/engine/tuning.rs");
    let is_constant = |word: &&str| {
        word.contains('_') && word.chars().all(|c| c.is_ascii_uppercase() || c == '_')
    };
    // Drawings are between triple quotes, which are no quotes of words.
    let prose: String = document.split("```").step_by(2).collect();
    let constants: BTreeSet<&str> = quoted_words(&prose).filter(is_constant).collect();
    for name in &constants {
        assert!(tuning.contains(&format!("const {name}:")), "tuning.rs has no `{name}`");
    }
    assert!(constants.len() > 30, "{} constants", constants.len());
    let engine = repository_root().join("crates/movement/src/engine");
    for file in quoted_words(&prose).filter(|w| w.ends_with(".rs") && !w.contains('/')) {
        let found = [&engine, &engine.join("transpose")].iter().any(|d| d.join(file).exists());
        assert!(found, "the engine has no file {file}");
    }
}

/// Nothing in the engine is tuned outside of the one file: other constants follow from it, or from the hardware.
#[test]
fn every_constant_of_tuning_is_used() {
    let tuning = read_file("crates/movement/src/engine/tuning.rs");
    let names = tuning.lines().filter_map(|l| l.strip_prefix("pub(super) const "));
    let names: Vec<&str> = names.filter_map(|l| l.split(':').next()).collect();
    let mut sources = String::new();
    let mut folders = vec![repository_root().join("crates/movement/src/engine")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder of the engine") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if !path.ends_with("tuning.rs") {
                sources.push_str(&fs::read_to_string(path).expect("a source file"));
            }
        }
    }
    for name in &names {
        let own = tuning.matches(name).count() > 1;
        assert!(sources.contains(name) || own, "{name} is not used");
    }
    assert!(names.len() > 90, "{} constants", names.len());
}
