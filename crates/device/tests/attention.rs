//! Attention against a plain loop in float64.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{Rng, broadcast_index, read, tensor};
use serde_json::{Value, json};
use zellige_device::RunOp;
use zellige_device::{Card, Tensor};
use zellige_float::Dtype;
use zellige_op::TensorOp;

const NAME: &str = "scaled_dot_product_attention";

fn one(i: i64) -> usize {
    usize::try_from(i).unwrap()
}

/// A random tensor with elements around 1.
fn random(rng: &mut Rng, card: &Card, size: &[i64], dtype: Dtype) -> (Tensor, Vec<f64>) {
    let n = size.iter().product::<i64>();
    let values: Vec<f64> = (0..n).map(|_| rng.below(1024) as f64 / 256.0 - 2.0).collect();
    let t = tensor(rng, card, size, dtype, &values);
    let held = read(&t);
    (t, held)
}

/// One case: `[outer.., l, e]`, `[heads.., s, e]`, `[heads.., s, x]`.
struct Case {
    outer: Vec<i64>,
    heads: Vec<i64>,
    l: i64,
    s: i64,
    e: i64,
    x: i64,
    causal: bool,
    scale: Option<f64>,
}

impl Case {
    fn with(outer: &[i64], rows: i64, columns: i64) -> Vec<i64> {
        [outer, &[rows, columns]].concat()
    }

    /// The result in float64; `mask` gives what is added to a score.
    fn want(&self, q: &[f64], k: &[f64], v: &[f64], mask: impl Fn(usize) -> f64) -> Vec<f64> {
        let (l, s, e, x) = (one(self.l), one(self.s), one(self.e), one(self.x));
        let batches = one(self.outer.iter().product());
        let scale = self.scale.unwrap_or(1.0 / (self.e as f64).sqrt());
        let mut out = Vec::new();
        for batch in 0..batches {
            // Groups of heads share one: the last dimension counts whole groups.
            let mut kv = batch;
            if let (Some(a), Some(b)) = (self.outer.last(), self.heads.last()) {
                let (a, b) = (one(*a), one(*b));
                kv = batch / a * b + batch % a / (a / b);
            }
            for i in 0..l {
                let mut scores: Vec<f64> = (0..s)
                    .map(|j| {
                        let dot: f64 = (0..e)
                            .map(|p| q[(batch * l + i) * e + p] * k[(kv * s + j) * e + p])
                            .sum();
                        let gone = self.causal && j > i;
                        if gone {
                            f64::NEG_INFINITY
                        } else {
                            dot * scale + mask((batch * l + i) * s + j)
                        }
                    })
                    .collect();
                let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                scores.iter_mut().for_each(|x| *x = (*x - max).exp());
                let sum: f64 = scores.iter().sum();
                for c in 0..x {
                    let o: f64 = (0..s).map(|j| scores[j] * v[(kv * s + j) * x + c]).sum();
                    out.push(if max == f64::NEG_INFINITY { 0.0 } else { o / sum });
                }
            }
        }
        out
    }
}

fn compare(t: &Tensor, want: &[f64], what: &str) {
    let got = read(t);
    assert_eq!(got.len(), want.len(), "{what}");
    let slack = if t.format().byte_size() == 4 { 1e-4 } else { 1.0 / 256.0 };
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        assert!((g - w).abs() <= slack * (1.0 + w.abs()), "{what}: element {i} is {g}, not {w}");
    }
}

#[test]
fn attention_of_many_shapes() {
    let card = common::card();
    let mut rng = Rng::new(31);
    for round in 0..60 {
        let rank = rng.below(3);
        let outer: Vec<i64> = (0..rank).map(|_| 1 + rng.below(3) as i64).collect();
        let grouped = rank > 0 && rng.chance(3);
        let mut case = Case {
            heads: outer.clone(),
            outer,
            l: 1 + rng.below(90) as i64,
            s: 1 + rng.below(150) as i64,
            e: 1 + rng.below(100) as i64,
            x: 1 + rng.below(100) as i64,
            causal: rng.chance(3),
            scale: rng.chance(3).then_some(0.25),
        };
        if grouped {
            *case.outer.last_mut().unwrap() *= 1 + rng.below(3) as i64;
        }
        let dtype = [Dtype::Float16, Dtype::Float32, Dtype::Bfloat16][round % 3];
        let with = |outer: &[i64], rows, columns| Case::with(outer, rows, columns);
        let (q, xq) = random(&mut rng, &card, &with(&case.outer, case.l, case.e), dtype);
        let (k, xk) = random(&mut rng, &card, &with(&case.heads, case.s, case.e), dtype);
        let (v, xv) = random(&mut rng, &card, &with(&case.heads, case.s, case.x), dtype);
        let scores = with(&case.outer, case.l, case.s);
        let mut attributes = json!({"is_causal": case.causal, "enable_gqa": grouped});
        if let Some(scale) = case.scale {
            attributes["scale"] = json!(scale);
        }
        let mut inputs = vec![q, k, v];
        let kind = rng.below(3);
        let mut size = scores.clone();
        size.drain(..rng.below(size.len()));
        if rng.chance(3) {
            size[0] = 1;
        }
        let (mask, xm) = match kind {
            0 => {
                let n: i64 = size.iter().product();
                let values: Vec<f64> =
                    (0..n).map(|_| f64::from(u8::from(!rng.chance(4)))).collect();
                (Some(tensor(&mut rng, &card, &size, Dtype::Bool, &values)), values)
            }
            1 => {
                let (t, x) = random(&mut rng, &card, &size, dtype);
                (Some(t), x)
            }
            _ => (None, Vec::new()),
        };
        inputs.extend(mask);
        let what = format!("{attributes} {inputs:?}");
        let op = TensorOp::new(NAME, &attributes).unwrap();
        let ran = op.run_op(&card, &inputs).unwrap_or_else(|e| panic!("{what}: {e}"));
        let want = case.want(&xq, &xk, &xv, |i| {
            let at = |i| xm[broadcast_index(i, &scores, &size)];
            match kind {
                0 if at(i) == 0.0 => f64::NEG_INFINITY,
                1 => at(i),
                _ => 0.0,
            }
        });
        assert_eq!(ran.outputs[0].size(), with(&case.outer, case.l, case.x));
        compare(&ran.outputs[0], &want, &what);
        for cores in [1, 5] {
            let again = op.run_on_cores(&card, &inputs, cores).unwrap();
            assert_eq!(read(&again.outputs[0]), read(&ran.outputs[0]), "{what}");
        }
    }
}

