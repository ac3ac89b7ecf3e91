//! Sorts and what they give against a plain stable sort.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{Rng, holds, read, rounded, run, tensor};
use serde_json::{Value, json};
use std::cmp::Ordering;
use zellige_device::DeviceError;
use zellige_device::RunOp;
use zellige_device::{Card, Tensor};
use zellige_float::Dtype;
use zellige_op::TensorOp;

fn whole(n: i64) -> usize {
    usize::try_from(n).unwrap()
}

/// Every line along a dimension becomes a list of results; they are put together again.
fn along(x: &[f64], size: &[i64], dim: usize, mut f: impl FnMut(&[f64]) -> Vec<f64>) -> Vec<f64> {
    let n = size.get(dim).map_or(1, |n| whole(*n));
    let inner: usize = size.iter().skip(dim + 1).map(|n| whole(*n)).product();
    let outer = x.len() / (n * inner).max(1);
    let mut out = Vec::new();
    for o in 0..outer {
        let lines: Vec<Vec<f64>> = (0..inner)
            .map(|i| f(&(0..n).map(|k| x[(o * n + k) * inner + i]).collect::<Vec<_>>()))
            .collect();
        let k = lines.first().map_or(0, Vec::len);
        out.extend((0..k).flat_map(|k| lines.iter().map(move |l| l[k]).collect::<Vec<_>>()));
    }
    out
}

/// Places of a line in order: NaN last, equal ones by place.
fn order(line: &[f64], descending: bool) -> Vec<usize> {
    let mut places: Vec<usize> = (0..line.len()).collect();
    places.sort_by(|a, b| {
        let (a, b) = (line[*a], line[*b]);
        let up = a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()));
        if descending { up.reverse() } else { up }
    });
    places
}

const DTYPES: [Dtype; 6] =
    [Dtype::Float16, Dtype::Float32, Dtype::Bfloat16, Dtype::Int32, Dtype::Int8, Dtype::Bool];

/// A tensor with many equal elements and some NaN.
fn some(rng: &mut Rng, card: &Card, size: &[i64], dtype: Dtype) -> (Tensor, Vec<f64>) {
    let float = matches!(dtype, Dtype::Float16 | Dtype::Float32 | Dtype::Bfloat16);
    let x: Vec<f64> = (0..size.iter().product::<i64>())
        .map(|_| match rng.below(40) {
            0 if float => f64::NAN,
            1 if float => -0.0,
            k if dtype == Dtype::Bool => (k % 2) as f64,
            k => (k % 12) as f64 - 5.0,
        })
        .collect();
    let t = tensor(rng, card, size, dtype, &x);
    let x = read(&t);
    (t, x)
}

#[test]
fn sorts_are_stable_both_ways() {
    let card = common::card();
    let mut rng = Rng::new(1);
    for _ in 0..150 {
        let rank = rng.below(4);
        let size = rng.size(rank);
        let dim = rng.below(rank.max(1));
        let dtype = DTYPES[rng.below(6)];
        let (t, x) = some(&mut rng, &card, &size, dtype);
        let descending = rng.chance(2);
        let attributes = json!({"dim": dim, "descending": descending});
        let out = run(&card, "sort", &attributes, std::slice::from_ref(&t));
        let pick = |l: &[f64]| order(l, descending).iter().map(|i| l[*i]).collect();
        let index = |l: &[f64]| order(l, descending).iter().map(|i| *i as f64).collect();
        holds(&out[0], &along(&x, &size, dim, pick));
        holds(&out[1], &along(&x, &size, dim, index));
        assert_eq!((out[0].dtype(), out[1].dtype()), (t.dtype(), Dtype::Int64));
        let only = run(&card, "argsort", &attributes, &[t]);
        holds(&only[0], &along(&x, &size, dim, index));
    }
}

#[test]
fn topk_of_any_k() {
    let card = common::card();
    let mut rng = Rng::new(2);
    for _ in 0..150 {
        let rank = 1 + rng.below(3);
        let size = rng.size(rank);
        let dim = rng.below(rank);
        let dtype = DTYPES[rng.below(6)];
        let (t, x) = some(&mut rng, &card, &size, dtype);
        let k = rng.below(whole(size[dim]) + 1);
        let largest = rng.chance(2);
        let out = run(&card, "topk", &json!({"k": k, "dim": dim, "largest": largest}), &[t]);
        let first = |l: &[f64]| order(l, largest)[..k].to_vec();
        holds(&out[0], &along(&x, &size, dim, |l| first(l).iter().map(|i| l[*i]).collect()));
        holds(&out[1], &along(&x, &size, dim, |l| first(l).iter().map(|i| *i as f64).collect()));
        assert_eq!(out[0].size()[dim], i64::try_from(k).unwrap());
    }
}

