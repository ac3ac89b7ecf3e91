//! Writes a layout of one notation in another: the target `convert_text` of `crates/fuzz`.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| zellige_fuzz_targets::run("convert_text", data));
