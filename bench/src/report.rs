//! The Markdown table.

use crate::harness::{BenchRow, BenchTimes, SpeedGoal};
use std::fmt::Write;

pub(crate) fn markdown_table(rows: &[BenchRow]) -> String {
    let mut out = String::from(
        "| case | goal | median | min .. max | goal / median |\n|---|---:|---:|---:|---:|\n",
    );
    for row in rows {
        let (goal, rate) = match row.goal {
            SpeedGoal::Within(d) => (format_nanoseconds(d.as_secs_f64() * 1e9), false),
            SpeedGoal::Rate(r) => (format!("{} /s", group_thousands(r)), true),
            SpeedGoal::None => (String::new(), false),
        };
        let line = match &row.outcome {
            Err(why) => format!("| {} | {goal} | not measured: {why} | | |", row.case),
            Ok(t) => {
                let show = |ns: f64| {
                    if rate {
                        format!("{} /s", group_thousands(1e9 / ns))
                    } else {
                        format_nanoseconds(ns)
                    }
                };
                let (low, high) = if rate { (t.max, t.min) } else { (t.min, t.max) };
                let ratio =
                    goal_headroom(row.goal, *t).map_or(String::new(), |r| format!("{r:.1}x"));
                format!(
                    "| {} | {goal} | {} | {} .. {} | {ratio} |",
                    row.case,
                    show(t.median),
                    show(low),
                    show(high)
                )
            }
        };
        let _ = writeln!(out, "{line}");
    }
    out
}

/// How many times better than the goal; below 1 it is missed.
fn goal_headroom(goal: SpeedGoal, t: BenchTimes) -> Option<f64> {
    match goal {
        SpeedGoal::Within(d) => Some(d.as_secs_f64() * 1e9 / t.median),
        SpeedGoal::Rate(r) => Some(1e9 / t.median / r),
        SpeedGoal::None => None,
    }
}

fn format_nanoseconds(ns: f64) -> String {
    match ns {
        ns if ns < 999.5 => format!("{ns:.1} ns").replace(".0 ", " "),
        ns if ns < 999_500.0 => format!("{:.2} us", ns / 1e3),
        ns => format!("{:.2} ms", ns / 1e6),
    }
}

fn group_thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            out.push(',');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_row_says_its_unit_and_its_ratio() {
        let times = BenchTimes { median: 25.0, min: 20.0, max: 40.0 };
        let rows = [
            BenchRow {
                case: "a".into(),
                goal: SpeedGoal::Within(Duration::from_nanos(50)),
                outcome: Ok(times),
            },
            BenchRow { case: "b".into(), goal: SpeedGoal::Rate(2e7), outcome: Ok(times) },
            BenchRow { case: "c".into(), goal: SpeedGoal::None, outcome: Err("no binary".into()) },
        ];
        let text = markdown_table(&rows);
        let lines: Vec<_> = text.lines().skip(2).collect();
        assert_eq!(lines[0], "| a | 50 ns | 25 ns | 20 ns .. 40 ns | 2.0x |");
        assert_eq!(
            lines[1],
            "| b | 20,000,000 /s | 40,000,000 /s | 25,000,000 /s .. 50,000,000 /s | 2.0x |"
        );
        assert_eq!(lines[2], "| c |  | not measured: no binary | | |");
    }
}
