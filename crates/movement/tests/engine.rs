//! The CPU engine against the reference mover: all widths, odd sizes, offsets, threads, guard pages.

#![allow(clippy::cast_possible_truncation, reason = "the low bits of a mixed number are the value")]

mod common;

use common::{Guarded, elements, injective, windowed};
use proptest::prelude::*;
use zellige_float::Isa;
use zellige_host::{AlignedBuffer, crew};
use zellige_layout::{Axis, Iter, Layout, PaddedExtent, TileLayout, ValidWindow};
use zellige_movement::{MoveDtypes, MoveError, MovePlan, Mover, PaddingFill, reference};

/// Moves with elements `T` through the engine and through the reference, between guard pages.
fn check<T: Copy + PartialEq + std::fmt::Debug>(
    src: &Layout,
    dst: &Layout,
    shape: &[i64],
    threads: &[usize],
    value: impl Fn(usize) -> T,
) -> Result<(), TestCaseError> {
    let plan = match MovePlan::between(src, dst, shape, PaddingFill::Padding) {
        Ok(p) => p,
        Err(e) if matches!(e.kind(), "aliased" | "bad_parameter") => return Ok(()),
        Err(e) => return Err(TestCaseError::fail(format!("{src:?} -> {dst:?}: {e}"))),
    };
    let width = size_of::<T>();
    let mut from: Vec<T> = (0..elements(src)).map(&value).collect();
    for i in 0..if src.tile().replica_count() > 1 { src.size() } else { 0 } {
        for p in src.physical_coordinates(i).expect("inside").sorted_coordinates() {
            from[usize::try_from(p.get(Axis::M)).expect("0 or more")] =
                value(usize::try_from(i).expect("small"));
        }
    }
    let fill = value(usize::MAX / 2);
    let mut want = vec![value(77); elements(dst)];
    reference::move_elements(src, dst, &from, &mut want, Some(fill)).expect("small");
    let bytes_of = |v: &[T]| -> Vec<u8> {
        // SAFETY: the values are plain integers without padding.
        unsafe { std::slice::from_raw_parts(v.as_ptr().cast::<u8>(), std::mem::size_of_val(v)) }
            .to_vec()
    };
    let runs = threads.iter().flat_map(|t| [(true, *t), (false, *t)]);
    let runs = runs.flat_map(|(at_end, t)| [(at_end, t, false), (at_end, t, true)]);
    for (at_end, threads, around) in runs {
        let run = || {
            let mover =
                Mover::with_stores(&plan, MoveDtypes::Bytes(width), Some(around)).expect("a width");
            let (mut s, mut d) = (
                Guarded::new(from.len() * width, at_end),
                Guarded::new(want.len() * width, at_end),
            );
            s.bytes().copy_from_slice(&bytes_of(&from));
            d.bytes().copy_from_slice(&bytes_of(&vec![value(77); want.len()]));
            let fill = bytes_of(&[fill]);
            mover.run_on_slices(s.bytes(), d.bytes(), Some(&fill), threads).expect("long enough");
            d.bytes() == bytes_of(&want)
        };
        for isa in Isa::all_available() {
            let same = isa.while_lowered(run);
            prop_assert!(same, "{isa}: {src:?} -> {dst:?} width {width}\n{plan}");
        }
    }
    Ok(())
}

/// A value of its own for every element.
fn mix(i: usize) -> u128 {
    (i as u128 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)
}

/// Calls a test with the values of elements of every width.
macro_rules! every_width {
    ($go:ident) => {
        $go(|i| mix(i).to_le_bytes()[8]);
        $go(|i| (mix(i) >> 64) as u16);
        $go(|i| (mix(i) >> 64) as u32);
        $go(|i| (mix(i) >> 64) as u64);
        $go(mix);
    };
}

