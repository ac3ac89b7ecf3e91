//! `zellige scale-factors`

use crate::common::{print_json, print_text};
use crate::exit_code::ExitCode;
use anyhow::Result;
use serde_json::json;
use zellige_notation::preset::{ScaleFactors, build_scale_factor_layout};
use zellige_notation::tirx;

#[derive(clap::Args)]
#[command(after_help = "\
Every factor is in four lanes, 32 apart. TCol counts factors: a column of 32 bits is 32 / bits of
them. The text goes to standard output, the shape that it is meant for to standard error.
docs/notations.md says which factor is where.

Examples:
  zellige scale-factors 128 16 --sf-per-mma 4            nvfp4, 256 numbers of a row
  zellige scale-factors 128 4 --reuse 4 --pipe-depth 2   fp8, a factor for 128 numbers, two stages
  zellige show \"$(zellige scale-factors 128 16 --sf-per-mma 4)\" --shape 128,16")]
pub(crate) struct Args {
    /// Rows of the operand, a multiple of 32
    rows: i64,
    /// Distinct factors of a row
    groups: i64,
    /// Bits of a factor
    #[arg(long, value_name = "N", default_value_t = ScaleFactors::new(0, 0).bits)]
    bits: i64,
    /// Factors of a row that one instruction reads: 4 for nvfp4, 2 for mxfp4, 1 for mxfp8
    #[arg(long, value_name = "N", default_value_t = ScaleFactors::new(0, 0).sf_per_mma)]
    sf_per_mma: i64,
    /// Instructions in a row that read the same factors
    #[arg(long, value_name = "N", default_value_t = ScaleFactors::new(0, 0).reuse)]
    reuse: i64,
    /// Stages of a pipeline, the first dimension of the shape
    #[arg(long, value_name = "N")]
    pipe_depth: Option<i64>,
    /// Write JSON instead of text
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let found = build_scale_factor_layout(&ScaleFactors {
        rows: args.rows,
        groups: args.groups,
        bits: args.bits,
        sf_per_mma: args.sf_per_mma,
        reuse: args.reuse,
        pipe_depth: args.pipe_depth,
    })?;
    let text = tirx::print_tirx(&found.layout);
    if args.json {
        let answer = json!({
            "layout": text,
            "shape": found.shape,
            "epc": found.epc,
            "columns": found.columns,
        });
        print_json(&answer.to_string())?;
        return Ok(ExitCode::SUCCESS);
    }
    print_text(&text)?;
    let (shape, columns) = (&found.shape, found.columns);
    // To standard error, so that the text on standard output can be handed to `show` by the shell.
    eprintln!("shape {shape:?}, {columns} columns of tensor memory");
    Ok(ExitCode::SUCCESS)
}
