//! Graphs as a person uses them: compile and run.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use zellige_files::{ContainerKind, NewTensor, read_tensor_file, write_tensor_file};
use zellige_float::Dtype;

/// A folder of its own, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("zellige-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.join(name), text).expect("written");
    }

    fn zellige(&self, args: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_zellige"))
            .args(args)
            .current_dir(&self.0)
            .env_remove("SENCORES")
            .env_remove("LX_PLANNING")
            .env_remove("DXP_LX_FRAC_AVAIL")
            .env("ZELLIGE_CACHE", "off")
            .output()
            .expect("the program runs")
    }

    fn stdout(&self, args: &[&str]) -> String {
        let out = self.zellige(args);
        let errors = String::from_utf8_lossy(&out.stderr).to_string();
        assert!(out.status.success(), "{args:?}: {errors}");
        String::from_utf8(out.stdout).expect("text")
    }

    fn fails(&self, args: &[&str], word: &str) {
        let out = self.zellige(args);
        let errors = String::from_utf8_lossy(&out.stderr).to_string();
        assert_eq!(out.status.code(), Some(2), "{args:?}: {errors}");
        assert!(errors.contains(word), "{args:?}: {errors}");
        assert!(!errors.contains("panicked"), "{args:?}: {errors}");
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn example(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.join(format!("examples/{name}.graph")).display().to_string()
}

const SMALL: &str = "graph small(x: float16[4, 70], w: float16[8, 70] @weight) {
    h = linear(x, w)
    y = softmax(h, dim=-1)
    return y
}
";

#[test]
fn compile_says_what_was_decided() {
    let f = Folder::new("compile");
    let text = f.stdout(&["compile", &example("transposed-sum"), "--compare", "--check"]);
    for word in [
        "latency",
        "baseline",
        "least sum of costs: none of",
        "where the time goes",
        "moves",
        "accepts the plan",
    ] {
        assert!(text.contains(word), "{word}: {text}");
    }
    let json: Value =
        serde_json::from_str(&f.stdout(&["compile", &example("softmax"), "--json"])).expect("JSON");
    assert_eq!(json["version"], 5);
    assert!(json["summary"]["latency_us"].as_f64().expect("a number") > 0.0);
    let bundles = f.stdout(&["compile", &example("softmax"), "--hardware", "card-2026-09"]);
    assert!(bundles.contains("bundles      1 program of"), "{bundles}");
    let explained = f.stdout(&["compile", &example("transposed-sum"), "--explain", "p"]);
    assert!(
        explained.contains("made by step ") && explained.contains(" of bundle "),
        "{explained}"
    );
    assert!(explained.contains("* ") && explained.contains("sticks of 64"), "{explained}");
    for pass in zellige_compile::PASSES {
        let printed = f.stdout(&["compile", &example("attention"), "--pass", pass.name]);
        assert!(printed.lines().count() > 2, "{}: {printed}", pass.name);
    }
    f.write(
        "odd.graph",
        "graph g(x: float16[55, 67], y: float16[67, 128]) { a = matmul(x, y) return a }",
    );
    let padded = f.stdout(&["compile", "odd.graph", "--padding"]);
    assert!(padded.contains("operand 1, dimension 0: 67 of 128, filled with 0"), "{padded}");
}

