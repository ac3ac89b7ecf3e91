//! `zellige ktir`

use crate::common::{print_as, print_text, printable_path, stderr_color};
use crate::exit_code::ExitCode;
use anyhow::{Context, Result, anyhow, bail};
use clap::Subcommand;
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use zellige_files::{
    ByteOrder, ContainerKind, DimensionOrder, NewTensor, make_folder, read_tensor_file, read_text,
    write_bytes, write_tensor_file,
};
use zellige_float::{Converter, Dtype};
use zellige_ktir::{
    DEFAULT_BYTES, DEFAULT_STEPS, KtirArray, KtirElem, KtirModule, KtirPipeline, KtirRun,
    KtirRunError, KtirRunOutcome, KtirScalar, text,
};
use zellige_machine::Hardware;
use zellige_notation::Diagnostic;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  zellige ktir check softmax.mlir
  zellige ktir run add.mlir --input x=a.npy --input y=b.npy --input z=c.npy --output out/")]
pub(crate) struct KtirArgs {
    #[command(subcommand)]
    command: KtirCommand,
}

#[derive(Subcommand)]
enum KtirCommand {
    /// Read and verify a module; list its kernels, or print the module
    Check(KtirCheckArgs),
    /// Run a kernel on the simulated cores
    Run(KtirRunArgs),
}

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  zellige ktir check softmax.mlir
  zellige ktir check softmax.mlir --print")]
