//! What threads are worth where other processes want the cores too.
//!
//! Everyday moves, each in turn on one thread and on as many as the engine chooses, while processes that
//! only compute run beside it. Threads may help or stay away; they may not make a move slower.

use super::layouts::{permuted_layout, row_major, stick_layout, strided_view};
use super::run::PreparedCase;
use super::{CaseError, MoveCase, MovedElements};
use serde_json::{Value, json};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use zellige_float::Dtype;
use zellige_layout::Layout;
use zellige_movement::PaddingFill;

/// How much longer than on one thread a move may take beside busy neighbours.
// A little above 1, because with neighbours the two figures themselves vary from run to run.
pub const MAX_BUSY_RATIO: f64 = 1.2;

/// Processes that compute until they are dropped, or until this process ends.
pub struct BusyNeighbours(Vec<Child>);

impl BusyNeighbours {
    /// Starts `count` of them by a command that calls [`spin_until_eof`].
    ///
    /// # Errors
    /// Where the system starts no more processes.
    pub fn start_neighbours(
        count: usize,
        command: impl Fn() -> Command,
    ) -> std::io::Result<BusyNeighbours> {
        let mut all = BusyNeighbours(Vec::new());
        for _ in 0..count {
            // Its input ends when this process does, however that is.
            let mut command = command();
            all.0.push(command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?);
        }
        // Until they are under way and the scheduler has spread them.
        std::thread::sleep(Duration::from_millis(200));
        Ok(all)
    }
}

impl Drop for BusyNeighbours {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // One that has ended by itself needs no more.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Computes until the standard input ends.
pub fn spin_until_eof() {
    let input = std::thread::spawn(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink()));
    let mut x = 1u64;
    while !input.is_finished() {
        for _ in 0..100_000 {
            x = std::hint::black_box(x.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17));
        }
    }
}

/// Times of one call, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CallTimes {
    /// Half of the calls took less.
    pub median: f64,
    /// Nine of ten took less.
    pub most: f64,
    /// Of all calls.
    pub mean: f64,
}

impl CallTimes {
    #[allow(clippy::cast_precision_loss, reason = "some thousand calls")]
    fn from_seconds(mut seconds: Vec<f64>) -> CallTimes {
        seconds.sort_by(f64::total_cmp);
        let (n, last) = (seconds.len(), seconds.len() - 1);
        let mean = seconds.iter().sum::<f64>() / n as f64;
        CallTimes { median: seconds[n / 2], most: seconds[(n * 9 / 10).min(last)], mean }
    }
}

/// A move on one thread and on several.
#[derive(Debug, Clone, PartialEq)]
pub struct BusyRow {
    /// What it is called.
    pub name: String,
    /// Calls of each.
    pub calls: usize,
    /// On one thread.
    pub one: CallTimes,
    /// On as many as the engine likes.
    pub many: CallTimes,
}

impl BusyRow {
    /// Several threads beside one: median, 90th percentile, mean.
    pub fn thread_ratios(&self) -> [f64; 3] {
        let (a, b) = (self.many, self.one);
        [a.median / b.median, a.most / b.most, a.mean / b.mean]
    }

    /// Every figure.
    pub fn to_json(&self) -> Value {
        let times = |t: CallTimes| json!({"median": t.median, "p90": t.most, "mean": t.mean});
        let [median, most, mean] = self.thread_ratios();
        json!({
            "case": self.name, "calls": self.calls, "one_thread": times(self.one),
            "more_threads": times(self.many), "ratio": {"median": median, "p90": most, "mean": mean},
        })
    }
}

/// Measures one case for about as long as `time`.
///
/// # Errors
/// Where it has no plan.
pub fn busy_row(case: &MoveCase, threads: usize, time: Duration) -> Result<BusyRow, CaseError> {
    busy_row_behind(case, threads, time, &|| ())
}

/// As [`busy_row`], with something done before each call that is not counted.
///
/// # Errors
/// Where it has no plan.
pub(super) fn busy_row_behind(
    case: &MoveCase,
    threads: usize,
    time: Duration,
    before: &dyn Fn(),
) -> Result<BusyRow, CaseError> {
    let prepared = PreparedCase::new(case)?;
    let mut times = [Vec::new(), Vec::new()];
    // The first calls plan, start threads and touch pages.
    for _ in 0..3 {
        prepared.run_move(1);
        prepared.run_move(threads);
    }
    let begin = Instant::now();
    // At least ten calls, since a ninth tenth of fewer means nothing.
    while times[0].len() < 10 || begin.elapsed() < time {
        // In turn, so that a neighbour who comes and goes slows both alike.
        for (times, threads) in times.iter_mut().zip([1, threads]) {
            before();
            let start = Instant::now();
            prepared.run_move(threads);
            times.push(start.elapsed().as_secs_f64());
        }
    }
    let calls = times[0].len();
    let [one, many] = times.map(CallTimes::from_seconds);
    Ok(BusyRow { name: case.name.clone(), calls, one, many })
}

/// Moves of a megabyte and more as programs make them.
pub fn busy_cases() -> Vec<MoveCase> {
    let case = |name: &str, width: usize, shape: &[i64], src: Layout, dst: Layout| MoveCase {
        name: name.into(),
        goal: None,
        elements: MovedElements::Plain(width),
        shape: shape.to_vec(),
        src,
        dst,
        fill: PaddingFill::Padding,
    };
    let image = [1080, 1920, 3];
    let windows = [8, 8, 7, 8, 7, 96];
    let table = [2048, 2048];
    let (square, wide, large) = ([1024, 1024], [1024, 4096], [4096, 4096]);
    let f16 = Dtype::Float16;
    vec![
        case(
            "HWC -> CHW 1080x1920x3 int8",
            1,
            &image,
            row_major(&image),
            permuted_layout(&image, &[2, 0, 1]),
        ),
        case(
            "broadcast 2048 to 2048x2048 f32",
            4,
            &table,
            strided_view(&table, &[0, 1], 0),
            row_major(&table),
        ),
        case(
            "window partition 8x56x56x96 f32",
            4,
            &windows,
            row_major(&windows),
            permuted_layout(&windows, &[0, 1, 3, 2, 4, 5]),
        ),
        case(
            "transpose 1024x1024 f32",
            4,
            &square,
            row_major(&square),
            permuted_layout(&square, &[1, 0]),
        ),
        case("to sticks 1024x1024 f16", 2, &square, row_major(&square), stick_layout(&square, f16)),
        case("to sticks 1024x4096 f16", 2, &wide, row_major(&wide), stick_layout(&wide, f16)),
        case("to sticks 4096x4096 f16", 2, &large, row_major(&large), stick_layout(&large, f16)),
        case(
            "transpose 4096x4096 f16",
            2,
            &large,
            row_major(&large),
            permuted_layout(&large, &[1, 0]),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_has_a_plan_of_a_megabyte_or_more() {
        for case in busy_cases() {
            let (_, mover) = case.plan_mover().expect("a plan");
            assert!(mover.dst_bytes() >= 1 << 20, "{}", case.name);
        }
    }

    #[test]
    fn ratios_are_those_of_medians_ninth_tenths_and_means() {
        let one = CallTimes::from_seconds((1..=10).map(f64::from).collect());
        assert_eq!(one, CallTimes { median: 6.0, most: 10.0, mean: 5.5 });
        let many = CallTimes { median: 3.0, most: 12.0, mean: 5.5 };
        let row = BusyRow { name: "a".into(), calls: 10, one, many };
        assert_eq!(row.thread_ratios(), [0.5, 1.2, 1.0]);
    }
}
