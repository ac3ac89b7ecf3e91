//! Compositions, slices, inverses and complements: the requested function, or a refusal whose witness proves it.

use crate::common::{
    Place, any_layout_has, config, define, everything, expressible, got, nested, place_of, single,
    swizzle, swizzled_of, swizzles, table, tile_of,
};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use zellige_layout::{
    Axis, InverseLayout, Iter, Layout, LayoutError, PhysicalCoordinate, Swizzle, TileLayout,
    flatten_coordinate, unflatten_index,
};

fn at(p: &Place, axis: Axis) -> i64 {
    p.get(&axis).copied().unwrap_or(0)
}

/// The value of an inverse at a physical coordinate, if that is in its domain.
fn named(inverse: &InverseLayout, p: &Place) -> Option<i64> {
    let c: Vec<i64> = inverse.axes.iter().map(|a| at(p, *a)).collect();
    let flat = flatten_coordinate(&inverse.shape, &c).ok()?;
    Some(inverse.layout.physical_coordinates(flat).ok()?.sorted_coordinates()[0].get(Axis::M))
}

/// The places of the domain of an inverse.
fn domain(inverse: &InverseLayout) -> Vec<Place> {
    let n: i64 = inverse.shape.iter().product();
    let place = |i: i64| -> Place {
        let c = unflatten_index(&inverse.shape, i);
        inverse.axes.iter().copied().zip(c).filter(|(_, v)| *v != 0).collect()
    };
    (0..n).map(place).collect()
}

