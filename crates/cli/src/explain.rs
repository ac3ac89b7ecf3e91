//! `zellige explain`

use crate::common::{LayoutArgs, print, print_json};
use crate::convert::table;
use anyhow::{Result, anyhow};
use serde_json::json;
use std::fmt::Write;
use std::process::ExitCode;
use zellige_ask::{Converted, conversions};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  zellige explain 'f32[16,256]{1,0:T(8,128)}'
  zellige explain '#ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], order = [1, 0]}>' --shape 32,16
  zellige explain mma-m16n8-cd")]
pub(crate) struct Args {
    #[command(flatten)]
    layout: LayoutArgs,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let loaded = args.layout.load()?;
    let found = zellige_ask::explain(&loaded.parsed, &loaded.layout, &loaded.shape, loaded.dtype)
        .map_err(|fault| anyhow!("{}", fault.message))?;
    let mut others = conversions(&loaded.parsed, &loaded.layout, &loaded.shape, loaded.dtype);
    others.retain(|(n, found)| {
        *n != loaded.parsed.notation() && !matches!(found, Converted::NotExpressible(_))
    });
    if args.layout.json {
        let value = json!({
            "notation": loaded.parsed.notation().name(),
            "words": found.words,
            "text": found.text,
            "padding_bytes": found.padding_bytes,
        });
        print_json(&value.to_string())?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = format!("{} ({})\n\n", loaded.parsed.text(), loaded.parsed.notation().doc());
    text += &found.text;
    if !others.is_empty() {
        let _ = write!(text, "\nin other notations\n{}", table(&others));
    }
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}
