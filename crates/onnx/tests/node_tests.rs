//! ONNX's own node tests, through the compiler and the card. `./test onnx` writes the cases from the `onnx`
//! package into a folder, names it in `ZELLIGE_ONNX_CASES` and runs this test.
//!
//! A case passes if every output has the elements, the shape and the type that ONNX expects; it is
//! refused if the import or the compilation gives an error; every other outcome is wrong, and no
//! case may be wrong. docs/conformance.md has the counts.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a test fails by panicking"
)]

use serde_json::Value;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use zellige_compile::{CompilerOptions, compile_graph};
use zellige_device::{Card, FloatMode, KeptDtypes};
use zellige_float::{Converter, Dtype, Format};
use zellige_graph::{InputRole, TensorId, TensorOrigin};
use zellige_onnx::{ImportedModel, InputConstant, OnnxModel, WeightData};
use zellige_run::HostArray;

/// The outcome of a case.
#[derive(Debug, Clone, PartialEq)]
enum Outcome {
    /// All outputs are right; the inputs that were bound when it was compiled.
    Passed(Vec<String>),
    /// The operation and the reason.
    Refused(String, String),
    Wrong(String),
}

struct Cases {
    /// The version of the package.
    version: String,
    list: Vec<Value>,
    bytes: Vec<u8>,
}

impl Cases {
    fn read(folder: &str) -> Cases {
        let list = std::fs::read_to_string(format!("{folder}/cases.json")).unwrap();
        let mut list: Value = serde_json::from_str(&list).unwrap();
        let version = list["onnx"].as_str().unwrap().to_string();
        let Value::Array(list) = list["cases"].take() else { panic!("no list of cases") };
        Cases { version, list, bytes: std::fs::read(format!("{folder}/cases.bin")).unwrap() }
    }

    fn part(&self, range: &Value) -> &[u8] {
        let at = |k: usize| usize::try_from(range[k].as_u64().unwrap()).unwrap();
        &self.bytes[at(0)..at(1)]
    }

    /// The inputs of a case, or the name of one that is no tensor of numbers.
    fn inputs(&self, case: &Value) -> Result<BTreeMap<String, InputConstant>, String> {
        let mut all = BTreeMap::new();
        for pair in case["inputs"].as_array().unwrap() {
            let name = pair[0].as_str().unwrap();
            if pair[1].is_null() {
                return Err(name.into());
            }
            let size: Vec<i64> =
                pair[1]["shape"].as_array().unwrap().iter().map(|d| d.as_i64().unwrap()).collect();
            let Some(dtype) = named(pair[1]["dtype"].as_str().unwrap()) else { continue };
            let bytes = self.part(&pair[1]["at"]).to_vec();
            all.insert(name.to_string(), InputConstant { size, dtype, bytes });
        }
        Ok(all)
    }
}

/// The dtype of a NumPy name.
fn named(name: &str) -> Option<Dtype> {
    Dtype::from_name(name).ok()
}

/// The elements of a result as float64, or as int64 where they are whole.
fn wide(host: &HostArray, float: bool) -> Vec<[u8; 8]> {
    let from = host.dtype().number_format().unwrap();
    let to = if float { Format::F64 } else { Format::I64 };
    let count = host.bytes().len() / from.byte_size();
    let mut out = vec![0; count * 8];
    Converter::new(from, to).convert(host.bytes(), &mut out, count).unwrap();
    out.as_chunks::<8>().0.to_vec()
}

/// The largest power of two that is not above the size of a number.
fn power_of_two_below(x: f64) -> f64 {
    if x == 0.0 || !x.is_finite() { 0.0 } else { 2f64.powf(x.abs().log2().floor()) }
}