struct KtirCheckArgs {
    /// The module
    file: PathBuf,
    /// Print the module as it was read, in the standard form
    #[arg(long)]
    print: bool,
    /// Write JSON instead of text
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
#[command(after_help = "\
Arrays are .npy files, or NAME of an .npz or .safetensors file: --input x=data.npz:x. Every array
argument is written to the output folder as the kernel left it. Floats of another format than the
kernel's views declare (float16 files for df16) are converted, and back in the output; other dtypes
that differ are refused. Cycles are simulated: they follow from
the kernel and the hardware preset.

Examples:
  zellige ktir check softmax.mlir
  zellige ktir run add.mlir --kernel add --input x=a.npy --input y=b.npy --input z=c.npy --output out/
  zellige ktir run norm.mlir --input x=x.npy --scalar eps=1e-5 --hardware card --trace norm.json")]
struct KtirRunArgs {
    /// The module
    file: PathBuf,
    /// The kernel (default: the only one)
    #[arg(long, value_name = "NAME")]
    kernel: Option<String>,
    /// An array argument, NAME=FILE
    #[arg(long, value_name = "NAME=FILE")]
    input: Vec<String>,
    /// A number argument, NAME=VALUE
    #[arg(long, value_name = "NAME=VALUE")]
    scalar: Vec<String>,
    /// The folder for the arrays after the run, as NAME.npy
    #[arg(long, short, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// The hardware: ktir, card, or a preset of your own
    #[arg(long, default_value = "ktir", value_name = "NAME|FILE.toml")]
    hardware: String,
    /// Bytes of memory that may be used from address 0, for kernels with addresses of their own
    #[arg(long, default_value_t = 0, value_name = "BYTES")]
    memory: usize,
    /// Steps that the run may take: operations of all cores, and every 64 elements they work on
    #[arg(long, default_value_t = DEFAULT_STEPS, value_name = "N")]
    limit_steps: u64,
    /// How compute, memory and communication overlap in the model ktir: serial, overlapped or overlapped_3way
    #[arg(long, default_value = "serial", value_name = "NAME")]
    pipeline: String,
    /// Let pass what ktir-cpu lets pass: reads beyond a view give zeros, writes beyond it are dropped, equal values
    /// stored by two cores are a warning, undeclared arguments are ignored
    #[arg(long)]
    compat: bool,
    /// Write the timeline for Perfetto or chrome://tracing
    #[arg(long, value_name = "FILE.json")]
    trace: Option<PathBuf>,
    /// Write JSON instead of text
    #[arg(long)]
    json: bool,
}

/// Bytes of a module's text at most.
const MOST_TEXT: u64 = 1 << 30;

/// Events of a trace at most.
// A loop over every element of a tensor would otherwise fill the memory with events that no viewer can show.
const MAX_TRACE_EVENTS: usize = 1_000_000;

/// Checks a module, or runs a kernel that may take so many bytes for arrays, tiles and everything that
/// grows with it.
pub(crate) fn run_ktir(args: &KtirArgs, memory: Option<u64>) -> Result<ExitCode> {
    match &args.command {
        KtirCommand::Check(args) => check_module(args),
        KtirCommand::Run(args) => execute_kernel(args, memory.unwrap_or(DEFAULT_BYTES)),
    }
}

fn load_module(path: &Path) -> Result<(String, KtirModule)> {
    let source = read_text(path, MOST_TEXT)?;
    let module = text::parse(&source).map_err(|d| underline_refusal(path, &source, &d))?;
    Ok((source, module))
}

/// The underlined place, with file, line and column.
fn underline_refusal(path: &Path, source: &str, d: &Diagnostic) -> anyhow::Error {
    let (line, column) = text::find_line_and_column(source, &d.span);
    anyhow!("{}\n at {}:{line}:{column}", d.render(source, stderr_color()), printable_path(path))
}

fn check_module(args: &KtirCheckArgs) -> Result<ExitCode> {
    let (_, module) = load_module(&args.file)?;
    if args.print {
        print_text(&text::print_module(&module))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut lines = Vec::new();
    let mut kernels = Vec::new();
    for f in &module.functions {
        let mut ops = 0_usize;
        f.body().visit_ops(&mut |_| ops += 1);
        let arg = |v: &zellige_ktir::KtirValue| {
            (f.value_def(*v).name.clone(), f.value_type(*v).to_string())
        };
        let args: Vec<(String, String)> = f.args().iter().map(arg).collect();
        let shown: Vec<String> = args.iter().map(|(n, t)| format!("{n}: {t}")).collect();
        let cores =
            if f.core_count() == 1 { "1 core".into() } else { format!("{} cores", f.core_count()) };
        lines.push(format!("@{}({}): {cores}, {ops} operations", f.name(), shown.join(", ")));
        let args: Vec<_> = args.iter().map(|(n, t)| json!({"name": n, "type": t})).collect();
        kernels.push(json!({
            "name": f.name(), "grid": f.grid(), "cores": f.core_count(), "arguments": args, "operations": ops,
        }));
    }
    let out = if args.json { json!({"kernels": kernels}).to_string() } else { lines.join("\n") };
    print_as(args.json, &out)?;
    Ok(ExitCode::SUCCESS)
}

fn execute_kernel(args: &KtirRunArgs, memory: u64) -> Result<ExitCode> {
    let (source, module) = load_module(&args.file)?;
    let kernel = match &args.kernel {
        Some(name) => name.clone(),
        None => match module.functions.as_slice() {
            [only] => only.name().to_string(),
            several => {
                let names: Vec<&str> = several.iter().map(|f| f.name()).collect();
                bail!("name the kernel with --kernel; there are {}", names.join(", "));
            }
        },
    };
    let hardware = Hardware::load_named(&args.hardware).context("--hardware")?;
    let pipeline = KtirPipeline::from_name(&args.pipeline).ok_or_else(|| {
        anyhow!("--pipeline {}: write serial, overlapped or overlapped_3way", args.pipeline)
    })?;
    let traced = if args.trace.is_some() { MAX_TRACE_EVENTS } else { 0 };
    let mut run = KtirRun::new(&module, &kernel)
        .with_hardware(hardware)
        .with_memory_bytes(args.memory)
        .with_pipeline(pipeline)
        .with_compatibility(args.compat)
        .with_trace_events(traced)
        .with_max_steps(args.limit_steps)
        .with_max_bytes(memory);
    let mut inputs = read_inputs(args, &module, &kernel)?;
    for (name, input) in &mut inputs {
        // The kernel works on these bytes themselves; the rest of the input says how to write them.
        let bytes = std::mem::take(&mut input.array.bytes);
        run = run.with_array(name, KtirArray { bytes, ..input.array.clone() });
    }
    for pair in &args.scalar {
        let (name, value) = split_name_value(pair, "--scalar", "n=4")?;
        let scalar = match (value.parse::<i64>(), value.parse::<f64>()) {
            // An integer first, because every integer is also a float, and an index argument accepts no float.
            (Ok(n), _) => KtirScalar::Int(n),
            (_, Ok(x)) => KtirScalar::Float(x),
            _ => bail!("--scalar {pair}: `{value}` is no number"),
        };
        run = run.with_scalar(name, scalar);
    }
    let outcome = run.execute_kernel().map_err(|e| run_error(&args.file, &source, &e))?;
    let notes = FloatConversion::list_conversions(&inputs);
    if let Some(folder) = &args.output {
        make_folder(folder)?;
        for (name, array) in &outcome.arrays {
            let path = folder.join(format!("{name}.npy"));
            // A file gets the dtype that the input had.
            // The user compares the output with the input, which is easiest in one dtype.
            let elem = inputs.get(name).map_or(array.elem, |input| input.file);
            let bytes = convert_floats(&array.bytes, array.elem, elem)?;
            let new = NewTensor::new(name.as_str(), dtype_of_elem(elem)?, array.shape.clone());
            write_tensor_file(&path, &[(new, &bytes)], ContainerKind::Npy)?;
        }
    }
    if let (Some(path), Some(timeline)) = (&args.trace, &outcome.timeline) {
        write_bytes(path, timeline.to_chrome_trace().as_bytes())?;
    }
    print_as(args.json, &report_outcome(&outcome, &notes, args.json))?;
    Ok(ExitCode::SUCCESS)
}

fn report_outcome(outcome: &KtirRunOutcome, conversions: &[FloatConversion], json: bool) -> String {
    if json {
        let mut report = outcome.to_json();
        report["conversions"] = conversions.iter().map(FloatConversion::to_json).collect();
        return report.to_string();
    }
    let mut text = outcome.to_string();
    for warning in &outcome.warnings {
        text.push_str(&format!("\nwarning: {warning}"));
    }
    for c in conversions {
        text.push_str(&format!("\n{c}"));
    }
    text
}

/// An array argument, with the elements that the kernel reads.
struct KernelInput {
    /// The elements of its file.
    file: KtirElem,
    array: KtirArray,
}

/// The arrays of a run by the names of arguments. Floats are converted to the format that the kernel's
/// views declare; anything else that differs is refused.
fn read_inputs(
    args: &KtirRunArgs,
    module: &KtirModule,
    kernel: &str,
) -> Result<BTreeMap<String, KernelInput>> {
    let mut inputs = BTreeMap::new();
    for pair in &args.input {
        let (name, file) = split_name_value(pair, "--input", "x=data.npy")?;
        let array = read_array(file).with_context(|| format!("--input {name}"))?;
        inputs.insert(name.to_string(), KernelInput { file: array.elem, array });
    }
    let names: Vec<&str> = inputs.keys().map(String::as_str).collect();
    for (name, elems) in module.view_elements(kernel, &names) {
        let Some(input) = inputs.get_mut(&name) else { continue };
        // The same format under another name has the same bytes, so nothing is converted.
        if elems.iter().any(|e| e.format() == input.file.format()) {
            continue;
        }
        // A kernel that views one array in two formats depends on the bytes, which a conversion would change.
        let [wanted] = elems[..] else {
            let known: Vec<&str> = elems.iter().map(|e| e.name()).collect();
            let file = dtype_of_elem(input.file)?;
            bail!(
                "--input {name}: it holds {file}, and the kernel has views of it as {}",
                known.join(" and ")
            );
        };
        input.array.bytes = convert_floats(&input.array.bytes, input.file, wanted)
            .with_context(|| format!("--input {name}"))?;
        input.array.elem = wanted;
    }
    Ok(inputs)
}

/// Elements in another float format.
fn convert_floats(bytes: &[u8], from: KtirElem, to: KtirElem) -> Result<Vec<u8>> {
    if from == to {
        return Ok(bytes.to_vec());
    }
    if !from.is_float() || !to.is_float() {
        let accepted = dtype_of_elem(to).map_or("a float dtype".to_string(), |d| d.to_string());
        bail!("it holds {}, and the kernel reads {to}: give {accepted}", dtype_of_elem(from)?);
    }
    let count = bytes.len() / from.byte_size();
    let mut converted = vec![0; count * to.byte_size()];
    Converter::new(from.format(), to.format()).convert(bytes, &mut converted, count)?;
    Ok(converted)
}

/// An argument whose file has other floats than the kernel.
struct FloatConversion {
    argument: String,
    file: KtirElem,
    kernel: KtirElem,
}

impl FloatConversion {
    fn list_conversions(inputs: &BTreeMap<String, KernelInput>) -> Vec<FloatConversion> {
        let of = |(name, i): (&String, &KernelInput)| FloatConversion {
            argument: name.clone(),
            file: i.file,
            kernel: i.array.elem,
        };
        inputs.iter().filter(|(_, i)| i.file != i.array.elem).map(of).collect()
    }

    fn to_json(&self) -> serde_json::Value {
        json!({"argument": self.argument, "file": self.file.name(), "kernel": self.kernel.name()})
    }
}

impl fmt::Display for FloatConversion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FloatConversion { argument, file, kernel } = self;
        write!(f, "{argument}: {file} in its file, converted to the kernel's {kernel} and back")
    }
}

