//! Refused models and their messages.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::*;
use std::collections::BTreeMap;
use zellige_onnx::{ModelFile, OnnxModel, WeightData};

fn unary(op: &str, attributes: &[A]) -> Net {
    Net::new(17).x(&[2, 3]).node(op, &["x"], &["y"], attributes).output("y")
}

#[test]
fn errors_name_the_node_the_operand_and_the_rule() {
    let binary = |size: &[i64], op: &str| {
        let net = Net::new(17).x(&[2, 3]).input("z", F32, size);
        net.node(op, &["x", "z"], &["y"], &[]).output("y").refusal()
    };
    for (told, rule) in [
        (
            unary("Det", &[]).refusal(),
            "node 0 (Det): no operation of the card does this; docs/compiler.md lists those that are read",
        ),
        (
            unary("If", &[A::Graph("then_branch")]).refusal(),
            "node 0 (If): attribute `else_branch` is missing; a graph",
        ),
        (
            unary("Relu", &[A::I("slope", 1)]).refusal(),
            "node 0 (Relu): attribute `slope` has no equivalent; accepted: none",
        ),
        (
            unary("Softmax", &[A::F("axis", 1.0)]).refusal(),
            "node 0 (Softmax): attribute `axis` is a float; accepted: an integer",
        ),
        (
            unary("Cast", &[A::I("to", 17), A::I("saturate", 0)]).refusal(),
            "node 0 (Cast): attribute `saturate` is 0, which requires a NaN past 448; accepted: 1, as \
             conversions to float8_e4m3fn saturate",
        ),
        (
            unary("Softmax", &[A::I("axis", 2)]).refusal(),
            "node 0 (Softmax): axis 2 of 2 dimensions; accepted: -2 to 1",
        ),
        (binary(&[4], "Add"), "node 0 (Add), operand 1 `z`: [4] beside [2, 3] does not broadcast"),
        (
            binary(&[4, 3], "MatMul"),
            "node 0 (MatMul): as `matmul`: sizes [2, 3] and [4, 3] do not multiply: the first has 3 \
             along the summed dimension, the second 4",
        ),
        (
            binary(&[2], "Reshape"),
            "node 0 (Reshape), operand 1 `z`: the shape: computed from the input `z`; accepted: a constant, \
             a value computed from shapes, or inputs whose elements are known when it is compiled (zellige \
             run --input NAME=FILE)",
        ),
        (
            Net::new(17).x(&[2]).node("Add", &["x", "q"], &["y"], &[]).output("y").refusal(),
            "node 0 (Add), operand 1 `q`: nothing before this node defines that name; nodes have \
             to be sorted so that each comes after its operands",
        ),
        (
            Net::new(17).x(&[2]).node("Add", &["x"], &["y"], &[]).output("y").refusal(),
            "node 0 (Add): it has 1 operand; accepted: 2",
        ),
        (
            unary("TopK", &[]).node("Relu", &["x"], &["y"], &[]).refusal(),
            "node 0 (TopK): it has 1 operand; accepted: 2",
        ),
        (
            unary("Relu", &[]).node("Relu", &["x"], &["y"], &[]).refusal(),
            "node 1 (Relu): as `relu`: the name `y` is already taken",
        ),
        (
            Net::new(17)
                .x(&[2])
                .node_of("com.microsoft", "FusedMatMul", &["x"], &["y"], &[])
                .refusal(),
            "node 0 (FusedMatMul): it is of the domain `com.microsoft`; accepted: operations of ai.onnx and \
             functions of the file; export without fused or custom operations",
        ),
        (Net::new(17).x(&[2]).output("z").refusal(), "output `z`: no node makes it"),
        (
            Net::new(17).input("x", 8, &[2]).refusal(),
            "input `x`: element type string; accepted: float32, \
             uint8, int8, uint16, int16, int32, int64, bool, float16, float64, uint32, bfloat16, \
             float8_e4m3fn, float8_e5m2, float8_e5m2fnuz, uint4, int4, uint2, int2",
        ),
        (
            Net::new(17).x(&[-2]).refusal(),
            "input `x`: dimension 0 has negative extent -2; extents are 0 or more",
        ),
    ] {
        assert_eq!(told, rule);
    }
}