/// The first element that differs by more than the tolerance.
fn difference(
    got: &HostArray,
    want: &Value,
    cases: &Cases,
    rtol: f64,
    atol: f64,
) -> Option<String> {
    let shape: Vec<i64> =
        want["shape"].as_array().unwrap().iter().map(|d| d.as_i64().unwrap()).collect();
    if got.size() != shape {
        return Some(format!("shape {:?} and not {shape:?}", got.size()));
    }
    let dtype = want["dtype"].as_str().unwrap();
    if named(dtype).map(zellige_onnx::carrier_dtype) != Some(got.dtype()) {
        return Some(format!("{} and not {dtype}", got.dtype()));
    }
    let float = want["float"] == true;
    // As ONNX's own runner has it: two units in the last place of bfloat16.
    let rtol = if dtype == "bfloat16" { rtol.max(2f64.powi(-6)) } else { rtol };
    let expected = cases.part(&want["at"]).as_chunks::<8>().0;
    for (i, (a, b)) in wide(got, float).iter().zip(expected).enumerate() {
        let off = if float {
            let (a, b) = (f64::from_le_bytes(*a), f64::from_le_bytes(*b));
            // Two units in the last place of float16 are more than the tolerance, too.
            let units =
                if dtype == "float16" { 2f64.powi(-9) * power_of_two_below(b) } else { 0.0 };
            let near = (a - b).abs() <= (atol + rtol * b.abs()).max(units);
            let same = a == b || (a.is_nan() && b.is_nan()) || near;
            (!same).then(|| format!("{a} and not {b}"))
        } else {
            (a != b)
                .then(|| format!("{} and not {}", i64::from_le_bytes(*a), i64::from_le_bytes(*b)))
        };
        if let Some(off) = off {
            return Some(format!("element {i} is {off}"));
        }
    }
    None
}

/// The operation that was refused, or nothing.
fn stage(e: &zellige_onnx::OnnxError) -> String {
    let node = e.node.as_deref().unwrap_or_default();
    node.split_once('(').and_then(|(_, r)| r.split_once(')')).map_or(e.kind, |(op, _)| op).into()
}

fn outcome(cases: &Cases, case: &Value) -> Outcome {
    let file = cases.part(&case["model"]);
    let refused =
        |stage: &str, e: &dyn std::fmt::Display| Outcome::Refused(stage.into(), e.to_string());
    let model = match OnnxModel::read_model(file) {
        Ok(model) => model,
        Err(e) => return refused("read", &e),
    };
    let inputs = match cases.inputs(case) {
        Ok(inputs) => inputs,
        Err(name) => {
            return match model.import_graph(&BTreeMap::new()) {
                Ok(_) => Outcome::Wrong(format!("`{name}` is no tensor and was accepted")),
                Err(e) => refused(&stage(&e), &e),
            };
        }
    };
    let imported = match model.import_graph_with(&BTreeMap::new(), &inputs) {
        Ok(imported) => imported,
        Err(e) => return refused(&stage(&e), &e),
    };
    let names: Vec<String> =
        case["inputs"].as_array().unwrap().iter().map(|p| p[0].as_str().unwrap().into()).collect();
    match ran(&imported, file, &inputs, &names) {
        Err(e) => refused("card", &e),
        Ok(made) => {
            let (rtol, atol) = (case["rtol"].as_f64().unwrap(), case["atol"].as_f64().unwrap());
            for (got, pair) in made.iter().zip(case["outputs"].as_array().unwrap()) {
                if pair[1].is_null() {
                    return Outcome::Wrong("an output that is no tensor of numbers".into());
                }
                if let Some(off) = difference(got, &pair[1], cases, rtol, atol) {
                    return Outcome::Wrong(format!("output {}: {off}", pair[0]));
                }
            }
            Outcome::Passed(imported.bound)
        }
    }
}

