//! Matrix products against plain loops: bit for bit in float32, and within a bound in float64.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{Rng, broadcast_index, random, read, rounded, run, tensor, wrapped};
use serde_json::{Value, json};
use zellige_device::RunOp;
use zellige_device::Tensor;
use zellige_float::{Dtype, Isa};
use zellige_layout::StridedLayout;
use zellige_op::TensorOp;

const KINDS: [Dtype; 6] =
    [Dtype::Float16, Dtype::Float16, Dtype::Float32, Dtype::Bfloat16, Dtype::Int32, Dtype::Int8];

/// Two operands as batches of matrices, and the size of the product.
struct Matrices {
    a: Vec<i64>,
    b: Vec<i64>,
    c: Vec<i64>,
}

impl Matrices {
    fn new(a: &[i64], b: &[i64]) -> Matrices {
        let (la, lb) = (a.len() - 2, b.len() - 2);
        let rank = la.max(lb);
        let at = |s: &[i64], l: usize, d: usize| (d + l).checked_sub(rank).map_or(1, |k| s[k]);
        let mut c: Vec<i64> = (0..rank)
            .map(|d| match (at(a, la, d), at(b, lb, d)) {
                (1, y) => y,
                (x, _) => x,
            })
            .collect();
        c.extend([a[la], b[lb + 1]]);
        Matrices { a: a.to_vec(), b: b.to_vec(), c }
    }

    /// Calls `f` for every element of the product with the indices of its pairs.
    fn each(&self, mut f: impl FnMut(usize, &mut dyn Iterator<Item = (usize, usize)>)) {
        let rank = self.c.len();
        let (m, n) = (self.c[rank - 2], self.c[rank - 1]);
        let k = self.a[self.a.len() - 1];
        let one = |i: i64| usize::try_from(i).unwrap();
        let (m, n, k) = (one(m), one(n), one(k));
        let outer = &self.c[..rank - 2];
        let batches: i64 = outer.iter().product();
        for batch in 0..one(batches) {
            let ba = broadcast_index(batch, outer, &self.a[..self.a.len() - 2]) * m * k;
            let bb = broadcast_index(batch, outer, &self.b[..self.b.len() - 2]) * k * n;
            for i in 0..m {
                for j in 0..n {
                    let mut pairs = (0..k).map(|p| (ba + i * k + p, bb + p * n + j));
                    f((batch * m + i) * n + j, &mut pairs);
                }
            }
        }
    }
}

/// The loop that defines a product of floats: the sum before it is rounded.
#[allow(clippy::cast_possible_truncation, reason = "elements are exact in float32")]
fn sums(sizes: &Matrices, xa: &[f64], xb: &[f64]) -> Vec<f32> {
    let n: i64 = sizes.c.iter().product();
    let mut c = vec![0f32; usize::try_from(n).unwrap()];
    sizes.each(|at, pairs| {
        c[at] = pairs.fold(0.0, |sum, (i, j)| (xa[i] as f32).mul_add(xb[j] as f32, sum));
    });
    c
}

/// Checks a product bit for bit, and floats against float64 too.
fn check_product(t: &Tensor, sizes: &Matrices, xa: &[f64], xb: &[f64], what: &str) {
    let got = read(t);
    if !t.format().is_float() {
        sizes.each(|at, pairs| {
            let sum = pairs.map(|(i, j)| xa[i] * xb[j]).sum();
            assert_eq!(got[at], wrapped(sum, t.format()), "{what}: element {at}");
        });
        return;
    }
    let want = sums(sizes, xa, xb);
    assert_eq!(got.len(), want.len(), "{what}");
    sizes.each(|at, pairs| {
        let want = rounded(f64::from(want[at]), t.format());
        let same = got[at] == want || (got[at].is_nan() && want.is_nan());
        assert!(same, "{what}: element {at} is {}, not {want}", got[at]);
        let (mut exact, mut size, mut count) = (0.0, 0.0, 0.0);
        for (i, j) in pairs {
            exact += xa[i] * xb[j];
            size += (xa[i] * xb[j]).abs();
            count += 1.0;
        }
        let bound = size * count * f64::from(f32::EPSILON) + exact.abs() / 256.0 + 1e-9;
        let inside = !want.is_finite() || (got[at] - exact).abs() <= bound;
        assert!(inside, "{what}: element {at} is {}, far from {exact}", got[at]);
    });
}

