//! Linear layouts: the recorded answers of Triton 3.9.0, and the laws by enumeration.

use proptest::prelude::*;
use serde_json::Value;
use std::collections::BTreeSet;
use zellige_layout::{
    Axis, AxisTable, LinearAxis, LinearLayout, count_bank_conflicts, find_optimal_swizzle,
};

fn data(name: &str) -> Value {
    let path = format!("{}/../../tests/data/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    serde_json::from_str(&text).expect("valid JSON")
}

fn pairs(v: &Value) -> Vec<(String, i64)> {
    let pair =
        |p: &Value| (p[0].as_str().expect("a name").to_string(), p[1].as_i64().expect("a size"));
    v.as_array().expect("a list").iter().map(pair).collect()
}

fn layout(v: &Value) -> LinearLayout {
    let ints = |b: &Value| {
        b.as_array().expect("a basis").iter().map(|x| x.as_i64().expect("an integer")).collect()
    };
    let bases = |b: &Value| b.as_array().expect("bases").iter().map(ints).collect();
    let dim = |d: &Value| (d[0].as_str().expect("a name").to_string(), bases(&d[1]));
    let ins: Vec<(String, Vec<Vec<i64>>)> =
        v["in"].as_array().expect("in").iter().map(dim).collect();
    LinearLayout::new(&ins, &pairs(&v["out"])).expect("a recorded layout")
}

/// Every input of a layout.
fn inputs(l: &LinearLayout) -> Vec<Vec<(String, i64)>> {
    let mut all = vec![Vec::new()];
    for (dim, size) in l.in_sizes() {
        let grow = |x: &Vec<(String, i64)>| -> Vec<Vec<(String, i64)>> {
            let with = |v| {
                let mut y = x.clone();
                y.push((dim.to_string(), v));
                y
            };
            (0..size).map(with).collect()
        };
        all = all.iter().flat_map(grow).collect();
    }
    all
}

fn at(l: &LinearLayout, x: &[(String, i64)]) -> Vec<i64> {
    let x: Vec<(&str, i64)> = x.iter().map(|(d, v)| (d.as_str(), *v)).collect();
    l.apply_to_input(&x).expect("inside")
}

fn named(l: &LinearLayout, y: &[i64]) -> Vec<(String, i64)> {
    l.out_dims().map(String::from).zip(y.iter().copied()).collect()
}

/// Properties that only a library has and no request answers; `crates/conformance` has the recorded calls.
#[test]
fn matrices_and_texts_are_those_of_triton() {
    let recorded = data("triton_linear.json");
    let (mut constructed, mut swizzles) = (0, 0);
    for case in recorded["cases"].as_array().expect("cases") {
        if case["op"] == "construct" {
            let a = layout(&case["a"]);
            assert_eq!(a.to_string(), case["to_string"].as_str().expect("a text"));
            assert_eq!(serde_json::json!(a.gf2_matrix()), case["matrix"]);
            constructed += 1;
        } else if case["op"] == "optimal_swizzle_ldst" {
            let bits = case["bitwidth"].as_i64().expect("bits");
            let found =
                find_optimal_swizzle(&layout(&case["src_ll"]), &layout(&case["dst_ll"]), bits);
            assert!(found.expect("fits").layout.is_invertible());
            swizzles += 1;
        }
    }
    assert!(constructed > 0 && swizzles > 0);
}

fn any_layout(
    ins: &'static [&'static str],
    outs: &'static [&'static str],
) -> impl Strategy<Value = LinearLayout> {
    let sizes = prop::collection::vec(0u32..4, outs.len());
    let counts = prop::collection::vec(0usize..4, ins.len());
    (sizes, counts, prop::collection::vec(any::<u32>(), 64)).prop_map(
        move |(sizes, counts, seeds)| {
            let mut seeds = seeds.into_iter();
            let mut next = |size: u32| i64::from(seeds.next().unwrap_or(0) % (1 << size));
            let mut ins_bases = Vec::new();
            for (name, count) in ins.iter().zip(&counts) {
                let bases = (0..*count).map(|_| sizes.iter().map(|s| next(*s)).collect()).collect();
                ins_bases.push(((*name).to_string(), bases));
            }
            let outs: Vec<(String, i64)> =
                outs.iter().zip(&sizes).map(|(n, s)| ((*n).to_string(), 1 << s)).collect();
            LinearLayout::new(&ins_bases, &outs).expect("inside")
        },
    )
}

