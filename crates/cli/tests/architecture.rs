//! ARCHITECTURE.md is true: the crate graph is that of the manifests, the files that it names exist, and a run of
//! `zellige move` calls the functions of its walk in the order of the list. The walk of `torch.compile` needs PyTorch, so
//! its run is recorded by `python/tests/card/test_architecture.py`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

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

/// The lists of a section, each as its steps: file and function.
fn read_walks(text: &str) -> Vec<Vec<(String, String)>> {
    let section = text.split("## Two walks").nth(1).expect("a section of walks");
    let section = section.split("\n## ").next().unwrap_or(section);
    let mut walks: Vec<Vec<(String, String)>> = Vec::new();
    for line in section.lines() {
        let number = line.split_once(". ").filter(|(n, _)| n.parse::<usize>().is_ok());
        let Some((number, step)) = number else { continue };
        if number == "1" {
            walks.push(Vec::new());
        }
        let mut quoted = step.split('`').skip(1).step_by(2);
        let mut next = || quoted.next().expect("a step names a file and a function").to_string();
        let (file, function) = (next(), next());
        walks.last_mut().expect("a list begins with 1").push((file, function));
    }
    walks
}

#[test]
fn every_function_of_the_walks_exists_and_is_recorded() {
    let walks = read_walks(&read("ARCHITECTURE.md"));
    assert_eq!(walks.len(), 2, "two lists");
    for (file, function) in walks.iter().flatten() {
        let source = read(file);
        let definition = [format!("fn {function}("), format!("def {function}(")];
        let found = definition.iter().find_map(|d| source.split_once(d.as_str()));
        let (_, rest) = found.unwrap_or_else(|| panic!("{file} has no function `{function}`"));
        // Python's functions are recorded by the test that runs them.
        if file.ends_with(".rs") {
            // A method of a trait is declared before it is defined, so that every place with the name is looked at.
            let begins_with_record = |text: &str| {
                let body = text.split("\n}").next().unwrap_or(text);
                body.lines().take(16).any(|l| l.contains("record_call!()"))
            };
            let recorded = std::iter::once(rest)
                .chain(rest.split(definition[0].as_str()).skip(1))
                .any(begins_with_record);
            assert!(recorded, "{file}: `{function}` does not begin with `record_call!`");
        }
    }
}

/// A .npy file of float32 numbers.
fn npy_of_floats(shape: [usize; 2]) -> Vec<u8> {
    let mut header = format!(
        "{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}",
        shape[0], shape[1]
    );
    // NumPy pads the header so that the elements begin at a multiple of 64 bytes, and ends it with a line break.
    while (10 + header.len() + 1) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend(u16::try_from(header.len()).expect("a short header").to_le_bytes());
    bytes.extend(header.as_bytes());
    (0..shape[0] * shape[1]).for_each(|i| bytes.extend((i as f32).to_le_bytes()));
    bytes
}

#[test]
fn a_move_calls_the_functions_of_its_walk_in_their_order() {
    let folder = std::env::temp_dir().join(format!("zellige-walk-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let (input, output) = (folder.join("in.npy"), folder.join("out.npy"));
    let recording = folder.join("calls");
    fs::write(&input, npy_of_floats([48, 32])).unwrap();
    let ran = Command::new(env!("CARGO_BIN_EXE_zellige"))
        .env("ZELLIGE_CALLS", &recording)
        .arg("move")
        .args([&input, &output])
        .args(["--from", "S[(48, 32) : (32, 1)]", "--to", "S[(48, 32) : (1, 48)]", "--verify"])
        .output()
        .unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let recorded = fs::read_to_string(&recording).unwrap();
    fs::remove_dir_all(&folder).unwrap();
    let walk = read_walks(&read("ARCHITECTURE.md")).swap_remove(0);
    let expected: String = walk.iter().map(|(file, f)| format!("{file} {f}\n")).collect();
    assert_eq!(recorded, expected, "the recording, then the list in ARCHITECTURE.md");
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
