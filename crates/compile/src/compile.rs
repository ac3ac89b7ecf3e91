//! The passes in the order they run. Each takes what the one before it made and returns the next value;
//! [`PASSES`](crate::PASSES) says what each of them decides.

use crate::choose::{FastestLayoutSearch, LayoutAssignment, SearchRecord, choose_layouts};
use crate::decisions::{CompileDecisions, DecidedLayouts};
use crate::decompose::decompose_graph;
use crate::divide::{distribute_work, reduce_step_spans};
use crate::error::{CompileError, Result};
use crate::evaluate::KnownPrograms;
use crate::fold::fold_graph;
use crate::lower::lower_graph;
use crate::options::{CompilePolicy, CompilerOptions};
use crate::passes::{CompilerPass, PASSES, text};
use crate::placement::check_placement;
use crate::pool::place_in_pool;
use crate::program::CompiledProgram;
use crate::propagate::{GraphCandidates, propagate_known};
use crate::schedule::schedule_steps;
use crate::scratchpads::{ResidentProgram, place_in_scratchpads};
use crate::single_pins::fastest_with_pins;
use crate::split_views::split_merged_views;
use crate::waves::assign_waves;
use std::rc::Rc;
use zellige_graph::{Graph, TensorOrigin, text::print_graph};
use zellige_machine::Key;

/// Compiles a graph.
///
/// # Errors
/// Operations that cannot run with any layouts, hints that cannot hold, tensors over the span limit or
/// the card's memory, tensors placed where they cannot be; with `strict`, what the existing compiler refuses.
pub fn compile_graph(graph: &Graph, options: &CompilerOptions) -> Result<CompiledProgram> {
    let mut known = KnownPrograms::default();
    let program = searched(graph, options, &mut known)?;
    fastest_with_pins(graph, options, program, &mut known)
}

/// The fastest program that the search for layouts finds, with operations on merged views split or not.
///
/// # Errors
/// As [`compile_graph`].
pub(crate) fn searched(
    graph: &Graph,
    options: &CompilerOptions,
    known: &mut KnownPrograms,
) -> Result<CompiledProgram> {
    let mut pass = |views| {
        expect_program(run_passes(graph, options, LayoutSource::Search, None, views, known))
    };
    let split = pass(MergedViews::Split)?;
    if split.decisions.merged_views() == MergedViews::Kept {
        return Ok(split);
    }
    // What splitting saves in one place may cost a copy in another.
    match pass(MergedViews::Kept) {
        Ok(kept) if kept.latency() < split.latency() => Ok(kept),
        _ => Ok(split),
    }
}

/// The program with the layouts of another one, whose graph differs in pins alone; none where there is none.
///
/// # Errors
/// As [`compile_graph`].
pub(crate) fn with_layouts_of(
    graph: &Graph,
    options: &CompilerOptions,
    other: &CompiledProgram,
    known: &mut KnownPrograms,
) -> Result<Option<CompiledProgram>> {
    let views = other.decisions.merged_views();
    match run_passes(graph, options, LayoutSource::Program(other), None, views, known) {
        Err(PassInterruption::NoSuchLayouts) => Ok(None),
        ended => expect_program(ended).map(Some),
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
    let views = decisions.merged_views();
    let passes = |replays| {
        let source = LayoutSource::Decisions(decisions, replays);
        expect_program(run_passes(
            graph,
            options,
            source,
            None,
            views,
            &mut KnownPrograms::default(),
        ))
    };
    // A recorded layout that kernels accept may still be one that later passes have no room for, and so may the recorded
    // layout of a weight: then nothing of the record is used, and an error is one of the graph itself.
    passes(ReplayPolicy::Allowed)
        .or_else(|_| passes(ReplayPolicy::Ignored))
        .or_else(|_| compile_graph(graph, options))
}

/// The passes that run before layouts are chosen.
const BEFORE_LAYOUTS: [&str; 4] = ["read", "decompose", "fold", "propagate"];

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
    let mut known = KnownPrograms::default();
    let mut print =
        |source, views| run_passes(graph, options, source, Some(pass.name), views, &mut known);
    // What the program has may come from the graph with its views kept, or with a pin. A graph whose compilation is
    // refused later has passes too.
    let program = match options.policy {
        CompilePolicy::Best => compile_graph(graph, options).ok(),
        CompilePolicy::Baseline => None,
    };
    let views = program.as_ref().map_or(MergedViews::Split, |p| p.decisions.merged_views());
    let chosen = program.as_ref().filter(|_| !BEFORE_LAYOUTS.contains(&pass.name));
    let printed = match chosen.map(|own| print(LayoutSource::Program(own), views)) {
        Some(printed) if !matches!(printed, Err(PassInterruption::NoSuchLayouts)) => printed,
        _ => print(LayoutSource::Search, views),
    };
    match printed {
        Err(PassInterruption::Printed(text)) => Ok(text),
        Err(PassInterruption::Refused(e)) => Err(e),
        Ok(_) | Err(PassInterruption::NoSuchLayouts) => {
            Err(CompileError::bad_problem(format!("the pass `{}` printed nothing", pass.name)))
        }
    }
}

