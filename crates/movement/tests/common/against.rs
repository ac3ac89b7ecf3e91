//! A plan and the reference mover, side by side.

use proptest::prelude::*;
use zellige_layout::{Axis, Layout};
use zellige_movement::{MovePlan, PaddingFill, reference};

/// Runs a plan and the reference side by side on fresh buffers.
pub fn check(src: &Layout, dst: &Layout, shape: &[i64]) -> Result<(), TestCaseError> {
    let plan = match MovePlan::between(src, dst, shape, PaddingFill::Padding) {
        Ok(p) => p,
        Err(e) if e.kind() == "aliased" => {
            prop_assert!(!dst.is_injective().expect("small"), "{e}");
            return Ok(());
        }
        Err(e) if e.kind() == "bad_parameter" => return Ok(()),
        Err(e) => return Err(TestCaseError::fail(format!("{src:?} -> {dst:?}: {e}"))),
    };
    let len = |l: &Layout| {
        usize::try_from(l.padded_domain().axis_span(Axis::M).expect("small").max(0)).expect("small")
    };
    let mut from: Vec<u32> = (0..len(src)).map(|i| u32::try_from(i).expect("small") + 1).collect();
    if src.tile().replica_count() > 1 {
        // Every replica of an element holds the same value; which one is read does not matter.
        for i in 0..src.size() {
            for p in src.physical_coordinates(i).expect("inside").sorted_coordinates() {
                from[usize::try_from(p.get(Axis::M)).expect("0 or more")] =
                    u32::try_from(i).expect("small");
            }
        }
    }
    let (mut got, mut want) = (vec![0u32; len(dst)], vec![0u32; len(dst)]);
    reference::move_elements(src, dst, &from, &mut want, Some(9_999_999)).expect("small");
    reference::run_plan(&plan, &from, &mut got, Some(9_999_999));
    prop_assert_eq!(&got, &want, "{:?} -> {:?}\n{}", src, dst, plan);
    // Slab by slab gives the same.
    let slabs = if len(dst) <= 2000 { [1usize, 7, 64] } else { [100, 999, 2048] };
    for slab in slabs {
        let mut parts = vec![0u32; len(dst)];
        for (k, part) in parts.chunks_mut(slab).enumerate() {
            let low = i64::try_from(k * slab).expect("small");
            let clip = plan.clip_destination(low, low + i64::try_from(part.len()).expect("small"));
            prop_assert!(clip.dst_len() <= i64::try_from(part.len()).expect("small"), "{}", clip);
            reference::run_plan(&clip, &from, part, Some(9_999_999));
        }
        prop_assert_eq!(&parts, &want, "slabs of {}: {:?} -> {:?}", slab, src, dst);
    }
    for most in [1, 5, 40] {
        let mut parts = vec![0u32; len(dst)];
        for part in plan.split_by_source(most) {
            let (low, high) = part.source_window();
            prop_assert!(high - low <= most || part.nests().iter().all(|n| n.loops.is_empty()));
            let low_at = usize::try_from(low).expect("0 or more");
            reference::run_plan(
                &part.with_source_at(low).expect("it reads from there on"),
                &from[low_at..],
                &mut parts,
                Some(9_999_999),
            );
        }
        prop_assert_eq!(&parts, &want, "source parts of {}: {:?} -> {:?}", most, src, dst);
    }
    prop_assert!(plan.src_len() <= i64::try_from(from.len()).expect("small"));
    prop_assert!(plan.dst_len() <= i64::try_from(got.len()).expect("small"));
    Ok(())
}

/// The number of cases that `PROPTEST_CASES` sets.
pub fn config() -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|v| v.parse().ok());
    ProptestConfig {
        cases: asked.unwrap_or(3000),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}