#[test]
fn opsets_before_7_and_other_domains_are_refused() {
    let old = Net::new(6).x(&[2]).output("x").refusal();
    assert!(old.starts_with("opset 6 of ai.onnx; accepted: 7 and newer"), "{old}");
    let other = Net::new(3).domain("ai.onnx.ml").x(&[2]).output("x").refusal();
    assert_eq!(other, "it imports no operations of ai.onnx; it has: ai.onnx.ml");
    assert!(Net::new(21).domain("ai.onnx").x(&[2]).output("x").import().is_ok());
    let none = OnnxModel::read_model(b"").unwrap_err().to_string();
    assert_eq!(none, "it has no graph; an ONNX model holds one in its field 7");
}

#[test]
fn symbols_are_bound_by_name_or_by_place() {
    let dims = [Dim::Symbol("batch"), Dim::Open, Dim::N(4)];
    let net = Net::new(17).put(11, &value("x", F32, &dims));
    let net = net.node("Relu", &["x"], &["y"], &[]).output("y");
    let file = net.file();
    let model = OnnxModel::read_model(&file).unwrap();
    assert_eq!(model.input_symbols(), ["batch", "x.1"]);
    let told = |bind: &[(&str, i64)]| {
        let bind: BTreeMap<String, i64> = bind.iter().map(|(k, v)| (k.to_string(), *v)).collect();
        model
            .import_graph(&bind)
            .map(|i| i.graph.tensor("y").unwrap().size.clone())
            .map_err(|e| e.to_string())
    };
    assert_eq!(told(&[("batch", 2), ("x.1", 3)]), Ok(vec![2, 3, 4]));
    assert_eq!(
        told(&[("batch", 2)]).unwrap_err(),
        "sizes of its inputs are open: x.1; give them values, as in --bind x.1=N"
    );
    let unknown = told(&[("batch", 2), ("x.1", 3), ("time", 1)]).unwrap_err();
    assert_eq!(unknown, "there is no symbol `time`; known: batch, x.1");
    assert!(told(&[("batch", -1), ("x.1", 3)]).unwrap_err().contains("out of range"));
}

#[test]
fn a_declared_result_is_compared() {
    let net = |n: i64, dtype: i64| {
        let net = Net::new(17).x(&[2, 3]).node("Relu", &["x"], &["y"], &[]);
        net.put(12, &value("y", dtype, &[Dim::Symbol("rows"), Dim::N(n)]))
    };
    assert!(net(3, F32).import().is_ok());
    let told = "output `y`: its nodes make [2, 3], and the file declares [rows, 4]";
    assert_eq!(net(4, F32).refusal(), told);
    let told = "output `y`: its nodes make float32, and the file declares float16";
    assert_eq!(net(3, F16).refusal(), told);
}

#[test]
fn tensors_have_as_many_elements_as_their_shape() {
    let with = |tensor: Vec<u8>| {
        let net = Net::new(17).x(&[3]).weight(&tensor);
        net.node("Add", &["x", "w"], &["y"], &[]).output("y")
    };
    let short = with(raw("w", F32, &[3], &[0; 8])).refusal();
    assert!(short.contains("[3] of float32 takes 12 bytes, and raw_data has 8"), "{short}");
    let huge = with(raw("w", F32, &[i64::MAX, i64::MAX], &[])).refusal();
    assert!(huge.contains("below 2^56 elements"), "{huge}");
    // One by one, packed, and in the wrong field.
    let typed = |field: u64, content: &[u8]| {
        with([int(1, 3), int(2, F32), bytes(8, b"w"), bytes(field, content)].concat())
    };
    let three: Vec<u8> = [1.0f32, 2.0, 3.0].iter().flat_map(|v| v.to_le_bytes()).collect();
    let imported = typed(4, &three).import().unwrap();
    assert_eq!(imported.weights[0].data, WeightData::Owned(three.clone()));
    let short = typed(4, &three[..8]).refusal();
    assert!(short.contains("[3] has 3 elements, and 2 are stored"), "{short}");
    let wrong = typed(7, &[1, 2, 3]).refusal();
    assert!(wrong.contains("float32 is stored in field 4 and not in 7"), "{wrong}");
    let sixteen = with(
        [int(1, 3), int(2, F16), bytes(8, b"w"), bytes(5, &[0x80, 0x78, 0, 0x80, 0x80, 2])]
            .concat(),
    );
    let told = sixteen.refusal();
    assert!(told.contains("it is float16, operand 0 is float32"), "{told}");
}

