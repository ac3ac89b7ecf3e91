//! Layouts with every feature, and the definitions that the laws compare with.

use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use zellige_layout::{
    Axis, AxisTable, Iter, Layout, PaddedExtent, Swizzle, TileLayout, ValidWindow,
    flatten_coordinate, unflatten_index,
};

/// Two thousand cases of each law; `PROPTEST_CASES` asks for more.
pub(crate) fn config() -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|v| v.parse().ok());
    let cases = asked.unwrap_or(2000);
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

pub(crate) fn axis(i: usize) -> Axis {
    let names = ["m", "laneid", "pid", "F", "warpid", "P"];
    AxisTable::new().get(names[i]).expect("built in")
}

pub(crate) fn iter_on(axes: usize) -> impl Strategy<Value = Iter> {
    (1i64..5, -3i64..9, 0..axes).prop_map(|(e, s, a)| Iter::new(e, s, axis(a)))
}

pub(crate) fn tile_on(axes: usize) -> impl Strategy<Value = TileLayout> {
    let shard = prop::collection::vec(iter_on(axes), 0..4);
    let replica = prop::collection::vec(iter_on(axes), 0..2);
    (shard, replica, prop::collection::vec((0..axes, -5i64..9), 0..2)).prop_map(|(s, r, o)| {
        TileLayout::new(s, r, o.into_iter().map(|(a, v)| (axis(a), v))).expect("small")
    })
}

pub(crate) fn nested() -> impl Strategy<Value = TileLayout> {
    // A permuted, possibly gappy, possibly reversed product: most of what people write.
    let iters = prop::collection::vec((1i64..5, 1i64..3, any::<bool>()), 1..4);
    (iters, any::<u64>()).prop_map(|(iters, seed)| {
        let mut stride = 1;
        let mut offset = 0;
        let mut shard: Vec<Iter> = Vec::new();
        for (e, gap, back) in iters {
            stride *= gap;
            if back {
                offset += (e - 1) * stride;
            }
            shard.push(Iter::in_memory(e, if back { -stride } else { stride }));
            stride *= e;
        }
        let n = shard.len() as u64;
        shard.rotate_left(usize::try_from(seed % n).expect("small"));
        TileLayout::new(shard, vec![], [(Axis::M, offset)]).expect("small")
    })
}

pub(crate) fn swizzle() -> impl Strategy<Value = Swizzle> {
    (0i64..3, 0i64..3, 0i64..2, any::<bool>())
        .prop_map(|(m, b, extra, inner)| Swizzle::new(m, b, b + extra, inner).expect("well-formed"))
}

pub(crate) fn any_layout() -> impl Strategy<Value = Layout> {
    (tile_on(3), swizzle(), any::<bool>()).prop_map(|(tile, sw, swizzled)| {
        if swizzled && let Ok(l) = Layout::from_swizzled_tile(sw, tile.clone()) {
            return l;
        }
        tile.into()
    })
}

/// The definition of a layout, written again without the crate's evaluation.
pub(crate) fn define(l: &Layout, flat: i64) -> BTreeSet<BTreeMap<Axis, i64>> {
    let inside = match l.window() {
        None => flat,
        Some(w) => {
            let dims = w.dims();
            let shape: Vec<i64> = dims.iter().map(|d| d.valid).collect();
            let padded: Vec<i64> = dims.iter().map(|d| d.padded).collect();
            let c: Vec<i64> =
                unflatten_index(&shape, flat).iter().zip(dims).map(|(c, d)| c + d.begin).collect();
            flatten_coordinate(&padded, &c).expect("inside")
        }
    };
    let mut weight: i64 = l.tile().shard().iter().map(|it| it.extent).product();
    let mut base: BTreeMap<Axis, i64> = BTreeMap::new();
    for it in l.tile().shard() {
        weight /= it.extent;
        *base.entry(it.axis).or_default() += inside / weight % it.extent * it.stride;
    }
    for (a, v) in l.tile().offset() {
        *base.entry(*a).or_default() += v;
    }
    let mut all = vec![base];
    for it in l.tile().replica() {
        let copy = |p: &BTreeMap<Axis, i64>, c: i64| {
            let mut p = p.clone();
            *p.entry(it.axis).or_default() += c * it.stride;
            p
        };
        all = all.iter().flat_map(|p| (0..it.extent).map(move |c| copy(p, c))).collect();
    }
    for p in &mut all {
        if let (Some(sw), Some(m)) = (l.swizzle(), p.get_mut(&Axis::M)) {
            *m = sw.apply_to_address(*m);
        }
        p.retain(|_, v| *v != 0);
    }
    all.into_iter().collect()
}

pub(crate) fn got(l: &Layout, flat: i64) -> BTreeSet<BTreeMap<Axis, i64>> {
    let points = l.physical_coordinates(flat).expect("inside").sorted_coordinates();
    points
        .iter()
        .map(|p| p.without_zero_entries().axis_entries().iter().copied().collect())
        .collect()
}

pub(crate) fn same(a: &Layout, b: &Layout) -> Option<i64> {
    assert_eq!(a.size(), b.size());
    (0..a.size()).find(|i| define(a, *i) != define(b, *i))
}

pub(crate) type Place = BTreeMap<Axis, i64>;

pub(crate) fn minus(a: &Place, b: &Place) -> Place {
    let keys: BTreeSet<Axis> = a.keys().chain(b.keys()).copied().collect();
    let at = |m: &Place, k: &Axis| m.get(k).copied().unwrap_or(0);
    keys.into_iter().map(|k| (k, at(a, &k) - at(b, &k))).filter(|(_, v)| *v != 0).collect()
}

