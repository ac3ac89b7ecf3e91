//! The graph that a subcommand compiles, and how, from the words of the command line.

use crate::card::parse_layout_request;
use crate::common::printable_path;
use crate::profile::{ProfileArgs, env_variable};
use anyhow::{Context, Result, anyhow, bail};
use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::PathBuf;
use zellige_compile::CompilePolicy;
use zellige_compile::report::report_refusal;
use zellige_compile::solve::memory::PlacementPolicy;
use zellige_compile::{
    CompileError, CompiledProgram, CompilerOptions, OutputLayoutRule, WeightLayoutRule,
    compile_graph,
};
use zellige_files::{HostTensor, read_text};
use zellige_graph::{Graph, GraphFormat, GraphSource, RequestedMemory, SourceOp, json, text};
use zellige_layout::StridedLayout;
use zellige_machine::{Hardware, parse_sencores};
use zellige_notation::Diagnostic;
use zellige_onnx::{ImportedModel, ImportedWeight, InputConstant, ModelFile};
use zellige_stick::LayoutRequest;

/// A graph and the options of its compilation.
#[derive(clap::Args)]
pub(crate) struct GraphArgs {
    /// The graph: a .graph text, its .json, or an .onnx model
    pub(crate) graph: PathBuf,
    /// How layouts and divisions are decided: best, or baseline for the rules of torch-spyre (as of mid 2026)
    #[arg(long, default_value = "best")]
    policy: String,
    #[command(flatten)]
    profile: ProfileArgs,
    /// Cores that work is divided over (default: SENCORES, else all)
    #[arg(long)]
    cores: Option<usize>,
    /// The hardware: card, card-2026-05, card-2026-09, ktir, or a preset of your own
    #[arg(long, default_value = "card", value_name = "NAME|FILE.toml")]
    hardware: String,
    /// How 16-bit floats are stored: dl16 as on the card, ieee to keep the bits of the host
    #[arg(long, default_value = "dl16")]
    mode: String,
    /// Layouts of weights: free for the compiler to choose, or given by default
    #[arg(long, value_name = "free|given")]
    weights: Option<String>,
    /// Layouts of outputs: default, or computed to leave them as they are
    #[arg(long, default_value = "default", value_name = "default|computed")]
    outputs: String,
    /// Refuse operand layouts that torch-spyre refuses, instead of repairing them by a move
    #[arg(long)]
    strict: bool,
    /// Keep nothing in scratchpads
    #[arg(long)]
    no_lx: bool,
    /// One operation after the other, never two at the same time, as in bundles anyway
    #[arg(long)]
    one_by_one: bool,
    /// The value of a symbol of the graph; others take their largest, but those of .onnx have none. Or the
    /// elements of an input of an .onnx model that sizes follow from: NAME=FILE.npy
    #[arg(long, value_name = "SYMBOL=VALUE|NAME=FILE")]
    bind: Vec<String>,
    /// Pin a tensor: NAME=stick:1, NAME=order:1,0, NAME=sparse or NAME=SpyreTensorLayout(..)
    #[arg(long, value_name = "TENSOR=LAYOUT")]
    pin: Vec<String>,
    /// Place a tensor in a memory of the card: NAME=lx (the scratchpads) or NAME=memory. One that cannot be in the
    /// scratchpads is an error with the reason
    #[arg(long, value_name = "TENSOR=MEMORY")]
    place: Vec<String>,
}

/// Bytes of a graph's text at most.
// A limit of the text, because a graph is read whole; the weights of a model are not in it.
const MOST_TEXT: u64 = 1 << 30;

/// The file of a graph as it was read, once.
pub(crate) enum GraphFile {
    Text { form: GraphFormat, content: String },
    Model(Box<(ModelFile, ImportedModel)>),
}

impl GraphFile {
    /// What of it decides how it is compiled.
    pub(crate) fn cache_content(&self) -> Vec<Vec<u8>> {
        match self {
            GraphFile::Text { form, content } => {
                vec![format!("{form:?}").into_bytes(), content.clone().into_bytes()]
            }
            // Of a model, the graph without the weights: only that is compiled.
            GraphFile::Model(model) => {
                vec![b"model".to_vec(), text::print_graph(&model.1.graph).into_bytes()]
            }
        }
    }
}

