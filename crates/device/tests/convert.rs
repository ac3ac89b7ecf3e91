//! Conversions between dtypes, scaled float8, and results written into tensors that exist.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{Rng, bytes_of, holds, random, read, rounded, run, tensor};
use serde_json::{Value, json};
use zellige_device::RunOp;
use zellige_device::{Card, Tensor};
use zellige_float::Dtype;
use zellige_float::Format;
use zellige_layout::StridedLayout;
use zellige_op::TensorOp;
use zellige_stick::StickLayout;

const KINDS: [Dtype; 11] = [
    Dtype::Float16,
    Dtype::Float32,
    Dtype::Bfloat16,
    Dtype::Float8E4m3fn,
    Dtype::Float8E5m2,
    Dtype::Int32,
    Dtype::Int64,
    Dtype::Int16,
    Dtype::Int8,
    Dtype::Uint8,
    Dtype::Bool,
];

#[test]
fn every_dtype_to_every_other() {
    let card = common::card();
    let mut rng = Rng::new(11);
    for from in KINDS {
        for to in KINDS {
            for wide in [false, true] {
                let rank = rng.below(4);
                let size = rng.size(rank);
                let (t, x) = random(&mut rng, &card, &size, from);
                let out = &run(
                    &card,
                    "cast",
                    &json!({"dtype": to.name(), "wide": wide}),
                    std::slice::from_ref(&t),
                )[0];
                assert_eq!((out.dtype(), out.size()), (to, size.as_slice()));
                if wide && to == Dtype::Float32 {
                    assert_eq!(out.format(), Format::F32);
                }
                let float = |d: Dtype| zellige_device::host_format(d).unwrap().is_float();
                let want: Vec<f64> = x
                    .iter()
                    .map(|x| match to {
                        Dtype::Bool => f64::from(u8::from(*x != 0.0)),
                        Dtype::Uint8 if float(from) => rounded(*x, Format::U8),
                        Dtype::Uint8 => x.rem_euclid(256.0),
                        _ if float(to) || float(from) => rounded(*x, out.format()),
                        _ => common::wrapped(*x, out.format()),
                    })
                    .collect();
                holds(out, &want);
            }
        }
    }
    // 2^24 + 1 is no float32, and rounds once.
    let big = tensor(&mut rng, &card, &[2], Dtype::Int32, &[16_777_217.0, -16_777_219.0]);
    let out = &run(&card, "to", &json!({"dtype": "float32", "wide": true}), &[big])[0];
    holds(out, &[16_777_216.0, -16_777_220.0]);
    let odd = tensor(&mut rng, &card, &[4], Dtype::Float32, &[f64::NAN, 1e30, -1e30, -2.9]);
    holds(
        &run(&card, "to", &json!({"dtype": "int32"}), &[odd])[0],
        &[0.0, 2_147_483_647.0, -2_147_483_648.0, -2.0],
    );
}

#[test]
fn float8_with_a_scale() {
    let card = common::card();
    let mut rng = Rng::new(12);
    for (dtype, format, most) in [
        (Dtype::Float8E4m3fn, Format::F8E4M3FN, 448.0),
        (Dtype::Float8E5m2, Format::F8E5M2, 57_344.0),
    ] {
        let (t, x) = random(&mut rng, &card, &[5, 130], Dtype::Float16);
        for by_row in [false, true] {
            let size: &[i64] = if by_row { &[5, 1] } else { &[] };
            let n = size.iter().product::<i64>();
            let scales: Vec<f64> = (0..n).map(|i| 0.003 * (i + 1) as f64).collect();
            let s = tensor(&mut rng, &card, size, Dtype::Float32, &scales);
            let scales = read(&s);
            let inputs = [t.clone(), s.clone()];
            let q = &run(&card, "quantize_fp8", &json!({"dtype": dtype.name()}), &inputs)[0];
            let scale = |i: usize| if by_row { scales[i / 130] } else { scales[0] };
            #[allow(clippy::cast_possible_truncation, reason = "rounding is meant")]
            let want: Vec<f64> = x
                .iter()
                .enumerate()
                .map(|(i, x)| {
                    let y = f64::from((x / scale(i)) as f32).clamp(-most, most);
                    rounded(y, format)
                })
                .collect();
            assert_eq!(q.dtype(), dtype);
            holds(q, &want);
            let back = &run(&card, "dequantize_fp8", &Value::Null, &[q.clone(), s])[0];
            let want: Vec<f64> = want
                .iter()
                .enumerate()
                .map(|(i, q)| rounded(q * scale(i), back.format()))
                .collect();
            holds(back, &want);
        }
    }
    assert!(TensorOp::new("quantize_fp8", &json!({"dtype": "int8"})).is_err());
}

/// A float16 tensor of row-major numbers in the default layout.
fn counted(card: &Card, size: &[i64]) -> Tensor {
    let n = size.iter().product::<i64>();
    let values: Vec<f64> = (0..n).map(|i| (i % 200) as f64).collect();
    let bytes = bytes_of(&values, Dtype::Float16);
    Tensor::upload(
        card,
        &bytes,
        &StridedLayout::new_contiguous(size).unwrap(),
        Dtype::Float16,
        None,
    )
    .unwrap()
    .0
}

