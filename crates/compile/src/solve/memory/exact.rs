//! The fewest spilled bytes, by branch and bound.
//!
//! **Idea.** Which buffers are spilled is decided one by one, the largest of the most crowded operation first; a set
//! that is crowded nowhere is packed (`pack`). **Invariant.** `bound` never exceeds what the buffers that are kept
//! force out, so a set is left out only when it cannot beat the best plan. **Cost.** Exponential at worst and
//! therefore counted: where the counts run out, the plan is the best found, and its bound says how far it may be
//! from the least.

use super::bound::{
    disjoint_spill_bound, find_most_crowded, members_spill_bound, split_at_idle_times,
};
use super::fit::{self, GapPolicy};
use super::pack::{PackAnswer, pack_members};
use super::request::MemoryRequest;
use super::{MemoryPlan, greedy};

/// Sets of buffers looked at, and steps of packing them, for each stretch of time at most; fewer where
/// there are so many buffers that each takes long.
const MAX_EXAMINED_SETS: u64 = 20_000;
const MAX_PACKING_STEPS: u64 = 200_000;
// A step compares all pairs of buffers, so that the limit on pairs keeps the time of a large program near that of a
// small one. Counts and no clock: the plan must be the same on every machine.
const MAX_COMPARED_PAIRS: u64 = 100_000_000;

/// Stretches of time that no buffer crosses are planned one by one. Each begins with the best of the
/// simple policies and decides buffer by buffer what is spilled; a set that cannot spill fewer
/// bytes than the best plan is not looked at.
///
/// **Law**: the answer spills no more than the simple policies; where the search was not cut short, its
/// bound is what it spills, and no plan spills less.
pub(super) fn plan_exactly(request: &MemoryRequest) -> MemoryPlan {
    let worth = fit::order_by_worth(request);
    let lowest = fit::fit_in_gaps(request, &worth, GapPolicy::First);
    // Nothing is spilled, and no plan spills less than nothing.
    if lowest.iter().all(Option::is_some) {
        return MemoryPlan { addresses: lowest, bound: 0 };
    }
    let simple = [
        lowest,
        fit::fit_in_gaps(request, &worth, GapPolicy::Tightest),
        greedy::place_greedily(request),
    ];
    let mut plan = MemoryPlan { addresses: vec![None; request.buffers().len()], bound: 0 };
    for members in split_at_idle_times(request) {
        let spilled = |addresses: &Vec<Option<u64>>| -> u64 {
            members
                .iter()
                .filter(|b| addresses[**b].is_none())
                .map(|b| request.buffer_size(*b))
                .sum()
        };
        let first = simple.iter().min_by_key(|a| spilled(a)).expect("there are three").clone();
        // What is larger than the memory is spilled in every plan, so that it is no decision.
        let kept: Vec<usize> = members
            .iter()
            .copied()
            .filter(|b| request.buffer_size(*b) <= request.limit())
            .collect();
        let beyond: u64 = members.iter().map(|b| request.buffer_size(*b)).sum::<u64>()
            - kept.iter().map(|b| request.buffer_size(*b)).sum::<u64>();
        let squared = (members.len() as u64).pow(2).max(1);
        let mut search = SpillSearch {
            request,
            best: spilled(&first) - beyond,
            addresses: first,
            sets: (MAX_COMPARED_PAIRS / squared).clamp(1, MAX_EXAMINED_SETS),
            steps: (MAX_COMPARED_PAIRS / squared).clamp(1, MAX_PACKING_STEPS),
            complete: true,
        };
        let least = members_spill_bound(request, &members);
        // Where a simple policy already meets the bound there is nothing to search for.
        if search.best + beyond > least {
            search.decide_next_buffer(
                &mut kept.clone(),
                &mut vec![false; request.buffers().len()],
                0,
            );
        }
        plan.bound += if search.complete { search.best + beyond } else { least };
        for b in &members {
            plan.addresses[*b] = search.addresses[*b];
        }
    }
    plan
}

struct SpillSearch<'r> {
    request: &'r MemoryRequest,
    /// Bytes that the best plan spills of the members.
    best: u64,
    addresses: Vec<Option<u64>>,
    sets: u64,
    steps: u64,
    complete: bool,
}

impl SpillSearch<'_> {
    /// Looks for a better plan with the buffers of `kept`; those marked `sure` stay in it.
    fn decide_next_buffer(&mut self, kept: &mut Vec<usize>, sure: &mut Vec<bool>, spilled: u64) {
        zellige_guard::count_step();
        if self.sets == 0 {
            self.complete = false;
            return;
        }
        if spilled + disjoint_spill_bound(self.request, kept) >= self.best {
            return;
        }
        self.sets -= 1;
        // The most crowded time is where something has to go: deciding there first makes the bound bite early.
        let (past, time) = find_most_crowded(self.request, kept);
        let crowded = (past > 0).then_some(time);
        if crowded.is_none() {
            match pack_members(self.request, kept, &mut self.steps) {
                PackAnswer::Fits(addresses) => {
                    self.best = spilled;
                    self.addresses = addresses;
                    return;
                }
                // Crowded nowhere and still without addresses: the shapes do not fit into each other, and then any
                // buffer may be the one to go.
                PackAnswer::Never => {}
                PackAnswer::Unknown => self.complete = false,
            }
        }
        // Something is too much: one of the undecided buffers there goes, or all of them stay.
        let there = |b: &usize| crowded.is_none_or(|t| self.request.live_range(*b).contains(&t));
        let undecided = kept.iter().copied().filter(|b| !sure[*b]).filter(there);
        let Some(b) =
            // The largest first: with it the rest fits soonest, so that a good plan is found before the counts run
            // out. Of equals the first, for the same plan everywhere.
            undecided.max_by_key(|b| (self.request.buffer_size(*b), std::cmp::Reverse(*b)))
        else {
            return;
        };
        let at = kept.iter().position(|k| *k == b).expect("it was taken from there");
        kept.remove(at);
        self.decide_next_buffer(kept, sure, spilled + self.request.buffer_size(b));
        kept.insert(at, b);
        sure[b] = true;
        self.decide_next_buffer(kept, sure, spilled);
        sure[b] = false;
    }
}
