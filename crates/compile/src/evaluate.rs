//! How long a run takes with some choice of layouts.
//!
//! **Idea.** The search for layouts, and the single pins after it, reach the same program again and again: another
//! alternative of an operation that reads the same buffers, or a pin to the layout that a tensor has anyway. A program
//! is divided and planned once; lowered programs with equal [`LoweredKey`] are the same.
//!
//! **Invariant.** Two lowered programs with equal keys differ in names alone, which no later pass looks at, so that
//! they take the same time.

use crate::bundles::{WaveKind, divide_into_bundles};
use crate::chain::{PassObserver, plan_steps};
use crate::choose::{KnownMoves, LayoutAssignment};
use crate::divide::AnsweredSteps;
use crate::draft::ResidentDraft;
use crate::error::{CompileError, Result};
use crate::lower::{LoweredProgram, MemoryClass, is_copy};
use crate::options::{CompilePolicy, CompilerOptions};
use crate::passes::PassOutput;
use crate::placement::missed_time;
use crate::program::{ElementOrigin, StepAction};
use crate::propagate::{AskedOps, OpAlternative};
use crate::schedule::run_time;
use std::collections::HashMap;
use std::rc::Rc;
use zellige_device::TensorLayout;
use zellige_graph::{Graph, RequestedMemory, TensorId, TensorOrigin};
use zellige_machine::{LaunchUnit, SimulatedTime};
use zellige_stick::StickLayout;

/// How long a run of a program takes, and the program where it was made just now.
pub(crate) type Evaluated = (SimulatedTime, Option<ResidentDraft>);

/// What is known about steps and programs of a graph, and of the same graph with other pins, under the same options.
#[derive(Default)]
pub(crate) struct KnownPrograms {
    /// What is known about single steps.
    pub(crate) steps: AnsweredSteps,
    /// What is known about the alternatives of single operations.
    pub(crate) asked: AskedOps,
    /// What is known about single moves.
    pub(crate) moves: KnownMoves,
    /// The graphs so far, without pins, and the number of the present one.
    graphs: Vec<Graph>,
    graph: usize,
    chosen: HashMap<AssignmentKey, Result<SimulatedTime>>,
    /// Lower bounds of the times of programs that were not planned because of them.
    floors: HashMap<AssignmentKey, SimulatedTime>,
    times: HashMap<LoweredKey, Result<SimulatedTime>>,
    /// Steps of all programs that were divided and planned.
    planned_steps: usize,
}

impl KnownPrograms {
    /// Sets the graph of the next programs.
    pub(crate) fn begin(&mut self, graph: &Graph) {
        // A pin changes which layouts a graph has and not what a program with given layouts takes, so that a graph
        // and the same graph with a pin share their programs.
        let plain = graph.without_pins();
        let known = self.graphs.iter().position(|g| *g == plain);
        self.graph = known.unwrap_or_else(|| {
            self.graphs.push(plain);
            self.graphs.len() - 1
        });
        // Operations of another graph have other numbers.
        self.steps.forget_graph();
    }

    /// How many different programs were divided and planned.
    pub(crate) fn programs(&self) -> usize {
        self.times.len()
    }

    /// How many steps these have in all.
    pub(crate) fn planned_steps(&self) -> usize {
        self.planned_steps
    }

    /// How long a run takes with these layouts. Where it cannot take less than `best`, a time that is no less than that
    /// and no more than it takes.
    ///
    /// # Errors
    /// What the passes after the choice of layouts refuse.
    pub(crate) fn evaluate(
        &mut self,
        graph: &Rc<Graph>,
        options: &CompilerOptions,
        assignment: &LayoutAssignment,
        best: Option<SimulatedTime>,
    ) -> Result<Evaluated> {
        let chosen = AssignmentKey::of(self.graph, graph, assignment);
        if let Some(known) = self.chosen.get(&chosen) {
            return Ok((known.clone()?, None));
        }
        // A bound that was too high for one `best` may still be below a larger one; then the program is planned after
        // all.
        if let Some(floor) =
            self.floors.get(&chosen).filter(|floor| best.is_some_and(|b| **floor >= b))
        {
            return Ok((*floor, None));
        }
        let mut lookup =
            ProgramLookup { assignment, best, times: &self.times, key: None, steps: 0 };
        let steps = &mut self.steps;
        let ended = plan_steps(graph.clone(), options, assignment, None, steps, &mut lookup);
        let (key, count) = (lookup.key, lookup.steps);
        let planned = match ended {
            Err(LookupStop::TooSlow(floor)) => {
                self.floors.insert(chosen, floor);
                return Ok((floor, None));
            }
            Err(LookupStop::Known(time)) => {
                self.chosen.insert(chosen, time.clone());
                return Ok((time?, None));
            }
            Err(LookupStop::Refused(e)) => Err(e),
            Ok(planned) => Ok(planned),
        };
        let time = planned.as_ref().map(|p| run_time(p) + missed_time(p)).map_err(Clone::clone);
        // Without a key the program was refused while it was lowered: it has no steps that another one could share.
        if let Some(key) = key {
            self.planned_steps += count;
            self.times.insert(key, time.clone());
        }
        self.chosen.insert(chosen, time.clone());
        Ok((time?, planned.ok()))
    }
}

