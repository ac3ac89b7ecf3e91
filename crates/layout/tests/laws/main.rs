//! Every operator against its brute-force law: enumerate small layouts, compare with the definition.
//!
//! | file | holds |
//! |---|---|
//! | `common` | layouts with every feature, and the definitions |
//! | `places` | evaluation, bounds, images, lookups, padding and gaps |
//! | `rewrites` | operators that give the same function: canonical forms, groups, refinements |
//! | `structure` | tiling, sums, permutations, packing |
//! | `proofs` | compositions, slices, inverses, complements, and the witnesses of refusals |
//! | `analysis` | vector widths and conflicts under swizzles |

mod analysis;
mod common;
mod left_inverses;
mod places;
mod proofs;
mod rewrites;
mod structure;

use common::{any_layout, config, define, expressible, got, nested, same, swizzle, tile_on};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use zellige_layout::{
    Axis, AxisTable, Iter, Layout, LayoutDifference, LayoutError, PaddedExtent, PhysicalCoordinate,
    PlaceContent, Swizzle, TileLayout, ValidWindow, find_common_refinement, flatten_coordinate,
    unflatten_index,
};

proptest! {
    #![proptest_config(config())]

    #[test]
    fn places_are_the_definition(l in any_layout()) {
        for i in 0..l.size() {
            prop_assert_eq!(got(&l, i), define(&l, i));
        }
        prop_assert!(l.physical_coordinates(-1).is_err());
        prop_assert!(l.physical_coordinates(l.size()).is_err());
    }

    #[test]
    fn spans_are_the_largest_coordinate(l in any_layout()) {
        for a in l.tile().axes() {
            let values: Vec<i64> = (0..l.size())
                .flat_map(|i| l.physical_coordinates(i).expect("inside").sorted_coordinates())
                .map(|p| p.get(*a))
                .collect();
            let b = l.axis_bounds(*a).expect("small");
            prop_assert_eq!(Some(b.min), values.iter().copied().min());
            prop_assert_eq!(Some(b.max), values.iter().copied().max());
        }
    }

    #[test]
    fn contiguous_means_one_after_the_other(l in any_layout()) {
        let places: Vec<_> = (0..l.size()).map(|i| define(&l, i)).collect();
        let at = |i: usize| -> Option<i64> {
            let only = places[i].iter().next().filter(|_| places[i].len() == 1)?;
            only.keys().all(|a| *a == Axis::M).then(|| only.get(&Axis::M).copied().unwrap_or(0))
        };
        let lands_on_m = l.tile().axes().iter().all(|a| *a == Axis::M);
        let want = lands_on_m && at(0).is_some_and(|first| {
            (0..places.len()).all(|i| at(i) == Some(first + i64::try_from(i).expect("small")))
        });
        prop_assert_eq!(l.is_contiguous().expect("small"), want);
    }

    #[test]
    fn canonical_is_the_same_function(l in any_layout()) {
        let c = l.canonical_form().expect("canonical");
        prop_assert_eq!(same(&l, &c), None);
        prop_assert_eq!(c.canonical_form().expect("again"), c);
    }

    #[test]
    fn difference_finds_the_first_witness(a in any_layout(), b in any_layout()) {
        match a.find_difference(&b).expect("small") {
            None => prop_assert_eq!(same(&a, &b), None),
            Some(LayoutDifference::Size(x, y)) => prop_assert_ne!(x, y),
            Some(LayoutDifference::At { index, left, right }) => {
                prop_assert_eq!(same(&a, &b), Some(index));
                prop_assert_ne!(left, right);
            }
        }
        // Splitting iters never makes a difference.
        if let Ok((g, _)) = a.group(&[a.size()]) {
            prop_assert_eq!(a.find_difference(&g), Ok(None));
        }
    }

    #[test]
    fn group_meets_every_boundary(tile in tile_on(2), cut in 1i64..9) {
        let n = tile.size();
        let shape = if n % cut == 0 { [n / cut, cut] } else { [n, 1] };
        match tile.group(&shape) {
            Ok((g, seps)) => {
                prop_assert_eq!(same(&tile.clone().into(), &g.clone().into()), None);
                for (d, w) in seps.windows(2).enumerate() {
                    let p: i64 = g.shard()[w[0]..w[1]].iter().map(|it| it.extent).product();
                    prop_assert_eq!(p, shape[d]);
                }
            }
            Err(e) => prop_assert_eq!(e.kind(), "not_groupable"),
        }
    }

    #[test]
    fn slices_are_exact_or_truly_inexpressible(tile in tile_on(2), cut in 1i64..7, r in (0i64..9, 0i64..9, 0i64..9, 0i64..9)) {
        let n = tile.size();
        let shape = if n % cut == 0 { vec![n / cut, cut] } else { vec![n] };
        let ends = [(r.0, r.1), (r.2, r.3)];
        let region: Vec<(i64, i64)> = shape
            .iter()
            .zip(ends)
            .map(|(e, (b, len))| (b % (e + 1), (b % (e + 1) + len).min(*e)))
            .collect();
        let l = Layout::from(tile);
        let size: Vec<i64> = region.iter().map(|(b, e)| e - b).collect();
        let at = |i: i64| {
            let x: Vec<i64> =
                unflatten_index(&size, i).iter().zip(&region).map(|(y, (b, _))| y + b).collect();
            flatten_coordinate(&shape, &x).expect("inside")
        };
        let count: i64 = size.iter().product();
        let general = l.slice_as_window(&shape, &region).expect("always");
        prop_assert_eq!(general.size(), count);
        for i in 0..count {
            prop_assert_eq!(got(&general, i), define(&l, at(i)));
        }
        match l.slice_region(&shape, &region) {
            Ok(s) => {
                prop_assert_eq!(s.size(), count);
                for i in 0..count {
                    prop_assert_eq!(got(&s, i), define(&l, at(i)));
                }
                prop_assert_eq!(s.find_difference(&general), Ok(None));
            }
            Err(LayoutError::NotExpressible { index, .. }) => {
                prop_assert!((0..count).contains(&index));
                let one = Layout::from(TileLayout::from_shard(l.tile().shard().to_vec()).expect("small"));
                let f: Vec<_> = (0..count)
                    .map(|i| define(&one, at(i)).into_iter().next().expect("one place"))
                    .collect();
                prop_assert!(!expressible(&f), "{l:?} {shape:?} {region:?} is {f:?}");
            }
            Err(e) => prop_assert!(false, "{e}"),
        }
    }

    #[test]
    fn compositions_are_exact_or_truly_inexpressible(a in tile_on(2), b in tile_on(1)) {
        let (a, b) = (Layout::from(a), Layout::from(b));
        let single = b.tile().replica_count() == 1;
        match a.compose(&b) {
            Ok(c) => for i in 0..b.size() {
                let want: BTreeSet<_> = b.physical_coordinates(i).expect("inside").sorted_coordinates().iter()
                    .flat_map(|p| define(&a, p.get(Axis::M))).collect();
                prop_assert_eq!(got(&c, i), want);
            },
            Err(LayoutError::OutsideDomain { index, value, size }) => {
                prop_assert!(!(0..size).contains(&value));
                let reach: Vec<_> = b.physical_coordinates(index).expect("inside").sorted_coordinates();
                prop_assert!(reach.iter().any(|p| !(0..size).contains(&p.get(Axis::M))));
            }
            Err(LayoutError::NotExpressible { index, .. }) if single => {
                prop_assert!((0..b.size()).contains(&index));
                let bare = Layout::from(TileLayout::from_shard(a.tile().shard().to_vec()).expect("small"));
                let f: Vec<_> = (0..b.size())
                    .map(|i| {
                        let x = b.physical_coordinates(i).expect("inside").sorted_coordinates()[0].get(Axis::M);
                        define(&bare, x).into_iter().next().expect("one place")
                    })
                    .collect();
                prop_assert!(!expressible(&f), "{a:?} o {b:?} is {f:?}");
            }
            Err(LayoutError::NotExpressible { .. } | LayoutError::Undecided { .. }) => {}
            Err(e) => prop_assert!(false, "{e}"),
        }
    }

    #[test]
    fn lookup_is_the_inverse_relation(l in any_layout()) {
        let mut held: HashMap<PhysicalCoordinate, BTreeSet<i64>> = HashMap::new();
        for i in 0..l.size() {
            for p in l.physical_coordinates(i).expect("inside").sorted_coordinates() {
                held.entry(p).or_default().insert(i);
            }
        }
        for (p, elements) in &held {
            let want = PlaceContent::Elements(elements.iter().copied().collect());
            prop_assert_eq!(l.look_up_place(p.axis_entries()).expect("small"), want, "{:?}", p);
        }
        for m in -3..60 {
            let at: Vec<_> = l.tile().axes().iter()
                .map(|a| (*a, if *a == Axis::M { m } else { l.tile().axis_bounds(*a).min })).collect();
            if !held.contains_key(&PhysicalCoordinate::new(at.clone())) {
                let inside = l.tile().axes().iter().all(|a| {
                    let b = l.axis_bounds(*a).expect("small");
                    let v = at.iter().find(|(x, _)| x == a).map_or(0, |(_, v)| *v);
                    (b.min.min(0)..=b.max).contains(&v)
                });
                if l.tile().axes().contains(&Axis::M) {
                    let want = if inside { PlaceContent::Gap } else { PlaceContent::Outside };
                    prop_assert_eq!(l.look_up_place(&at).expect("small"), want);
                }
            }
        }
    }

    #[test]
    fn images_agree_with_counting(l in any_layout()) {
        let mut owner: HashMap<BTreeMap<Axis, i64>, i64> = HashMap::new();
        let mut clash = false;
        for i in 0..l.size() {
            for p in define(&l, i) {
                clash |= owner.insert(p, i).is_some_and(|j| j != i);
            }
        }
        let image = l.analyze_image().expect("small");
        prop_assert_eq!(image.is_injective(), !clash);
        if let Some((a, b, place)) = &image.clash {
            prop_assert_ne!(a, b);
            let p: BTreeMap<_, _> = place.without_zero_entries().axis_entries().iter().copied().collect();
            prop_assert!(define(&l, *a).contains(&p) && define(&l, *b).contains(&p));
        }
        let mut volume = 1;
        for a in l.tile().axes() {
            let b = l.axis_bounds(*a).expect("small");
            volume *= b.max - b.min.min(0) + 1;
        }
        prop_assert_eq!(image.is_surjective(), i64::try_from(owner.len()).expect("small") == volume);
        if let Some(gap) = &image.unused {
            let p: BTreeMap<_, _> = gap.without_zero_entries().axis_entries().iter().copied().collect();
            prop_assert!(!owner.contains_key(&p));
        }
    }

    #[test]
    fn inverses_undo(tile in nested(), sw in swizzle(), swizzled in any::<bool>()) {
        let l = if swizzled { Layout::from_swizzled_tile(sw, tile.clone()).expect("0 or more") } else { tile.clone().into() };
        let bijective = l.analyze_image().expect("small").is_bijective();
        match l.exact_inverse() {
            Ok(inv) => {
                prop_assert!(bijective);
                for i in 0..l.size() {
                    let p = l.physical_coordinates(i).expect("inside").sorted_coordinates()[0].get(Axis::M);
                    prop_assert_eq!(inv.layout.physical_coordinates(p).expect("inside").sorted_coordinates()[0].get(Axis::M), i);
                }
            }
            Err(LayoutError::NotExpressible { .. }) if bijective => prop_assert!(swizzled),
            Err(e) => prop_assert!(!bijective, "{e}"),
        }
        if !swizzled {
            let inv = l.left_inverse().expect("nested strides");
            for i in 0..l.size() {
                let p = l.physical_coordinates(i).expect("inside").sorted_coordinates()[0].get(Axis::M);
                prop_assert_eq!(inv.layout.physical_coordinates(p).expect("inside").sorted_coordinates()[0].get(Axis::M), i);
            }
        }
        let plain = Layout::from(TileLayout::from_shard(tile.shard().to_vec()).expect("small"));
        let inv = plain.right_inverse().expect("no offset");
        for p in 0..inv.layout.size() {
            let i = inv.layout.physical_coordinates(p).expect("inside").sorted_coordinates()[0].get(Axis::M);
            prop_assert_eq!(plain.physical_coordinates(i).expect("inside").sorted_coordinates()[0].get(Axis::M), p);
        }
    }

    #[test]
    fn left_inverse_is_never_wrong(tile in tile_on(1)) {
        let l = Layout::from(TileLayout::new(tile.shard().to_vec(), vec![], tile.offset().to_vec()).expect("small"));
        if let Ok(inv) = l.left_inverse() {
            for i in 0..l.size() {
                let p = l.physical_coordinates(i).expect("inside").sorted_coordinates()[0].get(Axis::M);
                prop_assert_eq!(inv.layout.physical_coordinates(p).expect("inside").sorted_coordinates()[0].get(Axis::M), i);
            }
        }
    }

    #[test]
    fn complements_fill(tile in nested(), cosize in 0i64..200) {
        let shard: Vec<Iter> = tile.shard().iter().map(|it| Iter::in_memory(it.extent, it.stride.abs())).collect();
        let l = Layout::from(TileLayout::from_shard(shard).expect("small"));
        let c = l.complement(cosize).expect("nested strides");
        prop_assert!(l.size() * c.size() >= cosize);
        let mut seen = BTreeSet::new();
        for i in 0..l.size() {
            for j in 0..c.size() {
                let a = l.physical_coordinates(i).expect("inside").sorted_coordinates()[0].get(Axis::M);
                let b = Layout::from(c.clone()).physical_coordinates(j).expect("inside").sorted_coordinates()[0].get(Axis::M);
                prop_assert!(seen.insert(a + b), "{l:?} and {c:?} overlap");
            }
        }
        prop_assert!(c.shard().windows(2).all(|w| w[0].stride > w[1].stride));
    }

    #[test]
    fn windows_compare_as_functions(tile in nested(), pad in (0i64..3, 0i64..3)) {
        let n = tile.size();
        let pad = (pad.0.min(n), pad.1.min(n - pad.0.min(n)));
        let dims = vec![PaddedExtent { begin: pad.0, valid: n - pad.0 - pad.1, padded: n }];
        let l = Layout::from(tile).with_window(ValidWindow::new(dims).expect("inside")).expect("fits");
        for i in 0..l.size() {
            prop_assert_eq!(got(&l, i), define(&l, i));
        }
        if let Ok(s) = l.padded_domain().slice_region(&[n], &[(pad.0, n - pad.1)]) {
            prop_assert_eq!(s.find_difference(&l), Ok(None));
            prop_assert_eq!(same(&s, &l), None);
        }
        let image = l.analyze_image().expect("small");
        prop_assert!(image.is_injective());
    }
}

