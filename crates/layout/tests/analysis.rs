//! Banks, vectors, sectors, tables and the search, against the facts and against enumeration.

use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use zellige_layout::{
    Axis, ConflictRemedy, Iter, LaneAccessPattern, Layout, PaddedExtent, Swizzle, TileLayout,
    ValidWindow, unflatten_index,
};

fn row_major(shape: &[i64]) -> Layout {
    TileLayout::row_major(shape).expect("small").into()
}

fn swizzled(bytes: i64, bits: i64, tile: TileLayout) -> Layout {
    Layout::from_swizzled_tile(Swizzle::shared_memory_mode(bytes, bits).expect("a mode"), tile)
        .expect("0 or more")
}

const COLUMN: LaneAccessPattern = LaneAccessPattern::Column { index: 0 };

#[test]
fn a_column_of_eight_half_rows_is_an_eight_way_conflict_until_swizzled() {
    let shape = [8, 64];
    let plain = row_major(&shape);
    assert_eq!(plain.find_bank_conflicts(&shape, 16, &COLUMN, 1).expect("small").ways, 8);
    let sw = swizzled(128, 16, TileLayout::row_major(&shape).expect("small"));
    for i in 0..8 {
        let m = sw.apply_to_coordinate(&shape, &[i, 0]).expect("inside").sorted_coordinates()[0]
            .get(Axis::M);
        assert_eq!(m, 72 * i);
    }
    let c = sw.find_bank_conflicts(&shape, 16, &COLUMN, 1).expect("small");
    assert!(c.is_conflict_free());
    assert_eq!(
        c.phases[0].banks.keys().copied().collect::<Vec<_>>(),
        [0, 4, 8, 12, 16, 20, 24, 28]
    );
}

/// Section 5: 8 rows of 16 bytes are conflict-free in every mode whose width is the row pitch; with
/// no swizzle they are 2-, 4- and 8-way; with a mode narrower than the row 4- or 2-way.
#[test]
fn eight_rows_of_sixteen_bytes_in_every_mode_and_width() {
    for bits in [64, 32, 16, 8, 4] {
        for (pitch, none) in [(32, 2), (64, 4), (128, 8)] {
            let shape = [8, pitch * 8 / bits];
            let tile = TileLayout::row_major(&shape).expect("small");
            let ways = |l: &Layout| {
                let access = LaneAccessPattern::Ldmatrix { row: 0, column: 0 };
                l.find_bank_conflicts(&shape, bits, &access, 1).expect("small").ways
            };
            assert_eq!(ways(&tile.clone().into()), none, "{bits} bits, {pitch} bytes");
            assert_eq!(ways(&swizzled(pitch, bits, tile.clone())), 1, "{bits} bits, {pitch} bytes");
            if pitch == 128 {
                assert_eq!(ways(&swizzled(32, bits, tile.clone())), 4);
                assert_eq!(ways(&swizzled(64, bits, tile)), 2);
            }
        }
    }
}

#[test]
fn the_same_word_is_shared_and_wide_vectors_take_phases() {
    let shape = [32, 32];
    let l = row_major(&shape);
    let same = LaneAccessPattern::Lanes(vec![vec![3, 5]; 32]);
    assert_eq!(l.find_bank_conflicts(&shape, 32, &same, 1).expect("small").ways, 1);
    let row =
        l.find_bank_conflicts(&shape, 32, &LaneAccessPattern::Row { index: 0 }, 4).expect("small");
    assert_eq!((row.ways, row.phases.len()), (1, 1));
    let wide: Vec<_> = (0..32).map(|i| vec![i, 0]).collect();
    let c = l.find_bank_conflicts(&shape, 32, &LaneAccessPattern::Lanes(wide), 4).expect("small");
    assert_eq!((c.phases.len(), c.ways), (4, 8));
    assert!(
        l.find_bank_conflicts(&shape, 32, &LaneAccessPattern::Column { index: 32 }, 1).is_err()
    );
    assert!(l.find_bank_conflicts(&shape, 32, &COLUMN, 33).is_err());
    assert!(l.find_bank_conflicts(&shape, 0, &COLUMN, 1).is_err());
}

