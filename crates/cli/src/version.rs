//! `zellige --version`

use crate::common::{print_json, print_text};
use crate::exit_code::ExitCode;
use anyhow::Result;
use serde_json::json;

/// Prints the version, and what the behaviour of the program may depend on.
pub(crate) fn print_version(as_json: bool) -> Result<ExitCode> {
    let version = env!("CARGO_PKG_VERSION");
    // A report of a defect in a kernel is of no use without the instruction set.
    let isa = zellige_float::Isa::process_isa().to_string();
    if !as_json {
        print_text(&format!("zellige {version}\ninstruction set: {isa}"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let variables = ["ZELLIGE_ISA", "ZELLIGE_PROFILE", "ZELLIGE_FP32", "ZELLIGE_INT64", "SENCORES"];
    let set: serde_json::Map<_, _> = variables
        .iter()
        .filter_map(|v| Some((v.to_string(), std::env::var_os(v)?.to_string_lossy().into())))
        .collect();
    let value = json!({
        "version": version,
        "instruction_set": isa,
        "system": std::env::consts::OS,
        "architecture": std::env::consts::ARCH,
        "cores": std::thread::available_parallelism().map_or(1, usize::from),
        "build": if cfg!(debug_assertions) { "debug" } else { "release" },
        "explorer": cfg!(feature = "explorer"),
        "environment": set,
    });
    print_json(&serde_json::to_string_pretty(&value)?)?;
    Ok(ExitCode::SUCCESS)
}
