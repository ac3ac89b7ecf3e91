//! Factories and operations that only move elements, against plain loops.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{Rng, holds, random, read, rounded, run};
use serde_json::{Value, json};
use zellige_device::DeviceError;
use zellige_device::RunOp;
use zellige_device::Tensor;
use zellige_float::Dtype;
use zellige_float::Format;
use zellige_op::TensorOp;
use zellige_stick::StickLayout;

fn u(n: i64) -> usize {
    usize::try_from(n).unwrap()
}

fn i(n: usize) -> i64 {
    i64::try_from(n).unwrap()
}

/// The coordinates of a row-major index.
fn coordinates(flat: usize, size: &[i64]) -> Vec<i64> {
    let mut rest = flat;
    let mut at = vec![0; size.len()];
    for (c, n) in at.iter_mut().zip(size).rev() {
        *c = i(rest % u(*n));
        rest /= u(*n);
    }
    at
}

fn flat(at: &[i64], size: &[i64]) -> usize {
    at.iter().zip(size).fold(0, |f, (c, n)| f * u(*n) + u(*c))
}

/// The elements of a result of that size: each from a place of the operand, or a number.
fn gathered(
    size: &[i64],
    x: &[f64],
    from: &[i64],
    f: impl Fn(&[i64]) -> Result<Vec<i64>, f64>,
) -> Vec<f64> {
    (0..u(size.iter().product::<i64>()))
        .map(|k| f(&coordinates(k, size)).map_or_else(|v| v, |at| x[flat(&at, from)]))
        .collect()
}

const KINDS: [Dtype; 5] = [Dtype::Float16, Dtype::Float32, Dtype::Int32, Dtype::Int8, Dtype::Bool];

#[test]
fn sequences_and_constants() {
    let card = common::card();
    let make = |op: &str, attrs: Value| run(&card, op, &attrs, &[]).remove(0);
    let t = make("full", json!({"size": [3, 70], "value": -2.5, "dtype": "float16"}));
    assert_eq!((t.size(), t.dtype()), (&[3, 70][..], Dtype::Float16));
    holds(&t, &[-2.5; 210]);
    holds(&make("ones", json!({"size": [], "dtype": "int8"})), &[1.0]);
    holds(&make("zeros", json!({"size": [0, 3]})), &[]);
    holds(&make("full", json!({"size": 2, "value": 300, "dtype": "uint8"})), &[44.0; 2]);
    holds(&make("full", json!({"size": 2, "value": 0.5, "dtype": "bool"})), &[1.0; 2]);
    holds(&make("full", json!({"size": 2, "value": -2.5, "dtype": "int32"})), &[-2.0; 2]);
    let t = make("arange", json!({"end": 150}));
    assert_eq!(t.dtype(), Dtype::Int64);
    holds(&t, &(0..150).map(f64::from).collect::<Vec<_>>());
    let t = make("arange", json!({"start": 5, "end": -2, "step": -1.5, "wide": true}));
    holds(&t, &[5.0, 3.5, 2.0, 0.5, -1.0]);
    let t = make("linspace", json!({"start": 0, "end": 1, "steps": 11, "wide": true}));
    let want: Vec<f64> = (0..11).map(|k| rounded(f64::from(k) / 10.0, Format::F32)).collect();
    holds(&t, &want);
    holds(&make("linspace", json!({"start": 3, "end": 1, "steps": 1})), &[3.0]);
    let t = make("eye", json!({"n": 3, "m": 70, "dtype": "int32"}));
    let want: Vec<f64> = (0..210).map(|k| f64::from(u8::from(k / 70 == k % 70))).collect();
    holds(&t, &want);
}