fn ran(
    imported: &ImportedModel,
    file: &[u8],
    inputs: &BTreeMap<String, InputConstant>,
    names: &[String],
) -> Result<Vec<HostArray>, String> {
    let keep = KeptDtypes::ALL;
    let mut options = CompilerOptions::default();
    options.storage.keep = keep;
    options.storage.mode = FloatMode::Ieee;
    let program = compile_graph(&imported.graph, &options).map_err(|e| e.to_string())?;
    let card = Card::builder()
        .hardware(options.hardware.clone())
        .float_mode(options.storage.mode)
        .keep_dtypes(keep)
        .profile(options.coverage)
        .core_count(options.cores)
        .build()
        .map_err(|e| e.to_string())?;
    let weights: BTreeMap<&str, _> =
        imported.weights.iter().map(|w| (w.name.as_str(), w)).collect();
    // Inputs of the graph are those of the model that were not bound, in their order.
    let graph = &imported.graph;
    let is_input = |id: &&TensorId| graph.get(**id).def == TensorOrigin::Input(InputRole::Input);
    let runtime: Vec<TensorId> = graph.inputs().iter().filter(is_input).copied().collect();
    let free: Vec<&String> = names.iter().filter(|n| !imported.bound.contains(n)).collect();
    let given = |name: &str| {
        if let Some(w) = weights.get(name) {
            let bytes = match &w.data {
                WeightData::Inside(range) => file[range.clone()].to_vec(),
                WeightData::Owned(bytes) => bytes.clone(),
                WeightData::External { .. } => panic!("nothing is outside"),
            };
            let bytes = w.carried_elements(bytes.into()).unwrap().into_owned();
            return HostArray::from_contiguous(bytes, &w.size, w.dtype);
        }
        let id = imported.graph.tensor_id(name).unwrap();
        let input = &inputs[free[runtime.iter().position(|i| *i == id).unwrap()]];
        let bytes = zellige_onnx::carry_elements(&input.bytes, input.dtype).unwrap();
        HostArray::from_contiguous(bytes, &input.size, imported.graph.get(id).dtype)
    };
    let mut model =
        zellige_run::LoadedModel::load_program(program, &card, given).map_err(|e| e.to_string())?;
    let ran = model.run_program(given).map_err(|e| e.to_string())?;
    Ok(ran.outputs)
}

/// Shortens a reason to the words that all similar cases share.
fn reason_of(stage: &str, reason: &str) -> String {
    let told = reason.rsplit_once("): ").map_or(reason, |(_, r)| r);
    let told =
        told.rsplit_once("`: ").filter(|_| told.starts_with("input")).map_or(told, |(_, r)| r);
    let told = told.split_once(';').map_or(told, |(head, _)| head);
    let told = told
        .split_once(", operand ")
        .and_then(|(_, r)| r.split_once("`: "))
        .map_or(told, |(_, r)| r);
    let mut words = String::new();
    for c in told.chars().take(90) {
        match c {
            '0'..='9' if stage != "bad_input" => {
                if !words.ends_with('#') {
                    words.push('#');
                }
            }
            '|' | '`' => {}
            c => words.push(c),
        }
    }
    let words = words.trim_end_matches([' ', ':']);
    match stage {
        "bad_input" => format!("an input: {words}"),
        "bad_opset" | "read" | "unbound" => format!("the model: {words}"),
        "card" => format!("when it runs: {words}"),
        op => format!("`{op}`: {words}"),
    }
}

/// The counts as docs/conformance.md has them.
fn section(version: &str, all: &[(String, Outcome)]) -> String {
    let (mut passed, mut bound, mut wrong) = (0, 0, 0);
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    for (_, outcome) in all {
        match outcome {
            Outcome::Passed(constants) => {
                passed += 1;
                bound += usize::from(!constants.is_empty());
            }
            Outcome::Wrong(_) => wrong += 1,
            Outcome::Refused(stage, reason) => {
                *reasons.entry(reason_of(stage, reason)).or_default() += 1;
            }
        }
    }
    let refused: usize = reasons.values().sum();
    let share = 100.0 * passed as f64 / all.len() as f64;
    let mut text = format!(
        "{MARK}\n\
The node tests of the package `onnx` {version}, each through the compiler and the card, with float32, int64 and the\n\
bits of 16-bit floats kept (`--fp32 keep --int64 keep --mode ieee`). A case passes where every output has the shape,\n\
the type and the elements that ONNX wants, within the tolerance of ONNX's own runner (rtol 1e-3 and atol 1e-7;\n\
two units in the last place of bfloat16, and here also of float16). Types that the card does not store are compared\n\
in the wider ones that carry them ([compiler.md](compiler.md)). `./test onnx` runs them and fails when a case is\n\
wrong or a number of this page is another one; `ZELLIGE_BLESS=1 ./test onnx` writes this part.\n\n\
| cases | passed | wrong | refused |\n|---:|---:|---:|---:|\n\
| {} | {passed} ({share:.1} %) | {wrong} | {refused} |\n\n\
Of those that pass, {bound} have inputs that sizes follow from (shapes, axes, numbers of turns, conditions): they are\n\
bound when the model is compiled.\n\n\
| refused because of | cases |\n|---|---:|\n",
        all.len(),
    );
    let mut table: Vec<_> = reasons.iter().collect();
    table.sort_by_key(|(reason, count)| (std::cmp::Reverse(**count), (*reason).clone()));
    for (reason, count) in table {
        text += &format!("| {reason} | {count} |\n");
    }
    text
}

