//! Left inverses: they map every physical coordinate of every element to its index, or no digits do.

use crate::common::{Place, config, define, nested, place_of, swizzle, swizzled_of, table};
use proptest::prelude::*;
use std::collections::BTreeSet;
use zellige_layout::{
    Axis, InverseLayout, Iter, Layout, LayoutError, LayoutWitness, TileLayout, flatten_coordinate,
};

/// The value of an inverse at a physical coordinate, which must be in its domain.
fn element_at(inverse: &InverseLayout, place: &Place) -> i64 {
    let at = |axis: &Axis| place.get(axis).copied().unwrap_or(0);
    let coordinate: Vec<i64> = inverse.axes.iter().map(at).collect();
    let flat = flatten_coordinate(&inverse.shape, &coordinate).expect("in the domain");
    inverse.layout.physical_coordinates(flat).expect("inside").sorted_coordinates()[0].get(Axis::M)
}

/// Whether digits of the numbers, in any mixed radix and with any integer strides, give the values:
/// every sequence of extents is tried.
fn some_digits_give(pairs: &[(i64, i64)]) -> bool {
    fn grow(pairs: &[(i64, i64)], last: i64, extents: &mut Vec<i64>) -> bool {
        let weight: i64 = extents.iter().product();
        let rows: Vec<Vec<i128>> = pairs
            .iter()
            .map(|(at, _)| {
                let mut row = vec![1];
                let mut rest = *at;
                for extent in extents.iter() {
                    row.push(i128::from(rest % extent));
                    rest /= extent;
                }
                row.push(i128::from(rest));
                row
            })
            .collect();
        let values = pairs.iter().map(|(_, value)| i128::from(*value)).collect();
        solvable(rows, values)
            || (2..=last / weight).any(|extent| {
                extents.push(extent);
                let found = grow(pairs, last, extents);
                extents.pop();
                found
            })
    }
    let last = pairs.iter().map(|(at, _)| *at).max().expect("not empty");
    grow(pairs, last, &mut Vec::new())
}

/// Whether integers solve `rows . x = values`: whether the values are in the lattice of the columns,
/// which are brought into echelon form row by row.
fn solvable(mut rows: Vec<Vec<i128>>, mut values: Vec<i128>) -> bool {
    let width = rows[0].len();
    let mut done = 0;
    for r in 0..rows.len() {
        while let Some(least) =
            (done..width).filter(|c| rows[r][*c] != 0).min_by_key(|c| rows[r][*c].abs())
        {
            rows.iter_mut().for_each(|row| row.swap(done, least));
            for c in done + 1..width {
                let times = rows[r][c] / rows[r][done];
                rows.iter_mut().for_each(|row| row[c] -= times * row[done]);
            }
            if rows[r][done + 1..].iter().all(|v| *v == 0) {
                let times = values[r] / rows[r][done];
                values.iter_mut().zip(&rows).for_each(|(v, row)| *v -= times * row[done]);
                done += 1;
                break;
            }
        }
        if values[r] != 0 {
            return false;
        }
    }
    true
}

/// Whether on every axis some digits give what elements up to `index` count there.
fn digits_exist(l: &Layout, index: i64) -> bool {
    let iters = l.tile().shard();
    let counted = |i: i64, axis: Axis| -> i64 {
        let mut weight = l.size();
        let parts = iters.iter().map(|it| {
            weight /= it.extent;
            if it.axis == axis { i / weight % it.extent * weight } else { 0 }
        });
        parts.sum()
    };
    l.tile().axes().iter().all(|axis| {
        let pairs: BTreeSet<(i64, i64)> = (0..=index)
            .flat_map(|i| define(l, i).into_iter().map(move |p| (i, p)))
            .map(|(i, p)| (p.get(axis).copied().unwrap_or(0), counted(i, *axis)))
            .collect();
        some_digits_give(&pairs.into_iter().collect::<Vec<_>>())
    })
}

