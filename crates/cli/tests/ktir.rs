//! `zellige ktir` as a person uses it.

use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output};
use zellige_files::{ContainerKind, NewTensor, read_tensor_file, write_tensor_file};
use zellige_float::{Dtype, Element, F16};

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("zellige-ktir-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        let folder = Folder(path);
        let kernels = concat!(env!("CARGO_MANIFEST_DIR"), "/../ktir/tests/kernels");
        let text = std::fs::read_to_string(format!("{kernels}/vector_add.mlir")).expect("a kernel");
        folder.write("add.mlir", &text);
        let halves = [0x0000_u16, 0x3c00, 0x4000, 0x4200, 0x4400]; // 0, 1, 2, 3, 4
        let a: Vec<u8> = (0..4096).flat_map(|i| halves[i % 5].to_le_bytes()).collect();
        for name in ["x", "y", "z"] {
            let new = NewTensor::new(name, Dtype::Float16, vec![4096]);
            write_tensor_file(
                folder.0.join(format!("{name}.npy")),
                &[(new, &a)],
                ContainerKind::Npy,
            )
            .expect("written");
        }
        folder
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.join(name), text).expect("written");
    }

    fn zellige(&self, args: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_zellige"))
            .arg("ktir")
            .args(args)
            .current_dir(&self.0)
            .output()
            .expect("the program starts")
    }

    fn stdout(&self, args: &[&str]) -> String {
        let out = self.zellige(args);
        let stderr = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{args:?}: {stderr}");
        String::from_utf8(out.stdout).expect("UTF-8")
    }

    fn refused(&self, args: &[&str]) -> String {
        let out = self.zellige(args);
        assert_eq!(out.status.code(), Some(2), "{args:?}");
        String::from_utf8(out.stderr).expect("UTF-8")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const INPUTS: [&str; 6] = ["--input", "x=x.npy", "--input", "y=y.npy", "--input", "z=z.npy"];

#[test]
fn a_missing_argument_names_the_option_that_gives_it() {
    let kernel = concat!(env!("CARGO_MANIFEST_DIR"), "/../ktir/tests/kernels/vector_add.mlir");
    let out = std::process::Command::new(env!("CARGO_BIN_EXE_zellige"))
        .args(["ktir", "run", kernel])
        .output()
        .expect("the program starts");
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(2), "{said}");
    assert!(said.contains("`x` is missing") && said.contains("--input NAME=FILE"), "{said}");
}

#[test]
fn a_kernel_runs_and_its_arrays_are_written() {
    let folder = Folder::new("run");
    let args =
        [&["run", "add.mlir"][..], &INPUTS, &["--output", "out", "--trace", "t.json"]].concat();
    let text = folder.stdout(&args);
    assert!(text.starts_with("@vector_add on ktir: 194 cycles, 194 ns\n"), "{text}");
    assert!(text.contains("2 compute + 192 memory + 0 comm cycles"), "{text}");
    let (info, z) = read_tensor_file(folder.0.join("out/z.npy"), None).expect("an array");
    assert_eq!((info.dtype(), info.shape()), (Dtype::Float16, &[4096][..]));
    assert_eq!(z[..10], [0, 0, 0, 0x40, 0, 0x44, 0, 0x46, 0, 0x48]); // 0, 2, 4, 6, 8
    assert!(folder.0.join("out/x.npy").exists());
    let trace = std::fs::read_to_string(folder.0.join("t.json")).expect("a trace");
    let trace: Value = serde_json::from_str(&trace).expect("JSON");
    let events = trace["traceEvents"].as_array().expect("events");
    let adds = events.iter().filter(|e| e["name"] == "arith.addf").count();
    assert_eq!(adds, 32);
    let json: Value = serde_json::from_str(
        &folder.stdout(&[&["run", "add.mlir", "--json"][..], &INPUTS].concat()),
    )
    .expect("JSON");
    assert_eq!((&json["cycles"], &json["bottleneck"]), (&194.into(), &"memory".into()));
    assert_eq!(json["cores"].as_array().map(Vec::len), Some(32));
}

#[test]
fn check_lists_kernels_and_prints_them() {
    let folder = Folder::new("check");
    let text = folder.stdout(&["check", "add.mlir"]);
    assert_eq!(text, "@vector_add(x: index, y: index, z: index): 32 cores, 12 operations\n");
    let printed = folder.stdout(&["check", "add.mlir", "--print"]);
    folder.write("again.mlir", &printed);
    assert_eq!(folder.stdout(&["check", "again.mlir", "--print"]), printed);
}

#[test]
fn what_is_wrong_has_a_place() {
    let folder = Folder::new("wrong");
    let good = std::fs::read_to_string(folder.0.join("add.mlir")).expect("the kernel");
    folder.write("bad.mlir", &good.replace("arith.addf", "arith.adf"));
    let text = folder.refused(&["check", "bad.mlir"]);
    assert!(text.contains("unknown operation `arith.adf`"), "{text}");
    assert!(text.contains("did you mean `arith.addf`?"), "{text}");
    assert!(text.contains("at bad.mlir:30:12"), "{text}");
    folder.write("far.mlir", &good.replace("%xs[%core * 128]", "%xs[%core * 129]"));
    let text = folder.refused(&[&["run", "far.mlir"][..], &INPUTS].concat());
    let want = "core 31, `ktdp.load`: index [4096] is outside the view of shape [4096]";
    assert!(text.contains(want), "{text}");
    assert!(text.contains("at far.mlir:28:"), "{text}");
    let text = folder.refused(&["run", "add.mlir", "--input", "x=x.npy"]);
    assert!(text.contains("argument `y` is missing; it is index"), "{text}");
    let text = folder.refused(&["run", "add.mlir", "--kernel", "sub"]);
    assert!(text.contains("there is no kernel `@sub`; there are vector_add"), "{text}");
    let text = folder.refused(&["run", "none.mlir"]);
    assert!(text.contains("none.mlir: cannot open it"), "{text}");
    let text = folder.refused(&["run", "add.mlir", "--input", "x"]);
    assert!(text.contains("--input x: write NAME=.., such as x=data.npy"), "{text}");
}

