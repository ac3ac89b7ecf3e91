//! Coordinates of accesses in boxes, against their definition.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use proptest::prelude::*;
use zellige_layout::unflatten_index;
use zellige_stick::{ViewLoop, box_access};

/// For all values of the loops, the dot product of coordinates and strides is the offset of the access.
fn check(size: &[i64], stride: &[i64], loops: &[ViewLoop], offset: i64) {
    let Ok(coordinates) = box_access(size, stride, loops, offset) else { return };
    assert_eq!(coordinates.len(), size.len());
    let ranges: Vec<i64> = loops.iter().map(|l| l.range).collect();
    for sample in 0..ranges.iter().product() {
        let values = unflatten_index(&ranges, sample);
        let at: Vec<i64> = coordinates.iter().map(|e| e.evaluate_at(&values)).collect();
        let dot: i64 = at.iter().zip(stride).map(|(c, s)| c * s).sum();
        let index: i64 = values.iter().zip(loops).map(|(v, l)| v * l.step).sum();
        assert_eq!(dot, index + offset, "{size:?} {stride:?} {loops:?} {offset}");
    }
    for (dim, e) in coordinates.iter().enumerate() {
        if size[dim] == 1 || stride[dim] <= 0 {
            assert_eq!((e.terms.len(), e.constant), (0, 0), "dimension {dim} takes no part");
        }
    }
}

#[test]
fn a_row_major_box_is_read_whole() {
    let loops = |pairs: &[(i64, i64)]| -> Vec<ViewLoop> {
        pairs.iter().map(|(range, step)| ViewLoop { range: *range, step: *step }).collect()
    };
    let printed = |size: &[i64], stride: &[i64], l: &[(i64, i64)], offset| -> Vec<String> {
        let found = box_access(size, stride, &loops(l), offset).unwrap();
        found.iter().map(ToString::to_string).collect()
    };
    assert_eq!(printed(&[3, 5], &[5, 1], &[(15, 1)], 0), ["p0//5", "p0%5"]);
    assert_eq!(printed(&[3, 1, 5], &[5, -1, 1], &[(3, 5), (5, 1)], 0), ["p0", "0", "p1"]);
    // Rows of 100 in sticks of 64: an offset of one row stays out of the stick.
    assert_eq!(
        printed(&[2, 4, 64], &[64, 100, 1], &[(3, 100), (100, 1)], 100),
        ["p1//64", "p0+1", "p1%64"]
    );
    assert!(box_access(&[3, 5], &[5], &[], 0).is_err());
    assert!(box_access(&[3, 5], &[5, 1], &loops(&[(2, -1)]), 0).is_err());
    let odd = box_access(&[4, 6], &[6, 2], &loops(&[(3, 1)]), 0).unwrap_err();
    assert_eq!(odd.kind(), "host_not_covered", "{odd}");
}

proptest! {
    #[test]
    fn coordinates_reach_the_element(
        dims in prop::collection::vec((1_i64..6, prop::sample::select(vec![-1_i64, 0, 1, 2, 3, 4, 6, 12, 24])), 0..4),
        loops in prop::collection::vec((0_i64..6, prop::sample::select(vec![0_i64, 1, 2, 3, 6, 12])), 0..3),
        offset in 0_i64..40,
    ) {
        let (size, stride): (Vec<i64>, Vec<i64>) = dims.into_iter().unzip();
        let loops: Vec<ViewLoop> =
            loops.into_iter().map(|(range, step)| ViewLoop { range, step }).collect();
        check(&size, &stride, &loops, offset);
    }
}
