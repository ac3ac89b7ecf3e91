//! One rule for the size of an element: the text's own type, then the dtype, then 16 bits that are said to be
//! assumed; `check`, `explain`, `show` and the requests of the page agree on it and on what follows from it.

use serde_json::{Value, json};
use std::io::Write;
use std::process::{Command, Stdio};

fn zellige(args: &[&str]) -> String {
    let out = Command::new(env!("CARGO_BIN_EXE_zellige")).args(args).output().expect("starts");
    assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).expect("text")
}

fn ask(request: &Value) -> Value {
    let mut child = Command::new(env!("CARGO_BIN_EXE_zellige"))
        .arg("ask")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    writeln!(child.stdin.take().expect("piped"), "{request}").expect("sends");
    let out = child.wait_with_output().expect("ends");
    let answer: Value = serde_json::from_slice(&out.stdout).expect("one line of JSON");
    assert!(answer["ok"].is_object(), "{request}: {answer}");
    answer["ok"].clone()
}

fn line<'a>(text: &'a str, label: &str) -> &'a str {
    let found = text.lines().find(|l| l.split_whitespace().next() == Some(label));
    found.unwrap_or_else(|| panic!("no line {label} in {text}"))[label.len()..].trim()
}

#[test]
fn a_size_is_always_said() {
    for command in ["check", "explain"] {
        let text = zellige(&[command, "S[(8,64):(64,1)]"]);
        assert!(line(&text, "element").starts_with("16 bits, assumed"), "{text}");
        assert!(line(&text, "column").starts_with("bank conflict, 8 ways"), "{text}");
        let text = zellige(&[command, "S[(8,64):(64,1)]", "--dtype", "float32"]);
        assert_eq!(line(&text, "element"), "32 bits, as the dtype says");
    }
    assert!(zellige(&["show", "S[(8,64):(64,1)]"]).contains("16 bits each (assumed)"));
    let shown = zellige(&["show", "S[(8,64):(64,1)]", "--dtype", "float16"]);
    assert!(shown.contains("16 bits each") && !shown.contains("assumed"), "{shown}");
}

#[test]
fn the_text_goes_first() {
    for bits in [8, 16, 32] {
        let text = format!(
            "#ttg.nvmma_shared<{{swizzlingByteWidth = 128, transposed = false, elementBitWidth = {bits}}}>"
        );
        let want = format!("{bits} bits, as the text of the layout says");
        for dtype in [&[][..], &["--dtype", "float64"]] {
            let args = [&["check", &text, "--shape", "8,128"], dtype].concat();
            assert_eq!(line(&zellige(&args), "element"), want);
            let args = [&["show", &text, "--shape", "8,128"], dtype].concat();
            assert!(zellige(&args).contains(&format!("{bits} bits each")));
        }
        let request =
            json!({"op": "sheets", "layout": text, "shape": [8, 128], "dtype": "float64"});
        assert_eq!(ask(&request)["bits"], bits);
    }
    let text = zellige(&["check", "memref<8x64xf32>", "--dtype", "float16"]);
    assert_eq!(line(&text, "element"), "32 bits, as the text of the layout says");
}

/// A sector count of the program is that of the page, for each warp and in all.
#[test]
fn sectors_are_counted_alike() {
    for (layout, dtype, shape) in [
        ("S[(8,64):(64,1)]", "float16", [8, 64]),
        ("S[(8,64):(64,1)]", "float32", [8, 64]),
        ("S[(96,64):(64,1)]", "int8", [96, 64]),
        ("S[(40,80):(1,40)]", "float16", [40, 80]),
    ] {
        let text = zellige(&["check", layout, "--dtype", dtype]);
        for access in ["row", "column"] {
            let request = json!({"op": "analyze", "layout": layout, "dtype": dtype, "shape": shape,
                "access": {"kind": access, "index": 0}});
            let found = ask(&request);
            let (most, all) = (&found["sectors_per_warp"], &found["sectors"]);
            let said = line(&text, access);
            assert!(said.contains(&format!(" {most} sector")), "{said}: {found}");
            assert!(most == all || said.contains(&format!(", {all} in ")), "{said}: {found}");
        }
    }
}
