//! `zellige notations`

use crate::common::{print_json, print_text};
use crate::exit_code::ExitCode;
use anyhow::Result;
use serde_json::{Value, json};
use std::fmt::Write;
use zellige_notation::Notation;

#[derive(clap::Args)]
#[command(after_help = "\
The notation of a text is found out; a text that several of them read differently is refused with all readings, and
--notation says which one is meant. docs/notations.md describes them.

Examples:
  zellige notations
  zellige notations --json")]
pub(crate) struct NotationsArgs {
    /// Write JSON instead of text
    #[arg(long)]
    json: bool,
}

pub(crate) fn run_notations(args: &NotationsArgs) -> Result<ExitCode> {
    if args.json {
        let one = |n: Notation| json!({"name": n.name(), "doc": n.short_description(), "example": n.example_text()});
        let list: Vec<Value> = Notation::all_notations().map(one).collect();
        print_json(&json!({ "notations": list }).to_string())?;
        return Ok(ExitCode::SUCCESS);
    }
    let width = Notation::all_notations().map(|n| n.name().len()).max().unwrap_or(0);
    let mut text = String::new();
    for n in Notation::all_notations() {
        let (name, doc, example) = (n.name(), n.short_description(), n.example_text());
        let _ = writeln!(text, "{name:<width$}  {doc}\n{:<width$}  {example}", "");
    }
    print_text(&text)?;
    Ok(ExitCode::SUCCESS)
}
