//! The forward map of one element, step by step, with its numbers.

use crate::RequestFault;
use crate::json::points_json;
use serde_json::{Value, json};
use zellige_layout::{Axis, Layout, flatten_coordinate, unflatten_index};

/// The four steps for an element: flatten, split, add up (and swizzle), replicate.
///
/// **Law**: `base` is a place of the element, and `places` are all of them.
pub(crate) fn explain_forward_map(
    layout: &Layout,
    shape: &[i64],
    flat: i64,
) -> Result<Value, RequestFault> {
    let places = layout.physical_coordinates(flat)?.sorted_coordinates();
    let tile = layout.tile();
    let coord = unflatten_index(shape, flat);
    let mut padded = Value::Null;
    let mut index = flat;
    if let Some(window) = layout.window() {
        let valid = unflatten_index(&window.shape(), flat);
        // A window shifts the coordinate into the padded tensor, whose index is what the digits are split from.
        let inside: Vec<i64> = valid.iter().zip(window.dims()).map(|(c, d)| c + d.begin).collect();
        index = flatten_coordinate(&window.padded_shape(), &inside)?;
        padded = json!({"shape": window.padded_shape(), "coord": inside, "index": index});
    }
    let extents: Vec<i64> = tile.shard().iter().map(|it| it.extent).collect();
    let digits = unflatten_index(&extents, index);
    let split: Vec<Value> = tile
        .shard()
        .iter()
        .zip(&digits)
        .map(|(it, digit)| {
            json!({"digit": digit, "extent": it.extent, "stride": it.stride, "axis": it.axis.name()})
        })
        .collect();
    let sums: Vec<Value> = tile
        .axes()
        .iter()
        .map(|axis| {
            let terms: Vec<[i64; 2]> = tile
                .shard()
                .iter()
                .zip(&digits)
                .filter(|(it, _)| it.axis == *axis)
                .map(|(it, digit)| [*digit, it.stride])
                .collect();
            let offset = tile.offset_on(*axis);
            let sum = terms.iter().map(|[d, s]| d * s).sum::<i64>() + offset;
            // A swizzle permutes addresses of memory; coordinates on other axes pass unchanged.
            let swizzle = layout.swizzle().filter(|_| *axis == Axis::M);
            json!({
                "axis": axis.name(),
                "terms": terms,
                "offset": offset,
                "sum": sum,
                "swizzle": swizzle.map(|s| format!("{s:?}")),
                "value": swizzle.map_or(sum, |s| s.apply_to_address(sum)),
            })
        })
        .collect();
    let replicas: Vec<Value> = tile
        .replica()
        .iter()
        .map(|it| json!({"extent": it.extent, "stride": it.stride, "axis": it.axis.name()}))
        .collect();
    Ok(json!({
        "shape": shape,
        "coord": coord,
        "index": flat,
        "padded": padded,
        "split": split,
        "sums": sums,
        "replicas": replicas,
        "places": points_json(&places),
    }))
}
