//! `zellige convert`

use crate::common::{LayoutArgs, LoadedLayout, parse_notation, print_json, print_text};
use crate::exit_code::ExitCode;
use anyhow::{Result, bail};
use serde_json::{Value, json};
use std::fmt::Write;
use zellige_ask::{ConvertedLayout, convert_layout, convert_to_all};
use zellige_notation::Notation;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  zellige convert 'S[(8,64):(64,1)]'                   in every notation that has a text for it
  zellige convert '(8,64):(64,1)' --to torch
  zellige convert 'f32[16,256]{1,0:T(8,128)}' --to onednn
  zellige convert 'size=[4, 6] stride=[1, 4]' --to spyre --dtype float16

A conversion is equal (the same places for every coordinate), refined (the same places over a shape whose
dimensions are split), or not expressible, with the reason and the first element that shows it.")]
pub(crate) struct ConvertArgs {
    #[command(flatten)]
    layout: LayoutArgs,
    /// The notation to write (default: all of them)
    #[arg(long, value_name = "NOTATION")]
    to: Option<String>,
}

pub(crate) fn run_convert(args: &ConvertArgs) -> Result<ExitCode> {
    let loaded = args.layout.load_layout()?;
    if let Some(name) = &args.to {
        return convert_to_one(args, &loaded, parse_notation(name)?);
    }
    let LoadedLayout { parsed, layout, shape, dtype, .. } = &loaded;
    let all = convert_to_all(parsed, layout, shape, *dtype);
    if args.layout.json {
        let list: Vec<Value> = all.iter().map(|(n, o)| o.to_json(*n)).collect();
        print_json(&json!({ "shape": loaded.shape, "conversions": list }).to_string())?;
    } else {
        print_text(&conversion_table(&all))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn convert_to_one(args: &ConvertArgs, loaded: &LoadedLayout, to: Notation) -> Result<ExitCode> {
    let LoadedLayout { parsed, layout, shape, dtype, .. } = loaded;
    let found = convert_layout(parsed, layout, shape, *dtype, to);
    if args.layout.json {
        print_json(&found.to_json(to).to_string())?;
    } else {
        match &found {
            ConvertedLayout::Equal(text) => print_text(text)?,
            ConvertedLayout::Refined { text, shape, why } => {
                print_text(text)?;
                // To standard error: standard output holds the text of the layout alone, so that it can be passed
                // to another program.
                eprintln!("refined: over the shape {shape:?}, as {why}");
            }
            ConvertedLayout::NotExpressible(why) => {
                // An error and not an empty answer, because a script would take that for a layout.
                bail!("not expressible in {}: {why}", to.name())
            }
        }
    }
    Ok(ExitCode::from(u8::from(matches!(found, ConvertedLayout::NotExpressible(_)))))
}

/// Every notation with its text, or why it has none.
pub(crate) fn conversion_table(all: &[(Notation, ConvertedLayout)]) -> String {
    let mut text = String::new();
    for (n, outcome) in all {
        let name = n.name();
        let _ = match outcome {
            ConvertedLayout::Equal(found) => writeln!(text, "{name:<9} {found}"),
            ConvertedLayout::Refined { text: found, shape, .. } => {
                writeln!(text, "{name:<9} {found}    (over the shape {shape:?})")
            }
            ConvertedLayout::NotExpressible(why) => writeln!(text, "{name:<9} -- {why}"),
        };
    }
    text
}
