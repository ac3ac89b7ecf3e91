//! Writing: nothing appears under the final name until the file is complete.

#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)]

mod common;

use common::{Folder, deflated};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use zellige_files::faults::{FaultEffect, InjectedFault, SystemCall, inject_fault};
use zellige_files::{
    Container, ContainerKind, ContainerWriter, FileMetadata, NewTensor, read_tensor_file,
    write_bytes, write_tensor_file,
};
use zellige_float::Dtype;

fn names(folder: &Folder) -> Vec<String> {
    let entries = std::fs::read_dir(folder.path()).unwrap();
    let mut names: Vec<String> =
        entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_dropped_writer_leaves_what_was_there() {
    for kind in ContainerKind::ALL {
        let folder = Folder::new();
        let path = folder.file("x", b"before");
        let tensors = [NewTensor::new("x", Dtype::Float32, [4])];
        let writer = ContainerWriter::create(&path, &tensors, kind).unwrap();
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

/// A writer in a process of its own; without its variable it does nothing.
#[test]
fn child() {
    let Ok(task) = std::env::var("ZELLIGE_CHILD") else { return };
    let (task, path) = task.split_once(':').unwrap();
    let tensors = [NewTensor::new("x", Dtype::Float32, [4])];
    let writer = ContainerWriter::create(path, &tensors, ContainerKind::Npy).unwrap();
    writer.write_at(0, 0, &[1; 8]).unwrap();
    if task == "hold" {
        println!("half");
        std::thread::sleep(std::time::Duration::from_secs(60));
    }
    writer.finish_and_settle().unwrap();
}

/// This program with the task of a child, behind a shell that runs `before` first.
fn run_child(task: &str, path: &Path, before: &str) -> Command {
    let mut command = Command::new("sh");
    let run = format!("{before} exec \"$0\" --exact child --nocapture");
    command.args(["-c", &run]).arg(std::env::current_exe().unwrap());
    command.env("ZELLIGE_CHILD", format!("{task}:{}", path.display())).stdout(Stdio::piped());
    command
}

/// A child that has written half of its file.
fn half_way(path: &Path) -> Child {
    let mut child = run_child("hold", path, "").spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.contains("half")));
    child
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_killed_process_leaves_what_was_there_and_the_next_one_cleans_up() {
    let folder = Folder::new();
    let path = folder.file("x.npy", b"before");
    let [dead, alive] = [half_way(&path), half_way(&path)];
    kill(dead);
    assert_eq!(std::fs::read(&path).unwrap(), b"before");
    assert_eq!(names(&folder).len(), 3, "{:?}", names(&folder));
    // Nobody but its owner may look into a file that is not complete.
    for name in names(&folder).iter().filter(|n| n.starts_with(".x.npy.zellige-")) {
        let known = folder.path().join(name).metadata().unwrap();
        assert_eq!(known.permissions().mode() & 0o777, 0o600, "{name}");
    }
    // What looks like one of ours but is of another machine, or is no file, is left alone.
    let other = folder.file(".x.npy.zellige-0123456789abcdef-1-1", b"other");
    let next = run_child("write", &path, "").output().unwrap();
    assert!(next.status.success(), "{next:?}");
    assert_eq!(read_tensor_file(&path, None).unwrap().1[..8], [1; 8]);
    assert_eq!(
        names(&folder).len(),
        3,
        "the file of the living process stays: {:?}",
        names(&folder)
    );
    kill(alive);
    assert!(run_child("write", &path, "").output().unwrap().status.success());
    assert_eq!(names(&folder), [other.file_name().unwrap().to_str().unwrap(), "x.npy"]);
}

/// Many processes that write the same file and are killed at any time.
#[test]
fn kills_at_any_time_lose_nothing() {
    let folder = Folder::new();
    let path = folder.path().join("x.npy");
    assert!(run_child("write", &path, "").output().unwrap().status.success());
    let whole = std::fs::read(&path).unwrap();
    for round in 0..40 {
        let mut children: Vec<Child> =
            (0..3).map(|_| run_child("write", &path, "").spawn().unwrap()).collect();
        std::thread::sleep(std::time::Duration::from_millis(round % 14));
        for child in &mut children {
            let _ = child.kill();
        }
        for child in &mut children {
            child.wait().unwrap();
        }
        assert_eq!(std::fs::read(&path).unwrap(), whole, "round {round}");
    }
    assert!(run_child("write", &path, "").output().unwrap().status.success());
    assert_eq!(names(&folder), ["x.npy"]);
}

#[test]
fn modes_are_those_of_the_target_or_of_a_new_file() {
    for (umask, new) in [("000", 0o666), ("022", 0o644), ("027", 0o640), ("077", 0o600)] {
        let folder = Folder::new();
        let path = folder.path().join("x.npy");
        let write = || run_child("write", &path, &format!("umask {umask};")).output().unwrap();
        assert!(write().status.success());
        let mode = || path.metadata().unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode(), new, "umask {umask}");
        for old in [0o600, 0o664, 0o444, 0o777] {
            std::fs::set_permissions(&path, PermissionsExt::from_mode(old)).unwrap();
            assert!(write().status.success());
            assert_eq!(mode(), old, "umask {umask}");
        }
        assert_eq!(names(&folder), ["x.npy"]);
    }
}

#[test]
fn links_stay_and_lead_to_what_is_written() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path().join("data")).unwrap();
    let tensor = (NewTensor::new("x", Dtype::Uint8, [3]), &[7, 8, 9][..]);
    symlink("data/new.npy", folder.path().join("one.npy")).unwrap();
    symlink("one.npy", folder.path().join("two.npy")).unwrap();
    symlink("loop.npy", folder.path().join("loop.npy")).unwrap();
    symlink("none/x.npy", folder.path().join("nowhere.npy")).unwrap();
    // A link to nothing yet: the file is made where the link says.
    for link in ["two.npy", "one.npy"] {
        write_tensor_file(
            folder.path().join(link),
            std::slice::from_ref(&tensor),
            ContainerKind::Npy,
        )
        .unwrap();
        assert!(folder.path().join(link).is_symlink());
        let data = folder.path().join("data/new.npy");
        assert!(!data.is_symlink());
        assert_eq!(read_tensor_file(&data, None).unwrap().1, [7, 8, 9]);
    }
    for link in ["loop.npy", "nowhere.npy"] {
        let path = folder.path().join(link);
        let error = write_tensor_file(&path, std::slice::from_ref(&tensor), ContainerKind::Npy)
            .unwrap_err();
        assert!(error.to_string().contains(link) && path.is_symlink(), "{error}");
    }
    // A file with two names: the other name keeps what it had.
    std::fs::hard_link(folder.path().join("data/new.npy"), folder.path().join("hard.npy")).unwrap();
    let other = (tensor.0.clone(), &[1, 2, 3][..]);
    write_tensor_file(folder.path().join("hard.npy"), &[other], ContainerKind::Npy).unwrap();
    assert_eq!(read_tensor_file(folder.path().join("data/new.npy"), None).unwrap().1, [7, 8, 9]);
}

