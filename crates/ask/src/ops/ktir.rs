//! Tile kernels: what a module holds, and what a kernel computes and costs.

use super::OpAnswer;
use crate::RequestFault;
use crate::request::Request;
use serde_json::{Value, json};
use zellige_float::Converter;
use zellige_ktir::{
    KtirArray, KtirElem, KtirModule, KtirPipeline, KtirRun, KtirRunError, KtirScalar, text,
};
use zellige_machine::Hardware;

/// Bytes and steps of one request: beyond, running takes too long to wait for.
const MAX_BYTES: u64 = 64 << 20;
const MAX_STEPS: u64 = 1 << 22;

fn read_module(r: &Request) -> Result<KtirModule, RequestFault> {
    let source = r.require_str("text")?;
    text::parse(source).map_err(|d| {
        let (line, column) = text::find_line_and_column(source, &d.span);
        let witness = json!({"field": "text", "line": line, "column": column});
        RequestFault { kind: "syntax", message: d.message, witness }
    })
}

/// The kernels of a module, with their grids and arguments.
pub(super) fn answer_check(r: &Request) -> OpAnswer {
    let module = read_module(r)?;
    let mut kernels = Vec::new();
    for f in &module.functions {
        let shapes = module.argument_shapes(f.name());
        let argument = |v: &zellige_ktir::KtirValue| {
            let name = &f.value_def(*v).name;
            let mut one = json!({"name": name, "type": f.value_type(*v).to_string()});
            if let Some((shape, elem)) = shapes.get(name) {
                one["shape"] = json!(shape);
                one["elements"] = json!(elem.name());
            }
            one
        };
        let arguments: Vec<Value> = f.args().iter().map(argument).collect();
        kernels.push(json!({
            "name": f.name(), "grid": f.grid(), "cores": f.core_count(), "arguments": arguments,
        }));
    }
    Ok(json!({"kernels": kernels}))
}

/// Runs a kernel on arrays that are given as numbers.
pub(super) fn answer_run(r: &Request) -> OpAnswer {
    let module = read_module(r)?;
    let kernel = match (r.optional_str("kernel")?, module.functions.as_slice()) {
        (Some(name), _) => name.to_string(),
        (None, [only]) => only.name().to_string(),
        (None, several) => {
            let names: Vec<&str> = several.iter().map(|f| f.name()).collect();
            let message = format!("name the kernel; there are {}", names.join(", "));
            return Err(bad("kernel", message));
        }
    };
    let hardware = match r.optional_str("hardware")? {
        None => Hardware::ktir_preset(),
        Some(name) => {
            Hardware::built_in_preset(name).map_err(|e| bad("hardware", e.to_string()))?
        }
    };
    let pipeline = match r.optional_str("pipeline")? {
        None => KtirPipeline::Serial,
        Some(name) => KtirPipeline::from_name(name).ok_or_else(|| {
            bad("pipeline", format!("serial, overlapped or overlapped_3way, not `{name}`"))
        })?,
    };
    let mut run = KtirRun::new(&module, &kernel)
        .with_hardware(hardware)
        .with_pipeline(pipeline)
        .with_max_bytes(MAX_BYTES)
        .with_max_steps(MAX_STEPS);
    if let Some(v) = r.get("compat") {
        let compat = v.as_bool();
        let compat =
            compat.ok_or_else(|| RequestFault::wrong_type("`compat`", "true or false", v))?;
        run = run.with_compatibility(compat);
    }
    if let Some(v) = r.get("arrays") {
        let given =
            v.as_object().ok_or_else(|| RequestFault::wrong_type("`arrays`", "an object", v))?;
        for (name, array) in given {
            run = run.with_array(name, read_array(name, array)?);
        }
    }
    if let Some(v) = r.get("scalars") {
        let given =
            v.as_object().ok_or_else(|| RequestFault::wrong_type("`scalars`", "an object", v))?;
        for (name, number) in given {
            let scalar = match (number.as_i64(), number.as_f64()) {
                (Some(n), _) => KtirScalar::Int(n),
                (_, Some(x)) => KtirScalar::Float(x),
                _ => return Err(bad("scalars", format!("`{name}` is no number"))),
            };
            run = run.with_scalar(name, scalar);
        }
    }
    let outcome = run.execute_kernel().map_err(|e| refuse_run(&e))?;
    let mut arrays = serde_json::Map::new();
    for (name, array) in &outcome.arrays {
        let values = array_values(array);
        let shown = json!({"elements": array.elem.name(), "shape": array.shape, "values": values});
        arrays.insert(name.clone(), shown);
    }
    Ok(json!({"arrays": arrays, "report": outcome.to_json()}))
}

fn bad(field: &str, message: String) -> RequestFault {
    RequestFault { kind: "bad_request", message, witness: json!({"field": field}) }
}

fn refuse_run(e: &KtirRunError) -> RequestFault {
    let witness = json!({"core": e.core, "operation": e.op});
    RequestFault { kind: e.fault.kind(), message: e.to_string(), witness }
}

/// `{"elements": "f16", "shape": [2], "values": [1, 2]}`.
fn read_array(name: &str, v: &Value) -> Result<KtirArray, RequestFault> {
    let wrong = |what: &str| bad("arrays", format!("`{name}` has {what}"));
    let elem = v["elements"].as_str().and_then(KtirElem::from_name);
    let elem = elem.ok_or_else(|| wrong("no `elements`, such as \"f16\""))?;
    let shape: Option<Vec<i64>> =
        v["shape"].as_array().and_then(|s| s.iter().map(Value::as_i64).collect());
    let shape = shape.ok_or_else(|| wrong("no `shape`, a list of sizes"))?;
    let values = v["values"].as_array().ok_or_else(|| wrong("no `values`, a list of numbers"))?;
    let bytes = if elem.is_float() {
        let mut wide = Vec::with_capacity(8 * values.len());
        for x in values {
            let x = x.as_f64().ok_or_else(|| wrong("a value that is no number"))?;
            wide.extend(x.to_le_bytes());
        }
        convert(&wide, zellige_float::Format::F64, elem.format(), values.len())
    } else {
        let mut wide = Vec::with_capacity(8 * values.len());
        for x in values {
            let n = x.as_i64().ok_or_else(|| wrong("a value that is no whole number"))?;
            wide.extend(n.to_le_bytes());
        }
        convert(&wide, zellige_float::Format::I64, elem.format(), values.len())
    };
    Ok(KtirArray { elem, shape, bytes })
}

fn convert(
    raw: &[u8],
    from: zellige_float::Format,
    to: zellige_float::Format,
    n: usize,
) -> Vec<u8> {
    let mut out = vec![0; n * to.byte_size()];
    let done = Converter::new(from, to).convert(raw, &mut out, n);
    debug_assert!(done.is_ok(), "both buffers hold the elements");
    out
}

fn array_values(array: &KtirArray) -> Vec<Value> {
    let n = array.bytes.len() / array.elem.byte_size();
    if array.elem.is_float() {
        let wide = convert(&array.bytes, array.elem.format(), zellige_float::Format::F64, n);
        let number = |raw: &[u8; 8]| {
            let x = f64::from_le_bytes(*raw);
            // JSON has no infinities and NaNs.
            serde_json::Number::from_f64(x).map_or_else(|| json!(x.to_string()), Value::Number)
        };
        return wide.as_chunks::<8>().0.iter().map(number).collect();
    }
    let wide = convert(&array.bytes, array.elem.format(), zellige_float::Format::I64, n);
    wide.as_chunks::<8>().0.iter().map(|raw| json!(i64::from_le_bytes(*raw))).collect()
}
