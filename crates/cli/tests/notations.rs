//! `convert`, `explain`, `diff` and `notations` as a person runs them.

use serde_json::Value;
use std::io::Write;
use std::process::{Command, Output, Stdio};

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

/// The message of a run that is refused as bad input.
fn refused(args: &[&str]) -> String {
    let out = zellige(args);
    assert_eq!(out.status.code(), Some(2), "{args:?}: {}", text(&out.stdout));
    text(&out.stderr)
}

fn json(args: &[&str]) -> Value {
    let out = zellige(args);
    serde_json::from_slice(&out.stdout)
        .unwrap_or_else(|e| panic!("{args:?}: {e}: {}", text(&out.stderr)))
}

/// Every example is converted into every notation, and what comes out is read as the same layout.
#[test]
fn every_notation_is_converted_into_every_other() {
    let listed = json(&["notations", "--json"]);
    let listed = listed["notations"].as_array().expect("a list");
    assert!(listed.len() >= 15, "{}", listed.len());
    let mut equal = 0;
    for notation in listed {
        let example = notation["example"].as_str().expect("an example");
        let all = json(&["convert", example, "--json", "--dtype", "float16"]);
        let shape: Vec<String> =
            all["shape"].as_array().expect("a shape").iter().map(Value::to_string).collect();
        let shape = format!("[{}]", shape.join(","));
        let conversions = all["conversions"].as_array().expect("a list");
        assert_eq!(conversions.len(), listed.len(), "{example}");
        for c in conversions {
            match c["relation"].as_str() {
                Some("equal") => {
                    let text = c["text"].as_str().expect("a text");
                    let same = json(&["diff", example, text, "--shape", &shape, "--json"]);
                    assert_eq!(same["equal"], true, "{example} as {c}");
                    equal += 1;
                }
                Some("refined") => assert!(c["shape"].is_array() && c["reason"].is_string(), "{c}"),
                Some("not_expressible") => assert!(c["reason"].is_string(), "{c}"),
                other => panic!("{other:?} of {example}"),
            }
        }
    }
    assert!(equal >= 60, "{equal} conversions are equal");
}

#[test]
fn convert_writes_one_notation_or_says_why_not() {
    assert_eq!(
        stdout(&["convert", "(8,64):(64,1)", "--to", "torch"]),
        "size=[8, 64] stride=[64, 1]\n"
    );
    assert_eq!(stdout(&["convert", "f32[16,256]{1,0:T(8,128)}", "--to", "onednn"]), "AB8a128b\n");
    let refined = zellige(&["convert", "f32[16,256]{1,0:T(8,128)}", "--to", "torch"]);
    assert!(refined.status.success());
    assert_eq!(text(&refined.stdout), "size=[2, 8, 2, 128] stride=[2048, 128, 1024, 1]\n");
    assert!(text(&refined.stderr).starts_with("refined: over the shape [2, 8, 2, 128], as "));
    let why = refused(&["convert", "Sw<2,0,3> o (8,64):(64,1)", "--to", "onednn"]);
    assert!(why.contains("not expressible in onednn: ") && why.contains("(at ["), "{why}");
    let why = refused(&["convert", "(8,64):(64,1)", "--to", "klingon"]);
    assert!(why.contains("there is no notation `klingon`\nnotations are tirx, "), "{why}");
    let why = refused(&["convert", "(8,64):(64,1)", "--to", "spyre"]);
    assert!(why.contains("dtype"), "{why}");
}

#[test]
fn explain_is_in_words() {
    let tiles = stdout(&["explain", "f32[10,256]{1,0:T(8,128)}"]);
    for part in [
        "in tiles of 8 x 128 along dimensions 0 and 1",
        "The shape [10, 256] is padded to [16, 256].",
        "1536 of 4096 positions (37.5%), 6144 bytes",
        "onednn    AB8a128b",
    ] {
        assert!(tiles.contains(part), "no `{part}` in\n{tiles}");
    }
    let lanes = stdout(&["explain", "mma-m16n8-cd"]);
    let part = "Divided among the lanes of a warp: dimension 0 over 8 of them, 4 apart; dimension 1 in runs of 2 over 4 of them.";
    assert!(lanes.contains(part), "{lanes}");
    assert!(lanes.contains("The 4 elements that a thread holds are laid out row-major"), "{lanes}");
    let copies = stdout(&["explain", "two-warps"]);
    assert!(
        copies.contains("Every element has 2 copies on the warps of a cta (warpid), 4 apart."),
        "{copies}"
    );
    let read = stdout(&["explain", "S<3,4,3> o 0 o (8,64):(64,1)", "--dtype", "float16"]);
    assert!(read.contains("read as"), "which reading of the swizzle was taken:\n{read}");
}