#[test]
fn refinements_split_every_layout_alike() {
    let l = |e: &[i64]| Layout::from(TileLayout::row_major(e).expect("small"));
    let (extents, split) =
        find_common_refinement(&[l(&[6, 5]), l(&[2, 15])], &[30]).expect("nests");
    assert_eq!(extents, [2, 3, 5]);
    for s in split {
        assert_eq!(s.tile().shard().iter().map(|it| it.extent).collect::<Vec<_>>(), [2, 3, 5]);
        assert_eq!(same(&s, &l(&[30])), None);
    }
    let clash = find_common_refinement(&[l(&[2, 3]), l(&[3, 2])], &[6]);
    assert_eq!(clash.map_err(|e| e.kind()), Err("no_common_refinement"));
}

/// The compositions that existing implementations get wrong or refuse, in our order of digits
/// (last fastest, so CuTe's modes are reversed).
#[test]
fn compositions_that_others_get_wrong() {
    let l = |iters: &[(i64, i64)]| {
        let shard = iters.iter().map(|(e, s)| Iter::in_memory(*e, *s)).collect();
        Layout::from(TileLayout::from_shard(shard).expect("small"))
    };
    // (6,2):(1,7) o (3,2):(2,3) is 0 2 4 3 5 8, no layout at all; index 5 proves it.
    let wrong = l(&[(2, 7), (6, 1)]).compose(&l(&[(2, 3), (3, 2)]));
    assert!(matches!(wrong, Err(LayoutError::NotExpressible { index: 5, .. })), "{wrong:?}");
    // (4,6,8):(2,3,5) o 6:3 is 0 6 7 8 9 15.
    let wrong = l(&[(8, 5), (6, 3), (4, 2)]).compose(&l(&[(6, 3)]));
    assert_eq!(wrong.map_err(|e| e.kind()), Err("not_expressible"));
    // (4,2):(2,1) o 6:1 is 0 2 4 6 1 3; truncating it to 4:2 would lose elements.
    let wrong = l(&[(2, 1), (4, 2)]).compose(&l(&[(6, 1)]));
    assert!(matches!(wrong, Err(LayoutError::NotExpressible { index: 4, .. })), "{wrong:?}");
    // (8,2,4):(0,8,16) o (12,4):(12,1) leaves the domain at 135. If the outermost mode is extended
    // that far it is exactly ((2,6),4):((8,24),0).
    let outside = l(&[(4, 16), (2, 8), (8, 0)]).compose(&l(&[(4, 1), (12, 12)]));
    assert!(matches!(outside, Err(LayoutError::OutsideDomain { index: 47, value: 135, size: 64 })));
    let right = l(&[(9, 16), (2, 8), (8, 0)]).compose(&l(&[(4, 1), (12, 12)])).expect("exact");
    assert_eq!(right.find_difference(&l(&[(4, 0), (6, 24), (2, 8)])), Ok(None));
    // Two elements in one place have no complement.
    let aliased = l(&[(2, 1), (2, 1)]).complement(8);
    assert_eq!(aliased.map_err(|e| e.kind()), Err("aliased"));
}

