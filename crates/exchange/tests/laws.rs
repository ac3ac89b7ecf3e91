//! The laws of exchanges on random divisions, against the definition.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use proptest::prelude::*;
use zellige_exchange::{
    CoreExchange, CoreNumber, ExchangeError, SumExchange, TensorBox, TensorDivision,
};
use zellige_layout::{Axis, AxisKind, AxisTable, Iter, Layout, TileLayout};

/// Any boxes on up to six cores, so that parts overlap, repeat and leave gaps.
fn any_division(shape: Vec<i64>) -> impl Strategy<Value = TensorDivision> {
    let part = shape
        .iter()
        .map(|n| {
            let n = *n;
            (0..n).prop_flat_map(move |a| (Just(a), a + 1..=n))
        })
        .collect::<Vec<_>>();
    prop::collection::vec((0..6_u32, part), 1..10).prop_map(move |table| {
        let parts = table.into_iter().map(|(core, ranges)| (core, TensorBox::new(ranges)));
        TensorDivision::new(&shape, parts).unwrap()
    })
}

fn any_pair() -> impl Strategy<Value = (TensorDivision, TensorDivision)> {
    prop::collection::vec(1..6_i64, 1..4)
        .prop_flat_map(|shape| (any_division(shape.clone()), any_division(shape)))
}

fn elements(shape: &[i64]) -> Vec<Vec<i64>> {
    shape.iter().fold(vec![vec![]], |all, n| {
        all.iter().flat_map(|head| (0..*n).map(move |i| [head.clone(), vec![i]].concat())).collect()
    })
}

