//! Reductions against a plain loop in float64.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::cast_possible_truncation, reason = "tests use small integers")]

mod common;

use common::{Rng, random, read, rounded, run, tensor, values, wrapped};
use serde_json::{Value, json};
use zellige_device::DeviceError;
use zellige_device::RunOp;
use zellige_device::{Card, KeptDtypes, Tensor};
use zellige_float::Dtype;
use zellige_op::TensorOp;
use zellige_stick::{DataFormat, StickLayout};

/// The numbers that each result takes, in row-major order, and the size of the result.
fn lists(x: &[f64], size: &[i64], gone: &[usize], keepdim: bool) -> (Vec<Vec<f64>>, Vec<i64>) {
    let kept: Vec<usize> = (0..size.len()).filter(|d| !gone.contains(d)).collect();
    let count: i64 = kept.iter().map(|d| size[*d]).product();
    let mut lists = vec![Vec::new(); usize::try_from(count).unwrap()];
    for (flat, v) in x.iter().enumerate() {
        let mut rest = i64::try_from(flat).unwrap();
        let mut at = vec![0; size.len()];
        for d in (0..size.len()).rev() {
            at[d] = rest % size[d];
            rest /= size[d];
        }
        let index = kept.iter().fold(0, |i, d| i * size[*d] + at[*d]);
        lists[usize::try_from(index).unwrap()].push(*v);
    }
    let dims = (0..size.len()).filter(|d| keepdim || kept.contains(d));
    let result = dims.map(|d| if gone.contains(&d) { 1 } else { size[d] }).collect();
    (lists, result)
}

/// A random set of dimensions, sometimes as negative numbers, and the attribute that names it.
fn some_dims(rng: &mut Rng, rank: usize) -> (Vec<usize>, Value) {
    let mut dims: Vec<usize> = (0..rank).collect();
    rng.shuffle(&mut dims);
    let n = rng.below(rank + 1);
    if n == 0 {
        return ((0..rank).collect(), Value::Null);
    }
    dims.truncate(n);
    let names: Vec<i64> = dims
        .iter()
        .map(|d| i64::try_from(*d).unwrap() - if rng.chance(3) { rank as i64 } else { 0 })
        .collect();
    dims.sort_unstable();
    (dims, json!(names))
}

/// Whether a stored number is within `margin` of the wanted one, before its rounding.
#[track_caller]
fn near(t: &Tensor, want: &[(f64, f64)], what: &str) {
    let got = read(t);
    assert_eq!(got.len(), want.len(), "{what}");
    for (i, (g, (w, margin))) in got.iter().zip(want).enumerate() {
        let fine = if !t.format().is_float() {
            *g == wrapped(*w, t.format())
        } else {
            // Where a format has no infinity, that is NaN too.
            let [low, exact, high] = [w - margin, *w, w + margin].map(|v| rounded(v, t.format()));
            low <= *g && *g <= high || *g == exact || (exact.is_nan() && g.is_nan())
        };
        assert!(fine, "{what}: result {i} is {g}, not {w} within {margin}; {t:?}");
    }
}

type Law = fn(&[f64]) -> f64;

fn mean(x: &[f64]) -> f64 {
    x.iter().sum::<f64>() / x.len() as f64
}

fn variance(x: &[f64], correction: f64) -> f64 {
    let m = mean(x);
    x.iter().map(|v| (v - m) * (v - m)).sum::<f64>() / (x.len() as f64 - correction).max(0.0)
}

fn largest(x: &[f64]) -> f64 {
    x.iter()
        .fold(f64::NEG_INFINITY, |a, b| if b.is_nan() || a.is_nan() { f64::NAN } else { a.max(*b) })
}

fn smallest(x: &[f64]) -> f64 {
    -largest(&x.iter().map(|v| -v).collect::<Vec<_>>())
}

fn place(x: &[f64], best: f64) -> f64 {
    x.iter().position(|v| *v == best || (v.is_nan() && best.is_nan())).unwrap() as f64
}