#[test]
fn files_are_written_whole() {
    let f = Folder::new("compile-files");
    let args = [
        "compile",
        &example("llama-block"),
        "--report",
        "r.html",
        "--json",
        "r.json",
        "--trace",
        "t.json",
    ];
    let text = f.stdout(&args);
    assert!(text.contains("wrote r.html") && text.contains("wrote r.json"), "{text}");
    let page = std::fs::read_to_string(f.0.join("r.html")).expect("a page");
    assert!(
        page.starts_with("<!doctype html>")
            && page.contains("llama_block")
            && page.ends_with("</html>\n")
    );
    let report: Value =
        serde_json::from_slice(&std::fs::read(f.0.join("r.json")).expect("a file")).expect("JSON");
    assert_eq!(report["graph"], "llama_block");
    let trace: Value =
        serde_json::from_slice(&std::fs::read(f.0.join("t.json")).expect("a file")).expect("JSON");
    assert!(trace["traceEvents"].as_array().expect("a list").len() > 100);
    let out = f.zellige(&["compile", &example("softmax"), "--report", "no/such/folder/r.html"]);
    assert!(!out.status.success());
    assert!(String::from_utf8_lossy(&out.stderr).contains("no/such/folder"));
}

#[test]
fn forty_layers_are_one_on_the_page() {
    let f = Folder::new("compile-granite");
    f.stdout(&["compile", &example("granite-8b-prefill"), "--report", "g.html"]);
    let page = std::fs::read_to_string(f.0.join("g.html")).expect("a page");
    assert!(page.contains("×40") || page.contains("×39"), "the layers are not recognised");
    assert!(page.len() < 3_000_000, "{} bytes", page.len());
}

#[test]
fn run_gives_the_numbers_of_the_operations() {
    let f = Folder::new("run");
    f.write("small.graph", SMALL);
    let x: Vec<u8> = (0..280u16).flat_map(|i| (0x3000 + i).to_le_bytes()).collect();
    let new = NewTensor::new("x", Dtype::Float16, [4, 70].as_slice());
    write_tensor_file(f.0.join("x.npy"), &[(new, x.as_slice())], ContainerKind::Npy)
        .expect("written");
    let args =
        ["run", "small.graph", "--input", "x=x.npy", "--output", "out/", "--verify", "--seed", "3"];
    let first = f.stdout(&args);
    assert!(first.contains("verified") && first.contains("checksum"), "{first}");
    assert_eq!(first, f.stdout(&args), "the same program, the same answer");
    let (info, bytes) = read_tensor_file(f.0.join("out/y.npy"), None).expect("a result");
    assert_eq!((info.dtype(), info.shape()), (Dtype::Float16, [4, 8].as_slice()));
    assert_eq!(bytes.len(), 64);
    // The weight is another one under another seed.
    let other = f.stdout(&["run", "small.graph", "--input", "x=x.npy", "--seed", "4"]);
    assert_ne!(
        first.lines().find(|l| l.contains("checksum")),
        other.lines().find(|l| l.contains("checksum"))
    );
}

