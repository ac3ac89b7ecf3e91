//! Graphs as text and as JSON: refused, or printed in both forms and read back the same.

use crate::budget::bounded;
use crate::notation::refused;
use zellige_graph::{Graph, json, text};

fn bytes(length: usize) -> usize {
    (1 << 24) + 4000 * length
}

pub(crate) fn text(data: &[u8]) {
    let Ok(source) = std::str::from_utf8(data) else { return };
    match bounded("reading a graph", bytes(source.len()), || text::parse(source)) {
        Err(d) => refused(source, &d),
        Ok(graph) => same(&graph),
    }
}

pub(crate) fn json(data: &[u8]) {
    let Ok(source) = std::str::from_utf8(data) else { return };
    match bounded("reading a graph", bytes(source.len()), || json::parse(source)) {
        Err(e) => assert!(!e.to_string().is_empty()),
        Ok(graph) => same(&graph),
    }
}

fn same(graph: &Graph) {
    let printed = text::print_graph(graph);
    assert!(text::parse(&printed).as_ref() == Ok(graph), "changed:\n{printed}");
    let printed = json::print_graph(graph);
    assert!(json::parse(&printed).is_ok_and(|g| g == *graph), "changed:\n{printed}");
}