/// A thread-value layout of CuTe is who holds each element: registers have no banks, and the type is the operand's.
#[test]
fn atoms_of_cute_are_owner_maps() {
    for (atom, own) in [
        ("cute-sm80-c", "mma-m16n8-cd"),
        ("SM80_16x8x16_F32F16F16F32_TN.A", "mma-m16n8k16-a"),
        ("SM80_16x8x16_F32F16F16F32_TN.B", "mma-m16n8k16-b"),
        ("cute-sm90-c", "wgmma-64x64"),
    ] {
        assert_eq!(stdout(&["diff", atom, own]), "equal: every element has the same places\n");
        let checked = stdout(&["check", atom]);
        assert!(!checked.contains("bank") && !checked.contains("int32"), "{checked}");
        assert!(checked.contains("of CuTe is (thread, value) to element"), "{checked}");
    }
    assert!(stdout(&["explain", "SM80_16x8x16_F32F16F16F32_TN.C"]).contains("elements of float32"));
    assert!(stdout(&["show", "cute-sm80-c"]).contains("T4 r0"));
    // The name of the atom alone is all of its layouts.
    let all = stdout(&["explain", "SM80_16x8x16_F32F16F16F32_TN"]);
    for part in ["MMA_Atom", "_TN.A: ", "_TN.B: ", "_TN.C: ", "elements of float16"] {
        assert!(all.contains(part), "no `{part}` in\n{all}");
    }
    let value = json(&["explain", "SM75_U32x4_LDSM_N", "--json"]);
    assert_eq!(value["layouts"].as_array().map(Vec::len), Some(3));
}

#[test]
fn words_see_through_nested_modes() {
    let nested = stdout(&["explain", "((8,16),64):((64,512),1)"]);
    assert!(nested.contains("row-major, the last dimension fastest, without gaps"), "{nested}");
    // The numbers of a swizzle stand in another order elsewhere.
    let swizzle = stdout(&["explain", "Sw<3,4,3> o 0 o (8,64):(64,1)"]);
    assert!(swizzle.contains("TIRx writes the base first, Swizzle(4,3,3)"), "{swizzle}");
    let why = refused(&["explain", "(4,7):(1,4)", "--shape", "4,6"]);
    assert!(why.contains("shape [4, 6] has 24 elements, but the layout has 28"), "{why}");
}

/// What is written is the layout that was asked for: with its swizzle, and in bytes of its dtype.
#[test]
fn convert_writes_the_swizzle_and_the_dtype() {
    let swizzled = ["convert", "S[(8,64):(64,1)]", "--swizzle", "128B", "--dtype", "float16"];
    let found = stdout(&[&swizzled[..], &["--to", "tirx"]].concat());
    assert_eq!(found, "Swizzle(3,3,3) o S[(8,64):(64,1)]\n");
    let found = stdout(&["convert", "S[(8,64):(64,2)]", "--to", "numpy", "--dtype", "float16"]);
    assert_eq!(found, "{'shape': (8, 64), 'strides': (128, 4), 'typestr': '<f2', 'version': 3}\n");
    let why = refused(&["convert", "S[(2,2):(1@pid,1@pid)]", "--to", "hlo"]);
    assert!(why.contains("each device once"), "{why}");
}

