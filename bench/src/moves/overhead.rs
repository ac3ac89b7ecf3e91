//! The fixed cost of a move, which does not depend on its bytes: the time to plan it, and the time to call a planned move
//! of 64 bytes.

use super::MoveCase;
use super::layouts::{permuted_layout, row_major, stick_layout};
use super::run::median_time;
use std::hint::black_box;
use std::time::Instant;
use zellige_float::Dtype;
use zellige_host::AlignedBuffer;
use zellige_movement::{MovePlan, Mover, PaddingFill};

/// One line of the overhead table, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MoveOverhead {
    /// The name of the case in the table.
    pub name: &'static str,
    /// The time that it should not exceed.
    pub goal: f64,
    /// The median of the measured times.
    pub median: f64,
}

/// The number of calls between two readings of the clock. A planned call takes 51 to 86 ns (bench/README.md), so
/// reading the clock around each call would distort its time.
const CALLS_PER_ROUND: u32 = 1000;

/// The median nanoseconds per call over `rounds` rounds of `calls` calls.
fn median_nanoseconds(rounds: usize, calls: u32, mut call: impl FnMut()) -> f64 {
    let rounds = (0..rounds).map(|_| {
        let start = Instant::now();
        for _ in 0..calls {
            call();
        }
        start.elapsed().as_secs_f64() * 1e9 / f64::from(calls)
    });
    median_time(rounds.collect())
}

/// Times the planning of three moves to sticks, and the call of a planned move.
pub fn measure_overhead() -> Vec<MoveOverhead> {
    let mut lines = Vec::new();
    for (name, size) in [
        ("planning, 2-D to sticks, padded", vec![4095i64, 4097]),
        ("planning, 4-D to sticks", vec![8, 32, 2048, 128]),
        ("planning, 6-D to sticks, padded", vec![2, 3, 4, 5, 6, 100]),
    ] {
        let (src, dst) = (row_major(&size), stick_layout(&size, Dtype::Float16));
        let median = median_nanoseconds(31, CALLS_PER_ROUND, || {
            let plan = MovePlan::between(&src, &dst, &size, PaddingFill::Padding);
            black_box(plan.expect("a plan"));
        });
        lines.push(MoveOverhead { name, goal: 20e3, median });
    }
    let (src, dst) = (row_major(&[8, 4]), permuted_layout(&[8, 4], &[1, 0]));
    let plan = MovePlan::between(&src, &dst, &[8, 4], PaddingFill::Leave).expect("a plan");
    let mover = Mover::new(&plan, 2).expect("a mover");
    let (from, mut to) = (AlignedBuffer::new_zeroed(64), AlignedBuffer::new_zeroed(64));
    let median = median_nanoseconds(31, CALLS_PER_ROUND, || {
        mover.run_on_slices(&from, &mut to, None, 1).expect("long enough");
        black_box(&mut to);
    });
    lines.push(MoveOverhead { name: "call of a planned 8x4 f16 transpose", goal: 150.0, median });
    lines
}

/// The median nanoseconds that planning a case takes. The case must have a plan: a refusal is faster.
pub fn planning_nanoseconds(case: &MoveCase) -> f64 {
    let plan = || black_box(MovePlan::between(&case.src, &case.dst, &case.shape, case.fill));
    let start = Instant::now();
    drop(plan());
    // As many calls as fit in a millisecond. A plan with large tables takes longer than that, and is then timed alone.
    let calls = (1e-3 / start.elapsed().as_secs_f64().max(1e-9)).clamp(1.0, 1000.0);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 to 1000")]
    median_nanoseconds(11, calls as u32, || drop(plan()))
}
