//! Measures the speed of the layout engine and compares it with goals.
//!
//! `cargo run --release -p zellige-bench [-- WORDS]` prints one Markdown table of the cases whose
//! name contains every word. If the first word is `device`, the table is that of the simulated card.
//! `README.md` describes how the numbers are measured and what they mean.

#![forbid(unsafe_code)]

mod cases;
mod device;
mod harness;
mod report;

use anyhow::Result;
use harness::BenchHarness;

fn main() -> Result<()> {
    if cfg!(debug_assertions) {
        eprintln!("warning: a debug build; run with --release");
    }
    if let Err(why) = zellige_float::Isa::requested_by_variable() {
        anyhow::bail!(why);
    }
    let words: Vec<String> = std::env::args().skip(1).collect();
    println!("{}\n", zellige_bench::describe_conditions());
    if let Some(("device", rest)) = words.split_first().map(|(w, rest)| (w.as_str(), rest)) {
        return device::run_device_cases(rest);
    }
    let mut bench = BenchHarness::new(words);
    cases::apply::run_apply_cases(&mut bench)?;
    cases::table::run_table_cases(&mut bench)?;
    cases::algebra::run_algebra_cases(&mut bench)?;
    cases::text::run_text_cases(&mut bench)?;
    cases::ask::run_request_cases(&mut bench)?;
    print!("{}", report::markdown_table(bench.rows()));
    Ok(())
}
