//! What fuzzers call: one function of bytes for every kind of input that comes from outside.
//!
//! A target panics where something is wrong and returns where nothing is. Each checks that the input
//! is refused or accepted without a panic, within time and memory that follow from its length
//! ([`budget`]), and a law: what was read is written and read back the same, or agrees with a slow
//! definition.
//!
//! `fuzz/` hands the same functions to a coverage-guided fuzzer, and `tests/smoke.rs` calls each for
//! about a second with mutated seeds, so that no target stops building or begins to fail unseen.

#![forbid(unsafe_code)]

mod ask;
pub mod budget;
mod cache;
mod dma;
mod files;
pub use files::clean;
mod graph;
mod ktir;
mod notation;
mod onnx;
mod plan;
mod seeds;

/// A kind of input.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Its name: that of the program in `fuzz/`.
    pub name: &'static str,
    /// Checks one input.
    pub run: fn(&[u8]),
    /// Valid inputs to begin with.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// Every target.
pub const TARGETS: &[Target] = &[
    Target { name: "ask_line", run: ask::line, seeds: seeds::ask_lines },
    Target { name: "cache_entry", run: cache::entry, seeds: seeds::cache_entries },
    Target { name: "convert_text", run: notation::conversion, seeds: seeds::conversions },
    Target { name: "decisions", run: cache::decisions, seeds: seeds::decisions },
    Target { name: "dma", run: dma::transfer, seeds: seeds::dma },
    Target { name: "graph_json", run: graph::json, seeds: seeds::graph_json },
    Target { name: "graph_text", run: graph::text, seeds: seeds::graph_texts },
    Target { name: "ktir_text", run: ktir::text, seeds: seeds::ktir_texts },
    Target { name: "npy", run: files::npy, seeds: seeds::npy },
    Target { name: "npz", run: files::npz, seeds: seeds::npz },
    Target { name: "onnx_file", run: onnx::file, seeds: seeds::onnx_files },
    Target { name: "parse_text", run: notation::text, seeds: seeds::layout_texts },
    Target { name: "plan_json", run: plan::json, seeds: seeds::plans },
    Target { name: "safetensors", run: files::safetensors, seeds: seeds::safetensors },
];

/// Runs the target of a name; the programs in `fuzz/` have nothing else to do.
///
/// # Panics
/// Where the target finds something, and where there is none of that name.
pub fn run(name: &str, data: &[u8]) {
    let target = TARGETS.iter().find(|t| t.name == name);
    let target = target.unwrap_or_else(|| panic!("there is no target `{name}`"));
    (target.run)(data);
}
