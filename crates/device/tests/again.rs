//! Operations that come again give what they gave, on other elements too.

use serde_json::json;
use zellige_device::RunOp;
use zellige_device::{Card, StreamId, Tensor};
use zellige_float::Dtype;
use zellige_layout::Strided;
use zellige_op::Op;

fn tensor(card: &Card, size: &[i64], seed: i64) -> Tensor {
    let n = size.iter().product::<i64>();
    let bytes: Vec<u8> =
        (0..n).flat_map(|i| (((i * 37 + seed * 11) % 19) as f32 - 9.0).to_le_bytes()).collect();
    let host = Strided::contiguous(size).expect("a small size");
    Tensor::upload(card, &bytes, &host, Dtype::Float32, None).expect("it fits").0
}

#[test]
fn what_comes_again_is_as_if_it_came_first() {
    let (card, other) = (Card::builder().build().unwrap(), Card::builder().build().unwrap());
    let cases: [(&str, serde_json::Value, &[&[i64]]); 8] = [
        ("add", json!({}), &[&[5, 70], &[5, 70]]),
        ("add", json!({}), &[&[5, 70], &[70]]),
        ("sum", json!({"dim": 1}), &[&[5, 700]]),
        ("sum", json!({}), &[&[5, 7000]]),
        ("softmax", json!({"dim": 0}), &[&[5, 70]]),
        ("matmul", json!({}), &[&[5, 70], &[70, 3]]),
        ("layer_norm", json!({"normalized_shape": [70]}), &[&[5, 70], &[70], &[70]]),
        ("cat", json!({"dim": 0}), &[&[5, 70], &[2, 70]]),
    ];
    for (name, attributes, sizes) in cases {
        let op = Op::new(name, &attributes).unwrap();
        for round in 0..3 {
            let on = |card: &Card| -> Vec<Tensor> {
                sizes.iter().zip(0..).map(|(s, i)| tensor(card, s, round * 5 + i)).collect()
            };
            let again = op.run_again(&card, StreamId::DEFAULT, &on(&card), None).unwrap();
            let first = op.run(&other, &on(&other)).unwrap();
            assert_eq!(again.receipts, first.receipts, "{name} in round {round}");
            assert_eq!(again.division, first.division, "{name} in round {round}");
            for (a, b) in again.outputs.iter().zip(&first.outputs) {
                assert_eq!((a.layout(), a.view(), a.dtype()), (b.layout(), b.view(), b.dtype()));
                let (a, b) = (a.download(a.dtype()).unwrap(), b.download(b.dtype()).unwrap());
                let differs = a.iter().zip(&b).position(|(x, y)| x != y);
                assert_eq!(differs, None, "{name} in round {round}: the first byte that differs");
            }
        }
    }
}

#[test]
fn results_in_place_are_those_of_run_into() {
    let (card, other) = (Card::builder().build().unwrap(), Card::builder().build().unwrap());
    let op = Op::new("sub", &json!({})).unwrap();
    for round in 0..3 {
        // The result takes the place of the first operand, then of the second, then of none.
        for target in 0..3 {
            let results = [&card, &other].map(|card| {
                let t: Vec<Tensor> = (0..3).map(|i| tensor(card, &[9, 130], round + i)).collect();
                let out = std::slice::from_ref(&t[target]);
                let ran = if card == &other {
                    op.run_into(card, &t[..2], out)
                } else {
                    op.run_again(card, StreamId::DEFAULT, &t[..2], Some(out))
                };
                assert_eq!(ran.unwrap().receipts.len(), 1);
                t[target].download(Dtype::Float32).unwrap()
            });
            let differs = results[0].iter().zip(&results[1]).position(|(x, y)| x != y);
            assert_eq!(differs, None, "target {target} in round {round}");
        }
    }
}

#[test]
fn another_card_or_an_operand_that_is_refused_is_still_refused() {
    let (card, other) = (Card::builder().build().unwrap(), Card::builder().build().unwrap());
    let op = Op::new("add", &json!({})).unwrap();
    let (a, b) = (tensor(&card, &[4, 70], 1), tensor(&card, &[4, 70], 2));
    let foreign = tensor(&other, &[4, 70], 2);
    let run = |x: &Tensor, y: &Tensor| {
        op.run_again(&card, StreamId::DEFAULT, &[x.clone(), y.clone()], None)
    };
    for _ in 0..2 {
        run(&a, &b).unwrap();
        assert!(run(&a, &foreign).is_err());
        assert!(run(&a, &tensor(&card, &[4, 71], 2)).is_err());
    }
}
