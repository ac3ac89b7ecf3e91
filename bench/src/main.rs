//! Speed of the layout engine, beside its goals.
//!
//! `cargo run --release -p zellige-bench [-- WORDS]` prints one Markdown table of the cases whose
//! name holds every word; with `device` as the first word, the table of the simulated card.
//! `README.md` says how the numbers are taken and what they mean.

#![forbid(unsafe_code)]

mod cases;
mod device;
mod harness;
mod report;

use anyhow::Result;
use harness::Bench;

fn main() -> Result<()> {
    if cfg!(debug_assertions) {
        eprintln!("warning: a debug build; run with --release");
    }
    if let Err(why) = zellige_float::Isa::requested_by_variable() {
        anyhow::bail!(why);
    }
    let words: Vec<String> = std::env::args().skip(1).collect();
    println!("{}\n", zellige_bench::conditions());
    if let Some(("device", rest)) = words.split_first().map(|(w, rest)| (w.as_str(), rest)) {
        return device::run(rest);
    }
    let mut bench = Bench::new(words);
    cases::apply::run(&mut bench)?;
    cases::table::run(&mut bench)?;
    cases::algebra::run(&mut bench)?;
    cases::text::run(&mut bench)?;
    cases::ask::run(&mut bench)?;
    print!("{}", report::markdown(bench.rows()));
    Ok(())
}
