//! `zellige conformance`, and the part of docs/conformance.md about notations.
//!
//! `ZELLIGE_BLESS=1 cargo test -p zellige-cli --test conformance` writes that part.

use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn program(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zellige"));
    command.arg("conformance").args(args).current_dir(folder).output().expect("it runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// A folder of its own, with one suite.
fn folder(name: &str, cases: &Value) -> PathBuf {
    let path = std::env::temp_dir().join(format!("zellige-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&path).expect("a folder");
    std::fs::write(path.join("cute_operators.json"), cases.to_string()).expect("a file");
    std::fs::write(path.join("other.json"), "[]").expect("a file");
    path
}

/// Where the part about notations begins in docs/conformance.md; it ends at the next title.
const MARK: &str = "\n## Notations\n";

fn section() -> String {
    let outcomes: Vec<_> = {
        let folder =
            zellige_conformance::SuiteFolder::new(&root().join("tests/data")).expect("cases");
        folder.suites().iter().map(|s| folder.run_suite(s).expect("a suite")).collect()
    };
    for o in &outcomes {
        assert!(
            o.failures.is_empty(),
            "{}",
            zellige_conformance::outcomes_text(std::slice::from_ref(o))
        );
    }
    format!(
        "{MARK}
Answers of other implementations are recorded in `tests/data`, and asked of this one by `zellige conformance`:
texts, places of elements, operators, decisions. Places are compared one by one, with the record and with the definition of
the format. `upstream wrong` counts cases where the record says that the other implementation is wrong; ours passes there
with the right answer, or with a refusal that names a witness.

{}
```sh
zellige conformance                        # this table, in the sources of the project
zellige conformance cute --data DIR        # more cases of the same form
./test --long peers                        # random cases, beside the libraries themselves
```
",
        zellige_conformance::outcomes_markdown(&outcomes)
    )
}

#[test]
fn the_page_has_todays_table() {
    let path = root().join("docs/conformance.md");
    let page = std::fs::read_to_string(&path).expect("the page");
    let made = section();
    let (head, rest) = match page.split_once(MARK) {
        Some((head, told)) => (head, told.find("\n## ").map_or("", |end| &told[end..])),
        // Before the part about ONNX, which is the last.
        None => match page.find("\n## ONNX's node tests\n") {
            Some(at) => page.split_at(at),
            None => (page.as_str(), ""),
        },
    };
    let whole = format!("{}\n{made}{rest}", head.trim_end());
    if std::env::var_os("ZELLIGE_BLESS").is_some() {
        std::fs::write(&path, whole).expect("the page");
        return;
    }
    let differs = whole.lines().zip(page.lines()).find(|(a, b)| a != b);
    let help = "ZELLIGE_BLESS=1 cargo test -p zellige-cli --test conformance writes it";
    assert_eq!(differs, None, "docs/conformance.md is stale: {help}");
    assert_eq!(whole, page, "docs/conformance.md is stale: {help}");
}

#[test]
fn a_table_or_json_of_what_is_there() {
    let right = json!([{"op": "coalesce", "a": "(1,4,2):(2,2,1)", "offsets": [0, 2, 4, 6, 1, 3, 5, 7], "class": "verified", "cute": "(4,2):(2,1)"}]);
    let here = folder("conformance-right", &right);
    let shown = here.display().to_string();
    let out = program(&root(), &["--data", &shown]);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    let table = text(&out.stdout);
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 3, "{table}");
    assert!(lines[0].starts_with("suite") && lines[2].starts_with("all"), "{table}");
    assert_eq!(
        lines[1].split_whitespace().collect::<Vec<_>>(),
        ["cute_operators", "1", "1", "0", "0"]
    );
    assert!(text(&out.stderr).contains("other.json"), "{}", text(&out.stderr));
    let out = program(&here, &["cute_operators", "--json", "--data", "."]);
    let found: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    assert_eq!((&found["cases"], &found["passed"]), (&json!(1), &json!(1)), "{found}");
    assert_eq!(found["not_read"], json!(["other.json"]));
    std::fs::remove_dir_all(here).expect("removed");
}

#[test]
fn failing_cases_are_named_with_both_answers() {
    let wrong = json!({"cases": [
        {"op": "coalesce", "a": "(2,2):(1,2)", "class": "verified", "cute": "(2,2):(1,2)"},
        {"op": "composition", "a": "(6,2):(1,7)", "b": "(3,2):(2,3)", "class": "all wrong"},
        {"op": "turn", "a": "8:1"},
    ]});
    let here = folder("conformance-wrong", &wrong);
    let out = program(&root(), &["--data", &here.display().to_string(), "cute_operators"]);
    assert_eq!(out.status.code(), Some(1), "{}", text(&out.stderr));
    let told = text(&out.stdout);
    assert!(told.contains("cute_operators: 2 failed"), "{told}");
    assert!(told.contains("expected") && told.contains("got      4:1"), "{told}");
    assert!(told.contains("unknown_op"), "{told}");
    let row = told.lines().nth(1).expect("a row");
    assert_eq!(row.split_whitespace().collect::<Vec<_>>(), ["cute_operators", "3", "1", "1", "0"]);
    std::fs::remove_dir_all(here).expect("removed");
}

#[test]
fn without_cases_it_says_what_to_pass() {
    let out = program(Path::new("/"), &[]);
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("pass --data DIR"), "{}", text(&out.stderr));
    let out = program(&root(), &["--data", "/nowhere"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("/nowhere is no folder"), "{}", text(&out.stderr));
    let out = program(&root(), &["quote"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(
        text(&out.stderr).contains("unknown suite `quote`; known: cute"),
        "{}",
        text(&out.stderr)
    );
    // Found from a folder below.
    let out = program(&root().join("crates/cli/src"), &["lx_solver"]);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
}
