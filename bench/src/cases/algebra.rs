//! Times of the layout algebra: canonical forms, operators, and proofs.

use super::{FRAGMENT, SWIZZLED, WGMMA, parse_layout};
use crate::harness::{BenchHarness, SpeedGoal};
use anyhow::{Context, Result, bail};
use std::time::Duration;
use zellige_layout::{Axis, LayoutDifference};

// The goals for one call, as `bench/README.md` prints them.
const CANONICAL: SpeedGoal = SpeedGoal::Within(Duration::from_micros(1));
const OPERATOR: SpeedGoal = SpeedGoal::Within(Duration::from_micros(10));

pub(crate) fn run_algebra_cases(bench: &mut BenchHarness) -> Result<()> {
    bench_canonicalize(bench)?;
    bench_operators(bench)?;
    bench_proofs(bench)
}

fn bench_canonicalize(bench: &mut BenchHarness) -> Result<()> {
    let cases = [
        ("canonicalize, 7 iters", "S[(18,8,2,4,2,3,6):(4,2,1,4,24,6,1)]"),
        ("canonicalize, 4 iters on 2 axes", FRAGMENT),
        (
            "canonicalize, replicas and offsets",
            "S[(8,2,4,2):(4@laneid,1@warpid,1@laneid,1)] + R[(2,2):(8@warpid,4@warpid)] + 5@warpid + 0",
        ),
    ];
    for (case, text) in cases {
        let layout = parse_layout(text)?;
        bench.bench_short(case, CANONICAL, |_| layout.canonical_form());
    }
    let threads = parse_layout("S[(4,32):(1@wid_in_wg,1@laneid)]")?;
    bench.bench_short("canonicalize for CUDA, 2 iters", SpeedGoal::None, |_| {
        threads.canonical_form_on_cuda()
    });
    Ok(())
}

fn bench_operators(bench: &mut BenchHarness) -> Result<()> {
    let wgmma = parse_layout(WGMMA)?;
    let permuted = parse_layout("S[(4,8,4,8,4,4):(1,64,16,128,4,2048)]")?;
    let inner = parse_layout("S[(8,4,8,4,4,4):(512,32,1,8,4096,128)]")?;
    bench_exact(bench, "compose, 6 iters after 6", OPERATOR, || permuted.compose(&inner))?;
    let sixteen = parse_layout("S[(16,8):(8,1)]")?;
    let fragment = parse_layout(FRAGMENT)?;
    bench_exact(bench, "compose, mma C/D after 2 iters", OPERATOR, || fragment.compose(&sixteen))?;

    bench_exact(bench, "inverse, 6 iters on 3 axes (wgmma)", OPERATOR, || wgmma.exact_inverse())?;
    let memory = parse_layout("S[(4,8,4,8,4,4):(1,128,32,4,4096,1024)]")?;
    bench_exact(bench, "inverse, 6 iters on m", OPERATOR, || memory.exact_inverse())?;
    let swizzled = parse_layout(SWIZZLED)?;
    bench_exact(bench, "inverse, swizzled 64x256", OPERATOR, || swizzled.exact_inverse())?;

    bench_exact(bench, "slice, 6 iters (wgmma, a quarter)", OPERATOR, || {
        wgmma.slice_region(&[64, 64], &[(32, 64), (32, 64)])
    })?;
    bench_exact(bench, "slice, 4 iters (mma C/D, one row)", OPERATOR, || {
        fragment.slice_region(&[16, 8], &[(3, 4), (0, 8)])
    })?;
    bench_exact(bench, "group, 6 iters", OPERATOR, || wgmma.group(&[2, 32, 8, 8]))?;
    let outer = parse_layout("S[(4,2):(2@wid_in_wg,1@wid_in_wg)]")?;
    bench_exact(bench, "tile, 4 iters by 2", OPERATOR, || {
        fragment.tile_by(&outer, &[4, 2], &[16, 8])
    })?;
    Ok(())
}

fn bench_proofs(bench: &mut BenchHarness) -> Result<()> {
    // The same function on a million elements, once with 2 iters and once with 6.
    let a = parse_layout("S[(1024,1024):(1024,1)]")?;
    let b = parse_layout("S[(2,2,256,8,4,32):(524288,262144,1024,128,32,1)]")?;
    bench_exact(bench, "equal, 1M elements, other splits", OPERATOR, || a.find_difference(&b))?;
    let permuted = parse_layout("S[(16,64,16,64):(64,16384,1024,1)]")?;
    let split = parse_layout("S[(4,4,64,16,8,8):(256,64,16384,1024,8,1)]")?;
    bench_exact(bench, "equal, 1M elements, permuted, other splits", OPERATOR, || {
        permuted.find_difference(&split)
    })?;
    // Of the valid elements only the last one, 1048575, differs: the outer iter of `bent` takes its first step there, to the
    // address 1048576.
    let straight = parse_layout("S[2097150:1] valid[1048576/2097150]")?;
    let bent = parse_layout("S[(2,1048575):(1048576,1)] valid[1048576/2097150]")?;
    let Some(LayoutDifference::At { index: 1_048_575, .. }) = straight.find_difference(&bent)?
    else {
        bail!("the layouts of this case differ at the last element only");
    };
    bench_exact(bench, "differ at the last of 1M elements", OPERATOR, || {
        straight.find_difference(&bent)
    })?;
    let swizzle = parse_layout("Swizzle(3,3,3) o S[(1024,16,64):(64,65536,1)]")?;
    let again = parse_layout("Swizzle(3,3,3) o S[(32,32,4,4,64):(2048,64,262144,65536,1)]")?;
    bench_exact(bench, "equal, 1M elements, both swizzled", OPERATOR, || {
        swizzle.find_difference(&again)
    })?;

    let wgmma = parse_layout(WGMMA)?;
    let axes = zellige_layout::AxisTable::new();
    let place = [(axes.get("wid_in_wg")?, 2), (Axis::LANEID, 13), (Axis::M, 11)];
    bench_exact(bench, "lookup, 6 iters on 3 axes", OPERATOR, || wgmma.look_up_place(&place))?;
    bench_exact(bench, "injective, 6 iters on 3 axes", OPERATOR, || wgmma.is_injective())?;
    bench_exact(bench, "injective, 6 iters on m, 1M elements", OPERATOR, || split.is_injective())?;
    Ok(())
}

/// Times an operator that must succeed. A refusal is fast, and would be reported as a good time.
fn bench_exact<T>(
    bench: &mut BenchHarness,
    case: &str,
    goal: SpeedGoal,
    f: impl Fn() -> zellige_layout::Result<T>,
) -> Result<()> {
    f().with_context(|| case.to_string())?;
    bench.bench_short(case, goal, |_| f());
    Ok(())
}
