//! The graphs in `examples/`: well-typed, and the same after a round trip.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use zellige_graph::{json, text};

#[test]
fn every_example_is_a_graph() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "graph") {
            continue;
        }
        let source = std::fs::read_to_string(&path).unwrap();
        let graph = text::parse(&source)
            .unwrap_or_else(|e| panic!("{}: {}", path.display(), e.render(&source, false)));
        assert_eq!(text::parse(&text::print(&graph)).unwrap(), graph, "{}", path.display());
        assert_eq!(json::parse(&json::print(&graph)).unwrap(), graph, "{}", path.display());
        seen += 1;
    }
    assert_eq!(seen, 12);
}

#[test]
fn the_large_model_has_the_published_sizes() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/granite-8b-decode.graph");
    let graph = text::parse(&std::fs::read_to_string(path).unwrap()).unwrap();
    let weights = graph
        .tensors()
        .filter(|(_, t)| t.def == zellige_graph::Def::Input(zellige_graph::Role::Weight));
    let parameters: i64 = weights.map(|(_, t)| t.size.iter().product::<i64>()).sum();
    let (hidden, mlp, vocab, kv) = (4096, 12800, 49159, 8 * 128);
    let layer = 2 * hidden * hidden + 2 * kv * hidden + 3 * mlp * hidden + 2 * hidden;
    // The embedding is counted once: it is also the output's. 8.17 billion.
    assert_eq!(parameters, vocab * hidden + 40 * layer + hidden);
    assert_eq!(graph.tensor("logits").unwrap().size, [1, 49159]);
    assert_eq!(graph.outputs().len(), 1 + 2 * 40);
}
