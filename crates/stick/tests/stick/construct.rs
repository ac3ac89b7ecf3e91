//! The constructors: what they build, what they refuse, and layouts with gaps or sticks of several dimensions.

use crate::common::{check_laws, f16, fields};
use zellige_float::Dtype;
use zellige_layout::Axis;
use zellige_stick::{DataFormat, LaneArrangement, StickLayout};

#[test]
fn the_print_form_is_exact() {
    let l = StickLayout::default_for_dtype(&[5, 100, 150], Dtype::Float16).unwrap();
    assert_eq!(
        l.to_string(),
        "SpyreTensorLayout(device_size=[100, 3, 5, 64], stride_map =[150, 64, 15000, 1], \
         device_dtype=DataFormats.SEN169_FP16)"
    );
    assert_eq!(l, f16(&[100, 3, 5, 64], &[150, 64, 15000, 1]));
    assert_ne!(l, l.with_arrangement(LaneArrangement::Fp32ToDl16).unwrap());
}

/// With no strides given, they are the products of the sizes to the right, also where one is 0;
/// PyTorch would write 1 there. No element depends on the difference, and the device prints [64, 0, 1] for [4, 0].
#[test]
fn empty_tensors_are_legal_everywhere() {
    let l = StickLayout::default_for_dtype(&[4, 0], Dtype::Float16).unwrap();
    assert_eq!(fields(&l), (vec![0, 4, 64], vec![64, 0, 1]));
    assert_eq!(l.device_bytes(), Ok(0));
    for size in [&[4, 0][..], &[0], &[0, 60], &[3, 0, 5], &[1, 0]] {
        let l = StickLayout::default_for_dtype(size, Dtype::Int8).unwrap();
        assert_eq!(l.lower_to_layout().unwrap().size(), 0, "{size:?}");
        check_laws(&l);
        assert!(l.recover_dim_map().is_ok(), "{size:?}");
        assert!(l.restickify_along(-1).is_ok(), "{size:?}");
        assert!(l.with_device_format(DataFormat::IEEE_FP32, None).is_ok(), "{size:?}");
    }
    check_laws(&f16(&[1, 40, 64], &[64, 60, 1]).with_host(&[0, 60], None).unwrap());
    let none = f16(&[0, 4, 64], &[64, 32, 1]).with_host(&[4, 32], None).unwrap();
    assert_eq!(none.lower_to_layout().unwrap_err().kind(), "host_not_covered");
}

/// Law: a stride along which no element steps has no effect, whatever its sign.
#[test]
fn strides_that_never_step_are_ignored() {
    let plain = StickLayout::default_for_dtype(&[3, 128], Dtype::Float16).unwrap();
    let format = DataFormat::device_format_of(Dtype::Float16).unwrap();
    let one = StickLayout::default_in_format(&[3, 1, 128], Some(&[128, -1, 1]), format).unwrap();
    assert_eq!(fields(&one), fields(&plain));
    let order = [0, 1, 2];
    let kept =
        StickLayout::with_dim_order(&[3, 1, 128], Some(&[128, -1, 1]), Dtype::Float16, &order);
    assert_eq!(fields(&kept.unwrap()), (vec![1, 2, 3, 64], vec![-1, 64, 128, 1]));
    // Nothing of an empty tensor is anywhere.
    let empty =
        StickLayout::from_size_and_stride_map(&[0, 1, 63, 64], &[63, -1, 1, -1], format).unwrap();
    assert!(empty.with_host(&[0, 63, 1], Some(&[-63, -1, -1])).is_ok());
    let back = StickLayout::default_in_format(&[3, 128], Some(&[-128, 1]), format).unwrap_err();
    assert_eq!(back.kind(), "bad_parameter");
}

