//! The nests of a transfer as the documents write them: device strides decrease, in both directions, and
//! the loops are the mapping.

use std::collections::BTreeMap;
use zellige_float::Dtype;
use zellige_layout::StridedLayout;
use zellige_stick::{DataFormat, NamedNest, PlannedTransfer, StickLayout, TransferDirection};

fn transfer(size: &[i64], order: &[i64], direction: TransferDirection) -> PlannedTransfer {
    let host = StridedLayout::new_contiguous(size).expect("small");
    let stick = if order.is_empty() {
        let format = DataFormat::device_format_of(Dtype::Float16).expect("stored");
        StickLayout::default_in_format(size, Some(host.stride()), format).expect("small")
    } else {
        StickLayout::with_dim_order(size, Some(host.stride()), Dtype::Float16, order)
            .expect("small")
    };
    PlannedTransfer::new(&host, &stick, Dtype::Float16, direction).expect("planned")
}

/// Host element to device element, by running the loops.
fn mapping(nests: &[NamedNest]) -> BTreeMap<i64, i64> {
    let mut found = BTreeMap::new();
    for nest in nests {
        let n: i64 = nest.ranges.iter().product();
        for flat in 0..n {
            let (mut rest, mut host, mut device) = (flat, nest.host_offset, nest.device_offset);
            for (k, range) in nest.ranges.iter().enumerate().rev() {
                host += rest % range * nest.host_strides[k];
                device += rest % range * nest.device_strides[k];
                rest /= range;
            }
            assert_eq!(found.insert(host, device), None, "element {host} twice");
        }
    }
    found
}

#[test]
fn device_strides_decrease_both_ways() {
    for size in [&[1024, 256][..], &[40, 240], &[5, 100, 150], &[3, 4, 5, 70], &[130], &[7, 64, 2]]
    {
        let rank = i64::try_from(size.len()).expect("small");
        let turned: Vec<i64> = (0..rank).rev().collect();
        for order in [&[][..], &turned] {
            let [there, back] = [TransferDirection::HostToDevice, TransferDirection::DeviceToHost]
                .map(|d| transfer(size, order, d).named_nests());
            for nest in there.iter().chain(&back) {
                let falls = nest.device_strides.windows(2).all(|w| w[0] >= w[1]);
                assert!(falls, "{size:?} {order:?}: {nest:?}");
            }
            assert_eq!(mapping(&there), mapping(&back), "{size:?} {order:?}");
        }
    }
}

/// The worked example of the design documents.
#[test]
fn the_example_of_the_documents() {
    for direction in [TransferDirection::HostToDevice, TransferDirection::DeviceToHost] {
        let nests = transfer(&[1024, 256], &[], direction).named_nests();
        assert_eq!(nests[0].print_as_documented(), "((4,1024,64),(65536,64,1),(64,256,1))");
        assert_eq!(nests.len(), 1);
    }
}