#[test]
fn random_numbers_depend_on_seed_and_place_alone() {
    let card = common::card();
    let mut rng = Rng::new(21);
    let draw = |op: &str, attrs: &Value, cores: usize| {
        TensorOp::new(op, attrs).unwrap().run_on_cores(&card, &[], cores).unwrap().outputs.remove(0)
    };
    for (op, attrs) in [
        ("uniform", json!({"size": [7, 3, 130], "low": -2, "high": 3, "seed": 5, "wide": true})),
        ("normal", json!({"size": [7, 3, 130], "mean": 1, "std": 2, "seed": -9, "wide": true})),
        ("randint", json!({"size": [7, 3, 130], "low": -3, "high": 4, "seed": 1})),
        ("dropout_mask", json!({"size": [7, 3, 130], "p": 0.25, "seed": 3})),
    ] {
        let one = draw(op, &attrs, 1);
        let x = read(&one);
        for cores in [2, 32] {
            holds(&draw(op, &attrs, cores), &x);
        }
        for _ in 0..6 {
            // Into any layout.
            let (into, _) = random(&mut rng, &card, &[7, 3, 130], one.dtype());
            let op = TensorOp::new(op, &attrs).unwrap();
            op.run_into(&card, &[], std::slice::from_ref(&into)).unwrap();
            holds(&into, &x);
        }
        let mut other = attrs.clone();
        other["seed"] = json!(77);
        assert_ne!(read(&draw(op, &other, 1)), x);
    }
    // What they are like.
    let mean = |x: &[f64]| x.iter().sum::<f64>() / x.len() as f64;
    let spread = |x: &[f64]| {
        let m = mean(x);
        mean(&x.iter().map(|v| (v - m).powi(2)).collect::<Vec<_>>())
    };
    let many = |op: &str, mut attrs: Value| {
        attrs["size"] = json!([200, 500]);
        attrs["wide"] = json!(true);
        read(&draw(op, &attrs, 32))
    };
    let x = many("uniform", json!({"low": -2, "high": 3}));
    assert!(x.iter().all(|v| (-2.0..3.0).contains(v)));
    assert!((mean(&x) - 0.5).abs() < 0.02 && (spread(&x) - 25.0 / 12.0).abs() < 0.03);
    let x = many("normal", json!({"mean": 1, "std": 2}));
    assert!((mean(&x) - 1.0).abs() < 0.03 && (spread(&x) - 4.0).abs() < 0.08);
    let x = many("randint", json!({"low": -3, "high": 4}));
    for v in -3..4 {
        let n = x.iter().filter(|x| **x == f64::from(v)).count() as f64;
        assert!((n / 1e5 - 1.0 / 7.0).abs() < 0.005);
    }
    let kept = mean(&many("dropout_mask", json!({"p": 0.25})));
    assert!((kept - 0.75).abs() < 0.01);
}

#[test]
fn dropout_and_bernoulli_follow_the_mask() {
    let card = common::card();
    let mut rng = Rng::new(22);
    for _ in 0..10 {
        let size = [5, 70, 3];
        let (t, x) = random(&mut rng, &card, &size, Dtype::Float32);
        let mask =
            read(&run(&card, "dropout_mask", &json!({"size": size, "p": 0.5, "seed": 4}), &[])[0]);
        let want: Vec<f64> =
            x.iter().zip(&mask).map(|(x, m)| if *m == 0.0 { 0.0 } else { x * 2.0 }).collect();
        let got = read(&run(&card, "dropout", &json!({"p": 0.5, "seed": 4}), &[t])[0]);
        assert!(got.iter().zip(&want).all(|(g, w)| g == w));
        let all = run(&card, "full", &json!({"size": size, "value": 0.5}), &[]);
        let drawn = read(&run(&card, "bernoulli", &json!({"seed": 4}), &all)[0]);
        assert!(drawn.iter().zip(&mask).all(|(d, m)| *d == 1.0 - m));
    }
    let zero = run(&card, "full", &json!({"size": [9], "value": 3}), &[]);
    holds(&run(&card, "dropout", &json!({"p": 1}), &zero)[0], &[0.0; 9]);
}

#[test]
fn triangles() {
    let card = common::card();
    let mut rng = Rng::new(23);
    for _ in 0..80 {
        let rank = 2 + rng.below(2);
        let size = rng.size(rank);
        let dtype = KINDS[rng.below(5)];
        let (t, x) = random(&mut rng, &card, &size, dtype);
        let diagonal = i(rng.below(160)) - 80;
        for (op, lower) in [("tril", true), ("triu", false)] {
            let want = gathered(&size, &x, &size, |at| {
                let off = at[rank - 1] - at[rank - 2];
                let keep = if lower { off <= diagonal } else { off >= diagonal };
                if keep { Ok(at.to_vec()) } else { Err(0.0) }
            });
            holds(
                &run(&card, op, &json!({"diagonal": diagonal}), std::slice::from_ref(&t))[0],
                &want,
            );
        }
    }
}

