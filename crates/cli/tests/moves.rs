//! `zellige move` as a person runs it: fills, conversions, files of several tensors, interruptions.

#![allow(clippy::cast_possible_truncation, reason = "the low bits of a number are the value")]

use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use zellige_files::{
    Container, ContainerKind, ContainerWriter, NewTensor, read_tensor_file, write_tensor_file,
};
use zellige_float::Dtype;

fn zellige(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_zellige")).args(args).output().expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

fn stdout(args: &[&str]) -> String {
    let out = zellige(args);
    assert!(out.status.success(), "{args:?}: {}", text(&out.stderr));
    text(&out.stdout)
}

/// A folder that is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("zellige-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).to_string_lossy().into_owned()
    }

    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).expect("a folder");
        entries.map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn f32_bytes(values: impl Iterator<Item = f32>) -> Vec<u8> {
    values.flat_map(f32::to_le_bytes).collect()
}

/// Gaps are padding: with strides, an offset, a swizzle, a window and a replica every element of the
/// file is one of the input or the fill, and `--verify` sees one that is neither.
#[test]
fn gaps_hold_what_is_asked_for() {
    let folder = Folder::new("gaps");
    let (input, out) = (folder.file("a.npy"), folder.file("b.npy"));
    let data = f32_bytes((1..=64).map(|i| i as f32));
    write_tensor_file(
        &input,
        &[(NewTensor::new("a", Dtype::Float32, vec![64]), &data)],
        ContainerKind::Npy,
    )
    .expect("written");
    let memory = |path: &str| -> Vec<f32> {
        let (_, bytes) = read_tensor_file(path, None).expect("readable");
        bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().expect("4"))).collect()
    };
    for (to, places) in [
        ("S[64:1]+960", (960..1024).collect::<Vec<usize>>()),
        ("S[64:16]", (0..64).map(|i| 16 * i).collect()),
        ("S[(8,8):(20,2)]+3", (0..64).map(|i| 3 + i / 8 * 20 + i % 8 * 2).collect()),
        ("S[64:1]+R[2:100]", (0..128).map(|i| i / 64 * 100 + i % 64).collect()),
    ] {
        for (fill, want) in [("7", 7.0), ("zero", 0.0), ("leave", 0.0), ("1.5", 1.5)] {
            let told = stdout(&["move", &input, &out, "--to", to, "--fill", fill, "--verify"]);
            assert_eq!(told.contains(&format!("padding is {fill}")), want != 0.0, "{told}");
            let held = memory(&out);
            for (at, value) in held.iter().enumerate() {
                let element = places.iter().position(|p| *p == at).map(|i| (i % 64 + 1) as f32);
                assert_eq!(*value, element.unwrap_or(want), "{to}, {fill}, at {at}");
            }
            assert_eq!(held.len(), places.iter().max().expect("some") + 1, "{to}");
        }
    }
}

#[test]
fn padding_holds_what_is_asked_for() {
    let folder = Folder::new("fill");
    let (input, out) = (folder.file("a.npy"), folder.file("b.npy"));
    let data = f32_bytes((0..300).map(|i| i as f32));
    write_tensor_file(
        &input,
        &[(NewTensor::new("a", Dtype::Float32, [3, 100]), &data)],
        ContainerKind::Npy,
    )
    .expect("written");
    for (fill, want) in [
        ("leave", 0.0),
        ("zero", 0.0),
        ("sum", 0.0),
        ("max", f32::NEG_INFINITY),
        ("min", f32::INFINITY),
        ("-1.5", -1.5),
        ("7", 7.0),
    ] {
        let told = stdout(&["move", &input, &out, "--to", "spyre", "--fill", fill, "--verify"]);
        assert!(told.contains("read back and equal"), "{told}");
        assert_eq!(told.contains("padding is"), want != 0.0, "{told}");
        let (info, image) = read_tensor_file(&out, None).expect("readable");
        assert_eq!(info.shape(), [4, 3, 32]);
        let at = |i: usize| f32::from_le_bytes(image[4 * i..][..4].try_into().expect("four"));
        // Row 2: its last stick holds columns 96 to 99.
        let stick = (3 * 3 + 2) * 32;
        assert_eq!((at(stick + 3), at(stick + 4), at(stick + 31)), (299.0, want, want), "{fill}");
    }
    for (args, part) in [
        (["--fill", "full"], "accepted: leave, zero, sum, max, min or a number"),
        (["--to-dtype", "float17"], "float17"),
        (["--to-dtype", "complex64"], "complex64: conversions are between these dtypes: float64"),
        (["--to-dtype", "int4"], "int4"),
    ] {
        let out = zellige(&[&["move", &input, "x.npy", "--to", "spyre"], &args[..]].concat());
        assert_eq!(out.status.code(), Some(2), "{args:?}");
        assert!(text(&out.stderr).contains(part), "{args:?}: {}", text(&out.stderr));
    }
    let args = ["--fill", "70000", "--to-dtype", "float16"];
    let refused = zellige(&[&["move", &input, &out, "--to", "spyre"], &args[..]].concat());
    assert!(text(&refused.stderr).contains("float16 does not hold 70000"), "{refused:?}");
}

