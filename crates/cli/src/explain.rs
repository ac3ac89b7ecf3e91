//! `zellige explain`

use crate::common::{LayoutArgs, LoadedLayout, print_json, print_text};
use crate::convert::conversion_table;
use crate::exit_code::ExitCode;
use anyhow::{Result, anyhow};
use serde_json::{Value, json};
use std::fmt::Write;
use zellige_ask::{ConvertedLayout, convert_to_all};
use zellige_notation::cute::atoms;
use zellige_notation::preset;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  zellige explain 'f32[16,256]{1,0:T(8,128)}'
  zellige explain '#ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], order = [1, 0]}>' --shape 32,16
  zellige explain mma-m16n8-cd
  zellige explain SM80_16x8x16_F32F16F16F32_TN    every layout of an atom of CuTe")]
pub(crate) struct ExplainArgs {
    #[command(flatten)]
    layout: LayoutArgs,
}

pub(crate) fn run_explain(args: &ExplainArgs) -> Result<ExitCode> {
    let Some(atom) = atoms::find_atom(&args.layout.layout) else {
        let loaded = args.layout.load_layout()?;
        let (text, value) = explain_loaded(&loaded)?;
        if args.layout.json { print_json(&value.to_string()) } else { print_text(&text) }?;
        return Ok(ExitCode::SUCCESS);
    };
    // An atom is explained layout by layout.
    let (mut texts, mut values) = (vec![atom.print_block().print_cute_text() + "\n"], Vec::new());
    for part in preset::presets_of_atom(&atom) {
        let (text, mut value) = explain_loaded(&args.layout.with_name(&part.name).load_layout()?)?;
        value["name"] = json!(part.name);
        texts.push(format!("{}: {}\n\n{text}", part.name, part.title));
        values.push(value);
    }
    if args.layout.json {
        print_json(&json!({"atom": atom.name, "layouts": values}).to_string())?;
    } else {
        print_text(&texts.join("\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The explanation of one layout as a text, and as JSON.
fn explain_loaded(loaded: &LoadedLayout) -> Result<(String, Value)> {
    let found =
        zellige_ask::explain_layout(&loaded.parsed, &loaded.layout, &loaded.shape, loaded.dtype)
            .map_err(|fault| anyhow!("{}", fault.message))?;
    let mut others = convert_to_all(&loaded.parsed, &loaded.layout, &loaded.shape, loaded.dtype);
    // A person who asks what a layout means is not helped by a list of notations that cannot express it; `convert`
    // has the reasons.
    others.retain(|(n, found)| {
        *n != loaded.parsed.notation() && !matches!(found, ConvertedLayout::NotExpressible(_))
    });
    let value = json!({
        "notation": loaded.parsed.notation().name(),
        "words": found.words,
        "text": found.text,
        "padding_bytes": found.padding_bytes,
    });
    let mut text = format!(
        "{} ({})\n\n",
        loaded.parsed.notation_text(),
        loaded.parsed.notation().short_description()
    );
    if let Some(of) = &loaded.inverse {
        let _ = writeln!(text, "read as      {of}");
    }
    text += &found.text;
    if !others.is_empty() {
        let _ = write!(text, "\nin other notations\n{}", conversion_table(&others));
    }
    Ok((text, value))
}
