//! The layouts with which the whole program is fastest.
//!
//! **Idea.** The least sum of costs (`assign`) is exact, but it is a sum over operations in their default divisions.
//! What a program takes is known once its steps are divided and its scratchpads planned, and then another choice of
//! layouts may be the faster one. So the program of that choice is compiled to its end, and beside it
//!
//! - the program with the layouts of torch-spyre (mid 2026), and the one with its divisions too: the result is
//!   never slower than either;
//! - the program of the least sum over the layouts that kernels, readers, pins and the caller need, a part of the
//!   candidates;
//! - for one tensor after the other, the programs in which it is held to another layout, everything else chosen
//!   anew. The search continues from a faster one, until no change of one tensor makes it faster.
//!
//! Layouts of a tensor that are tried are its candidates. What is chosen anew beside a held one is found with small
//! tables, so that a held program may be faster than the one that was tried.
//!
//! **Cost.** At most [`MAX_COMPILED_STEPS`] steps are compiled, so large graphs are searched in part or not at all, and
//! the certificate reports it. The count does not depend on the machine: the result is the same everywhere.

use super::assign::{HeldLayouts, LayoutAssignment, LayoutProblem, assign_known};
use super::beam::choose_by_beam;
use super::move_costs::MoveCosts;
use crate::decisions::DecidedLayouts;
use crate::draft::ResidentDraft;
use crate::error::Result;
use crate::evaluate::{Evaluated, KnownPrograms};
use crate::options::{CompilePolicy, CompilerOptions, WeightLayoutRule};
use crate::propagate::{
    GraphCandidates, have_same_coordinates, propagate_asked_layouts, propagate_known,
};
use crate::single_pins::TriedPins;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::HashMap;
use std::rc::Rc;
use zellige_graph::{Graph, InputRole, TensorId, TensorOrigin};
use zellige_stick::StickLayout;

/// Steps that are compiled for the search, in all.
// The limit counts steps and not seconds, because the result must be the same on every machine.
const MAX_COMPILED_STEPS: usize = 1 << 10;

/// Tables of at most this many entries, where a tensor is held to a layout.
// The search solves this problem once for every layout of every tensor, so that its tables are 64 times smaller than
// those of the first choice. A worse sum only costs a try: the program is timed anyway.
const MAX_HELD_TABLE_ENTRIES: usize = 1 << 10;

/// What the search looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchRecord {
    /// Different programs that were planned to their end; none where layouts were chosen by the sum of costs alone.
    /// Programs whose launches and moves alone take longer than the best so far are not planned.
    pub programs: usize,
    /// Whether every change of one tensor was tried, after the last that helped.
    pub complete: bool,
    /// The graphs with one result pinned that were searched too.
    #[serde(default)]
    pub pins: TriedPins,
}

/// From which candidates layouts were chosen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CandidateSet {
    /// All of them.
    #[default]
    All,
    /// Those that kernels, readers, pins and the caller need.
    Asked,
    /// Those of torch-spyre.
    Existing,
}

/// How long a run of a program takes, and the program where it was planned just now.
type TimedProgram = Result<Evaluated>;

/// The search for the fastest program of a graph.
pub(crate) struct FastestLayoutSearch<'a> {
    pub(crate) graph: &'a Rc<Graph>,
    pub(crate) options: &'a CompilerOptions,
    pub(crate) candidates: &'a GraphCandidates,
    pub(crate) known: &'a mut KnownPrograms,
}

impl<'a> FastestLayoutSearch<'a> {
    /// The choice that was decided before, where the candidates are those of then; otherwise the least sum. With it,
    /// the decision for the next compilation.
    ///
    /// # Errors
    /// No alternative for some operation.
    pub(crate) fn replay_decision(
        &mut self,
        before: &DecidedLayouts,
    ) -> Result<(LayoutAssignment, Option<DecidedLayouts>)> {
        // A decision names alternatives by their number, which means nothing among other candidates: so the same set
        // is listed again, and the numbers are checked against the lengths of its lists.
        let again = self.candidates_from(before.set).ok().and_then(|candidates| {
            let assignment = before.restore_assignment(self.graph, &candidates)?;
            let decision =
                DecidedLayouts::from_assignment(self.graph, self.options, &candidates, &assignment);
            Some((assignment, decision))
        });
        if let Some(found) = again {
            return Ok(found);
        }
        let assignment = self.least_sum(self.candidates, self.options)?;
        let decision = self.record_decision(&assignment);
        Ok((assignment, decision))
    }

    /// What another compilation of the graph needs to choose the same.
    pub(crate) fn record_decision(&mut self, chosen: &LayoutAssignment) -> Option<DecidedLayouts> {
        let candidates = self.candidates_from(chosen.set).ok()?;
        DecidedLayouts::from_assignment(self.graph, self.options, &candidates, chosen)
    }

