//! What the device's own software recorded: layouts, transfers, formats and dtypes.

use crate::common::{check_laws, dtype, fields, ints, load, maybe, places};
use serde_json::Value;
use zellige_float::Dtype;
use zellige_layout::{StridedLayout, unflatten_index};
use zellige_stick::{DataFormat, StickLayout};

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