/// Looks at a lowered program, and ends the passes where its time is known or too long to matter.
struct ProgramLookup<'a> {
    assignment: &'a LayoutAssignment,
    /// The time that a program has to stay below.
    best: Option<SimulatedTime>,
    times: &'a HashMap<LoweredKey, Result<SimulatedTime>>,
    /// What the program is, once it is lowered.
    key: Option<LoweredKey>,
    /// How many steps it has.
    steps: usize,
}

/// Why the passes ended before the program was planned.
enum LookupStop {
    Refused(CompileError),
    /// It takes no less than this, which is too much.
    TooSlow(SimulatedTime),
    /// It was planned before.
    Known(Result<SimulatedTime>),
}

impl From<CompileError> for LookupStop {
    fn from(e: CompileError) -> LookupStop {
        LookupStop::Refused(e)
    }
}

impl PassObserver for ProgramLookup<'_> {
    type Stop = LookupStop;

    fn observe_pass(
        &mut self,
        made: PassOutput<'_>,
        answered: &mut AnsweredSteps,
    ) -> Result<(), LookupStop> {
        // The passes after lowering are the expensive ones, so that this is where the search saves its time.
        let PassOutput::Lower(lowered) = made else { return Ok(()) };
        let floor = least_time(lowered, self.assignment);
        if self.best.is_some_and(|best| floor >= best) {
            return Err(LookupStop::TooSlow(floor));
        }
        let key = LoweredKey::of(lowered, answered);
        if let Some(known) = self.times.get(&key) {
            return Err(LookupStop::Known(known.clone()));
        }
        (self.key, self.steps) = (Some(key), lowered.steps.len());
        Ok(())
    }
}

/// A run of a lowered program takes no less, however its steps are divided and whatever stays in the scratchpads.
///
/// Moves and steps of the host have waves of their own, whose time is known. Of the operations, each of a chain has
/// another wave, and where they run one by one, every operation. Launches of bundles are known, too: where there are
/// bundles, the steps keep their order.
fn least_time(lowered: &LoweredProgram, assignment: &LayoutAssignment) -> SimulatedTime {
    let hardware = &lowered.options.hardware;
    let launch = hardware.step_launch_time();
    let mut alone = SimulatedTime::ZERO;
    // Per buffer and in all, the time of the operations that come one after the other.
    let mut ends: Vec<SimulatedTime> = vec![SimulatedTime::ZERO; lowered.buffers.len()];
    let (mut chain, mut sum) = (SimulatedTime::ZERO, SimulatedTime::ZERO);
    for step in lowered.steps.iter().filter(|s| !s.load) {
        let mut end =
            step.reads.iter().map(|r| ends[r.buffer.0]).max().unwrap_or(SimulatedTime::ZERO);
        match step.action {
            // The alternative knows the least cycles of its operation over all divisions and residents, so that the
            // bound holds whatever is decided later.
            StepAction::Op(node, _) => {
                let least = assignment.nodes[node.0].least;
                let time = launch + hardware.cycles_to_time(least);
                end += time;
                sum += time;
            }
            StepAction::Move { .. } | StepAction::Host(..) => {
                alone += launch + hardware.operation_latency(&step.default.work).time;
            }
        }
        chain = chain.max(end);
        step.writes.iter().for_each(|b| ends[b.0] = end);
    }
    // With concurrency, independent operations may share a wave: only those of one chain are certain to follow each
    // other.
    let steps = if lowered.options.runs_side_by_side() { chain } else { sum };
    alone + steps + bundle_launches(lowered)
}

