//! Feeds any decisions of a compilation: the target `decisions` of `crates/fuzz`.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| zellige_fuzz_targets::run("decisions", data));