/// Whether some iters, added to those that already filled places, fill all below cosize.
///
/// The smallest free place must be a stride: a smaller one would be held already. Every extent is tried.
fn has_complement(filled: &BTreeSet<i64>, cosize: i64) -> bool {
    let Some(stride) = (0..cosize).find(|p| !filled.contains(p)) else { return true };
    let mut more = filled.clone();
    for digit in 1..=(cosize - 1) / stride.max(1) {
        let moved: BTreeSet<i64> = filled.iter().map(|p| p + digit * stride).collect();
        if stride == 0 || moved.iter().any(|p| more.contains(p)) {
            return false;
        }
        more.extend(moved);
        if has_complement(&more, cosize) {
            return true;
        }
    }
    false
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn compositions_with_swizzles_and_replicas(a in swizzled_of(&["m", "laneid", "F"]), b in swizzled_of(&["m"])) {
        let want = || -> Option<Vec<BTreeSet<Place>>> {
            table(&b).iter().map(|all| {
                let inside = all.iter().all(|p| (0..a.size()).contains(&at(p, Axis::M)));
                inside.then(|| all.iter().flat_map(|p| define(&a, at(p, Axis::M))).collect())
            }).collect()
        };
        match a.compose(&b) {
            Ok(c) => {
                let got: Vec<_> = (0..c.size()).map(|i| got(&c, i)).collect();
                prop_assert_eq!(Some(got), want());
            }
            Err(LayoutError::OutsideDomain { index, value, size }) => {
                prop_assert_eq!(size, a.size());
                prop_assert!(!(0..size).contains(&value));
                prop_assert!(define(&b, index).iter().any(|p| at(p, Axis::M) == value));
            }
            Err(LayoutError::NotExpressible { index, .. }) => {
                prop_assert!((0..b.size()).contains(&index));
                let bare = Layout::from(TileLayout::from_shard(a.tile().shard().to_vec()).expect("small"));
                if let Some(inner) = single(&b) {
                    if b.effective_swizzle().is_none() && a.effective_swizzle().is_none() {
                        let f: Vec<Place> = inner.iter()
                            .map(|p| define(&bare, at(p, Axis::M)).pop_first().expect("one")).collect();
                        prop_assert!(!expressible(&f), "{:?} o {:?} is {:?}", a, b, f);
                    } else if let Some(outer) = single(&a) {
                        let f: Vec<Place> = inner.iter()
                            .map(|p| outer[usize::try_from(at(p, Axis::M)).expect("inside")].clone()).collect();
                        prop_assert!(!any_layout_has(&f), "{:?} o {:?} is {:?}", a, b, f);
                    }
                }
            }
            Err(LayoutError::Swizzled { .. }) => prop_assert!(b.effective_swizzle().is_some() && (a.tile().replica_count() > 1 || b.tile().replica_count() > 1)),
            Err(LayoutError::Undecided { .. }) => prop_assert!(b.tile().replica_count() > 1 || (a.tile().replica_count() > 1 && a.effective_swizzle().is_some())),
            Err(LayoutError::NotOneAxis { .. }) => prop_assert!(b.tile().axes() != [Axis::M]),
            Err(e) => prop_assert!(false, "{e}"),
        }
    }

    #[test]
    fn slices_of_windows_in_any_shape(l in everything(&["m", "laneid", "F"]), cut in 1i64..7, r in any::<[u8; 4]>()) {
        let n = l.size();
        let own = l.window().filter(|_| cut == 1).map(|w| w.shape());
        let shape = own.unwrap_or_else(|| if n % cut == 0 { vec![n / cut, cut] } else { vec![n] });
        let region: Vec<(i64, i64)> = shape.iter().zip(r.chunks(2)).map(|(e, r)| {
            let begin = i64::from(r[0]) % (e + 1);
            (begin, begin + i64::from(r[1]) % (e - begin + 1))
        }).collect();
        let size: Vec<i64> = region.iter().map(|(b, e)| e - b).collect();
        let count: i64 = size.iter().product();
        let from = |i: i64| {
            let x: Vec<i64> = unflatten_index(&size, i).iter().zip(&region).map(|(y, (b, _))| y + b).collect();
            flatten_coordinate(&shape, &x).expect("inside")
        };
        match l.slice_region(&shape, &region) {
            Ok(s) => {
                prop_assert_eq!(s.size(), count);
                for i in 0..count {
                    prop_assert_eq!(got(&s, i), define(&l, from(i)));
                }
            }
            Err(LayoutError::NotExpressible { index, .. }) => {
                prop_assert!((0..count).contains(&index));
                let bare = Layout::from(TileLayout::from_shard(l.tile().shard().to_vec()).expect("small"));
                let bare = match l.window() {
                    Some(w) => bare.with_window(w.clone()).expect("fits"),
                    None => bare,
                };
                let f: Vec<Place> = (0..count).map(|i| define(&bare, from(i)).pop_first().expect("one")).collect();
                prop_assert!(!expressible(&f), "{:?} {:?} {:?} is {:?}", l, shape, region, f);
            }
            Err(e) => prop_assert!(false, "{e}"),
        }
        match l.slice_as_window(&shape, &region) {
            Ok(s) => {
                prop_assert_eq!(s.size(), count);
                for i in 0..count {
                    prop_assert_eq!(got(&s, i), define(&l, from(i)));
                }
            }
            Err(LayoutError::Undecided { .. }) => prop_assert!(l.window().is_some_and(|w| w.shape() != shape)),
            Err(e) => prop_assert!(false, "{e}"),
        }
    }

    #[test]
    fn inverses_of_anything(l in swizzled_of(&["m", "F"]), nest in nested(), sw in swizzle(), pick in 0..3) {
        let l = match pick {
            0 => l,
            1 => Layout::from_swizzled_tile(sw, nest).expect("0 or more"),
            _ => nest.into(),
        };
        let places = table(&l);
        let mut held: BTreeMap<Place, i64> = BTreeMap::new();
        for (i, all) in (0..).zip(&places) {
            all.iter().for_each(|p| { held.entry(p.clone()).or_insert(i); });
        }
        let clash = places.iter().map(BTreeSet::len).sum::<usize>() != held.len();
        match l.exact_inverse() {
            Ok(inv) => {
                for (p, i) in &held {
                    prop_assert_eq!(named(&inv, p), Some(*i), "{:?} {:?}", l, inv);
                }
                prop_assert_eq!(domain(&inv).len(), held.len());
            }
            Err(LayoutError::Aliased { a, b, place }) => {
                prop_assert!(a != b && define(&l, a).contains(&place_of(&place)));
                prop_assert!(define(&l, b).contains(&place_of(&place)));
            }
            Err(LayoutError::NotCovered { place }) => prop_assert!(!held.contains_key(&place_of(&place))),
            Err(LayoutError::NotExpressible { .. }) if l.tile().replica_count() == 1 && !clash => {
                let empty = l.tile().axes().iter().map(|a| (*a, l.axis_bounds(*a).expect("small"))).collect::<Vec<_>>();
                let shape: Vec<i64> = empty.iter().map(|(_, b)| b.max + 1).collect();
                let n: i64 = shape.iter().product();
                let f: Vec<Place> = (0..n).map(|k| {
                    let c = unflatten_index(&shape, k);
                    let p: Place = empty.iter().map(|(a, _)| *a).zip(c).filter(|(_, v)| *v != 0).collect();
                    [(Axis::M, held[&p])].into_iter().filter(|(_, v)| *v != 0).collect()
                }).collect();
                prop_assert!(!any_layout_has(&f), "{:?} has the inverse {:?}", l, f);
            }
            Err(LayoutError::NotExpressible { .. }) => {}
            Err(LayoutError::BadParameter { value, .. }) => {
                prop_assert!(held.keys().any(|p| p.values().any(|v| *v == value && value < 0)));
            }
            Err(e) => prop_assert!(false, "{e}"),
        }
        match l.right_inverse() {
            Ok(inv) => {
                let all = domain(&inv);
                prop_assert!(l.size() == 0 || !all.is_empty());
                for p in all {
                    let i = named(&inv, &p).expect("in the domain");
                    prop_assert!(define(&l, i).contains(&p), "{:?} {:?} at {:?}", l, inv, p);
                }
            }
            Err(LayoutError::NotCovered { place }) => prop_assert!(!held.contains_key(&place_of(&place))),
            Err(e) => prop_assert!(false, "{e}"),
        }
    }

    /// The complement fills all below cosize without meeting itself; a refusal is one that every
    /// complement would share.
    #[test]
    fn complements_fill_or_cannot(t in tile_of(&["F"]), cosize in 0i64..60, lift in any::<bool>()) {
        let up = |its: &[Iter]| -> Vec<Iter> {
            its.iter().map(|it| Iter { stride: it.stride.abs(), ..*it }).collect()
        };
        let t = if lift { TileLayout::new(up(t.shard()), up(t.replica()), []).expect("small") } else { t };
        let l = Layout::from(t);
        let axis = l.tile().axes().first().copied().unwrap_or(Axis::M);
        let mine: BTreeSet<i64> = table(&l).into_iter().flatten().map(|p| at(&p, axis)).collect();
        match l.complement(cosize) {
            Ok(c) => {
                let moves: Vec<i64> = table(&c.clone().into()).iter().map(|s| at(s.first().expect("one"), axis)).collect();
                let sums: Vec<i64> = mine.iter().flat_map(|a| moves.iter().map(move |b| a + b)).collect();
                let distinct: BTreeSet<i64> = sums.iter().copied().collect();
                prop_assert_eq!(distinct.len(), sums.len(), "{:?} and {:?} overlap", l, c);
                prop_assert!((0..cosize).all(|p| distinct.contains(&p)), "{:?} and {:?}", l, c);
                prop_assert!(c.shard().windows(2).all(|w| w[0].stride > w[1].stride));
            }
            Err(LayoutError::Aliased { a, b, place }) => {
                prop_assert!(a != b && define(&l, a).contains(&place_of(&place)) && define(&l, b).contains(&place_of(&place)));
            }
            Err(LayoutError::BadParameter { .. }) => {
                let copies = i64::try_from(define(&l, 0).len()).expect("small");
                prop_assert!(!lift || copies < l.tile().replica_count());
            }
            Err(LayoutError::NotExpressible { .. }) => {
                prop_assert!(!has_complement(&mine, cosize), "{:?} below {}", l, cosize);
            }
            Err(e) => prop_assert!(false, "{e}"),
        }
    }
}

