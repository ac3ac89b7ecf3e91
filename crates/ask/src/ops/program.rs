//! Whole graphs through the compiler.

use super::OpAnswer;
use crate::RequestFault;
use crate::fault::clip_text;
use crate::request::{Request, parse_int};
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

impl From<GraphError> for RequestFault {
    fn from(e: GraphError) -> RequestFault {
        let witness =
            json!({"op": e.op.as_deref().map(|o| clip_text(o, 60)), "operand": e.operand});
        RequestFault { kind: e.kind, message: e.to_string(), witness }
    }
}

/// The report of a graph, with the options that differ from the usual ones.
pub(super) fn answer_compile(r: &Request) -> OpAnswer {
    let empty = Map::new();
    let given = match r.get("options") {
        None => &empty,
        Some(v) => {
            v.as_object().ok_or_else(|| RequestFault::wrong_type("`options`", "an object", v))?
        }
    };
    let graph = read_bounded_graph(r, given)?;
    let options = read_options(given, None)?;
    let program = compiled(&graph, &options)?;
    // Only on demand: the check takes a while for a large graph, and tests ask for it.
    if read_flag(given, "check")? {
        check_program(&program)?;
    }
    if let Some(tensor) = r.optional_str("explain")? {
        return Ok(json!(explain_layout(&program, tensor)?));
    }
    Ok(if read_flag(given, "compare")? {
        json!(report_compared(
            &program,
            &compiled(&graph, &self::read_options(given, Some(CompilePolicy::Baseline))?)?
        ))
    } else {
        json!(report_program(&program))
    })
}

/// A graph that is small enough to wait for.
pub(super) fn read_bounded_graph(
    r: &Request,
    given: &Map<String, Value>,
) -> Result<Graph, RequestFault> {
    let graph = read_graph(r, given)?;
    if graph.nodes().count() > MOST_OPS {
        let message = format!("more than {MOST_OPS} operations; `zellige compile` takes them");
        return Err(RequestFault {
            kind: "too_large",
            message,
            witness: json!({"field": "graph"}),
        });
    }
    Ok(graph)
}

/// The options under the field `profile`, which says what the card runs itself.
pub(super) fn apply_profile(
    r: &Request,
    options: CompilerOptions,
) -> Result<CompilerOptions, RequestFault> {
    let name = r.optional_str("profile")?.unwrap_or("full");
    let accepted = "\"full\" or \"card\"";
    let wrong = |_| RequestFault::wrong_type("`profile`", accepted, &json!(name));
    Ok(options.with_profile(name.parse().map_err(wrong)?))
}

/// The graph: its JSON, its text, or the name of a file of either or of an ONNX model.
fn read_graph(r: &Request, given: &Map<String, Value>) -> Result<Graph, RequestFault> {
    let bind = read_bindings(given)?;
    let read;
    let source: &str = match (r.get("graph"), r.optional_str("file")?) {
        (Some(Value::String(text)), None) => text,
        (Some(v @ Value::Object(_)), None) => {
            return Ok(zellige_graph::json::parse_source(&v.to_string())?.bind_symbols(&bind)?);
        }
        (None, Some(path)) => {
            let bad = |e: std::io::Error| RequestFault {
                kind: "bad_file",
                message: format!("{}: {e}", clip_text(path, 200)),
                witness: json!({"field": "file"}),
            };
            if GraphFormat::detect_file_format(Path::new(path)).map_err(bad)? == GraphFormat::Onnx {
                return load_model(path, &bind);
            }
            read = std::fs::read_to_string(path).map_err(bad)?;
            &read
        }
        (Some(v), None) => {
            return Err(RequestFault::wrong_type("`graph`", "the JSON or the text of a graph", v));
        }
        _ => {
            return Err(RequestFault::wrong_type(
                "a graph",
                "one of `graph` and `file`",
                &Value::Null,
            ));
        }
    };
    // The text of a graph begins with the word `graph`, so a brace tells the two apart without another field.
    if source.trim_start().starts_with('{') {
        return Ok(zellige_graph::json::parse_source(source)?.bind_symbols(&bind)?);
    }
    text::parse_and_bind(source, &bind).map_err(|d| RequestFault {
        kind: "bad_graph",
        message: d.render(source, false),
        witness: json!({"field": "graph"}),
    })
}

#[cfg(not(target_family = "wasm"))]
fn load_model(path: &str, bind: &BTreeMap<String, i64>) -> Result<Graph, RequestFault> {
    let imported =
        zellige_onnx::ModelFile::open(Path::new(path)).and_then(|f| f.import_graph(bind));
    let refused = |e: zellige_onnx::OnnxError| {
        let operand = e.operand.as_ref().map(|(k, _)| k);
        let witness = json!({"node": e.node, "operand": operand, "byte": e.at});
        RequestFault { kind: e.kind, message: format!("{}: {e}", clip_text(path, 200)), witness }
    };
    imported.map(|i| i.graph).map_err(refused)
}

