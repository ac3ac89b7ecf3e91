//! Plans against the reference mover, on random pairs of layouts and on the recorded descriptors.

mod common;

use common::{check, config, injective, windowed};
use proptest::prelude::*;
use zellige_layout::{Iter, Layout, StridedLayout, TileLayout};
use zellige_movement::{MovePlan, PaddingFill};
use zellige_stick::StickLayout;

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_two_layouts(n in prop::sample::select(vec![1i64, 6, 7, 12, 16, 24, 30, 36, 60, 64, 96, 128, 210, 256]), a in any::<u64>(), b in any::<u64>()) {
        check(&injective(n, a), &injective(n, b), &[n])?;
    }

    #[test]
    fn padded_layouts(shape in prop::sample::select(vec![vec![5i64], vec![4, 6], vec![3, 5, 2], vec![7, 9], vec![1, 8], vec![16, 16]]), a in any::<u64>(), b in any::<u64>()) {
        let n: i64 = shape.iter().product();
        check(&windowed(&shape, a), &windowed(&shape, b), &shape)?;
        check(&injective(n, a), &windowed(&shape, b), &shape)?;
        check(&windowed(&shape, a), &injective(n, b), &shape)?;
    }

    #[test]
    fn broadcasts_and_overlapping_reads(shape in (1i64..6, 1i64..6, 1i64..6), strides in (-3i64..9, 0i64..5, 0i64..4), b in any::<u64>()) {
        let size = [shape.0, shape.1, shape.2];
        let src = TileLayout::from_strides(&size, &[strides.0, strides.1, strides.2], 20).expect("small");
        check(&src.into(), &injective(size.iter().product(), b), &size)?;
    }
}

#[test]
fn tilings_that_do_not_nest_are_exact() {
    let l = |e: &[(i64, i64)]| {
        Layout::from(
            TileLayout::from_shard(e.iter().map(|(e, s)| Iter::in_memory(*e, *s)).collect())
                .expect("small"),
        )
    };
    let (a, b) = (l(&[(2, 3), (3, 10)]), l(&[(3, 5), (2, 1)]));
    check(&a, &b, &[6]).expect("equal");
    // Large and coprime: 1000x1001 against 1001x1000.
    let (a, b) = (l(&[(1000, 1), (1001, 1000)]), l(&[(1001, 1), (1000, 1001)]));
    let plan = MovePlan::between(&a, &b, &[1_001_000], PaddingFill::Leave).expect("exact");
    assert_eq!(
        plan.nests().iter().map(zellige_movement::CopyNest::element_count).sum::<i64>(),
        1_001_000
    );
}

#[test]
fn aliasing_destinations_name_both_elements() {
    let src = Layout::from(TileLayout::row_major(&[4]).expect("small"));
    let dst = Layout::from(
        TileLayout::from_shard(vec![Iter::in_memory(2, 1), Iter::in_memory(2, 1)]).expect("small"),
    );
    let e = MovePlan::between(&src, &dst, &[4], PaddingFill::Leave).expect_err("two elements at 1");
    assert_eq!(
        (e.kind(), e.witness()),
        ("aliased", Some(zellige_layout::LayoutWitness::Pair(1, 2)))
    );
}

/// Every recorded transfer descriptor, as a mapping.
#[test]
fn recorded_descriptors_are_reproduced() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/spyre_dci.json");
    let text = std::fs::read_to_string(path).expect("the data");
    let cases: Vec<serde_json::Value> = serde_json::from_str(&text).expect("JSON");
    let ints = |v: &serde_json::Value| -> Vec<i64> {
        v.as_array().expect("a list").iter().map(|x| x.as_i64().expect("an integer")).collect()
    };
    let mut checked = 0;
    for case in &cases {
        let (size, stride) = (ints(&case["host_size"]), ints(&case["host_stride"]));
        let offset = case["host_offset"].as_i64().expect("an offset");
        let format =
            zellige_stick::DataFormat::from_name(case["device_format"].as_str().expect("a name"));
        let stick = StickLayout::from_size_and_stride_map(
            &ints(&case["device_size"]),
            &ints(&case["stride_map"]),
            format.expect("known"),
        )
        .and_then(|s| s.with_own_strides(&size, &ints(&case["dma_stride"])))
        .unwrap_or_else(|e| panic!("{case}: {e}"));
        let host =
            StridedLayout::new(&size, &stride, offset).and_then(|h| h.to_layout()).expect("a host");
        let device = stick.lower_to_layout().unwrap_or_else(|e| panic!("{case}: {e}"));
        let plan = MovePlan::between(&host, &device, &size, PaddingFill::Leave)
            .unwrap_or_else(|e| panic!("{case}: {e}"));
        let mut want: Vec<(i64, i64)> = Vec::new();
        for d in case["h2d"]["dcsi_"].as_array().expect("a list") {
            let mut points =
                vec![(d["offset_src"].as_i64().expect("i"), d["offset_dst"].as_i64().expect("i"))];
            for ((n, s), t) in
                ints(&d["size"]).iter().zip(ints(&d["stride_src"])).zip(ints(&d["stride_dst"]))
            {
                points = points
                    .iter()
                    .flat_map(|(a, b)| (0..*n).map(move |i| (a + i * s, b + i * t)))
                    .collect();
            }
            want.extend(points);
        }
        let mut got: Vec<(i64, i64)> = Vec::new();
        for nest in plan.nests() {
            let mut points = nest.starts.clone();
            for l in &nest.loops {
                points = points
                    .iter()
                    .flat_map(|(a, b)| (0..l.range).map(move |i| (a + i * l.src, b + i * l.dst)))
                    .collect();
            }
            got.extend(points);
        }
        want.sort_unstable();
        got.sort_unstable();
        let shown = |v: &[(i64, i64)]| v.iter().take(5).copied().collect::<Vec<_>>();
        assert!(got == want, "{case}\n{plan}\n{:?}\n{:?}", shown(&got), shown(&want));
        checked += 1;
    }
    assert_eq!(checked, 79);
}