/// What the documents ask for one day is expressible today.
#[test]
fn gaps_spaces_and_half_rotation_are_layouts() {
    // A gap in a dimension: 8 rows, the last 4 of them 100 elements later.
    let gap =
        Layout::from(TileLayout::from_strides(&[2, 4, 16], &[100 + 64, 16, 1], 0).expect("small"));
    assert_eq!(gap.look_up_place(&[(Axis::M, 100)]), Ok(PlaceContent::Gap));
    assert_eq!(
        gap.apply_to_coordinate(&[8, 16], &[4, 0]).expect("inside").sorted_coordinates()[0]
            .get(Axis::M),
        164
    );
    assert_eq!(gap.is_injective(), Ok(true));

    // Several stick dimensions: QFP8WT weights [K, N] keep two rows of K inside one stick.
    let (k, n) = (8, 128);
    let tile = TileLayout::from_shard(vec![
        Iter::in_memory(k / 2, 128),
        Iter::in_memory(2, 1),
        Iter::in_memory(n / 64, 64 * k),
        Iter::in_memory(64, 2),
    ]);
    let wt = Layout::from(tile.expect("small"));
    for row in 0..k {
        for col in 0..n {
            let want = row % 2 + col % 64 * 2 + row / 2 * 128 + col / 64 * 64 * k;
            let got =
                wt.apply_to_coordinate(&[k, n], &[row, col]).expect("inside").sorted_coordinates()
                    [0]
                .get(Axis::M);
            assert_eq!(got, want);
        }
    }
    assert!(wt.analyze_image().expect("small").is_bijective());

    // Several memory spaces: the first half of the rows in scratchpad, the rest in device memory.
    let mut axes = AxisTable::new();
    let lx = axes.declare_axis("lx", zellige_layout::AxisKind::Memory).expect("a fine name");
    let space = axes.declare_axis("space", zellige_layout::AxisKind::Device).expect("a fine name");
    let tile = TileLayout::from_shard(vec![
        Iter::new(2, 1, space),
        Iter::new(4, 16, lx),
        Iter::new(16, 1, lx),
    ]);
    let split = Layout::from(tile.expect("small"));
    let p = split.apply_to_coordinate(&[8, 16], &[5, 3]).expect("inside").sorted_coordinates()[0]
        .clone();
    assert_eq!((p.get(space), p.get(lx)), (1, 19));

    // RoPE's half rotation x -> (x2, x1): the outer of two halves runs backwards.
    let d = 64;
    let rotated = TileLayout::new(
        vec![Iter::in_memory(2, -d / 2), Iter::in_memory(d / 2, 1)],
        vec![],
        [(Axis::M, d / 2)],
    );
    let rotated = Layout::from(rotated.expect("small"));
    for i in 0..d {
        let at =
            rotated.physical_coordinates(i).expect("inside").sorted_coordinates()[0].get(Axis::M);
        assert_eq!(at, (i + d / 2) % d);
    }
}

