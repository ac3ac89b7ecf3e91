//! The fuzz targets: one function of bytes for every kind of input that comes from outside.
//!
//! A target panics if it finds a fault and returns otherwise. Each checks that the input is refused
//! or accepted without a panic, within a budget of time and memory that depends on its length
//! ([`budget`]), and a law: what was read is printed and read back unchanged, or agrees with a slow
//! definition.
//!
//! `fuzz/` hands the same functions to a coverage-guided fuzzer, and `tests/smoke.rs` calls each
//! for about a second with mutated seeds, so that a target that no longer builds or begins to fail
//! is noticed.

#![forbid(unsafe_code)]

mod ask;
pub mod budget;
mod cache;
mod dma;
mod files;
pub use files::remove_files;
mod graph;
mod ktir;
mod notation;
mod onnx;
mod plan;
mod seeds;

/// A kind of input.
#[derive(Debug, Clone, Copy)]
pub struct FuzzTarget {
    /// Its name, which is that of the program in `fuzz/`.
    pub name: &'static str,
    /// Checks one input.
    pub run: fn(&[u8]),
    /// Valid inputs, from which the fuzzer starts.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// Every target.
pub const TARGETS: &[FuzzTarget] = &[
    FuzzTarget { name: "ask_line", run: ask::fuzz_ask_line, seeds: seeds::ask_lines },
    FuzzTarget { name: "cache_entry", run: cache::fuzz_cache_entry, seeds: seeds::cache_entries },
    FuzzTarget {
        name: "convert_text",
        run: notation::fuzz_conversion,
        seeds: seeds::conversion_inputs,
    },
    FuzzTarget { name: "decisions", run: cache::fuzz_decisions, seeds: seeds::decision_texts },
    FuzzTarget { name: "dma", run: dma::fuzz_dma, seeds: seeds::dma_inputs },
    FuzzTarget { name: "graph_json", run: graph::fuzz_graph_json, seeds: seeds::graph_json },
    FuzzTarget { name: "graph_text", run: graph::fuzz_graph_text, seeds: seeds::graph_texts },
    FuzzTarget { name: "ktir_text", run: ktir::fuzz_ktir_text, seeds: seeds::ktir_texts },
    FuzzTarget { name: "npy", run: files::fuzz_npy, seeds: seeds::npy_files },
    FuzzTarget { name: "npz", run: files::fuzz_npz, seeds: seeds::npz_files },
    FuzzTarget { name: "onnx_file", run: onnx::fuzz_onnx_file, seeds: seeds::onnx_files },
    FuzzTarget { name: "parse_text", run: notation::fuzz_layout_text, seeds: seeds::layout_texts },
    FuzzTarget { name: "plan_json", run: plan::fuzz_plan_json, seeds: seeds::plan_texts },
    FuzzTarget {
        name: "safetensors",
        run: files::fuzz_safetensors,
        seeds: seeds::safetensors_files,
    },
];

/// Runs the target of a name; the programs in `fuzz/` do nothing else.
///
/// # Panics
/// If the target finds a fault, or if there is no target of that name.
pub fn run(name: &str, data: &[u8]) {
    let target = TARGETS.iter().find(|t| t.name == name);
    let target = target.unwrap_or_else(|| panic!("there is no target `{name}`"));
    (target.run)(data);
}
