//! Programs compiled with decisions that were made before.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::input;
use std::collections::BTreeMap;
use zellige_compile::{
    CompileDecisions, CompiledProgram, CompilerOptions, check_program, compile_again, compile_graph,
};
use zellige_device::Card;
use zellige_graph::Graph;
use zellige_run::{LoadedModel, run_graph_eagerly};

fn example(name: &str) -> Graph {
    let path = format!("{}/../../examples/{name}.graph", env!("CARGO_MANIFEST_DIR"));
    zellige_graph::text::parse(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// A layer of `n` tokens; nothing has its sticks along them.
const LAYER: &str = "graph layer[n in 1..200](
    x: float16[n, 256], w1: float16[256] @weight, q: float16[256, 256] @weight,
    k: float16[256, 256] @weight, v: float16[256, 256] @weight, up: float16[512, 256] @weight,
    down: float16[256, 512] @weight,
) {
    a = rms_norm(x, w1, normalized_shape=[256], eps=1e-05)
    ql = linear(a, q)
    kl = linear(a, k)
    vl = linear(a, v)
    qh = reshape(ql, size=[n, 4, 64])
    kh = reshape(kl, size=[n, 4, 64])
    vh = reshape(vl, size=[n, 4, 64])
    qt = transpose(qh, dim0=0, dim1=1)
    kt = transpose(kh, dim0=0, dim1=1)
    vt = transpose(vh, dim0=0, dim1=1)
    s = scaled_dot_product_attention(qt, kt, vt, is_causal=true)
    st = transpose(s, dim0=0, dim1=1)
    o = reshape(st, size=[n, 256])
    h = add(x, o)
    u = linear(h, up)
    g = gelu(u)
    d = linear(g, down)
    y = add(h, d)
    return y
}";

fn layer(n: i64) -> Graph {
    zellige_graph::text::parse_and_bind(LAYER, &BTreeMap::from([("n".to_string(), n)])).unwrap()
}

/// All that a program is, as text.
fn describe_decisions(program: &CompiledProgram) -> String {
    format!("{:?} {:?} {}", program.buffers, program.steps, program.divided_optimally)
}

#[test]
fn the_same_decisions_make_the_same_program() {
    let graphs =
        ["llama-block", "llama-block-decode", "swiglu", "softmax", "conv-net", "attention"];
    for name in graphs {
        let graph = example(name);
        for options in [CompilerOptions::default(), CompilerOptions::baseline()] {
            let first = compile_graph(&graph, &options).unwrap();
            let text = serde_json::to_string(&first.decisions).unwrap();
            let decisions: CompileDecisions = serde_json::from_str(&text).unwrap();
            let again = compile_again(&graph, &options, &decisions).unwrap();
            let (one, two) = (describe_decisions(&first), describe_decisions(&again));
            let at = one.bytes().zip(two.bytes()).position(|(a, b)| a != b);
            let place = at.map(|i| (&one[i.saturating_sub(60)..i + 60], &two[i..i + 60]));
            assert!(one == two, "{name}: another program at {place:?}");
            assert_eq!(again.decisions, first.decisions, "{name}");
        }
    }
}

#[test]
fn other_sizes_follow_the_decisions_of_one() {
    let options = CompilerOptions::default();
    let card = Card::builder().build().unwrap();
    let template = compile_graph(&layer(64), &options).unwrap();
    for n in [1, 5, 63, 65, 128, 200] {
        let graph = layer(n);
        let program = compile_again(&graph, &options, &template.decisions).unwrap();
        check_program(&program).unwrap();
        let searched = compile_graph(&graph, &options).unwrap();
        let (mine, best) = (program.latency().microseconds(), searched.latency().microseconds());
        assert!(mine <= 1.1 * best, "n = {n}: {mine} us, and {best} us after a search");
        let mut model =
            LoadedModel::load_program(program, &card, |w| Ok(input(&graph, w))).unwrap();
        let run = model.run_program(|i| Ok(input(&graph, i))).unwrap();
        let expected = run_graph_eagerly(&graph, &card, |i| Ok(input(&graph, i))).unwrap();
        let (a, b) = (run.outputs[0].bytes(), expected[0].bytes());
        let float = |b: &[u8]| -> Vec<f32> {
            b.chunks(2).map(|c| half(u16::from_le_bytes([c[0], c[1]]))).collect()
        };
        let far = float(a).iter().zip(float(b)).map(|(x, y)| (x - y).abs()).fold(0.0, f32::max);
        let size = float(b).iter().fold(1.0, |m: f32, x| m.max(x.abs()));
        assert!(far <= size * 4e-3, "n = {n}: off by {far} of {size}");
    }
}

/// The value of a finite float16.
fn half(bits: u16) -> f32 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f32::from(bits & 1023));
    assert!(exponent < 31, "{bits:#x} is not finite");
    match exponent {
        0 => sign * fraction * 2f32.powi(-24),
        e => sign * (1.0 + fraction / 1024.0) * 2f32.powi(e - 15),
    }
}

