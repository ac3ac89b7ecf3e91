//! Every call to the system fails once, for every operation, one after the other.
//!
//! After each failure the error names a file, the earlier files are unchanged, no other file is
//! left, and the same operation succeeds without the fault.

#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)]

mod common;

use common::{Folder, deflated, samples};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use zellige_files::faults::{FaultEffect, InjectedFault, SystemCall, inject_fault};
use zellige_files::{
    ByteFile, CacheLookup, Container, ContainerKind, ContainerWriter, ContentCache, FileError,
    HostTensor, NewTensor, Relayout, RelayoutError, StoredTensor, content_hash, make_folder,
    read_bytes, read_tensor_file, read_text, write_bytes, write_tensor_file,
};
use zellige_float::Dtype;
use zellige_layout::{Layout, StridedLayout};
use zellige_movement::{MovePlan, PaddingFill};

const HOWS: [FaultEffect; 3] = [FaultEffect::Once, FaultEffect::Always, FaultEffect::Short];

/// The files of a folder with their contents.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.insert(path.clone(), b"folder".to_vec());
            all.extend(contents(&path));
        } else {
            all.insert(path.clone(), std::fs::read(&path).unwrap());
        }
    }
    all
}

/// Runs an operation with every fault; `allowed` says whether what it left in its folder is a complete
/// result. Returns the calls that failed.
fn every_fault<T>(
    name: &str,
    folder: &Folder,
    run: impl Fn() -> Result<T, String>,
    allowed: impl Fn(&BTreeMap<PathBuf, Vec<u8>>) -> bool,
) -> Vec<SystemCall> {
    let before = contents(folder.path());
    assert!(run().is_ok(), "{name}");
    let writes = allowed(&contents(folder.path()));
    reset(folder, &before);
    let (mut calls, mut failures) = (Vec::new(), 0);
    for how in HOWS {
        for at in 0.. {
            assert!(at < 2000, "{name}: it never ends");
            let (result, failed) = inject_fault(InjectedFault { at, how }, &run);
            let after = contents(folder.path());
            let Some(call) = failed else {
                assert!(result.is_ok(), "{name}: {:?}", result.err());
                break;
            };
            calls.push(call);
            match result {
                // What failed was of no importance: the result is complete all the same.
                Ok(_) => {
                    let complete = if writes { allowed(&after) } else { after == before };
                    assert!(complete, "{name}: {how:?} {at} {call:?}");
                }
                Err(message) => {
                    failures += 1;
                    let named = message.contains(&*folder.path().to_string_lossy());
                    assert!(named, "{name}: {how:?} {at} {call:?}: {message}");
                    // A file that cannot be removed stays, for the next process that writes there.
                    let stays = call == SystemCall::Remove;
                    assert!(
                        after == before || allowed(&after) || stays,
                        "{name}: {how:?} {at} {call:?}: {message}\n{:?}",
                        after.keys().collect::<Vec<_>>()
                    );
                }
            }
            reset(folder, &before);
        }
        reset(folder, &before);
    }
    assert!(failures > 0, "{name}: nothing failed");
    calls
}

/// Restores the first state of a folder.
fn reset(folder: &Folder, before: &BTreeMap<PathBuf, Vec<u8>>) {
    let now = contents(folder.path());
    for (path, bytes) in now.iter().rev() {
        if !before.contains_key(path) {
            if path.is_dir() { std::fs::remove_dir(path) } else { std::fs::remove_file(path) }
                .unwrap();
        } else if before[path] != *bytes {
            std::fs::write(path, &before[path]).unwrap();
        }
    }
}

fn told<T>(result: Result<T, FileError>) -> Result<T, String> {
    result.map_err(|e| e.to_string())
}

fn row_major(size: &[i64]) -> Layout {
    StridedLayout::new_contiguous(size).unwrap().to_layout().unwrap()
}

fn column_major(size: &[i64]) -> Layout {
    StridedLayout::new(size, &[1, size[0]], 0).unwrap().to_layout().unwrap()
}

#[test]
fn reading() {
    for name in ["c_f32.npy", "deflated.npz", "tensors.safetensors"] {
        let folder = Folder::new();
        let path = folder.path().join(name);
        std::fs::copy(samples().join(name), &path).unwrap();
        let tensor = Container::open(&path).unwrap().tensors()[0].name().to_string();
        every_fault("open", &folder, || told(Container::open(&path)), |_| false);
        every_fault(
            "read_all",
            &folder,
            || told(read_tensor_file(&path, Some(&tensor))),
            |_| false,
        );
        let host = || told(HostTensor::open(&path, Some(&tensor)).and_then(|t| t.read_bytes()));
        every_fault("host", &folder, host, |_| false);
    }
    let folder = Folder::new();
    let path = folder.file("text", b"a text");
    every_fault("read_text", &folder, || told(read_text(&path, 100)), |_| false);
    every_fault("read_bytes", &folder, || told(read_bytes(&path, 100)), |_| false);
    let below =
        || told(ByteFile::open_below(folder.path(), "text").and_then(|f| f.read_range(1, 3)));
    every_fault("open_below", &folder, below, |_| false);
}

