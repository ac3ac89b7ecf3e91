//! `zellige check`

use crate::common::{LayoutArgs, print_json, print_text};
use crate::exit_code::ExitCode;
use anyhow::{Result, anyhow};
use serde_json::json;
use zellige_layout::LintSeverity;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  zellige check 'S[(8,64):(64,1)]' --dtype float16
  zellige check mesh-aliasing          exits with 1: two elements share a place
  zellige check spyre-3d --json")]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    layout: LayoutArgs,
}

pub(crate) fn run_check(args: &CheckArgs) -> Result<ExitCode> {
    let loaded = args.layout.load_layout()?;
    let report =
        zellige_ask::explain_layout(&loaded.parsed, &loaded.layout, &loaded.shape, loaded.dtype)
            .map_err(|fault| anyhow!("{}", fault.message))?;
    let warned = report.lints.iter().any(|l| l.severity == LintSeverity::Warning);
    if args.layout.json {
        let lints: Vec<_> = report
            .lints
            .iter()
            .map(|l| json!({"id": l.id, "severity": l.severity.name(), "message": l.message}))
            .collect();
        let value = json!({
            "ok": !warned,
            "text": report.text,
            "padding_bytes": report.padding_bytes,
            "lints": lints,
        });
        print_json(&value.to_string())?;
    } else {
        let inverse = loaded.inverse.map(|of| format!("read as      {of}\n"));
        print_text(&format!("{}{}", inverse.unwrap_or_default(), report.text))?;
    }
    // 1 and not 2, so that a script can tell a layout with a warning from one that cannot be read.
    Ok(ExitCode::from(u8::from(warned)))
}
