//! The simulated card as a person uses it: device, upload, eager, ops.

mod sparse;

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use zellige_files::{ContainerKind, NewTensor, read_tensor_file, write_tensor_file};
use zellige_float::Dtype;

/// A folder with tensors, removed at the end.
struct Folder(PathBuf);

impl Folder {
    /// `a.npy` counts up in float16, `b.npy` is all ones in float32, `z.npz` holds rows and indices.
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("zellige-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        let folder = Folder(path);
        let halves = [0x0000u16, 0x3c00, 0x4000, 0x4200, 0x4400]; // 0, 1, 2, 3, 4
        let a: Vec<u8> = (0..40 * 100).flat_map(|i| halves[i % 5].to_le_bytes()).collect();
        let b: Vec<u8> = (0..40 * 100).flat_map(|_| 1f32.to_le_bytes()).collect();
        let index: Vec<u8> = [3i64, 0].iter().flat_map(|i| i.to_le_bytes()).collect();
        let new = |name: &str, dtype, shape: &[i64]| NewTensor::new(name, dtype, shape);
        let write = |file: &str, tensors: &[(NewTensor, &[u8])], kind| {
            write_tensor_file(folder.path(file), tensors, kind).expect("written");
        };
        write("a.npy", &[(new("a", Dtype::Float16, &[40, 100]), &a)], ContainerKind::Npy);
        write("b.npy", &[(new("b", Dtype::Float32, &[40, 100]), &b)], ContainerKind::Npy);
        let both = [
            (new("rows", Dtype::Float16, &[40, 100]), a.as_slice()),
            (new("index", Dtype::Int64, &[2]), index.as_slice()),
        ];
        write("z.npz", &both, ContainerKind::Npz);
        write("s.safetensors", &both, ContainerKind::Safetensors);
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Runs the program here.
    fn zellige(&self, args: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_zellige"))
            .args(args)
            .current_dir(&self.0)
            .env_remove("SENCORES")
            .output()
            .expect("the program starts")
    }

    /// The same without the warnings of tensors that are stored in fewer bits.
    fn quiet(&self, args: &[&str]) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zellige"));
        let command = command.args(args).current_dir(&self.0).env("TORCH_SPYRE_DOWNCAST_WARN", "0");
        let out = command.output().expect("the program starts");
        let stderr = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success() && stderr.is_empty(), "{args:?}: {stderr}");
        String::from_utf8(out.stdout).expect("UTF-8")
    }

    fn stdout(&self, args: &[&str]) -> String {
        let out = self.zellige(args);
        let stderr = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{args:?}: {stderr}");
        assert!(stderr.is_empty(), "{args:?}: {stderr}");
        String::from_utf8(out.stdout).expect("UTF-8")
    }

    fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.stdout(&[args, &["--json"]].concat())).expect("JSON")
    }

    fn files(&self) -> Vec<String> {
        let list = std::fs::read_dir(&self.0).expect("a folder");
        let name = |e: std::io::Result<std::fs::DirEntry>| {
            e.expect("readable").file_name().to_string_lossy().into_owned()
        };
        let mut names: Vec<String> = list.map(name).collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn halves(path: &Path) -> Vec<u16> {
    let (_, bytes) = read_tensor_file(path, None).expect("readable");
    bytes.chunks(2).map(|b| u16::from_le_bytes([b[0], b[1]])).collect()
}

#[test]
fn device_says_what_the_card_is() {
    let folder = Folder::new("device");
    let text = folder.stdout(&["device"]);
    // Columns are as wide as the longest name.
    let figures: Vec<Vec<&str>> =
        text.lines().map(|line| line.split_whitespace().take(3).collect()).collect();
    assert!(figures.contains(&vec!["memory.peak", "204.8", "GB/s"]), "{text}");
    for part in [
        "7  base 0x1c00000000  16 GiB  programs",
        "LX      32 cores of 2 MiB",
        "memory  128 GiB, 0 bytes in use",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let presets = folder.stdout(&["device", "--presets"]);
    assert!(presets.starts_with("card ") && presets.contains("\nktir "), "{presets}");
    assert_eq!(folder.json(&["device", "--presets"])["presets"][3]["name"], "ktir");
    let own = "name = 'half'\nextends = 'card'\n[cores]\ncount = { value = 16, unit = 'cores', source = 'what if' }\n";
    std::fs::write(folder.path("half.toml"), own).expect("written");
    let half = folder.json(&["device", "--hardware", "half.toml", "--cores", "8"]);
    assert_eq!((&half["hardware"]["name"], &half["cores"]), (&"half".into(), &8.into()));
    assert_eq!(half["memory"]["segments"].as_array().map(Vec::len), Some(8));
    let figures = half["hardware"]["figures"].as_array().expect("figures");
    assert!(figures.iter().all(|f| f["unit"].is_string() && f["source"].is_string()));
}

#[test]
fn upload_describes_the_tensor_and_brings_it_back() {
    let folder = Folder::new("upload");
    let text = folder.stdout(&["upload", "a.npy", "--download", "back.npy"]);
    for part in [
        "host      a float16 [40, 100], strides [100, 1], 8000 bytes",
        "device_size=[2, 40, 64]",
        "stored    80 sticks, 10240 bytes at 0x0, elements as dl16",
        "padding   2240 bytes, 21.9%",
        "upload    143 ns",
        "host strides [100, 1] from 64  device strides [64, 1] from 2560",
        "\"dataformat_dst_\": \"SEN169_FP16\"",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(halves(&folder.path("back.npy")), halves(&folder.path("a.npy")));
    let json =
        folder.json(&["upload", "z.npz", "--tensor", "rows", "--stick", "0", "--mode", "ieee"]);
    assert_eq!((&json["sticks"], &json["padding_bytes"]), (&100.into(), &4800.into()));
    assert_eq!(json["losses"], Value::Array(Vec::new()));
    assert!(json["upload"]["latency"]["cycles"].as_u64() > Some(0), "{json}");
    let order = folder.json(&["upload", "a.npy", "--dim-order", "1,0"]);
    assert_eq!((&order["layout"], &order["dci"]), (&json["layout"], &json["dci"]));
    for kept in
        [&["upload", "b.npy"][..], &["upload", "b.npy", "--fp32", "keep", "--profile", "card"]]
    {
        let wide = folder.json(kept);
        assert_eq!((&wide["format"], &wide["sticks"]), (&"float32".into(), &160.into()));
    }
    let narrow = folder.json(&["upload", "b.npy", "--dtype", "float16", "--download", "b16.npy"]);
    assert_eq!(narrow["device_dtype"], "float16");
    assert!(halves(&folder.path("b16.npy")).iter().all(|h| *h == 0x3c00));
}

/// One switch decides how float32 and int64 are stored, and every command follows it and warns.
#[test]
fn the_profile_decides_how_numbers_are_stored() {
    let folder = Folder::new("kept");
    std::fs::write(
        folder.path("g.graph"),
        "graph g(x: float32[4, 70], i: int64[4, 70]) { y = add(x, x) j = add(i, i) return y, j }",
    )
    .expect("written");
    let index: Vec<u8> = (0i64..4).flat_map(i64::to_le_bytes).collect();
    write_tensor_file(
        folder.path("i.npy"),
        &[(NewTensor::new("i", Dtype::Int64, [4]), &index)],
        ContainerKind::Npy,
    )
    .expect("written");
    let narrow = ["float32 tensors are stored in 16 bits", "int64 tensors are stored in 32 bits"];
    let cases: [(&[&str], &[&str]); 4] = [
        (&["upload", "b.npy"], &narrow[..1]),
        (&["upload", "i.npy"], &narrow[1..]),
        (&["eager", "add", "b.npy", "1"], &narrow[..1]),
        (&["run", "g.graph"], &narrow),
    ];
    let start = |args: &[&str], profile: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zellige"));
        command.args(args).current_dir(&folder.0).env("ZELLIGE_PROFILE", profile);
        let out = command.output().expect("the program starts");
        (String::from_utf8_lossy(&out.stderr).into_owned(), out.status.success())
    };
    for (args, warned) in cases {
        for (full, card) in [
            (start(args, ""), start(args, "card")),
            (start(args, "full"), start(&[args, &["--profile", "card"]].concat(), "full")),
        ] {
            for text in narrow {
                assert!(!full.0.contains(text), "{args:?}: {}", full.0);
                let times = usize::from(warned.contains(&text));
                assert_eq!(card.0.matches(text).count(), times, "{args:?}: {}", card.0);
            }
        }
        let (kept, _) = start(&[args, &["--fp32", "keep", "--int64", "keep"]].concat(), "card");
        assert!(!kept.contains("are stored in"), "{args:?}: {kept}");
    }
    let (error, done) = start(&["device"], "both");
    assert!(!done && error.contains("ZELLIGE_PROFILE") && error.contains("`card` and `full`"));
    let card = |args: &[&str]| folder.json(args);
    let device = card(&["device", "--profile", "card"]);
    assert_eq!((&device["keep_fp32"], &device["keep_int64"]), (&false.into(), &false.into()));
    let device = card(&["device"]);
    assert_eq!((&device["keep_fp32"], &device["keep_int64"]), (&true.into(), &true.into()));
}

/// An index that 32 bits do not hold is no other row.
#[test]
fn an_index_past_32_bits_is_refused() {
    let folder = Folder::new("wide");
    let index: Vec<u8> = [1i64, 1 << 32].iter().flat_map(|i| i.to_le_bytes()).collect();
    let tensor = NewTensor::new("i", Dtype::Int64, [2]);
    write_tensor_file(folder.path("i.npy"), &[(tensor, index.as_slice())], ContainerKind::Npy)
        .expect("written");
    for args in [
        ["eager", "embedding", "a.npy", "i.npy", "-o", "c.npy"].as_slice(),
        &["eager", "index_select", "a.npy", "i.npy", "--attr", "dim=0", "-o", "c.npy"],
        &["upload", "i.npy"],
    ] {
        if args[0] == "eager" {
            let out = folder.zellige(args);
            let stderr = String::from_utf8_lossy(&out.stderr);
            assert!(stderr.contains("index 4294967296 at [1] is out of range"), "{stderr}");
        }
        let out = folder.zellige(&[args, &["--int64", "cast"]].concat());
        let stderr = String::from_utf8_lossy(&out.stderr);
        assert!(!out.status.success(), "{args:?}");
        assert!(stderr.contains("the integer 4294967296 at [1] does not fit"), "{stderr}");
        assert!(!folder.path("c.npy").exists());
    }
}

#[test]
fn eager_runs_operations_and_says_what_every_step_costs() {
    let folder = Folder::new("eager");
    let args = ["eager", "add", "a.npy", "z.npz:rows", "-o", "c.npy"];
    let text = folder.stdout(&args);
    for part in ["upload a ", "upload rows ", "add ", "download c ", "-> c.npy", "total "] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(text, folder.stdout(&args), "the same run takes the same simulated time");
    let doubled = [0x0000u16, 0x4000, 0x4400, 0x4600, 0x4800];
    let sum = halves(&folder.path("c.npy"));
    assert!(sum.iter().enumerate().all(|(i, h)| *h == doubled[i % 5]), "{:?}", &sum[..5]);
    // A number, other layouts, fewer cores.
    folder.stdout(&["eager", "add", "s.safetensors:rows", "1", "-o", "d.npy", "--cores", "1"]);
    assert_eq!(halves(&folder.path("d.npy"))[..3], [0x3c00, 0x4000, 0x4200]);
    let moved = ["eager", "add", "a.npy", "a.npy", "--layout", "default", "--layout", "stick=0"];
    let text = folder.stdout(&moved);
    assert!(text.contains("restickify operand") && text.contains("because its sticks run along"));
    let json = folder.json(&moved);
    let steps = json["steps"].as_array().expect("steps");
    assert_eq!(steps.len(), 4);
    assert!(steps[2]["why"].as_str().is_some_and(|w| w.contains("dimension")), "{json}");
    assert_eq!(json["total_ps"], steps[3]["end_ps"]);
    assert_eq!(json["results"][0]["file"], Value::Null);
}

#[test]
fn the_profile_card_goes_to_the_host() {
    let folder = Folder::new("profile");
    let args = ["eager", "index_select", "z.npz:rows", "z.npz:index", "--attr", "dim=0"];
    let full = folder.stdout(&args);
    let card = folder.quiet(&[&args[..], &["--profile", "card", "-o", "r.npy"]].concat());
    assert!(!full.contains("done by the host"), "{full}");
    assert!(card.contains("index_select on the host") && card.contains("done by the host"));
    let (rows, picked) = (halves(&folder.path("a.npy")), halves(&folder.path("r.npy")));
    assert_eq!((&picked[..100], &picked[100..]), (&rows[300..400], &rows[..100]));
    let ops = folder.json(&["ops", "--profile", "card"]);
    let list = ops["operations"].as_array().expect("a list");
    let of = |name: &str| list.iter().find(|o| o["name"] == name).expect("it is there").clone();
    assert_eq!(
        (&of("add")["runs_on"], &of("embedding")["runs_on"]),
        (&"device".into(), &"host".into())
    );
    assert!(folder.stdout(&["ops"]).contains("profile full: 0 by the host"));
    assert!(folder.stdout(&["eager", "--list"]).contains("add(a, b)"));
    let listed = folder.json(&["eager", "--list"]);
    assert_eq!(listed["operations"].as_array().map(Vec::len), Some(list.len()));
}

#[test]
fn traces_are_chrome_traces_and_timelines_are_drawn() {
    let folder = Folder::new("trace");
    let args = ["eager", "add", "a.npy", "a.npy", "--layout", "stick=0", "--trace", "t.json"];
    folder.stdout(&[&args[..], &["--timeline", "t.svg", "-o", "c.npy"]].concat());
    let trace = std::fs::read_to_string(folder.path("t.json")).expect("written");
    let trace: Value = serde_json::from_str(&trace).expect("JSON");
    let events = trace["traceEvents"].as_array().expect("events");
    assert_eq!(trace["otherData"]["dropped_events"], 0);
    let (mut bars, mut last, mut named) = (0, 0.0, std::collections::HashSet::new());
    for e in events {
        let (pid, tid) =
            (e["pid"].as_u64().expect("a process"), e["tid"].as_u64().expect("a thread"));
        match e["ph"].as_str() {
            Some("M") => {
                assert!(e["args"].is_object() && e["name"].is_string(), "{e}");
                named.insert((pid, tid));
            }
            Some("X") => {
                let (ts, dur) =
                    (e["ts"].as_f64().expect("a time"), e["dur"].as_f64().expect("a time"));
                assert!(ts >= last && dur >= 0.0 && named.contains(&(pid, tid)), "{e}");
                (last, bars) = (ts, bars + 1);
            }
            Some("C") => assert!(e["args"]["value"].is_u64(), "{e}"),
            other => panic!("{other:?}: {e}"),
        }
    }
    assert!(bars > 10, "{bars}");
    let svg = std::fs::read_to_string(folder.path("t.svg")).expect("written");
    for part in ["<svg", "restickify operand 0 of add", "core 0", "transfers", "</svg>"] {
        assert!(svg.contains(part), "{part}");
    }
    folder.stdout(&["eager", "add", "a.npy", "1", "--timeline", "t.png"]);
    assert_eq!(&std::fs::read(folder.path("t.png")).expect("written")[1..4], b"PNG");
}

#[test]
fn sencores_chooses_the_cores() {
    let folder = Folder::new("sencores");
    let run = |value: &str, more: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_zellige"))
            .args([&["eager", "add", "a.npy", "1", "--json"], more].concat())
            .current_dir(&folder.0)
            .env("SENCORES", value)
            .output()
            .expect("the program starts")
    };
    let cores = |out: &Output| {
        let json: Value = serde_json::from_slice(&out.stdout).expect("JSON");
        json["cores"].as_u64()
    };
    assert_eq!(cores(&run("4", &[])), Some(4));
    assert_eq!(cores(&run("4", &["--cores", "2"])), Some(2));
    for bad in ["0", "33", "four", ""] {
        let out = run(bad, &[]);
        let stderr = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(&format!("SENCORES is `{bad}`; accepted are 1 to 32")), "{stderr}");
    }
}