fn real(x: &[f64]) -> Vec<f64> {
    x.iter().copied().filter(|v| !v.is_nan()).collect()
}

/// Reductions of floats: name, attributes, the law, and how the error grows with the numbers' sum.
fn float_laws() -> Vec<(&'static str, Value, Law)> {
    let none = || json!({});
    vec![
        ("sum", none(), |x| x.iter().sum()),
        ("mean", none(), mean),
        ("amax", none(), largest),
        ("amin", none(), smallest),
        ("any", none(), |x| f64::from(u8::from(x.iter().any(|v| *v != 0.0)))),
        ("all", none(), |x| f64::from(u8::from(x.iter().all(|v| *v != 0.0)))),
        ("count_nonzero", none(), |x| x.iter().filter(|v| **v != 0.0).count() as f64),
        ("nansum", none(), |x| real(x).iter().sum()),
        ("nanmean", none(), |x| mean(&real(x))),
        ("var", none(), |x| variance(x, 1.0)),
        ("var", json!({"correction": 0}), |x| variance(x, 0.0)),
        ("std", json!({"correction": 2}), |x| variance(x, 2.0).sqrt()),
        ("logsumexp", none(), |x| {
            let m = largest(x);
            x.iter().map(|v| (v - m).exp()).sum::<f64>().ln() + m
        }),
        ("norm", none(), |x| x.iter().map(|v| v * v).sum::<f64>().sqrt()),
        ("norm", json!({"p": 1}), |x| x.iter().map(|v| v.abs()).sum()),
        ("norm", json!({"p": 3}), |x| x.iter().map(|v| v.abs().powi(3)).sum::<f64>().cbrt()),
        ("norm", json!({"p": 0}), |x| x.iter().filter(|v| **v != 0.0).count() as f64),
        ("norm", json!({"p": "inf"}), |x| largest(&x.iter().map(|v| v.abs()).collect::<Vec<_>>())),
        ("norm", json!({"p": "-inf"}), |x| {
            smallest(&x.iter().map(|v| v.abs()).collect::<Vec<_>>())
        }),
    ]
}

/// Float32 that stays wide, in a random order of dimensions.
fn wide(rng: &mut Rng, card: &Card, size: &[i64], x: &[f64]) -> Tensor {
    let mut order: Vec<i64> = (0..i64::try_from(size.len()).unwrap()).collect();
    rng.shuffle(&mut order);
    let format = DataFormat::IEEE_FP32;
    let layout = StickLayout::with_dim_order_in_format(size, None, format, &order).unwrap();
    let t = Tensor::zeros(card, Dtype::Float32, &layout).unwrap();
    t.fill(f64::NAN).unwrap();
    let host = zellige_layout::StridedLayout::new_contiguous(size).unwrap();
    t.write_from(&common::bytes_of(x, Dtype::Float32), &host, Dtype::Float32).unwrap();
    t
}

#[test]
fn float_reductions() {
    let card = common::card();
    let mut rng = Rng::new(1);
    let laws = float_laws();
    for round in 0..laws.len() * 40 {
        let (name, attributes, law) = &laws[round % laws.len()];
        let rank = rng.below(5);
        let size = rng.size(rank);
        let (gone, dim) = some_dims(&mut rng, rank);
        let keepdim = rng.chance(2);
        let dtypes = [Dtype::Float16, Dtype::Float32, Dtype::Bfloat16];
        let dtype = dtypes[rng.below(3)];
        let mut x = values(&mut rng, size.iter().product(), dtype);
        if rng.chance(8) && !x.is_empty() {
            let at = rng.below(x.len());
            x[at] = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY][rng.below(3)];
        }
        let t = if dtype == Dtype::Float32 && rng.chance(2) {
            wide(&mut rng, &card, &size, &x)
        } else {
            tensor(&mut rng, &card, &size, dtype, &x)
        };
        let x = common::numbers(&t);
        let mut attributes = attributes.clone();
        attributes["dim"] = dim;
        attributes["keepdim"] = json!(keepdim);
        let out = run(&card, name, &attributes, &[t]);
        let (lists, result) = lists(&x, &size, &gone, keepdim);
        let what = format!("{name} {attributes} of {dtype} {size:?}");
        assert_eq!(out[0].size(), result, "{what}");
        let want: Vec<(f64, f64)> = lists
            .iter()
            .map(|list| {
                let total: f64 = real(list).iter().map(|v| v.abs()).sum();
                let w = law(list);
                let scale = match *name {
                    "sum" | "nansum" => total,
                    "mean" | "nanmean" => total / list.len() as f64,
                    "amax" | "amin" | "any" | "all" | "count_nonzero" => 0.0,
                    "var" => w + mean(list) * mean(list) * 1e-2,
                    _ => w.abs() + 1e-1,
                };
                (w, if scale.is_finite() { scale * 1e-5 } else { 0.0 })
            })
            .collect();
        near(&out[0], &want, &what);
    }
}

