//! Plans any transfer between host and device: the target `dma` of `crates/fuzz`.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| zellige_fuzz_targets::run("dma", data));
