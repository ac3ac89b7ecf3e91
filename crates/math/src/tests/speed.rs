//! Elements per second.

use std::hint::black_box;
use std::time::Instant;

use super::super::{Binary, Unary, dot, exp_sub_sum, map1, map2, max, sum};

/// Best of many: nanoseconds per element turned into elements per nanosecond.
fn rate(n: usize, mut work: impl FnMut()) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..30 {
        let start = Instant::now();
        for _ in 0..100 {
            work();
        }
        best = best.min(start.elapsed().as_secs_f64() / 100.0);
    }
    n as f64 / best / 1e9
}

#[test]
#[ignore = "a measurement: cargo test --release -p zellige-math -- --ignored --nocapture speed_of"]
fn speed_of_functions() {
    let n = 1024;
    let x: Vec<f32> = (0..n).map(|i| (i as f32 - 512.0) / 100.0).collect();
    let y: Vec<f32> = (0..n).map(|i| (i % 37) as f32 / 10.0 + 0.5).collect();
    let mut out = vec![0.0; n];
    for &f in Unary::ALL {
        println!("{f:?} {:.2}", rate(n, || map1(f, black_box(&x), &mut out)));
    }
    for &f in Binary::ALL {
        println!("{f:?} {:.2}", rate(n, || map2(f, black_box(&y), &y, &mut out)));
    }
    let mut kept = 0.0;
    println!("sum {:.2}", rate(n, || kept += sum(black_box(&x))));
    println!("max {:.2}", rate(n, || kept += max(black_box(&x))));
    println!("dot {:.2}", rate(n, || kept += dot(black_box(&x), &y)));
    let mut row = x.clone();
    let softmax = rate(n, || {
        row.copy_from_slice(&x);
        kept += exp_sub_sum(&mut row, 6.0);
    });
    println!("exp_sub_sum {softmax:.2}");
    black_box(kept);
}