#[test]
fn products_and_second_results() {
    let card = common::card();
    let mut rng = Rng::new(2);
    for round in 0..120 {
        let rank = 1 + rng.below(3);
        let size = rng.size(rank);
        let (gone, dim) = some_dims(&mut rng, rank);
        let x: Vec<f64> = (0..size.iter().product::<i64>())
            .map(|_| [1.0, -1.0, 2.0, 0.5, 1.0, 1.0][rng.below(6)])
            .collect();
        let t = tensor(&mut rng, &card, &size, Dtype::Float16, &x);
        let (lists, _) = lists(&x, &size, &gone, false);
        let attributes = json!({"dim": dim});
        let (name, first, second): (_, Law, Law) = match round % 3 {
            0 => ("prod", |x| x.iter().product(), mean),
            1 => ("var_mean", |x| variance(x, 1.0), mean),
            _ => ("exx2", mean, |x| x.iter().map(|v| v * v).sum::<f64>() / x.len() as f64),
        };
        let out = run(&card, name, &attributes, &[t]);
        let law = |law: Law| lists.iter().map(|l| (law(l), 1e-4)).collect::<Vec<_>>();
        near(&out[0], &law(first), name);
        if let Some(also) = out.get(1) {
            near(also, &law(second), name);
        }
    }
}

#[test]
fn places_of_extremes_are_the_lowest() {
    let card = common::card();
    let mut rng = Rng::new(3);
    let dtypes =
        [Dtype::Float16, Dtype::Float32, Dtype::Int8, Dtype::Int32, Dtype::Bool, Dtype::Uint8];
    for _ in 0..200 {
        let rank = rng.below(4);
        let size = rng.size(rank);
        let dtype = dtypes[rng.below(6)];
        // Few different numbers, so that there are ties; sometimes NaN.
        let float = matches!(dtype, Dtype::Float16 | Dtype::Float32);
        let x: Vec<f64> = (0..size.iter().product::<i64>())
            .map(|_| match rng.below(60) {
                0 if float => f64::NAN,
                1 if float => f64::NEG_INFINITY,
                k if dtype == Dtype::Bool => (k % 2) as f64,
                k => (k % 4) as f64,
            })
            .collect();
        let t = tensor(&mut rng, &card, &size, dtype, &x);
        let x = read(&t);
        let all = rng.chance(3);
        let dim = rng.below(rank.max(1));
        let keepdim = rng.chance(2);
        let gone: Vec<usize> = if all || rank == 0 { (0..rank).collect() } else { vec![dim] };
        let (lists, result) = lists(&x, &size, &gone, keepdim);
        let attributes =
            if all { json!({"keepdim": keepdim}) } else { json!({"dim": dim, "keepdim": keepdim}) };
        for (best, arg, both) in [(largest as Law, "argmax", "max"), (smallest, "argmin", "min")] {
            let places: Vec<(f64, f64)> = lists.iter().map(|l| (place(l, best(l)), 0.0)).collect();
            let bests: Vec<(f64, f64)> = lists.iter().map(|l| (best(l), 0.0)).collect();
            let what = format!("{arg} {attributes} of {dtype} {size:?}");
            let out = run(&card, arg, &attributes, std::slice::from_ref(&t));
            assert_eq!(
                (out[0].size(), out[0].dtype()),
                (result.as_slice(), Dtype::Int64),
                "{what}"
            );
            near(&out[0], &places, &what);
            if !all {
                let out = run(&card, both, &attributes, std::slice::from_ref(&t));
                assert_eq!(out[0].dtype(), dtype);
                near(&out[0], &bests, &what);
                near(&out[1], &places, &what);
            }
        }
    }
}

