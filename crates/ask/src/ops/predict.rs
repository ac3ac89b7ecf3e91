//! How long an operation or a graph takes, as a sum of named terms.

use super::OpAnswer;
use super::program::{apply_profile, read_bounded_graph};
use crate::RequestFault;
use crate::fault::clip_text;
use crate::request::Request;
use serde_json::{Map, Value, json};
use zellige_compile::report::{StepTime, sum_run_time};
use zellige_compile::{
    CompilePolicy, CompilerOptions, OutputLayoutRule, WeightLayoutRule, compile_graph,
};
use zellige_graph::{Graph, json as graph_json};
use zellige_machine::{Hardware, TimeTerm};

/// Operands of one operation: what no operation has.
const MAX_OPERANDS: usize = 64;

/// What `layouts` may be.
const LAYOUT_FORMS: &str = "an object from `x0`, `x1`, .. and `y` to {\"stick\": 1}, {\"order\": [1, 0]}, {\"sparse\": true} \
                            or {\"layout\": \"SpyreTensorLayout(..)\"}";

/// The time of an operation, or of a graph, with every term of the sum.
pub(crate) fn answer_predict(r: &Request) -> OpAnswer {
    let graph = match r.optional_str("operation")? {
        Some(operation) => build_operation_graph(r, operation)?,
        None => read_whole_graph(r)?,
    };
    let options = read_prediction_options(r)?;
    let program = compile_graph(&graph, &options)?;
    let time = sum_run_time(&program);
    let bound = time.largest_term();
    Ok(json!({
        "hardware": options.hardware.name(),
        "policy": if options.policy == CompilePolicy::Best { "best" } else { "baseline" },
        "time_us": time.total.microseconds(),
        "kernel_us": time.kernels.microseconds(),
        "launches": time.launches,
        "bound": bound.map(|t| t.name),
        "why": bound.map(|t| t.meaning),
        "terms": time.terms.iter().map(term_json).collect::<Vec<_>>(),
        "steps": time.steps.iter().map(step_json).collect::<Vec<_>>(),
    }))
}

fn term_json(term: &TimeTerm) -> Value {
    json!({
        "name": term.name,
        "meaning": term.meaning,
        "unit": "us",
        "alone": term.alone.microseconds(),
        "counted": term.counted.microseconds(),
    })
}

fn step_json(step: &StepTime) -> Value {
    let division = step
        .division
        .iter()
        .map(|d| json!({"name": d.name, "size": d.size, "slices": d.split, "reduced": d.reduced}));
    json!({
        "name": step.name,
        "op": step.op,
        "time_us": step.time.microseconds(),
        "bound": step.bound,
        "cores": step.cores,
        "division": division.collect::<Vec<_>>(),
        "decided_by": step.decided_by,
        "bytes_in": step.bytes[0],
        "bytes_out": step.bytes[1],
        "terms": step.terms.iter().map(term_json).collect::<Vec<_>>(),
    })
}

/// The graph of a request without an operation; it names its divisions and layouts itself.
fn read_whole_graph(r: &Request) -> Result<Graph, RequestFault> {
    let given = ["graph", "file"].iter().any(|f| r.get(f).is_some());
    if !given {
        return Err(RequestFault {
            kind: "bad_request",
            message: "nothing to predict: give `operation` with `shapes`, or `graph`, or `file`"
                .into(),
            witness: json!({"field": "operation"}),
        });
    }
    for (field, instead) in [
        ("shapes", "the graph has the shapes of its inputs"),
        ("dtype", "the graph has the dtypes of its inputs"),
        ("attributes", "the graph has the attributes of its operations"),
        ("division", "write `split {M: 4, N: 8}` behind the operation"),
        ("layouts", "write `pin order [1, 0]`, `pin stick 1` or `pin sparse` behind the tensor"),
    ] {
        if r.get(field).is_some() {
            return Err(RequestFault {
                kind: "bad_request",
                message: format!("`{field}` is for an `operation`; {instead}"),
                witness: json!({"field": field}),
            });
        }
    }
    let mut options = Map::new();
    if let Some(bind) = r.get("bind") {
        options.insert("bind".into(), bind.clone());
    }
    read_bounded_graph(r, &options)
}

