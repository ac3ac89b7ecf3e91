//! Laws of work division, by enumeration of small spaces, and what is refused.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use proptest::prelude::*;
use std::collections::BTreeSet;
use zellige_compile::solve::division::{
    AccessRole, IterationSpace, LoopDim, OpSizes, PointCost, SplitHint, TensorAccess,
    build_iteration_space, check_division, distribute_cores, divide_iterations, division_latency,
    map_cores_to_slices, plan_core_work, reduce_spans, tensor_span,
};
use zellige_compile::{CompilePolicy, RefusalWitness};
use zellige_float::Dtype;
use zellige_machine::{Hardware, Key, WorkKind};
use zellige_stick::StickLayout;

/// A card whose cores address so many bytes of a tensor.
fn narrow(span: u64) -> Hardware {
    Hardware::from_toml(&format!(
        "name = \"narrow\"\nextends = \"card\"\n[memory]\nspan = {{ value = {span}, unit = \"B\", \
         source = \"test\" }}\n"
    ))
    .unwrap()
}

fn forms() -> impl Strategy<Value = OpSizes> {
    let size = || prop_oneof![1i64..9, 60i64..200];
    prop_oneof![
        prop::collection::vec(size(), 1..4).prop_map(|sizes| OpSizes::Pointwise { sizes }),
        (prop::collection::vec(size(), 1..4), any::<prop::sample::Index>()).prop_map(
            |(sizes, i)| {
                let reduced = vec![i.index(sizes.len())];
                OpSizes::Reduction { sizes, reduced }
            }
        ),
        (prop::option::of(1i64..4), any::<bool>(), 1i64..20, 1i64..150, 1i64..150)
            .prop_map(|(batch, shared, m, n, k)| OpSizes::Matmul { batch, shared, m, n, k }),
    ]
}

fn dtypes() -> impl Strategy<Value = Dtype> {
    prop_oneof![Just(Dtype::Float16), Just(Dtype::Float32), Just(Dtype::Int8)]
}

/// Every division there is: any split of every dimension, at most one reduced one cut.
fn divisions(space: &IterationSpace, cores: u64) -> Vec<Vec<u64>> {
    let mut all = vec![vec![]];
    for d in 0..space.dims().len() {
        all = all
            .iter()
            .flat_map(|s: &Vec<u64>| {
                (1..=space.unit_count(d)).map(|n| [&s[..], &[n]].concat()).collect::<Vec<_>>()
            })
            .filter(|s| s.iter().product::<u64>() <= cores)
            .collect();
    }
    let summed = |s: &Vec<u64>| {
        s.iter().zip(space.dims()).filter(|(n, d)| d.reduced && **n > 1).count() <= 1
    };
    all.into_iter().filter(summed).collect()
}