#[test]
fn numbers_that_are_lost_are_warned_about_once_and_reported() {
    let folder = Folder::new("lost");
    folder.write(
        "mask.graph",
        "graph mask(x: float32[2, 4], m: float32[2, 4] @weight) {
            a = add(x, m)
            y = softmax(a, dim=-1)
            l = log(x)
            z = add(l, l)
            return y, z
        }",
    );
    let bytes = |x: [f32; 8]| -> Vec<u8> { x.iter().flat_map(|v| v.to_le_bytes()).collect() };
    let save = |name: &str, x: [f32; 8]| {
        let tensor = NewTensor::new("t", Dtype::Float32, [2, 4]);
        write_tensor_file(folder.0.join(name), &[(tensor, &bytes(x))], ContainerKind::Npy)
            .expect("written");
    };
    save("m.npy", [0.0, -3.4e38, -3.4e38, -3.4e38, 0.0, 0.0, -3.4e38, -3.4e38]);
    save("x.npy", [1.0, 2.0, 3.0, 4.0, -1.0, 2.0, 3.0, 4.0]);
    let mut args = vec!["run", "mask.graph", "--input", "x=x.npy", "--input", "m=m.npy"];
    args.extend(["--json", "report.json", "--report", "report.html", "--output", "out/"]);
    // With float32 kept, as by default, nothing is past.
    let errors = String::from_utf8_lossy(&folder.zellige(&args).stderr).to_string();
    assert!(!errors.contains("past") && errors.contains("`l` has 1 NaN"), "{errors}");
    args.extend(["--fp32", "cast"]);
    let out = folder.zellige(&args);
    let errors = String::from_utf8_lossy(&out.stderr).to_string();
    assert!(out.status.success(), "{errors}");
    let past = "`m` has 5 numbers past what its format on the card holds, the first is -3.4e38 at \
                [0, 1]: on the card they are infinite";
    let made = "`l` has 1 NaN, the first at [1, 0]: log made it of numbers";
    for said in [past, made] {
        assert_eq!(errors.matches(&format!("warning: {said}\n")).count(), 1, "{errors}");
    }
    assert!(errors.contains("warning: float32 tensors are stored in 16 bits"), "{errors}");
    assert_eq!(errors.matches("warning").count(), 3, "{errors}");
    let text = String::from_utf8_lossy(&out.stdout).to_string();
    assert!(text.contains(past) && text.contains(made), "{text}");
    let json = std::fs::read_to_string(folder.0.join("report.json")).expect("written");
    let report: Value = serde_json::from_str(&json).expect("JSON");
    let notes = report["notes"].as_array().expect("notes");
    let of = |kind: &str| notes.iter().find(|n| n["kind"] == kind).expect("noted").clone();
    assert_eq!((&of("numbers_past")["name"], &of("nan_made")["name"]), (&"m".into(), &"l".into()));
    assert_eq!(of("nan_made")["op"], "log");
    let page = std::fs::read_to_string(folder.0.join("report.html")).expect("written");
    assert!(page.contains("past what its format on the card holds"));
    let (_, y) = read_tensor_file(folder.0.join("out/y.npy"), None).expect("read");
    let y: Vec<f32> = y.chunks(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
    assert_eq!(y[..4], [1.0, 0.0, 0.0, 0.0]);
}

#[test]
fn examples_run_and_agree_with_single_operations() {
    let f = Folder::new("run-examples");
    for name in
        ["transposed-sum", "softmax", "layer-norm", "attention", "swiglu", "llama-block-decode"]
    {
        let text = f.stdout(&["run", &example(name), "--verify"]);
        assert!(text.contains("verified"), "{name}: {text}");
    }
}

#[test]
fn models_run_with_the_weights_of_their_file() {
    let f = Folder::new("run-onnx");
    let file = |name: &str| example(&format!("onnx/{name}")).replace(".graph", "");
    let (model, x) = (file("mlp.onnx"), format!("x={}", file("mlp.x.npy")));
    let bound = ["--bind", "batch=4"];
    let args =
        [&["run", &model, "--input", &x, "-o", "y.npy", "--verify", "--fp32", "keep"][..], &bound];
    let text = f.stdout(&args.concat());
    assert!(text.contains("verified") && text.contains("6 weights from the model"), "{text}");
    let numbers = |path: &Path| -> Vec<f32> {
        let (_, bytes) = read_tensor_file(path, None).expect("a tensor");
        bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
    };
    let (got, want) = (numbers(&f.0.join("y.npy")), numbers(Path::new(&file("mlp.y.npy"))));
    assert_eq!(got.len(), want.len());
    let first = got.iter().zip(&want).position(|(a, b)| (a - b).abs() > 1e-5);
    assert_eq!(first, None, "PyTorch's numbers");
    // The graph behind it, a pin on one of its tensors, and its name instead of its ending.
    let read = f.stdout(&[&["compile", &model, "--pass", "read"][..], &bound].concat());
    assert!(read.contains("= layer_norm(x, norm.weight, norm.bias"), "{read}");
    std::fs::copy(&model, f.0.join("model")).expect("copied");
    let pinned = ["compile", "model", "--pin", "x=stick:0", "--check"];
    let text = f.stdout(&[&pinned[..], &bound].concat());
    assert!(text.contains("accepts the plan"), "{text}");

    f.fails(&["compile", &model], "--bind batch=N");
    f.fails(&["compile", &model, "--bind", "rows=4"], "known: batch");
    let bytes = std::fs::read(&model).expect("a model");
    std::fs::write(f.0.join("cut.onnx"), &bytes[..bytes.len() / 2]).expect("written");
    f.fails(&["compile", "cut.onnx"], "bytes follow, and");
    f.write("text.onnx", "graph g(x: float16[2]) { y = add(x, 1) return y }");
    f.fails(&["run", "text.onnx"], "byte 0");
    f.fails(&["compile", "none.onnx"], "none.onnx");
}

