//! Reductions split over cores.

use crate::RunOp;
use crate::run::launch::launch_kernel;
use crate::{Card, Tensor, WorkDivision};
use serde_json::json;
use zellige_float::Dtype;
use zellige_layout::StridedLayout;
use zellige_op::TensorOp;
use zellige_stick::{DataFormat, StickLayout};

const SIZE: [i64; 3] = [6, 10, 300];

fn tensor(card: &Card, order: &[i64], dtype: Dtype) -> (Tensor, Vec<f32>) {
    let format =
        if dtype == Dtype::Float32 { DataFormat::IEEE_FP32 } else { DataFormat::IEEE_INT32 };
    let layout = StickLayout::with_dim_order_in_format(&SIZE, None, format, order).unwrap();
    let t = Tensor::zeros(card, dtype, &layout).unwrap();
    let mut state = 1u32;
    let x: Vec<f32> = (0..6 * 10 * 300)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let n = (state >> 20) as f32 - 2048.0;
            if dtype == Dtype::Float32 { n / 7.0 } else { n }
        })
        .collect();
    let bytes: Vec<u8> = x.iter().flat_map(|v| v.to_le_bytes()).collect();
    t.write_from(&bytes, &StridedLayout::new_contiguous(&SIZE).unwrap(), Dtype::Float32).unwrap();
    (t, x)
}

fn read(t: &Tensor) -> Vec<f64> {
    let bytes = t.download(Dtype::Float64).unwrap();
    bytes.chunks(8).map(|b| f64::from_le_bytes(b.try_into().unwrap())).collect()
}

fn split(
    op: &TensorOp,
    t: &Tensor,
    like: &[Tensor],
    splits: &[usize],
) -> (Vec<Tensor>, zellige_machine::OperationWork) {
    let outputs: Vec<Tensor> = like
        .iter()
        .map(|o| Tensor::zeros(o.card(), o.dtype(), o.stick_layout()).unwrap())
        .collect();
    let space = crate::kernels::find_kernel(op).iteration_space(
        &[t.stick_form().unwrap()],
        &like.iter().map(|o| o.stick_form().unwrap()).collect::<Vec<_>>(),
    );
    let division = WorkDivision::new(splits, &space, 32).unwrap();
    let inputs = std::slice::from_ref(t);
    let work = launch_kernel(op, inputs, &outputs, Some(&division), 32).unwrap().work;
    (outputs, work)
}

#[test]
fn split_reductions_join_in_core_order() {
    let card = Card::builder().build().unwrap();
    for (order, dim, splits) in [
        ([0, 1, 2], json!([2]), vec![2, 2, 3]),
        ([0, 1, 2], json!([0, 2]), vec![2, 3, 4]),
        ([2, 0, 1], json!([0, 2]), vec![1, 2, 5]),
        ([0, 1, 2], json!([0, 1]), vec![2, 6, 2]),
        ([0, 1, 2], json!([0, 1, 2]), vec![2, 5, 3]),
    ] {
        for dtype in [Dtype::Float32, Dtype::Int32] {
            let (t, _) = tensor(&card, &order, dtype);
            let names: &[&str] = if dtype == Dtype::Float32 {
                &["sum", "mean", "amax", "var_mean", "logsumexp", "count_nonzero", "exx2"]
            } else {
                &["sum", "prod", "amin", "any", "count_nonzero"]
            };
            for name in names {
                let op = TensorOp::new(name, &json!({"dim": dim})).unwrap();
                let whole = op.run_op(&card, std::slice::from_ref(&t)).unwrap().outputs;
                let (parts, work) = split(&op, &t, &whole, &splits);
                let (again, _) = split(&op, &t, &whole, &splits);
                for ((a, b), c) in whole.iter().zip(&parts).zip(&again) {
                    let (a, b, c) = (read(a), read(b), read(c));
                    assert!(b == c, "{name}: two runs of one division differ");
                    let close = |(a, b): (&f64, &f64)| {
                        if dtype == Dtype::Float32 {
                            (a - b).abs() <= 1e-3 + 1e-5 * a.abs()
                        } else {
                            a == b
                        }
                    };
                    assert!(a.iter().zip(&b).all(close), "{name} {dim} {order:?} {splits:?}");
                }
                // Partial results cross the links of a group; two passes go back and forth.
                let kept = splits.len() - dim.as_array().unwrap().len();
                let group: usize = splits[kept..].iter().product();
                let groups = work.cores.len() / group;
                let two = matches!(*name, "var_mean" | "logsumexp");
                let hops: u64 = work.cores.iter().flat_map(|c| &c.ring).map(|m| m.hops).sum();
                assert_eq!(hops, (groups * (group - 1) * if two { 3 } else { 1 }) as u64);
                let writers = work.cores.iter().filter(|c| c.writes.total_bytes() > 0).count();
                assert_eq!(writers, groups);
            }
        }
    }
}

#[test]
fn the_order_of_a_split_sum_and_places_are_those_of_the_whole() {
    let card = Card::builder().build().unwrap();
    let (t, x) = tensor(&card, &[0, 1, 2], Dtype::Float32);
    let sum = TensorOp::new("sum", &json!({"dim": [0, 1]})).unwrap();
    let whole = sum.run_op(&card, std::slice::from_ref(&t)).unwrap().outputs;
    let (parts, _) = split(&sum, &t, &whole, &[1, 2, 5]);
    let want: Vec<f64> = (0..300)
        .map(|c| {
            // Core order, the first summed dimension fastest: fifths of dimension 1, in each the halves of dimension 0.
            let mut all = 0f32;
            for (core, (half, fifth)) in
                (0..5).flat_map(|f| (0..2).map(move |h| (h, f))).enumerate()
            {
                let mut part = 0f32;
                for i in half * 3..half * 3 + 3 {
                    for j in fifth * 2..fifth * 2 + 2 {
                        part += x[(i * 10 + j) * 300 + c];
                    }
                }
                all = if core == 0 { part } else { all + part };
            }
            f64::from(all)
        })
        .collect();
    assert!(read(&parts[0]) == want);
    for name in ["argmax", "argmin"] {
        let op = TensorOp::new(name, &json!({})).unwrap();
        let whole = op.run_op(&card, std::slice::from_ref(&t)).unwrap().outputs;
        let (parts, _) = split(&op, &t, &whole, &[3, 2, 5]);
        assert!(read(&whole[0]) == read(&parts[0]));
    }
}
