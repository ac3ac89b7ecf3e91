//! Elements per second of pointwise operations on 4096 x 1024, the best of several runs.
//!
//! `cargo run --release -p zellige-device --example pointwise_speed`

use serde_json::{Value, json};
use std::time::Instant;
use zellige_device::RunOp;
use zellige_device::{Card, Result, Tensor};
use zellige_float::Dtype;
use zellige_op::Op;
use zellige_stick::StickLayout;

const SIZE: [i64; 2] = [4096, 1024];

fn main() -> Result<()> {
    let card = Card::builder().build()?;
    let noise = |dtype: &str, wide: bool, seed: i64| -> Result<Tensor> {
        let attrs = json!({"size": SIZE, "seed": seed, "dtype": dtype, "wide": wide});
        Ok(Op::new("normal", &attrs)?.run(&card, &[])?.outputs.remove(0))
    };
    let (a, b) = (noise("float16", false, 1)?, noise("float16", false, 2)?);
    let (wa, wb) = (noise("float32", true, 1)?, noise("float32", true, 2)?);
    let none = Value::Null;
    let mask = Op::new("gt", &none)?.run(&card, &[a.clone(), b.clone()])?.outputs.remove(0);
    let ints = Op::new("randint", &json!({"size": SIZE, "high": 100, "dtype": "int32"}))?
        .run(&card, &[])?
        .outputs
        .remove(0);
    let bias = a.viewed(|v| v.slice(0, Some(0), Some(1), 1))?;
    let turned = StickLayout::with_dim_order(&SIZE, None, Dtype::Float16, &[1, 0])?;
    let (turned, _) = b.to_layout(&turned)?;
    let one = Op::new("full", &json!({"size": [], "value": 2, "dtype": "float16"}))?
        .run(&card, &[])?
        .outputs
        .remove(0);
    let small = noise("float16", false, 1)?.viewed(|v| v.slice(0, Some(0), Some(1), 1))?;
    for (what, op, attrs, inputs) in [
        ("add float16", "add", none.clone(), vec![a.clone(), b.clone()]),
        ("add float16, one core", "add", none.clone(), vec![a.clone(), b.clone()]),
        ("add float32 wide", "add", none.clone(), vec![wa.clone(), wb.clone()]),
        ("add a row", "add", none.clone(), vec![a.clone(), bias]),
        ("add a number", "add", none.clone(), vec![a.clone(), one]),
        ("add another layout", "add", none.clone(), vec![a.clone(), turned]),
        ("add int32", "add", none.clone(), vec![ints.clone(), ints.clone()]),
        ("exp float16", "exp", none.clone(), vec![a.clone()]),
        ("exp float32 wide", "exp", none.clone(), vec![wa.clone()]),
        ("gelu float16", "gelu", none.clone(), vec![a.clone()]),
        ("gelu tanh float16", "gelu", json!({"approximate": "tanh"}), vec![a.clone()]),
        ("where float16", "where", none.clone(), vec![mask.clone(), a.clone(), b.clone()]),
        ("lt float16", "lt", none.clone(), vec![a.clone(), b.clone()]),
        ("logical_and bool", "logical_and", none.clone(), vec![mask.clone(), mask.clone()]),
        ("cast float16 to int32", "cast", json!({"dtype": "int32"}), vec![a.clone()]),
        ("tril float16", "tril", none.clone(), vec![a.clone()]),
        ("dropout float16", "dropout", none.clone(), vec![a.clone()]),
        ("uniform", "uniform", json!({"size": SIZE}), vec![]),
        ("normal", "normal", json!({"size": SIZE}), vec![]),
        ("cat", "cat", none.clone(), vec![a.clone(), b.clone()]),
        ("flip rows", "flip", json!({"dims": 0}), vec![a.clone()]),
        ("flip columns", "flip", json!({"dims": 1}), vec![a.clone()]),
        ("add of 1 x 1024", "add", none.clone(), vec![small.clone(), small]),
    ] {
        let op = Op::new(op, &attrs)?;
        let cores = if what.ends_with("one core") { 1 } else { card.cores() };
        let mut best = f64::INFINITY;
        let mut elements = 0;
        let begin = Instant::now();
        while begin.elapsed().as_secs_f64() < 0.4 {
            let start = Instant::now();
            let ran = op.run_on(&card, &inputs, cores)?;
            best = best.min(start.elapsed().as_secs_f64());
            elements = ran.outputs[0].numel();
        }
        let rate = elements as f64 / best / 1e9;
        println!("{what:24} {:9.3} ms {rate:7.2} G elements/s", best * 1e3);
    }
    let into = Tensor::empty(&card, &SIZE, Dtype::Float16)?;
    let add = Op::new("add", &none)?;
    let mut best = f64::INFINITY;
    for _ in 0..30 {
        let start = Instant::now();
        add.run_into(&card, &[a.clone(), b.clone()], std::slice::from_ref(&into))?;
        best = best.min(start.elapsed().as_secs_f64());
    }
    println!("{:24} {:9.3} ms", "add into", best * 1e3);
    Ok(())
}
