//! Descriptors: those of the records, loop by loop, and the mapping of the plan on random transfers.

use proptest::prelude::*;
use zellige_float::Dtype;
use zellige_layout::StridedLayout;
use zellige_stick::{DataFormat, Dcsi, PlannedTransfer, StickLayout, TransferDirection};

/// Every recorded descriptor, field by field.
///
/// The recorded way back ends in a fresh tensor, whatever the first host was a part of.
#[test]
fn recorded_descriptors_have_the_same_loops() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/spyre_dci.json");
    let text = std::fs::read_to_string(path).expect("the data");
    let cases: Vec<serde_json::Value> = serde_json::from_str(&text).expect("JSON");
    let ints = |v: &serde_json::Value| -> Vec<i64> {
        v.as_array().expect("a list").iter().map(|x| x.as_i64().expect("an integer")).collect()
    };
    for case in &cases {
        let (size, own) = (ints(&case["host_size"]), ints(&case["dma_stride"]));
        let format = DataFormat::from_name(case["device_format"].as_str().expect("a name"));
        let (sizes, map) = (ints(&case["device_size"]), ints(&case["stride_map"]));
        let device = StickLayout::from_size_and_stride_map(&sizes, &map, format.expect("known"))
            .and_then(|l| l.with_own_strides(&size, &own))
            .expect("a layout");
        let offset = case["host_offset"].as_i64().expect("an offset");
        let there = StridedLayout::new(&size, &ints(&case["host_stride"]), offset).expect("a host");
        let back = StridedLayout::new(&size, &own, 0).expect("a host");
        let dtype = Dtype::from_name(case["dtype"].as_str().expect("a name")).expect("a dtype");
        for (host, direction, key) in [
            (there, TransferDirection::HostToDevice, "h2d"),
            (back, TransferDirection::DeviceToHost, "d2h"),
        ] {
            let transfer = PlannedTransfer::new(&host, &device, dtype, direction).expect("a plan");
            let made = transfer.build_descriptor("DCI-Tensor-0").expect("a descriptor");
            let want = &case[key];
            let heads = (&made.dci_dsName_, made.isHostToSen_);
            assert_eq!(
                heads,
                (&"DCI-Tensor-0".to_string(), direction == TransferDirection::HostToDevice)
            );
            assert_eq!(made.input_shape_, ints(&want["input_shape_"]), "{size:?} {key}");
            assert_eq!(made.output_shape_, ints(&want["output_shape_"]), "{size:?} {key}");
            let list = want["dcsi_"].as_array().expect("a list").iter().map(|d| Dcsi {
                size_: ints(&d["size"]),
                stride_src_: ints(&d["stride_src"]),
                stride_dst_: ints(&d["stride_dst"]),
                offset_src_: d["offset_src"].as_i64().expect("an offset"),
                offset_dst_: d["offset_dst"].as_i64().expect("an offset"),
            });
            assert_eq!(made.dcsi_, list.collect::<Vec<_>>(), "{size:?} on {sizes:?} {map:?} {key}");
        }
    }
    assert_eq!(cases.len(), 79);
}

/// The padded example of the documents: whole sticks, and what is left of the last stick of every row.
#[test]
fn a_corner_of_a_padded_box_is_two_nests() {
    let (size, padded) = ([100, 200, 500], [131_072, 512, 1]);
    let format = DataFormat::SEN169_FP16;
    let map = [512, 64, 131_072, 1];
    let device =
        StickLayout::from_size_and_stride_map(&[256, 8, 128, 64], &map, format).expect("a layout");
    for (stride, to_row) in [(padded, 512), ([100_000, 500, 1], 500)] {
        let host = StridedLayout::new(&size, &stride, 0).expect("a host");
        let bound = device.with_host(&size, Some(&stride)).expect("a host that fits");
        for direction in [TransferDirection::HostToDevice, TransferDirection::DeviceToHost] {
            let transfer =
                PlannedTransfer::new(&host, &bound, Dtype::Float16, direction).expect("a plan");
            let nests = transfer.named_nests();
            assert_eq!(nests.len(), 2, "{nests:?}");
            let moved: i64 = nests.iter().map(|n| n.ranges.iter().product::<i64>()).sum();
            assert_eq!(moved, 100 * 200 * 500);
            let dci = transfer.build_descriptor("DCI-Tensor-0").expect("a descriptor");
            let sizes: Vec<&[i64]> = dci.dcsi_.iter().map(|d| &d.size_[..]).collect();
            assert_eq!(sizes, [&[64, 100, 7, 200][..], &[52, 100, 1, 200]]);
            let there = direction == TransferDirection::HostToDevice;
            let on_host =
                |d: &Dcsi| if there { d.stride_src_.clone() } else { d.stride_dst_.clone() };
            let on_card =
                |d: &Dcsi| if there { d.stride_dst_.clone() } else { d.stride_src_.clone() };
            for d in &dci.dcsi_ {
                assert_eq!(on_host(d), [1, stride[0], 64, to_row]);
                assert_eq!(on_card(d), [1, 64, 128 * 64, 8 * 128 * 64]);
            }
            let last = &dci.dcsi_[1];
            let first = if there {
                (last.offset_src_, last.offset_dst_)
            } else {
                (last.offset_dst_, last.offset_src_)
            };
            assert_eq!(first, (448, 7 * 128 * 64));
        }
    }
}

