//! Archives that the crate `zip` accepts and this one refuses, which is why the directory of an
//! archive is read here.

#![allow(clippy::unwrap_used)]

mod common;

use common::Folder;
use std::io::Cursor;
use zellige_files::{Container, ContainerKind, ContainerWriter, NewTensor};
use zellige_float::Dtype;

/// Every archive here is opened by the other crate, with each of its entries, and refused by this
/// one at a byte of the file. Of shared bytes the other crate tells who asks (`has_overlapping_files`).
#[test]
fn archives_that_are_not_what_they_say() {
    let folder = Folder::new();
    let path = folder.path().join("good.npz");
    let tensors = ["a", "b"].map(|name| NewTensor::new(name, Dtype::Int16, [4]));
    let writer = ContainerWriter::create(&path, &tensors, ContainerKind::Npz).unwrap();
    for k in 0..2 {
        writer.write_at(k, 0, &[7; 8]).unwrap();
    }
    writer.finish_and_settle().unwrap();
    let stored = std::fs::read(&path).unwrap();
    let find =
        |from: usize| from + stored[from..].windows(4).position(|w| w == b"PK\x01\x02").unwrap();
    let first = find(0);
    let second = find(first + 4);
    let edit = |edits: &[(usize, &[u8])]| {
        let mut bytes = stored.clone();
        for (at, to) in edits {
            bytes[*at..*at + to.len()].copy_from_slice(to);
        }
        bytes
    };
    let name = &stored[first + 46..first + 51];
    let header = u32::from_le_bytes(stored[second + 42..second + 46].try_into().unwrap());
    let local = usize::try_from(header).unwrap();
    let cases = [
        ("two entries of one name", 1, edit(&[(second + 46, name), (local + 30, name)])),
        ("two entries with the same bytes", 2, edit(&[(second + 42, &[0; 4])])),
        ("another name in front of the content", 2, edit(&[(30, b"?")])),
        ("bytes in front of the archive", 2, [b"#!/bin/sh\n", &stored[..]].concat()),
    ];
    for (what, entries, bytes) in cases {
        let mut theirs = zip::ZipArchive::new(Cursor::new(&bytes)).expect(what);
        assert_eq!(theirs.len(), entries, "{what}");
        for k in 0..theirs.len() {
            theirs.by_index(k).expect(what);
        }
        let error = Container::open(folder.file("x.npz", &bytes)).expect_err(what);
        assert!(error.byte_position().is_some(), "{what}: {error}");
    }
}
