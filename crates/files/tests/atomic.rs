//! Writing: nothing under the final name until all of it is there.

#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)]

mod common;

use common::Folder;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::{Command, Stdio};
use zellige_files::{Container, Kind, Metadata, NewTensor, Writer, read_all, write_all};
use zellige_layout::Dtype;

fn names(folder: &Folder) -> Vec<String> {
    let entries = std::fs::read_dir(folder.path()).unwrap();
    let mut names: Vec<String> =
        entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_dropped_writer_leaves_what_was_there() {
    for kind in Kind::ALL {
        let folder = Folder::new();
        let path = folder.file("x", b"before");
        let tensors = [NewTensor::new("x", Dtype::Float32, [4])];
        let writer = Writer::create(&path, &tensors, kind).unwrap();
        writer.write_at(0, 0, &[1; 16]).unwrap();
        assert_eq!(names(&folder).len(), 2);
        // The full length is there from the start, and a killed process leaves only this name.
        let temporary = writer.temporary_path().to_path_buf();
        assert!(temporary.metadata().unwrap().len() > 16);
        assert!(temporary.file_name().unwrap().to_str().unwrap().starts_with(".x.zellige-"));
        drop(writer);
        assert_eq!(names(&folder), ["x"]);
        assert_eq!(std::fs::read(&path).unwrap(), b"before");
    }
}

/// The writer of the test below, a process of its own; without its variable it does nothing.
#[test]
fn killed_child() {
    let Some(path) = std::env::var_os("ZELLIGE_KILLED_CHILD") else { return };
    let tensors = [NewTensor::new("x", Dtype::Float32, [4])];
    let writer = Writer::create(path, &tensors, Kind::Npy).unwrap();
    writer.write_at(0, 0, &[1; 8]).unwrap();
    println!("half");
    std::thread::sleep(std::time::Duration::from_secs(60));
}

#[test]
fn a_killed_process_leaves_what_was_there() {
    let folder = Folder::new();
    let path = folder.file("x.npy", b"before");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "killed_child", "--nocapture"])
        .env("ZELLIGE_KILLED_CHILD", &path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.contains("half")));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"before");
    let names = names(&folder);
    assert!(names.len() == 2 && names[0].starts_with(".x.npy.zellige-"), "{names:?}");
}

#[test]
fn a_finished_writer_replaces_it() {
    let folder = Folder::new();
    let path = folder.file("x.npy", b"before");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
    symlink("x.npy", folder.path().join("link.npy")).unwrap();
    let tensor = NewTensor::new("x", Dtype::Uint8, [3]);
    write_all(folder.path().join("link.npy"), &[(tensor.clone(), &[7, 8, 9])], Kind::Npy).unwrap();
    assert_eq!(names(&folder), ["link.npy", "x.npy"]);
    assert!(folder.path().join("link.npy").is_symlink());
    assert_eq!(read_all(&path, Some("x")).unwrap().1, [7, 8, 9]);
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o640);

    // Onto the file that is being read: the reader keeps the one it opened.
    let before = Container::open(&path).unwrap();
    write_all(&path, &[(tensor, &[1, 2, 3])], Kind::Npy).unwrap();
    let mut old = [0; 3];
    before.source(before.only().unwrap()).unwrap().read_at(&mut old, 0).unwrap();
    assert_eq!(old, [7, 8, 9]);
    assert_eq!(read_all(&path, None).unwrap().1, [1, 2, 3]);
}

