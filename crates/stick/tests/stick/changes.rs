//! Layouts made from layouts: restickified, in another format, with lanes in another arrangement.

use crate::common::{check_laws, dtype, f16, fields, ints, load, maybe, places};
use serde_json::Value;
use std::collections::BTreeSet;
use zellige_float::Dtype;
use zellige_layout::unflatten_index;
use zellige_stick::{DataFormat, LaneArrangement, StickLayout};

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