const HARDWARE: &[&str] = &["register", "lane"];
const TENSOR: &[&str] = &["dim0", "dim1"];

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn facts_are_what_enumeration_says(l in any_layout(HARDWARE, TENSOR)) {
        let all = inputs(&l);
        let reached: BTreeSet<Vec<i64>> = all.iter().map(|x| at(&l, x)).collect();
        let total: i64 = l.out_sizes().map(|(_, s)| s).product();
        prop_assert_eq!(l.is_injective(), reached.len() == all.len());
        prop_assert_eq!(l.is_surjective(), i64::try_from(reached.len()).expect("small") == total);
        prop_assert_eq!(l.kernel_witness().is_none(), l.is_injective());
        if let Some(missing) = l.uncovered_witness() {
            prop_assert!(!reached.contains(&missing));
        }
        let n = l.num_consecutive_in_out();
        for x in all.iter().filter(|x| x[0].1 % n == 0) {
            for i in 0..n {
                let mut y = x.clone();
                y[0].1 += i;
                let mut moved = at(&l, x);
                moved[0] += i;
                prop_assert_eq!(at(&l, &y), moved);
            }
        }
        // Setting the free bits to 0 loses no output.
        let masks = l.free_variable_masks();
        let kept: BTreeSet<Vec<i64>> = all
            .iter()
            .filter(|x| x.iter().zip(&masks).all(|((_, v), (_, m))| v & m == 0))
            .map(|x| at(&l, x))
            .collect();
        prop_assert_eq!(kept, reached);
    }

    #[test]
    fn products_and_compositions_keep_their_laws(
        a in any_layout(HARDWARE, TENSOR),
        b in any_layout(HARDWARE, TENSOR),
        c in any_layout(TENSOR, &["x"]),
    ) {
        let product = a.direct_sum(&b).expect("same order");
        for x in inputs(&a).iter().step_by(3) {
            for y in inputs(&b).iter().step_by(5) {
                let joined: Vec<(String, i64)> = x.iter().zip(y)
                    .map(|((d, v), (_, w))| (d.clone(), v + w * a.in_size(d).expect("there"))).collect();
                let expected: Vec<i64> = at(&a, x).iter().zip(at(&b, y)).zip(a.out_sizes())
                    .map(|((v, w), (_, s))| v + w * s).collect();
                prop_assert_eq!(at(&product, &joined), expected);
            }
        }
        prop_assert_eq!(product.divide_left(&a), Some(b.clone()));
        prop_assert_eq!(product.divide_right(&b), Some(a.clone()));
        match a.compose(&c) {
            Ok(both) => for x in inputs(&a) {
                prop_assert_eq!(at(&both, &x), at(&c, &named(&a, &at(&a, &x))));
            },
            Err(e) => {
                prop_assert_eq!(e.kind(), "linear_dims");
                prop_assert!(a.out_sizes().any(|(d, s)| s > c.in_size(d).expect("there")));
            }
        }
    }

    #[test]
    fn solutions_solve(a in any_layout(&["offset", "block"], TENSOR), b in any_layout(HARDWARE, TENSOR)) {
        let sizes: Vec<(String, i64)> = a.out_sizes().zip(b.out_sizes())
            .map(|((d, s), (_, t))| (d.to_string(), s.max(t))).collect();
        let a = LinearLayout::new(&a.bases_of_all_dims(), &sizes).expect("larger");
        let b = LinearLayout::new(&b.bases_of_all_dims(), &sizes).expect("larger");
        let reached: BTreeSet<Vec<i64>> = inputs(&a).iter().map(|x| at(&a, x)).collect();
        let inside = inputs(&b).iter().all(|y| reached.contains(&at(&b, y)));
        let solution = a.lstsq(&b).expect("aligned");
        prop_assert_eq!(solution.is_some(), inside);
        if let Some(x) = solution {
            for y in inputs(&b) {
                prop_assert_eq!(at(&a, &named(&x, &at(&x, &y))), at(&b, &y));
            }
        }
        match b.invert_and_compose(&a) {
            Ok(c) => for y in inputs(&b) {
                prop_assert_eq!(at(&a, &named(&c, &at(&c, &y))), at(&b, &y));
            },
            Err(e) => {
                prop_assert_eq!(e.kind(), "not_invertible");
                prop_assert!(!a.is_surjective());
            }
        }
    }

    /// A layout of registers and the layout of the algebra say the same of every element.
    #[test]
    fn the_algebra_says_the_same(l in any_layout(&["offset"], TENSOR), permute in any::<bool>()) {
        let l = if permute { permutation_of(&l) } else { l };
        let axes = [LinearAxis { dim: "offset".into(), axis: Axis::M }];
        let shape: Vec<i64> = l.out_sizes().map(|(_, s)| s).collect();
        match l.to_layout(&axes) {
            Err(e) => prop_assert!(e.kind() == "not_expressible" && !permute, "{}", e),
            Ok(layout) => {
                for x in inputs(&l) {
                    let places = layout.apply_to_coordinate(&shape, &at(&l, &x)).expect("inside").sorted_coordinates();
                    prop_assert!(places.iter().any(|p| p.get(Axis::M) == x[0].1));
                }
                let holds: usize = (0..layout.size()).map(|i| layout.physical_coordinates(i).expect("inside").len()).sum();
                prop_assert_eq!(holds, inputs(&l).len());
                let again = LinearLayout::from_layout(&layout, &shape, &axes).expect("linear");
                prop_assert_eq!(again, l);
            }
        }
    }
}

