//! Damages an entry of the cache: the target `cache_entry` of `crates/fuzz`.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| zellige_fuzz_targets::run("cache_entry", data));