/// A dimension: often around a stick, never large.
fn extent(rng: &mut Rng) -> i64 {
    let n = match rng.below(4) {
        0 => 1,
        1 => 1 + rng.below(9),
        2 => 60 + rng.below(10),
        _ => 1 + rng.below(150),
    };
    i64::try_from(n).unwrap()
}

#[test]
fn matmul_of_every_rank() {
    let card = common::card();
    let mut rng = Rng::new(11);
    for round in 0..250 {
        let (m, k, n) = (extent(&mut rng), extent(&mut rng), extent(&mut rng));
        let batch: Vec<i64> = (0..rng.below(3)).map(|_| 1 + rng.below(4) as i64).collect();
        let mut outer = || {
            let mut own: Vec<i64> =
                batch.iter().map(|n| if rng.chance(3) { 1 } else { *n }).collect();
            own.drain(..rng.below(own.len() + 1));
            own
        };
        let (mut a, mut b) = (outer(), outer());
        a.extend([m, k]);
        b.extend([k, n]);
        let (mut size_a, mut size_b) = (a.clone(), b.clone());
        // Vectors: without their dimension of one.
        if rng.chance(5) {
            a.truncate(0);
            a.extend([1, k]);
            size_a = vec![k];
        }
        if rng.chance(5) {
            b.truncate(0);
            b.extend([k, 1]);
            size_b = vec![k];
        }
        let sizes = Matrices::new(&a, &b);
        let mut out = sizes.c.clone();
        if size_b.len() == 1 {
            out.pop();
        }
        if size_a.len() == 1 {
            out.remove(out.len() - 1 - usize::from(size_b.len() != 1));
        }
        let dtype = KINDS[round % KINDS.len()];
        let (ta, xa) = random(&mut rng, &card, &size_a, dtype);
        let (tb, xb) = random(&mut rng, &card, &size_b, dtype);
        let what = format!("{dtype} {ta:?} {:?}, {tb:?} {:?}", ta.view(), tb.view());
        let c = run(&card, "matmul", &Value::Null, &[ta, tb]);
        assert_eq!(c[0].size(), out, "{what}");
        check_product(&c[0], &sizes, &xa, &xb, &what);
    }
}

#[test]
fn transposed_views_and_cores_change_nothing() {
    let card = common::card();
    let mut rng = Rng::new(12);
    let op = TensorOp::new("matmul", &Value::Null).unwrap();
    for dtype in [Dtype::Float16, Dtype::Float32] {
        for (m, k, n) in [(300, 70, 200), (1, 500, 700), (17, 129, 65), (33, 64, 1)] {
            let (ta, xa) = random(&mut rng, &card, &[k, m], dtype);
            let (tb, xb) = random(&mut rng, &card, &[n, k], dtype);
            let (ta, tb) = (
                ta.view_with(|v| v.transpose(0, 1)).unwrap(),
                tb.view_with(|v| v.transpose(0, 1)).unwrap(),
            );
            let turn = |x: &[f64], rows: i64, columns: i64| -> Vec<f64> {
                let one = |i: i64| usize::try_from(i).unwrap();
                let (rows, columns) = (one(rows), one(columns));
                (0..x.len()).map(|i| x[i % rows * columns + i / rows]).collect()
            };
            let (xa, xb) = (turn(&xa, k, m), turn(&xb, n, k));
            let sizes = Matrices::new(&[m, k], &[k, n]);
            for cores in [1, 2, 3, 7, 32] {
                let ran = op.run_on_cores(&card, &[ta.clone(), tb.clone()], cores).unwrap();
                check_product(&ran.outputs[0], &sizes, &xa, &xb, &format!("{m} {k} {n} {cores}"));
                assert!(ran.division.core_count() <= cores);
            }
        }
    }
}