#[test]
fn malformed_layouts_are_refused() {
    let f = DataFormat::SEN169_FP16;
    let text = |d: &[i64], s: &[i64]| {
        StickLayout::from_size_and_stride_map(d, s, f).unwrap_err().to_string()
    };
    assert!(text(&[4, 32], &[64, 1]).contains("a stick of SEN169_FP16 holds 64"));
    assert!(text(&[4, 64], &[1]).contains("stride_map has 1 entries, expected 2"));
    assert!(text(&[], &[]).contains("device dimension 0"));
    assert!(text(&[4, 64], &[-2, 1]).contains("below -1"));
    assert!(text(&[1 << 60, 1 << 60, 64], &[1, 1, 1]).contains("64 bits"));
    assert!(text(&[i64::MAX, 64], &[1, 1]).contains("64 bits"));
    assert!(
        StickLayout::from_size_and_stride_map(&[1, 64], &[64, 1], DataFormat::INVALID).is_err()
    );
    for order in [&[0, 0][..], &[0], &[0, 2], &[-1, 0], &[0, 1, 2], &[0, 1, -1, -1], &[0, -1]] {
        let l = StickLayout::with_dim_order(&[4, 6], None, Dtype::Float16, order);
        assert!(l.is_err(), "{order:?}");
    }
    assert!(StickLayout::default_for_dtype(&[-1], Dtype::Float16).is_err());
    assert!(StickLayout::default_for_dtype(&[1 << 40, 1 << 40], Dtype::Float16).is_err());
    assert!(f16(&[1, 64], &[64, 1]).lower_to_layout().is_err());
    assert_eq!(
        StickLayout::default_for_dtype(&[3], Dtype::Float64).unwrap_err().kind(),
        "unsupported_dtype"
    );
}

/// Gaps are positions that belong to no dimension: an element is at the dot product of its coordinates and
/// the given strides, and no other position holds one.
#[test]
fn device_strides_may_leave_gaps() {
    let plain = f16(&[3, 5, 64], &[64, 150, 1]);
    let cases: [(&[i64], i64); 4] = [
        (&[320, 64, 1], 3 * 320),
        (&[640, 64, 1], 3 * 640),
        (&[640, 128, 1], 3 * 640),
        (&[1536, 256, 1], 3 * 1536),
    ];
    for (strides, positions) in cases {
        let l = plain.with_device_strides(strides).unwrap();
        assert_eq!(l.device_strides().unwrap(), strides);
        assert_eq!(
            (l.count_positions(), l.count_sticks(), l.device_bytes()),
            (positions, positions / 64, Ok(positions * 2))
        );
        assert_eq!(l.has_gaps(), strides != [320, 64, 1]);
        assert_eq!(l == plain, !l.has_gaps());
        let bound = l.with_host(&[5, 150], None).unwrap();
        check_laws(&bound);
        let (lowered, without) =
            (bound.lower_to_layout().unwrap(), plain.with_host(&[5, 150], None).unwrap());
        let without = without.lower_to_layout().unwrap();
        for row in 0..5 {
            for column in 0..150 {
                let at = |l: &zellige_layout::Layout| {
                    l.apply_to_coordinate(&[5, 150], &[row, column]).unwrap().sorted_coordinates()
                        [0]
                    .get(Axis::M)
                };
                let dot = column / 64 * strides[0] + row * strides[1] + column % 64;
                assert_eq!(at(&lowered), dot);
                assert_eq!(at(&without), column / 64 * 320 + row * 64 + column % 64);
            }
        }
    }
    for (strides, text) in [
        (&[320, 64][..], "device_stride"),
        (&[300, 64, 1], "device stride 300: it is 320 or more"),
        (&[330, 64, 1], "multiple of 64"),
        (&[640, 64, 2], "inside a stick"),
        (&[640, 96, 1], "device dimension 0"),
        (&[-640, 64, 1], "device stride -640"),
    ] {
        let error = plain.with_device_strides(strides).unwrap_err().to_string();
        assert!(error.contains(text) || strides == [640, 96, 1], "{strides:?}: {error}");
    }
    let gapped =
        plain.with_device_strides(&[640, 128, 1]).unwrap().with_host(&[5, 150], None).unwrap();
    assert!(
        gapped.restickify_along(0).is_err()
            && gapped.with_device_format(DataFormat::IEEE_FP32, None).is_err()
    );
}