    /// The choice with which the program is fastest, of those that are looked at, and that program where it was planned
    /// for this search.
    ///
    /// # Errors
    /// No alternative for some operation, and what later passes refuse of every program.
    pub(crate) fn find_fastest(&mut self) -> Result<(LayoutAssignment, Option<ResidentDraft>)> {
        let first = self.least_sum(self.candidates, self.options)?;
        let mut programs = 1;
        let mut best: (TimedProgram, LayoutAssignment) =
            (self.program(&first, None), first.clone());
        // A program that is refused is slower than any that is not; of two equal ones the first stays, so that the
        // result does not depend on how many more are tried.
        let faster = |a: &TimedProgram, b: &TimedProgram| match (a, b) {
            (Ok((a, _)), Ok((b, _))) => a < b,
            (Ok(_), Err(_)) => true,
            (Err(_), _) => false,
        };
        // Moves are steps too, but how many there are is known only after lowering; operations are a count that is
        // the same for every choice.
        let steps = self.graph.nodes().count().max(1);
        let tries = MAX_COMPILED_STEPS / steps;
        // The promise is that the program is never slower than torch-spyre's. For it, both start points are compiled
        // even where there is time for nothing else; a large graph gets one of them, with torch-spyre's own divisions.
        let both = [CompilePolicy::Baseline, CompilePolicy::Best];
        let mut starts: Vec<LayoutAssignment> = both
            .into_iter()
            .take(if tries > both.len() { 2 } else { 1 })
            .filter_map(|divisions| self.assign_as_upstream(divisions).ok())
            .collect();
        if tries > both.len() {
            starts.extend(self.assign_asked_layouts());
        }
        for start in starts {
            let tried = self.program(&start, Some(&best.0));
            programs += 1;
            if faster(&tried, &best.0) {
                best = (tried, start);
            }
        }
        // Without a program that can run there is no time to beat, and every other choice would be planned to its
        // end.
        if tries <= programs || best.0.is_err() {
            return self.finish_search(best, programs, false, &first);
        }
        let mut moves = MoveCosts::new(self.options, &mut self.known.moves);
        let (graph, options, candidates) = (self.graph, self.options, self.candidates);
        let problem = LayoutProblem::new(graph, options, candidates, &mut moves, |a| a.cycles)?;
        let mut near = problem.closest_alternatives(&best.1);
        // Tensors that made the program faster stay held: without that, the next least sum would give up the gain,
        // because a sum does not see it.
        let mut held = HeldLayouts::new();
        let mut complete = false;
        while !complete && programs < tries {
            complete = true;
            for (id, _) in self.graph.tensors() {
                let Some(now) = best.1.tensors[id.0].clone() else { continue };
                for layout in self.alternative_layouts(id, &now) {
                    if programs >= tries {
                        complete = false;
                        break;
                    }
                    let mut holds = held.clone();
                    holds.insert(id.0, layout);
                    // A layout that no alternative of the producer gives together with what is held already is no
                    // program.
                    let Ok(next) = problem.solve_held_to(&holds, MAX_HELD_TABLE_ENTRIES, &near)
                    else {
                        continue;
                    };
                    let tried = self.program(&next, Some(&best.0));
                    programs += 1;
                    if faster(&tried, &best.0) {
                        near = problem.closest_alternatives(&next);
                        (best, held) = ((tried, next), holds);
                        complete = false;
                    }
                }
            }
        }
        self.finish_search(best, programs, complete, &first)
    }

    /// The best program with what is known of it.
    fn finish_search(
        &mut self,
        best: (TimedProgram, LayoutAssignment),
        programs: usize,
        complete: bool,
        first: &LayoutAssignment,
    ) -> Result<(LayoutAssignment, Option<ResidentDraft>)> {
        let (_, program) = best.0?;
        let search = SearchRecord { programs, complete, pins: TriedPins::default() };
        Ok((self.with_proved_bound(LayoutAssignment { search, ..best.1 }, first), program))
    }

