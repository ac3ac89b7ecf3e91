//! The request `predict`: its terms add up, it does what it is told about divisions and layouts, and bad input is
//! refused with what would be accepted.

use serde_json::{Value, json};
use zellige_ask::answer_line;

fn ask(request: &Value) -> Value {
    let reply: Value = serde_json::from_str(&answer_line(&request.to_string())).expect("JSON");
    reply
}

fn ok(request: &Value) -> Value {
    let reply = ask(request);
    reply.get("ok").cloned().unwrap_or_else(|| panic!("{request} -> {reply}"))
}

fn microseconds(v: &Value) -> f64 {
    v.as_f64().unwrap_or_else(|| panic!("{v} is a number"))
}

fn counted(terms: &Value) -> f64 {
    let list = terms.as_array().expect("a list");
    for term in list {
        assert_eq!(term["unit"], "us", "{term}");
        assert!(term["meaning"].as_str().is_some_and(|m| !m.is_empty()), "{term}");
    }
    list.iter().map(|t| microseconds(&t["counted"])).sum()
}

/// Requests of every kind.
fn valid_requests() -> Vec<Value> {
    vec![
        json!({"op": "predict", "operation": "matmul", "shapes": [[512, 4096], [4096, 1024]]}),
        json!({"op": "predict", "operation": "matmul", "shapes": [[512, 4096], [4096, 1024]], "division": {"M": 4, "N": 4, "K": 2}, "policy": "baseline"}),
        json!({"op": "predict", "operation": "bmm", "shapes": [[4, 128, 256], [4, 256, 128]], "layouts": {"x0": {"order": [1, 0, 2]}}, "cores": 8}),
        json!({"op": "predict", "operation": "softmax", "shapes": [[256, 1024]], "attributes": {"dim": -1}, "profile": "card"}),
        json!({"op": "predict", "operation": "sum", "shapes": [[256, 1024]], "attributes": {"dim": [0]}, "stack": "ktir"}),
        json!({"op": "predict", "operation": "add", "shapes": [[300, 70], [300, 1]], "dtype": "float16", "layouts": {"x1": {"sparse": true}}, "lx_fraction": 0.8}),
        json!({"op": "predict", "graph": "graph g(a: float16[256, 512], b: float16[256, 512]) { s = add(a, b) t = mul(s, a) u = gelu(t) return u }", "lx": false}),
        json!({"op": "predict", "graph": "graph g[s in 1..64](a: float16[s, 512]) { t = transpose(a, dim0=0, dim1=1) u = clone(t) pin order [0, 1] return u }", "bind": {"s": 32}}),
    ]
}

#[test]
fn counted_terms_add_up_to_the_time() {
    for request in valid_requests() {
        let answer = ok(&request);
        let total = microseconds(&answer["time_us"]);
        // Every term is a whole number of picoseconds, so that only the sum of the numbers with a point rounds.
        assert!(
            (counted(&answer["terms"]) - total).abs() < 1e-6 * total.max(1.0),
            "{request} -> {answer}"
        );
        let mut kernels = 0.0;
        for step in answer["steps"].as_array().expect("a list") {
            let time = microseconds(&step["time_us"]);
            assert!((counted(&step["terms"]) - time).abs() < 1e-6 * time.max(1.0), "{step}");
            kernels += time;
        }
        assert!(
            (kernels - microseconds(&answer["kernel_us"])).abs() < 1e-6 * total.max(1.0),
            "{answer}"
        );
        let bound = answer["bound"].as_str().expect("something takes time");
        let terms = answer["terms"].as_array().expect("a list");
        let largest = terms.iter().map(|t| microseconds(&t["counted"])).fold(0.0, f64::max);
        let named = terms.iter().find(|t| t["name"] == bound).expect("the bound is a term");
        assert_eq!(microseconds(&named["counted"]), largest);
    }
}

