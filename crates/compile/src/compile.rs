//! The passes in the order they run. Each takes what the one before it made and returns the next value;
//! [`PASSES`](crate::PASSES) says what each of them decides.

use crate::chain::{CopyPolicy, PassObserver, plan_steps};
use crate::choose::{FastestLayoutSearch, LayoutAssignment, SearchRecord, choose_layouts};
use crate::decisions::{CompileDecisions, DecidedLayouts};
use crate::decompose::decompose_graph;
use crate::divide::AnsweredSteps;
use crate::draft::ResidentDraft;
use crate::error::{CompileError, Result};
use crate::evaluate::KnownPrograms;
use crate::fold::fold_graph;
use crate::options::{CompilePolicy, CompilerOptions};
use crate::passes::{CompilerPass, PASSES, PassOutput};
use crate::placement::check_placement;
use crate::pool::place_in_pool;
use crate::program::CompiledProgram;
use crate::propagate::{GraphCandidates, propagate_known};
use crate::schedule::schedule_steps;
use crate::single_pins::fastest_with_pins;
use crate::split_views::split_merged_views;
use std::rc::Rc;
use zellige_graph::{Graph, TensorOrigin};
use zellige_machine::Key;

/// Compiles a graph.
///
/// # Errors
/// Operations that cannot run with any layouts, hints that cannot hold, tensors over the span limit or
/// the card's memory, tensors placed where they cannot be; with `strict`, what torch-spyre refuses.
pub fn compile_graph(graph: &Graph, options: &CompilerOptions) -> Result<CompiledProgram> {
    let mut known = KnownPrograms::default();
    // The search and the pins share what they know: a pinned graph has mostly the same steps.
    let program = searched(graph, options, &mut known)?;
    let program = with_wanted_copies(graph, options, program, &mut known);
    fastest_with_pins(graph, options, program, &mut known)
}

/// The program with copies between scratchpads, where the options want them and it takes less time with them.
pub(crate) fn with_wanted_copies(
    graph: &Graph,
    options: &CompilerOptions,
    program: CompiledProgram,
    known: &mut KnownPrograms,
) -> CompiledProgram {
    match wanted_copies(options) {
        CopyPolicy::Never => program,
        CopyPolicy::WhereFaster => with_scratchpad_copies(graph, options, program, known),
    }
}

/// The program in the same layouts with copies between scratchpads, where it takes less time with them; otherwise the
/// program as it is.
///
/// The search for layouts does not know of the copies, so that nothing it finds is lost: whatever they change, the program
/// never takes longer than the one without them.
fn with_scratchpad_copies(
    graph: &Graph,
    options: &CompilerOptions,
    program: CompiledProgram,
    known: &mut KnownPrograms,
) -> CompiledProgram {
    let copies = CopyPolicy::WhereFaster;
    let copied = match options.policy {
        CompilePolicy::Best => with_layouts_of(graph, options, &program, known, copies),
        CompilePolicy::Baseline => {
            let print = &mut PrintedPass::none();
            let (source, views) = (LayoutSource::Search, program.decisions.merged_views());
            expect_program(run_passes(graph, options, source, views, known, print, copies))
                .map(Some)
        }
    };
    match copied {
        Ok(Some(mut copied)) if copied.latency() < program.latency() => {
            copied.set_search(program.assignment.search.clone());
            copied.proved_as(&program.assignment)
        }
        _ => program,
    }
}

fn wanted_copies(options: &CompilerOptions) -> CopyPolicy {
    if options.plans_copies() { CopyPolicy::WhereFaster } else { CopyPolicy::Never }
}

