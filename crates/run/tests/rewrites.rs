//! Passes that change graphs, against the graphs they began with.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(dead_code, reason = "other tests use the rest of what they share")]

mod common;
#[path = "common/random.rs"]
mod random;
#[path = "common/read.rs"]
mod read;

use common::values;
use random::Rng;
use serde_json::{Map, Value, json};
use zellige_compile::{decompose_graph, fold_graph};
use zellige_device::{Card, StoragePolicy};
use zellige_float::Dtype;
use zellige_graph::{Graph, GraphBuilder, GraphOperand, InputRole, TensorId};
use zellige_op::TensorOp;
use zellige_op::UpstreamLayer;
use zellige_run::{HostArray, run_graph_eagerly};
use zellige_stick::LayoutRequest;

fn card() -> Card {
    Card::builder().build().unwrap()
}

fn run(graph: &Graph, card: &Card) -> Vec<HostArray> {
    run_graph_eagerly(graph, card, |n| Ok(values(graph.tensor(n).unwrap(), 1))).unwrap()
}

/// A graph of one operation on inputs of these sizes.
fn single(op: &str, inputs: &[(Vec<i64>, Dtype)], attributes: &Value) -> Graph {
    let mut b = GraphBuilder::new("single");
    let ids: Vec<GraphOperand> = inputs
        .iter()
        .enumerate()
        .map(|(k, (size, dtype))| {
            GraphOperand::Tensor(
                b.add_input(&format!("x{k}"), size, *dtype, InputRole::Input).unwrap(),
            )
        })
        .collect();
    let map = if let Value::Object(map) = attributes { map.clone() } else { Map::new() };
    let names: &[&str] = if matches!(op, "max" | "min") { &["y", "z"] } else { &["y"] };
    let made = b.add_op(op, &ids, &map, names).unwrap();
    b.finish_graph(&made).unwrap()
}

