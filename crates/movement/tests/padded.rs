//! Pairs of padded layouts: plans are exact, and stay small.

mod common;

use common::{Random, check, config, elements, padded_dims, side};
use proptest::prelude::*;
use zellige_float::Dtype;
use zellige_layout::{Iter, Layout, PaddedExtent, StridedLayout, TileLayout, ValidWindow};
use zellige_movement::{CopyNest, MovePlan, PaddingFill, reference};
use zellige_stick::StickLayout;

fn starts(plan: &MovePlan) -> usize {
    plan.nests().iter().map(|n| n.starts.len()).sum()
}

/// A shape of up to five dimensions with at most `most` elements.
fn shape(most: i64, sizes: &[i64], random: &mut Random) -> Vec<i64> {
    let mut shape = Vec::new();
    for _ in 0..=random.below(5) {
        let n = sizes[random.below(sizes.len())];
        if shape.iter().product::<i64>() * n <= most {
            shape.push(n);
        }
    }
    if shape.is_empty() { vec![most] } else { shape }
}

/// A pair of layouts of one tensor. Half of them see it in different shapes, of which one splits
/// dimensions of the other.
fn pair(most: i64, sizes: &[i64], random: &mut Random) -> (Layout, Layout, Vec<i64>) {
    loop {
        let fine = shape(most, sizes, random);
        let mut coarse: Vec<i64> = Vec::new();
        for n in &fine {
            match coarse.last_mut() {
                Some(last) if random.below(4) == 0 => *last *= n,
                _ => coarse.push(*n),
            }
        }
        let (a, b) = if random.below(2) == 0 { (&fine, &coarse) } else { (&fine, &fine) };
        // Some views of sticks have no layout.
        if let (Ok(src), Ok(dst)) = (side(a, random), side(b, random))
            && elements(&src).max(elements(&dst)) <= 10_000
        {
            return if random.below(2) == 0 { (src, dst, fine) } else { (dst, src, fine) };
        }
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn sticks_of_all_kinds(seed in any::<u64>()) {
        let sizes = [1, 2, 3, 4, 5, 7, 12, 17, 25, 31, 33, 48, 64, 65, 70, 100, 130, 200];
        let (src, dst, shape) = pair(2000, &sizes, &mut Random(seed));
        check(&src, &dst, &shape)?;
    }

    /// Each padded dimension cuts a piece into four at most: its two ends, and a body that a stick
    /// of the other side may cut once more.
    #[test]
    fn sticks_of_one_shape_take_few_starts(seed in any::<u64>()) {
        let random = &mut Random(seed);
        let sizes = [1, 2, 3, 5, 7, 12, 17, 25, 33, 64, 100, 130, 200, 240, 511, 1000, 4097];
        let shape = shape(1 << 40, &sizes, random);
        if let (Ok(src), Ok(dst)) = (side(&shape, random), side(&shape, random)) {
            let plan = MovePlan::between(&src, &dst, &shape, PaddingFill::Padding);
            let plan = plan.map_err(|e| TestCaseError::fail(format!("{src:?} -> {dst:?}: {e}")))?;
            let most = 4usize.pow(padded_dims(&src) + padded_dims(&dst));
            let starts = starts(&plan);
            prop_assert!(starts <= most, "{starts} > {most}: {src:?} -> {dst:?}\n{plan}");
        }
    }
}

/// Sticks of int16 along dimension 1 to sticks along dimension 4.
fn restickified(shape: &[i64]) -> (Layout, Layout) {
    let sticks = |order: &[i64]| {
        let sticks = StickLayout::with_dim_order(shape, None, Dtype::Int16, order);
        sticks.and_then(|s| s.lower_to_layout()).expect("a layout")
    };
    (sticks(&[0, 4, 2, 3, 1]), sticks(&[0, 1, 2, 3, 4]))
}

/// The windows [29, 132000] and [174000, 22] have the common refinement 29 x 6000 x 22.
#[test]
fn windows_that_cross_are_refined() {
    let shape = [29, 25, 12, 20, 22];
    let window = |dims: &[(i64, i64)]| {
        ValidWindow::new(dims.iter().map(|(v, p)| PaddedExtent::padded_to(*v, *p)).collect())
            .expect("a window")
    };
    let layout = |digits: &[(i64, i64)], dims: &[(i64, i64)]| {
        let tile =
            TileLayout::from_shard(digits.iter().map(|(e, s)| Iter::in_memory(*e, *s)).collect());
        Layout::from(tile.expect("a tile")).with_window(window(dims)).expect("a layout")
    };
    let src =
        layout(&[(29, 64), (64, 1), (240, 1856), (22, 445_440)], &[(29, 29), (132_000, 337_920)]);
    let dst = layout(&[(29, 64), (6000, 1856), (64, 1)], &[(174_000, 174_000), (22, 64)]);
    let plan = MovePlan::between(&src, &dst, &shape, PaddingFill::Padding).expect("a plan");
    assert_eq!((plan.nests().len(), starts(&plan)), (1, 1), "{plan}");
    assert_eq!((plan.element_count(), plan.fills().len()), (29 * 6000 * 22, 1));
    let (src, dst) = restickified(&[3, 7, 2, 4, 5]);
    check(&src, &dst, &[3, 7, 2, 4, 5]).expect("equal");
    // However large.
    let shape = [290, 250, 120, 200, 220];
    let (src, dst) = restickified(&shape);
    let plan = MovePlan::between(&src, &dst, &shape, PaddingFill::Padding).expect("a plan");
    assert!(starts(&plan) <= 4, "{plan}");
}

/// Views that begin inside a stick on both sides.
#[test]
fn views_on_both_sides_are_cut_at_their_ends() {
    let view = |whole: &[i64], begin: [i64; 2], dtype: Dtype| {
        let own = StridedLayout::new_contiguous(whole).expect("a host");
        let offset = begin[0] * own.stride()[0] + begin[1];
        let view = StridedLayout::new(&[4000, 5000], own.stride(), offset).expect("a view");
        let sticks = StickLayout::default_for_dtype(whole, dtype).expect("sticks");
        sticks.lower_view(&view).expect("a layout")
    };
    let src = view(&[4100, 6000], [13, 27], Dtype::Float16);
    let dst = view(&[5000, 5100], [70, 41], Dtype::Float32);
    let plan = MovePlan::between(&src, &dst, &[4000, 5000], PaddingFill::Leave).expect("a plan");
    // Up to the first stick of 64, whole sticks, the rest; each in three parts of sticks of 32.
    assert!(starts(&plan) <= 9, "{plan}");
    assert_eq!(plan.nests().iter().map(CopyNest::element_count).sum::<i64>(), 20_000_000);
}

/// Shapes that split no dimension of each other: as many starts as there are rows on both sides,
/// not as there are sticks.
#[test]
fn shapes_that_do_not_nest_are_cut_at_their_rows() {
    let sticks = |shape: &[i64]| {
        StickLayout::default_for_dtype(shape, Dtype::Float16)
            .and_then(|s| s.lower_to_layout())
            .expect("a layout")
    };
    let (src, dst) = (sticks(&[16_384, 16_411]), sticks(&[16_411, 16_384]));
    let plan =
        MovePlan::between(&src, &dst, &[16_384 * 16_411], PaddingFill::Leave).expect("a plan");
    // Twice 16 thousand rows, each with a first, a last and a loop of whole sticks.
    assert!(starts(&plan) < 3 * 2 * 16_411 * 2, "{}", starts(&plan));
    let (src, dst) = (sticks(&[12, 35]), sticks(&[70, 6]));
    check(&src, &dst, &[420]).expect("equal");
}

/// A window whose rows end inside digits is moved run by run.
#[test]
fn windows_across_digits_are_exact() {
    for (extents, padded) in [([4i64, 15], [6, 10]), ([9, 10], [6, 15]), ([7, 12], [12, 7])] {
        for (begin, valid) in
            [((0, 0), (5, 6)), ((1, 2), (4, 5)), ((2, 1), (1, 6)), ((0, 3), (6, 1))]
        {
            let tile = TileLayout::from_shard(vec![
                Iter::in_memory(extents[0], 1),
                Iter::in_memory(extents[1], extents[0]),
            ]);
            let dims = vec![
                PaddedExtent { begin: begin.0, valid: valid.0, padded: padded[0] },
                PaddedExtent { begin: begin.1, valid: valid.1, padded: padded[1] },
            ];
            let window = ValidWindow::new(dims).expect("a window");
            let crossing = Layout::from(tile.expect("a tile")).with_window(window).expect("fits");
            let shape = [valid.0, valid.1];
            let sticks = StickLayout::default_for_dtype(&shape, Dtype::Int64)
                .and_then(|s| s.lower_to_layout());
            let sticks = sticks.expect("a layout");
            check(&crossing, &sticks, &shape).expect("equal");
            check(&sticks, &crossing, &shape).expect("equal");
        }
    }
}

/// Rows of 3 in padded rows of 4 that overlap: what pads one row is the first element of the next.
#[test]
fn padding_is_not_written_over_elements() {
    let src = Layout::from(TileLayout::row_major(&[4, 3]).expect("small"));
    for replica in [vec![], vec![Iter::in_memory(2, 20)]] {
        let tile = TileLayout::new(vec![Iter::in_memory(4, 3), Iter::in_memory(4, 1)], replica, []);
        let window =
            ValidWindow::new(vec![PaddedExtent::without_padding(4), PaddedExtent::padded_to(3, 4)])
                .expect("a window");
        let dst = Layout::from(tile.expect("small")).with_window(window).expect("fits");
        let plan = MovePlan::between(&src, &dst, &[4, 3], PaddingFill::Padding).expect("a plan");
        let copies = usize::try_from(dst.tile().replica_count()).expect("small");
        assert_eq!(plan.fills()[0].starts, [12, 32][..copies]);
        let from: Vec<i64> = (1..13).collect();
        let mut to = vec![0; 33];
        reference::run_plan(&plan, &from, &mut to, Some(99));
        assert_eq!((&to[..12], to[12]), (&from[..], 99));
    }
}
