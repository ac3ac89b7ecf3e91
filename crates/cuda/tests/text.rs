//! The printed text itself, on the CPU: compiled by g++ behind a header with CUDA's names, and compared with the engine for
//! the CPU bit for bit.

mod common;

use common::gpp::{Case, compiler, run};
use common::{Random, alignment, elements, expected, injective, windowed};
use zellige_cuda::{CudaProgram, Gpu, LaunchAlignment};
use zellige_float::{Dtype, Format};
use zellige_layout::{Layout, StridedLayout, TileLayout};
use zellige_movement::{MoveDtypes, MovePlan, PaddingFill};
use zellige_stick::StickLayout;

/// A case and its expected result.
fn case(
    src: &Layout,
    dst: &Layout,
    shape: &[i64],
    dtypes: MoveDtypes,
    random: &mut Random,
) -> Option<(Case, Vec<u8>)> {
    let plan = MovePlan::between(src, dst, shape, PaddingFill::Padding).ok()?;
    let from = random.bytes(elements(src) * dtypes.src_bytes());
    let before = random.bytes(elements(dst) * dtypes.dst_bytes());
    let fill = random.bytes(dtypes.dst_bytes());
    let (align, low) = alignment(random);
    let want = expected(&plan, dtypes, &from, &before, Some(&fill));
    let program = if random.below(3) == 0 {
        CudaProgram::new(&plan, dtypes, Some(&fill), align, &Gpu::H200)
    } else {
        CudaProgram::with_candidate(&plan, dtypes, Some(&fill), align, &Gpu::H200, random.below(40))
    };
    Some((Case { program: program.expect("a kernel"), from, before, low }, want))
}

fn compare(name: &str, cases: Vec<(Case, Vec<u8>)>) {
    if !compiler() {
        eprintln!("there is no g++: the printed kernels were not run");
        return;
    }
    let (cases, want): (Vec<Case>, Vec<Vec<u8>>) = cases.into_iter().unzip();
    for ((got, want), case) in run(name, &cases).iter().zip(&want).zip(&cases) {
        let differ = got.iter().zip(want).position(|(a, b)| a != b);
        assert!(
            differ.is_none(),
            "byte {differ:?}, addresses {:?}\n{}",
            case.low,
            case.program.source_text()
        );
    }
}

fn width(random: &mut Random) -> MoveDtypes {
    MoveDtypes::Bytes([1, 2, 4, 8, 16][random.below(5)])
}

#[test]
fn random_moves() {
    let mut random = Random(7);
    let mut cases = Vec::new();
    for _ in 0..14 {
        let n = [24i64, 60, 96, 256, 1024][random.below(5)];
        let dtypes = width(&mut random);
        let (a, b) = (injective(n, random.next()), injective(n, random.next()));
        cases.extend(case(&a, &b, &[n], dtypes, &mut random));
        let shape = [[4i64, 6], [7, 9], [33, 17], [16, 16]][random.below(4)];
        let (a, b) = (windowed(&shape, random.next()), windowed(&shape, random.next()));
        let dtypes = width(&mut random);
        cases.extend(case(&a, &b, &shape, dtypes, &mut random));
        let [r, c] =
            [random.below(150), random.below(150)].map(|n| i64::try_from(n + 1).expect("small"));
        let src = TileLayout::from_strides(&[r, c], &[c, 1], 0).expect("small").into();
        let dst = TileLayout::from_strides(&[r, c], &[1, r], 0).expect("small").into();
        let dtypes = width(&mut random);
        cases.extend(case(&src, &dst, &[r, c], dtypes, &mut random));
        let sticks = StickLayout::default_for_dtype(&[r, c], Dtype::Float16)
            .and_then(|s| s.lower_to_layout());
        cases.extend(case(
            &src,
            &sticks.expect("sticks"),
            &[r, c],
            MoveDtypes::Bytes(2),
            &mut random,
        ));
    }
    assert!(cases.len() > 40);
    compare("moves", cases);
}