/// An operation, its operands and its attributes.
type Case = (&'static str, Vec<(Vec<i64>, Dtype)>, Value);

/// Every composite operation of the table with random sizes: what is decomposed gives the same, within
/// some roundings to 10 bits of numbers around 1.
#[test]
fn parts_compute_what_the_whole_does() {
    let card = card();
    let f = Dtype::Float16;
    let mut taken: Vec<&str> = Vec::new();
    for round in 0..25u64 {
        let mut rng = Rng::new(round);
        let mut n = || [1i64, 2, 3, 5, 7, 31, 64, 65, 67, 130][rng.below(10)];
        let (a, b, k) = (n(), n(), n());
        let heads = [1i64, 2, 4][usize::try_from(round % 3).unwrap()];
        let mask = if round % 2 == 0 { Dtype::Bool } else { f };
        let square = vec![(vec![a, b], f); 3];
        let attention = |mask: Option<(Vec<i64>, Dtype)>, shared: i64| {
            let mut list = vec![
                (vec![2, 4, a.min(40), k], f),
                (vec![2, shared, b, k], f),
                (vec![2, shared, b, k.min(9)], f),
            ];
            list.extend(mask);
            list
        };
        let rows = a.min(40);
        let sdpa = "scaled_dot_product_attention";
        let mut cases: Vec<Case> = vec![
            ("linear", vec![(vec![2, a, k], f), (vec![b, k], f), (vec![b], f)], Value::Null),
            ("linear", vec![(vec![a, k], f), (vec![b, k], f)], Value::Null),
            (
                "addmm",
                vec![(vec![b], f), (vec![a, k], f), (vec![k, b], f)],
                json!({"alpha": 0.5, "beta": round % 3}),
            ),
            (
                "baddbmm",
                vec![(vec![2, 1, b], f), (vec![2, a, k], f), (vec![2, k, b], f)],
                json!({"beta": 0.25}),
            ),
            ("mv", vec![(vec![a, k], f), (vec![k], f)], Value::Null),
            ("dot", vec![(vec![k], f), (vec![k], f)], Value::Null),
            ("vecdot", vec![(vec![a, k], f), (vec![a, k], f)], Value::Null),
            ("outer", vec![(vec![a], f), (vec![b], f)], Value::Null),
            (sdpa, attention(None, 4), Value::Null),
            (sdpa, attention(None, 4), json!({"is_causal": true, "scale": 0.25})),
            (sdpa, attention(Some((vec![rows, b], mask)), 4), Value::Null),
            (
                sdpa,
                attention(Some((vec![2, 1, rows, b], mask)), heads),
                json!({"enable_gqa": true}),
            ),
            (
                sdpa,
                attention(Some((vec![2, 4, rows, b], mask)), heads),
                json!({"enable_gqa": true}),
            ),
            (sdpa, attention(None, heads), json!({"enable_gqa": true, "is_causal": true})),
            ("softmax", vec![(vec![a, 3, b], f)], json!({"dim": round % 3})),
            ("log_softmax", vec![(vec![a, b], f)], json!({"dim": -1})),
            ("max", vec![(vec![a, b], f)], json!({"dim": 1})),
            ("min", vec![(vec![a, b], f)], json!({"dim": 0, "keepdim": true})),
            ("stack", square.clone(), json!({"dim": round % 3})),
            ("repeat", vec![(vec![a, b], f)], json!({"repeats": [2, 1, 3]})),
            ("repeat_interleave", vec![(vec![a, b], f)], json!({"repeats": 3, "dim": 1})),
            ("repeat_interleave", vec![(vec![a, b], f)], json!({"repeats": 2})),
            ("masked_fill", vec![(vec![a, b], f), (vec![b], Dtype::Bool)], json!({"value": -0.3})),
            ("threshold", vec![(vec![a, b], f)], json!({"threshold": 0.25, "value": 3})),
            ("threshold", vec![(vec![a, b], f)], json!({"threshold": 0.1, "value": 3})),
            ("hardtanh", vec![(vec![a, b], f)], json!({"min_val": -0.5})),
            ("bitwise_not", vec![(vec![a, b], Dtype::Int32)], Value::Null),
            ("bitwise_not", vec![(vec![a, b], Dtype::Bool)], Value::Null),
            ("logical_not", vec![(vec![a, b], Dtype::Int64)], Value::Null),
            ("sign", vec![(vec![a, b], Dtype::Int32)], Value::Null),
        ];
        let known: Vec<&str> = cases.iter().map(|c| c.0).collect();
        let composite = TensorOp::all_rows().filter(|e| e.layer == UpstreamLayer::Decomposed);
        for entry in composite.filter(|e| !known.contains(&e.name) && !e.operands.is_empty()) {
            if matches!(entry.name, "conv1d" | "conv2d" | "diag") {
                continue;
            }
            let count = entry.operands.len();
            cases.push((entry.name, square[..count].to_vec(), Value::Null));
        }
        for (op, inputs, attributes) in cases {
            let whole = single(op, &inputs, &attributes);
            let parts = decompose_graph(&whole, StoragePolicy::default()).unwrap();
            for t in &parts.taken {
                assert!(parts.graph.nodes().all(|(_, n)| n.op.layer()
                    != UpstreamLayer::Decomposed
                    || {
                        // A mask begins as a tensor of ones.
                        n.op.name() == "ones"
                    }));
                taken.push(t.op);
            }
            assert_eq!(parts.taken.len() + parts.whole.len(), 1, "{op}");
            let (a, b) = (run(&whole, &card), run(&parts.graph, &card));
            for (a, b) in a.iter().zip(&b) {
                // Sums of many products of numbers up to 1.
                let tolerance = if inputs[0].0.len() > 1 { 0.02 } else { 0.01 };
                if let Some(why) = read::differ(a, b, tolerance) {
                    panic!("{op} of {inputs:?} with {attributes}: {why}");
                }
            }
        }
    }
    taken.sort_unstable();
    taken.dedup();
    assert!(taken.len() >= 38, "only {} are decomposed: {taken:?}", taken.len());
}

/// Names, pins and places in the source stay; what stays whole says why.
#[test]
fn a_result_keeps_what_was_asked_of_it() {
    let text = "graph g(x: float16[4, 64, 128], w: float16[64, 128], c: float16[64, 64]) {
        y = linear(x, w) pin stick 1 at \"model.py:7\"
        m, at = max(y, dim=1)
        e = elu(m)
        h = linear(c, c) split {c0: 4}
        k, v = min(h, dim=0) pin stick 0
        return e, at, h, k
    }";
    let graph = zellige_graph::text::parse(text).unwrap();
    let done = decompose_graph(&graph, StoragePolicy::default()).unwrap();
    let reasons: Vec<(&str, &str)> =
        done.whole.iter().map(|w| (w.result.as_str(), w.reason.as_str())).collect();
    assert_eq!(
        reasons,
        [
            ("e", "rounded arguments or differences would lose digits"),
            ("h", "its division is given, and its parts have other loops"),
        ]
    );
    assert_eq!(done.taken[0].parts, ["transpose", "matmul"]);
    assert_eq!(done.taken[1].parts, ["topk", "reshape", "reshape"]);
    let y = done.graph.tensor_id("y").unwrap();
    assert_eq!(done.graph.get(y).pin, Some(LayoutRequest::Stick(1)));
    assert_eq!(
        done.graph.get(done.graph.tensor_id("k").unwrap()).pin,
        Some(LayoutRequest::Stick(0))
    );
    let (_, matmul) = done.graph.nodes().next().unwrap();
    assert_eq!((matmul.op.name(), matmul.at.as_deref()), ("matmul", Some("model.py:7")));
    let outputs: Vec<&str> =
        done.graph.outputs().iter().map(|o| done.graph.get(*o).name.as_str()).collect();
    assert_eq!(outputs, ["e", "at", "h", "k"]);
    // A row of which no key is left gives zeros, whole and in parts.
    let text = "graph g(q: float16[2, 3, 8], k: float16[2, 5, 8], x: float16[3, 5]) {
        none = gt(x, 100)
        y = scaled_dot_product_attention(q, k, k, none)
        return y
    }";
    let graph = zellige_graph::text::parse(text).unwrap();
    let done = decompose_graph(&graph, StoragePolicy::default()).unwrap();
    let card = card();
    assert_eq!(read::numbers(&run(&graph, &card)[0]), vec![0.0; 48]);
    assert_eq!(read::numbers(&run(&done.graph, &card)[0]), vec![0.0; 48]);
}

