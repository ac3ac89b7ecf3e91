//! Numbers past the 16 bits of the card.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::{Value, json};
use zellige_device::RunOp;
use zellige_device::{Card, KeptDtypes, Tensor};
use zellige_float::Dtype;
use zellige_layout::StridedLayout;
use zellige_op::TensorOp;
use zellige_stick::{DataFormat, StickLayout};

/// What stands for an infinity: `2^31 (1 + 510/512)`.
const STANDS: f32 = 4_286_578_688.0;
const INF: f32 = f32::INFINITY;

fn up(card: &Card, x: &[f32]) -> Tensor {
    let bytes: Vec<u8> = x.iter().flat_map(|v| v.to_le_bytes()).collect();
    let host = StridedLayout::new_contiguous(&[i64::try_from(x.len()).unwrap()]).unwrap();
    Tensor::upload(card, &bytes, &host, Dtype::Float32, None).unwrap().0
}

fn down(t: &Tensor) -> Vec<f32> {
    let bytes = t.download(Dtype::Float32).unwrap();
    bytes.chunks(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
}

fn run(card: &Card, op: &str, attributes: &Value, operands: &[Tensor]) -> Vec<f32> {
    down(&TensorOp::new(op, attributes).unwrap().run_op(card, operands).unwrap().outputs[0])
}

#[test]
fn they_saturate_and_come_back_as_infinities() {
    let card = Card::builder().keep_dtypes(KeptDtypes::NONE).build().unwrap();
    let x = up(&card, &[-INF, INF, 1e10, STANDS, 4_282_384_384.0, f32::NAN, 1.0]);
    let back = down(&x);
    assert_eq!(back[..5], [-INF, INF, INF, INF, 4_282_384_384.0]);
    assert!(back[5].is_nan() && back[6] == 1.0);
    // The bits are those of one number, whatever came in.
    let codes = x.block().lock_for_read()[..14].to_vec();
    let code = |i: usize| u16::from_le_bytes([codes[2 * i], codes[2 * i + 1]]);
    assert_eq!([0, 1, 2, 3, 5].map(code), [0xfdfe, 0x7dfe, 0x7dfe, 0x7dfe, 0x7fff]);
}

#[test]
fn kernels_compute_with_a_number() {
    let card = Card::builder().keep_dtypes(KeptDtypes::NONE).build().unwrap();
    let x = up(&card, &[-INF, INF, 2.0, -INF]);
    let zero = up(&card, &[0.0; 4]);
    assert_eq!(run(&card, "add", &json!({}), &[x.clone(), x.clone()]), [-INF, INF, 4.0, -INF]);
    assert_eq!(run(&card, "mul", &json!({}), &[x.clone(), zero]), [0.0; 4]);
    assert_eq!(
        run(&card, "softmax", &json!({"dim": 0}), &[up(&card, &[-INF, 1.0, -INF])]),
        [0.0, 1.0, 0.0]
    );
    assert_eq!(run(&card, "mul", &json!({}), &[up(&card, &[1e9]), up(&card, &[-1e9])]), [-INF]);
    assert_eq!(run(&card, "full", &json!({"size": [2], "value": "-inf"}), &[]), [-INF; 2]);
    assert_eq!(run(&card, "clamp", &json!({"min": 1e30}), &[up(&card, &[3.0])]), [INF]);
}

#[test]
fn a_row_that_is_masked_whole_is_nan_and_without_keys_zero() {
    for card in [
        Card::builder().keep_dtypes(KeptDtypes::NONE).build().unwrap(),
        Card::builder().keep_dtypes(KeptDtypes::ALL).build().unwrap(),
    ] {
        let masked = up(&card, &[-INF; 4]);
        for op in ["softmax", "log_softmax"] {
            let y = run(&card, op, &json!({"dim": 0}), std::slice::from_ref(&masked));
            assert!(y.iter().all(|v| v.is_nan()), "{op}: {y:?}");
        }
        // A lone number is a row like any other.
        let one = up(&card, &[-INF, -4_000_000_000.0, -INF, -INF]);
        assert_eq!(run(&card, "softmax", &json!({"dim": 0}), &[one]), [0.0, 1.0, 0.0, 0.0]);
        // Attention over no key is zero; two masks in a sum are one mask.
        let two = &TensorOp::new("add", &json!({}))
            .unwrap()
            .run_op(&card, &[masked.clone(), masked])
            .unwrap();
        let ones = |size: &[i64]| {
            let t = Tensor::empty(&card, size, Dtype::Float32).unwrap();
            t.fill(1.0).unwrap();
            t
        };
        let mask = two.outputs[0].view_with(|_| StridedLayout::new(&[2, 4], &[0, 1], 0)).unwrap();
        let (q, kv) = (ones(&[1, 2, 64]), ones(&[1, 4, 64]));
        let y = run(&card, "scaled_dot_product_attention", &json!({}), &[q, kv.clone(), kv, mask]);
        assert_eq!(y, [0.0; 128]);
    }
}

#[test]
fn a_float32_result_of_16_bit_operands_has_their_infinities() {
    let card = Card::builder().keep_dtypes(KeptDtypes::NONE).build().unwrap();
    let x = up(&card, &[-INF, -INF, 1.0])
        .view_with(|_| StridedLayout::new_contiguous(&[1, 3]))
        .unwrap();
    let layout = StickLayout::default_in_format(&[3, 1], None, DataFormat::IEEE_FP32).unwrap();
    let ones = Tensor::zeros(&card, Dtype::Float32, &layout).unwrap();
    ones.fill(1.0).unwrap();
    // Twice the number that stands for an infinity would come back as that.
    assert_eq!(run(&card, "matmul", &json!({}), &[x, ones]), [-INF]);
}

#[test]
fn nans_are_counted_in_elements_alone() {
    let card = Card::builder().keep_dtypes(KeptDtypes::NONE).build().unwrap();
    let x = up(&card, &[1.0, f32::NAN, 2.0, -INF, f32::NAN]);
    assert_eq!(x.find_nans().unwrap(), Some((2, vec![1])));
    assert_eq!(up(&card, &[1.0, INF]).find_nans().unwrap(), None);
    // A view that leaves them out has none, although its memory has.
    let part = x.view_with(|_| StridedLayout::new(&[2], &[2], 0)).unwrap();
    assert_eq!(part.find_nans().unwrap(), None);
    let ints = Tensor::empty(&card, &[3], Dtype::Int32).unwrap();
    ints.fill(-1).unwrap();
    assert_eq!(ints.find_nans().unwrap(), None);
}

#[test]
fn what_asks_for_infinities_gets_them() {
    let card = Card::builder().keep_dtypes(KeptDtypes::NONE).build().unwrap();
    let x = up(&card, &[-INF, 1.0, 1e20, f32::NAN]);
    let of = |op: &str| run(&card, op, &json!({}), std::slice::from_ref(&x));
    assert_eq!(of("isinf"), [1.0, 0.0, 1.0, 0.0]);
    assert_eq!(of("isfinite"), [0.0, 1.0, 0.0, 0.0]);
    assert_eq!(of("isnan"), [0.0, 0.0, 0.0, 1.0]);
    let wide =
        run(&card, "cast", &json!({"dtype": "float32", "wide": true}), std::slice::from_ref(&x));
    assert_eq!(wide[..3], [-INF, 1.0, INF]);
    assert!(wide[3].is_nan());
    // A float32 result has the infinities of its operands.
    let layout = StickLayout::default_in_format(&[4], None, DataFormat::IEEE_FP32).unwrap();
    let ones = Tensor::zeros(&card, Dtype::Float32, &layout).unwrap();
    ones.fill(1.0).unwrap();
    assert_eq!(run(&card, "add", &json!({}), &[x, ones])[..3], [-INF, 2.0, INF]);
}

#[test]
fn what_float16_reads_back_as_an_infinity_is_one() {
    let card = Card::builder().build().unwrap();
    let x = [60000.0, -60000.0, 65504.0, 1.0, f32::NAN];
    let bytes: Vec<u8> = x.iter().flat_map(|v| v.to_le_bytes()).collect();
    let host = StridedLayout::new_contiguous(&[5]).unwrap();
    for (dtype, infinite) in [(Dtype::Float16, 1.0), (Dtype::Bfloat16, 0.0)] {
        let layout = StickLayout::default_in_format(&[5], None, DataFormat::SEN169_FP16).unwrap();
        let t = Tensor::zeros(&card, dtype, &layout).unwrap();
        t.write_from(&bytes, &host, Dtype::Float32).unwrap();
        let two = TensorOp::new("add", &json!({})).unwrap().run_op(&card, &[t.clone(), t]).unwrap();
        let of = |op: &str| run(&card, op, &json!({}), &two.outputs);
        assert_eq!(of("isinf"), [infinite, infinite, infinite, 0.0, 0.0], "{dtype}");
        let finite = 1.0 - infinite;
        assert_eq!(of("isfinite"), [finite, finite, finite, 1.0, 0.0], "{dtype}");
        assert_eq!(of("isnan"), [0.0, 0.0, 0.0, 0.0, 1.0], "{dtype}");
    }
}

#[test]
fn float32_that_is_kept_has_infinities_of_its_own() {
    let card = Card::builder().keep_dtypes(KeptDtypes::ALL).build().unwrap();
    let x = up(&card, &[-INF, 1e10, -3.4e38]);
    assert_eq!(down(&x), [-INF, 1e10, -3.4e38]);
    assert!(run(&card, "softmax", &json!({"dim": 0}), &[up(&card, &[-INF; 2])])[0].is_nan());
}

#[test]
fn they_are_counted_with_the_place_of_the_first() {
    let card = Card::builder().keep_dtypes(KeptDtypes::NONE).build().unwrap();
    let x: Vec<u8> =
        [0.0f32, 7.0, 1e10, -INF, f32::NAN, 1e9].iter().flat_map(|v| v.to_le_bytes()).collect();
    let host = StridedLayout::new_contiguous(&[2, 3]).unwrap();
    let to = Tensor::empty(&card, &[2, 3], Dtype::Float32).unwrap();
    let past = to.find_out_of_range(&x, &host, Dtype::Float32).unwrap().unwrap();
    assert_eq!((past.count, past.first, past.value), (2, vec![0, 2], 1e10));
    // Only elements count: every second one here is none.
    let odd = StridedLayout::new(&[2], &[4], 0).unwrap();
    let narrow = Tensor::empty(&card, &[2], Dtype::Float32).unwrap();
    assert_eq!(narrow.find_out_of_range(&x, &odd, Dtype::Float32).unwrap(), None);
}
