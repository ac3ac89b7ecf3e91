//! The passes in the order they run. Each takes what the one before it made and returns the next value;
//! [`PASSES`](crate::PASSES) says what each of them decides.

use crate::choose::{FastestLayoutSearch, LayoutAssignment, choose_layouts};
use crate::decisions::{CompileDecisions, DecidedLayouts};
use crate::decompose::decompose_graph;
use crate::divide::{AnsweredSteps, distribute_work, reduce_step_spans};
use crate::error::{CompileError, Result};
use crate::fold::fold_graph;
use crate::lower::lower_graph;
use crate::options::{CompilePolicy, CompilerOptions};
use crate::passes::{CompilerPass, PASSES, text};
use crate::placement::{check_placement, missed_time};
use crate::pool::place_in_pool;
use crate::program::CompiledProgram;
use crate::propagate::{GraphCandidates, propagate_layouts};
use crate::schedule::{run_time, schedule_steps};
use crate::scratchpads::{ResidentProgram, place_in_scratchpads};
use crate::split_views::split_merged_views;
use crate::waves::assign_waves;
use std::rc::Rc;
use zellige_graph::{Graph, TensorOrigin, text::print_graph};
use zellige_machine::{Key, SimulatedTime};

/// Compiles a graph.
///
/// # Errors
/// Operations that cannot run with any layouts, hints that cannot hold, tensors over the span limit or
/// the card's memory, tensors placed where they cannot be; with `strict`, what the existing compiler refuses.
pub fn compile_graph(graph: &Graph, options: &CompilerOptions) -> Result<CompiledProgram> {
    let split = expect_program(run_passes(
        graph,
        options,
        None,
        None,
        MergedViews::Split,
        ReplayPolicy::Ignored,
    ))?;
    if split.decisions.merged_views() == MergedViews::Kept {
        return Ok(split);
    }
    // What splitting saves in one place may cost a copy in another.
    match expect_program(run_passes(
        graph,
        options,
        None,
        None,
        MergedViews::Kept,
        ReplayPolicy::Ignored,
    )) {
        Ok(kept) if kept.latency() < split.latency() => Ok(kept),
        _ => Ok(split),
    }
}

/// Compiles a graph with what was decided for it before, or for one of other sizes; see [`CompileDecisions`].
///
/// # Errors
/// As [`compile_graph`].
pub fn compile_again(
    graph: &Graph,
    options: &CompilerOptions,
    decisions: &CompileDecisions,
) -> Result<CompiledProgram> {
    let passes = |replays| {
        expect_program(run_passes(
            graph,
            options,
            Some(decisions),
            None,
            decisions.merged_views(),
            replays,
        ))
    };
    // A recorded layout that kernels accept may still be one that later passes have no room for, and so may the recorded
    // layout of a weight: then nothing of the record is used, and an error is one of the graph itself.
    passes(ReplayPolicy::Allowed)
        .or_else(|_| passes(ReplayPolicy::Ignored))
        .or_else(|_| compile_graph(graph, options))
}

/// What a pass of [`PASSES`](crate::PASSES) makes of a graph, as text that can be compared. Later passes
/// do not run.
///
/// # Errors
/// As [`compile_graph`], and a name that no pass has.
pub fn print_pass(graph: &Graph, options: &CompilerOptions, pass: &str) -> Result<String> {
    let Some(pass) = CompilerPass::find_named(pass) else {
        let known = PASSES.iter().flat_map(|p| [p.name].into_iter().chain(p.also.iter().copied()));
        let known = known.collect::<Vec<_>>().join(", ");
        return Err(CompileError::bad_problem(format!(
            "there is no pass `{pass}`; there are {known}"
        )));
    };
    match run_passes(
        graph,
        options,
        None,
        Some(pass.name),
        MergedViews::Split,
        ReplayPolicy::Ignored,
    ) {
        Err(PassInterruption::Printed(text)) => Ok(text),
        Err(PassInterruption::Refused(e)) => Err(e),
        Ok(_) => {
            Err(CompileError::bad_problem(format!("the pass `{}` printed nothing", pass.name)))
        }
    }
}