#[test]
fn a_folder_that_cannot_be_written_is_an_error() {
    // Nobody can make a file there, not even the superuser.
    for path in ["/proc/x.npy", "/sys/x.npy"] {
        if !Path::new(path).parent().unwrap().exists() {
            continue;
        }
        let tensors = [NewTensor::new("x", Dtype::Float32, [4])];
        let error = ContainerWriter::create(path, &tensors, ContainerKind::Npy).unwrap_err();
        assert!(error.is_write() && error.to_string().contains(path), "{error}");
    }
    // A folder without the right to write, for whoever respects that.
    let folder = Folder::new();
    let path = folder.file("x.npy", b"before");
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o555)).unwrap();
    let tensors = [NewTensor::new("x", Dtype::Float32, [4])];
    if let Err(error) = ContainerWriter::create(&path, &tensors, ContainerKind::Npy) {
        assert!(error.is_write() && error.to_string().contains("x.npy"), "{error}");
    }
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"before");
    assert_eq!(names(&folder), ["x.npy"]);
}

/// Readers of a file that is shortened, lengthened or rewritten get an error and nothing worse.
#[test]
fn a_file_that_changes_while_it_is_read_is_an_error() {
    let folder = Folder::new();
    let elements: Vec<u8> = (0..200_000u32).map(|i| (i % 251) as u8).collect();
    let new = NewTensor::new("x", Dtype::Uint8, [200_000]);
    for kind in ContainerKind::ALL {
        for compressed in [false, true] {
            let path = folder.path().join("x");
            write_tensor_file(&path, &[(new.clone(), &elements)], kind).unwrap();
            if compressed {
                if kind != ContainerKind::Npz {
                    continue;
                }
                let packed = deflated(&std::fs::read(&path).unwrap(), "x.npy");
                std::fs::write(&path, packed).unwrap();
            }
            let whole = std::fs::read(&path).unwrap();
            for len in [0, 1, whole.len() / 2, whole.len() - 1] {
                std::fs::write(&path, &whole).unwrap();
                let container = Container::open(&path).unwrap();
                let info = container.only_tensor().unwrap();
                let file = std::fs::File::options().write(true).open(&path).unwrap();
                file.set_len(len as u64).unwrap();
                let error = container.read_tensor(info).unwrap_err();
                assert_eq!(error.kind(), "changed", "{kind:?} {len}: {error}");
                assert!(
                    error.to_string().contains(&format!("{} bytes when", whole.len())),
                    "{error}"
                );
            }
            // Other bytes of the same length.
            std::fs::write(&path, &whole).unwrap();
            let container = Container::open(&path).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(20));
            std::fs::write(&path, &whole).unwrap();
            let error = container.read_tensor(container.only_tensor().unwrap()).unwrap_err();
            assert_eq!(error.kind(), "changed", "{kind:?}: {error}");
        }
    }
}

