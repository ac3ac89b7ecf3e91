//! Tiling, sums, permutations, storage, broadcasts, packing.

use crate::common::{Place, config, define, got, same, swizzled_of, tile_of};
use proptest::prelude::*;
use std::collections::BTreeSet;
use zellige_layout::{
    Axis, AxisTable, Iter, Layout, LayoutError, TileLayout, flatten_coordinate, unflatten_index,
};

const AXES: &[&str] = &["m", "laneid", "F"];

fn plus(a: &Place, b: &Place, times: impl Fn(Axis) -> i64) -> Place {
    let mut sum = b.clone();
    for (axis, v) in a {
        *sum.entry(*axis).or_default() += v * times(*axis);
    }
    sum
}

fn moved(l: &Layout, mut p: Place) -> Place {
    if let Some(sw) = l.swizzle() {
        let m = p.get(&Axis::M).copied().unwrap_or(0);
        p.insert(Axis::M, sw.apply_to_address(m));
    }
    p.retain(|_, v| *v != 0);
    p
}

/// `{ sw(times * outer(x) + inner(y)) }` over `[outer, inner]` of one dimension.
fn sums(outer: &Layout, inner: &Layout, times: impl Fn(Axis) -> i64) -> Vec<BTreeSet<Place>> {
    let bare = Layout::from(inner.tile().clone());
    let mut all = Vec::new();
    for x in 0..outer.size() {
        for y in 0..inner.size() {
            let (a, b) = (define(outer, x), define(&bare, y));
            let pairs = a.iter().flat_map(|p| b.iter().map(|q| plus(p, q, &times)));
            all.push(pairs.map(|p| moved(inner, p)).collect());
        }
    }
    all
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn sums_and_their_parts(inner in swizzled_of(AXES), outer in tile_of(AXES)) {
        let outer = Layout::from(outer);
        let (o, i) = (vec![outer.size()], vec![inner.size()]);
        if let Ok(sum) = inner.direct_sum(&outer, &o, &i) {
            for (k, want) in (0..).zip(sums(&outer, &inner, |_| 1)) {
                prop_assert_eq!(got(&sum, k), want);
            }
            let shape = [o[0], i[0]];
            let left = inner.is_direct_sum_right(&sum, &shape).expect("small");
            let again = left.map(|l| inner.direct_sum(&l, &o, &i).expect("small"));
            prop_assert_eq!(again.map(|a| same(&a, &sum)), Some(None));
            let right = outer.is_direct_sum_left(&sum, &shape).expect("small");
            let again = right.map(|r| r.direct_sum(&outer, &o, &i).expect("small"));
            prop_assert_eq!(again.map(|a| same(&a, &sum)), Some(None));
        }
    }

    #[test]
    fn tilings_and_their_parts(inner in swizzled_of(AXES), outer in tile_of(AXES)) {
        let outer = Layout::from(outer);
        let (o, i) = (vec![outer.size()], vec![inner.size()]);
        if let Ok(tiled) = inner.tile_by(&outer, &o, &i) {
            let span = |a: Axis| inner.tile().axis_bounds(a).max + 1;
            for (k, want) in (0..).zip(sums(&outer, &inner, span)) {
                prop_assert_eq!(got(&tiled, k), want);
            }
            let whole = [o[0] * i[0]];
            let found = inner.is_tile_inner(&tiled, &whole, &i).expect("small");
            let again = found.map(|f| inner.tile_by(&f, &o, &i).expect("small"));
            prop_assert_eq!(again.map(|a| same(&a, &tiled)), Some(None));
        }
    }

    /// What is found among any two layouts is true.
    #[test]
    fn parts_that_are_found_are_parts(a in swizzled_of(&["m", "laneid"]), b in swizzled_of(&["m", "laneid"])) {
        let (n, k) = (b.size(), a.size());
        if k == 0 || n % k != 0 {
            return Ok(());
        }
        if let Ok(Some(outer)) = a.is_tile_inner(&b, &[n], &[k]) {
            let again = a.tile_by(&outer, &[n / k], &[k]).expect("small");
            prop_assert_eq!(same(&again, &b), None);
        }
        if let Ok(Some(inner)) = a.is_tile_outer(&b, &[n], &[k]) {
            let again = inner.tile_by(&a, &[k], &[n / k]).expect("small");
            prop_assert_eq!(same(&again, &b), None);
        }
        if let Ok(Some(left)) = a.is_direct_sum_right(&b, &[n / k, k]) {
            let again = a.direct_sum(&left, &[n / k], &[k]).expect("small");
            prop_assert_eq!(same(&again, &b), None);
        }
        if let Ok(Some(right)) = a.is_direct_sum_left(&b, &[k, n / k]) {
            let again = right.direct_sum(&a, &[k], &[n / k]).expect("small");
            prop_assert_eq!(same(&again, &b), None);
        }
    }

    #[test]
    fn permutations_broadcasts_and_storage(l in swizzled_of(AXES), turn in 0usize..4, num in 1i64..4, pos in -5i64..5) {
        let extents: Vec<i64> = l.tile().shard().iter().map(|it| it.extent).collect();
        let rank = extents.len();
        let perm: Vec<usize> = (0..rank).map(|i| (i + turn) % rank).collect();
        let turned = l.permute_dims(&perm).expect("a permutation");
        let shape: Vec<i64> = perm.iter().map(|i| extents[*i]).collect();
        for i in 0..l.size() {
            let c = unflatten_index(&shape, i);
            let mut back = vec![0; rank];
            perm.iter().zip(&c).for_each(|(p, c)| back[*p] = *c);
            prop_assert_eq!(got(&turned, i), define(&l, flatten_coordinate(&extents, &back).expect("inside")));
        }
        let seps: Vec<usize> = (0..=rank).collect();
        prop_assert_eq!(l.permute_by_groups(&seps, &perm).expect("groups of one"), turned);
        if let Ok(wide) = l.broadcast_elements(num, pos, Axis::M) {
            let rank = i64::try_from(rank).expect("small");
            let at = usize::try_from(if pos < 0 { pos + rank + 1 } else { pos }).expect("inside");
            let mut shape = extents.clone();
            shape.insert(at, num);
            for i in 0..wide.size() {
                let mut c = unflatten_index(&shape, i);
                c.remove(at);
                prop_assert_eq!(got(&wide, i), define(&l, flatten_coordinate(&extents, &c).expect("inside")));
            }
        }
        let stored = l.storage_layout().expect("no window");
        let kept: Vec<i64> = l.tile().shard().iter().filter(|it| it.axis.is_memory()).map(|it| it.extent).collect();
        for i in 0..l.size() {
            let c = unflatten_index(&extents, i);
            let c: Vec<i64> = c.iter().zip(l.tile().shard()).filter(|(_, it)| it.axis.is_memory()).map(|(c, _)| *c).collect();
            let want: BTreeSet<Place> = define(&l, i).into_iter().map(|mut p| { p.retain(|a, _| a.is_memory()); p }).collect();
            prop_assert_eq!(got(&stored, flatten_coordinate(&kept, &c).expect("inside")), want);
        }
    }

    /// Packed exactly where neighbours are aligned runs, and the witness is one that is none.
    #[test]
    fn packs_are_exact_and_refusals_true(l in swizzled_of(AXES), num in 1i64..9) {
        let run_at = |q: i64| -> bool {
            let first = define(&l, q);
            first.iter().all(|p| p.get(&Axis::M).copied().unwrap_or(0) % num == 0)
                && (0..num).all(|j| {
                    let want: BTreeSet<Place> = first.iter().map(|p| {
                        let mut p = p.clone();
                        *p.entry(Axis::M).or_default() += j;
                        p.retain(|_, v| *v != 0);
                        p
                    }).collect();
                    q + j < l.size() && define(&l, q + j) == want
                })
        };
        match l.pack_elements(num) {
            Ok(packed) => {
                prop_assert_eq!(packed.size(), l.size() / num);
                for q in 0..packed.size() {
                    for j in 0..num {
                        let want: BTreeSet<Place> = got(&packed, q).into_iter().map(|mut p| {
                            let m = p.entry(Axis::M).or_default();
                            *m = *m * num + j;
                            p.retain(|_, v| *v != 0);
                            p
                        }).collect();
                        prop_assert_eq!(define(&l, q * num + j), want);
                    }
                }
            }
            Err(LayoutError::NotPackable { index, .. }) => {
                prop_assert_eq!(index % num, 0);
                // Under a swizzle the tile layout is what was looked at.
                if l.effective_swizzle().is_none() {
                    prop_assert!(!run_at(index), "{:?} by {} at {}", l, num, index);
                }
            }
            Err(LayoutError::BadParameter { .. }) => prop_assert!(l.effective_swizzle().is_some() || l.swizzle().is_some()),
            Err(e) => prop_assert!(false, "{e}"),
        }
        if let Ok(unpacked) = l.unpack_elements(num) {
            for q in 0..l.size() {
                for j in 0..num {
                    let want: BTreeSet<Place> = define(&l, q).into_iter().map(|mut p| {
                        let m = p.entry(Axis::M).or_default();
                        *m = *m * num + j;
                        p.retain(|_, v| *v != 0);
                        p
                    }).collect();
                    prop_assert_eq!(got(&unpacked, q * num + j), want);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(config())]

    /// Packing on the columns of tensor memory is packing on `m` with the axes exchanged.
    #[test]
    fn columns_are_packed_as_memory_is(t in tile_of(&["m", "TCol", "TLane"]), num in 1i64..5) {
        let column = AxisTable::new().get("TCol").expect("built in");
        let l = Layout::from(t);
        if let Ok(packed) = l.pack_elements_on(num, column) {
            prop_assert_eq!(packed.size(), l.size() / num);
            for q in 0..packed.size() {
                for j in 0..num {
                    let want: BTreeSet<Place> = got(&packed, q).into_iter().map(|mut p| {
                        let at = p.entry(column).or_default();
                        *at = *at * num + j;
                        p.retain(|_, v| *v != 0);
                        p
                    }).collect();
                    prop_assert_eq!(define(&l, q * num + j), want);
                }
            }
        }
        let unpacked = l.unpack_elements_on(num, column).expect("small");
        prop_assert_eq!(unpacked.pack_elements_on(num, column).map(|p| p.find_difference(&l)), Ok(Ok(None)));
    }
}

/// Scale factors of 8 bits, four to a cell of 32.
#[test]
fn tensor_memory_is_packed() {
    let axis = |name| AxisTable::new().get(name).expect("built in");
    let (lane, column) = (axis("TLane"), axis("TCol"));
    let shard = |iters: &[(i64, i64, Axis)]| {
        let iters = iters.iter().map(|(e, s, a)| Iter::new(*e, *s, *a)).collect();
        Layout::from(TileLayout::new(iters, vec![Iter::new(4, 32, lane)], []).expect("small"))
    };
    let factors = shard(&[(4, 4, column), (32, 1, lane), (4, 16, column), (4, 1, column)]);
    let cells = shard(&[(4, 1, column), (32, 1, lane), (4, 4, column)]);
    assert_eq!(
        factors.pack_elements_on(4, column).map(|p| p.find_difference(&cells)),
        Ok(Ok(None))
    );
    let refused = factors.pack_elements_on(4, lane).map_err(|e| e.to_string());
    assert!(refused.as_ref().is_err_and(|e| e.contains("`TLane`")), "{refused:?}");
    assert!(factors.pack_elements_on(4, axis("warpid")).is_err());
}

#[test]
fn repeated_tiles_are_row_major() {
    let l = Layout::from(TileLayout::row_major(&[2, 3]).expect("small"));
    let tiled = l.tile_to(&[4, 6], &[2, 3]).expect("divides");
    for r in 0..4 {
        for c in 0..6 {
            let want = ((r / 2) * 2 + c / 3) * 6 + r % 2 * 3 + c % 3;
            assert_eq!(
                tiled.apply_to_coordinate(&[4, 6], &[r, c]).expect("inside").sorted_coordinates()
                    [0]
                .get(Axis::M),
                want
            );
        }
    }
}
