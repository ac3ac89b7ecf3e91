//! Reads any graph as text: the target `graph_text` of `crates/fuzz`.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| zellige_fuzz_targets::run("graph_text", data));
