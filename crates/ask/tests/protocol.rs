//! The protocol: every request, the recorded upstream mistakes, and bad lines.

use serde_json::{Value, json};
use zellige_ask::{OPERATIONS, answer_line};

fn ask(request: &Value) -> Value {
    let line = request.to_string();
    let reply: Value = serde_json::from_str(&answer_line(&line)).expect("an answer is JSON");
    assert!(reply.get("ok").is_some() != reply.get("error").is_some(), "{reply}");
    reply
}

fn ok(request: &Value) -> Value {
    let reply = ask(request);
    reply.get("ok").cloned().unwrap_or_else(|| panic!("{request} -> {reply}"))
}

fn error(request: &Value) -> Value {
    let reply = ask(request);
    let error = reply.get("error").cloned().unwrap_or_else(|| panic!("{request} -> {reply}"));
    assert!(error["kind"].is_string() && error["message"].is_string(), "{error}");
    assert!(error.get("witness").is_some(), "{error}");
    error
}

fn same(a: &Value, b: &Value) -> bool {
    ok(&json!({"op": "equal", "a": a, "b": b}))["equal"] == true
}

/// One worked request per operation and the answer that the specification gives, one pair of lines
/// each.
const EXAMPLES: &str = include_str!("examples.jsonl");

#[test]
fn every_request_answers_its_example() {
    let lines: Vec<Value> = EXAMPLES
        .lines()
        .map(|l| serde_json::from_str(l).unwrap_or_else(|e| panic!("{l}: {e}")))
        .collect();
    for pair in lines.chunks(2) {
        let got = ok(&pair[0]);
        for (field, value) in pair[1].as_object().expect("an object") {
            assert_eq!(&got[field], value, "{}: `{field}` of {got}", pair[0]);
        }
    }
    for operation in OPERATIONS {
        let found = lines.iter().step_by(2).any(|r| r["op"] == operation.name);
        assert!(found, "`{}` has no example", operation.name);
    }
}

/// The compositions and the complement that existing implementations get wrong.
#[test]
fn wrong_answers_of_others_are_refused_with_a_witness() {
    for (a, b, index) in [
        ("S[(2,6):(7,1)]", "S[(2,3):(3,2)]", 5),
        ("S[(8,6,4):(5,3,2)]", "S[6:3]", 3),
        ("S[(2,4):(1,2)]", "S[6:1]", 4),
        ("S[(4,2,8):(16,8,0)]", "S[(4,12):(1,12)]", 47),
    ] {
        let e = error(&json!({"op": "compose", "a": a, "b": b}));
        assert_eq!(e["witness"], json!({"index": index}), "{a} o {b}: {e}");
    }
    let exact = ok(&json!({"op": "compose", "a": "S[(9,2,8):(16,8,0)]", "b": "S[(4,12):(1,12)]"}));
    assert!(same(&exact["layout"], &json!("S[(4,6,2):(0,24,8)]")), "{exact}");
    let e = error(&json!({"op": "complement", "layout": "S[(2,2):(1,1)]", "cosize": 8}));
    assert_eq!((&e["kind"], &e["witness"]), (&json!("aliased"), &json!({"pair": [1, 2]})));
}

