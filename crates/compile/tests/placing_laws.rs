//! Laws of memory plans: the exact policy against all plans there are.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use proptest::prelude::*;
use zellige_compile::solve::memory::{
    LiveBuffer, MemoryPlan, MemoryRequest, PlacementPolicy, check_memory_plan, plan_memory,
};

/// Buffers with random lives; some may be placed over an earlier one that dies where they begin.
fn requests(most: usize, last: u64, largest: u64) -> impl Strategy<Value = MemoryRequest> {
    let buffer = (0..=largest, 0..last, 0..4u64, any::<bool>());
    let list = prop::collection::vec(buffer, 0..=most);
    (list, 1..=3u64, largest..=3 * largest).prop_map(|(list, alignment, limit)| {
        let mut buffers: Vec<LiveBuffer> = Vec::new();
        for (i, (size, start, length, over)) in list.into_iter().enumerate() {
            let mut b = LiveBuffer::new(format!("b{i}"), size, &[start, start + length]);
            if over {
                let parent =
                    |p: &&LiveBuffer| p.uses[1] == start && p.uses[0] < start && p.size >= size;
                b.in_place_parents =
                    buffers.iter().filter(parent).map(|p| p.name.clone()).collect();
            }
            buffers.push(b);
        }
        MemoryRequest::new(limit, alignment, buffers).expect("made to be accepted")
    })
}

/// The fewest bytes that any plan spills, by trying every address of every buffer.
fn fewest(request: &MemoryRequest) -> u64 {
    fn go(
        request: &MemoryRequest,
        next: usize,
        plan: &mut MemoryPlan,
        spilled: u64,
        best: &mut u64,
    ) {
        if spilled >= *best {
            return;
        }
        if next == request.buffers().len() {
            *best = spilled;
            return;
        }
        let size = request.buffers()[next].size;
        let mut address = 0;
        while address + size <= request.limit() {
            plan.addresses[next] = Some(address);
            if check_memory_plan(request, plan).is_ok() {
                go(request, next + 1, plan, spilled, best);
            }
            address += request.alignment();
        }
        plan.addresses[next] = None;
        go(request, next + 1, plan, spilled + size, best);
    }
    let mut best = u64::MAX;
    let mut plan = MemoryPlan { addresses: vec![None; request.buffers().len()], bound: 0 };
    go(request, 0, &mut plan, 0, &mut best);
    best
}

proptest! {
    #[test]
    fn exact_is_the_best_of_all_plans(request in requests(5, 5, 6)) {
        let fewest = fewest(&request);
        for policy in PlacementPolicy::ALL {
            let found = plan_memory(&request, policy);
            prop_assert!(check_memory_plan(&request, &found).is_ok(), "{policy:?} {:?}", check_memory_plan(&request, &found));
            prop_assert!(found.bound <= fewest, "{policy:?}: bound {} of {fewest}", found.bound);
            prop_assert!(found.spilled_bytes(&request) >= fewest);
        }
        let exact = plan_memory(&request, PlacementPolicy::Exact);
        prop_assert_eq!(exact.spilled_bytes(&request), fewest);
        prop_assert!(exact.is_optimal(&request));
    }

    #[test]
    fn larger_requests_are_planned(request in requests(24, 12, 2000)) {
        let exact = plan_memory(&request, PlacementPolicy::Exact);
        check_memory_plan(&request, &exact).unwrap();
        for policy in PlacementPolicy::ALL {
            let found = plan_memory(&request, policy);
            check_memory_plan(&request, &found).unwrap();
            prop_assert!(exact.spilled_bytes(&request) <= found.spilled_bytes(&request));
        }
        prop_assert_eq!(&exact, &plan_memory(&request, PlacementPolicy::Exact));
    }
}

#[test]
fn checkers_find_what_is_wrong() {
    let b = |name: &str, size, uses: &[u64]| LiveBuffer::new(name, size, uses);
    let buffers =
        vec![b("p", 8, &[0, 2]), b("c", 4, &[2, 4]).written_over(&["p"]), b("x", 4, &[1, 3])];
    let request = MemoryRequest::new(16, 4, buffers).unwrap();
    let accepted = |a: [Option<u64>; 3], bound| {
        check_memory_plan(&request, &MemoryPlan { addresses: a.to_vec(), bound }).is_ok()
    };
    assert!(accepted([Some(0), Some(0), Some(8)], 0));
    assert!(
        !accepted([Some(0), Some(4), Some(8)], 0),
        "a child lies over all of its parent or none"
    );
    assert!(!accepted([Some(0), Some(0), Some(4)], 0), "x and p live together");
    assert!(!accepted([Some(0), Some(0), Some(10)], 0), "not aligned");
    assert!(!accepted([Some(12), Some(0), Some(4)], 0), "past the limit");
    assert!(accepted([None, Some(0), Some(4)], 8));
    assert!(!accepted([None, Some(0), Some(4)], 9), "a bound above what is spilled");
}

/// Forty layers of a model's worth of buffers are planned at once and proved optimal.
#[test]
fn long_programs_are_planned_exactly() {
    let mut buffers = Vec::new();
    for layer in 0..400u64 {
        let t = 4 * layer;
        for (i, size) in [700_000u64, 900_000, 300_000].into_iter().enumerate() {
            let start = t + i as u64;
            buffers.push(LiveBuffer::new(format!("b{layer}_{i}"), size, &[start, start + 1]));
        }
    }
    let request = MemoryRequest::new(1_677_721, 128, buffers).unwrap();
    let exact = plan_memory(&request, PlacementPolicy::Exact);
    check_memory_plan(&request, &exact).unwrap();
    assert!(exact.is_optimal(&request));
    assert_eq!(exact.spilled_bytes(&request), 0);
}
