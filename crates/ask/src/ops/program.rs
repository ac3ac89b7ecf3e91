//! Whole graphs through the compiler.

use super::Answer;
use crate::Fault;
use crate::fault::clip;
use crate::request::{Request, int};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use zellige_compile::CompilePolicy;
use zellige_compile::report::{explain_layout, report_compared, report_program};
use zellige_compile::{
    CompilerOptions, OutputLayoutRule, WeightLayoutRule, check_program, compile_graph as compiled,
};
use zellige_device::KeptDtypes;
use zellige_graph::{Graph, GraphError, GraphFormat, text};
use zellige_machine::Hardware;

/// Operations of one request: beyond, compiling takes too long to wait for.
const MOST_OPS: usize = 4096;

impl From<GraphError> for Fault {
    fn from(e: GraphError) -> Fault {
        let witness = json!({"op": e.op.as_deref().map(|o| clip(o, 60)), "operand": e.operand});
        Fault { kind: e.kind, message: e.to_string(), witness }
    }
}

/// The report of a graph, with the options that differ from the usual ones.
pub(super) fn compile(r: &Request) -> Answer {
    let empty = Map::new();
    let given = match r.get("options") {
        None => &empty,
        Some(v) => v.as_object().ok_or_else(|| Fault::expected("`options`", "an object", v))?,
    };
    let graph = graph(r, given)?;
    if graph.nodes().count() > MOST_OPS {
        let message = format!("more than {MOST_OPS} operations; `zellige compile` takes them");
        return Err(Fault { kind: "too_large", message, witness: json!({"field": "graph"}) });
    }
    let options = options(given, None)?;
    let program = compiled(&graph, &options)?;
    if flag(given, "check")? {
        check_program(&program)?;
    }
    if let Some(tensor) = r.opt_str("explain")? {
        return Ok(json!(explain_layout(&program, tensor)?));
    }
    Ok(if flag(given, "compare")? {
        json!(report_compared(
            &program,
            &compiled(&graph, &self::options(given, Some(CompilePolicy::Baseline))?)?
        ))
    } else {
        json!(report_program(&program))
    })
}

/// The graph: its JSON, its text, or the name of a file of either or of an ONNX model.
fn graph(r: &Request, given: &Map<String, Value>) -> Result<Graph, Fault> {
    let bind = bind(given)?;
    let read;
    let source: &str = match (r.get("graph"), r.opt_str("file")?) {
        (Some(Value::String(text)), None) => text,
        (Some(v @ Value::Object(_)), None) => {
            return Ok(zellige_graph::json::parse_source(&v.to_string())?.bind_symbols(&bind)?);
        }
        (None, Some(path)) => {
            let bad = |e: std::io::Error| Fault {
                kind: "bad_file",
                message: format!("{}: {e}", clip(path, 200)),
                witness: json!({"field": "file"}),
            };
            if GraphFormat::detect_file_format(Path::new(path)).map_err(bad)? == GraphFormat::Onnx {
                return model(path, &bind);
            }
            read = std::fs::read_to_string(path).map_err(bad)?;
            &read
        }
        (Some(v), None) => {
            return Err(Fault::expected("`graph`", "the JSON or the text of a graph", v));
        }
        _ => return Err(Fault::expected("a graph", "one of `graph` and `file`", &Value::Null)),
    };
    if source.trim_start().starts_with('{') {
        return Ok(zellige_graph::json::parse_source(source)?.bind_symbols(&bind)?);
    }
    text::parse_and_bind(source, &bind).map_err(|d| Fault {
        kind: "bad_graph",
        message: d.render(source, false),
        witness: json!({"field": "graph"}),
    })
}

#[cfg(not(target_family = "wasm"))]
fn model(path: &str, bind: &BTreeMap<String, i64>) -> Result<Graph, Fault> {
    let imported = zellige_onnx::ModelFile::open(Path::new(path)).and_then(|f| f.import(bind));
    let told = |e: zellige_onnx::OnnxError| {
        let operand = e.operand.as_ref().map(|(k, _)| k);
        let witness = json!({"node": e.node, "operand": operand, "byte": e.at});
        Fault { kind: e.kind, message: format!("{}: {e}", clip(path, 200)), witness }
    };
    imported.map(|i| i.graph).map_err(told)
}

#[cfg(target_family = "wasm")]
fn model(path: &str, _: &BTreeMap<String, i64>) -> Result<Graph, Fault> {
    Err(Fault {
        kind: "bad_file",
        message: format!("{}: a web page reads no ONNX models", clip(path, 200)),
        witness: json!({"field": "file"}),
    })
}

