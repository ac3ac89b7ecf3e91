//! The request `linear`. `crates/conformance` has every recorded call of Triton.

use serde_json::{Value, json};

fn ask(request: &Value) -> Value {
    let answer = zellige_ask::answer_line(&request.to_string());
    serde_json::from_str(&answer).expect("an answer is JSON")
}

#[test]
fn other_notations_have_bases_where_they_are_linear() {
    let of = |layout: &str, shape: Value| {
        ask(&json!({"op": "linear", "call": "of", "layout": layout, "shape": shape}))
    };
    assert_eq!(
        of("S[(2,4):(4,1)]", json!([2, 4]))["ok"]["linear"],
        json!({"in": [["offset", [[0, 1], [0, 2], [1, 0]]], ["block", []]], "out": [["dim0", 2], ["dim1", 4]]})
    );
    assert_eq!(
        of("S[(8,4,2):(4@laneid,1@laneid,1)] + R[2:1@warpid]", json!([8, 8]))["ok"]["linear"],
        json!({"in": [["register", [[0, 1]]], ["lane", [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]], ["warp", [[0, 0]]], ["block", []]], "out": [["dim0", 8], ["dim1", 8]]})
    );
    assert_eq!(
        of("size=[4, 2] stride=[1, 4]", json!([4, 2]))["ok"]["linear"]["in"][0],
        json!(["offset", [[1, 0], [2, 0], [0, 1]]])
    );
    let refused = of("S[(3,4):(4,1)]", json!([3, 4]));
    assert_eq!(refused["error"]["kind"], "not_expressible", "{refused}");
    let refused = of(
        "#ttg.swizzled_shared<{vec = 8, perPhase = 1, maxPhase = 8, order = [1, 0]}>",
        Value::Null,
    );
    assert_eq!(refused["error"]["kind"], "bad_request", "{refused}");
    let refused = ask(&json!({"op": "linear", "call": "turn"}));
    assert_eq!(refused["error"]["kind"], "bad_request", "{refused}");
    let refused = ask(
        &json!({"op": "linear", "call": "facts", "a": {"in": [["x", [[1, 1]]]], "out": [["y", 2]]}}),
    );
    assert_eq!(refused["error"]["kind"], "bad_basis", "{refused}");
    assert_eq!(refused["error"]["witness"]["path"], "in[0][1][0]", "{refused}");
}

#[test]
fn layouts_are_converted_both_ways() {
    let convert = |layout: &str, shape: Value, to: &str| {
        let answer = ask(&json!({"op": "convert", "layout": layout, "shape": shape, "to": to}));
        answer["ok"]["text"].as_str().unwrap_or_else(|| panic!("{answer}")).to_string()
    };
    let blocked = "#ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], order = [1, 0]}>";
    let tirx = convert(blocked, json!([32, 16]), "tirx");
    assert_eq!(tirx, "S[(4,8,4,4):(1@warpid,4@laneid,1@laneid,1)]");
    assert_eq!(convert(&tirx, json!([32, 16]), "triton"), blocked);
    let bases = convert(&tirx, json!([32, 16]), "linear");
    assert_eq!(convert(&bases, json!([32, 16]), "tirx"), tirx);
    let padded = convert(
        "#ttg.padded_shared<[32:+4] {order = [1, 0], shape = [64, 32]}>",
        json!([64, 32]),
        "torch",
    );
    assert_eq!(padded, "size=[64, 32] stride=[36, 1]");
}
