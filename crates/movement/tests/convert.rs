//! Converting moves against the definition: moved element by element, then cast one by one.

#![allow(clippy::cast_possible_truncation, reason = "the low bits of a mixed number are the value")]

mod common;

use common::{Guarded, elements, injective, windowed};
use proptest::prelude::*;
use zellige_float::{Converter, Format};
use zellige_layout::{Iter, Layout, TileLayout};
use zellige_movement::{MoveDtypes, MovePlan, Mover, PaddingFill, reference};

/// Pairs of every combination of widths, with floats and integers.
const PAIRS: [(Format, Format); 12] = [
    (Format::F32, Format::F16),
    (Format::F32, Format::DL16),
    (Format::F16, Format::DL16),
    (Format::DL16, Format::F32),
    (Format::F64, Format::F8E4M3FN),
    (Format::F8E5M2, Format::F64),
    (Format::I64, Format::I32),
    (Format::I8, Format::I64),
    (Format::BF16, Format::F8E4M3FN),
    (Format::Bool, Format::DL16),
    (Format::U8, Format::U32),
    (Format::F64, Format::I64),
];

fn check(
    src: &Layout,
    dst: &Layout,
    shape: &[i64],
    pair: (Format, Format),
    threads: &[usize],
) -> Result<(), TestCaseError> {
    let plan = match MovePlan::between(src, dst, shape, PaddingFill::Padding) {
        Ok(p) => p,
        Err(e) if matches!(e.kind(), "aliased" | "bad_parameter") => return Ok(()),
        Err(e) => return Err(TestCaseError::fail(format!("{src:?} -> {dst:?}: {e}"))),
    };
    let (from, to) = pair;
    // Eight bytes hold every element: the reference moves those, and each is cast on its own.
    let mix = |i: usize| (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 7;
    let mut values: Vec<u64> = (0..elements(src)).map(mix).collect();
    for i in 0..if src.tile().replica_count() > 1 { src.size() } else { 0 } {
        for p in src.physical_coordinates(i).expect("inside").sorted_coordinates() {
            let at = usize::try_from(p.get(zellige_layout::Axis::M)).expect("0 or more");
            values[at] = mix(usize::try_from(i).expect("small"));
        }
    }
    let cast = |v: u64| {
        let mut out = [0u8; 8];
        let bytes = v.to_le_bytes();
        Converter::new(from, to).convert(&bytes, &mut out, 1).expect("long enough");
        u64::from_le_bytes(out)
    };
    let narrow = |all: &[u64], size: usize| -> Vec<u8> {
        all.iter().flat_map(|v| v.to_le_bytes()[..size].to_vec()).collect()
    };
    let (fill, stale) = (0x5a5a_5a5a_5a5a_5a5a_u64, 0xa1a1_a1a1_a1a1_a1a1_u64);
    let cells: Vec<Option<u64>> = values.iter().map(|v| Some(cast(*v))).collect();
    let mut want: Vec<Option<u64>> = vec![None; elements(dst)];
    reference::move_elements(src, dst, &cells, &mut want, Some(Some(fill))).expect("small");
    let want: Vec<u64> = want.into_iter().map(|v| v.unwrap_or(stale)).collect();
    let (input, want) = (narrow(&values, from.byte_size()), narrow(&want, to.byte_size()));
    let runs = threads.iter().flat_map(|t| [(true, *t), (false, *t)]);
    let runs = runs.flat_map(|(at_end, t)| [(at_end, t, false), (at_end, t, true)]);
    for (at_end, threads, around) in runs {
        let formats = MoveDtypes::Formats { from, to };
        let mover = Mover::with_stores(&plan, formats, Some(around)).expect("a pair");
        let (mut s, mut d) = (Guarded::new(input.len(), at_end), Guarded::new(want.len(), at_end));
        s.bytes().copy_from_slice(&input);
        d.bytes().copy_from_slice(&narrow(&vec![stale; elements(dst)], to.byte_size()));
        let element = &fill.to_le_bytes()[..to.byte_size()];
        mover.run_on_slices(s.bytes(), d.bytes(), Some(element), threads).expect("long enough");
        prop_assert!(d.bytes() == want, "{from} -> {to}: {src:?} -> {dst:?}\n{plan}");
    }
    Ok(())
}

fn config() -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|v| v.parse().ok());
    ProptestConfig {
        cases: asked.unwrap_or(600),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_two_layouts(n in prop::sample::select(vec![1i64, 7, 16, 36, 64, 96, 210, 256, 1024]), a in any::<u64>(), b in any::<u64>(), pair in prop::sample::select(PAIRS.to_vec())) {
        check(&injective(n, a), &injective(n, b), &[n], pair, &[1])?;
    }

    #[test]
    fn padded_layouts(shape in prop::sample::select(vec![vec![5i64], vec![4, 6], vec![3, 5, 2], vec![33, 17], vec![16, 16]]), a in any::<u64>(), b in any::<u64>(), pair in prop::sample::select(PAIRS.to_vec())) {
        check(&windowed(&shape, a), &windowed(&shape, b), &shape, pair, &[1])?;
    }

    #[test]
    fn transposes_of_any_size(rows in 1i64..140, columns in 1i64..140, gap in 0i64..4, pair in prop::sample::select(PAIRS.to_vec())) {
        let size = [rows, columns];
        let src = TileLayout::from_strides(&size, &[columns + gap, 1], gap).expect("small");
        let dst = TileLayout::from_strides(&size, &[1, rows + gap], gap).expect("small");
        check(&src.into(), &dst.into(), &size, pair, &[1])?;
    }

    #[test]
    fn strides_that_leave_nothing_adjacent(shape in (1i64..6, 1i64..50, 1i64..50), steps in (-3i64..4, 0i64..4, 1i64..4), pair in prop::sample::select(PAIRS.to_vec())) {
        let size = [shape.0, shape.1, shape.2];
        let (row, plane) = (shape.2 * 3 + 1, (shape.2 * 3 + 1) * shape.1);
        let src = TileLayout::from_strides(&size, &[steps.0, steps.1, 2 * steps.2], 20).expect("small");
        let dst = TileLayout::from_strides(&size, &[plane, row, steps.2], 1).expect("small");
        check(&src.into(), &dst.into(), &size, pair, &[1])?;
    }
}