fn run_passes(
    graph: &Graph,
    options: &CompilerOptions,
    source: LayoutSource<'_>,
    until: Option<&str>,
    views: MergedViews,
    known: &mut KnownPrograms,
) -> Result<CompiledProgram, PassInterruption> {
    zellige_calls::record_call!();
    options.check_ranges()?;
    let like = if let LayoutSource::Decisions(like, _) = source { Some(like) } else { None };
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
    known.begin(&graph);
    let given = match source {
        LayoutSource::Decisions(like, ReplayPolicy::Allowed) => {
            replay_layouts(&graph, options, like)
        }
        LayoutSource::Program(other) => {
            let layouts =
                layouts_of(&graph, options, other, known).ok_or(PassInterruption::NoSuchLayouts)?;
            Some(layouts)
        }
        LayoutSource::Decisions(_, ReplayPolicy::Ignored) | LayoutSource::Search => None,
    };
    let ChosenLayouts { assignment, decision, program } = match given {
        Some(layouts) => layouts,
        None => {
            let found = propagate_known(&graph, options, &mut known.asked);
            let text = |c: &GraphCandidates| text::print_candidates(&graph, options, c);
            let candidates = chain.finish_pass("propagate", found, text)?;
            choose_policy_layouts(&graph, options, &candidates, known, like)?
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
            let lowered = lower_graph(graph, options, assignment, &mut known.steps);
            let lowered = chain.finish_pass("lower", lowered, text::print_lowered)?;
            let found = reduce_step_spans(lowered, like, &mut known.steps);
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
    if matches!(source, LayoutSource::Search | LayoutSource::Program(_)) {
        let search =
            SearchRecord { programs: known.programs(), ..program.assignment.search.clone() };
        program.set_search(search);
    }
    chain.finish_pass("schedule", Ok(program), text::print_schedule)
}

/// Where the layouts of a program come from.
#[derive(Clone, Copy)]
enum LayoutSource<'a> {
    /// The search for the fastest program.
    Search,
    /// What was decided before.
    Decisions(&'a CompileDecisions, ReplayPolicy),
    /// A program of a graph that differs in pins alone.
    Program(&'a CompiledProgram),
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
    like: &CompileDecisions,
) -> Option<ChosenLayouts> {
    let before = like.layouts().filter(|_| options.policy == CompilePolicy::Best)?;
    let assignment = before.replay_assignment(graph, options)?;
    Some(ChosenLayouts { assignment, decision: Some(before.clone()), program: None })
}

/// The layouts of a program whose graph differs in pins alone, each result in the layout in which its operation writes
/// it: where that is not the pinned one, readers have copies. None where the graphs differ otherwise, or where the
/// layouts could not be found again from the program's decisions.
fn layouts_of(
    graph: &Rc<Graph>,
    options: &CompilerOptions,
    other: &CompiledProgram,
    known: &mut KnownPrograms,
) -> Option<ChosenLayouts> {
    if graph.without_pins() != other.graph.without_pins() {
        return None;
    }
    let mut assignment = other.assignment.clone();
    for (id, t) in graph.tensors() {
        if let (TensorOrigin::Result(node, k), None) = (&t.def, &t.pin) {
            assignment.tensors[id.0] = Some(assignment.nodes[node.0].results[*k].clone());
        }
    }
    let candidates = propagate_known(graph, options, &mut known.asked).ok()?;
    let mut search = FastestLayoutSearch { graph, options, candidates: &candidates, known };
    let decision = Some(search.record_decision(&assignment)?);
    Some(ChosenLayouts { assignment, decision, program: None })
}

/// The layouts of the policy: under `best` those of the fastest program, or those that were decided before.
fn choose_policy_layouts(
    graph: &Rc<Graph>,
    options: &CompilerOptions,
    candidates: &GraphCandidates,
    known: &mut KnownPrograms,
    like: Option<&CompileDecisions>,
) -> Result<ChosenLayouts> {
    let by_sum = || -> Result<ChosenLayouts> {
        let assignment = choose_layouts(graph, options, candidates)?;
        Ok(ChosenLayouts { assignment, decision: None, program: None })
    };
    if options.policy == CompilePolicy::Baseline {
        return by_sum();
    }
    let mut search = FastestLayoutSearch { graph, options, candidates, known };
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
            Ok(ChosenLayouts { assignment, decision, program })
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
    /// The program that layouts were to be taken from is of another graph.
    NoSuchLayouts,
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
        PassInterruption::NoSuchLayouts => {
            unreachable!("layouts were not to be taken from another program")
        }
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
