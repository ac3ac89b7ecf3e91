//! Timing: warm up, many rounds, the median.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// What a case is held against.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum SpeedGoal {
    /// One call takes at most this long.
    Within(Duration),
    /// At least this many per second.
    Rate(f64),
    /// No goal: there to explain the others.
    None,
}

/// A line of the table.
#[derive(Debug, Clone)]
pub(crate) struct BenchRow {
    pub(crate) case: String,
    pub(crate) goal: SpeedGoal,
    /// The measured times, or why there are none.
    pub(crate) outcome: Result<BenchTimes, String>,
}

/// Nanoseconds of one unit of work, over the rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct BenchTimes {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl BenchTimes {
    /// The order statistics of at least one sample.
    fn from_samples(mut samples: Vec<f64>) -> BenchTimes {
        samples.sort_unstable_by(f64::total_cmp);
        let last = samples.len() - 1;
        BenchTimes { median: samples[last / 2], min: samples[0], max: samples[last] }
    }
}

/// Rounds of a short case; each runs for about [`ROUND`].
const ROUNDS: usize = 61;
/// Long enough that reading the clock is nothing, short enough that many rounds dodge a busy
/// neighbour.
const ROUND: Duration = Duration::from_millis(2);
/// Rounds of a case that takes milliseconds by itself.
const LONG_ROUNDS: usize = 21;

/// Runs cases and collects their rows.
pub(crate) struct BenchHarness {
    words: Vec<String>,
    rows: Vec<BenchRow>,
}

impl BenchHarness {
    /// Only cases whose name holds every word are run.
    pub(crate) fn new(words: Vec<String>) -> BenchHarness {
        BenchHarness { words, rows: Vec::new() }
    }

    pub(crate) fn rows(&self) -> &[BenchRow] {
        &self.rows
    }

    pub(crate) fn wants_case(&self, case: &str) -> bool {
        self.words.iter().all(|w| case.contains(w.as_str()))
    }

    /// A case of nanoseconds to microseconds: each round repeats it for [`ROUND`].
    ///
    /// `f` gets the number of the call, so that it can vary its input; what it returns counts as
    /// used.
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

    /// A case of milliseconds: one call a round, after two that do not count.
    pub(crate) fn bench_long<T>(&mut self, case: &str, goal: SpeedGoal, mut f: impl FnMut() -> T) {
        if !self.wants_case(case) {
            return;
        }
        let mut samples = Vec::with_capacity(LONG_ROUNDS);
        for round in 0..LONG_ROUNDS + 2 {
            let start = Instant::now();
            let made = black_box(f());
            let took = as_nanoseconds(start.elapsed());
            // Behind the clock, as freeing memory is not part of the work.
            drop(made);
            if round >= 2 {
                samples.push(took);
            }
        }
        self.add_row(case, goal, Ok(BenchTimes::from_samples(samples)));
    }

    /// A case that times itself: nanoseconds of one unit of work, one sample a round.
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

/// How many calls fill a round; finding out is the warm-up.
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

/// A count as a divisor.
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
