//! Reads and writes by index against plain loops.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{Rng, broadcast_index, card, check, holds, random, run, tensor};
use serde_json::json;
use zellige_device::DeviceError;
use zellige_device::RunOp;
use zellige_device::{Card, Tensor};
use zellige_float::Dtype;
use zellige_layout::{flatten_coordinate, unflatten_index};
use zellige_op::TensorOp;

const DTYPES: [Dtype; 4] = [Dtype::Float16, Dtype::Float32, Dtype::Int32, Dtype::Int8];

fn index(rng: &mut Rng, card: &Card, size: &[i64], low: i64, n: i64) -> (Tensor, Vec<i64>) {
    let range = usize::try_from(n - low).unwrap();
    let values: Vec<i64> = (0..size.iter().product())
        .map(|_| low + i64::try_from(rng.below(range)).unwrap())
        .collect();
    let numbers: Vec<f64> = values.iter().map(|v| *v as f64).collect();
    let dtype = if rng.chance(2) { Dtype::Int64 } else { Dtype::Int32 };
    (tensor(rng, card, size, dtype, &numbers), values)
}

fn u(n: i64) -> usize {
    usize::try_from(n).unwrap()
}

#[test]
fn rows_of_a_table() {
    let card = card();
    let mut rng = Rng::new(1);
    for _ in 0..60 {
        let (rows, width) = (1 + i64::try_from(rng.below(40)).unwrap(), rng.size(1)[0]);
        let dtype = DTYPES[rng.below(4)];
        let (table, x) = random(&mut rng, &card, &[rows, width], dtype);
        let rank = rng.below(3);
        let size = rng.size(rank);
        let (i, at) = index(&mut rng, &card, &size, 0, rows);
        let out = run(&card, "embedding", &json!({}), &[table, i]);
        assert_eq!(out[0].size(), [&size[..], &[width]].concat());
        let want: Vec<f64> =
            at.iter().flat_map(|r| &x[u(r * width)..u((r + 1) * width)]).copied().collect();
        holds(&out[0], &want);
    }
}

#[test]
fn positions_along_a_dimension() {
    let card = card();
    let mut rng = Rng::new(2);
    for _ in 0..80 {
        let rank = 1 + rng.below(3);
        let size = rng.size(rank);
        let d = rng.below(rank);
        let dim = i64::try_from(d).unwrap()
            - if rng.chance(2) { i64::try_from(rank).unwrap() } else { 0 };
        let dtype = DTYPES[rng.below(4)];
        let (x, held) = random(&mut rng, &card, &size, dtype);
        let (i, at) = {
            let n = rng.size(1);
            index(&mut rng, &card, &n, 0, size[d])
        };
        let mut wide = size.clone();
        wide[d] = i64::try_from(at.len()).unwrap();
        let source = |flat: i64| {
            let mut c = unflatten_index(&wide, flat);
            c[d] = at[u(c[d])];
            u(flatten_coordinate(&size, &c).unwrap())
        };
        let out = run(&card, "index_select", &json!({"dim": dim}), &[x.clone(), i.clone()]);
        let want: Vec<f64> = (0..wide.iter().product()).map(|f| held[source(f)]).collect();
        holds(&out[0], &want);

        let (v, values) = random(&mut rng, &card, &wide, dtype);
        let (mut copied, mut added) = (held.clone(), held.clone());
        for f in 0..wide.iter().product() {
            copied[source(f)] = values[u(f)];
            added[source(f)] += values[u(f)];
        }
        let out =
            run(&card, "index_copy", &json!({"dim": dim}), &[x.clone(), i.clone(), v.clone()]);
        holds(&out[0], &copied);
        let out = run(&card, "index_add", &json!({"dim": dim}), &[x, i, v]);
        check(&out[0], &added, 2e-3, "index_add");
    }
}