#[test]
fn a_finished_writer_replaces_it() {
    let folder = Folder::new();
    let path = folder.file("x.npy", b"before");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
    symlink("x.npy", folder.path().join("link.npy")).unwrap();
    let tensor = NewTensor::new("x", Dtype::Uint8, [3]);
    write_tensor_file(
        folder.path().join("link.npy"),
        &[(tensor.clone(), &[7, 8, 9])],
        ContainerKind::Npy,
    )
    .unwrap();
    assert_eq!(names(&folder), ["link.npy", "x.npy"]);
    assert!(folder.path().join("link.npy").is_symlink());
    assert_eq!(read_tensor_file(&path, Some("x")).unwrap().1, [7, 8, 9]);
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o640);

    // Onto the file that is being read: the reader keeps the one it opened.
    let before = Container::open(&path).unwrap();
    write_tensor_file(&path, &[(tensor, &[1, 2, 3])], ContainerKind::Npy).unwrap();
    let mut old = [0; 3];
    before.tensor_source(before.only_tensor().unwrap()).unwrap().read_at(&mut old, 0).unwrap();
    assert_eq!(old, [7, 8, 9]);
    assert_eq!(read_tensor_file(&path, None).unwrap().1, [1, 2, 3]);
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
        (ContainerKind::Npy, vec![], "0 tensors"),
        (ContainerKind::Npy, [one(Dtype::Int8, &[1]), vec![nul.clone()]].concat(), "2 tensors"),
        (ContainerKind::Npy, one(Dtype::Bfloat16, &[2]), "NumPy has no name for it"),
        (ContainerKind::Npz, one(Dtype::Float8E4m3fn, &[2]), "NumPy has no name for it"),
        (ContainerKind::Safetensors, one(Dtype::Complex128, &[2]), "safetensors has no name"),
        (ContainerKind::Npy, one(Dtype::Int8, &[-1]), "extents are 0 or more"),
        (ContainerKind::Npz, one(Dtype::Int64, &[1 << 60, 8]), "2^63 bytes"),
        (ContainerKind::Npz, twice.clone(), "two tensors `x`"),
        (ContainerKind::Safetensors, twice, "two tensors `x`"),
        (ContainerKind::Safetensors, vec![metadata], "not the name of a tensor"),
        (ContainerKind::Npz, vec![nul], "without a NUL"),
        (ContainerKind::Npz, vec![long], "below 64 KiB"),
        (ContainerKind::Npz, vast.clone(), "2^64 bytes"),
        (ContainerKind::Safetensors, vast, "2^64 bytes"),
    ] {
        let error = ContainerWriter::create(&path, &tensors, kind).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    let texts = FileMetadata::from([("a".to_string(), "b".to_string())]);
    let tensors = one(Dtype::Int8, &[1]);
    let refused =
        ContainerWriter::create_with_metadata(&path, &tensors, ContainerKind::Npy, &texts)
            .unwrap_err();
    assert_eq!(refused.kind(), "request");
    assert_eq!(
        ContainerWriter::create(folder.path(), &tensors, ContainerKind::Npy).unwrap_err().kind(),
        "not_a_file"
    );
    let nowhere = folder.path().join("none/x.npy");
    assert_eq!(
        ContainerWriter::create(nowhere, &tensors, ContainerKind::Npy).unwrap_err().kind(),
        "io"
    );
    let short =
        write_tensor_file(&path, &[(tensors[0].clone(), &[1, 2])], ContainerKind::Npy).unwrap_err();
    assert!(short.to_string().contains("2 bytes for `x`"), "{short}");
    assert!(names(&folder).is_empty(), "{:?}", names(&folder));

    let writer = ContainerWriter::create(&path, &tensors, ContainerKind::Npy).unwrap();
    assert_eq!(writer.write_at(0, 1, &[1]).unwrap_err().kind(), "out_of_range");
    assert_eq!(writer.write_at(0, u64::MAX, &[1]).unwrap_err().kind(), "out_of_range");
    assert_eq!(writer.write_at(1, 0, &[]).unwrap_err().kind(), "request");
    assert!(ContainerKind::from_path(&path).is_err());
    assert_eq!(ContainerKind::from_path("A.NPZ".as_ref()).unwrap(), ContainerKind::Npz);
}

