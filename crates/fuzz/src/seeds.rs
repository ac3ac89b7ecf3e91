//! Valid inputs, from the examples and the test data of the repository.

use crate::cache::search_decisions;
use std::path::{Path, PathBuf};
use zellige_layout::Layout;
use zellige_movement::{MovePlan, PaddingFill};
use zellige_notation::{Notation, json, preset, tirx};

/// The largest file that is used as a seed.
// A mutation changes a few bytes, which hardly ever matters in a long file.
const MAX_SEED_BYTES: u64 = 64 << 10;

fn repository_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The files of a folder with an extension, in the order of their names.
fn read_files(folder: &str, ending: &str) -> Vec<Vec<u8>> {
    let entries =
        std::fs::read_dir(repository_root().join(folder)).expect("a folder of the repository");
    let mut paths: Vec<PathBuf> = entries.filter_map(|e| Some(e.ok()?.path())).collect();
    paths.retain(|p| p.extension().is_some_and(|e| e == ending));
    paths.retain(|p| p.metadata().is_ok_and(|m| m.len() <= MAX_SEED_BYTES));
    paths.sort();
    paths.iter().map(|p| std::fs::read(p).expect("a file of the repository")).collect()
}

pub(crate) fn npy_files() -> Vec<Vec<u8>> {
    read_files("tests/data/files", "npy")
}

pub(crate) fn npz_files() -> Vec<Vec<u8>> {
    read_files("tests/data/files", "npz")
}

pub(crate) fn safetensors_files() -> Vec<Vec<u8>> {
    read_files("tests/data/files", "safetensors")
}

pub(crate) fn onnx_files() -> Vec<Vec<u8>> {
    read_files("examples/onnx", "onnx")
}

pub(crate) fn ktir_texts() -> Vec<Vec<u8>> {
    read_files("crates/ktir/tests/kernels", "mlir")
}

pub(crate) fn graph_texts() -> Vec<Vec<u8>> {
    read_files("examples", "graph")
}

pub(crate) fn graph_json() -> Vec<Vec<u8>> {
    let json = |text: &[u8]| {
        let text = std::str::from_utf8(text).expect("an example is text");
        zellige_graph::json::print_graph(&zellige_graph::text::parse(text).expect("an example"))
    };
    let mut all: Vec<Vec<u8>> = graph_texts().iter().map(|t| json(t).into_bytes()).collect();
    // Names that are keywords of the text form.
    let names = r#"{"name":"split","symbols":[{"name":"in","min":1,"max":8,"step":4}],"inputs":[{"name":"step","dtype":"float16","size":["in",64],"role":"weight"}],"ops":[{"op":"relu","inputs":["step"],"outputs":["at"],"at":"a.py:1"},{"op":"relu","inputs":["at"],"outputs":["pin"],"pin":{"stick":1}}],"outputs":["pin"]}"#;
    all.push(names.into());
    all
}

/// The requests of the documentation: every second line is an answer.
pub(crate) fn ask_lines() -> Vec<Vec<u8>> {
    let path = repository_root().join("crates/ask/tests/examples.jsonl");
    let text = std::fs::read_to_string(path).expect("a file of the repository");
    text.lines().filter(|l| l.starts_with("{\"op\"")).map(|l| l.as_bytes().to_vec()).collect()
}

pub(crate) fn layout_texts() -> Vec<Vec<u8>> {
    let mut texts: Vec<String> = preset::all_presets().into_iter().map(|p| p.text).collect();
    texts.extend(
        [
            "S[(8,2,4,2):(4@laneid,1@warpid,1@laneid,1)] + R[2:4@warpid] + 5@warpid",
            "Swizzle(3,3,3) o S[(8,60):(64,1)] valid[5/8,0..50/60]",
            "S[(2,3,5):(-15,0,1)] + R[(2,2):(30,60)] + 30",
            "size=[4, 6] stride=[6, 1] offset=2",
            "size=[5, 1, 7] stride=[0, 3, -1] offset=9",
            "SpyreTensorLayout(device_size=[3, 5, 64], stride_map =[64, 150, 1], device_dtype=DataFormats.SEN169_FP16, host_size=[5, 150])",
            "SpyreTensorLayout(device_size=[2, 5, 64], stride_map =[-1, 1, -1], device_dtype=DataFormats.SEN169_FP16, host_size=[5])",
        ]
        .map(String::from),
    );
    // The example of every notation, and recorded texts of other implementations.
    texts.extend(Notation::all_notations().map(|n| n.example_text().to_string()));
    texts.extend(recorded_texts());
    let axes = zellige_layout::AxisTable::new();
    let layout = tirx::parse("Swizzle(3,3,3) o S[(8,64):(64,1)] + R[2:512] valid[7/8,64]", &axes);
    texts.push(json::layout_to_json(&layout.expect("a layout")).to_string());
    texts.into_iter().map(String::into_bytes).collect()
}