#[test]
fn external_data_lies_beside_the_model_and_nowhere_else() {
    let entry =
        |k: &str, v: &str| bytes(13, &[bytes(1, k.as_bytes()), bytes(2, v.as_bytes())].concat());
    let net = |location: &str, offset: &str| {
        let head = [int(1, 3), int(2, F32), bytes(8, b"w"), int(14, 1)].concat();
        let tensor = [head, entry("location", location), entry("offset", offset)].concat();
        let net = Net::new(17).x(&[3]).weight(&tensor);
        net.node("Add", &["x", "w"], &["y"], &[]).output("y")
    };
    for away in ["../secret", "/etc/passwd", "a/../../b"] {
        let told = net(away, "0").refusal();
        assert!(told.contains("accepted: a file below the folder of the model"), "{told}");
    }
    let folder = std::env::temp_dir().join(format!("zellige-onnx-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("m.onnx");
    std::fs::write(&path, net("w.bin", "4").file()).unwrap();
    std::fs::write(folder.join("w.bin"), (0..16).collect::<Vec<u8>>()).unwrap();
    let file = ModelFile::open(&path).unwrap();
    let imported = file.import_graph(&BTreeMap::new()).unwrap();
    let bytes = file.weight_bytes(&imported.weights[0]).unwrap().into_owned();
    assert_eq!(bytes, (4..16).collect::<Vec<u8>>());
    // A link inside of the folder is followed, and one that leads out is not, however it does that.
    let outside = folder.with_extension("outside");
    std::fs::write(&outside, (0..16).collect::<Vec<u8>>()).unwrap();
    std::fs::create_dir_all(folder.join("data")).unwrap();
    std::fs::rename(folder.join("w.bin"), folder.join("data/w")).unwrap();
    std::os::unix::fs::symlink("data/w", folder.join("w.bin")).unwrap();
    assert_eq!(*file.weight_bytes(&imported.weights[0]).unwrap(), (4..16).collect::<Vec<u8>>());
    for target in [outside.clone(), std::path::Path::new("..").join(outside.file_name().unwrap())] {
        std::fs::remove_file(folder.join("w.bin")).unwrap();
        std::os::unix::fs::symlink(target, folder.join("w.bin")).unwrap();
        let told = file.weight_bytes(&imported.weights[0]).unwrap_err().to_string();
        assert!(told.contains("outside of the folder that names it"), "{told}");
        assert!(told.contains("accepted: a file below"), "{told}");
    }
    std::fs::remove_file(&outside).unwrap();
    std::fs::remove_file(folder.join("w.bin")).unwrap();
    let told = file.weight_bytes(&imported.weights[0]).unwrap_err().to_string();
    assert!(told.contains("keep that file beside the model"), "{told}");
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Weights are read from the file on demand, and a file that was truncated meanwhile gives an
/// error.
#[test]
fn large_weights_are_read_late_and_a_cut_file_is_an_error() {
    let elements: Vec<u8> = (0..4 * 50_000u32).map(|i| i.to_le_bytes()[0]).collect();
    let tensor = raw("w", F32, &[50_000], &elements);
    let net = Net::new(17).x(&[50_000]).weight(&tensor);
    let net = net.node("Add", &["x", "w"], &["y"], &[]).output("y");
    let path = std::env::temp_dir().join(format!("zellige-onnx-late-{}.onnx", std::process::id()));
    let whole = net.file();
    std::fs::write(&path, &whole).unwrap();
    let file = ModelFile::open(&path).unwrap();
    let imported = file.import_graph(&BTreeMap::new()).unwrap();
    // Without the elements it is the same graph as of all the bytes.
    let again = OnnxModel::read_model(&whole).unwrap().import_graph(&BTreeMap::new()).unwrap();
    assert_eq!(imported, again);
    assert_eq!(*file.weight_bytes(&imported.weights[0]).unwrap(), elements);
    for len in [0, 100, whole.len() as u64 / 2] {
        std::fs::File::options().write(true).open(&path).unwrap().set_len(len).unwrap();
        let told = file.weight_bytes(&imported.weights[0]).unwrap_err().to_string();
        assert!(told.contains("changed while it was read"), "{told}");
        std::fs::write(&path, &whole).unwrap();
    }
    // Every beginning of a file says what the whole decoder says of it.
    for len in (0..whole.len()).filter(|len| *len < 300 || len % 9973 == 0) {
        std::fs::write(&path, &whole[..len]).unwrap();
        let opened = ModelFile::open(&path).unwrap().import_graph(&BTreeMap::new());
        let decoded =
            OnnxModel::read_model(&whole[..len]).and_then(|m| m.import_graph(&BTreeMap::new()));
        assert_eq!(opened, decoded, "{len}");
    }
    std::fs::remove_file(&path).unwrap();
}
