//! `docs/proofs.md` names functions; each of them exists.

use std::collections::BTreeSet;
use std::path::Path;

/// The text of every source file below a folder.
fn read_sources(folder: &Path, all: &mut String) {
    for entry in std::fs::read_dir(folder).expect("a folder of the repository") {
        let path = entry.expect("a file").path();
        if path.is_dir() {
            read_sources(&path, all);
        } else if path.extension().is_some_and(|e| e == "rs") {
            all.push_str(&std::fs::read_to_string(&path).expect("a text"));
        }
    }
}

#[test]
fn functions_of_the_design_document_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = std::fs::read_to_string(root.join("docs/proofs.md")).expect("the document");
    let mut sources = String::new();
    read_sources(&root.join("crates/layout/src"), &mut sources);
    read_sources(&root.join("crates/notation/src/cute"), &mut sources);
    // A paragraph that begins with **Code:** names functions in backticks, and files with a dot or slash.
    let mut names = BTreeSet::new();
    for paragraph in text.split("\n\n").filter(|p| p.starts_with("**Code:**")) {
        let listed = paragraph.split('`').skip(1).step_by(2);
        names.extend(listed.filter(|n| !n.contains(['.', '/']) && n.contains('_')));
    }
    assert!(names.len() > 50, "{names:?}");
    // Constants are named beside the functions that they bound.
    let defined = |name: &&&str| {
        ["fn {}(", "fn {}<", "const {}:"]
            .iter()
            .any(|form| sources.contains(&form.replace("{}", name)))
    };
    let missing: Vec<&&str> = names.iter().filter(|name| !defined(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
