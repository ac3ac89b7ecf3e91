//! `zellige ops`

use crate::common::{print_json, print_text};
use crate::exit_code::ExitCode;
use crate::profile::find_profile;
use anyhow::Result;
use serde_json::{Value, json};
use std::fmt::Write;
use zellige_op::OpCoverage;

#[derive(clap::Args)]
#[command(after_help = "\
The layer is how upstream runs an operation: native and custom kernels, decomposed into others,
fallback to the host, or missing. Under the profile `full` the simulated card runs all of them, under
`card` those of the last two layers go to the host and back. Of dtypes, `float` stands for float32,
float16 and bfloat16, `int` for int64, int32, int16, int8 and uint8.

Examples:
  zellige ops
  zellige ops --profile card
  zellige ops --json")]
pub(crate) struct OpsArgs {
    /// Coverage: full, or card for what upstream runs on the device (default: ZELLIGE_PROFILE, else full)
    #[arg(long, value_name = "full|card")]
    profile: Option<String>,
    /// Write JSON instead of text
    #[arg(long)]
    json: bool,
}

pub(crate) fn run_ops(args: &OpsArgs) -> Result<ExitCode> {
    let profile = find_profile(args.profile.as_deref())?;
    let rows = OpCoverage::under_profile(profile);
    if args.json {
        let rows: Vec<Value> = rows.iter().map(OpCoverage::to_json).collect();
        print_json(&json!({"profile": profile.to_string(), "operations": rows}).to_string())?;
        return Ok(ExitCode::SUCCESS);
    }
    let table: Vec<[String; 5]> = rows
        .iter()
        .map(|row| {
            let runs = if row.on_host { "host" } else { "device" };
            let name = row.name.to_string();
            [name, row.layer.name().into(), runs.into(), row.operands.join(", "), row.dtype_words()]
        })
        .collect();
    let head = ["operation", "layer", "runs on", "operands", "dtypes"].map(String::from);
    let width =
        |column: usize| table.iter().chain([&head]).map(|row| row[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..4).map(width).collect();
    let mut text = String::new();
    for row in [&head].into_iter().chain(&table) {
        for (cell, width) in row.iter().zip(&widths) {
            let _ = write!(text, "{cell:width$}  ");
        }
        let _ = writeln!(text, "{}", row[4]);
    }
    let host = rows.iter().filter(|r| r.on_host).count();
    let _ = writeln!(text, "{} operations; profile {profile}: {host} by the host", rows.len());
    print_text(&text)?;
    Ok(ExitCode::SUCCESS)
}
