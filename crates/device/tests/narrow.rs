//! Integers past 32 bits: they arrive as they are or are refused, with their value and place.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{Rng, run};
use serde_json::json;
use zellige_device::RunOp;
use zellige_device::{Card, DeviceError, KeptDtypes, Tensor};
use zellige_float::Dtype;
use zellige_layout::{StridedLayout, unflatten_index};
use zellige_op::TensorOp;

/// A card that stores int64 in 32 bits.
fn card() -> Card {
    Card::builder().keep_dtypes(KeptDtypes::NONE).build().unwrap()
}

fn bytes(values: &[i64]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn uploaded(card: &Card, values: &[i64], size: &[i64]) -> Result<Tensor, DeviceError> {
    let host = StridedLayout::new_contiguous(size).unwrap();
    Tensor::upload(card, &bytes(values), &host, Dtype::Int64, None).map(|t| t.0)
}

#[test]
fn an_index_of_two_to_the_32_is_no_row_0() {
    let card = card();
    for value in [1 << 32, (1 << 32) + 1, 1 << 31, -(1 << 31) - 1, i64::MIN, i64::MAX] {
        let e = uploaded(&card, &[0, 1, 2, value, 1, 0], &[2, 3]).unwrap_err();
        assert_eq!(e.kind(), "wide");
        let text = e.to_string();
        assert!(text.contains(&format!("the integer {value} at [1, 0]")), "{text}");
        assert!(text.contains("-2147483648 to 2147483647"), "{text}");
    }
    // The ends of the range are held, and an index that is only too large for the table is named.
    let ends = [i64::from(i32::MIN), i64::from(i32::MAX), 0, -1];
    let held = uploaded(&card, &ends, &[4]).unwrap();
    assert_eq!(held.download(Dtype::Int64).unwrap(), bytes(&ends));
    let table = Tensor::upload(
        &card,
        &[0u8; 64],
        &StridedLayout::new_contiguous(&[4, 8]).unwrap(),
        Dtype::Float16,
        None,
    );
    let op = TensorOp::new("embedding", &json!({})).unwrap();
    let index = uploaded(&card, &[3, 1 << 30], &[2]).unwrap();
    let e = op.run_op(&card, &[table.unwrap().0, index]).unwrap_err().to_string();
    assert!(e.contains("index 1073741824 at [1] is out of range; accepted are 0 to 3"), "{e}");
}

/// Every host tensor, whatever its strides: the first element that does not fit is named, and what
/// lies between elements does not count.
#[test]
fn every_view_is_held_or_refused() {
    let card = card();
    let mut rng = Rng::new(12);
    let (mut held, mut refused) = (0, 0);
    for _ in 0..400 {
        let rank = 1 + rng.below(3);
        let size: Vec<i64> = (0..rank).map(|_| 1 + i64::try_from(rng.below(5)).unwrap()).collect();
        let stride: Vec<i64> = (0..rank).map(|_| i64::try_from(rng.below(4)).unwrap()).collect();
        let host =
            StridedLayout::new(&size, &stride, i64::try_from(rng.below(3)).unwrap()).unwrap();
        let last = usize::try_from(host.address_range().unwrap().max).unwrap() + 3;
        let mut values = vec![7i64; last];
        for v in &mut values {
            if rng.chance(12) {
                *v = i64::try_from(rng.below(1 << 20)).unwrap() << 31;
            }
        }
        let coordinates = (0..host.numel()).map(|i| unflatten_index(&size, i));
        let of = |c: &[i64]| values[usize::try_from(host.element_address(c).unwrap()).unwrap()];
        let wide = coordinates.clone().find(|c| i32::try_from(of(c)).is_err());
        match (wide, Tensor::upload(&card, &bytes(&values), &host, Dtype::Int64, None)) {
            (None, Ok((tensor, _))) => {
                let want: Vec<i64> = coordinates.map(|c| of(&c)).collect();
                assert_eq!(tensor.download(Dtype::Int64).unwrap(), bytes(&want));
                held += 1;
            }
            (Some(c), Err(DeviceError::Wide { value, at })) => {
                assert_eq!((value, &at), (of(&c).to_string(), &c));
                refused += 1;
            }
            (wide, got) => panic!("{host:?}: {wide:?}, {:?}", got.err()),
        }
    }
    assert!(held > 50 && refused > 50, "{held} held, {refused} refused");
}

#[test]
fn numbers_and_sequences_are_held_or_refused() {
    let card = card();
    let tensor = uploaded(&card, &[1, 2], &[2]).unwrap();
    for value in [2_147_483_648.0, -2_147_483_649.0, 1e300, f64::INFINITY] {
        assert_eq!(tensor.fill(value).unwrap_err().kind(), "wide", "{value}");
    }
    tensor.fill(2_147_483_647.9).unwrap();
    assert_eq!(tensor.download(Dtype::Int64).unwrap(), bytes(&[i64::from(i32::MAX); 2]));
    let top = 2_147_483_648i64;
    for (name, attributes) in [
        ("full", json!({"size": [2], "value": top, "dtype": "int64"})),
        ("arange", json!({"start": top - 2, "end": top + 2, "dtype": "int64"})),
        ("randint", json!({"low": 0, "high": top + 1, "size": [4]})),
    ] {
        let e = TensorOp::new(name, &attributes)
            .map_err(DeviceError::from)
            .and_then(|op| op.run_op(&card, &[]));
        assert_eq!(e.unwrap_err().kind(), "wide", "{name}");
    }
    let made = run(&card, "arange", &json!({"start": top - 2, "end": top, "dtype": "int64"}), &[]);
    assert_eq!(made[0].download(Dtype::Int64).unwrap(), bytes(&[top - 2, top - 1]));
}
