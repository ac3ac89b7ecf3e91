//! Requests about shardings. `crates/conformance` has every recorded case.

use serde_json::{Value, json};

fn ok(request: &Value) -> Value {
    let reply: Value =
        serde_json::from_str(&zellige_ask::answer_line(&request.to_string())).expect("JSON");
    reply.get("ok").cloned().unwrap_or_else(|| panic!("{request} -> {reply}"))
}

#[test]
fn shardings_are_translated_by_the_numbers_of_devices() {
    let mesh = "Mesh('y': 2, 'x': 4) PartitionSpec('x', 'y')";
    let request = |to: &str| json!({"op": "convert", "layout": mesh, "shape": [8, 16], "to": to});
    assert_eq!(ok(&request("hlo"))["text"], "{devices=[4,2]<=[2,4]T(1,0)}");
    let back = json!({"op": "convert", "layout": "{devices=[4,2]<=[2,4]T(1,0)}", "shape": [8, 16], "to": "jax"});
    assert_eq!(ok(&back)["text"], "Mesh('d0': 2, 'd1': 4) PartitionSpec('d1', 'd0')");
    let places =
        ok(&json!({"op": "apply", "layout": mesh, "shape": [8, 16], "coords": [[2, 9], [7, 15]]}));
    assert_eq!(places["points"], json!([[{"m": 1, "x": 1, "y": 1}], [{"m": 15, "x": 3, "y": 1}]]));
}