/// Beyond the sizes from which stores are non-temporal and threads are used: moved by the engine, then converted.
#[test]
fn large_transposes_stream_and_share_threads() {
    let size = [2100, 1100];
    let l =
        |stride: &[i64]| Layout::from(TileLayout::from_strides(&size, stride, 0).expect("small"));
    let (row, column) = (l(&[1100, 1]), l(&[1, 2100]));
    let (every_second, spread) = (l(&[2200, 2]), l(&[3, 6300]));
    for (from, to) in
        [(Format::F32, Format::F16), (Format::DL16, Format::F32), (Format::I64, Format::I32)]
    {
        for (src, dst) in [(&row, &column), (&column, &row), (&every_second, &row), (&row, &spread)]
        {
            let plan = MovePlan::between(src, dst, &size, PaddingFill::Leave).expect("a plan");
            let input: Vec<u8> = (0..elements(src) * from.byte_size())
                .map(|i| (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()[6])
                .collect();
            let mut moved = vec![0u8; elements(dst) * from.byte_size()];
            let plain = Mover::new(&plan, from.byte_size()).expect("a width");
            plain.run_on_slices(&input, &mut moved, None, 1).expect("long enough");
            let mut want = vec![0u8; elements(dst) * to.byte_size()];
            let converter = Converter::new(from, to);
            converter.convert(&moved, &mut want, elements(dst)).expect("long enough");
            let formats = MoveDtypes::Formats { from, to };
            let mover = Mover::with_stores(&plan, formats, Some(true)).expect("a pair");
            for threads in [1, 2, 3] {
                let mut got = Guarded::new(want.len(), true);
                let run = || mover.run_on_slices(&input, got.bytes(), None, threads);
                zellige_host::crew::insist_on_helpers(run).expect("long enough");
                assert!(got.bytes() == want, "{from} -> {to}: {src:?} -> {dst:?}");
            }
        }
    }
}

/// Rows of sticks become rows of a matrix whose lines begin anywhere in memory.
#[test]
fn converted_rows_may_begin_anywhere_in_a_line() {
    let (rows, sticks) = (37, 21);
    let size = [rows, sticks * 64];
    let iters =
        vec![Iter::in_memory(rows, 64), Iter::in_memory(sticks, rows * 64), Iter::in_memory(64, 1)];
    let src = Layout::from(TileLayout::from_shard(iters).expect("small"));
    let dst = Layout::from(TileLayout::row_major(&size).expect("small"));
    let plan = MovePlan::between(&src, &dst, &size, PaddingFill::Leave).expect("a plan");
    for (from, to) in [
        (Format::DL16, Format::F16),
        (Format::DL16, Format::F32),
        (Format::F32, Format::F16),
        (Format::F16, Format::F8E4M3FN),
    ] {
        let input: Vec<u8> = (0..elements(&src) * from.byte_size())
            .map(|i| (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()[6])
            .collect();
        let mut moved = vec![0u8; input.len()];
        Mover::new(&plan, from.byte_size())
            .expect("a width")
            .run_on_slices(&input, &mut moved, None, 1)
            .expect("fits");
        let mut want = vec![0u8; elements(&dst) * to.byte_size()];
        Converter::new(from, to).convert(&moved, &mut want, elements(&dst)).expect("long enough");
        for isa in zellige_float::Isa::all_available() {
            isa.while_lowered(|| {
                let formats = MoveDtypes::Formats { from, to };
                let mover = Mover::with_stores(&plan, formats, Some(true)).expect("a pair");
                for (offset, threads) in [(0, 1), (4, 1), (16, 3), (60, 2), (63, 1)] {
                    let mut got = zellige_host::AlignedBuffer::new_zeroed(offset + want.len() + 64);
                    let place = &mut got[offset..][..want.len()];
                    let run = || mover.run_on_slices(&input, place, None, threads);
                    zellige_host::crew::insist_on_helpers(run).expect("long enough");
                    assert!(
                        got[offset..][..want.len()] == want,
                        "{isa}: {from} -> {to} at {offset}"
                    );
                    assert!(
                        got[..offset].iter().chain(&got[offset + want.len()..]).all(|b| *b == 0)
                    );
                }
            });
        }
    }
}