#[allow(clippy::cast_possible_truncation, reason = "a product modulo 2^32 is wanted")]
fn wrapping_product(x: &[f64]) -> f64 {
    f64::from(x.iter().fold(1i32, |p, v| p.wrapping_mul(*v as i32)))
}

#[test]
fn integers_are_exact() {
    let card = common::card();
    let mut rng = Rng::new(4);
    let laws: [(&str, Law, Option<Dtype>); 8] = [
        ("sum", |x| x.iter().sum(), Some(Dtype::Int64)),
        ("nansum", |x| x.iter().sum(), Some(Dtype::Int64)),
        ("prod", wrapping_product, Some(Dtype::Int64)),
        ("amax", largest, None),
        ("amin", smallest, None),
        ("any", |x| f64::from(u8::from(x.iter().any(|v| *v != 0.0))), Some(Dtype::Bool)),
        ("all", |x| f64::from(u8::from(x.iter().all(|v| *v != 0.0))), Some(Dtype::Bool)),
        ("count_nonzero", |x| x.iter().filter(|v| **v != 0.0).count() as f64, Some(Dtype::Int64)),
    ];
    for round in 0..320 {
        let (name, law, dtype) = laws[round % 8];
        let rank = rng.below(4);
        let size = rng.size(rank);
        let of = [Dtype::Int8, Dtype::Int16, Dtype::Int32, Dtype::Int64, Dtype::Uint8, Dtype::Bool]
            [rng.below(6)];
        let (gone, dim) = some_dims(&mut rng, rank);
        let (t, x) = random(&mut rng, &card, &size, of);
        let out = run(&card, name, &json!({"dim": dim}), &[t]);
        let what = format!("{name} over {gone:?} of {of} {size:?}");
        let byte = of == Dtype::Uint8 && dtype == Some(Dtype::Bool);
        assert_eq!(out[0].dtype(), if byte { of } else { dtype.unwrap_or(of) }, "{what}");
        let (lists, _) = lists(&x, &size, &gone, false);
        near(&out[0], &lists.iter().map(|l| (law(l), 0.0)).collect::<Vec<_>>(), &what);
    }
    // Sums are exact in 64 bits, and wrap at 32 where int64 is stored so.
    for (keep, wrapped) in [(KeptDtypes::ALL, 0.0), (KeptDtypes::NONE, 4_294_967_296.0)] {
        let card = Card::builder().keep_dtypes(keep).build().unwrap();
        let t = tensor(&mut rng, &card, &[3], Dtype::Int32, &[2e9, 2e9, 5.0]);
        assert_eq!(read(&run(&card, "sum", &Value::Null, &[t])[0]), [4e9 + 5.0 - wrapped]);
    }
    // A sum of bool is exact past the integers of a 16-bit float.
    let t = tensor(&mut rng, &card, &[70, 70], Dtype::Bool, &[1.0; 4900]);
    assert_eq!(read(&run(&card, "sum", &Value::Null, &[t])[0]), [4900.0]);
}

