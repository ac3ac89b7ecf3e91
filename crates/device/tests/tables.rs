//! Results by a table of all codes against results by the formula.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use serde_json::{Value, json};
use zellige_device::{Card, RunOp, Tensor};
use zellige_float::{Converter, Dtype, Format};
use zellige_layout::StridedLayout;
use zellige_op::TensorOp;

const CODES: usize = 1 << 16;

/// Every number of DLFloat16, `times` times over, in a tensor of this size.
fn every_code(card: &Card, size: &[i64], times: usize) -> Tensor {
    let codes: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
    let mut numbers = vec![0; CODES * 4];
    Converter::new(Format::DL16INF, Format::F32).convert(&codes, &mut numbers, CODES).unwrap();
    let host = StridedLayout::new_contiguous(size).unwrap();
    Tensor::upload(card, &numbers.repeat(times), &host, Dtype::Float32, None).unwrap().0
}

fn results(card: &Card, x: &Tensor, name: &str, attributes: &Value) -> Vec<u8> {
    let out = TensorOp::new(name, attributes)
        .unwrap()
        .run_op(card, std::slice::from_ref(x))
        .unwrap()
        .outputs;
    out[0].download(Dtype::Float32).unwrap()
}

/// A table is used from a million elements on: sixteen times every code. A third size ends inside of sticks.
#[test]
fn tables_have_the_bits_of_the_formulas() {
    let card = common::card();
    let few = every_code(&card, &[1024, 64], 1);
    let many = every_code(&card, &[16 * 1024, 64], 16);
    let ragged = every_code(&card, &[32 * 512, 128], 32)
        .view_with(|v| v.slice_dim(1, Some(0), Some(100), 1));
    let ragged = ragged.unwrap();
    for (name, attributes) in [
        ("gelu", json!({})),
        ("gelu", json!({"approximate": "tanh"})),
        ("exp", json!({})),
        ("tanh", json!({})),
        ("silu", json!({})),
        ("log", json!({})),
    ] {
        let formula = results(&card, &few, name, &attributes);
        let table = results(&card, &many, name, &attributes);
        assert!(table == formula.repeat(16), "{name} {attributes}");
        let part = results(&card, &ragged, name, &attributes);
        for (row, found) in part.chunks_exact(400).enumerate() {
            let first = row * 128 % CODES * 4;
            assert!(found == &formula[first..first + 400], "{name} {attributes}, row {row}");
        }
    }
}

/// A result that takes the place of its operand.
#[test]
fn a_table_works_in_place() {
    let card = common::card();
    let x = every_code(&card, &[16 * 1024, 64], 16);
    let op = TensorOp::new("exp", &json!({})).unwrap();
    let due = results(&card, &x, "exp", &json!({}));
    op.run_into(&card, std::slice::from_ref(&x), std::slice::from_ref(&x)).unwrap();
    assert!(x.download(Dtype::Float32).unwrap() == due);
}