#[test]
fn elements_are_converted_and_losses_are_told() {
    let folder = Folder::new("dtype");
    let (input, out) = (folder.file("a.npy"), folder.file("b.npy"));
    // A quarter is not a number of float16; one is past its largest.
    let value = |i: usize| match i {
        5 => 1e6,
        i if i % 4 == 0 => 1.0 + i as f32 / 1e6,
        i => i as f32,
    };
    let data = f32_bytes((0..4000).map(value));
    write_tensor_file(
        &input,
        &[(NewTensor::new("a", Dtype::Float32, [40, 100]), &data)],
        ContainerKind::Npy,
    )
    .expect("written");
    let base = ["move", &input, &out, "--verify", "--memory", "1", "--to-dtype"];
    // Transposed and tiled, so that every kernel of conversion has its turn.
    for to in ["spyre", "row-major", "column-major", "S[(40,100):(3,200)]"] {
        let told = stdout(&[&base[..], &["float16", "--to", to]].concat());
        assert!(told.contains("float32 [40, 100] -> float16"), "{told}");
        assert!(told.contains("lossy: values are rounded to 11 significant bits"), "{told}");
        let changed = (0..4000).filter(|i| {
            let v = value(*i);
            *i == 5 || (v.fract() != 0.0) || (v > 2048.0 && v % 2.0 != 0.0)
        });
        let count = format!("{} of 4000 elements changed", changed.count());
        assert!(told.contains(&count), "{told} {count}");
    }
    let (info, image) = read_tensor_file(&out, None).expect("readable");
    assert_eq!((info.dtype(), image[2 * 3], image[2 * 3 + 1]), (Dtype::Float16, 0x00, 0x3c));
    let json: Value = serde_json::from_str(&stdout(
        &[&base[..], &["float64", "--to", "column-major", "--json"]].concat(),
    ))
    .expect("JSON");
    assert_eq!((&json["losses"], &json["changed"]), (&serde_json::json!([]), &Value::from(0)));
    let told = stdout(&[&base[..], &["int8", "--to", "row-major"]].concat());
    assert!(told.contains("fractions are cut off and values end at -128 and 127"), "{told}");

    // The other byte order is read before it is converted.
    let samples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/files");
    let mut seen = 0;
    for entry in std::fs::read_dir(samples).expect("samples") {
        let path = entry.expect("an entry").path();
        let Ok(container) = Container::open(&path) else { continue };
        let Ok(info) = container.only_tensor() else { continue };
        if info.swap_unit().is_none() || info.dtype().name().starts_with("complex") {
            continue;
        }
        let path = path.to_string_lossy();
        let args = ["move", &path, &out, "--to", "column-major", "--verify", "--to-dtype"];
        stdout(&[&args[..], &["float64"]].concat());
        seen += 1;
    }
    assert!(seen > 0, "a sample in the other byte order");
}

