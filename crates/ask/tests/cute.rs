//! CuTe's operators as requests. `crates/conformance` has every recorded case.

use serde_json::{Value, json};
use zellige_ask::answer_line;

fn ask(request: &Value) -> Value {
    serde_json::from_str(&answer_line(&request.to_string())).expect("an answer is JSON")
}

#[test]
fn texts_are_converted_and_say_how_they_were_read() {
    let reply =
        ask(&json!({"op": "convert", "layout": "size=[64, 256] stride=[256, 1]", "to": "cute"}));
    assert_eq!(reply["ok"]["text"], "(64,256):(256,1)", "{reply}");
    let note =
        ask(&json!({"op": "parse", "layout": "Sw<3,4,3> o smem_ptr[16b](unset) o (8,64):(64,1)"}));
    assert_eq!(
        note["ok"]["note"],
        "Sw<3,4,3> swizzles byte addresses; on element offsets it is Sw<3,3,3>"
    );
}

#[test]
fn bad_requests_say_what_is_wrong() {
    for (request, kind, words) in [
        (json!({"op": "composition", "a": "8:1"}), "bad_request", "`b` is missing"),
        (
            json!({"op": "zipped_divide", "a": "8:1", "b": "2:1", "tiler": ["2:1"]}),
            "bad_request",
            "both `b` and `tiler`",
        ),
        (
            json!({"op": "zipped_divide", "a": "8:1", "tiler": ["2:1", "2:1"]}),
            "length_mismatch",
            "the tiler has 2 entries, expected 1",
        ),
        (json!({"op": "zipped_divide", "a": "8:1", "tiler": ["2:1:"]}), "syntax", "unexpected"),
        (json!({"op": "zipped_divide", "a": "8:1", "tiler": [{"x": 1}]}), "bad_request", "tiler"),
        (
            json!({"op": "zipped_divide", "a": "8:1", "tiler": [-2]}),
            "bad_request",
            "is not a tiler",
        ),
        (
            json!({"op": "blocked_product", "a": "8:1", "b": "(2,3)", "notation": "cute"}),
            "bad_request",
            "has no strides",
        ),
        (
            json!({"op": "complement", "layout": "Sw<3,3,3> o 0 o 8:1", "cosize": 8}),
            "bad_request",
            "behind the swizzle",
        ),
        (
            json!({"op": "logical_divide", "a": "S[8:1@laneid]", "b": "2:1"}),
            "not_expressible",
            "laneid",
        ),
        (
            json!({"op": "logical_product", "a": "(2,2):(1,1)", "b": "2:1", "notation": "cute"}),
            "aliased",
            "share the physical coordinate",
        ),
    ] {
        let error = ask(&request)["error"].clone();
        assert_eq!(error["kind"], kind, "{request}: {error}");
        assert!(error["message"].as_str().is_some_and(|m| m.contains(words)), "{request}: {error}");
    }
    // A shape is a tiler of sizes, and operands of other notations are written in CuTe first.
    for (request, want) in [
        (
            json!({"op": "zipped_divide", "a": "(8,8):(1,8)", "b": "(2,4)", "notation": "cute"}),
            "((2,4),(4,2)):((1,8),(2,32))",
        ),
        (
            json!({"op": "zipped_divide", "a": "(8,8):(1,8)", "tiler": [2, "_4"], "notation": "cute"}),
            "((2,4),(4,2)):((1,8),(2,32))",
        ),
        (
            json!({"op": "logical_divide", "a": "size=[8, 8] stride=[1, 8]", "tiler": [2, 4]}),
            "((2,4),(4,2)):((1,2),(8,32))",
        ),
        (
            json!({"op": "logical_divide", "a": "Sw<2,0,3> o 0 o (8,8):(1,8)", "tiler": ["_", 4]}),
            "Sw<2,0,3> o 0 o (8,(4,2)):(1,(8,32))",
        ),
        (json!({"op": "composition", "a": "(_8,_8):(_8,_1)", "b": "_16:_1"}), "(_8,_2):(_8,_1)"),
        (
            json!({"op": "composition", "a": "(8,8):(8,1)", "b": "16:1", "as": "tirx"}),
            "S[(8,2):(8,1)]",
        ),
        (
            json!({"op": "compose", "a": "(4,2):(2,1)", "b": "(2,2):(1,4)", "notation": "cute"}),
            "(2,2):(2,1)",
        ),
    ] {
        let reply = ask(&request);
        assert_eq!(reply["ok"]["layout"], want, "{request}: {reply}");
    }
}

/// Texts of different shapes are equal in both orders or in none.
#[test]
fn equality_does_not_depend_on_the_order() {
    let equal =
        |a: &str, b: &str| ask(&json!({"op": "equal", "a": a, "b": b}))["ok"]["equal"].clone();
    for (a, b, same) in [
        ("size=[2, 16]", "(4,8):(8,1)", true),
        ("size=[2, 16]", "(4,8):(1,4)", false),
        ("S[32:1]", "(4,8):(8,1)", true),
        ("32:1", "(4,8):(1,4)", true),
    ] {
        assert_eq!((equal(a, b), equal(b, a)), (json!(same), json!(same)), "{a} and {b}");
    }
}