#[test]
fn in_place_and_into_views() {
    let card = common::card();
    let mut rng = Rng::new(13);
    let add = TensorOp::new("add", &Value::Null).unwrap();
    // In place: no memory beyond the operands, one cost.
    let (a, b) = (counted(&card, &[6, 130]), counted(&card, &[1, 130]));
    let (x, y) = (read(&a), read(&b));
    let before = card.memory().stats().allocated;
    let ran = add.run_into(&card, &[a.clone(), b.clone()], std::slice::from_ref(&a)).unwrap();
    assert_eq!((card.memory().stats().allocated, ran.step_costs().len()), (before, 1));
    let want: Vec<f64> = (0..780).map(|i| x[i] + y[i % 130]).collect();
    holds(&a, &want);
    // Shifted within one tensor: rows 1.. become rows ..n-1 plus row 0, as if computed first.
    let t = counted(&card, &[6, 130]);
    let x = read(&t);
    let rows =
        |from: i64, to: i64| t.view_with(|v| v.slice_dim(0, Some(from), Some(to), 1)).unwrap();
    let before = card.stats().operations;
    let ran = add.run_into(&card, &[rows(0, 5), rows(0, 1)], &[rows(1, 6)]).unwrap();
    assert_eq!(card.stats().operations - before, ran.receipts.len() as u64, "nothing twice");
    let want: Vec<f64> =
        (0..780).map(|i| if i < 130 { x[i] } else { x[i - 130] + x[i % 130] }).collect();
    holds(&t, &want);
    // An operand that has to be moved beside one that shares the output's memory: given up in place,
    // and the move is charged once.
    let order = [1, 0];
    let across = StickLayout::with_dim_order(&[5, 130], None, Dtype::Float16, &order).unwrap();
    let across = Tensor::zeros(&card, Dtype::Float16, &across).unwrap();
    let before = card.stats().operations;
    let ran = add.run_into(&card, &[rows(0, 5), across], &[rows(1, 6)]).unwrap();
    assert_eq!(card.stats().operations - before, ran.receipts.len() as u64, "nothing twice");
    // The transpose of itself.
    let t = counted(&card, &[70, 70]);
    let x = read(&t);
    let turned = t.view_with(|v| v.transpose(0, 1)).unwrap();
    let before = card.stats().operations;
    let ran = add.run_into(&card, &[t.clone(), turned], std::slice::from_ref(&t)).unwrap();
    assert_eq!(card.stats().operations - before, ran.receipts.len() as u64, "nothing twice");
    let want: Vec<f64> = (0..4900).map(|i| x[i] + x[i % 70 * 70 + i / 70]).collect();
    holds(&t, &want);
    // Columns from the first one that end inside a stick: the lanes behind them are somebody else's.
    for (from, to) in [(0, 2), (0, 66), (64, 70), (64, 130), (0, 128)] {
        let t = counted(&card, &[6, 130]);
        let x = read(&t);
        let part = t.view_with(|v| v.slice_dim(1, Some(from), Some(to), 1)).unwrap();
        let own = |i: usize| (from..to).contains(&(i as i64 % 130));
        for _ in 0..2 {
            add.run_again(
                &card,
                zellige_device::StreamId::DEFAULT,
                &[part.clone(), part.clone()],
                Some(std::slice::from_ref(&part)),
            )
            .unwrap();
        }
        let want: Vec<f64> = (0..780).map(|i| if own(i) { 4.0 * x[i] } else { x[i] }).collect();
        holds(&t, &want);
    }
    // Any layout, a slice that begins inside a stick, another dtype.
    for _ in 0..60 {
        let rank = 1 + rng.below(3);
        let size = rng.size(rank);
        let (a, xa) = random(&mut rng, &card, &size, Dtype::Float16);
        let (b, xb) = random(&mut rng, &card, &size, Dtype::Int8);
        let dtype = if rng.chance(2) { Dtype::Float16 } else { Dtype::Float32 };
        let (out, _) = random(&mut rng, &card, &size, dtype);
        add.run_into(&card, &[a, b], std::slice::from_ref(&out)).unwrap();
        let want: Vec<f64> = xa
            .iter()
            .zip(&xb)
            .map(|(a, b)| rounded(rounded(a + b, Format::F32), Format::DL16))
            .collect();
        holds(&out, &want);
    }
}

#[test]
fn outputs_that_do_not_fit_are_refused() {
    let card = common::card();
    let t = |size: &[i64], dtype: Dtype| Tensor::empty(&card, size, dtype).unwrap();
    let add = TensorOp::new("add", &Value::Null).unwrap();
    let x = t(&[3, 70], Dtype::Float16);
    let say = |outs: &[Tensor]| {
        add.run_into(&card, &[x.clone(), x.clone()], outs).unwrap_err().to_string()
    };
    assert_eq!(say(&[]), "add: it has 1 results, not 0");
    assert_eq!(
        say(&[t(&[3, 71], Dtype::Float16)]),
        "add: result and output 0: sizes [3, 70] and [3, 71] differ"
    );
    assert_eq!(say(&[t(&[3, 70], Dtype::Int32)]), "add: a float16 result does not go into int32");
    let other = zellige_device::Card::builder().index(1).build().unwrap();
    let elsewhere = Tensor::empty(&other, &[3, 70], Dtype::Float16).unwrap();
    assert_eq!(say(&[elsewhere]), "add: output 0 is on card 1, not 0");
    let one = t(&[1, 70], Dtype::Float16).view_with(|v| v.expand(&[3, 70])).unwrap();
    say(&[one]);
    let sparse = StickLayout::with_dim_order(&[3], None, Dtype::Float16, &[0, -1]).unwrap();
    let sparse = Tensor::zeros(&card, Dtype::Float16, &sparse).unwrap();
    let ones = TensorOp::new("ones", &json!({"size": [3]})).unwrap();
    // A float32 result into a float16 tensor: floats go into floats.
    ones.run_into(&card, &[], std::slice::from_ref(&sparse)).unwrap();
    holds(&sparse, &[1.0; 3]);
}