/// Every pair of addresses of a nest, arrays in any order.
fn pairs(range: &[i64], from: &[i64], to: &[i64], first: (i64, i64)) -> Vec<(i64, i64)> {
    let mut points = vec![first];
    for ((n, s), t) in range.iter().zip(from).zip(to) {
        let along = |(a, b): &(i64, i64)| -> Vec<(i64, i64)> {
            (0..*n).map(|i| (a + i * s, b + i * t)).collect()
        };
        points = points.iter().flat_map(along).collect();
    }
    points
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Law: a descriptor is the mapping of the plan, with one loop for every device dimension wherever the
    /// host lies in the tensor's own strides.
    #[test]
    fn descriptors_are_the_mapping_of_the_plan(
        size in prop::collection::vec(prop::sample::select(vec![0i64, 1, 2, 3, 5, 8, 31, 33, 64, 65, 130]), 0..4),
        order in any::<u64>(),
        host in 0..5,
        gap in prop::sample::select(vec![0i64, 0, 1, 3, 64]),
        back in any::<bool>(),
    ) {
        prop_assume!(size.iter().product::<i64>() <= 9000);
        let mut dims: Vec<i64> = (0..).take(size.len()).collect();
        for i in (1..dims.len()).rev() {
            dims.swap(i, usize::try_from(order >> (8 * i)).expect("64 bits") % (i + 1));
        }
        let mut strides = vec![1; size.len()];
        for d in (1..size.len()).rev() {
            strides[d - 1] = strides[d] * (size[d].max(1) + gap);
        }
        let own = strides.clone();
        match host {
            // Rows of a wider tensor, every second element, broadcast rows, backwards.
            1 => strides.iter_mut().rev().skip(1).for_each(|s| *s += 7 * *s),
            2 => strides.iter_mut().for_each(|s| *s *= 2),
            3 if !back => strides.iter_mut().take(1).for_each(|s| *s = 0),
            4 => strides.iter_mut().take(1).for_each(|s| *s = -*s),
            _ => {}
        }
        let low: i64 = size.iter().zip(&strides).map(|(n, s)| (n - 1).max(0) * s.min(&0)).sum();
        let host_tensor = StridedLayout::new(&size, &strides, 3 - low).expect("small");
        let device = StickLayout::with_dim_order(&size, Some(&own), Dtype::Float16, &dims).expect("small");
        let direction = if back { TransferDirection::DeviceToHost } else { TransferDirection::HostToDevice };
        let transfer = PlannedTransfer::new(&host_tensor, &device, Dtype::Float16, direction).expect("a plan");
        let mut want: Vec<(i64, i64)> = transfer.named_nests().iter().flat_map(|n| {
            pairs(&n.ranges, &n.host_strides, &n.device_strides, (n.host_offset, n.device_offset))
        }).collect();
        let made = transfer.build_descriptor("x").expect("a descriptor");
        let mut got: Vec<(i64, i64)> = made.dcsi_.iter().flat_map(|d| {
            let one = pairs(&d.size_, &d.stride_src_, &d.stride_dst_, (d.offset_src_, d.offset_dst_));
            one.into_iter().map(|(a, b)| if back { (b, a) } else { (a, b) })
        }).collect();
        want.sort_unstable();
        got.sort_unstable();
        prop_assert!(got == want, "{size:?} {dims:?} {strides:?}: {:?}", made.dcsi_.first());
        if host == 0 {
            prop_assert!(made.dcsi_.iter().all(|d| d.size_.len() == device.device_rank()));
        }
    }
}

/// Transfers into layouts with gaps and into sticks of several dimensions: every element goes where the layout has
/// it, by loops of the device dimensions.
#[test]
fn gaps_and_squares_are_loops_too() {
    let format = DataFormat::SEN169_FP16;
    let plain = StickLayout::from_size_and_stride_map(&[3, 5, 64], &[64, 150, 1], format)
        .expect("a layout");
    let gapped = plain.with_device_strides(&[1024, 128, 1]).expect("gaps");
    let squares = StickLayout::with_stick_dims(&[4, 6, 8, 8], &[360, 8, 45, 1], format, 2);
    for (layout, size, most) in [(gapped, [5, 150], 2), (squares.expect("squares"), [30, 45], 4)] {
        let host = StridedLayout::new_contiguous(&size).expect("a host");
        let bound = layout.with_own_strides(&size, host.stride()).expect("bound");
        let map = bound.build_padding_map().expect("a map");
        for direction in [TransferDirection::HostToDevice, TransferDirection::DeviceToHost] {
            let transfer =
                PlannedTransfer::new(&host, &bound, Dtype::Float16, direction).expect("a plan");
            let made = transfer.build_descriptor("x").expect("a descriptor");
            assert!(made.dcsi_.len() <= most, "{:?}", made.dcsi_);
            let mut seen = vec![false; usize::try_from(host.numel()).expect("small")];
            for d in &made.dcsi_ {
                assert_eq!(d.size_.len(), bound.device_rank());
                let all =
                    pairs(&d.size_, &d.stride_src_, &d.stride_dst_, (d.offset_src_, d.offset_dst_));
                for (from, to) in all {
                    let (element, place) = if direction == TransferDirection::HostToDevice {
                        (from, to)
                    } else {
                        (to, from)
                    };
                    assert_eq!(map.element_at(place), Ok(Some(element)));
                    let seen = &mut seen[usize::try_from(element).expect("small")];
                    assert!(!std::mem::replace(seen, true));
                }
            }
            assert!(seen.iter().all(|s| *s));
        }
    }
}
