//! Dimension maps, the device coordinates of accesses, and the layouts of views.

use crate::common::{f16, ints, load};
use proptest::prelude::*;
use zellige_float::Dtype;
use zellige_layout::{Axis, StridedLayout, unflatten_index};
use zellige_stick::{DataFormat, StickLayout, ViewLoop};

#[test]
fn dim_maps_convert_both_ways() {
    let l = StickLayout::default_for_dtype(&[128, 256, 512], Dtype::Float16).unwrap();
    assert_eq!(l.recover_dim_map().unwrap(), [1, 2, 0, 2]);
    let map = l.build_padding_map().unwrap();
    let element = map.host_coordinate_at(&[7, 3, 100, 9]).unwrap();
    assert_eq!(element, Some(vec![100, 7, 3 * 64 + 9]));
    assert_eq!(map.device_coordinate_of(&[100, 7, 201]), Ok(vec![7, 3, 100, 9]));

    // The constructors' layouts all have the map of their rotated order.
    for (size, order) in [
        (&[5, 100, 150][..], &[0, 1, 2][..]),
        (&[5, 100, 150], &[1, 0, 2]),
        (&[512, 8, 256], &[2, 1, 0]),
        (&[2, 4, 8, 64], &[0, 1, 2, 3]),
        (&[2, 4, 64], &[0, 1, 2]),
        (&[64], &[0]),
        (&[64, 64], &[0, 1]),
        (&[1, 1, 4, 32], &[0, 1, 2, 3]),
        (&[1, 280, 1], &[0, 1, 2]),
        (&[512, 1], &[0, 1]),
        (&[512, 256], &[0, 1, -1]),
        (&[512], &[0, -1]),
        (&[1, 1], &[0, 1]),
        (&[], &[]),
    ] {
        let l = StickLayout::with_dim_order(size, None, Dtype::Float16, order).unwrap();
        let mut want: Vec<i64> = order.iter().copied().skip(1).collect();
        want.extend(order.first());
        want.extend(order.last());
        if want.is_empty() {
            want = vec![-1, -1];
        }
        let map = l.recover_dim_map().unwrap();
        assert_eq!(map, want, "{l} of {size:?}");
        let back =
            StickLayout::from_dim_map(size, None, l.device_size(), &map, l.device_dtype()).unwrap();
        assert_eq!(back, l, "{size:?}");
    }

    let text = |d: &[i64], s: &[i64], host: &[i64]| {
        f16(d, s).with_host(host, None).unwrap().recover_dim_map().unwrap_err().to_string()
    };
    // The stick itself, of 64, runs over rows of 60; in the second, 80 sticks run over 40 rows.
    let fused = text(&[38, 64], &[64, 1], &[40, 60]);
    assert!(fused.contains("fused") && fused.contains("device dimension 1"), "{fused}");
    let fused = text(&[80, 64], &[64, 1], &[40, 128]);
    assert!(fused.contains("fused") && fused.contains("device dimension 0"), "{fused}");
    let split = text(&[3, 2, 14, 64], &[120, 64, 360, 1], &[4800]);
    assert!(split.contains("split") && split.contains("cuts host dimension 0"), "{split}");
    let ambiguous = f16(&[3, 1, 3, 64], &[0, 64, 0, 1])
        .with_host(&[3, 3, 64], Some(&[0, 0, 1]))
        .unwrap()
        .recover_dim_map()
        .unwrap_err()
        .to_string();
    assert!(ambiguous.contains("ambiguous"), "{ambiguous}");
    let f = DataFormat::SEN169_FP16;
    assert!(StickLayout::from_dim_map(&[4, 64], None, &[1, 4, 64], &[1, 2, 1], f).is_err());
    assert!(StickLayout::from_dim_map(&[4, 64], None, &[1, 4, 64], &[1, -1, 1], f).is_err());
    assert!(StickLayout::from_dim_map(&[4, 64], None, &[4, 64], &[1, 0, 1], f).is_err());
}