#[test]
fn the_others_are_matmul() {
    let card = common::card();
    let mut rng = Rng::new(13);
    for dtype in KINDS {
        let mut of = |size: &[i64]| random(&mut rng, &card, size, dtype);
        let ((a, xa), (b, xb)) = (of(&[3, 37, 70]), of(&[3, 70, 130]));
        let c = run(&card, "bmm", &Value::Null, &[a, b]);
        check_product(&c[0], &Matrices::new(&[3, 37, 70], &[3, 70, 130]), &xa, &xb, "bmm");
        let ((a, xa), (b, xb)) = (of(&[37, 70]), of(&[70, 130]));
        let c = run(&card, "mm", &Value::Null, &[a, b]);
        check_product(&c[0], &Matrices::new(&[37, 70], &[70, 130]), &xa, &xb, "mm");
        let ((a, xa), (b, xb)) = (of(&[100]), of(&[90]));
        let c = run(&card, "outer", &Value::Null, &[a, b]);
        assert_eq!(c[0].size(), [100, 90]);
        check_product(&c[0], &Matrices::new(&[100, 1], &[1, 90]), &xa, &xb, "outer");
        let ((a, xa), (b, xb)) = (of(&[100]), of(&[100]));
        let c = run(&card, "dot", &Value::Null, &[a, b]);
        assert_eq!(c[0].size(), [0i64; 0]);
        check_product(&c[0], &Matrices::new(&[1, 100], &[100, 1]), &xa, &xb, "dot");
        let ((a, xa), (b, xb)) = (of(&[4, 100]), of(&[3, 1, 100]));
        let c = run(&card, "vecdot", &Value::Null, &[a, b]);
        assert_eq!(c[0].size(), [3, 4]);
        check_product(&c[0], &Matrices::new(&[4, 1, 100], &[3, 1, 100, 1]), &xa, &xb, "vecdot");
        let ((a, xa), (b, xb)) = (of(&[40, 100]), of(&[100]));
        let c = run(&card, "mv", &Value::Null, &[a, b]);
        check_product(&c[0], &Matrices::new(&[40, 100], &[100, 1]), &xa, &xb, "mv");
    }
}

#[test]
#[allow(clippy::cast_possible_truncation, reason = "elements are exact in float32")]
fn addends_scale_in_float32() {
    let card = common::card();
    let mut rng = Rng::new(14);
    for dtype in [Dtype::Float16, Dtype::Float32, Dtype::Int32] {
        for addend in [vec![37, 130], vec![130], vec![37, 1], vec![1, 1], vec![]] {
            let ((a, xa), (b, xb), (t, xt)) = (
                random(&mut rng, &card, &[37, 70], dtype),
                random(&mut rng, &card, &[70, 130], dtype),
                random(&mut rng, &card, &addend, dtype),
            );
            let sizes = Matrices::new(&[37, 70], &[70, 130]);
            let c = run(&card, "addmm", &json!({"alpha": 3, "beta": -2}), &[t, a, b]);
            let (got, sum) = (read(&c[0]), sums(&sizes, &xa, &xb));
            for (i, got) in got.iter().enumerate() {
                let x = xt[broadcast_index(i, &[37, 130], &addend)];
                let want = if dtype == Dtype::Int32 {
                    f64::from(sum[i]) * 3.0 - 2.0 * x
                } else {
                    rounded(f64::from(sum[i] * 3.0 + x as f32 * -2.0), c[0].format())
                };
                assert_eq!(*got, want, "{dtype} {addend:?}: element {i}");
            }
        }
    }
    // Without its factor the addend is not looked at.
    let t = |size: &[i64]| Tensor::empty(&card, size, Dtype::Float16).unwrap();
    let bad = t(&[3, 4]);
    bad.fill(f64::NAN).unwrap();
    let c = run(&card, "addmm", &json!({"beta": 0}), &[bad, t(&[3, 5]), t(&[5, 4])]);
    assert!(read(&c[0]).iter().all(|x| *x == 0.0));
    // No product at all: the addend alone.
    let one = t(&[4]);
    one.fill(1.5).unwrap();
    let c = run(&card, "addmm", &Value::Null, &[one, t(&[3, 0]), t(&[0, 4])]);
    assert!(read(&c[0]).iter().all(|x| *x == 1.5));
    let c = run(&card, "baddbmm", &Value::Null, &[t(&[1, 4]), t(&[2, 3, 5]), t(&[2, 5, 4])]);
    assert_eq!(c[0].size(), [2, 3, 4]);
}