/// A stick of several dimensions: squares of 8 by 8, and a stick of two rows.
#[test]
fn sticks_may_have_several_dimensions() {
    let format = DataFormat::SEN169_FP16;
    for (size, sizes, map, k) in [
        (&[32i64, 48][..], &[4i64, 6, 8, 8][..], &[384i64, 8, 48, 1][..], 2),
        // Neither dimension fills its squares.
        (&[30, 45], &[4, 6, 8, 8], &[360, 8, 45, 1], 2),
        (&[7, 32], &[4, 2, 32], &[64, 32, 1], 2),
        (&[3, 4, 6], &[3, 2, 4, 4, 4], &[24, 4, 6, 1, -1], 3),
    ] {
        let l = StickLayout::with_stick_dims(sizes, map, format, k).unwrap();
        assert_eq!((l.stick_dims(), l.elems_per_stick(), l.is_sparse()), (k, 64, false));
        assert_eq!(l.count_sticks(), sizes[..sizes.len() - k].iter().product::<i64>());
        let bound = l.with_own_strides(
            size,
            zellige_layout::StridedLayout::new_contiguous(size).unwrap().stride(),
        );
        let bound = bound.unwrap();
        check_laws(&bound);
        assert!(bound.restickify_along(0).is_err());
        let loops = [zellige_stick::ViewLoop { range: size[0], step: 1 }];
        assert!(
            bound
                .device_access(&loops, 0)
                .unwrap_err()
                .to_string()
                .contains("together are the stick")
        );
    }
    let square = StickLayout::with_stick_dims(&[4, 6, 8, 8], &[384, 8, 48, 1], format, 2).unwrap();
    let square = square.with_host(&[32, 48], None).unwrap();
    for (row, column) in [(0, 0), (9, 17), (31, 47)] {
        let place =
            square.build_padding_map().unwrap().device_coordinate_of(&[row, column]).unwrap();
        assert_eq!(place, [row / 8, column / 8, row % 8, column % 8]);
    }
    // With gaps between the rows of squares.
    let wide = square.with_device_strides(&[512, 64, 8, 1]).unwrap();
    assert_eq!(wide.count_positions(), 4 * 512);
    check_laws(&wide);
    for (sizes, k, text) in [
        (&[4, 8, 4][..], 2, "the stick has size 32"),
        (&[4, 8, 8], 0, "stick_dims is 0"),
        (&[8, 8], 3, "1 to 2"),
    ] {
        let map = vec![1; sizes.len()];
        let error = StickLayout::with_stick_dims(sizes, &map, format, k).unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    }
    assert!(square.with_device_strides(&[512, 64, 16, 1]).is_err());
}

/// Every constructor layout of many small shapes, dtypes and orders, by enumeration.
#[test]
fn constructor_layouts_obey_the_laws() {
    let sizes = [1, 2, 3, 33, 64, 70];
    for (a, b) in sizes.into_iter().flat_map(|a| sizes.map(|b| (a, b))) {
        for c in [1, 2, 5] {
            let size = [c, a, b];
            if a * b * c > 1500 {
                continue;
            }
            for order in [&[0, 1, 2][..], &[0, 2, 1], &[1, 0, 2], &[2, 1, 0], &[1, 2, 0, -1]] {
                let ty = if a > b { Dtype::Float16 } else { Dtype::Float32 };
                check_laws(&StickLayout::with_dim_order(&size, None, ty, order).unwrap());
                // A permuted host, own strides column-major.
                let stride = [1, c, a * c];
                check_laws(&StickLayout::with_dim_order(&size, Some(&stride), ty, order).unwrap());
            }
            check_laws(&StickLayout::default_for_dtype(&size, Dtype::Bool).unwrap());
        }
    }
}

#[test]
fn there_is_no_rank_limit() {
    let size = [vec![1; 2000], vec![3, 70]].concat();
    let order: Vec<i64> = (0..2002).collect();
    let l = StickLayout::with_dim_order(&size, None, Dtype::Float16, &order).unwrap();
    check_laws(&l);
    assert_eq!(l.recover_dim_map().unwrap().len(), 2003);
    let l = StickLayout::default_for_dtype(&[2, 3, 4, 5, 2, 3, 2, 70], Dtype::Float16).unwrap();
    assert_eq!(l.device_size(), [3, 4, 5, 2, 3, 2, 2, 2, 64]);
    check_laws(&l);
}