/// A model of one node: `y = Reshape(x, shape)`, both of them inputs.
fn reshape() -> Vec<u8> {
    let field = |number: u8, bytes: &[u8]| {
        [&[number << 3 | 2, u8::try_from(bytes.len()).expect("short")], bytes].concat()
    };
    let value = |name: &str, dtype: u8, size: &[u8]| {
        let dims: Vec<u8> = size.iter().flat_map(|n| field(1, &[0x08, *n])).collect();
        let tensor = [&[0x08, dtype][..], &field(2, &dims)].concat();
        [field(1, name.as_bytes()), field(2, &field(1, &tensor))].concat()
    };
    let node = [field(1, b"x"), field(1, b"shape"), field(2, b"y"), field(4, b"Reshape")].concat();
    let inputs =
        [field(11, &value("x", 11, &[2, 3])), field(11, &value("shape", 7, &[1]))].concat();
    let graph = [field(1, &node), inputs, field(12, &field(1, b"y"))].concat();
    [field(7, &graph), field(8, &[0x10, 17])].concat()
}

#[test]
fn an_input_that_sizes_follow_from_is_read_when_a_model_is_compiled() {
    let f = Folder::new("run-bound");
    std::fs::write(f.0.join("m.onnx"), reshape()).expect("written");
    let npy = |name: &str, dtype, size: &[i64], bytes: &[u8]| {
        let new = NewTensor::new("x", dtype, size);
        write_tensor_file(f.0.join(name), &[(new, bytes)], ContainerKind::Npy).expect("written");
    };
    npy("shape.npy", Dtype::Int64, &[1], &6i64.to_le_bytes());
    // float64 is computed in float32.
    let x: Vec<u8> = (0..6).flat_map(|i| (f64::from(i) / 4.0).to_le_bytes()).collect();
    npy("x.npy", Dtype::Float64, &[2, 3], &x);
    f.fails(&["compile", "m.onnx"], "computed from the input `shape`");
    f.fails(&["compile", "m.onnx", "--bind", "shape=none.npy"], "none.npy");
    let text = f.stdout(&["compile", "m.onnx", "--bind", "shape=shape.npy", "--pass", "read"]);
    assert!(text.contains("size=[6]") && !text.contains("shape:"), "{text}");
    let files =
        ["--input", "shape=shape.npy", "--input", "x=x.npy", "-o", "y.npy", "--fp32", "keep"];
    let text = f.stdout(&[&["run", "m.onnx"][..], &files].concat());
    assert!(
        text.contains("bound when it was compiled, as sizes follow from them: shape"),
        "{text}"
    );
    let (info, bytes) = read_tensor_file(f.0.join("y.npy"), None).expect("a tensor");
    assert_eq!((info.shape(), info.dtype()), (&[6i64][..], Dtype::Float32));
    let made: Vec<f32> = bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
    assert_eq!(made, [0.0, 0.25, 0.5, 0.75, 1.0, 1.25]);
}

