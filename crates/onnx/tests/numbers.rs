//! Single nodes give the numbers of ONNX's reference evaluator (`data/make.py` asked it).

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a test fails by panicking"
)]

mod common;

use common::*;
use serde_json::Value;
use std::collections::BTreeMap;
use zellige_device::{Card, KeptDtypes};
use zellige_float::Dtype;
use zellige_onnx::{OnnxModel, WeightData};
use zellige_run::{HostArray, run_graph_eagerly};

fn dtype(code: i64) -> Dtype {
    match code {
        F32 => Dtype::Float32,
        I64 => Dtype::Int64,
        I32 => Dtype::Int32,
        U8 => Dtype::Uint8,
        I8 => Dtype::Int8,
        _ => Dtype::Bool,
    }
}

fn encoded(values: &[f64], code: i64) -> Vec<u8> {
    let one = |v: &f64| match code {
        F32 => (*v as f32).to_le_bytes().to_vec(),
        I64 => (*v as i64).to_le_bytes().to_vec(),
        I32 => (*v as i32).to_le_bytes().to_vec(),
        U8 => vec![*v as u8],
        I8 => (*v as i8).to_le_bytes().to_vec(),
        _ => vec![u8::from(*v != 0.0)],
    };
    values.iter().flat_map(one).collect()
}

fn decoded(host: &HostArray) -> Vec<f64> {
    match host.dtype() {
        Dtype::Float32 => {
            host.bytes().as_chunks().0.iter().map(|b| f64::from(f32::from_le_bytes(*b))).collect()
        }
        Dtype::Int64 => {
            host.bytes().as_chunks().0.iter().map(|b| i64::from_le_bytes(*b) as f64).collect()
        }
        Dtype::Int32 => {
            host.bytes().as_chunks().0.iter().map(|b| f64::from(i32::from_le_bytes(*b))).collect()
        }
        Dtype::Int8 => host.bytes().iter().map(|b| f64::from(b.cast_signed())).collect(),
        _ => host.bytes().iter().map(|b| f64::from(*b)).collect(),
    }
}

fn numbers(v: &Value) -> Vec<f64> {
    v.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
}

fn whole(v: &Value) -> Vec<i64> {
    v.as_array().unwrap().iter().map(|v| v.as_i64().unwrap()).collect()
}

fn attribute(name: &str, v: &Value) -> A {
    // Names of attributes live as long as the test.
    let name: &'static str = Box::leak(name.to_string().into_boxed_str());
    match v {
        Value::Array(_) => A::L(name, whole(v)),
        Value::String(s) => A::S(name, Box::leak(s.clone().into_boxed_str())),
        v => match v.as_i64() {
            Some(i) => A::I(name, i),
            None => A::F(name, v.as_f64().unwrap() as f32),
        },
    }
}

/// Attributes that are floats in ONNX, whatever their value.
fn typed(a: A) -> A {
    match a {
        A::I(name @ ("alpha" | "beta" | "epsilon" | "softcap"), v) => A::F(name, v as f32),
        other => other,
    }
}

fn check(case: &Value) {
    let mut net = Net::new(case["opset"].as_i64().unwrap());
    let mut given: BTreeMap<String, HostArray> = BTreeMap::new();
    let mut inputs = Vec::new();
    for i in case["inputs"].as_array().unwrap() {
        let Some(name) = i["name"].as_str() else {
            inputs.push("");
            continue;
        };
        inputs.push(name);
        let (code, size) = (i["dtype"].as_i64().unwrap(), whole(&i["size"]));
        let content = encoded(&numbers(&i["values"]), code);
        if i["constant"] == true {
            net = net.weight(&raw(name, code, &size, &content));
        } else {
            net = net.input(name, code, &size);
            given.insert(
                name.into(),
                HostArray::from_contiguous(content, &size, dtype(code)).unwrap(),
            );
        }
    }
    let outputs = case["outputs"].as_array().unwrap();
    let names: Vec<&str> = outputs.iter().map(|o| o["name"].as_str().unwrap()).collect();
    let attributes: Vec<A> = case["attributes"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(k, v)| typed(attribute(k, v)))
        .collect();
    net = net.node(case["op"].as_str().unwrap(), &inputs, &names, &attributes);
    for o in outputs {
        let dims: Vec<Dim> = whole(&o["size"]).into_iter().map(Dim::N).collect();
        net = net.put(12, &value(o["name"].as_str().unwrap(), o["dtype"].as_i64().unwrap(), &dims));
    }
    let what = format!("{} {}", case["op"], case["attributes"]);
    let file = net.file();
    let imported = OnnxModel::read_model(&file).and_then(|m| m.import_graph(&BTreeMap::new()));
    let imported = imported.unwrap_or_else(|e| panic!("{what}: {e}"));
    for w in &imported.weights {
        let bytes = match &w.data {
            WeightData::Inside(range) => file[range.clone()].to_vec(),
            WeightData::Owned(bytes) => bytes.clone(),
            WeightData::External { .. } => panic!("{what}: nothing is outside"),
        };
        let bytes = w.carried_elements(bytes.into()).unwrap().into_owned();
        given.insert(w.name.clone(), HostArray::from_contiguous(bytes, &w.size, w.dtype).unwrap());
    }
    let card = Card::builder().keep_dtypes(KeptDtypes::ALL).build().unwrap();
    let made = run_graph_eagerly(&imported.graph, &card, |name| Ok(given[name].clone()));
    let made = made.unwrap_or_else(|e| panic!("{what}: {e}"));
    for (got, want) in made.iter().zip(outputs) {
        let (got, want) = (decoded(got), numbers(&want["values"]));
        assert_eq!(got.len(), want.len(), "{what}");
        let off = |(a, b): (&f64, &f64)| (a - b).abs() > 2e-6 * b.abs().max(1.0);
        let first = got.iter().zip(&want).position(off);
        let shown = first.map(|i| format!("element {i} is {} and not {}", got[i], want[i]));
        assert_eq!(shown, None, "{what}");
    }
}

#[test]
fn nodes_give_the_numbers_of_the_reference() {
    let path = format!("{}/tests/data/nodes.json", env!("CARGO_MANIFEST_DIR"));
    let cases: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert!(cases.len() > 120);
    cases.iter().for_each(check);
}
