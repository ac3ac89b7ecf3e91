//! Times a case in many rounds after a warm-up, and reports the median.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// The speed that a case should reach.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum SpeedGoal {
    /// One call takes at most this long.
    Within(Duration),
    /// At least this many units of work per second.
    Rate(f64),
    /// No goal: the case helps to explain others.
    None,
}

/// One row of the table.
#[derive(Debug, Clone)]
pub(crate) struct BenchRow {
    pub(crate) case: String,
    pub(crate) goal: SpeedGoal,
    /// The measured times, or why there are none.
    pub(crate) outcome: Result<BenchTimes, String>,
}

/// The median and the extremes, over all rounds, of the nanoseconds that one unit of work takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct BenchTimes {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl BenchTimes {
    /// Requires at least one sample.
    fn from_samples(mut samples: Vec<f64>) -> BenchTimes {
        samples.sort_unstable_by(f64::total_cmp);
        let last = samples.len() - 1;
        BenchTimes { median: samples[last / 2], min: samples[0], max: samples[last] }
    }
}

/// The number of rounds of a short case. It is odd, so that the median is one of the samples.
const ROUNDS: usize = 61;
/// The least time of a round of a short case. Reading the clock takes a negligible part of it, and it is so short that
/// another process on a shared machine disturbs only some of the rounds.
const ROUND: Duration = Duration::from_millis(2);
/// The number of rounds of a case whose single call takes milliseconds; odd as well.
const LONG_ROUNDS: usize = 21;

/// Runs cases and collects their rows.
pub(crate) struct BenchHarness {
    words: Vec<String>,
    rows: Vec<BenchRow>,
}

impl BenchHarness {
    /// A harness that runs only the cases whose name contains every one of `words`.
    pub(crate) fn new(words: Vec<String>) -> BenchHarness {
        BenchHarness { words, rows: Vec::new() }
    }

    pub(crate) fn rows(&self) -> &[BenchRow] {
        &self.rows
    }

    pub(crate) fn wants_case(&self, case: &str) -> bool {
        self.words.iter().all(|w| case.contains(w.as_str()))
    }

    /// Times a case that takes nanoseconds to microseconds: each round repeats it for about [`ROUND`].
    ///
    /// `f` gets the number of the call, so that it can vary its input. The compiler must assume that the value it
    /// returns is used, and so cannot remove the work.
    pub(crate) fn bench_short<T>(
        &mut self,
        case: &str,
        goal: SpeedGoal,
        mut f: impl FnMut(usize) -> T,
    ) {
        if !self.wants_case(case) {
            return;
        }
        let calls = calls_per_round(&mut f);
        let mut samples = Vec::with_capacity(ROUNDS);
        for _ in 0..ROUNDS {
            let start = Instant::now();
            for i in 0..calls {
                black_box(f(black_box(i)));
            }
            samples.push(as_nanoseconds(start.elapsed()) / as_divisor(calls));
        }
        self.add_row(case, goal, Ok(BenchTimes::from_samples(samples)));
    }

    /// Times a case that takes milliseconds: one call per round. Two further calls before them warm up.
    pub(crate) fn bench_long<T>(&mut self, case: &str, goal: SpeedGoal, mut f: impl FnMut() -> T) {
        if !self.wants_case(case) {
            return;
        }
        let mut samples = Vec::with_capacity(LONG_ROUNDS);
        for round in 0..LONG_ROUNDS + 2 {
            let start = Instant::now();
            let made = black_box(f());
            let took = as_nanoseconds(start.elapsed());
            // After the clock was read, because freeing memory is not part of the work.
            drop(made);
            if round >= 2 {
                samples.push(took);
            }
        }
        self.add_row(case, goal, Ok(BenchTimes::from_samples(samples)));
    }

    /// Adds a case that measured its own times: for each round, the nanoseconds of one unit of work.
    pub(crate) fn add_samples(
        &mut self,
        case: &str,
        goal: SpeedGoal,
        outcome: Result<Vec<f64>, String>,
    ) {
        self.add_row(case, goal, outcome.map(BenchTimes::from_samples));
    }

    fn add_row(&mut self, case: &str, goal: SpeedGoal, outcome: Result<BenchTimes, String>) {
        eprintln!("{case}");
        self.rows.push(BenchRow { case: case.to_string(), goal, outcome });
    }
}

/// The number of calls that take at least [`ROUND`]. The calls that find it warm up the case.
fn calls_per_round<T>(f: &mut impl FnMut(usize) -> T) -> usize {
    let mut calls = 1;
    loop {
        let start = Instant::now();
        for i in 0..calls {
            black_box(f(black_box(i)));
        }
        if start.elapsed() >= ROUND {
            return calls;
        }
        calls *= 2;
    }
}

pub(crate) fn as_nanoseconds(d: Duration) -> f64 {
    d.as_secs_f64() * 1e9
}

/// The count as a float, to divide a time by it.
#[allow(clippy::cast_precision_loss, reason = "counts of calls are far below 2^53")]
pub(crate) fn as_divisor(n: usize) -> f64 {
    n as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_sample() {
        let t = BenchTimes::from_samples(vec![5.0, 1.0, 9.0]);
        assert_eq!((t.min, t.median, t.max), (1.0, 5.0, 9.0));
        assert_eq!(BenchTimes::from_samples(vec![2.0]).median, 2.0);
    }

    #[test]
    fn only_the_named_cases_run() {
        let mut bench = BenchHarness::new(vec!["table".into(), "swizzled".into()]);
        bench.bench_short("table, plain", SpeedGoal::None, |i| i);
        bench.bench_short("table, swizzled", SpeedGoal::None, |i| i);
        assert_eq!(bench.rows().len(), 1);
    }
}