#[test]
fn files_of_no_tensors() {
    for kind in [ContainerKind::Npz, ContainerKind::Safetensors] {
        let folder = Folder::new();
        let path = folder.path().join("x");
        write_tensor_file(&path, &[], kind).unwrap();
        let container = Container::open(&path).unwrap();
        assert_eq!(container.kind(), kind);
        assert!(container.tensors().is_empty());
        assert_eq!(container.only_tensor().unwrap_err().kind(), "not_one");
    }
}

#[test]
fn threads_write_parts_of_one_tensor() {
    for kind in ContainerKind::ALL {
        let folder = Folder::new();
        let path = folder.path().join("x");
        let expected: Vec<u8> = (0..3_000_000u32).map(|i| (i % 251) as u8).collect();
        let tensors = [NewTensor::new("x", Dtype::Uint8, [3000, 1000])];
        let writer = ContainerWriter::create(&path, &tensors, kind).unwrap();
        std::thread::scope(|scope| {
            for (index, part) in expected.chunks(70_001).enumerate() {
                let writer = &writer;
                scope.spawn(move || writer.write_at(0, index as u64 * 70_001, part).unwrap());
            }
        });
        writer.finish_and_settle().unwrap();
        assert_eq!(read_tensor_file(&path, Some("x")).unwrap().1, expected);
    }
}

