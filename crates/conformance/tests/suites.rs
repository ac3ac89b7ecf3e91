//! Every suite of `tests/data` passes, and none of them is empty.

use std::path::Path;
use zellige_conformance::{CaseSuite, SUITES, SuiteFolder, SuiteOutcome};

fn folder() -> SuiteFolder {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data");
    SuiteFolder::new(&path).expect("the recorded cases")
}

fn run(name: &str) -> SuiteOutcome {
    let suite = CaseSuite::find_suite(name).expect("a suite");
    let outcome = folder().run_suite(suite).expect("a file of cases");
    println!("{}", zellige_conformance::outcomes_text(std::slice::from_ref(&outcome)));
    outcome
}

/// A suite has at least so many cases, of which so many say that the other implementation is wrong, and all pass.
fn passes(name: &str, cases: usize, upstream_wrong: usize) {
    let found = run(name);
    assert!(found.failures.is_empty(), "{}", zellige_conformance::outcomes_text(&[found]));
    assert!(found.cases >= cases, "{} cases of {name}", found.cases);
    assert!(found.upstream_wrong >= upstream_wrong, "{} of {name}", found.upstream_wrong);
}

macro_rules! suites {
    ($($name:ident, $cases:literal, $wrong:literal;)*) => {
        $(#[test] fn $name() { passes(stringify!($name), $cases, $wrong); })*
        const TESTED: &[&str] = &[$(stringify!($name)),*];
    };
}

suites! {
    cute, 300, 10;
    cute_operators, 150, 0;
    cute_texts, 40, 0;
    cute_atoms, 160, 0;
    triton_linear, 210, 1;
    triton_attrs, 500, 6;
    triton_attr_parse, 59, 0;
    triton_attrs_more, 441, 0;
    triton_attr_parse_more, 260, 0;
    xla, 80, 0;
    onednn, 1000, 0;
    mlir_pack, 20, 0;
    jax_sharding, 30, 0;
    tirx, 5000, 100;
    tirx_upstream_mistakes, 21, 21;
    spyre_layouts, 99, 6;
    spyre_dci, 79, 0;
    spyre_extras, 20, 7;
    layout_propagation, 81, 0;
    work_division, 25, 0;
    lx_solver, 14, 0;
}

#[test]
fn every_suite_is_tested_and_every_file_read() {
    let names: Vec<&str> = SUITES.iter().map(|s| s.name).collect();
    assert_eq!(names, TESTED);
    assert_eq!(folder().suites().len(), SUITES.len());
    assert_eq!(folder().unread_files(), Vec::<String>::new());
}

/// What is not a file of cases is a failure with words, not a panic.
#[test]
fn bad_files_fail_in_words() {
    let bad = [
        serde_json::json!(null),
        serde_json::json!({"cases": 3}),
        serde_json::json!([{}, 7, "x", {"op": "composition"}, {"text": 1}, {"spec": {}}]),
        serde_json::json!({"cases": [{"tag": "ab", "dims": [1i64 << 40, 1i64 << 40]}]}),
    ];
    for suite in SUITES {
        for data in &bad {
            let outcome = suite.run_cases(data);
            assert_eq!(outcome.passed, 0, "{} of {data}", suite.name);
            let left: usize = outcome.left_out.values().sum();
            assert!(outcome.failures.len() + left > 0, "{} of {data}", suite.name);
        }
    }
    let none = SuiteFolder::new(Path::new("/")).expect_err("no cases there");
    assert!(none.to_string().contains("cute.json"), "{none}");
    let above = SuiteFolder::find_above(Path::new("/")).expect_err("no cases there");
    assert!(above.to_string().contains("--data"), "{above}");
}