/// A graph and the text it came from.
pub(crate) struct LoadedGraph {
    pub(crate) graph: Graph,
    source: GraphSource,
    /// None of JSON and ONNX files, whose errors have no places in a text.
    text: Option<String>,
    /// The file of an ONNX model and the weights in it.
    pub(crate) model: Option<(ModelFile, Vec<ImportedWeight>)>,
    /// Inputs of an ONNX model that became constants.
    pub(crate) bound: Vec<String>,
}

impl GraphArgs {
    /// What the command line changes in the graph of the file.
    pub(crate) fn graph_changes(&self) -> String {
        format!("{:?} {:?} {:?}", self.bind, self.pin, self.place)
    }

    /// Reads the file.
    pub(crate) fn read_graph_file(&self) -> Result<GraphFile> {
        self.read_with_inputs(&[])
    }

    /// The same with files for inputs of a model, as NAME=FILE. A file is read only where sizes depend on it.
    fn read_with_inputs(&self, inputs: &[String]) -> Result<GraphFile> {
        let name = printable_path(&self.graph);
        let form = GraphFormat::detect_file_format(&self.graph)
            .map_err(|e| anyhow!("{name}: {e}; a graph is a .graph text, its .json, or .onnx"))?;
        if form == GraphFormat::Onnx {
            let values = self.symbol_values()?;
            let file = ModelFile::open(&self.graph).with_context(|| name.clone())?;
            let mut given = BTreeMap::new();
            for text in self.bind.iter().filter(|b| parse_symbol(b).is_err()) {
                let (name, constant) =
                    read_constant(text).with_context(|| format!("--bind {text}"))?;
                given.insert(name, constant);
            }
            // An import may need the elements of an input to know a size, and only then. The loop adds what the
            // refusal names and tries again, so that no other input is read; it ends because every turn adds one.
            let imported = loop {
                let refused = match file.import_graph_with(&values, &given) {
                    Ok(imported) => break imported,
                    Err(e) => e,
                };
                let missing = refused.needed_inputs().iter().filter(|n| !given.contains_key(*n));
                let files: Vec<&String> = missing
                    .filter_map(|n| inputs.iter().find(|i| name_before_equals(i) == Some(n)))
                    .collect();
                // Nothing that is at hand would help, so the refusal is the answer.
                if files.is_empty() {
                    return Err(refused).context(name);
                }
                for text in files {
                    let (name, constant) =
                        read_constant(text).with_context(|| format!("--input {text}"))?;
                    given.insert(name, constant);
                }
            };
            return Ok(GraphFile::Model(Box::new((file, imported))));
        }
        Ok(GraphFile::Text { form, content: read_text(&self.graph, MOST_TEXT)? })
    }

    /// Reads the graph, pins and binds. Inputs of a model may be at hand: NAME=FILE.
    pub(crate) fn load_with_inputs(&self, inputs: &[String]) -> Result<LoadedGraph> {
        self.load_from_file(self.read_with_inputs(inputs)?)
    }

    /// The same of a file that was read.
    pub(crate) fn load_from_file(&self, file: GraphFile) -> Result<LoadedGraph> {
        let name = printable_path(&self.graph);
        let (form, content) = match file {
            GraphFile::Text { form, content } => (form, content),
            GraphFile::Model(model) => {
                let (file, imported) = *model;
                return self.load_model(file, imported).context(name);
            }
        };
        // The places of JSON are fields and not characters, so its errors name them without an underlined text.
        let is_json = form == GraphFormat::Json;
        let mut source = if is_json {
            json::parse_source(&content).map_err(|e| anyhow!("{name}: {e}"))?
        } else {
            text::parse_source(&content).map_err(|d| rendered_error(&d, &content))?
        };
        self.apply_pins(&mut source)?;
        let graph =
            source.bind_symbols(&self.symbol_values()?).map_err(|e| match (is_json, &e.span) {
                (false, Some(_)) => rendered_error(&text::to_diagnostic(&e), &content),
                _ => anyhow!("{name}: {e}"),
            })?;
        Ok(LoadedGraph {
            graph,
            source,
            text: (!is_json).then_some(content),
            model: None,
            bound: vec![],
        })
    }

    /// Adds the layouts and places of the command line.
    fn apply_pins(&self, source: &mut GraphSource) -> Result<()> {
        for pin in &self.pin {
            pin_tensor(source, pin).with_context(|| format!("--pin {pin}"))?;
        }
        for place in &self.place {
            place_tensor(source, place).with_context(|| format!("--place {place}"))?;
        }
        Ok(())
    }