/// A kernel that doubles 64 numbers of a type.
fn double(elem: &str) -> String {
    let cast = |n: &str, from: &str, to: &str, op: &str| {
        if elem == "f32" {
            String::new()
        } else {
            format!("%{n} = arith.{op} %{from} : tensor<64x{elem}> to {to}\n")
        }
    };
    let (loaded, doubled) = if elem == "f32" { ("a", "c") } else { ("b", "d") };
    format!(
        "func.func @double(%x: index, %n: index, %y: index) {{
  %c0 = arith.constant 0 : index
  %from = arith.addi %x, %n : index
  %xs = ktdp.construct_memory_view %from, sizes: [64], strides: [1] : memref<64x{elem}>
  %xt = ktdp.construct_access_tile %xs[%c0] : memref<64x{elem}> -> !ktdp.access_tile<64xindex>
  %a = ktdp.load %xt : !ktdp.access_tile<64xindex> -> tensor<64x{elem}>
  {}%c = arith.addf %{loaded}, %{loaded} : tensor<64xf32>
  {}%ys = ktdp.construct_memory_view %y, sizes: [64], strides: [1] : memref<64x{elem}>
  %yt = ktdp.construct_access_tile %ys[%c0] : memref<64x{elem}> -> !ktdp.access_tile<64xindex>
  ktdp.store %{doubled}, %yt : tensor<64x{elem}>, !ktdp.access_tile<64xindex>
}}",
        cast("b", "a", "tensor<64xf32>", "extf"),
        if elem == "f32" {
            String::new()
        } else {
            format!("%d = arith.truncf %c : tensor<64xf32> to tensor<64x{elem}>\n")
        },
    )
}

#[test]
fn floats_of_files_become_those_of_the_kernel() {
    let folder = Folder::new("floats");
    let numbers: Vec<f32> = (0..64).map(|i| (i as f32 - 20.0) * 0.37).collect();
    let halves: Vec<f32> = numbers.iter().map(|x| F16::cast_from(*x).to_f32()).collect();
    let write = |name: &str, dtype: Dtype, bytes: &[u8]| {
        let new = NewTensor::new("a", dtype, vec![64]);
        write_tensor_file(folder.0.join(name), &[(new, bytes)], ContainerKind::Npy)
            .expect("written");
    };
    let f16: Vec<u8> = numbers.iter().flat_map(|x| F16::cast_from(*x).0.to_le_bytes()).collect();
    let f32: Vec<u8> = halves.iter().flat_map(|x| x.to_le_bytes()).collect();
    write("f16.npy", Dtype::Float16, &f16);
    write("f32.npy", Dtype::Float32, &f32);
    write("i16.npy", Dtype::Int16, &f16);
    write("i32.npy", Dtype::Int32, &f32);
    // A step of every format, relative to the number.
    for (elem, step) in [("f16", 0.0), ("df16", 1.0 / 512.0), ("bf16", 1.0 / 128.0), ("f32", 0.0)] {
        folder.write("double.mlir", &double(elem));
        for (file, dtype) in [("f16.npy", Dtype::Float16), ("f32.npy", Dtype::Float32)] {
            let (x, y) = (format!("x={file}"), format!("y={file}"));
            let args = [
                "run",
                "double.mlir",
                "--scalar",
                "n=0",
                "--input",
                &x,
                "--input",
                &y,
                "-o",
                "out",
            ];
            let text = folder.stdout(&args);
            let own = if file == "f16.npy" { "f16" } else { "f32" };
            let line = format!("x: {own} in its file, converted to the kernel's {elem} and back");
            assert_eq!(text.contains(&line), own != elem, "{text}");
            let (info, bytes) =
                read_tensor_file(folder.0.join("out/y.npy"), None).expect("an array");
            assert_eq!((info.dtype(), info.shape()), (dtype, &[64][..]));
            let got: Vec<f32> = match dtype {
                Dtype::Float16 => bytes
                    .chunks_exact(2)
                    .map(|c| F16(u16::from_le_bytes([c[0], c[1]])).to_f32())
                    .collect(),
                _ => bytes
                    .chunks_exact(4)
                    .map(|c| f32::from_le_bytes([c[0], c[1], c[2], c[3]]))
                    .collect(),
            };
            for (got, x) in got.iter().zip(&halves) {
                assert!(
                    (got - 2.0 * x).abs() <= step * x.abs(),
                    "{elem} {file}: {got}, not {}",
                    2.0 * x
                );
            }
            let json: Value =
                serde_json::from_str(&folder.stdout(&[&args[..], &["--json"]].concat()))
                    .expect("JSON");
            let count = json["conversions"].as_array().map(Vec::len);
            assert_eq!(count, Some(if own == elem { 0 } else { 2 }));
        }
        for file in ["i16.npy", "i32.npy"] {
            let (x, y) = (format!("x={file}"), format!("y={file}"));
            let args = ["run", "double.mlir", "--scalar", "n=0", "--input", &x, "--input", &y];
            let text = folder.refused(&args);
            assert!(text.contains(&format!("and the kernel reads {elem}: give")), "{text}");
        }
    }
}
