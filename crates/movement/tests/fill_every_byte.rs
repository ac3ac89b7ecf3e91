//! Destinations of which every byte is known: an element, or the fill.

mod common;

use common::{Random, config, elements, injective, side, windowed};
use proptest::prelude::*;
use zellige_float::Dtype;
use zellige_layout::{Axis, Iter, Layout, StridedLayout, TileLayout};
use zellige_movement::{MoveDtypes, MovePlan, Mover, PaddingFill, reference};
use zellige_stick::StickLayout;

const POISON: u32 = 0xdead_beef;
const FILL: u32 = 0x0777_7777;

fn row_major(shape: &[i64]) -> Layout {
    StridedLayout::new_contiguous(shape).and_then(|s| s.to_layout()).expect("a small layout")
}

/// What a destination of `len` elements must hold, from the definition of a layout alone.
fn wanted(dst: &Layout, len: usize) -> Vec<u32> {
    let mut want = vec![FILL; len];
    for i in 0..dst.size() {
        for p in dst.physical_coordinates(i).expect("inside").sorted_coordinates() {
            want[usize::try_from(p.get(Axis::M)).expect("0 or more")] =
                u32::try_from(i).expect("small") + 1;
        }
    }
    want
}

fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

/// Moves into poisoned memory, by the plan step by step and by the engine.
fn check(dst: &Layout, shape: &[i64], behind: usize) -> Result<(), TestCaseError> {
    let src = row_major(shape);
    let len = elements(dst) + behind;
    let fill = PaddingFill::Rest { len: i64::try_from(len).expect("small") };
    let from: Vec<u32> = (1..=u32::try_from(src.size()).expect("small")).collect();
    let want = wanted(dst, len);
    match MovePlan::between(&src, dst, shape, fill) {
        Ok(plan) => {
            let mut got = vec![POISON; len];
            reference::run_plan(&plan, &from, &mut got, Some(FILL));
            prop_assert_eq!(&got, &want, "{:?}\n{}", dst, plan);
            let places = plan.cost_in_bytes(4, 4).bytes_written / 4;
            prop_assert_eq!(usize::try_from(places).expect("small"), len, "each once: {}", plan);
        }
        Err(e) if matches!(e.kind(), "aliased" | "bad_parameter") => return Ok(()),
        Err(e) => return Err(TestCaseError::fail(format!("{dst:?}: {e}"))),
    }
    let mover = Mover::between(&src, dst, shape, MoveDtypes::Bytes(4), fill).expect("a mover");
    let mut got = bytes(&vec![POISON; len]);
    mover.run_on_slices(&bytes(&from), &mut got, Some(&FILL.to_le_bytes()), 2).expect("it fits");
    prop_assert_eq!(got, bytes(&want), "{:?}", dst);
    Ok(())
}

proptest! {
    #![proptest_config(config())]

    /// Strides with gaps, reversed ones, offsets, replicas and swizzles.
    #[test]
    fn gaps_of_strides(n in 1i64..400, seed in any::<u64>(), behind in 0usize..20) {
        check(&injective(n, seed), &[n], behind)?;
    }

    /// Windows of padded shapes, of which some interleave.
    #[test]
    fn gaps_of_windows(shape in prop::collection::vec(1i64..9, 1..4), seed in any::<u64>()) {
        check(&windowed(&shape, seed), &shape, usize::try_from(seed % 7).expect("small"))?;
    }

    /// Device layouts and views of them.
    #[test]
    fn gaps_of_sticks(seed in any::<u64>()) {
        let random = &mut Random(seed);
        let sizes = [1, 2, 3, 5, 7, 17, 33, 64, 65, 100];
        let shape: Vec<i64> = (0..=random.below(3)).map(|_| sizes[random.below(sizes.len())]).collect();
        if shape.iter().product::<i64>() <= 4000
            && let Ok(dst) = side(&shape, random)
            && elements(&dst) <= 40_000
        {
            check(&dst, &shape, random.below(70))?;
        }
    }

    /// Strides that do not nest, such as S[(2,3):(3,2)], whose elements interleave.
    #[test]
    fn gaps_of_strides_that_interleave(
        dims in prop::collection::vec((1i64..6, 1i64..14), 1..4),
        offset in 0i64..9,
    ) {
        let shape: Vec<i64> = dims.iter().map(|d| d.0).collect();
        let shard = dims.iter().map(|(n, s)| Iter::in_memory(*n, *s)).collect();
        let tile = TileLayout::new(shard, vec![], [(Axis::M, offset)]).expect("small");
        check(&tile.into(), &shape, 3)?;
    }
}

