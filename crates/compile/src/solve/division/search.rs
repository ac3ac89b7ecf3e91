//! The division with the lowest predicted latency.
//!
//! **Idea.** All splits are enumerated, one dimension after the other, as long as their product is at most the
//! number of cores. Before the latency of a division is computed from what every core does, two lower bounds of it
//! are: what memory takes for everything once, and what the units take for the largest slice. A division whose
//! bound is above the best latency so far is not computed.
//!
//! **Cost.** At most [`MAX_EXAMINED_DIVISIONS`] divisions are looked at, each in time that grows with the number of
//! cores that do different work, and not with the sizes of tensors.

use super::SplitChoice;
use super::hint::FixedSplits;
use super::iteration_space::IterationSpace;
use super::span::{find_tensor_over_limit, tensor_span};
use super::work::{division_latency, memory_cycles_bound, unit_cycles_bound};
use crate::error::{CompileError, Result};
use zellige_machine::Hardware;

/// Divisions that are looked at; beyond, the search ends and the plan says so.
// The number of divisions grows with the number of loops. A count is the same on every machine, unlike a time limit,
// and so is the answer.
const MAX_EXAMINED_DIVISIONS: usize = 20_000;

/// Searches every division: any split of a dimension up to its units, even or not, of at most one
/// reduced dimension, on at most `cores` cores, with every tensor under the span limit.
///
/// **Law**: no such division has a lower latency on this hardware, up to [`MAX_EXAMINED_DIVISIONS`] of them; the
/// `first` one is among them where it is legal. Equal ones: `first`, then even splits, then fewer
/// cores, then the smaller splits in order.
pub(super) fn search_divisions(
    space: &IterationSpace,
    hardware: &Hardware,
    cores: u64,
    limit: u64,
    fixed: &FixedSplits,
    first: Option<&[u64]>,
) -> Result<SplitChoice> {
    let mut search = DivisionSearch {
        space,
        hardware,
        limit,
        fixed,
        memory: memory_cycles_bound(space, hardware),
        best: None,
        looked_at: 0,
        smallest: None,
    };
    // The baseline's division is priced first: its latency is a good bound, so that most others are left out by their
    // bounds alone, and it wins all ties.
    if let Some(first) = first {
        search.price_division(first, 0);
    }
    let mut splits = vec![1; space.dims().len()];
    search.visit_splits(0, cores, false, &mut splits);
    let DivisionSearch { best, looked_at, smallest, .. } = search;
    let Some((_, splits)) = best else {
        let (splits, tensor, bytes) = smallest.ok_or_else(|| CompileError::BadDim {
            dim: space.dims().first().map_or_else(String::new, |d| d.name.clone()),
            reason: format!("no accepted splits have a product of at most {cores}"),
        })?;
        let splits = space.format_splits(&splits);
        return Err(CompileError::Span { tensor, bytes, limit, splits });
    };
    let even = if is_even(space, &splits) { "" } else { "; slices differ by one unit" };
    let ended = if looked_at >= MAX_EXAMINED_DIVISIONS { "at least " } else { "" };
    let kept = first == Some(&splits[..]);
    Ok(SplitChoice {
        decided_by: "search",
        reason: format!(
            "search: {} of {ended}{looked_at} divisions{even}",
            if kept { "the baseline's is the fastest" } else { "the fastest" },
        ),
        cost_us: Some(division_latency(space, hardware, &splits).1),
        splits,
    })
}

/// Whether every slice of a dimension has as many units as the others.
fn is_even(space: &IterationSpace, splits: &[u64]) -> bool {
    splits.iter().enumerate().all(|(d, s)| space.unit_count(d).max(1).is_multiple_of(*s))
}

/// Cycles, then what decides between equals.
type DivisionRank = (u64, u8, bool, u64);

struct DivisionSearch<'s> {
    space: &'s IterationSpace,
    hardware: &'s Hardware,
    limit: u64,
    fixed: &'s FixedSplits,
    /// Cycles that memory takes at least, however the space is divided.
    memory: u64,
    best: Option<(DivisionRank, Vec<u64>)>,
    looked_at: usize,
    /// The division closest to the span limit, while there is none below it.
    smallest: Option<(Vec<u64>, String, u64)>,
}

impl DivisionSearch<'_> {
    fn visit_splits(&mut self, dim: usize, room: u64, summed: bool, splits: &mut Vec<u64>) {
        if self.looked_at >= MAX_EXAMINED_DIVISIONS {
            return;
        }
        if dim == splits.len() {
            let splits = splits.clone();
            self.price_division(&splits, 1);
            return;
        }
        let reduced = self.space.dims()[dim].reduced;
        // The device combines the partial sums of one loop: cores that split two of them would have to add along two
        // axes of the ring.
        let most = if reduced && summed { 1 } else { room.min(self.space.unit_count(dim).max(1)) };
        for s in 1..=most {
            if self.accepts_split(dim, s) {
                splits[dim] = s;
                self.visit_splits(dim + 1, room / s, summed || (reduced && s > 1), splits);
            }
        }
        splits[dim] = 1;
    }

    fn accepts_split(&self, dim: usize, split: u64) -> bool {
        let d = &self.space.dims()[dim];
        self.fixed.splits[dim].is_none_or(|s| s == split)
            && d.allowed.as_ref().is_none_or(|a| a.contains(&split))
            && d.granularity.is_none_or(|g| g % split == 0)
    }

    fn price_division(&mut self, splits: &[u64], class: u8) {
        zellige_guard::count_step();
        self.looked_at += 1;
        if self.best.as_ref().is_some_and(|(rank, _)| {
            // A division with the same cycles could still win a tie, but not against the one that was given first: that
            // one has the lower class.
            let least = self.memory.max(unit_cycles_bound(self.space, self.hardware, splits));
            least > rank.0 || (least == rank.0 && rank.1 < class)
        }) {
            return;
        }
        // The bounds come before the spans because they are cheaper, and because a slow division needs no check.
        if let Some((tensor, bytes)) = find_tensor_over_limit(self.space, splits, self.limit) {
            let spans =
                self.space.tensors().iter().map(|t| (tensor_span(self.space, t, splits), t));
            // The first of equals.
            let worst = spans.min_by_key(|s| std::cmp::Reverse(s.0));
            let (bytes, tensor) = worst.unwrap_or((bytes, tensor));
            // Kept for the error: where nothing fits, the message names the division that comes closest to fitting.
            if self.smallest.as_ref().is_none_or(|s| bytes < s.2) {
                self.smallest = Some((splits.to_vec(), tensor.name.clone(), bytes));
            }
            return;
        }
        let cycles = division_latency(self.space, self.hardware, splits).0;
        let cores = splits.iter().product();
        // Of equally fast divisions an even one is preferred, because its cores finish together, and then the one
        // with fewer cores, which leaves the others to another step of the wave.
        let rank = (cycles, class, !is_even(self.space, splits), cores);
        if self.best.as_ref().is_none_or(|(r, _)| rank < *r) {
            self.best = Some((rank, splits.to_vec()));
        }
    }
}