/// `a*p0+p1+c` as loop steps in the order of the ranges, and the constant.
fn parse_index(text: &str, vars: usize) -> (Vec<i64>, i64) {
    let (mut steps, mut constant) = (vec![0; vars], 0);
    for part in text.split('+') {
        match part.split_once('p') {
            None => constant = part.parse().unwrap(),
            Some((factor, var)) => {
                let factor = factor.trim_end_matches('*');
                steps[var.parse::<usize>().unwrap()] =
                    if factor.is_empty() { 1 } else { factor.parse().unwrap() };
            }
        }
    }
    (steps, constant)
}

#[test]
fn device_coordinates_of_accesses() {
    for c in load("spyre_extras.json")["device_coordinates_asserted"].as_array().unwrap() {
        let l = f16(&ints(&c["device_size"]), &ints(&c["stride_map"]));
        let ranges: Vec<i64> =
            c["ranges"].as_object().unwrap().values().map(|v| v.as_i64().unwrap()).collect();
        let (steps, offset) = parse_index(c["index"].as_str().unwrap(), ranges.len());
        let pairs = ranges.iter().zip(&steps);
        let loops: Vec<ViewLoop> =
            pairs.map(|(range, step)| ViewLoop { range: *range, step: *step }).collect();
        let access = l.device_access(&loops, offset).unwrap();
        let printed: Vec<String> = access.coordinates().iter().map(ToString::to_string).collect();
        let want: Vec<&str> =
            c["coords"].as_array().unwrap().iter().map(|v| v.as_str().unwrap()).collect();
        assert_eq!(printed, want);

        // An access from inside a stick runs past its lanes; the others stay inside.
        assert_eq!(access.first_overrun().is_some(), offset % 64 != 0);
        let total: i64 = ranges.iter().product();
        for sample in (0..total).step_by(977) {
            let values = unflatten_index(&ranges, sample);
            let at: Vec<i64> =
                access.coordinates().iter().map(|e| e.evaluate_at(&values)).collect();
            let dot: i64 = at.iter().zip(l.stride_map()).map(|(c, w)| c * w).sum();
            let index: i64 = values.iter().zip(&steps).map(|(v, s)| v * s).sum();
            assert_eq!(dot, index + offset);
            if access.first_overrun().is_none() {
                assert_eq!(l.own_stride_offset(&at), Ok(index + offset));
            }
        }
    }
    // Views of a (9, 15, 384) tensor: a permuted slice is fine, every second column is not.
    let base = StridedLayout::new_contiguous(&[9, 15, 384]).unwrap();
    let l = StickLayout::default_for_dtype(base.size(), Dtype::Float16).unwrap();
    let view = base.slice_dim(1, Some(5), None, 1).and_then(|v| v.permute(&[2, 0, 1])).unwrap();
    let printed: Vec<String> =
        l.view_access(&view).unwrap().coordinates().iter().map(ToString::to_string).collect();
    assert_eq!(printed, ["p2+5", "p0//64", "p1", "p0%64"]);
    let columns = base.slice_dim(2, None, None, 2).unwrap();
    assert_eq!(l.view_access(&columns).unwrap_err().kind(), "bad_stick");

    let l = f16(&[256, 64, 2, 64], &[4096, 64, 1_048_576, 1]);
    let kind = |loops: &[ViewLoop], offset| l.device_access(loops, offset).unwrap_err().to_string();
    let every_other = kind(&[ViewLoop { range: 32, step: 2 }], 0);
    assert!(every_other.contains("device dimension 3") && every_other.contains("2*p0"));
    let window = kind(&[ViewLoop { range: 3, step: 1 }, ViewLoop { range: 4, step: 1 }], 0);
    assert!(window.contains("`p0+p1`"), "{window}");
    let odd = kind(&[ViewLoop { range: 3, step: 96 }], 0);
    assert!(odd.contains("stride 64 does not divide"), "{odd}");
    assert!(l.device_access(&[ViewLoop { range: 2, step: -1 }], 0).is_err());
    assert!(l.device_access(&[ViewLoop { range: i64::MAX, step: i64::MAX }], 0).is_err());
    assert!(l.device_access(&[], -1).is_err());
    assert_eq!(
        l.device_access(&[ViewLoop { range: 0, step: 5 }], 0).unwrap().first_overrun(),
        None
    );
}

