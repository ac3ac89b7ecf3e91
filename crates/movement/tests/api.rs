//! Promises to users of the library: plans that are read back are equal, caches, refusals.

mod common;

use common::{injective, windowed};
use serde_json::{Value, json};
use std::sync::Arc;
use zellige_float::Dtype;
use zellige_float::Format;
use zellige_layout::{Layout, StridedLayout, TileLayout};
use zellige_movement::{MoveDtypes, MoveError, MovePlan, Mover, PaddingFill, PlanCache};
use zellige_stick::StickLayout;

fn strided(size: &[i64], stride: &[i64]) -> Layout {
    TileLayout::from_strides(size, stride, 0).expect("small").into()
}

fn back(plan: &MovePlan) -> MovePlan {
    serde_json::from_str(&serde_json::to_string(plan).expect("JSON")).expect("a plan")
}

#[test]
fn plans_come_back_equal() {
    let mut seed = 1u64;
    for k in 0..500 {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let shape = [[12, 10], [33, 17], [4, 30], [7, 9]][k % 4];
        let n: i64 = shape.iter().product();
        let src = injective(n, seed);
        let dst = if k % 2 == 0 { windowed(&shape, seed >> 3) } else { injective(n, seed >> 5) };
        let Ok(plan) = MovePlan::between(&src, &dst, &shape, PaddingFill::Padding) else {
            continue;
        };
        assert_eq!(back(&plan), plan);
        let clip = plan.clip_destination(n / 3, n / 2);
        assert_eq!(back(&clip), clip, "{clip}");
        for part in plan.split_by_source(20) {
            assert_eq!(back(&part), part, "{part}");
        }
    }
    // Far more addresses than are listed one by one.
    let plan = MovePlan::between(
        &strided(&[1 << 20, 1 << 18], &[1 << 18, 1]),
        &strided(&[1 << 20, 1 << 18], &[1, 1 << 20]),
        &[1 << 20, 1 << 18],
        PaddingFill::Leave,
    )
    .expect("a plan");
    assert_eq!(back(&plan), plan);
}

#[test]
fn plans_that_lie_are_refused() {
    let shape = [4, 6];
    let plan = MovePlan::between(
        &strided(&shape, &[6, 1]),
        &strided(&shape, &[1, 4]),
        &shape,
        PaddingFill::Leave,
    );
    let good = serde_json::to_value(plan.expect("a plan")).expect("JSON");
    let with = |path: &str, value: Value| {
        let mut bad = good.clone();
        *bad.pointer_mut(path).unwrap_or_else(|| panic!("{path}")) = value;
        bad
    };
    for (bad, part) in [
        (with("/nests/0/loops/0/src", json!(1_000_000)), "a loop of 6 steps"),
        (with("/nests/0/loops/1/src", json!(23)), "outside Some((0, 23))"),
        (with("/nests/0/loops/0/range", json!(0)), "0 steps"),
        (with("/nests/0/loops/0/range", json!(-6)), "-6 steps"),
        (with("/nests/0/loops/0/range", json!(i64::MAX)), "outside"),
        (with("/nests/0/loops/0/dst", json!(i64::MIN)), "a loop of"),
        (with("/nests/0/starts/0", json!([1, 0])), "outside"),
        (with("/nests/0/starts/0", json!([0, i64::MAX])), "outside"),
        (with("/nests/0/starts/0", json!([0, -1])), "outside"),
        (with("/nests/0/loops/0/dst", json!(1)), "written twice"),
        (with("/nests/0/starts", json!([[0, 0], [0, 0]])), "48 places, not 24 x 1"),
        (with("/elements", json!(25)), "24 places, not 25 x 1"),
        (with("/elements", json!(-24)), "places"),
        (with("/src_range", json!([-1, 23])), "addresses from 0 up"),
        (with("/dst_range", json!([0, i64::MAX])), "addresses from 0 up"),
        (with("/dst_range", Value::Null), "a loop of"),
        (with("/fills", json!([{"loops": [], "starts": [3]}])), "the place 3 is written twice"),
        (with("/nests/0", json!(5)), "invalid type"),
    ] {
        let error = serde_json::from_value::<MovePlan>(bad.clone()).expect_err(&bad.to_string());
        assert!(error.to_string().contains(part), "{bad}: {error}");
    }
    // Too many addresses to list, with strides that do not prove by themselves that they are distinct.
    let large = json!({
        "nests": [{"loops": [{"range": 1 << 20, "src": 0, "dst": 3}, {"range": 1 << 20, "src": 0, "dst": 2}], "starts": [[0, 0]]}],
        "fills": [], "elements": 1i64 << 40, "copies": 1, "src_range": [0, 0], "dst_range": [0, 1 << 30],
    });
    let error = serde_json::from_value::<MovePlan>(large).expect_err("too large");
    assert!(error.to_string().contains("plan the move anew"), "{error}");
}