#[test]
fn side_by_side() {
    let card = common::card();
    let mut rng = Rng::new(24);
    for _ in 0..60 {
        let rank = 1 + rng.below(3);
        let (size, dtype) = (rng.size(rank), KINDS[rng.below(5)]);
        let d = rng.below(rank);
        let mut parts = Vec::new();
        let mut bounds = vec![0];
        for _ in 0..1 + rng.below(3) {
            let mut own = size.clone();
            own[d] = i(rng.below(90));
            bounds.push(bounds.last().unwrap() + own[d]);
            let (t, x) = random(&mut rng, &card, &own, dtype);
            parts.push((t, x, own));
        }
        let mut full = size.clone();
        full[d] = *bounds.last().unwrap();
        let inputs: Vec<Tensor> = parts.iter().map(|p| p.0.clone()).collect();
        let out = &run(&card, "cat", &json!({"dim": i(d) - i(rank)}), &inputs)[0];
        assert_eq!(out.size(), full);
        let want: Vec<f64> = (0..u(full.iter().product::<i64>()))
            .map(|k| {
                let mut at = coordinates(k, &full);
                let which = bounds[1..].iter().position(|b| at[d] < *b).unwrap();
                at[d] -= bounds[which];
                parts[which].1[flat(&at, &parts[which].2)]
            })
            .collect();
        holds(out, &want);
        let (b, y) = random(&mut rng, &card, &size, dtype);
        let (a, x) = random(&mut rng, &card, &size, dtype);
        let d = rng.below(rank + 1);
        let out = &run(&card, "stack", &json!({"dim": d}), &[a, b])[0];
        let mut full = size.clone();
        full.insert(d, 2);
        let want: Vec<f64> = (0..u(full.iter().product::<i64>()))
            .map(|k| {
                let mut at = coordinates(k, &full);
                let which = at.remove(d);
                if which == 0 { x[flat(&at, &size)] } else { y[flat(&at, &size)] }
            })
            .collect();
        holds(out, &want);
    }
}

#[test]
fn borders() {
    let card = common::card();
    let mut rng = Rng::new(25);
    for round in 0..80 {
        let rank = 1 + rng.below(3);
        let (size, dtype) = (rng.size(rank), KINDS[rng.below(5)]);
        let mode = ["constant", "reflect", "replicate", "circular"][round % 4];
        let (mut pad, mut full, mut before) = (Vec::new(), size.clone(), vec![0; rank]);
        for d in (0..rank).rev().take(1 + rng.below(rank)) {
            let n = size[d];
            let mut width = || match mode {
                "constant" => i(rng.below(9)) - i(rng.below(3)).min(n / 2),
                "reflect" => i(rng.below(u(n).min(9))),
                "circular" => i(rng.below(u(n).min(9) + 1)),
                _ => i(rng.below(9)),
            };
            let (l, r) = (width(), width());
            pad.extend([l, r]);
            before[d] = l;
            full[d] = n + l + r;
        }
        let (t, x) = random(&mut rng, &card, &size, dtype);
        let out = &run(&card, "pad", &json!({"pad": pad, "mode": mode, "value": 1}), &[t])[0];
        assert_eq!(out.size(), full);
        let want = gathered(&full, &x, &size, |at| {
            let mut from = Vec::new();
            for d in 0..rank {
                let (c, n) = (at[d] - before[d], size[d]);
                from.push(match mode {
                    "reflect" => {
                        if c < 0 {
                            -c
                        } else if c >= n {
                            2 * n - 2 - c
                        } else {
                            c
                        }
                    }
                    "replicate" => c.clamp(0, n - 1),
                    "circular" => c.rem_euclid(n),
                    _ if !(0..n).contains(&c) => return Err(1.0),
                    _ => c,
                });
            }
            Ok(from)
        });
        holds(out, &want);
    }
}