fn run_passes(
    graph: &Graph,
    options: &CompilerOptions,
    like: Option<&CompileDecisions>,
    until: Option<&str>,
    views: MergedViews,
    replays: ReplayPolicy,
) -> Result<CompiledProgram, PassInterruption> {
    options.check_ranges()?;
    let chain = PassChain { until };
    let graph =
        chain.finish_pass("read", refuse_oversized_tensor(graph, options), |g| print_graph(g))?;
    let graph = match options.decomposes_ops() {
        true => decompose_graph(graph, options.storage).map(|made| made.graph),
        false => Ok(graph.clone()),
    };
    let graph = chain.finish_pass("decompose", graph, print_graph)?;
    let folded = fold_graph(&graph)?;
    let split = match (options.policy, views) {
        (CompilePolicy::Best, MergedViews::Split) => split_merged_views(&folded)?,
        // The existing compiler copies what it cannot step along.
        _ => None,
    };
    let views = if split.is_some() { MergedViews::Split } else { MergedViews::Kept };
    let folded = split.map_or(Ok(folded), |g| fold_graph(&g));
    let graph = Rc::new(chain.finish_pass("fold", folded, print_graph)?);
    let mut answered = AnsweredSteps::default();
    let replayed =
        if replays == ReplayPolicy::Allowed { replay_layouts(&graph, options, like) } else { None };
    let ChosenLayouts { assignment, decision, program } = match replayed {
        Some(layouts) => layouts,
        None => {
            let found = propagate_layouts(&graph, options);
            let text = |c: &GraphCandidates| text::print_candidates(&graph, options, c);
            let candidates = chain.finish_pass("propagate", found, text)?;
            choose_policy_layouts(&graph, options, &candidates, &mut answered, like)?
        }
    };
    let chosen = Ok(assignment);
    let assignment =
        chain.finish_pass("choose", chosen, |a| text::print_assignment(&graph, options, a))?;
    let resident = match program {
        // The search for layouts has compiled it already.
        Some(mut resident) if until.is_none() => {
            resident.waved.divided.lowered.assignment = assignment;
            resident
        }
        _ => {
            let lowered = lower_graph(graph, options, assignment, &mut answered);
            let lowered = chain.finish_pass("lower", lowered, text::print_lowered)?;
            let found = reduce_step_spans(lowered, like, &mut answered);
            let divisions = chain.finish_pass("span_reduction", found, text::print_divisions)?;
            let chosen = distribute_work(divisions, like);
            let divided = chain.finish_pass("work_distribution", chosen, text::print_divided)?;
            let waved = chain.finish_pass("waves", Ok(assign_waves(divided)), text::print_waves)?;
            chain.finish_pass("scratchpads", place_in_scratchpads(waved), text::print_residents)?
        }
    };
    let addressed = chain.finish_pass("pool", place_in_pool(resident), text::print_addresses)?;
    let mut program = schedule_steps(addressed);
    check_placement(&program)?;
    program.decisions.set_merged_views(views);
    program.decisions.set_layouts(decision);
    chain.finish_pass("schedule", Ok(program), text::print_schedule)
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
    assignment: LayoutAssignment,
    /// What another compilation needs to choose the same.
    decision: Option<DecidedLayouts>,
    /// The program, where the search compiled it.
    program: Option<ResidentProgram>,
}

/// Whether recorded alternatives take the place of a list of all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReplayPolicy {
    Allowed,
    Ignored,
}

/// The layouts that were decided before, where every kernel still accepts them.
fn replay_layouts(
    graph: &Graph,
    options: &CompilerOptions,
    like: Option<&CompileDecisions>,
) -> Option<ChosenLayouts> {
    let before = like?.layouts().filter(|_| options.policy == CompilePolicy::Best)?;
    let assignment = before.replay_assignment(graph, options)?;
    Some(ChosenLayouts { assignment, decision: Some(before.clone()), program: None })
}

/// The layouts of the policy: under `best` those of the fastest program, or those that were decided before.
fn choose_policy_layouts(
    graph: &Rc<Graph>,
    options: &CompilerOptions,
    candidates: &GraphCandidates,
    answered: &mut AnsweredSteps,
    like: Option<&CompileDecisions>,
) -> Result<ChosenLayouts> {
    let by_sum = || -> Result<ChosenLayouts> {
        let assignment = choose_layouts(graph, options, candidates)?;
        Ok(ChosenLayouts { assignment, decision: None, program: None })
    };
    if options.policy == CompilePolicy::Baseline {
        return by_sum();
    }
    let mut program = |assignment: &LayoutAssignment| -> Result<(SimulatedTime, ResidentProgram)> {
        let lowered = lower_graph(graph.clone(), options, assignment.clone(), answered)?;
        let divided = distribute_work(reduce_step_spans(lowered, None, answered)?, None)?;
        let resident = place_in_scratchpads(assign_waves(divided))?;
        Ok((run_time(&resident) + missed_time(&resident), resident))
    };
    let mut search = FastestLayoutSearch { graph, options, candidates, program: &mut program };
    match like {
        Some(like) => match like.layouts() {
            Some(before) => {
                let (assignment, decision) = search.replay_decision(before)?;
                Ok(ChosenLayouts { assignment, decision, program: None })
            }
            None => by_sum(),
        },
        None => {
            let (assignment, program) = search.find_fastest()?;
            let decision = search.record_decision(&assignment);
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
    fn finish_pass<T>(
        &self,
        pass: &str,
        made: Result<T>,
        text: impl FnOnce(&T) -> String,
    ) -> Result<T, PassInterruption> {
        let made = made?;
        match self.until {
            Some(until) if until == pass => Err(PassInterruption::Printed(text(&made))),
            _ => Ok(made),
        }
    }
}

/// Why the passes ended before there was a program.
enum PassInterruption {
    Refused(CompileError),
    Printed(String),
}

impl From<CompileError> for PassInterruption {
    fn from(e: CompileError) -> PassInterruption {
        PassInterruption::Refused(e)
    }
}

/// The program of passes that ran to the end.
fn expect_program(ended: Result<CompiledProgram, PassInterruption>) -> Result<CompiledProgram> {
    ended.map_err(|ended| match ended {
        PassInterruption::Refused(e) => e,
        PassInterruption::Printed(_) => unreachable!("no pass was to be printed"),
    })
}

/// Refuses a tensor with more elements than a segment of device memory has bytes. No plan can place it,
/// and every count of work on smaller ones fits in 64 bits or is refused where it is made.
fn refuse_oversized_tensor<'g>(graph: &'g Graph, options: &CompilerOptions) -> Result<&'g Graph> {
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
