//! TIRx layouts as JSON.
//!
//! ```json
//! {"kind":"tile","shard":[[4,8,"laneid"],[8,1,"laneid"]],"replica":[],"offset":{"warpid":5}}
//! {"kind":"compose","per_element":3,"swizzle_len":3,"atom_len":3,"swizzle_inner":true,"tile":{..}}
//! ```
//! Either may have `"valid":[[begin,valid,padded],..]`.

use serde_json::{Map, Value, json};
use zellige_layout::{
    Axis, AxisTable, Iter, Layout, LayoutError, PaddedExtent, Swizzle, TileLayout, ValidWindow,
};

/// A JSON value that is not a layout: its path, and the expected value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonError {
    /// A path such as `shard[2][0]`.
    pub path: String,
    /// What is wrong or was expected.
    pub message: String,
    /// The refusal of the algebra behind it, if the form is fine.
    pub cause: Option<Box<LayoutError>>,
}

impl std::fmt::Display for JsonError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.path.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "{}: {}", self.path, self.message)
        }
    }
}

impl std::error::Error for JsonError {}

type Result<T> = std::result::Result<T, JsonError>;

/// The JSON of a layout.
pub fn layout_to_json(layout: &Layout) -> Value {
    let tile = layout.tile();
    let iters = |its: &[Iter]| -> Value {
        its.iter().map(|it| json!([it.extent, it.stride, it.axis.name()])).collect()
    };
    let offset: Map<String, Value> =
        tile.offset().iter().map(|(a, v)| (a.name().to_string(), json!(v))).collect();
    let mut value = json!({
        "kind": "tile",
        "shard": iters(tile.shard()),
        "replica": iters(tile.replica()),
        "offset": offset,
    });
    if let Some(sw) = layout.swizzle() {
        value = json!({
            "kind": "compose",
            "per_element": sw.per_element(),
            "swizzle_len": sw.swizzle_len(),
            "atom_len": sw.atom_len(),
            "swizzle_inner": sw.is_inner(),
            "tile": value,
        });
    }
    if let Some(w) = layout.window() {
        let dims: Vec<_> = w.dims().iter().map(|d| json!([d.begin, d.valid, d.padded])).collect();
        value["valid"] = json!(dims);
    }
    value
}

/// Reads a layout; axis names are looked up in `axes`.
pub fn layout_from_json(value: &Value, axes: &AxisTable) -> Result<Layout> {
    let object = expect_object(value, "")?;
    let layout = match object.get("kind").and_then(Value::as_str) {
        Some("tile") => {
            // A misspelt optional field would otherwise be ignored, and the layout would silently
            // be another one.
            check_known_fields(object, "", &["kind", "shard", "replica", "offset", "valid"])?;
            tile_from_json(object, "", axes)?.into()
        }
        Some("compose") => {
            let fields = [
                "kind",
                "per_element",
                "swizzle_len",
                "atom_len",
                "swizzle_inner",
                "tile",
                "valid",
            ];
            check_known_fields(object, "", &fields)?;
            let number = |k: &str| expect_integer(object.get(k).unwrap_or(&Value::Null), k);
            let inner = match object.get("swizzle_inner") {
                None => true,
                Some(v) => v
                    .as_bool()
                    .ok_or_else(|| wrong_json_value("swizzle_inner", "true or false", v))?,
            };
            let [m, b, s] = ["per_element", "swizzle_len", "atom_len"].map(number);
            let sw = Swizzle::new(m?, b?, s?, inner).map_err(|e| json_meaning_error("", e))?;
            // The window is outside of the swizzle, so the inner tile must not have one.
            let path = "tile";
            let inside = self::expect_object(object.get(path).unwrap_or(&Value::Null), path)?;
            check_known_fields(inside, path, &["kind", "shard", "replica", "offset"])?;
            Layout::from_swizzled_tile(sw, tile_from_json(inside, path, axes)?)
                .map_err(|e| json_meaning_error("tile", e))?
        }
        _ => {
            let found = object.get("kind").unwrap_or(&Value::Null);
            return Err(wrong_json_value("kind", "\"tile\" or \"compose\"", found));
        }
    };
    let Some(dims) = object.get("valid") else { return Ok(layout) };
    let mut extents = Vec::new();
    for (i, d) in expect_list(dims, "valid")?.iter().enumerate() {
        let path = format!("valid[{i}]");
        match expect_list(d, &path)?.as_slice() {
            [b, v, p] => {
                let at = |k: usize, x: &Value| expect_integer(x, &format!("{path}[{k}]"));
                extents.push(PaddedExtent {
                    begin: at(0, b)?,
                    valid: at(1, v)?,
                    padded: at(2, p)?,
                });
            }
            _ => return Err(wrong_json_value(&path, "[begin, valid, padded]", d)),
        }
    }
    let window = ValidWindow::new(extents).map_err(|e| json_meaning_error("valid", e))?;
    layout.with_window(window).map_err(|e| json_meaning_error("valid", e))
}

