//! CuTe's operators against slow definitions of their own.

use crate::common::{at, config, is_layout, offsets, small};
use proptest::prelude::*;
use std::collections::HashSet;
use zellige_layout::{AxisTable, LayoutError};
use zellige_notation::convert::convert_layout;
use zellige_notation::cute::operators::{
    TileArrangement, Tiler, coalesce, complement, composition, divide_by_tiler, left_inverse,
    product_with_tiler, right_inverse,
};
use zellige_notation::cute::{CuteMode, CuteModes, IntegerStyle, NestedTuple};
use zellige_notation::{Notation, cute, parse};

/// Whether `i -> values[i]` is a layout compatible with `b`: a sum over the leaves of `b`, each a layout.
fn compatible(values: &[i64], b: &CuteModes) -> bool {
    let (mut weight, mut parts) = (1, Vec::new());
    for leaf in b.leaves() {
        let e = usize::try_from(leaf.extent).unwrap();
        parts.push((weight, e, (0..e).map(|i| values[i * weight]).collect::<Vec<i64>>()));
        weight *= e;
    }
    let sum = |i: usize| parts.iter().map(|(w, e, part)| part[i / w % e]).sum::<i64>();
    parts.iter().all(|(_, _, part)| is_layout(part))
        && (0..values.len()).all(|i| values[i] == sum(i))
}

/// Offsets for at least `count` copies of `tile`: each is the smallest offset that the copies before it
/// leave free, no two copies overlap, and the offsets are a layout. A single copy needs no offset.
fn free_places(tile: &[i64], count: i64) -> Option<Vec<i64>> {
    let wanted = usize::try_from(count).unwrap();
    let (mut held, mut free): (HashSet<i64>, Vec<i64>) = (HashSet::new(), Vec::new());
    if wanted <= 1 {
        return Some(vec![0]);
    }
    // A layout with enough offsets has fewer than twice as many if its last step is left out.
    while free.len() < 4 * wanted {
        let next = (0..).find(|p| !held.contains(p)).unwrap();
        if tile.iter().any(|t| !held.insert(next + t)) {
            return None;
        }
        free.push(next);
        if free.len() >= wanted && is_layout(&free) {
            return Some(free);
        }
    }
    None
}