#[test]
fn dot_products() {
    let card = common::card();
    let mut rng = Rng::new(5);
    for _ in 0..60 {
        let n = [1, 3, 64, 100, 1500][rng.below(5)];
        let dtype = [Dtype::Float16, Dtype::Float32, Dtype::Int32][rng.below(3)];
        let (a, x) = random(&mut rng, &card, &[n], dtype);
        let (b, y) = random(&mut rng, &card, &[n], dtype);
        let out = run(&card, "dot", &Value::Null, &[a, b]);
        let terms: Vec<f64> = x.iter().zip(&y).map(|(x, y)| x * y).collect();
        let total: f64 = terms.iter().map(|v| v.abs()).sum();
        near(&out[0], &[(terms.iter().sum(), total * 1e-6)], &format!("dot of {n} {dtype}"));
    }
}

/// The documented order, in float32.
fn in_order(line: &[f32], lanes: bool) -> f32 {
    if !lanes {
        return line.chunks(64).fold(0.0, |a, run| a + run.iter().fold(0.0, |a, x| a + x));
    }
    let mut acc = [0f32; 32];
    for run in line.chunks(2048) {
        let mut part = [0f32; 32];
        run.iter().enumerate().for_each(|(i, x)| part[i % 32] += x);
        acc.iter_mut().zip(part).for_each(|(a, p)| *a += p);
    }
    for width in [16, 8, 4, 2, 1] {
        for i in 0..width {
            acc[i] += acc[i + width];
        }
    }
    acc[0]
}

#[test]
fn the_order_of_a_sum_is_the_documented_one() {
    let card = common::card();
    let mut rng = Rng::new(6);
    let (rows, columns) = (75usize, 4321usize);
    let size = [75, 4321];
    let x: Vec<f64> = (0..rows * columns)
        .map(|_| rounded(rng.number() / 3.0, zellige_float::Format::F32))
        .collect();
    for order in [[0, 1], [1, 0]] {
        let layout =
            StickLayout::with_dim_order_in_format(&size, None, DataFormat::IEEE_FP32, &order)
                .unwrap();
        let t = Tensor::zeros(&card, Dtype::Float32, &layout).unwrap();
        let host = zellige_layout::StridedLayout::new_contiguous(&size).unwrap();
        t.write_from(&common::bytes_of(&x, Dtype::Float32), &host, Dtype::Float32).unwrap();
        #[allow(clippy::cast_possible_truncation, reason = "they are float32")]
        let narrow: Vec<f32> = x.iter().map(|v| *v as f32).collect();
        let along_rows = run(&card, "sum", &json!({"dim": 1}), std::slice::from_ref(&t));
        let want: Vec<f64> =
            narrow.chunks(columns).map(|r| f64::from(in_order(r, order[1] == 1))).collect();
        assert!(read(&along_rows[0]) == want, "{order:?}");
        let across = run(&card, "sum", &json!({"dim": 0}), std::slice::from_ref(&t));
        let column = |c: usize| (0..rows).map(|r| narrow[r * columns + c]).collect::<Vec<_>>();
        let want: Vec<f64> =
            (0..columns).map(|c| f64::from(in_order(&column(c), order[1] == 0))).collect();
        assert!(read(&across[0]) == want, "{order:?}");
    }
}

