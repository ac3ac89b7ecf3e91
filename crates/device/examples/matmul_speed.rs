//! Speed of products on sticks: GFLOP/s of the host, one line each.
//!
//! `cargo run --release -p zellige-device --example matmul_speed [cores]`

use serde_json::{Value, json};
use std::time::Instant;
use zellige_device::RunOp;
use zellige_device::{Card, DeviceError, Tensor};
use zellige_float::Dtype;
use zellige_op::Op;

/// An operation, its operands and its multiply-adds.
type Case = (&'static str, Value, &'static [&'static [i64]], i64);

fn main() -> Result<(), DeviceError> {
    let cores = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(32);
    let card = Card::builder().build()?;
    let cases: [Case; 6] = [
        ("mm", Value::Null, &[&[1024, 1024], &[1024, 1024]], 1 << 30),
        ("mm", Value::Null, &[&[64, 2048], &[2048, 8192]], 1 << 30),
        ("mm", Value::Null, &[&[1, 4096], &[4096, 16384]], 1 << 26),
        ("bmm", Value::Null, &[&[16, 256, 256], &[16, 256, 256]], 1 << 28),
        (
            "scaled_dot_product_attention",
            Value::Null,
            &[&[8, 1024, 64], &[8, 1024, 64], &[8, 1024, 64]],
            1 << 30,
        ),
        (
            "conv2d",
            json!({"padding": 1}),
            &[&[1, 128, 56, 56], &[128, 128, 3, 3]],
            56 * 56 * 128 * 128 * 9,
        ),
    ];
    for (name, attributes, sizes, macs) in cases {
        let op = Op::new(name, &attributes)?;
        let mut operands = Vec::new();
        for size in sizes {
            let t = Tensor::empty(&card, size, Dtype::Float16)?;
            t.fill(0.5)?;
            operands.push(t);
        }
        let mut best = f64::INFINITY;
        for _ in 0..12 {
            let start = Instant::now();
            op.run_on(&card, &operands, cores)?;
            best = best.min(start.elapsed().as_secs_f64());
        }
        let speed = 2.0 * macs as f64 / best / 1e9;
        println!("{name} {sizes:?} on {cores} cores: {speed:.1} GFLOP/s, {:.2} ms", best * 1e3);
    }
    Ok(())
}
