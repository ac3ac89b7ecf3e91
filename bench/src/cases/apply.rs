//! One coordinate to its places.

use super::{FRAGMENT, REPLICA, SWIZZLED, WGMMA, parse_layout};
use crate::harness::{BenchHarness, SpeedGoal};
use anyhow::Result;
use std::time::Duration;

const GOAL: SpeedGoal = SpeedGoal::Within(Duration::from_nanos(50));

pub(crate) fn run_apply_cases(bench: &mut BenchHarness) -> Result<()> {
    let cases = [
        ("apply, 4 iters on m", "S[(16,4,8,32):(1024,32,128,1)]", [64, 256], GOAL),
        ("apply, 4 iters on 2 axes (mma C/D)", FRAGMENT, [16, 8], GOAL),
        ("apply, 4 iters on 3 axes, 2 places each", REPLICA, [8, 16], GOAL),
        ("apply, 3 iters, swizzled", SWIZZLED, [64, 256], GOAL),
        ("apply, 6 iters on 3 axes (wgmma)", WGMMA, [64, 64], SpeedGoal::None),
        (
            "apply, 4 iters, padded 60x250 of 64x256",
            "S[(16,4,8,32):(1024,32,128,1)] valid[60/64,250/256]",
            [60, 250],
            GOAL,
        ),
    ];
    for (case, text, shape, goal) in cases {
        let layout = parse_layout(text)?;
        let coordinates = scattered_coordinates(shape);
        bench.bench_short(case, goal, |i| {
            let places = layout.apply_to_coordinate(&shape, &coordinates[i % coordinates.len()]);
            places.map_or(0, |p| p.coordinate_rows().flatten().sum::<i64>())
        });
    }
    Ok(())
}

/// 256 coordinates of a shape in no simple order, so that no branch can be learnt by heart.
fn scattered_coordinates(shape: [i64; 2]) -> Vec<[i64; 2]> {
    (0..256i64).map(|i| [i * 37 % shape[0], (i * 101 + i / 7) % shape[1]]).collect()
}
