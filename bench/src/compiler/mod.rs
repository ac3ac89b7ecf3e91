//! What the compiler makes of the shipped graphs, beside the baseline policy: `zellige bench compile`.

mod published;
mod table;

pub use published::{PUBLISHED_STACK, PublishedFigure, published_figures, published_table};
pub use table::{policy_table, time_breakdown};

use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use zellige_compile::report::report_program;
use zellige_compile::{CompilerOptions, check_program, compile_graph};
use zellige_graph::{Graph, text};
use zellige_machine::Hardware;
use zellige_op::CoverageProfile;
use zellige_report::Report;

/// A graph under both policies.
#[derive(Debug)]
pub struct CompiledGraphRow {
    /// The name of its file.
    pub name: String,
    /// Under the baseline policy.
    pub baseline: Report,
    /// Under the best policy.
    pub best: Report,
    /// The shortest of three compilations under the best policy.
    pub took: Duration,
}

/// The graphs of a folder, by name.
///
/// # Errors
/// A folder that cannot be read.
pub fn find_graphs(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut list = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "graph") {
            list.push(path);
        }
    }
    list.sort();
    Ok(list)
}

/// Reads a graph, its symbols at their largest.
///
/// # Errors
/// A file that cannot be read or is no graph.
pub fn read_graph(path: &Path) -> Result<Graph> {
    let source = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    text::parse(&source).map_err(|d| anyhow::anyhow!("{}", d.render(&source, false)))
}

/// Compiles a graph under both policies; both plans are checked.
///
/// # Errors
/// What the compiler or the checker refuses.
pub fn measure_graph(path: &Path) -> Result<CompiledGraphRow> {
    let graph = read_graph(path)?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let baseline = compile_graph(&graph, &CompilerOptions::baseline())?;
    check_program(&baseline)?;
    let mut took = Duration::MAX;
    let mut best = None;
    for _ in 0..3 {
        let start = Instant::now();
        let program = compile_graph(&graph, &CompilerOptions::default())?;
        took = took.min(start.elapsed());
        best = Some(program);
    }
    let best = best.context("compiled")?;
    check_program(&best)?;
    Ok(CompiledGraphRow {
        name,
        baseline: report_program(&baseline),
        best: report_program(&best),
        took,
    })
}

/// A graph as torch-spyre ran it on a stack of the card, named by its preset: the baseline policy, its coverage,
/// composite operations decomposed.
///
/// # Errors
/// What the compiler refuses; presets that are not there.
pub fn compile_baseline(path: &Path, stack: &str) -> Result<Report> {
    let hardware = Hardware::built_in_preset(stack)?;
    let options = CompilerOptions { hardware, ..CompilerOptions::baseline() };
    let options = options.with_profile(CoverageProfile::Card);
    Ok(report_program(&compile_graph(&read_graph(path)?, &options)?))
}