fn check_all_widths(src: &Layout, dst: &Layout, shape: &[i64]) -> Result<(), TestCaseError> {
    check(src, dst, shape, &[1], |i| mix(i).to_le_bytes()[8])?;
    // One width also in many parts, which threads share.
    crew::insist_on_helpers(|| check(src, dst, shape, &[1, 5], |i| (mix(i) >> 64) as u16))?;
    check(src, dst, shape, &[1], |i| (mix(i) >> 64) as u32)?;
    check(src, dst, shape, &[1], |i| (mix(i) >> 64) as u64)?;
    check(src, dst, shape, &[1], mix)
}

fn config() -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|v| v.parse().ok());
    ProptestConfig {
        cases: asked.unwrap_or(400),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_two_layouts(n in prop::sample::select(vec![1i64, 6, 7, 16, 24, 36, 60, 64, 96, 128, 210, 256, 1024, 4096]), a in any::<u64>(), b in any::<u64>()) {
        check_all_widths(&injective(n, a), &injective(n, b), &[n])?;
    }

    #[test]
    fn padded_layouts(shape in prop::sample::select(vec![vec![5i64], vec![4, 6], vec![3, 5, 2], vec![7, 9], vec![33, 17], vec![16, 16]]), a in any::<u64>(), b in any::<u64>()) {
        let n: i64 = shape.iter().product();
        check_all_widths(&windowed(&shape, a), &windowed(&shape, b), &shape)?;
        check_all_widths(&injective(n, a), &windowed(&shape, b), &shape)?;
    }

    #[test]
    fn transposes_of_any_size(rows in 1i64..70, columns in 1i64..70, gap in 0i64..4, offset in 0i64..3) {
        let src = TileLayout::from_strides(&[rows, columns], &[columns + gap, 1], offset).expect("small");
        let dst = TileLayout::from_strides(&[rows, columns], &[1, rows + gap], offset).expect("small");
        check_all_widths(&src.into(), &dst.into(), &[rows, columns])?;
    }

    #[test]
    fn broadcasts_and_overlapping_reads(shape in (1i64..9, 1i64..9, 1i64..9), strides in (-3i64..9, 0i64..5, 0i64..4), b in any::<u64>()) {
        let size = [shape.0, shape.1, shape.2];
        let src = TileLayout::from_strides(&size, &[strides.0, strides.1, strides.2], 30).expect("small");
        check_all_widths(&src.into(), &injective(size.iter().product(), b), &size)?;
    }
}