#[test]
fn folding_keeps_the_bits_and_is_done_once() {
    let card = card();
    let (mut before, mut after) = (0, 0);
    for seed in 0..150 {
        let graph = random::graph(seed, 14);
        let folded = fold_graph(&graph).unwrap();
        assert_eq!(
            fold_graph(&folded).unwrap(),
            folded,
            "{}",
            zellige_graph::text::print_graph(&graph)
        );
        let text = zellige_graph::text::print_graph(&folded);
        assert_eq!(zellige_graph::text::parse(&text).unwrap(), folded, "{text}");
        before += graph.nodes().count();
        after += folded.nodes().count();
        for (a, b) in run(&graph, &card).iter().zip(&run(&folded, &card)) {
            assert!(a == b, "seed {seed}: {:?}", read::differ(a, b, 0.0));
        }
        // Parts of parts: decomposed graphs fold, too.
        let parts = decompose_graph(&folded, StoragePolicy::default()).unwrap();
        let once = fold_graph(&parts.graph).unwrap();
        assert_eq!(fold_graph(&once).unwrap(), once);
        assert!(
            decompose_graph(&once, StoragePolicy::default()).unwrap().taken.is_empty(),
            "seed {seed}"
        );
    }
    assert!(after < before, "{before} operations and {after} after folding");
}

#[test]
fn what_folds_and_what_stays() {
    let text = "graph g(x: float16[4, 64], n: int64[4]) {
        dead = exp(x)
        a = relu(x)
        b = relu(x)
        c = clone(b)
        turned = t(c)
        back = t(turned)
        d = cast(back, dtype=float16)
        e = add(a, d)
        u1 = uniform(size=[4, 64], seed=3, dtype=float16)
        u2 = uniform(seed=3, dtype=float16, size=[4, 64])
        u3 = uniform(size=[4, 64], seed=4, dtype=float16)
        f = add(u1, u2)
        g = add(f, u3)
        h = clone(e)
        p = clone(e) pin stick 0
        q = add(p, g)
        r = clone(q)
        s = t(r)
        flat = reshape(s, size=[-1])
        kept = clone(e)
        seen = t(kept)
        return h, q, flat, seen
    }";
    let graph = zellige_graph::text::parse(text).unwrap();
    let folded = zellige_graph::text::print_graph(&fold_graph(&graph).unwrap());
    let expected = "graph g(
    x: float16[4, 64],
    n: int64[4],
) {
    a = relu(x)
    e = add(a, a)
    u1 = uniform(size=[4,64], seed=3, dtype=\"float16\")
    u3 = uniform(size=[4,64], seed=4, dtype=\"float16\")
    f = add(u1, u1)
    g = add(f, u3)
    h = clone(e)
    p = clone(e) pin stick 0
    q = add(p, g)
    s = t(q)
    flat.copy = clone(s)
    flat = reshape(flat.copy, size=[-1])
    kept = clone(e)
    seen = t(kept)
    return h, q, flat, seen
}
";
    assert_eq!(folded, expected);
}

#[test]
fn numbers_fold_where_they_are_exact() {
    let mut b = GraphBuilder::new("numbers");
    let x = b.add_input("x", &[3], Dtype::Float16, InputRole::Input).unwrap();
    let two = b.add_constant(2.0, Dtype::Float16).unwrap();
    let tenth = b.add_constant(0.1, Dtype::Float16).unwrap();
    let none = Map::new();
    let mut op = |name: &str, op: &str, list: &[TensorId]| {
        let list: Vec<GraphOperand> = list.iter().map(|t| GraphOperand::Tensor(*t)).collect();
        b.add_op(op, &list, &none, &[name]).unwrap()[0]
    };
    let four = op("four", "mul", &[two, two]);
    let minus = op("minus", "neg", &[four]);
    let rough = op("rough", "mul", &[tenth, two]);
    let y = op("y", "add", &[x, minus]);
    let z = op("z", "add", &[y, rough]);
    let folded = fold_graph(&b.finish_graph(&[z]).unwrap()).unwrap();
    let ops: Vec<&str> = folded.nodes().map(|(_, n)| n.op.name()).collect();
    assert_eq!(ops, ["mul", "add", "add"], "the product with 0.1 is left to the card");
    let constants: Vec<f64> = folded
        .tensors()
        .filter_map(|(_, t)| match t.def {
            zellige_graph::TensorOrigin::Constant(value) => Some(value.to_f64()),
            _ => None,
        })
        .collect();
    assert_eq!(constants, [0.1, 2.0, -4.0]);
}
