//! The passes in the order they run. Each takes what the one before it made and returns the next value;
//! [`PASSES`](crate::PASSES) says what each of them decides.

use crate::choose::{Assignment, Search, choose};
use crate::decisions::{DecidedLayouts, Decisions};
use crate::decompose::decompose;
use crate::divide::{AnsweredSteps, span_reduction, work_distribution};
use crate::error::{CompileError, Result};
use crate::fold::fold;
use crate::lower::lower;
use crate::options::{Options, Policy};
use crate::passes::{PASSES, Pass, text};
use crate::placement::{check_placement, missed_time};
use crate::pool::pool;
use crate::program::Program;
use crate::propagate::{Candidates, propagate};
use crate::schedule::{run_time, schedule};
use crate::scratchpads::{Resident, scratchpads};
use crate::split_views::split_views;
use crate::waves::waves;
use std::rc::Rc;
use zellige_graph::{Graph, TensorOrigin, text::print_graph};
use zellige_machine::{Key, SimulatedTime};

/// Compiles a graph.
///
/// # Errors
/// Operations that cannot run with any layouts, hints that cannot hold, tensors over the span limit or
/// the card's memory, tensors placed where they cannot be; with `strict`, what the existing compiler refuses.
pub fn compile(graph: &Graph, options: &Options) -> Result<Program> {
    let split = whole(passes(graph, options, None, None, MergedViews::Split, Replays::Ignored))?;
    if split.decisions.merged_views() == MergedViews::Kept {
        return Ok(split);
    }
    // What splitting saves in one place may cost a copy in another.
    match whole(passes(graph, options, None, None, MergedViews::Kept, Replays::Ignored)) {
        Ok(kept) if kept.latency() < split.latency() => Ok(kept),
        _ => Ok(split),
    }
}

/// Compiles a graph with what was decided for it before, or for one of other sizes; see [`Decisions`].
///
/// # Errors
/// As [`compile`].
pub fn compile_again(graph: &Graph, options: &Options, decisions: &Decisions) -> Result<Program> {
    let passes = |replays| {
        whole(passes(graph, options, Some(decisions), None, decisions.merged_views(), replays))
    };
    // A recorded layout that kernels accept may still be one that later passes have no room for, and so may the recorded
    // layout of a weight: then nothing of the record is used, and an error is one of the graph itself.
    passes(Replays::Allowed)
        .or_else(|_| passes(Replays::Ignored))
        .or_else(|_| compile(graph, options))
}

/// What a pass of [`PASSES`](crate::PASSES) makes of a graph, as text that can be compared. Later passes
/// do not run.
///
/// # Errors
/// As [`compile`], and a name that no pass has.
pub fn print_pass(graph: &Graph, options: &Options, pass: &str) -> Result<String> {
    let Some(pass) = Pass::named(pass) else {
        let known = PASSES.iter().flat_map(|p| [p.name].into_iter().chain(p.also.iter().copied()));
        let known = known.collect::<Vec<_>>().join(", ");
        return Err(CompileError::bad_problem(format!(
            "there is no pass `{pass}`; there are {known}"
        )));
    };
    match passes(graph, options, None, Some(pass.name), MergedViews::Split, Replays::Ignored) {
        Err(Ended::Printed(text)) => Ok(text),
        Err(Ended::Refused(e)) => Err(e),
        Ok(_) => {
            Err(CompileError::bad_problem(format!("the pass `{}` printed nothing", pass.name)))
        }
    }
}

fn passes(
    graph: &Graph,
    options: &Options,
    like: Option<&Decisions>,
    until: Option<&str>,
    views: MergedViews,
    replays: Replays,
) -> Result<Program, Ended> {
    options.checked()?;
    let chain = PassChain { until };
    let graph = chain.after("read", bounded(graph, options), |g| print_graph(g))?;
    let graph = match options.decomposes() {
        true => decompose(graph, options.storage).map(|made| made.graph),
        false => Ok(graph.clone()),
    };
    let graph = chain.after("decompose", graph, print_graph)?;
    let folded = fold(&graph)?;
    let split = match (options.policy, views) {
        (Policy::Best, MergedViews::Split) => split_views(&folded)?,
        // The existing compiler copies what it cannot step along.
        _ => None,
    };
    let views = if split.is_some() { MergedViews::Split } else { MergedViews::Kept };
    let folded = split.map_or(Ok(folded), |g| fold(&g));
    let graph = Rc::new(chain.after("fold", folded, print_graph)?);
    let mut answered = AnsweredSteps::default();
    let replayed = if replays == Replays::Allowed { replay(&graph, options, like) } else { None };
    let ChosenLayouts { assignment, decision, program } = match replayed {
        Some(layouts) => layouts,
        None => {
            let found = propagate(&graph, options);
            let text = |c: &Candidates| text::candidates(&graph, options, c);
            let candidates = chain.after("propagate", found, text)?;
            layouts(&graph, options, &candidates, &mut answered, like)?
        }
    };
    let chosen = Ok(assignment);
    let assignment = chain.after("choose", chosen, |a| text::assignment(&graph, options, a))?;
    let resident = match program {
        // The search for layouts has compiled it already.
        Some(mut resident) if until.is_none() => {
            resident.waved.divided.lowered.assignment = assignment;
            resident
        }
        _ => {
            let lowered = lower(graph, options, assignment, &mut answered);
            let lowered = chain.after("lower", lowered, text::lowered)?;
            let found = span_reduction(lowered, like, &mut answered);
            let divisions = chain.after("span_reduction", found, text::divisions)?;
            let chosen = work_distribution(divisions, like);
            let divided = chain.after("work_distribution", chosen, text::divided)?;
            let waved = chain.after("waves", Ok(waves(divided)), text::waved)?;
            chain.after("scratchpads", scratchpads(waved), text::resident)?
        }
    };
    let addressed = chain.after("pool", pool(resident), text::addressed)?;
    let mut program = schedule(addressed);
    check_placement(&program)?;
    program.decisions.set_merged_views(views);
    program.decisions.set_layouts(decision);
    chain.after("schedule", Ok(program), text::scheduled)
}

