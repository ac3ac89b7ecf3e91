//! Reads any module of tile kernels: the target `ktir_text` of `crates/fuzz`.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| zellige_fuzz_targets::run("ktir_text", data));