#[test]
fn bad_input_is_an_error_and_nothing_is_written() {
    let folder = Folder::new("refused");
    // 200 gigabytes that take no room on the disk.
    sparse::sparse_npy(&folder.path("huge.npy"), ("<f2", 2), &[100_000_000_000]);
    let doubles: Vec<u8> = 1f64.to_le_bytes().to_vec();
    let double = NewTensor::new("d", Dtype::Float64, [1]);
    write_tensor_file(folder.path("f64.npy"), &[(double, &doubles)], ContainerKind::Npy)
        .expect("written");
    std::fs::write(folder.path("bad.toml"), "name = 'x'\nextends = 'card'\n[cores]\ncount = 3\n")
        .expect("written");
    let before = folder.files();
    for (args, part) in [
        (vec!["eager", "ad", "a.npy", "b.npy"], "there is no operation `ad`"),
        (vec!["eager", "embeding", "a.npy", "b.npy"], "did you mean `embedding`?"),
        (vec!["eager"], "required"),
        (vec!["eager", "add", "a.npy"], "its operands are a, b, and 1 were given"),
        (vec!["eager", "add", "a.npy", "a.npy", "1"], "its operands are a, b, and 3 were given"),
        (vec!["eager", "add", "a.npy", "1", "--attr", "x=1"], "there is no such attribute"),
        (vec!["eager", "gather", "a.npy", "1", "--attr", "dim=x"], "\"x\" is no integer"),
        (vec!["eager", "gather", "a.npy", "1"], "attribute `dim`: it is missing"),
        (vec!["eager", "add", "a.npy", "1", "--attr", "x"], "write NAME=VALUE"),
        (vec!["eager", "add", "a.npy", "no.npy", "-o", "x.npy"], "no.npy"),
        (vec!["eager", "add", "z.npz", "1"], "index"),
        (vec!["eager", "add", "z.npz:nope", "1"], "nope"),
        (vec!["eager", "add", "f64.npy", "1"], "--dtype float32"),
        (vec!["eager", "add", "a.npy", "99999999999", "--int64", "cast"], "2147483647"),
        (vec!["upload", "a.npy", "--fp32", "16"], "--fp32 16: accepted are keep and cast"),
        (vec!["device", "--profile", "spyre"], "accepted are `card` and `full`"),
        (vec!["eager", "add", "a.npy", "z.npz:index"], "does not broadcast"),
        (vec!["eager", "add", "a.npy", "1", "-o", "no/such/x.npy"], "cannot create"),
        (vec!["eager", "add", "a.npy", "1", "-o", "x.txt"], ".npy, .npz or .safetensors"),
        (vec!["eager", "add", "a.npy", "1", "-o", "x.npy", "-o", "y.npy"], "gives 1 result, and 2"),
        (
            vec!["eager", "add", "a.npy", "1", "-o", "x.npy", "--trace", "no/t.json"],
            "cannot create",
        ),
        (vec!["eager", "add", "a.npy", "1", "-o", "x.npy", "--timeline", "t.gif"], ".svg or .png"),
        (vec!["eager", "add", "a.npy", "1", "--cores", "0"], "accepted are 1 to 32"),
        (vec!["eager", "add", "a.npy", "1", "--cores", "33"], "accepted are 1 to 32"),
        (vec!["eager", "add", "a.npy", "1", "--layout", "stick=9"], "9"),
        (vec!["eager", "add", "a.npy", "1", "--layout", "what"], "accepted: default, stick=DIM"),
        (vec!["eager", "add", "huge.npy", "1", "-o", "x.npy"], "split the tensor"),
        (vec!["upload", "huge.npy", "--download", "x.npy"], "more than one allocation can take"),
        (vec!["upload", "a.npy", "--mode", "fp16"], "accepted are `dl16` and `ieee`"),
        (vec!["upload", "a.npy", "--dtype", "float17"], "float17"),
        (vec!["upload", "a.npy", "--dim-order", "0"], "--dim-order"),
        (vec!["upload", "a.npy", "--download", "no/x.npy"], "cannot create"),
        (vec!["upload", "no.npy"], "no.npy: cannot open it"),
        (
            vec!["device", "--hardware", "gpu"],
            "built in are card, card-2026-05, card-2026-09, ktir",
        ),
        (vec!["device", "--hardware", "bad.toml"], "bad.toml: hardware preset, line 4"),
        (vec!["device", "--hardware", "no.toml"], "no.toml: cannot read it"),
        (vec!["ops", "--profile", "spyre"], "accepted are `card` and `full`"),
    ] {
        let out = folder.zellige(&args);
        let stderr = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(matches!(out.status.code(), Some(2 | 3)), "{args:?}: {:?} {stderr}", out.status);
        // The name of the option is enough where the reason comes from the algebra.
        let found = stderr.contains(part) || (part == "--dim-order" && stderr.contains("order"));
        assert!(found, "{args:?}: {stderr}");
        assert!(out.stdout.is_empty(), "{args:?}");
    }
    assert_eq!(folder.files(), before);
}