/// A layout with the same sizes whose bases are every unit once, and zeros.
fn permutation_of(l: &LinearLayout) -> LinearLayout {
    let mut units: Vec<Vec<i64>> = Vec::new();
    for (d, (_, size)) in l.out_sizes().enumerate() {
        for k in 0..size.trailing_zeros() {
            units.push((0..l.out_dims().len()).map(|e| if e == d { 1 << k } else { 0 }).collect());
        }
    }
    units.reverse();
    units.insert(units.len() / 2, vec![0; l.out_dims().len()]);
    let outs: Vec<(String, i64)> = l.out_sizes().map(|(d, s)| (d.to_string(), s)).collect();
    LinearLayout::new(&[("offset".to_string(), units)], &outs).expect("inside")
}

#[test]
fn swizzles_of_memory_are_found() {
    // 8 rows of 64 elements, 128-byte swizzle of 16-bit elements.
    let mut bases: Vec<Vec<i64>> = (0..6).map(|k| vec![0, 1 << k]).collect();
    bases.extend((0..3).map(|k| vec![1 << k, 8 << k]));
    let l = LinearLayout::new(
        &[("offset".to_string(), bases)],
        &[("dim0".to_string(), 8), ("dim1".to_string(), 64)],
    )
    .expect("inside");
    let axes = [LinearAxis { dim: "offset".into(), axis: Axis::M }];
    let layout = l.to_layout(&axes).expect("a swizzle");
    assert_eq!(format!("{layout:?}"), "Swizzle(3,3,3) o S[8:64@m, 64:1@m]");
    assert_eq!(LinearLayout::from_layout(&layout, &[8, 64], &axes).expect("linear"), l);
}

