//! Graphs as text and as JSON: refused, or printed in both forms and read back unchanged.

use crate::budget::run_bounded;
use crate::notation::check_refusal;
use zellige_graph::{Graph, json, text};

fn memory_budget(length: usize) -> usize {
    (1 << 24) + 4000 * length
}

pub(crate) fn fuzz_graph_text(data: &[u8]) {
    let Ok(source) = std::str::from_utf8(data) else { return };
    match run_bounded("reading a graph", memory_budget(source.len()), || text::parse(source)) {
        Err(d) => check_refusal(source, &d),
        Ok(graph) => check_round_trip(&graph),
    }
}

pub(crate) fn fuzz_graph_json(data: &[u8]) {
    let Ok(source) = std::str::from_utf8(data) else { return };
    match run_bounded("reading a graph", memory_budget(source.len()), || json::parse(source)) {
        Err(e) => assert!(!e.to_string().is_empty()),
        Ok(graph) => check_round_trip(&graph),
    }
}

fn check_round_trip(graph: &Graph) {
    let printed = text::print_graph(graph);
    assert!(text::parse(&printed).as_ref() == Ok(graph), "changed:\n{printed}");
    let printed = json::print_graph(graph);
    assert!(json::parse(&printed).is_ok_and(|g| g == *graph), "changed:\n{printed}");
}
