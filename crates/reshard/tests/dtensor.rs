//! Compares the chain of collectives with what PyTorch's DTensor planned and ran, recorded by
//! `dtensor/record.py`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use zellige_reshard::{DeviceMesh, PlacementText, plan_collective_chain};

const RECORDED: &str = include_str!("dtensor/chains.jsonl");

#[test]
fn chains_are_those_of_dtensor() {
    let (mut cases, mut steps) = (0, 0);
    for line in RECORDED.lines().skip(1) {
        let case: serde_json::Value = serde_json::from_str(line).unwrap();
        let list = |key: &str| case[key].as_array().unwrap().clone();
        let ints = |key: &str| list(key).iter().map(|n| n.as_i64().unwrap()).collect::<Vec<_>>();
        let (sizes, shape) = (ints("mesh"), ints("shape"));
        let axes: Vec<String> =
            sizes.iter().enumerate().map(|(k, n)| format!("a{k}={n}")).collect();
        let mesh = DeviceMesh::parse(&axes.join(", ")).unwrap();
        let side = |key: &str| {
            let placement = |d: &serde_json::Value| match d.as_i64() {
                Some(dim) => format!("Shard({dim}), "),
                None => "Replicate(), ".into(),
            };
            let text: String = list(key).iter().map(placement).collect();
            let placed = PlacementText::parse(&format!("({text})")).unwrap();
            placed.shard_over_mesh(&mesh, &shape, &[]).unwrap_or_else(|e| panic!("{line}: {e}"))
        };
        let found = plan_collective_chain(&side("from"), &side("to"), &shape).unwrap();
        let found: Vec<(String, i64)> = found
            .steps
            .iter()
            .map(|(c, axis)| (c.to_string(), i64::try_from(*axis).unwrap()))
            .collect();
        let wanted: Vec<(String, i64)> = list("steps")
            .iter()
            .map(|s| (s[0].as_str().unwrap().to_string(), s[1].as_i64().unwrap()))
            .collect();
        assert_eq!(found, wanted, "{line}");
        cases += 1;
        steps += wanted.len();
    }
    assert!(cases >= 300 && steps > 400, "{cases} {steps}");
}
