//! Transfers of device layouts with dimensions of stride 0: every replica is written, one is read.

use std::collections::{BTreeMap, BTreeSet};
use zellige_float::Dtype;
use zellige_layout::{Axis, StridedLayout};
use zellige_stick::{DataFormat, StickLayout};
use zellige_stick::{PlannedTransfer, TransferDirection};

/// Host and device addresses of every copy of a descriptor and of the nests.
fn copies(transfer: &PlannedTransfer, to_device: bool) -> [Vec<(i64, i64)>; 2] {
    let walk = |ranges: &[i64], a: &[i64], b: &[i64], first: (i64, i64)| {
        let mut points = vec![first];
        for ((n, s), t) in ranges.iter().zip(a).zip(b) {
            let step = |(x, y): &(i64, i64)| -> Vec<(i64, i64)> {
                (0..*n).map(|i| (x + i * s, y + i * t)).collect()
            };
            points = points.iter().flat_map(step).collect();
        }
        points
    };
    let nests = transfer.named_nests();
    let named = nests.iter().flat_map(|n| {
        walk(&n.ranges, &n.host_strides, &n.device_strides, (n.host_offset, n.device_offset))
    });
    let made = transfer.build_descriptor("x").expect("a descriptor");
    let listed = made.dcsi_.iter().flat_map(|d| {
        let all = walk(&d.size_, &d.stride_src_, &d.stride_dst_, (d.offset_src_, d.offset_dst_));
        all.into_iter().map(|(a, b)| if to_device { (a, b) } else { (b, a) }).collect::<Vec<_>>()
    });
    let mut both = [named.collect::<Vec<_>>(), listed.collect::<Vec<_>>()];
    both.iter_mut().for_each(|list| list.sort_unstable());
    both
}

#[test]
fn every_replica_is_written_and_one_is_read() {
    let mut cases = 0;
    for size in [vec![5], vec![3, 40], vec![2, 3, 33]] {
        let host = StridedLayout::new_contiguous(&size).expect("small");
        let base = StickLayout::default_for_dtype(&size, Dtype::Float32).expect("small");
        // A dimension of stride 0 in every position, and in two of them.
        for first in 0..base.device_rank() {
            for second in [None, Some(0)] {
                let (mut sizes, mut map) =
                    (base.device_size().to_vec(), base.stride_map().to_vec());
                for (at, extent) in [Some((first, 3)), second.map(|s| (s, 2))].into_iter().flatten()
                {
                    sizes.insert(at, extent);
                    map.insert(at, 0);
                }
                let device =
                    StickLayout::from_size_and_stride_map(&sizes, &map, DataFormat::IEEE_FP32)
                        .and_then(|d| d.with_host(&size, None))
                        .expect("bound");
                let lowered = device.lower_to_layout().expect("lowers");
                let mut want = BTreeMap::new();
                for i in 0..lowered.size() {
                    let points =
                        lowered.physical_coordinates(i).expect("inside").sorted_coordinates();
                    let places: BTreeSet<i64> = points.iter().map(|p| p.get(Axis::M)).collect();
                    assert_eq!(places.len(), if second.is_some() { 6 } else { 3 });
                    want.insert(i, places);
                }
                let every: Vec<(i64, i64)> =
                    want.iter().flat_map(|(i, all)| all.iter().map(move |p| (*i, *p))).collect();
                let plan =
                    |d| PlannedTransfer::new(&host, &device, Dtype::Float32, d).expect("a plan");
                for list in copies(&plan(TransferDirection::HostToDevice), true) {
                    assert_eq!(list, every, "{size:?} into {sizes:?} {map:?}");
                }
                for list in copies(&plan(TransferDirection::DeviceToHost), false) {
                    let hosts: Vec<i64> = list.iter().map(|(h, _)| *h).collect();
                    assert_eq!(hosts, want.keys().copied().collect::<Vec<_>>(), "each once");
                    assert!(list.iter().all(|(h, d)| want[h].contains(d)), "{sizes:?} {map:?}");
                }
                cases += 1;
            }
        }
    }
    assert_eq!(cases, 2 * (2 + 3 + 4));
}
