//! Convolutions and pooling against plain loops in float64.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{Rng, check, random, read, rounded, run, tensor};
use serde_json::{Value, json};
use zellige_device::RunOp;
use zellige_device::Tensor;
use zellige_float::Dtype;
use zellige_op::TensorOp;

const KINDS: [Dtype; 3] = [Dtype::Float16, Dtype::Float32, Dtype::Bfloat16];

fn one(i: i64) -> usize {
    usize::try_from(i).unwrap()
}

/// A number below `n`, signed.
fn below(rng: &mut Rng, n: usize) -> i64 {
    i64::try_from(rng.below(n)).unwrap()
}

/// Images `[n, c, h, w]` by place; zero outside.
struct Images<'a> {
    size: [i64; 4],
    data: &'a [f64],
}

impl Images<'_> {
    fn at(&self, n: i64, c: i64, h: i64, w: i64) -> Option<f64> {
        let [_, cs, hs, ws] = self.size;
        let inside = (0..hs).contains(&h) && (0..ws).contains(&w);
        inside.then(|| self.data[one(((n * cs + c) * hs + h) * ws + w)])
    }
}

/// The sum that defines an element of a convolution, in its order.
#[allow(clippy::cast_possible_truncation, reason = "elements are exact in float32")]
fn convolve(
    x: &Images<'_>,
    w: &Images<'_>,
    out: [i64; 4],
    at: [[i64; 2]; 3],
    groups: i64,
) -> Vec<f32> {
    let [stride, padding, dilation] = at;
    let [oc, depth, kh, kw] = w.size;
    let mut sums = Vec::new();
    for n in 0..out[0] {
        for o in 0..oc {
            for oh in 0..out[2] {
                for ow in 0..out[3] {
                    let group = o / (oc / groups);
                    let mut sum = 0f32;
                    for (i, j) in (0..kh).flat_map(|i| (0..kw).map(move |j| (i, j))) {
                        for c in 0..depth {
                            let h = oh * stride[0] - padding[0] + i * dilation[0];
                            let v = ow * stride[1] - padding[1] + j * dilation[1];
                            let value = x.at(n, group * depth + c, h, v).unwrap_or(0.0);
                            let weight = w.at(o, c, i, j).unwrap();
                            sum = (value as f32).mul_add(weight as f32, sum);
                        }
                    }
                    sums.push(sum);
                }
            }
        }
    }
    sums
}

#[test]
#[allow(clippy::cast_possible_truncation, reason = "elements are exact in float32")]
fn convolutions_follow_their_loop() {
    let card = common::card();
    let mut rng = Rng::new(41);
    for round in 0..60 {
        let flat = rng.chance(3);
        let groups = [1, 1, 2, 3][rng.below(4)];
        let n = 1 + below(&mut rng, 2);
        let (c, oc) = (
            groups * (1 + below(&mut rng, 80 / one(groups))),
            groups * (1 + below(&mut rng, 80 / one(groups))),
        );
        let pair = |rng: &mut Rng, least: i64, n: usize| {
            let mut pair = [least + below(rng, n), least + below(rng, n)];
            if flat {
                pair[0] = least;
            }
            pair
        };
        let (kernel, stride) = (pair(&mut rng, 1, 3), pair(&mut rng, 1, 3));
        let (padding, dilation) = (pair(&mut rng, 0, 3), pair(&mut rng, 1, 2));
        let reach = [0, 1].map(|d| dilation[d] * (kernel[d] - 1) + 1);
        let mut image = [0, 1].map(|d| reach[d] + below(&mut rng, 8));
        if flat {
            image[0] = 1;
        }
        let count = [0, 1].map(|d| (image[d] + 2 * padding[d] - reach[d]) / stride[d] + 1);
        let cut = |size: [i64; 4]| -> Vec<i64> {
            if flat { vec![size[0], size[1], size[3]] } else { size.to_vec() }
        };
        let dtype = KINDS[round % 3];
        let (xs, ws) = ([n, c, image[0], image[1]], [oc, c / groups, kernel[0], kernel[1]]);
        let (x, xx) = random(&mut rng, &card, &cut(xs), dtype);
        let (w, xw) = random(&mut rng, &card, &cut(ws), dtype);
        let (b, xb) = random(&mut rng, &card, &[oc], dtype);
        let bias = rng.chance(2);
        let list = |pair: [i64; 2]| if flat { json!(pair[1]) } else { json!(pair) };
        let attributes = json!({
            "stride": list(stride), "padding": list(padding), "dilation": list(dilation),
            "groups": groups,
        });
        let what = format!("{attributes} {x:?} {w:?}");
        let mut inputs = vec![x, w];
        if bias {
            inputs.push(b);
        }
        let op = if flat { "conv1d" } else { "conv2d" };
        let got = run(&card, op, &attributes, &inputs);
        let out = [n, oc, count[0], count[1]];
        assert_eq!(got[0].size(), cut(out), "{what}");
        let sums = convolve(
            &Images { size: xs, data: &xx },
            &Images { size: ws, data: &xw },
            out,
            [stride, padding, dilation],
            groups,
        );
        let plane = one(out[2] * out[3]);
        for (i, got_one) in read(&got[0]).iter().enumerate() {
            let mut want = sums[i];
            if bias {
                want += xb[i / plane % one(oc)] as f32;
            }
            let want = rounded(f64::from(want), got[0].format());
            let same = *got_one == want || (got_one.is_nan() && want.is_nan());
            assert!(same, "{what}: element {i} is {got_one}, not {want}");
        }
        let again =
            TensorOp::new(op, &attributes).unwrap().run_on_cores(&card, &inputs, 3).unwrap();
        assert_eq!(read(&again.outputs[0]), read(&got[0]));
        let totals = again.step_costs().pop().unwrap().totals;
        let macs = n * oc * count[0] * count[1] * kernel[0] * kernel[1] * (c / groups);
        assert_eq!(totals.macs_valid, u64::try_from(macs).unwrap(), "{what}");
        assert!(totals.macs >= totals.macs_valid);
    }
}