fn holds(division: &TensorDivision, core: CoreNumber, element: &[i64]) -> bool {
    division.boxes_of(core).iter().any(|b| b.contains(element))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(400)))]

    #[test]
    fn plans_deliver_each_element_once_and_move_the_least((source, destination) in any_pair()) {
        let all = elements(source.shape());
        let orphan = (0..6).find_map(|core| {
            all.iter().find(|e| holds(&destination, core, e) && !(0..6).any(|c| holds(&source, c, e)))
        });
        match CoreExchange::between(&source, &destination) {
            Err(ExchangeError::NoHolder { core, element }) => {
                prop_assert!(orphan.is_some());
                prop_assert!(holds(&destination, core, &element));
                prop_assert!(!(0..6).any(|c| holds(&source, c, &element)));
            }
            Err(other) => prop_assert!(false, "{other}"),
            Ok(plan) => {
                prop_assert!(orphan.is_none());
                let proof = plan.certify(&source, &destination).unwrap();
                let needs = |c: u32, e: &Vec<i64>| holds(&destination, c, e) && !holds(&source, c, e);
                let least = (0..6).flat_map(|c| all.iter().map(move |e| (c, e))).filter(|(c, e)| needs(*c, e)).count();
                prop_assert_eq!(proof.remote, i64::try_from(least).unwrap());
                prop_assert_eq!(plan.remote_elements(), proof.remote);
                prop_assert_eq!(plan.remote_elements() + plan.local_elements(), proof.needed);
                let sums = (plan.sent_by_core().values().sum::<i64>(), plan.received_by_core().values().sum::<i64>());
                prop_assert_eq!(sums, (proof.remote, proof.remote));
                // A ring carries every element at least once between different cores, and at most round half of it.
                let loads = plan.ring_loads(6);
                let carried: i64 = loads.rising().iter().chain(loads.falling()).sum();
                prop_assert!(carried <= 3 * proof.remote);
                prop_assert_eq!(carried == 0, proof.remote == 0);
            }
        }
    }

    /// By the definition: every layer has a number of its own for each element and core, and each destination core must
    /// end with the sum of one number of every layer, each from a core that holds it.
    #[test]
    fn sums_count_each_layer_once((layers, destination) in prop::collection::vec(1..6_i64, 1..3).prop_flat_map(|shape| {
        (prop::collection::vec(any_division(shape.clone()), 1..4), any_division(shape))
    })) {
        let all = elements(destination.shape());
        let missing = (0..6).any(|c| all.iter().any(|e| {
            holds(&destination, c, e) && layers.iter().any(|l| !(0..6).any(|h| holds(l, h, e)))
        }));
        match SumExchange::between(&layers, &destination) {
            Err(e) => prop_assert!(missing, "{}", e),
            Ok(plan) => {
                prop_assert!(!missing);
                plan.certify(&layers, &destination).unwrap();
                prop_assert_eq!(plan.class().reduces, layers.len() > 1);
                for e in &all {
                    let needers = (0..6).filter(|c| holds(&destination, *c, e)).count();
                    let own: Vec<_> = plan.additions().iter().filter(|a| a.elements.contains(e)).collect();
                    if needers == 0 {
                        prop_assert!(own.is_empty());
                        continue;
                    }
                    // One base-4 digit for each layer: a layer that is left out or added twice gives another number.
                    let sum: usize = own.iter().map(|a| 1 << (2 * a.layer)).sum();
                    prop_assert_eq!(sum, (0..layers.len()).map(|k| 1 << (2 * k)).sum::<usize>());
                    let order: Vec<usize> = own.iter().map(|a| a.layer).collect();
                    prop_assert!(order.windows(2).all(|w| w[0] < w[1]));
                    prop_assert!(own.iter().all(|a| holds(&layers[a.layer], a.source, e) && a.owner == own[0].owner));
                    // No choice of one adding core needs fewer messages.
                    let cost = |owner: u32| {
                        let added = layers.iter().filter(|l| !holds(l, owner, e)).count();
                        added + needers - usize::from(holds(&destination, owner, e))
                    };
                    let least = (0..6).map(cost).min().unwrap();
                    prop_assert_eq!(cost(own[0].owner), least);
                }
            }
        }
    }

    #[test]
    fn a_division_holds_what_its_table_says(table in prop::collection::vec((0..3_u32, (0..4_i64, 1..4_i64), (0..4_i64, 1..4_i64)), 1..6)) {
        let shape = [7, 7];
        let boxes: Vec<(u32, TensorBox)> = table
            .iter()
            .map(|(core, a, b)| (*core, TensorBox::new(vec![(a.0, a.0 + a.1), (b.0, b.0 + b.1)])))
            .collect();
        let division = TensorDivision::new(&shape, boxes.clone()).unwrap();
        for core in 0..3 {
            for element in elements(&shape) {
                let said = boxes.iter().any(|(c, b)| *c == core && b.contains(&element));
                let times = division.boxes_of(core).iter().filter(|b| b.contains(&element)).count();
                prop_assert_eq!(times, usize::from(said), "core {} element {:?}", core, element);
            }
        }
    }

    #[test]
    fn a_layout_on_cores_is_the_division_of_its_elements(
        extents in prop::collection::vec(1..4_i64, 1..5),
        on_core in prop::collection::vec(any::<bool>(), 5),
        copies in 1..3_i64,
        split in 0..5_usize,
    ) {
        let core = Axis::new("core", AxisKind::Memory).unwrap();
        let mut strides = (1, 1);
        let iters: Vec<Iter> = extents.iter().zip(&on_core).rev().map(|(n, core_digit)| {
            let (axis, stride) = if *core_digit { (core, &mut strides.0) } else { (Axis::M, &mut strides.1) };
            let iter = Iter::new(*n, *stride, axis);
            *stride *= n;
            iter
        }).collect::<Vec<_>>().into_iter().rev().collect();
        let replica = vec![Iter::new(copies, strides.0, core)];
        let tile = TileLayout::new(iters, replica, vec![]).unwrap();
        let layout = Layout::from(tile);
        // Digits joined to two dimensions at any place.
        let split = split.min(extents.len());
        let shape: Vec<i64> = vec![extents[..split].iter().product(), extents[split..].iter().product()];
        if !layout.tile().axes().contains(&core) {
            return Ok(());
        }
        let division = TensorDivision::from_layout(&layout, &shape, core).unwrap();
        for element in elements(&shape) {
            let places = layout.apply_to_coordinate(&shape, &element).unwrap();
            let expected: std::collections::BTreeSet<i64> = places.sorted_coordinates().iter().map(|p| p.get(core)).collect();
            for c in 0..64_u32 {
                prop_assert_eq!(holds(&division, c, &element), expected.contains(&i64::from(c)));
            }
        }
    }
}

