//! The shipped models compute the numbers that PyTorch computed.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::path::PathBuf;
use zellige_compile::{CompilerOptions, compile_graph};
use zellige_device::Card;
use zellige_files::HostTensor;
use zellige_onnx::ModelFile;
use zellige_run::{HostArray, LoadedModel};

fn path(file: &str) -> PathBuf {
    PathBuf::from(format!("{}/../../examples/onnx/{file}", env!("CARGO_MANIFEST_DIR")))
}

fn host(file: &str) -> HostArray {
    let tensor = HostTensor::open(path(file), None).unwrap();
    let view = tensor.strided_layout().unwrap();
    HostArray::new(tensor.read_bytes().unwrap(), view, tensor.info().dtype())
}

/// Compiles and runs a model; returns the largest difference to PyTorch's results, and their
/// largest number.
fn difference(name: &str, bind: &[(&str, i64)], keep_fp32: bool) -> (f32, f32) {
    let file = ModelFile::open(&path(&format!("{name}.onnx"))).unwrap();
    let bind: BTreeMap<String, i64> = bind.iter().map(|(n, v)| (n.to_string(), *v)).collect();
    let imported = file.import_graph(&bind).unwrap();
    // Law: what an import makes is written and read again.
    let text = zellige_graph::text::print_graph(&imported.graph);
    assert!(zellige_graph::text::parse(&text).unwrap() == imported.graph, "{name}: text");
    let json = zellige_graph::json::print_graph(&imported.graph);
    assert!(zellige_graph::json::parse(&json).unwrap() == imported.graph, "{name}: JSON");
    let mut options = CompilerOptions::default();
    options.storage.keep.float32 = keep_fp32;
    let program = compile_graph(&imported.graph, &options).unwrap();
    zellige_compile::check_program(&program).unwrap();
    let card = Card::builder().keep_dtypes(options.storage.keep).build().unwrap();
    let weight = |name: &str| {
        let w = imported.weights.iter().find(|w| w.name == name).expect("a weight");
        HostArray::from_contiguous(file.weight_bytes(w).unwrap().into_owned(), &w.size, w.dtype)
    };
    let mut model = LoadedModel::load_program(program, &card, weight).unwrap();
    let run = model.run_program(|_| Ok(host(&format!("{name}.x.npy")))).unwrap();
    let (got, want) = (&run.outputs[0], host(&format!("{name}.y.npy")));
    assert_eq!(got.size(), want.size());
    let (got, want) = (got.to_f32().unwrap(), want.to_f32().unwrap());
    let largest = |list: &mut dyn Iterator<Item = f32>| list.fold(0.0, f32::max);
    (
        largest(&mut got.iter().zip(&want).map(|(a, b)| (a - b).abs())),
        largest(&mut want.iter().map(|v| v.abs())),
    )
}

#[test]
fn models_of_pytorch() {
    let sizes = [("batch", 2), ("tokens", 8)];
    for (name, bind) in [
        ("mlp", &[("batch", 4)][..]),
        ("conv-net", &[]),
        ("block", &sizes),
        ("block-opset14", &sizes),
    ] {
        let (off, most) = difference(name, bind, true);
        assert!(off <= 1e-6 * most, "{name} in float32: {off} of {most}");
        // The card's 16 bits round to 2^-10, once in each of a few dozen operations.
        let (off, most) = difference(name, bind, false);
        assert!(off <= most / 512.0, "{name} in 16 bits: {off} of {most}");
    }
}

#[test]
fn other_sizes_of_the_same_file() {
    let file = ModelFile::open(&path("block.onnx")).unwrap();
    for (batch, tokens) in [(1, 1), (3, 65)] {
        let bind = BTreeMap::from([("batch".to_string(), batch), ("tokens".to_string(), tokens)]);
        let graph = file.import_graph(&bind).unwrap().graph;
        assert_eq!(graph.get(graph.outputs()[0]).size, [batch, tokens, 32]);
    }
}