#[test]
fn long_rows_are_cut_and_rows_without_keys_are_zero() {
    let card = common::card();
    let mut rng = Rng::new(32);
    let case = Case {
        outer: vec![2],
        heads: vec![2],
        l: 100,
        s: 5000,
        e: 16,
        x: 8,
        causal: false,
        scale: None,
    };
    let (q, xq) = random(&mut rng, &card, &[2, 100, 16], Dtype::Float16);
    let (k, xk) = random(&mut rng, &card, &[2, 5000, 16], Dtype::Float16);
    let (v, xv) = random(&mut rng, &card, &[2, 5000, 8], Dtype::Float16);
    let inputs = [q, k, v];
    let op = TensorOp::new(NAME, &Value::Null).unwrap();
    let ran = op.run_op(&card, &inputs).unwrap();
    compare(&ran.outputs[0], &case.want(&xq, &xk, &xv, |_| 0.0), "long");
    let cost = ran.step_costs().pop().unwrap();
    assert_eq!(cost.totals.macs_valid, 2 * 100 * 5000 * (16 + 8));
    assert!(cost.totals.lx_peak <= 1_677_721 && cost.totals.bytes_out >= 2 * 100 * 128);
    let none = tensor(&mut rng, &card, &[1, 1], Dtype::Bool, &[0.0]);
    let keep = TensorOp::new(NAME, &Value::Null).unwrap();
    let ran = keep.run_op(&card, &[inputs.to_vec(), vec![none]].concat()).unwrap();
    assert!(read(&ran.outputs[0]).iter().all(|x| *x == 0.0));
}

#[test]
fn bad_operands_are_refused() {
    let card = common::card();
    let t = |size: &[i64]| Tensor::empty(&card, size, Dtype::Float16).unwrap();
    let run = |attributes: Value, inputs: &[Tensor]| {
        TensorOp::new(NAME, &attributes).unwrap().run_op(&card, inputs).map_err(|e| e.to_string())
    };
    let fits = [t(&[2, 3, 4]), t(&[2, 5, 4]), t(&[2, 5, 6])];
    let more = |mask: Tensor| [fits.to_vec(), vec![mask]].concat();
    assert_eq!(run(Value::Null, &fits).unwrap().outputs[0].size(), [2, 3, 6]);
    let bad = |attributes: Value, inputs: &[Tensor], text: &str| {
        let e = run(attributes, inputs).unwrap_err();
        assert!(e.contains(text), "{e}");
    };
    bad(Value::Null, &fits[..2], "it takes 3 to 4 operands, not 2");
    bad(Value::Null, &[t(&[3, 4]), t(&[5, 7]), t(&[5, 6])], "do not fit");
    bad(Value::Null, &[t(&[4]), t(&[5, 4]), t(&[5, 6])], "has no rows and columns");
    bad(Value::Null, &more(t(&[7, 5])), "does not broadcast to [2, 3, 5]");
    let gqa = json!({"enable_gqa": true});
    bad(gqa, &[t(&[3, 3, 4]), t(&[2, 5, 4]), t(&[2, 5, 6])], "is no multiple");
    let int = Tensor::empty(&card, &[2, 3], Dtype::Int32).unwrap();
    bad(Value::Null, &[int.clone(), int.clone(), int], "one float dtype");
    assert!(TensorOp::new(NAME, &json!({"mask": "some"})).is_err());
    let none = run(Value::Null, &[t(&[3, 4]), t(&[0, 4]), t(&[0, 6])]).unwrap();
    assert!(read(&none.outputs[0]).iter().all(|x| *x == 0.0));
    assert_eq!(
        run(Value::Null, &[t(&[0, 4]), t(&[5, 4]), t(&[5, 6])]).unwrap().outputs[0].size(),
        [0, 6]
    );
}