#[test]
fn a_split_sum_is_reduced_and_scattered() {
    // Four cores have unfinished sums of all of 8 x 64, and each needs two rows of the sums.
    let whole = |core| TensorDivision::new(&[8, 64], [(core, TensorBox::whole(&[8, 64]))]).unwrap();
    let layers: Vec<TensorDivision> = (0..4).map(whole).collect();
    let rows = TensorDivision::from_slices(&[8, 64], &[0, 1, 2, 3], &[(0, 1, 4)]).unwrap();
    let plan = SumExchange::between(&layers, &rows).unwrap();
    plan.certify(&layers, &rows).unwrap();
    // Every core sends three of its four quarters, and what it adds up is what it needs.
    assert_eq!((plan.remote_elements(), plan.spread().remote_elements()), (3 * 8 * 64, 0));
    assert_eq!(plan.class().to_string(), "reduce");
    // All need all: a quarter each is added up, and then goes to the three others.
    let copies = TensorDivision::from_slices(&[8, 64], &[0, 1, 2, 3], &[]).unwrap();
    let plan = SumExchange::between(&layers, &copies).unwrap();
    plan.certify(&layers, &copies).unwrap();
    assert_eq!(plan.remote_elements(), 2 * 3 * 8 * 64);
    assert_eq!(
        plan.owners().parts().map(|(_, b)| b[0].element_count()).collect::<Vec<_>>(),
        [128; 4]
    );
    // Complete sums: the last layer alone is a source.
    let finished = CoreExchange::between(&layers[3], &rows).unwrap();
    assert_eq!(finished.sent_by_core().into_keys().collect::<Vec<_>>(), [3]);
    // Another tensor's certificate does not hold.
    assert!(plan.certify(&layers[..3], &copies).is_err());
    assert!(plan.certify(&layers, &rows).is_err());
    assert!(SumExchange::between(&[], &rows).is_err());
}

#[test]
fn runs_are_those_of_the_order_of_elements() {
    let runs = |slices: &[(usize, i64, i64)]| {
        let found = TensorDivision::from_slices(&[4, 8, 64], &[0, 1, 2, 3, 4, 5, 6, 7], slices);
        let runs = found.unwrap().count_runs();
        (runs.cores, runs.run, runs.split)
    };
    assert_eq!(runs(&[]), (8, 2048, 1));
    assert_eq!(runs(&[(0, 1, 4)]), (8, 512, 4));
    assert_eq!(runs(&[(1, 1, 8)]), (8, 64, 8));
    assert_eq!(runs(&[(0, 1, 4), (2, 4, 2)]), (8, 32, 2));
}

#[test]
fn bad_divisions_are_refused_with_the_place() {
    let part = |ranges: &[(i64, i64)]| TensorBox::new(ranges.to_vec());
    let refused = |shape: &[i64], ranges: &[(i64, i64)]| {
        TensorDivision::new(shape, [(3, part(ranges))]).unwrap_err().to_string()
    };
    assert!(refused(&[4, 0], &[(0, 1), (0, 1)]).contains("no elements"));
    assert!(refused(&[i64::MAX, 3], &[(0, 1), (0, 1)]).contains("too many"));
    assert!(refused(&[4], &[(2, 5)]).starts_with("core 3: [2, 5) is no part of dimension 0"));
    assert!(refused(&[4], &[(2, 2)]).contains("at least one element"));
    assert!(refused(&[4, 4], &[(0, 4)]).contains("a box of 1 dimensions in a tensor of 2"));
    let far = TensorDivision::new(&[4], [(u32::MAX, part(&[(0, 4)]))]).unwrap_err().to_string();
    assert!(far.ends_with("cores have numbers from 0 to 4095"), "{far}");
    // 2048 cores hold everything, and 2048 others need parts that begin at 2048 places.
    let copies = |cores: std::ops::Range<u32>| {
        TensorDivision::new(&[8192], cores.map(|c| (c, part(&[(0, 8192)])))).unwrap()
    };
    assert!(CoreExchange::between(&copies(0..2048), &copies(2048..4096)).is_ok());
    let striped = (0..2048).map(|c| (c + 2048, part(&[(i64::from(c), 8192)])));
    let striped = TensorDivision::new(&[8192], striped).unwrap();
    let many = CoreExchange::between(&copies(0..2048), &striped).unwrap_err().to_string();
    assert!(many.contains("at most 16777216 are listed"), "{many}");
    let slices = |slices: &[(usize, i64, i64)]| TensorDivision::from_slices(&[6, 4], &[0], slices);
    assert!(slices(&[(1, 1, 3)]).unwrap_err().to_string().contains("a divisor of 4"));
    assert!(slices(&[(2, 1, 3)]).is_err() && slices(&[(0, 0, 3)]).is_err());

    let whole = |shape: &[i64]| TensorDivision::new(shape, [(0, TensorBox::whole(shape))]).unwrap();
    assert!(CoreExchange::between(&whole(&[4, 4]), &whole(&[16])).is_err());
    let axes = AxisTable::new();
    let pid = axes.get("pid").unwrap();
    let flat = Layout::from(TileLayout::new(vec![Iter::in_memory(4, 1)], vec![], vec![]).unwrap());
    let missing = TensorDivision::from_layout(&flat, &[4], pid).unwrap_err().to_string();
    assert!(missing.contains("does not mention the axis `pid`"), "{missing}");
}
