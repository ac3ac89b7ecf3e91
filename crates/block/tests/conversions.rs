//! Plans do what they say, for random pairs of fragments and for those that kernels have.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use proptest::prelude::*;
use zellige_block::{BlockConversion, BlockError, BlockFragment, ConversionRoute, print_cuda};
use zellige_layout::{AxisTable, Iter, Layout, TileLayout};

/// Iters as (extent, stride, axis), outermost first.
fn fragment(iters: &[(i64, i64, &str)]) -> BlockFragment {
    let axes = AxisTable::new();
    let shard = iters.iter().map(|(e, s, a)| Iter::new(*e, *s, axes.get(a).unwrap())).collect();
    BlockFragment::from_layout(&Layout::from(TileLayout::from_shard(shard).unwrap())).unwrap()
}

/// The accumulator of an mma m16n8 over 16 x 16: two of them side by side.
fn accumulator() -> BlockFragment {
    // Rows: half, 8 rows; columns: which mma, 4 groups, 2 neighbours.
    fragment(&[(2, 2, "m"), (8, 4, "laneid"), (2, 4, "m"), (4, 1, "laneid"), (2, 1, "m")])
}

/// Operand A of m16n8k16.
fn operand_a() -> BlockFragment {
    fragment(&[(2, 2, "m"), (8, 4, "laneid"), (2, 4, "m"), (4, 1, "laneid"), (2, 1, "m")])
}

#[test]
fn the_accumulator_of_flash_attention_is_the_next_operand() {
    let plan = BlockConversion::between(&accumulator(), &operand_a(), 16).unwrap();
    assert_eq!(plan.route(), ConversionRoute::Nothing);
    assert!(plan.steps().is_empty());
    plan.check(&accumulator(), &operand_a()).unwrap();
}

#[test]
fn a_transpose_inside_a_warp_takes_the_fewest_shuffles() {
    // 32 x 4: a row in each lane, then a column of eight rows in each.
    let rows = fragment(&[(32, 1, "laneid"), (4, 1, "m")]);
    let columns = fragment(&[(8, 4, "laneid"), (4, 1, "m"), (4, 1, "laneid")]);
    let plan = BlockConversion::by_route(&rows, &columns, 32, ConversionRoute::Shuffles).unwrap();
    plan.check(&rows, &columns).unwrap();
    let counts = plan.counts();
    assert_eq!(
        (counts.shuffles, counts.least_shuffles),
        (3, 3),
        "each lane keeps one of four words"
    );
    assert!(plan.least_argument().is_some());
}

#[test]
fn shapes_that_are_no_power_of_two_are_shuffled() {
    // 32 x 3: rows, then three runs of 32.
    let rows = fragment(&[(32, 1, "laneid"), (3, 1, "m")]);
    let runs = fragment(&[(3, 1, "m"), (32, 1, "laneid")]);
    for bits in [8, 16, 32, 64] {
        let plan =
            BlockConversion::by_route(&rows, &runs, bits, ConversionRoute::Shuffles).unwrap();
        plan.check(&rows, &runs).unwrap();
    }
}

#[test]
fn a_transpose_of_a_block_goes_through_memory_without_conflicts() {
    // 64 x 64 over four warps: rows of 4 words, then columns of 4.
    let rows = fragment(&[
        (4, 1, "warpid"),
        (16, 2, "m"),
        (2, 16, "laneid"),
        (16, 1, "laneid"),
        (2, 1, "m"),
    ]);
    let columns = fragment(&[
        (2, 1, "m"),
        (16, 1, "laneid"),
        (2, 16, "laneid"),
        (16, 2, "m"),
        (4, 1, "warpid"),
    ]);
    let plan = BlockConversion::between(&rows, &columns, 32).unwrap();
    assert_eq!(plan.route(), ConversionRoute::SharedMemory);
    plan.check(&rows, &columns).unwrap();
    let counts = plan.counts();
    assert_eq!(counts.wavefronts, counts.least_wavefronts, "{counts:?}");
}

