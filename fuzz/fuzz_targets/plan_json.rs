//! Reads any plan as JSON: the target `plan_json` of `crates/fuzz`.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| zellige_fuzz_targets::run("plan_json", data));
