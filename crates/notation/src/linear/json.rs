//! Linear layouts as JSON: `{"in":[[dim,[[basis..],..]],..],"out":[[dim,size],..]}`.

use crate::json::JsonError;
use serde_json::{Value, json};
use zellige_layout::{LayoutError, LinearLayout};

type Result<T> = std::result::Result<T, JsonError>;

/// The JSON of a linear layout.
pub fn linear_to_json(layout: &LinearLayout) -> Value {
    let ins: Vec<Value> =
        layout.bases_of_all_dims().into_iter().map(|(dim, bases)| json!([dim, bases])).collect();
    let outs: Vec<Value> = layout.out_sizes().map(|(dim, size)| json!([dim, size])).collect();
    json!({"in": ins, "out": outs})
}

/// Reads a linear layout.
pub fn linear_from_json(value: &Value) -> Result<LinearLayout> {
    let object = value.as_object().ok_or_else(|| {
        wrong_json_value("", "an object {\"in\":[[dim,[bases]],..],\"out\":[[dim,size],..]}", value)
    })?;
    if let Some(unknown) = object.keys().find(|k| !matches!(k.as_str(), "in" | "out")) {
        let shown: String = unknown.chars().take(60).collect();
        let message = format!("unknown field `{shown}`; known: in, out");
        return Err(JsonError { path: String::new(), message, cause: None });
    }
    let field = |name: &str| object.get(name).unwrap_or(&Value::Null);
    let mut ins = Vec::new();
    for (i, dim) in expect_list(field("in"), "in")?.iter().enumerate() {
        let path = format!("in[{i}]");
        let (name, bases) = expect_named_pair(dim, &path, "[dim, [[basis..], ..]]")?;
        let mut read = Vec::new();
        for (k, basis) in expect_list(bases, &format!("{path}[1]"))?.iter().enumerate() {
            let path = format!("{path}[1][{k}]");
            let entries = expect_list(basis, &path)?;
            let entries: Result<Vec<i64>> =
                entries.iter().map(|v| expect_integer(v, &path)).collect();
            read.push(entries?);
        }
        ins.push((name, read));
    }
    let mut outs = Vec::new();
    for (i, dim) in expect_list(field("out"), "out")?.iter().enumerate() {
        let path = format!("out[{i}]");
        let (name, size) = expect_named_pair(dim, &path, "[dim, size]")?;
        outs.push((name, expect_integer(size, &path)?));
    }
    LinearLayout::new(&ins, &outs).map_err(|e| JsonError {
        path: json_path_of_error(&e, &ins),
        message: e.to_string(),
        cause: Some(Box::new(e)),
    })
}

/// The path in the JSON of the value that the algebra refused.
fn json_path_of_error(e: &LayoutError, ins: &[(String, Vec<Vec<i64>>)]) -> String {
    match e {
        LayoutError::BadBasis { dim, index, .. } => {
            let at = ins.iter().position(|(name, _)| name == dim).unwrap_or(0);
            format!("in[{at}][1][{index}]")
        }
        LayoutError::NotPowerOfTwo { .. } => "out".into(),
        _ => String::new(),
    }
}

fn expect_named_pair<'a>(v: &'a Value, path: &str, accepted: &str) -> Result<(String, &'a Value)> {
    match v.as_array().map(Vec::as_slice) {
        Some([Value::String(name), second]) => Ok((name.clone(), second)),
        _ => Err(wrong_json_value(path, accepted, v)),
    }
}

fn expect_list<'a>(v: &'a Value, path: &str) -> Result<&'a Vec<Value>> {
    v.as_array().ok_or_else(|| wrong_json_value(path, "a list", v))
}

fn expect_integer(v: &Value, path: &str) -> Result<i64> {
    v.as_i64().ok_or_else(|| wrong_json_value(path, "a 64-bit integer", v))
}

fn wrong_json_value(path: &str, expected: &str, found: &Value) -> JsonError {
    let shown: String = found.to_string().chars().take(60).collect();
    let message = format!("expected {expected}, found {shown}");
    JsonError { path: path.into(), message, cause: None }
}
