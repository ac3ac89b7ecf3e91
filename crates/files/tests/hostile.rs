//! Files that violate their formats: each is refused with the position of the fault.

#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)]

mod common;

use common::{Folder, samples};
use zellige_files::{Container, FileError, read_tensor_file};

/// A `.npy` file of version 1.0 with this header and as many bytes of data.
fn npy(header: &str, data: usize) -> Vec<u8> {
    let size = u16::try_from(header.len()).unwrap().to_le_bytes();
    [b"\x93NUMPY\x01\x00", &size[..], header.as_bytes(), &vec![0; data]].concat()
}

/// A `.safetensors` file with this header and as many bytes of data.
fn safetensors(header: &str, data: usize) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &vec![0; data]].concat()
}

fn refused(name: &str, bytes: &[u8]) -> FileError {
    let folder = Folder::new();
    let path = folder.file(name, bytes);
    let error = Container::open(&path).unwrap_err();
    assert_eq!(error.path(), path);
    error
}

/// Each file with the byte of the error and words of it.
fn check(name: &str, cases: &[(Vec<u8>, u64, &str)]) {
    let mut wrong = Vec::new();
    for (bytes, at, words) in cases {
        let error = refused(name, bytes);
        if !error.to_string().contains(words) || error.byte_position() != Some(*at) {
            wrong.push(format!("expected byte {at}, `{words}`: {error}\n{}", bytes.escape_ascii()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn npy_headers() {
    let good = "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }\n";
    let folder = Folder::new();
    Container::open(folder.file("good.npy", &npy(good, 12))).unwrap();
    let with = |from: &str, to: &str| npy(&good.replace(from, to), 12);
    let mut version = npy(good, 12);
    version[6] = 9;
    let mut long = npy(good, 12);
    long[8..10].copy_from_slice(&u16::MAX.to_le_bytes());
    let mut huge = npy(good, 12);
    huge[6] = 2;
    check(
        "x.npy",
        &[
            (Vec::new(), 0, "takes 8 bytes and 0 are there"),
            (b"\x93NUMPY".to_vec(), 0, "2 are missing"),
            (b"\x93NUMPY\x01\x00\x05".to_vec(), 8, "1 is missing"),
            (b"\x93NUMPX\x01\x00\x05\x00hello".to_vec(), 0, "the mark of .npy"),
            (version, 6, "versions 1.0, 2.0 and 3.0"),
            (long, 10, "the header takes 65535 bytes"),
            (huge, 12, "the header takes"),
            (npy(good, 11), 68, "the data takes 12 bytes and 11 are there: 1 is missing"),
            (npy(good, 0), 68, "12 are missing"),
            (npy(good, 13), 80, "1 bytes follow the data"),
            (npy("", 0), 10, "the header ends"),
            (npy("[]", 0), 10, "the header is a list"),
            (with("'descr'", "'desc'"), 11, "the key 'desc'"),
            (with("'descr'", "7"), 11, "a key is an integer"),
            (with("'shape': (3,), ", ""), 10, "no key 'shape'"),
            (with("(3,), ", "(3,), 'shape': (3,)"), 66, "second time"),
            (with("False", "0"), 44, "True or False"),
            (with("(3,)", "(3)"), 60, "'shape' is an integer"),
            (with("(3,)", "[3]"), 60, "'shape' is a list"),
            (with("(3,)", "(-3,)"), 61, "the extent -3"),
            (with("(3,)", "((3,),)"), 61, "an extent is a tuple"),
            (with("(3,)", "(9223372036854775808,)"), 61, "2^63 - 1"),
            (with("(3,)", "(4611686018427387904, 4)"), 60, "2^63 bytes or more"),
            (with("(3,)", "(0, 9223372036854775807, 9)"), 60, "2^63 bytes or more"),
            (with("(3,)", &format!("({})", "1,".repeat(65))), 60, "at most 64"),
            (with("(3,)", &"(".repeat(1000)), 76, "16 brackets"),
            (with("(3,)", "exit(0)"), 60, "the word `exit`"),
            (with("'<f4'", "'<V2'"), 20, "bfloat16"),
            (with("'<f4'", "'=f4'"), 20, "byte order unknown"),
            (with("'<f4'", "'|O'"), 20, "not a type of numbers"),
            (with("'<f4'", "None"), 20, "a type string"),
            (with("'<f4'", "[('a', '<f4')]"), 20, "named fields"),
            (with("'<f4'", "'<\u{e9}4'"), 22, "ASCII"),
        ],
    );
    // Blanks, other quotes, another order of keys and long integers are the same header.
    let same = "{ \"shape\" : ( 3L , ) ,'fortran_order':False,'descr':'<f4'}";
    let same = Container::open(folder.file("same.npy", &npy(same, 12))).unwrap();
    assert_eq!(same.only_tensor().unwrap().shape(), [3]);
}

#[test]
fn safetensors_headers() {
    let good = r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#;
    let folder = Folder::new();
    Container::open(folder.file("good", &safetensors(good, 8))).unwrap();
    let with = |from: &str, to: &str| safetensors(&good.replace(from, to), 8);
    let two = |a: &str, b: &str| {
        let one = |name: &str, range: &str| {
            format!(r#""{name}":{{"dtype":"U8","shape":[4],"data_offsets":{range}}}"#)
        };
        safetensors(&format!("{{{},{}}}", one("a", a), one("b", b)), 8)
    };
    let mut beyond = safetensors(good, 8);
    beyond[0] = 200;
    let mut huge = safetensors(good, 8);
    huge[..8].copy_from_slice(&u64::MAX.to_le_bytes());
    let mut over = safetensors(good, 8);
    over[..8].copy_from_slice(&100_000_001u64.to_le_bytes());
    check(
        "x.safetensors",
        &[
            (vec![1, 2, 3], 0, "takes 8 bytes and 3 are there"),
            (beyond, 8, "the header takes 200 bytes"),
            (huge, 0, "at most 100000000 bytes"),
            (over, 0, "at most 100000000 bytes"),
            (safetensors("{", 0), 8, "header: EOF"),
            (safetensors("[]", 0), 8, "an object"),
            (safetensors("{} x", 0), 11, "trailing"),
            (safetensors("{}", 3), 10, "3 bytes belong to no tensor"),
            (safetensors(good, 7), 62, "takes 8 bytes and 7 are there: 1 is missing"),
            (safetensors(good, 9), 70, "1 bytes belong to no tensor"),
            (with("[0,8]", "[1,9]"), 62, "takes 9 bytes"),
            (with("[0,8]", "[8,0]"), 13, "begin"),
            (with("[0,8]", "[0,18446744073709551615]"), 81, "takes 18446744073709551615"),
            (with("[0,8]", "[0,-8]"), 59, "invalid value"),
            (with("[0,8]", "[0,8,9]"), 60, "trailing"),
            (with("[2]", "[3]"), 13, "12 bytes, which [3] of float32 takes"),
            (with("[2]", "[9223372036854775808]"), 13, "2^63 or more"),
            (with("[2]", "[9223372036854775807,4]"), 13, "2^63 bytes or more"),
            (with("\"shape\"", "\"shapes\""), 35, "unknown field"),
            (with(",\"shape\":[2]", ""), 48, "missing field"),
            (with("\"shape\":[2]", "\"dtype\":\"F32\""), 34, "duplicate field"),
            (with("{\"dtype", "{\"\\ud800\":1,\"dtype"), 21, "header: "),
            (two("[0,4]", "[3,7]"), 116, "begins before the end of `a`"),
            (two("[0,4]", "[0,4]"), 113, "may not overlap"),
            (two("[4,8]", "[5,9]"), 113, "takes 9 bytes"),
            (safetensors(&good.replace("}}", "},\"a\":{}}"), 8), 66, "occurs twice"),
            (safetensors(r#"{"__metadata__":{"a":1}}"#, 0), 29, "invalid type"),
            (safetensors(r#"{"__metadata__":{"a":"1","a":"2"}}"#, 0), 24, "`a` occurs twice"),
        ],
    );
    let mut bad = safetensors(good, 8);
    bad[11] = 0xff;
    assert_eq!(refused("x.safetensors", &bad).byte_position(), Some(11));
}

#[test]
fn archives() {
    let stored = std::fs::read(samples().join("stored.npz")).unwrap();
    let deflated = std::fs::read(samples().join("deflated.npz")).unwrap();
    let directory = |bytes: &[u8]| bytes.windows(4).position(|w| w == b"PK\x01\x02").unwrap();
    let end = |bytes: &[u8]| bytes.windows(4).position(|w| w == b"PK\x05\x06").unwrap();
    let edit = |bytes: &[u8], at: usize, to: &[u8]| {
        let mut bytes = bytes.to_vec();
        bytes[at..at + to.len()].copy_from_slice(to);
        bytes
    };
    let (cd, eocd) = (directory(&stored), end(&stored));
    let (zcd, at) = (directory(&deflated), |n: usize| n as u64);
    check(
        "x.npz",
        &[
            (stored[..stored.len() - 1].to_vec(), at(stored.len()) - 1, "truncated"),
            (stored[..200].to_vec(), 200, "truncated"),
            (stored[eocd..].to_vec(), at(0), "a directory of"),
            (edit(&stored, cd, b"XX"), at(cd), "no mark of a directory entry"),
            (edit(&stored, cd + 8, &[1]), at(cd), "is encrypted"),
            (edit(&stored, cd + 10, &[12]), at(cd), "compression method 12"),
            (edit(&stored, cd + 20, &[1]), at(cd), "is stored, with"),
            (edit(&stored, cd + 46, b"?"), 0, "differs from the directory"),
            (edit(&stored, cd + 46, &[0xff]), at(cd), "UTF-8"),
            (edit(&stored, cd + 42, &[1]), 1, "has no mark"),
            (edit(&stored, cd + 42, &[255, 255, 255, 127]), 0x7fff_ffff, "in front of"),
            (edit(&stored, eocd + 10, &[9]), at(eocd), "several parts"),
            (edit(&stored, eocd + 8, &[9, 0, 9]), at(cd), "4 entries listed, 9 announced"),
            (edit(&stored, eocd + 16, &[0]), at(eocd), "one that ends at byte"),
            (edit(&deflated, zcd + 24, &[255, 255, 255, 100]), at(zcd), "1032"),
        ],
    );
    // Both entries of the directory point at the first one.
    let next = cd + 4 + directory(&stored[cd + 4..]);
    let twice = edit(&stored, next + 42, &[0, 0, 0, 0]);
    assert!(matches!(refused("x.npz", &twice).kind(), "malformed" | "overlap"));
}

#[test]
fn damaged_bytes_of_archives_are_seen_when_read() {
    let folder = Folder::new();
    for (file, kind) in [("stored.npz", "checksum"), ("deflated.npz", "malformed or checksum")] {
        let good = std::fs::read(samples().join(file)).unwrap();
        let container = Container::open(samples().join(file)).unwrap();
        let info = container.find_tensor("a").unwrap();
        // The last bytes of the content: data of a stored entry, codes of a compressed one.
        let directory = good.windows(4).position(|w| w == b"PK\x01\x02").unwrap();
        let at = match info.data_offset() {
            Some(offset) => offset as usize + 5,
            None => (0..directory).find(|i| good[*i..].starts_with(b"a.npy")).unwrap() + 90,
        };
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        let path = folder.file(file, &bad);
        let error = read_tensor_file(&path, Some("a")).unwrap_err();
        assert!(kind.contains(error.kind()), "{error}");
    }
}

#[test]
fn what_is_no_file_of_tensors() {
    let folder = Folder::new();
    let text = folder.file("notes.txt", b"hello, this is text");
    assert_eq!(Container::open(text).unwrap_err().kind(), "unknown_kind");
    let empty = folder.file("empty", b"");
    assert!(Container::open(empty).unwrap_err().to_string().contains("the file is empty"));
    assert_eq!(Container::open(folder.path()).unwrap_err().kind(), "not_a_file");
    assert_eq!(Container::open(folder.path().join("none")).unwrap_err().kind(), "io");
    // The first bytes decide, not the name.
    let sample = std::fs::read(samples().join("c_f32.npy")).unwrap();
    let misnamed = Container::open(folder.file("x.safetensors", &sample)).unwrap();
    assert_eq!(misnamed.kind(), zellige_files::ContainerKind::Npy);
    // A file that shrinks after it was opened.
    let path = folder.file("shrinks.npy", &sample);
    let container = Container::open(&path).unwrap();
    std::fs::File::options().write(true).open(&path).unwrap().set_len(150).unwrap();
    let info = container.only_tensor().unwrap();
    assert_eq!(
        container.tensor_source(info).unwrap().read_at(&mut [0; 48], 0).unwrap_err().kind(),
        "changed"
    );
    assert_eq!(
        container.tensor_reader(info).unwrap().read_to_end_checked().unwrap_err().kind(),
        "changed"
    );
}