#[test]
fn bad_lines_are_answered_and_the_stream_goes_on() {
    let long =
        format!("{{\"id\":1,\"op\":\"parse\",\"layout\":\"S[({})]\"}}", "9,".repeat(500_000));
    let deep = "[".repeat(100_000);
    for (line, kind) in [
        ("", "json"),
        ("{", "json"),
        ("nonsense", "json"),
        ("[1,2]", "bad_request"),
        ("{}", "bad_request"),
        (r#"{"op":7}"#, "bad_request"),
        (r#"{"op":"fly"}"#, "unknown_op"),
        (r#"{"op":"parse"}"#, "bad_request"),
        (r#"{"op":"parse","layout":7}"#, "bad_request"),
        (r#"{"op":"parse","layout":"S[4:1]","colour":"red"}"#, "unknown_field"),
        (r#"{"op":"parse","layout":"S[4:1@nope]"}"#, "unknown_axis"),
        (r#"{"op":"parse","layout":"S[-4:1]"}"#, "negative_extent"),
        (r#"{"op":"parse","layout":"S[4:9223372036854775808]"}"#, "syntax"),
        (r#"{"op":"parse","layout":"S[4:9223372036854775807]"}"#, "overflow"),
        (r#"{"op":"parse","layout":"S[4:1]","notation":"cute"}"#, "syntax"),
        (r#"{"op":"parse","layout":"S[4:1]","notation":"klingon"}"#, "bad_request"),
        (r#"{"op":"logical_divide","a":"4:1"}"#, "bad_request"),
        (r#"{"op":"linear"}"#, "bad_request"),
        (r#"{"op":"apply","layout":"S[4:1]","coords":[[4]]}"#, "out_of_range"),
        (r#"{"op":"apply","layout":"S[4:1]","coords":[[1.5]]}"#, "bad_request"),
        (r#"{"op":"apply","layout":"S[4:1]","shape":[5],"coords":[[1]]}"#, "size_mismatch"),
        (r#"{"op":"apply","layout":"S[4:1]","coords":7}"#, "bad_request"),
        (r#"{"op":"spyre_layout","size":[4],"dtype":"float64"}"#, "unsupported_dtype"),
        (r#"{"op":"spyre_layout","size":[4],"dtype":"nope"}"#, "unknown_dtype"),
        (r#"{"op":"parse","layout":"S[4]","layout":"S[5]"}"#, "json"),
        (r#"{"op":"left_inverse","layout":"S[(2,2,2):(2,3,19)]"}"#, "not_expressible"),
        (r#"{"op":"left_inverse","layout":"S[(4,2):(1,3)]"}"#, "aliased"),
        (r#"{"op":"left_inverse","layout":"S[(70000,2):(5,12)]"}"#, "undecided"),
        (r#"{"op":"scale_factors","rows":48,"groups":4}"#, "bad_parameter"),
        (r#"{"op":"scale_factors","rows":128,"groups":4096,"pipe_depth":2}"#, "bad_parameter"),
        (r#"{"op":"scale_factors","rows":128,"groups":4,"epc":4}"#, "unknown_field"),
        (r#"{"op":"scale_factors","rows":128}"#, "bad_request"),
        (r#"{"op":"physical_order","layout":"S[4:1] + R[2:4]"}"#, "not_expressible"),
        (r#"{"op":"physical_order","layout":"S[4:-1]"}"#, "not_expressible"),
        (
            r#"{"op":"conflicts","layout":"S[(2,4):(1@laneid,1)]","shape":[2,4],"dtype":"int32","access":{"kind":"column"}}"#,
            "not_one_axis",
        ),
        (
            r#"{"op":"conflicts","layout":"S[(8,64)]","shape":[8,64],"dtype":"int32","access":{"kind":"row"},"vector":3}"#,
            "bad_parameter",
        ),
        (
            r#"{"op":"tile","inner":"S[2:1] + -2","outer":"S[2:1]","outer_shape":[2],"inner_shape":[2]}"#,
            "bad_parameter",
        ),
        (
            r#"{"op":"is_tile_inner","layout":"S[4]","tiled":"S[8]","tiled_shape":[9],"inner_shape":[3]}"#,
            "size_mismatch",
        ),
        (r#"{"op":"view","size":[4,6],"call":"transpose","args":[0,1,2]}"#, "bad_request"),
        (r#"{"op":"view","size":[4,6],"call":"unfold","args":[0,2,1],"length":3}"#, "bad_request"),
        (r#"{"op":"convert","layout":"S[64]","shape":[64],"to":"spyre"}"#, "bad_request"),
        (
            r#"{"op":"work_division","kind":"pointwise","sizes":[256,128,512],"dtype":"float16","cores":64}"#,
            "bad_cores",
        ),
        (
            r#"{"op":"work_division","kind":"pointwise","sizes":[130,64],"dtype":"float16","cores":8,"hint":{"M":4}}"#,
            "bad_hint",
        ),
        (
            r#"{"op":"work_division","kind":"pointwise","sizes":[128,64],"dtype":"float16","cores":8,"hint":{"M":2.5}}"#,
            "bad_hint",
        ),
        (
            r#"{"op":"work_division","kind":"matmul","sizes":{"M":4,"N":4},"dtype":"float16"}"#,
            "bad_request",
        ),
        (
            r#"{"op":"work_division","kind":"pointwise","sizes":[2,65536,67108864],"dtype":"float16"}"#,
            "span_limit",
        ),
        (
            r#"{"op":"lx_plan","limit":10,"buffers":[{"name":"P","size":1,"uses":[0,4]},{"name":"C","size":2,"uses":[4],"in_place_parents":["P"]}]}"#,
            "bad_in_place_parent",
        ),
        (r#"{"op":"lx_plan","limit":10,"alignment":0,"buffers":[]}"#, "bad_alignment"),
        (r#"{"op":"lx_plan","limit":10,"buffers":[],"policy":"worst"}"#, "bad_request"),
        (r#"{"op":"lx_plan","buffers":[{"name":"a","size":-1,"uses":[1]}]}"#, "bad_request"),
        (long.as_str(), "overflow"),
        (deep.as_str(), "json"),
    ] {
        let reply: Value = serde_json::from_str(&answer_line(line)).expect("JSON");
        let shown: String = line.chars().take(80).collect();
        assert_eq!(reply["error"]["kind"], kind, "{shown}: {reply}");
    }
    // A misspelt field is named beside the one that is missing.
    let e = error(&json!({"op": "apply", "layout": "S[4]", "coord": [[1]]}));
    let message = e["message"].as_str().expect("a message");
    assert!(message.contains("`coords`") && message.contains("`coord`"), "{message}");
    // The id comes back whatever it is, also with an error.
    for id in [json!(1), json!("a"), json!(null), json!([1, {"b": 2}])] {
        assert_eq!(ask(&json!({"id": id, "op": "fly"}))["id"], id);
        assert_eq!(ask(&json!({"id": id, "op": "parse", "layout": "S[4]"}))["id"], id);
    }
}

#[test]
fn slices_without_iters_come_with_the_reason_and_the_general_form() {
    let got =
        ok(&json!({"op": "slice", "layout": "S[(2,3):(10,1)]", "shape": [6], "region": [[2, 5]]}));
    assert_eq!(got["layout"], Value::Null);
    assert!(got["reason"].as_str().is_some_and(|r| r.contains("not expressible")), "{got}");
    let general = &got["general"];
    assert_eq!(general, "S[(2,3):(10,1)] valid[2..5/6]");
    let points = ok(&json!({"op": "apply", "layout": general, "coords": [[0], [1], [2]]}));
    assert_eq!(points["points"], json!([[{"m": 2}], [{"m": 10}], [{"m": 11}]]));
}

#[test]
fn device_layouts_are_layouts_like_any_other() {
    let text = "SpyreTensorLayout(device_size=[2, 40, 64], stride_map =[64, 100, 1], device_dtype=DataFormats.SEN169_FP16)";
    let parsed = ok(&json!({"op": "parse", "layout": text}));
    assert_eq!((&parsed["notation"], &parsed["layout"]), (&json!("spyre"), &json!(text)));
    let at = ok(&json!({"op": "apply", "layout": text, "shape": [40, 100], "coords": [[1, 70]]}));
    assert_eq!(at["points"], json!([[{"m": 2560 + 64 + 6}]]));
    let tirx = ok(&json!({"op": "convert", "layout": text, "shape": [40, 100], "to": "tirx"}));
    assert_eq!(tirx["text"], "S[(40,2,64):(64,2560,1)] valid[40,100/128]");
    let back = json!({"op": "convert", "layout": tirx["text"], "shape": [40, 100], "dtype": "float16", "to": "spyre"});
    assert_eq!(ok(&back)["text"], text);
    let facts = ok(&json!({"op": "facts", "layout": text, "shape": [40, 100]}));
    assert_eq!(facts["padding"], json!({"valid": 4000, "padded": 5120, "count": 1120}));
    let pad =
        ok(&json!({"op": "lookup", "layout": text, "shape": [40, 100], "place": {"m": 2560 + 40}}));
    assert_eq!(pad["state"], "padding");
    let not = ok(&json!({"op": "convert", "layout": text, "shape": [40, 100], "to": "torch"}));
    assert_eq!(not["not_expressible"]["witness"]["coord"], json!([0, 64]), "{not}");
    error(&json!({"op": "apply", "layout": text, "coords": [[0, 0]]}));
}

/// Law: a layout and its legacy map are each other's, also on a host with gaps between its rows; a layout that
/// is in the tensor's own strides has a map there too.
#[test]
fn legacy_maps_of_hosts_with_gaps() {
    let sizes = json!({
        "op": "spyre_dim_map", "size": [100, 200, 500], "stride": [131072, 512, 1],
        "device_size": [256, 8, 128, 64],
    });
    let with = |key: &str, list: &[i64]| {
        let mut request = sizes.clone();
        request[key] = json!(list);
        request
    };
    let (map, strides) = ([1, 2, 0, 2], [512, 64, 131_072, 1]);
    assert_eq!(ok(&with("dim_map", &map))["stride_map"], json!(strides));
    assert_eq!(ok(&with("stride_map", &strides))["dim_map"], json!(map));
    assert_eq!(ok(&with("stride_map", &[500, 64, 100_000, 1]))["dim_map"], json!(map));
    let moved = ok(&json!({
        "op": "restickify_layout", "size": [100, 200, 500], "stride": [131072, 512, 1], "dtype": "float16",
        "device_size": [256, 8, 128, 64], "stride_map": strides, "to_dim": 0,
    }));
    assert_eq!(moved["device_size"], json!([256, 2, 500, 64]));
    assert_eq!(moved["stride_map"], json!([512, 8_388_608, 1, 131_072]));
}

/// Law: the letters of matrices name the dimensions of a list as the names in the answer do, and a split that is
/// no integer is a mistake of the hint.
#[test]
fn hints_by_letters() {
    let ask_for = |kind: &str, sizes: &[i64], hint: Value| {
        json!({"op": "work_division", "kind": kind, "sizes": sizes, "dtype": "float16", "cores": 8,
               "policy": "baseline", "hint": hint})
    };
    for (kind, sizes, by_letter, by_name) in [
        ("pointwise", &[512][..], json!({"M": 4}), json!({"c0": 4})),
        ("pointwise", &[128, 128], json!({"M": 4, "N": 2}), json!({"c0": 4, "c1": 2})),
        ("pointwise", &[4, 128, 64], json!({"B": 2, "M": 4}), json!({"c0": 2, "c1": 4})),
        ("reduction", &[128, 256], json!({"M": 2, "K": 4}), json!({"c0": 2, "c1": 4})),
    ] {
        let splits = |hint: &Value| ok(&ask_for(kind, sizes, hint.clone()))["splits"].clone();
        assert_eq!(splits(&by_letter), splits(&by_name), "{by_letter}");
        for (name, split) in by_name.as_object().expect("an object") {
            assert_eq!(splits(&by_letter)[name], *split, "{by_letter}");
        }
    }
    for bad in [json!(2.5), json!("4"), json!(true), json!([4])] {
        let e = error(&ask_for("pointwise", &[128, 64], json!({"M": bad})));
        assert_eq!((&e["kind"], &e["witness"]["dim"]), (&json!("bad_hint"), &json!("c0")));
        assert!(e["message"].as_str().is_some_and(|m| m.contains("must be an integer")), "{e}");
    }
}

#[test]
fn users_may_declare_axes() {
    let request = json!({
        "op": "apply", "axes": {"lx": "memory", "core": "device"},
        "layout": "S[(2,4):(1@core,1@lx)]", "coords": [[1, 2]],
    });
    assert_eq!(ok(&request)["points"], json!([[{"core": 1, "lx": 2}]]));
    let e = error(&json!({"op": "parse", "axes": {"lx": "magic"}, "layout": "S[4]"}));
    assert!(e["message"].as_str().is_some_and(|m| m.contains("memory")), "{e}");
}

/// Elements are packed on memory unless the request names another axis: columns of tensor memory hold 32 bits.
#[test]
fn packing_is_on_the_axis_that_is_named() {
    let layout = "S[(32,8):(1@TLane,1@TCol)]";
    let packed =
        ok(&json!({"op": "pack", "layout": layout, "num": 2, "axis": "TCol"}))["layout"].clone();
    assert!(same(&packed, &json!("S[(32,4):(1@TLane,1@TCol)]")), "{packed}");
    let unpacked = ok(&json!({"op": "unpack", "layout": packed, "num": 2, "axis": "TCol"}));
    assert!(same(&unpacked["layout"], &json!(layout)), "{unpacked}");
    let reply = error(&json!({"op": "pack", "layout": layout, "num": 2, "axis": "nowhere"}));
    assert!(reply["message"].as_str().is_some_and(|m| m.contains("nowhere")), "{reply}");
}