/// Beyond the size from which threads are used.
#[test]
fn large_moves_stream_and_share_threads() {
    let l = |size: &[i64], stride: &[i64]| {
        Layout::from(TileLayout::from_strides(size, stride, 0).expect("small"))
    };
    let (r, c) = (700, 900);
    let row = l(&[r, c], &[c, 1]);
    let column = l(&[r, c], &[1, r]);
    let padded = l(&[r, c], &[c + 3, 1]);
    let tile = TileLayout::from_shard(vec![
        Iter::in_memory(704, 16),
        Iter::in_memory(57, 704 * 16),
        Iter::in_memory(16, 1),
    ]);
    let window = ValidWindow::new(vec![
        PaddedExtent::padded_to(r, 704),
        PaddedExtent::padded_to(c, 57 * 16),
    ]);
    let sticks = Layout::from(tile.expect("small"));
    let sticks = sticks.with_window(window.expect("well-formed")).expect("fits");
    for (src, dst) in [
        (&row, &column),
        (&row, &padded),
        (&row, &sticks),
        (&sticks, &row),
        (&column, &sticks),
        (&row, &row),
    ] {
        let value = |i: usize| (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        crew::insist_on_helpers(|| check(src, dst, &[r, c], &[1, 2, 3], value)).expect("equal");
    }
}

/// Sources that do not move along a loop: the adjacent one, one around a stretch of short runs, one around a
/// transpose, and one around a transpose with gaps.
#[test]
fn repeats_of_every_width() {
    let (a, b, c, d) = (5i64, 7, 33, 70);
    let size = [a, b, c, d];
    let l = |stride: &[i64], offset: i64| {
        Layout::from(TileLayout::from_strides(&size, stride, offset).expect("small"))
    };
    let row = [b * c * d, c * d, d, 1];
    for src in
        [[b * c, c, 1, 0], [0, c * d, d, 1], [b * d, d, 0, 1], [0, c, 1, b * c], [1, 0, a * d, a]]
    {
        for (dst, offset) in
            [(row, 0), ([1, a, a * b, a * b * c], 3), ([2 * b * c * d, c * d, d, 1], 1)]
        {
            check_all_widths(&l(&src, 0), &l(&dst, offset), &size).expect("equal");
        }
    }
}

/// Rows that are read backwards, shorter and longer than a register.
#[test]
fn backwards_of_every_width() {
    for columns in [1i64, 2, 3, 5, 15, 16, 17, 40] {
        let size = [6i64, columns];
        let src = TileLayout::from_strides(&size, &[columns + 2, -1], columns - 1).expect("small");
        let dst = TileLayout::from_strides(&size, &[columns + 1, 1], 2).expect("small");
        check_all_widths(&src.into(), &dst.into(), &size).expect("equal");
    }
}

/// Transposes of rows that are read backwards, in both orders of the rows of the source.
#[test]
fn backward_transposes_of_every_width() {
    for (rows, columns) in [(3i64, 5i64), (17, 33), (70, 20), (64, 130), (130, 67)] {
        let size = [rows, columns];
        for (step, first) in [(columns + 1, columns - 1), (-columns, rows * columns - 1)] {
            let src = TileLayout::from_strides(&size, &[step, -1], first).expect("small");
            let dst = TileLayout::from_strides(&size, &[1, rows], 0).expect("small");
            check_all_widths(&src.into(), &dst.into(), &size).expect("equal");
        }
    }
}

/// Transposes of every width with non-temporal stores: rows of whole lines, of broken lines, and batches of near rows.
#[test]
fn large_transposes_of_every_width() {
    fn go<T: Copy + PartialEq + std::fmt::Debug>(value: impl Fn(usize) -> T) {
        let line = 64 / i64::try_from(size_of::<T>()).expect("small");
        for (batch, rows, columns) in [
            (1, 33 * line, 32 * line + 2),
            (1, 33 * line + 3, 32 * line + 2),
            (9, 12 * line, 11 * line),
        ] {
            // As many batches as it takes for non-temporal stores.
            let batch = batch.max((5 << 20) / (rows * columns * 64 / line));
            let size = [batch, rows, columns];
            let src = TileLayout::row_major(&size).expect("small");
            let dst =
                TileLayout::from_strides(&size, &[rows * columns, 1, rows], 0).expect("small");
            check(&src.into(), &dst.into(), &size, &[1, 2], &value).expect("equal");
        }
    }
    every_width!(go);
}

/// Transposes by skewed tiles, whose rows each begin at another offset from a line: few columns, many, and in parts.
#[test]
fn skewed_transposes_of_every_width() {
    fn go<T: Copy + PartialEq + std::fmt::Debug>(value: impl Fn(usize) -> T) {
        let line = 64 / i64::try_from(size_of::<T>()).expect("small");
        for (rows, columns, gap, offset) in [
            (33 * line + 1, 3, 0, 0),
            (35 * line - 1, line + 5, 1, 1),
            (50 * line + line / 2, 4 * line + 1, 0, 3),
            (40 * line, 2 * line + 3, 1, 2),
        ] {
            let size = [rows, columns];
            let src = TileLayout::from_strides(&size, &[columns + gap, 1], offset).expect("small");
            let dst = TileLayout::from_strides(&size, &[1, rows + gap], offset).expect("small");
            let threads = [1, 4];
            crew::insist_on_helpers(|| check(&src.into(), &dst.into(), &size, &threads, &value))
                .expect("equal");
        }
    }
    every_width!(go);
}

/// Transposes of conflicting rows with non-temporal stores, on whole lines and off them.
#[test]
fn crowded_transposes_of_every_width() {
    const APART: usize = 1 << 16;
    let most = 300;
    let mut from = AlignedBuffer::new_zeroed(most * APART);
    for row in from.chunks_exact_mut(APART) {
        let start = row.as_ptr().addr() / APART;
        for (i, byte) in row[..8192].iter_mut().enumerate() {
            *byte = (start * 131 + i * 7 + i / 251).to_le_bytes()[0];
        }
    }
    for width in [1usize, 2, 4, 8, 16] {
        let line = 64 / width;
        let shapes = [
            (2 * line, line, 0),
            (most, 3 * line + 1, 0),
            (most, 8192 / width, line),
            (line + 3, 1040 / width, 5),
        ];
        for (rows, columns, gap) in shapes {
            let size = [rows, columns].map(|n| i64::try_from(n).expect("small"));
            let step = |n: usize| i64::try_from(n).expect("small");
            let src = TileLayout::from_strides(&size, &[step(APART / width), 1], 0).expect("small");
            let dst = TileLayout::from_strides(&size, &[1, step(rows + gap)], 0).expect("small");
            let plan = MovePlan::between(&src.into(), &dst.into(), &size, PaddingFill::Leave);
            let plan = plan.expect("a plan");
            let bytes = ((columns - 1) * (rows + gap) + rows) * width;
            let mut want = vec![0xee; bytes];
            for (r, c) in (0..rows).flat_map(|r| (0..columns).map(move |c| (r, c))) {
                let place = (c * (rows + gap) + r) * width;
                want[place..][..width].copy_from_slice(&from[r * APART + c * width..][..width]);
            }
            let mut to = AlignedBuffer::new_zeroed(bytes + 128);
            for (isa, off) in Isa::all_available().flat_map(|isa| [0, width, 48].map(|o| (isa, o)))
            {
                to.fill(0xee);
                isa.while_lowered(|| {
                    let mover = Mover::with_stores(&plan, MoveDtypes::Bytes(width), Some(true));
                    let mover = mover.expect("a width");
                    mover.run_on_slices(&from, &mut to[off..], None, 1).expect("long enough");
                });
                let same = to[off..][..bytes] == want;
                assert!(same, "{isa}: {rows}x{columns}, gap {gap}, {width} bytes at {off}");
                assert!(to[..off].iter().chain(&to[off + bytes..]).all(|x| *x == 0xee));
            }
        }
    }
}

/// Converting while moving is moving, then converting every element.
#[test]
fn conversions_are_fused() {
    use zellige_float::{Converter, Format};
    let l = |size: &[i64], stride: &[i64]| {
        Layout::from(TileLayout::from_strides(size, stride, 0).expect("small"))
    };
    for (rows, columns) in [(3, 5), (64, 64), (33, 130), (1200, 1100)] {
        let size = [rows, columns];
        let window = ValidWindow::new(vec![
            PaddedExtent::without_padding(rows),
            PaddedExtent::padded_to(columns, (columns + 63) / 64 * 64),
        ]);
        let blocks = (columns + 63) / 64;
        let tile = TileLayout::from_shard(vec![
            Iter::in_memory(rows, 64),
            Iter::in_memory(blocks, rows * 64),
            Iter::in_memory(64, 1),
        ]);
        let sticks = Layout::from(tile.expect("small"))
            .with_window(window.expect("well-formed"))
            .expect("fits");
        let row = l(&size, &[columns, 1]);
        let column = l(&size, &[1, rows]);
        for (src, dst) in [(&row, &sticks), (&sticks, &row), (&row, &column), (&row, &row)] {
            let plan = MovePlan::between(src, dst, &size, PaddingFill::Padding).expect("a plan");
            for (from, to) in [
                (Format::F32, Format::F16),
                (Format::F16, Format::DL16),
                (Format::DL16, Format::F32),
                (Format::I64, Format::I32),
                (Format::F16, Format::F16),
                (Format::BF16, Format::F8E4M3FN),
            ] {
                let n = elements(src);
                let input: Vec<u8> =
                    (0..n * from.byte_size()).map(|i| (i * 37 + i / 251) as u8).collect();
                let mut moved = vec![0u8; elements(dst) * from.byte_size()];
                let zero = vec![0u8; from.byte_size()];
                let plain = Mover::new(&plan, from.byte_size()).expect("a width");
                plain.run_on_slices(&input, &mut moved, Some(&zero), 1).expect("long enough");
                let mut want = vec![0u8; elements(dst) * to.byte_size()];
                Converter::new(from, to)
                    .convert(&moved, &mut want, elements(dst))
                    .expect("long enough");
                let mover = Mover::with_conversion(&plan, from, to).expect("a pair");
                for threads in [1, 2] {
                    let mut got = Guarded::new(want.len(), true);
                    mover
                        .run_on_slices(
                            &input,
                            got.bytes(),
                            Some(&vec![0u8; to.byte_size()]),
                            threads,
                        )
                        .expect("long enough");
                    assert!(
                        got.bytes() == want,
                        "{from} -> {to}, {rows}x{columns}, {src:?} -> {dst:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn short_buffers_are_refused_before_anything_is_written() {
    let l = Layout::from(TileLayout::row_major(&[16]).expect("small"));
    let plan = MovePlan::between(&l, &l, &[16], PaddingFill::Leave).expect("a plan");
    let mover = Mover::new(&plan, 4).expect("a width");
    let mut to = vec![7u8; 64];
    assert!(matches!(
        mover.run_on_slices(&[1; 63], &mut to, None, 1),
        Err(MoveError::Short { what: "source", needed: 64, found: 63 })
    ));
    assert!(matches!(
        mover.run_on_slices(&[1; 64], &mut to[..60], None, 1),
        Err(MoveError::Short { what: "destination", .. })
    ));
    assert!(matches!(
        mover.run_on_slices(&[1; 64], &mut to, Some(&[0]), 1),
        Err(MoveError::FillWidth { .. })
    ));
    assert_eq!(to, [7; 64]);
    assert!(mover.run_on_slices(&[1; 64], &mut to, None, 1).is_ok());
    assert_eq!(to, [1; 64]);
    assert!(matches!(Mover::new(&plan, 3), Err(MoveError::Width(3))));
}

/// Moves whose rows are whole lines, into memory whose lines are elsewhere: rows that are joined, tiles
/// that are cut at the lines, transposed rows that are stored together. The reference does not know lines.
#[test]
fn lines_of_the_destination_may_begin_anywhere() {
    let cases: &[(&[i64], &[usize])] = &[
        (&[96, 5, 64], &[1, 0, 2]),
        (&[5, 96, 64], &[1, 0, 2]),
        (&[37, 9, 192], &[1, 0, 2]),
        (&[3, 40, 4, 64], &[0, 2, 1, 3]),
        (&[128, 192], &[1, 0]),
        (&[2, 640, 64], &[0, 2, 1]),
        (&[2, 64, 320], &[0, 2, 1]),
        (&[3, 16, 208], &[0, 2, 1]),
        (&[3, 50, 208], &[0, 2, 1]),
    ];
    for (shape, order) in cases {
        let strides = |shape: &[i64]| -> Vec<i64> {
            (0..shape.len()).map(|i| shape[i + 1..].iter().product()).collect()
        };
        let moved: Vec<i64> = order.iter().map(|&d| shape[d]).collect();
        let place = |d| order.iter().position(|&o| o == d).expect("a permutation");
        let to: Vec<i64> = (0..shape.len()).map(|d| strides(&moved)[place(d)]).collect();
        let l = |stride: &[i64]| {
            Layout::from(TileLayout::from_strides(shape, stride, 0).expect("small"))
        };
        let (src, dst) = (l(&strides(shape)), l(&to));
        let plan = MovePlan::between(&src, &dst, shape, PaddingFill::Leave).expect("a plan");
        for width in [1, 2, 4, 8, 16] {
            let mover =
                Mover::with_stores(&plan, MoveDtypes::Bytes(width), Some(true)).expect("width");
            let from: Vec<u8> = (0..mover.src_bytes()).map(|i| (i * 31 / 7) as u8).collect();
            let elements: Vec<usize> = (0..from.len() / width).collect();
            let mut order = vec![0; elements.len()];
            reference::move_elements(&src, &dst, &elements, &mut order, None).expect("small");
            let want: Vec<u8> =
                order.iter().flat_map(|&i| from[i * width..][..width].to_vec()).collect();
            for off in [0, 1, 2, 8, 15, 16, 17, 31, 32, 40, 48, 62, 63] {
                let mut to = AlignedBuffer::new_zeroed(want.len() + 128);
                to.fill(0xee);
                for (isa, threads) in Isa::all_available().flat_map(|isa| [(isa, 1), (isa, 3)]) {
                    to[off..][..want.len()].fill(0xee);
                    isa.while_lowered(|| {
                        let mover = Mover::with_stores(&plan, MoveDtypes::Bytes(width), Some(true));
                        let mover = mover.expect("a width");
                        mover
                            .run_on_slices(&from, &mut to[off..], None, threads)
                            .expect("long enough");
                    });
                    let same = to[off..][..want.len()] == want;
                    assert!(same, "{isa}: {shape:?} {width} bytes at {off}");
                }
                assert!(to[..off].iter().chain(&to[off + want.len()..]).all(|x| *x == 0xee));
            }
        }
    }
}

/// Elements at unaligned addresses, in small moves and with non-temporal stores.
#[test]
fn buffers_may_begin_anywhere() {
    for (rows, columns) in [(13i64, 21i64), (300, 310)] {
        let l = |stride: &[i64]| {
            Layout::from(TileLayout::from_strides(&[rows, columns], stride, 0).expect("small"))
        };
        let (row, column, wide) = (l(&[columns, 1]), l(&[1, rows]), l(&[columns + 5, 1]));
        for (src, dst) in [(&row, &column), (&row, &wide), (&row, &row)] {
            let plan =
                MovePlan::between(src, dst, &[rows, columns], PaddingFill::Leave).expect("a plan");
            for (width, around) in
                [1, 2, 4, 8, 16].into_iter().flat_map(|w| [(w, false), (w, true)])
            {
                let dtypes = MoveDtypes::Bytes(width);
                let mover = Mover::with_stores(&plan, dtypes, Some(around)).expect("a width");
                let input: Vec<u8> = (0..mover.src_bytes() + 64).map(|i| (i * 7) as u8).collect();
                let mut aligned = vec![0u8; mover.dst_bytes()];
                for (a, b) in [(1usize, 0usize), (0, 1), (3, 7), (1, 33)] {
                    mover.run_on_slices(&input[a..], &mut aligned, None, 1).expect("long enough");
                    let mut out = vec![0xeeu8; mover.dst_bytes() + 64];
                    mover.run_on_slices(&input[a..], &mut out[b..], None, 2).expect("long enough");
                    let (end, rest) = (b + aligned.len(), 64 - b);
                    let gaps = |v: &[u8]| -> Vec<u8> {
                        v.iter().map(|x| if *x == 0xee { 0 } else { *x }).collect()
                    };
                    assert!(gaps(&out[b..end]) == gaps(&aligned), "{width} bytes at {a} and {b}");
                    assert!(out[..b].iter().all(|x| *x == 0xee), "in front");
                    assert_eq!(out[end..], vec![0xee; rest], "behind");
                }
            }
        }
    }
    // More threads than any machine has cores.
    let l = Layout::from(TileLayout::row_major(&[1 << 20]).expect("small"));
    let mover = Mover::between(&l, &l, &[1 << 20], MoveDtypes::Bytes(2), PaddingFill::Leave)
        .expect("a move");
    let mut to = vec![0u8; 2 << 20];
    mover.run_on_slices(&vec![9u8; 2 << 20], &mut to, None, usize::MAX).expect("long enough");
    assert!(to.iter().all(|x| *x == 9));
}
