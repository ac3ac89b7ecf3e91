//! The tables of `docs/compiler-results.md`.

use super::CompiledGraphRow;
use std::fmt::Write;
use zellige_report::{Report, StepKind};

/// Every graph under both policies, as Markdown.
pub fn policy_table(rows: &[CompiledGraphRow]) -> String {
    let mut out = String::from(
        "| graph | ops | baseline | best | faster | without launches | moves, baseline | moves, best | layouts | compiled in |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|---|---:|\n",
    );
    for row in rows {
        let (a, b) = (&row.baseline.summary, &row.best.summary);
        let proof = match (row.best.certificate.least_sum, row.best.certificate.gap) {
            (true, _) => "least sum".into(),
            (false, Some(gap)) => format!("at most {:.1}% above", 100.0 * gap),
            (false, None) => "no proof".into(),
        };
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {:.2}x | {} to {} | {} in {} | {} in {} | {proof} | {} |",
            row.name,
            b.ops,
            format_time(a.latency_us),
            format_time(b.latency_us),
            a.latency_us / b.latency_us.max(1e-9),
            format_time(a.latency_us - a.launch_us),
            format_time(b.latency_us - b.launch_us),
            a.moves,
            format_time(a.move_us),
            b.moves,
            format_time(b.move_us),
            compile_duration(row),
        );
    }
    out
}

/// How long a compilation took; an unoptimised build prints no time, which would mean nothing.
fn compile_duration(row: &CompiledGraphRow) -> String {
    if cfg!(debug_assertions) {
        return "(debug build)".into();
    }
    format!("{:.1} ms", row.took.as_secs_f64() * 1e3)
}

/// The time of a run by kind of operation, as Markdown.
pub fn time_breakdown(r: &Report) -> String {
    let mut list: Vec<(String, usize, f64, u64, u64)> = Vec::new();
    for s in r.steps.iter().filter(|s| !s.load) {
        let name = match s.kind {
            StepKind::Exchange => "copies between scratchpads".to_string(),
            StepKind::Move => "restickify and other moves".to_string(),
            StepKind::Host => format!("{} on the host, there and back", s.op),
            _ => s.op.clone(),
        };
        let bytes = s.bytes_in + s.bytes_out;
        match list.iter_mut().find(|l| l.0 == name) {
            Some(l) => (l.1, l.2, l.3, l.4) = (l.1 + 1, l.2 + s.us, l.3 + bytes, l.4 + s.flops),
            None => list.push((name, 1, s.us, bytes, s.flops)),
        }
    }
    if r.summary.launch_us > 0.0 {
        list.push(("launches by the host".into(), r.summary.launches, r.summary.launch_us, 0, 0));
    }
    list.sort_by(|a, b| b.2.total_cmp(&a.2));
    let total: f64 = list.iter().map(|l| l.2).sum();
    let mut out = String::from(
        "| term | steps | time | share | bytes | FLOP |\n|---|---:|---:|---:|---:|---:|\n",
    );
    for (name, steps, us, bytes, flops) in list {
        let _ = writeln!(
            out,
            "| {name} | {steps} | {} | {:.1}% | {:.2} GB | {:.2} G |",
            format_time(us),
            100.0 * us / total.max(1e-9),
            bytes as f64 / 1e9,
            flops as f64 / 1e9
        );
    }
    let _ = writeln!(
        out,
        "| **total** | {} | **{}** | 100% | {:.2} GB | {:.2} G |",
        r.steps.iter().filter(|s| !s.load).count(),
        format_time(r.summary.latency_us),
        r.summary.bytes as f64 / 1e9,
        r.summary.flops as f64 / 1e9
    );
    out
}

fn format_time(us: f64) -> String {
    match us {
        us if us >= 1e5 => format!("{:.0} ms", us / 1e3),
        us if us >= 1e4 => format!("{:.1} ms", us / 1e3),
        us if us >= 1e3 => format!("{:.2} ms", us / 1e3),
        us if us >= 100.0 => format!("{us:.0} us"),
        us => format!("{us:.1} us"),
    }
}