#[cfg(target_family = "wasm")]
fn load_model(path: &str, _: &BTreeMap<String, i64>) -> Result<Graph, RequestFault> {
    Err(RequestFault {
        kind: "bad_file",
        message: format!("{}: a web page reads no ONNX models", clip_text(path, 200)),
        witness: json!({"field": "file"}),
    })
}

const KNOWN_OPTIONS: [&str; 16] = [
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

fn read_options(
    given: &Map<String, Value>,
    policy: Option<CompilePolicy>,
) -> Result<CompilerOptions, RequestFault> {
    if let Some(unknown) = given.keys().find(|k| !KNOWN_OPTIONS.contains(&k.as_str())) {
        let message = format!(
            "unknown option `{}`; known: {}",
            clip_text(unknown, 60),
            KNOWN_OPTIONS.join(", ")
        );
        return Err(RequestFault {
            kind: "unknown_field",
            message,
            witness: json!({"field": "options"}),
        });
    }
    let policy = match policy {
        Some(policy) => policy,
        None => read_word(
            given,
            "policy",
            "best",
            "\"best\" or \"baseline\"",
            CompilePolicy::from_name,
        )?,
    };
    let mut o = match policy {
        CompilePolicy::Best => CompilerOptions::default(),
        CompilePolicy::Baseline => CompilerOptions::baseline(),
    };
    // A preset by its name only: a request opens no file of hardware.
    let preset = |name: &str| Hardware::built_in_preset(name).ok();
    o.hardware = read_word(given, "hardware", "card", "\"card\" or \"ktir\"", preset)?;
    // `coverage` is another name of `profile`.
    let name = if given.contains_key("profile") { "profile" } else { "coverage" };
    o = o.with_profile(read_word(given, name, "full", "\"full\" or \"card\"", |w| w.parse().ok())?);
    o.storage.mode = read_word(given, "mode", "dl16", "\"dl16\" or \"ieee\"", |w| w.parse().ok())?;
    let one_of = |w: &str, no: &str, yes: &str| match w {
        w if w == no => Some(false),
        w if w == yes => Some(true),
        _ => None,
    };
    let kept = |name, usual| {
        // The profile decides first, and the option only where it is given.
        let usual = if usual { "keep" } else { "cast" };
        read_word(given, name, usual, "\"cast\" or \"keep\"", KeptDtypes::parse_choice)
    };
    let usual = o.storage.keep;
    o.storage.keep =
        KeptDtypes { float32: kept("fp32", usual.float32)?, int64: kept("int64", usual.int64)? };
    let usual = if o.weights == WeightLayoutRule::Free { "free" } else { "given" };
    let free = read_word(given, "weights", usual, "\"free\" or \"given\"", |w| {
        one_of(w, "given", "free")
    })?;
    o.weights = if free { WeightLayoutRule::Free } else { WeightLayoutRule::Given };
    let computed = read_word(given, "outputs", "default", "\"default\" or \"computed\"", |w| {
        one_of(w, "default", "computed")
    })?;
    o.outputs = if computed { OutputLayoutRule::AsComputed } else { OutputLayoutRule::Default };
    o.strict = read_flag(given, "strict")?;
    if given.get("lx").is_some_and(|v| *v == Value::Bool(false)) {
        o.scratchpads = None;
    }
    if given.contains_key("concurrent") {
        o.concurrent = read_flag(given, "concurrent")?;
    }
    o.cores = match given.get("cores") {
        None => o.hardware.core_count(),
        // A negative number becomes 0, which the compiler refuses with the numbers that it accepts.
        Some(v) => usize::try_from(parse_int("cores", v)?).unwrap_or(0),
    };
    Ok(o)
}

fn read_word<T>(
    given: &Map<String, Value>,
    name: &str,
    usual: &str,
    accepted: &str,
    f: impl Fn(&str) -> Option<T>,
) -> Result<T, RequestFault> {
    let value = given.get(name).cloned().unwrap_or_else(|| json!(usual));
    let found = value.as_str().and_then(f);
    found.ok_or_else(|| RequestFault::wrong_type(&format!("option `{name}`"), accepted, &value))
}

fn read_flag(given: &Map<String, Value>, name: &str) -> Result<bool, RequestFault> {
    match given.get(name) {
        None => Ok(false),
        Some(v) => v.as_bool().ok_or_else(|| {
            RequestFault::wrong_type(&format!("option `{name}`"), "true or false", v)
        }),
    }
}

fn read_bindings(given: &Map<String, Value>) -> Result<BTreeMap<String, i64>, RequestFault> {
    let Some(v) = given.get("bind") else { return Ok(BTreeMap::new()) };
    let object = v.as_object().ok_or_else(|| {
        RequestFault::wrong_type("option `bind`", "an object from symbols to values", v)
    })?;
    object.iter().map(|(name, v)| Ok((name.clone(), parse_int("bind", v)?))).collect()
}