const KNOWN: [&str; 16] = [
    "policy",
    "profile",
    "coverage",
    "cores",
    "hardware",
    "mode",
    "fp32",
    "int64",
    "weights",
    "outputs",
    "strict",
    "lx",
    "concurrent",
    "bind",
    "compare",
    "check",
];

fn options(
    given: &Map<String, Value>,
    policy: Option<CompilePolicy>,
) -> Result<CompilerOptions, Fault> {
    if let Some(unknown) = given.keys().find(|k| !KNOWN.contains(&k.as_str())) {
        let message =
            format!("unknown option `{}`; known: {}", clip(unknown, 60), KNOWN.join(", "));
        return Err(Fault { kind: "unknown_field", message, witness: json!({"field": "options"}) });
    }
    let policy = match policy {
        Some(policy) => policy,
        None => {
            word(given, "policy", "best", "\"best\" or \"baseline\"", CompilePolicy::from_name)?
        }
    };
    let mut o = match policy {
        CompilePolicy::Best => CompilerOptions::default(),
        CompilePolicy::Baseline => CompilerOptions::baseline(),
    };
    // A preset by its name only: a request opens no file of hardware.
    let preset = |name: &str| Hardware::built_in_preset(name).ok();
    o.hardware = word(given, "hardware", "card", "\"card\" or \"ktir\"", preset)?;
    // `coverage` is the older name.
    let name = if given.contains_key("profile") { "profile" } else { "coverage" };
    o = o.with_profile(word(given, name, "full", "\"full\" or \"card\"", |w| w.parse().ok())?);
    o.storage.mode = word(given, "mode", "dl16", "\"dl16\" or \"ieee\"", |w| w.parse().ok())?;
    let one_of = |w: &str, no: &str, yes: &str| match w {
        w if w == no => Some(false),
        w if w == yes => Some(true),
        _ => None,
    };
    let kept = |name, usual| {
        let usual = if usual { "keep" } else { "cast" };
        word(given, name, usual, "\"cast\" or \"keep\"", KeptDtypes::parse_choice)
    };
    let usual = o.storage.keep;
    o.storage.keep =
        KeptDtypes { float32: kept("fp32", usual.float32)?, int64: kept("int64", usual.int64)? };
    let usual = if o.weights == WeightLayoutRule::Free { "free" } else { "given" };
    let free =
        word(given, "weights", usual, "\"free\" or \"given\"", |w| one_of(w, "given", "free"))?;
    o.weights = if free { WeightLayoutRule::Free } else { WeightLayoutRule::Given };
    let computed = word(given, "outputs", "default", "\"default\" or \"computed\"", |w| {
        one_of(w, "default", "computed")
    })?;
    o.outputs = if computed { OutputLayoutRule::AsComputed } else { OutputLayoutRule::Default };
    o.strict = flag(given, "strict")?;
    if given.get("lx").is_some_and(|v| *v == Value::Bool(false)) {
        o.scratchpads = None;
    }
    if given.contains_key("concurrent") {
        o.concurrent = flag(given, "concurrent")?;
    }
    o.cores = match given.get("cores") {
        None => o.hardware.core_count(),
        Some(v) => usize::try_from(int("cores", v)?).unwrap_or(0),
    };
    Ok(o)
}

fn word<T>(
    given: &Map<String, Value>,
    name: &str,
    usual: &str,
    accepted: &str,
    f: impl Fn(&str) -> Option<T>,
) -> Result<T, Fault> {
    let value = given.get(name).cloned().unwrap_or_else(|| json!(usual));
    let found = value.as_str().and_then(f);
    found.ok_or_else(|| Fault::expected(&format!("option `{name}`"), accepted, &value))
}

fn flag(given: &Map<String, Value>, name: &str) -> Result<bool, Fault> {
    match given.get(name) {
        None => Ok(false),
        Some(v) => v
            .as_bool()
            .ok_or_else(|| Fault::expected(&format!("option `{name}`"), "true or false", v)),
    }
}

fn bind(given: &Map<String, Value>) -> Result<BTreeMap<String, i64>, Fault> {
    let Some(v) = given.get("bind") else { return Ok(BTreeMap::new()) };
    let object = v
        .as_object()
        .ok_or_else(|| Fault::expected("option `bind`", "an object from symbols to values", v))?;
    object.iter().map(|(name, v)| Ok((name.clone(), int("bind", v)?))).collect()
}