/// Whether the nesting refines that of `b`: leaves become leaves or flat tuples of the same size.
fn refines(found: &CuteModes, b: &CuteModes) -> bool {
    match (found, b) {
        (found, NestedTuple::Leaf(leaf)) => found.size().unwrap() == leaf.extent,
        (NestedTuple::Tuple(f), NestedTuple::Tuple(b)) => {
            f.len() == b.len() && f.iter().zip(b).all(|(f, b)| refines(f, b))
        }
        _ => false,
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_composition_is_its_law_or_no_layout_is(a in small(), b in small()) {
        let n = b.size().unwrap();
        let want: Vec<i64> = (0..n).map(|i| at(&a, at(&b, i))).collect();
        match composition(&a, &Tiler::Layout(b.clone())) {
            Ok(found) => {
                prop_assert_eq!(offsets(&found), want, "{}", found.print_cute_text(IntegerStyle::Bare));
                prop_assert!(refines(&found, &b), "{}", found.print_cute_text(IntegerStyle::Bare));
            }
            Err(LayoutError::NotExpressible { index, .. }) => {
                prop_assert!(!compatible(&want, &b), "{} o {}", a.print_cute_text(IntegerStyle::Bare), b.print_cute_text(IntegerStyle::Bare));
                prop_assert!((0..n).contains(&index));
            }
            Err(e) => prop_assert!(false, "{e}"),
        }
    }

    #[test]
    fn coalescing_keeps_the_function(a in small()) {
        let found = coalesce(&a);
        prop_assert_eq!(offsets(&found), offsets(&a));
        prop_assert_eq!(coalesce(&found), found.clone());
        let leaves = found.leaves();
        prop_assert!(leaves.len() == 1 || leaves.iter().all(|m| m.extent > 1));
    }

    #[test]
    fn a_complement_fills_what_is_free(a in small(), cosize in 0i64..200) {
        // Modes of stride 0 do not count.
        let moving: Vec<CuteMode> = a.leaves().into_iter().filter(|m| m.stride != 0).cloned().collect();
        let moving = NestedTuple::Tuple(moving.into_iter().map(NestedTuple::Leaf).collect());
        match complement(&a, cosize) {
            Ok(found) => {
                let strides: Vec<i64> = found.leaves().iter().map(|m| m.stride).collect();
                prop_assert!(strides.is_sorted());
                let mut all = HashSet::new();
                for i in offsets(&moving) {
                    for j in offsets(&found) {
                        prop_assert!(all.insert(i + j), "{}", found.print_cute_text(IntegerStyle::Bare));
                    }
                }
                prop_assert!((0..cosize).all(|p| all.contains(&p)), "{}", found.print_cute_text(IntegerStyle::Bare));
            }
            Err(LayoutError::Aliased { a: i, b: j, .. }) => {
                prop_assert!(i != j && at(&a, i) == at(&a, j));
            }
            Err(e) => prop_assert!(matches!(e, LayoutError::NotExpressible { .. }), "{e}"),
        }
    }

    #[test]
    fn inverses_are_inverse(a in small()) {
        let right = right_inverse(&a).unwrap();
        for i in 0..right.size().unwrap() {
            prop_assert_eq!(at(&a, at(&right, i)), i, "{}", right.print_cute_text(IntegerStyle::Bare));
        }
        match left_inverse(&a) {
            Ok(left) => for i in 0..a.size().unwrap() {
                prop_assert_eq!(at(&left, at(&a, i)), i, "{}", left.print_cute_text(IntegerStyle::Bare));
            },
            Err(LayoutError::Aliased { a: i, b: j, .. }) => prop_assert_eq!(at(&a, i), at(&a, j)),
            // Small as they are, all digits are tried.
            Err(e) => prop_assert!(matches!(e, LayoutError::NotExpressible { .. }), "{e}"),
        }
    }

    /// Divides and products have one function and differ in nesting alone.
    #[test]
    fn divides_and_products_are_their_laws(a in small(), b in small()) {
        let tiler = Tiler::Layout(b.clone());
        if let Ok(rest) = complement(&b, a.size().unwrap()) {
            let both = NestedTuple::Tuple(vec![b.clone(), rest]);
            let want: Vec<i64> = offsets(&both).iter().map(|i| at(&a, *i)).collect();
            for arrange in [TileArrangement::Logical, TileArrangement::Zipped, TileArrangement::Tiled, TileArrangement::Flat] {
                match divide_by_tiler(&a, &tiler, arrange) {
                    Ok(found) => prop_assert_eq!(offsets(&found), want.clone()),
                    Err(e) => prop_assert!(!compatible(&want, &both), "{e}"),
                }
            }
        }
        // Modes of stride 0 do not count, as in a complement.
        let moving: Vec<_> = a.leaves().into_iter().filter(|m| m.stride != 0).cloned().collect();
        let moving = NestedTuple::Tuple(moving.into_iter().map(NestedTuple::Leaf).collect());
        match free_places(&offsets(&moving), b.cosize().unwrap()) {
            Some(free) => {
                let copies: Vec<i64> = offsets(&b).iter().map(|i| free[usize::try_from(*i).unwrap()]).collect();
                let want: Vec<i64> = copies.iter().flat_map(|c| offsets(&a).into_iter().map(move |o| c + o)).collect();
                for arrange in [TileArrangement::Logical, TileArrangement::Zipped, TileArrangement::Tiled, TileArrangement::Flat] {
                    match product_with_tiler(&a, &tiler, arrange) {
                        Ok(found) => prop_assert_eq!(offsets(&found), want.clone()),
                        Err(e) => prop_assert!(!compatible(&copies, &b), "{e}"),
                    }
                }
            }
            None => prop_assert!(
                product_with_tiler(&a, &tiler, TileArrangement::Logical).is_err(),
                "{} x {}", a.print_cute_text(IntegerStyle::Bare), b.print_cute_text(IntegerStyle::Bare)
            ),
        }
    }
}

/// Where no complement covers a whole product, the requested copies may still have offsets.
#[test]
fn products_need_the_copies_that_are_asked_for() {
    let read = |t: &str| {
        cute::parse(t).unwrap().as_layout_text().unwrap().modes_with_numbers(None).unwrap()
    };
    for (a, b, want) in [
        ("(3,2,2):(5,4,16)", "1:2", "((3,2,2),1):((5,4,16),0)"),
        ("(2,2):(1,1)", "1:0", "((2,2),1):((1,1),0)"),
        // Copies at 0 and 1 do not overlap; no copy can start at 2, where it would overlap the first.
        ("(2,2):(4,6)", "2:1", "((2,2),2):((4,6),1)"),
        ("(2,2):(4,6)", "(2,2):(0,1)", "((2,2),(2,2)):((4,6),(0,1))"),
    ] {
        let found = product_with_tiler(&read(a), &Tiler::Layout(read(b)), TileArrangement::Logical);
        assert_eq!(
            found.map(|m| m.print_cute_text(IntegerStyle::Bare)).as_deref(),
            Ok(want),
            "{a} x {b}"
        );
    }
    let error = product_with_tiler(
        &read("(2,2):(4,6)"),
        &Tiler::Layout(read("3:1")),
        TileArrangement::Logical,
    );
    assert!(matches!(error, Err(LayoutError::NotExpressible { .. })), "{error:?}");
}

/// Compositions and complements that other implementations of these operators answer with a wrong layout.
#[test]
fn known_mistakes_are_right_or_refused_with_a_witness() {
    let read = |t: &str| {
        cute::parse(t).unwrap().as_layout_text().unwrap().modes_with_numbers(None).unwrap()
    };
    for (a, b, witness) in [
        ("(6,2):(1,7)", "(3,2):(2,3)", 5),
        ("(4,6,8):(2,3,5)", "6:3", 3),
        ("(4,2):(2,1)", "6:1", 4),
        ("(6,2):(8,1)", "(2,4):(3,1)", 7),
    ] {
        let (am, bm) = (read(a), read(b));
        let error = composition(&am, &Tiler::Layout(bm.clone())).unwrap_err();
        let LayoutError::NotExpressible { index, .. } = error else { panic!("{a} o {b}: {error}") };
        assert_eq!(index, witness, "{a} o {b}");
    }
    let found =
        composition(&read("(8,2,4):(0,8,16)"), &Tiler::Layout(read("(12,4):(12,1)"))).unwrap();
    assert_eq!(found.print_cute_text(IntegerStyle::Bare), "((2,6),4):((8,24),0)");
    let error = complement(&read("(2,2):(1,1)"), 8).unwrap_err();
    assert!(matches!(error, LayoutError::Aliased { a: 1, b: 2, .. }), "{error}");
    // Witnesses are indices of the given layout, with its modes of stride 0.
    let error = complement(&read("(3,2,2):(0,1,1)"), 8).unwrap_err();
    assert!(matches!(error, LayoutError::Aliased { a: 3, b: 6, .. }), "{error}");
}

/// Strides on a basis are axes of their own, and composition steps along modes.
#[test]
fn basis_strides_step_along_modes() {
    let axes = AxisTable::new();
    let read = |t: &str| {
        cute::parse(t).unwrap().as_layout_text().unwrap().modes_with_numbers(None).unwrap()
    };
    let text = "(_4,(_2,_3)):(_1@1,(_1@0,_2@0))";
    let layout = parse(text, &axes).unwrap().layout_over_shape(None).unwrap();
    let found = layout.apply_to_coordinate(&[4, 6], &[3, 5]).unwrap().sorted_coordinates();
    let on = |basis: &[usize]| found[0].get(cute::axis_of_mode_basis(basis).unwrap());
    assert_eq!((on(&[0]), on(&[1])), (1 + 4, 3));
    let again = convert_layout(&layout, &[4, 6], None, Notation::CUTE).unwrap();
    assert_eq!(again, "(4,6):(1@1,1@0)");
    let a = read("(8,4):(1@0,1@1)");
    let found = composition(&a, &Tiler::Layout(read("(2,16):(16,1)"))).unwrap();
    assert_eq!(found.print_cute_text(IntegerStyle::Bare), "(2,(8,2)):(2@1,(1@0,1@1))");
    let found = composition(
        &read("(8,(4,2)):(10,(1,100))"),
        &Tiler::Layout(read("(2,(2,4)):(1@1@1,(2@0,1@0@1))")),
    )
    .unwrap();
    assert_eq!(found.print_cute_text(IntegerStyle::Bare), "(2,(2,4)):(100,(20,1))");
    let past = composition(&a, &Tiler::Layout(read("16:1@0"))).unwrap_err();
    assert!(matches!(past, LayoutError::OutsideDomain { size: 8, .. }), "{past}");
    // The last mode is extended.
    let on = composition(&a, &Tiler::Layout(read("16:1@1"))).unwrap();
    assert_eq!(on.print_cute_text(IntegerStyle::Bare), "16:1@1");
}
