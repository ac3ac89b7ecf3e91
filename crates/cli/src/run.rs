//! `zellige run`

mod inputs;
mod losses;
mod outputs;

use crate::common::print_text;
use crate::compile::summary;
use crate::exit_code::ExitCode;
use crate::graph::GraphArgs;
use crate::profile::warn_of_narrowing;
use crate::progress::ProgressLine;
use anyhow::{Result, anyhow, bail};
use inputs::RunInputs;
use std::path::PathBuf;
use zellige_compile::report::report_program;
use zellige_device::Card;
use zellige_run::{LoadedModel, program_timeline, run_graph_eagerly};
use zellige_view::page;

#[derive(clap::Args)]
#[command(after_help = "\
The graph is compiled, loaded onto the simulated card and run once; a launch that differs from its
plan is an error. The weights of an .onnx model are those of its file. Inputs and weights that
are not given are random numbers from the seed, so that any graph runs. Numbers that are past what the
card holds, and steps that make a NaN of numbers, are warned about once for every tensor.

Examples:
  zellige run examples/llama-block.graph
  zellige run examples/softmax.graph --input x=x.npy --output y.npy
  zellige run model.graph --weights model.safetensors --input tokens=t.npy --output out/
  zellige run examples/onnx/mlp.onnx --bind batch=4 --input x=x.npy --output y.npy
  zellige run examples/llama-block.graph --verify

An input of an .onnx model that sizes follow from (a shape, axes, a number of iterations) is read when the model
is compiled: `--input shape=shape.npy` does that where it is needed, and the report names it.")]
pub(crate) struct RunArgs {
    #[command(flatten)]
    graph: GraphArgs,
    /// An input: NAME=FILE.npy, NAME=FILE.npz:ENTRY or NAME=FILE.safetensors:ENTRY
    #[arg(long, value_name = "NAME=FILE")]
    input: Vec<String>,
    /// Weights and states by their names: .safetensors or .npz
    #[arg(long = "load", alias = "weights-from", value_name = "FILE")]
    load: Option<PathBuf>,
    /// The seed of random inputs and weights
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// The files for results: a folder that ends with /, or NAME=FILE.npy, or FILE.npy of a single one
    #[arg(long, short, value_name = "DIR/|NAME=FILE")]
    output: Vec<String>,
    /// Compare with the same operations run one by one, without the compiler
    #[arg(long)]
    verify: bool,
    /// Write the report as one web page
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Write the report as JSON
    #[arg(long, value_name = "FILE.json")]
    json: Option<PathBuf>,
    /// Write the timeline for Perfetto or chrome://tracing
    #[arg(long, value_name = "FILE.json")]
    trace: Option<PathBuf>,
}

pub(crate) fn run_graph(args: &RunArgs) -> Result<ExitCode> {
    let loaded = args.graph.load_with_inputs(&args.input)?;
    let options = args.graph.compile_options()?;
    let mut inputs = RunInputs::new(&loaded, &args.input, args.load.as_deref(), args.seed)?;
    // The names of outputs are checked before the run, which may take minutes.
    let targets = outputs::output_targets(&loaded.graph, &args.output)?;
    let progress = ProgressLine::for_steps(if args.verify { 5 } else { 4 });
    progress.begin_step("compiling");
    let program = loaded.compile_program(&options)?;
    // A card for each of the two runs, because the second one must not find tensors of the first.
    let card = || {
        let builder =
            Card::builder().hardware(options.hardware.clone()).float_mode(options.storage.mode);
        builder
            .keep_dtypes(options.storage.keep)
            .profile(options.coverage)
            .core_count(options.cores)
            .build()
    };
    progress.begin_step("loading");
    let device = card()?;
    let mut model = LoadedModel::load_program(program, &device, |name| inputs.get(name))?;
    for state in inputs.given_states() {
        let host = inputs.get(&state)?;
        model.set_state(&state, &host)?;
    }
    progress.begin_step("running");
    let ran = model.run_program(|name| inputs.get(name))?;
    let results: Vec<outputs::ResultSummary> = loaded
        .graph
        .outputs()
        .iter()
        .zip(&ran.outputs)
        .map(|(id, host)| outputs::summarize_result(&loaded.graph.get(*id).name, host))
        .collect::<Result<_>>()?;
    let verified = if args.verify {
        progress.begin_step("running one by one");
        let expected = run_graph_eagerly(&loaded.graph, &card()?, |name| inputs.get_or_zero(name))?;
        Some(outputs::compare_results(&results, &expected)?)
    } else {
        None
    };
    progress.begin_step("writing");
    if let Some(path) = &args.trace {
        zellige_files::write_bytes(
            path,
            program_timeline(model.program()).to_chrome_trace().as_bytes(),
        )?;
    }
    outputs::write_outputs(&targets, &results, &ran.outputs)?;
    let mut report = report_program(model.program());
    report.notes.extend(losses::loss_notes(&loaded.graph, model.number_losses()));
    if let Some(path) = &args.report {
        zellige_files::write_bytes(path, page::render_page(&report).as_bytes())?;
    }
    if let Some(path) = &args.json {
        zellige_files::write_bytes(path, serde_json::to_string(&report)?.as_bytes())?;
    }
    progress.finish_bar();
    warn_of_narrowing(model.program().input_layouts());
    losses::warn_of_losses(model.number_losses());
    let mut text = summary::format_summary(&report);
    text.push_str(&format!(
        "\nran in {} simulated; loading the weights took {}, inputs {} and outputs {} over the link\n",
        ran.latency,
        model.load_time(),
        ran.upload,
        ran.download
    ));
    for origin in inputs.describe_sources() {
        text.push_str(&format!("  {origin}\n"));
    }
    text.push_str("\nresults\n");
    for (i, r) in results.iter().enumerate() {
        // Eight lines are read; the files hold all results.
        if i == 8 {
            text.push_str(&format!("  and {} more\n", results.len() - i));
            break;
        }
        text.push_str(&format!("  {}\n", r.text));
    }
    match &verified {
        Some(Ok(agreement)) => text.push_str(&format!("\nverified: {agreement}\n")),
        Some(Err(difference)) => {
            print_text(&text)?;
            bail!("not verified: {difference}");
        }
        None => {}
    }
    print_text(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// A name and what stands behind `=`.
fn split_name_value<'a>(flag: &str, text: &'a str) -> Result<(&'a str, &'a str)> {
    text.split_once('=')
        .filter(|(n, f)| !n.is_empty() && !f.is_empty())
        .ok_or_else(|| anyhow!("{flag} {text}: write NAME=FILE"))
}
