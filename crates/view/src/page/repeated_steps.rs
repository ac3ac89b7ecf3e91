//! Blocks of steps that repeat.
//!
//! Two steps are alike when they do the same to tensors of the same sizes in the same layouts. A block
//! is a stretch of the run that is repeated at least twice in a row; it is shown once, with its
//! number of repetitions. **Law**: every step of a run is shown itself or represented by one shown step, and
//! the two are alike.

use std::collections::HashMap;
use zellige_report::{Report, ReportedStep};

/// Steps of one block, of which the first `period` are shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RepeatedBlock {
    /// Its first step, among those of a run.
    pub(super) start: usize,
    /// Steps of one copy.
    pub(super) period: usize,
    /// Copies.
    pub(super) times: usize,
}

/// The steps of a run with repeated blocks folded.
pub(super) struct FoldedSteps {
    /// Steps of every run, by number, in order.
    pub(super) run: Vec<usize>,
    /// The blocks, in order; they do not overlap.
    pub(super) blocks: Vec<RepeatedBlock>,
    /// For every step of the run, the step that represents it, as positions in `run`.
    of: Vec<usize>,
    /// Place in `run` of every step; none for steps of loading.
    place: Vec<Option<usize>>,
}

/// Shorter blocks are not worth a frame.
const MIN_BLOCK_STEPS: usize = 3;
/// Steps that are looked at; a page of more would not be read.
const MAX_FOLDED_STEPS: usize = 20_000;

impl FoldedSteps {
    pub(super) fn fold_report(report: &Report) -> FoldedSteps {
        let run: Vec<usize> = (0..report.steps.len())
            .filter(|i| !report.steps[*i].load)
            .take(MAX_FOLDED_STEPS)
            .collect();
        let mut known: HashMap<String, usize> = HashMap::new();
        let mut signs: Vec<usize> = Vec::with_capacity(run.len());
        for i in &run {
            let next = known.len();
            signs.push(*known.entry(step_signature(report, &report.steps[*i])).or_insert(next));
        }
        // Names of models carry the layer in front of the first dot, as in `layer0.qp`.
        let layer =
            |p: usize| report.steps[run[p]].name.split_once('.').map_or("", |(head, _)| head);
        let begins: Vec<bool> = (0..run.len()).map(|p| p > 0 && layer(p) != layer(p - 1)).collect();
        let mut blocks = Vec::new();
        find_repetitions(&signs, &begins, 0, &mut blocks);
        blocks.sort_by_key(|b: &RepeatedBlock| b.start);
        let mut of: Vec<usize> = (0..run.len()).collect();
        for b in &blocks {
            for (i, stands) in of.iter_mut().enumerate().skip(b.start).take(b.period * b.times) {
                *stands = b.start + (i - b.start) % b.period;
            }
        }
        let mut place = vec![None; report.steps.len()];
        for (p, i) in run.iter().enumerate() {
            place[*i] = Some(p);
        }
        FoldedSteps { run, blocks, of, place }
    }

    /// The step that is shown for a step; none for one of loading.
    pub(super) fn stand_in(&self, step: usize) -> Option<usize> {
        let place = (*self.place.get(step)?)?;
        Some(self.run[self.of[place]])
    }

    /// How many steps a shown step represents.
    pub(super) fn repeat_count(&self, step: usize) -> usize {
        // A step of loading runs once, whatever repeats in a run.
        let Some(Some(place)) = self.place.get(step) else { return 1 };
        let within = |b: &&RepeatedBlock| (b.start..b.start + b.period * b.times).contains(place);
        self.blocks.iter().find(within).map_or(1, |b| b.times)
    }

    /// The steps that are shown, in order, each with the time of all steps that it represents.
    pub(super) fn shown_steps(&self, report: &Report) -> Vec<(usize, f64)> {
        let mut total: HashMap<usize, f64> = HashMap::new();
        let mut order = Vec::new();
        for (place, i) in self.run.iter().enumerate() {
            let stands = self.run[self.of[place]];
            *total.entry(stands).or_insert(0.0) += report.steps[*i].us;
            if self.of[place] == place {
                order.push(stands);
            }
        }
        order.into_iter().map(|i| (i, total[&i])).collect()
    }
}

/// What makes two steps alike.
fn step_signature(report: &Report, step: &ReportedStep) -> String {
    let mut text = format!("{} {} {}", step.kind, step.op, step.attributes);
    for d in &step.dims {
        text.push_str(&format!("|{}/{}", d.size, d.split));
    }
    for (what, list) in [("<", &step.reads), (">", &step.writes)] {
        for o in list {
            let order = report.tensors.get(o.buffer).map_or("", |t| t.layout.order.as_str());
            text.push_str(&format!("{what}{:?}{order}", o.size));
        }
    }
    text
}

/// The repetition in `signs` that leaves out most steps, then those before and behind it.
fn find_repetitions(
    signs: &[usize],
    begins: &[bool],
    offset: usize,
    blocks: &mut Vec<RepeatedBlock>,
) {
    let n = signs.len();
    let mut best: Option<(usize, RepeatedBlock)> = None;
    for period in MIN_BLOCK_STEPS..=n / 2 {
        let mut start = 0;
        while start + period < n {
            let alike = (start..n - period).take_while(|i| signs[*i] == signs[i + period]).count();
            let times = (alike + period) / period;
            // The most steps left out, and not the longest block: forty layers of ten steps beat two halves of the
            // model.
            let saved = period * (times - 1);
            if times > 1 && best.as_ref().is_none_or(|(most, _)| saved > *most) {
                // Of the places where it can begin, the first where names say that a layer does.
                let slack = (alike + period) % period;
                let shift = (0..=slack).find(|s| begins[start + s]).unwrap_or(0);
                best = Some((saved, RepeatedBlock { start: start + shift, period, times }));
            }
            // No repetition of this period begins inside of a stretch that was just measured, so the search of one
            // period is linear.
            start += alike + 1;
        }
    }
    let Some((_, block)) = best else { return };
    let end = block.start + block.period * block.times;
    find_repetitions(&signs[..block.start], &begins[..block.start], offset, blocks);
    find_repetitions(&signs[end..], &begins[end..], offset + end, blocks);
    blocks.push(RepeatedBlock { start: block.start + offset, ..block });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(ops: &str) -> Report {
        let step = |c: char| ReportedStep { op: c.to_string(), us: 1.0, ..ReportedStep::default() };
        Report { steps: ops.chars().map(step).collect(), ..Report::default() }
    }

    #[test]
    fn layers_are_found_and_everything_has_a_stand_in() {
        let m = report("xyabcabcabcabcz");
        let folded = FoldedSteps::fold_report(&m);
        assert_eq!(folded.blocks, [RepeatedBlock { start: 2, period: 3, times: 4 }]);
        let shown = folded.shown_steps(&m);
        assert_eq!(shown.iter().map(|s| s.0).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 14]);
        assert_eq!(shown[2].1, 4.0);
        for i in 0..m.steps.len() {
            let stands = folded.stand_in(i).expect("a step of the run");
            assert_eq!(m.steps[stands].op, m.steps[i].op);
        }
        assert_eq!((folded.repeat_count(3), folded.repeat_count(14)), (4, 1));
    }

    #[test]
    fn what_does_not_repeat_stays() {
        for ops in ["", "a", "abcdef", "aabb"] {
            let m = report(ops);
            assert!(FoldedSteps::fold_report(&m).blocks.is_empty(), "{ops}");
            assert_eq!(FoldedSteps::fold_report(&m).shown_steps(&m).len(), ops.len());
        }
    }
}
