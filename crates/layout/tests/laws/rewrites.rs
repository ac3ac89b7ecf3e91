//! Operators that give the same function in another form.

use crate::common::{Place, config, define, everything, got, same, swizzled_of, tile_of};
use proptest::prelude::*;
use std::collections::BTreeMap;
use zellige_layout::{Axis, AxisTable, Layout, LayoutDifference, find_common_refinement};

const AXES: &[&str] = &["m", "laneid", "F"];

proptest! {
    #![proptest_config(config())]

    #[test]
    fn canonical_forms_keep_everything(l in everything(AXES)) {
        let c = l.canonical_form().expect("canonical");
        prop_assert_eq!(same(&l, &c), None);
        prop_assert_eq!(c.canonical_form().expect("again"), c);
    }

    #[test]
    fn differences_are_found_and_true(a in everything(AXES), b in everything(AXES)) {
        match a.find_difference(&b).expect("small") {
            None => prop_assert_eq!(same(&a, &b), None),
            Some(LayoutDifference::Size(x, y)) => prop_assert_ne!(x, y),
            Some(LayoutDifference::At { index, .. }) => {
                prop_assert_ne!(define(&a, index), define(&b, index));
                if a.window().is_none() && b.window().is_none() {
                    prop_assert_eq!(same(&a, &b), Some(index));
                }
            }
        }
    }

    /// The effective swizzle is the same function, and there is none exactly when none is needed.
    #[test]
    fn effective_swizzles_are_what_is_left(l in swizzled_of(&["m", "laneid"])) {
        let plain = Layout::from(l.tile().clone());
        let rest = match l.effective_swizzle() {
            Some(sw) => Layout::from_swizzled_tile(sw, l.tile().clone()).expect("a part of it"),
            None => plain.clone(),
        };
        prop_assert_eq!(same(&l, &rest), None);
        // Element by element, as sets of replicas may come out equal.
        let bare = |l: &Layout| {
            let mut shard = l.tile().shard().to_vec();
            shard.extend(l.tile().replica());
            zellige_layout::TileLayout::new(shard, vec![], l.tile().offset().to_vec()).expect("small")
        };
        let moved = match l.swizzle() {
            Some(sw) => Layout::from_swizzled_tile(sw, bare(&l)).expect("0 or more"),
            None => bare(&l).into(),
        };
        prop_assert_eq!(l.effective_swizzle().is_none(), same(&moved, &bare(&l).into()).is_none());
    }

    #[test]
    fn refinements_keep_swizzles(a in swizzled_of(AXES), b in swizzled_of(AXES)) {
        let n = a.size();
        let layouts = if b.size() == n { vec![a, b] } else { vec![a] };
        if let Ok((extents, split)) = find_common_refinement(&layouts, &[n]) {
            prop_assert_eq!(extents.iter().product::<i64>(), n);
            for (given, split) in layouts.iter().zip(&split) {
                prop_assert_eq!(same(given, split), None);
            }
        }
    }

    #[test]
    fn groups_keep_swizzles(l in swizzled_of(AXES), cut in 1i64..9) {
        let n = l.size();
        let shape = if n % cut == 0 { vec![n / cut, cut] } else { vec![n, 1] };
        if let Ok((g, seps)) = l.group(&shape) {
            prop_assert_eq!(same(&l, &g), None);
            for (d, w) in seps.windows(2).enumerate() {
                let p: i64 = g.tile().shard()[w[0]..w[1]].iter().map(|it| it.extent).product();
                prop_assert_eq!(p, shape[d]);
            }
        }
        if let Ok((g, seps)) = l.group_many(&[shape.clone(), vec![n]]) {
            prop_assert_eq!(same(&l, &g), None);
            for (shape, seps) in [shape, vec![n]].iter().zip(&seps) {
                for (d, w) in seps.windows(2).enumerate() {
                    let p: i64 = g.tile().shard()[w[0]..w[1]].iter().map(|it| it.extent).product();
                    prop_assert_eq!(p, shape[d]);
                }
            }
        }
    }

    /// Threads keep their numbers, and no two places become one.
    #[test]
    fn fused_axes_number_the_same_threads(t in tile_of(&["m", "laneid", "warpid"]), by in 1i64..20) {
        // Wider strides on lanes, so that some layouts reach past a warp.
        let get = |name: &str| AxisTable::new().get(name).expect("built in");
        let (lane, warp, tx) = (get("laneid"), get("warpid"), get("tx"));
        let widened = |it: &zellige_layout::Iter| zellige_layout::Iter {
            stride: if it.axis == lane { it.stride * by } else { it.stride },
            ..*it
        };
        let shard = t.shard().iter().map(widened).collect();
        let replica = t.replica().iter().map(widened).collect();
        let l = Layout::from(zellige_layout::TileLayout::new(shard, replica, t.offset().to_vec()).expect("small"));
        let fused = l.canonical_form_on_cuda().expect("small");
        let number = |p: &Place| -> (BTreeMap<Axis, i64>, i64) {
            let at = |a: &Axis| p.get(a).copied().unwrap_or(0);
            let mut rest = p.clone();
            rest.retain(|a, _| ![lane, warp, tx].contains(a));
            (rest, at(&tx) + at(&lane) + 32 * at(&warp))
        };
        let (mut before, mut after) = (std::collections::BTreeSet::new(), std::collections::BTreeSet::new());
        for i in 0..l.size() {
            let (a, b) = (define(&l, i), got(&fused, i));
            prop_assert_eq!(a.len(), b.len());
            let numbers = |s: &std::collections::BTreeSet<Place>| s.iter().map(number).collect::<std::collections::BTreeSet<_>>();
            prop_assert_eq!(numbers(&a), numbers(&b));
            before.extend(a);
            after.extend(b);
        }
        prop_assert_eq!(before.len(), after.len(), "two places became one: {:?} {:?}", l, fused);
        let bounds = l.tile().axis_bounds(lane);
        let both = [lane, warp].iter().all(|a| l.tile().canonical_form().axes().contains(a));
        prop_assert_eq!(fused.tile().axes().contains(&tx), both && bounds.max - bounds.min < 32);
    }
}
