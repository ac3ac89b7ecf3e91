//! Speed of matrix products on sticks: GFLOP/s of the host, one line per shape.
//!
//! `cargo run --release -p zellige-device --example matmul_speed [cores]`

use serde_json::Value;
use std::time::Instant;
use zellige_device::{Card, DeviceError, Op, Tensor};
use zellige_layout::Dtype;

fn main() -> Result<(), DeviceError> {
    let cores = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(32);
    let card = Card::builder().build().unwrap();
    let op = Op::new("matmul", &Value::Null)?;
    for (m, k, n) in [(1024, 1024, 1024), (64, 2048, 8192), (1, 4096, 16384)] {
        let tensor = |size: &[i64]| -> Result<Tensor, DeviceError> {
            let t = Tensor::empty(&card, size, Dtype::Float16)?;
            t.fill(0.5)?;
            Ok(t)
        };
        let (a, b) = (tensor(&[m, k])?, tensor(&[k, n])?);
        let mut best = f64::INFINITY;
        for _ in 0..12 {
            let start = Instant::now();
            op.run_on(&card, &[a.clone(), b.clone()], cores)?;
            best = best.min(start.elapsed().as_secs_f64());
        }
        let flops = 2.0 * (m * k * n) as f64;
        let bytes = 2.0 * (k * n) as f64;
        println!(
            "{m}x{k}x{n} on {cores} cores: {:.1} GFLOP/s, {:.2} ms, B at {:.1} GB/s",
            flops / best / 1e9,
            best * 1e3,
            bytes / best / 1e9
        );
    }
    Ok(())
}
