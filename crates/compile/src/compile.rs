//! The passes in the order they run. Each takes what the one before it made and returns the next value;
//! [`PASSES`](crate::PASSES) says what each of them decides.

use crate::choose::{Assignment, Search, SearchRecord, choose};
use crate::decisions::{DecidedLayouts, Decisions};
use crate::decompose::decompose;
use crate::divide::{span_reduction, work_distribution};
use crate::error::{CompileError, Result};
use crate::evaluate::KnownPrograms;
use crate::fold::fold;
use crate::lower::lower;
use crate::options::{Options, Policy};
use crate::passes::{PASSES, Pass, text};
use crate::placement::check_placement;
use crate::pool::pool;
use crate::program::Program;
use crate::propagate::{Candidates, propagate_known};
use crate::schedule::schedule;
use crate::scratchpads::{Resident, scratchpads};
use crate::single_pins::fastest_with_pins;
use crate::split_views::split_views;
use crate::waves::waves;
use std::rc::Rc;
use zellige_graph::{Def, Graph, text::print};
use zellige_machine::Key;

/// Compiles a graph.
///
/// # Errors
/// Operations that cannot run with any layouts, hints that cannot hold, tensors over the span limit or
/// the card's memory, tensors placed where they cannot be; with `strict`, what the existing compiler refuses.
pub fn compile(graph: &Graph, options: &Options) -> Result<Program> {
    let mut known = KnownPrograms::default();
    let program = searched(graph, options, &mut known)?;
    fastest_with_pins(graph, options, program, &mut known)
}

/// The fastest program that the search for layouts finds, with operations on merged views split or not.
///
/// # Errors
/// As [`compile`].
pub(crate) fn searched(
    graph: &Graph,
    options: &Options,
    known: &mut KnownPrograms,
) -> Result<Program> {
    let mut pass = |views| whole(passes(graph, options, LayoutSource::Search, None, views, known));
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
/// As [`compile`].
pub(crate) fn with_layouts_of(
    graph: &Graph,
    options: &Options,
    other: &Program,
    known: &mut KnownPrograms,
) -> Result<Option<Program>> {
    let views = other.decisions.merged_views();
    match passes(graph, options, LayoutSource::Program(other), None, views, known) {
        Err(Ended::NoSuchLayouts) => Ok(None),
        ended => whole(ended).map(Some),
    }
}

/// Compiles a graph with what was decided for it before, or for one of other sizes; see [`Decisions`].
///
/// # Errors
/// As [`compile`].
pub fn compile_again(graph: &Graph, options: &Options, decisions: &Decisions) -> Result<Program> {
    let views = decisions.merged_views();
    let passes = |replays| {
        let source = LayoutSource::Decisions(decisions, replays);
        whole(passes(graph, options, source, None, views, &mut KnownPrograms::default()))
    };
    // A recorded layout that kernels accept may still be one that later passes have no room for, and so may the recorded
    // layout of a weight: then nothing of the record is used, and an error is one of the graph itself.
    passes(Replays::Allowed)
        .or_else(|_| passes(Replays::Ignored))
        .or_else(|_| compile(graph, options))
}

/// The passes that run before layouts are chosen.
const BEFORE_LAYOUTS: [&str; 4] = ["read", "decompose", "fold", "propagate"];

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
    let mut known = KnownPrograms::default();
    let mut print =
        |source, views| passes(graph, options, source, Some(pass.name), views, &mut known);
    // What the program has may come from the graph with its views kept, or with a pin. A graph whose compilation is
    // refused later has passes too.
    let program = match options.policy {
        Policy::Best => compile(graph, options).ok(),
        Policy::Baseline => None,
    };
    let views = program.as_ref().map_or(MergedViews::Split, |p| p.decisions.merged_views());
    let chosen = program.as_ref().filter(|_| !BEFORE_LAYOUTS.contains(&pass.name));
    let printed = match chosen.map(|own| print(LayoutSource::Program(own), views)) {
        Some(printed) if !matches!(printed, Err(Ended::NoSuchLayouts)) => printed,
        _ => print(LayoutSource::Search, views),
    };
    match printed {
        Err(Ended::Printed(text)) => Ok(text),
        Err(Ended::Refused(e)) => Err(e),
        Ok(_) | Err(Ended::NoSuchLayouts) => {
            Err(CompileError::bad_problem(format!("the pass `{}` printed nothing", pass.name)))
        }
    }
}

