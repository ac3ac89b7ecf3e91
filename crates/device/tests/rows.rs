//! Softmax, norms and scans against a plain loop in float64.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{Rng, random, read, rounded, run, tensor, values};
use serde_json::{Value, json};
use zellige_device::DeviceError;
use zellige_device::RunOp;
use zellige_device::Tensor;
use zellige_float::Dtype;
use zellige_op::TensorOp;

fn whole(n: i64) -> usize {
    usize::try_from(n).unwrap()
}

/// Applies `f` to every line along a dimension.
fn along(x: &[f64], size: &[i64], dim: usize, mut f: impl FnMut(&[f64]) -> Vec<f64>) -> Vec<f64> {
    let n = size.get(dim).map_or(1, |n| whole(*n));
    let inner: usize = size.iter().skip(dim + 1).map(|n| whole(*n)).product();
    let mut out = vec![0.0; x.len()];
    for start in (0..x.len()).filter(|i| (i / inner).is_multiple_of(n.max(1))) {
        let line: Vec<f64> = (0..n).map(|k| x[start + k * inner]).collect();
        for (k, v) in f(&line).into_iter().enumerate() {
            out[start + k * inner] = v;
        }
    }
    out
}

/// Compares with an absolute margin before rounding.
#[track_caller]
fn near(t: &Tensor, want: &[f64], slack: f64, what: &str) {
    let got = read(t);
    assert_eq!(got.len(), want.len(), "{what}");
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        let margin = slack * (1.0 + w.abs());
        let margin = if margin.is_finite() { margin } else { 0.0 };
        let [low, exact, high] = [w - margin, *w, w + margin].map(|v| rounded(v, t.format()));
        let fine = low <= *g && *g <= high || *g == exact || (exact.is_nan() && g.is_nan());
        assert!(fine, "{what}: element {i} is {g}, not {w}; {t:?}");
    }
}

fn floats(rng: &mut Rng) -> Dtype {
    [Dtype::Float16, Dtype::Float32, Dtype::Bfloat16][rng.below(3)]
}

#[test]
fn softmax_along_any_dimension() {
    let card = common::card();
    let mut rng = Rng::new(1);
    for _ in 0..150 {
        let rank = rng.below(4);
        let size = rng.size(rank);
        let dim = rng.below(rank.max(1));
        let dtype = floats(&mut rng);
        let (t, x) = random(&mut rng, &card, &size, dtype);
        let log = rng.chance(2);
        let law = |line: &[f64]| -> Vec<f64> {
            let most = line.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = line.iter().map(|v| (v - most).exp()).sum();
            let each = |v: &f64| if log { v - most - sum.ln() } else { (v - most).exp() / sum };
            line.iter().map(each).collect()
        };
        let name = if log { "log_softmax" } else { "softmax" };
        let out = run(&card, name, &json!({"dim": dim}), &[t]);
        assert_eq!((out[0].size(), out[0].dtype()), (size.as_slice(), dtype));
        let what = format!("{name} along {dim} of {dtype} {size:?}");
        near(&out[0], &along(&x, &size, dim, law), if log { 1e-6 } else { 1e-7 }, &what);
    }
}

fn normed(line: &[f64], rms: bool, eps: f64) -> Vec<f64> {
    let n = line.len() as f64;
    let mean = if rms { 0.0 } else { line.iter().sum::<f64>() / n };
    let var = line.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / n;
    line.iter().map(|v| (v - mean) / (var + eps).sqrt()).collect()
}

#[test]
fn layer_and_rms_norm() {
    let card = common::card();
    let mut rng = Rng::new(2);
    for _ in 0..150 {
        let rank = 1 + rng.below(4);
        let size = rng.size(rank);
        let shape = size[rng.below(rank)..].to_vec();
        let n: i64 = shape.iter().product();
        let rms = rng.chance(2);
        let dtype = floats(&mut rng);
        let (t, x) = random(&mut rng, &card, &size, dtype);
        let (w, weight) = random(&mut rng, &card, &shape, dtype);
        let (b, bias) = random(&mut rng, &card, &shape, Dtype::Float32);
        let others = rng.below(if rms { 2 } else { 3 });
        let mut inputs = vec![t, w, b];
        inputs.truncate(1 + others);
        let name = if rms { "rms_norm" } else { "layer_norm" };
        let out = run(&card, name, &json!({"normalized_shape": shape, "eps": 1e-3}), &inputs);
        let want: Vec<f64> = x
            .chunks(whole(n))
            .flat_map(|line| {
                let y = normed(line, rms, 1e-3);
                let each = y.into_iter().zip(weight.iter().zip(&bias));
                each.map(|(y, (w, b))| match others {
                    0 => y,
                    1 => y * w,
                    _ => y * w + b,
                })
                .collect::<Vec<_>>()
            })
            .collect();
        let what = format!("{name} over {shape:?} of {dtype} {size:?} with {others} more");
        // A weight can be thousands, and the sum with the bias cancel.
        near(&out[0], &want, 1e-4, &what);
    }
}