/// What becomes of element by element operations on merged views.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MergedViews {
    /// They are done in the dimensions behind the views.
    Split,
    /// They stay as they are, or there are none.
    Kept,
}

/// The layouts of a program, and what was found on the way.
struct ChosenLayouts {
    assignment: Assignment,
    /// What another compilation needs to choose the same.
    decision: Option<DecidedLayouts>,
    /// The program, where the search compiled it.
    program: Option<Resident>,
}

/// Whether recorded alternatives take the place of a list of all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Replays {
    Allowed,
    Ignored,
}

/// The layouts that were decided before, where every kernel still accepts them.
fn replay(graph: &Graph, options: &Options, like: Option<&Decisions>) -> Option<ChosenLayouts> {
    let before = like?.layouts().filter(|_| options.policy == Policy::Best)?;
    let assignment = before.replay(graph, options)?;
    Some(ChosenLayouts { assignment, decision: Some(before.clone()), program: None })
}

/// The layouts of the policy: under `best` those of the fastest program, or those that were decided before.
fn layouts(
    graph: &Rc<Graph>,
    options: &Options,
    candidates: &Candidates,
    answered: &mut AnsweredSteps,
    like: Option<&Decisions>,
) -> Result<ChosenLayouts> {
    let by_sum = || -> Result<ChosenLayouts> {
        let assignment = choose(graph, options, candidates)?;
        Ok(ChosenLayouts { assignment, decision: None, program: None })
    };
    if options.policy == Policy::Baseline {
        return by_sum();
    }
    let mut program = |assignment: &Assignment| -> Result<(SimulatedTime, Resident)> {
        let lowered = lower(graph.clone(), options, assignment.clone(), answered)?;
        let divided = work_distribution(span_reduction(lowered, None, answered)?, None)?;
        let resident = scratchpads(waves(divided))?;
        Ok((run_time(&resident) + missed_time(&resident), resident))
    };
    let mut search = Search { graph, options, candidates, program: &mut program };
    match like {
        Some(like) => match like.layouts() {
            Some(before) => {
                let (assignment, decision) = search.decided(before)?;
                Ok(ChosenLayouts { assignment, decision, program: None })
            }
            None => by_sum(),
        },
        None => {
            let (assignment, program) = search.fastest()?;
            let decision = search.decision(&assignment);
            Ok(ChosenLayouts { assignment, decision, program: Some(program) })
        }
    }
}

/// How far the passes run.
struct PassChain<'a> {
    /// The pass whose value is printed, and after which the rest does not run.
    until: Option<&'a str>,
}

impl PassChain<'_> {
    fn after<T>(
        &self,
        pass: &str,
        made: Result<T>,
        text: impl FnOnce(&T) -> String,
    ) -> Result<T, Ended> {
        let made = made?;
        match self.until {
            Some(until) if until == pass => Err(Ended::Printed(text(&made))),
            _ => Ok(made),
        }
    }
}

/// Why the passes ended before there was a program.
enum Ended {
    Refused(CompileError),
    Printed(String),
}

impl From<CompileError> for Ended {
    fn from(e: CompileError) -> Ended {
        Ended::Refused(e)
    }
}

/// The program of passes that ran to the end.
fn whole(ended: Result<Program, Ended>) -> Result<Program> {
    ended.map_err(|ended| match ended {
        Ended::Refused(e) => e,
        Ended::Printed(_) => unreachable!("no pass was to be printed"),
    })
}

/// Refuses a tensor with more elements than a segment of device memory has bytes. No plan can place it,
/// and every count of work on smaller ones fits in 64 bits or is refused where it is made.
fn bounded<'g>(graph: &'g Graph, options: &Options) -> Result<&'g Graph> {
    let limit = options.hardware.figure_count(Key::Segment);
    for (_, tensor) in graph.tensors().filter(|(_, t)| !matches!(t.def, TensorOrigin::View { .. }))
    {
        let elements = tensor.size.iter().fold(1u64, |n, d| n.saturating_mul(d.unsigned_abs()));
        if elements > limit {
            let (buffer, bytes) = (tensor.name.clone(), elements);
            return Err(CompileError::PoolFull { buffer, bytes, limit, peak: bytes });
        }
    }
    Ok(graph)
}