#[test]
fn what_is_no_fragment_is_refused() {
    let axes = AxisTable::new();
    let build = |iters: &[(i64, i64, &str)]| {
        let shard = iters.iter().map(|(e, s, a)| Iter::new(*e, *s, axes.get(a).unwrap())).collect();
        BlockFragment::from_layout(&Layout::from(TileLayout::from_shard(shard).unwrap()))
    };
    assert!(matches!(build(&[(4, 1, "pid")]), Err(BlockError::UnknownAxis(a)) if a == "pid"));
    assert!(matches!(
        build(&[(64, 1, "laneid")]),
        Err(BlockError::OutsideBlock { element: 32, .. })
    ));
    assert!(matches!(
        build(&[(4, 0, "m")]),
        Err(BlockError::SharedRegister { first: 0, second: 1, .. })
    ));
    assert!(matches!(build(&[(1 << 40, 1, "m")]), Err(BlockError::TooLarge(_))));
    let (a, b) = (fragment(&[(32, 1, "laneid")]), fragment(&[(32, 1, "laneid"), (2, 1, "m")]));
    assert!(matches!(BlockConversion::between(&a, &b, 32), Err(BlockError::OtherTensor { .. })));
    assert!(matches!(BlockConversion::between(&a, &a, 12), Err(BlockError::ElementBits(12))));
}

/// A fragment of 32 lanes, some warps, and registers, with the digits of its elements in any order.
fn random_fragment(factors: Vec<(i64, usize)>, order: Vec<usize>) -> BlockFragment {
    const AXES: [&str; 3] = ["laneid", "m", "warpid"];
    let mut next = [1_i64; 3];
    let mut iters: Vec<(i64, i64, usize)> = Vec::new();
    for (extent, axis) in factors {
        iters.push((extent, next[axis], axis));
        next[axis] *= extent;
    }
    let mut sorted: Vec<(usize, (i64, i64, usize))> = order.into_iter().zip(iters).collect();
    sorted.sort_by_key(|(at, _)| *at);
    let named: Vec<(i64, i64, &str)> =
        sorted.into_iter().map(|(_, (e, s, a))| (e, s, AXES[a])).collect();
    fragment(&named)
}

/// The digits of one tensor as lanes, registers and warps, twice.
fn pairs() -> impl Strategy<Value = (BlockFragment, BlockFragment, i64)> {
    let lanes = Just(vec![(2_i64, 0_usize), (2, 0), (2, 0), (2, 0), (2, 0)]);
    let registers =
        prop::collection::vec(prop::sample::select(vec![(2_i64, 1_usize), (3, 1), (2, 1)]), 0..4);
    let warps = prop::sample::select(vec![vec![], vec![(2_i64, 2_usize)], vec![(4, 2)]]);
    let bits = prop::sample::select(vec![8_i64, 16, 32, 64]);
    (lanes, registers, warps, bits)
        .prop_flat_map(|(lanes, registers, warps, bits)| {
            let factors: Vec<(i64, usize)> = [lanes, registers, warps].concat();
            let keys = prop::collection::vec(0_usize..1000, factors.len());
            (Just(factors), keys.clone(), keys, Just(bits))
        })
        .prop_map(|(factors, a, b, bits)| {
            (random_fragment(factors.clone(), a), random_fragment(factors, b), bits)
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_route_that_is_planned_is_right((from, to, bits) in pairs()) {
        for route in [ConversionRoute::Nothing, ConversionRoute::Registers, ConversionRoute::Shuffles, ConversionRoute::SharedMemory] {
            let Ok(plan) = BlockConversion::by_route(&from, &to, bits, route) else { continue };
            plan.check(&from, &to).unwrap();
            let counts = plan.counts();
            prop_assert!(counts.shuffles >= counts.least_shuffles);
            prop_assert!(counts.wavefronts >= counts.least_wavefronts);
            prop_assert!(!print_cuda(&plan, &from, &to, "convert").is_empty());
        }
        let best = BlockConversion::between(&from, &to, bits).unwrap();
        best.check(&from, &to).unwrap();
    }
}