#[test]
#[allow(clippy::cast_possible_truncation, reason = "elements are exact in float32")]
fn linear_takes_its_weight_transposed() {
    let card = common::card();
    let mut rng = Rng::new(15);
    for input in [vec![70], vec![5, 70], vec![2, 3, 70], vec![64, 1, 70]] {
        let (a, xa) = random(&mut rng, &card, &input, Dtype::Float16);
        let (w, xw) = random(&mut rng, &card, &[100, 70], Dtype::Float16);
        let (bias, xbias) = random(&mut rng, &card, &[100], Dtype::Float16);
        let rows = input.iter().product::<i64>() / 70;
        let turned: Vec<f64> = (0..xw.len()).map(|i| xw[i % 100 * 70 + i / 100]).collect();
        let sizes = Matrices::new(&[rows, 70], &[70, 100]);
        let c = run(&card, "linear", &Value::Null, &[a.clone(), w.clone()]);
        assert_eq!(c[0].size().last(), Some(&100));
        check_product(&c[0], &sizes, &xa, &turned, "linear");
        let c = run(&card, "linear", &Value::Null, &[a, w, bias]);
        let sum = sums(&sizes, &xa, &turned);
        for (i, got) in read(&c[0]).iter().enumerate() {
            let want = sum[i] + xbias[i % 100] as f32;
            assert_eq!(*got, rounded(f64::from(want), c[0].format()), "{input:?}: element {i}");
        }
    }
}

#[test]
#[allow(clippy::cast_possible_truncation, reason = "elements are exact in float32")]
fn eight_bit_floats_have_scales() {
    let card = common::card();
    let mut rng = Rng::new(16);
    let mut of = |size: &[i64], dtype| {
        let n: i64 = size.iter().product();
        let values: Vec<f64> = (0..n).map(|_| rng.below(200) as f64 / 16.0 - 6.0).collect();
        let t = tensor(&mut rng, &card, size, dtype, &values);
        let held = read(&t);
        (t, held)
    };
    let ((a, xa), (b, xb)) =
        (of(&[20, 200], Dtype::Float8E4m3fn), of(&[200, 150], Dtype::Float8E5m2));
    let sum = sums(&Matrices::new(&[20, 200], &[200, 150]), &xa, &xb);
    for (sa, sb) in [(vec![], vec![]), (vec![20, 1], vec![1, 150]), (vec![1], vec![150])] {
        let ((ta, xa), (tb, xb)) = (of(&sa, Dtype::Float32), of(&sb, Dtype::Float32));
        let (bias, xbias) = of(&[150], Dtype::Float16);
        let attributes = json!({"out_dtype": "float16"});
        let c = run(&card, "scaled_mm", &attributes, &[a.clone(), b.clone(), ta, tb, bias]);
        assert_eq!(c[0].dtype(), Dtype::Float16);
        for (i, got) in read(&c[0]).iter().enumerate() {
            let at = |x: &[f64], size: &[i64]| x[broadcast_index(i, &[20, 150], size)] as f32;
            let want = sum[i] * at(&xa, &sa) * at(&xb, &sb) + at(&xbias, &[150]);
            assert_eq!(*got, rounded(f64::from(want), c[0].format()), "{sa:?} {sb:?}: {i}");
        }
    }
}

#[test]
fn special_values_stay_in_their_rows_and_columns() {
    let card = common::card();
    let mut rng = Rng::new(17);
    let (m, k, n) = (9, 70, 100);
    let mut xa = vec![1.0; 9 * 70];
    let mut xb = vec![1.0; 70 * 100];
    xa[2 * 70 + 5] = f64::NAN;
    xa[3 * 70 + 69] = f64::INFINITY;
    xb[7 * 100 + 99] = f64::NEG_INFINITY;
    let ta = tensor(&mut rng, &card, &[m, k], Dtype::Bfloat16, &xa);
    let tb = tensor(&mut rng, &card, &[k, n], Dtype::Bfloat16, &xb);
    let (xa, xb) = (common::numbers(&ta), common::numbers(&tb));
    let c = run(&card, "mm", &Value::Null, &[ta, tb]);
    check_product(&c[0], &Matrices::new(&[m, k], &[k, n]), &xa, &xb, "specials");
    let clean = read(&c[0]).iter().filter(|x| **x == 70.0).count();
    assert_eq!(clean, 7 * 99);
}