#[test]
fn requests_are_checked_before_anything_is_created() {
    let folder = Folder::new();
    let path = folder.path().join("x");
    let one = |dtype, shape: &[i64]| vec![NewTensor::new("x", dtype, shape)];
    let twice = [one(Dtype::Int8, &[1]), one(Dtype::Int8, &[2])].concat();
    let metadata = NewTensor::new("__metadata__", Dtype::Int8, [1]);
    let nul = NewTensor::new("a\0b", Dtype::Int8, [1]);
    let long = NewTensor::new("n".repeat(70_000), Dtype::Int8, [1]);
    let vast: Vec<NewTensor> =
        (0..4).map(|i| NewTensor::new(i.to_string(), Dtype::Int8, [i64::MAX])).collect();
    for (kind, tensors, words) in [
        (Kind::Npy, vec![], "0 tensors"),
        (Kind::Npy, [one(Dtype::Int8, &[1]), vec![nul.clone()]].concat(), "2 tensors"),
        (Kind::Npy, one(Dtype::Bfloat16, &[2]), "NumPy has no name for it"),
        (Kind::Npz, one(Dtype::Float8E4m3fn, &[2]), "NumPy has no name for it"),
        (Kind::Safetensors, one(Dtype::Complex128, &[2]), "safetensors has no name"),
        (Kind::Npy, one(Dtype::Int8, &[-1]), "extents are 0 or more"),
        (Kind::Npz, one(Dtype::Int64, &[1 << 60, 8]), "2^63 bytes"),
        (Kind::Npz, twice.clone(), "two tensors `x`"),
        (Kind::Safetensors, twice, "two tensors `x`"),
        (Kind::Safetensors, vec![metadata], "not the name of a tensor"),
        (Kind::Npz, vec![nul], "without a NUL"),
        (Kind::Npz, vec![long], "below 64 KiB"),
        (Kind::Npz, vast.clone(), "2^64 bytes"),
        (Kind::Safetensors, vast, "2^64 bytes"),
    ] {
        let error = Writer::create(&path, &tensors, kind).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    let texts = Metadata::from([("a".to_string(), "b".to_string())]);
    let tensors = one(Dtype::Int8, &[1]);
    let refused = Writer::create_with_metadata(&path, &tensors, Kind::Npy, &texts).unwrap_err();
    assert_eq!(refused.kind(), "request");
    assert_eq!(
        Writer::create(folder.path(), &tensors, Kind::Npy).unwrap_err().kind(),
        "not_a_file"
    );
    let nowhere = folder.path().join("none/x.npy");
    assert_eq!(Writer::create(nowhere, &tensors, Kind::Npy).unwrap_err().kind(), "io");
    let short = write_all(&path, &[(tensors[0].clone(), &[1, 2])], Kind::Npy).unwrap_err();
    assert!(short.to_string().contains("2 bytes for `x`"), "{short}");
    assert!(names(&folder).is_empty(), "{:?}", names(&folder));

    let writer = Writer::create(&path, &tensors, Kind::Npy).unwrap();
    assert_eq!(writer.write_at(0, 1, &[1]).unwrap_err().kind(), "out_of_range");
    assert_eq!(writer.write_at(0, u64::MAX, &[1]).unwrap_err().kind(), "out_of_range");
    assert_eq!(writer.write_at(1, 0, &[]).unwrap_err().kind(), "request");
    assert!(Kind::from_path(&path).is_err());
    assert_eq!(Kind::from_path("A.NPZ".as_ref()).unwrap(), Kind::Npz);
}

#[test]
fn files_of_no_tensors() {
    for kind in [Kind::Npz, Kind::Safetensors] {
        let folder = Folder::new();
        let path = folder.path().join("x");
        write_all(&path, &[], kind).unwrap();
        let container = Container::open(&path).unwrap();
        assert_eq!(container.kind(), kind);
        assert!(container.tensors().is_empty());
        assert_eq!(container.only().unwrap_err().kind(), "not_one");
    }
}

#[test]
fn threads_write_parts_of_one_tensor() {
    for kind in Kind::ALL {
        let folder = Folder::new();
        let path = folder.path().join("x");
        let expected: Vec<u8> = (0..3_000_000u32).map(|i| (i % 251) as u8).collect();
        let tensors = [NewTensor::new("x", Dtype::Uint8, [3000, 1000])];
        let writer = Writer::create(&path, &tensors, kind).unwrap();
        std::thread::scope(|scope| {
            for (index, part) in expected.chunks(70_001).enumerate() {
                let writer = &writer;
                scope.spawn(move || writer.write_at(0, index as u64 * 70_001, part).unwrap());
            }
        });
        writer.finish().unwrap();
        assert_eq!(read_all(&path, Some("x")).unwrap().1, expected);
    }
}

/// Entries and directories past 4 GiB. The files are sparse and take no room on the disk, but
/// their checksums take seconds, so this is for `./test --long`.
#[test]
#[ignore = "./test --long runs it: checksums of gibibytes"]
fn long_archives_past_four_gibibytes() {
    let folder = Folder::new();
    let path = folder.path().join("x.npz");
    let tensors = [
        NewTensor::new("big", Dtype::Uint8, [5, 1 << 30]),
        NewTensor::new("far", Dtype::Uint8, [4]),
    ];
    let writer = Writer::create(&path, &tensors, Kind::Npz).unwrap();
    writer.write_at(0, (5 << 30) - 1, &[7]).unwrap();
    writer.write_at(1, 0, &[1, 2, 3, 4]).unwrap();
    writer.finish().unwrap();
    let container = Container::open(&path).unwrap();
    let big = container.tensor("big").unwrap();
    let mut last = [0; 2];
    container.source(big).unwrap().read_at(&mut last, (5 << 30) - 2).unwrap();
    assert_eq!(last, [0, 7]);
    assert_eq!(read_all(&path, Some("far")).unwrap().1, [1, 2, 3, 4]);
    container.reader(big).unwrap().check().unwrap();
}
