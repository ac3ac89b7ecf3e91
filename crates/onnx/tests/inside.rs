//! Branches, loops, functions, bound inputs, packed weights and older opsets: models compute the
//! numbers of their definitions.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a test fails by panicking"
)]

mod common;

use common::*;
use std::collections::BTreeMap;
use zellige_device::{Card, KeptDtypes};
use zellige_float::Dtype;
use zellige_onnx::{ImportedModel, InputConstant, OnnxModel, WeightData};
use zellige_run::{HostArray, run_graph_eagerly};

fn f32s(list: &[f32]) -> Vec<u8> {
    list.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn i64s(list: &[i64]) -> Vec<u8> {
    list.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn constant(size: &[i64], dtype: Dtype, bytes: Vec<u8>) -> InputConstant {
    InputConstant { size: size.to_vec(), dtype, bytes }
}

/// The first output of a model, as float32, for an input `x`.
fn ran(file: &[u8], imported: &ImportedModel, x: &HostArray) -> Vec<f32> {
    let card = Card::builder().keep_dtypes(KeptDtypes::ALL).build().unwrap();
    let made = run_graph_eagerly(&imported.graph, &card, |name| {
        let Some(w) = imported.weights.iter().find(|w| w.name == name) else {
            return Ok(x.clone());
        };
        let bytes = match &w.data {
            WeightData::Inside(range) => file[range.clone()].to_vec(),
            WeightData::Owned(bytes) => bytes.clone(),
            WeightData::External { .. } => panic!("nothing is outside"),
        };
        HostArray::from_contiguous(
            w.carried_elements(bytes.into()).unwrap().into_owned(),
            &w.size,
            w.dtype,
        )
    });
    made.unwrap()[0].to_f32().unwrap()
}

fn run(net: &Net, x: &[f32]) -> Vec<f32> {
    let file = net.file();
    let imported = OnnxModel::read_model(&file).unwrap().import_graph(&BTreeMap::new());
    let imported = imported.unwrap_or_else(|e| panic!("{e}"));
    ran(&file, &imported, &HostArray::from_f32(&[x.len() as i64], x))
}

fn truth(name: &str, value: bool) -> Vec<u8> {
    raw(name, BOOL, &[], &[u8::from(value)])
}

#[test]
fn a_branch_with_a_known_condition_is_the_one_that_is_taken() {
    let branch =
        |op: &str, name: &str| Net::new(17).node(op, &["x", "x"], &[name], &[]).output(name).body();
    let net = |value: bool| {
        let bodies = [
            A::Body("then_branch", branch("Add", "a")),
            A::Body("else_branch", branch("Mul", "b")),
        ];
        Net::new(17)
            .x(&[3])
            .weight(&truth("c", value))
            .node("If", &["c"], &["y"], &bodies)
            .output("y")
    };
    assert_eq!(run(&net(true), &[1.0, 2.0, 5.0]), [2.0, 4.0, 10.0]);
    assert_eq!(run(&net(false), &[1.0, 2.0, 5.0]), [1.0, 4.0, 25.0]);
    // A condition that is computed decides nothing before a run.
    let open = Net::new(17)
        .x(&[])
        .node("IsNaN", &["x"], &["c"], &[])
        .node(
            "If",
            &["c"],
            &["y"],
            &[
                A::Body("then_branch", branch("Add", "a")),
                A::Body("else_branch", branch("Mul", "b")),
            ],
        )
        .output("y")
        .refusal();
    assert!(
        open.starts_with(
            "node 1 (If), operand 0 `c`: the condition: computed from the input `x`; "
        ),
        "{open}"
    );
}

/// A loop that doubles `v`, stacks the sums with `x` of all iterations, and continues while the
/// iteration number is below `stop`.
fn doubling(stop: i64) -> Vec<u8> {
    Net::new(17)
        .put(11, &value("i", I64, &[]))
        .put(11, &value("going", BOOL, &[]))
        .put(11, &value("v", F32, &[Dim::N(2)]))
        .weight(&raw("stop", I64, &[], &stop.to_le_bytes()))
        .node("Add", &["v", "v"], &["twice"], &[])
        .node("Add", &["twice", "x"], &["row"], &[])
        .node("Less", &["i", "stop"], &["more"], &[])
        .output("more")
        .output("twice")
        .output("row")
        .body()
}

#[test]
fn a_loop_with_a_known_number_of_turns_is_written_out() {
    let net = |most: i64, stop: i64, result: &str| {
        Net::new(17)
            .x(&[2])
            .weight(&raw("most", I64, &[], &most.to_le_bytes()))
            .weight(&truth("go", true))
            .node(
                "Loop",
                &["most", "go", "x"],
                &["last", "rows"],
                &[A::Body("body", doubling(stop))],
            )
            .output(result)
    };
    assert_eq!(run(&net(3, 9, "last"), &[1.0, -2.0]), [8.0, -16.0]);
    assert_eq!(run(&net(3, 9, "rows"), &[1.0, -2.0]), [3.0, -6.0, 5.0, -10.0, 9.0, -18.0]);
    // The body ends it after two turns: in the second one 1 < 1 is false.
    assert_eq!(run(&net(3, 1, "last"), &[1.0, -2.0]), [4.0, -8.0]);
    let long = net(1 << 20, 1 << 30, "last").refusal();
    assert!(long.contains("more than 16384 iterations; each is unrolled"), "{long}");
}

/// Results have the names of the model's outputs, whatever names the body of a loop uses.
#[test]
fn outputs_of_a_loop_keep_their_names() {
    let body = |last: &str, row: &str| {
        Net::new(17)
            .put(11, &value("i", I64, &[]))
            .put(11, &value("going", BOOL, &[]))
            .put(11, &value("v", F32, &[Dim::N(2)]))
            .weight(&truth("more", true))
            .node("Add", &["v", "v"], &[last], &[])
            .node("Add", &[last, "x"], &[row], &[])
            .output("more")
            .output(last)
            .output(row)
            .body()
    };
    let inner = ["res_y", "res_scan", "res_y_2", "y", "x_2"];
    let mut tried = 0;
    for last in inner {
        for row in inner.iter().filter(|r| **r != last) {
            for outputs in
                [&["res_y", "res_scan"][..], &["res_scan", "res_y"], &["res_y"], &["res_scan"]]
            {
                for results in [["res_y", "res_scan"], ["res_scan", "res_y"]] {
                    let net = Net::new(17)
                        .x(&[2])
                        .weight(&raw("most", I64, &[], &3i64.to_le_bytes()))
                        .node(
                            "Loop",
                            &["most", "", "x"],
                            &results,
                            &[A::Body("body", body(last, row))],
                        );
                    let net = outputs.iter().fold(net, |net, name| net.output(name));
                    let graph = net.import().unwrap().graph;
                    let names: Vec<&str> =
                        graph.outputs().iter().map(|id| graph.get(*id).name.as_str()).collect();
                    assert_eq!(names, outputs, "{last} {row} {results:?}");
                    let carried: &[f32] = &[8.0, -16.0];
                    let rows: &[f32] = &[3.0, -6.0, 5.0, -10.0, 9.0, -18.0];
                    let want = if outputs[0] == results[0] { carried } else { rows };
                    assert_eq!(
                        run(&net, &[1.0, -2.0]),
                        want,
                        "{last} {row} {results:?} {outputs:?}"
                    );
                    tried += 1;
                }
            }
        }
    }
    assert_eq!(tried, 160);
}

/// The same of the body of a Scan.
#[test]
fn outputs_of_a_scan_keep_their_names() {
    for name in ["rows", "last", "y"] {
        let body = Net::new(17)
            .put(11, &value("v", F32, &[]))
            .put(11, &value("a", F32, &[]))
            .node("Add", &["v", "a"], &["sum"], &[])
            .node("Mul", &["sum", "a"], &[name], &[])
            .output("sum")
            .output(name)
            .body();
        let attributes = [A::I("num_scan_inputs", 1), A::Body("body", body)];
        let net = Net::new(17)
            .x(&[3])
            .weight(&scalar("zero", 0.0))
            .node("Scan", &["zero", "x"], &["last", "rows"], &attributes)
            .output("last")
            .output("rows");
        let graph = net.import().unwrap().graph;
        let names: Vec<&str> =
            graph.outputs().iter().map(|id| graph.get(*id).name.as_str()).collect();
        assert_eq!(names, ["last", "rows"]);
        assert_eq!(run(&net, &[1.0, 2.0, 4.0]), [7.0]);
    }
}

#[test]
fn functions_of_the_file_are_written_out_with_their_attributes() {
    let nodes = [
        node("", "LeakyRelu", &["a"], &["b"], &[A::Of("alpha", "slope", 1)]),
        node("own", "twice", &["b"], &["c"], &[]),
    ];
    let net = Net::new(17)
        .x(&[2])
        .function("leak", &["a"], &["c"], &nodes)
        .function("twice", &["p"], &["q"], &[node("", "Add", &["p", "p"], &["q"], &[])])
        .node_of("own", "leak", &["x"], &["y"], &[A::F("slope", 0.25)])
        .output("y");
    assert_eq!(run(&net, &[4.0, -4.0]), [8.0, -2.0]);
    // Two calls do not see each other's names, and a function that calls itself ends.
    let both = Net::new(17)
        .x(&[2])
        .function("twice", &["p"], &["q"], &[node("", "Add", &["p", "p"], &["q"], &[])])
        .node_of("own", "twice", &["x"], &["h"], &[])
        .node_of("own", "twice", &["h"], &["y"], &[])
        .output("y");
    assert_eq!(run(&both, &[1.0, 3.0]), [4.0, 12.0]);
    let endless = Net::new(17)
        .x(&[2])
        .function("again", &["p"], &["q"], &[node("own", "again", &["p"], &["q"], &[])])
        .node_of("own", "again", &["x"], &["y"], &[])
        .output("y")
        .refusal();
    assert!(endless.contains("graphs and functions inside of each other"), "{endless}");
}

#[test]
fn an_input_that_sizes_follow_from_is_bound_where_its_elements_are_at_hand() {
    let net = Net::new(17)
        .x(&[2, 3])
        .input("shape", I64, &[1])
        .node("Cast", &["shape"], &["wide"], &[A::I("to", I64)])
        .node("Reshape", &["x", "wide"], &["y"], &[])
        .output("y");
    let told = net.refusal();
    assert!(
        told.starts_with("node 1 (Reshape), operand 1 `wide`: the shape: computed from the input `shape`; accepted:"),
        "{told}"
    );
    let file = net.file();
    let model = OnnxModel::read_model(&file).unwrap();
    let import = |shape: InputConstant| {
        let given = BTreeMap::from([("shape".to_string(), shape)]);
        model.import_graph_with(&BTreeMap::new(), &given)
    };
    let made = import(constant(&[1], Dtype::Int64, i64s(&[-1]))).unwrap();
    assert_eq!(made.bound, ["shape"]);
    assert_eq!(made.graph.inputs().len(), 1, "only x is left");
    let x = HostArray::from_f32(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    assert_eq!(ran(&file, &made, &x), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let bad = import(constant(&[2], Dtype::Int64, i64s(&[1, 6]))).unwrap_err().to_string();
    assert!(bad.contains("int64 [2] is given, and the model has int64 [1]"), "{bad}");
    // What nothing needs to know stays an input.
    let plain = Net::new(17).x(&[2]).node("Relu", &["x"], &["y"], &[]).output("y").file();
    let given =
        BTreeMap::from([("x".to_string(), constant(&[2], Dtype::Float32, f32s(&[1.0, 2.0])))]);
    let made =
        OnnxModel::read_model(&plain).unwrap().import_graph_with(&BTreeMap::new(), &given).unwrap();
    assert!(made.bound.is_empty() && made.graph.inputs().len() == 1);
}

#[test]
fn weights_of_few_bits_and_of_other_floats_are_read() {
    // Each as float32, added to zeros.
    let net = |code: i64, count: i64, content: &[u8]| {
        Net::new(21)
            .x(&[count])
            .weight(&raw("w", code, &[count], content))
            .node("Cast", &["w"], &["f"], &[A::I("to", F32)])
            .node("Add", &["x", "f"], &["y"], &[])
            .output("y")
    };
    let read = |code: i64, count: usize, content: &[u8]| {
        run(&net(code, count as i64, content), &vec![0.0; count])
    };
    assert_eq!(read(22, 3, &[0x8f, 0x07]), [-1.0, -8.0, 7.0], "int4");
    assert_eq!(read(21, 3, &[0x8f, 0x07]), [15.0, 8.0, 7.0], "uint4");
    assert_eq!(read(26, 4, &[0b11_10_01_00]), [0.0, 1.0, -2.0, -1.0], "int2");
    assert_eq!(read(25, 4, &[0b11_10_01_00]), [0.0, 1.0, 2.0, 3.0], "uint2");
    assert_eq!(read(4, 2, &[0xff, 0xff, 1, 0]), [65_535.0, 1.0], "uint16");
    assert_eq!(read(16, 2, &[0x80, 0x3f, 0x00, 0xc0]), [1.0, -2.0], "bfloat16");
    assert_eq!(read(17, 2, &[0x38, 0xfe]), [1.0, -448.0], "float8_e4m3fn");
    assert_eq!(read(19, 2, &[0x3c, 0xc0]), [1.0, -2.0], "float8_e5m2");
    let double: Vec<u8> = [0.5f64, -3.0].iter().flat_map(|v| v.to_le_bytes()).collect();
    assert_eq!(read(11, 2, &double), [0.5, -3.0], "float64");
    // As many as make a weight, not a literal.
    let many: Vec<u8> = (0..4096).map(|i| (i % 256) as u8).collect();
    let got = read(22, 8192, &many);
    let nibble = |b: u8| f32::from(if b > 7 { b as i8 - 16 } else { b as i8 });
    assert!((0..8192).all(|i| got[i] == nibble((many[i / 2] >> (4 * (i % 2))) & 15)));
    let short = net(22, 3, &[0x8f]).refusal();
    assert!(short.contains("[3] of int4 takes 2 bytes, and raw_data has 1"), "{short}");
}

#[test]
fn older_opsets_have_attributes_in_the_place_of_operands() {
    let one = |opset: i64, op: &str, size: &[i64], attributes: &[A]| {
        Net::new(opset).x(size).node(op, &["x"], &["y"], attributes).output("y")
    };
    let list = |name: &'static str, v: &[i64]| A::L(name, v.to_vec());
    let slice = [list("starts", &[1]), list("ends", &[3]), list("axes", &[0])];
    assert_eq!(run(&one(9, "Slice", &[4], &slice), &[1.0, 2.0, 3.0, 4.0]), [2.0, 3.0]);
    let pad = [list("pads", &[1, 0]), A::F("value", 7.0)];
    assert_eq!(run(&one(10, "Pad", &[2], &pad), &[1.0, 2.0]), [7.0, 1.0, 2.0]);
    let clip = [A::F("min", 0.0), A::F("max", 2.0)];
    assert_eq!(run(&one(7, "Clip", &[3], &clip), &[-1.0, 1.0, 5.0]), [0.0, 1.0, 2.0]);
    assert_eq!(
        one(11, "Squeeze", &[1, 3], &[list("axes", &[0])]).text(),
        "y = reshape(x, size=[3])"
    );
    assert_eq!(
        one(12, "Unsqueeze", &[3], &[list("axes", &[1])]).text(),
        "y = reshape(x, size=[3,1])"
    );
    let sums = one(12, "ReduceSum", &[2, 3], &[list("axes", &[1]), A::I("keepdims", 0)]).text();
    assert_eq!(sums, "y = sum(x, dim=[1], keepdim=false)");
    // Before opset 13 a softmax goes over all dimensions from its axis on.
    let old = one(12, "Softmax", &[2, 1, 2], &[]).text();
    assert!(old.contains("reshape(x, size=[2,2])"), "{old}");
    assert_eq!(one(13, "Softmax", &[2, 1, 2], &[]).text(), "y = softmax(x, dim=2)");
    let split = Net::new(11)
        .x(&[3])
        .node("Split", &["x"], &["a", "y"], &[list("split", &[1, 2])])
        .output("y");
    assert_eq!(run(&split, &[1.0, 2.0, 3.0]), [2.0, 3.0]);
}

#[test]
fn a_dropout_keeps_all_and_says_so() {
    let net = Net::new(13).x(&[2]).node("Dropout", &["x"], &["y", "mask"], &[]);
    let mask = net.node("Cast", &["mask"], &["m"], &[A::I("to", F32)]).output("m");
    assert_eq!(run(&mask, &[3.0, 4.0]), [1.0, 1.0]);
}