#[test]
fn files_of_several_tensors_move_together() {
    let folder = Folder::new("several");
    let (input, out) = (folder.file("a.safetensors"), folder.file("b.safetensors"));
    let tensors = [
        NewTensor::new("w", Dtype::Float32, [40, 100]),
        NewTensor::new("b", Dtype::Bfloat16, [100]),
        NewTensor::new("i", Dtype::Int64, [3, 5]),
    ];
    let bytes: Vec<Vec<u8>> = [16000usize, 200, 120]
        .iter()
        .map(|n| (0..*n).map(|i| if i % 4 == 3 { 0x40 } else { i as u8 }).collect())
        .collect();
    let texts = [("format".to_string(), "pt".to_string())].into();
    let writer =
        ContainerWriter::create_with_metadata(&input, &tensors, ContainerKind::Safetensors, &texts);
    let writer = writer.expect("a file");
    for (i, b) in bytes.iter().enumerate() {
        writer.write_at(i, 0, b).expect("inside");
    }
    writer.finish_and_settle().expect("renamed");
    let args = ["move", &input, &out, "--verify", "--fill", "min", "--to-dtype", "float16"];
    let told = stdout(&[&args[..], &["--to", "spyre"]].concat());
    assert_eq!(told.matches("read back and equal").count(), 3, "{told}");
    let moved = Container::open(&out).expect("readable");
    assert_eq!(moved.metadata()["format"], "pt");
    for (name, shape) in [("w", vec![2, 40, 64]), ("b", vec![2, 64]), ("i", vec![1, 3, 64])] {
        let info = moved.find_tensor(name).expect("moved");
        assert_eq!((info.dtype(), info.shape()), (Dtype::Float16, shape.as_slice()));
    }
    let (_, image) = read_tensor_file(&out, Some("b")).expect("readable");
    assert_eq!(image[2 * 100..][..2], [0x00, 0x7c], "infinity after the last of 100");
    // Some of them, and into a container that holds one only.
    let some = ["move", &input, &out, "--tensor", "w", "--tensor", "i", "--to", "row-major"];
    stdout(&some);
    assert_eq!(Container::open(&out).expect("readable").tensors().len(), 2);
    let npy = folder.file("c.npy");
    for (args, part) in [
        (vec!["move", &input, &npy, "--to", "row-major"], "3 tensors in one .npy file"),
        (vec!["move", &input, &npy, "--to", "S[(40,100)]"], "tensor `"),
        (vec!["move", &input, &npy, "--to", "row-major", "--tensor", "z"], "z"),
    ] {
        let refused = zellige(&args);
        assert_eq!(refused.status.code(), Some(2), "{args:?}");
        assert!(text(&refused.stderr).contains(part), "{args:?}: {}", text(&refused.stderr));
    }
    assert_eq!(folder.names().len(), 2, "{:?}", folder.names());
}

/// A move that is interrupted leaves neither half a file nor a temporary one.
#[test]
fn an_interrupted_move_leaves_nothing() {
    for (signal, status) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        let folder = Folder::new(&format!("stop-{signal}"));
        let (input, out) = (folder.file("a.npy"), folder.file("b.npy"));
        let tensor = NewTensor::new("a", Dtype::Uint8, [1 << 15, 1 << 15]);
        // Holes: a gibibyte that takes no room.
        ContainerWriter::create(&input, &[tensor], ContainerKind::Npy)
            .and_then(ContainerWriter::finish_and_settle)
            .expect("a file");
        let child = Command::new(env!("CARGO_BIN_EXE_zellige"))
            .args(["move", &input, &out, "--to", "column-major", "--memory", "1"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let begun = Instant::now();
        while folder.names().len() < 2 {
            assert!(begun.elapsed() < Duration::from_secs(30), "it begins a file");
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(20));
        let pid = child.id().to_string();
        let sent = Command::new("kill").args(["-s", signal, &pid]).status().expect("kill");
        assert!(sent.success());
        let ended = child.wait_with_output().expect("it ends");
        assert_eq!(ended.status.code(), Some(status), "{signal}: {ended:?}");
        assert_eq!(folder.names(), ["a.npy"], "{signal}");
    }
}