/// An error of the run, at its place where it has one.
fn run_error(path: &Path, source: &str, e: &KtirRunError) -> anyhow::Error {
    if e.op.is_some() {
        underline_refusal(path, source, &e.to_diagnostic())
    } else {
        let message = e.to_string();
        // The library knows arguments and no options.
        if message.contains(" is missing; it is ") {
            return anyhow!(
                "{message}\ngive --input NAME=FILE for an array, --scalar NAME=VALUE for a number"
            );
        }
        anyhow!(message)
    }
}

fn split_name_value<'a>(pair: &'a str, option: &str, example: &str) -> Result<(&'a str, &'a str)> {
    pair.split_once('=').ok_or_else(|| anyhow!("{option} {pair}: write NAME=.., such as {example}"))
}

fn read_array(file: &str) -> Result<KtirArray> {
    let (path, name) = match file.rsplit_once(':') {
        // A path may contain a colon itself; then the file exists under the whole text.
        Some((path, name)) if !Path::new(file).exists() => (path, Some(name)),
        _ => (file, None),
    };
    let (info, bytes) = read_tensor_file(path, name)?;
    if info.dimension_order() != DimensionOrder::RowMajor || info.byte_order() != ByteOrder::Little
    {
        bail!("the array is not row-major and little-endian; `zellige move` rewrites it");
    }
    let elem = KtirElem::ALL
        .into_iter()
        .find(|e| *e != KtirElem::Index && dtype_of_elem(*e).is_ok_and(|d| d == info.dtype()))
        .ok_or_else(|| anyhow!("KTIR has no elements of dtype {}", info.dtype()))?;
    Ok(KtirArray { elem, shape: info.shape().to_vec(), bytes })
}

fn dtype_of_elem(elem: KtirElem) -> Result<Dtype> {
    Ok(match elem {
        KtirElem::F16 => Dtype::Float16,
        KtirElem::F32 => Dtype::Float32,
        KtirElem::BF16 => Dtype::Bfloat16,
        KtirElem::F8E4M3 => Dtype::Float8E4m3fn,
        KtirElem::F8E5M2 => Dtype::Float8E5m2,
        KtirElem::I1 => Dtype::Bool,
        KtirElem::I8 => Dtype::Int8,
        KtirElem::I16 => Dtype::Int16,
        KtirElem::I32 => Dtype::Int32,
        KtirElem::I64 | KtirElem::Index => Dtype::Int64,
        // The 16-bit format of the card has no dtype in NumPy or safetensors, so an array of it is written as the
        // dtype that its input had.
        KtirElem::DF16 => bail!("files hold no {elem}"),
    })
}
