//! `zellige explain-time` and `zellige bench fidelity` as a person runs them: what they print, and bad input.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn zellige(args: &[&str]) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = Command::new(env!("CARGO_BIN_EXE_zellige"));
    command.args(args).current_dir(root).env_remove("COLUMNS").output().expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

fn stdout(args: &[&str]) -> String {
    let out = zellige(args);
    assert!(out.status.success(), "{args:?}: {}", text(&out.stderr));
    text(&out.stdout)
}

fn refusal(args: &[&str]) -> String {
    let out = zellige(args);
    assert_eq!(out.status.code(), Some(2), "{args:?}: {}{}", text(&out.stdout), text(&out.stderr));
    text(&out.stderr)
}

/// A file of this test.
fn temporary_file(name: &str, content: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("zellige-times-{}-{name}", std::process::id()));
    std::fs::write(&path, content).expect("written");
    path
}

#[test]
fn explain_time_prints_what_the_request_answers() {
    let args = [
        "explain-time",
        "matmul",
        "512x4096",
        "4096x1024",
        "--division",
        "M=4,N=8",
        "--policy",
        "baseline",
    ];
    let printed = stdout(&args);
    let answer: Value =
        serde_json::from_str(&stdout(&[&args[..], &["--json"]].concat())).expect("JSON");
    let bound = answer["bound"].as_str().expect("a bound");
    assert!(printed.contains(&format!("bound by {bound}")), "{printed}");
    for term in answer["terms"].as_array().expect("a list") {
        let name = term["name"].as_str().expect("a name");
        assert!(printed.lines().any(|l| l.trim_start().starts_with(name)), "{name}: {printed}");
    }
    assert!(
        printed.contains("c0=4 of 512, c1=8 of 1024") && printed.contains("(hint)"),
        "{printed}"
    );
    let graph = stdout(&[
        "explain-time",
        "examples/softmax.graph",
        "--cores",
        "4",
        "--profile",
        "card",
        "--steps",
    ]);
    assert!(graph.contains("launch") && graph.contains("y = div"), "{graph}");
}

#[test]
fn explain_time_refuses_bad_input_with_what_is_accepted() {
    for (args, expected) in [
        (vec!["matmul", "512by4096", "4096x1024"], "such as 512x4096"),
        (vec!["matmul", "512x4096"], "operand"),
        (vec!["matmull", "512x4096", "4096x1024"], "matmull"),
        (vec!["matmul", "512x4096", "4096x1024", "--division", "M"], "NAME=VALUE"),
        (vec!["matmul", "512x4096", "4096x1024", "--division", "M=0"], "1 or more"),
        (vec!["matmul", "512x4096", "4096x1024", "--division", "M=4,M=2"], "given twice"),
        (vec!["matmul", "512x4096", "4096x1024", "--layout", "x0=rows"], "`order 1,0,2`"),
        (vec!["matmul", "512x4096", "4096x1024", "--stack", "gpu"], "ktir"),
        (vec!["matmul", "512x4096", "4096x1024", "--lx-fraction", "2"], "a number from 0 to 1"),
        (vec!["no-such.graph"], "no-such.graph"),
        (vec!["examples/softmax.graph", "4x4"], "the graph has the shapes"),
    ] {
        let message = refusal(&[&["explain-time"][..], &args].concat());
        assert!(message.contains(expected), "{args:?}: {message}");
    }
}

#[test]
fn fidelity_compares_a_file_of_ones_own() {
    let row = r#"{"id":1,"source":"s","date":"d","op":"neg","shapes":"R=1024 C=1024","dtype":"fp16","value":40,"unit":"us","kind":"kernel"}"#;
    let other = r#"{"id":2,"source":"s","date":"d","op":"magic","shapes":"R=1024 C=1024","dtype":"fp16","value":40,"unit":"us","kind":"kernel","colour":1}"#;
    let path = temporary_file("rows.json", &format!("[{row},{other}]"));
    let name = path.to_str().expect("UTF-8");
    let printed = stdout(&["bench", "fidelity", name, "--rows"]);
    assert!(printed.contains("torch-spyre, pointwise") && printed.contains("colour"), "{printed}");
    assert!(printed.contains("what `magic` runs is not described"), "{printed}");
    let found: Value =
        serde_json::from_str(&stdout(&["bench", "fidelity", name, "--json"])).expect("JSON");
    assert_eq!((&found["rows"][0]["id"], &found["excluded"][0]["id"]), (&1.into(), &2.into()));
    std::fs::remove_file(&path).expect("removed");
}

#[test]
fn fidelity_refuses_files_that_are_no_rows() {
    for (name, content, expected) in [
        ("empty", "[]", "it has no rows"),
        ("object", "{}", "a list of rows is read"),
        ("text", "rows", "not JSON"),
        ("field", r#"[{"id":3}]"#, "row 3: the field `value` is missing"),
    ] {
        let path = temporary_file(name, content);
        let message = refusal(&["bench", "fidelity", path.to_str().expect("UTF-8")]);
        assert!(message.contains(expected), "{name}: {message}");
        std::fs::remove_file(&path).expect("removed");
    }
    assert!(refusal(&["bench", "fidelity", "no-such-file.json"]).contains("no-such-file.json"));
    assert!(refusal(&["bench", "fidelity", "--hardware", "gpu"]).contains("ktir"));
}