#[test]
fn windows_are_pooled() {
    let card = common::card();
    let mut rng = Rng::new(42);
    for round in 0..80 {
        let size = [
            1 + below(&mut rng, 2),
            1 + below(&mut rng, 100),
            4 + below(&mut rng, 8),
            4 + below(&mut rng, 8),
        ];
        let dtype = KINDS[round % 3];
        let bare = rng.chance(4) && size[0] == 1;
        let shape = if bare { size[1..].to_vec() } else { size.to_vec() };
        let (t, x) = random(&mut rng, &card, &shape, dtype);
        let x = Images { size, data: &x };
        let kernel = [1 + below(&mut rng, 3), 1 + below(&mut rng, 3)];
        let stride = [1 + below(&mut rng, 3), 1 + below(&mut rng, 3)];
        let padding = kernel.map(|k| below(&mut rng, one(k / 2) + 1));
        let mean = rng.chance(2);
        let include = rng.chance(2);
        let ceil = rng.chance(2);
        let mut attributes = json!({
            "kernel_size": kernel, "stride": stride, "padding": padding, "ceil_mode": ceil,
        });
        if mean {
            attributes["count_include_pad"] = json!(include);
        }
        let op = if mean { "avg_pool2d" } else { "max_pool2d" };
        let got = run(&card, op, &attributes, std::slice::from_ref(&t));
        let last = got[0].size().len() - 2;
        let (oh, ow) = (got[0].size()[last], got[0].size()[last + 1]);
        for (d, count) in [oh, ow].into_iter().enumerate() {
            let room = size[2 + d] + 2 * padding[d] - kernel[d];
            let mut want = room / stride[d] + 1;
            if ceil && room % stride[d] != 0 && want * stride[d] < size[2 + d] + padding[d] {
                want += 1;
            }
            assert_eq!(count, want, "{attributes} {size:?}");
        }
        let mut want = Vec::new();
        for (n, c) in (0..size[0]).flat_map(|n| (0..size[1]).map(move |c| (n, c))) {
            for (i, j) in (0..oh).flat_map(|i| (0..ow).map(move |j| (i, j))) {
                let (h0, w0) = (i * stride[0] - padding[0], j * stride[1] - padding[1]);
                let (mut largest, mut sum, mut count) = (f64::NEG_INFINITY, 0.0, 0.0);
                for (a, b) in (0..kernel[0]).flat_map(|a| (0..kernel[1]).map(move |b| (a, b))) {
                    let value = x.at(n, c, h0 + a, w0 + b);
                    let within = h0 + a < size[2] + padding[0] && w0 + b < size[3] + padding[1];
                    if value.is_some() || (include && within) {
                        count += 1.0;
                    }
                    if let Some(v) = value {
                        sum += v;
                        largest =
                            if v.is_nan() || largest.is_nan() { f64::NAN } else { largest.max(v) };
                    }
                }
                want.push(if mean { sum / count } else { largest });
            }
        }
        // A sum may cancel: the error is that of its terms.
        let got_all = read(&got[0]);
        if mean {
            for (i, (g, w)) in got_all.iter().zip(&want).enumerate() {
                let fine = (g - w).abs() <= w.abs() / 256.0 + 0.01;
                assert!(fine, "{attributes} {size:?}: element {i} is {g}, not {w}");
            }
        } else {
            check(&got[0], &want, 0.0, &format!("{attributes} {size:?}"));
        }
        let again = TensorOp::new(op, &attributes)
            .unwrap()
            .run_on_cores(&card, std::slice::from_ref(&t), 5)
            .unwrap();
        assert_eq!(read(&again.outputs[0]), got_all);
        // As many windows as asked for.
        let counts = [1 + below(&mut rng, 6), 1 + below(&mut rng, 6)];
        let got = run(&card, "adaptive_avg_pool2d", &json!({"output_size": counts}), &[t]);
        assert_eq!(got[0].size()[last..], counts);
        let got = read(&got[0]);
        let mut index = 0;
        for (n, c) in (0..size[0]).flat_map(|n| (0..size[1]).map(move |c| (n, c))) {
            for (i, j) in (0..counts[0]).flat_map(|i| (0..counts[1]).map(move |j| (i, j))) {
                let range = |i: i64, d: usize| {
                    i * size[2 + d] / counts[d]..((i + 1) * size[2 + d] + counts[d] - 1) / counts[d]
                };
                let (rows, columns) = (range(i, 0), range(j, 1));
                let places = rows.flat_map(|h| columns.clone().map(move |w| (h, w)));
                let values: Vec<f64> = places.map(|(h, w)| x.at(n, c, h, w).unwrap()).collect();
                let want = values.iter().sum::<f64>() / values.len() as f64;
                let fine = (got[index] - want).abs() <= want.abs() / 256.0 + 0.01;
                assert!(fine, "{counts:?} of {size:?}: {} is not {want}", got[index]);
                index += 1;
            }
        }
    }
}

