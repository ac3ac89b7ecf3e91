//! Layouts with random numbers: the laws hold for what is lowered, refusals are true, and nothing panics.

use crate::common::check_laws;
use proptest::prelude::*;
use zellige_layout::StridedLayout;
use zellige_stick::{DataFormat, LaneArrangement, StickError, StickLayout, ViewLoop};

/// Explicit layouts drawn at random: whatever is lowered obeys the laws, and what is refused as
/// not covered really has an element without a position by greedy division.
#[test]
fn random_layouts_obey_the_laws() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut pick = |list: &[i64]| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        list[usize::try_from((state >> 33) % list.len() as u64).unwrap()]
    };
    let mut lowered = 0;
    for _ in 0..6000 {
        let size: Vec<i64> = (0..pick(&[1, 2, 3])).map(|_| pick(&[1, 2, 3, 4, 6, 12])).collect();
        let steps = [-1, 0, 1, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 36, 48, 64];
        let rank = pick(&[1, 2, 3]);
        let mut device: Vec<i64> = (0..rank).map(|_| pick(&[1, 2, 3, 4, 6, 8])).collect();
        let mut map: Vec<i64> = (0..rank).map(|_| pick(&steps)).collect();
        device.push(16);
        map.push(pick(&[-1, 1, 1, 1, 2, 4]));
        let mut host = StridedLayout::new_contiguous(&size).unwrap();
        if pick(&[0, 1]) == 1 {
            host = StridedLayout::new_contiguous(&size.iter().rev().copied().collect::<Vec<_>>())
                .unwrap();
            let reversed: Vec<i64> = (0..).take(size.len()).collect::<Vec<_>>();
            host = host.permute(&reversed.into_iter().rev().collect::<Vec<_>>()).unwrap();
        }
        let l = StickLayout::from_size_and_stride_map(&device, &map, DataFormat::IEEE_INT64)
            .and_then(|l| l.with_host(host.size(), Some(host.stride())))
            .unwrap();
        match l.lower_to_layout() {
            Ok(_) => {
                lowered += 1;
                check_laws(&l);
            }
            Err(StickError::HostNotCovered { index, .. }) => {
                let mut order: Vec<usize> =
                    (0..device.len()).filter(|j| map[*j] > 0 && device[*j] > 1).collect();
                order.sort_by_key(|j| std::cmp::Reverse(map[*j]));
                let fails = |mut x: i64| {
                    for j in &order {
                        if x / map[*j] >= device[*j] {
                            return true;
                        }
                        x %= map[*j];
                    }
                    x != 0
                };
                assert!(fails(index), "{l} of {host:?}: {index} has a place");
            }
            Err(StickError::BadStick { .. }) => {}
            Err(e) => panic!("{l} of {host:?}: {e}"),
        }
    }
    assert!(lowered > 300, "{lowered}");
}

/// Numbers of every magnitude, small ones often.
fn number() -> impl Strategy<Value = i64> {
    prop_oneof![-2i64..9, -2i64..9, (0u32..63).prop_map(|b| 1 << b), any::<i64>()]
}

proptest! {
    /// Whatever the numbers, every function answers or refuses.
    #[test]
    fn nothing_panics(
        size in prop::collection::vec(number(), 0..4),
        stride in prop::collection::vec(number(), 0..4),
        mut device in prop::collection::vec(number(), 0..5),
        map in prop::collection::vec(number(), 0..6),
        order in prop::collection::vec(-2i64..4, 0..5),
        (a, b, which) in (number(), number(), 0usize..24),
    ) {
        let format = DataFormat::ALL[which];
        device.extend(format.elems_per_stick());
        let mut map = map;
        map.resize(device.len(), 1);
        let built = [
            StickLayout::default_in_format(&size, None, format),
            StickLayout::default_in_format(&size, Some(&stride), format),
            StickLayout::with_dim_order_in_format(&size, None, format, &order),
            StickLayout::from_dim_map(&size, None, &device, &map, format),
            StickLayout::from_size_and_stride_map(&device, &map, format).and_then(|l| l.with_host(&size, None)),
            StickLayout::from_size_and_stride_map(&device, &map, format)
                .and_then(|l| l.with_own_strides(&size, &stride)),
            StickLayout::qfp8_weights(a, b),
        ];
        for l in built.into_iter().flatten() {
            let _ = (l.device_bytes(), l.to_string(), l.recover_dim_map(), l.restickify_along(0), l.restickify_along(-1));
            let _ = (l.with_device_format(DataFormat::SEN143_FP8, None), l.with_device_format(format, Some(a)));
            for arrangement in LaneArrangement::ALL {
                let _ = l.with_arrangement(arrangement).and_then(|l| l.lower_to_layout());
            }
            if let Ok(m) = l.build_padding_map() {
                let _ = (m.element_at(a), m.element_at(0), m.count_padding());
            }
            if let Ok(view) = StridedLayout::new(&[a, 3], &[b, a], b) {
                let _ = l.lower_view(&view);
            }
            let loops = [ViewLoop { range: a, step: b }, ViewLoop { range: 3, step: a }];
            if let Ok(access) = l.device_access(&loops, b) {
                let _ = (access.first_overrun(), access.coordinates()[0].evaluate_at(&[a, b]));
            }
        }
    }
}
