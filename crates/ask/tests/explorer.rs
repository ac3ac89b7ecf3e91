//! Links of the explorer: whatever a link holds, every request that the page makes of it is answered
//! soon, in an answer that a page can hold.
//!
//! The page is WebAssembly of 32 bits in one thread, so an answer that takes a gigabyte or a minute is
//! the end of it.

use peak_alloc::PeakAlloc;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};
use zellige_ask::{answer_line, paint_window};

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// Unoptimised builds are given more.
const SECONDS: u64 = if cfg!(debug_assertions) { 20 } else { 4 };
/// Bytes of an answer, and of the memory that it takes.
const ANSWER: usize = 16 << 20;
const MEMORY: usize = 1 << 30;

/// Layouts as a hostile link holds them: large, overlapping, replicated, padded, swizzled, on many axes.
const LAYOUTS: &[&str] = &[
    "S[(1000000000000,1000000):(1000000,1)]",
    "S[(2147483648,10,3):(32@pid,4,21474836480@TCol)] + R[(4503599627370497):(1@pid)]",
    "S[2:0] + R[1099511627776:1]",
    "Swizzle(6,1,2) o S[(65536,4,11):(1,-536870912@warpid,262144)] + 5@laneid",
    "Swizzle(2,4,21) o S[(32768,8796093022208,9):(7,128,9)]",
    "S[(1048576,1048576):(1048577,3)] valid[1..1048575/1048576,7..1000/1048576]",
    "S[9223372036854775807:1]",
    "S[(3037000499,3037000499):(1,3037000499)]",
    "size=[1000000000000, 3] stride=[-3, 1] offset=3000000000000",
    "size=[4096, 1000000000] stride=[1000000000, 1]",
    "SpyreTensorLayout(device_size=[15625000, 4096, 64], stride_map =[64, 1000000000, 1], device_dtype=DataFormats.SEN169_FP16, host_size=[4096, 1000000000])",
];

/// Accesses of the field for them; indices that do not exist, too.
fn accesses() -> Vec<Value> {
    let lanes: Vec<[i64; 2]> = (0..4096).map(|i| [i, i]).collect();
    vec![
        json!({"kind": "column", "index": 0}),
        json!({"kind": "row", "index": 9_007_199_254_740_991_i64}),
        json!({"kind": "ldmatrix", "row": 1_i64 << 40, "column": -1}),
        json!({"kind": "lanes", "coords": lanes}),
    ]
}

