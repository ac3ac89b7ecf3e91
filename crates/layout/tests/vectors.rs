//! Properties of the recorded layouts of Apache TVM's `tvm.tirx` that no request answers; `crates/conformance` has
//! the rest.

use serde_json::Value;
use zellige_layout::{AxisTable, Iter, Layout, Swizzle, TileLayout};

fn data(name: &str) -> Value {
    let path = format!("{}/../../tests/data/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    serde_json::from_str(&text).expect("valid JSON")
}

/// A layout from its recorded parts.
fn layout(spec: &Value) -> Layout {
    let table = AxisTable::new();
    if spec["kind"] == "compose" {
        let n = |k: &str| spec[k].as_i64().expect("an integer");
        let inner = spec["swizzle_inner"].as_bool().expect("a flag");
        let sw = Swizzle::new(n("per_element"), n("swizzle_len"), n("atom_len"), inner);
        let tile = layout(&spec["tile"]).tile().clone();
        return Layout::from_swizzled_tile(sw.expect("well-formed"), tile).expect("well-formed");
    }
    let iters = |v: &Value| -> Vec<Iter> {
        v.as_array()
            .expect("a list")
            .iter()
            .map(|it| {
                let axis = table.get(it[2].as_str().expect("a name")).expect("known");
                Iter::new(it[0].as_i64().expect("extent"), it[1].as_i64().expect("stride"), axis)
            })
            .collect()
    };
    let offset: Vec<_> = spec["offset"]
        .as_object()
        .expect("an object")
        .iter()
        .map(|(k, v)| (table.get(k).expect("known"), v.as_i64().expect("an integer")))
        .collect();
    TileLayout::new(iters(&spec["shard"]), iters(&spec["replica"]), offset)
        .expect("well-formed")
        .into()
}

#[test]
fn sizes_and_trivial_layouts_are_the_recorded_ones() {
    let table = AxisTable::new();
    let mut checked = 0;
    for r in data("tirx.json")["records"].as_array().expect("a list") {
        let l = layout(&r["spec"]);
        for (axis, v) in r["size_by_axis"].as_object().into_iter().flatten() {
            if let Some(v) = v["value"].as_i64() {
                assert_eq!(l.tile().size_on(table.get(axis).expect("known")), v, "{}", r["text"]);
                checked += 1;
            }
        }
        if let Some(trivial) =
            r["is_trivial"]["value"].as_bool().filter(|_| r["spec"]["kind"] == "tile")
        {
            assert_eq!(l.tile().is_trivial(), trivial, "{}", r["text"]);
            checked += 1;
        }
    }
    assert!(checked > 300, "{checked}");
}