/// An inverse is one, and a refusal shows that there is none: two elements in one place, a place below
/// 0, or the first index up to which no digits give back the elements. Only behind a swizzle may the
/// answer be that none was found.
fn check_left_inverse(l: &Layout) -> Result<(), TestCaseError> {
    match l.left_inverse() {
        Ok(inverse) => {
            for (i, all) in (0..).zip(table(l)) {
                for p in all {
                    let found = element_at(&inverse, &p);
                    prop_assert_eq!(found, i, "{:?} {:?} at {:?}", l, inverse, p);
                }
            }
        }
        Err(LayoutError::Aliased { a, b, place }) => {
            prop_assert!(a != b && define(l, a).contains(&place_of(&place)));
            prop_assert!(define(l, b).contains(&place_of(&place)));
        }
        Err(LayoutError::BadParameter { value, .. }) => {
            let below = |p: &Place| p.values().any(|v| *v == value && value < 0);
            prop_assert!(table(l).iter().flatten().any(below));
        }
        Err(LayoutError::NotExpressible { index, .. }) => {
            prop_assert!(l.effective_swizzle().is_none() && (0..l.size()).contains(&index));
            prop_assert!(!digits_exist(l, index), "{:?} has one up to {}", l, index);
            prop_assert!(digits_exist(l, index - 1), "{:?} has none up to {}", l, index - 1);
        }
        Err(e) => prop_assert!(e.kind() == "undecided" && l.effective_swizzle().is_some(), "{e}"),
    }
    Ok(())
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn left_inverses_exist_or_cannot(l in swizzled_of(&["m", "F"]), nest in nested(), sw in swizzle(), pick in 0..4) {
        check_left_inverse(&match pick {
            0 | 1 => l,
            2 => Layout::from_swizzled_tile(sw, nest).expect("0 or more"),
            _ => nest.into(),
        })?;
    }

    /// Strides that do not nest, of either sign, with an offset: most refusals are among these.
    #[test]
    fn left_inverses_of_overlapping_iters(
        iters in prop::collection::vec((2i64..4, 1i64..20, any::<bool>()), 2..4),
        copies in prop::collection::vec((2i64..3, 1i64..20), 0..2),
        from in 0i64..4,
    ) {
        let back = iters.iter().filter(|(_, _, back)| *back);
        let low: i64 = back.map(|(extent, stride, _)| (extent - 1) * stride).sum();
        let signed: Vec<(i64, i64)> =
            iters.iter().map(|(e, s, back)| (*e, if *back { -s } else { *s })).collect();
        check_left_inverse(&mem(&signed, &copies, low + from))?;
    }
}

fn mem(iters: &[(i64, i64)], copies: &[(i64, i64)], offset: i64) -> Layout {
    let on_m = |list: &[(i64, i64)]| list.iter().map(|(e, s)| Iter::in_memory(*e, *s)).collect();
    TileLayout::new(on_m(iters), on_m(copies), [(Axis::M, offset)]).expect("small").into()
}

#[test]
fn left_inverses_that_strides_do_not_show() {
    // Digits of extent 2 under 3: the strides 2 and 3 do not nest.
    let found = mem(&[(2, 2), (2, 3)], &[], 0).left_inverse().expect("2 and 3 are apart");
    assert_eq!(
        [0, 3, 2, 5].map(|p| found
            .layout
            .physical_coordinates(p)
            .expect("inside")
            .sorted_coordinates()[0]
            .get(Axis::M)),
        [0, 1, 2, 3]
    );
    // Both copies of an element lead back to it.
    let found = mem(&[(6, 3)], &[(2, 7)], 0).left_inverse().expect("copies are apart");
    for i in 0..6 {
        for p in [3 * i, 3 * i + 7] {
            assert_eq!(
                found.layout.physical_coordinates(p).expect("inside").sorted_coordinates()[0]
                    .get(Axis::M),
                i
            );
        }
    }
    // Strides that are far apart and nest: solved in closed form, without listing any coordinate.
    let far = mem(&[(1 << 20, 3 << 30), (1 << 10, 1 << 4)], &[], 5).left_inverse();
    assert!(far.is_ok_and(|found| found.shape[0] > 1 << 50));
    // The same without a chain: the primes of the strides are enough.
    let (at, copies) = (1_000_000_003, [(2, 2_000_000_006), (2, 3_000_000_009)]);
    let found = mem(&copies, &[], 0).left_inverse().expect("2 and 3 are apart");
    for (p, i) in [(0, 0), (3 * at, 1), (2 * at, 2), (5 * at, 3)] {
        assert_eq!(
            found.layout.physical_coordinates(p).expect("inside").sorted_coordinates()[0]
                .get(Axis::M),
            i
        );
    }
}

#[test]
fn left_inverses_that_are_not_found_are_not_ruled_out() {
    let refusal = |l: &Layout| l.left_inverse().err().map(|e| (e.kind(), e.witness()));
    // Two elements in one place, and a place below 0.
    assert_eq!(refusal(&mem(&[(4, 1), (2, 3)], &[], 0)).map(|e| e.0), Some("aliased"));
    assert_eq!(refusal(&mem(&[(4, -1)], &[], 0)).map(|e| e.0), Some("bad_parameter"));
    // There are digits for the first five of eight elements and none for six, so the witness is 5.
    let refused = Some(("not_expressible", Some(LayoutWitness::Index(5))));
    assert_eq!(refusal(&mem(&[(2, 2), (2, 3), (2, 19)], &[], 0)), refused);
    // More places than are listed.
    assert_eq!(refusal(&mem(&[(70_000, 5), (2, 12)], &[], 0)), Some(("undecided", None)));
}
