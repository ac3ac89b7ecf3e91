//! The recorded answers of other implementations, as conformance tests.
//!
//! `tirx.json` holds layouts with the answers of Apache TVM's `tvm.tirx`. Results are compared as
//! functions (an independent evaluator below), because how a result is split into iters is free.
//! Where a record marks an upstream mistake, the test states the right answer.

use serde_json::Value;
use std::collections::BTreeMap;
use zellige_layout::{AxisTable, Iter, Layout, Swizzle, TileLayout};

fn data(name: &str) -> Value {
    let path = format!("{}/../../tests/data/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    serde_json::from_str(&text).expect("valid JSON")
}

fn ints(v: &Value) -> Vec<i64> {
    v.as_array().expect("a list").iter().map(|x| x.as_i64().expect("an integer")).collect()
}

fn indices(v: &Value) -> Vec<usize> {
    ints(v).into_iter().map(|i| usize::try_from(i).expect("an index")).collect()
}

fn region(v: &Value) -> Vec<(i64, i64)> {
    v.as_array().expect("a list").iter().map(|r| (ints(r)[0], ints(r)[1])).collect()
}

/// A layout from its recorded parts.
fn layout(spec: &Value) -> Layout {
    let table = AxisTable::new();
    if spec["kind"] == "compose" {
        let n = |k: &str| spec[k].as_i64().expect("an integer");
        let inner = spec["swizzle_inner"].as_bool().expect("a flag");
        let sw = Swizzle::new(n("per_element"), n("swizzle_len"), n("atom_len"), inner);
        let tile = layout(&spec["tile"]).tile().clone();
        return Layout::swizzled(sw.expect("well-formed"), tile).expect("well-formed");
    }
    let iters = |v: &Value| -> Vec<Iter> {
        v.as_array()
            .expect("a list")
            .iter()
            .map(|it| {
                let axis = table.get(it[2].as_str().expect("a name")).expect("known");
                Iter::new(it[0].as_i64().expect("extent"), it[1].as_i64().expect("stride"), axis)
            })
            .collect()
    };
    let offset: Vec<_> = spec["offset"]
        .as_object()
        .expect("an object")
        .iter()
        .map(|(k, v)| (table.get(k).expect("known"), v.as_i64().expect("an integer")))
        .collect();
    TileLayout::new(iters(&spec["shard"]), iters(&spec["replica"]), offset)
        .expect("well-formed")
        .into()
}

/// The places of an element straight from the definition, sharing no code with the crate.
fn evaluate(spec: &Value, flat: i64) -> Vec<BTreeMap<String, i64>> {
    if spec["kind"] == "compose" {
        let n = |k: &str| spec[k].as_i64().expect("an integer");
        let (m, b, s) = (n("per_element"), n("swizzle_len"), n("atom_len"));
        let mask = (1 << b) - 1;
        let mut points = evaluate(&spec["tile"], flat);
        for p in &mut points {
            let a = p.get("m").copied().unwrap_or(0);
            let mut x = a >> m;
            if spec["swizzle_inner"] == true {
                x ^= (x & (mask << s)) >> s;
            } else {
                x ^= (x & mask) << s;
            }
            p.insert("m".into(), (x << m) + a % (1 << m));
        }
        return finish(points);
    }
    let mut point: BTreeMap<String, i64> = BTreeMap::new();
    let mut rest = flat;
    for it in spec["shard"].as_array().expect("a list").iter().rev() {
        let (e, s) = (it[0].as_i64().expect("extent"), it[1].as_i64().expect("stride"));
        *point.entry(it[2].as_str().expect("a name").into()).or_default() += rest % e * s;
        rest /= e;
    }
    for (axis, v) in spec["offset"].as_object().expect("an object") {
        *point.entry(axis.clone()).or_default() += v.as_i64().expect("an integer");
    }
    let mut points = vec![point];
    for it in spec["replica"].as_array().expect("a list") {
        let (e, s) = (it[0].as_i64().expect("extent"), it[1].as_i64().expect("stride"));
        points = points
            .iter()
            .flat_map(|p| {
                (0..e).map(move |c| {
                    let mut p = p.clone();
                    *p.entry(it[2].as_str().expect("a name").into()).or_default() += c * s;
                    p
                })
            })
            .collect();
    }
    finish(points)
}

fn finish(mut points: Vec<BTreeMap<String, i64>>) -> Vec<BTreeMap<String, i64>> {
    for p in &mut points {
        p.retain(|_, v| *v != 0);
    }
    points.sort();
    points.dedup();
    points
}

fn places(l: &Layout, flat: i64) -> Vec<BTreeMap<String, i64>> {
    let points = l.places(flat).expect("inside").points();
    finish(
        points
            .iter()
            .map(|p| p.entries().iter().map(|(a, v)| (a.name().to_string(), *v)).collect())
            .collect(),
    )
}

/// Asserts that a layout is the recorded function, element by element, and that `difference`
/// finds the same.
fn assert_same(got: &Layout, want: &Value, what: &str) {
    let recorded = layout(want);
    assert_eq!(got.size(), recorded.size(), "{what}");
    let step = (got.size() / 512).max(1);
    for i in (0..got.size()).step_by(usize::try_from(step).expect("small")) {
        assert_eq!(places(got, i), evaluate(want, i), "{what} at {i}: {got:?}");
    }
    assert_eq!(got.difference(&recorded), Ok(None), "{what}");
}

fn records() -> Vec<Value> {
    data("tirx.json")["records"].as_array().expect("a list").clone()
}

#[test]
fn apply_gives_the_recorded_places() {
    let mut checked = 0;
    for r in records() {
        let l = layout(&r["spec"]);
        assert_eq!(l.size(), r["size"].as_i64().expect("size"), "{}", r["text"]);
        let shape = ints(&r["shape"]);
        for a in r["apply"].as_array().expect("a list") {
            let flat = a["flat"].as_i64().expect("an index");
            let coord = ints(&a["coord"]);
            let got = l.apply(&shape, &coord).expect("inside").points();
            assert_eq!(got, l.places(flat).expect("inside").points());
            let want: Vec<BTreeMap<String, i64>> = match a.get("set") {
                Some(set) => serde_json::from_value(set.clone()).expect("points"),
                None => vec![serde_json::from_value(a["out"].clone()).expect("a point")],
            };
            assert_eq!(places(&l, flat), finish(want), "{} at {flat}", r["text"]);
            checked += 1;
        }
    }
    assert!(checked > 5000, "{checked}");
}

#[test]
fn canonical_forms_are_the_recorded_ones() {
    for r in records() {
        let l = layout(&r["spec"]);
        let text = r["text"].as_str().expect("text");
        let canonical = l.canonical().expect("canonical");
        assert_eq!(l.difference(&canonical), Ok(None), "{text}");
        assert_eq!(canonical.canonical().as_ref(), Ok(&canonical), "{text}");
        if let Some(want) = r["canonical"].get("layout") {
            assert_same(&canonical, want, text);
            // The shard is unique; upstream neither fuses replicas nor drops unit ones.
            assert_eq!(canonical.tile().shard(), layout(want).tile().shard(), "{text}");
        }
        if let Some(want) = r.get("canonical_cuda").filter(|c| c["law"] == true) {
            let cuda = l.canonical_cuda().expect("canonical");
            assert_same(&cuda, &want["layout"], text);
            assert_eq!(cuda.tile().shard(), layout(&want["layout"]).tile().shard(), "{text}");
        }
    }
}

#[test]
fn spans_sizes_and_scopes_are_the_recorded_ones() {
    let table = AxisTable::new();
    for r in records() {
        let l = layout(&r["spec"]);
        let negative = l.tile().shard().iter().any(|it| it.stride < 0);
        if let Some(spans) = r.get("span_by_axis") {
            for (axis, v) in spans.as_object().expect("an object") {
                let axis = table.get(axis).expect("known");
                // Upstream adds strides with their sign, which is wrong for negative ones.
                if let Some(v) = v["value"].as_i64().filter(|_| !negative) {
                    assert_eq!(l.tile().span(axis), v, "{}", r["text"]);
                }
            }
        }
        if let Some(sizes) = r.get("size_by_axis") {
            for (axis, v) in sizes.as_object().expect("an object") {
                if let Some(v) = v["value"].as_i64() {
                    assert_eq!(l.tile().size_on(table.get(axis).expect("known")), v);
                }
            }
        }
        if let Some([of, within]) = r["scope"]["value"].as_array().map(Vec::as_slice) {
            let (a, b) = l.tile().scope().expect("one chain").expect("thread axes");
            assert_eq!(
                (a.name(), b.name()),
                (of.as_str().expect("s"), within.as_str().expect("s"))
            );
        }
        if let Some(trivial) =
            r["is_trivial"]["value"].as_bool().filter(|_| r["spec"]["kind"] == "tile")
        {
            assert_eq!(l.tile().is_trivial(), trivial, "{}", r["text"]);
        }
    }
}

/// Every recorded operation. `Err` and null answers of upstream are looked at one by one.
#[test]
fn operators_give_the_recorded_functions() {
    let mut counts: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for r in records() {
        let l = layout(&r["spec"]);
        // Upstream's span, and so the scale of its tiles, is wrong with negative strides.
        let negative = l.tile().shard().iter().any(|it| it.stride < 0);
        for o in r["ops"].as_array().expect("a list") {
            let op = o["op"].as_str().expect("a name");
            let what = format!("{} {o}", r["text"]);
            let shape = || ints(&o["shape"]);
            let recorded = o["result"].get("layout").filter(|v| !v.is_null());
            // Upstream cannot handle `pid`, mistreats thread axes in pack and unpack, and does not
            // scale replicas and offsets in tile: those answers are checked by law, not by value.
            let got: Option<Layout> = match op {
                "group" => match l.group(&shape()) {
                    Ok((g, seps)) => {
                        assert_eq!(seps, indices(&o["result"]["seps"]), "{what}");
                        Some(g)
                    }
                    Err(e) => {
                        assert_eq!(e.kind(), "not_groupable", "{what}");
                        None
                    }
                },
                "group_many" => {
                    let shapes: Vec<_> =
                        o["shapes"].as_array().expect("a list").iter().map(ints).collect();
                    let (g, seps) = l.group_many(&shapes).expect(&what);
                    let want = o["result"]["seps"].as_array().expect("a list");
                    // Upstream carries unit iters of the layout along; ours drops them.
                    if l.tile().shard().iter().all(|it| it.extent != 1) {
                        for (got, want) in seps.iter().zip(want) {
                            assert_eq!(*got, indices(want), "{what}");
                        }
                    }
                    Some(g)
                }
                "permute_dims" => Some(l.permute_dims(&indices(&o["perm"])).expect(&what)),
                "permute_by_groups" => Some(
                    layout(&o["layout"])
                        .permute_by_groups(&indices(&o["seps"]), &indices(&o["perm"]))
                        .expect(&what),
                ),
                "storage" => Some(l.storage().expect(&what)),
                "broadcast" => {
                    let axis = AxisTable::new().get(o["axis"].as_str().expect("a name"));
                    let pos = o["position"].as_i64().expect("position");
                    let num = o["num"].as_i64().expect("num");
                    Some(l.broadcast(num, pos, axis.expect("known")).expect(&what))
                }
                "slice" => match l.slice(&shape(), &region(&o["region"])) {
                    Ok(s) => {
                        check_slice(&l, &s, &shape(), &region(&o["region"]), &what);
                        Some(s)
                    }
                    Err(e) => {
                        assert_eq!(e.kind(), "not_expressible", "{what}");
                        assert!(recorded.is_none(), "{what}: {e}");
                        let w = l.slice_window(&shape(), &region(&o["region"])).expect(&what);
                        check_slice(&l, &w, &shape(), &region(&o["region"]), &what);
                        None
                    }
                },
                "direct_sum" => {
                    let left = layout(&o["left"]);
                    Some(
                        l.direct_sum(&left, &ints(&o["left_shape"]), &ints(&o["right_shape"]))
                            .expect(&what),
                    )
                }
                "tile" => {
                    let outer = layout(&o["outer"]);
                    let (os, is) = (ints(&o["outer_shape"]), ints(&o["inner_shape"]));
                    let got = l.tile_by(&outer, &os, &is).expect(&what);
                    check_tile(&l, &outer, &got, &os, &is, &what);
                    // Upstream takes the span of an axis that only replicas mention as 1, so its
                    // tiles overlap.
                    let overlaps = l.tile().replica().iter().any(|r| {
                        let on_axis = |it: &Iter| it.axis == r.axis;
                        outer.tile().shard().iter().any(on_axis)
                            && !l.tile().shard().iter().any(on_axis)
                    });
                    Some(got).filter(|_| {
                        let o = outer.tile();
                        o.replica().is_empty() && o.offset().is_empty() && !overlaps && !negative
                    })
                }
                "pack" | "unpack" => {
                    let num = o["num"].as_i64().expect("num");
                    check_pack(&l, op, num, &what);
                    None
                }
                "is_tile_inner" => {
                    let tiled = layout(&o["tiled"]);
                    let (ts, is) = (ints(&o["tiled_shape"]), ints(&o["inner_shape"]));
                    let got = l.is_tile_inner(&tiled, &ts, &is).expect(&what);
                    if let Some(outer) = &got {
                        let os: Vec<_> = ts.iter().zip(&is).map(|(t, i)| t / i).collect();
                        let again = l.tile_by(outer, &os, &is).expect(&what);
                        assert_eq!(again.difference(&tiled), Ok(None), "{what}");
                    }
                    let plain = !negative
                        && tiled.tile().replica().is_empty()
                        && tiled.tile().offset().is_empty();
                    if plain {
                        assert_eq!(got.is_some(), recorded.is_some(), "{what}");
                    }
                    got.filter(|_| plain)
                }
                "is_tile_outer" => {
                    let (outer, tiled) = (layout(&o["layout"]), layout(&o["tiled"]));
                    let (ts, os) = (ints(&o["tiled_shape"]), ints(&o["outer_shape"]));
                    let got = outer.is_tile_outer(&tiled, &ts, &os).expect(&what);
                    if let Some(inner) = &got {
                        let is: Vec<_> = ts.iter().zip(&os).map(|(t, o)| t / o).collect();
                        let again = inner.tile_by(&outer, &os, &is).expect(&what);
                        assert_eq!(again.difference(&tiled), Ok(None), "{what}");
                    }
                    let plain = !negative
                        && tiled.tile().replica().is_empty()
                        && tiled.tile().offset().is_empty();
                    if plain && recorded.is_some() {
                        assert!(got.is_some(), "{what}");
                    }
                    got.filter(|_| plain && recorded.is_some())
                }
                "is_direct_sum_right" | "is_direct_sum_left" => {
                    let sum = layout(&o["sum"]);
                    let interleaved = ints(&o["interleaved_shape"]);
                    let evens: Vec<_> = interleaved.iter().step_by(2).copied().collect();
                    let odds: Vec<_> = interleaved.iter().skip(1).step_by(2).copied().collect();
                    let (got, again) = if op == "is_direct_sum_right" {
                        let got = l.is_direct_sum_right(&sum, &interleaved).expect(&what);
                        let again = got.as_ref().map(|g| l.direct_sum(g, &evens, &odds));
                        (got, again)
                    } else {
                        let left = layout(&o["layout"]);
                        let got = left.is_direct_sum_left(&sum, &interleaved).expect(&what);
                        let again = got.as_ref().map(|g| g.direct_sum(&left, &evens, &odds));
                        (got, again)
                    };
                    if let Some(again) = again {
                        assert_eq!(again.expect(&what).difference(&sum), Ok(None), "{what}");
                    }
                    // Upstream also gives up on sums through a swizzle, which ours solves.
                    assert!(got.is_some() || recorded.is_none(), "{what}");
                    got.filter(|_| recorded.is_some())
                }
                "to_psum" => None,
                other => panic!("unknown op {other}"),
            };
            let entry = counts.entry(op.to_string()).or_default();
            entry.0 += 1;
            if let (Some(got), Some(want)) = (got, recorded) {
                assert_same(&got, want, &what);
                entry.1 += 1;
            }
        }
    }
    for op in ["group", "slice", "tile", "direct_sum", "is_tile_inner", "is_direct_sum_right"] {
        assert!(counts[op].1 > 50, "{counts:?}");
    }
}

fn check_slice(l: &Layout, s: &Layout, shape: &[i64], region: &[(i64, i64)], what: &str) {
    let size: Vec<i64> = region.iter().map(|(b, e)| e - b).collect();
    let step = usize::try_from((s.size() / 300).max(1)).expect("small");
    for i in (0..s.size()).step_by(step) {
        let y = zellige_layout::unflatten(&size, i);
        let x: Vec<i64> = y.iter().zip(region).map(|(y, (b, _))| y + b).collect();
        let want = l.apply(shape, &x).expect("inside").points();
        let normal = |ps: Vec<zellige_layout::Point>| -> Vec<_> {
            ps.iter().map(zellige_layout::Point::normal).collect()
        };
        assert_eq!(normal(s.places(i).expect("inside").points()), normal(want), "{what} at {y:?}");
    }
}

/// `tile(x, y) = span * outer(x) + inner(y)` before the swizzle.
fn check_tile(inner: &Layout, outer: &Layout, tiled: &Layout, os: &[i64], is: &[i64], what: &str) {
    let shape: Vec<i64> = os.iter().zip(is).map(|(o, i)| o * i).collect();
    let (inner, tiled) = (Layout::from(inner.tile().clone()), Layout::from(tiled.tile().clone()));
    let step = usize::try_from((tiled.size() / 60).max(1)).expect("small");
    for i in (0..tiled.size()).step_by(step) {
        let z = zellige_layout::unflatten(&shape, i);
        let x: Vec<i64> = z.iter().zip(is).map(|(z, i)| z / i).collect();
        let y: Vec<i64> = z.iter().zip(is).map(|(z, i)| z % i).collect();
        let mut want = Vec::new();
        for a in outer.apply(os, &x).expect("inside").points() {
            for b in inner.apply(is, &y).expect("inside").points() {
                let axes = a.entries().iter().chain(b.entries()).map(|(axis, _)| *axis);
                let mut axes: Vec<_> = axes.collect();
                axes.sort();
                axes.dedup();
                let sum = axes
                    .into_iter()
                    .map(|axis| (axis, inner.tile().span(axis) * a.get(axis) + b.get(axis)));
                want.push(zellige_layout::Point::new(sum).normal());
            }
        }
        want.sort();
        want.dedup();
        let got: Vec<_> =
            tiled.places(i).expect("inside").points().iter().map(|p| p.normal()).collect();
        let mut got = got;
        got.sort();
        assert_eq!(got, want, "{what} at {z:?}");
    }
}

/// The laws of pack and unpack, on `m` alone.
fn check_pack(l: &Layout, op: &str, num: i64, what: &str) {
    use zellige_layout::Axis;
    let wide_and_narrow = match op {
        "unpack" => {
            let n = l.unpack(num).expect(what);
            assert_eq!(n.pack(num).expect(what).difference(l), Ok(None), "{what}");
            (l.clone(), n)
        }
        _ => match l.pack(num) {
            Ok(p) => (p, l.clone()),
            Err(e) => {
                // Only a real misalignment is refused: some group of neighbours is not one.
                let swizzle_too_fine = e.kind() == "bad_parameter";
                let broken = (0..l.size() / num).any(|q| {
                    (0..num).any(|j| {
                        let ps = l.places(q * num + j).expect("inside").points();
                        let first = l.places(q * num).expect("inside").points();
                        ps.iter().zip(&first).any(|(p, f)| {
                            f.get(Axis::M) % num != 0 || p.get(Axis::M) != f.get(Axis::M) + j
                        }) || l
                            .tile()
                            .axes()
                            .iter()
                            .any(|a| *a != Axis::M && ps[0].get(*a) != first[0].get(*a))
                    })
                });
                assert!(swizzle_too_fine || broken || l.size() % num != 0, "{what}: {e}");
                return;
            }
        },
    };
    let (wide, narrow) = wide_and_narrow;
    for q in (0..wide.size()).step_by(usize::try_from((wide.size() / 200).max(1)).expect("small")) {
        for j in 0..num {
            let w = wide.places(q).expect("inside").points();
            let n = narrow.places(q * num + j).expect("inside").points();
            assert_eq!(w.len(), n.len());
            for (w, n) in w.iter().zip(&n) {
                assert_eq!(n.get(Axis::M), w.get(Axis::M) * num + j, "{what} at {q}");
                for a in narrow.tile().axes().iter().filter(|a| **a != Axis::M) {
                    assert_eq!(w.get(*a), n.get(*a), "{what} at {q}");
                }
            }
        }
    }
}