fn mem(iters: &[(i64, i64)], offset: i64) -> TileLayout {
    let shard = iters.iter().map(|(e, s)| Iter::in_memory(*e, *s)).collect();
    TileLayout::new(shard, vec![], [(Axis::M, offset)]).expect("small")
}

#[test]
fn refusals_that_were_no_proofs() {
    let l = |iters: &[(i64, i64)], offset| Layout::from(mem(iters, offset));
    // Place 0 holds element 1.
    let inverse = l(&[(4, 1)], -1).right_inverse().expect("place 0 is held");
    assert_eq!(
        (inverse.shape.clone(), inverse.layout.find_difference(&l(&[(3, 1)], 1))),
        (vec![3], Ok(None))
    );
    // 5 is outside of S[5:16], and what the swizzle makes of it is not.
    let sw = zellige_layout::Swizzle::new(0, 1, 2, false).expect("well-formed");
    let right = Layout::from_swizzled_tile(sw, mem(&[(1, 1)], 5)).expect("0 or more");
    let composed = l(&[(5, 16)], 0).compose(&right).expect("1 is inside");
    assert_eq!(
        composed.physical_coordinates(0).expect("inside").sorted_coordinates(),
        [PhysicalCoordinate::new([(Axis::M, 16)])]
    );
    // Undoing a swizzle is the identity.
    let swizzled = Layout::from_swizzled_tile(sw, mem(&[(8, 1)], 0)).expect("0 or more");
    assert_eq!(
        swizzled.compose(&swizzled).expect("exact").find_difference(&l(&[(8, 1)], 0)),
        Ok(None)
    );
    // A window in another shape.
    let window =
        zellige_layout::ValidWindow::new(vec![zellige_layout::PaddedExtent::padded_to(6, 9)])
            .expect("inside");
    let padded = l(&[(9, 1)], 0).with_window(window).expect("fits");
    let slice = padded.slice_region(&[2, 3], &[(0, 2), (1, 3)]).expect("exact");
    assert_eq!(slice.find_difference(&l(&[(2, 3), (2, 1)], 1)), Ok(None));
    // Gaps above cosize need not be filled.
    let complement = l(&[(3, 7), (7, 32)], 0).complement(5).expect("0 to 4 are free");
    assert_eq!(complement, mem(&[(5, 1)], 0).canonical_form());
}