/// The sticks of a tensor that a core touches, as row-major numbers.
fn touched(space: &IterationSpace, tensor: usize, splits: &[u64], core: usize) -> BTreeSet<u64> {
    let division = space.division_with(splits, 1024).unwrap();
    let slices = division.core_slice(core, &space.spans());
    let mut points: Vec<Vec<i64>> = vec![vec![]];
    for s in slices {
        let grown = points.iter().flat_map(|p| {
            s.clone().map(|x| [&p[..], &[i64::try_from(x).unwrap()]].concat()).collect::<Vec<_>>()
        });
        points = grown.collect();
    }
    points.iter().map(|p| space.tensors()[tensor].stick_index_at(p)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn best_is_the_best_of_all_divisions(
        form in forms(), dtype in dtypes(), cores in 1u64..10, limit in 128u64..40_000
    ) {
        let (space, card) = (build_iteration_space(&form, dtype).unwrap(), narrow(limit));
        let all = divisions(&space, cores);
        let legal = |s: &&Vec<u64>| space.tensors().iter().all(|t| tensor_span(&space, t, s) <= limit);
        let least = all.iter().filter(legal).map(|s| division_latency(&space, &card, s).0).min();
        let cores = i64::try_from(cores).unwrap();
        let best = divide_iterations(&space, &card, cores, CompilePolicy::Best, &[]);
        let baseline = divide_iterations(&space, &card, cores, CompilePolicy::Baseline, &[]);
        match (least, best) {
            (None, Err(e)) => prop_assert_eq!(e.kind(), "span_limit"),
            (Some(least), Ok(best)) => {
                prop_assert_eq!(division_latency(&space, &card, &best.splits).0, least);
                check_division(&space, &card, 32, &best).unwrap();
                if let Ok(baseline) = baseline {
                    check_division(&space, &card, 32, &baseline).unwrap();
                    prop_assert!(best.latency_us <= baseline.latency_us);
                }
            }
            (least, best) => prop_assert!(false, "{:?} {:?}", least, best),
        }
    }

    #[test]
    fn work_and_spans_are_those_of_the_points(
        form in forms(), dtype in dtypes(), pick in any::<prop::sample::Index>()
    ) {
        let (space, card) = (build_iteration_space(&form, dtype).unwrap(), Hardware::card_preset());
        if space.dims().iter().map(|d| d.size).product::<u64>() >= 20_000 {
            return Ok(());
        }
        let all = divisions(&space, 12);
        let splits = &all[pick.index(all.len())];
        let done = plan_core_work(&space, &card, splits);
        let group: u64 =
            splits.iter().zip(space.dims()).filter(|(_, d)| d.reduced).map(|(s, _)| *s).product();
        for (core, w) in done.cores.iter().enumerate() {
            let (mut reads, mut writes) = (0, 0);
            for (i, t) in space.tensors().iter().enumerate() {
                let sticks = touched(&space, i, splits, core);
                let (low, high) = (sticks.first().unwrap(), sticks.last().unwrap());
                prop_assert!((high - low + 1) * 128 <= tensor_span(&space, t, splits));
                let last = (core as u64) % group == group - 1;
                match t.role() {
                    AccessRole::Read => reads += 128 * sticks.len() as u64,
                    AccessRole::Write if last => writes += 128 * sticks.len() as u64,
                    AccessRole::Write => {}
                }
            }
            prop_assert_eq!((w.reads.total_bytes(), w.writes.total_bytes()), (reads, writes));
        }
        let valid: u64 = done.cores.iter().map(|w| w.macs_valid).sum();
        let points: u64 = space.dims().iter().map(|d| d.size).product();
        prop_assert_eq!(valid, points * space.point_cost().macs);
    }

    #[test]
    fn distributions_use_what_can_be_used(form in forms(), dtype in dtypes(), cores in 1u64..=32) {
        let space = build_iteration_space(&form, dtype).unwrap();
        let committed = reduce_spans(&space, cores, 1 << 28).unwrap();
        let splits = distribute_cores(&space, cores, &committed);
        let used: u64 = splits.iter().product();
        prop_assert!(used <= cores);
        for (d, s) in splits.iter().enumerate() {
            prop_assert!(*s >= committed[d] && space.unit_count(d).is_multiple_of(*s));
            if !space.dims()[d].reduced {
                prop_assert!(space.even_splits(d, cores).iter().all(|t| t <= s || used / s * t > cores));
            }
        }
        let reduced: Vec<bool> = space.dims().iter().map(|d| d.reduced).collect();
        let map = map_cores_to_slices(&splits, &reduced);
        let distinct: BTreeSet<&Vec<u64>> = map.iter().collect();
        prop_assert_eq!(distinct.len() as u64, used);
        let division = space.division_with(&splits, 32).unwrap();
        for (core, place) in map.iter().enumerate() {
            let digits: Vec<u64> = division.core_digits(core).iter().map(|d| *d as u64).collect();
            prop_assert_eq!(&digits, place);
        }
    }

    #[test]
    fn hostile_sizes_are_answered(
        sizes in prop::collection::vec(prop_oneof![
            Just(i64::MAX), Just(0), Just(-1), Just(1), Just(1 << 31), Just((1 << 31) - 1), 0i64..5000
        ], 0..9),
        cores in prop_oneof![-1i64..40, Just(i64::MAX), Just(i64::MIN)],
        best in any::<bool>(),
    ) {
        let policy = if best { CompilePolicy::Best } else { CompilePolicy::Baseline };
        if let Ok(space) = build_iteration_space(&OpSizes::Pointwise { sizes: sizes.clone() }, Dtype::Float16) {
            let card = Hardware::card_preset();
            if let Ok(plan) = divide_iterations(&space, &card, cores, policy, &[]) {
                check_division(&space, &card, 32, &plan).unwrap();
            }
        }
        if let [m, n, k, ..] = sizes[..]
            && let Ok(space) = build_iteration_space(&OpSizes::matmul(m, n, k), Dtype::Float16)
        {
            drop(divide_iterations(&space, &Hardware::card_preset(), cores, policy, &[]));
        }
    }
}

/// Sizes without useful divisors, where even divisions are few.
#[test]
fn primes_are_divided_better() {
    let card = Hardware::card_preset();
    for form in [
        OpSizes::matmul(1009, 64 * 13, 4096),
        OpSizes::matmul(37, 64 * 37, 64 * 37),
        OpSizes::bmm(7, 509, 64 * 11, 4096),
    ] {
        let space = build_iteration_space(&form, Dtype::Float16).unwrap();
        let baseline = divide_iterations(&space, &card, 32, CompilePolicy::Baseline, &[]).unwrap();
        let best = divide_iterations(&space, &card, 32, CompilePolicy::Best, &[]).unwrap();
        check_division(&space, &card, 32, &best).unwrap();
        assert!(best.latency_us < 0.9 * baseline.latency_us, "{form:?}: {baseline:?} {best:?}");
    }
}

#[test]
fn refusals_name_what_is_wrong() {
    let card = Hardware::card_preset();
    let matmul = build_iteration_space(&OpSizes::matmul(128, 256, 256), Dtype::Float16).unwrap();
    for cores in [0, -1, 33, 64, i64::MAX] {
        let error = divide_iterations(&matmul, &card, cores, CompilePolicy::Best, &[]).unwrap_err();
        assert!(error.to_string().contains(&format!("invalid SENCORES value {cores}")), "{error}");
    }
    for (hint, dim, text) in [
        (("M", 3), "M", "not evenly divisible by split=3; accepted are 1, 2, 4, 8, 16, 32"),
        (("N", 8), "N", "size=4 (sticks) is not evenly divisible"),
        (("M", -2), "M", "must be positive"),
        (("X", 2), "X", "its dims are M, N, K"),
    ] {
        let hint = SplitHint { dim: hint.0.into(), split: hint.1 };
        for policy in [CompilePolicy::Baseline, CompilePolicy::Best] {
            let error = divide_iterations(&matmul, &card, 32, policy, std::slice::from_ref(&hint))
                .unwrap_err();
            assert!(error.to_string().contains(text), "{error}");
            assert_eq!(error.witness(), Some(RefusalWitness::Dim(dim.into())), "{error}");
        }
    }
    // Hints that there are no cores for: alone, and beside another one.
    let hint = |(d, split): (&str, i64)| SplitHint { dim: d.into(), split };
    for (hints, cores, dim, text) in [
        (vec![("M", 64)], 32, "M", "split=64 of dim M needs more cores"),
        (vec![("M", 16)], 8, "M", "8 cores run the operation; accepted are 1, 2, 4, 8"),
        (vec![("M", 16), ("N", 4)], 32, "N", "the hints before it take 16 slices"),
    ] {
        let hints: Vec<SplitHint> = hints.into_iter().map(hint).collect();
        for policy in [CompilePolicy::Baseline, CompilePolicy::Best] {
            let error = divide_iterations(&matmul, &card, cores, policy, &hints).unwrap_err();
            assert!(error.to_string().contains(text), "{error}");
            assert_eq!(
                (error.kind(), error.witness()),
                ("bad_hint", Some(RefusalWitness::Dim(dim.into())))
            );
        }
    }

    // 17 TB: even 32 cores would each span more than they can address.
    let huge = build_iteration_space(
        &OpSizes::Pointwise { sizes: vec![2, 1 << 16, 1 << 26] },
        Dtype::Float16,
    )
    .unwrap();
    for policy in [CompilePolicy::Baseline, CompilePolicy::Best] {
        let error = divide_iterations(&huge, &card, 32, policy, &[]).unwrap_err();
        assert_eq!(error.kind(), "span_limit");
        assert_eq!(error.witness(), Some(RefusalWitness::Tensor("input".into())), "{error}");
    }
    let error =
        build_iteration_space(&OpSizes::matmul(i64::MAX, 64, 64), Dtype::Float16).unwrap_err();
    assert_eq!(error.kind(), "overflow", "{error}");
    let error = build_iteration_space(&OpSizes::Pointwise { sizes: vec![4, -1] }, Dtype::Float16)
        .unwrap_err();
    assert_eq!(error.witness(), Some(RefusalWitness::Dim("c1".into())), "{error}");
    assert!(build_iteration_space(&OpSizes::Pointwise { sizes: vec![4] }, Dtype::Float64).is_err());
    let error = build_iteration_space(
        &OpSizes::Reduction { sizes: vec![4, 5], reduced: vec![2] },
        Dtype::Float16,
    );
    assert_eq!(error.unwrap_err().kind(), "bad_dim");

    let nothing =
        build_iteration_space(&OpSizes::Pointwise { sizes: vec![4, 0] }, Dtype::Float16).unwrap();
    let plan = divide_iterations(&nothing, &card, 32, CompilePolicy::Best, &[]).unwrap();
    assert_eq!((plan.cores_used, plan.decided_by), (1, "nothing_to_do"));
    check_division(&nothing, &card, 32, &plan).unwrap();
}

#[test]
fn symbolic_dimensions_split_by_their_granularity() {
    let mut rows = LoopDim::output("rows", 512);
    rows.granularity = Some(12);
    let error = IterationSpace::new(vec![rows.clone()], vec![], effort()).unwrap_err();
    assert!(error.to_string().contains("must divide max"), "{error}");
    rows.size = 516;
    let dims = vec![rows, LoopDim::output("columns", 64)];
    let layout = StickLayout::default_for_dtype(&[516, 64], Dtype::Float16).unwrap();
    let t = TensorAccess::new("x", AccessRole::Read, &layout, &dims, &[64, 1]).unwrap();
    let space = IterationSpace::new(dims, vec![t], effort()).unwrap();
    for policy in [CompilePolicy::Baseline, CompilePolicy::Best] {
        let plan = divide_iterations(&space, &Hardware::card_preset(), 32, policy, &[]).unwrap();
        assert_eq!(plan.splits, [12, 1], "{policy:?}");
    }
}

fn effort() -> PointCost {
    PointCost { kind: WorkKind::Pointwise, macs: 0, sfu: 1, transcendental: 0 }
}

#[test]
fn checkers_find_what_is_wrong() {
    let card = Hardware::card_preset();
    let space = build_iteration_space(&OpSizes::matmul(64, 256, 256), Dtype::Float16).unwrap();
    let plan = divide_iterations(&space, &card, 32, CompilePolicy::Best, &[]).unwrap();
    let mut wrong = plan.clone();
    wrong.cores_used += 1;
    assert!(check_division(&space, &card, 32, &wrong).is_err());
    wrong = plan.clone();
    wrong.span_bytes[1] -= 128;
    assert!(check_division(&space, &card, 32, &wrong).is_err());
    wrong = plan.clone();
    wrong.latency_us *= 0.5;
    assert!(check_division(&space, &card, 32, &wrong).is_err());
    wrong = plan.clone();
    wrong.splits = vec![64, 1, 1];
    assert!(check_division(&space, &card, 32, &wrong).is_err());
    assert!(check_division(&space, &narrow(128), 32, &plan).is_err());
    assert_eq!(card.figure_count(Key::Span), 256 << 20);
}

#[test]
fn the_best_of_common_operations_is_no_slower_than_the_baseline() {
    let card = Hardware::card_preset();
    for form in [
        OpSizes::matmul(2048, 2048, 2048),
        OpSizes::matmul(1, 4096, 4096),
        OpSizes::matmul(128, 12800, 4096),
        OpSizes::bmm(32, 512, 512, 128),
        OpSizes::bmm(7, 509, 64 * 11, 4096),
        OpSizes::Reduction { sizes: vec![512, 4096], reduced: vec![1] },
        OpSizes::Pointwise { sizes: vec![2, 3, 32, 8, 512, 4096] },
    ] {
        let space = build_iteration_space(&form, Dtype::Float16).unwrap();
        let baseline = divide_iterations(&space, &card, 32, CompilePolicy::Baseline, &[]).unwrap();
        let best = divide_iterations(&space, &card, 32, CompilePolicy::Best, &[]).unwrap();
        assert!(best.latency_us <= baseline.latency_us, "{form:?}: {best:?}, {baseline:?}");
        check_division(&space, &card, 32, &best).unwrap();
        check_division(&space, &card, 32, &baseline).unwrap();
    }
}

/// What several cores need is read once for eight of them, and the rest arrives over the ring.
#[test]
fn shared_operands_are_read_once_for_eight_cores() {
    let card = Hardware::card_preset();
    let (m, n, k) = (512, 1024, 1024);
    let product = build_iteration_space(&OpSizes::matmul(m, n, k), Dtype::Float16).unwrap();
    let [m, n, k] = [m, n, k].map(|x| u64::try_from(x).unwrap());
    for splits in [[4, 8, 1], [32, 1, 1], [1, 16, 2], [2, 16, 1], [3, 5, 2], [25, 1, 1]] {
        let done = plan_core_work(&product, &card, &splits);
        let totals = card.operation_cost(&done).totals;
        let needed: u64 = done.cores.iter().map(|c| c.reads.total_bytes()).sum();
        assert_eq!(totals.bytes_in + totals.ring_in, needed, "{splits:?}");
        // A is needed by the cores along N, B by those along M.
        let reads = |sharers: u64| sharers.div_ceil(8);
        let once = 2 * (m * k * reads(splits[1]) + k * n * reads(splits[0]));
        assert_eq!(totals.bytes_in, once, "{splits:?}");
    }
    // An operand of nobody else does not travel.
    let alone = build_iteration_space(&OpSizes::Pointwise { sizes: vec![64, 256] }, Dtype::Float16)
        .unwrap();
    assert_eq!(card.operation_cost(&plan_core_work(&alone, &card, &[8, 4])).totals.ring_in, 0);
}