#[test]
fn one_position_for_every_element() {
    let card = card();
    let mut rng = Rng::new(3);
    for _ in 0..80 {
        let rank = 1 + rng.below(3);
        let size = rng.size(rank);
        let d = rng.below(rank);
        let mut wide: Vec<i64> =
            size.iter().map(|n| 1 + i64::try_from(rng.below(u(*n))).unwrap()).collect();
        wide[d] = rng.size(1)[0];
        let (x, held) = random(&mut rng, &card, &size, Dtype::Float16);
        let (i, at) = index(&mut rng, &card, &wide, 0, size[d]);
        let target = |flat: i64| {
            let mut c = unflatten_index(&wide, flat);
            c[d] = at[u(flat)];
            u(flatten_coordinate(&size, &c).unwrap())
        };
        let all = 0..wide.iter().product::<i64>();
        let out = run(&card, "gather", &json!({"dim": d}), &[x.clone(), i.clone()]);
        holds(&out[0], &all.clone().map(|f| held[target(f)]).collect::<Vec<_>>());
        let (v, values) = random(&mut rng, &card, &wide, Dtype::Float16);
        for reduce in ["none", "sum", "amax", "amin"] {
            let mut want = held.clone();
            for f in all.clone() {
                let (old, new) = (want[target(f)], values[u(f)]);
                want[target(f)] = match reduce {
                    "none" => new,
                    "sum" => old + new,
                    "amax" => old.max(new),
                    _ => old.min(new),
                };
            }
            let attributes = json!({"dim": d, "reduce": reduce});
            let op = TensorOp::new("scatter", &attributes).unwrap();
            for cores in [1, 32] {
                let ran =
                    op.run_on_cores(&card, &[x.clone(), i.clone(), v.clone()], cores).unwrap();
                // Sums of numbers of opposite sign lose relative accuracy.
                let slack = if reduce == "sum" { 2e-3 } else { 0.0 };
                check(&ran.outputs[0], &want, slack, reduce);
            }
        }
    }
}

#[test]
fn several_index_tensors_broadcast_and_count_from_the_end() {
    let card = card();
    let mut rng = Rng::new(4);
    for _ in 0..60 {
        let rank = 2 + rng.below(2);
        let size = rng.size(rank);
        let (x, held) = random(&mut rng, &card, &size, Dtype::Float16);
        let lead = [3, 5];
        let (a, at) = index(&mut rng, &card, &[3, 1], -size[0], size[0]);
        let (b, bt) = index(&mut rng, &card, &[5], -size[1], size[1]);
        let wide = [&lead[..], &size[2..]].concat();
        let wrap = |i: i64, n: i64| if i < 0 { i + n } else { i };
        let target = |f: i64| {
            let c = unflatten_index(&wide, f);
            let i = wrap(at[u(c[0])], size[0]);
            let j = wrap(bt[u(c[1])], size[1]);
            u(flatten_coordinate(&size, &[&[i, j], &c[2..]].concat()).unwrap())
        };
        let all = 0..wide.iter().product::<i64>();
        let out = run(&card, "index", &json!({}), &[x.clone(), a.clone(), b.clone()]);
        holds(&out[0], &all.clone().map(|f| held[target(f)]).collect::<Vec<_>>());
        let small: Vec<i64> = wide.iter().map(|n| if rng.chance(3) { 1 } else { *n }).collect();
        let (v, values) = random(&mut rng, &card, &small, Dtype::Float16);
        let mut want = held.clone();
        for f in all {
            want[target(f)] = values[broadcast_index(u(f), &wide, &small)];
        }
        let out = run(&card, "index_put", &json!({}), &[x, a, b, v]);
        holds(&out[0], &want);
    }
}

#[test]
fn positions_out_of_range_are_named_and_nothing_changes() {
    let card = card();
    let mut rng = Rng::new(5);
    let (x, _) = random(&mut rng, &card, &[4, 70], Dtype::Float16);
    let i = tensor(&mut rng, &card, &[3], Dtype::Int64, &[0.0, 4.0, 1.0]);
    let say = |op: &str, attributes: serde_json::Value, inputs: &[Tensor]| {
        TensorOp::new(op, &attributes)
            .map_err(DeviceError::from)
            .and_then(|o| o.run_op(&card, inputs))
            .unwrap_err()
            .to_string()
    };
    let e = say("embedding", json!({}), &[x.clone(), i.clone()]);
    assert_eq!(e, "embedding: index 4 at [1] is out of range; accepted are 0 to 3");
    let e = say("index_select", json!({"dim": 2}), &[x.clone(), i.clone()]);
    assert!(e.contains("2 is out of range; accepted are -2 to 1"), "{e}");
    let e = say("index_select", json!({}), &[x.clone(), i.clone()]);
    assert!(e.contains("it is missing"), "{e}");
    let e = say("gather", json!({"dim": 0}), &[x.clone(), i]);
    assert!(e.contains("does not fit"), "{e}");
    let e = say("embedding", json!({}), &[x.clone(), x]);
    assert!(e.contains("integer dtype, not float16"), "{e}");
}
