//! Files with flipped, lost, added and exchanged bytes. Opening one never panics, never takes more
//! memory than a small multiple of the file, and what it accepts can be read to the last byte.
//!
//! This program has one test, because the memory of other threads would be counted too.

#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)]

mod common;

use common::{Folder, samples};
use peak_alloc::PeakAlloc;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};
use zellige_files::{Container, ContainerKind, NewTensor, write_tensor_file};
use zellige_float::Dtype;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

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

/// Texts and numbers at which parsers branch.
const TOKENS: &[&[u8]] = &[
    b"\xff\xff\xff\xff",
    b"\xff\xff\xff\xff\xff\xff\xff\x7f",
    b"\0\0\0\0\0\0\0\0",
    b"9223372036854775807",
    b"18446744073709551615",
    b"-1",
    b"0",
    b"(",
    b")",
    b",",
    b"'",
    b"\"",
    b"{",
    b"}",
    b"[[[[",
    b"0,0,0,0,0,0,0,0,",
    b"True",
    b"<f8",
    b">c16",
    b"F64",
    b"F4",
    b"\"__metadata__\":",
    b"PK\x01\x02",
    b"PK\x03\x04",
    b"PK\x05\x06",
    b"PK\x06\x06",
    b"PK\x06\x07",
    b"\x01\x00\x10\x00",
];

fn mutate(bytes: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    let at = random.below(bytes.len() + 1);
    let size = 1 + random.below(16);
    match random.below(9) {
        0 | 1 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
        2 if at < bytes.len() => bytes[at] = random.next() as u8,
        3 => bytes.truncate(at),
        4 => bytes.extend((0..size).map(|_| random.next() as u8)),
        5 => drop(bytes.drain(at..(at + size).min(bytes.len()))),
        6 => {
            let token = TOKENS[random.below(TOKENS.len())];
            bytes.splice(at..at, token.iter().copied());
        }
        7 => {
            let token = TOKENS[random.below(TOKENS.len())];
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

/// Opens a file and reads what it lists; whether it was accepted.
fn read(path: &Path, length: usize) -> bool {
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    let opened = Container::open(path);
    let peak = MEMORY.peak_usage().saturating_sub(before);
    // The decompressor and the end of an archive take a constant.
    assert!(peak < 64 * length + (1 << 19), "{peak} bytes for a file of {length}");
    let container = match opened {
        Ok(container) => container,
        Err(error) => {
            assert_eq!(error.path(), path);
            assert!(error.to_string().len() < 2000);
            return false;
        }
    };
    for info in container.tensors() {
        let count: i64 = info.shape().iter().product();
        assert_eq!(count as u64 * info.dtype().bits() as u64, info.byte_len() * 8);
        let Some(offset) = info.data_offset() else {
            // Compressed bytes may be wrong, which the reader says without a panic.
            let _ = container.tensor_reader(info).and_then(|reader| reader.read_to_end_checked());
            continue;
        };
        assert!(offset + info.byte_len() <= length as u64);
        let mut bytes = vec![0; info.byte_len() as usize];
        container.tensor_source(info).unwrap().read_at(&mut bytes, 0).unwrap();
        match container.tensor_reader(info).and_then(|reader| reader.read_to_end_checked()) {
            Ok(()) => {}
            Err(error) => assert_eq!(error.kind(), "checksum", "{error}"),
        }
    }
    true
}

/// Replaces the bytes in place: some file systems flush a file that was emptied first.
fn write(path: &Path, bytes: &[u8]) {
    let file = File::options().create(true).write(true).truncate(false).open(path).unwrap();
    file.write_all_at(bytes, 0).unwrap();
    file.set_len(bytes.len() as u64).unwrap();
}

#[test]
fn mutated_files() {
    let folder = Folder::new();
    let mut seeds = Vec::new();
    for entry in std::fs::read_dir(samples()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e != "py" && e != "json") {
            seeds.push(std::fs::read(path).unwrap());
        }
    }
    seeds.sort();
    for kind in ContainerKind::ALL {
        let path = folder.path().join("seed");
        write_tensor_file(&path, &[(NewTensor::new("w", Dtype::Int16, [2, 3]), &[5; 12])], kind)
            .unwrap();
        seeds.push(std::fs::read(&path).unwrap());
    }
    assert!(seeds.len() > 20);

    let seconds = std::env::var("ZELLIGE_FUZZ_SECONDS").ok().and_then(|s| s.parse().ok());
    let deadline = Instant::now() + Duration::from_secs(seconds.unwrap_or(5));
    let mut random = Random(0x7a65_6c6c);
    let (mut files, mut accepted) = (0u64, 0u64);
    let names = ["f.npy", "f.npz", "f.safetensors", "f"].map(|name| folder.path().join(name));
    // The first round is the same whatever the time: a good file cut at every byte.
    for seed in &seeds {
        write(&names[3], seed);
        if read(&names[3], seed.len()) {
            for end in 0..seed.len() {
                write(&names[3], &seed[..end]);
                assert!(!read(&names[3], end), "accepted without its end");
            }
        }
    }
    while Instant::now() < deadline {
        let mut bytes = seeds[random.below(seeds.len())].clone();
        let other = seeds[random.below(seeds.len())].clone();
        for _ in 0..1 + random.below(4) {
            mutate(&mut bytes, &other, &mut random);
        }
        let path = &names[random.below(names.len())];
        write(path, &bytes);
        accepted += u64::from(read(path, bytes.len()));
        files += 1;
    }
    println!("{files} files, {accepted} accepted");
    assert!(files > 100 && accepted > 0 && accepted < files);
}