#[test]
fn a_cache_counts_bounds_and_never_confuses() {
    let cache = PlanCache::new(16);
    let shape = [6, 10];
    let row = strided(&shape, &[10, 1]);
    let column = strided(&shape, &[1, 6]);
    let sticks = windowed(&shape, 77);
    let all = [&row, &column, &sticks];
    let kinds: [MoveDtypes; 4] = [
        MoveDtypes::Bytes(2),
        MoveDtypes::Bytes(16),
        (Format::F32, Format::F16).into(),
        (Format::F16, Format::F32).into(),
    ];
    let mut asked = 0;
    for _ in 0..3 {
        for (src, dst) in all.iter().flat_map(|a| all.iter().map(move |b| (*a, *b))) {
            for (dtypes, fill) in
                kinds.iter().flat_map(|k| [(*k, PaddingFill::Leave), (*k, PaddingFill::Padding)])
            {
                let got = cache.plan_or_reuse(src, dst, &shape, dtypes, fill).expect("a move");
                let want = Mover::between(src, dst, &shape, dtypes, fill).expect("a move");
                assert_eq!(format!("{got:?}"), format!("{want:?}"));
                asked += 1;
            }
        }
    }
    let stats = cache.stats();
    assert_eq!(stats.hits + stats.misses, asked);
    assert!(stats.len <= stats.capacity && stats.capacity == 16, "{stats:?}");
    // One move from several threads, many times, is planned once.
    let cache = PlanCache::new(1);
    let first = cache
        .plan_or_reuse(&row, &column, &shape, Format::F32, PaddingFill::Leave)
        .expect("a move");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..1000 {
                    let mover =
                        cache.plan_or_reuse(&row, &column, &shape, Format::F32, PaddingFill::Leave);
                    assert!(Arc::ptr_eq(&mover.expect("a move"), &first));
                }
            });
        }
    });
    assert_eq!((cache.stats().hits, cache.stats().misses), (4000, 1));
    // Refusals are not kept.
    let aliasing = strided(&shape, &[1, 1]);
    for _ in 0..2 {
        let refused = cache.plan_or_reuse(&row, &aliasing, &shape, Format::F32, PaddingFill::Leave);
        assert!(matches!(refused, Err(MoveError::Plan(e)) if e.kind() == "aliased"));
    }
    assert_eq!((cache.stats().misses, cache.stats().len), (3, 1));
    cache.forget_moves();
    assert_eq!(cache.stats().len, 0);
}

/// Sizes at the edge of 64 bits: an error, or a plan for buffers larger than any memory.
#[test]
fn shapes_that_overflow_are_refused() {
    let huge = 1i64 << 40;
    assert!(TileLayout::from_strides(&[huge, huge], &[huge, 1], 0).is_err());
    assert!(TileLayout::from_strides(&[4], &[i64::MAX / 2], 0).is_err());
    assert!(StickLayout::default_for_dtype(&[huge, huge], Dtype::Float16).is_err());
    assert!(StridedLayout::new_contiguous(&[i64::MAX, 2]).and_then(|s| s.to_layout()).is_err());
    let long = strided(&[i64::MAX / 8], &[1]);
    let refused = Mover::between(&long, &long, &[i64::MAX / 8], Format::F64, PaddingFill::Leave);
    assert!(refused.is_ok(), "{refused:?}");
    let refused =
        Mover::between(&long, &long, &[i64::MAX / 8], MoveDtypes::Bytes(16), PaddingFill::Leave);
    assert!(matches!(refused, Err(MoveError::TooLarge)), "{refused:?}");
    let mover = Mover::between(&long, &long, &[i64::MAX / 8], Format::I8, PaddingFill::Leave);
    let refused = mover.expect("a mover").run_on_slices(&[0; 64], &mut [0; 64], None, 1);
    assert!(matches!(refused, Err(MoveError::Short { what: "source", .. })), "{refused:?}");
    // A shape that is not that of the layouts, and addresses in front of the buffer.
    let row = strided(&[4, 6], &[6, 1]);
    for (src, dst, shape, kind) in [
        (&row, &row, vec![4, 7], "size_mismatch"),
        (&row, &strided(&[4, 6], &[-6, 1]), vec![4, 6], "bad_parameter"),
        (&strided(&[4, 6], &[6, -1]), &row, vec![4, 6], "bad_parameter"),
    ] {
        let refused = Mover::between(src, dst, &shape, Format::F16, PaddingFill::Leave);
        let Err(MoveError::Plan(e)) = refused else { panic!("{kind}: {refused:?}") };
        assert!(e.kind().contains(kind), "{kind}: {} {e}", e.kind());
    }
}

#[test]
fn a_source_that_begins_too_late_is_refused() {
    let shape = [8];
    let src = TileLayout::from_strides(&shape, &[1], 5).expect("small").into();
    let plan = MovePlan::between(&src, &strided(&shape, &[1]), &shape, PaddingFill::Leave)
        .expect("a plan");
    for begins in [6, -1, i64::MIN, i64::MAX] {
        let refused = plan.clone().with_source_at(begins);
        assert_eq!(refused, Err(MoveError::Begins { begins, reads: 5 }));
    }
    assert_eq!(plan.clone().with_source_at(5).expect("it reads from there on").src_len(), 8);
    // Parts outside are empty.
    for (low, high) in [(i64::MIN, 0), (8, i64::MAX), (5, 2), (i64::MAX, i64::MIN)] {
        assert_eq!(plan.clip_destination(low, high).element_count(), 0);
    }
    assert_eq!(plan.clip_destination(i64::MIN, i64::MAX), plan);
}