/// Copies as a record has them.
fn recorded_copies(decisions: &CompileDecisions) -> CopyPolicy {
    match decisions.copied_results().is_empty() {
        true => CopyPolicy::Never,
        false => CopyPolicy::WhereFaster,
    }
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
        let print = &mut PrintedPass::none();
        let (source, copies) = (LayoutSource::Search, CopyPolicy::Never);
        expect_program(run_passes(graph, options, source, views, known, print, copies))
    };
    let split = pass(MergedViews::Split)?;
    // Nothing was split, so that the graph with its views kept is the same graph.
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
    copies: CopyPolicy,
) -> Result<Option<CompiledProgram>> {
    let views = other.decisions.merged_views();
    let (source, print) = (LayoutSource::Program(other), &mut PrintedPass::none());
    match run_passes(graph, options, source, views, known, print, copies) {
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
    let copies = recorded_copies(decisions);
    let passes = |replays| {
        let source = LayoutSource::Decisions(decisions, replays);
        let (known, print) = (&mut KnownPrograms::default(), &mut PrintedPass::none());
        expect_program(run_passes(graph, options, source, views, known, print, copies))
    };
    // A recorded layout that kernels accept may still be one that later passes have no room for, and so may the
    // recorded layout of a weight: then nothing of the record is used, and an error is one of the graph itself.
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
    let mut known = KnownPrograms::default();
    let mut print = |source, views, copies| {
        let print = &mut PrintedPass::named(pass.name);
        run_passes(graph, options, source, views, &mut known, print, copies)
    };
    // What the program has may come from the graph with its views kept, or with a pin. A graph whose compilation is
    // refused later has passes too.
    let program = match options.policy {
        CompilePolicy::Best => compile_graph(graph, options).ok(),
        CompilePolicy::Baseline => None,
    };
    let views = program.as_ref().map_or(MergedViews::Split, |p| p.decisions.merged_views());
    // A copy was worth its time in the program; under `baseline` there is none yet to ask.
    let copies =
        program.as_ref().map_or_else(|| wanted_copies(options), |p| recorded_copies(&p.decisions));
    let before_layouts = PASSES.iter().take_while(|p| p.name != "choose").any(|p| p == pass);
    let chosen = program.as_ref().filter(|_| !before_layouts);
    let printed = match chosen.map(|own| print(LayoutSource::Program(own), views, copies)) {
        Some(printed) if !matches!(printed, Err(PassInterruption::NoSuchLayouts)) => printed,
        _ => print(LayoutSource::Search, views, copies),
    };
    match printed {
        Err(PassInterruption::Printed(text)) => Ok(text),
        Err(PassInterruption::Refused(e)) => Err(e),
        Ok(_) | Err(PassInterruption::NoSuchLayouts) => {
            Err(CompileError::bad_problem(format!("the pass `{}` printed nothing", pass.name)))
        }
    }
}

/// Runs the passes in the order of [`PASSES`](crate::PASSES).
fn run_passes(
    graph: &Graph,
    options: &CompilerOptions,
    source: LayoutSource<'_>,
    views: MergedViews,
    known: &mut KnownPrograms,
    print: &mut PrintedPass<'_>,
    copies: CopyPolicy,
) -> Result<CompiledProgram, PassInterruption> {
    zellige_calls::record_call!();
    options.check_ranges()?;
    let staged = options.with_staging_share();
    let options = staged.as_ref().unwrap_or(options);
    let like = if let LayoutSource::Decisions(like, _) = source { Some(like) } else { None };
    let graph = refuse_oversized_tensor(graph, options)?;
    print.observe_pass(PassOutput::Read(graph), &mut known.steps)?;
    let graph = match options.decomposes_ops() {
        true => decompose_graph(graph, options.storage)?.graph,
        false => graph.clone(),
    };
    print.observe_pass(PassOutput::Decompose(&graph), &mut known.steps)?;
    let graph = fold_graph(&graph)?;
    print.observe_pass(PassOutput::Fold(&graph), &mut known.steps)?;
    let split = match (options.policy, views) {
        (CompilePolicy::Best, MergedViews::Split) => split_merged_views(&graph)?,
        // torch-spyre copies what it cannot step along.
        _ => None,
    };
    let views = if split.is_some() { MergedViews::Split } else { MergedViews::Kept };
    let graph = Rc::new(split.unwrap_or(graph));
    print.observe_pass(PassOutput::SplitViews(&graph), &mut known.steps)?;
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
    let ChosenLayouts { assignment, decision, draft } = match given {
        Some(layouts) => layouts,
        None => {
            let found = propagate_known(&graph, options, &mut known.asked)?;
            let made = PassOutput::Propagate(&graph, options, &found);
            print.observe_pass(made, &mut known.steps)?;
            choose_policy_layouts(&graph, options, &found, known, like)?
        }
    };
    let made = PassOutput::Choose(&graph, options, &assignment);
    print.observe_pass(made, &mut known.steps)?;
    let draft = match draft {
        // The search for layouts has planned its steps already, by the same chain.
        Some(draft) if print.until.is_none() && copies == CopyPolicy::Never => draft,
        _ => plan_steps(graph, options, &assignment, like, &mut known.steps, print, copies)?,
    };
    let draft = place_in_pool(draft)?;
    print.observe_pass(PassOutput::Pool(&draft), &mut known.steps)?;
    let mut program = schedule_steps(draft, assignment);
    check_placement(&program)?;
    program.decisions.set_merged_views(views);
    program.decisions.set_layouts(decision);
    if matches!(source, LayoutSource::Search | LayoutSource::Program(_)) {
        let search =
            SearchRecord { programs: known.programs(), ..program.assignment.search.clone() };
        program.set_search(search);
    }
    print.observe_pass(PassOutput::Schedule(&program), &mut known.steps)?;
    Ok(program)
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
    /// The program with its steps planned, where the search did that.
    draft: Option<ResidentDraft>,
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
    Some(ChosenLayouts { assignment, decision: Some(before.clone()), draft: None })
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
    // Layouts belong to tensors by their number, which means nothing in another graph.
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
    Some(ChosenLayouts { assignment, decision, draft: None })
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
        Ok(ChosenLayouts { assignment, decision: None, draft: None })
    };
    if options.policy == CompilePolicy::Baseline {
        return by_sum();
    }
    let mut search = FastestLayoutSearch { graph, options, candidates, known };
    match like {
        Some(like) => match like.layouts() {
            Some(before) => {
                let (assignment, decision) = search.replay_decision(before)?;
                Ok(ChosenLayouts { assignment, decision, draft: None })
            }
            None => by_sum(),
        },
        None => {
            let (assignment, draft) = search.find_fastest()?;
            let decision = search.record_decision(&assignment);
            Ok(ChosenLayouts { assignment, decision, draft })
        }
    }
}

