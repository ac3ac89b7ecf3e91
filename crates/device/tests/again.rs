//! Operations that come again give what they gave, on other elements too.

use serde_json::json;
use zellige_device::{Card, RunOp, StreamId, Tensor, copy_again};
use zellige_float::Dtype;
use zellige_layout::StridedLayout;
use zellige_machine::WorkKind;
use zellige_op::TensorOp;

fn tensor(card: &Card, size: &[i64], seed: i64) -> Tensor {
    let n = size.iter().product::<i64>();
    let bytes: Vec<u8> =
        (0..n).flat_map(|i| (((i * 37 + seed * 11) % 19) as f32 - 9.0).to_le_bytes()).collect();
    let host = StridedLayout::new_contiguous(size).expect("a small size");
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
        let op = TensorOp::new(name, &attributes).unwrap();
        for round in 0..3 {
            let on = |card: &Card| -> Vec<Tensor> {
                sizes.iter().zip(0..).map(|(s, i)| tensor(card, s, round * 5 + i)).collect()
            };
            let again = op.run_again(&card, StreamId::DEFAULT, &on(&card), None).unwrap();
            let first = op.run_op(&other, &on(&other)).unwrap();
            assert_eq!(again.receipts, first.receipts, "{name} in round {round}");
            assert_eq!(again.division, first.division, "{name} in round {round}");
            for (a, b) in again.outputs.iter().zip(&first.outputs) {
                assert_eq!(
                    (a.stick_layout(), a.view(), a.dtype()),
                    (b.stick_layout(), b.view(), b.dtype())
                );
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
    let op = TensorOp::new("sub", &json!({})).unwrap();
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
    let op = TensorOp::new("add", &json!({})).unwrap();
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

/// A tensor of this size behind a transposed view, a slice, or a broadcast of another one.
fn viewed(card: &Card, size: &[i64], seed: i64, kind: usize) -> Tensor {
    let rank = size.len();
    let mut stored = size.to_vec();
    match kind {
        1 => stored.reverse(),
        2 => stored[rank - 1] += 64,
        3 => stored[0] = 1,
        _ => {}
    }
    let t = tensor(card, &stored, seed);
    let view = t.view_with(|v| match kind {
        1 => {
            let dims: Vec<i64> = (0..i64::try_from(rank).expect("small")).rev().collect();
            v.permute(&dims)
        }
        2 => v.slice_dim(-1, Some(32), Some(size[rank - 1] + 32), 1),
        3 => v.expand(size),
        _ => Ok(v.clone()),
    });
    view.expect("a view of the base")
}

fn bytes(t: &Tensor) -> Vec<u8> {
    t.download(t.dtype()).expect("it can be read")
}

/// Operands that kernels cannot read as they are laid out are copied first; those copies come again as well.
#[test]
fn operands_that_are_copied_first_come_again_too() {
    let (card, other) = (Card::builder().build().unwrap(), Card::builder().build().unwrap());
    let cases: [(&str, serde_json::Value, &[&[i64]]); 9] = [
        ("add", json!({}), &[&[70, 70], &[70, 70]]),
        ("mul", json!({}), &[&[3, 70, 130], &[3, 70, 130]]),
        ("neg", json!({}), &[&[2, 16, 8]]),
        ("matmul", json!({}), &[&[70, 130], &[130, 70]]),
        ("linear", json!({}), &[&[5, 70], &[33, 70]]),
        ("sum", json!({"dim": 0}), &[&[70, 130]]),
        ("softmax", json!({"dim": -1}), &[&[70, 130]]),
        ("cat", json!({"dim": 1}), &[&[4, 70], &[4, 5]]),
        ("flip", json!({"dims": [0]}), &[&[5, 70]]),
    ];
    let (mut compared, mut copied) = (0, 0);
    for (name, attributes, sizes) in cases {
        let op = TensorOp::new(name, &attributes).unwrap();
        for kinds in 0..16 {
            for round in 0..3 {
                let on = |card: &Card| -> Vec<Tensor> {
                    let make = |(i, s): (usize, &&[i64])| {
                        viewed(card, s, round * 5 + i as i64, kinds >> (2 * i) & 3)
                    };
                    sizes.iter().enumerate().map(make).collect()
                };
                let again = op.run_again(&card, StreamId::DEFAULT, &on(&card), None).unwrap();
                let first = op.run_op(&other, &on(&other)).unwrap();
                let what = format!("{name}, views {kinds}, round {round}");
                assert_eq!(again.receipts, first.receipts, "{what}");
                assert_eq!(again.division, first.division, "{what}");
                for (a, b) in again.outputs.iter().zip(&first.outputs) {
                    assert_eq!(
                        (a.stick_layout(), a.view()),
                        (b.stick_layout(), b.view()),
                        "{what}"
                    );
                    assert!(bytes(a) == bytes(b), "{what}: other elements");
                }
                compared += 1;
                copied += usize::from(again.receipts.len() > 1);
            }
        }
    }
    assert_eq!(compared, 9 * 16 * 3);
    assert!(copied > 50, "only {copied} runs copied an operand");
}

/// Results that go into views, into tensors of another dtype, and over their own operands.
#[test]
fn results_that_are_copied_into_their_place_come_again_too() {
    let (card, other) = (Card::builder().build().unwrap(), Card::builder().build().unwrap());
    let stream = StreamId::new(3).unwrap();
    let op = TensorOp::new("sub", &json!({})).unwrap();
    let size = [70, 130];
    for operands in 0..4 {
        for target in 0..4 {
            for round in 0..3 {
                let results = [&card, &other].map(|card| {
                    let kind = |i: usize| operands >> i & 1;
                    let x = viewed(card, &size, round, kind(0));
                    let y = viewed(card, &size, round + 7, kind(1));
                    let out = match target {
                        0 => viewed(card, &size, 3, 0),
                        1 => viewed(card, &size, 3, 1),
                        // The transposed view of an operand: every element is read before it is written.
                        2 => x.clone(),
                        _ => viewed(card, &size, 3, 2),
                    };
                    let into = std::slice::from_ref(&out);
                    let ran = if card == &other {
                        op.run_into(card, &[x, y], into).unwrap()
                    } else {
                        op.run_again(card, stream, &[x, y], Some(into)).unwrap()
                    };
                    (ran.step_costs(), bytes(&out.base()))
                });
                let what = format!("operands {operands}, target {target}, round {round}");
                assert_eq!(results[0].0, results[1].0, "{what}");
                assert!(results[0].1 == results[1].1, "{what}: other elements");
            }
        }
    }
    // All of it was entered in the stream that was named, the first runs too.
    let clock = |stream| card.stream_time(stream);
    assert_eq!(clock(StreamId::DEFAULT), zellige_machine::SimulatedTime::ZERO);
    assert!(clock(stream) > zellige_machine::SimulatedTime::ZERO);
}

/// Heads of 48 elements in sticks of 32 form no layout of the block: their storage is unfolded first, and that comes again
/// as well.
#[test]
fn views_that_form_no_layout_come_again_too() {
    let (card, other) = (Card::builder().build().unwrap(), Card::builder().build().unwrap());
    let heads = |card: &Card, seed: i64| {
        let whole = tensor(card, &[6, 4 * 48], seed);
        whole.view_with(|_| StridedLayout::new(&[4, 6, 16], &[48, 192, 1], 8)).unwrap()
    };
    for name in ["neg", "add", "clone"] {
        let op = TensorOp::new(name, &json!({})).unwrap();
        let operands = if name == "add" { 2 } else { 1 };
        for round in 0..3 {
            let on = |card: &Card| -> Vec<Tensor> {
                (0..operands).map(|i| heads(card, round * 3 + i)).collect()
            };
            assert!(
                on(&card)[0].tensor_layout().element_layout().is_err(),
                "the view forms a layout"
            );
            let again = op.run_again(&card, StreamId::DEFAULT, &on(&card), None).unwrap();
            let first = op.run_op(&other, &on(&other)).unwrap();
            assert_eq!(again.receipts, first.receipts, "{name}, round {round}");
            assert!(bytes(&again.outputs[0]) == bytes(&first.outputs[0]), "{name}: other elements");
        }
    }
}

/// Copies into tensors that exist: elements and accounts are those of the copy itself.
#[test]
fn copies_come_again_too() {
    let (card, other) = (Card::builder().build().unwrap(), Card::builder().build().unwrap());
    let size = [3, 70, 130];
    for from in 0..4 {
        for to in [0, 1, 2] {
            for round in 0..3 {
                let make =
                    |card: &Card| (viewed(card, &size, round, from), viewed(card, &size, 9, to));
                let (source, target) = make(&card);
                let before = card.stream_time(StreamId::DEFAULT);
                copy_again(StreamId::DEFAULT, &source, &target).unwrap();
                let (plain, expected) = make(&other);
                let work =
                    expected.copy_from(&plain).unwrap().device_work("copy", WorkKind::Copy, 32);
                let receipt = other.account_work(StreamId::DEFAULT, &work).unwrap();
                let what = format!("from {from} to {to}, round {round}");
                assert!(bytes(&target.base()) == bytes(&expected.base()), "{what}: other elements");
                assert_eq!(
                    card.stream_time(StreamId::DEFAULT) - before,
                    receipt.span.end - receipt.span.start,
                    "{what}"
                );
            }
        }
    }
    // A copy over its own source reads everything first, every time.
    for _ in 0..2 {
        let whole = tensor(&card, &[70, 70], 4);
        let turned = whole.view_with(|v| v.permute(&[1, 0])).unwrap();
        let expected = bytes(&turned);
        copy_again(StreamId::DEFAULT, &turned, &whole).unwrap();
        assert!(bytes(&whole) == expected);
    }
    let small = tensor(&card, &[3, 5], 1);
    assert!(copy_again(StreamId::DEFAULT, &small, &tensor(&card, &[5, 3], 1)).is_err());
}