/// A dense destination has nothing to fill, and one gap is one fill, however large.
#[test]
fn gaps_are_formulas() {
    let plan = |dst: &Layout, shape: &[i64], len: i64| {
        MovePlan::between(&row_major(shape), dst, shape, PaddingFill::Rest { len }).expect("a plan")
    };
    let shape = [1 << 20, 1 << 20];
    let dense =
        StridedLayout::new(&shape, &[1, 1 << 20], 0).and_then(|s| s.to_layout()).expect("small");
    assert!(plan(&dense, &shape, 1 << 40).fills().is_empty());
    let rows = StridedLayout::new(&shape, &[(1 << 20) + 24, 1], 960).and_then(|s| s.to_layout());
    let plan = plan(&rows.expect("small"), &shape, 1 << 41);
    let filled: i64 = plan.fills().iter().map(|f| f.element_count()).sum();
    assert_eq!((plan.fills().len(), filled), (3, (1 << 41) - (1 << 40)), "{plan}");
}

/// Gaps that are too many to list are written before the elements.
#[test]
fn scattered_gaps_are_filled_first() {
    let shape = [7_000, 3_001];
    let tile = TileLayout::new(
        vec![Iter::in_memory(7_000, 3_001 * 2), Iter::in_memory(3_001, 7_000 * 2)],
        vec![],
        [(Axis::M, 5)],
    );
    let dst: Layout = tile.expect("fits").into();
    let src = row_major(&shape);
    let len = dst.axis_span(Axis::M).expect("fits") + 3;
    let fill = PaddingFill::Rest { len };
    let refused = MovePlan::between(&src, &dst, &shape, fill).expect_err("too many gaps");
    assert_eq!(refused.kind(), "too_large");
    let mover = Mover::between(&src, &dst, &shape, MoveDtypes::Bytes(1), fill).expect("a mover");
    let len = usize::try_from(len).expect("small");
    assert_eq!(mover.dst_bytes(), len);
    let from: Vec<u8> = (0..7_000 * 3_001).map(|i| u8::try_from(i % 251).expect("small")).collect();
    let mut want = vec![255u8; len];
    for i in 0..7_000 {
        for j in 0..3_001 {
            want[5 + i * 6_002 + j * 14_000] = from[i * 3_001 + j];
        }
    }
    for threads in [1, 3] {
        let mut got = vec![254u8; len];
        let run = || mover.run_on_slices(&from, &mut got, Some(&[255]), threads);
        zellige_host::crew::insist_on_helpers(run).expect("it fits");
        assert!(got == want, "with {threads} threads");
    }
    let written = u64::try_from(mover.cost().bytes_written).expect("small");
    assert_eq!(written, (len + 7_000 * 3_001) as u64);
    assert!(mover.run_on_slices(&from, &mut vec![0; len - 1], Some(&[255]), 1).is_err());
}

/// Runs of every length, also primes that are longer than the pattern.
#[test]
fn long_gaps_are_filled_whole() {
    for len in [1usize, 5, 4095, 4096, 4097, 8191, 10_007, 65_537, 1_000_003] {
        let fill = PaddingFill::Rest { len: i64::try_from(len).expect("small") + 1 };
        for width in [1usize, 2, 4, 8, 16] {
            let dtypes = MoveDtypes::Bytes(width);
            let mover = Mover::between(&row_major(&[1]), &row_major(&[1]), &[1], dtypes, fill);
            let mut got = vec![1u8; (len + 1) * width];
            mover
                .expect("a mover")
                .run_on_slices(&vec![9; width], &mut got, Some(&vec![7; width]), 1)
                .expect("it fits");
            assert!(got[..width].iter().all(|b| *b == 9) && got[width..].iter().all(|b| *b == 7));
        }
    }
}

/// Where padding is all that holds no element, filling the rest is filling the padding, loop by loop.
#[test]
fn the_rest_of_padded_sticks_is_their_padding() {
    for shape in [vec![7i64, 100], vec![3, 5, 130], vec![2, 3, 4, 65]] {
        let sticks = StickLayout::default_for_dtype(&shape, Dtype::Float16)
            .and_then(|s| s.lower_to_layout());
        let sticks = sticks.expect("sticks");
        let len = i64::try_from(elements(&sticks)).expect("small");
        let src = row_major(&shape);
        let rest =
            MovePlan::between(&src, &sticks, &shape, PaddingFill::Rest { len }).expect("a plan");
        let padding =
            MovePlan::between(&src, &sticks, &shape, PaddingFill::Padding).expect("a plan");
        assert_eq!(rest, padding);
        // One element more is a gap that is no padding.
        let more = MovePlan::between(&src, &sticks, &shape, PaddingFill::Rest { len: len + 1 });
        assert_ne!(more.expect("a plan"), padding);
    }
}
