//! `zellige eager`

mod operand;
mod report;

use crate::card::{CardArgs, WorkArgs, parse_layout_request};
use crate::chart;
use crate::common::{print_as, printable_path};
use crate::exit_code::ExitCode;
use crate::near_misses::parse_dtype;
use crate::profile::warn_of_narrowing;
use crate::progress::ProgressLine;
use anyhow::{Context, Result, anyhow, bail};
use operand::EagerOperand;
use report::EagerReport;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};
use zellige_device::RunOp;
use zellige_device::{Card, StreamId, Tensor};
use zellige_files::{ContainerKind as FileKind, ContainerWriter, NewTensor, write_bytes};
use zellige_machine::WorkKind;
use zellige_notation::make_visible;
use zellige_op::TensorOp;
use zellige_stick::LayoutRequest;

#[derive(clap::Args)]
#[command(after_help = "\
An input is FILE.npy, FILE.npz:NAME, FILE.safetensors:NAME or a number: 2 is int64, 2.5 float32, true
bool. Attributes are JSON: --attr dim=0, --attr dims=[0,1], --attr approximate=tanh. Times are
simulated: they follow from the hardware preset and the plan.

Examples:
  zellige eager add a.npy b.npy -o c.npy
  zellige eager add a.npy 2.5 -o c.npy --cores 8 --mode ieee
  zellige eager index_select x.npy rows.npy --attr dim=0 -o y.npy --profile card
  zellige eager add a.npy b.npy --layout default --layout stick=0 --trace t.json --timeline t.svg
  zellige eager --list")]
pub(crate) struct EagerArgs {
    /// The operation
    #[arg(required_unless_present = "list")]
    op: Option<String>,
    /// Its operands: files or numbers
    #[arg(allow_negative_numbers = true)]
    inputs: Vec<String>,
    /// The file for a result: .npy, .npz or .safetensors, once for every result
    #[arg(short, long, value_name = "OUT")]
    output: Vec<PathBuf>,
    /// An attribute, NAME=VALUE
    #[arg(long = "attr", value_name = "NAME=VALUE")]
    attributes: Vec<String>,
    /// The layout of an input, in their order: default, stick=DIM, order=0,1 or Spyre notation
    #[arg(long, value_name = "LAYOUT")]
    layout: Vec<String>,
    /// The dtype of files on the device, by its PyTorch name (default: as in the file)
    #[arg(long)]
    dtype: Option<String>,
    #[command(flatten)]
    card: CardArgs,
    #[command(flatten)]
    work: WorkArgs,
    /// Write the timeline for Perfetto or chrome://tracing
    #[arg(long, value_name = "FILE.json")]
    trace: Option<PathBuf>,
    /// Draw the timeline
    #[arg(long, value_name = "FILE.svg|png")]
    timeline: Option<PathBuf>,
    /// List the operations with their operands and attributes
    #[arg(long)]
    list: bool,
    /// Write JSON instead of text
    #[arg(long)]
    json: bool,
}

/// Events of a timeline at most; a run of one operation has a few hundred.
const MAX_TIMELINE_EVENTS: usize = 1_000_000;

