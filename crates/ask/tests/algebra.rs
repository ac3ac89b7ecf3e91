//! Random requests of the algebra, as lines of JSON, against the definition of a layout.
//!
//! `ZELLIGE_ALGEBRA_CASES` asks for more layouts than the few thousand of a usual run.

use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use zellige_ask::answer_line;
use zellige_layout::{
    Axis, AxisTable, Iter, Layout, PaddedExtent, Swizzle, TileLayout, ValidWindow,
};
use zellige_notation::tirx;

type Place = BTreeMap<String, i64>;

struct Random(u64);

impl Random {
    fn below(&mut self, n: i64) -> i64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        i64::try_from(self.0 >> 33).expect("31 bits") % n
    }

    fn iter(&mut self, axes: &[Axis]) -> Iter {
        let axis = axes[usize::try_from(self.below(3)).expect("small") % axes.len()];
        Iter::new(1 + self.below(4), self.below(12) - 3, axis)
    }

    /// Iters, replicas, offsets, a swizzle where it may be, and a window.
    fn layout(&mut self, axes: &[Axis], window: bool) -> Layout {
        let shard = (0..self.below(4)).map(|_| self.iter(axes)).collect();
        let replica = (0..self.below(5) / 3).map(|_| self.iter(axes)).collect();
        let offset: Vec<_> = axes.iter().map(|a| (*a, (self.below(12) - 3).max(0))).collect();
        let tile = TileLayout::new(shard, replica, offset).expect("small");
        let (m, b, s) = (self.below(3), self.below(3), self.below(2));
        let swizzle = Swizzle::new(m, b, b + s, self.below(2) == 0).expect("well-formed");
        let layout = match Layout::from_swizzled_tile(swizzle, tile.clone()) {
            Ok(layout) if self.below(2) == 0 => layout,
            _ => tile.into(),
        };
        if !window || self.below(2) == 0 {
            return layout;
        }
        let padded = layout.size();
        let begin = self.below(padded);
        let valid = 1 + self.below(padded - begin);
        let window = ValidWindow::new(vec![PaddedExtent { begin, valid, padded }]).expect("inside");
        layout.with_window(window).expect("fits")
    }
}

fn swizzled(l: &Layout, address: i64) -> i64 {
    let Some(sw) = l.swizzle() else { return address };
    let (unit, mask) = (address >> sw.per_element(), (1i64 << sw.swizzle_len()) - 1);
    let moved = match sw.is_inner() {
        true => unit ^ ((unit >> sw.atom_len()) & mask),
        false => unit ^ ((unit & mask) << sw.atom_len()),
    };
    (moved << sw.per_element()) + address % (1i64 << sw.per_element())
}

/// The places of an index of the padded domain, by the definition.
fn places(l: &Layout, index: i64) -> BTreeSet<Place> {
    let mut rest = index;
    let mut all: Vec<Place> = vec![Place::new()];
    for it in l.tile().shard().iter().rev() {
        *all[0].entry(it.axis.name().into()).or_default() += rest % it.extent * it.stride;
        rest /= it.extent;
    }
    for (axis, v) in l.tile().offset() {
        *all[0].entry(axis.name().into()).or_default() += v;
    }
    for it in l.tile().replica() {
        let copy = |p: &Place, k: i64| {
            let mut p = p.clone();
            *p.entry(it.axis.name().into()).or_default() += k * it.stride;
            p
        };
        all = all.iter().flat_map(|p| (0..it.extent).map(move |k| copy(p, k))).collect();
    }
    all.into_iter()
        .map(|mut p| {
            if let Some(m) = p.get_mut("m") {
                *m = swizzled(l, *m);
            }
            p.retain(|_, v| *v != 0);
            p
        })
        .collect()
}

/// The places of every element; windows have one dimension here.
fn table(l: &Layout) -> Vec<BTreeSet<Place>> {
    let begin = l.window().map_or(0, |w| w.dims()[0].begin);
    (0..l.size()).map(|i| places(l, begin + i)).collect()
}

fn ask(request: &Value) -> Result<Value, Value> {
    let mut found: Value = serde_json::from_str(&answer_line(&request.to_string())).expect("JSON");
    match found.get_mut("ok") {
        Some(ok) => Ok(ok.take()),
        None => Err(found["error"].take()),
    }
}