#[test]
fn group_and_batch_norm() {
    let card = common::card();
    let mut rng = Rng::new(3);
    for _ in 0..120 {
        let rank = 2 + rng.below(3);
        let mut size = rng.size(rank);
        let groups = 1 + i64::try_from(rng.below(3)).unwrap();
        let most = if rng.chance(4) { 30 } else { 4 };
        size[1] = groups * (1 + i64::try_from(rng.below(most)).unwrap());
        let (channels, inner) = (size[1], size[2..].iter().product::<i64>());
        let (t, x) = random(&mut rng, &card, &size, Dtype::Float16);
        let mut small: Vec<(Tensor, Vec<f64>)> =
            (0..4).map(|_| random(&mut rng, &card, &[channels], Dtype::Float16)).collect();
        // Variances are not negative.
        let var: Vec<f64> = small[1].1.iter().map(|v| v.abs()).collect();
        small[1] = (tensor(&mut rng, &card, &[channels], Dtype::Float16, &var), var);
        let others = rng.below(3);
        let channel = |i: usize| i / whole(inner) % whole(channels);
        let [mean, var, weight, bias] = [0, 1, 2, 3].map(|k| &small[k].1);
        let scaled = |y: f64, i: usize| match others {
            0 => y,
            1 => y * weight[channel(i)],
            _ => y * weight[channel(i)] + bias[channel(i)],
        };
        let extra = small[2..2 + others].iter().map(|(t, _)| t.clone());
        let inputs: Vec<Tensor> = [t.clone()].into_iter().chain(extra.clone()).collect();
        let out = run(&card, "group_norm", &json!({"num_groups": groups, "eps": 1e-2}), &inputs);
        let line = whole(channels / groups * inner);
        let y = x.chunks(line).flat_map(|l| normed(l, false, 1e-2));
        let want: Vec<f64> = y.enumerate().map(|(i, y)| scaled(y, i)).collect();
        near(&out[0], &want, 1e-4, &format!("group_norm {groups} of {size:?}"));

        let given = [t, small[0].0.clone(), small[1].0.clone()];
        let inputs: Vec<Tensor> = given.into_iter().chain(extra).collect();
        let out = run(&card, "batch_norm", &json!({"eps": 1e-2}), &inputs);
        let want: Vec<f64> = x
            .iter()
            .enumerate()
            .map(|(i, x)| scaled((x - mean[channel(i)]) / (var[channel(i)] + 1e-2).sqrt(), i))
            .collect();
        near(&out[0], &want, 1e-3, &format!("batch_norm of {size:?}"));
    }
}

#[test]
fn scans() {
    let card = common::card();
    let mut rng = Rng::new(4);
    let kinds = [Dtype::Float16, Dtype::Float32, Dtype::Int32, Dtype::Int8, Dtype::Bool];
    for round in 0..200 {
        let rank = rng.below(4);
        let size = rng.size(rank);
        let dim = rng.below(rank.max(1));
        let dtype = kinds[rng.below(5)];
        let name = ["cumsum", "cumprod", "cummax", "cummin"][round % 4];
        let float = matches!(dtype, Dtype::Float16 | Dtype::Float32);
        let mut x = values(&mut rng, size.iter().product(), dtype);
        for v in &mut x {
            *v = if name == "cumprod" { v.signum() } else { *v };
            *v = if float && name == "cummax" && rng.chance(99) { f64::NAN } else { *v };
            *v = if dtype == Dtype::Bool { v.abs() } else { *v };
        }
        let t = tensor(&mut rng, &card, &size, dtype, &x);
        let x = read(&t);
        let out = run(&card, name, &json!({"dim": dim}), &[t]);
        let what = format!("{name} along {dim} of {dtype} {size:?}");
        let over = |a: f64, b: f64| match name {
            "cumsum" => a + b,
            "cumprod" => a * b,
            _ if a.is_nan() || b.is_nan() => f64::NAN,
            "cummax" => a.max(b),
            _ => a.min(b),
        };
        let scan = |line: &[f64]| {
            let first = *line.first().unwrap_or(&0.0);
            let steps = line.iter().enumerate().scan(first, |held, (i, v)| {
                *held = if i == 0 { *v } else { over(*held, *v) };
                Some(*held)
            });
            steps.collect::<Vec<_>>()
        };
        // Numbers of a float sum cancel: the margin is absolute, of what was added.
        near(&out[0], &along(&x, &size, dim, scan), if float { 1e-2 } else { 0.0 }, &what);
        if let Some(indices) = out.get(1) {
            let want = along(&x, &size, dim, |line| {
                let best = scan(line);
                let same = |a: f64, b: f64| a == b || (a.is_nan() && b.is_nan());
                let last = |i: usize| (0..=i).rev().find(|k| same(line[*k], best[i])).unwrap();
                (0..line.len()).map(|i| last(i) as f64).collect()
            });
            near(indices, &want, 0.0, &what);
        } else {
            assert_eq!(out[0].dtype(), if float { dtype } else { Dtype::Int64 });
        }
    }
}

