//! Descriptions of kernels against the engine for the CPU, thread by thread: every kind of kernel on random plans.

mod common;

use common::{Random, alignment, elements, expected, injective, interpreted, windowed};
use proptest::prelude::*;
use zellige_cuda::{CudaProgram, Gpu};
use zellige_float::{Dtype, Format};
use zellige_layout::{Layout, TileLayout};
use zellige_movement::{MoveDtypes, MovePlan, PaddingFill};
use zellige_stick::StickLayout;

/// Compares the chosen program, and some of the others, with the engine.
fn check(
    src: &Layout,
    dst: &Layout,
    shape: &[i64],
    dtypes: MoveDtypes,
    seed: u64,
) -> Result<(), TestCaseError> {
    let plan = match MovePlan::between(src, dst, shape, PaddingFill::Padding) {
        Ok(p) => p,
        Err(e) if matches!(e.kind(), "aliased" | "bad_parameter") => return Ok(()),
        Err(e) => return Err(TestCaseError::fail(format!("{src:?} -> {dst:?}: {e}"))),
    };
    let mut random = Random(seed);
    let from = random.bytes(elements(src) * dtypes.src_bytes());
    let before = random.bytes(elements(dst) * dtypes.dst_bytes());
    let fill = random.bytes(dtypes.dst_bytes());
    let (align, low) = alignment(&mut random);
    let want = expected(&plan, dtypes, &from, &before, Some(&fill));
    let large = Gpu { shared: 96 << 10, skewed_shared: 96 << 10, ..Gpu::H200 };
    let programs = [
        CudaProgram::new(&plan, dtypes, Some(&fill), align, &Gpu::H200),
        CudaProgram::with_candidate(&plan, dtypes, Some(&fill), align, &large, random.below(40)),
    ];
    for program in programs {
        let program = program.map_err(|e| TestCaseError::fail(e.to_string()))?;
        let kinds: Vec<_> = program.pieces().iter().map(|p| p.kind).collect();
        let got = interpreted(&program, &from, &before, low);
        let got = got.map_err(|e| {
            TestCaseError::fail(format!(
                "{e}: {kinds:?} {align:?} {low:?} {dtypes:?}\n{plan}\n{}",
                program.source_text()
            ))
        })?;
        let differ = got.iter().zip(&want).position(|(a, b)| a != b);
        prop_assert!(
            differ.is_none(),
            "byte {differ:?}: {kinds:?} {align:?} {low:?} {dtypes:?}\n{plan}\n{}",
            program.source_text()
        );
    }
    Ok(())
}

fn width(seed: u64) -> MoveDtypes {
    MoveDtypes::Bytes([1, 2, 4, 8, 16][usize::try_from(seed % 5).expect("small")])
}

fn formats(seed: u64) -> MoveDtypes {
    let mut random = Random(seed);
    let pick = |r: &mut Random| Format::ALL[r.below(Format::ALL.len())];
    (pick(&mut random), pick(&mut random)).into()
}

fn config() -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|v| v.parse().ok());
    ProptestConfig {
        cases: asked.unwrap_or(100),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_two_layouts(n in prop::sample::select(vec![1i64, 6, 7, 16, 24, 36, 60, 64, 96, 128, 210, 256, 1024, 4096]), a in any::<u64>(), b in any::<u64>(), s in any::<u64>()) {
        check(&injective(n, a), &injective(n, b), &[n], width(s), s)?;
        check(&injective(n, a), &injective(n, b), &[n], formats(s), s)?;
    }

    #[test]
    fn padded_layouts(shape in prop::sample::select(vec![vec![5i64], vec![4, 6], vec![3, 5, 2], vec![7, 9], vec![33, 17], vec![16, 16]]), a in any::<u64>(), b in any::<u64>(), s in any::<u64>()) {
        let n: i64 = shape.iter().product();
        check(&windowed(&shape, a), &windowed(&shape, b), &shape, width(s), s)?;
        check(&injective(n, a), &windowed(&shape, b), &shape, formats(s), s)?;
    }

    #[test]
    fn padded_sticks(shape in prop::collection::vec(1i64..12, 0..3), last in 1i64..300, turned in any::<bool>(), s in any::<u64>()) {
        let shape: Vec<i64> = shape.into_iter().chain([last]).collect();
        let to = [Format::F16, Format::F32, Format::F8E4M3FN][usize::try_from(s % 3).expect("small")];
        let dtype = [Dtype::Float16, Dtype::Float32, Dtype::Float8E4m3fn][usize::try_from(s % 3).expect("small")];
        let dst = StickLayout::default_for_dtype(&shape, dtype).and_then(|l| l.lower_to_layout()).expect("sticks");
        // Rows of the source are the last dimension, or the first.
        let mut stride = vec![0; shape.len()];
        let mut weight = 1;
        for k in 0..shape.len() {
            let d = if turned { k } else { shape.len() - 1 - k };
            stride[d] = weight;
            weight *= shape[d];
        }
        let src: Layout = TileLayout::from_strides(&shape, &stride, 0).expect("small").into();
        check(&src, &dst, &shape, MoveDtypes::Bytes(to.byte_size()), s)?;
        check(&src, &dst, &shape, MoveDtypes::Formats { from: Format::BF16, to }, s)?;
    }

    #[test]
    fn transposes_of_any_size(rows in 1i64..170, columns in 1i64..170, gap in 0i64..4, offset in 0i64..3, s in any::<u64>()) {
        let src = TileLayout::from_strides(&[rows, columns], &[columns + gap, 1], offset).expect("small");
        let dst = TileLayout::from_strides(&[rows, columns], &[1, rows + gap], offset).expect("small");
        check(&src.clone().into(), &dst.clone().into(), &[rows, columns], width(s), s)?;
        check(&src.into(), &dst.into(), &[rows, columns], formats(s), s)?;
    }

    #[test]
    fn whole_transposes(rows in 1i64..10, columns in 1i64..10, s in any::<u64>()) {
        let (rows, columns) = (rows * 16, columns * 16);
        let src = TileLayout::from_strides(&[rows, columns], &[columns, 1], 0).expect("small");
        let dst = TileLayout::from_strides(&[rows, columns], &[1, rows], 0).expect("small");
        check(&src.into(), &dst.into(), &[rows, columns], width(s), s)?;
    }

    #[test]
    fn permutations(shape in prop::collection::vec(1i64..9, 3..6), a in any::<u64>(), s in any::<u64>()) {
        let strides = |seed: u64| {
            let mut random = Random(seed);
            let mut order: Vec<usize> = (0..shape.len()).collect();
            for i in (1..order.len()).rev() {
                order.swap(i, random.below(i + 1));
            }
            let mut stride = vec![0; shape.len()];
            let mut weight = 1;
            for d in order {
                stride[d] = weight;
                weight *= shape[d];
            }
            TileLayout::from_strides(&shape, &stride, 0).expect("small")
        };
        check(&strides(a).into(), &strides(s).into(), &shape, width(s), s)?;
        check(&strides(a).into(), &strides(s).into(), &shape, formats(s), s)?;
    }

    #[test]
    fn broadcasts_and_overlapping_reads(shape in (1i64..9, 1i64..9, 1i64..9), strides in (-3i64..9, 0i64..5, 0i64..4), b in any::<u64>(), s in any::<u64>()) {
        let size = [shape.0, shape.1, shape.2];
        let src = TileLayout::from_strides(&size, &[strides.0, strides.1, strides.2], 30).expect("small");
        check(&src.into(), &injective(size.iter().product(), b), &size, width(s), s)?;
    }
}