fn place(v: &Value) -> Place {
    let entries = v.as_object().expect("a place").iter();
    entries
        .map(|(a, v)| (a.clone(), v.as_i64().expect("an integer")))
        .filter(|(_, v)| *v != 0)
        .collect()
}

/// The places of every element of an answered layout, as `apply` gives them.
fn applied(text: &Value, size: i64) -> Vec<BTreeSet<Place>> {
    applied_at(text, size, &(0..size).map(|i| json!([i])).collect::<Vec<_>>())
}

fn applied_at(text: &Value, size: i64, coords: &[Value]) -> Vec<BTreeSet<Place>> {
    let found = ask(&json!({"op": "apply", "layout": text, "shape": [size], "coords": coords}));
    let found = found.unwrap_or_else(|e| panic!("{text}: {e}"));
    let points = found["points"].as_array().expect("a list");
    points.iter().map(|p| p.as_array().expect("a set").iter().map(place).collect()).collect()
}

/// The one place of an answered inverse for a place in its domain.
fn back(answered: &Value, p: &Place) -> Option<i64> {
    let shape: Vec<i64> = serde_json::from_value(answered["shape"].clone()).expect("a shape");
    let axes: Vec<String> = serde_json::from_value(answered["axes"].clone()).expect("axes");
    let mut flat = 0;
    for (axis, extent) in axes.iter().zip(&shape) {
        let at = p.get(axis).copied().unwrap_or(0);
        if !(0..*extent).contains(&at) {
            return None;
        }
        flat = flat * extent + at;
    }
    let all = applied_at(&answered["layout"], shape.iter().product(), &[json!([flat])]);
    all[0].first().map(|p| p.get("m").copied().unwrap_or(0))
}

#[test]
fn answers_are_those_of_the_definition() {
    let table_of = AxisTable::new();
    let cases = std::env::var("ZELLIGE_ALGEBRA_CASES").ok().and_then(|v| v.parse().ok());
    let mut random = Random(12);
    let mut answered: BTreeMap<&str, (u32, u32)> = BTreeMap::new();
    for case in 0..cases.unwrap_or(1500u32) {
        let names = [["m", "F", "laneid"], ["m", "m", "m"], ["F", "P", "m"]][(case % 3) as usize];
        let axes = names.map(|n| table_of.get(n).expect("built in"));
        let l = random.layout(&axes, true);
        let (text, n, want) = (tirx::print_tirx(&l), l.size(), table(&l));
        let mut tried = |op: &'static str, request: Value| {
            let found = ask(&request);
            let count = answered.entry(op).or_default();
            if found.is_ok() {
                count.0 += 1;
            } else {
                count.1 += 1;
            }
            found.map_err(|e| {
                assert_ne!(e["kind"], "internal", "{request}: {e}");
                e
            })
        };
        assert_eq!(applied(&json!(text), n), want, "{text}");
        for target in [Value::Null, json!("cuda")] {
            let mut request = json!({"op": "canonicalize", "layout": text});
            if !target.is_null() {
                request["target"] = target;
            }
            let found = tried("canonicalize", request).expect("always");
            assert_eq!(applied(&found["layout"], n), want, "{text}: {found}");
        }
        if let Ok(found) = tried("refine", json!({"op": "refine", "layouts": [text], "shape": [n]}))
        {
            assert_eq!(applied(&found["layouts"][0], n), want, "{text}: {found}");
        }
        let cut = 1 + random.below(n);
        if let Ok(found) = tried(
            "slice",
            json!({"op": "slice", "layout": text, "shape": [n], "region": [[n - cut, n]]}),
        ) {
            for key in ["layout", "general"] {
                if let Some(text) = found.get(key).filter(|v| !v.is_null()) {
                    let skipped = usize::try_from(n - cut).expect("small");
                    assert_eq!(applied(text, cut), want[skipped..], "{found}");
                }
            }
        }
        let facts = tried("facts", json!({"op": "facts", "layout": text})).expect("small");
        let used: BTreeSet<&Place> = want.iter().flatten().collect();
        let positions = facts["padding"]["padded"].as_i64().expect("a count");
        let free = facts["padding"]["count"].as_i64().expect("a count");
        assert_eq!(positions - free, i64::try_from(used.len()).expect("small"), "{text}: {facts}");
        assert_eq!(facts["surjective"], json!(free == 0), "{text}: {facts}");
        for (key, states) in [("unused", &["padding", "gap"][..]), ("gap", &["gap"])] {
            if facts[key].is_object() {
                let request = json!({"op": "lookup", "layout": text, "place": facts[key]});
                let held = tried("lookup", request).expect("small");
                assert!(states.iter().any(|s| held["state"] == *s), "{text}: {facts} {held}");
            }
        }
        let inverse = |op: &str| json!({"op": op, "layout": text});
        if let Ok(found) = tried("left_inverse", inverse("left_inverse")) {
            for (i, all) in (0..).zip(&want) {
                let p = all.first().expect("a place");
                assert_eq!(back(&found, p), Some(i), "{text}: {found}");
            }
        }
        match tried("right_inverse", inverse("right_inverse")) {
            Ok(found) => {
                let i = back(&found, &Place::new()).expect("place 0");
                assert!(want[usize::try_from(i).expect("small")].contains(&Place::new()), "{text}");
            }
            Err(e) if e["kind"] == "not_covered" => {
                assert!(!used.contains(&place(&e["witness"]["place"])), "{text}: {e}");
            }
            Err(e) => assert!(l.window().is_some() && e["kind"] == "padded", "{text}: {e}"),
        }
        let right = random.layout(&[Axis::M], false);
        let request = json!({"op": "compose", "a": text, "b": tirx::print_tirx(&right)});
        if let Ok(found) = tried("compose", request) {
            let through = |all: &BTreeSet<Place>| -> BTreeSet<Place> {
                let at =
                    |p: &Place| usize::try_from(p.get("m").copied().unwrap_or(0)).expect("inside");
                all.iter().flat_map(|p| want[at(p)].clone()).collect()
            };
            let composed: Vec<_> = table(&right).iter().map(through).collect();
            assert_eq!(applied(&found["layout"], right.size()), composed, "{text}: {found}");
        }
    }
    for (op, (ok, _)) in &answered {
        assert!(*ok > 20, "{op} answered {ok} requests only");
    }
    println!("{answered:?}");
}