#[test]
fn special_lines() {
    let card = common::card();
    let mut rng = Rng::new(5);
    // A line with a NaN is NaN in its lanes alone, and so is one of minus infinities alone.
    let mut x = vec![1.0; 3 * 70];
    x[70..140].fill(f64::NEG_INFINITY);
    x[150] = f64::NAN;
    let t = tensor(&mut rng, &card, &[3, 70], Dtype::Float16, &x);
    let y = read(&run(&card, "softmax", &json!({"dim": 1}), &[t])[0]);
    assert!(y[..70].iter().all(|v| *v == rounded(1.0 / 70.0, zellige_float::Format::DL16)));
    assert!(y[70..].iter().all(|v| v.is_nan()));
    // No lines, and lines of nothing.
    for size in [[0, 70], [3, 0]] {
        let t = Tensor::empty(&card, &size, Dtype::Float16).unwrap();
        for (name, attributes) in [
            ("softmax", json!({"dim": 1})),
            ("cumsum", json!({"dim": 1})),
            ("sort", json!({})),
            ("layer_norm", json!({"normalized_shape": [size[1]]})),
        ] {
            let out = run(&card, name, &attributes, std::slice::from_ref(&t));
            assert_eq!(out[0].size(), size);
        }
    }
}

#[test]
fn results_do_not_depend_on_cores() {
    let card = common::card();
    let mut rng = Rng::new(6);
    let (t, _) = random(&mut rng, &card, &[37, 5, 200], Dtype::Float16);
    for (name, attributes) in [
        ("softmax", json!({"dim": 2})),
        ("softmax", json!({"dim": 0})),
        ("layer_norm", json!({"normalized_shape": [5, 200]})),
        ("cumsum", json!({"dim": 0})),
        ("sort", json!({"dim": 1})),
    ] {
        let op = TensorOp::new(name, &attributes).unwrap();
        let one = op.run_on_cores(&card, std::slice::from_ref(&t), 1).unwrap();
        for cores in [2, 7, 32] {
            let many = op.run_on_cores(&card, std::slice::from_ref(&t), cores).unwrap();
            assert!(read(&one.outputs[0]) == read(&many.outputs[0]), "{name} on {cores}");
            let again = op.run_on_cores(&card, std::slice::from_ref(&t), cores).unwrap();
            assert_eq!(many.step_costs(), again.step_costs());
        }
    }
    let t = Tensor::empty(&card, &[4096, 1024], Dtype::Float16).unwrap();
    let ran = TensorOp::new("softmax", &json!({"dim": 1})).unwrap().run_op(&card, &[t]).unwrap();
    let cost = ran.step_costs().pop().unwrap();
    assert_eq!((cost.totals.bytes_in, cost.totals.bytes_out), (8 << 20, 8 << 20));
    assert_eq!((ran.step_costs().len(), ran.division.splits()), (1, [32].as_slice()));
}

#[test]
fn bad_attributes_and_operands_are_refused() {
    let card = common::card();
    let t = |size: &[i64], dtype| Tensor::empty(&card, size, dtype).unwrap();
    let say = |name: &str, attributes: Value, inputs: &[Tensor]| {
        let op = TensorOp::new(name, &attributes);
        op.map_err(DeviceError::from)
            .and_then(|op| op.run_op(&card, inputs))
            .unwrap_err()
            .to_string()
    };
    let x = t(&[4, 6], Dtype::Float16);
    let one = std::slice::from_ref(&x);
    assert_eq!(
        say("softmax", json!({"dim": 2}), one),
        "softmax: attribute `dim`: 2 is no dimension; accepted are -2 to 1"
    );
    assert!(say("softmax", json!({}), &[t(&[3], Dtype::Int8)]).contains("it is for floats"));
    assert_eq!(
        say("layer_norm", json!({"normalized_shape": [4]}), one),
        "layer_norm: attribute `normalized_shape`: [4] are not the last extents of an operand of [4, 6]"
    );
    assert!(say("layer_norm", json!({}), one).contains("it is missing"));
    assert!(
        say("layer_norm", json!({"normalized_shape": 6, "eps": -1}), one).contains("from 0 on")
    );
    let w = t(&[5], Dtype::Float16);
    assert_eq!(
        say("rms_norm", json!({"normalized_shape": [6]}), &[x.clone(), w.clone()]),
        "rms_norm: operand 1 has size [5], not [6]"
    );
    assert!(say("group_norm", json!({"num_groups": 4}), one).contains("do not divide 6 channels"));
    assert!(say("group_norm", json!({"num_groups": 0}), one).contains("do not divide"));
    assert!(say("batch_norm", json!({}), one).contains("it takes 3 to 5 operands, not 1"));
    assert!(say("cumsum", json!({}), one).contains("it is missing"));
}
