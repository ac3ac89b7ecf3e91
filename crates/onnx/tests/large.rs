//! Tensors that are larger than any memory: views of them are free, and operations that need their
//! elements are refused at once.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::*;
use std::collections::BTreeMap;
use zellige_compile::{CompilerOptions, compile_graph};
use zellige_device::{Card, KeptDtypes};
use zellige_onnx::OnnxModel;
use zellige_run::{HostArray, run_graph_eagerly};

/// `Expand` of `x` to 10^10 elements, and the nodes after it.
fn expanded() -> Net {
    Net::new(17).x(&[1, 1]).weight(&ints("size", &[100_000, 100_000])).node(
        "Expand",
        &["x", "size"],
        &["y"],
        &[],
    )
}

fn run(net: &Net) -> Result<Vec<f32>, String> {
    let file = net.file();
    let imported = OnnxModel::read_model(&file).unwrap().import_graph(&BTreeMap::new()).unwrap();
    assert!(imported.weights.is_empty());
    let card = Card::builder().keep_dtypes(KeptDtypes::ALL).build().unwrap();
    let made =
        run_graph_eagerly(&imported.graph, &card, |_| Ok(HostArray::from_f32(&[1, 1], &[3.0])));
    made.map(|all| all[0].to_f32().unwrap()).map_err(|e| e.to_string())
}

#[test]
fn a_part_of_a_large_expand_is_a_view() {
    let net = expanded()
        .weight(&ints("start", &[70_000, 99_997]))
        .weight(&ints("end", &[70_002, 100_000]))
        .node("Slice", &["y", "start", "end"], &["z"], &[])
        .output("z");
    assert_eq!(run(&net).unwrap(), [3.0; 6]);
}

#[test]
fn a_large_expand_that_has_to_be_stored_is_refused() {
    let sum = expanded().node("Add", &["x", "y"], &["z"], &[]).output("z");
    for net in [expanded().output("y"), sum] {
        let graph = net.import().unwrap().graph;
        let told = compile_graph(&graph, &CompilerOptions::default()).unwrap_err().to_string();
        assert!(told.contains("40000000000 bytes") && told.contains("does not fit"), "{told}");
    }
    // More elements than a number of 64 bits counts.
    let vast = Net::new(17)
        .x(&[1, 1])
        .weight(&ints("size", &[1 << 40, 1 << 40]))
        .node("Expand", &["x", "size"], &["y"], &[])
        .output("y")
        .refusal();
    assert!(vast.contains("Expand"), "{vast}");
}