#[test]
fn writing() {
    let tensors = [
        (NewTensor::new("a", Dtype::Float32, [2, 3]), &[7u8; 24][..]),
        (NewTensor::new("b", Dtype::Int8, [5]), &[9; 5]),
    ];
    for kind in ContainerKind::ALL {
        let some = if kind == ContainerKind::Npy { &tensors[..1] } else { &tensors };
        for old in [false, true] {
            let folder = Folder::new();
            let path = folder.path().join("x");
            if old {
                std::fs::write(&path, b"before").unwrap();
            }
            let complete = |after: &BTreeMap<PathBuf, Vec<u8>>| {
                after.len() == 1
                    && read_tensor_file(&path, Some("a"))
                        .or_else(|_| read_tensor_file(&path, None))
                        .is_ok()
            };
            let calls = every_fault(
                "write_all",
                &folder,
                || told(write_tensor_file(&path, some, kind)),
                complete,
            );
            for call in [
                SystemCall::Create,
                SystemCall::SetLen,
                SystemCall::Write,
                SystemCall::SetMode,
                SystemCall::Sync,
                SystemCall::Rename,
            ] {
                assert!(calls.contains(&call), "{call:?} of {calls:?}");
            }
        }
    }
    let folder = Folder::new();
    let path = folder.file("x", b"before");
    let is = |after: &BTreeMap<PathBuf, Vec<u8>>| after.len() == 1 && after[&path] == b"after";
    every_fault("write_bytes", &folder, || told(write_bytes(&path, b"after")), is);
    let deep = folder.path().join("a/b");
    let made = |after: &BTreeMap<PathBuf, Vec<u8>>| after.contains_key(&deep);
    every_fault("make_folder", &folder, || told(make_folder(&deep)), made);
}

/// A move of every source: stored and deflated, held in memory and unpacked beside the output.
#[test]
fn moving() {
    let size = [64, 320];
    let elements: Vec<u8> = (0..64 * 320 * 4u32).map(|i| (i % 251) as u8).collect();
    for (compressed, memory) in [(false, 1 << 17), (true, 1 << 17), (true, 1 << 30)] {
        let folder = Folder::new();
        let input = folder.path().join("in.npz");
        let new = NewTensor::new("w", Dtype::Float32, size);
        write_tensor_file(&input, &[(new, &elements)], ContainerKind::Npz).unwrap();
        if compressed {
            let packed = deflated(&std::fs::read(&input).unwrap(), "w.npy");
            std::fs::write(&input, packed).unwrap();
        }
        let output = folder.file("out.npy", b"before");
        let plan =
            MovePlan::between(&row_major(&size), &column_major(&size), &size, PaddingFill::Leave)
                .unwrap();
        let relayout = Relayout { fill: None, dtype: Dtype::Float32, threads: 1, memory };
        let run = || -> Result<(), RelayoutError> {
            let from = Container::open(&input)?;
            let new = NewTensor::new("w", Dtype::Float32, [320, 64]);
            let to = ContainerWriter::create(&output, &[new], ContainerKind::Npy)?;
            relayout.move_tensor(&from, from.only_tensor()?, &plan, &to, 0, |_, _| {})?;
            to.finish_and_settle()?;
            let back = Container::open(&output)?;
            let (from_layout, to_layout) = (row_major(&size), column_major(&size));
            let source =
                StoredTensor { file: &from, info: from.only_tensor()?, layout: &from_layout };
            let copy = StoredTensor { file: &back, info: back.only_tensor()?, layout: &to_layout };
            relayout.verify_written(source, copy, &size)?;
            Ok(())
        };
        let moved = |after: &BTreeMap<PathBuf, Vec<u8>>| {
            after.len() == 2
                && read_tensor_file(&output, None).is_ok_and(|(_, bytes)| {
                    (0..64 * 320).all(|i| {
                        let (column, row) = (i / 64, i % 64);
                        bytes[4 * i..][..4] == elements[4 * (row * 320 + column)..][..4]
                    })
                })
        };
        let calls = every_fault("move", &folder, || run().map_err(|e| e.to_string()), moved);
        for call in [
            SystemCall::Allocate,
            SystemCall::Read,
            SystemCall::Write,
            SystemCall::Create,
            SystemCall::Rename,
            SystemCall::Sync,
        ] {
            assert!(calls.contains(&call), "{call:?} of {calls:?}");
        }
    }
}

/// A cache never returns what was not stored, and a failed store is not an error.
#[test]
fn the_cache() {
    let folder = Folder::new();
    let at = folder.path().join("cache");
    let cache = ContentCache::in_folder(&at, "test", 4);
    let key = content_hash(&[b"key"]);
    for how in HOWS {
        for number in 0..200 {
            let _ = std::fs::remove_dir_all(&at);
            let ((), failed) = inject_fault(InjectedFault { at: number, how }, || {
                cache.store_entry(&key, b"body");
            });
            let found = cache.look_up(&key);
            assert!(
                matches!(&found, CacheLookup::Missing)
                    || found == CacheLookup::Entry(b"body".into())
            );
            let left = if at.exists() { contents(&at).len() } else { 0 };
            let removed = failed == Some(SystemCall::Remove);
            assert!(left <= 1 || removed, "{how:?} {number} {failed:?}: {:?}", contents(&at));
            if failed.is_none() {
                assert_eq!(found, CacheLookup::Entry(b"body".into()));
                break;
            }
        }
        cache.store_entry(&key, b"body");
        for number in 0..200 {
            let (found, failed) =
                inject_fault(InjectedFault { at: number, how }, || cache.look_up(&key));
            if failed.is_none() {
                assert_eq!(found, CacheLookup::Entry(b"body".into()));
                break;
            }
            let CacheLookup::Refused(why) = &found else {
                panic!("{how:?} {number} {failed:?}: {found:?}")
            };
            assert!(why.contains(&*at.to_string_lossy()), "{why}");
        }
    }
}