/// Entries and directories past 4 GiB. They take as much room on the disk, and their
/// checksums take seconds, so this is for `./test --long`.
#[test]
#[ignore = "./test --long runs it: checksums of gibibytes"]
fn long_archives_past_four_gibibytes() {
    let folder = Folder::new();
    let path = folder.path().join("x.npz");
    let tensors = [
        NewTensor::new("big", Dtype::Uint8, [5, 1 << 30]),
        NewTensor::new("far", Dtype::Uint8, [4]),
    ];
    let writer = ContainerWriter::create(&path, &tensors, ContainerKind::Npz).unwrap();
    writer.write_at(0, (5 << 30) - 1, &[7]).unwrap();
    writer.write_at(1, 0, &[1, 2, 3, 4]).unwrap();
    writer.finish_and_settle().unwrap();
    let container = Container::open(&path).unwrap();
    let big = container.find_tensor("big").unwrap();
    let mut last = [0; 2];
    container.tensor_source(big).unwrap().read_at(&mut last, (5 << 30) - 2).unwrap();
    assert_eq!(last, [0, 7]);
    assert_eq!(read_tensor_file(&path, Some("far")).unwrap().1, [1, 2, 3, 4]);
    container.tensor_reader(big).unwrap().read_to_end_checked().unwrap();
}

/// A resumed file has the number that was noted and the bytes that were written, and no bytes of
/// another file.
#[test]
fn a_partial_file_is_gone_on_with() {
    let folder = Folder::new();
    let (path, source) = (folder.path().join("x.safetensors"), folder.path().join("s.npy"));
    write_tensor_file(
        &source,
        &[(NewTensor::new("s", Dtype::Uint8, [64]), &[7; 64])],
        ContainerKind::Npy,
    )
    .unwrap();
    let tensors = [NewTensor::new("x", Dtype::Uint8, [100])];
    let begin =
        |key: &str| ContainerWriter::resume_partial(&path, &tensors, &FileMetadata::new(), key);
    let (writer, done) = begin("key").unwrap();
    assert_eq!(done, 0);
    writer.write_at(0, 10, &[7; 60]).unwrap();
    writer.note_progress(70).unwrap();
    // Out of the tensor, and no such tensor.
    for (tensor, at, len) in [(0, 41, 60), (1, 0, 1)] {
        assert!(writer.write_at(tensor, at, &[3; 60][..len]).is_err());
    }
    // Another writer is told, and the one that was dropped leaves the file.
    let error = begin("key").unwrap_err().to_string();
    assert!(error.contains("another process is writing it"), "{error}");
    drop(writer);
    assert_eq!(names(&folder), ["s.npy", "x.safetensors.partial"]);
    let (writer, done) = begin("key").unwrap();
    assert_eq!(done, 70);
    writer.write_at(0, 90, &[9; 10]).unwrap();
    writer.note_progress(100).unwrap();
    writer.finish_and_settle().unwrap();
    assert_eq!(names(&folder), ["s.npy", "x.safetensors"]);
    let (_, bytes) = read_tensor_file(&path, None).unwrap();
    let want = [[0; 10].as_slice(), &[7; 60], &[0; 20], &[9; 10]].concat();
    assert_eq!(bytes, want);
    // Another key begins anew, with zeros; so does a note that is damaged.
    std::fs::remove_file(&path).unwrap();
    for (key, damage) in [("first", false), ("second", false), ("second", true)] {
        let (writer, done) = begin(key).unwrap();
        assert_eq!(done, 0, "{key} {damage}");
        let mut held = vec![0; 100];
        let partial = std::fs::read(folder.path().join("x.safetensors.partial")).unwrap();
        let data = partial.len() - 144 - 100;
        held.copy_from_slice(&partial[data..data + 100]);
        assert_eq!(held, [0; 100]);
        writer.write_at(0, 0, &[5; 100]).unwrap();
        writer.note_progress(100).unwrap();
        drop(writer);
        if key == "second" {
            let mut bytes = std::fs::read(folder.path().join("x.safetensors.partial")).unwrap();
            let at = bytes.len() - 100;
            bytes[at] ^= 1;
            std::fs::write(folder.path().join("x.safetensors.partial"), bytes).unwrap();
        }
    }
    // A link in its place leads nowhere.
    std::fs::remove_file(folder.path().join("x.safetensors.partial")).unwrap();
    symlink(&source, folder.path().join("x.safetensors.partial")).unwrap();
    assert!(begin("key").is_err());
    assert_eq!(read_tensor_file(&source, None).unwrap().1, [7; 64]);
}

