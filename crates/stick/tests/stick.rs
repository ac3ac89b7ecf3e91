//! Stick layouts against the vectors of the device and against their own definitions.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use proptest::prelude::*;
use serde_json::Value;
use std::collections::BTreeSet;
use zellige_float::Dtype;
use zellige_layout::{Axis, StridedLayout, unflatten_index};
use zellige_stick::{DataFormat, LaneArrangement, StickError, StickLayout, ViewLoop};

fn load(name: &str) -> Value {
    let path = format!("{}/../../tests/data/{name}", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn ints(v: &Value) -> Vec<i64> {
    v.as_array().unwrap().iter().map(|x| x.as_i64().unwrap()).collect()
}

fn maybe(v: &Value) -> Option<Vec<i64>> {
    (!v.is_null()).then(|| ints(v))
}

fn dtype(v: &Value) -> Dtype {
    Dtype::from_name(v.as_str().unwrap()).unwrap()
}

fn fields(l: &StickLayout) -> (Vec<i64>, Vec<i64>) {
    (l.device_size().to_vec(), l.stride_map().to_vec())
}

fn f16(device_size: &[i64], stride_map: &[i64]) -> StickLayout {
    StickLayout::from_size_and_stride_map(device_size, stride_map, DataFormat::SEN169_FP16).unwrap()
}

/// Device positions of every host element, in row-major order: one, or all its replicas.
fn replicas(l: &StickLayout) -> Vec<Vec<i64>> {
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
fn places(l: &StickLayout) -> Vec<i64> {
    let one = |all: Vec<i64>| {
        assert_eq!(all.len(), 1, "{l}");
        all[0]
    };
    replicas(l).into_iter().map(one).collect()
}

/// The laws of the lowering, by enumeration of the host and of the device.
fn check_laws(l: &StickLayout) {
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

/// Upstream's default keeps dimensions of size 1 as device dimensions of extent 1. The design
/// documents say that such dimensions do not contribute, which our default follows; the dim_order
/// spelling gives upstream's.
#[test]
fn every_layout_vector_is_reproduced() {
    let cases = load("spyre_layouts.json");
    let cases = cases.as_array().unwrap();
    assert_eq!(cases.len(), 99);
    let mut unit_dims = 0;
    for c in cases {
        let want = (ints(&c["device_size"]), ints(&c["stride_map"]));
        let (size, stride) = (maybe(&c["size"]), maybe(&c["stride"]));
        if c["kind"] == "explicit" {
            let format = match c["device_dtype"].as_str() {
                Some(name) => DataFormat::from_name(name).unwrap(),
                None => DataFormat::device_format_of(dtype(&c["dtype"])).unwrap(),
            };
            let layout = StickLayout::from_size_and_stride_map(&want.0, &want.1, format);
            if let Some(message) = c["error"].as_str() {
                assert!(layout.unwrap_err().to_string().contains(message));
                continue;
            }
            let layout = layout.unwrap();
            assert_eq!(fields(&layout), want);
            if let Some(bytes) = c["nbytes"].as_i64() {
                assert_eq!(layout.device_bytes(), Ok(bytes));
            }
            if let Some(size) = size {
                check_laws(&layout.with_host(&size, stride.as_deref()).unwrap());
            }
            continue;
        }
        let (size, ty) = (size.unwrap(), dtype(&c["dtype"]));
        let format = DataFormat::device_format_of(ty).unwrap();
        let all: Vec<i64> = (0..).take(size.len()).collect();
        let with_order = |o: &[i64]| StickLayout::with_dim_order(&size, stride.as_deref(), ty, o);
        let layout = match maybe(&c["dim_order"]) {
            Some(order) => with_order(&order).unwrap(),
            None => {
                let layout =
                    StickLayout::default_in_format(&size, stride.as_deref(), format).unwrap();
                if size.contains(&1) {
                    unit_dims += 1;
                    let canonical: Vec<i64> = size.iter().copied().filter(|n| *n != 1).collect();
                    let inner = StickLayout::default_for_dtype(&canonical, ty).unwrap();
                    assert_eq!(layout, inner, "{size:?} has the layout of {canonical:?}");
                    check_laws(&layout);
                } else {
                    assert_eq!(fields(&layout), want, "{c}");
                }
                with_order(&all).unwrap()
            }
        };
        assert_eq!(fields(&layout), want, "{c}");
        if let Some(bytes) = c["nbytes"].as_i64() {
            assert_eq!(layout.device_bytes(), Ok(bytes));
        }
        if layout.count_positions() <= 200_000 {
            check_laws(&layout);
        } else {
            assert_eq!(layout.lower_to_layout().unwrap().size(), layout.host().unwrap().numel());
        }
        if let Some(folded) = maybe(&c["host_size"]) {
            check_laws(&layout.with_host(&folded, None).unwrap());
        }
    }
    assert_eq!(unit_dims, 6);
}

/// The (host, device) pairs that a list of loops copies.
fn copied(nests: &Value) -> Vec<(i64, i64)> {
    let mut all = Vec::new();
    for nest in nests.as_array().unwrap() {
        let (src, dst) = (ints(&nest["stride_src"]), ints(&nest["stride_dst"]));
        let start = |v: &Value| v.as_i64().unwrap();
        let mut pairs = vec![(start(&nest["offset_src"]), start(&nest["offset_dst"]))];
        for ((n, s), d) in ints(&nest["size"]).into_iter().zip(src).zip(dst) {
            let steps = |(a, b): (i64, i64)| (0..n).map(move |i| (a + i * s, b + i * d));
            pairs = pairs.into_iter().flat_map(steps).collect();
        }
        all.extend(pairs);
    }
    all.sort_unstable();
    all
}

/// Runs the descriptors and compares with the lowered layout, element by element.
#[test]
fn lowering_is_the_mapping_of_every_transfer_vector() {
    let cases = load("spyre_dci.json");
    let cases = cases.as_array().unwrap();
    assert_eq!(cases.len(), 79);
    for c in cases {
        let format = DataFormat::from_name(c["device_format"].as_str().unwrap()).unwrap();
        let (size, stride) = (ints(&c["host_size"]), ints(&c["host_stride"]));
        let host = StridedLayout::new(&size, &stride, c["host_offset"].as_i64().unwrap()).unwrap();
        let layout = StickLayout::from_size_and_stride_map(
            &ints(&c["device_size"]),
            &ints(&c["stride_map"]),
            format,
        )
        .and_then(|l| l.with_host(&size, Some(&stride)))
        .unwrap();
        assert_eq!(layout.host().unwrap().stride(), ints(&c["dma_stride"]), "{c}");
        let elements = (0..).zip(places(&layout));
        let mut found: Vec<(i64, i64)> = elements
            .map(|(i, p)| (host.element_address(&unflatten_index(&size, i)).unwrap(), p))
            .collect();
        found.sort_unstable();
        assert_eq!(found, copied(&c["h2d"]["dcsi_"]), "{c}");
        if let Some(never) = c["device_elements_never_written"].as_i64() {
            assert_eq!(layout.build_padding_map().unwrap().count_padding(), never);
        }
        if layout.count_positions() <= 100_000 {
            check_laws(&layout);
        }
    }
}

#[test]
fn formats_and_dtypes_are_the_published_ones() {
    let extras = load("spyre_extras.json");
    let formats = extras["data_formats"].as_array().unwrap();
    let published = DataFormat::ALL.into_iter().filter(|f| !f.is_held_only());
    assert_eq!(formats.len(), published.count());
    for f in formats {
        let format = DataFormat::from_name(f["name"].as_str().unwrap()).unwrap();
        assert_eq!(Some(format.value()), f["value"].as_i64());
        assert_eq!(DataFormat::from_value(format.value()), Some(format));
        match f["elems_per_stick"].as_i64() {
            Some(n) => assert_eq!(format.elems_per_stick().unwrap_or(0), n, "{format}"),
            // Not stated upstream: the width decides, except for the format of host memory.
            None => assert_eq!(
                format.elems_per_stick(),
                match format {
                    DataFormat::SEN152_FP8 => Some(128),
                    DataFormat::SENINT16 => Some(64),
                    _ => None,
                }
            ),
        }
        if let Some(bits) = f["bits"].as_i64() {
            assert_eq!(format.bits().unwrap_or(0), bits);
        }
    }
    for t in extras["torch_to_format"].as_array().unwrap() {
        let names = t["torch"].as_str().unwrap();
        let list: Vec<String> = match names.find(|c: char| c.is_ascii_digit()) {
            Some(at) if names.contains('/') => {
                names[at..].split('/').map(|width| format!("{}{width}", &names[..at])).collect()
            }
            _ => vec![names.to_string()],
        };
        for name in list {
            let ty = Dtype::from_name(&name).unwrap();
            match (name.as_str(), t["host"].as_str()) {
                // Upstream maps only the fnuz variant.
                ("float8_e5m2", _) => {
                    assert_eq!(DataFormat::device_format_of(ty), Ok(DataFormat::SEN152_FP8));
                }
                // Upstream names a 2-bit format for it, which cannot hold four bits.
                ("quint4x2", _) => {
                    assert_eq!(DataFormat::device_format_of(ty), Ok(DataFormat::SENINT4));
                }
                (_, Some(host)) => {
                    assert_eq!(DataFormat::host_format_of(ty).unwrap().name(), host);
                    assert_eq!(
                        DataFormat::device_format_of(ty).unwrap().name(),
                        t["device"].as_str().unwrap()
                    );
                }
                (_, None) => {
                    let e = DataFormat::device_format_of(ty).unwrap_err();
                    assert_eq!(e.kind(), "unsupported_dtype");
                    let text = e.to_string();
                    assert!(text.contains(&name) && text.contains("float16, bfloat16"), "{text}");
                }
            }
        }
    }
    assert!(Dtype::from_name("float17").is_err());
    assert_eq!(Dtype::from_name("torch.half"), Ok(Dtype::Float16));
}

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
/// PyTorch would write 1 there. No element tells the two apart, and [64, 0, 1] is what the device
/// prints for [4, 0].
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

/// Law: a stride along which nothing steps says nothing, whatever its sign.
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

#[test]
fn uncovered_hosts_have_a_witness() {
    let short = f16(&[1, 30, 64], &[64, 60, 1]).with_host(&[40, 60], None).unwrap();
    match short.lower_to_layout() {
        Err(StickError::HostNotCovered { index, .. }) => assert_eq!(index, 39 * 60),
        other => panic!("{other:?}"),
    }
    // Rows of 70 on sticks that are 70 apart: lanes 64 to 69 are nowhere.
    let gap = f16(&[40, 64], &[70, 1]).with_host(&[40, 70], None).unwrap();
    match gap.lower_to_layout() {
        Err(StickError::HostNotCovered { index, .. }) => assert!((64..70).contains(&(index % 70))),
        other => panic!("{other:?}"),
    }
    let coarse = f16(&[2, 64], &[128, 2]).with_host(&[128], None).unwrap();
    assert_eq!(coarse.lower_to_layout().unwrap_err().kind(), "host_not_covered");
    // 100 elements in rows of 60: the last row is short.
    check_laws(&f16(&[2, 64], &[60, 1]).with_host(&[100], None).unwrap());
    // 130 elements in rows of 100, each cut into sticks: the elements are no box.
    let ragged = f16(&[2, 2, 64], &[64, 100, 1]).with_host(&[130], None).unwrap();
    assert_eq!(ragged.lower_to_layout().unwrap_err().kind(), "bad_stick");
}

#[test]
fn own_strides_may_have_gaps() {
    let l = f16(&[20, 2, 13, 64], &[128, 64, 4096, 1]);
    check_laws(&l.with_own_strides(&[10, 20, 100], &[4096, 128, 1]).unwrap());
    // A contiguous tensor of that size does not fit these strides.
    assert!(l.with_host(&[10, 20, 100], None).unwrap().lower_to_layout().is_err());
    let overlap = l.with_own_strides(&[4, 4], &[2, 1]).unwrap();
    assert_eq!(overlap.lower_to_layout().unwrap_err().kind(), "bad_parameter");
    assert!(l.with_own_strides(&[4, 4], &[-4, 1]).is_err());
    // A reversed host is not dense in the forward sense, so it is read row-major.
    check_laws(&f16(&[1, 40, 64], &[64, 60, 1]).with_host(&[40, 60], Some(&[-60, 1])).unwrap());
}

/// The padded example of the device's documents: `[100, 200, 500]` in the layout of `[128, 256, 512]`. Element
/// `(i, j, k)` is at device coordinate `(j, k / 64, i, k % 64)`.
#[test]
fn a_corner_of_a_padded_box_keeps_the_strides_of_the_box() {
    let l = f16(&[256, 8, 128, 64], &[512, 64, 131_072, 1]);
    let (size, padded) = ([100, 200, 500], [131_072, 512, 1]);
    let given = l.with_own_strides(&size, &padded).unwrap();
    for bound in [
        given.clone(),
        // A contiguous host, one in the memory of the padded tensor, one in memory with other gaps.
        l.with_host(&size, None).unwrap(),
        l.with_host(&size, Some(&padded)).unwrap(),
        l.with_host(&size, Some(&[200_000, 1000, 1])).unwrap(),
        // What was given stays.
        given.with_host(&size, None).unwrap(),
        given.with_host(&size, Some(&[100_000, 500, 1])).unwrap(),
    ] {
        assert_eq!(bound.host().unwrap().stride(), padded);
        let map = bound.build_padding_map().unwrap();
        for c in [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 499], [99, 199, 499], [37, 101, 257]] {
            let device = [c[1], c[2] / 64, c[0], c[2] % 64];
            assert_eq!(map.device_coordinate_of(&c).unwrap(), device, "{c:?}");
            assert_eq!(map.host_coordinate_at(&device).unwrap(), Some(c.to_vec()));
        }
        // A lane past the row, a row past the columns, a step past the first dimension: padding, not the next element.
        for device in [[0, 7, 0, 52], [200, 0, 0, 0], [0, 0, 100, 0], [255, 7, 127, 63]] {
            assert_eq!(map.host_coordinate_at(&device).unwrap(), None, "{device:?}");
        }
        assert_eq!(map.count_padding(), 256 * 8 * 128 * 64 - 100 * 200 * 500);
    }
    // The sizes decide whether the strides of the tensor itself are those of the map, in whole or in part.
    let whole = l.with_host(&[128, 256, 512], None).unwrap();
    assert!(whole.host().unwrap().is_row_major());
    let rows = l.with_host(&[100, 256, 512], None).unwrap();
    assert_eq!(rows.host().unwrap().stride(), padded);
    let part = l.with_host(&[100, 200, 512], None).unwrap();
    assert_eq!(part.host().unwrap().stride(), padded);
    // Dimensions of size 1 take nothing of the box.
    let one = l.with_host(&[100, 1, 200, 500], None).unwrap();
    assert_eq!(&one.host().unwrap().stride()[2..], [512, 1]);
    check_laws(&f16(&[6, 2, 5, 64], &[128, 64, 768, 1]).with_host(&[4, 5, 100], None).unwrap());
    // A transposed host lies in the transposed box.
    let turned = f16(&[6, 2, 64], &[128, 64, 1]).with_host(&[100, 5], Some(&[1, 100])).unwrap();
    assert_eq!(turned.host().unwrap().stride(), [1, 128]);
    check_laws(&turned);
    // A tensor that was said to be folded over the sticks stays so, though it would fit into the box.
    let flat = f16(&[40, 64], &[64, 1]);
    let said = flat.with_own_strides(&[40, 60], &[60, 1]).unwrap();
    assert_eq!(said.with_host(&[40, 60], None).unwrap().host(), said.host());
    let found = flat.with_host(&[40, 60], None).unwrap();
    assert_eq!(found.host().unwrap().stride(), [64, 1]);
    assert_eq!([said.tells_its_strides(), found.tells_its_strides()], [false, false]);
    assert!(whole.tells_its_strides() && !part.tells_its_strides() && flat.tells_its_strides());
    // What does not fit into the box is folded over the sticks, as before.
    let folded = f16(&[38, 64], &[64, 1]).with_host(&[40, 60], None).unwrap();
    assert_eq!(folded.host().unwrap().stride(), [60, 1]);
    check_laws(&folded);
}

/// Gaps are places that no dimension has: with the same coordinates an element lies at the dot product of the
/// given strides, and nothing else is anywhere.
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

#[test]
fn broadcast_hosts_keep_their_own_places() {
    let l = StickLayout::with_dim_order(&[4, 6], Some(&[0, 1]), Dtype::Float16, &[0, 1]).unwrap();
    assert_eq!(fields(&l), (vec![1, 4, 64], vec![64, 0, 1]));
    check_laws(&l);
    check_laws(&f16(&[1, 4, 64], &[64, 0, 1]).with_host(&[4, 6], Some(&[0, 1])).unwrap());
    // An order of dimensions takes the strides as they are; the default layout of a host that is not
    // dense is that of its own strides, as the recorded transfers have it.
    let order = &[0, 1];
    let stick =
        StickLayout::with_dim_order(&[4, 130], Some(&[1, 0]), Dtype::Float16, order).unwrap();
    assert_eq!(fields(&stick), (vec![3, 4, 64], vec![0, 1, 0]));
    check_laws(&stick);
    let own =
        StickLayout::default_in_format(&[40, 130], Some(&[1, 0]), DataFormat::SEN169_FP16).unwrap();
    assert_eq!(fields(&own), (vec![3, 40, 64], vec![64, 130, 1]));
    check_laws(&own);
    let order = &[0, 1, 2];
    check_laws(
        &StickLayout::with_dim_order(&[3, 5, 7], Some(&[0, 0, 1]), Dtype::Float16, order).unwrap(),
    );
    // An expanded host on a layout without broadcast dimensions is read row-major.
    check_laws(&f16(&[3, 40, 64], &[64, 130, 1]).with_host(&[40, 130], Some(&[1, 0])).unwrap());
    let missing = l.with_own_strides(&[4, 9, 6], &[0, 0, 1]).unwrap();
    assert_eq!(missing.lower_to_layout().unwrap_err().kind(), "host_not_covered");
}

#[test]
fn permuted_hosts_fold_where_the_device_is_one_line() {
    check_laws(&f16(&[38, 64], &[64, 1]).with_host(&[40, 60], Some(&[1, 40])).unwrap());
    check_laws(&f16(&[1, 60, 64], &[64, 40, 1]).with_host(&[40, 60], Some(&[1, 40])).unwrap());
    check_laws(&f16(&[2, 20, 64], &[1280, 64, 1]).with_host(&[64, 40], Some(&[1, 64])).unwrap());
    // Blocks of two host rows: the outer host dimension is left with a digit above the stick.
    check_laws(&f16(&[5, 64], &[64, 1]).with_host(&[32, 10], Some(&[1, 32])).unwrap());
    check_laws(&f16(&[20, 2, 64], &[32, 640, 1]).with_host(&[32, 40], Some(&[1, 32])).unwrap());
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

/// Explicit layouts drawn at random: whatever is lowered obeys the laws, and what is refused as
/// not covered really has an element without a place by greedy division.
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

#[test]
fn restickify_vectors() {
    for c in load("spyre_extras.json")["restickify"].as_array().unwrap() {
        let format = DataFormat::device_format_of(dtype(&c["dtype"])).unwrap();
        let size = ints(&c["size"]);
        let from = StickLayout::from_size_and_stride_map(
            &ints(&c["in_device_size"]),
            &ints(&c["in_stride_map"]),
            format,
        )
        .and_then(|l| l.with_host(&size, maybe(&c["stride"]).as_deref()))
        .unwrap();
        let to = from.restickify_along(c["to_stick"].as_i64().unwrap()).unwrap();
        let want = (ints(&c["out_device_size"]), ints(&c["out_stride_map"]));
        assert_eq!(fields(&to), want);
        to.lower_to_layout().unwrap();
        assert_eq!(to.restickify_along(c["from_stick"].as_i64().unwrap()).unwrap(), from);
        assert_eq!(to.restickify_along(c["to_stick"].as_i64().unwrap()).unwrap(), to);
    }
    let l = StickLayout::default_for_dtype(&[100, 70], Dtype::Float16).unwrap();
    check_laws(&l.restickify_along(-2).unwrap());
    assert!(l.restickify_along(2).is_err());
    let folded = f16(&[38, 64], &[64, 1]).with_host(&[40, 60], None).unwrap();
    assert_eq!(folded.restickify_along(0).unwrap_err().kind(), "bad_stick");
    let sparse = StickLayout::with_dim_order(&[70, 5], None, Dtype::Float16, &[0, 1, -1]).unwrap();
    check_laws(&sparse.restickify_along(0).unwrap());
}

#[test]
fn dtype_change_vectors() {
    for c in load("spyre_extras.json")["rescale_dtype_asserted"].as_array().unwrap() {
        let src = &c["src"];
        let format = |v: &Value| DataFormat::from_name(v.as_str().unwrap()).unwrap();
        let (size, map) = (ints(&src["device_size"]), ints(&src["stride_map"]));
        let from = StickLayout::from_size_and_stride_map(&size, &map, format(&src["fmt"])).unwrap();
        let to = from.with_device_format(format(&c["dst"]), c["stick_extent"].as_i64());
        if let Some(message) = c["error"].as_str() {
            let text = to.unwrap_err().to_string();
            assert!(text.contains(message), "{text}");
            continue;
        }
        let to = to.unwrap();
        assert_eq!(fields(&to), (ints(&c["device_size"]), ints(&c["stride_map"])));
        let arrangement = c["element_arrangement"].as_str().unwrap_or("STANDARD");
        assert_eq!(to.arrangement().name(), arrangement);
    }
    // A bound layout knows its stick extent: the change gives what the constructor would.
    let (half, single) = (DataFormat::SEN169_FP16, DataFormat::IEEE_FP32);
    for size in [&[4, 63][..], &[4, 68], &[8, 192], &[2, 4, 8, 68], &[4, 16]] {
        let a = StickLayout::default_in_format(size, None, half).unwrap();
        let b = StickLayout::default_in_format(size, None, single).unwrap();
        assert_eq!(a.with_device_format(single, None).unwrap(), b);
        assert_eq!(b.with_device_format(half, None).unwrap(), a);
    }
    let sparse = StickLayout::with_dim_order(&[280, 1], None, Dtype::Float16, &[0, 1]).unwrap();
    let narrow = sparse.with_device_format(DataFormat::SEN143_FP8, None).unwrap();
    assert_eq!(narrow.arrangement(), LaneArrangement::Standard);
}

#[test]
fn arrangements_are_their_formulas() {
    let at = |places: &[i64], i: i64| places[usize::try_from(i).unwrap()];
    // 3 rows of 128 columns, 32 to a stick: device [4, 3, 32].
    let l = StickLayout::default_for_dtype(&[3, 128], Dtype::Float32).unwrap();
    let found = places(&l.with_arrangement(LaneArrangement::Dl16ToFp32).unwrap());
    for row in 0..3 {
        for (p, g, s, e) in digits([2, 8, 2, 4]) {
            let (col, stick, lane) = (64 * p + 8 * g + 4 * s + e, 2 * p + s, 4 * g + e);
            assert_eq!(at(&found, row * 128 + col), stick * 96 + row * 32 + lane);
        }
    }
    let l = StickLayout::default_for_dtype(&[3, 128], Dtype::Float16).unwrap();
    let found = places(&l.with_arrangement(LaneArrangement::Fp32ToDl16).unwrap());
    for row in 0..3 {
        for (t, h, g, e) in digits([2, 2, 8, 4]) {
            let (col, lane) = (64 * t + 32 * h + 4 * g + e, 8 * g + 4 * h + e);
            assert_eq!(at(&found, row * 128 + col), t * 192 + row * 64 + lane);
        }
    }
    // Sizes {2, 64, K/2, N/64}, host strides {N, 1, 2N, 64}, device strides {1, 2, 128, 64K}.
    let (k, n) = (6, 192);
    let found = places(&StickLayout::qfp8_weights(k, n).unwrap());
    for (c, b, a, r) in digits([n / 64, k / 2, 64, 2]) {
        let host = r * n + a + b * 2 * n + c * 64;
        assert_eq!(at(&found, host), r + 2 * a + 128 * b + 64 * k * c);
    }
    // Partial sticks and odd rows stay distinct and inside the device.
    for l in [
        StickLayout::qfp8_weights(5, 100).unwrap(),
        StickLayout::default_for_dtype(&[3, 100], Dtype::Float16)
            .and_then(|l| l.with_arrangement(LaneArrangement::Fp32ToDl16))
            .unwrap(),
        StickLayout::default_for_dtype(&[3, 100], Dtype::Float32)
            .and_then(|l| l.with_arrangement(LaneArrangement::Dl16ToFp32))
            .unwrap(),
    ] {
        let found = places(&l);
        let map = l.build_padding_map().unwrap();
        for (i, p) in (0..).zip(&found) {
            assert_eq!(map.element_at(*p), Ok(Some(i)));
        }
        assert_eq!(found.iter().collect::<BTreeSet<_>>().len(), found.len());
    }
    let plain = StickLayout::default_for_dtype(&[3, 128], Dtype::Float16).unwrap();
    assert!(plain.with_arrangement(LaneArrangement::Dl16ToFp32).is_err());
    let ch = plain.with_device_format(DataFormat::SEN143_FP8, None).unwrap();
    assert_eq!(ch.lower_to_layout().unwrap_err().kind(), "bad_stick");
    assert!(ch.own_stride_offset(&[0, 0, 0]).is_err());
}

fn digits([a, b, c, d]: [i64; 4]) -> impl Iterator<Item = (i64, i64, i64, i64)> {
    (0..a * b * c * d).map(move |i| {
        let v = unflatten_index(&[a, b, c, d], i);
        (v[0], v[1], v[2], v[3])
    })
}

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
    /// The layout of a view puts every element where the identity says, and plain views are never
    /// refused.
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

/// Windows of any strides, whose loops may together leave a dimension: no place is in the padding.
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