#[test]
fn elsewhere() {
    let card = common::card();
    let mut rng = Rng::new(26);
    for _ in 0..50 {
        let rank = 1 + rng.below(3);
        let (size, dtype) = (rng.size(rank), KINDS[rng.below(5)]);
        let (t, x) = random(&mut rng, &card, &size, dtype);
        let one = std::slice::from_ref(&t);
        let n = u(size.iter().product::<i64>());
        let d = rng.below(rank);
        let want = gathered(&size, &x, &size, |at| {
            let mut at = at.to_vec();
            at[d] = size[d] - 1 - at[d];
            at[rank - 1] = if d == rank - 1 { at[d] } else { size[rank - 1] - 1 - at[rank - 1] };
            Ok(at)
        });
        let dims = if d == rank - 1 { vec![d] } else { vec![d, rank - 1] };
        holds(&run(&card, "flip", &json!({"dims": dims}), one)[0], &want);
        let shift = i(rng.below(400)) - 200;
        let want = gathered(&size, &x, &size, |at| {
            let mut at = at.to_vec();
            at[d] = (at[d] - shift).rem_euclid(size[d]);
            Ok(at)
        });
        holds(&run(&card, "roll", &json!({"shifts": shift, "dims": d}), one)[0], &want);
        let want: Vec<f64> = (0..n).map(|k| x[u((i(k) - shift).rem_euclid(i(n)))]).collect();
        holds(&run(&card, "roll", &json!({"shifts": shift}), one)[0], &want);
        let mut repeats: Vec<i64> = (0..rank).map(|_| 1 + i(rng.below(3))).collect();
        if rng.chance(2) {
            repeats.insert(0, 2);
        }
        let lead = repeats.len() - rank;
        let full: Vec<i64> = (0..repeats.len())
            .map(|k| repeats[k] * k.checked_sub(lead).map_or(1, |k| size[k]))
            .collect();
        let want = gathered(&full, &x, &size, |at| {
            Ok((0..rank).map(|k| at[lead + k] % size[k]).collect())
        });
        let out = &run(&card, "repeat", &json!({"repeats": repeats}), one)[0];
        assert_eq!(out.size(), full);
        holds(out, &want);
        let mut full = size.clone();
        full[d] *= 3;
        let want = gathered(&full, &x, &size, |at| {
            let mut at = at.to_vec();
            at[d] /= 3;
            Ok(at)
        });
        holds(&run(&card, "repeat_interleave", &json!({"repeats": 3, "dim": d}), one)[0], &want);
        let want: Vec<f64> = (0..2 * n).map(|k| x[k / 2]).collect();
        holds(&run(&card, "repeat_interleave", &json!({"repeats": 2}), one)[0], &want);
    }
}

#[test]
fn diagonals_and_slices() {
    let card = common::card();
    let mut rng = Rng::new(27);
    for _ in 0..30 {
        let size = [1 + i(rng.below(90)), 1 + i(rng.below(90))];
        let (t, x) = random(&mut rng, &card, &size, Dtype::Float16);
        let k = i(rng.below(60)) - 30;
        let (down, right) = ((-k).max(0), k.max(0));
        let want: Vec<f64> = (0..90)
            .filter(|r| r + down < size[0] && r + right < size[1])
            .map(|r| x[flat(&[r + down, r + right], &size)])
            .collect();
        let line = run(&card, "diag", &json!({"diagonal": k}), std::slice::from_ref(&t));
        holds(&line[0], &want);
        let n = i(want.len()) + k.abs();
        let square = &run(&card, "diag", &json!({"diagonal": k}), &line)[0];
        assert_eq!(square.size(), [n, n]);
        let want = gathered(&[n, n], &want, &[i(want.len())], |at| {
            if at[1] - at[0] == k { Ok(vec![at[0].min(at[1])]) } else { Err(0.0) }
        });
        holds(square, &want);
        let (start, step) = (i(rng.below(20)), 1 + i(rng.below(3)));
        let count = (size[1] - start).max(0).unsigned_abs().div_ceil(step.unsigned_abs());
        let count = i64::try_from(count).unwrap();
        let (s, y) = random(&mut rng, &card, &[size[0], count], Dtype::Float16);
        let attrs = json!({"dim": 1, "start": start, "step": step});
        let out = &run(&card, "slice_scatter", &attrs, &[t, s])[0];
        let want = gathered(&size, &x, &size, |at| {
            let off = at[1] - start;
            if off >= 0 && off % step == 0 {
                return Err(y[flat(&[at[0], off / step], &[size[0], count])]);
            }
            Ok(at.to_vec())
        });
        holds(out, &want);
    }
}

