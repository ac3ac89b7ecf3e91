//! Copies between scratchpads as they were recorded: Granite, Gemma and tests of torch-spyre.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use serde_json::Value;
use zellige_exchange::{CoreExchange, CoreNumber, TensorBox, TensorDivision};

fn read_cases() -> Vec<Value> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/spyre_relayouts.json");
    let text = std::fs::read_to_string(path).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn read_division(shape: &[(String, i64)], table: &Value) -> TensorDivision {
    let extents: Vec<i64> = shape.iter().map(|(_, n)| *n).collect();
    let parts = table["owners"].as_object().unwrap().iter().map(|(core, part)| {
        let mut ranges: Vec<(i64, i64)> = extents.iter().map(|n| (0, *n)).collect();
        for range in part.as_array().unwrap() {
            let dim = shape.iter().position(|(name, _)| *name == range[0]).unwrap();
            ranges[dim] = (range[1].as_i64().unwrap(), range[2].as_i64().unwrap());
        }
        (core.parse::<CoreNumber>().unwrap(), TensorBox::new(ranges))
    });
    TensorDivision::new(&extents, parts).unwrap()
}

#[test]
fn recorded_copies_have_the_same_class_and_the_fewest_remote_bytes() {
    let cases = read_cases();
    assert!(cases.len() >= 69);
    for case in &cases {
        let id = &case["id"];
        let shape: Vec<(String, i64)> = case["shape"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(name, n)| (name.clone(), n.as_i64().unwrap()))
            .collect();
        let source = read_division(&shape, &case["source"]);
        let destination = read_division(&shape, &case["destination"]);
        let plan = CoreExchange::between(&source, &destination).unwrap();
        let expected = &case["expected"];
        assert_eq!(plan.class().to_string(), expected["movement"], "{id}");
        // Elements of 16 bits.
        assert_eq!(2 * plan.remote_elements(), expected["remote_bytes"].as_i64().unwrap(), "{id}");
        assert_eq!(2 * plan.local_elements(), expected["local_bytes"].as_i64().unwrap(), "{id}");
        if plan.shape().iter().product::<i64>() <= 1 << 13 {
            plan.certify(&source, &destination).unwrap();
        }
    }
}

#[test]
fn rules_of_recorded_copies_give_their_tables() {
    let mut seen = 0;
    for case in &read_cases() {
        let shape: Vec<(String, i64)> = case["shape"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(name, n)| (name.clone(), n.as_i64().unwrap()))
            .collect();
        let extents: Vec<i64> = shape.iter().map(|(_, n)| *n).collect();
        for side in ["source", "destination"] {
            let Some(rule) = case[side].get("rule") else { continue };
            let bound = |k: usize| rule["cores"][k].as_u64().unwrap();
            let cores = (bound(0)..bound(1)).step_by(usize::try_from(bound(2)).unwrap());
            let cores: Vec<CoreNumber> = cores.map(|c| CoreNumber::try_from(c).unwrap()).collect();
            let slices: Vec<(usize, i64, i64)> = rule["slice"]
                .as_object()
                .unwrap()
                .iter()
                .map(|(name, rule)| {
                    let dim = shape.iter().position(|(n, _)| n == name).unwrap();
                    (dim, rule[0].as_i64().unwrap(), rule[1].as_i64().unwrap())
                })
                .collect();
            let found = TensorDivision::from_slices(&extents, &cores, &slices);
            // A rule that holds for a region of the tensor is not a division of all of it.
            if rule.get("region").is_some() || case[side].get("region").is_some() {
                continue;
            }
            assert_eq!(found.unwrap(), read_division(&shape, &case[side]), "{} {side}", case["id"]);
            seen += 1;
        }
    }
    assert!(seen > 100, "{seen} rules");
}