/// A file that does not fit on the disk is refused before anything is written, and leaves nothing
/// behind.
#[test]
fn a_disk_without_room_is_told_before_anything_is_written() {
    for kind in ContainerKind::ALL {
        let folder = Folder::new();
        let path = folder.file("x", b"before");
        let tensors = [NewTensor::new("x", Dtype::Int8, [1 << 20])];
        let mut calls = Vec::new();
        for at in 0.. {
            let create = || ContainerWriter::create(&path, &tensors, kind).map(|_| ());
            let (made, failed) = inject_fault(InjectedFault { at, how: FaultEffect::Once }, create);
            let Some(call) = failed else { break };
            calls.push(call);
            assert_eq!(
                names(&folder).len(),
                1 + usize::from(call == SystemCall::Remove),
                "{call:?}"
            );
            if call == SystemCall::Reserve {
                let error = made.unwrap_err();
                assert!(
                    error.is_write() && error.to_string().contains("reserve disk space"),
                    "{error}"
                );
            }
        }
        // No call writes before the space is reserved.
        let first = |call| calls.iter().position(|c| *c == call);
        assert!(first(SystemCall::Reserve).is_some(), "{calls:?}");
        assert!(first(SystemCall::Reserve) < first(SystemCall::Write), "{calls:?}");
        assert_eq!(std::fs::read(&path).unwrap(), b"before");
    }
}

/// If the file system can reserve space, it is reserved when the file is begun.
#[test]
#[cfg(target_os = "linux")]
fn a_file_has_its_room_from_the_start() {
    use std::os::unix::fs::MetadataExt;
    let folder = Folder::new();
    let probe = std::fs::File::create(folder.path().join("probe")).unwrap();
    let can = zellige_host::reserve_file_space(&probe, 1 << 20).is_ok();
    let tensors = [NewTensor::new("x", Dtype::Int8, [1 << 20])];
    let writer =
        ContainerWriter::create(folder.path().join("x.npy"), &tensors, ContainerKind::Npy).unwrap();
    let room = writer.temporary_path().metadata().unwrap().blocks() * 512;
    assert_eq!(can, room >= 1 << 20, "{room} bytes of room");
}

/// A target that is not a file, and a path that cannot be followed, are errors of writing.
#[test]
fn targets_that_cannot_be_written_are_errors_of_writing() {
    let folder = Folder::new();
    folder.file("f", b"before");
    symlink("/dev/full", folder.path().join("full.npy")).unwrap();
    symlink("loop.npy", folder.path().join("loop.npy")).unwrap();
    std::fs::create_dir(folder.path().join("folder.npy")).unwrap();
    let long = "n".repeat(300);
    for name in ["full.npy", "loop.npy", "folder.npy", "f/x.npy", "none/x.npy", &long] {
        let path = folder.path().join(name);
        let tensors = [NewTensor::new("x", Dtype::Float32, [4])];
        let error = ContainerWriter::create(&path, &tensors, ContainerKind::Npy).unwrap_err();
        assert!(error.is_write() && error.to_string().contains(name), "{error}");
        assert!(write_bytes(&path, b"x").unwrap_err().is_write(), "{name}");
    }
    // What is read is no error of writing.
    assert!(!Container::open(folder.path().join("full.npy")).unwrap_err().is_write());
    assert!(!Container::open(folder.path().join("f/x.npy")).unwrap_err().is_write());
}