    /// The values of symbols.
    fn symbol_values(&self) -> Result<BTreeMap<String, i64>> {
        let model =
            GraphFormat::detect_file_format(&self.graph).is_ok_and(|f| f == GraphFormat::Onnx);
        let file =
            |b: &&String| model && parse_symbol(b).is_err() && name_before_equals(b).is_some();
        self.bind.iter().filter(|b| !file(b)).map(|b| parse_symbol(b)).collect()
    }

    /// The graph of an ONNX model; its weights stay in the file.
    fn load_model(&self, file: ModelFile, imported: ImportedModel) -> Result<LoadedGraph> {
        let (mut graph, mut source) = (imported.graph, GraphSource::default());
        if !self.pin.is_empty() || !self.place.is_empty() {
            // Only with pins: writing the graph as a source and reading it again would cost time for a model with
            // thousands of operations.
            source = graph.to_source();
            self.apply_pins(&mut source)?;
            graph = source.bind_symbols(&BTreeMap::new())?;
        }
        let (model, bound) = (Some((file, imported.weights)), imported.bound);
        Ok(LoadedGraph { graph, source, text: None, model, bound })
    }

    /// The options of the compiler.
    pub(crate) fn compile_options(&self) -> Result<CompilerOptions> {
        let policy =
            parse_word("--policy", &self.policy, "best or baseline", CompilePolicy::from_name)?;
        self.options_for_policy(policy)
    }

    /// The same under another policy.
    pub(crate) fn options_for_policy(&self, policy: CompilePolicy) -> Result<CompilerOptions> {
        let mut options = match policy {
            CompilePolicy::Best => CompilerOptions::default(),
            CompilePolicy::Baseline => CompilerOptions::baseline(),
        };
        options.hardware = Hardware::load_named(&self.hardware).context("--hardware")?;
        // The profile comes first, because the flags below change single settings of it.
        options = options.with_profile(self.profile.card_profile()?);
        options.storage.mode = self.mode.parse().context("--mode")?;
        options.storage.keep = self.profile.kept_dtypes()?;
        if let Some(weights) = &self.weights {
            options.weights = parse_word("--weights", weights, "free or given", |w| match w {
                "free" => Some(WeightLayoutRule::Free),
                "given" => Some(WeightLayoutRule::Given),
                _ => None,
            })?;
        }
        options.outputs =
            parse_word("--outputs", &self.outputs, "default or computed", |w| match w {
                "default" => Some(OutputLayoutRule::Default),
                "computed" => Some(OutputLayoutRule::AsComputed),
                _ => None,
            })?;
        options = options.with_variables(env_variable)?;
        options.strict = self.strict;
        if self.no_lx {
            options.scratchpads = None::<PlacementPolicy>;
        }
        if self.one_by_one {
            options.concurrent = false;
        }
        options.cores = match (self.cores, std::env::var_os("SENCORES")) {
            (Some(cores), _) => cores,
            (None, Some(value)) => parse_sencores(&value.to_string_lossy())?,
            (None, None) => options.hardware.core_count(),
        };
        Ok(options)
    }
}

impl LoadedGraph {
    /// Compiles; a refusal underlines its operation and names a remedy.
    pub(crate) fn compile_program(&self, options: &CompilerOptions) -> Result<CompiledProgram> {
        compile_graph(&self.graph, options).map_err(|e| self.refusal_error(&e))
    }

    pub(crate) fn refusal_error(&self, e: &CompileError) -> anyhow::Error {
        let note = report_refusal(e, &self.graph);
        let at = note.at.map(|at| format!(" (at {at})")).unwrap_or_default();
        // The remedy stands on a line of its own, as it is what a reader looks for first.
        let help = note.remedy.map(|r| format!("\nhelp: {r}")).unwrap_or_default();
        let message = format!("{}{at}", note.text);
        let op =
            note.name.and_then(|name| self.source.ops.iter().find(|o| o.outputs.contains(&name)));
        match (&self.text, op) {
            (Some(text), Some(op)) if !op.span.is_empty() => {
                let d = Diagnostic::syntax_error(op.span.clone(), message, "this operation")
                    .with_id("Z101");
                anyhow!("{}{help}", d.render(text, wants_color()).trim_end())
            }
            _ => anyhow!("{message}{help}"),
        }
    }
}