#[test]
fn divisions_cores_and_scratchpads_are_as_asked_for() {
    let answer = ok(&valid_requests()[1]);
    let division = answer["steps"][0]["division"].as_array().expect("a list");
    let slices: Vec<u64> = division.iter().filter_map(|d| d["slices"].as_u64()).collect();
    assert_eq!((slices, &answer["steps"][0]["decided_by"]), (vec![4, 4, 2], &json!("hint")));
    assert_eq!(answer["steps"][0]["cores"], 32);
    for cores in [1, 4, 32] {
        let request =
            json!({"op": "predict", "operation": "neg", "shapes": [[64, 4096]], "cores": cores});
        assert_eq!(ok(&request)["steps"][0]["cores"], cores, "{cores}");
    }
    let graph = "graph g(a: float16[512, 1024], b: float16[512, 1024]) { s = add(a, b) t = add(s, b) return t }";
    let bytes = |lx: bool| {
        let answer = ok(&json!({"op": "predict", "graph": graph, "lx": lx}));
        let steps = answer["steps"].as_array().expect("a list").clone();
        let of =
            |s: &Value| s["bytes_in"].as_u64().unwrap_or(0) + s["bytes_out"].as_u64().unwrap_or(0);
        steps.iter().map(of).sum::<u64>()
    };
    // Each of two sums reads two tensors and writes one; the one between them stays in the scratchpads.
    let tensor = 512 * 1024 * 2;
    assert_eq!((bytes(false), bytes(true)), (6 * tensor, 4 * tensor));
}

#[test]
fn a_prediction_of_the_compile_request_is_the_same() {
    let graph = "graph g(a: float16[512, 1024], w: float16[1024, 2048]) { y = matmul(a, w) split {M: 4, N: 8} return y }";
    let report = ok(&json!({
        "op": "compile", "graph": graph,
        "options": {"policy": "baseline", "outputs": "computed", "weights": "given", "concurrent": false},
    }));
    let answer = ok(&json!({"op": "predict", "graph": graph, "policy": "baseline"}));
    assert_eq!(answer["steps"][0]["time_us"], report["steps"][0]["us"]);
    let terms = answer["steps"][0]["terms"].as_array().expect("a list");
    let reported = report["steps"][0]["terms"].as_array().expect("a list");
    assert_eq!(terms.len(), reported.len());
    for (a, b) in terms.iter().zip(reported) {
        assert_eq!(
            (&a["name"], &a["counted"], &a["alone"]),
            (&b["name"], &b["counted_us"], &b["alone_us"])
        );
    }
    assert_eq!(answer["time_us"], report["summary"]["latency_us"]);
}