/// The requests of the page for one layout, as it writes them.
fn requests(layout: &str, other: &str) -> Vec<(&'static str, Value)> {
    let subject = json!({"layout": layout, "dtype": "float16"});
    let with = |fields: Value| -> Value {
        let mut all = subject.clone();
        let all_fields = all.as_object_mut().expect("an object");
        all_fields.extend(fields.as_object().expect("an object").clone());
        all
    };
    let mut list = vec![
        ("presets", json!({})),
        ("notations", json!({})),
        ("sheets", subject.clone()),
        ("sheets", with(json!({"color_by": "m"}))),
        ("sheets", with(json!({"shape": [1_i64 << 62, 1]}))),
        ("facts", json!({"layout": layout})),
        ("explain", subject.clone()),
        ("analyze", subject.clone()),
        ("draw", with(json!({"max_cells": 4096}))),
        ("conversions", with(json!({}))),
        ("conversions", with(json!({"to": "xla"}))),
        ("layouts", json!({"text": format!("{layout}\n{other}")})),
        ("convert", with(json!({"to": "cute"}))),
        ("coalesce", json!({"layout": layout, "as": "cute"})),
        ("complement", json!({"layout": layout, "cosize": i64::MAX, "as": "cute"})),
        ("right_inverse", json!({"layout": layout, "as": "cute"})),
        ("composition", json!({"a": layout, "b": other, "as": "cute"})),
        ("zipped_divide", json!({"a": layout, "b": "(1000003:7,3)", "notation": "cute"})),
        ("flat_divide", json!({"a": layout, "b": other, "as": "cute"})),
        ("logical_product", json!({"a": layout, "b": other, "as": "cute"})),
        ("raked_product", json!({"a": layout, "b": other, "as": "cute"})),
        ("convert", with(json!({"to": "torch"}))),
        ("convert", with(json!({"to": "spyre"}))),
        ("convert", with(json!({"to": "tirx"}))),
        ("find", with(json!({"place": {"m": 5}}))),
        ("find", with(json!({"place": {"laneid": -1, "m": i64::MAX}}))),
        ("index_code", json!({"layout": layout, "language": "cuda"})),
        ("index_code", json!({"layout": layout, "language": "python", "shape": [1_i64 << 62, 1]})),
        ("sheets", with(json!({"color_layout": other}))),
        (
            "cells",
            with(
                json!({"color_layout": other, "side": "physical", "rows": [0, 64], "cols": [0, 64]}),
            ),
        ),
        ("differences", json!({"a": layout, "b": other, "count": 512})),
        ("differences", json!({"a": layout, "b": other, "count": i64::MAX})),
    ];
    for mode in ["32B", "128B"] {
        list.push(("swizzle", with(json!({"mode": mode}))));
    }
    for access in accesses() {
        for vector in [1_i64, 1 << 40] {
            list.push(("conflicts", with(json!({"access": access, "vector": vector}))));
            list.push(("lanes", with(json!({"access": access, "vector": vector}))));
            list.push(("analyze", with(json!({"access": access, "vector": vector}))));
        }
        list.push(("swizzle_for", with(json!({"accesses": [access, access, access]}))));
    }
    for side in ["logical", "physical", "host"] {
        for (rows, cols) in [
            ([0, 64], [0, 64]),
            ([0, 1_i64 << 40], [0, 1]),
            ([1_i64 << 60, (1_i64 << 60) + 64], [0, 64]),
        ] {
            list.push(("cells", with(json!({"side": side, "box": 0, "rows": rows, "cols": cols}))));
        }
        for (row, col) in [(0, 0), (1_i64 << 53, 5), (-1, -1)] {
            list.push(("inspect", with(json!({"side": side, "box": 7, "row": row, "col": col}))));
        }
    }
    for coord in [json!([0]), json!([5, 19]), json!([i64::MAX, i64::MAX, 1])] {
        list.push(("inspect", with(json!({"coord": coord}))));
    }
    let pair = json!({"src": layout, "dst": other, "dtype": "float16", "fill": "zero"});
    list.push(("move", pair.clone()));
    for (first, count) in [(0, 512), (i64::MAX, 512), (0, i64::MAX)] {
        let mut window = pair.clone();
        window["first"] = json!(first);
        window["count"] = json!(count);
        list.push(("copies", window));
    }
    for (shape, mesh, from, to) in [
        (json!([1_i64 << 40, 1_i64 << 20]), "dp=64, tp=1024", "P('tp', None)", "P(None, 'tp')"),
        (json!([1_i64 << 40]), "tp=1000000007", "flat", "whole"),
        (json!([1_i64 << 62, 4]), "a=2, b=3, c=5, d=7, e=11, f=13", "P(('a', 'c'))", "P('f', 'e')"),
        (
            json!([97, 101, 103]),
            "a=4, b=4, c=4",
            "P('a', 'b', 'c')",
            "(Shard(2), Shard(0), Shard(1))",
        ),
        (json!([4096, 4096]), "tp=4", layout, other),
    ] {
        list.push((
            "reshard",
            json!({"shape": shape, "dtype": "float16", "mesh": mesh, "from": from, "to": to}),
        ));
    }
    list.push((
        "dma",
        json!({"size": [4096, 1_000_000_000], "stride": [1_000_000_000, 1], "offset": 0,
            "tensor_stride": [1_000_000_000, 1], "dtype": "float16",
            "device_size": [15_625_000, 4096, 64], "stride_map": [64, 1_000_000_000, 1], "direction": "h2d"}),
    ));
    list
}

