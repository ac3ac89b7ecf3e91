//! `zellige compile`

mod passes;
pub(crate) mod summary;

use crate::common::print;
use crate::graph::GraphArgs;
use crate::progress::Progress;
use anyhow::{Context, Result};
use std::path::PathBuf;
use std::process::ExitCode;
use zellige_compile::divide::Policy;
use zellige_compile::report::{Explanation, compared, explain, report};
use zellige_files::write_bytes;
use zellige_view::page;

#[derive(clap::Args)]
#[command(after_help = "\
Layouts are chosen for the whole graph, moves are inserted where they have to be, work is divided over
the cores, and results stay in scratchpads where they fit. Nothing runs: times are simulated from the
plan and the figures of the hardware.

Examples:
  zellige compile examples/llama-block.graph
  zellige compile examples/llama-block.graph --compare --report block.html
  zellige compile examples/attention.graph --explain scores
  zellige compile examples/granite-8b-prefill.graph --policy baseline --coverage card
  zellige compile examples/llama-block.graph --pass divide")]
pub(crate) struct Args {
    #[command(flatten)]
    graph: GraphArgs,
    /// Compile under the baseline policy too, and say what is gained
    #[arg(long)]
    compare: bool,
    /// Check the plan by code that shares nothing with the passes
    #[arg(long)]
    check: bool,
    /// Write the report as one web page
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Write the report as JSON: to a file, or instead of the summary
    #[arg(long, value_name = "FILE.json", num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,
    /// Write the timeline for Perfetto or chrome://tracing
    #[arg(long, value_name = "FILE.json")]
    trace: Option<PathBuf>,
    /// Say why a tensor lies as it does, and what other layouts would cost
    #[arg(long, value_name = "TENSOR")]
    explain: Option<String>,
    /// Print what a pass made: read, decompose, fold, propagate, choose, divide, place, schedule
    #[arg(long, value_name = "PASS", value_parser = passes::NAMES)]
    pass: Option<String>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let loaded = args.graph.load()?;
    let options = args.graph.options()?;
    if let Some(pass) = &args.pass {
        print(&passes::print(pass, &loaded, &options)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let progress = Progress::steps(3);
    progress.step("compiling");
    let started = std::time::Instant::now();
    let program = loaded.compile(&options)?;
    let took = started.elapsed();
    if args.check {
        progress.step("checking");
        zellige_compile::check(&program).map_err(|e| loaded.refused(&e))?;
    }
    if let Some(tensor) = &args.explain {
        let explanation = explain(&program, tensor).context("--explain")?;
        progress.finish();
        let text = match &args.json {
            Some(_) => serde_json::to_string(&explanation)?,
            None => explained(&explanation),
        };
        print(&text)?;
        return Ok(ExitCode::SUCCESS);
    }
    let report = if args.compare {
        progress.step("compiling under the baseline policy");
        compared(&program, &loaded.compile(&args.graph.options_of(Policy::Baseline)?)?)
    } else {
        report(&program)
    };
    let mut written = Vec::new();
    if let Some(path) = &args.report {
        let model: page::Model = serde_json::from_value(serde_json::to_value(&report)?)?;
        write_bytes(path, page::html(&model).as_bytes())?;
        written.push(path);
    }
    if let Some(path) = &args.trace {
        write_bytes(path, zellige_run::timeline(&program).to_chrome_trace().as_bytes())?;
        written.push(path);
    }
    progress.finish();
    match &args.json {
        Some(path) if path.as_os_str() == "-" => {
            print(&serde_json::to_string(&report)?)?;
            return Ok(ExitCode::SUCCESS);
        }
        Some(path) => {
            write_bytes(path, serde_json::to_string_pretty(&report)?.as_bytes())?;
            written.push(path);
        }
        None => {}
    }
    let mut text = summary::text(&report);
    text.push_str(&format!(
        "\ncompiled in {:.0} ms{}\n",
        took.as_secs_f64() * 1e3,
        if args.check { "; the independent check accepts the plan" } else { "" }
    ));
    for path in written {
        text.push_str(&format!("wrote {}\n", path.display()));
    }
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// An explanation in words.
fn explained(e: &Explanation) -> String {
    let mut text = match &e.view {
        Some(view) => format!("{view} is a view of {}, whose layout this is about\n", e.tensor),
        None => String::new(),
    };
    text.push_str(&format!("{} {}: {}\n", e.tensor, e.dtype, e.why));
    for o in &e.options {
        let mark = if o.chosen { "*" } else { " " };
        let cost = match (o.cost, o.extra_us, o.extra) {
            (None, ..) => "no plan".into(),
            (Some(_), Some(us), _) if o.chosen || us == 0.0 => "+0 us".into(),
            (Some(_), Some(us), _) => format!("{us:+.2} us"),
            (Some(cost), None, Some(extra)) => format!("{extra:+} ({cost} {})", e.unit),
            (Some(cost), ..) => format!("{cost} {}", e.unit),
        };
        text.push_str(&format!("{mark} {cost:>12}  {}\n", o.text));
        let device = format!("device_size={:?} stride_map={:?}", o.layout.device_size, o.layout.stride_map);
        text.push_str(&format!("{:16} {device}\n", ""));
        if let Some(why) = &o.refused {
            text.push_str(&format!("{:16} {why}\n", ""));
        }
        for m in &o.moves {
            text.push_str(&format!("{:16} moves {} ({:.2} us): {}\n", "", m.tensor, m.us, m.reason));
        }
    }
    text.push_str(
        "* is the layout of the program; each cost is that of the best plan of the whole graph\n\
         with this tensor held to that layout, beside the chosen one\n",
    );
    text
}
