//! Reading recorded cases, and the bases of an attribute over a shape.

use serde_json::Value;
use zellige_layout::LinearLayout;
use zellige_notation::linear::linear_to_json;
use zellige_notation::triton::parse_attribute;

pub(crate) fn data(name: &str) -> Value {
    let path = format!("{}/../../tests/data/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    serde_json::from_str(&text).expect("valid JSON")
}

pub(crate) fn list(v: &Value) -> &[Value] {
    v.as_array().expect("a list")
}

pub(crate) fn ints(v: &Value) -> Vec<i64> {
    list(v).iter().map(|x| x.as_i64().expect("an integer")).collect()
}

pub(crate) fn text(v: &Value) -> &str {
    v.as_str().expect("a text")
}

/// The bases of an attribute over a shape, as JSON.
pub(crate) fn bases(text: &str, shape: &[i64]) -> String {
    let linear = parse_attribute(text).expect(text).to_linear_layout(shape).expect(text);
    linear_to_json(&linear)["in"].to_string()
}

/// The element of a register, lane and warp.
pub(crate) fn element(l: &LinearLayout, register: i64, lane: i64, warp: i64) -> Vec<i64> {
    let input = [("register", register), ("lane", lane), ("warp", warp), ("block", 0)];
    l.apply_to_input(&input).expect("inside")
}