#[test]
fn bad_input_is_refused_with_its_place() {
    let kind = |r: Result<TileLayout, LayoutError>| r.map_err(|e| e.kind()).err();
    assert_eq!(kind(TileLayout::from_shard(vec![Iter::in_memory(-1, 1)])), Some("negative_extent"));
    assert_eq!(
        kind(TileLayout::from_shard(vec![
            Iter::in_memory(1 << 40, 1),
            Iter::in_memory(1 << 40, 1)
        ])),
        Some("overflow")
    );
    assert_eq!(kind(TileLayout::from_shard(vec![Iter::in_memory(2, i64::MAX)])), Some("overflow"));
    assert_eq!(kind(TileLayout::from_shard(vec![Iter::in_memory(2, i64::MIN)])), Some("overflow"));
    let offset = [(Axis::M, i64::MAX), (Axis::M, 1)];
    assert_eq!(kind(TileLayout::new(vec![], vec![], offset)), Some("overflow"));
    assert_eq!(
        kind(TileLayout::new(vec![], vec![Iter::in_memory(0, 1)], [])),
        Some("bad_parameter")
    );
    // Zero wins over overflow, and an empty layout has no coordinates to overflow.
    let empty =
        TileLayout::from_shard(vec![Iter::in_memory(0, 1), Iter::in_memory(1 << 62, 1 << 62)]);
    assert_eq!(kind(empty), Some("overflow"));
    let empty = Layout::from(TileLayout::row_major(&[4, 0]).expect("legal"));
    assert_eq!((empty.size(), empty.analyze_image().map(|i| i.is_bijective())), (0, Ok(true)));
    assert!(empty.slice_region(&[4, 0], &[(1, 3), (0, 0)]).is_ok());
    let l = Layout::from(TileLayout::row_major(&[4, 4]).expect("small"));
    for (region, kind) in [
        (vec![(0, 5), (0, 4)], "region_out_of_range"),
        (vec![(-1, 2), (0, 4)], "region_out_of_range"),
        (vec![(3, 2), (0, 4)], "region_out_of_range"),
        (vec![(0, 4)], "length_mismatch"),
    ] {
        assert_eq!(l.slice_region(&[4, 4], &region).map_err(|e| e.kind()).err(), Some(kind));
    }
    assert_eq!(
        l.apply_to_coordinate(&[4, 4], &[4, 0]).map_err(|e| e.kind()).err(),
        Some("out_of_range")
    );
    assert_eq!(
        l.apply_to_coordinate(&[4, 5], &[0, 0]).map_err(|e| e.kind()).err(),
        Some("size_mismatch")
    );
    assert_eq!(
        l.apply_to_coordinate(&[i64::MAX, 2], &[0, 0]).map_err(|e| e.kind()).err(),
        Some("overflow")
    );
}