#[test]
fn diff_draws_the_first_differences() {
    let same = stdout(&["diff", "(8,64):(64,1)", "size=[8, 64] stride=[64, 1]"]);
    assert_eq!(same, "equal: every element has the same places\n");
    let out = zellige(&["diff", "(8,64):(64,1)", "Sw<2,0,3> o (8,64):(64,1)", "--count", "2"]);
    assert_eq!(out.status.code(), Some(1));
    let drawn = text(&out.stdout);
    assert!(drawn.contains("[0, 8]       {m: 8} in the first, {m: 9} in the second"), "{drawn}");
    assert!(!drawn.contains("[0, 10]"), "two differences were asked for:\n{drawn}");
    assert!(drawn.contains("72|73"), "{drawn}");
    let sizes = ["diff", "(8,64):(64,1)", "(8,65):(65,1)"];
    let out = zellige(&sizes);
    assert_eq!(out.status.code(), Some(1));
    assert_eq!(text(&out.stdout), "they differ: the first has 512 elements, the second 520\n");
    let out = zellige(&[&sizes[..], &["--json"]].concat());
    assert_eq!(
        (out.status.code(), text(&out.stdout).trim()),
        (Some(1), r#"{"equal":false,"sizes":[512,520]}"#)
    );
}

/// Texts of different shapes compare alike in both orders: CuTe counts its first mode fastest, others their last dimension.
#[test]
fn diff_does_not_depend_on_the_order() {
    for (a, b, code) in [
        ("size=[2, 16]", "(4,8):(8,1)", 0),
        ("size=[2, 16]", "(4,8):(1,4)", 1),
        ("S[(2,16):(16,1)]", "(4,8):(8,1)", 0),
        ("32:1", "(4,8):(1,4)", 0),
        ("(2,16):(1,2)", "(4,8):(1,4)", 0),
        ("nhwc", "size=[2, 3, 4, 5] stride=[60, 1, 15, 3]", 0),
    ] {
        assert_eq!(zellige(&["diff", a, b]).status.code(), Some(code), "{a} and {b}");
        assert_eq!(zellige(&["diff", b, a]).status.code(), Some(code), "{b} and {a}");
    }
    let named =
        ["diff", "(8,4):(4,1)", "size=[8, 4]", "--notation", "cute", "--other-notation", "torch"];
    assert_eq!(stdout(&named), "equal: every element has the same places\n");
}

#[test]
fn ambiguous_texts_ask_which_notation_is_meant() {
    let ambiguous = "[[1, 2], [3, 4]]";
    let why = refused(&["explain", ambiguous]);
    assert!(why.starts_with("error["), "{why}");
    let asked = "{1,0}";
    assert!(
        stdout(&["explain", asked, "--notation", "xla", "--shape", "4,6"]).contains("row-major")
    );
}

const MODULE: &str = r##"
#blocked = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], order = [1, 0]}>
#shared = #ttg.swizzled_shared<{vec = 8, perPhase = 1, maxPhase = 8, order = [1, 0]}>
#smem = #ttg.shared_memory
module attributes {"ttg.num-warps" = 4 : i32} {
  tt.func public @kernel(%arg0: !tt.ptr<f16>) {
    %1 = tt.splat %arg0 : !tt.ptr<f16> -> tensor<128x64x!tt.ptr<f16>, #blocked>
    %2 = ttg.local_alloc : () -> !ttg.memdesc<128x64xf16, #shared, #smem, mutable>
  }
}
"##;

/// A whole module is read from standard input; without a pick its layouts are listed.
#[test]
fn a_layout_of_a_triton_module_is_picked() {
    let run = |args: &[&str]| {
        let mut child = Command::new(env!("CARGO_BIN_EXE_zellige"))
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut stdin = child.stdin.take().expect("piped");
        stdin.write_all(MODULE.as_bytes()).expect("it reads");
        drop(stdin);
        child.wait_with_output().expect("it ends")
    };
    let listed = run(&["explain", "-"]);
    assert_eq!(listed.status.code(), Some(2));
    let listed = text(&listed.stderr);
    assert!(listed.contains("the text has 2 layouts"), "{listed}");
    assert!(listed.contains("1: tensor<128x64x!tt.ptr<f16>, #blocked>, which is"), "{listed}");
    for pick in ["2", "#shared", "shared"] {
        let picked = run(&["convert", "-", "--pick", pick, "--to", "cute"]);
        assert!(picked.status.success(), "{}", text(&picked.stderr));
        assert_eq!(text(&picked.stdout), "Sw<3,3,3> o 0 o (128,64):(64,1)\n", "{pick}");
    }
    let none = run(&["explain", "-", "--pick", "#other"]);
    let none = text(&none.stderr);
    assert!(none.contains("pick a number from 1 to 2, or one of #blocked, #shared"), "{none}");
}