#[test]
fn decisions_that_do_not_fit_are_made_anew() {
    let (graph, options) = (example("llama-block"), CompilerOptions::default());
    let first = compile_graph(&graph, &options).unwrap();
    let other = compile_graph(&example("swiglu"), &options).unwrap();
    let text = serde_json::to_string(&first.decisions).unwrap();
    // Splits that no loop has, and splits for more cores than there are.
    let zeros = text.replace("\"splits\":[", "\"splits\":[0,");
    let many = text.replace("\"splits\":[1", "\"splits\":[4000000000");
    let none: CompileDecisions =
        serde_json::from_str(r#"{"steps":[],"kept":["x"],"optimal":true}"#).unwrap();
    let mut list = vec![other.decisions, none];
    // Recorded layouts of other sizes, of other operands, and of none.
    let sizes = text.replace("\"device_size\":[", "\"device_size\":[2,");
    let strides = text.replace("\"stride_map\":[", "\"stride_map\":[5,");
    let places = text.replace("\"stride_map\":[1,", "\"stride_map\":[2,");
    let copies = text.replace("[false,", "[true,");
    let formats = text.replace("SEN169_FP16", "IEEE_FP32");
    for changed in [&sizes, &strides, &copies, &formats] {
        assert_ne!(*changed, text);
    }
    list.extend(
        [zeros, many, sizes, strides, places, copies, formats]
            .iter()
            .map(|t| serde_json::from_str::<CompileDecisions>(t).unwrap()),
    );
    // Decisions of fewer cores hold for more, and the other way round they are fitted.
    let few = CompilerOptions { cores: 3, ..CompilerOptions::default() };
    list.push(compile_graph(&graph, &few).unwrap().decisions);
    for decisions in &list {
        for options in [&options, &few] {
            let program = compile_again(&graph, options, decisions).unwrap();
            check_program(&program).unwrap();
        }
    }
}

/// A record of a weight that no memory holds, as a damaged cache may have it.
#[test]
fn layouts_of_weights_that_have_no_room_are_made_anew() {
    let (graph, options) = (example("llama-block"), CompilerOptions::default());
    let first = compile_graph(&graph, &options).unwrap();
    let mut record = serde_json::to_value(&first.decisions).unwrap();
    let weights = record["layouts"]["weights"].as_array_mut().expect("weights were moved");
    assert!(!weights.is_empty());
    for weight in weights {
        let extent = weight[1][0].as_i64().unwrap();
        weight[1][0] = (extent * 1_000_000_000).into();
    }
    let damaged: CompileDecisions = serde_json::from_value(record).unwrap();
    let program = compile_again(&graph, &options, &damaged).unwrap();
    check_program(&program).unwrap();
    assert_eq!(program.latency(), first.latency());
}
