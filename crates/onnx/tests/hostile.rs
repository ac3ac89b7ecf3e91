//! Truncated, changed and oversized files give an error or a graph, never a panic.

#![allow(clippy::cast_possible_truncation, reason = "a test fails by panicking")]

mod common;

use common::*;
use peak_alloc::PeakAlloc;
use std::collections::BTreeMap;
use zellige_onnx::OnnxModel;

#[global_allocator]
static PEAK: PeakAlloc = PeakAlloc;

fn example(name: &str) -> Vec<u8> {
    let path = format!("{}/../../examples/onnx/{name}.onnx", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(path).expect("an example")
}

/// Reads a file with every symbol bound to 3.
fn read(file: &[u8]) -> Result<usize, String> {
    let model = OnnxModel::read_model(file).map_err(|e| e.to_string())?;
    let bind: BTreeMap<String, i64> = model.input_symbols().into_iter().map(|s| (s, 3)).collect();
    model.import_graph(&bind).map(|i| i.graph.nodes().count()).map_err(|e| e.to_string())
}

/// A file with all kinds of fields.
fn small() -> Vec<u8> {
    let heads = [A::L("pads", vec![1, 1, 1, 1]), A::S("auto_pad", "NOTSET"), A::I("group", 1)];
    Net::new(17)
        .put(11, &value("x", F32, &[Dim::Symbol("n"), Dim::N(2), Dim::Open, Dim::N(8)]))
        .weight(&floats("w", &[3, 2, 3, 3], &[0.5; 54]))
        .weight(&ints("s", &[0, -1]))
        .node("Conv", &["x", "w"], &["c"], &heads)
        .node("Constant", &[], &["k"], &[A::T("value", scalar("", 2.0))])
        .node("Mul", &["c", "k"], &["m"], &[])
        .node("Reshape", &["m", "s"], &["y"], &[])
        .output("y")
        .file()
}

#[test]
fn a_file_that_ends_anywhere_is_an_error() {
    let file = small();
    assert_eq!(read(&file), Ok(2));
    for end in 0..file.len() {
        let told = read(&file[..end]).expect_err("a part is no model");
        assert!(!told.is_empty() && told.len() < 600, "{end}: {told}");
    }
    let file = example("mlp");
    for end in (0..file.len()).step_by(7) {
        read(&file[..end]).expect_err("a part is no model");
    }
}

#[test]
fn changed_bytes_give_a_graph_or_an_error() {
    let mut state = 7u64;
    let mut next = move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize
    };
    for (file, rounds) in
        [(small(), 40_000), (example("block-opset14"), 3_000), (example("mlp"), 1_500)]
    {
        let (mut accepted, mut refused) = (0, 0);
        for _ in 0..rounds {
            let mut changed = file.clone();
            for _ in 0..1 + next() % 3 {
                let at = next() % changed.len();
                changed[at] = match next() % 3 {
                    0 => next() as u8,
                    1 => changed[at] ^ (1 << (next() % 8)),
                    _ => 0xff,
                };
            }
            match read(&changed) {
                Ok(_) => accepted += 1,
                Err(told) => {
                    refused += 1;
                    assert!(told.len() < 2000, "{} bytes of message", told.len());
                }
            }
        }
        // Most bytes are elements and names; the others are found out.
        assert!(accepted > 0 && refused > 0, "{accepted} {refused}");
    }
}

#[test]
fn memory_follows_the_file_and_not_its_numbers() {
    let mut nets: Vec<Vec<u8>> = Vec::new();
    let shape = |op: &str, list: &[i64]| {
        let net = Net::new(17).weight(&ints("s", list)).weight(&scalar("one", 1.0));
        let net = match op {
            "Expand" => net.node(op, &["one", "s"], &["y"], &[]),
            _ => net.node(op, &["s"], &["y"], &[]),
        };
        net.output("y").file()
    };
    nets.push(shape("ConstantOfShape", &[1 << 20, 1 << 20]));
    nets.push(shape("ConstantOfShape", &[i64::MAX, i64::MAX, 8]));
    nets.push(shape("Expand", &[1 << 40]));
    let range = |end: f32| {
        let net = Net::new(17)
            .weight(&scalar("a", 0.0))
            .weight(&scalar("b", end))
            .weight(&scalar("c", 1e-3));
        net.node("Range", &["a", "b", "c"], &["y"], &[]).output("y").file()
    };
    nets.push(range(1e12));
    nets.push(range(f32::INFINITY));
    let split =
        Net::new(18).x(&[1 << 40]).node("Split", &["x"], &["y"], &[A::I("num_outputs", 1 << 40)]);
    nets.push(split.output("y").file());
    let tile = Net::new(18).weight(&ints("r", &[1 << 40])).weight(&ints("v", &[1, 2]));
    nets.push(tile.node("Tile", &["v", "r"], &["y"], &[]).output("y").file());
    // Extents whose products overflow, beside a 0 that hides them.
    let big = 1 << 61;
    let zero = Net::new(17).weight(&ints("e", &[])).weight(&ints("s", &[0, big, big]));
    let zero = zero.node("Reshape", &["e", "s"], &["r"], &[A::I("allowzero", 1)]);
    nets.push(zero.node("Transpose", &["r"], &["y"], &[]).output("y").file());
    let deep = Net::new(17).x(&[1, 0, big, 1]).node(
        "DepthToSpace",
        &["x"],
        &["y"],
        &[A::I("blocksize", 1 << 15)],
    );
    nets.push(deep.output("y").file());
    let conv = Net::new(17).x(&[1, 1, 4, 4]).input("w", F32, &[1, 1, big, 1]);
    let same = [A::S("auto_pad", "SAME_UPPER"), A::L("dilations", vec![i64::from(i32::MAX); 2])];
    nets.push(conv.node("Conv", &["x", "w"], &["y"], &same).output("y").file());
    for file in nets {
        PEAK.reset_peak_usage();
        let before = PEAK.current_usage();
        let _ = read(&file);
        let grown = PEAK.peak_usage().saturating_sub(before);
        assert!(grown < 1 << 20, "{grown} bytes for a file of {}", file.len());
    }
    // Known elements that many nodes double: a limit on all of them.
    let mut known = Net::new(17).weight(&ints("v0", &[1; 4096]));
    for k in 0..5000 {
        known = known.node("Add", &["v0", "v0"], &[&format!("v{}", k + 1)], &[]);
    }
    PEAK.reset_peak_usage();
    let before = PEAK.current_usage();
    let told = read(&known.output("v1").file()).expect_err("too much is known");
    assert!(told.contains("elements are computed from constants"), "{told}");
    let grown = PEAK.peak_usage().saturating_sub(before);
    assert!(grown < 256 << 20, "{grown} bytes of known elements");
    // Names that become the same one do not take longer and longer.
    let mut same = Net::new(17).x(&[1]);
    for k in 0..20_000u32 {
        let name: String = (0..15).map(|bit| if k >> bit & 1 == 0 { ':' } else { ';' }).collect();
        same = same.node("Relu", &["x"], &[&name], &[]);
    }
    assert!(read(&same.output(":::::::::::::::").file()).is_ok());
    // Many empty messages: some bytes for each, and a limit.
    let many: Vec<u8> = bytes(7, &[0x0a, 0x00].repeat(1 << 20));
    PEAK.reset_peak_usage();
    let before = PEAK.current_usage();
    let _ = read(&many);
    let grown = PEAK.peak_usage().saturating_sub(before);
    assert!(grown < 512 << 20, "{grown} bytes for a file of {}", many.len());
}
