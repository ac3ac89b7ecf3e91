//! Values of the algebra as JSON.

use serde_json::{Map, Value, json};
use zellige_layout::{
    Axis, BankConflictReport, CoordinateSet, Layout, LayoutLint, PhysicalCoordinate, VectorWidth,
};

use crate::RequestFault;

/// A place as `{"m": 12, "laneid": 3}`.
pub(crate) fn place_json(p: &PhysicalCoordinate) -> Value {
    Value::Object(p.axis_entries().iter().map(|(a, v)| (a.name().to_string(), json!(v))).collect())
}

/// A set of places, sorted.
pub(crate) fn places_json(p: &CoordinateSet<'_>) -> Value {
    // Most elements have one place. Building that object directly saves the sort and the copy of a list, and
    // one request of `apply` may name a million of them.
    if p.len() == 1 {
        let row = p.coordinate_rows().next().unwrap_or(&[]);
        let object: Map<String, Value> = p
            .axes()
            .iter()
            .zip(row)
            .map(|(a, v)| (a.name().to_string(), Value::from(*v)))
            .collect();
        return Value::Array(vec![Value::Object(object)]);
    }
    points_json(&p.sorted_coordinates())
}

/// A list of places.
pub(crate) fn points_json(list: &[PhysicalCoordinate]) -> Value {
    list.iter().map(place_json).collect()
}

/// One value per axis of a layout.
pub(crate) fn per_axis_json(
    layout: &Layout,
    f: impl Fn(Axis) -> Result<i64, zellige_layout::LayoutError>,
) -> Result<Value, RequestFault> {
    let mut map = Map::new();
    for axis in layout.tile().axes() {
        map.insert(axis.name().to_string(), json!(f(*axis)?));
    }
    Ok(Value::Object(map))
}

pub(crate) fn axes_json(layout: &Layout) -> Value {
    let list = layout.tile().axes().iter();
    list.map(|a| json!({"name": a.name(), "kind": a.kind().name()})).collect()
}

pub(crate) fn lints_json(list: &[LayoutLint]) -> Value {
    list.iter()
        .map(|l| json!({"id": l.id, "severity": l.severity.name(), "message": l.message}))
        .collect()
}

pub(crate) fn vector_json(v: VectorWidth) -> Value {
    json!({"elements": v.elements, "bits": v.bits, "bytes": (v.bits + 7) / 8})
}

pub(crate) fn conflicts_json(c: &BankConflictReport) -> Value {
    let phases: Vec<Value> = c
        .phases
        .iter()
        .map(|p| {
            let words: Vec<Value> =
                p.banks.iter().map(|(bank, words)| json!({"bank": bank, "words": words})).collect();
            let banks: Vec<i64> = p.banks.keys().copied().collect();
            json!({"lanes": p.lanes, "banks": banks, "words": words, "ways": p.ways})
        })
        .collect();
    json!({"ways": c.ways, "conflict_free": c.is_conflict_free(), "phases": phases})
}
