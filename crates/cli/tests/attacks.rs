//! The program under attack: files that change while they are read, kills, names that a terminal would
//! obey, caches of others, and every call to the system failing once.

#[path = "../../files/tests/common/mod.rs"]
#[allow(dead_code, clippy::unwrap_used, reason = "the helpers of the crate's own tests")]
mod common;
mod sparse;

use common::deflated;
use sparse::sparse_npy;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use zellige_files::{ContainerKind, NewTensor, write_tensor_file};
use zellige_float::Dtype;

/// A folder that is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("zellige-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The program in this folder.
    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zellige"));
        command.args(args).current_dir(&self.0).env("ZELLIGE_CACHE", "off").env_remove("SENCORES");
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("the program runs")
    }

    /// Every file with its bytes, by its name in the folder.
    fn contents(&self) -> BTreeMap<String, Vec<u8>> {
        fn walk(folder: &Path, prefix: &str, all: &mut BTreeMap<String, Vec<u8>>) {
            for entry in std::fs::read_dir(folder).expect("a folder") {
                let path = entry.expect("an entry").path();
                let name = format!("{prefix}{}", path.file_name().unwrap_or_default().display());
                if path.is_dir() {
                    walk(&path, &format!("{name}/"), all);
                } else if let Ok(bytes) = std::fs::read(&path) {
                    all.insert(name, bytes);
                }
            }
        }
        let mut all = BTreeMap::new();
        walk(&self.0, "", &mut all);
        all
    }

    fn temporaries(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).expect("a folder").filter_map(Result::ok);
        let names = entries.map(|e| e.file_name().to_string_lossy().into_owned());
        names.filter(|name| name.contains(".zellige-")).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Waits until the program has begun a file; it may also have ended.
fn wait_for_temporary(folder: &Folder, child: &mut Child) {
    let begun = Instant::now();
    while folder.temporaries().is_empty() && child.try_wait().expect("a child").is_none() {
        assert!(begun.elapsed() < Duration::from_secs(60), "it begins a file");
    }
}

#[test]
fn an_input_that_is_cut_while_it_is_moved_is_an_error() {
    for (round, (to, len)) in
        [("column-major", 0), ("row-major", 5000), ("spyre", 1 << 28)].into_iter().enumerate()
    {
        let folder = Folder::new(&format!("cut-{round}"));
        sparse_npy(&folder.path("a.npy"), ("|u1", 1), &[1 << 15, 1 << 15]);
        std::fs::write(folder.path("b.npy"), b"before").expect("written");
        let args = ["move", "a.npy", "b.npy", "--to", to, "--memory", "1"];
        let mut child = folder.command(&args).spawn().expect("it starts");
        wait_for_temporary(&folder, &mut child);
        std::thread::sleep(Duration::from_millis(20));
        let file = std::fs::File::options().write(true).open(folder.path("a.npy")).expect("open");
        file.set_len(len).expect("cut");
        let ended = child.wait_with_output().expect("it ends");
        let told = text(&ended.stderr);
        assert_eq!(ended.status.code(), Some(2), "{:?} {told}", ended.status);
        assert!(told.contains("a.npy") && told.contains("changed while it was read"), "{told}");
        let left = folder.contents();
        assert_eq!(left.keys().collect::<Vec<_>>(), ["a.npy", "b.npy"]);
        assert_eq!(left["b.npy"], b"before");
    }
}

/// A compressed member larger than the memory is unpacked once, and memory stays within bounds.
#[test]
fn a_large_compressed_member_is_unpacked_once() {
    let folder = Folder::new("deflated");
    // Bytes that repeat: 96 MiB that compress to little.
    let bytes: Vec<u8> = (0..96u32 << 20).map(|i| (i / 5 % 7).to_le_bytes()[0]).collect();
    let tensor = NewTensor::new("a", Dtype::Float32, [3072, 8192]);
    write_tensor_file(folder.path("a.npz"), &[(tensor, &bytes)], ContainerKind::Npz)
        .expect("written");
    let stored = std::fs::read(folder.path("a.npz")).expect("there");
    std::fs::write(folder.path("a.npz"), deflated(&stored, "a.npy")).expect("written");
    let begun = Instant::now();
    // The program, its threads and 16 MiB: not the member.
    let limited =
        "ulimit -v 90000; exec \"$0\" move a.npz b.npy --to column-major --memory 16 --verify";
    let out = Command::new("sh")
        .args(["-c", limited, env!("CARGO_BIN_EXE_zellige")])
        .current_dir(&folder.0)
        .output()
        .expect("it runs");
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert!(text(&out.stdout).contains("read back and equal"), "{}", text(&out.stdout));
    // Twelve slabs to write and forty-eight parts to compare: one pass each is far below this.
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    assert!(folder.temporaries().is_empty());
}