/// The pass whose value is printed, and after which the rest does not run; none runs all of them.
struct PrintedPass<'a> {
    until: Option<&'a str>,
    /// How many rows of [`PASSES`] are done.
    done: usize,
}

impl<'a> PrintedPass<'a> {
    fn none() -> PrintedPass<'a> {
        PrintedPass { until: None, done: 0 }
    }

    fn named(pass: &'a str) -> PrintedPass<'a> {
        PrintedPass { until: Some(pass), done: 0 }
    }
}

impl PassObserver for PrintedPass<'_> {
    type Stop = PassInterruption;

    fn observe_pass(
        &mut self,
        made: PassOutput<'_>,
        _: &mut AnsweredSteps,
    ) -> Result<(), PassInterruption> {
        // Passes may be left out, where layouts are given or the search has planned the steps; none runs out of order,
        // so that the list which help and documents follow is the order in which things are decided.
        let row = PASSES.iter().position(|p| p.name == made.pass_name());
        debug_assert!(row.is_some_and(|row| row >= self.done), "{} runs late", made.pass_name());
        self.done = row.map_or(self.done, |row| row + 1);
        match self.until {
            Some(until) if until == made.pass_name() => {
                Err(PassInterruption::Printed(made.print_output()))
            }
            _ => Ok(()),
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
