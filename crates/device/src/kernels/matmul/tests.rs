//! Splits of the summed dimension, which only a division given by hand has.

use crate::run::launch::{LaunchOutcome, launch_kernel};
use crate::{Card, Tensor, WorkDivision};
use serde_json::Value;
use zellige_float::Dtype;
use zellige_layout::StridedLayout;
use zellige_op::TensorOp;
use zellige_stick::{DataFormat, StickLayout};

/// A tensor of float32, wide.
fn wide(card: &Card, size: &[i64], values: &[f32]) -> Tensor {
    let layout = StickLayout::default_in_format(size, None, DataFormat::IEEE_FP32).unwrap();
    let t = Tensor::zeros(card, Dtype::Float32, &layout).unwrap();
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    t.write_from(&bytes, &StridedLayout::new_contiguous(size).unwrap(), Dtype::Float32).unwrap();
    t
}

fn numbers(n: usize, seed: usize) -> Vec<f32> {
    (0..n).map(|i| ((i + seed) * 2_654_435_761 % 1013) as f32 / 31.0 - 16.0).collect()
}

#[test]
fn sums_of_split_depths_are_added_in_the_order_of_cores() {
    let card = Card::builder().build().unwrap();
    let (m, k, n) = (13, 300, 70);
    let (xa, xb) = (numbers(m * k, 1), numbers(k * n, 2));
    let a = wide(&card, &[13, 300], &xa);
    let b = wide(&card, &[300, 70], &xb);
    let op = TensorOp::new("mm", &Value::Null).unwrap();
    for splits in [[1, 1, 1], [1, 1, 2], [2, 1, 3], [1, 3, 10], [3, 2, 5]] {
        let c = wide(&card, &[13, 70], &numbers(m * n, 3));
        let space = crate::kernels::find_kernel(&op).iteration_space(
            &[a.stick_form().unwrap(), b.stick_form().unwrap()],
            &[c.stick_form().unwrap()],
        );
        let division = WorkDivision::new(&splits, &space, 32).unwrap();
        let LaunchOutcome { division: used, work, .. } = launch_kernel(
            &op,
            &[a.clone(), b.clone()],
            std::slice::from_ref(&c),
            Some(&division),
            32,
        )
        .unwrap();
        assert_eq!(used.splits(), splits);
        let bytes = c.download(Dtype::Float32).unwrap();
        let got: Vec<f32> =
            bytes.chunks(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
        let ranges: Vec<_> =
            (0..splits[2]).map(|core| division.core_slice(core, &space)[2].clone()).collect();
        for i in 0..m {
            for j in 0..n {
                let parts = ranges.iter().map(|range| {
                    range.clone().fold(0f32, |s, p| xa[i * k + p].mul_add(xb[p * n + j], s))
                });
                let want = parts.reduce(|sum, part| sum + part).unwrap();
                assert_eq!(got[i * n + j].to_bits(), want.to_bits(), "{splits:?} {i} {j}");
            }
        }
        // The partial sums travel: every group of cores has one chain.
        let hops = splits[2] as u64 - 1;
        let rows: u64 = 13;
        assert_eq!(work.sum_over_cores().ring_bytes, hops * rows * 96 * 4);
        assert_eq!(work.sum_over_cores().macs_valid, (m * k * n) as u64);
        assert_eq!(work.sum_over_cores().bytes_out, 13 * 96 * 4);
    }
}