#[test]
fn memory_that_is_not_there_is_an_error() {
    let folder = Folder::new("memory");
    // The output has its room on the disk before memory is asked for.
    sparse_npy(&folder.path("a.npy"), ("|u1", 1), &[1 << 15, 1 << 15]);
    for args in [
        vec!["move", "a.npy", "b.npy", "--to", "column-major", "--memory", "1000000"],
        vec!["ktir", "check", "a.npy"],
        vec!["compile", "a.graph"],
    ] {
        symlink("a.npy", folder.path("a.graph")).ok();
        let out = Command::new("sh")
            .args(["-c", "ulimit -v 600000; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_zellige")])
            .args(&args)
            .current_dir(&folder.0)
            .output()
            .expect("it runs");
        let told = text(&out.stderr);
        assert!(matches!(out.status.code(), Some(2 | 3)), "{args:?}: {:?} {told}", out.status);
        assert!(told.contains("memory") || told.contains("at most"), "{args:?}: {told}");
        std::fs::remove_file(folder.path("a.graph")).expect("removed");
        let names = std::fs::read_dir(&folder.0).expect("a folder").count();
        assert_eq!(names, 1, "{args:?}");
    }
}

/// What a terminal obeys, and what shows another name than the one that is there.
fn obeyed(text: &str) -> Option<char> {
    text.chars().find(|c| {
        (c.is_control() && *c != '\n')
            || matches!(*c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    })
}

#[test]
fn names_never_reach_a_terminal_as_control_characters() {
    let folder = Folder::new("names");
    let evil = "w\u{1b}[2J\u{9b}31m\u{7}\r\u{202e}gpj.exe\nerror: forged\u{200b}\u{7f}";
    let data = [0u8; 24];
    let tensor = |name: &str| NewTensor::new(name, Dtype::Float32, [2, 3]);
    for (file, kind) in
        [("a.npz", ContainerKind::Npz), ("a.safetensors", ContainerKind::Safetensors)]
    {
        let two = [(tensor(evil), &data[..]), (tensor("b"), &data[..])];
        write_tensor_file(folder.path(file), &two, kind).expect("written");
    }
    let named = format!("x{}.npy", evil.replace('/', "_"));
    write_tensor_file(folder.path(&named), &[(tensor("x"), &data)], ContainerKind::Npy)
        .expect("written");
    std::fs::write(folder.path(&format!("{named}.graph")), "graph g(").expect("written");
    std::fs::write(folder.path("bad.graph"), format!("graph {evil}(\n")).expect("written");
    std::fs::write(folder.path("bad.mlir"), format!("module {{ func @{evil} }}\n"))
        .expect("written");
    std::fs::write(folder.path(&format!("{named}.npy")), evil).expect("written");
    let graph = serde_json::json!({
        "name": evil,
        "inputs": [{"name": evil, "dtype": "float16", "size": [4, 64]}],
        "ops": [{"op": "relu", "inputs": [evil], "outputs": ["y"], "at": evil}],
        "outputs": ["y"],
    });
    std::fs::write(folder.path("evil.json"), graph.to_string()).expect("written");
    let at = serde_json::json!({
        "name": "g",
        "inputs": [{"name": "x", "dtype": "float16", "size": [4, 64]}],
        "ops": [{"op": "relu", "inputs": ["x"], "outputs": ["y"], "at": evil}],
        "outputs": ["y"],
    });
    std::fs::write(folder.path("at.json"), at.to_string()).expect("written");
    let missing = format!("no{evil}.npy");
    let input = format!("x={named}");
    let mut seen = 0;
    for args in [
        vec!["move", "a.npz", "o.npz", "--to", "row-major"],
        vec!["move", "a.npz", "o.npz", "--to", "row-major", "--json"],
        vec!["move", "a.npz", "o.npz", "--to", "S[(9,9)]"],
        vec!["move", "a.npz", "o.npz", "--to", "row-major", "--tensor", "nope"],
        vec!["move", "a.npz", "o.npz", "--to", "row-major", "--tensor", evil, "--verify"],
        vec!["move", "a.safetensors", "o.npy", "--to", "row-major"],
        vec![
            "move",
            "a.safetensors",
            "o.safetensors",
            "--to",
            "column-major",
            "--to-dtype",
            "float16",
        ],
        vec!["move", &missing, "o.npy", "--to", "row-major"],
        vec!["move", &named, &missing, "--to", "row-major"],
        vec!["move", &format!("{named}.npy"), "o.npy", "--to", "row-major"],
        vec!["upload", "a.npz", "--tensor", evil],
        vec!["upload", "a.npz", "--tensor", evil, "--json"],
        vec!["upload", "a.npz"],
        vec!["upload", &named, "--download", "o.npy"],
        vec!["eager", "relu", &named],
        vec!["eager", "relu", &format!("a.npz:{evil}"), "-o", &missing],
        vec!["eager", "relu", "a.npz"],
        vec!["compile", "evil.json"],
        vec!["compile", "at.json", "--json"],
        vec!["compile", "at.json"],
        vec!["compile", "bad.graph"],
        vec!["compile", &format!("{named}.graph")],
        vec!["run", "at.json", "--input", &input],
        vec!["run", "at.json", "--load", "a.npz"],
        vec!["ktir", "check", "bad.mlir"],
        vec!["ktir", "check", &missing],
        vec!["show", evil],
        vec!["check", evil, "--json"],
        vec!["device", "--hardware", &missing],
    ] {
        let out = folder.run(&args);
        for (stream, bytes) in [("stdout", &out.stdout), ("stderr", &out.stderr)] {
            let told = String::from_utf8(bytes.clone()).expect("UTF-8");
            assert_eq!(obeyed(&told), None, "{args:?} {stream}: {told:?}");
            // No line of ours begins where the name has one; arguments are the user's own words.
            let own = args.iter().any(|a| a.contains("forged"));
            assert!(own || !told.contains("\nerror: forged"), "{args:?} {stream}: {told:?}");
            seen += usize::from(told.contains("forged"));
        }
    }
    assert!(seen > 10, "names are shown, escaped: {seen}");
}

#[test]
fn kills_at_any_time_leave_old_outputs_and_are_cleaned_up() {
    let folder = Folder::new("kills");
    let bytes: Vec<u8> = (0..1u32 << 22).map(|i| i.to_le_bytes()[0]).collect();
    let tensor = NewTensor::new("a", Dtype::Uint8, [1 << 11, 1 << 11]);
    write_tensor_file(folder.path("a.npy"), &[(tensor, &bytes)], ContainerKind::Npy)
        .expect("written");
    let args = ["move", "a.npy", "b.npy", "--to", "column-major", "--memory", "1"];
    assert!(folder.run(&args).status.success());
    let whole = std::fs::read(folder.path("b.npy")).expect("written");
    let mut stale = 0;
    for round in 0..60 {
        let mut child = folder.command(&args).spawn().expect("it starts");
        if round % 3 == 0 {
            wait_for_temporary(&folder, &mut child);
        } else {
            std::thread::sleep(Duration::from_millis(round % 20));
        }
        let _ = child.kill();
        child.wait().expect("it ends");
        assert_eq!(std::fs::read(folder.path("b.npy")).expect("there"), whole, "round {round}");
        // At most the one of this round: those before were removed by it.
        let left = folder.temporaries().len();
        stale += left;
        assert!(left <= 2, "round {round}: {:?}", folder.temporaries());
    }
    assert!(stale > 0, "some were killed half-way");
    assert!(folder.run(&args).status.success());
    assert_eq!(folder.contents().into_keys().collect::<Vec<_>>(), ["a.npy", "b.npy"]);
}

/// Everything stays whole.
const PLAN: &str = "[from]\nfiles = \"model.safetensors\"\n[to]\nmesh = \"tp=2\"\n\
    files = \"out{rank}.safetensors\"\n[[tensor]]\nname = \"*\"\n";

/// Calls that only files to write need.
const WRITES: [&str; 8] =
    ["Create", "SetLen", "Reserve", "Write", "SetMode", "Sync", "Rename", "MakeFolder"];

const GRAPH: &str = "graph g(\n    x: float16[4, 64],\n) {\n    y = relu(x)\n    return y\n}\n";

/// Every call of every command fails once: then the error names a file, old outputs are whole or complete,
/// and nothing else is left.
#[test]
fn every_call_of_every_command_may_fail() {
    let cases: [(&str, &[&str], &[&str]); 6] = [
        ("move", &["move", "a.npy", "b.npy", "--to", "column-major", "--verify"], &["b.npy"]),
        ("npz", &["move", "a.npy", "b.npz", "--to", "spyre", "--to-dtype", "float16"], &["b.npz"]),
        (
            "compile",
            &["compile", "g.graph", "--report", "r.html", "--json", "r.json", "--trace", "t.json"],
            &["r.html", "r.json", "t.json"],
        ),
        ("run", &["run", "g.graph", "--input", "x=h.npy", "--output", "y.npy"], &["y.npy"]),
        (
            "eager",
            &["eager", "relu", "h.npy", "-o", "y.npy", "--trace", "t.json"],
            &["y.npy", "t.json"],
        ),
        ("show", &["show", "S[4]", "--svg", "s.svg"], &["s.svg"]),
    ];
    let mut told = String::new();
    for (name, args, outputs) in cases {
        let folder = Folder::new(&format!("faults-{name}"));
        let data: Vec<u8> = (0..4800u32).map(|i| (i % 97).to_le_bytes()[0]).collect();
        let new = NewTensor::new("a", Dtype::Float32, [30, 40]);
        write_tensor_file(folder.path("a.npy"), &[(new, &data)], ContainerKind::Npy)
            .expect("written");
        let half = NewTensor::new("h", Dtype::Float16, [4, 64]);
        write_tensor_file(folder.path("h.npy"), &[(half, &data[..512])], ContainerKind::Npy)
            .expect("written");
        std::fs::write(folder.path("g.graph"), GRAPH).expect("written");
        let log = folder.0.with_extension("log");
        for output in outputs {
            std::fs::write(folder.path(output), b"before").expect("written");
        }
        let before = folder.contents();
        assert!(folder.run(args).status.success(), "{name}: {}", text(&folder.run(args).stderr));
        let complete = folder.contents();
        let (mut faults, mut errors) = (0, 0);
        for how in ["once", "always", "short", "kill"] {
            for at in 0..1000 {
                for (file, bytes) in &before {
                    std::fs::write(folder.path(file), bytes).expect("written");
                }
                let _ = std::fs::remove_file(&log);
                let mut command = folder.command(args);
                command.env("ZELLIGE_FAULT", format!("{how}:{at}")).env("ZELLIGE_FAULT_LOG", &log);
                let out = command.output().expect("it runs");
                let stderr = text(&out.stderr);
                let Ok(call) = std::fs::read_to_string(&log) else {
                    assert!(out.status.success(), "{name} {how}:{at}: {stderr}");
                    break;
                };
                faults += 1;
                let what = format!("{name} {how}:{at} {}: {:?} {stderr}", call.trim(), out.status);
                let after = folder.contents();
                for (file, bytes) in &after {
                    if file.contains(".zellige-") {
                        assert_eq!(how, "kill", "{what}: {file} is left");
                    } else {
                        // Seconds and times of a run differ; a whole file of the right length does not.
                        let is = |there: Option<&Vec<u8>>| there == Some(bytes);
                        let written = outputs.contains(&file.as_str()) && bytes.len() > 20;
                        assert!(
                            is(before.get(file)) || is(complete.get(file)) || written,
                            "{what}: {file} is neither old nor new"
                        );
                    }
                }
                match out.status.code() {
                    Some(0) => {
                        for output in outputs {
                            assert_ne!(after[*output], b"before", "{what}: {output}");
                        }
                    }
                    Some(code @ (2 | 3)) => {
                        errors += 1;
                        assert!(code == 3 || !WRITES.contains(&call.trim()), "{what}");
                        let names = before.keys().chain(outputs.iter().map(|_| &call));
                        assert!(names.into_iter().any(|n| stderr.contains(n.as_str())), "{what}");
                    }
                    Some(137) => assert_eq!(how, "kill", "{what}"),
                    _ => panic!("{what}"),
                }
                if how == "kill" && !folder.temporaries().is_empty() {
                    assert!(folder.run(args).status.success(), "{what}");
                    assert!(folder.temporaries().is_empty(), "{what}: the next run removes it");
                }
            }
        }
        let _ = std::fs::remove_file(&log);
        assert!(faults > 20 && errors > 5, "{name}: {faults} faults, {errors} errors");
        let _ = writeln!(told, "{name}: {faults} faults, {errors} of them errors");
    }
    eprintln!("{told}");
}

/// Every command that writes a file exits with 3 where that cannot be, and leaves nothing behind.
#[test]
fn files_that_cannot_be_written_exit_with_3() {
    let folder = Folder::new("unwritable");
    let data = [0u8; 4800];
    let tensor = |name, dtype, size: &[i64]| NewTensor::new(name, dtype, size);
    let a = tensor("a", Dtype::Float32, &[30, 40]);
    write_tensor_file(folder.path("a.npy"), &[(a, &data)], ContainerKind::Npy).expect("written");
    let h = tensor("h", Dtype::Float16, &[4, 64]);
    write_tensor_file(folder.path("h.npy"), &[(h, &data[..512])], ContainerKind::Npy)
        .expect("written");
    std::fs::create_dir(folder.path("model")).expect("a folder");
    let w = tensor("w", Dtype::Float32, &[30, 40]);
    write_tensor_file(
        folder.path("model/model.safetensors"),
        &[(w, &data)],
        ContainerKind::Safetensors,
    )
    .expect("written");
    std::fs::write(folder.path("plan"), PLAN).expect("written");
    std::fs::write(folder.path("g.graph"), GRAPH).expect("written");
    let one_file: [&[&str]; 10] = [
        &["move", "a.npy", "OUT.npy", "--to", "column-major", "--memory", "1"],
        &["move", "a.npy", "OUT.safetensors", "--to", "spyre", "--to-dtype", "float16"],
        &["upload", "h.npy", "--download", "OUT.npy"],
        &["eager", "relu", "h.npy", "-o", "OUT.npy"],
        &["eager", "relu", "h.npy", "--trace", "OUT.json"],
        &["run", "g.graph", "--output", "y=OUT.npy"],
        &["run", "g.graph", "--report", "OUT.html"],
        &["compile", "g.graph", "--trace", "OUT.json"],
        &["show", "S[4]", "--svg", "OUT.svg"],
        &["show", "S[4]", "--png", "OUT.png"],
    ];
    let folders: [&[&str]; 3] = [
        &["run", "g.graph", "--output", "OUT/"],
        &["compile", "g.graph", "--emit", "OUT/"],
        &["reshard", "model", "OUT", "--plan", "plan"],
    ];
    let check = |args: &[String], limit: &str| {
        let out = Command::new("sh")
            .args(["-c", &format!("{limit} exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_zellige")])
            .args(args)
            .current_dir(&folder.0)
            .env("ZELLIGE_CACHE", "off")
            .output()
            .expect("it runs");
        let stderr = text(&out.stderr);
        assert_eq!(out.status.code(), Some(3), "{limit} {args:?}: {:?} {stderr}", out.status);
        assert!(stderr.contains("out") || stderr.contains("h.npy"), "{args:?}: {stderr}");
        assert!(folder.temporaries().is_empty(), "{args:?}");
    };
    let with = |args: &[&str], name: &str| -> Vec<String> {
        args.iter().map(|a| a.replace("OUT", name)).collect()
    };
    for ending in ["npy", "safetensors", "json", "html", "svg", "png"] {
        symlink("/dev/full", folder.path(&format!("out-full.{ending}"))).expect("a link");
        let name = format!("out-loop.{ending}");
        symlink(&name, folder.path(&name)).expect("a link");
        std::fs::create_dir(folder.path(&format!("out-folder.{ending}"))).expect("a folder");
    }
    for args in one_file {
        for place in ["out-full", "out-loop", "out-folder", "h.npy/out"] {
            check(&with(args, place), "");
        }
        // `run` makes the folders of its results.
        if !args.contains(&"y=OUT.npy") {
            check(&with(args, "none/out"), "");
        }
        check(&with(args, "out"), "ulimit -f 0;");
    }
    for args in folders {
        for place in ["h.npy/out", "/proc/out"] {
            check(&with(args, place), "");
        }
        check(&with(args, "out"), "ulimit -f 0;");
    }
}

/// Standard output that is full is told of and exits with 3; input that cannot be read exits with 2.
#[test]
fn standard_output_that_is_full_exits_with_3() {
    let folder = Folder::new("full");
    let full = || std::fs::File::options().write(true).open("/dev/full").expect("a device");
    for args in [
        &["--help"][..],
        &["--version"],
        &["move", "--help"],
        &["presets"],
        &["show", "S[4]"],
        &["ask", "--list"],
    ] {
        let out = folder.command(args).stdout(full()).output().expect("it runs");
        assert_eq!(out.status.code(), Some(3), "{args:?}: {}", text(&out.stderr));
        assert!(text(&out.stderr).contains("standard output"), "{args:?}");
    }
    std::fs::write(folder.path("bytes"), [0xff, 0xfe, 0x80]).expect("written");
    std::fs::write(folder.path("request"), "{}\n").expect("written");
    let file = |name: &str| std::fs::File::open(folder.path(name)).expect("a file");
    let asked =
        folder.command(&["ask"]).stdin(file("request")).stdout(full()).output().expect("it runs");
    assert_eq!(asked.status.code(), Some(3), "{}", text(&asked.stderr));
    let shown = folder.command(&["show", "-"]).stdin(file("bytes")).output().expect("it runs");
    assert_eq!(shown.status.code(), Some(2), "{}", text(&shown.stderr));
    for args in [&["ask", "no/such"][..], &["explore", "--page", "no/such"]] {
        assert_eq!(folder.run(args).status.code(), Some(2), "{args:?}");
    }
}

/// Entries of the cache that others may have written are not believed, and nothing waits for them.
#[test]
fn a_cache_of_others_is_not_believed() {
    let folder = Folder::new("cache");
    std::fs::write(folder.path("g.graph"), GRAPH).expect("written");
    let compile = |more: &[&str]| {
        let args: Vec<&str> = ["compile", "g.graph"].iter().chain(more).copied().collect();
        let out = folder.command(&args).env("ZELLIGE_CACHE", folder.path("cache")).output();
        let out = out.expect("it runs");
        assert!(out.status.success(), "{}", text(&out.stderr));
        text(&out.stdout)
    };
    assert!(compile(&[]).contains("compiled in"));
    assert!(compile(&[]).contains("from the cache in"));
    let cache = folder.path("cache");
    let entries = || -> Vec<PathBuf> {
        let all = std::fs::read_dir(&cache).expect("a folder");
        all.map(|e| e.expect("an entry").path()).collect()
    };
    let [entry] = entries().try_into().expect("one entry");
    let mode = |path: &Path| path.metadata().expect("there").permissions().mode() & 0o777;
    assert_eq!((mode(&cache), mode(&entry)), (0o700, 0o600));
    assert_eq!(entry.file_stem().expect("a name").len(), 64, "a hash of 256 bits");

    // The same entry, with a report that somebody wrote: whole, with the right checksum, but a link.
    std::fs::rename(&entry, folder.path("elsewhere")).expect("moved");
    symlink(folder.path("elsewhere"), &entry).expect("a link");
    let told = compile(&[]);
    assert!(told.contains("compiled in") && told.contains("is not a plain file"), "{told}");
    assert!(compile(&[]).contains("from the cache in"), "it was replaced");
    // A pipe: nobody ever writes into it.
    std::fs::remove_file(&entry).expect("removed");
    assert!(Command::new("mkfifo").arg(&entry).status().expect("mkfifo").success());
    let told = compile(&[]);
    assert!(told.contains("compiled in") && told.contains("is not a plain file"), "{told}");
    std::fs::set_permissions(&cache, PermissionsExt::from_mode(0o777)).expect("a mode");
    let told = compile(&[]);
    assert!(told.contains("compiled in") && told.contains("can be written by others"), "{told}");
    std::fs::set_permissions(&cache, PermissionsExt::from_mode(0o700)).expect("a mode");

    // Everything that decides the report is part of its key: what is left to its default is not the same
    // under both policies.
    let fresh = |more: &[&str]| assert!(compile(more).contains("compiled in"), "{more:?}");
    fresh(&["--compare"]);
    fresh(&["--compare", "--weights", "free"]);
    fresh(&["--compare", "--weights", "given"]);
    fresh(&["--cores", "3"]);
    fresh(&["--pin", "x=stick:0"]);
    std::fs::write(folder.path("g.graph"), GRAPH.replace("64", "128")).expect("written");
    fresh(&[]);
    assert!(compile(&["--compare"]).contains("compiled in"));
}
