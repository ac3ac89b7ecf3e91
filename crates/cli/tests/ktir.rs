//! `zellige ktir` as a person uses it.

use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output};
use zellige_files::{Kind, NewTensor, read_all, write_all};
use zellige_float::Dtype;

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
            write_all(folder.0.join(format!("{name}.npy")), &[(new, &a)], Kind::Npy)
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
fn a_kernel_runs_and_its_arrays_are_written() {
    let folder = Folder::new("run");
    let args =
        [&["run", "add.mlir"][..], &INPUTS, &["--output", "out", "--trace", "t.json"]].concat();
    let text = folder.stdout(&args);
    assert!(text.starts_with("@vector_add on ktir: 194 cycles, 194 ns\n"), "{text}");
    assert!(text.contains("2 compute + 192 memory + 0 comm cycles"), "{text}");
    let (info, z) = read_all(folder.0.join("out/z.npy"), None).expect("an array");
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