    /// The candidates of a set.
    fn candidates_from(&mut self, set: CandidateSet) -> Result<Cow<'a, GraphCandidates>> {
        let asked = &mut self.known.asked;
        Ok(match set {
            CandidateSet::All => Cow::Borrowed(self.candidates),
            CandidateSet::Asked => {
                Cow::Owned(propagate_asked_layouts(self.graph, self.options, asked)?)
            }
            CandidateSet::Existing => {
                Cow::Owned(propagate_known(self.graph, &existing_rules(self.options), asked)?)
            }
        })
    }

    /// The program with these layouts, where it may be faster than `best`.
    fn program(
        &mut self,
        assignment: &LayoutAssignment,
        best: Option<&TimedProgram>,
    ) -> TimedProgram {
        let time = best.and_then(|tried| tried.as_ref().ok()).map(|(time, _)| *time);
        self.known.evaluate(self.graph, self.options, assignment, time)
    }

    fn least_sum(
        &mut self,
        candidates: &GraphCandidates,
        options: &CompilerOptions,
    ) -> Result<LayoutAssignment> {
        assign_known(self.graph, options, candidates, &mut self.known.moves)
    }

    /// The least sum over the layouts that kernels, readers, pins and the caller need, without every stick of every
    /// operand. The larger set has a smaller sum, and sometimes a slower program.
    fn assign_asked_layouts(&mut self) -> Result<LayoutAssignment> {
        let candidates = self.candidates_from(CandidateSet::Asked)?;
        let found = self.least_sum(&candidates, self.options)?;
        Ok(LayoutAssignment { set: CandidateSet::Asked, ..found })
    }

    /// The choice with what is proved about all choices of the candidates, `first` being the least of them.
    fn with_proved_bound(
        &mut self,
        best: LayoutAssignment,
        first: &LayoutAssignment,
    ) -> LayoutAssignment {
        if best.set != CandidateSet::Existing {
            let (bound, least) = (first.bound.min(best.bound), first.least);
            let least = if best.set == CandidateSet::Asked { least.min(best.least) } else { least };
            return LayoutAssignment { bound, least, ..best };
        }
        // Some candidates of torch-spyre are not among ours, so that the least sum over ours is no bound for its
        // choice: the bound is the smaller one of both sets.
        let theirs = existing_rules(self.options);
        let all =
            self.candidates_from(CandidateSet::Existing).and_then(|c| self.least_sum(&c, &theirs));
        LayoutAssignment { least: all.map_or(0, |a| a.least.min(first.least)), ..best }
    }

    /// The layouts of torch-spyre, with copies shared.
    fn assign_as_upstream(&mut self, divisions: CompilePolicy) -> Result<LayoutAssignment> {
        let theirs = existing_rules(self.options);
        let candidates = self.candidates_from(CandidateSet::Existing)?;
        let mut assignment = choose_by_beam(self.graph, &theirs, &candidates)?;
        self.load_weights_as_read(&mut assignment);
        Ok(LayoutAssignment { divisions, shared: true, set: CandidateSet::Existing, ..assignment })
    }

    /// Weights whose readers all need one layout are loaded in it, where they may be, instead of moved once loaded.
    fn load_weights_as_read(&self, assignment: &mut LayoutAssignment) {
        if self.options.weights == WeightLayoutRule::Given {
            return;
        }
        let mut wanted: HashMap<TensorId, Option<StickLayout>> = HashMap::new();
        for (id, node) in self.graph.nodes() {
            let keys = node.inputs.iter().zip(&assignment.nodes[id.0].operands);
            for (operand, key) in keys {
                let whole = key.as_ref().filter(|k| k.view.is_none()).map(|k| k.layout.clone());
                let known =
                    wanted.entry(self.graph.base_and_view(*operand).0).or_insert(whole.clone());
                if *known != whole {
                    *known = None;
                }
            }
        }
        for (id, layout) in wanted {
            let t = self.graph.get(id);
            let free = t.def == TensorOrigin::Input(InputRole::Weight) && t.pin.is_none();
            if let Some(layout) = layout.filter(|_| free) {
                assignment.tensors[id.0] = Some(layout);
            }
        }
    }

    /// Other layouts that a tensor could have: of results that are not pinned, and of weights that are free.
    fn alternative_layouts(&self, id: TensorId, now: &StickLayout) -> Vec<StickLayout> {
        let t = self.graph.get(id);
        let free = match t.def {
            TensorOrigin::Result(..) => true,
            TensorOrigin::Input(InputRole::Weight) => self.candidates.tensors[id.0].len() > 1,
            _ => false,
        };
        if !free || t.pin.is_some() {
            return Vec::new();
        }
        let candidates = self.candidates.tensors[id.0].iter();
        let mut list: Vec<StickLayout> = Vec::new();
        for layout in candidates.filter(|layout| !have_same_coordinates(layout, now)) {
            if !list.iter().any(|l| have_same_coordinates(l, layout)) {
                list.push(layout.clone());
            }
        }
        list
    }
}

/// The options under which layouts are chosen as torch-spyre does.
fn existing_rules(options: &CompilerOptions) -> CompilerOptions {
    CompilerOptions { policy: CompilePolicy::Baseline, ..options.clone() }
}

impl GraphCandidates {
    /// The candidates with one tensor held to one layout.
    #[must_use]
    pub(crate) fn with_held_tensor(
        &self,
        graph: &Graph,
        id: TensorId,
        layout: &StickLayout,
    ) -> GraphCandidates {
        let mut held = self.clone();
        match &graph.get(id).def {
            // A pinned result is moved to its pin, whatever its operation gives.
            TensorOrigin::Result(node, k) if graph.get(id).pin.is_none() => {
                let list = self.nodes[node.0].iter();
                let list = list.filter(|a| a.results[*k] == *layout).cloned().collect();
                held.nodes[node.0] = Rc::new(list);
            }
            _ => held.tensors[id.0] = vec![layout.clone()],
        }
        held
    }
}
