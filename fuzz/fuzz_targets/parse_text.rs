//! Reads any layout, in every notation: the target `parse_text` of `crates/fuzz`.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| zellige_fuzz_targets::run("parse_text", data));