/// Whether any tile layout at all is this function: every factorisation of its size into extents,
/// fastest first, is tried. `weight` elements are already explained.
pub(crate) fn expressible_from(f: &[Place], weight: usize) -> bool {
    if weight >= f.len() {
        return true;
    }
    let stride = minus(&f[weight], &f[0]);
    if stride.len() > 1 {
        return false;
    }
    let explained = |e: usize| {
        (0..weight * e).all(|i| {
            let mut want = minus(&f[i % weight], &f[0]);
            let digit = i64::try_from(i / weight).expect("small");
            for (a, s) in &stride {
                *want.entry(*a).or_default() += digit * s;
            }
            want.retain(|_, v| *v != 0);
            minus(&f[i], &f[0]) == want
        })
    };
    (2..=f.len() / weight)
        .filter(|e| f.len().is_multiple_of(weight * e))
        .any(|e| explained(e) && expressible_from(f, weight * e))
}

pub(crate) fn expressible(f: &[Place]) -> bool {
    expressible_from(f, 1)
}

/// A tile layout on the named axes: any strides, replicas and offsets.
pub(crate) fn tile_of(axes: &'static [&'static str]) -> impl Strategy<Value = TileLayout> {
    let on = move |k: usize| AxisTable::new().get(axes[k]).expect("built in");
    let iter = (1i64..5, -3i64..9, 0..axes.len()).prop_map(move |(e, s, a)| Iter::new(e, s, on(a)));
    let shard = prop::collection::vec(iter.clone(), 0..4);
    let replica = prop::collection::vec(iter, 0..3);
    let offset = prop::collection::vec((0..axes.len(), -5i64..9), 0..3);
    (shard, replica, offset).prop_map(move |(s, r, o)| {
        TileLayout::new(s, r, o.into_iter().map(|(a, v)| (on(a), v))).expect("small")
    })
}

/// Every feature at once: swizzled where the addresses allow it (they are lifted to 0 and above half of
/// the time), and with a window over some split of the padded domain.
pub(crate) fn everything(axes: &'static [&'static str]) -> impl Strategy<Value = Layout> {
    (swizzled_of(axes), any::<[u8; 6]>(), any::<bool>()).prop_map(|(layout, cut, windowed)| {
        let n = layout.size();
        if !windowed || n == 0 {
            return layout;
        }
        let parts: Vec<i64> = (2..=n).filter(|e| n % e == 0).collect();
        let inner = parts.get(usize::from(cut[0]) % parts.len().max(1)).copied().unwrap_or(1);
        let dims = [(n / inner, cut[1], cut[2]), (inner, cut[3], cut[4])];
        let dims = dims.map(|(padded, a, b)| {
            let begin = i64::from(a) % padded;
            PaddedExtent { begin, valid: 1 + i64::from(b) % (padded - begin), padded }
        });
        layout.with_window(ValidWindow::new(dims.to_vec()).expect("inside")).expect("fits")
    })
}

/// Swizzles, replicas and offsets, without a window.
pub(crate) fn swizzled_of(axes: &'static [&'static str]) -> impl Strategy<Value = Layout> {
    (tile_of(axes), swizzle(), any::<bool>(), any::<bool>()).prop_map(
        |(tile, sw, lift, swizzled)| {
            let low = tile.axis_bounds(Axis::M).min.min(0);
            let lifted = || {
                let offset = tile.offset().iter().copied().chain([(Axis::M, -low)]);
                TileLayout::new(tile.shard().to_vec(), tile.replica().to_vec(), offset)
                    .expect("small")
            };
            let tile = if lift && axes_have_m(&tile) { lifted() } else { tile };
            match Layout::from_swizzled_tile(sw, tile.clone()) {
                Ok(layout) if swizzled => layout,
                _ => tile.into(),
            }
        },
    )
}

fn axes_have_m(tile: &TileLayout) -> bool {
    tile.axes().contains(&Axis::M)
}

/// The places of all elements, by the definition.
pub(crate) fn table(l: &Layout) -> Vec<BTreeSet<Place>> {
    (0..l.size()).map(|i| define(l, i)).collect()
}

/// The one place of every element, on the axes of `l`, where each has one.
pub(crate) fn single(l: &Layout) -> Option<Vec<Place>> {
    table(l).into_iter().map(|all| all.first().filter(|_| all.len() == 1).cloned()).collect()
}

/// Every swizzle of addresses below `2^6`, and none.
pub(crate) fn swizzles() -> Vec<Option<Swizzle>> {
    let mut all = vec![None];
    for m in 0..6 {
        for s in 1..7 {
            for b in 1..=s {
                all.extend([true, false].map(|inner| Swizzle::new(m, b, s, inner).ok()));
            }
        }
    }
    all
}

/// Whether any layout at all, swizzled or not, has these single places.
pub(crate) fn any_layout_has(places: &[Place]) -> bool {
    let m = |p: &Place| p.get(&Axis::M).copied().unwrap_or(0);
    swizzles().into_iter().any(|sw| {
        let Some(sw) = sw else { return expressible(places) };
        let back = |p: &Place| {
            let mut p = p.clone();
            let moved = sw.apply_to_address(m(&p));
            p.insert(Axis::M, moved);
            p.retain(|_, v| *v != 0);
            p
        };
        places.iter().all(|p| m(p) >= 0)
            && expressible(&places.iter().map(back).collect::<Vec<_>>())
    })
}

/// A place of the crate as one of the definition.
pub(crate) fn place_of(p: &zellige_layout::PhysicalCoordinate) -> Place {
    p.without_zero_entries().axis_entries().iter().copied().collect()
}