#[test]
fn vectors_and_sectors_of_known_layouts() {
    let l = row_major(&[8, 64]);
    assert_eq!(l.vector_width(&[8, 64], 16).expect("small").elements, 8);
    assert_eq!(l.vector_width(&[8, 64], 32).expect("small").elements, 4);
    let odd = Layout::from(TileLayout::from_strides(&[8, 64], &[65, 1], 0).expect("small"));
    assert_eq!(odd.vector_width(&[8, 64], 16).expect("small").elements, 1);
    let shifted = Layout::from(TileLayout::from_strides(&[8, 64], &[64, 1], 2).expect("small"));
    assert_eq!(shifted.vector_width(&[8, 64], 16).expect("small").elements, 2);
    // Elements inside padding: rows that begin beside a multiple of the vector, and rows that are too far apart.
    for (padded, window, elements) in [
        (vec![8], vec![(1, 4, 8)], 1),
        (vec![8], vec![(2, 4, 8)], 2),
        (vec![8], vec![(4, 4, 8)], 4),
        (vec![2, 6], vec![(0, 2, 2), (0, 4, 6)], 2),
        (vec![2, 6], vec![(0, 2, 2), (2, 4, 6)], 2),
        (vec![2, 8], vec![(0, 2, 2), (0, 4, 8)], 4),
        (vec![4, 3], vec![(0, 1, 4), (0, 3, 3)], 1),
    ] {
        let dims = window.iter().map(|(begin, valid, padded)| PaddedExtent {
            begin: *begin,
            valid: *valid,
            padded: *padded,
        });
        let window = ValidWindow::new(dims.collect()).expect("inside");
        let shape = window.shape();
        let l = row_major(&padded).with_window(window).expect("its size");
        assert_eq!(l.vector_width(&shape, 32).expect("small").elements, elements, "{l:?}");
    }
    let row = LaneAccessPattern::Row { index: 0 };
    assert_eq!(row_major(&[4, 32]).count_sectors(&[4, 32], 32, &row, 1), Ok(vec![4]));
    assert_eq!(row_major(&[32, 32]).count_sectors(&[32, 32], 32, &COLUMN, 1), Ok(vec![32]));
}

#[test]
fn the_search_finds_conflict_free_layouts_for_any_shape() {
    for (shape, bits) in [([8, 64], 16), ([32, 32], 32), ([16, 128], 8), ([8, 16], 64)] {
        let l = row_major(&shape);
        let accesses = [(COLUMN, 1), (LaneAccessPattern::Row { index: 0 }, 1)];
        let best = l.find_least_conflict_swizzle(&shape, bits, &accesses).expect("small");
        assert_eq!(best.ways, [1, 1], "{shape:?} {bits}: {:?}", best.remedy);
        assert!(matches!(best.remedy, ConflictRemedy::Swizzle(_)), "{:?}", best.remedy);
        assert_eq!(best.layout.is_injective(), Ok(true));
    }
    // Ldmatrix rows must stay whole, which leaves the documented mode.
    let access = [(LaneAccessPattern::Ldmatrix { row: 0, column: 0 }, 1)];
    let best =
        row_major(&[8, 64]).find_least_conflict_swizzle(&[8, 64], 16, &access).expect("small");
    assert_eq!(best.remedy, ConflictRemedy::Swizzle(Swizzle::new(3, 3, 3, true).expect("mode")));
    // Nothing to do where nothing conflicts.
    let row = [(LaneAccessPattern::Row { index: 0 }, 1)];
    let best = row_major(&[8, 64]).find_least_conflict_swizzle(&[8, 64], 16, &row).expect("small");
    assert_eq!(best.remedy, ConflictRemedy::None);
    // A pitch of 96 words: not a power of two, still solved.
    let best = row_major(&[32, 96])
        .find_least_conflict_swizzle(&[32, 96], 32, &[(COLUMN, 1)])
        .expect("small");
    assert_eq!(best.ways, [1], "{:?}", best.remedy);
}

