//! The program as a person runs it: output, exit codes, bad input.

use serde_json::Value;
use std::io::Write;
use std::process::{Child, Command, Output, Stdio};

fn zellige(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_zellige"))
        .args(args)
        .env_remove("COLUMNS")
        .output()
        .expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

fn stdout(args: &[&str]) -> String {
    let out = zellige(args);
    assert!(out.status.success(), "{args:?}: {}", text(&out.stderr));
    text(&out.stdout)
}

fn spawn_ask() -> Child {
    Command::new(env!("CARGO_BIN_EXE_zellige"))
        .arg("ask")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts")
}

/// Runs `zellige ask` over some input.
fn ask(input: &[u8]) -> Vec<Value> {
    let mut child = spawn_ask();
    let mut stdin = child.stdin.take().expect("piped");
    let input = input.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let out = child.wait_with_output().expect("it ends");
    writer.join().expect("no panic").expect("it reads everything");
    assert!(out.status.success());
    text(&out.stdout).lines().map(|l| serde_json::from_str(l).expect("JSON")).collect()
}

#[test]
fn show_draws_every_preset() {
    let list: Value = serde_json::from_str(&stdout(&["presets", "--json"])).expect("JSON");
    let presets = list["presets"].as_array().expect("a list");
    assert!(presets.len() >= 30, "{}", presets.len());
    for p in presets {
        let name = p["name"].as_str().expect("a name");
        let drawn = stdout(&["show", name, "--width", "100", "--max-cells", "512"]);
        assert!(drawn.lines().count() > 5, "{name}");
        assert!(!drawn.contains('\u{1b}'), "{name}: colour without a terminal");
        let scene: Value =
            serde_json::from_str(&stdout(&["show", name, "--json", "--max-cells", "64"]))
                .expect("JSON");
        assert!(scene["logical"].is_array(), "{name}");
        let code = zellige(&["check", name]).status.code();
        assert!(
            code == Some(0) || (code == Some(1) && name == "mesh-aliasing"),
            "{name}: {code:?}"
        );
    }
}

#[test]
fn show_writes_svg_and_png() {
    let dir = std::env::temp_dir().join(format!("zellige-show-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a folder");
    let (svg, png) = (dir.join("a.svg"), dir.join("a.png"));
    let (svg_arg, png_arg) = (svg.to_string_lossy(), png.to_string_lossy());
    stdout(&["show", "mma-m16n8-cd", "--svg", &svg_arg, "--png", &png_arg]);
    assert!(std::fs::read_to_string(&svg).expect("written").starts_with("<svg"));
    assert_eq!(&std::fs::read(&png).expect("written")[1..4], b"PNG");
    std::fs::remove_dir_all(&dir).expect("removed");
    let out = zellige(&["show", "demo-1d", "--svg", "/no/such/folder/a.svg"]);
    assert_eq!(out.status.code(), Some(3));
    assert!(text(&out.stderr).contains("a.svg: cannot create it"), "{}", text(&out.stderr));
}

#[test]
fn map_goes_both_ways() {
    let forward = stdout(&["map", "two-warps", "7,15"]);
    assert_eq!(
        forward,
        "(7, 15) -> {laneid: 31, m: 1, warpid: 6} {laneid: 31, m: 1, warpid: 10}\n"
    );
    let back = stdout(&["map", "two-warps", "--place", "laneid=31,warpid=10,m=1"]);
    assert!(back.contains("<- (7, 15)"), "{back}");
    assert!(stdout(&["map", "spyre-2d", "--place", "m=360"]).contains("padding"));
    assert_eq!(stdout(&["map", "S[(2,3)]", "--all"]).lines().count(), 6);
    let json: Value =
        serde_json::from_str(&stdout(&["map", "S[4:2]", "3", "--json"])).expect("JSON");
    assert_eq!(json["points"][0]["places"][0]["m"], 6);
}

#[test]
fn check_reports_and_exits() {
    let report = stdout(&["check", "S[(8,64):(64,1)]", "--dtype", "float16"]);
    for part in ["no two elements share a place", "8 elements, 16 bytes", "8 ways"] {
        assert!(report.contains(part), "{part}: {report}");
    }
    let swizzled =
        stdout(&["check", "S[(8,64):(64,1)]", "--dtype", "float16", "--swizzle", "128B"]);
    assert!(swizzled.contains("column       no bank conflict"), "{swizzled}");
    let aliasing = zellige(&["check", "mesh-aliasing", "--json"]);
    assert_eq!(aliasing.status.code(), Some(1));
    let json: Value = serde_json::from_slice(&aliasing.stdout).expect("JSON");
    assert_eq!(
        (&json["ok"], &json["lints"][0]["id"]),
        (&Value::Bool(false), &Value::from("aliasing"))
    );
}

#[test]
fn bad_input_is_a_clear_error() {
    let long = format!("S[({})]", "2,".repeat(200));
    for (args, part) in [
        (vec!["show", "S[(8,4,2):(4,1)]"], "expected 3 strides"),
        (vec!["show", "mma-m16n8-dc"], "did you mean `mma-m16n8-cd`"),
        (vec!["show", ""], "expected"),
        (vec!["show", "S[4:1]", "--shape", "5"], "5 elements, but the layout has 4"),
        (vec!["show", "S[4:1]", "--shape", "a"], "not a 64-bit integer"),
        (vec!["show", "S[4:1]", "--dtype", "float17"], "float17"),
        (vec!["show", "S[4:1]", "--swizzle", "128B"], "needs --dtype"),
        (vec!["show", "S[4:1]", "--swizzle", "96B", "--dtype", "int8"], "modes are"),
        (vec!["show", "S[4:1]", "--color-by", "nope"], "nope"),
        (vec!["show", "S[4:9223372036854775807]"], "64 bits"),
        (vec!["show", long.as_str()], "64 bits"),
        (vec!["show", "S[4:1@lx]"], "unknown axis `lx`"),
        (vec!["show", "S[4:1@lx]", "--axis", "lx"], "NAME=memory"),
        (vec!["map", "S[4:1]", "9"], "outside [0, 4)"),
        (vec!["map", "S[4:1]", "--place", "m"], "AXIS=NUMBER"),
        (vec!["map", "S[4:1]"], "name coordinates"),
        (vec!["presets", "zzz"], "no preset"),
        (vec!["ask", "/no/such/file"], "cannot read"),
        (vec!["fly"], "unrecognized subcommand"),
        (vec!["bench", "moves", "zzz"], "no case has a name that holds `zzz`; the names are"),
        (vec!["bench", "moves", "--threads", "0"], "0 is not in 1..=256"),
        (vec!["bench", "moves", "--random", "0"], "measure 1 to 10000 pairs"),
    ] {
        let out = zellige(&args);
        let stderr = text(&out.stderr);
        assert!(matches!(out.status.code(), Some(2 | 3)), "{args:?}: {:?} {stderr}", out.status);
        assert!(stderr.contains(part), "{args:?}: {stderr}");
        assert!(out.stdout.is_empty(), "{args:?}");
    }
    assert!(stdout(&["show", "S[(2,4):(1@lx,2@lx)]", "--axis", "lx=memory"]).contains("lx"));
}

#[test]
fn ask_answers_every_line_in_order() {
    let mut input = Vec::new();
    for i in 0..2000 {
        match i % 4 {
            0 => input.extend(
                format!("{{\"id\":{i},\"op\":\"apply\",\"layout\":\"S[4:2]\",\"coords\":[[3]]}}\n")
                    .bytes(),
            ),
            1 => input.extend(format!("{{\"id\":{i},\"op\":\"nope\"}}\n").bytes()),
            2 => input.extend(b"\xff\xfe not text\n"),
            _ => input.extend(b"not json\n"),
        }
    }
    // A last line without a newline is a line.
    input.extend(b"{\"id\":\"last\",\"op\":\"parse\",\"layout\":\"S[4]\"}");
    let answers = ask(&input);
    assert_eq!(answers.len(), 2001);
    for (i, a) in answers.iter().take(2000).enumerate() {
        match i % 4 {
            0 => assert_eq!(a["ok"]["points"][0][0]["m"], 6, "{a}"),
            1 => assert_eq!(
                (&a["id"], &a["error"]["kind"]),
                (&Value::from(i), &Value::from("unknown_op"))
            ),
            _ => assert_eq!(a["error"]["kind"], "json", "{a}"),
        }
    }
    assert_eq!(answers[2000]["id"], "last");
}

#[test]
fn ask_answers_before_the_next_question_arrives() {
    use std::io::{BufRead, BufReader};
    let mut child = spawn_ask();
    let mut stdin = child.stdin.take().expect("piped");
    let mut answers = BufReader::new(child.stdout.take().expect("piped")).lines();
    for i in 0..3 {
        writeln!(stdin, "{{\"id\":{i},\"op\":\"parse\",\"layout\":\"S[4]\"}}").expect("it reads");
        stdin.flush().expect("it reads");
        let answer: Value =
            serde_json::from_str(&answers.next().expect("an answer").expect("text")).expect("JSON");
        assert_eq!(answer["id"], i);
    }
    drop(stdin);
    assert!(child.wait().expect("it ends").success());
}

/// The page that is served is the page that was named, byte for byte.
#[test]
fn explore_serves_the_page() {
    use std::io::{BufRead, BufReader, Read};
    let folder = Folder::new("explore");
    let file = folder.file("page.html");
    std::fs::write(&file, "<!doctype html><title>é</title>").expect("writes");
    let mut child = Command::new(env!("CARGO_BIN_EXE_zellige"))
        .args(["explore", "--port", "0", "--page", &file])
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut line = String::new();
    let out = child.stdout.take().expect("piped");
    BufReader::new(out).read_line(&mut line).expect("a line");
    let address = line.strip_prefix("http://").and_then(|l| l.split('/').next());
    let mut stream = std::net::TcpStream::connect(address.expect("an address")).expect("listens");
    stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("sends");
    let mut reply = String::new();
    stream.read_to_string(&mut reply).expect("answers");
    child.kill().expect("stops");
    child.wait().expect("ends");
    assert!(reply.starts_with("HTTP/1.1 200 OK\r\n"), "{reply}");
    assert!(reply.ends_with("\r\n\r\n<!doctype html><title>é</title>"), "{reply}");
    let missing = zellige(&["explore", "--page", "no/such/page.html"]);
    assert_eq!(missing.status.code(), Some(2), "{}", text(&missing.stderr));
}

#[test]
fn a_closed_pipe_is_no_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_zellige"))
        .args(["map", "S[100000:1]", "--all"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    drop(child.stdout.take());
    let out = child.wait_with_output().expect("it ends");
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert!(out.stderr.is_empty(), "{}", text(&out.stderr));
}

/// A folder that is removed at the end.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("zellige-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).to_string_lossy().into_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn move_goes_to_sticks_and_back() {
    use zellige_files::{ContainerKind, NewTensor, read_tensor_file, write_tensor_file};
    use zellige_float::Dtype;
    let folder = Folder::new("move");
    let data: Vec<u8> = (0..40u16 * 100).flat_map(u16::to_le_bytes).collect();
    for (input, kind) in [
        ("a.npy", ContainerKind::Npy),
        ("a.safetensors", ContainerKind::Safetensors),
        ("a.npz", ContainerKind::Npz),
    ] {
        let tensor = NewTensor::new("a", Dtype::Int16, [40, 100]);
        write_tensor_file(folder.file(input), &[(tensor, &data)], kind).expect("written");
        let (from, sticks, back) = (folder.file(input), folder.file("s.npy"), folder.file("b.npz"));
        let out = stdout(&["move", &from, &sticks, "--to", "spyre", "--verify", "--memory", "1"]);
        assert!(out.contains("[2, 40, 64]") && out.contains("read back and equal"), "{out}");
        let (info, image) = read_tensor_file(&sticks, None).expect("readable");
        assert_eq!(info.shape(), [2, 40, 64]);
        for (row, column) in [(0, 0), (1, 70), (39, 99)] {
            let at = (column / 64 * 40 + row) * 64 + column % 64;
            let value = u16::from_le_bytes([image[2 * at], image[2 * at + 1]]);
            assert_eq!(usize::from(value), row * 100 + column);
        }
        assert_eq!(image[2 * (40 * 64 + 50)..][..2], [0, 0], "padding is zero");
        let args =
            ["move", &sticks, &back, "--from", "spyre", "--shape", "40,100", "--to", "row-major"];
        stdout(&args);
        assert_eq!(read_tensor_file(&back, None).expect("readable").1, data);
    }
    let a = folder.file("a.npy");
    for (args, part) in [
        (vec!["move", &a, &a, "--to", "spyre"], "the same file"),
        (vec!["move", &a, "x.foo", "--to", "spyre"], ".npy, .npz or .safetensors"),
        (vec!["move", &a, "x.npy", "--to", "S[7]"], "7"),
        (vec!["move", &a, "x.npy", "--to", "S[(40,100):(1,1)]"], "share the physical coordinate"),
        (vec!["move", "/no/such.npy", "x.npy", "--to", "spyre"], "/no/such.npy"),
        (vec!["move", &a, "x.npy", "--to", "spyre", "--tensor", "z"], "z"),
    ] {
        let out = zellige(&args);
        assert!(matches!(out.status.code(), Some(2 | 3)), "{args:?}: {:?}", out.status);
        assert!(text(&out.stderr).contains(part), "{args:?}: {}", text(&out.stderr));
    }
    assert!(!std::path::Path::new("x.npy").exists());
}

/// Two gibibytes through 512 MiB of address space.
#[test]
#[ignore = "./test --long runs it: half a minute and four gibibytes of disk"]
fn long_a_file_larger_than_memory_is_moved() {
    use std::io::{Seek, SeekFrom};
    let folder = Folder::new("long");
    let (input, output) = (folder.file("a.npy"), folder.file("b.npy"));
    let tensor = zellige_files::NewTensor::new("a", zellige_float::Dtype::Float16, [16384, 65536]);
    let writer = zellige_files::ContainerWriter::create(
        &input,
        &[tensor],
        zellige_files::ContainerKind::Npy,
    )
    .expect("a file");
    // Every row begins with its number; the rest are holes.
    for row in 0..16384u64 {
        let number = u16::try_from(row).expect("small").to_le_bytes();
        writer.write_at(0, row * 65536 * 2, &number).expect("written");
    }
    writer.finish_and_settle().expect("renamed");
    let program = env!("CARGO_BIN_EXE_zellige");
    let limited =
        format!("ulimit -v 524288 && exec {program} move {input} {output} --to spyre --memory 128");
    let out = Command::new("sh").args(["-c", &limited]).output().expect("a shell");
    assert!(out.status.success(), "{}", text(&out.stderr));
    let container = zellige_files::Container::open(&output).expect("readable");
    let info = container.only_tensor().expect("one tensor");
    assert_eq!(info.shape(), [1024, 16384, 64]);
    let mut number = [0; 2];
    for row in (0..16384u64).step_by(97) {
        container
            .tensor_source(info)
            .expect("a source")
            .read_at(&mut number, row * 128)
            .expect("inside");
        assert_eq!(u64::from(u16::from_le_bytes(number)), row);
    }
    let mut file = std::fs::File::open(&output).expect("readable");
    assert!(file.seek(SeekFrom::End(0)).expect("an end") > 2 << 30);
}

#[test]
fn cuda_prints_a_kernel_and_what_it_touches() {
    let base = ["cuda", "--from", "row-major", "--to", "column-major", "--shape", "256,512"];
    let with = |more: &[&'static str]| -> Vec<&str> { base.iter().chain(more).copied().collect() };
    let out = stdout(&with(&["--dtype", "float16"]));
    for part in [
        "extern \"C\" __global__",
        "blocks of 256 threads",
        "262144 bytes read",
        "NVIDIA H200",
        "coalesced",
    ] {
        assert!(out.contains(part), "{part}\n{out}");
    }
    let source = stdout(&with(&["--dtype", "float32", "--to-dtype", "bfloat16", "--source-only"]));
    assert!(source.contains("float32_to_bfloat16"), "{source}");
    let json = stdout(&with(&["--dtype", "float16", "--align", "2", "--json"]));
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["bytes_written"], 262_144);
    assert!(json["launches"][0]["grid"].as_u64().is_some_and(|g| g > 0));
    for bad in [["--dtype", "float16", "--align", "3"], ["--dtype", "int4", "--align", "16"]] {
        assert_eq!(zellige(&with(&bad)).status.code(), Some(2), "{bad:?}");
    }
    let aliased = [
        "cuda",
        "--from",
        "row-major",
        "--to",
        "size=[4, 4] stride=[0, 1]",
        "--shape",
        "4,4",
        "--dtype",
        "int8",
    ];
    assert_eq!(zellige(&aliased).status.code(), Some(2));
}

#[test]
fn dma_names_both_sides() {
    let out = stdout(&["dma", "--size", "40,240", "--dtype", "float16"]);
    assert!(
        out.contains("host strides [64, 240, 1]") && out.contains("device strides [2560, 64, 1]"),
        "{out}"
    );
    let json: Value =
        serde_json::from_str(&stdout(&["dma", "--size", "40,240", "--dtype", "float16", "--json"]))
            .expect("JSON");
    assert_eq!(json["dci"]["dcsi_"][1]["offset_dst_"], 7680);
    let slice = stdout(&[
        "dma", "--size", "40,60", "--stride", "120,1", "--offset", "60", "--dtype", "float16",
    ]);
    assert!(slice.contains("from 60"), "{slice}");
    assert_eq!(zellige(&["dma", "--size", "4", "--dtype", "float64"]).status.code(), Some(2));
}

/// A tiny move, measured in one round.
const SMALL: &str =
    r#"{"src":"S[(8,4):(4,1)]","dst":"S[(8,4):(1,8)]","shape":[8,4],"dtype":"float16"}"#;

#[test]
fn bench_measures_one_move() {
    let small = ["bench", "moves", "--case", SMALL, "--rounds", "1"];
    let out = stdout(&small);
    assert_eq!(out.contains("A debug build: its figures mean nothing"), cfg!(debug_assertions));
    for part in ["| case | goal | set | one thread |", "| 8x4 float16 |", "planning ", "for i in 4"]
    {
        assert!(out.contains(part), "{part}: {out}");
    }
    let sets = stdout(&[&small[..], &["--sets", "baseline,baseline"]].concat());
    assert_eq!(sets.matches("| 8x4 float16 |  | baseline |").count(), 2, "{sets}");
    let refused = zellige(&[&small[..], &["--sets", "mmx"]].concat());
    assert_eq!(refused.status.code(), Some(2));
    let why = text(&refused.stderr);
    assert!(why.contains("--sets mmx: the sets of this machine are baseline"), "{why}");
    let json: Value =
        serde_json::from_str(&stdout(&[&small[..], &["--json", "--threads", "1"]].concat()))
            .expect("JSON");
    assert_eq!(json["debug_build"], cfg!(debug_assertions));
    assert_eq!(json["rows"][0]["bytes"], 64);
    assert!(json["rows"][0]["one_thread"]["ratio"].as_f64() > Some(0.0), "{json}");
    assert!(json["rows"][0]["more_threads"].is_null(), "{json}");
    assert!(json["planning_ns"].as_f64() > Some(0.0), "{json}");
}

#[test]
fn bench_refuses_what_is_no_move() {
    for (case, part) in [
        ("{", "--case: the line is not JSON"),
        ("[]", "must be an object"),
        (r#"{"op":"dma"}"#, "`op` must be \"move\""),
        (r#"{"dst":"S[4:1]","shape":[4],"dtype":"int8"}"#, "`src` is missing"),
        (
            r#"{"source":"S[4:1]","dst":"S[4:1]","shape":[4],"dtype":"int8"}"#,
            "`src` is missing; unknown field `source`",
        ),
        (
            r#"{"src":"S[4:1]","dst":"S[4:1]","shape":[4],"dtype":"int8","goal":1}"#,
            "unknown field `goal`",
        ),
        (r#"{"src":"S[4:1]","dst":"S[4:1","shape":[4],"dtype":"int8"}"#, "expected"),
        (r#"{"src":"S[4:1]","dst":"S[4:0]","shape":[4],"dtype":"int8"}"#, "--case: "),
        (r#"{"src":"S[4:1]","dst":"S[4:1]","shape":[5],"dtype":"int8"}"#, "--case: "),
        (
            r#"{"src":"S[4:1]","dst":"S[4:1]","shape":[4],"dtype":"int4"}"#,
            "4 bits is not a whole number",
        ),
        (
            r#"{"src":"S[17179869184:1]","dst":"S[17179869184:1]","shape":[17179869184],"dtype":"int8"}"#,
            "may access at most",
        ),
    ] {
        let out = zellige(&["bench", "moves", "--case", case, "--rounds", "1"]);
        let stderr = text(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{case}: {stderr}");
        assert!(stderr.contains(part), "{case}: {stderr}");
        assert!(out.stdout.is_empty(), "{case}");
    }
}

#[test]
#[cfg(unix)]
fn bench_names_peers_that_are_not_installed() {
    use std::os::unix::fs::PermissionsExt;
    let bench = |python: &std::path::Path| {
        Command::new(env!("CARGO_BIN_EXE_zellige"))
            .args(["bench", "moves", "--case", SMALL, "--rounds", "1", "--peers"])
            .env("ZELLIGE_PYTHON", python)
            .output()
            .expect("the program starts")
    };
    let out = bench(std::path::Path::new("/no/such/python"));
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("cannot start `/no/such/python`"), "{}", text(&out.stderr));
    // Something that answers as the script does where only numpy is installed.
    let dir = std::env::temp_dir().join(format!("zellige-bench-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a folder");
    let python = dir.join("python");
    let write = |script: &str| {
        std::fs::write(&python, format!("#!/bin/sh\n{script}\n")).expect("written");
        let executable = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&python, executable).expect("executable");
    };
    write(
        r#"echo '{"numpy":"2.4","torch":"not installed"}'; while read -r case; do
        echo '{"copy":1e-6,"peers":{"numpy":4e-6,"torch":"not installed","jax":"not installed"}}'; done"#,
    );
    let out = bench(&python);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let table = text(&out.stdout);
    assert!(table.contains("| 0.25 | not installed | - | not installed | - |"), "{table}");
    assert!(table.contains("numpy 2.4, torch not installed"), "{table}");
    write("echo '{}'");
    let out = bench(&python);
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("stopped"), "{}", text(&out.stderr));
    std::fs::remove_dir_all(&dir).expect("removed");
}

/// What the request answers, and a text that other commands read.
#[test]
fn scale_factors_are_built() {
    let out = zellige(&["scale-factors", "128", "16", "--sf-per-mma", "4"]);
    let layout = "S[(4,32,4,4):(4@TCol,1@TLane,16@TCol,1@TCol)] + R[4:32@TLane]";
    assert_eq!(text(&out.stdout).trim_end(), layout);
    assert_eq!(text(&out.stderr), "shape [128, 16], 16 columns of tensor memory\n");
    let args = ["scale-factors", "64", "4", "--reuse", "2", "--pipe-depth", "3", "--json"];
    let found: Value = serde_json::from_str(&stdout(&args)).expect("JSON");
    let request =
        b"{\"op\":\"scale_factors\",\"rows\":64,\"groups\":4,\"reuse\":2,\"pipe_depth\":3}\n";
    assert_eq!(ask(request)[0]["ok"], found);
    let out = zellige(&["scale-factors", "128", "6", "--sf-per-mma", "4"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("groups is 6; the factors of a row are a multiple of sf"));
}

#[test]
fn help_has_examples() {
    for command in [
        "show",
        "map",
        "check",
        "move",
        "dma",
        "device",
        "upload",
        "eager",
        "ops",
        "presets",
        "scale-factors",
        "bench",
        "ask",
    ] {
        let help = stdout(&[command, "--help"]);
        assert!(
            help.contains("Examples:") && help.contains(&format!("zellige {command}")),
            "{help}"
        );
    }
    assert!(stdout(&["ask", "--list"]).contains("restickify_layout"));
}

#[test]
fn ask_compiles_models() {
    let model = format!("{}/../../examples/onnx/mlp.onnx", env!("CARGO_MANIFEST_DIR"));
    let line = |bind: &str| {
        format!("{{\"op\":\"compile\",\"file\":{model:?},\"options\":{{\"bind\":{bind}}}}}\n")
    };
    let answers = ask((line("{\"batch\":4}") + &line("{}")).as_bytes());
    assert_eq!(answers[0]["ok"]["graph"], "main_graph", "{}", answers[0]);
    let told = answers[1]["error"]["message"].as_str().unwrap_or_default();
    assert!(told.contains("--bind batch=N"), "{}", answers[1]);
}

/// The notice is whole, and says which text belongs to which crate.
#[test]
fn licenses_are_printed() {
    let told = stdout(&["--licenses"]);
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../THIRD-PARTY-NOTICES");
    assert_eq!(told.trim_end(), std::fs::read_to_string(path).expect("the notice").trim_end());
    let crates: Vec<&str> =
        told.lines().filter(|l| l.ends_with(')') && l.contains(" (text ")).collect();
    assert!(crates.len() > 40, "{} crates", crates.len());
    for line in crates {
        let numbers = line.rsplit_once(" (").expect("its texts").1.trim_end_matches(')');
        for number in numbers.split(", ") {
            let title = format!("\nText {}\n", number.trim_start_matches("text "));
            assert!(told.contains(&title), "{line}");
        }
    }
    assert_eq!(zellige(&["--licenses", "presets"]).status.code(), Some(2));
    assert_eq!(zellige(&[]).status.code(), Some(2));
}

/// The padded example of the device's documents: `[100, 200, 500]` in the layout of `[128, 256, 512]`.
#[test]
fn a_padded_device_layout_keeps_its_strides() {
    let fields = "device_size=[256, 8, 128, 64], stride_map =[512, 64, 131072, 1], \
                  device_dtype=DataFormats.SEN169_FP16";
    let plain = format!("SpyreTensorLayout({fields})");
    let bound = format!(
        "SpyreTensorLayout({fields}, host_size=[100, 200, 500], host_stride=[131072, 512, 1])"
    );
    let places = ["1,0,0", "0,1,0", "0,0,64", "99,199,499"];
    let want = "(1, 0, 0) -> {m: 64}\n(0, 1, 0) -> {m: 65536}\n(0, 0, 64) -> {m: 8192}\n\
                (99, 199, 499) -> {m: 13105395}\n";
    assert_eq!(13_105_395, ((199 * 8 + 7) * 128 + 99) * 64 + 51);
    assert_eq!(stdout(&[&["map", &bound], &places[..]].concat()), want);
    assert_eq!(stdout(&[&["map", &plain, "--shape", "100,200,500"], &places[..]].concat()), want);
    let lookups = stdout(&["map", &bound, "--place", "m=64", "--place", "m=6400"]);
    assert_eq!(lookups, "m=64 <- (1, 0, 0)\nm=6400 <- padding\n");
    for args in [vec!["check", &bound], vec!["check", &plain, "--shape", "100,200,500"]] {
        let said = text(&zellige(&args).stdout);
        assert!(said.contains("6777216 of 16777216"), "{said}");
    }
    for args in [
        vec!["--size", "100,200,500", "--layout", &plain],
        vec!["--size", "100,200,500", "--stride", "131072,512,1", "--layout", &plain],
        vec!["--layout", &bound],
        vec!["--layout", &bound, "--stride", "100000,500,1"],
    ] {
        let all = [&["dma", "--dtype", "float16", "--json"], &args[..]].concat();
        let dma: Value = serde_json::from_str(&stdout(&all)).expect("JSON");
        assert_eq!(dma["nests"].as_array().map(Vec::len), Some(2), "{args:?}");
        assert_eq!(dma["dci"]["dcsi_"].as_array().map(Vec::len), Some(2), "{args:?}");
        assert!(dma["layout"].as_str().expect("a text").contains("host_stride=[131072, 512, 1]"));
        assert!(
            stdout(&[&["dma", "--dtype", "float16"], &args[..]].concat()).lines().count() < 100
        );
    }
    let refused =
        zellige(&["dma", "--dtype", "float16", "--size", "100,200,501", "--layout", &bound]);
    assert!(text(&refused.stderr).contains("host_size=[100, 200, 500]"));
}

#[test]
fn device_layouts_with_gaps_and_square_sticks_are_drawn_and_moved() {
    let gapped = "SpyreTensorLayout(device_size=[2, 4, 64], stride_map =[64, 100, 1], \
                  device_dtype=DataFormats.SEN169_FP16, device_stride=[512, 128, 1], host_size=[4, 100])";
    let squares = "SpyreTensorLayout(device_size=[2, 2, 8, 8], stride_map =[128, 8, 16, 1], \
                   device_dtype=DataFormats.SEN169_FP16, stick_dims=2, host_size=[16, 16])";
    assert_eq!(
        stdout(&["map", gapped, "1,0", "3,99"]),
        "(1, 0) -> {m: 128}\n(3, 99) -> {m: 931}\n"
    );
    assert_eq!(
        stdout(&["map", gapped, "--place", "m=64", "--place", "m=512"]),
        "m=64 <- gap\nm=512 <- (0, 64)\n"
    );
    assert_eq!(
        stdout(&["map", squares, "9,3", "--place", "m=75"]),
        "(9, 3) -> {m: 139}\nm=75 <- (1, 11)\n"
    );
    for layout in [gapped, squares] {
        assert!(stdout(&["show", layout]).lines().count() > 5);
        let said = stdout(&["dma", "--dtype", "float16", "--layout", layout]);
        assert!(said.contains("ranges"), "{said}");
    }
    let refused = zellige(&[
        "check",
        "SpyreTensorLayout(device_size=[2, 4, 64], stride_map =[64, 100, 1], device_dtype=DataFormats.SEN169_FP16, device_stride=[500, 128, 1])",
    ]);
    assert!(text(&refused.stderr).contains("device stride 500"), "{}", text(&refused.stderr));
}