#[test]
fn costs_are_those_of_the_slices() {
    // The stack whose batches in the default layout have a rate of their own.
    let hardware = zellige_machine::Hardware::built_in_preset("card-2026-05").unwrap();
    let card = zellige_device::Card::builder().hardware(hardware).build().unwrap();
    let t = |size: &[i64]| Tensor::empty(&card, size, Dtype::Float16).unwrap();
    let op = TensorOp::new("matmul", &Value::Null).unwrap();
    let ran = op.run_on_cores(&card, &[t(&[64, 100]), t(&[100, 130])], 1).unwrap();
    let totals = ran.step_costs().pop().unwrap().totals;
    assert_eq!(totals.macs_valid, 64 * 100 * 130);
    assert_eq!(totals.macs, 64 * 128 * 192);
    assert_eq!(totals.bytes_in, 64 * 128 * 2 + 100 * 192 * 2);
    assert_eq!(totals.bytes_out, 64 * 192 * 2);
    assert_eq!(ran.step_costs().len(), 1, "nothing had to be moved");
    // A row of A and its sums take 8448 bytes of the scratchpad: 190 of the 400 stay at a time, and
    // B is read three times. A stick of columns takes 524,544: 3 of the 10 stay, and A is read four
    // times, which is less.
    let ran = op.run_on_cores(&card, &[t(&[400, 4096]), t(&[4096, 640])], 1).unwrap();
    let totals = ran.step_costs().pop().unwrap().totals;
    let (a, b) = (400 * 4096 * 2, 4096 * 640 * 2);
    assert_eq!(totals.bytes_in, 4 * a + b);
    assert!(totals.lx_peak <= 1_677_721);
    // Batches that lie inside are slow.
    let inside = op.run_op(&card, &[t(&[8, 64, 64]), t(&[8, 64, 64])]).unwrap();
    let wide = t(&[8, 64, 64]).view_with(|v| v.select(0, 0)).unwrap();
    let outside = op.run_op(&card, &[wide.clone(), wide]).unwrap();
    let pt = |ran: &zellige_device::OpOutcome| {
        let cost = ran.step_costs().pop().unwrap();
        cost.latency.cores[0].pt as f64 / (cost.totals.macs as f64 / cost.totals.cores as f64)
    };
    assert!(pt(&inside) > 6.0 * pt(&outside));
}