#[test]
fn lints_name_what_is_wrong() {
    let pid = Axis::PID;
    // The mesh preset that aliases on purpose.
    let tile = TileLayout::new(
        vec![Iter::new(2, 1, pid), Iter::in_memory(2, 2), Iter::in_memory(4, 1)],
        vec![Iter::new(2, 2, pid)],
        [],
    );
    let ids = |l: &Layout, shape: &[i64]| -> Vec<&str> {
        l.find_lints(shape, Some(16)).expect("small").iter().map(|l| l.id).collect()
    };
    assert_eq!(ids(&tile.expect("small").into(), &[4, 4]), ["aliasing"]);
    assert_eq!(ids(&row_major(&[8, 64]), &[8, 64]), ["bank-conflict"]);
    let tile = TileLayout::from_shard(vec![Iter::new(64, 1, Axis::LANEID)]).expect("small");
    assert_eq!(ids(&tile.into(), &[64]), ["out-of-hardware"]);
    assert_eq!(ids(&row_major(&[0, 4]), &[0, 4]), ["empty"]);
    let back = Layout::from(TileLayout::from_strides(&[4], &[-1], 0).expect("small"));
    assert_eq!(ids(&back, &[4])[0], "negative-coordinate");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn conflicts_are_those_of_enumeration(
        strides in (1i64..70, 1i64..5), shape in (1i64..40, 1i64..9), bits in prop::sample::select(vec![4i64, 8, 16, 32, 64]), mode in prop::sample::select(vec![0i64, 32, 64, 128])
    ) {
        let shape = [shape.0, shape.1];
        let tile = TileLayout::from_strides(&shape, &[strides.0, strides.1], 0).expect("small");
        let l = swizzled(mode, bits, tile);
        let c = l.find_bank_conflicts(&shape, bits, &COLUMN, 1).expect("small");
        // Words per bank and phase, from the address of each element.
        let per_phase = if bits <= 32 { 32 } else { 16 };
        let mut worst = 0;
        for lanes in (0..shape[0]).collect::<Vec<_>>().chunks(32).flat_map(|w| w.chunks(per_phase)) {
            let mut banks: BTreeMap<i64, BTreeSet<i64>> = BTreeMap::new();
            for i in lanes {
                let m = l.apply_to_coordinate(&shape, &[*i, 0]).expect("inside").sorted_coordinates()[0].get(Axis::M);
                for bit in 0..bits {
                    let word = (m * bits + bit) / 32;
                    banks.entry(word % 32).or_default().insert(word);
                }
            }
            worst = worst.max(banks.values().map(BTreeSet::len).max().unwrap_or(0));
        }
        prop_assert_eq!(c.ways, worst);
    }

    #[test]
    fn vector_widths_are_those_of_enumeration(
        iters in prop::collection::vec((1i64..5, 0i64..20), 1..4), offset in 0i64..9, bits in prop::sample::select(vec![8i64, 16, 32]), last in 1i64..9
    ) {
        let shard: Vec<Iter> = iters.iter().map(|(e, s)| Iter::in_memory(*e, *s)).collect();
        let l = Layout::from(TileLayout::new(shard, vec![], [(Axis::M, offset)]).expect("small"));
        let shape = if l.size() % last == 0 { vec![l.size() / last, last] } else { vec![l.size()] };
        let at = |i: i64| l.physical_coordinates(i).expect("inside").sorted_coordinates()[0].get(Axis::M);
        let mut want = 1;
        let mut v = 1;
        while v * 2 * bits <= 128 {
            v *= 2;
            let fits = shape.last().expect("not empty") % v == 0
                && (0..l.size() / v).all(|q| at(q * v) % v == 0 && (0..v).all(|j| at(q * v + j) == at(q * v) + j));
            if !fits { break; }
            want = v;
        }
        prop_assert_eq!(l.vector_width(&shape, bits).expect("small").elements, want);
    }

    #[test]
    fn tables_are_places(
        iters in prop::collection::vec((1i64..9, -3i64..20), 0..5), big in 1i64..3000, swizzle in any::<bool>()
    ) {
        let mut shard: Vec<Iter> = iters.iter().map(|(e, s)| Iter::in_memory(*e, *s)).collect();
        shard.push(Iter::new(2, 3, Axis::LANEID));
        shard.push(Iter::in_memory(big, 2));
        let tile = TileLayout::new(shard, vec![], [(Axis::M, 60)]).expect("small");
        let l = if swizzle && tile.axis_bounds(Axis::M).min >= 0 { swizzled(128, 16, tile) } else { tile.into() };
        let table = l.offset_table(Axis::M).expect("small");
        let lanes = l.offset_table(Axis::LANEID).expect("small");
        prop_assert_eq!(i64::try_from(table.len()).expect("small"), l.size());
        for i in (0..l.size()).step_by(7) {
            let p = &l.physical_coordinates(i).expect("inside").sorted_coordinates()[0];
            let k = usize::try_from(i).expect("small");
            prop_assert_eq!((table[k], lanes[k]), (p.get(Axis::M), p.get(Axis::LANEID)), "{:?}", unflatten_index(&[l.size()], i));
        }
    }
}