#[test]
fn special_values_stay_in_their_windows() {
    let card = common::card();
    let mut rng = Rng::new(43);
    let mut x = vec![1.0; 3 * 36];
    x[14] = f64::NAN;
    let t = tensor(&mut rng, &card, &[1, 3, 6, 6], Dtype::Float16, &x);
    let largest =
        read(&run(&card, "max_pool2d", &json!({"kernel_size": 2}), std::slice::from_ref(&t))[0]);
    assert_eq!(largest.iter().filter(|x| x.is_nan()).count(), 1);
    assert!(largest[4].is_nan());
    let w = tensor(&mut rng, &card, &[5, 3, 1, 1], Dtype::Float16, &[1.0; 15]);
    let sums = read(&run(&card, "conv2d", &Value::Null, &[t, w])[0]);
    assert_eq!(sums.iter().filter(|x| x.is_nan()).count(), 5);
    assert!(sums.iter().all(|x| x.is_nan() || *x == 3.0));
}

#[test]
fn bad_operands_are_refused() {
    let card = common::card();
    let t = |size: &[i64]| Tensor::empty(&card, size, Dtype::Float16).unwrap();
    let say = |op: &str, attributes: Value, inputs: &[Tensor]| match TensorOp::new(op, &attributes)
    {
        Ok(op) => op.run_op(&card, inputs).unwrap_err().to_string(),
        Err(e) => e.to_string(),
    };
    let image = t(&[2, 6, 5, 5]);
    for (op, attributes, inputs, text) in [
        ("conv2d", json!({}), vec![image.clone()], "2 to 3 operands"),
        ("conv2d", json!({}), vec![image.clone(), t(&[4, 5, 3, 3])], "[oc, c / groups, kernel ..]"),
        ("conv2d", json!({"groups": 4}), vec![image.clone(), t(&[4, 1, 3, 3])], "4 groups"),
        (
            "conv2d",
            json!({}),
            vec![image.clone(), t(&[4, 6, 7, 3])],
            "larger than the padded image",
        ),
        ("conv2d", json!({}), vec![image.clone(), t(&[4, 6, 3, 3]), t(&[5])], "4 output channels"),
        ("conv2d", json!({}), vec![t(&[5]), t(&[4, 6, 3, 3])], "4 dimensions, or one less"),
        ("conv2d", json!({"stride": 0}), vec![], "each 1 to"),
        ("conv2d", json!({"padding": [1, 2, 3]}), vec![], "one integer or 2"),
        ("conv1d", json!({"dilation": -1}), vec![], "each 1 to"),
        ("max_pool2d", json!({}), vec![], "it is missing"),
        ("max_pool2d", json!({"kernel_size": 3, "padding": 2}), vec![], "half of the kernel"),
        ("max_pool2d", json!({"kernel_size": 6}), vec![image.clone()], "larger than the padded"),
        ("avg_pool2d", json!({"kernel_size": 2, "dilation": 2}), vec![], "no such attribute"),
        ("avg_pool2d", json!({"kernel_size": 2}), vec![t(&[5, 5])], "[n, c, h, w]"),
        ("adaptive_avg_pool2d", json!({"output_size": 0}), vec![], "each 1 to"),
    ] {
        let e = say(op, attributes, &inputs);
        assert!(e.contains(text), "{op}: {e}");
    }
    let ints = Tensor::empty(&card, &[1, 2, 4, 4], Dtype::Int32).unwrap();
    assert!(say("max_pool2d", json!({"kernel_size": 2}), &[ints]).contains("a float of 16 or 32"));
    let none = run(&card, "conv2d", &Value::Null, &[t(&[0, 6, 5, 5]), t(&[4, 6, 3, 3])]);
    assert_eq!(none[0].size(), [0, 4, 3, 3]);
    let none = run(&card, "max_pool2d", &json!({"kernel_size": 2}), &[t(&[0, 6, 5, 5])]);
    assert_eq!(none[0].size(), [0, 6, 2, 2]);
}
