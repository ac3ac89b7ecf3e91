//! `zellige compile`

mod padding;
pub(crate) mod summary;

use crate::cache::{CachedReport, ReportCache};
use crate::common::{print_json, print_text, printable_path};
use crate::graph::{GraphArgs, GraphFile};
use crate::progress::ProgressLine;
use anyhow::{Context, Result};
use clap::builder::PossibleValue;
use std::path::PathBuf;
use std::process::ExitCode;
use zellige_compile::CompilePolicy;
use zellige_compile::report::{explain_layout, report_compared, report_program};
use zellige_compile::{CompilerOptions, CompilerPass, PASSES, emit, print_pass};
use zellige_files::{content_hash, write_bytes, write_folder};
use zellige_float::Format;
use zellige_report::{LayoutExplanation, Report};
use zellige_view::page;

#[derive(clap::Args)]
#[command(after_help = "\
Layouts are chosen for the whole graph, moves are inserted where they have to be, work is divided over
the cores, and results stay in scratchpads where they fit. Nothing runs: times are simulated from the
plan and the figures of the hardware. Reports are kept in a cache by the content of graph and options
(ZELLIGE_CACHE names its folder, or is `off`).

Examples:
  zellige compile examples/llama-block.graph
  zellige compile examples/llama-block.graph --compare --report block.html
  zellige compile examples/attention.graph --explain scores
  zellige compile examples/granite-8b-prefill.graph --policy baseline --profile card
  zellige compile examples/onnx/block.onnx --bind batch=2 --bind tokens=8
  zellige compile examples/llama-block.graph --pass work_distribution")]
pub(crate) struct CompileArgs {
    #[command(flatten)]
    graph: GraphArgs,
    /// Compile under the baseline policy too, and print what is gained
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
    /// Write the kernels, transfers, the host program and the report: SuperDSC, DCI, KTIR, JSON
    #[arg(long, value_name = "DIR/")]
    emit: Option<PathBuf>,
    /// How emitted tile programs write the card's 16-bit float: f16, which other tools read, or df16, which
    /// rounds as the card does
    #[arg(long, value_name = "f16|df16", default_value = "f16", requires = "emit")]
    tile_float: TileFloat,
    /// Compile although the report of the same graph and options is in the cache
    #[arg(long)]
    no_cache: bool,
    /// Explain why a tensor has its layout, and what other layouts would cost
    #[arg(long, value_name = "TENSOR", conflicts_with_all = ["compare", "report", "trace", "emit"])]
    explain: Option<String>,
    /// List the dimensions that are longer in memory than in their tensor, and what the padding has to hold
    #[arg(long, conflicts_with_all = ["explain", "compare", "report", "json", "trace", "emit"])]
    padding: bool,
    /// Print what a pass made, and run no further
    #[arg(
        long,
        value_name = "PASS",
        value_parser = pass_names(),
        conflicts_with_all = ["explain", "compare", "report", "json", "trace", "emit", "padding"]
    )]
    pass: Option<String>,
}

/// The spellings of the card's 16-bit float in tile programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum TileFloat {
    F16,
    Df16,
}

impl From<TileFloat> for emit::CardFloat {
    fn from(given: TileFloat) -> emit::CardFloat {
        match given {
            TileFloat::F16 => emit::CardFloat::F16,
            TileFloat::Df16 => emit::CardFloat::Df16,
        }
    }
}

/// The names of passes with what they decide, and those of the device's own compiler.
fn pass_names() -> Vec<PossibleValue> {
    let value = |p: &CompilerPass| {
        let also = match p.also {
            [] => String::new(),
            names => format!(" (also {})", names.join(", ")),
        };
        PossibleValue::new(p.name)
            .aliases(p.also.iter().copied())
            .help(format!("{}{also}", p.decides))
    };
    PASSES.iter().map(value).collect()
}