/// Answers a request, within bounds.
fn bounded(op: &str, fields: &Value, f: impl FnOnce(&str) -> usize) {
    let mut request = fields.clone();
    request["op"] = json!(op);
    let line = request.to_string();
    let shown: String = line.chars().take(300).collect();
    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    let begun = Instant::now();
    let size = f(&line);
    let (took, peak) = (begun.elapsed(), ALLOCATOR.peak_usage().saturating_sub(before));
    assert!(took < Duration::from_secs(SECONDS), "{took:?} for {shown}");
    assert!(size <= ANSWER, "an answer of {size} bytes for {shown}");
    assert!(peak <= MEMORY, "{peak} bytes of memory for {shown}");
}

/// A module of many megabytes is surveyed in time that grows with its length.
#[test]
fn long_modules_are_answered() {
    let attribute = "#ttg.blocked<{sizePerThread = [4], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>";
    let mut text = String::new();
    for i in 0..2000 {
        text += &format!("#b{i} = {attribute}\n");
    }
    for i in 0..20_000 {
        text +=
            &format!("%{i} = foo : tensor<{i}xf32, #b{}> -> tensor<{i}xf16, #none{i}>\n", i % 2000);
    }
    for text in [text.as_str(), &"tensor<".repeat(100_000), &"#a = #".repeat(100_000)] {
        bounded("layouts", &json!({"text": text}), |line| answer_line(line).len());
    }
}

#[test]
fn hostile_links_are_answered() {
    let (mut slowest, mut largest, mut count) = ((Duration::ZERO, String::new()), 0, 0);
    for (i, layout) in LAYOUTS.iter().enumerate() {
        let other = LAYOUTS[(i + 1) % LAYOUTS.len()];
        for (op, fields) in requests(layout, other) {
            let begun = Instant::now();
            bounded(op, &fields, |line| {
                let reply = answer_line(line);
                largest = largest.max(reply.len());
                let reply: Value = serde_json::from_str(&reply).expect("an answer is JSON");
                assert!(reply.get("ok").is_some() != reply.get("error").is_some());
                assert_ne!(reply["error"]["kind"], "internal", "{reply}");
                reply.to_string().len()
            });
            if op == "cells" {
                bounded(op, &fields, |line| paint_window(line).map_or(0, |bytes| bytes.len()));
            }
            if begun.elapsed() > slowest.0 {
                slowest = (begun.elapsed(), format!("{op} of {layout}"));
            }
            count += 1;
        }
    }
    println!("{count} requests, largest answer {largest} bytes, slowest {slowest:?}");
}

/// Every request that the page makes by name is one of the above.
#[test]
fn every_request_of_the_page_is_tried() {
    fn read(folder: &Path, all: &mut String) {
        for entry in std::fs::read_dir(folder).expect("the sources of the page") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                read(&path, all);
            } else if path.extension().is_some_and(|e| e == "ts") {
                *all += &std::fs::read_to_string(path).expect("a source");
            }
        }
    }
    let mut source = String::new();
    read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../explorer/src"), &mut source);
    let mut asked: BTreeSet<&str> = BTreeSet::new();
    for part in source.split("sk<").skip(1) {
        // `ask<OpAnswer>("name", ..)`.
        let Some((_, rest)) = part.split_once(">(\"") else { continue };
        let name = rest.split('"').next().unwrap_or_default();
        if !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_') {
            asked.insert(name);
        }
    }
    let mut tried: BTreeSet<&str> =
        requests(LAYOUTS[0], LAYOUTS[1]).into_iter().map(|(op, _)| op).collect();
    // Graphs have budgets of their own, and tests of their own.
    tried.insert("compile");
    let missing: Vec<&&str> = asked.difference(&tried).collect();
    assert!(asked.len() > 12 && missing.is_empty(), "the page asks {missing:?}, of {asked:?}");
}
