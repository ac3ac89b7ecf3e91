//! Outcomes as a table: for a terminal, for a page, for a program.

use crate::SuiteOutcome;
use serde_json::{Value, json as value};
use std::fmt::Write;

/// Failing cases of a suite that a text names; JSON has all of them.
const MAX_NAMED_FAILURES: usize = 5;

const HEAD: [&str; 5] = ["suite", "cases", "passed", "upstream wrong", "left out"];

/// The cells of a suite and of the sum of all.
fn table_rows(outcomes: &[SuiteOutcome]) -> Vec<[String; 5]> {
    let mut all = [0; 4];
    let mut rows = Vec::new();
    for o in outcomes {
        let counts = [o.cases, o.passed, o.upstream_wrong, o.left_out.values().sum()];
        all.iter_mut().zip(counts).for_each(|(sum, n)| *sum += n);
        let [cases, passed, wrong, out] = counts.map(|n| n.to_string());
        rows.push([o.suite.name.to_string(), cases, passed, wrong, out]);
    }
    let [cases, passed, wrong, out] = all.map(|n| n.to_string());
    rows.push(["all".to_string(), cases, passed, wrong, out]);
    rows
}

/// The table, then failing cases with both answers, then what was left out.
pub fn outcomes_text(outcomes: &[SuiteOutcome]) -> String {
    let mut rows = table_rows(outcomes);
    rows.insert(0, HEAD.map(String::from));
    let width = |k: usize| rows.iter().map(|r: &[String; 5]| r[k].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..5).map(width).collect();
    let mut out = String::new();
    for row in &rows {
        let _ = write!(out, "{:<w$}", row[0], w = widths[0]);
        for (cell, w) in row.iter().zip(&widths).skip(1) {
            let _ = write!(out, "  {cell:>w$}");
        }
        out.push('\n');
    }
    for o in outcomes.iter().filter(|o| !o.failures.is_empty()) {
        let _ = writeln!(out, "\n{}: {} failed", o.suite.name, o.failures.len());
        for f in o.failures.iter().take(MAX_NAMED_FAILURES) {
            let _ = writeln!(out, "  {}", f.case);
            let _ = writeln!(out, "    expected {}", f.mismatch.expected);
            let _ = writeln!(out, "    got      {}", f.mismatch.got);
        }
        if o.failures.len() > MAX_NAMED_FAILURES {
            let _ = writeln!(
                out,
                "  and {} more; --json has all",
                o.failures.len() - MAX_NAMED_FAILURES
            );
        }
    }
    for o in outcomes.iter().filter(|o| !o.left_out.is_empty()) {
        let _ = writeln!(out, "\n{}, left out: {}", o.suite.name, left_out(o));
    }
    out
}

fn left_out(o: &SuiteOutcome) -> String {
    let kinds: Vec<String> = o.left_out.iter().map(|(kind, n)| format!("{kind} ({n})")).collect();
    kinds.join(", ")
}

/// The table of a page, and where the cases of every suite come from.
pub fn outcomes_markdown(outcomes: &[SuiteOutcome]) -> String {
    let mut out = format!("| {} |\n|---|---:|---:|---:|---:|\n", HEAD.join(" | "));
    for row in table_rows(outcomes) {
        let _ = writeln!(out, "| {} |", row.join(" | "));
    }
    out.push('\n');
    for o in outcomes {
        let _ = write!(out, "- `{}`: {}", o.suite.name, o.suite.from);
        if !o.left_out.is_empty() {
            let _ = write!(out, " Left out, because no request asks for them: {}.", left_out(o));
        }
        out.push('\n');
    }
    out
}

/// Everything, all failing cases too.
pub fn outcomes_json(outcomes: &[SuiteOutcome]) -> Value {
    let suites: Vec<Value> = outcomes
        .iter()
        .map(|o| {
            let failures: Vec<Value> = o
                .failures
                .iter()
                .map(|f| value!({"case": f.case, "expected": f.mismatch.expected, "got": f.mismatch.got}))
                .collect();
            value!({
                "suite": o.suite.name,
                "from": o.suite.from,
                "cases": o.cases,
                "passed": o.passed,
                "upstream_wrong": o.upstream_wrong,
                "left_out": o.left_out,
                "failures": failures,
            })
        })
        .collect();
    let sum = |of: fn(&SuiteOutcome) -> usize| outcomes.iter().map(of).sum::<usize>();
    value!({
        "suites": suites,
        "cases": sum(|o| o.cases),
        "passed": sum(|o| o.passed),
        "upstream_wrong": sum(|o| o.upstream_wrong),
        "left_out": sum(|o| o.left_out.values().sum()),
    })
}