#[test]
fn kth_values_and_medians() {
    let card = common::card();
    let mut rng = Rng::new(3);
    for _ in 0..150 {
        let rank = 1 + rng.below(3);
        let size = rng.size(rank);
        let dim = rng.below(rank);
        let dtype = DTYPES[rng.below(6)];
        let (t, x) = some(&mut rng, &card, &size, dtype);
        let k = 1 + rng.below(whole(size[dim]));
        let keepdim = rng.chance(2);
        let mut left = size.clone();
        if keepdim {
            left[dim] = 1;
        } else {
            left.remove(dim);
        }
        let attributes = json!({"k": k, "dim": dim, "keepdim": keepdim});
        let out = run(&card, "kthvalue", &attributes, std::slice::from_ref(&t));
        assert_eq!(out[0].size(), left);
        let kth = |l: &[f64]| order(l, false)[k - 1];
        holds(&out[0], &along(&x, &size, dim, |l| vec![l[kth(l)]]));
        holds(&out[1], &along(&x, &size, dim, |l| vec![kth(l) as f64]));
        let middle = |l: &[f64]| match l.iter().position(|v| v.is_nan()) {
            Some(at) => at,
            None => order(l, false)[(l.len() - 1) / 2],
        };
        let attributes = json!({"dim": dim, "keepdim": keepdim});
        let out = run(&card, "median", &attributes, std::slice::from_ref(&t));
        holds(&out[0], &along(&x, &size, dim, |l| vec![l[middle(l)]]));
        holds(&out[1], &along(&x, &size, dim, |l| vec![middle(l) as f64]));
        let out = run(&card, "median", &Value::Null, &[t]);
        assert_eq!((out.len(), out[0].size().len()), (1, 0));
        holds(&out[0], &[x[middle(&x)]]);
    }
}

#[test]
fn quantiles() {
    let card = common::card();
    let mut rng = Rng::new(4);
    let words = ["linear", "lower", "higher", "nearest", "midpoint"];
    for round in 0..150 {
        let rank = 1 + rng.below(3);
        let size = rng.size(rank);
        let dtype = DTYPES[rng.below(3)];
        let (t, x) = some(&mut rng, &card, &size, dtype);
        let q = [0.0, 1.0, 0.5, 0.25, 0.9][rng.below(5)];
        let word = words[round % 5];
        let skip = rng.chance(2);
        let law = |l: &[f64]| {
            let mut l: Vec<f64> = l.iter().copied().filter(|v| !skip || !v.is_nan()).collect();
            if l.is_empty() || l.iter().any(|v| v.is_nan()) {
                return vec![f64::NAN];
            }
            l.sort_by(|a, b| a.partial_cmp(b).unwrap_or(Ordering::Equal));
            let rank = q * (l.len() - 1) as f64;
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rank")]
            let at = |rank: f64| l[rank as usize];
            let (a, b) = (at(rank.floor()), at(rank.ceil()));
            vec![match word {
                "linear" => a + (b - a) * (rank - rank.floor()),
                "lower" => a,
                "higher" => b,
                "nearest" => at(rank.round_ties_even()),
                _ => (a + b) / 2.0,
            }]
        };
        let name = if skip { "nanquantile" } else { "quantile" };
        let dim = rng.below(rank);
        let attributes = json!({"q": q, "dim": dim, "interpolation": word});
        let out = run(&card, name, &attributes, std::slice::from_ref(&t));
        let format = out[0].format();
        let near = |got: &[f64], want: &[f64]| {
            got.iter().zip(want).all(|(g, w)| {
                let (low, high) = (rounded(w - 1e-6, format), rounded(w + 1e-6, format));
                (g.is_nan() && w.is_nan()) || (low <= *g && *g <= high)
            })
        };
        let want = along(&x, &size, dim, law);
        assert!(near(&read(&out[0]), &want), "{name} {attributes} of {size:?}");
        let out = run(&card, name, &json!({"q": q, "interpolation": word}), &[t]);
        assert!(near(&read(&out[0]), &law(&x)), "{name} {q} {word} of {size:?}");
    }
}

#[test]
fn bad_attributes_are_refused() {
    let card = common::card();
    let t = Tensor::empty(&card, &[4, 6], Dtype::Float16).unwrap();
    let say = |name: &str, attributes: Value| {
        let op = TensorOp::new(name, &attributes);
        op.map_err(DeviceError::from)
            .and_then(|op| op.run_op(&card, std::slice::from_ref(&t)))
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        say("topk", json!({"k": 7})),
        "topk: attribute `k`: 7 is not among the 6 elements; accepted are 0 to 6"
    );
    assert_eq!(say("topk", json!({"k": -1})), "topk: attribute `k`: -1 is less than 0");
    assert!(say("kthvalue", json!({"k": 0})).contains("accepted are 1 to 6"));
    assert!(say("quantile", json!({"q": 1.5})).contains("not between 0 and 1"));
    assert!(
        say("quantile", json!({"q": 0.5, "interpolation": "cubic"})).contains("none of linear")
    );
    assert!(say("sort", json!({"dim": 3})).contains("accepted are -2 to 1"));
    let ints = Tensor::empty(&card, &[3], Dtype::Int32).unwrap();
    let quantile = TensorOp::new("quantile", &json!({"q": 0.5})).unwrap();
    assert!(quantile.run_op(&card, &[ints]).unwrap_err().to_string().contains("it is for floats"));
    let none = Tensor::empty(&card, &[0], Dtype::Float16).unwrap();
    let median = TensorOp::new("median", &Value::Null).unwrap();
    assert!(median.run_op(&card, &[none]).unwrap_err().to_string().contains("no elements"));
}
