//! Runs every target for about a second: with the seeds, then with mutated ones.
//!
//! `ZELLIGE_SMOKE_SECONDS` sets the time of each target, `ZELLIGE_SMOKE_TARGET` selects one of
//! them. A failing input is written into the folder of temporary files, so that it can be run
//! again: `ZELLIGE_SMOKE_INPUT=FILE ZELLIGE_SMOKE_TARGET=NAME cargo test -p zellige-fuzz-targets`.
//!
//! The targets run in one test, because the memory of other threads would be counted too.

#![allow(clippy::cast_possible_truncation, reason = "random numbers are cut short")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};
use zellige_fuzz_targets::{FuzzTarget, TARGETS};

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

/// Texts and numbers at which readers branch.
const TOKENS: &[&[u8]] = &[
    b"\xff\xff\xff\xff",
    b"\xff\xff\xff\xff\xff\xff\xff\x7f",
    b"\0\0\0\0\0\0\0\0",
    b"9223372036854775807",
    b"-9223372036854775808",
    b"1000000000000",
    b"4294967296",
    b"-1",
    b"0",
    b"1",
    b"64",
    b"(",
    b")",
    b",",
    b"\"",
    b"{",
    b"}",
    b"[",
    b"]",
    b":",
    b"x",
    b"%",
    b"#",
    b"null",
    b"True",
    b"PK\x01\x02",
    b"PK\x05\x06",
];

fn mutate(bytes: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    let at = random.below(bytes.len() + 1);
    let size = 1 + random.below(16);
    let token = TOKENS[random.below(TOKENS.len())];
    match random.below(9) {
        0 | 1 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
        2 if at < bytes.len() => bytes[at] = random.next() as u8,
        3 => bytes.truncate(at),
        4 => bytes.extend((0..size).map(|_| random.next() as u8)),
        5 => drop(bytes.drain(at..(at + size).min(bytes.len()))),
        6 => drop(bytes.splice(at..at, token.iter().copied())),
        7 => {
            let end = (at + token.len()).min(bytes.len());
            bytes.splice(at..end, token.iter().copied());
        }
        _ => {
            let from = random.below(other.len());
            let part = &other[from..(from + 4 * size).min(other.len())];
            let end = (at + part.len()).min(bytes.len());
            bytes.splice(at..end, part.iter().copied());
        }
    }
}

/// Runs one input; if the target finds a fault, keeps the input and returns its path.
fn check(target: &FuzzTarget, input: &[u8]) -> Result<(), String> {
    if catch_unwind(AssertUnwindSafe(|| (target.run)(input))).is_ok() {
        return Ok(());
    }
    let path = std::env::temp_dir().join(format!("zellige-fuzz-{}-found", target.name));
    let kept = std::fs::write(&path, input).map(|()| path.display().to_string());
    Err(format!("{}: {}", target.name, kept.unwrap_or_else(|e| format!("{input:?} ({e})"))))
}

fn smoke(target: &FuzzTarget, time: Duration) -> Result<(), String> {
    let seeds = (target.seeds)();
    assert!(!seeds.is_empty(), "{} has no seeds", target.name);
    for seed in &seeds {
        check(target, seed)?;
    }
    let mut random = Random(0x7a65_6c6c);
    let begun = Instant::now();
    let mut inputs = 0_u64;
    while begun.elapsed() < time {
        let mut input = seeds[random.below(seeds.len())].clone();
        let other = &seeds[random.below(seeds.len())];
        for _ in 0..1 + random.below(4) {
            mutate(&mut input, other, &mut random);
        }
        check(target, &input)?;
        inputs += 1;
    }
    println!("{}: {inputs} inputs in {:?}", target.name, begun.elapsed());
    Ok(())
}

#[test]
fn every_target_takes_mutated_seeds() {
    let wanted = std::env::var("ZELLIGE_SMOKE_TARGET").ok();
    let seconds = std::env::var("ZELLIGE_SMOKE_SECONDS").ok().and_then(|s| s.parse().ok());
    let time = Duration::from_secs_f64(seconds.unwrap_or(1.0));
    let mut found = Vec::new();
    for target in TARGETS.iter().filter(|t| wanted.as_deref().is_none_or(|w| w == t.name)) {
        match std::env::var_os("ZELLIGE_SMOKE_INPUT") {
            Some(path) => (target.run)(&std::fs::read(path).expect("the input")),
            None => found.extend(smoke(target, time).err()),
        }
    }
    zellige_fuzz_targets::remove_files();
    assert!(found.is_empty(), "found:\n{}", found.join("\n"));
}

/// Every target is a program of the coverage-guided fuzzer, and the other way round.
#[test]
fn every_target_is_a_program_of_the_fuzzer() {
    let fuzz = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz");
    let manifest = std::fs::read_to_string(format!("{fuzz}/Cargo.toml")).expect("the manifest");
    let listed: Vec<&str> =
        manifest.lines().filter_map(|l| l.strip_prefix("path = \"fuzz_targets/")).collect();
    assert_eq!(listed.len(), TARGETS.len(), "{listed:?}");
    for target in TARGETS {
        assert!(listed.contains(&format!("{}.rs\"", target.name).as_str()), "{}", target.name);
        let path = format!("{fuzz}/fuzz_targets/{}.rs", target.name);
        let source = std::fs::read_to_string(&path).expect("a source of its own");
        assert!(source.contains(&format!("run(\"{}\", data)", target.name)), "{path}");
    }
}