/// What the host takes to launch the bundles of a run; nothing where it launches step by step, as launches are a part of
/// the steps there.
fn bundle_launches(lowered: &LoweredProgram) -> SimulatedTime {
    let options = &lowered.options;
    if options.hardware.launch_unit() == LaunchUnit::Wave {
        return SimulatedTime::ZERO;
    }
    let runs = lowered.steps.iter().filter(|s| !s.load);
    let kinds: Vec<WaveKind> =
        runs.map(|s| WaveKind { load: false, kind: s.action.bundle_kind() }).collect();
    divide_into_bundles(options, &kinds).into_iter().filter_map(|b| b.launch).sum()
}

/// A choice of layouts for a graph, which lowering makes the same program of.
#[derive(PartialEq, Eq, Hash)]
struct AssignmentKey {
    graph: usize,
    /// Copies that are pinned are lowered to one move.
    pinned_copies: Vec<TensorId>,
    divisions: CompilePolicy,
    shared: bool,
    nodes: Vec<OpAlternative>,
    tensors: Vec<Option<StickLayout>>,
}

impl AssignmentKey {
    fn of(number: usize, graph: &Graph, assignment: &LayoutAssignment) -> AssignmentKey {
        let pinned = graph.tensors().filter(|(_, t)| t.pin.is_some());
        let copies = pinned.filter(|(_, t)| match t.def {
            TensorOrigin::Result(node, _) => is_copy(graph.node(node)),
            _ => false,
        });
        AssignmentKey {
            graph: number,
            pinned_copies: copies.map(|(id, _)| id).collect(),
            divisions: assignment.divisions,
            shared: assignment.shared,
            nodes: assignment.nodes.clone(),
            tensors: assignment.tensors.clone(),
        }
    }
}

/// All of a lowered program but its names.
#[derive(PartialEq, Eq, Hash)]
struct LoweredKey {
    divisions: CompilePolicy,
    buffers: Vec<BufferKey>,
    steps: Vec<StepKey>,
    outputs: Vec<(usize, TensorLayout)>,
    states: Vec<(usize, usize)>,
}

#[derive(PartialEq, Eq, Hash)]
struct BufferKey {
    laid: TensorLayout,
    origin: OriginKey,
    /// The buffer whose memory it takes.
    over: Option<usize>,
    own: bool,
    loaded: bool,
    place: Option<RequestedMemory>,
}

#[derive(PartialEq, Eq, Hash)]
enum OriginKey {
    Given,
    Result,
    Copy(usize),
}

#[derive(PartialEq, Eq, Hash)]
struct StepKey {
    /// Of an operation, whether the host does it, and its name, attributes and hints; none of a move.
    op: Option<(bool, Rc<str>)>,
    reads: Vec<(usize, TensorLayout)>,
    writes: Vec<usize>,
    load: bool,
}

impl LoweredKey {
    fn of(lowered: &LoweredProgram, steps: &mut AnsweredSteps) -> LoweredKey {
        let buffers = lowered.buffers.iter().map(|b| BufferKey {
            laid: b.laid.clone(),
            origin: match b.origin {
                ElementOrigin::Input(_) | ElementOrigin::Constant(_) => OriginKey::Given,
                ElementOrigin::Result => OriginKey::Result,
                ElementOrigin::Copy(of) => OriginKey::Copy(of.0),
            },
            over: if let MemoryClass::InPlaceOf(of) = b.memory { Some(of.0) } else { None },
            own: b.memory == MemoryClass::Own,
            loaded: b.loaded,
            // Graphs that differ in places have other programs: a placed tensor is kept at any price.
            place: lowered.graph.get(b.tensor).place,
        });
        let steps = lowered.steps.iter().map(|step| StepKey {
            op: match step.action {
                StepAction::Op(node, _) => Some((false, steps.describe_op(&lowered.graph, node))),
                StepAction::Host(node, _) => Some((true, steps.describe_op(&lowered.graph, node))),
                StepAction::Move { .. } => None,
            },
            reads: step.reads.iter().map(|r| (r.buffer.0, r.laid.clone())).collect(),
            writes: step.writes.iter().map(|b| b.0).collect(),
            load: step.load,
        });
        let outputs = lowered.outputs.iter().map(|r| (r.buffer.0, r.laid.clone()));
        LoweredKey {
            divisions: lowered.division_policy,
            buffers: buffers.collect(),
            steps: steps.collect(),
            outputs: outputs.collect(),
            states: lowered.states.iter().map(|(b, k)| (b.0, *k)).collect(),
        }
    }
}