/// A graph of one operation: its operands are `x0`, `x1`, .., its result is `y`.
fn build_operation_graph(r: &Request, operation: &str) -> Result<Graph, RequestFault> {
    for field in ["graph", "file", "bind"] {
        if r.get(field).is_some() {
            return Err(RequestFault {
                kind: "bad_request",
                message: format!(
                    "`operation` and `{field}` together; give one of `operation`, `graph` and `file`"
                ),
                witness: json!({"field": field}),
            });
        }
    }
    let shapes = r.require_int_lists("shapes")?;
    if shapes.len() > MAX_OPERANDS {
        return Err(RequestFault {
            kind: "too_large",
            message: format!("{} shapes; at most {MAX_OPERANDS} operands", shapes.len()),
            witness: json!({"field": "shapes"}),
        });
    }
    let dtypes = read_dtypes(r, shapes.len())?;
    let mut layouts = read_object(r, "layouts", LAYOUT_FORMS)?;
    if let Some(v) = layouts.values().find(|v| !is_layout_form(v)) {
        return Err(RequestFault::wrong_type("a layout of `layouts`", LAYOUT_FORMS, v));
    }
    let division = read_object(
        r,
        "division",
        "an object from dimensions to slices, such as {\"M\": 4, \"N\": 8}",
    )?;
    let attributes = read_object(r, "attributes", "an object from names to values")?;
    let names: Vec<String> = (0..shapes.len()).map(|i| format!("x{i}")).collect();
    let mut inputs = Vec::with_capacity(names.len());
    for ((name, shape), dtype) in names.iter().zip(&shapes).zip(dtypes) {
        let mut input = json!({"name": name, "dtype": dtype, "size": shape});
        if let Some(pin) = layouts.remove(name) {
            input["pin"] = pin;
        }
        inputs.push(input);
    }
    let mut op = json!({
        "op": operation, "inputs": names, "outputs": ["y"], "attributes": attributes, "split": division,
    });
    if let Some(pin) = layouts.remove("y") {
        op["pin"] = pin;
    }
    if let Some(unknown) = layouts.keys().next() {
        let shown = clip_text(unknown, 60);
        let known = names.iter().map(String::as_str).chain(["y"]).collect::<Vec<_>>().join(", ");
        return Err(RequestFault {
            kind: "bad_request",
            message: format!("`layouts`: there is no tensor `{shown}`; there are {known}"),
            witness: json!({"field": "layouts", "tensor": shown}),
        });
    }
    let doc = json!({"name": "operation", "inputs": inputs, "ops": [op], "outputs": ["y"]});
    Ok(graph_json::parse_source(&doc.to_string())?.bind_symbols(&Default::default())?)
}

/// Whether a value has one of the forms of a layout; whether it fits the tensor is the graph's to say.
fn is_layout_form(v: &Value) -> bool {
    let Some(object) = v.as_object().filter(|o| o.len() == 1) else { return false };
    object.iter().all(|(form, v)| match form.as_str() {
        "stick" => v.as_u64().is_some_and(|d| u32::try_from(d).is_ok()),
        "order" => v.as_array().is_some_and(|list| list.iter().all(|d| d.as_i64().is_some())),
        "sparse" => *v == Value::Bool(true),
        "layout" => v.is_string(),
        _ => false,
    })
}

/// One dtype for all operands, or a list with one for each; float16 where nothing is said.
fn read_dtypes(r: &Request, operands: usize) -> Result<Vec<String>, RequestFault> {
    let accepted = "a dtype, or a list with one for each operand";
    match r.get("dtype") {
        None => Ok(vec!["float16".into(); operands]),
        Some(Value::String(one)) => Ok(vec![one.clone(); operands]),
        Some(v @ Value::Array(list)) => {
            let names: Option<Vec<String>> =
                list.iter().map(|d| d.as_str().map(String::from)).collect();
            let names = names.filter(|n| n.len() == operands);
            names.ok_or_else(|| RequestFault::wrong_type("`dtype`", accepted, v))
        }
        Some(v) => Err(RequestFault::wrong_type("`dtype`", accepted, v)),
    }
}

fn read_object(
    r: &Request,
    field: &'static str,
    accepted: &str,
) -> Result<Map<String, Value>, RequestFault> {
    match r.get(field) {
        None => Ok(Map::new()),
        Some(Value::Object(object)) => Ok(object.clone()),
        Some(v) => Err(RequestFault::wrong_type(&format!("`{field}`"), accepted, v)),
    }
}

/// What the prediction assumes. Steps come one after the other, because terms of steps that overlap would not add up
/// to a time; inputs have the layouts that are given, and results those in which they are computed.
fn read_prediction_options(r: &Request) -> Result<CompilerOptions, RequestFault> {
    let policy = match r.optional_str("policy")? {
        None => CompilePolicy::Best,
        Some(name) => CompilePolicy::from_name(name).ok_or_else(|| {
            RequestFault::wrong_type("`policy`", "\"best\" or \"baseline\"", &json!(name))
        })?,
    };
    let mut options = match policy {
        CompilePolicy::Best => CompilerOptions::default(),
        CompilePolicy::Baseline => CompilerOptions::baseline(),
    };
    // A preset by its name only: a request opens no file of hardware.
    let stack = r.optional_str("stack")?.unwrap_or("card");
    options.hardware = Hardware::built_in_preset(stack).map_err(|e| RequestFault {
        kind: "bad_request",
        message: format!("`stack`: {}", clip_text(&e.to_string(), 400)),
        witness: json!({"field": "stack"}),
    })?;
    options = apply_profile(r, options)?;
    options.weights = WeightLayoutRule::Given;
    options.outputs = OutputLayoutRule::AsComputed;
    options.concurrent = false;
    options.cores = match r.optional_int("cores")? {
        None => options.hardware.core_count(),
        // A count that is none is refused by the compiler with what it accepts.
        Some(n) => usize::try_from(n).unwrap_or(0),
    };
    if let Some(v) = r.get("lx") {
        let lx = v.as_bool();
        let lx = lx.ok_or_else(|| RequestFault::wrong_type("`lx`", "true or false", v))?;
        options.scratchpads = options.scratchpads.filter(|_| lx);
    }
    if let Some(v) = r.get("lx_fraction") {
        let accepted = "a number from 0 to 1: the part of every scratchpad that plans leave free";
        let part = v.as_f64().filter(|part| (0.0..=1.0).contains(part));
        options.lx_reserved =
            part.ok_or_else(|| RequestFault::wrong_type("`lx_fraction`", accepted, v))?;
    }
    Ok(options)
}