fn tile_from_json(o: &Map<String, Value>, path: &str, axes: &AxisTable) -> Result<TileLayout> {
    let at = |k: &str| if path.is_empty() { k.to_string() } else { format!("{path}.{k}") };
    let empty = Value::Array(Vec::new());
    let iters = |k: &str, default: Option<&Value>| -> Result<Vec<Iter>> {
        let value = o.get(k).or(default).unwrap_or(&Value::Null);
        let mut out = Vec::new();
        for (i, it) in expect_list(value, &at(k))?.iter().enumerate() {
            let path = format!("{}[{i}]", at(k));
            let (extent, stride, axis) = match expect_list(it, &path)?.as_slice() {
                [e, s] => (e, s, None),
                [e, s, a] => (e, s, Some(a)),
                _ => return Err(wrong_json_value(&path, "[extent, stride, axis]", it)),
            };
            let axis = match axis {
                None => Axis::M,
                Some(a) => axis_from_json(a, &format!("{path}[2]"), axes)?,
            };
            let extent = expect_integer(extent, &format!("{path}[0]"))?;
            out.push(Iter::new(extent, expect_integer(stride, &format!("{path}[1]"))?, axis));
        }
        Ok(out)
    };
    let shard = iters("shard", None)?;
    let replica = iters("replica", Some(&empty))?;
    let mut offset = Vec::new();
    if let Some(v) = o.get("offset") {
        for (name, value) in expect_object(v, &at("offset"))? {
            let path = format!("{}.{name}", at("offset"));
            let axis = axis_from_json(&Value::String(name.clone()), &path, axes)?;
            offset.push((axis, expect_integer(value, &path)?));
        }
    }
    TileLayout::new(shard, replica, offset).map_err(|e| json_meaning_error(path, e))
}

fn axis_from_json(value: &Value, path: &str, axes: &AxisTable) -> Result<Axis> {
    let name =
        value.as_str().ok_or_else(|| wrong_json_value(path, "the name of an axis", value))?;
    axes.get(name).map_err(|e| json_meaning_error(path, e))
}

fn json_meaning_error(path: &str, cause: LayoutError) -> JsonError {
    JsonError { path: path.into(), message: cause.to_string(), cause: Some(Box::new(cause)) }
}

fn wrong_json_value(path: &str, expected: &str, found: &Value) -> JsonError {
    let mut shown = found.to_string();
    if shown.len() > 60 {
        // Truncating inside a character of several bytes would panic.
        let cut = (0..=60).rev().find(|i| shown.is_char_boundary(*i)).unwrap_or(0);
        shown.truncate(cut);
        shown.push('…');
    }
    JsonError {
        path: path.into(),
        message: format!("expected {expected}, found {shown}"),
        cause: None,
    }
}

fn check_known_fields(o: &Map<String, Value>, path: &str, fields: &[&str]) -> Result<()> {
    match o.keys().find(|k| !fields.contains(&k.as_str())) {
        None => Ok(()),
        Some(k) => Err(JsonError {
            path: path.into(),
            message: format!("unknown field `{k}`; known: {}", fields.join(", ")),
            cause: None,
        }),
    }
}

fn expect_object<'a>(v: &'a Value, path: &str) -> Result<&'a Map<String, Value>> {
    v.as_object().ok_or_else(|| wrong_json_value(path, "an object", v))
}

fn expect_list<'a>(v: &'a Value, path: &str) -> Result<&'a Vec<Value>> {
    v.as_array().ok_or_else(|| wrong_json_value(path, "a list", v))
}

fn expect_integer(v: &Value, path: &str) -> Result<i64> {
    v.as_i64().ok_or_else(|| wrong_json_value(path, "a 64-bit integer", v))
}