#[test]
fn bad_input_is_refused_with_what_is_accepted() {
    let graph = "graph g(a: float16[64, 64]) { y = neg(a) return y }";
    let matmul = json!([[512, 4096], [4096, 1024]]);
    let mut wrong: Vec<String> = Vec::new();
    for (request, expected) in [
        (json!({}), "give `operation` with `shapes`, or `graph`, or `file`"),
        (json!({"operation": "matmul"}), "`shapes` is missing"),
        (json!({"operation": 7, "shapes": []}), "`operation`"),
        (json!({"operation": "matmull", "shapes": matmul}), "matmull"),
        (json!({"operation": "matmul", "shapes": [[512, 4096]]}), "operand"),
        (json!({"operation": "matmul", "shapes": [[512, 4096], [512, 1024]]}), "4096"),
        (json!({"operation": "matmul", "shapes": [[512, -1], [4096, 1024]]}), "-1"),
        (json!({"operation": "matmul", "shapes": [512, 4096]}), "`shapes`"),
        (json!({"operation": "neg", "shapes": vec![json!([4]); 65]}), "at most 64 operands"),
        (json!({"operation": "neg", "shapes": [[i64::MAX, i64::MAX]]}), ""),
        (json!({"operation": "neg", "shapes": [[1_i64 << 40, 64]]}), ""),
        (json!({"operation": "matmul", "shapes": matmul, "dtype": "float17"}), "float17"),
        (
            json!({"operation": "matmul", "shapes": matmul, "dtype": ["float16"]}),
            "one for each operand",
        ),
        (json!({"operation": "matmul", "shapes": matmul, "dtype": "float8_e4m3fn"}), "scaled_mm"),
        (json!({"operation": "matmul", "shapes": matmul, "division": {"M": 3}}), "accepted"),
        (json!({"operation": "matmul", "shapes": matmul, "division": {"Q": 2}}), "M, N, K"),
        (json!({"operation": "matmul", "shapes": matmul, "division": {"M": 0}}), "1 or more"),
        (json!({"operation": "matmul", "shapes": matmul, "division": {"M": "four"}}), "1 or more"),
        (json!({"operation": "matmul", "shapes": matmul, "division": {"M": 64, "N": 16}}), "core"),
        (
            json!({"operation": "matmul", "shapes": matmul, "division": [4, 8]}),
            "{\"M\": 4, \"N\": 8}",
        ),
        (
            json!({"operation": "matmul", "shapes": matmul, "layouts": {"z": {"stick": 0}}}),
            "there are x0, x1, y",
        ),
        (
            json!({"operation": "matmul", "shapes": matmul, "layouts": {"x0": {"stick": 9}}}),
            "there is no dimension 9",
        ),
        (
            json!({"operation": "matmul", "shapes": matmul, "layouts": {"x0": "stick 1"}}),
            "{\"stick\": 1}",
        ),
        (
            json!({"operation": "matmul", "shapes": matmul, "layouts": "row major"}),
            "{\"stick\": 1}",
        ),
        (json!({"operation": "matmul", "shapes": matmul, "cores": 0}), "1 to 32"),
        (json!({"operation": "matmul", "shapes": matmul, "cores": 33}), "1 to 32"),
        (json!({"operation": "matmul", "shapes": matmul, "cores": 2.5}), "integer"),
        (
            json!({"operation": "matmul", "shapes": matmul, "lx_fraction": 1.5}),
            "a number from 0 to 1",
        ),
        (
            json!({"operation": "matmul", "shapes": matmul, "lx_fraction": "half"}),
            "a number from 0 to 1",
        ),
        (json!({"operation": "matmul", "shapes": matmul, "lx": 1}), "true or false"),
        (json!({"operation": "matmul", "shapes": matmul, "stack": "h200"}), "card"),
        (json!({"operation": "matmul", "shapes": matmul, "stack": "card.toml"}), "card"),
        (
            json!({"operation": "matmul", "shapes": matmul, "policy": "fast"}),
            "\"best\" or \"baseline\"",
        ),
        (
            json!({"operation": "matmul", "shapes": matmul, "profile": "none"}),
            "\"full\" or \"card\"",
        ),
        (json!({"operation": "matmul", "shapes": matmul, "graph": graph}), "give one of"),
        (json!({"operation": "topk", "shapes": [[64, 64]], "attributes": {"k": 2}}), "2 results"),
        (json!({"graph": graph, "division": {"M": 4}}), "split {M: 4, N: 8}"),
        (json!({"graph": graph, "layouts": {"y": {"stick": 0}}}), "pin order"),
        (json!({"graph": graph, "shapes": [[1]]}), "the graph has the shapes"),
        (json!({"graph": graph, "core": 4}), "unknown field `core`"),
        (json!({"graph": graph, "file": "x.graph"}), "one of `graph` and `file`"),
        (json!({"graph": "graph g("}), ""),
        (json!({"graph": graph, "bind": {"s": 4}}), "s"),
    ] {
        let mut line = request.clone();
        line["op"] = json!("predict");
        let reply = ask(&line);
        let Some(error) = reply.get("error") else {
            wrong.push(format!("{request} is answered"));
            continue;
        };
        let message = error["message"].as_str().expect("a text");
        let good = error["kind"] != "internal" && !message.is_empty() && message.contains(expected);
        if !good || error.get("witness").is_none() {
            wrong.push(format!("{request}\n  {error}\n  expected {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