pub(crate) fn run_eager(args: &EagerArgs) -> Result<ExitCode> {
    if args.list {
        print_as(args.json, &report::list_operations(args.json))?;
        return Ok(ExitCode::SUCCESS);
    }
    let name = args.op.as_deref().unwrap_or_default();
    let listed = "`zellige eager --list` lists operations and attributes";
    let op = TensorOp::new(name, &parse_attributes(&args.attributes)?)
        .map_err(|e| anyhow!("{e}\n{listed}"))?;
    // Before any file is read: a wrong number of operands should not cost an upload.
    op.row().check_count(args.inputs.len())?;
    let requests = input_layouts(args)?;
    let dtype = args.dtype.as_deref().map(parse_dtype).transpose().context("--dtype")?;
    let traced = args.trace.is_some() || args.timeline.is_some();
    let builder = args.work.configure_card(args.card.card_builder()?)?;
    // Events cost memory, so the card records them only where somebody looks at them.
    let card = builder.trace_events(if traced { MAX_TIMELINE_EVENTS } else { 0 }).build()?;
    // Before the run, because an output with an unknown ending should not cost the computation.
    let kinds =
        args.output.iter().map(|p| FileKind::from_path(p)).collect::<Result<Vec<_>, _>>()?;

    let progress = ProgressLine::for_steps(2 + args.inputs.len() as u64 + args.output.len() as u64);
    let mut report = EagerReport::default();
    let (mut tensors, mut from_files) = (Vec::new(), Vec::<Tensor>::new());
    for (text, request) in args.inputs.iter().zip(&requests) {
        progress.begin_step(&format!("uploading {text}"));
        let operand = EagerOperand::open_operand(text)?;
        let (tensor, moved) = operand
            .upload_operand(&card, dtype, request.as_ref())
            .with_context(|| format!("input {text}"))?;
        let work = moved.device_work(
            format!("upload {}", make_visible(operand.name())),
            WorkKind::Upload,
            1,
        );
        report.steps.push(card.account_work(StreamId::DEFAULT, &work)?);
        // A number that is written out has no bits to lose without being refused.
        if matches!(operand, EagerOperand::File(_)) {
            from_files.push(tensor.clone());
        }
        tensors.push(tensor);
    }
    warn_of_narrowing(from_files.iter().map(|t| &**t));
    // Second handles of the same blocks: while they live, dropping `tensors` below would free nothing.
    drop(from_files);
    progress.begin_step(name);
    let ran = op.run_op(&card, &tensors)?;
    // Operands are not needed any more, and downloading the results needs memory of the host.
    drop(tensors);
    report.steps.extend(ran.receipts);
    if !args.output.is_empty() && args.output.len() != ran.outputs.len() {
        let (given, results) = (args.output.len(), ran.outputs.len());
        bail!(
            "{name} gives {results} result{}, and {given} were named with -o; name every one, or none",
            if results == 1 { "" } else { "s" }
        );
    }
    // Every file is begun before one is completed: what cannot be written stops all of them.
    let mut files = Vec::new();
    for ((path, kind), tensor) in args.output.iter().zip(kinds).zip(&ran.outputs) {
        progress.begin_step(&format!("downloading {}", printable_path(path)));
        files.push(begin_download(path, kind, tensor, &card, &mut report)?);
    }
    progress.begin_step("writing");
    if let Some(path) = &args.trace {
        write_bytes(path, card.recorded_timeline().to_chrome_trace().as_bytes())?;
    }
    if let Some(path) = &args.timeline {
        let inputs = args.inputs.join(" ");
        let title = format!("{name} {inputs} on {}", card.hardware().name());
        let drawing =
            chart::chart_timeline(&card.recorded_timeline(), title, report.total_line(&card));
        write_bytes(path, &chart::render_chart_file(&drawing, path)?)?;
    }
    files.into_iter().try_for_each(ContainerWriter::finish_and_settle)?;
    progress.finish_bar();
    let names = args.output.iter().map(|p| printable_path(p));
    let names: Vec<String> =
        names.chain(std::iter::repeat(String::new())).take(ran.outputs.len()).collect();
    let text = report.render_report(&card, &ran.division, &names, &ran.outputs, args.json);
    print_as(args.json, &text)?;
    Ok(ExitCode::SUCCESS)
}

/// Downloads a result into a file that has no name yet.
fn begin_download(
    path: &Path,
    kind: FileKind,
    tensor: &Tensor,
    card: &Card,
    report: &mut EagerReport,
) -> Result<ContainerWriter> {
    let (bytes, moved) = tensor.download_with_traffic(tensor.dtype())?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let work =
        moved.device_work(format!("download {}", make_visible(&name)), WorkKind::Download, 1);
    report.steps.push(card.account_work(StreamId::DEFAULT, &work)?);
    let new = NewTensor::new(name, tensor.dtype(), tensor.size());
    let writer = ContainerWriter::create(path, &[new], kind)?;
    writer.write_at(0, 0, &bytes)?;
    Ok(writer)
}

/// `NAME=VALUE` as a JSON object; a value that is no JSON is a text.
fn parse_attributes(list: &[String]) -> Result<Value> {
    let mut map = Map::new();
    for text in list {
        let Some((name, value)) = text.split_once('=').filter(|(name, _)| !name.is_empty()) else {
            bail!("--attr {text}: write NAME=VALUE, such as dim=0");
        };
        // Words such as `approximate=tanh` need no quotation marks, which a shell would remove.
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
        if map.insert(name.to_owned(), value).is_some() {
            bail!("--attr {text}: `{name}` is given twice");
        }
    }
    Ok(Value::Object(map))
}

/// One layout for every input, by default the default layout of its size.
fn input_layouts(args: &EagerArgs) -> Result<Vec<Option<LayoutRequest>>> {
    let (given, inputs) = (args.layout.len(), args.inputs.len());
    if given > inputs {
        bail!("{given} layouts for {inputs} inputs; --layout is given at most once for each");
    }
    let read =
        |text: &String| parse_layout_request(text).with_context(|| format!("--layout {text}"));
    let mut requests = args.layout.iter().map(read).collect::<Result<Vec<_>>>()?;
    requests.resize_with(inputs, Option::default);
    Ok(requests)
}