/// Some of the texts in the recorded answers of other implementations.
fn recorded_texts() -> Vec<String> {
    let mut texts = Vec::new();
    for (file, field) in [
        ("cute_texts", "text"),
        ("triton_attrs", "text"),
        ("triton_attr_parse", "text"),
        ("xla", "text"),
        ("onednn", "tag"),
        ("mlir_pack", "op"),
        ("jax_sharding", "hlo_sharding"),
        ("tirx", "text"),
    ] {
        let path = repository_root().join(format!("tests/data/{file}.json"));
        let data = std::fs::read_to_string(path).expect("a file of the repository");
        let data: serde_json::Value = serde_json::from_str(&data).expect("JSON");
        let list = data.as_array().or_else(|| data["cases"].as_array());
        let list = list.or_else(|| data["records"].as_array()).expect("a list");
        let some = list.iter().step_by(1 + list.len() / 12).filter_map(|c| c[field].as_str());
        texts.extend(some.map(String::from));
    }
    texts
}

/// Layouts to be converted; the first two bytes select the notation and the shape.
pub(crate) fn conversion_inputs() -> Vec<Vec<u8>> {
    let texts = layout_texts().into_iter().enumerate();
    let byte = |n: usize| u8::try_from(n % 251).unwrap_or(0);
    texts.map(|(i, text)| [vec![byte(i), byte(i / 3)], text].concat()).collect()
}

/// Bodies of entries; the first bytes determine the damage to the file.
pub(crate) fn cache_entries() -> Vec<Vec<u8>> {
    let mut all = vec![vec![0; 16], [vec![0; 8], b"12\nshort report{}".to_vec()].concat()];
    all.push([vec![1, 3, 0, 65, 2, 1, 9, 0, 1, 7], search_decisions(4)].concat());
    all
}

pub(crate) fn decision_texts() -> Vec<Vec<u8>> {
    vec![
        search_decisions(1),
        search_decisions(4),
        search_decisions(32),
        b"{\"steps\":[],\"kept\":[],\"optimal\":false}".to_vec(),
    ]
}

pub(crate) fn plan_texts() -> Vec<Vec<u8>> {
    let axes = zellige_layout::AxisTable::new();
    let layout = |text: &str| -> Layout { tirx::parse(text, &axes).expect("a layout") };
    let moves = [
        ("S[(8,12):(12,1)]", "S[(8,12):(1,8)]", vec![8, 12]),
        ("S[(5,7):(7,1)]", "S[(5,8):(8,1)] valid[5,7/8]", vec![5, 7]),
        ("S[(8,8):(8,1)]", "Swizzle(1,1,2) o S[(8,8):(8,1)]", vec![8, 8]),
        ("S[6:1]", "S[6:2] + R[2:12]", vec![6]),
    ];
    moves
        .iter()
        .map(|(from, to, shape)| {
            let plan = MovePlan::between(&layout(from), &layout(to), shape, PaddingFill::Padding);
            serde_json::to_vec(&plan.expect("a plan")).expect("a plan is JSON")
        })
        .collect()
}

/// Bytes without structure, from which a request is drawn.
pub(crate) fn dma_inputs() -> Vec<Vec<u8>> {
    let fill = |seed: u8| (0..96_u8).map(|i| i.wrapping_mul(37).wrapping_add(seed)).collect();
    (0..16).map(|i| fill(i * 16 + 3)).collect()
}