#[test]
fn moves_are_charged_and_bad_ones_refused() {
    let card = common::card();
    let t = |size: &[i64]| Tensor::empty(&card, size, Dtype::Float16).unwrap();
    let cat = TensorOp::new("cat", &json!({"dim": 0})).unwrap();
    let ran = cat.run_op(&card, &[t(&[64, 64]), t(&[64, 64])]).unwrap();
    let cost = ran.step_costs().pop().unwrap();
    assert_eq!((cost.totals.bytes_in, cost.totals.bytes_out), (16384, 16384));
    assert_eq!((cost.totals.padding_bytes, cost.totals.sfu), (0, 0));
    // A layout like that of the operand.
    let turned = StickLayout::with_dim_order(&[70, 3], None, Dtype::Float16, &[1, 0]).unwrap();
    let x = Tensor::zeros(&card, Dtype::Float16, &turned).unwrap();
    assert_eq!(
        cat.run_op(&card, &[x.clone(), x]).unwrap().outputs[0].stick_form().unwrap().stick,
        Some(0)
    );
    let say = |name: &str, attrs: Value, inputs: &[Tensor]| {
        TensorOp::new(name, &attrs)
            .map_err(DeviceError::from)
            .and_then(|op| op.run_op(&card, inputs))
            .unwrap_err()
            .to_string()
    };
    let x = t(&[3, 70]);
    let one = std::slice::from_ref(&x);
    for (name, attrs, inputs, part) in [
        ("cat", json!({"dim": 2}), one, "there is no dimension 2; dimensions are -2 to 1"),
        ("cat", json!({}), &[], "at least 1 operand"),
        ("cat", json!({}), &[x.clone(), t(&[3, 71])], "sizes agree but for dimension 0"),
        ("stack", json!({}), &[x.clone(), t(&[3, 71])], "sizes agree"),
        ("pad", json!({"pad": [1]}), one, "pairs"),
        ("pad", json!({"pad": [70, 0], "mode": "reflect"}), one, "do not fit"),
        ("pad", json!({"pad": [-40, -40]}), one, "do not fit"),
        ("pad", json!({"pad": [1, 1, 1, 1, 1, 1]}), one, "6 numbers for 2 dimensions"),
        ("flip", json!({"dims": [0, -2]}), one, "named twice"),
        ("roll", json!({"shifts": [1, 2], "dims": [0]}), one, "2 shifts for 1 dimensions"),
        ("repeat", json!({"repeats": [2]}), one, "1 repeats for 2 dimensions"),
        ("repeat", json!({"repeats": [-2, 1]}), one, "-2 is negative"),
        ("repeat_interleave", json!({"repeats": i64::MAX, "dim": 1}), one, "too large"),
        ("diag", json!({}), &[t(&[2, 2, 2])], "1 or 2 dimensions"),
        ("slice_scatter", json!({"end": 2}), &[x.clone(), t(&[3, 70])], "and the slice [2, 70]"),
        ("full", json!({"size": [-1], "value": 0}), &[], "-1 is negative"),
        ("full", json!({"size": [1_i64 << 40, 1 << 20], "value": 0}), &[], ""),
        ("arange", json!({"end": 5, "step": 0}), &[], "does not lead"),
        ("arange", json!({"end": -5}), &[], "does not lead"),
        ("linspace", json!({"start": 0, "end": 1, "steps": -1}), &[], "-1 is negative"),
        ("randint", json!({"size": 1, "high": 0}), &[], "0 is not above 0"),
        ("uniform", json!({"size": 1, "high": "inf"}), &[], "not finite"),
        ("normal", json!({"size": 1, "std": -1}), &[], "is negative"),
        ("dropout", json!({"p": 1.5}), one, "1.5 is not in 0 to 1"),
        ("tril", json!({}), &[t(&[3])], "2 dimensions or more"),
        ("ones", json!({"size": 1}), one, "it takes no operands"),
    ] {
        let e = say(name, attrs.clone(), inputs);
        assert!(e.contains(part), "{name} {attrs}: {e}");
    }
}
