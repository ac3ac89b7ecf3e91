//! `zellige device`

use crate::card::{CardArgs, WorkArgs};
use crate::common::print_as;
use crate::exit_code::ExitCode;
use anyhow::Result;
use serde_json::{Value, json};
use zellige_machine::Hardware;

#[derive(clap::Args)]
#[command(after_help = "\
A preset of your own is a TOML file that begins with `extends = \"card\"` (or \"ktir\") and has the figures
that differ; every figure has a value, a unit and a source.

Examples:
  zellige device
  zellige device --hardware ktir
  zellige device --hardware half.toml --cores 8 --json
  zellige device --presets")]
pub(crate) struct DeviceArgs {
    #[command(flatten)]
    card: CardArgs,
    #[command(flatten)]
    work: WorkArgs,
    /// List the presets that are built in
    #[arg(long)]
    presets: bool,
    /// Write JSON instead of text
    #[arg(long)]
    json: bool,
}

pub(crate) fn run_device(args: &DeviceArgs) -> Result<ExitCode> {
    if args.presets {
        let presets: Vec<Hardware> =
            Hardware::preset_names().map(Hardware::built_in_preset).collect::<Result<_, _>>()?;
        let text = if args.json {
            json!({"presets": presets.iter().map(Hardware::to_json).collect::<Vec<Value>>()})
                .to_string()
        } else {
            presets.iter().map(|p| format!("{:14}{}\n", p.name(), p.description())).collect()
        };
        print_as(args.json, &text)?;
        return Ok(ExitCode::SUCCESS);
    }
    let card = args.work.configure_card(args.card.card_builder()?)?.build()?;
    print_as(
        args.json,
        &if args.json { card.to_json().to_string() } else { card.describe_usage() },
    )?;
    Ok(ExitCode::SUCCESS)
}