/// The places of the longest right inverse on `m`, by trying every layout, and every swizzle of it
/// where `l` is swizzled, on ever more places.
fn longest_right_inverse(l: &Layout) -> usize {
    let mut sets: Vec<BTreeSet<i64>> = Vec::new();
    let all = table(l);
    loop {
        let here = i64::try_from(sets.len()).expect("small");
        let held = (0..l.size()).filter(|i| {
            all[usize::try_from(*i).expect("small")].iter().any(|p| at(p, Axis::M) == here)
        });
        let held: BTreeSet<i64> = held.collect();
        if held.is_empty() {
            break;
        }
        sets.push(held);
    }
    let tried = if l.effective_swizzle().is_some() { swizzles() } else { vec![None] };
    let under = |sw: &Option<Swizzle>| -> Vec<BTreeSet<i64>> {
        let moved = |v: &i64| sw.map_or(*v, |sw| sw.apply_to_address(*v));
        sets.iter().map(|set| set.iter().map(moved).collect()).collect()
    };
    let tried: Vec<_> = tried.iter().map(under).collect();
    (1..=sets.len()).rev().find(|n| tried.iter().any(|sets| goes_through(&sets[..*n]))).unwrap_or(0)
}

/// Whether some start and digits take a value of every set.
fn goes_through(sets: &[BTreeSet<i64>]) -> bool {
    fn grow(sets: &[BTreeSet<i64>], known: &[i64]) -> bool {
        let (n, w) = (sets.len(), known.len());
        w == n
            || (2..=n / w).filter(|e| n.is_multiple_of(w * e)).any(|e| {
                sets[w].iter().any(|v| {
                    let digits = 0..i64::try_from(e).expect("small");
                    let next: Vec<i64> = digits
                        .flat_map(|d| known.iter().map(move |k| k + d * (v - known[0])))
                        .collect();
                    next.iter().zip(sets).all(|(v, set)| set.contains(v)) && grow(sets, &next)
                })
            })
    }
    sets[0].iter().any(|start| grow(sets, &[*start]))
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn no_right_inverse_is_longer(l in swizzled_of(&["m"]), nest in nested(), sw in swizzle(), pick in 0..3) {
        let l = match pick {
            0 => l,
            1 => Layout::from_swizzled_tile(sw, nest).expect("0 or more"),
            _ => nest.into(),
        };
        if let Ok(found) = l.right_inverse() {
            let longest = i64::try_from(longest_right_inverse(&l)).expect("small");
            prop_assert!(found.layout.size() <= longest, "{:?} {:?}", l, found);
            // The search is cut off where places hold very many elements.
            if l.tile().replica_count() < 4 {
                prop_assert_eq!(found.layout.size(), longest, "{:?} {:?}", l, found);
            }
        }
    }

    /// Behind one swizzle there may be no iters where there are some behind another one.
    #[test]
    fn compositions_of_swizzled_layouts(iters in prop::collection::vec((1i64..6, 1i64..17), 1..4), sw in swizzle(), n in 2i64..6, s in 1i64..4, o in 0i64..3) {
        let shard = iters.iter().map(|(e, s)| Iter::in_memory(*e, *s)).collect();
        let a = Layout::from_swizzled_tile(sw, TileLayout::from_shard(shard).expect("small")).expect("0 or more");
        let b = Layout::from(mem(&[(n, s)], o));
        let want = || -> Vec<Place> {
            (0..n).map(|i| define(&a, o + i * s).pop_first().expect("one")).collect()
        };
        match a.compose(&b) {
            Ok(c) => {
                let got: Vec<Place> = (0..n).map(|i| got(&c, i).pop_first().expect("one")).collect();
                prop_assert_eq!(got, want());
            }
            Err(LayoutError::OutsideDomain { .. }) => prop_assert!(o + (n - 1) * s >= a.size()),
            Err(LayoutError::NotExpressible { .. }) => prop_assert!(
                if a.effective_swizzle().is_some() { !any_layout_has(&want()) } else { !expressible(&want()) },
                "{:?} o {:?}", a, b
            ),
            Err(e) => prop_assert!(false, "{e}"),
        }
    }
}

#[test]
fn answers_that_exist_are_found() {
    let sw = Swizzle::new(1, 1, 1, true).expect("well-formed");
    let a = Layout::from_swizzled_tile(sw, mem(&[(4, 15), (5, 1), (1, 5)], 0)).expect("0 or more");
    let found = a.compose(&mem(&[(4, 2)], 0).into()).expect("under another swizzle");
    assert_eq!(found.offset_table(Axis::M), Ok(vec![0, 2, 6, 16]));
    let right = Layout::from(mem(&[(1, 1), (4, -2), (2, 7), (5, -32)], 0)).right_inverse();
    let right = right.expect("0 is held");
    assert_eq!((right.shape, right.layout.offset_table(Axis::M)), (vec![2], Ok(vec![0, 35])));
}
