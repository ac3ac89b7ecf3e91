//! `zellige conformance`

use crate::common::{print_json, print_text};
use crate::exit_code::ExitCode;
use anyhow::{Context, Result, bail};
use std::io::Write;
use std::path::PathBuf;
use zellige_conformance::{CaseSuite, SUITES, SuiteFolder};

#[derive(clap::Args)]
#[command(after_help = "\
A suite is a file of JSON cases that another library answered. `upstream wrong` counts those passed cases where
the record says that the other implementation is wrong; `left out` are records that no request asks for.
Exit code 1 if a case fails.

Examples:
  zellige conformance                           in the sources of the project
  zellige conformance cute onednn
  zellige conformance --data ../other/vectors   files of the same form and names
  zellige conformance --json")]
pub(crate) struct ConformanceArgs {
    /// Suites to run (default: all that have a file)
    #[arg(value_name = "SUITE")]
    suites: Vec<String>,
    /// The folder with the files (default: tests/data here or in a folder above)
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// List the suites and where their cases come from
    #[arg(long)]
    list: bool,
    /// Write JSON instead of text
    #[arg(long)]
    json: bool,
}

pub(crate) fn run_conformance(args: &ConformanceArgs) -> Result<ExitCode> {
    if args.list {
        let lines: Vec<String> =
            SUITES.iter().map(|s| format!("{:<24}{}", s.name, s.from)).collect();
        print_text(&lines.join("\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let folder = match &args.data {
        Some(path) => SuiteFolder::new(path).context("--data")?,
        None => SuiteFolder::find_above(&std::env::current_dir()?)?,
    };
    // A folder of another user's cases may have a few suites only, and running those is no error.
    let there = folder.suites();
    let wanted = match args.suites.is_empty() {
        true => there.clone(),
        false => find_suites(&args.suites, &there, &folder)?,
    };
    let mut outcomes = Vec::new();
    for suite in wanted {
        outcomes.push(folder.run_suite(suite)?);
    }
    let failed = outcomes.iter().any(|o| !o.failures.is_empty());
    if args.json {
        let mut found = zellige_conformance::outcomes_json(&outcomes);
        found["data"] = serde_json::json!(folder.path().display().to_string());
        found["not_read"] = serde_json::json!(folder.unread_files());
        print_json(&found.to_string())?;
    } else {
        print_text(zellige_conformance::outcomes_text(&outcomes).trim_end())?;
        let unread = folder.unread_files();
        if !unread.is_empty() && args.suites.is_empty() {
            let (path, names) = (folder.path().display(), unread.join(", "));
            // To standard error, so that standard output holds the table alone.
            let _ = writeln!(std::io::stderr(), "note: {path}: no suite reads {names}");
        }
    }
    Ok(ExitCode::from(u8::from(failed)))
}

/// The suites of these names, which the folder must have.
fn find_suites(
    names: &[String],
    there: &[&'static CaseSuite],
    folder: &SuiteFolder,
) -> Result<Vec<&'static CaseSuite>> {
    let mut found = Vec::new();
    for name in names {
        let Some(suite) = CaseSuite::find_suite(name.trim_end_matches(".json")) else {
            let known: Vec<&str> = SUITES.iter().map(|s| s.name).collect();
            bail!("unknown suite `{name}`; known: {}", known.join(", "));
        };
        // Asking for a suite by name and not finding it must not pass as success.
        if !there.iter().any(|s| s.name == suite.name) {
            bail!("{} has no file {}.json", folder.path().display(), suite.name);
        }
        found.push(suite);
    }
    Ok(found)
}