/// Where the part about ONNX begins in docs/conformance.md.
const MARK: &str = "## ONNX's node tests\n";

#[test]
#[ignore = "needs the cases of the onnx package, which `./test onnx` writes"]
fn node_tests_of_onnx() {
    let folder = std::env::var("ZELLIGE_ONNX_CASES").expect("ZELLIGE_ONNX_CASES names the folder");
    let only = std::env::var("ZELLIGE_ONNX_ONLY").unwrap_or_default();
    let cases = Cases::read(&folder);
    assert!(cases.list.len() > 1000, "{} cases are too few", cases.list.len());
    let next = AtomicUsize::new(0);
    let work = || {
        let mut mine = Vec::new();
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            let Some(case) = cases.list.get(i) else { return mine };
            let name = case["name"].as_str().unwrap();
            if !name.contains(&only) {
                continue;
            }
            let got = catch_unwind(AssertUnwindSafe(|| outcome(&cases, case)));
            let got = got.unwrap_or_else(|_| Outcome::Wrong("it panicked".into()));
            mine.push((name.to_string(), got));
        }
    };
    let threads = std::thread::available_parallelism().map_or(2, |n| n.get().min(8));
    let mut all: Vec<(String, Outcome)> = std::thread::scope(|s| {
        let crew: Vec<_> = (0..threads).map(|_| s.spawn(work)).collect();
        crew.into_iter().flat_map(|t| t.join().unwrap()).collect()
    });
    all.sort_by(|a, b| a.0.cmp(&b.0));
    let count = |is: fn(&Outcome) -> bool| all.iter().filter(|(_, o)| is(o)).count();
    let passed = count(|o| matches!(o, Outcome::Passed(_)));
    let wrong = count(|o| matches!(o, Outcome::Wrong(_)));
    let mut lines = String::new();
    for (name, outcome) in &all {
        lines += &match outcome {
            Outcome::Passed(bound) => format!("passed\t{name}\t{}\n", bound.join(" ")),
            Outcome::Refused(stage, reason) => format!("refused\t{name}\t{stage}\t{reason}\n"),
            Outcome::Wrong(how) => format!("wrong\t{name}\t{how}\n"),
        };
        if let Outcome::Wrong(how) = outcome {
            println!("WRONG {name}: {how}");
        }
    }
    std::fs::write(format!("{folder}/outcomes.tsv"), lines).unwrap();
    let refused = all.len() - passed - wrong;
    println!("node tests: {passed} passed, {wrong} wrong, {refused} refused of {}", all.len());
    assert_eq!(wrong, 0, "wrong results; outcomes.tsv beside the cases lists all outcomes");
    if !only.is_empty() {
        return;
    }
    let path = format!("{}/../../docs/conformance.md", env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(&path).unwrap();
    let (head, told) = page.split_once(MARK).unwrap_or((&page, ""));
    let made = section(&cases.version, &all);
    if std::env::var_os("ZELLIGE_BLESS").is_some() {
        let head = head.trim_end();
        std::fs::write(&path, format!("{head}\n\n{made}")).unwrap();
        return;
    }
    let told = format!("{MARK}{told}");
    let differs = made.lines().zip(told.lines()).find(|(a, b)| a != b);
    assert_eq!(
        differs, None,
        "docs/conformance.md is stale: ZELLIGE_BLESS=1 ./test onnx writes it"
    );
    assert_eq!(made.lines().count(), told.lines().count(), "docs/conformance.md is stale");
}
