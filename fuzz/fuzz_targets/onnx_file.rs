//! Reads any ONNX model: the target `onnx_file` of `crates/fuzz`.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| zellige_fuzz_targets::run("onnx_file", data));