fn wants_color() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none()
}

fn rendered_error(d: &Diagnostic, text: &str) -> anyhow::Error {
    anyhow!("{}", d.render(text, wants_color()))
}

fn parse_word<T>(
    flag: &str,
    given: &str,
    accepted: &str,
    f: impl Fn(&str) -> Option<T>,
) -> Result<T> {
    f(given).ok_or_else(|| anyhow!("{flag} {given}: accepted are {accepted}"))
}

/// The name in front of `=`.
fn name_before_equals(text: &str) -> Option<&str> {
    text.split_once('=').map(|(name, _)| name.trim()).filter(|name| !name.is_empty())
}

/// An input of a model and its elements, from NAME=FILE.
fn read_constant(text: &str) -> Result<(String, InputConstant)> {
    let Some((name, file)) = text.split_once('=') else {
        bail!("write SYMBOL=VALUE, such as s=128, or NAME=FILE.npy");
    };
    let host = HostTensor::parse(file)?;
    let view = host.strided_layout()?;
    // Sizes follow from the elements in their logical order, which the bytes of the file must therefore have.
    if view != StridedLayout::new_contiguous(view.size())? {
        bail!("its elements are not in row-major order; store them so");
    }
    let (size, dtype) = (view.size().to_vec(), host.info().dtype());
    Ok((name.trim().into(), InputConstant { size, dtype, bytes: host.read_bytes()? }))
}

fn parse_symbol(text: &str) -> Result<(String, i64)> {
    let value = text
        .split_once('=')
        .and_then(|(n, v)| Some((n.trim().to_string(), v.trim().parse().ok()?)));
    value.ok_or_else(|| anyhow!("--bind {text}: write SYMBOL=VALUE, such as s=128"))
}

/// Places an input or the first result of an operation in a memory.
fn place_tensor(source: &mut GraphSource, text: &str) -> Result<()> {
    let place =
        text.split_once('=').and_then(|(name, m)| Some((name, RequestedMemory::from_name(m)?)));
    let Some((name, place)) = place else { bail!("write TENSOR=lx or TENSOR=memory") };
    let input = source.inputs.iter_mut().find(|i| i.name == name).map(|i| &mut i.place);
    let result = |o: &&mut SourceOp| o.outputs.first().is_some_and(|n| n == name);
    let slot = input.or_else(|| source.ops.iter_mut().find(result).map(|o| &mut o.place));
    let Some(slot) = slot else {
        bail!("the graph has no input and no operation with the first result `{name}`")
    };
    if slot.is_some_and(|other| other != place) {
        bail!("`{name}` is placed already, in the graph or by another --place");
    }
    *slot = Some(place);
    Ok(())
}

/// Pins an input or the first result of an operation.
fn pin_tensor(source: &mut GraphSource, text: &str) -> Result<()> {
    let Some((name, layout)) = text.split_once('=') else {
        bail!("write TENSOR=LAYOUT, such as x=stick:1");
    };
    // A colon is accepted because `NAME=stick=1` has two equals signs, which reads as a mistake.
    let asked = layout.replacen("stick:", "stick=", 1).replacen("order:", "order=", 1);
    let pin = match parse_layout_request(&asked)? {
        Some(LayoutRequest::Stick(d)) if d < 0 => bail!("dimension {d} is negative"),
        Some(pin) => pin,
        None => bail!("accepted are stick:DIM, order:1,0, sparse and SpyreTensorLayout(..)"),
    };
    let input = source.inputs.iter_mut().find(|i| i.name == name).map(|i| &mut i.pin);
    let mut ops = source.ops.iter_mut();
    let slot = match input {
        Some(slot) => slot,
        None => match ops.find(|o| o.outputs.first().is_some_and(|n| n == name)) {
            Some(op) => &mut op.pin,
            None => {
                bail!("the graph has no input and no operation with the first result `{name}`")
            }
        },
    };
    if let Some(other) = slot.as_ref().filter(|p| **p != pin) {
        bail!(
            "`{name}` is pinned already, in the graph or by another --pin ({}); a tensor has one pin",
            text::print_pin(other)
        );
    }
    *slot = Some(pin);
    Ok(())
}