#[test]
fn layouts_and_costs() {
    let card = common::card();
    let t = Tensor::empty(&card, &[512, 256], Dtype::Float16).unwrap();
    let sum = |dim: i64, keep: bool| {
        let op = TensorOp::new("sum", &json!({"dim": dim, "keepdim": keep})).unwrap();
        op.run_op(&card, std::slice::from_ref(&t)).unwrap()
    };
    let along = sum(1, false);
    assert_eq!(along.outputs[0].stick_layout().device_size(), [1, 512, 64]);
    assert_eq!(along.outputs[0].stick_layout().stride_map(), [-1, 1, -1]);
    assert!(along.outputs[0].stick_form().unwrap().stick.is_none());
    let cost = along.step_costs().pop().unwrap();
    assert_eq!((cost.totals.bytes_in, cost.totals.bytes_out), (512 * 256 * 2, 512 * 128));
    assert_eq!((cost.totals.cores, along.division.splits()), (32, [32, 1].as_slice()));
    let across = sum(0, true);
    assert_eq!(across.outputs[0].size(), [1, 256]);
    assert_eq!(across.outputs[0].stick_form().unwrap().stick, Some(1));
    let cost = across.step_costs().pop().unwrap();
    assert_eq!((cost.totals.bytes_in, cost.totals.bytes_out), (512 * 256 * 2, 256 * 2));
    // Fewer cores or other threads never change a bit.
    let mut rng = Rng::new(7);
    let (t, _) = random(&mut rng, &card, &[37, 5, 200], Dtype::Float16);
    for (name, dim) in [("sum", json!([2])), ("var", json!([0, 1])), ("logsumexp", json!([0, 2]))] {
        let op = TensorOp::new(name, &json!({"dim": dim})).unwrap();
        let one = op.run_on_cores(&card, std::slice::from_ref(&t), 1).unwrap();
        for cores in [3, 32] {
            let many = op.run_on_cores(&card, std::slice::from_ref(&t), cores).unwrap();
            assert!(read(&one.outputs[0]) == read(&many.outputs[0]));
        }
    }
}

#[test]
fn nothing_to_reduce() {
    let card = common::card();
    let t = Tensor::empty(&card, &[3, 0], Dtype::Float16).unwrap();
    let of = |name: &str| read(&run(&card, name, &json!({"dim": 1}), std::slice::from_ref(&t))[0]);
    assert_eq!(of("sum"), [0.0; 3]);
    assert_eq!(of("prod"), [1.0; 3]);
    assert!(of("mean").iter().all(|v| v.is_nan()));
    assert_eq!(of("any"), [0.0; 3]);
    assert_eq!(of("all"), [1.0; 3]);
    assert_eq!(of("logsumexp"), [f64::NEG_INFINITY; 3]);
    assert!(of("var").iter().all(|v| v.is_nan()));
    assert_eq!(read(&run(&card, "sum", &Value::Null, std::slice::from_ref(&t))[0]), [0.0]);
    for name in ["amax", "argmin", "max"] {
        let op = TensorOp::new(name, &json!({"dim": 1})).unwrap();
        let e = op.run_op(&card, std::slice::from_ref(&t)).unwrap_err().to_string();
        assert_eq!(
            e,
            format!("{name}: dimension 1 has no elements, and of none there is no result")
        );
    }
    let empty = run(&card, "amax", &json!({"dim": 0}), &[t]);
    assert_eq!(empty[0].size(), [0]);
}

#[test]
fn bad_attributes_and_operands_are_refused() {
    let card = common::card();
    let t = |dtype| Tensor::empty(&card, &[3, 4], dtype).unwrap();
    let say = |name: &str, attributes: Value, inputs: &[Tensor]| {
        let op = TensorOp::new(name, &attributes);
        op.map_err(DeviceError::from)
            .and_then(|op| op.run_op(&card, inputs))
            .unwrap_err()
            .to_string()
    };
    let half = t(Dtype::Float16);
    let one = std::slice::from_ref(&half);
    assert_eq!(
        say("sum", json!({"dim": 2}), one),
        "sum: attribute `dim`: 2 is no dimension; accepted are -2 to 1"
    );
    assert_eq!(
        say("sum", json!({"dim": [0, -2]}), one),
        "sum: attribute `dim`: dimension 0 appears twice"
    );
    assert_eq!(
        say("mean", json!({}), &[t(Dtype::Int32)]),
        "mean: it is for floats, not int32; convert the operand first"
    );
    assert_eq!(say("sum", json!({}), &[]), "sum: it takes 1 operand, not 0");
    assert!(say("max", json!({}), one).contains("it is missing"));
    assert!(say("argmax", json!({"dim": [0, 1]}), one).contains("is not one dimension"));
    assert!(say("dot", json!({}), &[half.clone(), half.clone()]).contains("two vectors"));
    assert!(say("norm", json!({"p": "big"}), one).contains("is no number"));
}
