//! Evaluation, bounds, images, lookups, padding and gaps.

use crate::common::{Place, config, define, everything, got, place_of, table};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use zellige_layout::{Axis, Layout, PhysicalCoordinate, PlaceContent};

/// Every physical coordinate in range, from 0 or the smallest coordinate of each axis to its largest.
fn range(l: &Layout) -> Vec<PhysicalCoordinate> {
    let mut all: Vec<Vec<(Axis, i64)>> = vec![Vec::new()];
    for axis in l.tile().axes() {
        let b = l.axis_bounds(*axis).expect("small");
        let more = |p: &Vec<(Axis, i64)>| {
            let p = p.clone();
            (b.min.min(0)..=b.max).map(move |v| p.iter().copied().chain([(*axis, v)]).collect())
        };
        all = all.iter().flat_map(more).collect::<Vec<Vec<(Axis, i64)>>>();
    }
    all.into_iter().map(PhysicalCoordinate::new).collect()
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn places_and_bounds_are_the_definition(l in everything(&["m", "laneid", "F", "P"])) {
        let places = table(&l);
        for (i, want) in (0..).zip(&places) {
            prop_assert_eq!(&got(&l, i), want);
        }
        let padded = table(&l.padded_domain());
        for a in l.tile().axes() {
            let values = || padded.iter().flatten().map(|p| p.get(a).copied().unwrap_or(0));
            let b = l.axis_bounds(*a).expect("small");
            prop_assert_eq!((Some(b.min), Some(b.max)), (values().min(), values().max()));
        }
    }

    /// One set of words: an element, padding where only the padded domain has one, else a gap; counts,
    /// witnesses and lookups say the same.
    #[test]
    fn lookups_counts_and_witnesses_agree(l in everything(&["m", "laneid", "F"])) {
        let mut elements: BTreeMap<Place, BTreeSet<i64>> = BTreeMap::new();
        for (i, all) in (0..).zip(table(&l)) {
            all.into_iter().for_each(|p| { elements.entry(p).or_default().insert(i); });
        }
        let padded: BTreeSet<Place> = table(&l.padded_domain()).into_iter().flatten().collect();
        let places = range(&l);
        prop_assume!(places.len() < 4000);
        let (mut unused, mut gaps) = (0, 0);
        for p in &places {
            let held = l.look_up_place(p.axis_entries()).expect("small");
            let key = place_of(p);
            let want = match elements.get(&key) {
                Some(all) => PlaceContent::Elements(all.iter().copied().collect()),
                None if padded.contains(&key) => PlaceContent::Padding,
                None => PlaceContent::Gap,
            };
            unused += i64::from(!matches!(held, PlaceContent::Elements(_)));
            gaps += i64::from(held == PlaceContent::Gap);
            prop_assert_eq!(held, want, "{:?}", p);
        }
        let image = l.analyze_image().expect("small");
        prop_assert_eq!(l.count_positions().expect("small"), i64::try_from(places.len()).expect("small"));
        prop_assert_eq!(l.count_positions().expect("small") - l.count_used_places().expect("small"), unused);
        prop_assert_eq!(l.count_positions().expect("small") - l.padded_domain().count_used_places().expect("small"), gaps);
        prop_assert_eq!(image.is_surjective(), unused == 0);
        if let Some(p) = &image.unused {
            prop_assert!(!matches!(l.look_up_place(p.axis_entries()), Ok(PlaceContent::Elements(_))));
        }
        let gap = l.find_gap().expect("small");
        prop_assert_eq!(gap.is_some(), gaps > 0);
        if let Some(p) = gap {
            prop_assert_eq!(l.look_up_place(p.axis_entries()), Ok(PlaceContent::Gap));
        }
        prop_assert_eq!(image.is_injective(), elements.values().all(|all| all.len() == 1));
        if let Some((a, b, p)) = &image.clash {
            prop_assert!(a != b && define(&l, *a).contains(&place_of(p)));
            prop_assert!(define(&l, *b).contains(&place_of(p)));
        }
        if l.size() > 0 {
            prop_assert_eq!(image.copies, i64::try_from(define(&l, 0).len()).expect("small"));
        }
    }
}

#[test]
fn memory_is_counted_on_any_memory_axis() {
    use zellige_layout::{AxisTable, Iter, TileLayout};
    let on = |names: &[&str]| {
        let get = |n: &&str| Iter::new(4, 1, AxisTable::new().get(n).expect("built in"));
        let tile = TileLayout::from_shard(names.iter().map(get).collect()).expect("small");
        Layout::from(tile).memory_axis().name().to_string()
    };
    assert_eq!(on(&["F"]), "F");
    assert_eq!(on(&["laneid", "P"]), "P");
    assert_eq!(on(&["F", "m"]), "m");
    assert_eq!((on(&["laneid"]), on(&[])), ("m".into(), "m".into()));
}