#[test]
fn misuse_is_refused_with_what_is_wrong() {
    let unit =
        |n: i64, i: &str, o: &str| LinearLayout::identity_1d(n, i, o).expect("a power of two");
    let say = |e: zellige_layout::LayoutError| format!("{}: {e}", e.kind());
    let text = |s: &str| s.to_string();
    let table: Vec<(zellige_layout::LayoutError, &str)> = vec![
        (
            LinearLayout::identity_1d(6, "a", "b").unwrap_err(),
            "not_power_of_two: a has size 6, which is not a power of two",
        ),
        (
            LinearLayout::identity_1d(0, "a", "b").unwrap_err(),
            "not_power_of_two: a has size 0, which is not a power of two",
        ),
        (
            LinearLayout::strided_1d(4, i64::MIN, "a", "b").unwrap_err(),
            "not_power_of_two: the stride has size -9223372036854775808, which is not a power of two",
        ),
        (
            LinearLayout::new(&[(text("a"), vec![vec![4]])], &[(text("b"), 4)]).unwrap_err(),
            "bad_basis: basis 0 of `a` is not valid: 4 is outside of `b`, which has size 4",
        ),
        (
            LinearLayout::new(&[(text("a"), vec![vec![1], vec![1, 2]])], &[(text("b"), 4)])
                .unwrap_err(),
            "bad_basis: basis 1 of `a` is not valid: it has 2 entries, and there are 1 out dimensions",
        ),
        (
            LinearLayout::new(&[], &[(text("b"), 4), (text("b"), 4)]).unwrap_err(),
            "linear_dims: a linear layout: the out dimension `b` is given twice",
        ),
        (
            LinearLayout::new(&[], &[(text("b"), 1 << 40), (text("c"), 1 << 40)]).unwrap_err(),
            "bad_parameter: the number of bits of a linear layout is 80; the out dimensions together have at most 62 bits",
        ),
        (
            unit(4, "a", "b").compose(&unit(4, "a", "b")).unwrap_err(),
            "linear_dims: compose: the first layout names [b]; expected [a]",
        ),
        (
            unit(8, "a", "b").compose(&unit(4, "b", "c")).unwrap_err(),
            "linear_dims: compose: `b` has size 8 there, and size 4 here",
        ),
        (
            LinearLayout::zeros_1d(2, "a", "b", 1).expect("fits").invert().unwrap_err(),
            "not_invertible: not invertible: the inputs 0 and [1] of [a] have one output",
        ),
        (
            LinearLayout::strided_1d(2, 2, "a", "b").expect("fits").pseudoinvert().unwrap_err(),
            "not_invertible: not invertible: nothing maps to [1] of [b]",
        ),
        (
            unit(4, "a", "b").reshape_outs(&[(text("x"), 8)]).unwrap_err(),
            "linear_dims: reshapeOuts: the new sizes multiply to 2^3, and there are 2^2 coordinates",
        ),
        (
            unit(4, "a", "b").transpose_ins(&["a", "a"]).unwrap_err(),
            "linear_dims: a linear layout: the given dimension `a` is given twice",
        ),
        (
            unit(4, "a", "b").sublayout(&["z"], &[]).unwrap_err(),
            "linear_dims: sublayout: there is no in dimension `z` in [a]",
        ),
        (
            unit(4, "a", "b").apply_to_input(&[("a", 4)]).unwrap_err(),
            "bad_parameter: an input coordinate is 4; `a` goes from 0 to 3",
        ),
        (
            count_bank_conflicts(&unit(4, "a", "b"), &unit(4, "offset", "b"), 16).unwrap_err(),
            "linear_dims: bank conflicts: the layout has no dimension `register`, only [a]",
        ),
        (
            find_optimal_swizzle(&unit(4, "register", "b"), &unit(4, "offset", "b"), 24)
                .unwrap_err(),
            "bad_parameter: the element width in bits is 24; widths are powers of two from 1 to 128",
        ),
    ];
    for (error, expected) in table {
        assert_eq!(say(error), expected);
    }
}

#[test]
fn layouts_that_are_not_linear_are_refused_with_an_element() {
    let table = AxisTable::new();
    let axes = [
        LinearAxis { dim: "offset".into(), axis: Axis::M },
        LinearAxis { dim: "lane".into(), axis: table.get("laneid").expect("built in") },
    ];
    let refuse = |shard: &[(i64, i64)], offset: i64, shape: &[i64]| {
        let (size, stride): (Vec<i64>, Vec<i64>) = shard.iter().copied().unzip();
        let tile =
            zellige_layout::TileLayout::from_strides(&size, &stride, offset).expect("a tile");
        LinearLayout::from_layout(&tile.into(), shape, &axes).unwrap_err().to_string()
    };
    assert!(refuse(&[(6, 1)], 0, &[6]).contains("dimension 0 of the shape has size 6"));
    assert!(
        refuse(&[(4, 3)], 0, &[4]).contains("no element is at the place"),
        "{}",
        refuse(&[(4, 3)], 0, &[4])
    );
    assert!(refuse(&[(4, 0)], 0, &[4]).contains("two elements share a place"));
    assert!(refuse(&[(4, 1)], 2, &[4]).contains("keeps 0"));
    assert!(refuse(&[(4, -1)], 3, &[4]).contains("keeps 0"));
    assert!(refuse(&[(4, 12), (4, 1)], 0, &[16]).contains("no element is at the place"));
}