fn passes(
    graph: &Graph,
    options: &Options,
    source: LayoutSource<'_>,
    until: Option<&str>,
    views: MergedViews,
    known: &mut KnownPrograms,
) -> Result<Program, Ended> {
    options.checked()?;
    let like = if let LayoutSource::Decisions(like, _) = source { Some(like) } else { None };
    let chain = PassChain { until };
    let graph = chain.after("read", bounded(graph, options), |g| print(g))?;
    let graph = match options.decomposes() {
        true => decompose(graph, options.storage).map(|made| made.graph),
        false => Ok(graph.clone()),
    };
    let graph = chain.after("decompose", graph, print)?;
    let folded = fold(&graph)?;
    let split = match (options.policy, views) {
        (Policy::Best, MergedViews::Split) => split_views(&folded)?,
        // The existing compiler copies what it cannot step along.
        _ => None,
    };
    let views = if split.is_some() { MergedViews::Split } else { MergedViews::Kept };
    let folded = split.map_or(Ok(folded), |g| fold(&g));
    let graph = Rc::new(chain.after("fold", folded, print)?);
    known.begin(&graph);
    let given = match source {
        LayoutSource::Decisions(like, Replays::Allowed) => replay(&graph, options, like),
        LayoutSource::Program(other) => {
            let layouts = layouts_of(&graph, options, other, known).ok_or(Ended::NoSuchLayouts)?;
            Some(layouts)
        }
        LayoutSource::Decisions(_, Replays::Ignored) | LayoutSource::Search => None,
    };
    let ChosenLayouts { assignment, decision, program } = match given {
        Some(layouts) => layouts,
        None => {
            let found = propagate_known(&graph, options, &mut known.asked);
            let text = |c: &Candidates| text::candidates(&graph, options, c);
            let candidates = chain.after("propagate", found, text)?;
            layouts(&graph, options, &candidates, known, like)?
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
            let lowered = lower(graph, options, assignment, &mut known.steps);
            let lowered = chain.after("lower", lowered, text::lowered)?;
            let found = span_reduction(lowered, like, &mut known.steps);
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
    if matches!(source, LayoutSource::Search | LayoutSource::Program(_)) {
        let search =
            SearchRecord { programs: known.programs(), ..program.assignment.search.clone() };
        program.set_search(search);
    }
    chain.after("schedule", Ok(program), text::scheduled)
}

/// Where the layouts of a program come from.
#[derive(Clone, Copy)]
enum LayoutSource<'a> {
    /// The search for the fastest program.
    Search,
    /// What was decided before.
    Decisions(&'a Decisions, Replays),
    /// A program of a graph that differs in pins alone.
    Program(&'a Program),
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
fn replay(graph: &Graph, options: &Options, like: &Decisions) -> Option<ChosenLayouts> {
    let before = like.layouts().filter(|_| options.policy == Policy::Best)?;
    let assignment = before.replay(graph, options)?;
    Some(ChosenLayouts { assignment, decision: Some(before.clone()), program: None })
}

/// The layouts of a program whose graph differs in pins alone, each result in the layout in which its operation writes
/// it: where that is not the pinned one, readers have copies. None where the graphs differ otherwise, or where the
/// layouts could not be found again from the program's decisions.
fn layouts_of(
    graph: &Rc<Graph>,
    options: &Options,
    other: &Program,
    known: &mut KnownPrograms,
) -> Option<ChosenLayouts> {
    if graph.without_pins() != other.graph.without_pins() {
        return None;
    }
    let mut assignment = other.assignment.clone();
    for (id, t) in graph.tensors() {
        if let (Def::Result(node, k), None) = (&t.def, &t.pin) {
            assignment.tensors[id.0] = Some(assignment.nodes[node.0].results[*k].clone());
        }
    }
    let candidates = propagate_known(graph, options, &mut known.asked).ok()?;
    let mut search = Search { graph, options, candidates: &candidates, known };
    let decision = Some(search.decision(&assignment)?);
    Some(ChosenLayouts { assignment, decision, program: None })
}

/// The layouts of the policy: under `best` those of the fastest program, or those that were decided before.
fn layouts(
    graph: &Rc<Graph>,
    options: &Options,
    candidates: &Candidates,
    known: &mut KnownPrograms,
    like: Option<&Decisions>,
) -> Result<ChosenLayouts> {
    let by_sum = || -> Result<ChosenLayouts> {
        let assignment = choose(graph, options, candidates)?;
        Ok(ChosenLayouts { assignment, decision: None, program: None })
    };
    if options.policy == Policy::Baseline {
        return by_sum();
    }
    let mut search = Search { graph, options, candidates, known };
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
    /// The program that layouts were to be taken from is of another graph.
    NoSuchLayouts,
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
        Ended::NoSuchLayouts => unreachable!("layouts were not to be taken from another program"),
    })
}

/// Refuses a tensor with more elements than a segment of device memory has bytes. No plan can place it,
/// and every count of work on smaller ones fits in 64 bits or is refused where it is made.
fn bounded<'g>(graph: &'g Graph, options: &Options) -> Result<&'g Graph> {
    let limit = options.hardware.count(Key::Segment);
    for (_, tensor) in graph.tensors().filter(|(_, t)| !matches!(t.def, Def::View { .. })) {
        let elements = tensor.size.iter().fold(1u64, |n, d| n.saturating_mul(d.unsigned_abs()));
        if elements > limit {
            let (buffer, bytes) = (tensor.name.clone(), elements);
            return Err(CompileError::PoolFull { buffer, bytes, limit, peak: bytes });
        }
    }
    Ok(graph)
}
