//! The request `exchange`: recorded copies, other forms of a division, and bad input.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

fn ask(request: &Value) -> Value {
    let mut request = request.clone();
    request["op"] = json!("exchange");
    serde_json::from_str(&zellige_ask::answer_line(&request.to_string())).unwrap()
}

fn ranges_of(part: &Value, shape: &[(String, i64)]) -> Vec<(i64, i64)> {
    let mut ranges: Vec<(i64, i64)> = shape.iter().map(|(_, n)| (0, *n)).collect();
    for range in part.as_array().unwrap() {
        let dim = shape.iter().position(|(name, _)| *name == range[0]).unwrap();
        ranges[dim] = (range[1].as_i64().unwrap(), range[2].as_i64().unwrap());
    }
    ranges
}

fn inside(part: &[(i64, i64)], whole: &[(i64, i64)]) -> bool {
    part.iter().zip(whole).all(|(p, w)| w.0 <= p.0 && p.1 <= w.1)
}

fn volume(part: &[(i64, i64)]) -> i64 {
    part.iter().map(|(a, b)| b - a).product()
}

fn overlap(a: &[(i64, i64)], b: &[(i64, i64)]) -> bool {
    a.iter().zip(b).all(|(x, y)| x.0.max(y.0) < x.1.min(y.1))
}

/// Checks the answer by its own lists: boxes that are inside what the sender holds and the receiver needs, that do not
/// overlap, and whose volumes add up, cover every destination cell once.
#[test]
fn recorded_copies_arrive_once_and_come_from_holders() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/spyre_relayouts.json");
    let cases: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    for case in &cases {
        let id = &case["id"];
        let tables = (&case["source"]["owners"], &case["destination"]["owners"]);
        let answer = ask(&json!({
            "shape": case["shape"], "dtype": "float16", "source": tables.0, "destination": tables.1,
        }));
        let plan = &answer["ok"];
        assert_eq!(plan["movement"], case["expected"]["movement"], "{id}: {answer}");
        assert_eq!(plan["remote_bytes"], case["expected"]["remote_bytes"], "{id}");
        let shape: Vec<(String, i64)> = case["shape"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(name, n)| (name.clone(), n.as_i64().unwrap()))
            .collect();
        let mut arrived: BTreeMap<String, Vec<Vec<(i64, i64)>>> = BTreeMap::new();
        for send in plan["sends"].as_array().unwrap() {
            let part = ranges_of(&send[2], &shape);
            assert_eq!(send[3], 2 * volume(&part), "{id}");
            let held = ranges_of(&tables.0[send[0].to_string()], &shape);
            assert!(inside(&part, &held), "{id}: {send}");
            for to in send[1].as_array().unwrap() {
                let needed = ranges_of(&tables.1[to.to_string()], &shape);
                assert!(inside(&part, &needed), "{id}: {send}");
                let before = arrived.entry(to.to_string()).or_default();
                assert!(!before.iter().any(|b| overlap(b, &part)), "{id}: {send}");
                before.push(part.clone());
            }
        }
        for (core, part) in tables.1.as_object().unwrap() {
            let got: i64 = arrived.get(core).into_iter().flatten().map(|b| volume(b)).sum();
            assert_eq!(got, volume(&ranges_of(part, &shape)), "{id}: core {core}");
        }
    }
}

#[test]
fn a_table_a_rule_and_a_layout_are_the_same_division() {
    let shape = json!({"mb": 8, "out": 128});
    let table = json!({"0": [["mb", 0, 4]], "1": [["mb", 4, 8]]});
    let rule = json!({"cores": [0, 2, 1], "slices": {"mb": [1, 2]}});
    let layout = json!("S[(2,4,128):(1@core,128@lx,1@lx)]");
    let destination = json!({"cores": [0, 4, 1], "slices": {"out": [1, 4]}});
    let answers: BTreeSet<String> = [table, rule, layout]
        .into_iter()
        .map(|source| {
            let request = json!({
                "shape": shape, "dtype": "float16", "source": source, "destination": destination,
            });
            let answer = ask(&request);
            assert!(answer["ok"].is_object(), "{answer}");
            answer.to_string()
        })
        .collect();
    assert_eq!(answers.len(), 1);
}

#[test]
fn bad_input_is_refused_with_its_place() {
    let good = json!({
        "shape": {"mb": 8, "out": 6}, "dtype": "float16",
        "source": {"0": [["mb", 0, 4]]}, "destination": {"1": [["mb", 0, 2]]},
    });
    assert_eq!(ask(&good)["ok"]["movement"], "select");
    let refused = |field: &str, value: Value| {
        let mut request = good.clone();
        request[field] = value;
        let answer = ask(&request);
        answer["error"]["message"].as_str().unwrap_or("no error").to_string()
    };
    let cases = [
        ("destination", json!({"1": [["mb", 0, 8]]}), "core 1 needs element [4, 0], which no core"),
        ("source", json!({"0": [["m", 0, 4]]}), "there is no dimension `m`; there are mb, out"),
        ("source", json!({"4294967295": []}), "cores have numbers from 0 to 4095"),
        ("cores", json!(0), "1 to 4096 are accepted"),
        ("cores", json!(1_i64 << 40), "1 to 4096 are accepted"),
        ("source", json!({"a": []}), "`a` is no number of a core"),
        ("source", json!({"0": [["mb", 0, 9]]}), "whose extent is 8"),
        ("source", json!({"0": [["mb", 0, 2], ["mb", 4, 6]]}), "has a list of boxes"),
        ("source", json!({"0": 3}), "must be a list of ranges"),
        ("source", json!({"0": [["mb", 0]]}), "[dimension, begin, end]"),
        ("source", json!({"cores": [0, 2, 1], "slices": {"mb": [1, 3]}}), "a divisor of 8"),
        ("source", json!({"cores": [0, 2], "slices": {}}), "[begin, end, step]"),
        ("source", json!({"cores": [0, 2, 0], "slices": {}}), "step >= 1"),
        ("source", json!({"slices": {}}), "`cores` is missing"),
        ("source", json!("S[(8,6):(6,1)]"), "does not mention the axis `core`"),
        ("source", json!("S[(8,7):(1@core,1@lx)]"), "`source`"),
        ("source", json!(3), "the text of a layout on the axis `core`"),
        ("shape", json!({"mb": 0, "out": 6}), "every extent must be at least 1"),
        ("shape", json!([4, 6]), "there is no dimension `mb`; there are 0, 1"),
        ("colour", json!(3), "colour"),
    ];
    for (field, value, expected) in cases {
        let message = refused(field, value.clone());
        assert!(message.contains(expected), "{field}: {value}: {message}");
    }
}