/// One step of making a view; what does not apply leaves it as it is.
fn change(v: &StridedLayout, kind: u8, a: i64, b: i64, c: i64) -> StridedLayout {
    let rank = i64::try_from(v.rank()).unwrap().max(1);
    let (d, e) = (a % rank, b % rank);
    let n = v.size().get(usize::try_from(d).unwrap()).copied().unwrap_or(1).max(1);
    let made = match kind {
        0 => v.transpose(d, e),
        1 => v.slice_dim(d, Some(b % n), Some(b % n + 1 + c % n), 1),
        2 => v.slice_dim(d, Some(b % n), None, 1 + c % 4),
        3 => v.select(d, b % n),
        4 => v.unsqueeze(d).and_then(|u| {
            let mut size = u.size().to_vec();
            size[usize::try_from(d).unwrap()] = 1 + c % 5;
            u.expand(&size)
        }),
        _ => v.view(&[v.numel()]),
    };
    made.unwrap_or_else(|_| v.clone())
}

proptest! {
    /// The layout of a view gives every element the position of the identity, and plain views are never refused.
    #[test]
    fn layouts_of_views(
        size in prop::collection::vec(1i64..150, 1..4),
        order in 0usize..6,
        steps in prop::collection::vec((0u8..6, 0i64..1000, 0i64..1000, 0i64..1000), 0..4),
    ) {
        let mut size = size;
        size.truncate(if size.iter().product::<i64>() > 60_000 { 2 } else { 3 });
        let mut dims: Vec<i64> = (0..i64::try_from(size.len()).unwrap()).collect();
        let n = dims.len();
        dims.rotate_left(order % n);
        let l = StickLayout::with_dim_order(&size, None, Dtype::Float16, &dims).unwrap();
        let base = StridedLayout::new_contiguous(&size).unwrap();
        let mut view = base;
        for (kind, a, b, c) in &steps {
            view = change(&view, *kind, *a, *b, *c);
        }
        let plain = steps.iter().all(|s| s.0 != 5 && s.0 != 2);
        match l.lower_view(&view) {
            Err(e) => prop_assert!(!plain, "{l}: {view:?}: {e}"),
            Ok(layout) => {
                prop_assert_eq!(layout.size(), view.numel());
                for i in (0..view.numel()).step_by(1 + usize::try_from(view.numel() / 500).unwrap()) {
                    let p = layout.physical_coordinates(i).unwrap().sorted_coordinates()[0].get(Axis::M);
                    let at = view.element_address(&unflatten_index(view.size(), i)).unwrap();
                    prop_assert_eq!(l.own_stride_offset(&unflatten_index(l.device_size(), p)), Ok(at), "{} {:?}", l, view);
                }
            }
        }
    }
}

/// Windows of any strides, whose loops may together leave a dimension: no position is in the padding.
#[test]
fn views_never_end_in_the_padding() {
    let (mut kept, mut refused) = (0, 0);
    for size in [[3, 5], [2, 70], [70, 2]] {
        let l = StickLayout::default_for_dtype(&size, Dtype::Float16).unwrap();
        let (map, end) = (l.build_padding_map().unwrap(), size[0] * size[1]);
        let steps =
            [(1, 1), (1, 2), (size[1], 1), (size[1] - 1, 1), (64, 1), (2, 64), (1, size[1])];
        for (a, b) in steps {
            for (n, m) in [(2, 2), (2, 5), (4, 3), (2, 64), (3, 1), (64, 2)] {
                for offset in [0, 1, 4] {
                    if offset + (n - 1) * a + (m - 1) * b >= end {
                        continue;
                    }
                    let view = StridedLayout::new(&[n, m], &[a, b], offset).unwrap();
                    let Ok(layout) = l.lower_view(&view) else {
                        refused += 1;
                        continue;
                    };
                    kept += 1;
                    for i in 0..view.numel() {
                        let p = layout.physical_coordinates(i).unwrap().sorted_coordinates()[0]
                            .get(Axis::M);
                        let at = view.element_address(&unflatten_index(view.size(), i)).unwrap();
                        let host =
                            map.host_coordinate_at(&unflatten_index(l.device_size(), p)).unwrap();
                        assert_eq!(host, Some(unflatten_index(&size, at)), "{l} {view:?} at {i}");
                    }
                }
            }
        }
    }
    assert!(kept > 50 && refused > 5, "{kept} kept, {refused} refused");
}
