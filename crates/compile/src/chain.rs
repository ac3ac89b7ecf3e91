//! The passes from the choice of layouts to the addresses in the scratchpads, written once.
//!
//! Two callers run them: the search for layouts, to find out how long the program with some layouts takes, and the
//! compilation, for the layouts that were chosen. If each had a chain of its own, the search could measure a program
//! that the compilation does not make.
//!
//! A caller takes part as a [`PassObserver`]: it sees what every pass made, and may end the chain there. `--pass` ends
//! it at the pass that is printed, and the search where it knows enough of the program.

use crate::choose::LayoutAssignment;
use crate::decisions::CompileDecisions;
use crate::divide::{AnsweredSteps, distribute_work, reduce_step_spans};
use crate::draft::{CandidateDraft, ProgramDraft, ResidentDraft};
use crate::error::CompileError;
use crate::lower::lower_graph;
use crate::options::CompilerOptions;
use crate::passes::PassOutput;
use crate::placement::missed_time;
use crate::program::BufferId;
use crate::schedule::run_time;
use crate::scratchpads::place_in_scratchpads;
use crate::waves::assign_waves;
use std::collections::HashSet;
use std::rc::Rc;
use zellige_graph::Graph;

/// Sees what every pass made.
pub(crate) trait PassObserver {
    /// Why the chain ended before its last pass.
    type Stop: From<CompileError>;

    /// Sees what a pass made, with what is known of single steps. An error ends the chain.
    ///
    /// # Errors
    /// Those of the observer.
    fn observe_pass(
        &mut self,
        made: PassOutput<'_>,
        answered: &mut AnsweredSteps,
    ) -> Result<(), Self::Stop>;
}

/// Whether results may be copied between the scratchpads of different divisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CopyPolicy {
    /// They stay where all readers have the same parts, or go through device memory.
    Never,
    /// Where the program then takes less time, or where the record of one has such copies.
    WhereFaster,
}

/// How often a program is divided anew because copies of it found no room in the scratchpads.
// Each round bars at least one more result; the count keeps the time of a compilation bounded.
const MAX_COPY_ROUNDS: usize = 4;

/// The results that are not copied, where a program with copies of others is faster than the one without; none where it
/// is not. Both are planned to the end: what a copy saves is only known when waves and addresses are.
fn find_faster_copies(
    candidates: &CandidateDraft,
    like: Option<&CompileDecisions>,
) -> Result<Option<HashSet<BufferId>>, CompileError> {
    let again = || ProgramDraft::new(candidates.lowered.clone(), candidates.divisions.clone());
    let plan = |barred: Option<&HashSet<BufferId>>| {
        place_in_scratchpads(assign_waves(distribute_work(again(), like, barred)?))
    };
    let mut barred = HashSet::new();
    for _ in 0..MAX_COPY_ROUNDS {
        let with = plan(Some(&barred))?;
        if !with.divisions.has_copies() {
            return Ok(None);
        }
        if with.residents.crowded.is_empty() {
            // A record says what was faster when it was made; the same graph is to become the same program.
            let recorded = like.is_some() && candidates.divisions.decided_before;
            let faster = recorded || {
                let without = plan(None)?;
                run_time(&with) + missed_time(&with) < run_time(&without) + missed_time(&without)
            };
            return Ok(faster.then_some(barred));
        }
        barred.extend(with.residents.crowded);
    }
    Ok(None)
}

/// Plans the steps of a graph in these layouts, all but their addresses in device memory and their times; with `like`,
/// as they were divided in a program like it.
///
/// # Errors
/// What a pass refuses, and where the observer ends the chain.
pub(crate) fn plan_steps<O: PassObserver>(
    graph: Rc<Graph>,
    options: &CompilerOptions,
    assignment: &LayoutAssignment,
    like: Option<&CompileDecisions>,
    answered: &mut AnsweredSteps,
    observer: &mut O,
    copies: CopyPolicy,
) -> Result<ResidentDraft, O::Stop> {
    let lowered = lower_graph(graph, options, assignment, answered)?;
    observer.observe_pass(PassOutput::Lower(&lowered), answered)?;
    let candidates = reduce_step_spans(lowered, like, answered)?;
    observer.observe_pass(PassOutput::SpanReduction(&candidates), answered)?;
    let barred = match copies {
        CopyPolicy::Never => None,
        CopyPolicy::WhereFaster => find_faster_copies(&candidates, like)?,
    };
    let divided = distribute_work(candidates, like, barred.as_ref())?;
    observer.observe_pass(PassOutput::WorkDistribution(&divided), answered)?;
    // Waves come before scratchpads, because two results may share an address where they never live in the same wave.
    let waved = assign_waves(divided);
    observer.observe_pass(PassOutput::Waves(&waved), answered)?;
    // The search ends here: addresses in device memory change no time, so that it does not compute them.
    let resident = place_in_scratchpads(waved)?;
    observer.observe_pass(PassOutput::Scratchpads(&resident), answered)?;
    Ok(resident)
}