pub(crate) fn run_compile(args: &CompileArgs) -> Result<ExitCode> {
    let options = args.graph.compile_options()?;
    let started = std::time::Instant::now();
    // Everything in this list is written from the program, and the cache holds only its report.
    let needs_program = args.check
        || args.trace.is_some()
        || args.emit.is_some()
        || args.explain.is_some()
        || args.padding
        || args.pass.is_some();
    let cache = ReportCache::new(!args.no_cache && !needs_program);
    // The same bytes are the key and what is compiled, whatever becomes of the file meanwhile.
    let file = args.graph.read_graph_file()?;
    let key = report_key(args, &options, &file)?;
    let (found, note) = cache.get(&key);
    let (entry, mut written, source) = match found {
        Some(entry) => (entry, Vec::new(), "from the cache"),
        None => match compile_graph(args, &options, file)? {
            Some((entry, written)) => {
                cache.put_report(&key, &entry);
                (entry, written, "compiled")
            }
            None => return Ok(ExitCode::SUCCESS),
        },
    };
    let took = started.elapsed();
    if let Some(path) = &args.report {
        let report: Report = serde_json::from_str(&entry.json)?;
        write_bytes(path, page::render_page(&report).as_bytes())?;
        written.push(printable_path(path));
    }
    match &args.json {
        // Nothing but the report goes to standard output here, because a program reads it.
        Some(path) if path.as_os_str() == "-" => {
            print_json(&entry.json)?;
            return Ok(ExitCode::SUCCESS);
        }
        Some(path) => {
            write_bytes(path, entry.json.as_bytes())?;
            written.push(printable_path(path));
        }
        None => {}
    }
    let mut text = entry.text;
    let check = if args.check { "; the independent check accepts the plan" } else { "" };
    text.push_str(&format!("\n{source} in {:.0} ms{check}\n", took.as_secs_f64() * 1e3));
    if let Some(note) = note {
        text.push_str(&format!("{note}\n"));
    }
    for path in written {
        text.push_str(&format!("wrote {path}\n"));
    }
    print_text(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// The key of a report: everything that its content depends on.
fn report_key(args: &CompileArgs, options: &CompilerOptions, file: &GraphFile) -> Result<String> {
    let mut parts = file.cache_content();
    // Pins, places and values of symbols change the graph after it was read, so the file alone does not decide the
    // report.
    parts.push(args.graph.graph_changes().into_bytes());
    parts.push(format!("{options:?}").into_bytes());
    if args.compare {
        // What is left to its default is not the same under both policies.
        parts.push(
            format!("{:?}", args.graph.options_for_policy(CompilePolicy::Baseline)?).into_bytes(),
        );
    }
    // Another version of the engine may decide otherwise for the same graph, so its hash is a part of the key.
    parts.push(zellige_stamp::ENGINE.as_bytes().to_vec());
    Ok(content_hash(&parts.iter().map(Vec::as_slice).collect::<Vec<_>>()))
}

/// Compiles, checks and writes what only a program has; none where that was all.
fn compile_graph(
    args: &CompileArgs,
    options: &CompilerOptions,
    file: GraphFile,
) -> Result<Option<(CachedReport, Vec<String>)>> {
    let loaded = args.graph.load_from_file(file)?;
    if let Some(pass) = &args.pass {
        print_text(
            &print_pass(&loaded.graph, options, pass).map_err(|e| loaded.refusal_error(&e))?,
        )?;
        return Ok(None);
    }
    let progress = ProgressLine::for_steps(3);
    progress.begin_step("compiling");
    let program = loaded.compile_program(options)?;
    if args.check {
        progress.begin_step("checking");
        zellige_compile::check_program(&program).map_err(|e| loaded.refusal_error(&e))?;
    }
    if args.padding {
        progress.finish_bar();
        print_text(&padding::format_padding(&program))?;
        return Ok(None);
    }
    if let Some(tensor) = &args.explain {
        let explanation = explain_layout(&program, tensor).context("--explain")?;
        progress.finish_bar();
        match &args.json {
            Some(_) => print_json(&serde_json::to_string(&explanation)?)?,
            None => {
                let bundle = summary::describe_maker(&program, &explanation.tensor);
                print_text(&format!("{}{bundle}", format_explanation(&explanation)))?;
            }
        }
        return Ok(None);
    }
    let report = if args.compare {
        progress.begin_step("compiling under the baseline policy");
        report_compared(
            &program,
            &loaded.compile_program(&args.graph.options_for_policy(CompilePolicy::Baseline)?)?,
        )
    } else {
        report_program(&program)
    };
    let mut written = Vec::new();
    if let Some(path) = &args.trace {
        write_bytes(path, zellige_run::program_timeline(&program).to_chrome_trace().as_bytes())?;
        written.push(printable_path(path));
    }
    let mut text = summary::format_summary(&report);
    if let Some(folder) = &args.emit {
        progress.begin_step("emitting");
        // Emitted kernels are for the real card, which has no such format; without this note they would look as if
        // they could run.
        if program.buffers.iter().any(|b| b.laid.format() == Format::I64) {
            text.push_str(
                "int64 is kept in 64 bits, for which the card's kernels have no format: --int64 cast, or --profile card\n",
            );
        }
        let options =
            emit::EmitOptions { card_float: args.tile_float.into(), ..Default::default() };
        let emitted = emit::emit_program(&program, &options)?;
        write_folder(folder, emitted.paths_and_texts())?;
        written.push(format!("{} files below {}", emitted.files.len(), printable_path(folder)));
        // A large model may have the same refusal in every layer.
        for r in emitted.refused.iter().take(8) {
            text.push_str(&format!("not in {}: {}: {}\n", r.target, r.name, r.reason));
        }
        if emitted.refused.len() > 8 {
            text.push_str(&format!("and {} more\n", emitted.refused.len() - 8));
        }
    }
    progress.finish_bar();
    Ok(Some((CachedReport { text, json: serde_json::to_string(&report)? }, written)))
}

/// An explanation in words.
fn format_explanation(e: &LayoutExplanation) -> String {
    let mut text = match &e.view {
        Some(view) => format!("{view} is a view of {}, whose layout this is about\n", e.tensor),
        None => String::new(),
    };
    text.push_str(&format!("{} {}: {}\n", e.tensor, e.dtype, e.why));
    for o in &e.options {
        let mark = if o.chosen { "*" } else { " " };
        let cost = match (o.cost, o.extra_us, o.extra) {
            (None, ..) => "no plan".into(),
            // A difference of zero is printed without a sign, since `-0.00 us` would suggest that the other layout
            // is faster.
            (Some(_), Some(us), _) if o.chosen || us == 0.0 => "+0 us".into(),
            (Some(_), Some(us), _) => format!("{us:+.2} us"),
            (Some(cost), None, Some(extra)) => format!("{extra:+} ({cost} {})", e.unit),
            (Some(cost), ..) => format!("{cost} {}", e.unit),
        };
        text.push_str(&format!("{mark} {cost:>12}  {}\n", o.text));
        let device =
            format!("device_size={:?} stride_map={:?}", o.layout.device_size, o.layout.stride_map);
        text.push_str(&format!("{:16} {device}\n", ""));
        if let Some(why) = &o.refused {
            text.push_str(&format!("{:16} {why}\n", ""));
        }
        for m in &o.moves {
            text.push_str(&format!(
                "{:16} moves {} ({:.2} us): {}\n",
                "", m.tensor, m.us, m.reason
            ));
        }
    }
    text.push_str(
        "* is the layout of the program, the fastest that was tried; each cost is the least sum of costs\n\
         of the whole graph with this tensor held to that layout, beside the chosen one\n",
    );
    text
}
