//! Reading recorded cases, and the laws of a lowering by enumeration.

use serde_json::Value;
use std::collections::BTreeSet;
use zellige_float::Dtype;
use zellige_layout::{Axis, unflatten_index};
use zellige_stick::{DataFormat, StickLayout};

pub(crate) fn load(name: &str) -> Value {
    let path = format!("{}/../../tests/data/{name}", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

pub(crate) fn ints(v: &Value) -> Vec<i64> {
    v.as_array().unwrap().iter().map(|x| x.as_i64().unwrap()).collect()
}

pub(crate) fn maybe(v: &Value) -> Option<Vec<i64>> {
    (!v.is_null()).then(|| ints(v))
}

pub(crate) fn dtype(v: &Value) -> Dtype {
    Dtype::from_name(v.as_str().unwrap()).unwrap()
}

pub(crate) fn fields(l: &StickLayout) -> (Vec<i64>, Vec<i64>) {
    (l.device_size().to_vec(), l.stride_map().to_vec())
}

pub(crate) fn f16(device_size: &[i64], stride_map: &[i64]) -> StickLayout {
    StickLayout::from_size_and_stride_map(device_size, stride_map, DataFormat::SEN169_FP16).unwrap()
}

/// Device positions of every host element, in row-major order: one, or all its replicas.
pub(crate) fn replicas(l: &StickLayout) -> Vec<Vec<i64>> {
    let lowered = l.lower_to_layout().unwrap();
    let host = l.host().unwrap();
    lowered.check_shape_size(host.size()).unwrap();
    let on_m = |p: &zellige_layout::PhysicalCoordinate| p.get(Axis::M);
    (0..host.numel())
        .map(|i| {
            lowered.physical_coordinates(i).unwrap().sorted_coordinates().iter().map(on_m).collect()
        })
        .collect()
}

/// Device position of every host element, in row-major order; each has one.
pub(crate) fn places(l: &StickLayout) -> Vec<i64> {
    let one = |all: Vec<i64>| {
        assert_eq!(all.len(), 1, "{l}");
        all[0]
    };
    replicas(l).into_iter().map(one).collect()
}

/// The laws of the lowering, by enumeration of the host and of the device.
pub(crate) fn check_laws(l: &StickLayout) {
    let host = l.host().unwrap();
    let found = replicas(l);
    for (i, all) in (0..).zip(&found) {
        for p in all {
            let device = unflatten_index(l.storage_size(), *p);
            let offset = host.element_address(&unflatten_index(host.size(), i)).unwrap();
            assert_eq!(l.own_stride_offset(&device), Ok(offset), "{l} of {host:?}: element {i}");
        }
    }
    let distinct: BTreeSet<_> = found.iter().flatten().collect();
    let held: usize = found.iter().map(Vec::len).sum();
    assert_eq!(distinct.len(), held, "{l} of {host:?}: two elements in one place");

    let map = l.build_padding_map().unwrap();
    assert_eq!(map.count_padding(), l.count_positions() - i64::try_from(held).unwrap());
    let mut padding = 0;
    for p in 0..l.count_positions() {
        match map.element_at(p).unwrap() {
            Some(i) => {
                assert!(found[usize::try_from(i).unwrap()].contains(&p), "{l} of {host:?}");
            }
            None => padding += 1,
        }
    }
    assert_eq!(padding, map.count_padding(), "{l} of {host:?}");
}