/// Tiles of more shared memory than a kernel declares.
#[test]
fn large_tiles() {
    let gpu = Gpu { shared: 96 << 10, skewed_shared: 96 << 10, ..Gpu::H200 };
    let mut random = Random(5);
    let mut cases = Vec::new();
    for (rows, columns) in [(600i64, 528i64), (521, 607)] {
        let src =
            TileLayout::from_strides(&[rows, columns], &[columns, 1], 0).expect("small").into();
        let dst = TileLayout::from_strides(&[rows, columns], &[1, rows], 0).expect("small").into();
        let plan =
            MovePlan::between(&src, &dst, &[rows, columns], PaddingFill::Leave).expect("a plan");
        let from = random.bytes(4 * elements(&src));
        let before = random.bytes(4 * elements(&dst));
        let want = expected(&plan, MoveDtypes::Bytes(4), &from, &before, None);
        for pick in 0..60 {
            let program = CudaProgram::with_candidate(
                &plan,
                MoveDtypes::Bytes(4),
                None,
                LaunchAlignment::FULL,
                &gpu,
                pick,
            );
            let program = program.expect("a kernel");
            if program.launches().iter().any(|l| l.shared > 0) && cases.len() < 4 {
                let (from, before) = (from.clone(), before.clone());
                cases.push((Case { program, from, before, low: (0, 0) }, want.clone()));
            }
        }
    }
    assert!(cases.len() > 1);
    compare("large", cases);
}

/// All pairs of formats, over every code of up to 16 bits and over codes of more bits that are close to all that is special.
#[test]
fn conversions_have_the_bits_of_the_engine() {
    let mut random = Random(3);
    let mut cases = Vec::new();
    for from in Format::ALL {
        let codes = codes(from, &mut random);
        let n = i64::try_from(codes.len() / from.byte_size()).expect("small");
        let layout =
            StridedLayout::new_contiguous(&[n]).and_then(|s| s.to_layout()).expect("small");
        let plan = MovePlan::between(&layout, &layout, &[n], PaddingFill::Leave).expect("a plan");
        for to in Format::ALL.into_iter().filter(|to| *to != from) {
            let dtypes = MoveDtypes::Formats { from, to };
            let before = vec![0; codes.len() / from.byte_size() * to.byte_size()];
            let want = expected(&plan, dtypes, &codes, &before, None);
            let program = CudaProgram::new(&plan, dtypes, None, LaunchAlignment::FULL, &Gpu::H200);
            let program = program.expect("a kernel");
            cases.push((Case { program, from: codes.clone(), before, low: (0, 0) }, want));
        }
    }
    compare("formats", cases);
}

fn codes(format: Format, random: &mut Random) -> Vec<u8> {
    let size = format.byte_size();
    if size <= 2 {
        let all = 0..1u32 << (8 * size);
        return all.flat_map(|c| c.to_le_bytes()[..size].to_vec()).collect();
    }
    let mut all = Vec::new();
    let mut push = |x: u64| all.extend_from_slice(&x.to_le_bytes()[..size]);
    for k in 0..8 * size {
        for d in 0..5 {
            push((1u64 << k).wrapping_add(d).wrapping_sub(2));
            push((1u64 << k).wrapping_add(d).wrapping_sub(2).wrapping_neg());
        }
    }
    for _ in 0..4000 {
        // Random codes, numbers of every size around the numbers that narrow formats have, and ties.
        push(random.next());
        let exponent = i32::try_from(random.below(160)).expect("small") - 80;
        let x = 2f64.powi(exponent) * (1.0 + (random.below(1 << 13) as f64) / 4096.0);
        let x = if random.below(2) == 0 { x } else { -x };
        let near = random.below(3) as u64;
        match format {
            Format::F64 => push(x.to_bits().wrapping_add(near).wrapping_sub(1)),
            Format::F32 => {
                #[allow(clippy::cast_possible_truncation, reason = "a code near it will do")]
                let bits = u64::from((x as f32).to_bits());
                push(bits.wrapping_add(near).wrapping_sub(1));
            }
            _ => push(random.next() >> random.below(64)),
        }
    }
    all
}