/// Host views that other implementations transfer wrongly: strided, expanded and permuted sticks,
/// inexact stride ratios, destinations with strides of their own.
#[test]
fn transfers_that_others_get_wrong() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/spyre_extras.json");
    let text = std::fs::read_to_string(path).expect("the data");
    let extras: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let ints = |v: &serde_json::Value| -> Vec<i64> {
        v.as_array().expect("a list").iter().map(|x| x.as_i64().expect("an integer")).collect()
    };
    let cases = extras["known_bad_h2d_june"].as_array().expect("a list");
    assert_eq!(cases.len(), 7);
    for case in cases {
        let (size, stride) = (ints(&case["size"]), ints(&case["cpu_stride"]));
        let offset = case["offset"].as_i64().expect("an offset");
        let host =
            StridedLayout::new(&size, &stride, offset).and_then(|h| h.to_layout()).expect("a host");
        let format = zellige_stick::DataFormat::SEN169_FP16;
        let device = StickLayout::from_size_and_stride_map(
            &ints(&case["device_size"]),
            &ints(&case["stride_map"]),
            format,
        )
        .and_then(|s| s.with_host(&size, Some(&stride)))
        .and_then(|s| s.lower_to_layout())
        .unwrap_or_else(|e| panic!("{case}: {e}"));
        check(&host, &device, &size).unwrap_or_else(|e| panic!("{case}: {e}"));
        // Back into the strides of the view; an expanded view has elements that share an address.
        check(&device, &host, &size).unwrap_or_else(|e| panic!("{case}: {e}"));
    }
    // Zero-size tensors move nothing, without complaint.
    let empty =
        StickLayout::default_for_dtype(&[4, 0], zellige_float::Dtype::Float16).expect("a layout");
    let host = StridedLayout::new_contiguous(&[4, 0]).and_then(|h| h.to_layout()).expect("a host");
    let plan = MovePlan::between(
        &host,
        &empty.lower_to_layout().expect("a layout"),
        &[4, 0],
        PaddingFill::Padding,
    )
    .expect("a plan");
    assert_eq!((plan.nests().len(), plan.element_count()), (0, 0));
    // Sparse to dense is a move like any other.
    let order = [0, 1, -1];
    let sparse = StickLayout::with_dim_order(&[6, 70], None, zellige_float::Dtype::Float16, &order);
    let sparse = sparse.and_then(|s| s.lower_to_layout()).expect("a layout");
    let dense = StickLayout::default_for_dtype(&[6, 70], zellige_float::Dtype::Float16)
        .and_then(|s| s.lower_to_layout());
    check(&sparse, &dense.expect("a layout"), &[6, 70]).expect("equal");
}

/// A plan that was written down may have nests and fills without a start: they do nothing.
#[test]
fn nests_without_a_start_do_nothing() {
    let text = r#"{"nests":[{"loops":[{"range":5,"src":7,"dst":8},{"range":7,"src":1,"dst":1}],
        "starts":[[0,0]]},{"loops":[{"range":3,"src":1,"dst":1}],"starts":[]}],
        "fills":[{"loops":[[5,8]],"starts":[]},{"loops":[[5,8]],"starts":[7]}],
        "elements":35,"copies":1,"src_range":[0,34],"dst_range":[0,39]}"#;
    let plan: zellige_movement::MovePlan = serde_json::from_str(text).expect("a plan");
    let source: Vec<u8> = (0..35).collect();
    let mover = zellige_movement::Mover::new(&plan, 1).expect("elements of a byte");
    for threads in [1, 3] {
        let mut out = vec![0xee_u8; 40];
        mover.run_on_slices(&source, &mut out, Some(&[9]), threads).expect("buffers that fit");
        for (at, byte) in out.iter().enumerate() {
            let want = if at % 8 == 7 { 9 } else { source[at / 8 * 7 + at % 8] };
            assert_eq!(*byte, want, "place {at}");
        }
    }
}