/// A digit that carries past the bits of the swizzle: the low addresses alone look invertible.
#[test]
fn the_inverse_of_a_swizzle_is_proved_past_its_bits() {
    let tile = TileLayout::from_shard(vec![
        Iter::in_memory(3, 4),
        Iter::in_memory(2, 12),
        Iter::in_memory(4, 1),
    ])
    .expect("small");
    let sw = Swizzle::new(1, 1, 1, false).expect("well-formed");
    let l = Layout::from_swizzled_tile(sw, tile).expect("0 or more");
    assert!(
        matches!(l.exact_inverse(), Err(LayoutError::NotExpressible { .. })),
        "{:?}",
        l.exact_inverse()
    );
}

/// Layouts too large to compare whole: a difference near the start is found, equality is refused.
#[test]
fn a_difference_of_large_layouts_is_found_where_it_is_near() {
    let tile = TileLayout::from_strides(&[4096, 4096], &[4096, 1], 0).expect("small strides");
    let swizzled = |base, bits, shift| {
        let sw = Swizzle::new(base, bits, shift, true).expect("well-formed");
        Layout::from_swizzled_tile(sw, tile.clone()).expect("0 or more")
    };
    let plain = Layout::from(tile.clone());
    match plain.find_difference(&swizzled(3, 3, 3)) {
        Ok(Some(LayoutDifference::At { index, left, right })) => {
            assert_eq!((index, left[0].get(Axis::M), right[0].get(Axis::M)), (64, 64, 72));
        }
        other => panic!("no witness: {other:?}"),
    }
    // These part only past 2^20 elements.
    let far = plain.find_difference(&swizzled(0, 1, 20));
    assert!(matches!(far, Err(LayoutError::TooLarge { .. })), "{far:?}");
}
