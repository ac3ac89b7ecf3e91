//! A layout of one notation, written in another: see the function of the same name in `crates/fuzz`.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| zellige_fuzz_targets::run("convert_text", data));