#[test]
fn bad_operands_are_refused() {
    let card = common::card();
    let t = |size: &[i64], dtype| Tensor::empty(&card, size, dtype).unwrap();
    let say = |op: &str, inputs: &[Tensor]| {
        let op = TensorOp::new(op, &Value::Null).unwrap();
        op.run_op(&card, inputs).unwrap_err().to_string()
    };
    let half = |size: &[i64]| t(size, Dtype::Float16);
    assert_eq!(
        say("matmul", &[half(&[3, 4]), half(&[5, 6])]),
        "matmul: sizes [3, 4] and [5, 6] do not multiply: the first has 4 along the summed \
         dimension, the second 5"
    );
    for (op, inputs, text) in [
        ("matmul", vec![half(&[]), half(&[2])], "at least one dimension"),
        ("matmul", vec![half(&[2, 3, 4]), half(&[3, 4, 5])], "does not broadcast"),
        ("mm", vec![half(&[2, 3, 4]), half(&[4, 5])], "two matrices"),
        ("bmm", vec![half(&[2, 3, 4]), half(&[3, 4, 5])], "[b, m, k]"),
        ("matmul", vec![half(&[2, 3]), t(&[3, 4], Dtype::Float32)], "all have one dtype"),
        ("matmul", vec![half(&[2, 3])], "it takes 2 operands, not 1"),
        ("linear", vec![half(&[2, 3])], "it takes 2 to 3 operands, not 1"),
        ("linear", vec![half(&[2, 3]), half(&[4, 3]), half(&[5])], "does not broadcast to [2, 4]"),
        ("mm", vec![t(&[2, 3], Dtype::Bool), t(&[3, 4], Dtype::Bool)], "no bool"),
        (
            "mm",
            vec![t(&[2, 3], Dtype::Float8E5m2), t(&[3, 4], Dtype::Float8E5m2)],
            "`scaled_mm` multiplies 8-bit floats",
        ),
        ("scaled_mm", vec![half(&[2, 3]), half(&[3, 2]), half(&[]), half(&[])], "8-bit floats"),
    ] {
        let e = say(op, &inputs);
        assert!(e.contains(text), "{op}: {e}");
    }
    let e = TensorOp::new("scaled_mm", &json!({"out_dtype": "int8"})).unwrap_err().to_string();
    assert!(e.contains("`int8` is none of float16, bfloat16, float32"), "{e}");
    let add = TensorOp::new("addmm", &json!({"alpha": 0.5})).unwrap();
    let int = |size: &[i64]| t(size, Dtype::Int32);
    assert!(add.run_op(&card, &[int(&[4]), int(&[2, 3]), int(&[3, 4])]).is_err());
    // Empty ones are fine.
    let mm = TensorOp::new("mm", &Value::Null).unwrap();
    assert_eq!(
        mm.run_op(&card, &[half(&[0, 3]), half(&[3, 4])]).unwrap().outputs[0].size(),
        [0, 4]
    );
    let zero = mm.run_op(&card, &[half(&[2, 0]), half(&[0, 4])]).unwrap();
    assert!(read(&zero.outputs[0]).iter().all(|x| *x == 0.0));
}

/// One row goes through weights as they are stored, joined tiles and slower ways where codes are special, on every
/// instruction set: depths beside those of tiles and of joined tiles, columns beside a stick.
#[test]
fn one_row_on_every_instruction_set() {
    let card = common::card();
    let op = TensorOp::new("matmul", &Value::Null).unwrap();
    let mut rng = Rng::new(29);
    for dtype in [Dtype::Float16, Dtype::Float32] {
        for (k, n) in [(1, 64), (63, 70), (65, 64), (130, 300), (4096, 64), (4096 + 70, 100)] {
            let (row, weights) =
                (StridedLayout::new_contiguous(&[1, k]), StridedLayout::new_contiguous(&[k, n]));
            let sizes = Matrices::new(&[1, k], &[k, n]);
            let numbers = |rng: &mut Rng, count: i64| -> Vec<f64> {
                (0..count).map(|_| rng.number()).collect()
            };
            let xa = numbers(&mut rng, k);
            let mut xb = numbers(&mut rng, k * n);
            for special in [None, Some(f64::INFINITY), Some(f64::NAN)] {
                if let Some(special) = special {
                    let at = rng.below(xb.len());
                    xb[at] = special;
                }
                let put = |x: &[f64], host: &StridedLayout| {
                    let bytes = common::bytes_of(x, dtype);
                    Tensor::upload(&card, &bytes, host, dtype, None).unwrap().0
                };
                let a = put(&xa, row.as_ref().unwrap());
                let b = put(&xb, weights.as_ref().unwrap());
                let (xa, xb) = (common::numbers(&a), common::numbers(&b));
                for isa in Isa::all_available() {
                    let ran = isa.while_lowered(|| op.run_op(&card, &[a.clone(), b.clone()]));
                    let out = &ran.unwrap().outputs[0];
                    let what = format!("{isa} {dtype} 1x{k}x{n} with {special:?}");
                    let (got, want) = (read(out), sums(&sizes, &xa, &xb));
                    for (x, (got, want)) in got.iter().zip(&want).enumerate() {
                        let want = rounded(f64::from(*want), out.format());
                        let same = *got == want || got.is_nan() && want.is_nan();
                        assert!(same, "{what}: column {x} is {got}, not {want}");
                    }
                }
            }
        }
    }
}