#[test]
fn swizzles_stay_in_refinements() {
    let text = "Swizzle(0,1,1) o S[4:1]";
    let found =
        ask(&json!({"op": "refine", "layouts": [text, "S[(2,2)]"], "shape": [4]})).expect("nests");
    assert_eq!(applied(&found["layouts"][0], 4), applied(&json!(text), 4), "{found}");
}

#[test]
fn copies_follow_every_memory_axis() {
    for (src, dst) in [("S[6:1@F]", "S[6]"), ("S[6]", "S[6:2@P]"), ("S[6:1@F]", "S[6:1@P]")] {
        let request =
            json!({"op": "copies", "src": src, "dst": dst, "shape": [6], "dtype": "float32"});
        let found = ask(&request).unwrap_or_else(|e| panic!("{src} to {dst}: {e}"));
        assert_eq!(found["total"], 6);
        for copy in found["copies"].as_array().expect("a list") {
            assert!(!copy["from"].as_array().expect("spots").is_empty(), "{src} to {dst}: {copy}");
            assert!(!copy["to"].as_array().expect("spots").is_empty(), "{src} to {dst}: {copy}");
        }
    }
}

#[test]
fn every_replica_of_a_device_dimension_of_stride_0_is_written() {
    let mut request = json!({
        "op": "dma", "size": [2, 63], "stride": [1, 0], "dtype": "int8",
        "device_size": [2, 2, 1, 2, 128], "stride_map": [63, 0, 128, 0, 1],
    });
    let found = ask(&request).expect("own strides");
    let written = |nests: &Value| -> i64 {
        let nest = |n: &Value| {
            n["ranges"]
                .as_array()
                .expect("a list")
                .iter()
                .map(|r| r.as_i64().expect("a range"))
                .product::<i64>()
        };
        nests.as_array().expect("a list").iter().map(nest).sum()
    };
    assert_eq!(written(&found["nests"]), 2 * 63 * 4, "{found}");
    request["direction"] = json!("d2h");
    let host = json!([63, 1]);
    request["stride"] = host;
    assert_eq!(written(&ask(&request).expect("back")["nests"]), 2 * 63);
}
