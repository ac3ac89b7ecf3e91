//! `zellige presets`

use crate::common::{print_json, print_text};
use crate::exit_code::ExitCode;
use anyhow::Result;
use serde_json::json;
use std::fmt::Write;
use zellige_notation::cute::atoms;
use zellige_notation::preset;

#[derive(clap::Args)]
#[command(after_help = "\
Sizes in a name may be changed: wgmma-64x64 is one of wgmma-64x8, wgmma-64x16, ...
The layouts of CuTe's MMA and copy atoms have the name of the atom and of the operand: SM80_16x8x16_F32F16F16F32_TN.A, .B and .C;
.src, .dst and .ref of a copy. They are listed where a part of their name is given.

Examples:
  zellige presets
  zellige presets mma
  zellige presets SM90_64x128
  zellige show wgmma-64x128")]
pub(crate) struct PresetsArgs {
    /// Only those whose name contains this
    filter: Option<String>,
    /// Write JSON instead of text
    #[arg(long)]
    json: bool,
}

pub(crate) fn run_presets(args: &PresetsArgs) -> Result<ExitCode> {
    let mut list = preset::all_presets();
    if let Some(filter) = &args.filter {
        // A size that is not the usual one is named in full.
        let exact = preset::find_preset(filter);
        list.retain(|p| p.name.contains(filter.as_str()));
        if list.is_empty() {
            list.extend(exact);
        }
        // CuTe has more than a hundred atoms, so they are listed only where a part of their name is given.
        let named =
            atoms::list_atom_names().into_iter().filter(|name| name.contains(filter.as_str()));
        list.extend(
            named
                .filter_map(|name| atoms::find_atom(&name))
                .flat_map(|a| preset::presets_of_atom(&a)),
        );
        anyhow::ensure!(!list.is_empty(), "no preset has `{filter}` in its name");
    }
    if args.json {
        let list: Vec<_> = list
            .iter()
            .map(|p| json!({"name": p.name, "title": p.title, "group": p.group, "shape": p.shape, "dtype": p.dtype, "layout": p.text}))
            .collect();
        print_json(&json!({"presets": list}).to_string())?;
        return Ok(ExitCode::SUCCESS);
    }
    let width = list.iter().map(|p| p.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for p in &list {
        let _ = writeln!(
            text,
            "{:<width$}  {} {:?}\n{:<width$}  {}",
            p.name, p.title, p.shape, "", p.text
        );
    }
    print_text(&text)?;
    Ok(ExitCode::SUCCESS)
}