#[test]
fn bad_input_is_an_error_that_says_where() {
    let f = Folder::new("compile-bad");
    f.write("small.graph", SMALL);
    f.write("typo.graph", &SMALL.replace("softmax", "sofmax"));
    f.write("cut.graph", &SMALL[..60]);
    f.write("shape.graph", &SMALL.replace("[8, 70]", "[8, 71]"));
    f.write("hint.graph", &SMALL.replace("dim=-1)", "dim=-1) split {c9: 3} at \"m.py:7\""));
    f.write("broken.json", "{\"name\": \"g\", ");
    f.write("cycle.json", r#"{"name":"g","inputs":[],"ops":[{"op":"neg","inputs":["b"],"outputs":["a"]},{"op":"neg","inputs":["a"],"outputs":["b"]}],"outputs":["a"]}"#);
    f.fails(&["compile", "nothing.graph"], "nothing.graph");
    f.fails(&["compile", "typo.graph"], "sofmax");
    f.fails(&["compile", "typo.graph"], "^^^^");
    f.fails(&["compile", "cut.graph"], "error");
    f.fails(&["compile", "shape.graph"], "71");
    f.fails(&["compile", "broken.json"], "broken.json");
    f.fails(&["compile", "cycle.json"], "cycle.json");
    f.fails(&["compile", "small.graph", "--policy", "worst"], "best or baseline");
    f.fails(&["compile", "small.graph", "--cores", "0"], "SENCORES");
    f.fails(&["compile", "small.graph", "--cores", "99"], "1 to 32");
    f.fails(&["compile", "small.graph", "--explain", "nobody"], "no such tensor");
    f.fails(&["compile", "small.graph", "--bind", "s=1"], "s");
    f.fails(&["compile", "small.graph", "--bind", "s"], "SYMBOL=VALUE");
    f.fails(&["compile", "small.graph", "--pin", "q=stick:0"], "`q`");
    f.fails(&["compile", "small.graph", "--pin", "x=stick:9"], "9");
    f.fails(&["compile", "small.graph", "--hardware", "toaster"], "toaster");
    f.fails(&["compile", "small.graph", "--pass", "magic"], "magic");
    f.fails(&["run", "small.graph", "--input", "q=x.npy"], "no input `q`");
    f.fails(&["run", "small.graph", "--input", "x=missing.npy"], "missing.npy");
    f.fails(&["run", "small.graph", "--output", "z=z.npy"], "outputs are y");
    let new = NewTensor::new("x", Dtype::Float32, [4, 70].as_slice());
    write_tensor_file(f.0.join("wide.npy"), &[(new, [0u8; 1120].as_slice())], ContainerKind::Npy)
        .expect("written");
    f.fails(&["run", "small.graph", "--input", "x=wide.npy"], "float16");
}

#[test]
fn hints_that_cannot_hold_name_their_operation() {
    let f = Folder::new("compile-hint");
    f.write("hint.graph", &SMALL.replace("dim=-1)", "dim=-1) split {c9: 3} at \"m.py:7\""));
    let out = f.zellige(&["compile", "hint.graph"]);
    let errors = String::from_utf8_lossy(&out.stderr).to_string();
    assert_eq!(out.status.code(), Some(2), "{errors}");
    assert!(errors.contains("c9"), "{errors}");
}

#[test]
fn a_report_that_cannot_be_written_is_said_of_its_own_name() {
    let folder = Folder::new("unwritable");
    folder.write("g.graph", "graph g(x: float16[4, 64]) { y = exp(x) return y }");
    for option in ["--report", "--json", "--trace"] {
        let out = folder.zellige(&["compile", "g.graph", option, "no/such/x.out"]);
        let errors = String::from_utf8_lossy(&out.stderr).to_string();
        assert_eq!(out.status.code(), Some(3), "{option}: {errors}");
        assert!(errors.starts_with("error: no/such/x.out: cannot create it"), "{option}: {errors}");
    }
}

#[test]
fn pins_that_contradict_each_other_are_refused() {
    let f = Folder::new("compile-pins");
    f.write("plain.graph", "graph g(x: float16[64, 128]) { y = relu(x) return y }");
    f.write("pinned.graph", "graph g(x: float16[64, 128]) { y = relu(x) pin stick 1 return y }");
    f.write(
        "twice.graph",
        "graph g(x: float16[64, 128]) { y = relu(x) pin stick 1 pin stick 0 return y }",
    );
    f.write(
        "input.graph",
        "graph g(x: float16[64, 128] pin stick 1 pin sparse) { y = relu(x) return y }",
    );
    let both = ["--pin", "y=stick:0", "--pin", "y=stick:1"];
    f.fails(&[&["compile", "plain.graph"], &both[..]].concat(), "pinned already");
    f.fails(&["compile", "pinned.graph", "--pin", "y=stick:0"], "pin stick 1");
    f.fails(&["compile", "twice.graph"], "a tensor has one pin");
    f.fails(&["compile", "input.graph"], "a tensor has one pin");
    // The same pin twice says nothing else.
    f.stdout(&["compile", "pinned.graph", "--pin", "y=stick:1", "--pin", "y=stick:1"]);
}

#[test]
fn hints_beyond_the_cores_are_refused() {
    let f = Folder::new("compile-cores");
    let graph = |splits: &str| {
        format!(
            "graph g(x: float16[64, 128], w: float16[128, 256]) {{ y = matmul(x, w) split {{{splits}}} return y }}"
        )
    };
    f.write("one.graph", &graph("M: 64"));
    f.write("two.graph", &graph("M: 32, N: 4"));
    f.write("fits.graph", &graph("M: 8, N: 4"));
    for policy in ["best", "baseline"] {
        f.fails(
            &["compile", "one.graph", "--policy", policy],
            "split=64 of dim M needs more cores",
        );
        f.fails(&["compile", "two.graph", "--policy", policy], "accepted are 1");
        f.fails(
            &["compile", "fits.graph", "--policy", policy, "--cores", "16"],
            "needs more cores",
        );
        let json = f.stdout(&["compile", "fits.graph", "--policy", policy, "--json"]);
        let json: Value = serde_json::from_str(&json).expect("JSON");
        let steps = json["steps"].as_array().expect("steps");
        let product = steps.iter().find(|s| s["name"] == "y").expect("the product");
        let splits: Vec<&Value> =
            product["dims"].as_array().expect("loops").iter().map(|d| &d["split"]).collect();
        assert_eq!(splits, [8, 4, 1]);
    }
}

#[test]
fn strict_refuses_a_half_stick_cat() {
    let f = Folder::new("compile-strict");
    f.write(
        "half.graph",
        "graph g(a: float16[4, 32], b: float16[4, 32]) { y = cat(a, b, dim=1) return y }",
    );
    f.stdout(&["compile", "half.graph"]);
    f.fails(&["compile", "half.graph", "--strict"], "lane 32 of a stick of 64");
}

#[test]
fn variables_of_the_devices_own_compiler_hold() {
    let f = Folder::new("compile-variables");
    let places = |name: &str, value: &str| {
        let out = Command::new(env!("CARGO_BIN_EXE_zellige"))
            .args(["compile", &example("swiglu"), "--pass", "pool"])
            .current_dir(&f.0)
            .env_remove("SENCORES")
            .env("ZELLIGE_CACHE", "off")
            .env(name, value)
            .output()
            .expect("the program runs");
        (
            String::from_utf8_lossy(&out.stdout).to_string(),
            String::from_utf8_lossy(&out.stderr).to_string(),
        )
    };
    let plain = f.stdout(&["compile", &example("swiglu"), "--pass", "pool"]);
    assert!(plain.contains(": lx "), "{plain}");
    assert_eq!(places("LX_PLANNING", "1").0, plain);
    let none = f.stdout(&["compile", &example("swiglu"), "--pass", "pool", "--no-lx"]);
    assert_eq!(places("LX_PLANNING", "0").0, none);
    assert!(none != plain && !places("DXP_LX_FRAC_AVAIL", "1").0.contains(": lx "));
    assert_eq!(places("DXP_LX_FRAC_AVAIL", "0.2").0, plain);
    for (name, value, said) in
        [("LX_PLANNING", "yes", "`0` or `1`"), ("DXP_LX_FRAC_AVAIL", "2", "a number from 0 to 1")]
    {
        let errors = places(name, value).1;
        assert!(errors.contains(said) && errors.contains(name), "{errors}");
    }
}

#[test]
fn passes_have_the_names_of_the_devices_own_stages() {
    let f = Folder::new("compile-stages");
    let help = f.stdout(&["compile", "--help"]);
    for (stage, pass) in [
        ("propagate_spyre_tensor_layouts", "propagate"),
        ("stickify", "propagate"),
        ("optimize_restickify_locations", "choose"),
        ("insert_restickify", "lower"),
        ("work_division", "work_distribution"),
        ("scratchpad_planning", "scratchpads"),
        ("hbm_pool_planning", "pool"),
    ] {
        assert!(help.contains(stage), "{stage} is missing from the help");
        let of = |name: &str| f.stdout(&["compile", &example("attention"), "--pass", name]);
        assert_eq!(of(stage), of(pass));
    }
    f.fails(&["compile", &example("attention"), "--pass", "stick"], "stick");
}

/// Kernels read layouts with gaps in place, and only the right operand of the product is copied, for the zeros below its
/// last row; a tensor in square sticks is moved before one reads it.
#[test]
fn pinned_gaps_and_square_sticks_run() {
    let f = Folder::new("compile-gaps");
    let gaps = "SpyreTensorLayout(device_size=[2, 4, 64], stride_map =[64, 100, 1], \
                device_dtype=DataFormats.SEN169_FP16, device_stride=[512, 128, 1])";
    let squares = "SpyreTensorLayout(device_size=[2, 2, 8, 8], stride_map =[128, 8, 16, 1], \
                   device_dtype=DataFormats.SEN169_FP16, stick_dims=2)";
    f.write(
        "gaps.graph",
        &format!(
            "graph g(x: float16[4, 100] pin {gaps}, w: float16[100, 64]) {{
                y = relu(x) z = matmul(y, w) s = add(x, 1) pin {gaps} t = sum(s, dim=0) return z, t }}"
        ),
    );
    f.write(
        "squares.graph",
        &format!("graph g(x: float16[16, 16] pin {squares}) {{ y = relu(x) return y }}"),
    );
    for (graph, moves) in [("gaps.graph", 1), ("squares.graph", 1)] {
        let text = f.stdout(&["compile", graph, "--check"]);
        assert!(text.contains(&format!("{moves} in a run")) && text.contains("accepts"), "{text}");
        assert!(f.stdout(&["run", graph, "--verify"]).contains("verified"));
    }
}

#[test]
fn emitted_tile_programs_name_the_float_of_the_card() {
    let f = Folder::new("tile-float");
    f.write(
        "add.graph",
        "graph g(x: float16[8, 64], y: float16[8, 64]) { z = add(x, y) return z }",
    );
    let kernel = |more: &[&str]| {
        f.stdout(&[&["compile", "add.graph", "--emit", "out"], more].concat());
        std::fs::read_to_string(f.0.join("out/ktir/step_0_z.mlir")).expect("a kernel")
    };
    let interchange = kernel(&[]);
    assert!(interchange.contains("x64xf16>") && !interchange.contains("df16"), "{interchange}");
    assert_eq!(kernel(&["--tile-float", "f16"]), interchange);
    assert_eq!(kernel(&["--tile-float", "df16"]), interchange.replace("xf16>", "xdf16>"));
    f.fails(&["compile", "add.graph", "--tile-float", "df16"], "--emit");
    f.fails(&["compile", "add.graph", "--emit", "out", "--tile-float", "bf16"], "df16");
}
