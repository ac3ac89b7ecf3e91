//! Linear layouts as JSON: `{"in":[[dim,[[basis..],..]],..],"out":[[dim,size],..]}`.

use crate::json::JsonError;
use serde_json::{Value, json};
use zellige_layout::{Error, LinearLayout};

type Result<T> = std::result::Result<T, JsonError>;

/// The JSON of a linear layout.
pub fn to_json(layout: &LinearLayout) -> Value {
    let ins: Vec<Value> =
        layout.all_bases().into_iter().map(|(dim, bases)| json!([dim, bases])).collect();
    let outs: Vec<Value> = layout.out_sizes().map(|(dim, size)| json!([dim, size])).collect();
    json!({"in": ins, "out": outs})
}

/// Reads a linear layout.
pub fn from_json(value: &Value) -> Result<LinearLayout> {
    let object = value.as_object().ok_or_else(|| {
        wrong("", "an object {\"in\":[[dim,[bases]],..],\"out\":[[dim,size],..]}", value)
    })?;
    if let Some(unknown) = object.keys().find(|k| !matches!(k.as_str(), "in" | "out")) {
        let shown: String = unknown.chars().take(60).collect();
        let message = format!("unknown field `{shown}`; known: in, out");
        return Err(JsonError { path: String::new(), message, cause: None });
    }
    let field = |name: &str| object.get(name).unwrap_or(&Value::Null);
    let mut ins = Vec::new();
    for (i, dim) in list(field("in"), "in")?.iter().enumerate() {
        let path = format!("in[{i}]");
        let (name, bases) = named(dim, &path, "[dim, [[basis..], ..]]")?;
        let mut read = Vec::new();
        for (k, basis) in list(bases, &format!("{path}[1]"))?.iter().enumerate() {
            let path = format!("{path}[1][{k}]");
            let entries = list(basis, &path)?;
            let entries: Result<Vec<i64>> = entries.iter().map(|v| int(v, &path)).collect();
            read.push(entries?);
        }
        ins.push((name, read));
    }
    let mut outs = Vec::new();
    for (i, dim) in list(field("out"), "out")?.iter().enumerate() {
        let path = format!("out[{i}]");
        let (name, size) = named(dim, &path, "[dim, size]")?;
        outs.push((name, int(size, &path)?));
    }
    LinearLayout::new(&ins, &outs).map_err(|e| JsonError {
        path: path_of(&e, &ins),
        message: e.to_string(),
        cause: Some(Box::new(e)),
    })
}

/// Where in the JSON the algebra found something wrong.
fn path_of(e: &Error, ins: &[(String, Vec<Vec<i64>>)]) -> String {
    match e {
        Error::BadBasis { dim, index, .. } => {
            let at = ins.iter().position(|(name, _)| name == dim).unwrap_or(0);
            format!("in[{at}][1][{index}]")
        }
        Error::NotPowerOfTwo { .. } => "out".into(),
        _ => String::new(),
    }
}

fn named<'a>(v: &'a Value, path: &str, accepted: &str) -> Result<(String, &'a Value)> {
    match v.as_array().map(Vec::as_slice) {
        Some([Value::String(name), second]) => Ok((name.clone(), second)),
        _ => Err(wrong(path, accepted, v)),
    }
}

fn list<'a>(v: &'a Value, path: &str) -> Result<&'a Vec<Value>> {
    v.as_array().ok_or_else(|| wrong(path, "a list", v))
}

fn int(v: &Value, path: &str) -> Result<i64> {
    v.as_i64().ok_or_else(|| wrong(path, "a 64-bit integer", v))
}

fn wrong(path: &str, expected: &str, found: &Value) -> JsonError {
    let shown: String = found.to_string().chars().take(60).collect();
    let message = format!("expected {expected}, found {shown}");
    JsonError { path: path.into(), message, cause: None }
}
