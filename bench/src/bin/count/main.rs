//! Instruction counts of representative moves: a gate against regressions that no busy machine
//! disturbs.
//!
//! `count` runs itself under callgrind once per case and compares with `bench/instructions.txt`;
//! with `ZELLIGE_BLESS=1` it writes that file anew. `count CASE` only runs a case, once.
//!
//! Callgrind emulates a processor with AVX2 and F16C and without AVX-512 whatever the host is, so
//! the AVX2 kernels are what is counted, on every machine that has AVX2.

#![forbid(unsafe_code)]

mod record;
mod work;

use anyhow::{Context, Result, bail};
use record::InstructionRecord;
use std::process::{Command, ExitCode};

/// Relative to the root of the repository, where `./test` runs.
const RECORD_PATH: &str = "bench/instructions.txt";

fn main() -> Result<ExitCode> {
    if let Some(name) = std::env::args().nth(1) {
        work::run_case(&name)?;
        return Ok(ExitCode::SUCCESS);
    }
    if cfg!(debug_assertions) {
        bail!("a debug build counts other instructions; run with --release");
    }
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        bail!("the counts are recorded for x86_64 Linux; there is no gate on this machine");
    }
    let found = InstructionRecord { compiler: compiler_version()?, counts: count_all()? };
    if std::env::var_os("ZELLIGE_BLESS").is_some_and(|v| v == "1") {
        std::fs::write(RECORD_PATH, found.to_string())
            .with_context(|| format!("write {RECORD_PATH}"))?;
        println!("{RECORD_PATH} is written anew: read the diff");
        return Ok(ExitCode::SUCCESS);
    }
    let text = std::fs::read_to_string(RECORD_PATH)
        .with_context(|| format!("read {RECORD_PATH} (ZELLIGE_BLESS=1 writes it)"))?;
    let recorded = InstructionRecord::parse(&text).with_context(|| RECORD_PATH.to_string())?;
    let (report, passed) = recorded.compare_counts(&found);
    print!("{report}");
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn compiler_version() -> Result<String> {
    let out = Command::new("rustc").arg("--version").output().context("start rustc")?;
    Ok(String::from_utf8_lossy(&out.stdout).trim().to_string())
}

fn count_all() -> Result<Vec<(String, u64)>> {
    work::CASE_NAMES.iter().map(|name| Ok((name.to_string(), count_instructions(name)?))).collect()
}

/// The instructions that one case takes inside `work::counted`.
fn count_instructions(name: &str) -> Result<u64> {
    let program = std::env::current_exe().context("find this program")?;
    let out = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--toggle-collect=*counted*"])
        .arg(program)
        .arg(name)
        .output()
        .context("start valgrind (Debian package valgrind)")?;
    let log = String::from_utf8_lossy(&out.stderr);
    if !out.status.success() {
        bail!("`{name}` under callgrind ends with {}:\n{log}", out.status);
    }
    let collected = log.lines().find_map(|line| line.split_once("Collected :"));
    let count = collected.and_then(|(_, n)| n.trim().parse().ok()).unwrap_or(0);
    if count == 0 {
        bail!("callgrind counted nothing in `{name}`; it wrote\n{log}");
    }
    Ok(count)
}
