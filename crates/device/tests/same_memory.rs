//! The memory of a tensor read in another layout, against the places that the two layouts name.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{Rng, bytes_of, read, values};
use zellige_device::{Card, Tensor};
use zellige_float::Dtype;
use zellige_layout::{StridedLayout, unflatten_index};
use zellige_stick::{DataFormat, StickLayout};

fn of(card: &Card, layout: &StickLayout) -> Tensor {
    Tensor::zeros(card, Dtype::Float16, layout).unwrap()
}

/// The place of every element of a host, in its row-major order.
fn places(layout: &StickLayout) -> Vec<i64> {
    let size = layout.host().unwrap().size().to_vec();
    let lowered = layout.lower_to_layout().unwrap();
    (0..size.iter().product())
        .map(|i| {
            let at = unflatten_index(&size, i);
            let found = lowered.apply_to_coordinate(&size, &at).unwrap();
            found.sorted_coordinates()[0].axis_entries()[0].1
        })
        .collect()
}

#[test]
fn elements_are_those_of_the_same_places() {
    let card = common::card();
    let host = StridedLayout::new_contiguous(&[6, 128]).unwrap();
    let own = StickLayout::default_for_dtype(&[6, 128], Dtype::Float16).unwrap();
    let source = of(&card, &own);
    let given = bytes_of(&values(&mut Rng::new(7), 6 * 128, Dtype::Float16), Dtype::Float16);
    source.write_from(&given, &host, Dtype::Float16).unwrap();
    let values = read(&source);
    assert_eq!(own.device_size(), [2, 6, 64]);
    // The sticks of the same memory by three dimensions, and as one long list of them.
    let f = DataFormat::SEN169_FP16;
    let others = [
        StickLayout::from_size_and_stride_map(&[2, 3, 2, 64], &[64, 256, 128, 1], f)
            .unwrap()
            .with_host(&[3, 2, 128], None),
        StickLayout::from_size_and_stride_map(&[12, 64], &[64, 1], f)
            .unwrap()
            .with_host(&[12, 64], None),
        StickLayout::from_size_and_stride_map(&[1, 2, 6, 64], &[-1, 64, 128, 1], f)
            .unwrap()
            .with_host(&[6, 128], None),
    ];
    for other in others {
        let other = other.unwrap();
        let seen = source.same_memory_in(&other).unwrap();
        assert_eq!(seen.block(), source.block());
        let (here, there) = (places(&own), places(&other));
        let got = read(&seen);
        assert_eq!(got.len(), there.len());
        for (value, place) in got.iter().zip(&there) {
            let i = here.iter().position(|p| p == place).unwrap();
            assert_eq!(*value, values[i], "place {place} of {other}");
        }
    }
}

#[test]
fn other_places_are_refused() {
    let card = common::card();
    let f = DataFormat::SEN169_FP16;
    let whole = StickLayout::default_for_dtype(&[6, 128], Dtype::Float16).unwrap();
    let source = of(&card, &whole);
    let message = |layout: StickLayout| source.same_memory_in(&layout).unwrap_err().to_string();
    let turned = StickLayout::from_size_and_stride_map(&[6, 2, 64], &[128, 64, 1], f).unwrap();
    let turned = message(turned.with_host(&[6, 128], None).unwrap());
    assert!(turned.contains("[2, 6, 64]") && turned.contains("[6, 2, 64]"), "{turned}");
    let longer = message(StickLayout::default_for_dtype(&[7, 128], Dtype::Float16).unwrap());
    assert!(longer.contains("[2, 7, 64] are wanted"), "{longer}");
    let wide = message(StickLayout::default_for_dtype(&[6, 128], Dtype::Float32).unwrap());
    assert!(wide.contains("IEEE_FP32 is wanted"), "{wide}");
    let unbound =
        message(StickLayout::from_size_and_stride_map(&[2, 6, 64], &[64, 128, 1], f).unwrap());
    assert!(unbound.contains("with_host"), "{unbound}");
    let part = source.view_with(|v| v.slice_dim(0, Some(1), None, 1)).unwrap();
    assert!(part.same_memory_in(&whole).unwrap_err().to_string().contains("contiguous"));
}
